//! The quantile levels of a bias-corrected and accelerated interval (Efron 1987, "Better bootstrap confidence
//! intervals", J. Am. Statist. Assoc. 82; Efron & Tibshirani 1993, §14.3, eq. 14.10, 14.14 and 14.15).
//!
//! BCa moves the percentile interval's levels by two numbers: the bias, from where the estimate lies among
//! the replicates, and the acceleration, from leaving units out one at a time. Where either cannot be had
//! there is no BCa interval, and [`Degenerate`] says why.

use statrs::distribution::{ContinuousCDF, Normal};

use super::quantile::count;

/// Why there are no BCa levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Degenerate {
    /// The estimate lies below or above all replicates: its bias is infinite.
    OutsideReplicates,
    /// The statistic cannot be computed with a unit left out.
    NoJackknife,
    /// Bias and acceleration are so large that the levels meet or change places.
    Crossed,
}

impl Degenerate {
    /// The reason, as a sentence's end.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::OutsideReplicates => "the estimate lies outside its replicates",
            Self::NoJackknife => "the statistic cannot be computed with one unit left out",
            Self::Crossed => "bias and acceleration are too large",
        }
    }
}

/// Levels that replace `tail` and 1 − `tail`, of replicates in rising order. `left_out` holds the statistic
/// with each unit left out in turn.
///
/// # Errors
/// Why there are none; the percentile interval is then what is left.
pub fn levels(sorted: &[f64], estimate: f64, left_out: &[f64], tail: f64) -> Result<(f64, f64), Degenerate> {
    let normal = Normal::new(0.0, 1.0).map_err(|_| Degenerate::Crossed)?;
    let below = sorted.partition_point(|value| *value < estimate);
    let equal = sorted[below..].partition_point(|value| *value <= estimate);
    let share = (count(below) + count(equal) / 2.0) / count(sorted.len());
    if !(share > 0.0 && share < 1.0) {
        return Err(Degenerate::OutsideReplicates);
    }
    let bias = normal.inverse_cdf(share);
    let acceleration = acceleration(left_out)?;
    let level = |z: f64| {
        let shifted = bias + z;
        let scale = 1.0 - acceleration * shifted;
        (scale > 0.0).then(|| normal.cdf(bias + shifted / scale))
    };
    match (level(normal.inverse_cdf(tail)), level(normal.inverse_cdf(1.0 - tail))) {
        (Some(low), Some(high)) if low < high => Ok((low, high)),
        _ => Err(Degenerate::Crossed),
    }
}

/// One sixth of the skewness of the jackknife's influence values.
fn acceleration(left_out: &[f64]) -> Result<f64, Degenerate> {
    if left_out.is_empty() || !left_out.iter().all(|value| value.is_finite()) {
        return Err(Degenerate::NoJackknife);
    }
    let mean = left_out.iter().sum::<f64>() / count(left_out.len());
    let (mut squares, mut cubes) = (0.0, 0.0);
    for value in left_out {
        squares += (mean - value).powi(2);
        cubes += (mean - value).powi(3);
    }
    Ok(if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ladder(n: i32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn without_bias_and_skew_it_is_the_percentile_interval() {
        let (low, high) = levels(&ladder(99), 50.0, &[1.0, 2.0, 3.0], 0.025).unwrap();
        assert!((low - 0.025).abs() < 1e-9 && (high - 0.975).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn the_bias_moves_both_levels_twice_its_way() {
        // 84.13 % of the replicates lie below: bias 1, so the lower level is Φ(2 · 1 − 1.96).
        let (low, high) = levels(&ladder(10_000), 8_413.5, &[1.0, 2.0, 3.0], 0.025).unwrap();
        let normal = Normal::new(0.0, 1.0).unwrap();
        assert!((low - normal.cdf(2.0 - 1.959_964)).abs() < 1e-3, "{low}");
        assert!((high - normal.cdf(2.0 + 1.959_964)).abs() < 1e-3, "{high}");
    }

    #[test]
    fn what_cannot_be_corrected_says_why() {
        let replicates = ladder(100);
        assert_eq!(levels(&replicates, 0.0, &[1.0, 2.0], 0.025), Err(Degenerate::OutsideReplicates));
        assert_eq!(levels(&replicates, 101.0, &[1.0, 2.0], 0.025), Err(Degenerate::OutsideReplicates));
        assert_eq!(levels(&[], 1.0, &[1.0, 2.0], 0.025), Err(Degenerate::OutsideReplicates));
        assert_eq!(levels(&replicates, 50.0, &[1.0, f64::NAN], 0.025), Err(Degenerate::NoJackknife));
        assert_eq!(levels(&replicates, 50.0, &[], 0.025), Err(Degenerate::NoJackknife));
        // One of a million units carries everything: acceleration −1/6 and a bias of 2.6 cross the pole.
        let mut skewed = vec![0.0; 1_000_000];
        skewed[0] = -1e6;
        assert_eq!(levels(&ladder(400), 399.5, &skewed, 1e-5), Err(Degenerate::Crossed));
        assert!(!Degenerate::Crossed.describe().is_empty());
    }

    proptest! {
        #[test]
        fn levels_lie_between_nothing_and_everything(
            left_out in prop::collection::vec(-1e3..1e3_f64, 2..30),
            estimate in 1.0..99.0_f64,
        ) {
            if let Ok((low, high)) = levels(&ladder(99), estimate, &left_out, 0.025) {
                prop_assert!((0.0..1.0).contains(&low) && low < high && high <= 1.0);
            }
        }
    }
}
