//! Quantiles of samples: definition 7 of Hyndman & Fan 1996 (linear between order statistics), which R,
//! NumPy and spreadsheets use.

/// Arithmetic mean; `None` without samples.
#[must_use]
pub fn mean(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    Some(samples.iter().sum::<f64>() / count(samples.len()))
}

/// The `q` quantile (0..=1) of unsorted samples; `None` without samples. Costs one copy and a selection, no
/// sorting.
#[must_use]
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let last = samples.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * count(last);
    let below = index(place.floor()).min(last);
    let mut values = samples.to_vec();
    let (_, low, larger) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let high = larger.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    Some(low + (high - low) * (place - place.floor()))
}

/// The `q` quantile (0..=1) of samples in rising order; `None` without samples.
#[must_use]
pub fn quantile_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * count(last);
    let below = index(place.floor()).min(last);
    let above = (below + 1).min(last);
    let share = place - place.floor();
    Some(sorted[below] + (sorted[above] - sorted[below]) * share)
}

/// The median; `None` without samples.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// A count of samples as a float.
#[must_use]
pub(crate) fn count(n: usize) -> f64 {
    fsage_model::quantity::as_f64(u64::try_from(n).unwrap_or(u64::MAX))
}

/// A whole, not negative float as an index.
pub(crate) fn index(place: f64) -> usize {
    usize::try_from(fsage_model::quantity::to_u64(place)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_follow_definition_7() {
        // R: quantile(c(1, 2, 3, 4), c(.25, .5, .9)) gives 1.75 2.50 3.70
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&samples, 0.25), Some(1.75));
        assert_eq!(median(&samples), Some(2.5));
        assert!((quantile(&samples, 0.9).unwrap() - 3.7).abs() < 1e-12);
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&samples, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
    }

    proptest! {
        #[test]
        fn selecting_is_sorting(samples in prop::collection::vec(-1e6..1e6_f64, 1..50), q in 0.0..=1.0_f64) {
            let mut sorted = samples.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert_eq!(quantile(&samples, q), quantile_sorted(&sorted, q));
        }
    }

    #[test]
    fn the_mean_of_nothing_is_none() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    }
}
