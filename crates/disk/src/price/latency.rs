//! Times in buckets, for percentiles: 64 buckets per power of two.
//!
//! A percentile is the upper end of its bucket, at most 1/64 (1.6 %) above the true value and never above the
//! longest time. Memory: 30 KiB. Below 64 ns every value has a bucket of its own.

/// Buckets of a power of two, as a power of two.
const BITS: u32 = 6;
const SUB: usize = 1 << BITS;
/// One set of buckets for the times below 64 ns, one for each of the 58 powers of two above.
const BUCKETS: usize = 59 * SUB;

/// Counts of times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    count: u64,
    longest_ns: u64,
}

impl Latencies {
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, longest_ns: 0 }
    }

    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.longest_ns = self.longest_ns.max(ns);
    }

    pub const fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// The time that so many of 1,000 do not exceed; 0 without any.
    pub fn permille_ns(&self, permille: u64) -> u64 {
        let rank = u128::from(self.count) * u128::from(permille);
        let rank = u64::try_from(rank.div_ceil(1000)).unwrap_or(u64::MAX).max(1);
        let mut below = 0;
        for (number, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper_ns(number).min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

/// The bucket of a time.
fn bucket(ns: u64) -> usize {
    let exponent = ns.checked_ilog2().unwrap_or(0);
    if exponent < BITS {
        return low_bits(ns);
    }
    let shift = exponent - BITS;
    usize::try_from(shift + 1).unwrap_or(0) * SUB + low_bits(ns >> shift)
}

/// The part of a number that tells buckets of one power of two apart.
fn low_bits(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX) & (SUB - 1)
}

/// The largest time of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let sub = u64::try_from(bucket % SUB).unwrap_or(0);
    match u32::try_from(bucket / SUB).unwrap_or(0) {
        0 => sub,
        power => {
            let shift = power - 1;
            ((sub | 1 << BITS) << shift) | ((1 << shift) - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_a_sixty_fourth_wide() {
        for ns in (0..5000).chain([1 << 20, (1 << 20) + 12_345, 1 << 40, u64::MAX / 3, u64::MAX]) {
            let upper = upper_ns(bucket(ns));
            assert!(upper >= ns && upper - ns <= ns / 64, "{ns}: {upper}");
            assert!(ns == 0 || bucket(ns) >= bucket(ns - 1));
            assert!(bucket(ns) < BUCKETS);
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values_within_a_bucket() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.permille_ns(500), 0);
        for ns in 1..=1000 {
            latencies.add(ns * 1000);
        }
        for (permille, wanted) in [(1, 1000), (500, 500_000), (990, 990_000), (1000, 1_000_000)] {
            let found = latencies.permille_ns(permille);
            assert!((wanted..=wanted + wanted / 64).contains(&found), "{permille}: {found}");
        }
        assert_eq!(latencies.longest_ns(), 1_000_000);
        // One slow request of ten thousand is in no percentile but the last.
        let mut latencies = Latencies::new();
        (0..9_999).for_each(|_| latencies.add(50));
        latencies.add(1 << 30);
        assert_eq!((latencies.permille_ns(999), latencies.permille_ns(1000)), (50, 1 << 30));
    }
}
