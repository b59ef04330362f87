//! Whether two stores, or two selections of trials, differ, metric by metric.
//!
//! The sampling unit is the trial. Trials of the same cell and repeat are compared pair by pair where there
//! are two such pairs, else sides are within each cell. Ratios (B ÷ A) are compared on the log scale, shares
//! as differences. A row says that there is a difference only when its p, adjusted for the number of rows,
//! and its interval agree on it; everything else is "no evidence", with the width that says what could have
//! been seen.

pub mod gate;
mod page;
mod row;
mod sample;
mod side;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::nearest::nearest;
use fsage_model::problem::{EXIT_USAGE, Explain};
use fsage_model::warning::WarningKind;
use serde::Serialize;

use crate::report::text::counted;
use crate::stats::{Bootstrap, Evidence, shared};

pub use page::page;
pub use row::{Finding, Row, Scale};
pub use side::{Selection, Side};

/// Version of what `fsage compare --json` prints. 1: first; 2: effects, ranks and far-out trials are those of
/// cells, and gates say whether they could be tested.
pub const COMPARE_VERSION: u32 = 2;

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// What follows the store's path is no list of `key=value`.
    #[error("`{text}` is not `STORE:key=value,key=value`")]
    Selection {
        /// As given.
        text: String,
    },
    /// No trial has such a key.
    #[error("no trial of `{store}` has the factor or setting `{key}`")]
    UnknownKey {
        /// The store.
        store: String,
        /// As given.
        key: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// The selection leaves nothing.
    #[error("no complete trial is selected by `{selection}`")]
    Empty {
        /// As given.
        selection: String,
        /// Values that the keys have.
        values: String,
    },
    /// Nothing that both sides measured fits.
    #[error("no metric that both sides have matches `{pattern}`")]
    NoMetric {
        /// `*` or what `--metric` or a gate asked for.
        pattern: String,
        /// What was probably meant, or what there is.
        hint: String,
    },
    /// A gate is not understood.
    #[error("`{text}` is not a gate such as `latency.read.mean_ns > 1.10`")]
    Gate {
        /// As given.
        text: String,
    },
}

impl Explain for CompareError {
    fn exit_code(&self) -> u8 {
        EXIT_USAGE
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Selection { .. } => Some("for example `store/aging:file_system.kind=ext4`".to_owned()),
            Self::UnknownKey { nearest, .. } => nearest
                .as_ref()
                .map(|nearest| format!("did you mean `{nearest}`?"))
                .or_else(|| Some("keys are dotted paths of the study, as in its matrix".to_owned())),
            Self::Empty { values, .. } => (!values.is_empty()).then(|| format!("the trials have {values}")),
            Self::NoMetric { hint, .. } => Some(hint.clone()),
            Self::Gate { .. } => Some(
                "a gate is METRIC, one of > >= < <=, and the ratio B ÷ A that may not be passed".to_owned(),
            ),
        }
    }
}

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Globs of metric names; empty takes all.
    pub metrics: Vec<String>,
    /// Bootstrap of the intervals, with their confidence and seed.
    pub bootstrap: Bootstrap,
}

impl Default for Options {
    fn default() -> Self {
        Self { metrics: Vec::new(), bootstrap: Bootstrap { replicates: 10_000, ..Bootstrap::default() } }
    }
}

/// A side in the result.
#[derive(Debug, Clone, Serialize)]
pub struct SideFacts {
    /// As given.
    pub selection: String,
    /// Complete trials that were compared.
    pub trials: usize,
    /// Warnings of these trials by kind.
    pub warnings: BTreeMap<WarningKind, usize>,
}

/// Everything `fsage compare` knows.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`COMPARE_VERSION`].
    pub version: u32,
    /// The side that is compared with.
    pub a: SideFacts,
    /// The side that is called slower or faster.
    pub b: SideFacts,
    /// Confidence of the intervals; 1 − this is the rate of false calls that is accepted.
    pub confidence: f64,
    /// One a metric, by name.
    pub rows: Vec<Row>,
    /// What else the reader must know.
    pub notes: Vec<String>,
}

/// Compares `b` with `a`.
///
/// # Errors
/// When no metric is left that both sides have.
pub fn compare(a: &Side, b: &Side, options: &Options) -> Result<Comparison, CompareError> {
    let mut notes: Vec<String> = a.notes.iter().chain(&b.notes).cloned().collect();
    let whole = Matched::new(a, b, &BTreeSet::new());
    if whole.cells == 0 {
        notes.push("the sides share no cell: what differs may come from any factor".to_owned());
    }
    for (side, kept) in [(a, &whole.a), (b, &whole.b)] {
        let left = side.trials.len() - kept.len();
        if left > 0 {
            notes.push(format!("{left} trials of `{}` lie in cells the other side has not", side.label));
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let (mut common_runs, mut other_units) = (Vec::new(), Vec::new());
    for metric in metrics(a, b, &options.metrics)? {
        let series = a.trials.iter().find_map(|trial| trial.metrics.get(&metric));
        let Some(series) = series else { continue };
        let other = b.trials.iter().find_map(|trial| trial.metrics.get(&metric));
        if other.is_some_and(|other| other.unit != series.unit) {
            other_units.push(metric);
            continue;
        }
        let without = shared::indifferent(a.trials.iter().chain(&b.trials), &metric);
        let of_runs = (!without.is_empty()).then(|| Matched::new(a, b, &without));
        let matched = of_runs.as_ref().unwrap_or(&whole);
        let (of_a, of_b) = (values(a, &matched.a, &metric), values(b, &matched.b, &metric));
        let (of_a, of_b, both) = apart(of_a, of_b);
        if both {
            common_runs.push(metric.clone());
        }
        rows.extend(row::row(&metric, series, &of_a, &of_b, options));
    }
    if !common_runs.is_empty() {
        let names: Vec<&str> = common_runs.iter().map(String::as_str).collect();
        notes.push(format!("from the same run on both sides, and not compared: {}", gate::some_of(&names)));
    }
    if !other_units.is_empty() {
        let names: Vec<&str> = other_units.iter().map(String::as_str).collect();
        let what = "in other units (wall and model time, for one) on either side, and not compared";
        notes.push(format!("{what}: {}", gate::some_of(&names)));
    }
    row::judge(&mut rows, whole.cells, options);
    notes.extend(left_out(&rows));
    let facts = |side: &Side, kept: usize| SideFacts {
        selection: side.label.clone(),
        trials: kept,
        warnings: side.warnings.clone(),
    };
    Ok(Comparison {
        version: COMPARE_VERSION,
        a: facts(a, whole.a.len()),
        b: facts(b, whole.b.len()),
        confidence: options.bootstrap.confidence,
        rows,
        notes,
    })
}

/// The trials of both sides that lie in cells which both have, or all when there is no such cell.
struct Matched {
    /// Cells in common.
    cells: usize,
    /// Cell and index of each trial of A.
    a: Vec<(String, usize)>,
    b: Vec<(String, usize)>,
}

impl Matched {
    /// Cells are distinguished by every factor that no selection names and that is not among `without`.
    fn new(a: &Side, b: &Side, without: &BTreeSet<&str>) -> Self {
        let named: BTreeSet<&str> = a.named.iter().chain(&b.named).map(String::as_str).collect();
        let cell = |trial: &Evidence| {
            let factors = trial.factors.iter();
            let rest = factors
                .filter(|(path, _)| !named.contains(path.as_str()) && !without.contains(path.as_str()));
            rest.map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>().join(",")
        };
        let cells = |side: &Side| -> BTreeSet<String> { side.trials.iter().map(cell).collect() };
        let common: BTreeSet<String> = cells(a).intersection(&cells(b)).cloned().collect();
        let kept = |side: &Side| {
            let all = side.trials.iter().enumerate().map(|(i, trial)| (cell(trial), i));
            all.filter(|(cell, _)| common.is_empty() || common.contains(cell)).collect()
        };
        Self { cells: common.len(), a: kept(a), b: kept(b) }
    }
}

/// A value, and the run it is from when other trials may have it from there, too.
type OfRun<'a> = (((String, u32), f64), Option<&'a str>);

/// The metric's value of each trial, of trials that have it from one run once.
fn values<'a>(side: &'a Side, kept: &[(String, usize)], metric: &str) -> Vec<OfRun<'a>> {
    let mut seen = BTreeSet::new();
    let values = kept.iter().filter_map(|(cell, i)| {
        let trial = &side.trials[*i];
        let series = trial.metrics.get(metric)?;
        let value = crate::stats::quantile::mean(&series.samples).filter(|value| value.is_finite())?;
        Some((((cell.clone(), trial.repeat), value), series.run.as_deref()))
    });
    values.filter(|(_, run)| run.is_none_or(|run| seen.insert(run))).collect()
}

/// Takes out what both sides have from the same run, which cannot differ; whether there was such a value.
fn apart(a: Vec<OfRun<'_>>, b: Vec<OfRun<'_>>) -> (sample::Values, sample::Values, bool) {
    let runs = |side: &[OfRun<'_>]| -> BTreeSet<String> {
        side.iter().filter_map(|(_, run)| run.map(str::to_owned)).collect()
    };
    let both: BTreeSet<String> = runs(&a).intersection(&runs(&b)).cloned().collect();
    let rest = |side: Vec<OfRun<'_>>| -> sample::Values {
        let own = side.into_iter().filter(|(_, run)| !run.is_some_and(|run| both.contains(run)));
        own.map(|(value, _)| value).collect()
    };
    (rest(a), rest(b), !both.is_empty())
}

/// Notes on values without a counterpart, one for each number of them.
fn left_out(rows: &[Row]) -> Vec<String> {
    let mut metrics: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.left_out > 0) {
        metrics.entry(row.left_out).or_default().push(&row.metric);
    }
    let note = |(values, metrics): (usize, Vec<&str>)| {
        let (values, metrics) = (counted(values, "value"), gate::some_of(&metrics));
        format!("unpaired, left out: {values} of {metrics}")
    };
    metrics.into_iter().map(note).collect()
}

/// Metrics that both sides have and a pattern names.
fn metrics(a: &Side, b: &Side, patterns: &[String]) -> Result<Vec<String>, CompareError> {
    let names = |side: &Side| -> BTreeSet<String> {
        side.trials.iter().flat_map(|trial| trial.metrics.keys().cloned()).collect()
    };
    let both: BTreeSet<String> = names(a).intersection(&names(b)).cloned().collect();
    for pattern in patterns {
        if !both.iter().any(|name| gate::names(pattern, name)) {
            return Err(no_metric(pattern, both.iter().map(String::as_str)));
        }
    }
    let wanted = |name: &String| patterns.is_empty() || patterns.iter().any(|p| gate::names(p, name));
    let chosen: Vec<String> = both.into_iter().filter(wanted).collect();
    if chosen.is_empty() { Err(no_metric("*", std::iter::empty())) } else { Ok(chosen) }
}

/// The error for a pattern that names nothing, with the nearest name.
pub(crate) fn no_metric<'a>(pattern: &str, known: impl Iterator<Item = &'a str>) -> CompareError {
    let known: Vec<&str> = known.collect();
    let hint = match nearest(pattern, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "the two sides have no metric in common".to_owned(),
        None => format!("both have {}", known.join(", ")),
    };
    CompareError::NoMetric { pattern: pattern.to_owned(), hint }
}
