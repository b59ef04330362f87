//! Student's t tests for few values: of one sample, or of differences of pairs (Student 1908), and of two
//! samples whose variances may differ (Welch 1947, "The generalization of 'Student's' problem when several
//! different population variances are involved", Biometrika 34; degrees of freedom after Satterthwaite 1946).
//!
//! They assume roughly normal values. Times are skewed to the right and their logs are not, so comparisons of
//! times test logs.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::bootstrap::Interval;
use super::quantile::{count, mean};

/// What a t test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TTest {
    /// The mean, or the difference of means.
    pub estimate: f64,
    /// Its interval.
    pub interval: Interval,
    /// Chance of an estimate at least as far from 0 when the truth is 0, two-sided.
    pub p: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

/// Tests whether the mean of `values` is 0; `confidence` is 0..1. `None` with fewer than two values, or when
/// they are all alike: nothing is then known of their spread.
#[must_use]
pub fn one_sample(values: &[f64], confidence: f64) -> Option<TTest> {
    let (centre, of_mean) = moments(values)?;
    test(centre, of_mean, count(values.len()) - 1.0, confidence)
}

/// Tests whether the means of `a` and `b` differ; the estimate is a − b. `None` as in [`one_sample`].
#[must_use]
pub fn welch(a: &[f64], b: &[f64], confidence: f64) -> Option<TTest> {
    let ((mean_a, of_a), (mean_b, of_b)) = (moments(a)?, moments(b)?);
    let parts = of_a.powi(2) / (count(a.len()) - 1.0) + of_b.powi(2) / (count(b.len()) - 1.0);
    test(mean_a - mean_b, of_a + of_b, (of_a + of_b).powi(2) / parts, confidence)
}

/// The two-sided critical value; `None` unless `freedom` is above 0.
#[must_use]
pub fn critical(freedom: f64, confidence: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + confidence / 2.0))
}

/// Mean and its variance.
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((centre, squares / (count(values.len()) - 1.0) / count(values.len())))
}

fn test(estimate: f64, variance: f64, freedom: f64, confidence: f64) -> Option<TTest> {
    // Sums of equal numbers leave rounding errors, which are no spread.
    let deviation = variance.sqrt();
    if !estimate.is_finite() || !deviation.is_finite() || deviation <= 1e-12 * estimate.abs().max(1e-12) {
        return None;
    }
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let reach = distribution.inverse_cdf(0.5 + confidence / 2.0) * deviation;
    Some(TTest {
        estimate,
        interval: Interval { low: estimate - reach, high: estimate + reach },
        p: (2.0 * distribution.cdf(-(estimate / deviation).abs())).min(1.0),
        freedom,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tabulated_value_of_two_degrees_of_freedom() {
        let test = one_sample(&[9.0, 10.0, 11.0], 0.95).unwrap();
        assert!((test.interval.high - 10.0 - 4.302_652_7 / 3.0_f64.sqrt()).abs() < 1e-4);
        assert_eq!(test.freedom, 2.0);
        // With two degrees of freedom the distribution is elementary: F(−t) = ½ − t / (2 √(2 + t²)).
        let t = 10.0 * 3.0_f64.sqrt();
        assert!((test.p - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-9);
    }

    #[test]
    fn equal_spread_and_size_is_the_classical_test() {
        let test = welch(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).unwrap();
        assert!((test.freedom - 4.0).abs() < 1e-9);
        assert_eq!(test.estimate, -3.0);
        // With four: F(−t) = ½ − ¾ (s − s³ / 3), s = t / √(4 + t²), here t = 3 / √(2 / 3).
        let t = 3.0 / (2.0_f64 / 3.0).sqrt();
        let s = t / (4.0 + t * t).sqrt();
        assert!((test.p - 2.0 * (0.5 - 0.75 * (s - s.powi(3) / 3.0))).abs() < 1e-9, "{test:?}");
    }

    #[test]
    fn no_spread_is_no_test() {
        assert_eq!(one_sample(&[0.1; 7], 0.95), None);
        assert_eq!(one_sample(&[1.0], 0.95), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0], 0.95), None);
        assert!(welch(&[1.0, 1.0], &[2.0, 2.1], 0.95).is_some());
        assert_eq!(critical(0.0, 0.95), None);
    }

    proptest! {
        #[test]
        fn p_and_interval_agree(
            a in prop::collection::vec(-10.0..10.0_f64, 2..12),
            b in prop::collection::vec(-10.0..10.0_f64, 2..12),
        ) {
            if let Some(test) = welch(&a, &b, 0.95) && (test.p - 0.05).abs() > 1e-6 {
                prop_assert_eq!(test.p < 0.05, !test.interval.contains(0.0));
            }
        }
    }
}
