//! How much of the error is spent at each look, and when more runs are no longer worth while.
//!
//! The error of an option is spent over the looks by the function of Lan & DeMets (1983, Biometrika 70) that resembles O'Brien
//! & Fleming's boundaries: almost nothing early, so that the last look has almost all of it. A look tests at the level at which
//! the chance to pass it, and not the look before it, is what was spent since then: effects of two looks have the correlation
//! √(earlier ÷ later share of the runs), those of the earlier runs being part of both. (With options that clash, later runs can
//! tell more of those that are left than their share says; the levels are then up to some 2 % too large.) p values are those of
//! Student's t (the significance-level approach of Jennison & Turnbull 2000, §4.4).

use statrs::distribution::{ContinuousCDF, Normal};

use crate::quantity::{as_f64, to_u64};

/// An option is dropped when the chance to show the least gain that matters, if it had that gain, is below this.
const LEAST_POWER: f64 = 0.1;

/// Spread of a look's value beside that of the look before, in standard deviations, below which steps are not made smaller.
const LEAST_SPREAD: f64 = 0.02;

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

/// The level to test at, at the last of these looks (shares of the runs, rising), of a whole `level`, one-sided.
///
/// What is spent there is the chance to pass this look and not the one before it. That looks before that were not passed either
/// is left out, which makes the level a little smaller. A look at the same runs as the one before is that look.
pub(super) fn nominal(level: f64, looks: &[f64]) -> f64 {
    let (mut before, mut limit) = (0.0, f64::INFINITY);
    for &share in looks {
        if share <= before {
            continue;
        }
        let spends = spent(level, share) - spent(level, before);
        let correlation = (before / share).sqrt();
        // Passing this look alone costs more than is spent at the first, and at most as much as the whole.
        let (mut low, mut high) = (0.0, 12.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            let passes = below(-middle) - both_above(limit, middle, correlation);
            if passes > spends { low = middle } else { high = middle }
        }
        (before, limit) = (share, high);
    }
    below(-limit)
}

/// Chance that two standard normal values with this correlation are above their limits, by the trapezoidal rule over the first,
/// with steps that are small beside the spread that the second has then.
fn both_above(first: f64, second: f64, correlation: f64) -> f64 {
    if first > 8.0 {
        return 0.0;
    }
    let rest = (1.0 - correlation * correlation).sqrt();
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let at = |x: f64| density(x) * below((correlation * x - second) / rest);
    let steps = to_u64((4.0 * (8.0 - first) / rest.clamp(LEAST_SPREAD, 0.5)).ceil()).max(1);
    let step = (8.0 - first) / as_f64(steps);
    let inner: f64 = (1..steps).map(|n| at(first + step * as_f64(n))).sum();
    step * (inner + at(first).midpoint(at(8.0)))
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
    fn looks_test_at_the_published_levels() {
        // O'Brien & Fleming's function by Lan & DeMets, two-sided 5 %, at a half and the whole: limits 2.963 and 1.969
        // (Jennison & Turnbull 2000, table 7.3 gives 1.969 for the last).
        let [half, whole] = [&[0.5][..], &[0.5, 1.0]].map(|looks| -quantile(nominal(0.025, looks)));
        assert!((half - 2.963).abs() < 0.001 && (whole - 1.969).abs() < 0.001, "{half} {whole}");
        assert!((nominal(0.005, &[1.0]) - 0.005).abs() < 1e-9);
        // An early look takes next to nothing; one that is repeated takes nothing.
        assert!((nominal(0.005, &[0.25, 1.0]) - 0.005).abs() < 2e-6);
        assert_eq!(nominal(0.005, &[0.5, 1.0, 1.0]).to_bits(), nominal(0.005, &[0.5, 1.0]).to_bits());
    }

    #[test]
    fn all_looks_together_spend_the_level_and_no_more() {
        let mut random = super::super::random::Random::new(5);
        let mut unit = || (as_f64(random.next() >> 11) + 0.5) / 9_007_199_254_740_992.0;
        for looks in [&[0.25, 0.77, 1.0][..], &[0.5, 1.0], &[0.7, 0.97, 1.0], &[0.98, 1.0]] {
            let limits: Vec<f64> =
                (1..=looks.len()).map(|known| -quantile(nominal(0.05, &looks[..known]))).collect();
            let mut passed = 0;
            for _ in 0..100_000 {
                let (mut sum, mut before, mut passes) = (0.0, 0.0, false);
                for (share, limit) in looks.iter().zip(&limits) {
                    sum += quantile(unit()) * f64::sqrt(share - before);
                    before = *share;
                    passes |= sum / share.sqrt() >= *limit;
                }
                passed += u32::from(passes);
            }
            // Standard error 69.
            assert!((4_750..=5_210).contains(&passed), "{looks:?}: {passed} of 100,000");
        }
    }

    #[test]
    fn an_option_is_given_up_when_it_cannot_get_there() {
        // 0.5 done, aim 3, level 0.005: needs 2.576 − 0.707 z − 1.5 of √0.5; the limit is z = 0.24.
        assert!(is_futile(0.2, 0.5, 3.0, 0.005) && !is_futile(0.3, 0.5, 3.0, 0.005));
        assert!(!is_futile(-9.0, 1.0, 3.0, 0.005), "the last look decides by itself");
    }
}
