//! Ageing slowdown: ratios with their intervals, and how the layout explains them.

use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::age_cost::{AgeCost, all, refused};
use crate::report::difference::Finding;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, in_unit, percent, ratio, significant, words};

pub(super) const SECTION: Section = Section { id: "age-cost", title: "Ageing slowdown", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let costs = all(content.view);
    let refused = refused(content.view);
    if costs.is_empty() && refused.is_empty() {
        return None;
    }
    let confidence = percent(content.view.confidence);
    let rows: Vec<Row> = costs.iter().map(row).collect();
    Some(html! {
        p.lead { (in_short(&costs)) }
        @if !refused.is_empty() {
            p.state role="status" {
                "Not comparable, because the states did different work: " (refused.join("; ")) ". A ratio needs the same work on both sides."
            }
        }
        (table("age-cost-table", &format!("All metrics of all measures, with {confidence} intervals"), &columns(), &rows))
        p.note {
            "Cold means unmounted and mounted again before each measure; loop files bypass the host's page cache. "
            "The interval is Student's t over repeats; with one repeat there is none. A difference is significant only if it survives a correction for all " (counted(rows.len(), "comparison"))
            " (false discovery rate 5 %, Benjamini–Hochberg); the intervals themselves are not corrected. Sides whose bytes differ by more than "
            "1 % did different work: their ratio is shown, but not judged."
        }
    })
}

/// What the comparisons with an unaged copy show significantly: in time, and in block requests.
fn in_short(costs: &[AgeCost]) -> String {
    let fair: Vec<&AgeCost> =
        costs.iter().filter(|cost| cost.against == "unaged" && cost.same_work).collect();
    if fair.is_empty() {
        let unequal = costs.iter().any(|cost| cost.against == "unaged");
        let why = if unequal {
            "No comparison with an unaged copy did the same work on both sides."
        } else {
            "No trial has a copy of the aged tree to be compared with."
        };
        return why.to_owned();
    }
    let (headlines, beside): (Vec<&AgeCost>, Vec<&AgeCost>) =
        fair.into_iter().partition(|cost| cost.metric == cost.measure);
    let testable = |costs: &[&AgeCost]| costs.iter().filter(|cost| cost.estimate.p.is_some()).count();
    if testable(&headlines) == 0 {
        return format!(
            "{} with an unaged copy, none with repeats: a test needs two repeats or more.",
            counted(headlines.len(), "comparison")
        );
    }
    let of = counted(testable(&headlines), "comparison");
    let time = match worse(&headlines, |cost| words(&cost.measure)) {
        (0, _) => {
            format!(
                "No measure is significantly slower on an aged file system than on an unaged copy ({of})."
            )
        }
        (n, which) => format!(
            "The aged file system is significantly slower than an unaged copy in {n} of {of}: {which}."
        ),
    };
    let device = match worse(&beside, |cost| format!("{} of {}", number(cost), words(&cost.measure))) {
        (0, _) => "No count of block requests differs significantly.".to_owned(),
        (n, which) => {
            format!("Block requests differ significantly in {n} of {}: {which}.", testable(&beside))
        }
    };
    format!("{time} {device}")
}

/// How many are significantly worse, and the clearest six of them in words.
fn worse(costs: &[&AgeCost], name: impl Fn(&AgeCost) -> String) -> (usize, String) {
    let mut found: Vec<&&AgeCost> = costs.iter().filter(|cost| cost.finding == Finding::Worse).collect();
    let far = |cost: &AgeCost| cost.estimate.value.ln().abs();
    found.sort_by(|a, b| far(b).total_cmp(&far(a)));
    let mut parts: Vec<String> = found
        .iter()
        .take(6)
        .map(|cost| format!("{} on {} ({})", name(cost), cost.file_system, ratio(cost.estimate.value)))
        .collect();
    if found.len() > parts.len() {
        parts.push("and others below".to_owned());
    }
    (found.len(), parts.join(", "))
}

/// What was compared, and where.
fn compared(cost: &AgeCost) -> String {
    let context = if cost.context.is_empty() { String::new() } else { format!(" ({})", cost.context) };
    format!("aged{context} ÷ {}", cost.against)
}

/// A number of a measure in words.
fn number(cost: &AgeCost) -> String {
    match cost.metric.strip_prefix(&format!("{}.", cost.measure)) {
        Some(name) => words(name),
        None if cost.unit == "bytes/s" => "throughput".to_owned(),
        None => "time".to_owned(),
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("measure"),
        Column::text("metric"),
        Column::text("file system"),
        Column::text("compared"),
        Column::number("aged", ""),
        Column::number("reference", ""),
        Column::number("ratio", ""),
        Column::number("low", ""),
        Column::number("high", ""),
        Column::number("pairs", ""),
        Column::text("interval"),
        Column::text("tree"),
        Column::text("finding"),
    ]
}

fn row(cost: &AgeCost) -> Row {
    let end = |pick: fn(&crate::stats::Interval) -> f64| {
        Cell::maybe(cost.estimate.interval.as_ref().map(pick), significant)
    };
    let class = match cost.finding {
        _ if !cost.same_work => "finding no-evidence",
        Finding::Worse => "finding worse",
        Finding::Better => "finding better",
        Finding::Differs => "finding differs",
        Finding::OneRun => "finding one-run",
        Finding::NoEvidence => "finding no-evidence",
    };
    let said = match (cost.same_work, cost.corrected) {
        (false, _) => "different work",
        (_, true) => "not significant after correction",
        _ => cost.finding.words(),
    };
    let finding = html! { span class=(class) { (said) } };
    Row {
        cells: vec![
            Cell::text(words(&cost.measure)),
            Cell::text(number(cost)).class("label"),
            Cell::text(cost.file_system.clone()),
            Cell::text(compared(cost)).class("label"),
            Cell::number(in_unit(cost.aged, &cost.unit), cost.aged),
            Cell::number(in_unit(cost.other, &cost.unit), cost.other),
            Cell::number(ratio(cost.estimate.value), cost.estimate.value),
            end(|interval| interval.low),
            end(|interval| interval.high),
            Cell::number(cost.estimate.n.to_string(), as_f64(cost.estimate.n.try_into().unwrap_or(0))),
            Cell::text(cost.estimate.basis.describe()).class("small"),
            Cell::text(cost.trees.words()).class("small"),
            Cell::markup(&finding, said),
        ],
        group: cost.measure.clone(),
        class: if cost.finding == Finding::NoEvidence { "grey" } else { "" },
    }
}
