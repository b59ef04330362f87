//! Many comparisons at once: the false discovery rate (Benjamini & Hochberg 1995, "Controlling the false
//! discovery rate", J. R. Statist. Soc. B 57, §3.1).
//!
//! Of twenty rows without any difference one has p < 0.05 by chance. Rows are therefore called by their
//! adjusted p: calling those with an adjusted p of at most q keeps the expected share of false calls among
//! all calls at q or below, for rows that are independent or vary in the same direction
//! (Benjamini & Yekutieli 2001, §1.3). Where no row differs, q is the chance of calling any at all.

use super::quantile::count;

/// Adjusted p values, in the order of `p` and never below it. A p that is not a number stays one and does not
/// count as a comparison. Costs n log n.
#[must_use]
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| !p[i].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let comparisons = count(order.len());
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut smallest = 1.0_f64;
    // From the largest p downwards: min over k ≥ rank of p(k) · m / k.
    for (place, &i) in order.iter().enumerate().rev() {
        smallest = smallest.min(p[i] * comparisons / count(place + 1));
        adjusted[i] = smallest.max(p[i]).min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as the paper words it: reject the k smallest, k the largest with p(k) ≤ k q / m.
    fn rejected(p: &[f64], q: f64) -> usize {
        let mut sorted = p.to_vec();
        sorted.sort_by(f64::total_cmp);
        (1..=p.len()).rev().find(|&k| sorted[k - 1] <= count(k) * q / count(p.len())).unwrap_or(0)
    }

    #[test]
    fn the_example_of_1995_rejects_four() {
        // Benjamini & Hochberg 1995, §3.2: 15 p values of a trial of treatments after infarction.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.000,
        ];
        assert_eq!(rejected(&p, 0.05), 4);
        assert_eq!(adjusted(&p).iter().filter(|p| **p <= 0.05).count(), 4);
    }

    #[test]
    fn nothing_and_one_are_left_alone() {
        assert_eq!(adjusted(&[]), Vec::<f64>::new());
        assert_eq!(adjusted(&[0.03]), vec![0.03]);
        let with_gap = adjusted(&[0.02, f64::NAN, 0.04]);
        assert_eq!((with_gap[0], with_gap[2]), (0.04, 0.04));
        assert!(with_gap[1].is_nan());
    }

    proptest! {
        #[test]
        fn agrees_with_the_step_up_rule_at_any_level(
            p in prop::collection::vec(0.0..1.0_f64, 1..40),
            q in 0.001..0.999_f64,
        ) {
            let adjusted = adjusted(&p);
            prop_assert_eq!(adjusted.iter().filter(|p| **p <= q).count(), rejected(&p, q));
            for (raw, adjusted) in p.iter().zip(&adjusted) {
                prop_assert!(raw <= adjusted && *adjusted <= 1.0);
            }
        }
    }
}
