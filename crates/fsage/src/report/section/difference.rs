//! Differences between factors: forest plot and table.

use maud::{Markup, html};

use super::Content;
use crate::report::difference::{Difference, Finding, metrics};
use crate::report::factor;
use crate::report::figure::{Figure, figure, select};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, metric, percent, ratio, significant};

pub fn render(content: &Content<'_>) -> Option<Markup> {
    if content.view.trials.len() < 2 || content.differences.is_empty() {
        return None;
    }
    let names: Vec<(String, String)> =
        metrics(content.view).into_iter().map(|name| (name.clone(), metric(&name))).collect();
    let confidence = percent(content.view.bootstrap.confidence);
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
        Column::number("Cliff's δ", ""),
        Column::text("finding"),
    ];
    let rows: Vec<Row> = content.differences.iter().map(row).collect();
    Some(html! {
        (figure(&Figure {
            id: "difference-chart",
            kind: "differences",
            title: "How much one choice differs from another",
            how_to_read: "a dot is how many times as large the metric is with the first choice as with the second, the bar \
                          its interval; bars that cross the line at 1 are grey, because they are no evidence of a difference.",
            controls: select("metric", "metric", &names, 0),
            note: "",
        }))
        (table("difference-table", &format!("Ratios with {confidence} bootstrap intervals for the metric chosen above"), &columns, &rows))
        p.note {
            "Three or more pairs of trials: pairs are drawn (BCa from eight pairs on, percentile below, where intervals are rather "
            "too narrow). One or two: blocks of neighbouring ticks or probes within each run are drawn, which tells how steady "
            "the difference was within that run, not whether another run would show it. Ratios over several pairs are geometric means. "
            "With " (confidence) " intervals some of " (counted(content.differences.len(), "comparison")) " differ by chance alone."
            @if content.left_out > 0 { " " (counted(content.left_out, "further comparison")) " were left out." }
        }
    })
}

fn row(difference: &Difference) -> Row {
    let estimate = &difference.estimate;
    let end = |pick: fn(&crate::stats::Interval) -> f64| {
        Cell::maybe(estimate.interval.as_ref().map(pick), significant)
    };
    let class = match difference.finding {
        Finding::Worse => "finding worse",
        Finding::Better => "finding better",
        Finding::Differs => "finding differs",
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
                estimate.n.to_string(),
                fsage_engine::quantity::as_f64(estimate.n.try_into().unwrap_or(0)),
            ),
            Cell::text(estimate.basis.describe()).class("small"),
            Cell::maybe(difference.delta, |delta| {
                format!("{delta:.2} ({})", crate::stats::effect::magnitude(delta).name())
            }),
            Cell::markup(&finding, difference.finding.words()),
        ],
        group: difference.metric.clone(),
        class: if difference.finding == Finding::NoEvidence { "grey" } else { "" },
    }
}
