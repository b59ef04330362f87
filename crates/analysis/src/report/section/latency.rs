//! Latency: its evolution and its order statistics.

use std::collections::BTreeSet;

use fsage_model::operation::OperationKind;
use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::headline::flags;
use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{grouped, words};
use crate::report::view::{Clocks, View};

/// Operations that any trial has a latency for.
fn kinds(view: &View) -> Vec<OperationKind> {
    let known: BTreeSet<OperationKind> =
        view.ages().flat_map(|(_, age)| age.result.latency.keys().copied()).collect();
    known.into_iter().collect()
}

pub(super) const CHART: Section = Section {
    id: "latency",
    title: "Latency over time",
    script: include_str!("../assets/latency.js"),
    render: chart,
};

fn chart(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let latencies = || view.ages().filter_map(|(_, age)| age.latency.as_ref());
    let merged = latencies().map(|latency| latency.merged).max()?;
    let names: Vec<(String, String)> =
        kinds(view).iter().map(|kind| (kind.name().to_owned(), words(kind.name()))).collect();
    let windows: BTreeSet<usize> =
        latencies().flat_map(|latency| latency.kinds.values().map(|kind| kind.window)).collect();
    let model = view.clocks() != Clocks::Wall;
    let controls = html! {
        (select("operation", "operation", &names, 0))
        (choice("scale", "latency axis", &options(&[("log", "log"), ("linear", "linear")])))
        (choice("also", "also", &options(&[("p99", "p99"), ("max", "largest"), ("none", "nothing")])))
        (choice("x", "over", &options(&[("operations", "operations"), ("seconds", if model { "wall time" } else { "time" })])))
        (choice("points", "points", &options(&[("yes", "shown"), ("no", "hidden")])))
    };
    Some(figure(&Figure {
        id: "latency-chart",
        kind: "latency",
        title: &view.timed("Latency during ageing"),
        how_to_read: "each dot is the median of a short section of the run, the thick line the smoothed median, the thin one the latency \
                      that one operation in a hundred exceeds; a line that rises to the right means that the operation gets slower with age. \
                      All panels share their axes: drag to zoom one and the others follow, double-click to reset.",
        controls,
        note: &(note(merged, &windows) + if model { MODEL_NOTE } else { "" }),
    }))
}

/// What is different by a disk's own clock.
const MODEL_NOTE: &str = " In model time an operation that stays in the page cache takes no time: where every tick's median is 0, the tick's mean is drawn.";

fn note(merged: usize, windows: &BTreeSet<usize>) -> String {
    let mut note =
        "Repeats share a line: their median at each point. Smoothing: Savitzky–Golay, order 3, window 101, over every tick median; where it swings far below \
                    every point, next to an outlier, no line is drawn."
            .to_owned();
    let short: Vec<usize> = windows.iter().copied().filter(|&window| window > 0 && window < 101).collect();
    if let (Some(first), Some(last)) = (short.first(), short.last()) {
        let range = if first == last { first.to_string() } else { format!("{first}–{last}") };
        note.push_str(&format!(" Where fewer ticks had the operation, the window was shortened to {range}."));
    }
    if windows.contains(&0) {
        note.push_str(" Series of three ticks or fewer are not smoothed.");
    }
    if merged > 1 {
        note.push_str(&format!(
            " To keep the page small, up to {merged} neighbouring ticks share a point, which shows their smallest \
             minimum, the median of their medians, their largest p99 and their largest maximum."
        ));
    }
    note
}

pub(super) const TABLES: Section =
    Section { id: "operations", title: "Latency by operation", script: "", render: tables };

fn tables(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let kinds = kinds(view);
    if kinds.is_empty() {
        return None;
    }
    let mut columns = vec![Column::text("operation"), Column::text("trial"), Column::number("successes", "")];
    columns.extend(["median", "mean", "p99", "p99.9", "largest"].map(|title| Column::number(title, "ns")));
    let mut rows = Vec::new();
    for kind in kinds {
        for (trial, age) in view.ages() {
            let Some(latency) = age.result.latency.get(&kind) else { continue };
            let ns = |value: f64| Cell::number(trial.latency(value), value);
            let name = html! { (age.label) (flags(trial)) };
            rows.push(Row {
                cells: vec![
                    Cell::text(words(kind.name())),
                    Cell::markup(&name, age.label.clone()).class("label"),
                    Cell::number(grouped(latency.count), as_f64(latency.count)),
                    ns(as_f64(latency.p50_ns)),
                    ns(latency.mean_ns),
                    ns(as_f64(latency.p99_ns)),
                    ns(as_f64(latency.p999_ns)),
                    ns(as_f64(latency.max_ns)),
                ],
                group: kind.name().to_owned(),
                class: "",
            });
        }
    }
    Some(html! {
        p.lead { "Over the whole of each run, successful operations only, open and close included. "
            "p99 is the latency that one operation in a hundred exceeds, p99.9 one in a thousand." }
        (table("latency-table", &view.timed("Latency by operation and trial"), &columns, &rows))
    })
}
