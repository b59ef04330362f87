//! A row in words: `slower by 38 % [31, 44]`.

use super::row::{Finding, Row};
use crate::report::text::{in_unit, plain_unit};
use crate::stats::scale::Scale;
use crate::stats::work;

/// What a row says; `level` is the p that proves a difference. Estimate and interval are always shown.
pub(super) fn words(row: &Row, level: f64) -> String {
    if let Some(how) = &row.different_work {
        return format!("not comparable: {}", work::refusal(how));
    }
    let Some(estimate) = row.estimate else {
        let side = match (row.mean_a > 0.0, row.mean_b > 0.0) {
            (false, true) => "A is 0 in every trial",
            (true, false) => "B is 0 in every trial",
            _ => "no trial above 0 has a partner above 0",
        };
        return format!("no ratio: {side}");
    };
    let up = estimate > row.neutral();
    let by = format!("{} by {}", verb(row, up), amount(row, shown(row, estimate).abs()));
    if row.constant {
        return without_spread(row, &by, level);
    }
    let (Some(low), Some(high)) = (row.low, row.high) else {
        let why = match (row.n_a, row.n_b) {
            (1, 1) => "one trial has no spread",
            _ => "a cell with one trial has no spread",
        };
        return format!("no evidence of a difference: {by} ({why})");
    };
    let (low, high) = (shown(row, low), shown(row, high));
    let (from, to) = if up { (low, high) } else { (-high, -low) };
    let by = format!("{by} [{}, {}]", end(row, from), end(row, to));
    match (row.finding, row.excludes_none()) {
        (Finding::NoEvidence, true) => format!("{by}, not significant after correction"),
        (Finding::NoEvidence, false) => format!("no evidence of a difference: {by}"),
        _ => by,
    }
}

/// What equal values say.
fn without_spread(row: &Row, by: &str, level: f64) -> String {
    if row.is_same() {
        return "the same in every trial".to_owned();
    }
    if row.finding != Finding::NoEvidence {
        return format!("{by} in every trial");
    }
    let rest = if row.p.is_some_and(|p| p <= level) { " among so many rows" } else { "" };
    match (row.paired, row.n_a, row.n_b) {
        (true, ..) => format!("{by} in every pair; {} pairs cannot prove it{rest}", row.units),
        (false, a, b) => format!("{by} without any spread; {a} and {b} trials cannot prove it{rest}"),
    }
}

/// A ratio or difference without a direction: `5 %`, `3 points`.
pub(super) fn distance(row: &Row, value: f64) -> String {
    amount(row, shown(row, value).abs())
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
pub(super) fn number(value: f64) -> String {
    let rounded = format!("{value:.1}");
    if value.abs() >= 9.95 || rounded.ends_with(".0") { format!("{value:.0}") } else { rounded }
}
