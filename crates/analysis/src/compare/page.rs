//! The comparison as one self-contained page in the report's style.

use maud::{Markup, html};

use super::overlay::{self, overlay};
use super::{Comparison, Finding, Row, SideFacts};
use crate::report::alone;
use crate::report::table::{Cell, Column, table};
use crate::report::text;
use crate::stats::quantile::count;

/// The page as HTML text.
#[must_use]
pub fn page(comparison: &Comparison) -> String {
    let columns = [
        Column::text("Metric"),
        Column::text("Where"),
        Column::number("A", ""),
        Column::number("B", ""),
        Column::text("B against A"),
        Column::number("p", ""),
        Column::number("Adjusted p", ""),
        Column::text("Effect"),
        Column::number("Trials", ""),
        Column::number("Repeats", ""),
        Column::text("Interval"),
        Column::text("Tree"),
        Column::text("Remarks"),
    ];
    let rows: Vec<_> = comparison.rows.iter().map(|row| cells(row).into()).collect();
    let caption = format!(
        "{} intervals over repeats; p adjusted for {} rows (Benjamini and Hochberg 1995). A and B are arithmetic means, ratios \
         those of geometric means.",
        text::percent(comparison.confidence),
        comparison.rows.len()
    );
    let sides = (comparison.a.selection.as_str(), comparison.b.selection.as_str());
    let rates = overlay(&comparison.rows, sides);
    let style = if rates.is_some() { overlay::STYLE } else { "" };
    let content = html! {
        header { h1 { "Comparison" } }
        @if let Some(rates) = rates { (rates) }
        section {
            ul { (side("A", &comparison.a)) (side("B", &comparison.b)) }
            @for note in &comparison.notes { p.state role="status" { (note) } }
            (table("comparison", &caption, &columns, &rows))
        }
    };
    alone::page("Comparison", style, &content, "Everything on this page is in this one file.")
}

fn side(name: &str, side: &SideFacts) -> Markup {
    html! {
        li {
            (name) ": " code { (side.selection) } ", " (text::counted(side.trials, "trial"))
            @for (kind, number) in &side.warnings { ", " (number) " × " abbr title=(kind.explanation()) { (kind) } }
        }
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let value = |value: f64| Cell::number(text::in_unit(value, &row.unit), value);
    let p = |p: Option<f64>| Cell::maybe(p, text::significant);
    let class = match row.finding {
        Finding::Worse => "worse",
        Finding::Better => "better",
        Finding::Differs | Finding::NoEvidence | Finding::NotComparable => "",
    };
    vec![
        Cell::text(&row.metric),
        Cell::text(&row.context),
        value(row.mean_a),
        value(row.mean_b),
        Cell::text(&row.words).class(class),
        p(row.p),
        p(row.p_adjusted),
        Cell::text(effect(row)),
        Cell::text(format!("{} / {}", row.n_a, row.n_b)),
        Cell::number(row.units.to_string(), count(row.units)),
        Cell::text(method(row.method)),
        Cell::text(row.trees.words()),
        Cell::text(row.remarks()),
    ]
}

/// A method by the usual name of its test; the JSON keeps fsage's own.
fn method(name: &'static str) -> &'static str {
    match name {
        "signs (no spread)" => "sign test (no spread)",
        "arrangement (no spread)" => "permutation test (no spread)",
        other => other,
    }
}

fn effect(row: &Row) -> String {
    match (row.cliffs_delta, row.magnitude) {
        (Some(delta), Some(word)) => format!("{delta:+.2} {word}"),
        _ => String::new(),
    }
}
