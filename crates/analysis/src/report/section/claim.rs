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
        Column::text("Finding"),
        Column::text("Published"),
        Column::number("Measured", ""),
        Column::text(format!("{} interval", percent(content.view.confidence))),
        Column::number("n", ""),
        Column::text("Verdict"),
    ];
    let rows: Vec<Row> =
        spec.claim.iter().zip(content.judgements).flat_map(|(claim, found)| rows(claim, found)).collect();
    Some(html! {
        @if !spec.citation.is_empty() { p.lead { "Findings of " (spec.citation) ", checked against this run." } }
        (table("claim-table", "Verdicts on published findings", &columns, &rows))
        p.note { "A finding " em { "holds" } " or is " em { "contradicted" } " only when the whole interval lies on one side of its bound; "
            "where it lies on both, what was measured is " em { "compatible with both" } ". Repeats are the sampling units, and a verdict needs three: with fewer it "
            "reads " em { "in this run" } ". " em { "Not comparable" } ": a condition of the finding is not met here, a warning makes its numbers unfit, or the sides did different work. "
            "A finding about a count (" em { "never" } ", " em { "exists" } ") is decided by one occurrence; without any it reads " em { "not seen" } ", with the number of logs as n. "
            "n counts trials or pairs of trials. Measured values are geometric means over rounds and repeats, arithmetic ones of shares "
            "and of counts that may be 0. A pair or trial with a zero has no ratio and is left out; n says how many were. "
            "A finding with several clauses has a line for each, and holds if all of them do. A finding about each value of a factor, or measured on several file systems or media, has a line for each: it holds if it holds for all of "
            "them, and is contradicted if it is for one. "
            em { "Fragile" } ": without one of the repeats, or with one parameter of the medium changed by up to a fifth (where the study priced that), the "
            "verdict would differ. "
            "Each finding was given beforehand and is judged alone: of twenty false ones, one may hold by chance." }
    })
}

/// The claim's row, and one for each value of the factor that it is judged by.
fn rows(claim: &ClaimSpec, found: &Judgement) -> Vec<Row> {
    let statement = html! {
        (claim.statement) div.source { (claim.source) }
        @if !found.quantity.is_empty() { div.source { (found.quantity) } }
    };
    let raw = format!("{} ({}) {}", claim.statement, claim.source, found.quantity);
    let own = (found.unit.as_str(), found.condition.as_str());
    let verdict = (&found.verdict, found.fragile.as_deref());
    let first = row(own, Cell::markup(&statement, raw), &claim.published, verdict, found.measured);
    let tested = found.each.iter().any(|part| part.measured.is_some());
    let parts = found.each.iter().filter(|_| tested).map(|part| {
        let value = factor::value(claim.each.as_deref().unwrap_or_default(), &part.value);
        let verdict = (&part.verdict, part.fragile.as_deref());
        let what = html! { div.part { b { (value) } div.source { (claim.statement) } } };
        let raw = format!("{} ({}) {value}", claim.statement, claim.source);
        row((&part.unit, &part.condition), Cell::markup(&what, raw), "", verdict, part.measured)
    });
    std::iter::once(first).chain(parts).collect()
}

fn row(
    (unit, condition): (&str, &str),
    what: Cell,
    published: &str,
    (verdict, fragile): (&ClaimVerdict, Option<&str>),
    measured: Option<Estimate>,
) -> Row {
    let in_words = |value: f64| if unit.is_empty() { ratio(value) } else { in_unit(value, unit) };
    let plain = |value: f64| if unit.is_empty() { significant(value) } else { in_words(value) };
    let interval = measured.and_then(|measured| measured.interval).map_or_else(Cell::none, |interval| {
        let cell = Cell::text(format!("{} to {}", plain(interval.low), plain(interval.high)));
        // With units it is long, and may take two lines.
        cell.class(if unit.is_empty() { "nowrap" } else { "" })
    });
    let word = verdict.words();
    let class = match verdict {
        ClaimVerdict::Holds => "verdict holds",
        ClaimVerdict::Contradicted => "verdict does-not",
        ClaimVerdict::Compatible { .. } | ClaimVerdict::InThisRun { .. } | ClaimVerdict::NotSeen { .. } => {
            "verdict no-evidence"
        }
        ClaimVerdict::NotComparable { .. } => "verdict not-tested",
    };
    let reason = verdict.reason().or(fragile).unwrap_or_default();
    let mut why = Vec::new();
    if !condition.is_empty() {
        why.push(format!("must be {condition}"));
    }
    if let Some(measured) = measured {
        let basis = measured.basis.describe();
        why.push(match (measured.interval, measured.range) {
            (Some(_), _) => format!("interval {basis}"),
            (None, Some(range)) => format!("{basis}, {} to {}", plain(range.low), plain(range.high)),
            (None, None) => basis.to_owned(),
        });
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
