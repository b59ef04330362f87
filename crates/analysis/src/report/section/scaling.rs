//! Saturation and scalability: the table of fits, part of the section of the device.

use fsage_model::quantity::{as_f64, to_u64};
use maud::{Markup, html};

use super::Content;
use crate::report::scaling::{Over, Scaled, all};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, percent, significant};
use crate::stats::Interval;
use crate::stats::scaling::usl::Coefficient;
use crate::stats::scaling::{Law, Saturation, Unfit};

/// Curves above which the table is folded.
const MANY: usize = 60;

/// The table, if there is a curve of three loads or more.
pub(super) fn fits(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    let rows: Vec<Row> = found.iter().map(|one| row(content, one)).collect();
    let whole = || table("scaling-table", "Saturation and scalability", &columns(), &rows);
    (!rows.is_empty()).then(|| {
        html! {
            @if rows.len() > MANY {
                details { summary { (counted(rows.len(), "curve")) " with their fits" } (whole()) }
            } @else {
                (whole())
            }
            p.note {
                "Saturated: the smallest load whose rate is within 5\u{202f}% of the largest; range: the loads that it may be, given the "
                "spread of the repeats. The law is the Universal Scalability Law (Gunther 2007), X(n) = λn ÷ (1 + σ(n − 1) + κn(n − 1)), by least squares on logs: "
                "λ is the rate at load 1, σ the contention (serial share of the work), κ the coherency cost of each pair of requests, jobs or "
                "streams. A maximum is given only where κ's interval is above 0 and the measured rate rises to it and falls beyond it. Intervals are over repeats (Student's t); one repeat has "
                "none. Where the rates deviate from the law by more than noise there are no coefficients, and the remark says so: a device that "
                "serves a fixed number of requests in parallel has a sharp knee. The law is not fitted over block size, nor over the files of a \
                random pattern, which are not streams."
            }
        }
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("pattern"),
        Column::text("fixed"),
        Column::text("file system"),
        Column::text("varied"),
        Column::text("from, to"),
        Column::text("trials"),
        Column::number("saturated at", ""),
        Column::text("range"),
        Column::number("λ", "1/s"),
        Column::number("σ", ""),
        Column::text("interval of σ"),
        Column::number("κ", ""),
        Column::text("interval of κ"),
        Column::text("maximum at"),
        Column::number("largest deviation", ""),
        Column::text("remark"),
    ]
}

fn row(content: &Content<'_>, one: &Scaled) -> Row {
    let file_system = content.view.file_systems.get(one.file_system).cloned().unwrap_or_default();
    let repeats = if one.repeats == 1 { "1 trial".to_owned() } else { format!("{} repeats", one.repeats) };
    let trials = if one.context.is_empty() { repeats } else { format!("{}, {repeats}", one.context) };
    let ends = [one.loads.first(), one.loads.last()]
        .map(|load| load.map_or_else(String::new, |load| one.over.words(*load)));
    let Saturation { load, range, .. } = one.saturation;
    let point = if one.saturation.is_reached() {
        Cell::number(one.over.words(load), as_f64(load))
    } else {
        Cell::none()
    };
    let mut cells = vec![
        Cell::text(one.point.load()),
        Cell::text(one.over.held(&one.point)),
        Cell::text(file_system),
        Cell::text(one.over.name()),
        Cell::text(format!("{}, {} ({})", ends[0], ends[1], one.loads.len())),
        Cell::text(trials).class("label"),
        point,
        Cell::text(range.map_or_else(String::new, |range| among(one.over, range))),
    ];
    cells.extend(law(one));
    cells.push(Cell::text(remark(one)));
    Row { cells, group: one.point.load(), class: "" }
}

/// The loads that a saturation point may be.
fn among(over: Over, (low, high): (u64, u64)) -> String {
    if low == high { over.words(low) } else { format!("{} to {}", over.words(low), over.words(high)) }
}

/// λ, σ, κ, the maximum and the deviation.
fn law(one: &Scaled) -> [Cell; 7] {
    let Ok(Law { lambda, sigma, kappa, peak, deviation, .. }) = &one.law else {
        let text = || Cell::text("");
        return [Cell::none(), Cell::none(), text(), Cell::none(), text(), text(), Cell::none()];
    };
    let number = |of: &Coefficient| Cell::maybe(of.bound.is_none().then_some(of.value), small);
    let peak = peak.map_or_else(String::new, |peak| {
        let ends =
            |interval: Interval| format!(" [{}, {}]", significant(interval.low), significant(interval.high));
        let interval = peak.interval.map_or_else(String::new, ends);
        format!("{}{interval}", significant(peak.value))
    });
    [
        Cell::maybe(Some(lambda.value), significant),
        number(sigma),
        Cell::text(interval(sigma, one)),
        number(kappa),
        Cell::text(interval(kappa, one)),
        Cell::text(peak),
        Cell::maybe(Some(*deviation), percent),
    ]
}

/// A coefficient, two digits of it where it is small: it may be 0.0004 and matter.
fn small(value: f64) -> String {
    let size = value.abs();
    if size >= 0.1 || size == 0.0 {
        significant(value)
    } else if size >= 1e-4 {
        let digits = usize::try_from(to_u64(1.0 - size.log10().floor())).unwrap_or_default();
        format!("{value:.digits$}")
    } else {
        format!("{value:.1e}")
    }
}

fn ends(interval: Interval) -> String {
    format!("{}, {}", small(interval.low), small(interval.high))
}

/// The interval of a coefficient; of one at its bound what it is not beyond, and why there is none.
fn interval(of: &Coefficient, one: &Scaled) -> String {
    let at = |bound: f64| {
        let limit = of.interval.map(|interval| {
            let (word, end) = if bound > 0.0 { ("above", interval.low) } else { ("below", interval.high) };
            format!(", {word} {}", small(end))
        });
        format!("at its bound {bound:.0}{}", limit.unwrap_or_default())
    };
    match (of.bound, of.interval) {
        (Some(bound), _) => at(bound),
        (None, Some(interval)) => ends(interval),
        (None, None) if one.repeats == 1 => "no interval: one repeat".to_owned(),
        (None, None) => "no interval: equal repeats".to_owned(),
    }
}

fn remark(one: &Scaled) -> String {
    let still = (!one.saturation.is_reached()).then(|| {
        let largest = one.over.words(one.saturation.largest);
        format!("not saturated at {largest}: the largest rate is the last")
    });
    // Where there is no load, the note below the table says so once.
    let law = one.law.as_ref().err().filter(|why| **why != Unfit::NoLoad).map(|why| format!("law: {why}"));
    let bound = (!one.cpu_bound.is_empty()).then(|| {
        let loads: Vec<String> = one.cpu_bound.iter().map(|load| one.over.words(*load)).collect();
        format!("bound by the CPU, not the device, at {}", loads.join(", "))
    });
    [still, bound, law].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_coefficients_keep_two_digits() {
        let words = [0.0, 1.0, 0.25, 0.052, 0.001, -0.000_43, 2e-6].map(small);
        assert_eq!(words, ["0.00", "1.00", "0.25", "0.052", "0.0010", "-0.00043", "2.0e-6"]);
    }
}
