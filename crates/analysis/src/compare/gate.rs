//! Gates for continuous integration: `latency.read.mean_ns > 1.10`.
//!
//! A gate fires when the measured ratio B ÷ A passes its limit *and* the row has evidence of a difference:
//! noise alone stops no one, and neither does a proven change within the limit. A pattern passes over what
//! got better; only a metric named in full is taken at its word. A gate on rows that could prove nothing says
//! so.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CompareError, Comparison, Finding, Row, Scale, no_metric};

/// How the ratio is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
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
    /// B ÷ A.
    pub ratio: f64,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The gate as given.
    pub gate: String,
    /// Metrics that it names.
    pub metrics: usize,
    /// Whether any of them could make it fire.
    pub tested: bool,
    /// Those that could not, however large the difference.
    pub untestable: Vec<Untestable>,
    /// Those that did.
    pub fired: Vec<Fired>,
}

/// A metric that cannot make a gate fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Untestable {
    /// The metric.
    pub metric: String,
    /// Why.
    pub reason: String,
}

impl Outcome {
    /// One warning for each reason why the gate could not be tested.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut metrics: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Untestable { metric, reason } in &self.untestable {
            metrics.entry(reason).or_default().push(metric);
        }
        let warning = |(reason, metrics): (&str, Vec<&str>)| {
            let gate = &self.gate;
            if metrics.len() == self.metrics {
                return format!("gate `{gate}` cannot be tested: {reason}");
            }
            format!("gate `{gate}` cannot be tested on {}: {reason}", some_of(&metrics))
        };
        metrics.into_iter().map(warning).collect()
    }
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
    fn fires(&self, row: &Row) -> Option<f64> {
        let ratio = match row.scale {
            Scale::Ratio => row.estimate?,
            Scale::Difference => row.mean_b / row.mean_a,
        };
        let passed = match self.operator {
            Operator::Above => ratio > self.limit,
            Operator::AtLeast => ratio >= self.limit,
            Operator::Below => ratio < self.limit,
            Operator::AtMost => ratio <= self.limit,
        };
        (passed && row.finding != Finding::NoEvidence).then_some(ratio)
    }
}

/// Tests every gate.
///
/// # Errors
/// A gate names no metric of the comparison: it could never fire.
pub fn outcomes(gates: &[Gate], comparison: &Comparison) -> Result<Vec<Outcome>, CompareError> {
    gates.iter().map(|gate| outcome(gate, comparison)).collect()
}

fn outcome(gate: &Gate, comparison: &Comparison) -> Result<Outcome, CompareError> {
    let rows = &comparison.rows;
    let exact = rows.iter().any(|row| row.metric == gate.pattern);
    let named =
        |row: &&Row| if exact { row.metric == gate.pattern } else { names(&gate.pattern, &row.metric) };
    let named: Vec<&Row> = rows.iter().filter(named).collect();
    if named.is_empty() {
        return Err(no_metric(&gate.pattern, rows.iter().map(|row| row.metric.as_str())));
    }
    let fired = named.iter().filter(|row| exact || row.finding != Finding::Better).filter_map(|row| {
        let ratio = gate.fires(row)?;
        Some(Fired { gate: gate.text.clone(), metric: row.metric.clone(), ratio })
    });
    let level = 1.0 - comparison.confidence;
    let untestable: Vec<Untestable> = named
        .iter()
        .filter_map(|row| Some(Untestable { metric: row.metric.clone(), reason: row.untestable(level)? }))
        .collect();
    Ok(Outcome {
        gate: gate.text.clone(),
        metrics: named.len(),
        tested: untestable.len() < named.len(),
        untestable,
        fired: fired.collect(),
    })
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
