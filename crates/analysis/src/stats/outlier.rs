//! Values that lie far from the others of their sample. They are flagged and never dropped: a slow trial is a
//! result too, and who inspects it decides.
//!
//! A value is flagged when it is more than [`DEVIATIONS`] scaled median absolute deviations from the median
//! (Leys et al. 2013, "Detecting outliers: do not use standard deviation around the mean, use absolute
//! deviation around the median", J. Exp. Soc. Psychol. 49). Where more than half of the values are alike that
//! deviation is 0, and Tukey's outer fences (Tukey 1977, §2: three times the spread of the middle half)
//! decide.

use super::quantile::{median, quantile};

/// Scaled deviations beyond which a value is flagged.
pub const DEVIATIONS: f64 = 3.0;
/// Samples smaller than this have no flags: what is usual cannot be distinguished from four values.
pub const FEWEST: usize = 5;
/// Makes the median absolute deviation of normal values their standard deviation: 1 / Φ⁻¹(¾).
const NORMAL: f64 = 1.482_602_218_505_602;

/// Indices of the values that lie far out, rising.
#[must_use]
pub fn flagged(values: &[f64]) -> Vec<usize> {
    if values.len() < FEWEST {
        return Vec::new();
    }
    let Some((low, high)) = by_deviation(values).or_else(|| by_fences(values)) else { return Vec::new() };
    (0..values.len()).filter(|&i| !(low..=high).contains(&values[i])).collect()
}

/// What lies within [`DEVIATIONS`] of the median; `None` when half of the values are alike.
fn by_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let centre = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    let reach = DEVIATIONS * NORMAL * median(&distances)?;
    // Beyond the rounding of numbers that are alike.
    (reach > 1e-12 * centre.abs()).then_some((centre - reach, centre + reach))
}

fn by_fences(values: &[f64]) -> Option<(f64, f64)> {
    let (first, third) = (quantile(values, 0.25)?, quantile(values, 0.75)?);
    let reach = 3.0 * (third - first) + 1e-12 * first.abs().max(third.abs());
    Some((first - reach, third + reach))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_that_is_far_out_is_flagged() {
        assert_eq!(flagged(&[10.0, 11.0, 9.0, 10.5, 30.0, 9.5]), vec![4]);
        assert_eq!(flagged(&[10.0, 11.0, 9.0, 10.5, 9.5]), Vec::<usize>::new());
        // median 3, deviations 2 1 0 1 2 → reach 3 · 1.4826 = 4.45
        assert_eq!(flagged(&[1.0, 2.0, 3.0, 4.0, 7.4]), Vec::<usize>::new());
        assert_eq!(flagged(&[1.0, 2.0, 3.0, 4.0, 7.5]), vec![4]);
    }

    #[test]
    fn alike_values_flag_only_what_differs() {
        assert_eq!(flagged(&[5.0; 8]), Vec::<usize>::new());
        assert_eq!(flagged(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0]), vec![6]);
        assert_eq!(flagged(&[1.0, 1.0, 900.0]), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn at_most_half_are_flagged_and_scale_does_not_matter(
            values in prop::collection::vec(1.0..1e3_f64, 0..30),
        ) {
            let flags = flagged(&values);
            prop_assert!(2 * flags.len() <= values.len());
            let moved: Vec<f64> = values.iter().map(|v| 8.0 * v).collect();
            prop_assert_eq!(&flags, &flagged(&moved));
        }
    }
}
