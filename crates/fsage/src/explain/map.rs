//! The volume as a map: cells of equal length, row by row from its beginning.

use std::collections::BTreeMap;

use fsage_model::quantity::share;

use super::Item;

/// Cells of a row.
pub const COLUMNS: usize = 64;
/// Rows.
pub const ROWS: usize = 16;
/// Cells of the map.
pub(super) const CELLS: u64 = 1024;

/// What a cell holds most of, as far as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Some of the item's data.
    Item,
    /// At least half of it, something else.
    Used,
    /// A little of something else.
    Touched,
    Free,
    /// Not known.
    Unknown,
}

/// An item on the map.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    item: &'a Item,
    used: &'a [f64],
}

/// What a cell is drawn as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CellKind {
    /// Some of the item's data.
    Own,
    /// Mostly data of the tree's other files.
    Files,
    /// Mostly what is in use by none of the tree's files: metadata, or what lies outside the tree.
    Rest,
}

/// Share of each cell that extents take.
pub(super) fn cells<'a>(
    extents: impl Iterator<Item = &'a (u64, u64)>,
    volume_bytes: u64,
) -> BTreeMap<usize, f64> {
    let edge = |cell: u64| {
        u64::try_from(u128::from(volume_bytes) * u128::from(cell) / u128::from(CELLS)).unwrap_or(volume_bytes)
    };
    let mut taken: BTreeMap<usize, u64> = BTreeMap::new();
    for &(start, length) in extents {
        let end = start + length;
        let first = u128::from(start) * u128::from(CELLS) / u128::from(volume_bytes.max(1));
        let mut cell = u64::try_from(first).unwrap_or(0).saturating_sub(1);
        while cell < CELLS && edge(cell) < end {
            let bytes = end.min(edge(cell + 1)).saturating_sub(start.max(edge(cell)));
            if bytes > 0 {
                *taken.entry(usize::try_from(cell).unwrap_or(usize::MAX)).or_default() += bytes;
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

impl<'a> Map<'a> {
    /// A map of `item`; `used` as the file system tells, empty where it does not.
    #[must_use]
    pub const fn new(item: &'a Item, used: &'a [f64]) -> Self {
        Self { item, used }
    }

    fn cell(&self, cell: usize) -> Cell {
        if self.item.cells.contains_key(&cell) {
            return Cell::Item;
        }
        match self.used.get(cell) {
            None => Cell::Unknown,
            Some(used) if *used >= 0.5 => Cell::Used,
            Some(used) if *used > 0.0 => Cell::Touched,
            Some(_) => Cell::Free,
        }
    }

    /// Rows of characters: the item, what else is in use, little in use, free.
    #[must_use]
    pub fn text(&self, unicode: bool) -> Vec<String> {
        let letter = |cell| match (cell, unicode) {
            (Cell::Item, true) => '█',
            (Cell::Item, false) => '#',
            (Cell::Used, true) => '▒',
            (Cell::Used, false) => '+',
            (Cell::Touched, true) => '░',
            (Cell::Touched, false) => '-',
            (Cell::Free, true) => '·',
            (Cell::Free, false) => '.',
            (Cell::Unknown, _) => ' ',
        };
        (0..ROWS)
            .map(|row| (0..COLUMNS).map(|column| letter(self.cell(row * COLUMNS + column))).collect())
            .collect()
    }

    /// The legend of [`Map::text`].
    #[must_use]
    pub const fn legend(unicode: bool) -> &'static str {
        if unicode {
            "█ its data  ▒ others or metadata  ░ a little of them  · free"
        } else {
            "# its data  + others or metadata  - a little of them  . free"
        }
    }

    /// What a cell is drawn as beside the files of `tree`, and how strongly (0..=1); nothing where it is free.
    pub(super) fn drawn(&self, cell: usize, tree: &Item) -> Option<(CellKind, f64)> {
        let of = |item: &Item| item.cells.get(&cell).copied().unwrap_or(0.0);
        let (own, all) = (of(self.item), of(tree));
        if own > 0.0 {
            return Some((CellKind::Own, 0.35 + 0.65 * own));
        }
        let rest = (self.used.get(cell).copied().unwrap_or(0.0) - all).max(0.0);
        let kind = if rest > all { CellKind::Rest } else { CellKind::Files };
        (rest + all > 0.0).then_some((kind, (rest + all).min(1.0)))
    }
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

    #[test]
    fn a_map_shows_what_is_where() {
        let item = Item {
            path: "x".into(),
            files: 1,
            bytes: 1,
            extents: 1,
            now_ns: 1,
            defragmented_ns: 1,
            copied_ns: 1,
            cells: BTreeMap::from([(64, 0.1)]),
        };
        let mut used = vec![0.0; 1024];
        (used[0], used[1]) = (0.9, 0.1);
        let rows = Map::new(&item, &used).text(false);
        assert_eq!((rows.len(), rows[0].len()), (16, 64));
        assert!(rows[0].starts_with("+-..") && rows[1].starts_with("#."), "{rows:?}");
        assert!(Map::new(&item, &[]).text(true)[0].starts_with("   "));
        // The tree's data is told from the rest of what is in use.
        let tree = Item { cells: BTreeMap::from([(0, 0.8), (64, 0.5), (70, 0.2)]), ..item.clone() };
        used[1] = 0.25;
        let map = Map::new(&item, &used);
        let at = |cell| map.drawn(cell, &tree);
        assert_eq!((at(0), at(1), at(2)), (Some((CellKind::Files, 0.9)), Some((CellKind::Rest, 0.25)), None));
        assert_eq!(at(64), Some((CellKind::Own, 0.35 + 0.65 * 0.1)));
        assert_eq!(
            at(70),
            Some((CellKind::Files, 0.2)),
            "also where the file system does not tell what is in use"
        );
    }
}
