//! Controls: one state measured twice, and slowdowns of known size.

use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::control::{CLOSE, Kind, NEAR, Outcome, Row as Found, summary};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{percent, ratio, significant};

pub(super) const SECTION: Section = Section { id: "controls", title: "Controls", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let summary = summary(content.controls)?;
    let confidence = percent(content.view.confidence);
    let columns = [
        Column::text("control"),
        Column::text("metric"),
        Column::text("cell"),
        Column::number("measured", ""),
        Column::number("low", ""),
        Column::number("high", ""),
        Column::number("real", ""),
        Column::number("pairs", ""),
        Column::text("outcome"),
    ];
    let rows: Vec<Row> = content.controls.iter().map(row).collect();
    Some(html! {
        p.lead { (summary.line()) }
        @if summary.identical > 0 {
            p.note { "Numbers that are identical to the last digit show that the run is repeatable; the intervals of the study's own comparisons show how "
                "far repeats with other seeds differ." }
        }
        @if summary.is_failed() {
            p.state role="status" { "No published finding is judged, because the study's numbers are wrong where the true value is known." }
        }
        (table("control-table", &format!("Each control against its cell, with {confidence} intervals"), &columns, &rows))
        p.note {
            b { "Measured twice" } ": the same image restored and measured once more, as if it were another state. What differs is a false alarm; "
            "at " (confidence) " some do by chance, after the correction (false discovery rate 5 %, Benjamini–Hochberg) none should. "
            @if let Some(margin) = summary.margin {
                "A measure is equal when its whole interval lies within " (percent(margin)) " either way (" code { "controls.margin" } "). "
            }
            b { "Known slowdown" } ": while it was measured, the virtual disk took longer for each request. Real is what the disk counted as added; "
            "the slowdown is found when it survives the correction and its interval meets the real one within " (percent(NEAR - 1.0)) ". "
            b { "Added requests" } ": direct reads at random offsets of the device were added to the measure; neither the file system nor the disk can "
            "distinguish them from others. Real is how much longer they made it, by the measure's own clock; its interval has to meet it within " (percent(CLOSE - 1.0)) "."
        }
    })
}

fn row(found: &Found) -> Row {
    let end = |pick: fn(&crate::stats::Interval) -> f64| {
        Cell::maybe(found.estimate.interval.as_ref().map(pick), significant)
    };
    let class = match found.outcome() {
        Outcome::Untold => "finding no-evidence",
        Outcome::Passes => "finding better",
        Outcome::Fails => "finding worse",
    };
    let words = found.words();
    let outcome = html! { span class=(class) { (words) } };
    let kind = match found.kind {
        Kind::Same => "measured twice",
        Kind::Slow => "known slowdown",
        Kind::Extra => "added requests",
    };
    Row {
        cells: vec![
            Cell::text(kind),
            Cell::text(found.metric.clone()).class("label"),
            Cell::text(found.context.clone()).class("label"),
            Cell::number(ratio(found.estimate.value), found.estimate.value),
            end(|interval| interval.low),
            end(|interval| interval.high),
            Cell::number(ratio(found.real), found.real),
            Cell::number(found.estimate.n.to_string(), as_f64(found.estimate.n.try_into().unwrap_or(0))),
            Cell::markup(&outcome, words.clone()),
        ],
        group: kind.to_owned(),
        class: if found.passes() { "grey" } else { "" },
    }
}
