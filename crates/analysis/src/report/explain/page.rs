//! Explanations as one self-contained page in the report's style, and the parts of it that the report has
//! too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fsage_model::explanation::{CELLS, COLUMNS, Explanation, Item, ROWS};
use fsage_model::quantity::{as_f64, to_u64};
use maud::{Markup, html};

use super::map::{CellKind, Map};
use crate::report::alone;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, grouped, nanoseconds, percent, ratio};

/// Side of a cell in the drawing's own units.
const SIDE: usize = 12;

/// Steps of strength that are distinguished in a drawing: cells of one are one path, which is a sixth of the
/// size.
const STEPS: f64 = 10.0;

/// What times on a page are of.
const FOOTER: &str = "Times are by a model of the medium that is named, for data only: inodes, directories and the CPU are left out. \
    Everything on this page is in this one file.";

/// The page of one directory as HTML text.
#[must_use]
pub fn page(explanation: &Explanation, path: &Path) -> String {
    let title = format!("Read time of {}", path.display());
    let content = html! {
        header { h1 { (title) } p.question { (in_short(explanation)) } }
        (parts("", explanation, None))
    };
    alone::page(&title, "", &content, FOOTER)
}

/// One of several explanations on a page.
#[derive(Debug, Clone)]
pub struct Titled<'a> {
    /// What it is called.
    pub name: String,
    /// What was found.
    pub explanation: &'a Explanation,
    /// Time to read the fresh copy that was made, where one was.
    pub copy_ns: Option<u64>,
}

/// The page of several explanations as HTML text.
#[must_use]
pub fn pages(title: &str, explained: &[Titled<'_>]) -> String {
    let content = html! {
        header {
            h1 { (title) }
            ul { @for (number, titled) in explained.iter().enumerate() { li { a href=(format!("#{number}")) { (titled.name) } } } }
        }
        @for (number, Titled { name, explanation, copy_ns }) in explained.iter().enumerate() {
            section id=(number) { h2 { (name) } p { (in_short(explanation)) } }
            (parts(&format!("{number}-"), explanation, *copy_ns))
        }
    };
    alone::page(title, "", &content, FOOTER)
}

/// Everything about one explanation; `prefix` keeps its names apart from others' on the page.
fn parts(prefix: &str, explanation: &Explanation, copy_ns: Option<u64>) -> Markup {
    html! {
        section {
            h2 { "Suggested fixes" }
            (suggested_fixes(&explanation.tree, copy_ns))
            @for note in &explanation.notes { p.note { (note) } }
            (map("The whole tree", &explanation.tree, explanation))
            (legend(explanation))
        }
        @for (title, id, items) in [("Directories", "directories", &explanation.directories), ("Files", "files", &explanation.files)] {
            section {
                h2 { (title) }
                (worst_table(&format!("{prefix}{id}"), items))
                @for item in items { (map(&item.path, item, explanation)) }
            }
        }
    }
}

/// One sentence.
pub fn in_short(explanation: &Explanation) -> String {
    let tree = &explanation.tree;
    format!(
        "{} files, {}, in {} extents: reading them on {} takes {}, a fresh copy {} ({}). {} of the files begin where the previously read file ends.",
        grouped(tree.files),
        bytes(as_f64(tree.bytes)),
        grouped(tree.extents),
        explanation.medium,
        nanoseconds(as_f64(tree.now_ns)),
        nanoseconds(as_f64(tree.copied_ns)),
        ratio(as_f64(tree.now_ns) / as_f64(tree.copied_ns.max(1))),
        percent(explanation.inter_file_score),
    )
}

/// Suggested fixes for a tree, with what reading it would then take.
pub(crate) fn suggested_fixes(tree: &Item, made_ns: Option<u64>) -> Markup {
    let remedies = tree.remedies(made_ns);
    html! {
        @if remedies.is_empty() {
            p { "Nothing that would save as much as 5 %: it lies about as well as a copy." }
        } @else {
            ul.findings {
                @for (what, ns) in remedies {
                    li { (what) ": " b { (nanoseconds(as_f64(ns))) } " instead of " (nanoseconds(as_f64(tree.now_ns))) " (" (ratio(as_f64(ns) / as_f64(tree.now_ns.max(1)))) ")" }
                }
            }
        }
    }
}

/// The worst files or directories; `id` is unique on the page.
pub(crate) fn worst_table(id: &str, items: &[Item]) -> Markup {
    let columns = [
        Column::text("path"),
        Column::number("files", ""),
        Column::number("extents", ""),
        Column::number("size", "bytes"),
        Column::number("now", "ns"),
        Column::number("defragmented", "ns"),
        Column::number("in a copy", "ns"),
        Column::number("extra", "ns"),
    ];
    let ns = |value: u64| Cell::number(nanoseconds(as_f64(value)), as_f64(value));
    let count = |value: u64| Cell::number(grouped(value), as_f64(value));
    let row = |item: &Item| {
        Row::from(vec![
            Cell::text(item.path.clone()).class("wide"),
            count(item.files),
            count(item.extents),
            Cell::number(bytes(as_f64(item.bytes)), as_f64(item.bytes)),
            ns(item.now_ns),
            ns(item.defragmented_ns),
            ns(item.copied_ns),
            ns(item.extra_ns()),
        ])
    };
    let rows: Vec<Row> = items.iter().map(row).collect();
    html! {
        @if items.is_empty() { p { "None takes longer than in a copy." } } @else {
            (table(id, "Largest extra time first", &columns, &rows))
        }
    }
}

/// The volume, cell by cell, with an item of an explanation on it.
pub(crate) fn map(title: &str, item: &Item, explanation: &Explanation) -> Markup {
    let map = Map::new(item, &explanation.used);
    let mut paths: BTreeMap<(CellKind, u64), String> = BTreeMap::new();
    for index in 0..COLUMNS * ROWS {
        let Some((kind, strength)) = map.drawn(index, &explanation.tree) else { continue };
        let path = paths.entry((kind, to_u64((strength * STEPS).ceil()))).or_default();
        let (x, y) = (index % COLUMNS * SIDE, index / COLUMNS * SIDE);
        // A square that leaves a line of one unit to its neighbours.
        let _ = write!(path, "M{x} {y}h{side}v{side}h-{side}z", side = SIDE - 1);
    }
    html! {
        p.map-title { b { (title) } }
        svg.map viewBox=(format!("0 0 {} {}", COLUMNS * SIDE, ROWS * SIDE)) role="img" aria-label=(format!("Where the data of {title} lies on the volume")) {
            rect.free x="0" y="0" width=(COLUMNS * SIDE) height=(ROWS * SIDE) {}
            @for ((kind, step), path) in &paths { path.(class(*kind)) opacity=(format!("{:.1}", as_f64(*step) / STEPS)) d=(path) {} }
        }
    }
}

const fn class(kind: CellKind) -> &'static str {
    match kind {
        CellKind::Own => "own",
        CellKind::Files => "files",
        CellKind::Rest => "rest",
    }
}

/// The legend of [`map`].
pub(crate) fn legend(explanation: &Explanation) -> Markup {
    html! {
        p.note.map-legend {
            "The volume from its beginning, row by row: "
            span.own { "■" } " its own data, " span.files { "■" } " other files of the tree, "
            @if explanation.used.is_empty() { "the rest free or not known; " } @else {
                span.rest { "■" } " metadata and what else is in use, the rest free; "
            }
            "the stronger, the more of a cell. A cell is " (bytes(as_f64(explanation.volume_bytes) / as_f64(CELLS))) "."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation() -> Explanation {
        let item = |path: &str, cells: &[(usize, f64)]| Item {
            path: path.to_owned(),
            files: 1,
            bytes: 4096,
            extents: 1,
            now_ns: 3_000_000,
            defragmented_ns: 2_000_000,
            copied_ns: 1_000_000,
            cells: cells.iter().copied().collect(),
        };
        Explanation {
            medium: "hdd-7200".to_owned(),
            volume_bytes: 1 << 30,
            tree: item(".", &[(0, 0.5), (65, 1.0)]),
            directories: vec![item("<d>", &[(0, 0.5)])],
            files: Vec::new(),
            inter_file_score: 0.5,
            used: vec![1.0; 70],
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn a_map_has_a_path_for_each_kind_and_strength() {
        let explanation = explanation();
        insta::assert_snapshot!(map("d", &explanation.directories[0], &explanation).into_string());
    }

    #[test]
    fn several_explanations_are_told_apart() {
        let explanation = explanation();
        let titled =
            |name: &str, copy_ns| Titled { name: name.to_owned(), explanation: &explanation, copy_ns };
        let page = pages("Why", &[titled("one", None), titled("two", Some(1_500_000))]);
        // The copy that is estimated, and the one that was made.
        assert_eq!(
            (page.matches("<b>1.00 ms</b>").count(), page.matches("<b>1.50 ms</b>").count()),
            (1, 1),
            "{page}"
        );
        for part in ["id=\"0-directories\"", "id=\"1-directories\"", "href=\"#1\"", "&lt;d&gt;", "a note"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("None takes longer").count(), 2);
        let unknown = Explanation { used: Vec::new(), ..explanation };
        assert!(legend(&unknown).into_string().contains("free or not known"));
    }
}
