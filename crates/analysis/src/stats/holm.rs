//! Few comparisons of which none may be called falsely: Holm's step-down procedure (Holm 1979, "A simple
//! sequentially rejective multiple test procedure", Scand. J. Statist. 6).
//!
//! The smallest of m values of p is multiplied by m, the next by m − 1, and so on. Calling those that stay at
//! or below a level keeps the chance of any false call at that level, whatever depends on what.

use super::quantile::count;

/// Adjusted p values, in the order of `p` and never below it. A p that is not a number stays one and does not
/// count as a comparison. Costs n log n.
#[must_use]
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| !p[i].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut largest = 0.0_f64;
    for (place, &i) in order.iter().enumerate() {
        largest = largest.max(p[i] * count(order.len() - place)).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_go_down_from_the_smallest() {
        let found = adjusted(&[0.04, 0.01, f64::NAN, 0.03]);
        assert!((found[1] - 0.03).abs() < 1e-12 && (found[3] - 0.06).abs() < 1e-12);
        // 0.04 · 1 is below its predecessor's 0.06, which it takes over.
        assert!((found[0] - 0.06).abs() < 1e-12 && found[2].is_nan());
        assert_eq!(adjusted(&[]), Vec::<f64>::new());
        assert_eq!(adjusted(&[0.03]), vec![0.03]);
        assert_eq!(adjusted(&[0.7, 0.9]), vec![1.0, 1.0]);
    }

    proptest! {
        #[test]
        fn agrees_with_the_step_down_rule_at_any_level(
            p in prop::collection::vec(0.0..1.0_f64, 1..40),
            level in 0.001..0.999_f64,
        ) {
            // As the paper words it: go on while the k-th smallest is at most level / (m − k + 1).
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let stays = |(k, p): &(usize, &f64)| **p * count(sorted.len() - k) <= level;
            let rejected = sorted.iter().enumerate().take_while(stays).count();
            prop_assert_eq!(adjusted(&p).iter().filter(|p| **p <= level).count(), rejected);
        }
    }
}
