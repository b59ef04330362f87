//! Steady state as SNIA's Solid State Storage Performance Test Specification defines it: over a window of
//! [`WINDOW`] rounds the values range over at most 20 % of their mean, and the line fitted to them by least
//! squares rises or falls by at most 10 % of it from the window's first round to its last.

use crate::quantity::as_f64;

/// Rounds of the measurement window.
pub const WINDOW: usize = 5;
/// Largest range (largest − smallest), as a share of the mean.
pub const RANGE: f64 = 0.20;
/// Largest slope excursion, as a share of the mean.
pub const SLOPE: f64 = 0.10;

/// How steady a window is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Mean of the window.
    pub mean: f64,
    /// (largest − smallest) / mean.
    pub range: f64,
    /// |fitted last − fitted first| / mean.
    pub slope: f64,
}

impl Steadiness {
    /// Whether both bounds are kept, ends included.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE && self.slope <= SLOPE
    }
}

fn count(number: usize) -> f64 {
    as_f64(u64::try_from(number).unwrap_or(u64::MAX))
}

/// Measures one window of equally spaced rounds, of any length; `None` with fewer than two or without a mean
/// above 0.
#[must_use]
pub fn measure(window: &[f64]) -> Option<Steadiness> {
    if window.len() < 2 {
        return None;
    }
    let centre = window.iter().sum::<f64>() / count(window.len());
    if !(centre.is_finite() && centre > 0.0) {
        return None;
    }
    let (low, high) = window
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let middle = (count(window.len()) - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (round, value) in window.iter().enumerate() {
        let x = count(round) - middle;
        products += x * (value - centre);
        squares += x * x;
    }
    let rise = products / squares * (count(window.len()) - 1.0);
    Some(Steadiness { mean: centre, range: (high - low) / centre, slope: rise.abs() / centre })
}

/// Index of the first round of the first steady window of [`WINDOW`] rounds; `None` when there is none.
#[must_use]
pub fn reached(rounds: &[f64]) -> Option<usize> {
    rounds.windows(WINDOW).position(|window| measure(window).is_some_and(|found| found.is_steady()))
}

/// Whether the last [`WINDOW`] of `rounds` are steady.
#[must_use]
pub fn is_reached(rounds: &[f64]) -> bool {
    let window = rounds.len().checked_sub(WINDOW).and_then(|start| rounds.get(start..));
    window.and_then(measure).is_some_and(|found| found.is_steady())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_as_specified() {
        // A straight rise of 10 % over the window: range 10 %, slope 10 %.
        let rise = [95.0, 97.5, 100.0, 102.5, 105.0];
        let found = measure(&rise).unwrap();
        assert!((found.range - 0.1).abs() < 1e-12 && (found.slope - 0.1).abs() < 1e-12, "{found:?}");
        // A zigzag within 20 % that goes nowhere is steady; one of 22 % is not.
        assert!(measure(&[90.0, 110.0, 100.0, 110.0, 90.0]).unwrap().is_steady());
        assert!(!measure(&[89.0, 111.0, 100.0, 111.0, 89.0]).unwrap().is_steady());
        // A rise of 12 % is within the range and too steep.
        let steep = measure(&[94.0, 97.0, 100.0, 103.0, 106.0]).unwrap();
        assert!(steep.range < RANGE && !steep.is_steady());
    }

    #[test]
    fn a_device_that_settles_is_found_where_it_does() {
        let rounds = [300.0, 220.0, 170.0, 130.0, 110.0, 102.0, 100.0, 99.0, 101.0, 100.0, 100.0];
        assert_eq!(reached(&rounds), Some(4));
        assert_eq!(reached(&rounds[..6]), None);
        assert!(is_reached(&rounds[..9]) && !is_reached(&rounds[..8]) && !is_reached(&rounds[..4]));
        assert_eq!(measure(&[0.0; 5]), None);
        assert_eq!(measure(&[1.0]), None);
    }

    proptest! {
        #[test]
        fn scale_does_not_matter_and_order_only_for_the_slope(
            window in prop::collection::vec(1.0..100.0_f64, 5),
            by in 0.001..1000.0_f64,
        ) {
            let plain = measure(&window).unwrap();
            let scaled = measure(&window.iter().map(|v| v * by).collect::<Vec<_>>()).unwrap();
            prop_assert!((plain.range - scaled.range).abs() < 1e-9 && (plain.slope - scaled.slope).abs() < 1e-9);
            let mut sorted = window.clone();
            sorted.sort_by(f64::total_cmp);
            let sorted = measure(&sorted).unwrap();
            prop_assert!((sorted.range - plain.range).abs() < 1e-9 && sorted.slope >= plain.slope - 1e-9);
        }
    }
}
