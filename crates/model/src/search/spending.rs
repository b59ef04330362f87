//! How much of the error is spent at each look, and when more runs are no longer worth while.
//!
//! The error of an option is spent over the looks by the function of Lan & DeMets (1983, Biometrika 70) that resembles O'Brien
//! & Fleming's boundaries: almost nothing early, so that the last look has almost all of it. A look tests at the level that was
//! spent since the look before, and these levels add up to the whole: whatever the correlation of the looks, the error is
//! not exceeded (Bonferroni). p values are those of Student's t (the significance-level approach of Jennison & Turnbull
//! 2000, §4.4).

use statrs::distribution::{ContinuousCDF, Normal};

/// An option is dropped when the chance to show the least gain that matters, if it had that gain, is below this.
const LEAST_POWER: f64 = 0.1;

/// Level spent when a share of the runs is done, of a whole `level`, one-sided.
pub(super) fn spent(level: f64, share: f64) -> f64 {
    if share >= 1.0 {
        return level;
    }
    if share <= 0.0 || level <= 0.0 {
        return 0.0;
    }
    (2.0 * below(-quantile(1.0 - level / 2.0) / share.sqrt())).min(level)
}

/// Whether an option can be given up: with the effect in standard errors that it has now (`z`), a share of the runs done,
/// and the least gain in standard errors that the last look will have (`aim`), the chance to pass the last look at `level` is
/// too small (conditional power; Lan, Simon & Halperin 1982).
pub(super) fn is_futile(z: f64, share: f64, aim: f64, level: f64) -> bool {
    if share >= 1.0 {
        return false;
    }
    let needed = quantile(1.0 - level) - share.sqrt() * z - aim * (1.0 - share);
    below(-needed / (1.0 - share).sqrt()) < LEAST_POWER
}

/// Of the standard normal distribution.
pub(super) fn quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// Its distribution function.
pub(super) fn below(value: f64) -> f64 {
    Normal::standard().cdf(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_rise_to_the_whole_and_leave_most_to_the_last_look() {
        let shares = [0.0, 0.25, 0.5, 0.75, 1.0];
        let levels = shares.map(|share| spent(0.05, share));
        assert!(levels.windows(2).all(|pair| pair[0] <= pair[1]) && levels[0] == 0.0 && levels[4] == 0.05);
        // 2 (1 − Φ(1.96 ÷ √0.5)) = 2 (1 − Φ(2.7718)).
        assert!((levels[2] - 0.005_575).abs() < 1e-5, "{levels:?}");
    }

    #[test]
    fn an_option_is_given_up_when_it_cannot_get_there() {
        // 0.5 done, aim 3, level 0.005: needs 2.576 − 0.707 z − 1.5 of √0.5; the limit is z = 0.24.
        assert!(is_futile(0.2, 0.5, 3.0, 0.005) && !is_futile(0.3, 0.5, 3.0, 0.005));
        assert!(!is_futile(-9.0, 1.0, 3.0, 0.005), "the last look decides by itself");
    }
}
