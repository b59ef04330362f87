//! A row in words: `slower by 38 % [31, 44]`.

use super::row::{Finding, Row, Scale};
use crate::report::text::{in_unit, plain_unit};

/// What a row says; `level` is the p that proves a difference.
pub(super) fn words(row: &Row, level: f64) -> String {
    let (Some(low), Some(high), Some(estimate)) = (row.low, row.high, row.estimate) else {
        return "no evidence of a difference (one trial has no spread)".to_owned();
    };
    let ratio = row.scale == Scale::Ratio;
    let up = estimate > row.neutral();
    let by = format!("{} by {}", verb(row, up), amount(row, shown(row, estimate).abs()));
    if row.finding != Finding::NoEvidence {
        let (low, high) = (shown(row, low), shown(row, high));
        let (from, to) = if up { (low, high) } else { (-high, -low) };
        return format!("{by} [{}, {}]", end(row, from), end(row, to));
    }
    if !row.constant {
        let half = if ratio { shown(row, (high / low).sqrt()) } else { shown(row, (high - low) / 2.0) };
        return format!("no evidence of a difference (±{})", amount(row, half));
    }
    if estimate == row.neutral() {
        return "the same in every trial".to_owned();
    }
    let rest = if row.p.is_some_and(|p| p <= level) { " among so many rows" } else { "" };
    match (row.paired, row.n_a, row.n_b) {
        (true, n, _) => format!("{by} in every pair; {n} pairs cannot prove it{rest}"),
        (false, a, b) => format!("{by} without any spread; {a} and {b} trials cannot prove it{rest}"),
    }
}

/// A value as [`shown`] gives it, with its unit.
fn amount(row: &Row, value: f64) -> String {
    match (row.scale, row.unit.as_str()) {
        (Scale::Ratio, _) => format!("{} %", number(value)),
        (Scale::Difference, "share") => format!("{} points", number(value)),
        (Scale::Difference, unit) => in_unit(value, unit),
    }
}

/// An end of an interval beside an [`amount`]: percents and points need not say so again.
fn end(row: &Row, value: f64) -> String {
    match (row.scale, row.unit.as_str()) {
        (Scale::Ratio, _) | (Scale::Difference, "share") => number(value),
        (Scale::Difference, unit) => in_unit(value, unit),
    }
}

fn shown(row: &Row, value: f64) -> f64 {
    match (row.scale, row.unit.as_str()) {
        (Scale::Ratio, _) => (value - 1.0) * 100.0,
        (Scale::Difference, "share") => value * 100.0,
        (Scale::Difference, _) => value,
    }
}

const fn verb_of_time(worse: bool) -> &'static str {
    if worse { "slower" } else { "faster" }
}

fn verb(row: &Row, up: bool) -> &'static str {
    match (plain_unit(&row.unit).unwrap_or(&row.unit), row.larger_is_worse) {
        ("ns" | "s", Some(true)) => verb_of_time(up),
        ("1/s", Some(false)) => verb_of_time(!up),
        ("ns" | "s", _) => {
            if up {
                "longer"
            } else {
                "shorter"
            }
        }
        _ => {
            if up {
                "more"
            } else {
                "less"
            }
        }
    }
}

/// Two or three digits.
fn number(value: f64) -> String {
    let rounded = format!("{value:.1}");
    if value.abs() >= 9.95 || rounded.ends_with(".0") { format!("{value:.0}") } else { rounded }
}
