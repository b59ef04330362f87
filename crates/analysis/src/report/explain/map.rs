//! The volume as a map: cells of equal length, row by row from its beginning.

use fsage_model::explanation::{COLUMNS, Item, ROWS};

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
            "█ its data  ▒ others or metadata  ░ under half used  · free"
        } else {
            "# its data  + others or metadata  - under half used  . free"
        }
    }

    /// What a cell is drawn as beside the files of `tree`, and how strongly (0..=1); nothing where it is
    /// free.
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
    use std::collections::BTreeMap;

    use super::*;

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
        // The tree's data is distinguished from the rest of what is in use.
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
