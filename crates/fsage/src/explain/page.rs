//! The explanation as one self-contained page in the report's style.

use std::path::Path;

use fsage_engine::quantity::as_f64;
use maud::{Markup, html};

use super::map::{COLUMNS, Map, ROWS};
use super::{Explanation, Item, remedies};
use crate::report::alone;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, grouped, nanoseconds, percent, ratio};

/// What only this page needs.
const OWN_STYLE: &str = ".map{width:100%;max-width:56rem;height:auto;display:block;margin:.5rem 0 1.2rem} \
    .map rect{stroke:none} .map .free{fill:#8a97a626} .map .other{fill:#8a97a6} .map .own{fill:#d55e00} .map-title{margin:.8rem 0 .2rem}";

/// Side of a cell in the drawing's own units.
const SIDE: usize = 12;

/// The page as HTML text.
#[must_use]
pub fn page(explanation: &Explanation, path: &Path) -> String {
    let title = format!("Why {} is slow to read", path.display());
    let content = html! {
        header { h1 { (title) } p.question { (in_short(explanation)) } }
        section {
            h2 { "What would mend it" }
            (mend(&explanation.tree))
            @for note in &explanation.notes { p.note { (note) } }
            (map("The whole tree", &explanation.tree, &explanation.used))
            p.note { "The volume from its beginning, row by row: orange is the tree's own data, grey what else is in use, metadata among it." }
        }
        (worst("Directories", "directories", &explanation.directories, &explanation.used))
        (worst("Files", "files", &explanation.files, &explanation.used))
    };
    let footer = format!(
        "Times are by a model of {}, for data only: inodes, directories and the CPU are left out. Everything on this page is in this one file.",
        explanation.medium
    );
    alone::page(&title, OWN_STYLE, &content, &footer)
}

/// One sentence.
pub(crate) fn in_short(explanation: &Explanation) -> String {
    let tree = &explanation.tree;
    format!(
        "{} files, {}, in {} pieces: on {} reading them takes {}, of a fresh copy {} ({}). {} of the files lie directly behind the one that is read before them.",
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

fn mend(tree: &Item) -> Markup {
    let remedies = remedies(tree);
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

fn worst(title: &str, id: &str, items: &[Item], used: &[f64]) -> Markup {
    let columns = [
        Column::text("path"),
        Column::number("files", ""),
        Column::number("pieces", ""),
        Column::number("size", "bytes"),
        Column::number("now", "ns"),
        Column::number("in one piece each", "ns"),
        Column::number("in a copy", "ns"),
        Column::number("extra", "ns"),
    ];
    let ns = |value: u64| Cell::number(nanoseconds(as_f64(value)), as_f64(value));
    let count = |value: u64| Cell::number(grouped(value), as_f64(value));
    let rows: Vec<Row> = items
        .iter()
        .map(|item| {
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
        })
        .collect();
    html! {
        section {
            h2 { (title) }
            @if items.is_empty() { p { "None takes longer than it would in a copy." } } @else {
                (table(id, "Those that take most beyond what they would in a copy, worst first", &columns, &rows))
                @for item in items { (map(&item.path, item, used)) }
            }
        }
    }
}

/// The volume, cell by cell.
fn map(title: &str, item: &Item, used: &[f64]) -> Markup {
    let map = Map::new(item, used);
    let cell = |index: usize| {
        let (x, y) = (index % COLUMNS * SIDE, index / COLUMNS * SIDE);
        let (own, other) = map.shares(index);
        let (class, opacity) = if own > 0.0 { ("own", 0.35 + 0.65 * own) } else { ("other", other) };
        let strength = format!("{opacity:.2}");
        html! { @if opacity > 0.0 { rect.(class) x=(x) y=(y) width=(SIDE - 1) height=(SIDE - 1) opacity=(strength) {} } }
    };
    html! {
        p.map-title { b { (title) } }
        svg.map viewBox=(format!("0 0 {} {}", COLUMNS * SIDE, ROWS * SIDE)) role="img" aria-label=(format!("Where the data of {title} lies on the volume")) {
            rect.free x="0" y="0" width=(COLUMNS * SIDE) height=(ROWS * SIDE) {}
            @for index in 0..COLUMNS * ROWS { (cell(index)) }
        }
    }
}
