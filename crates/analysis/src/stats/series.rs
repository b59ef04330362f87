//! The range of values that follow each other within one run.
//!
//! Neighbours in time are alike, so n of them are worth fewer than n independent ones, and from few values
//! their correlation is itself not known: an interval widened by the correlation at lag 1 held the run's own
//! mean in 82 of 100 simulated runs of six values with a correlation of 0.5, and in 46 with one of 0.9, where
//! it promised 95. It would hold nothing of another run in any case. So one run has no interval: its lowest
//! and its highest value are shown instead, and are called a range.

use super::evidence::Unit;
use super::interval::Interval;

/// The lowest and the highest of some units; `None` without any or where one is not a number.
#[must_use]
pub fn range_of(units: &[Unit]) -> Option<Interval> {
    if units.is_empty() || units.iter().any(|unit| unit.value.is_nan()) {
        return None;
    }
    let values = || units.iter().map(|unit| unit.value);
    Some(Interval {
        low: values().fold(f64::INFINITY, f64::min),
        high: values().fold(f64::NEG_INFINITY, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_lowest_and_the_highest() {
        let units = |values: &[f64]| -> Vec<Unit> {
            values.iter().map(|value| Unit { weight: 1.0, value: *value }).collect()
        };
        assert_eq!(range_of(&units(&[3.0, 1.0, 2.0])), Some(Interval { low: 1.0, high: 3.0 }));
        assert_eq!(range_of(&units(&[2.0])), Some(Interval { low: 2.0, high: 2.0 }));
        assert_eq!((range_of(&[]), range_of(&units(&[1.0, f64::NAN]))), (None, None));
    }
}
