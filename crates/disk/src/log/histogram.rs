//! Counts by power of two.

use schemars::JsonSchema;
use serde::Serialize;

/// How many values lie in which power of two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Histogram {
    /// The ranges that have values, in order.
    pub ranges: Vec<HistogramRange>,
}

/// Values from one power of two to below the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HistogramRange {
    /// Least value that is counted here: 0, 1, 2, 4, 8, …
    pub from: u64,
    /// Values counted.
    pub count: u64,
    /// Their sum; at most 2^64 - 1.
    pub sum: u64,
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let from = if value == 0 { 0 } else { 1 << value.ilog2() };
        let place = self.ranges.binary_search_by_key(&from, |range| range.from).unwrap_or_else(|place| {
            self.ranges.insert(place, HistogramRange { from, count: 0, sum: 0 });
            place
        });
        let range = &mut self.ranges[place];
        range.count += 1;
        range.sum = range.sum.saturating_add(value);
    }

    /// Values counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_their_power_of_two() {
        let mut histogram = Histogram::default();
        for value in [4096, 0, 1, 8191, 2, 3, u64::MAX, 4096, 1 << 63] {
            histogram.add(value);
        }
        let found: Vec<_> =
            histogram.ranges.iter().map(|range| (range.from, range.count, range.sum)).collect();
        let last = (1 << 63, 2, u64::MAX);
        assert_eq!(found, [(0, 1, 0), (1, 1, 1), (2, 2, 5), (4096, 3, 16_383), last]);
        assert_eq!(histogram.count(), 9);
    }
}
