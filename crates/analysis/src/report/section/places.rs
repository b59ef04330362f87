//! File placement: maps of each cell's volumes, and the read time of their files that is due to where they are.

use fsage_model::explanation::{Explanation, Item};
use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::explain::{in_short, legend, map, suggested_fixes, worst_table};
use crate::report::figure::select;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{nanoseconds, percent, ratio};
use crate::report::view::Places;

/// Files and directories that a table shows; the trial's folder has more.
const SHOWN: usize = 10;

pub(super) const SECTION: Section =
    Section { id: "places", title: "File placement", script: include_str!("../assets/places.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let places = &content.view.places;
    if places.is_empty() {
        return None;
    }
    let names: Vec<(String, String)> =
        places.iter().enumerate().map(|(number, place)| (number.to_string(), place.label.clone())).collect();
    let rows: Vec<Row> = places.iter().map(row).collect();
    Some(html! {
        p.lead { "The effect of data placement alone, by the device model: the time to read every file where it lay at the end, and in a copy in which \
            each file begins where the one before it ends. Extra time is the difference. The copy is a bound: ext4 lists files in another order \
            than that in which they were written." }
        (table("places-table", "Time to read all files, and suggested fixes", &columns(), &rows))
        @if content.view.trials.iter().any(|trial| trial.repeat > 0) {
            p.note { "With repeats the first trial of each cell is shown." }
        }
        div.places data-blocks="" {
            div.controls { (select("place", "show", &names, 0)) }
            @for (number, place) in places.iter().enumerate() { (block(number, place)) }
        }
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("volume"),
        Column::text("medium"),
        Column::number("now", "ns"),
        Column::number("now ÷ copy", ""),
        Column::number("defragmented", "ns"),
        Column::number("in a copy", "ns"),
        Column::number("in the trial's copy", "ns"),
        Column::number("inter-file score", ""),
        Column::text("suggested fix"),
    ]
}

fn row(place: &Places) -> Row {
    let Explanation { tree, medium, inter_file_score, .. } = &place.explanation;
    let ns = |value: u64| Cell::number(nanoseconds(as_f64(value)), as_f64(value));
    let against = as_f64(tree.now_ns) / as_f64(tree.copied_ns.max(1));
    let best = tree.remedies(place.copy_ns).into_iter().next().map(|(what, ns)| {
        let saved = 1.0 - as_f64(ns) / as_f64(tree.now_ns.max(1));
        format!("{what}: saves {}", percent((saved * 100.0).round() / 100.0))
    });
    Row::from(vec![
        Cell::text(place.label.clone()).class("label"),
        Cell::text(medium.clone()).class("nowrap"),
        ns(tree.now_ns),
        Cell::number(ratio(against), against),
        ns(tree.defragmented_ns),
        ns(tree.copied_ns),
        place.copy_ns.map_or_else(Cell::none, ns),
        Cell::number(percent((inter_file_score * 1000.0).round() / 1000.0), *inter_file_score),
        Cell::text(best.unwrap_or_else(|| "nothing that would save as much as 5 %".to_owned()))
            .class("small"),
    ])
}

/// One volume: its worst directory and file on the map, the tables, suggested fix.
fn block(number: usize, place: &Places) -> Markup {
    let explanation = &place.explanation;
    let shown = |items: &[Item]| items.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    html! {
        div data-block=(number) {
            h3 { (place.label) }
            p { (in_short(explanation)) }
            h4 { "Suggested fixes" }
            (suggested_fixes(&explanation.tree, place.copy_ns))
            @for note in &explanation.notes { p.note { (note) } }
            div.maps {
                @for (what, items) in [("directory", &explanation.directories), ("file", &explanation.files)] {
                    @if let Some(worst) = items.first() {
                        div { (map(&format!("The worst {what}: {}", worst.path), worst, explanation)) }
                    }
                }
            }
            (legend(explanation))
            @for (what, items) in [("directories", &explanation.directories), ("files", &explanation.files)] {
                h4 { "Worst " (what) }
                (worst_table(&format!("places-{number}-{what}"), &shown(items)))
            }
        }
    }
}
