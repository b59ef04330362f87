//! Job files of fio that studies bring: their rates and latencies on each file system.

use std::collections::BTreeSet;

use fsage_model::metric;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::factor;
use crate::report::point::Job;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, in_unit, interval, significant};
use crate::stats::Evidence;
use crate::stats::evidence::level;

pub(super) const SECTION: Section = Section { id: "device-jobs", title: "fio job files", script: "", render };

/// The trials of one cell that ran a job.
struct Ran<'a> {
    job: &'a Job,
    file_system: &'a str,
    context: String,
    trials: Vec<&'a Evidence>,
}

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content);
    if found.is_empty() {
        return None;
    }
    let rows: Vec<Row> = found.iter().map(|one| row(one, content.view.confidence)).collect();
    Some(html! {
        p.lead { "Each job ran in its own directory, with files that fio laid out before the measured time." }
        (table("device-jobs-table", "fio job files", &columns(), &rows))
    })
}

fn all<'a>(content: &'a Content<'_>) -> Vec<Ran<'a>> {
    let view = content.view;
    let without = BTreeSet::from([factor::FILE_SYSTEM]);
    let mut found: Vec<Ran<'a>> = Vec::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        let context = factor::context(&trial.factors, &without);
        for job in &trial.jobs {
            let same = |one: &&mut Ran<'a>| {
                one.job == job && one.file_system == trial.file_system && one.context == context
            };
            match found.iter_mut().find(same) {
                Some(one) => one.trials.push(evidence),
                None => {
                    let (file_system, context) = (trial.file_system.as_str(), context.clone());
                    found.push(Ran { job, file_system, context, trials: vec![evidence] });
                }
            }
        }
    }
    found
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("job"),
        Column::text("file system"),
        Column::text("trials"),
        Column::number("operations per second", "1/s"),
        Column::text("interval"),
        Column::number("bandwidth", "bytes/s"),
        Column::number("mean latency", "ns"),
        Column::number("99th percentile of reads", "ns"),
        Column::number("99th percentile of writes", "ns"),
    ]
}

fn row(one: &Ran<'_>, confidence: f64) -> Row {
    let estimate = |number: &str| {
        let name = format!("{}{}", one.job.prefix, metric::of_point(&one.job.name, number));
        level(&one.trials, &name, confidence)
    };
    let value = |number: &str| estimate(number).map(|found| found.value);
    let time = |number: &str| Cell::maybe(value(number), |ns| in_unit(ns, "ns"));
    let iops = estimate(metric::IOPS);
    let trials = counted(one.trials.len(), "trial");
    let trials = if one.context.is_empty() { trials } else { format!("{}, {trials}", one.context) };
    Row {
        cells: vec![
            Cell::text(format!("{}{}", one.job.prefix, one.job.name)),
            Cell::text(one.file_system.to_owned()),
            Cell::text(trials).class("label"),
            Cell::maybe(iops.as_ref().map(|found| found.value), significant),
            Cell::text(iops.as_ref().map_or_else(String::new, |found| interval(found, significant))),
            Cell::maybe(value(metric::BANDWIDTH), |rate| in_unit(rate, "bytes/s")),
            time(metric::MEAN_NS),
            time(&format!("read_{}", metric::P99_NS)),
            time(&format!("write_{}", metric::P99_NS)),
        ],
        group: one.job.name.clone(),
        class: "",
    }
}
