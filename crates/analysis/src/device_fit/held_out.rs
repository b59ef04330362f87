//! How far the fitted model is from reads that were not used for the fit.

use serde::Serialize;

use crate::stats::quantile::{count, mean, quantile};

/// The error over all reads. Relative errors are |model − measured| ÷ measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldOut {
    /// Reads.
    pub reads: usize,
    /// Mean relative error of a read.
    pub mean: f64,
    /// 90 % of the reads have an error of at most this.
    pub p90: f64,
    /// Time of all reads by the model ÷ measured, less 1.
    pub total: f64,
    /// Mean relative error between the sorted times: of the distribution, whichever read took which.
    pub distribution: f64,
}

/// What the model says of a read, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priced {
    /// In the run of all reads one after the other.
    pub taken_ns: f64,
    /// With what is not known (the angle of the platters) averaged.
    pub expected_ns: f64,
}

/// Compares times with what the model says of the same reads; `None` without reads, or unless there are as many.
#[must_use]
pub fn errors(measured_ns: &[f64], priced: &[Priced]) -> Option<HeldOut> {
    if measured_ns.len() != priced.len() || measured_ns.is_empty() {
        return None;
    }
    let relative = |measured: f64, model: f64| (model - measured).abs() / measured.max(1.0);
    let each: Vec<f64> = measured_ns
        .iter()
        .zip(priced)
        .map(|(measured, priced)| relative(*measured, priced.expected_ns))
        .collect();
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values
    };
    let (one, other) =
        (sorted(measured_ns.to_vec()), sorted(priced.iter().map(|priced| priced.taken_ns).collect()));
    let between: f64 = one.iter().zip(&other).map(|(measured, model)| relative(*measured, *model)).sum();
    let total: f64 = measured_ns.iter().sum();
    Some(HeldOut {
        reads: each.len(),
        mean: mean(&each)?,
        p90: quantile(&each, 0.9)?,
        total: other.iter().sum::<f64>() / total.max(1.0) - 1.0,
        distribution: between / count(one.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_what_was_measured() {
        let priced = |ns: f64| Priced { taken_ns: ns, expected_ns: ns };
        let found = errors(&[100.0, 200.0, 400.0], &[priced(110.0), priced(200.0), priced(300.0)]).unwrap();
        assert!((found.mean - 0.35 / 3.0).abs() < 1e-12, "{found:?}");
        assert!((found.total - (610.0 / 700.0 - 1.0)).abs() < 1e-12 && found.p90 > 0.1, "{found:?}");
        // The same times in another order: the distribution has no error, the reads have.
        let swapped = errors(&[100.0, 200.0], &[priced(200.0), priced(100.0)]).unwrap();
        assert!(swapped.distribution == 0.0 && swapped.total == 0.0 && swapped.mean == 0.75, "{swapped:?}");
        assert_eq!(errors(&[], &[]), None);
        assert_eq!(errors(&[1.0], &[]), None);
    }
}
