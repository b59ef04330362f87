//! Usage or fullness: volumes that were driven in lock-step, against each other and against a fresh copy.

use std::collections::BTreeSet;

use fsage_model::metric::over_parts;
use fsage_model::study::UNAGED;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::factor;
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::lockstep::{Run, all};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, percent, ratio, significant, words};
use crate::report::view::Trial;
use crate::stats::evidence::level;
use crate::stats::{ClaimVerdict, Estimate, Evidence};

/// What volumes are called where a stage has the three states of Conway et al. 2019.
const FULL: &str = "full";
const EMPTY: &str = "empty";

/// Ratios nearer to each other than this are about the same.
const NEAR: f64 = 1.05;

/// A ratio between two volumes in the trials of one file system and context.
struct Cost {
    file_system: String,
    context: String,
    /// `grep`, `write`.
    what: String,
    above: String,
    below: String,
    estimate: Estimate,
}

pub(super) const SECTION: Section = Section {
    id: "lockstep",
    title: "Usage or fullness",
    script: include_str!("../assets/lockstep.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    let runs = all(content.view);
    if runs.is_empty() {
        return None;
    }
    let costs = costs(content);
    let measures: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.measures.iter().map(|measure| measure.name.as_str())).collect();
    let measures: Vec<(String, String)> =
        measures.into_iter().map(|name| (name.to_owned(), words(name))).collect();
    let scale = || choice("scale", "cost axis", &options(&[("linear", "linear"), ("log", "log")]));
    let confidence = percent(content.view.bootstrap.confidence);
    let rows: Vec<Row> = costs.iter().map(row).collect();
    Some(html! {
        @if let Some(kernel) = kernel(content) { p.lead { "On kernel " (kernel) ":" } }
        ul.findings {
            @for line in conclusion(&costs) { li { (line) } }
            @if let Some(line) = findings(content) { li { (line) } }
        }
        (figure(&Figure {
            id: "lockstep-read-chart",
            kind: "lockstep_read",
            title: &content.view.timed("What reading everything costs, round by round"),
            how_to_read: "all volumes of a colour hold the same files at every round. The step from the dotted line (a fresh copy) to the dashed \
                          one (nearly empty) is what use costs; the step from there to the solid one is what fullness adds.",
            controls: html! { (select("measure", "measure", &measures, 0)) (scale()) },
            note: "Cold: unmounted and mounted again before each reading. With repeats each trial has its line.",
        }))
        (figure(&Figure {
            id: "lockstep-write-chart",
            kind: "lockstep_write",
            title: &content.view.timed("What writing costs, round by round"),
            how_to_read: "a dot is what one round's new files took for each GiB, the sync at its end included; the line is their mean over \
                          nine rounds. Solid is the full volume, dashed the nearly empty one.",
            controls: scale(),
            note: "What a round deletes is not part of it: everything is written out before the new files come.",
        }))
        (free(&runs))
        (table("lockstep-table", &format!("Volumes against each other, over the second half of the rounds, with {confidence} intervals"), &columns(), &rows))
        p.note { "Trials are the units of an interval where there are three or more; else it shows how rounds vary within one run." }
    })
}

fn free(runs: &[Run]) -> Markup {
    let names: Vec<(String, String)> = runs
        .iter()
        .enumerate()
        .filter(|(_, run)| run.free.iter().flatten().any(Option::is_some))
        .map(|(index, run)| (index.to_string(), run.label.clone()))
        .collect();
    html! {
        @if !names.is_empty() {
            (figure(&Figure {
                id: "lockstep-free-chart",
                kind: "lockstep_free",
                title: "Free space by extent size, round by round",
                how_to_read: "a bar is the free space in extents of one size (powers of two), a colour one moment of the run. Free space that \
                              use breaks up moves to the left; what a volume still has at the right is room for new files in one piece.",
                controls: html! {
                    (select("run", "show", &names, 0))
                    (choice("what", "bars are", &options(&[("bytes", "bytes"), ("count", "extents")])))
                },
                note: "",
            }))
        }
    }
}

/// Every ratio of every kind of trial.
fn costs(content: &Content<'_>) -> Vec<Cost> {
    let view = content.view;
    let context = |trial: &Trial| factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM]));
    let mut kinds: Vec<(String, String)> = Vec::new();
    for trial in view.trials.iter().filter(|trial| trial.lockstep.is_some()) {
        let kind = (context(trial), trial.file_system.clone());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut costs = Vec::new();
    for (where_, file_system) in kinds {
        let chosen: Vec<&Evidence> = view
            .trials
            .iter()
            .zip(&view.evidence)
            .filter(|(trial, _)| trial.file_system == file_system && context(trial) == where_)
            .map(|(_, evidence)| evidence)
            .collect();
        let names: BTreeSet<&String> = chosen.iter().flat_map(|evidence| evidence.metrics.keys()).collect();
        for name in names {
            let Some((above, below, what)) = over_parts(name) else { continue };
            let Some(estimate) = level(&chosen, name, &view.bootstrap) else { continue };
            costs.push(Cost {
                file_system: file_system.clone(),
                context: where_.clone(),
                what: what.to_owned(),
                above: above.to_owned(),
                below: below.to_owned(),
                estimate,
            });
        }
    }
    costs
}

/// The kernel, where all trials had the same.
fn kernel<'a>(content: &Content<'a>) -> Option<&'a str> {
    let mut kernels = content.view.trials.iter().map(|trial| trial.host.kernel.as_str());
    let first = kernels.next().filter(|first| !first.is_empty())?;
    kernels.all(|other| other == first).then_some(first)
}

/// What came out, in words: for each kind of trial what use and what fullness cost.
fn conclusion(costs: &[Cost]) -> Vec<String> {
    let reads = costs.iter().filter(|cost| cost.below == UNAGED && cost.above == EMPTY);
    reads.filter_map(|read| sentence(read, costs)).collect()
}

fn sentence(read: &Cost, costs: &[Cost]) -> Option<String> {
    let when_full = |what: &str| {
        costs.iter().find(|other| {
            (&other.file_system, &other.context) == (&read.file_system, &read.context)
                && (other.above.as_str(), other.below.as_str()) == (FULL, EMPTY)
                && other.what == what
        })
    };
    let fullness = when_full(&read.what)?;
    let more = match (read.estimate.value, fullness.estimate.value) {
        (usage, full) if usage > full * NEAR => "use costs more than fullness",
        (usage, full) if full > usage * NEAR => "fullness costs more than use",
        _ => "use and fullness cost about the same",
    };
    let place = if read.context.is_empty() { String::new() } else { format!(" on {}", read.context) };
    let write = when_full("write")
        .map_or_else(String::new, |cost| format!(" Writing takes {} when full.", ratio(cost.estimate.value)));
    Some(format!(
        "{}{place}: {} takes {} as long as on a fresh copy after use, and {} as long again when full: {more}.{write}",
        read.file_system,
        words(&read.what),
        ratio(read.estimate.value),
        ratio(fullness.estimate.value),
    ))
}

/// How many of the publication's findings hold, and which do not.
fn findings(content: &Content<'_>) -> Option<String> {
    let spec = content.view.study.spec.as_ref()?;
    let count = |wanted: fn(&ClaimVerdict) -> bool| {
        content.judgements.iter().filter(|found| wanted(&found.verdict)).count()
    };
    let holds = count(|verdict| matches!(verdict, ClaimVerdict::Holds));
    let open = count(|verdict| matches!(verdict, ClaimVerdict::NoEvidence { .. }));
    let fails: Vec<String> = spec
        .claim
        .iter()
        .zip(content.judgements)
        .filter(|(_, found)| found.verdict == ClaimVerdict::DoesNot)
        .map(|(claim, found)| {
            let parts = found.each.iter().filter(|part| part.verdict == ClaimVerdict::DoesNot);
            let path = claim.each.as_deref().unwrap_or_default();
            let parts: Vec<String> = parts.map(|part| factor::value(path, &part.value)).collect();
            let of = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
            format!("“{}”{of}", claim.statement)
        })
        .collect();
    let list = if fails.is_empty() { String::new() } else { format!(": {}", fails.join("; ")) };
    let text = format!(
        "Of the published findings {} here, there is no evidence for {open}, and {} not hold{list}.",
        if holds == 1 { "1 holds".to_owned() } else { format!("{holds} hold") },
        if fails.len() == 1 { "1 does".to_owned() } else { format!("{} do", fails.len()) },
    );
    (holds + open + fails.len() > 0).then_some(text)
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("what"),
        Column::text("file system"),
        Column::text("trials"),
        Column::text("compared"),
        Column::number("ratio", ""),
        Column::number("low", ""),
        Column::number("high", ""),
        Column::text("interval"),
    ]
}

fn row(cost: &Cost) -> Row {
    let end = |pick: fn(&crate::stats::Interval) -> f64| {
        Cell::maybe(cost.estimate.interval.as_ref().map(pick), significant)
    };
    let n = counted(cost.estimate.n, "trial");
    Row {
        cells: vec![
            Cell::text(words(&cost.what)),
            Cell::text(cost.file_system.clone()),
            Cell::text(if cost.context.is_empty() { n.clone() } else { format!("{} · {n}", cost.context) }),
            Cell::text(format!("{} ÷ {}", cost.above, cost.below)),
            Cell::number(ratio(cost.estimate.value), cost.estimate.value),
            end(|interval| interval.low),
            end(|interval| interval.high),
            Cell::text(cost.estimate.basis.describe()),
        ],
        group: cost.what.clone(),
        class: "",
    }
}
