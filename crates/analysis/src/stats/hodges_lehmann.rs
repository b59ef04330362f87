//! By how much one sample lies above another: the estimates of Hodges & Lehmann 1963 ("Estimates of location
//! based on rank tests", Ann. Math. Statist. 34, §2 and §5). A few wild values hardly move them.

use super::quantile::{count, median};

/// Shift of `a` over `b`: the median of all differences a − b. `None` when one is empty. Costs
/// a · b differences and their sorting.
#[must_use]
pub fn shift(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| x - y)).collect();
    median(&differences)
}

/// Centre of the differences of pairs: the median of the means of every two of them, each with itself
/// included. `None` without any.
#[must_use]
pub fn centre(differences: &[f64]) -> Option<f64> {
    let means: Vec<f64> = differences
        .iter()
        .enumerate()
        .flat_map(|(i, x)| differences[i..].iter().map(move |y| f64::midpoint(*x, *y)))
        .collect();
    median(&means)
}

/// The factor by which `a` lies above `b`: the shift of the logs. `None` unless every value is above 0.
#[must_use]
pub fn ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    Some(shift(&logs(a)?, &logs(b)?)?.exp())
}

/// The factor between the sides of pairs `(a, b)`: [`centre`] of the logs of a / b.
#[must_use]
pub fn ratio_of_pairs(pairs: &[(f64, f64)]) -> Option<f64> {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    Some(centre(&logs(&ratios)?)?.exp())
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    let positive = values.iter().all(|value| *value > 0.0 && value.is_finite());
    (positive && count(values.len()) > 0.0).then(|| values.iter().map(|value| value.ln()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_samples_by_hand() {
        // differences: 3, 2, 5, 4 → median 3.5
        assert_eq!(shift(&[4.0, 6.0], &[1.0, 2.0]), Some(3.5));
        // means of pairs: 1, 2, 5.5, 3, 6.5, 10 → median 4.25
        assert_eq!(centre(&[1.0, 3.0, 10.0]), Some(4.25));
        assert_eq!(shift(&[], &[1.0]), None);
        assert_eq!(ratio(&[1.0, 0.0], &[1.0]), None);
        assert!((ratio(&[20.0, 40.0, 80.0], &[10.0, 20.0, 40.0]).unwrap() - 2.0).abs() < 1e-12);
        assert!((ratio_of_pairs(&[(2.0, 1.0), (20.0, 10.0)]).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_wild_value_hardly_moves_it() {
        let calm: Vec<f64> = (0..20).map(f64::from).collect();
        let mut wild: Vec<f64> = calm.iter().map(|x| x + 5.0).collect();
        wild[3] = 1e9;
        let shift = shift(&wild, &calm).unwrap();
        assert!((4.0..=6.5).contains(&shift), "{shift}");
    }

    proptest! {
        #[test]
        fn it_follows_a_shift_and_turns_its_sign_with_the_sides(
            a in prop::collection::vec(-1e3..1e3_f64, 1..12),
            b in prop::collection::vec(-1e3..1e3_f64, 1..12),
            by in -50.0..50.0_f64,
        ) {
            let moved: Vec<f64> = a.iter().map(|x| x + by).collect();
            let plain = shift(&a, &b).unwrap();
            prop_assert!((shift(&moved, &b).unwrap() - plain - by).abs() < 1e-9);
            prop_assert!((shift(&b, &a).unwrap() + plain).abs() < 1e-9);
        }
    }
}
