//! Distributions of a tree that are finer than powers of two, or that sums do not tell.
//!
//! Rows are `(bound, count)` in rising order, and only rows that hold something are there: a row counts what
//! is not above its bound and above the bound below it. Bounds are [`size_bound`] (four to a power of two:
//! neighbours are at most a quarter apart) and [`count_bound`] (1, 2, 3, 4, then powers of two). Both keep 0
//! apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Distributions of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeDetail {
    /// Files by size: bound in bytes, files, sum of their sizes.
    pub sizes: Vec<(u64, u64, u64)>,
    /// Mapped files by extents.
    pub extents: Vec<(u64, u64)>,
    /// Directories by the names of regular files in them.
    pub directory_files: Vec<(u64, u64)>,
    /// Directories by the directories in them.
    pub subdirectories: Vec<(u64, u64)>,
    /// Directories by levels below the top, which has 0.
    pub depths: Vec<(u64, u64)>,
}

/// The bound of the row that counts `size`: the next of 2^n × (4, 5, 6, 7) / 4; 0 to 8 are bounds of their
/// own.
#[must_use]
pub fn size_bound(size: u64) -> u64 {
    if size <= 8 {
        return size;
    }
    // The largest power of two below the size: 2^n < size ≤ 2^(n+1), so the bound is at most 2^(n+1).
    let power = (size - 1).ilog2();
    let step = 1_u64 << (power - 2);
    size.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

/// The bound of the row that counts `count`: itself up to 4, then the next power of two.
#[must_use]
pub fn count_bound(count: u64) -> u64 {
    if count <= 4 { count } else { count.checked_next_power_of_two().unwrap_or(u64::MAX) }
}

impl TreeDetail {
    /// Counts a file of `size` bytes.
    pub fn add_size(&mut self, size: u64) {
        add_sizes(&mut self.sizes, (size_bound(size), 1, size));
    }

    /// Counts a file in so many extents.
    pub fn add_extents(&mut self, extents: u64) {
        add(&mut self.extents, (count_bound(extents), 1));
    }

    /// Counts a directory `level` below the top, with what it holds.
    pub fn add_directory(&mut self, level: usize, files: u64, subdirectories: u64) {
        add(&mut self.directory_files, (count_bound(files), 1));
        add(&mut self.subdirectories, (count_bound(subdirectories), 1));
        add(&mut self.depths, (u64::try_from(level).unwrap_or(u64::MAX), 1));
    }

    /// Adds all that another one counted.
    pub fn merge(&mut self, other: &Self) {
        other.sizes.iter().for_each(|row| add_sizes(&mut self.sizes, *row));
        for (mine, theirs) in [
            (&mut self.extents, &other.extents),
            (&mut self.directory_files, &other.directory_files),
            (&mut self.subdirectories, &other.subdirectories),
            (&mut self.depths, &other.depths),
        ] {
            theirs.iter().for_each(|row| add(mine, *row));
        }
    }
}

fn add(rows: &mut Vec<(u64, u64)>, (bound, count): (u64, u64)) {
    match rows.binary_search_by_key(&bound, |row| row.0) {
        Ok(at) => rows[at].1 = rows[at].1.saturating_add(count),
        Err(at) => rows.insert(at, (bound, count)),
    }
}

fn add_sizes(rows: &mut Vec<(u64, u64, u64)>, (bound, files, bytes): (u64, u64, u64)) {
    match rows.binary_search_by_key(&bound, |row| row.0) {
        Ok(at) => {
            rows[at].1 = rows[at].1.saturating_add(files);
            rows[at].2 = rows[at].2.saturating_add(bytes);
        }
        Err(at) => rows.insert(at, (bound, files, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_a_quarter_apart_at_most() {
        assert_eq!([0, 1, 8, 9, 10, 11].map(size_bound), [0, 1, 8, 10, 10, 12]);
        assert_eq!([4096, 4097, 5120, 5121, 8192].map(size_bound), [4096, 5120, 5120, 6144, 8192]);
        assert_eq!(size_bound(u64::MAX), u64::MAX);
        assert_eq!([0, 1, 4, 5, 8, 9].map(count_bound), [0, 1, 4, 8, 8, 16]);
    }

    proptest::proptest! {
        #[test]
        fn a_bound_is_the_smallest_that_is_not_below(size in 1_u64..1 << 60) {
            let bound = size_bound(size);
            proptest::prop_assert!(bound >= size);
            proptest::prop_assert_eq!(size_bound(bound), bound, "a bound is in its own row");
            // The bound below is a fifth of the size away at most.
            proptest::prop_assert!(bound - size <= size / 4);
        }
    }
}
