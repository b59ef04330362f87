//! The publication's findings beside ours.

use maud::{Markup, html};

use super::Content;
use super::difference::number_of_pairs;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{in_unit, percent, ratio, significant};
use crate::stats::{Judgement, Verdict};
use crate::study::spec::ClaimSpec;

pub fn render(content: &Content<'_>) -> Option<Markup> {
    let spec = content.view.study.spec.as_ref().filter(|spec| !spec.claim.is_empty())?;
    let columns = [
        Column::text("The paper says"),
        Column::text("Published"),
        Column::number("We measured", ""),
        Column::text(format!("{} interval", percent(content.view.bootstrap.confidence))),
        Column::number("n", ""),
        Column::text("Verdict"),
        Column::text("What was checked"),
    ];
    let rows: Vec<Row> =
        spec.claim.iter().zip(content.judgements).map(|(claim, found)| row(claim, found)).collect();
    Some(html! {
        @if !spec.citation.is_empty() { p.lead { "Findings of " (spec.citation) ", checked against this run." } }
        (table("claim-table", "Published findings and whether they hold here", &columns, &rows))
        p.note { "A finding " em { "holds" } " or " em { "does not" } " only when the whole interval lies on one side of its bound; "
            "otherwise there is " em { "no evidence" } ". n counts trials or pairs of trials; with fewer than three, "
            "the interval shows the variation within the run only. A pair with a zero has no ratio and is left out; n says how many were. "
            "Each finding was given beforehand and is judged alone: of twenty that are untrue, one may seem to hold by chance." }
    })
}

fn row(claim: &ClaimSpec, found: &Judgement) -> Row {
    let in_words =
        |value: f64| if found.unit.is_empty() { ratio(value) } else { in_unit(value, &found.unit) };
    let statement = html! { (claim.statement) div.source { (claim.source) } };
    let interval = found.measured.and_then(|measured| measured.interval);
    let interval = interval.map_or_else(Cell::none, |interval| {
        let plain = |value: f64| if found.unit.is_empty() { significant(value) } else { in_words(value) };
        Cell::text(format!("{} to {}", plain(interval.low), plain(interval.high)))
    });
    let (word, class, reason) = match &found.verdict {
        Verdict::Holds => ("holds", "verdict holds", ""),
        Verdict::DoesNot => ("does not hold", "verdict does-not", ""),
        Verdict::NoEvidence { reason } => ("no evidence", "verdict no-evidence", reason.as_str()),
        Verdict::NotTested { reason } => ("not tested here", "verdict not-tested", reason.as_str()),
    };
    let verdict = html! { span class=(class) { (word) } @if !reason.is_empty() { div.source { (reason) } } };
    let basis = found.measured.map(|measured| measured.basis.describe());
    let checked = html! {
        @if !found.quantity.is_empty() { (found.quantity) }
        @if !found.condition.is_empty() { div.source { "must be " (found.condition) @if let Some(basis) = basis { "; interval " (basis) } } }
    };
    Row::from(vec![
        Cell::markup(&statement, format!("{} ({})", claim.statement, claim.source)).class("wide"),
        Cell::text(claim.published.clone()),
        Cell::maybe(found.measured.map(|measured| measured.value), in_words),
        interval.class("nowrap"),
        found.measured.map_or_else(Cell::none, |measured| {
            let n = fsage_engine::quantity::as_f64(measured.n.try_into().unwrap_or(0));
            Cell::number(number_of_pairs(&measured), n)
        }),
        Cell::markup(&verdict, format!("{word} {reason}").trim().to_owned()),
        Cell::markup(&checked, format!("{} {}", found.quantity, found.condition)).class("small"),
    ])
}
