//! Differences between factors: forest plot and table.

use maud::{Markup, html};

use super::{Content, Section};
use crate::report::difference::{Difference, FALSE_DISCOVERIES, Finding, metrics};
use crate::report::factor;
use crate::report::figure::{Figure, figure, select};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, grouped, metric, percent, ratio, significant};
use crate::stats::Estimate;

pub(super) const SECTION: Section = Section {
    id: "differences",
    title: "Differences",
    script: include_str!("../assets/difference.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    if content.view.trials.len() < 2 || content.differences.made.is_empty() {
        return None;
    }
    let names: Vec<(String, String)> =
        metrics(content.view).into_iter().map(|name| (name.clone(), metric(&name))).collect();
    let confidence = percent(content.view.confidence);
    let columns = [
        Column::text("metric"),
        Column::text("factor"),
        Column::text("compared"),
        Column::text("where"),
        Column::number("ratio", ""),
        Column::number("low", ""),
        Column::number("high", ""),
        Column::number("pairs", ""),
        Column::text("interval"),
        Column::text("tree"),
        Column::number("Cliff's δ", ""),
        Column::text("finding"),
        Column::text("survives correction"),
    ];
    let rows: Vec<Row> = content.differences.made.iter().map(row).collect();
    Some(html! {
        p.lead { (discoveries(content)) }
        (figure(&Figure {
            id: "difference-chart",
            kind: "differences",
            title: "Ratios between factor values",
            how_to_read: "a dot is the metric with the first value ÷ that with the second, the bar its interval; bars that cross \
                          the line at 1 are grey, because they are no evidence of a difference.",
            controls: select("metric", "metric", &names, 0),
            note: "",
        }))
        (table("difference-table", &format!("Ratios with {confidence} intervals for the metric chosen above"), &columns, &rows))
        (notes(content, &confidence))
    })
}

/// How many comparisons were made and what is left of them when that is taken into account.
fn discoveries(content: &Content<'_>) -> String {
    let made = &content.differences.made;
    let differ = made.iter().filter(|difference| difference.finding != Finding::NoEvidence).count();
    let survive = made.iter().filter(|difference| difference.survives).count();
    let number = |count: usize| grouped(u64::try_from(count).unwrap_or(u64::MAX));
    format!(
        "{} made: {} differ by their {} interval, {} after correction (false discovery rate {}, \
         Benjamini–Hochberg). No evidence of a difference is not evidence of no difference; more repeats narrow the intervals.",
        counted(made.len(), "comparison"),
        number(differ),
        percent(content.view.confidence),
        number(survive),
        percent(FALSE_DISCOVERIES),
    )
}

/// How the intervals were made, and what was left out.
fn notes(content: &Content<'_>, confidence: &str) -> Markup {
    let differences = content.differences;
    let zeros: usize = differences.made.iter().map(|difference| difference.estimate.zeros).sum();
    html! {
        p.note {
            "Repeats are the sampling units of an interval: Student's t on the logs of the ratios. Trials with different settings are not repeats of "
            "each other; contexts (cells of the factors that are held equal) are fixed effects with equal weights, and file systems "
            "and media are never averaged over. With one repeat there is no interval: low and high are then the range within that run, from the "
            "lowest to the highest block of neighbouring ticks or probes (in this run only), and the chart has no bar. Whether another run would "
            "show the same is not known. Equal repeats have an interval from six pairs on. Ratios over several pairs are geometric means."
        }
        p.note {
            "With " (confidence) " intervals some of " (counted(differences.made.len(), "comparison")) " differ by chance alone. "
            "Those marked as surviving do so at a false discovery rate of " (percent(FALSE_DISCOVERIES)) " over all of them (Benjamini & Hochberg 1995)."
            @if differences.left_out > 0 { " " (counted(differences.left_out, "further comparison")) " were left out." }
        }
        p.note {
            "Tree: the digest of names, sizes and data versions of what both sides had, where something was aged. "
            @let differ = differences.made.iter().filter(|difference| difference.trees.differ()).count();
            @if differ > 0 {
                b { (counted(differ, "comparison")) " of different trees" } ": the sides had different files, which may cause the difference."
            } @else { "No comparison is of trees that are known to differ." }
        }
        @if zeros > 0 {
            p.note.zeros { "A pair with a zero has no ratio: " (counted(zeros, "such pair")) " left out; the column of pairs says where." }
        }
        @if !differences.all_zero.is_empty() {
            details.zeros {
                summary { (counted(differences.all_zero.len(), "comparison")) " could not be made, because a side of every pair was 0" }
                ul { @for what in &differences.all_zero { li { (what) } } }
            }
        }
    }
}

/// Pairs behind an estimate, and those that a zero kept out.
pub fn number_of_pairs(estimate: &Estimate) -> String {
    match estimate.zeros {
        0 => estimate.n.to_string(),
        zeros => format!("{} ({zeros} with a zero left out)", estimate.n),
    }
}

fn row(difference: &Difference) -> Row {
    let estimate = &difference.estimate;
    let end = |pick: fn(&crate::stats::Interval) -> f64| {
        Cell::maybe(estimate.interval.or(estimate.range).as_ref().map(pick), significant)
    };
    let class = match difference.finding {
        Finding::Worse => "finding worse",
        Finding::Better => "finding better",
        Finding::Differs => "finding differs",
        Finding::OneRun => "finding one-run",
        Finding::NoEvidence => "finding no-evidence",
    };
    let finding = html! { span class=(class) { (difference.finding.words()) } };
    Row {
        cells: vec![
            Cell::text(metric(&difference.metric)).class("label"),
            Cell::text(factor::name(&difference.factor)),
            Cell::text(difference.sides.clone()).class("label"),
            Cell::text(difference.context.clone()).class("label"),
            Cell::number(ratio(estimate.value), estimate.value),
            end(|interval| interval.low),
            end(|interval| interval.high),
            Cell::number(
                number_of_pairs(estimate),
                fsage_model::quantity::as_f64(estimate.n.try_into().unwrap_or(0)),
            ),
            Cell::text(estimate.basis.describe()).class("small"),
            Cell::text(difference.trees.words()).class("small"),
            Cell::maybe(difference.delta, |delta| {
                format!("{delta:.2} ({})", crate::stats::effect::magnitude(delta).name())
            }),
            Cell::markup(&finding, difference.finding.words()),
            Cell::text(match (difference.survives, difference.finding) {
                (true, _) => "yes",
                (false, Finding::NoEvidence) => "–",
                (false, Finding::OneRun) => "not tested",
                (false, _) => "no: not significant after correction",
            }),
        ],
        group: difference.metric.clone(),
        class: if difference.finding == Finding::NoEvidence { "grey" } else { "" },
    }
}
