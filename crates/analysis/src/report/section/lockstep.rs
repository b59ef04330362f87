//! Usage or fullness: volumes that were driven in lock-step, against each other and against a fresh copy.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::lockstep::{Cost, Run, all, costs};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, percent, ratio, significant, words};

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
    let costs = costs(content.view);
    let measures: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.measures.iter().map(|measure| measure.name.as_str())).collect();
    let measures: Vec<(String, String)> =
        measures.into_iter().map(|name| (name.to_owned(), words(name))).collect();
    let scale = || choice("scale", "y axis", &options(&[("linear", "linear"), ("log", "log")]));
    let confidence = percent(content.view.confidence);
    let rows: Vec<Row> = costs.iter().map(row).collect();
    Some(html! {
        @if let Some(kernel) = kernel(content) { p.lead { "Kernel " (kernel) ". The " a href="#summary" { "answer" } " is at the top of this page." } }
        (figure(&Figure {
            id: "lockstep-read-chart",
            kind: "lockstep_read",
            title: &content.view.timed("Measures by round"),
            how_to_read: "lines of one colour are volumes with the same files at every round. The gap between the dotted line (a fresh copy) and \
                          the dashed one (nearly empty) is the effect of use, that between the dashed and the solid one (full) the effect of fullness.",
            controls: html! { (select("measure", "measure", &measures, 0)) (scale()) },
            note: "Cold: unmounted and mounted again before each reading. With repeats, each trial has its own line.",
        }))
        (figure(&Figure {
            id: "lockstep-write-chart",
            kind: "lockstep_write",
            title: &content.view.timed("Write time per GiB by round"),
            how_to_read: "a dot is the time per GiB to write one round's new files, including the final sync; the line is the mean over nine \
                          rounds. Solid is the full volume, dashed the nearly empty one.",
            controls: scale(),
            note: "Deletions are not included: everything is written back before the new files are written.",
        }))
        (free(&runs))
        (table("lockstep-table", &format!("Ratios between volumes over the second half of the rounds, with {confidence} intervals"), &columns(), &rows))
        p.note { "Ratios are geometric means over rounds or looks, and over repeats. Repeats are the sampling units of an interval; with one repeat there is "
            "none, and low and high are the range within that run, which says nothing about another run." }
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
                title: "Free space by extent size and round",
                how_to_read: "a bar is the free space in extents of one size (powers of two), a colour one round. Fragmentation moves free space \
                              to the left; free space at the right has room for contiguous new files.",
                controls: html! {
                    (select("run", "show", &names, 0))
                    (choice("what", "bars are", &options(&[("bytes", "bytes"), ("count", "extents")])))
                },
                note: "",
            }))
        }
    }
}

/// The kernel, where all trials had the same.
fn kernel<'a>(content: &Content<'a>) -> Option<&'a str> {
    let mut kernels = content.view.trials.iter().map(|trial| trial.host.kernel.as_str());
    let first = kernels.next().filter(|first| !first.is_empty())?;
    kernels.all(|other| other == first).then_some(first)
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("measure"),
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
        Cell::maybe(cost.estimate.interval.or(cost.estimate.range).as_ref().map(pick), significant)
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
