//! The publication's findings beside ours.

use fsage_model::study::ClaimSpec;
use maud::{Markup, html};

use super::difference::number_of_pairs;
use super::{Content, Section};
use crate::report::factor;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{in_unit, percent, ratio, significant};
use crate::stats::{ClaimVerdict, Estimate, Judgement};

pub(super) const SECTION: Section = Section { id: "claims", title: "Published findings", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let spec = content.view.study.spec.as_ref().filter(|spec| !spec.claim.is_empty())?;
    let columns = [
        Column::text("The paper says"),
        Column::text("Published"),
        Column::number("We measured", ""),
        Column::text(format!("{} interval", percent(content.view.bootstrap.confidence))),
        Column::number("n", ""),
        Column::text("Verdict"),
    ];
    let rows: Vec<Row> =
        spec.claim.iter().zip(content.judgements).flat_map(|(claim, found)| rows(claim, found)).collect();
    Some(html! {
        @if !spec.citation.is_empty() { p.lead { "Findings of " (spec.citation) ", checked against this run." } }
        (table("claim-table", "Published findings and whether they hold here", &columns, &rows))
        p.note { "A finding " em { "holds" } " or " em { "does not" } " only when the whole interval lies on one side of its bound; "
            "otherwise there is " em { "no evidence" } ". n counts trials or pairs of trials; with fewer than three, "
            "the interval shows the variation within the run only. A pair with a zero has no ratio and is left out; n says how many were. "
            "A finding about each value of a factor has a line for each: it holds if it holds for all of them, and does not if it does not for one. "
            "Each finding was given beforehand and is judged alone: of twenty that are untrue, one may seem to hold by chance." }
    })
}

/// The claim's row, and one for each value of the factor that it is judged by.
fn rows(claim: &ClaimSpec, found: &Judgement) -> Vec<Row> {
    let statement = html! {
        (claim.statement) div.source { (claim.source) }
        @if !found.quantity.is_empty() { div.source { (found.quantity) } }
    };
    let raw = format!("{} ({}) {}", claim.statement, claim.source, found.quantity);
    let first = row(found, Cell::markup(&statement, raw), &claim.published, &found.verdict, found.measured);
    let tested = !matches!(found.verdict, ClaimVerdict::NotTested { .. });
    let parts = found.each.iter().filter(|_| tested).map(|part| {
        let value = factor::value(claim.each.as_deref().unwrap_or_default(), &part.value);
        let what = html! { div.part { b { (value) } div.source { (claim.statement) } } };
        let raw = format!("{} ({}) {value}", claim.statement, claim.source);
        row(found, Cell::markup(&what, raw), "", &part.verdict, part.measured)
    });
    std::iter::once(first).chain(parts).collect()
}

fn row(
    found: &Judgement,
    what: Cell,
    published: &str,
    verdict: &ClaimVerdict,
    measured: Option<Estimate>,
) -> Row {
    let in_words =
        |value: f64| if found.unit.is_empty() { ratio(value) } else { in_unit(value, &found.unit) };
    let plain = |value: f64| if found.unit.is_empty() { significant(value) } else { in_words(value) };
    let interval = measured.and_then(|measured| measured.interval).map_or_else(Cell::none, |interval| {
        let cell = Cell::text(format!("{} to {}", plain(interval.low), plain(interval.high)));
        // With units it is long, and may take two lines.
        cell.class(if found.unit.is_empty() { "nowrap" } else { "" })
    });
    let (word, class) = match verdict {
        ClaimVerdict::Holds => ("holds", "verdict holds"),
        ClaimVerdict::DoesNot => ("does not hold", "verdict does-not"),
        ClaimVerdict::NoEvidence { .. } => ("no evidence", "verdict no-evidence"),
        ClaimVerdict::NotTested { .. } => ("not tested here", "verdict not-tested"),
    };
    let reason = verdict.reason().unwrap_or_default();
    let mut why = Vec::new();
    if !found.condition.is_empty() {
        why.push(format!("must be {}", found.condition));
    }
    if let Some(measured) = measured {
        let basis = measured.basis.describe();
        why.push(if measured.interval.is_some() { format!("interval {basis}") } else { basis.to_owned() });
    }
    let why = why.join("; ");
    let verdict = html! {
        span class=(class) { (word) }
        @if !reason.is_empty() { div.source { (reason) } }
        @if !why.is_empty() { div.source { (why) } }
    };
    let raw: Vec<&str> = [word, reason, &why].into_iter().filter(|text| !text.is_empty()).collect();
    Row::from(vec![
        what.class("wide"),
        Cell::text(published),
        Cell::maybe(measured.map(|measured| measured.value), in_words),
        interval,
        measured.map_or_else(Cell::none, |measured| {
            let n = fsage_model::quantity::as_f64(measured.n.try_into().unwrap_or(0));
            Cell::number(number_of_pairs(&measured), n)
        }),
        Cell::markup(&verdict, raw.join("; ")),
    ])
}
