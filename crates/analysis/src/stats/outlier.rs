//! Values that lie far from the others of their sample. They are flagged and never dropped: a slow trial is a
//! result too, and who inspects it decides.
//!
//! - From [`MANY`] values on: a value is flagged when it is more than [`DEVIATIONS`] scaled median absolute
//!   deviations from the median (Leys et al. 2013, "Detecting outliers: do not use standard deviation around
//!   the mean, use absolute deviation around the median", J. Exp. Soc. Psychol. 49). Where more than half of
//!   the values are alike that deviation is 0, and Tukey's outer fences (Tukey 1977, §2: three times the
//!   spread of the middle half) decide.
//! - Three or four values have no usable median deviation. There Dixon's ratio of the gap beside the extreme
//!   value to the whole range decides (Dean & Dixon 1951, Anal. Chem. 23), which flags one of twenty normal
//!   samples.

use super::quantile::{median, quantile};

/// Scaled deviations beyond which a value is flagged.
pub const DEVIATIONS: f64 = 3.0;
/// Samples of at least so many values are judged by their median deviation.
pub const MANY: usize = 5;
/// Critical ratios of gap to range, two-sided at 5 %, for three and four values (Rorabacher 1991, "Statistical
/// treatment for rejection of deviant values", Anal. Chem. 63, table I).
const DIXON: [(usize, f64); 2] = [(3, 0.970), (4, 0.829)];
/// Makes the median absolute deviation of normal values their standard deviation: 1 / Φ⁻¹(¾).
const NORMAL: f64 = 1.482_602_218_505_602;

/// Indices of the outliers, rising.
#[must_use]
pub fn flagged(values: &[f64]) -> Vec<usize> {
    if values.len() < MANY {
        return by_gap(values).into_iter().collect();
    }
    let Some((low, high)) = by_deviation(values).or_else(|| by_fences(values)) else { return Vec::new() };
    (0..values.len()).filter(|&i| !(low..=high).contains(&values[i])).collect()
}

/// Index of the extreme value of three or four whose gap to its neighbour is most of their range.
fn by_gap(values: &[f64]) -> Option<usize> {
    let (_, limit) = DIXON.into_iter().find(|(n, _)| *n == values.len())?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (first, last) = (*order.first()?, *order.last()?);
    let range = values[last] - values[first];
    // Beyond the rounding of numbers that are alike.
    if range <= 1e-12 * values[first].abs().max(values[last].abs()) {
        return None;
    }
    let (low, high) = (values[order[1]] - values[first], values[last] - values[order[order.len() - 2]]);
    let (gap, extreme) = if low > high { (low, first) } else { (high, last) };
    (gap > limit * range).then_some(extreme)
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
    use rand_core::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

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
        assert_eq!(flagged(&[1.0, 1.0, 900.0]), vec![2]);
        assert_eq!(flagged(&[2.0; 3]), Vec::<usize>::new());
    }

    #[test]
    fn three_and_four_values_are_judged_by_their_largest_gap() {
        // Gaps of 0.1 and 9.9 in 10: 0.99. The same with 0.5: 0.95.
        assert_eq!(flagged(&[20.0, 10.1, 10.0]), vec![0]);
        assert_eq!(flagged(&[20.0, 10.5, 10.0]), Vec::<usize>::new());
        assert_eq!(flagged(&[1.0, 10.0, 10.5, 11.0]), vec![0]);
        assert_eq!(flagged(&[6.0, 10.0, 10.5, 11.0]), Vec::<usize>::new());
        assert_eq!((flagged(&[1.0, 9.0]), flagged(&[])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn one_normal_sample_of_twenty_is_flagged() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut normal = || {
            let mut unit =
                || (fsage_model::quantity::as_f64(random.next_u64() >> 11) + 0.5) / 9_007_199_254_740_992.0;
            (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos()
        };
        for n in [3, 4] {
            let samples = (0..4_000).map(|_| (0..n).map(|_| normal()).collect::<Vec<f64>>());
            let share = samples.filter(|sample| !flagged(sample).is_empty()).count();
            assert!((140..=260).contains(&share), "{share} of 4000 samples of {n}");
        }
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
