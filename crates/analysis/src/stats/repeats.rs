//! How many more repeats a comparison needs.
//!
//! The rule: what was measured stays as it is, and the half width of its t interval shrinks with more repeats
//! as t(n) / √n. The answer is the smallest number at which the half width is no more than the target. That
//! is a forecast from an estimate of the spread (Cochran 1977, *Sampling Techniques*, §4.7): with three
//! repeats that estimate is easily off by half, with ten hardly by a quarter.

use super::quantile::count;
use super::t_test::critical;

/// More repeats than this are not forecast: there is then another question to ask.
pub const MOST: usize = 1_000;

/// How repeats turn into degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// Pairs: n − 1.
    Pairs,
    /// Two samples of n each: 2 n − 2.
    Samples,
}

impl Design {
    fn freedom(self, n: usize) -> f64 {
        match self {
            Self::Pairs => count(n) - 1.0,
            Self::Samples => 2.0 * count(n) - 2.0,
        }
    }
}

/// Repeats beyond the `n` there are until an interval that now reaches `half_width` to either side reaches
/// `target`; 0 when it does already. `None` when more than [`MOST`] in all would be needed, or when `n` is
/// below 2 or a width is no number above 0.
#[must_use]
pub fn more(design: Design, n: usize, half_width: f64, target: f64, confidence: f64) -> Option<usize> {
    let usable = half_width.is_finite() && half_width >= 0.0 && target.is_finite() && target > 0.0;
    if n < 2 || !usable {
        return None;
    }
    let width = |n: usize| Some(critical(design.freedom(n), confidence)? / count(n).sqrt());
    let one = half_width / width(n)?;
    let enough = |n: usize| width(n).is_some_and(|width| one * width <= target * (1.0 + 1e-9));
    if enough(n) {
        return Some(0);
    }
    // Widths fall as n grows, so the smallest that is enough can be halved in on.
    let (mut too_few, mut plenty) = (n, MOST);
    if n >= MOST || !enough(MOST) {
        return None;
    }
    while plenty - too_few > 1 {
        let middle = usize::midpoint(too_few, plenty);
        if enough(middle) {
            plenty = middle;
        } else {
            too_few = middle;
        }
    }
    Some(plenty - n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn narrow_enough_needs_none() {
        assert_eq!(more(Design::Pairs, 5, 0.04, 0.05, 0.95), Some(0));
        assert_eq!(more(Design::Samples, 5, 0.05, 0.05, 0.95), Some(0));
        assert_eq!(more(Design::Pairs, 1, 0.04, 0.05, 0.95), None);
        assert_eq!(more(Design::Pairs, 5, f64::NAN, 0.05, 0.95), None);
        assert_eq!(more(Design::Pairs, 5, 10.0, 0.001, 0.95), None);
    }

    #[test]
    fn many_repeats_follow_the_square_root() {
        // t hardly changes from 200 on, so half the width needs four times as many.
        let found = more(Design::Pairs, 200, 0.2, 0.1, 0.95).unwrap();
        assert!((585..=600).contains(&found), "{found}");
    }

    proptest! {
        #[test]
        fn it_is_the_first_that_is_enough(n in 2..40_usize, half in 0.001..1.0_f64, target in 0.01..1.0_f64) {
            for design in [Design::Pairs, Design::Samples] {
                let width = |k: usize| {
                    let spread = half / (critical(design.freedom(n), 0.95).unwrap() / count(n).sqrt());
                    spread * critical(design.freedom(k), 0.95).unwrap() / count(k).sqrt()
                };
                let slow = (n..=MOST).find(|k| width(*k) <= target * (1.0 + 1e-9)).map(|k| k - n);
                prop_assert_eq!(more(design, n, half, target, 0.95), slow);
            }
        }
    }
}
