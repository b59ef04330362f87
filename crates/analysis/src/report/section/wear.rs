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
    cycles: Estimate,
}

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content);
    if found.is_empty() {
        return None;
    }
    let rows: Vec<Row> = found.iter().map(|one| row(content, one)).collect();
    let confidence = percent(content.view.confidence);
    Some(html! {
        p.lead { (in_short(&found)) }
        (table("wear", &format!("Daily use, with {confidence} intervals"), &columns(), &rows))
        p.note {
            "A cycle is all of the drive's flash programmed once, what garbage collection and the map add included, without the cache of one bit a cell. "
            "Lifetime is the number of cycles that the study says the flash is rated for, divided by the cycles of a year of this use: as if wear were levelled "
            "perfectly, and this use and this file system's state went on as they were measured. Intervals tell how far repeats of this use differ, and nothing of "
            "other people's use or of the drive's own rating."
        }
    })
}

fn all<'a>(content: &'a Content<'_>) -> Vec<Used<'a>> {
    let view = content.view;
    let without = BTreeSet::from([factor::FILE_SYSTEM]);
    let mut found: Vec<Used<'a>> = Vec::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        let context = factor::context(&trial.factors, &without);
        for prefix in evidence.metrics.keys().filter_map(|name| name.strip_suffix(metric::WEAR_CYCLES)) {
            let same = |one: &&mut Used<'a>| {
                one.file_system == trial.file_system && one.context == context && one.prefix == prefix
            };
            match found.iter_mut().find(same) {
                Some(one) => one.trials.push(evidence),
                None => found.push(Used {
                    file_system: &trial.file_system,
                    context: context.clone(),
                    prefix,
                    trials: vec![evidence],
                    // Settled below, when all trials are there.
                    cycles: match level(
                        &[evidence],
                        &format!("{prefix}{}", metric::WEAR_CYCLES),
                        view.confidence,
                    ) {
                        Some(cycles) => cycles,
                        None => continue,
                    },
                }),
            }
        }
    }
    for one in &mut found {
        one.cycles = of(one, metric::WEAR_CYCLES, view.confidence).unwrap_or(one.cycles);
    }
    found
}

fn of(one: &Used<'_>, name: &str, confidence: f64) -> Option<Estimate> {
    level(&one.trials, &format!("{}{name}", one.prefix), confidence)
}

/// The least and the most wear.
fn in_short(found: &[Used<'_>]) -> String {
    let by = |a: &&Used<'_>, b: &&Used<'_>| a.cycles.value.total_cmp(&b.cycles.value);
    let name = |one: &Used<'_>| match one.context.as_str() {
        "" => one.file_system.to_owned(),
        context => format!("{} ({context})", one.file_system),
    };
    match (found.iter().min_by(by), found.iter().max_by(by)) {
        (Some(least), Some(most)) if found.len() > 1 => format!(
            "Of {}, {} wears the flash least and {} most: {} and {} cycles a year. Whether two of them differ, their intervals tell.",
            counted(found.len(), "configuration"),
            name(least),
            name(most),
            significant(least.cycles.value),
            significant(most.cycles.value)
        ),
        (Some(one), _) => format!("{} takes {} cycles a year.", name(one), significant(one.cycles.value)),
        _ => String::new(),
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("file system"),
        Column::text("trials"),
        Column::number("written to the device a day", "bytes"),
        Column::number("write amplification of the drive", ""),
        Column::number("cycles a year", ""),
        Column::text("interval"),
        Column::number("lifetime", "years"),
        Column::text("interval"),
        Column::number("mean time of an operation", "ns"),
    ]
}

fn row(content: &Content<'_>, one: &Used<'_>) -> Row {
    let estimate = |name: &str| of(one, name, content.view.confidence);
    let value = |name: &str| estimate(name).map(|found| found.value);
    let lifetime = estimate(metric::LIFETIME_YEARS);
    let repeats = counted(one.trials.len(), "trial");
    Row {
        cells: vec![
            Cell::text(one.file_system.to_owned()),
            Cell::text(if one.context.is_empty() { repeats } else { format!("{}, {repeats}", one.context) })
                .class("label"),
            Cell::maybe(value(metric::WRITTEN_PER_DAY), bytes),
            Cell::maybe(value(metric::DRIVE_AMPLIFICATION), significant),
            Cell::number(significant(one.cycles.value), one.cycles.value),
            Cell::text(interval(&one.cycles)),
            Cell::maybe(lifetime.as_ref().map(|found| found.value), significant),
            Cell::text(lifetime.as_ref().map_or_else(String::new, interval)),
            Cell::maybe(value(metric::OPERATION_NS), |ns| in_unit(ns, "model ns")),
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
