//! Ageing slowdown: ratios with their intervals, and how the layout explains them.

use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::age_cost::{AgeCost, all, points};
use crate::report::difference::Finding;
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, in_unit, percent, ratio, significant, words};

pub(super) const SECTION: Section = Section {
    id: "age-cost",
    title: "Ageing slowdown",
    script: include_str!("../assets/age_cost.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    let costs = all(content.view);
    if costs.is_empty() {
        return None;
    }
    let confidence = percent(content.view.bootstrap.confidence);
    let rows: Vec<Row> = costs.iter().map(row).collect();
    let others: Vec<(String, String)> = ["unaged", "fresh"]
        .iter()
        .filter(|other| costs.iter().any(|cost| cost.against == **other))
        .map(|other| ((*other).to_owned(), format!("aged ÷ {other}")))
        .collect();
    Some(html! {
        p.lead { (in_short(&costs)) }
        (figure(&Figure {
            id: "age-cost-chart",
            kind: "age_cost",
            title: &content.view.timed("Ageing slowdown"),
            how_to_read: "a dot is how many times as much a measure takes on the aged file system as on the other state of the same \
                          volume, the bar its interval; bars that cross the line at 1 are hollow, because they are no \
                          evidence of a difference. Unaged is a copy of the same tree, fresh a newly made file system.",
            controls: choice("against", "compared with", &others),
            note: "",
        }))
        (scatter(content))
        (table("age-cost-table", &format!("Every number of every measure, with {confidence} intervals"), &columns(), &rows))
        p.note {
            "Cold means unmounted and mounted again before each measure; loop files bypass the host's page cache. "
            "A difference counts when it survives a correction for all " (counted(rows.len(), "comparison"))
            " (false discovery rate 5 %, Benjamini–Hochberg); the intervals themselves are not corrected."
        }
    })
}

/// What the comparisons with an unaged copy show significantly: in time, and in block requests.
fn in_short(costs: &[AgeCost]) -> String {
    let fair: Vec<&AgeCost> = costs.iter().filter(|cost| cost.against == "unaged").collect();
    if fair.is_empty() {
        return "No trial has a copy of the aged tree to be compared with.".to_owned();
    }
    let (headlines, beside): (Vec<&AgeCost>, Vec<&AgeCost>) =
        fair.into_iter().partition(|cost| cost.metric == cost.measure);
    let testable = |costs: &[&AgeCost]| costs.iter().filter(|cost| cost.estimate.interval.is_some()).count();
    if testable(&headlines) == 0 {
        return format!(
            "{} with an unaged copy, none of them with an interval: more repeats would give one.",
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

fn scatter(content: &Content<'_>) -> Markup {
    let points = points(content.view);
    let mut names: Vec<(String, String)> = Vec::new();
    for point in &points {
        if !names.iter().any(|(name, _)| *name == point.measure) {
            names.push((point.measure.clone(), words(&point.measure)));
        }
    }
    // The cold read of everything is what the score was made for.
    let chosen = names.iter().position(|(name, _)| name == "grep").unwrap_or(0);
    html! {
        @if !points.is_empty() {
            (figure(&Figure {
                id: "layout-cost-chart",
                kind: "layout_cost",
                title: "How the layout explains the cost",
                how_to_read: "each point is a trial: the further left, the fewer of the blocks that were asked for followed the one before; \
                              the higher, the longer the measure took. Points that rise to the left mean that time follows layout; \
                              a flat cloud means that this storage hides it.",
                controls: html! {
                    (select("measure", "measure", &names, chosen))
                    (choice("scale", "cost axis", &options(&[("linear", "linear"), ("log", "log")])))
                },
                note: "Dynamic layout score: the share of blocks requested from the device that directly follow the one requested before \
                       (Conway et al. 2017).",
            }))
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("measure"),
        Column::text("number"),
        Column::text("file system"),
        Column::text("compared"),
        Column::number("aged", ""),
        Column::number("other", ""),
        Column::number("ratio", ""),
        Column::number("low", ""),
        Column::number("high", ""),
        Column::number("pairs", ""),
        Column::text("finding"),
    ]
}

fn row(cost: &AgeCost) -> Row {
    let end = |pick: fn(&crate::stats::Interval) -> f64| {
        Cell::maybe(cost.estimate.interval.as_ref().map(pick), significant)
    };
    let class = match cost.finding {
        Finding::Worse => "finding worse",
        Finding::Better => "finding better",
        Finding::Differs => "finding differs",
        Finding::NoEvidence => "finding no-evidence",
    };
    let finding = html! { span class=(class) { (cost.finding.words()) } };
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
            Cell::markup(&finding, cost.finding.words()),
        ],
        group: cost.measure.clone(),
        class: if cost.finding == Finding::NoEvidence { "grey" } else { "" },
    }
}
