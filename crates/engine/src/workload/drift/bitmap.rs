//! A set of slot numbers that finds the nearest member of any number in O(log64 n).
//!
//! Level 0 has one bit a slot; each bit of a level says whether the 64 bits below it hold any. A million
//! slots take four levels and 127 KiB.

/// A set of numbers below a fixed count.
#[derive(Debug, Clone)]
pub(super) struct Bitmap {
    levels: Vec<Vec<u64>>,
    count: u32,
}

/// A number's word and bit.
fn split(n: u32) -> (usize, u32) {
    (usize::try_from(n / 64).unwrap_or(usize::MAX), n % 64)
}

impl Bitmap {
    /// The empty set of numbers below `count`.
    pub(super) fn new(count: u32) -> Self {
        let mut levels = Vec::new();
        let mut bits = count.max(1);
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; split(words * 64).0]);
            if words == 1 {
                return Self { levels, count };
            }
            bits = words;
        }
    }

    pub(super) fn insert(&mut self, mut n: u32) {
        for level in &mut self.levels {
            let (word, bit) = split(n);
            level[word] |= 1 << bit;
            n /= 64;
        }
    }

    pub(super) fn remove(&mut self, mut n: u32) {
        for level in &mut self.levels {
            let (word, bit) = split(n);
            level[word] &= !(1 << bit);
            if level[word] != 0 {
                return;
            }
            n /= 64;
        }
    }

    #[cfg(test)]
    fn contains(&self, n: u32) -> bool {
        let (word, bit) = split(n);
        self.levels[0][word] & (1 << bit) != 0
    }

    /// The least member that is at least `n`.
    fn next(&self, mut n: u32) -> Option<u32> {
        for height in 0..self.levels.len() {
            let (word, bit) = split(n);
            let bits = self.levels[height].get(word).copied().unwrap_or(0) & (u64::MAX << bit);
            if bits != 0 {
                return Some(self.descend(height, n - bit + bits.trailing_zeros(), u64::trailing_zeros));
            }
            n = n / 64 + 1;
        }
        None
    }

    /// The greatest member that is at most `n`.
    fn previous(&self, mut n: u32) -> Option<u32> {
        for height in 0..self.levels.len() {
            let (word, bit) = split(n);
            let bits = self.levels[height].get(word).copied().unwrap_or(0) & (u64::MAX >> (63 - bit));
            if bits != 0 {
                return Some(self.descend(height, n - bit + 63 - bits.leading_zeros(), last));
            }
            n = (n / 64).checked_sub(1)?;
        }
        None
    }

    /// From a bit that is set on some level to the first (or last) member below it.
    fn descend(&self, height: usize, mut n: u32, choose: fn(u64) -> u32) -> u32 {
        for level in self.levels[..height].iter().rev() {
            n = n * 64 + choose(level[split(n * 64).0]);
        }
        n
    }

    /// The member nearest to `n` (below the count) when the numbers are bent into a ring; of two equally near
    /// ones the one after `n`.
    pub(super) fn nearest(&self, n: u32) -> Option<u32> {
        let after = self.next(n).or_else(|| self.next(0))?;
        if after == n {
            return Some(n);
        }
        let before = self.previous(n).or_else(|| self.previous(self.count - 1))?;
        let forth = if after > n { after - n } else { self.count - n + after };
        let back = if before < n { n - before } else { n + (self.count - before) };
        Some(if back < forth { before } else { after })
    }
}

/// The number of the highest set bit.
fn last(bits: u64) -> u32 {
    63 - bits.leading_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn nearest(set: &BTreeSet<u32>, count: u32, n: u32) -> Option<u32> {
        let distance = |m: u32| (m + count - n) % count;
        set.iter().copied().min_by_key(|m| {
            let forth = distance(*m);
            (forth.min(count - forth), forth)
        })
    }

    proptest! {
        #[test]
        fn nearest_is_nearest(
            count in 1..9000_u32,
            changes in prop::collection::vec((any::<bool>(), any::<u32>()), 0..60),
            asked in prop::collection::vec(any::<u32>(), 1..20),
        ) {
            let mut bitmap = Bitmap::new(count);
            let mut set = BTreeSet::new();
            for (insert, n) in changes {
                let n = n % count;
                if insert {
                    bitmap.insert(n);
                    set.insert(n);
                } else {
                    bitmap.remove(n);
                    set.remove(&n);
                }
                prop_assert_eq!(bitmap.contains(n), insert);
            }
            for n in asked {
                prop_assert_eq!(bitmap.nearest(n % count), nearest(&set, count, n % count));
            }
        }
    }
}
