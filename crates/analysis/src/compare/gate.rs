//! Gates for continuous integration: `latency.read.mean_ns > 1.10`.
//!
//! A gate asks on which side of its limit the true ratio B ÷ A lies, and has three answers. It *fires* where
//! the interval of the ratio lies beyond the limit, *passes* where it lies within, and is *inconclusive* where it
//! holds the limit. So a slowdown as large as the limit passes as rarely as it fires, however few the
//! repeats. A pattern passes over what got better; only a metric named in full is taken at its word.
//!
//! Either answer is one-sided and tested at the level of the comparison: only one of them can be wrong, so
//! neither has to share the level with the other. All tests of all gates are a family of their own, adjusted
//! after Holm 1979: what else was measured does not weaken a gate. That which *side* is called holds the same
//! level is proven for independent rows (Shaffer 1980, Annals of Statistics 8).
//!
//! A metric that is the same in every trial of both sides differs by nothing and passes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{CompareError, Comparison, Row, no_metric};
use crate::report::text::counted;
use crate::stats::estimator::{Estimate, More, critical};
use crate::stats::holm;
use crate::stats::quantile::count;
use crate::stats::scale::Scale;

/// How the ratio is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Operator {
    const fn is_upwards(self) -> bool {
        matches!(self, Self::Above | Self::AtLeast)
    }
}

/// A gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    text: String,
    pattern: String,
    operator: Operator,
    limit: f64,
}

/// A gate with the row that made it fire.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fired {
    /// The gate as given.
    pub gate: String,
    /// The metric.
    pub metric: String,
    /// File system and medium, where there are several.
    pub context: String,
    /// B ÷ A.
    pub ratio: f64,
    /// One-sided p of a ratio so far beyond the limit when the true one is at it, adjusted for the tests of
    /// all gates (Holm 1979).
    pub p_adjusted: f64,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The gate as given.
    pub gate: String,
    /// Rows that it tests: those that it names, without gains where it is a pattern.
    pub rows: usize,
    /// Tests of all gates together, for which p is adjusted.
    pub family: usize,
    /// Whether each of its rows lies on one side of the limit.
    pub tested: bool,
    /// The ratio B ÷ A, beyond the limit, that makes it fire with 80 % probability, in the row where it is
    /// farthest from 1; nothing where no row could tell at all.
    pub detectable: Option<f64>,
    /// Rows that could not tell.
    pub cannot_tell: Vec<CannotTell>,
    /// Rows that made it fire.
    pub fired: Vec<Fired>,
}

/// A row that does not tell on which side of the limit it lies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CannotTell {
    /// The metric.
    pub metric: String,
    /// File system and medium, where there are several.
    pub context: String,
    /// Why the limit could not be tested at all; empty where the interval holds it.
    pub reason: String,
    /// B ÷ A.
    pub ratio: Option<f64>,
    /// Lower end of the interval that holds the limit, at the level of the gate's tests; each end is
    /// one-sided.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The ratio B ÷ A that makes the gate fire with 80 % probability.
    pub detectable: Option<f64>,
    /// An estimate of how many more repeats would let a B that does not differ pass with 80 % probability.
    pub more_repeats: Option<usize>,
}

impl Outcome {
    /// One warning for each reason why the gate is inconclusive.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut reasons: BTreeMap<&str, Vec<&CannotTell>> = BTreeMap::new();
        for row in &self.cannot_tell {
            reasons.entry(&row.reason).or_default().push(row);
        }
        let warning = |(reason, rows): (&str, Vec<&CannotTell>)| {
            let names: BTreeSet<String> = rows.iter().map(|row| row.name()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let of = if rows.len() == self.rows { String::new() } else { format!(" on {}", some_of(&names)) };
            let why = if reason.is_empty() { weakness(&rows) } else { reason.to_owned() };
            format!("gate `{}` is inconclusive{of}: {why}", self.gate)
        };
        reasons.into_iter().map(warning).collect()
    }

    /// The smallest change that makes the gate fire with 80 % probability, in words.
    #[must_use]
    pub fn power(&self) -> Option<String> {
        let family = match self.family {
            0 | 1 => String::new(),
            tests => format!(" (corrected for {tests} tests)"),
        };
        let change = change(self.detectable?);
        Some(format!("gate `{}` fires with 80 % probability on a change of {change} %{family}", self.gate))
    }
}

/// How far a ratio is from 1, in percent.
fn change(ratio: f64) -> String {
    super::words::number((ratio - 1.0).abs() * 100.0)
}

impl CannotTell {
    fn name(&self) -> String {
        if self.context.is_empty() {
            self.metric.clone()
        } else {
            format!("{} ({})", self.metric, self.context)
        }
    }
}

/// Why rows whose interval holds the limit are inconclusive, and what would help.
fn weakness(rows: &[&CannotTell]) -> String {
    let interval = match rows {
        [CannotTell { ratio: Some(ratio), low: Some(low), high: Some(high), .. }] => {
            format!("the interval of B ÷ A, {ratio:.3} [{low:.3}, {high:.3}], contains its limit")
        }
        _ => "the intervals of B ÷ A contain its limit".to_owned(),
    };
    let farthest = rows.iter().filter_map(|row| row.detectable).max_by(|a, b| {
        let far = |ratio: &f64| (ratio - 1.0).abs();
        far(a).total_cmp(&far(b))
    });
    let power = farthest.map_or_else(String::new, |ratio| {
        let up_to = if rows.len() > 1 { "up to " } else { "" };
        format!("; the smallest change that fires it with 80 % probability is {up_to}{} %", change(ratio))
    });
    let more = rows.iter().filter_map(|row| row.more_repeats).max();
    let help = more.map_or_else(String::new, |more| {
        format!("; estimate: {} would let a B that does not differ pass", counted(more, "more repeat"))
    });
    format!("{interval}{power}{help}")
}

/// `` `a`, `b`, `c` and 2 more``.
pub(super) fn some_of(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    let more = names.len() - shown.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

impl std::str::FromStr for Gate {
    type Err = CompareError;

    fn from_str(text: &str) -> Result<Self, CompareError> {
        use Operator::{Above, AtLeast, AtMost, Below};
        let wrong = || CompareError::Gate { text: text.to_owned() };
        let operators = [(">=", AtLeast), ("<=", AtMost), (">", Above), ("<", Below)];
        let (sign, operator) =
            operators.into_iter().find(|(sign, _)| text.contains(sign)).ok_or_else(wrong)?;
        let (pattern, limit) = text.split_once(sign).ok_or_else(wrong)?;
        let limit: f64 = limit.trim().parse().map_err(|_| wrong())?;
        let pattern = pattern.trim().to_owned();
        if pattern.is_empty() || pattern.contains(char::is_whitespace) || !limit.is_finite() || limit <= 0.0 {
            return Err(wrong());
        }
        Ok(Self { text: text.to_owned(), pattern, operator, limit })
    }
}

impl Gate {
    fn passed(&self, ratio: f64) -> bool {
        match self.operator {
            Operator::Above => ratio > self.limit,
            Operator::AtLeast => ratio >= self.limit,
            Operator::Below => ratio < self.limit,
            Operator::AtMost => ratio <= self.limit,
        }
    }

    /// 1 where what lies above the limit is beyond it, else −1.
    const fn direction(&self) -> f64 {
        if self.operator.is_upwards() { 1.0 } else { -1.0 }
    }

    /// The limit on the row's scale; `None` where B ÷ A means nothing.
    fn on_scale(&self, row: &Row) -> Option<f64> {
        match row.scale {
            Scale::Ratio => Some(self.limit.ln()),
            Scale::Difference => (row.mean_a >= 0.0).then_some((self.limit - 1.0) * row.mean_a),
        }
    }

    /// Whether no test is needed: nothing differs in any trial, and the limit allows that.
    fn is_met_by_equality(&self, row: &Row) -> bool {
        row.is_same() && !self.passed(1.0)
    }

    /// One-sided p of the side of the limit on which the row's estimate lies.
    fn p(&self, row: &Row) -> Option<f64> {
        // What some trials of 0 were left out of is not what the limit is about.
        if self.is_met_by_equality(row) || row.zeros > 0 {
            return None;
        }
        row.found?.beside(self.on_scale(row)?)
    }

    /// Whether the row's estimate lies beyond the limit.
    fn is_beyond(&self, row: &Row) -> bool {
        let limit = self.on_scale(row).unwrap_or(f64::NAN);
        row.found.is_some_and(|found| (found.value - limit) * self.direction() > 0.0)
    }

    /// The ratio that fires with 80 % probability when tested at the one-sided `level`.
    fn detectable(&self, row: &Row, level: f64) -> Option<f64> {
        let found = row.found.filter(|_| !row.constant)?;
        let beyond = found.detectable(2.0 * level)?;
        let ratio = as_ratio(row, self.on_scale(row)? + self.direction() * beyond);
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// Why the row does not tell, when tested at the one-sided `level`.
    fn cannot_tell(&self, row: &Row, level: f64) -> CannotTell {
        let open = CannotTell {
            metric: row.metric.clone(),
            context: row.context.clone(),
            reason: row.untestable().unwrap_or_default(),
            ratio: Some(ratio(row)).filter(|ratio| ratio.is_finite()),
            low: None,
            high: None,
            detectable: None,
            more_repeats: None,
        };
        let (Some(found), Some(limit), true) = (row.found, self.on_scale(row), open.reason.is_empty()) else {
            let reason =
                if open.reason.is_empty() { "B ÷ A is undefined where A is below 0" } else { &open.reason };
            return CannotTell { reason: reason.to_owned(), ..open };
        };
        let ends = critical(found.freedom, 2.0 * level).map(|t| t * found.error);
        let end = |by: f64| ends.map(|reach| as_ratio(row, found.value + by * reach));
        CannotTell {
            low: end(-1.0),
            high: end(1.0),
            detectable: self.detectable(row, level),
            more_repeats: self.more_repeats(&found, limit, level),
            ..open
        }
    }

    /// Repeats that are missing for a B that does not differ to pass with 80 % probability; a slowdown twice
    /// as far from 1 as the limit (on the row's scale) then fires with the same one.
    fn more_repeats(&self, found: &Estimate, limit: f64, level: f64) -> Option<usize> {
        match found.more(limit * self.direction(), 2.0 * level)? {
            More::Seeds(plan) => Some(plan.expected.saturating_sub(found.units())).filter(|more| *more > 0),
            More::Rounds(_) => None,
        }
    }
}

/// A place on the row's scale as the ratio B ÷ A.
fn as_ratio(row: &Row, place: f64) -> f64 {
    match row.scale {
        Scale::Ratio => place.exp(),
        Scale::Difference => 1.0 + place / row.mean_a,
    }
}

/// B ÷ A.
fn ratio(row: &Row) -> f64 {
    match row.scale {
        Scale::Ratio => row.estimate.unwrap_or(f64::NAN),
        Scale::Difference => row.mean_b / row.mean_a,
    }
}

/// Tests every gate.
///
/// # Errors
/// A gate names no metric of the comparison: it could never fire.
pub fn outcomes(gates: &[Gate], comparison: &Comparison) -> Result<Vec<Outcome>, CompareError> {
    let named: Vec<Vec<&Row>> =
        gates.iter().map(|gate| rows_of(gate, &comparison.rows)).collect::<Result<_, _>>()?;
    let tests = gates.iter().zip(&named).flat_map(|(gate, rows)| rows.iter().map(move |row| gate.p(row)));
    let p: Vec<f64> = tests.map(|p| p.unwrap_or(f64::NAN)).collect();
    let family = p.iter().filter(|p| !p.is_nan()).count();
    let mut adjusted = holm::adjusted(&p).into_iter();
    let level = 1.0 - comparison.confidence;
    let one = |(gate, rows): (&Gate, Vec<&Row>)| {
        let tests: Vec<(&Row, f64)> = rows.into_iter().zip(adjusted.by_ref()).collect();
        outcome(gate, &tests, family, level)
    };
    Ok(gates.iter().zip(named).map(one).collect())
}

/// The rows that a gate tests.
fn rows_of<'a>(gate: &Gate, rows: &'a [Row]) -> Result<Vec<&'a Row>, CompareError> {
    let exact = rows.iter().any(|row| row.metric == gate.pattern);
    let named =
        |row: &&Row| if exact { row.metric == gate.pattern } else { names(&gate.pattern, &row.metric) };
    let named: Vec<&Row> = rows.iter().filter(named).collect();
    if named.is_empty() {
        return Err(no_metric(&gate.pattern, rows.iter().map(|row| row.metric.as_str())));
    }
    // A pattern never fires on a gain.
    let gain = |row: &Row| row.larger_is_worse.is_some_and(|worse| worse != gate.operator.is_upwards());
    Ok(named.into_iter().filter(|row| exact || !gain(row)).collect())
}

/// `tests` are rows with the adjusted p of the side on which they lie.
fn outcome(gate: &Gate, tests: &[(&Row, f64)], family: usize, level: f64) -> Outcome {
    // What the first step of Holm's procedure asks of the smallest p.
    let strict = level / count(family.max(1));
    let (mut fired, mut cannot_tell) = (Vec::new(), Vec::new());
    let mut weakest: Option<f64> = None;
    for (row, p) in tests.iter().filter(|(row, _)| !gate.is_met_by_equality(row)) {
        match (*p <= level, gate.is_beyond(row)) {
            (true, true) => fired.push(Fired {
                gate: gate.text.clone(),
                metric: row.metric.clone(),
                context: row.context.clone(),
                ratio: ratio(row),
                p_adjusted: *p,
            }),
            (true, false) => {}
            (false, _) => cannot_tell.push(gate.cannot_tell(row, strict)),
        }
        let farther = |one: f64, other: f64| (one - other) * gate.direction() > 0.0;
        if let Some(ratio) = gate.detectable(row, strict) {
            weakest = weakest.filter(|weakest| !farther(ratio, *weakest)).or(Some(ratio));
        }
    }
    Outcome {
        gate: gate.text.clone(),
        rows: tests.len(),
        family,
        tested: cannot_tell.is_empty(),
        detectable: weakest,
        cannot_tell,
        fired,
    }
}

/// Whether a pattern names a metric: `*` stands for any text, and a pattern also names everything below it
/// (`latency.read` is `latency.read.mean_ns` too).
#[must_use]
pub fn names(pattern: &str, metric: &str) -> bool {
    glob(pattern.as_bytes(), metric.as_bytes()) || glob(format!("{pattern}.*").as_bytes(), metric.as_bytes())
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| glob(rest, &text[skip..])),
        [first, rest @ ..] => text.first() == Some(first) && glob(rest, &text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_and_nonsense_is_refused() {
        let gate: Gate = "grep > 1.10".parse().unwrap();
        assert_eq!((gate.pattern.as_str(), gate.operator, gate.limit), ("grep", Operator::Above, 1.10));
        assert_eq!("a.*<=0.9".parse::<Gate>().unwrap().operator, Operator::AtMost);
        for text in ["grep", "> 1", "grep > ", "grep > x", "grep > -1", "a b > 1", "grep => 1", "x > inf"] {
            assert!(text.parse::<Gate>().is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_name_a_metric_and_what_lies_below() {
        assert!(names("latency.*.mean_ns", "latency.read.mean_ns"));
        assert!(names("latency.read", "latency.read.mean_ns") && names("*", "x"));
        assert!(!names("latency.re", "latency.read.mean_ns") && !names("read", "latency.read.mean_ns"));
    }
}
