//! Why a tree is slow to read: what was found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::share;

/// Cells of a row.
pub const COLUMNS: usize = 64;
/// Rows.
pub const ROWS: usize = 16;

/// Cells of the map.
pub const CELLS: u64 = 1024;

/// A file, or the files of one directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Below the tree; `.` is the tree's own directory.
    pub path: String,
    /// Files.
    pub files: u64,
    /// Bytes on the volume.
    pub bytes: u64,
    /// Pieces.
    pub extents: u64,
    /// Nanoseconds to read it as it lies…
    pub now_ns: u64,
    /// … with each file in one piece…
    pub defragmented_ns: u64,
    /// … and in a copy of the tree.
    pub copied_ns: u64,
    /// Share of each cell of the volume (0..=1) that it takes, for cells of which it takes any.
    pub cells: BTreeMap<usize, f64>,
}

impl Item {
    /// What would improve a tree, most effective first: in words, and what reading would then take. A copy that
    /// was really made, and takes `made_ns`, says more than the bound that is estimated.
    #[must_use]
    pub fn remedies(&self, made_ns: Option<u64>) -> Vec<(&'static str, u64)> {
        let mut remedies = vec![
            (
                "copy it to a fresh volume, or to one with free space in large pieces",
                made_ns.unwrap_or(self.copied_ns),
            ),
            (
                "put each file into one piece (e4defrag, xfs_fsr, btrfs filesystem defragment)",
                self.defragmented_ns,
            ),
        ];
        remedies.sort_by_key(|(_, ns)| *ns);
        remedies.retain(|(_, ns)| ns.saturating_mul(20) < self.now_ns.saturating_mul(19));
        remedies
    }

    /// Time beyond that of the copy.
    #[must_use]
    pub const fn extra_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.copied_ns)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The medium that times are of.
    pub medium: String,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// The whole tree.
    pub tree: Item,
    /// Directories with most extra time, worst first.
    pub directories: Vec<Item>,
    /// Files with most extra time, worst first.
    pub files: Vec<Item>,
    /// Share of the tree's files that directly follow the file before them (0..=1): inter-file layout (Conway
    /// et al. 2017).
    pub inter_file_score: f64,
    /// Share of each cell in use, by the file system's word; empty where it does not tell.
    #[serde(default)]
    pub used: Vec<f64>,
    /// What the reader must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Explanation {
    /// The same with at most that many directories and files.
    #[must_use]
    pub fn only(mut self, worst: usize) -> Self {
        self.directories.truncate(worst);
        self.files.truncate(worst);
        self
    }

    /// The same with shares in thousandths, as it is kept: a third of the size, and no cell that is touched
    /// comes to be empty.
    #[must_use]
    pub fn coarse(mut self) -> Self {
        let coarse = |share: &mut f64| *share = (*share * 1000.0).ceil() / 1000.0;
        let items = std::iter::once(&mut self.tree).chain(&mut self.directories).chain(&mut self.files);
        items.flat_map(|item| item.cells.values_mut()).chain(&mut self.used).for_each(coarse);
        self
    }
}

/// Share of each cell that extents take.
#[must_use]
pub fn cells<'a>(extents: impl Iterator<Item = &'a (u64, u64)>, volume_bytes: u64) -> BTreeMap<usize, f64> {
    let edge = |cell: u64| {
        u64::try_from(u128::from(volume_bytes) * u128::from(cell) / u128::from(CELLS)).unwrap_or(volume_bytes)
    };
    let mut taken: BTreeMap<usize, u64> = BTreeMap::new();
    for &(start, length) in extents {
        let end = start.saturating_add(length);
        let first = u128::from(start) * u128::from(CELLS) / u128::from(volume_bytes.max(1));
        let mut cell = u64::try_from(first).unwrap_or(0).saturating_sub(1);
        while cell < CELLS && edge(cell) < end {
            let bytes = end.min(edge(cell + 1)).saturating_sub(start.max(edge(cell)));
            if bytes > 0 {
                let taken = taken.entry(usize::try_from(cell).unwrap_or(usize::MAX)).or_default();
                *taken = taken.saturating_add(bytes);
            }
            cell += 1;
        }
    }
    let length = |cell: usize| {
        let cell = u64::try_from(cell).unwrap_or(0);
        edge(cell + 1) - edge(cell)
    };
    taken.into_iter().map(|(cell, bytes)| (cell, share(bytes, length(cell)).min(1.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_shared_out_to_the_cells_they_touch() {
        let volume = 1024 * 4096;
        let found = cells([(4096, 4096), (10_240, 4096)].iter(), volume);
        assert_eq!(found, BTreeMap::from([(1, 1.0), (2, 0.5), (3, 0.5)]));
        let whole = cells([(0, volume)].iter(), volume);
        assert_eq!((whole.len(), whole.values().sum::<f64>()), (1024, 1024.0));
        assert!(cells([].iter(), 0).is_empty());
        // Cells that are no whole number of bytes.
        let odd = cells([(0, 1_000_003)].iter(), 1_000_003);
        assert_eq!(odd.len(), 1024);
    }
}
