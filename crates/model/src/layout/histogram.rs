//! Counting sizes by power of two.

use super::SizeHistogram;
use crate::quantity::sum;

impl SizeHistogram {
    /// Counts one item of `size` bytes.
    pub fn add(&mut self, size: u64) {
        self.add_many(size, 1);
    }

    /// Counts `count` items of `size` bytes each.
    pub fn add_many(&mut self, size: u64, count: u64) {
        let bucket = usize::try_from(size.max(1).ilog2()).unwrap_or(0);
        if bucket >= self.count.len() {
            self.count.resize(bucket + 1, 0);
            self.bytes.resize(bucket + 1, 0);
        }
        self.count[bucket] = self.count[bucket].saturating_add(count);
        self.bytes[bucket] = self.bytes[bucket].saturating_add(size.saturating_mul(count));
    }

    /// Adds all that another one counted.
    pub fn merge(&mut self, other: &Self) {
        let buckets = self.count.len().max(other.count.len());
        self.count.resize(buckets, 0);
        self.bytes.resize(buckets, 0);
        for (mine, theirs) in self.count.iter_mut().zip(&other.count) {
            *mine = mine.saturating_add(*theirs);
        }
        for (mine, theirs) in self.bytes.iter_mut().zip(&other.bytes) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Items counted.
    #[must_use]
    pub fn total_count(&self) -> u64 {
        sum(&self.count)
    }

    /// Sum of the sizes counted.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        sum(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_goes_into_the_bucket_of_its_highest_bit() {
        let mut histogram = SizeHistogram::default();
        for size in [0, 1, 2, 3, 4096, 8191, 8192] {
            histogram.add(size);
        }
        assert_eq!((histogram.count[0], histogram.bytes[0]), (2, 1));
        assert_eq!((histogram.count[1], histogram.bytes[1]), (2, 5));
        assert_eq!((histogram.count[12], histogram.bytes[12]), (2, 4096 + 8191));
        assert_eq!((histogram.count[13], histogram.count.len()), (1, 14));
        let mut both = SizeHistogram::default();
        both.add(u64::MAX);
        both.merge(&histogram);
        assert_eq!((both.total_count(), both.count.len(), both.count[63]), (8, 64, 1));
    }
}
