//! How long flash lasts under daily use.

use std::collections::BTreeSet;

use fsage_model::metric;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::factor;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, counted, in_unit, percent, significant};
use crate::stats::evidence::level;
use crate::stats::{Estimate, Evidence, Interval};

pub(super) const SECTION: Section = Section { id: "wear", title: "Wear and lifetime", script: "", render };

/// The trials of one cell, and what daily use did there.
struct Used<'a> {
    file_system: &'a str,
    context: String,
    /// What the names of the stage's metrics begin with.
    prefix: &'a str,
    trials: Vec<&'a Evidence>,
}

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content);
    if found.is_empty() {
        return None;
    }
    let rows: Vec<Row> = found.iter().map(|one| row(content, one)).collect();
    let confidence = percent(content.view.confidence);
    Some(html! {
        (table("wear", &format!("Daily use, with {confidence} intervals"), &columns(), &rows))
        p.note {
            "A cycle is one program/erase cycle of all of the drive's flash: programs of garbage collection, padding and the map are included, those of the SLC cache are not. "
            "Where a drive collected hardly any garbage, its write amplification is not known, and there are no cycles. "
            "Lifetime is the number of cycles that the study says the flash is rated for, divided by the cycles per year of this use; it assumes perfect wear "
            "levelling and constant use. Intervals cover the spread of repeats of this use, not other use or the drive's rating. "
            "Where a stage takes more cycles than the previous one with the same use, the drive has not reached its steady state. Whether two rows differ is tested in the comparisons below, not shown by their order here."
        }
    })
}

fn all<'a>(content: &'a Content<'_>) -> Vec<Used<'a>> {
    let view = content.view;
    let without = BTreeSet::from([factor::FILE_SYSTEM]);
    let mut found: Vec<Used<'a>> = Vec::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        let context = factor::context(&trial.factors, &without);
        for prefix in evidence.metrics.keys().filter_map(|name| name.strip_suffix(metric::WRITTEN_PER_DAY)) {
            let same = |one: &&mut Used<'a>| {
                one.file_system == trial.file_system && one.context == context && one.prefix == prefix
            };
            match found.iter_mut().find(same) {
                Some(one) => one.trials.push(evidence),
                None => {
                    let (file_system, context) = (&trial.file_system, context.clone());
                    found.push(Used { file_system, context, prefix, trials: vec![evidence] });
                }
            }
        }
    }
    found
}

fn of(one: &Used<'_>, name: &str, confidence: f64) -> Option<Estimate> {
    level(&one.trials, &format!("{}{name}", one.prefix), confidence)
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("file system"),
        Column::text("stage"),
        Column::text("trials"),
        Column::number("written to the device per day", "bytes"),
        Column::number("write amplification of the drive", ""),
        Column::number("cycles per year", ""),
        Column::text("interval"),
        Column::number("lifetime", "years"),
        Column::text("interval"),
        Column::number("mean time per operation", "ns"),
    ]
}

fn row(content: &Content<'_>, one: &Used<'_>) -> Row {
    let estimate = |name: &str| of(one, name, content.view.confidence);
    let value = |name: &str| estimate(name).map(|found| found.value);
    let (cycles, lifetime) = (estimate(metric::WEAR_CYCLES), estimate(metric::LIFETIME_YEARS));
    let repeats = counted(one.trials.len(), "trial");
    Row {
        cells: vec![
            Cell::text(one.file_system.to_owned()),
            Cell::text(one.prefix.trim_end_matches('.').to_owned()),
            Cell::text(if one.context.is_empty() { repeats } else { format!("{}, {repeats}", one.context) })
                .class("label"),
            Cell::maybe(value(metric::WRITTEN_PER_DAY), bytes),
            Cell::maybe(value(metric::DRIVE_AMPLIFICATION), significant),
            Cell::maybe(cycles.as_ref().map(|found| found.value), significant),
            Cell::text(cycles.as_ref().map_or_else(String::new, interval)),
            Cell::maybe(lifetime.as_ref().map(|found| found.value), significant),
            Cell::text(lifetime.as_ref().map_or_else(String::new, interval)),
            Cell::maybe(value(metric::OPERATION_NS), |ns| in_unit(ns, "ns")),
        ],
        group: one.file_system.to_owned(),
        class: "",
    }
}

/// The interval of an estimate, or why there is none.
fn interval(found: &Estimate) -> String {
    match found.interval {
        Some(Interval { low, high }) => format!("{} to {}", significant(low), significant(high)),
        None => found.basis.describe().to_owned(),
    }
}
