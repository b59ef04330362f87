//! Student's t interval of a mean (Student 1908), for as many units as a bootstrap cannot carry.
//!
//! Drawing three values with replacement never leaves their range, and that range misses the mean one time
//! in four; t intervals of few, roughly normal units (logs of ratios, here) keep their confidence.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::bootstrap::Interval;
use super::quantile::{count, mean};

/// Fewer units than this get a t interval, more are drawn.
pub const FEW: usize = 8;

/// Interval of the mean of `values` at `confidence` (0..1); `None` with fewer than two values.
#[must_use]
pub fn interval(values: &[f64], confidence: f64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let freedom = count(values.len()) - 1.0;
    let variance = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / freedom;
    let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + confidence / 2.0);
    let reach = quantile * (variance / count(values.len())).sqrt();
    Some(Interval { low: centre - reach, high: centre + reach })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_values_have_the_tabulated_interval() {
        // t(0.975, 2 degrees of freedom) = 4.303; s = 1, so the reach is 4.303 / sqrt 3.
        let found = interval(&[9.0, 10.0, 11.0], 0.95).unwrap();
        assert!((found.high - 10.0 - 4.302_652_7 / 3.0_f64.sqrt()).abs() < 1e-4, "{found:?}");
        assert!((found.low + found.high - 20.0).abs() < 1e-9);
        assert_eq!(interval(&[1.0], 0.95), None);
    }
}
