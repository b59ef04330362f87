//! A set of numbers as ranges that neither touch nor overlap.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers, as begin → end of each range.
#[derive(Debug, Clone, Default)]
pub(super) struct RangeSet {
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds all of `range`. Cost: logarithmic, and one step for each range that it swallows.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Ranges that begin at or before the new end; from the last one back until one ends before the new
        // start.
        while let Some((&begin, &until)) = self.ranges.range(..=end).next_back()
            && until >= start
        {
            self.ranges.remove(&begin);
            (start, end) = (start.min(begin), end.max(until));
        }
        self.ranges.insert(start, end);
    }

    /// Whether all of `range` is in it; nothing always is.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.ranges.range(..=range.start).next_back().is_some_and(|(_, until)| *until >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set(
            inserted in prop::collection::vec((0..200_u64, 0..40_u64), 0..30),
            asked in prop::collection::vec((0..250_u64, 0..20_u64), 30),
        ) {
            let (mut set, mut model) = (RangeSet::default(), [false; 300]);
            for (start, length) in inserted {
                set.insert(start..start + length);
                (start..start + length).for_each(|n| model[usize::try_from(n).unwrap()] = true);
            }
            for (start, length) in asked {
                let range = start..start + length;
                let all = range.clone().all(|n| model[usize::try_from(n).unwrap()]);
                prop_assert_eq!(set.covers(&range), all, "{:?} of {:?}", range, set);
            }
            let runs = (1..300).filter(|n| model[*n] && !model[n - 1]).count() + usize::from(model[0]);
            prop_assert_eq!(set.ranges.len(), runs);
        }
    }
}
