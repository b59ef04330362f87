//! Remedies with their gain, their cost, and how long it lasts.

use maud::{Markup, html};

use super::{Content, Section};
use crate::report::difference::Finding;
use crate::report::remedy::{Helped, Remedied, all, in_words};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, counted, in_unit, percent, significant, words};
use crate::stats::Estimate;

pub(super) const SECTION: Section = Section { id: "remedies", title: "Remedies", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    if found.is_empty() {
        return None;
    }
    let rows: Vec<Row> =
        found.iter().flat_map(|one| one.measures.iter().map(move |measure| gain_row(one, measure))).collect();
    let costs: Vec<Row> = found.iter().map(cost_row).collect();
    let compared =
        found.iter().flat_map(|one| &one.measures).filter(|one| one.against_control.is_some()).count();
    let confidence = percent(content.view.confidence);
    Some(html! {
        p.lead { (in_short(&found)) }
        (table("remedies-gain", &format!("Each measure after the remedy, with {confidence} intervals"), &gain_columns(), &rows))
        (table("remedies-cost", "Cost of the remedies, geometric means over trials", &cost_columns(), &costs))
        p.note {
            "A ratio below ×1 is faster. The control is the same volume with nothing done to it, measured and used in the same way, pair by "
            "pair from the same image; the copy is a fresh file system with the same files. Where the remedy deleted files, "
            "measures that read the old files did different work, and have no ratio. "
            (content.view.timed("Time and wear of the remedies"))
            ": by the device's own clock and counters; of a copy, the time of the slower device and the wear of the new one. A finding is significant only if it survives "
            "a correction for all " (counted(compared, "comparison")) " with the control (false discovery rate 5 %, Benjamini–Hochberg)."
        }
    })
}

/// The clearest help in each place.
fn in_short(found: &[Remedied]) -> String {
    let mut parts = Vec::new();
    let mut places: Vec<&str> = found.iter().map(|one| one.place.as_str()).collect();
    places.dedup();
    for place in places {
        let mut better: Vec<(&Remedied, &Helped, &Estimate)> = found
            .iter()
            .filter(|one| one.place == place)
            .flat_map(|one| one.measures.iter().map(move |measure| (one, measure)))
            .filter(|(_, measure)| measure.finding == Finding::Better)
            .filter_map(|(one, measure)| Some((one, measure, measure.against_control.as_ref()?)))
            .collect();
        let far = |estimate: &Estimate| estimate.value.ln().abs();
        better.sort_by(|a, b| far(b.2).total_cmp(&far(a.2)));
        parts.push(match better.first() {
            Some((one, measure, estimate)) => format!(
                "On {place}, {} helps most: {} takes {} as long as on the untreated volume.",
                words(&one.method),
                words(&measure.measure),
                in_words(estimate)
            ),
            None if !testable(found, place) => {
                format!("On {place}, there are too few repeats to tell which remedy helps.")
            }
            None => format!("On {place}, no remedy makes a measure significantly faster."),
        });
    }
    parts.join(" ")
}

/// Whether any comparison with the control has a test.
fn testable(found: &[Remedied], place: &str) -> bool {
    let here = found.iter().filter(|one| one.place == place).flat_map(|one| &one.measures);
    here.filter_map(|measure| measure.against_control.as_ref()).any(|estimate| estimate.p.is_some())
}

fn gain_columns() -> Vec<Column> {
    vec![
        Column::text("remedy"),
        Column::text("where"),
        Column::text("measure"),
        Column::number("after ÷ before", ""),
        Column::number("÷ control", ""),
        Column::number("÷ copy", ""),
        Column::number("after further use ÷ control", ""),
        Column::number("trials", ""),
        Column::text("finding"),
    ]
}

fn gain_row(one: &Remedied, measure: &Helped) -> Row {
    let cell = |estimate: &Option<Estimate>| match estimate {
        Some(estimate) => Cell::number(in_words(estimate), estimate.value),
        None => Cell::none(),
    };
    let said = match (&measure.gain, measure.finding) {
        (None, _) => "different work",
        (_, finding) if one.method == "none" && finding == Finding::NoEvidence => "control",
        (_, finding) => finding.words(),
    };
    let trials = u32::try_from(one.trials).unwrap_or(u32::MAX);
    Row {
        cells: vec![
            Cell::text(words(&one.method)),
            Cell::text(one.place.clone()).class("label"),
            Cell::text(words(&measure.measure)),
            cell(&measure.gain),
            cell(&measure.against_control),
            cell(&measure.against_copy),
            cell(&measure.later),
            Cell::number(trials.to_string(), f64::from(trials)),
            Cell::text(said),
        ],
        group: one.place.clone(),
        class: if measure.finding == Finding::NoEvidence { "grey" } else { "" },
    }
}

fn cost_columns() -> Vec<Column> {
    vec![
        Column::text("remedy"),
        Column::text("where"),
        Column::number("device time", "s"),
        Column::number("read", "bytes"),
        Column::number("written", "bytes"),
        Column::number("written to flash", "bytes"),
        Column::number("blocks erased", ""),
    ]
}

fn cost_row(one: &Remedied) -> Row {
    let time = one.cost.elapsed.as_ref();
    let text = |seconds: f64| in_unit(seconds, time.map_or("s", |(_, unit)| unit.as_str()));
    Row {
        cells: vec![
            Cell::text(words(&one.method)),
            Cell::text(one.place.clone()).class("label"),
            Cell::maybe(time.map(|(seconds, _)| *seconds), text),
            Cell::maybe(one.cost.read_bytes, bytes),
            Cell::maybe(one.cost.written_bytes, bytes),
            Cell::maybe(one.cost.flash_bytes, bytes),
            Cell::maybe(one.cost.erases, significant),
        ],
        group: one.place.clone(),
        class: "",
    }
}
