//! Whether two stores, or two selections of trials, differ, metric by metric.
//!
//! The sampling unit is the repeat (seed). Trials of the same cell and repeat are compared pair by pair where
//! there are two such pairs, else sides are within each cell; file systems and media have rows of their own.
//! Ratios (B ÷ A) are compared on the log scale, shares as differences, all by
//! [`crate::stats::estimator`]. A row says that there is a difference only when its p, adjusted for the
//! number of rows, and its interval agree on it. Estimate and interval are shown whatever it says.

pub mod gate;
mod overlay;
mod page;
mod row;
mod sample;
mod side;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::measure::Work;
use fsage_model::nearest::nearest;
use fsage_model::problem::{EXIT_USAGE, Explain};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::warning::WarningKind;
use serde::Serialize;

use crate::report::text::counted;
use crate::stats::evidence::place;
use crate::stats::quantile::mean;
use crate::stats::{Evidence, Series, Trees, grain, shared};

pub use crate::stats::scale::Scale;
pub use page::page;
pub use row::{Finding, Row};
pub use side::{Selection, Side};

/// Version of what `fsage compare --json` prints. 1: first; 2: effects, ranks and outliers are those of
/// cells, and gates say whether they could be tested; 3: repeats are the units, file systems and media have
/// rows of their own (`context`), `mann_whitney_p` and `hodges_lehmann` are gone, `more_repeats` is planned
/// for 80 % power, and gates have `cannot_tell` for `untestable`; 4: gates test their limit and not whether
/// anything differs, so `p_adjusted` of `fired` and `detectable` of `gates` (now the ratio that fires, also
/// below 1) are other numbers, `cannot_tell` has `ratio`, `low` and `high`, and the scale of a row depends on
/// the metric alone: what is 0 has no ratio and is counted in `zeros`. Rows of this version may have `trees`.
pub const COMPARE_VERSION: u32 = 4;

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
                "a gate is METRIC, one of > >= < <=, and the ratio B ÷ A that must not be passed".to_owned(),
            ),
        }
    }
}

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Globs of metric names; empty takes all.
    pub metrics: Vec<String>,
    /// Confidence of the intervals, 0..1.
    pub confidence: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { metrics: Vec::new(), confidence: 0.95 }
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
    /// One per metric, and per file system and medium where sides have several, by name.
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
    notes.extend(side::differences(a, b));
    let whole = Matched::new(a, b, &BTreeSet::new());
    if whole.cells == 0 {
        notes.push("the sides share no cell: a difference may come from any factor".to_owned());
    }
    for (side, kept) in [(a, &whole.a), (b, &whole.b)] {
        let left = side.trials.len() - kept.len();
        if left > 0 {
            notes.push(format!("{left} trials of `{}` are in cells that the other side lacks", side.label));
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
        let (of_a, of_b, both) = apart(values(a, &matched.a, &metric), values(b, &matched.b, &metric));
        if both {
            common_runs.push(metric.clone());
        }
        rows.extend(of_contexts((&metric, series), of_a, of_b, options));
    }
    if !common_runs.is_empty() {
        let names: Vec<&str> = common_runs.iter().map(String::as_str).collect();
        notes.push(format!("from the same run on both sides, and not compared: {}", gate::some_of(&names)));
    }
    if !other_units.is_empty() {
        let names: Vec<&str> = other_units.iter().map(String::as_str).collect();
        let what = "in different units on the two sides (such as wall and model time), and not compared";
        notes.push(format!("{what}: {}", gate::some_of(&names)));
    }
    row::judge(&mut rows, options);
    notes.extend(left_out(&rows));
    notes.extend(different_trees(&rows));
    let facts = |side: &Side, kept: usize| SideFacts {
        selection: side.label.clone(),
        trials: kept,
        warnings: side.warnings.clone(),
    };
    Ok(Comparison {
        version: COMPARE_VERSION,
        a: facts(a, whole.a.len()),
        b: facts(b, whole.b.len()),
        confidence: options.confidence,
        rows,
        notes,
    })
}

/// Where a trial stands.
#[derive(Debug, Clone)]
struct Place {
    /// File system and medium, in words; empty where no selection leaves them open.
    context: String,
    /// Every factor that is held equal.
    cell: String,
    /// Index of the trial.
    trial: usize,
}

/// The trials of both sides that lie in cells which both have, or all when there is no such cell.
struct Matched {
    /// Cells in common.
    cells: usize,
    /// The trials of A.
    a: Vec<Place>,
    b: Vec<Place>,
}

impl Matched {
    /// Cells are distinguished by every factor that no selection names and that is not among `without`.
    fn new(a: &Side, b: &Side, without: &BTreeSet<&str>) -> Self {
        let named: BTreeSet<&str> = a.named.iter().chain(&b.named).map(String::as_str).collect();
        let open = |path: &str| !named.contains(path) && !without.contains(path);
        let cell = |trial: &Evidence| {
            let rest = trial.factors.iter().filter(|(path, _)| open(path));
            rest.map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>().join(",")
        };
        let cells = |side: &Side| -> BTreeSet<String> { side.trials.iter().map(cell).collect() };
        let common: BTreeSet<String> = cells(a).intersection(&cells(b)).cloned().collect();
        let context = |trial: &Evidence| -> String {
            // Sides that share no cell are compared as wholes.
            if common.is_empty() { String::new() } else { place(trial, |path| !open(path)) }
        };
        let kept = |side: &Side| {
            let all = side.trials.iter().enumerate();
            let all = all.map(|(i, trial)| Place { context: context(trial), cell: cell(trial), trial: i });
            all.filter(|place| common.is_empty() || common.contains(&place.cell)).collect()
        };
        Self { cells: common.len(), a: kept(a), b: kept(b) }
    }
}

/// A trial's rounds of a metric.
struct Measured<'a> {
    context: String,
    cell: String,
    repeat: u32,
    rounds: Vec<f64>,
    /// What one request is of them.
    grain: Option<f64>,
    /// The run they are from when other trials may have them from there, too.
    run: Option<&'a str>,
    /// What was done for it.
    work: Option<Work>,
    /// Digest of the tree that was measured, where it is known.
    tree: Option<&'a str>,
}

/// What lies in one context.
#[derive(Default)]
struct Within {
    values: sample::Values,
    /// The grain of each value that has one.
    grains: Vec<f64>,
    /// What was done for each value that says so.
    works: Works,
    /// The tree of each value whose tree is known.
    trees: BTreeMap<(String, u32), String>,
}

/// The values by context.
type ByContext = BTreeMap<String, Within>;

/// What was done, by cell and repeat.
type Works = BTreeMap<(String, u32), Work>;

/// The metric's rounds of each trial, of trials that have it from one run once.
fn values<'a>(side: &'a Side, kept: &[Place], metric: &str) -> Vec<Measured<'a>> {
    let mut seen = BTreeSet::new();
    let values = kept.iter().filter_map(|Place { context, cell, trial }| {
        let trial = &side.trials[*trial];
        let series = trial.metrics.get(metric)?;
        let usable = !series.samples.is_empty() && series.samples.iter().all(|value| value.is_finite());
        usable.then(|| Measured {
            context: context.clone(),
            cell: cell.clone(),
            repeat: trial.repeat,
            rounds: series.samples.clone(),
            grain: grain::of_trial(trial, metric, Scale::of(metric, &series.unit)),
            run: series.run.as_deref(),
            work: series.work,
            tree: trial.tree.as_deref(),
        })
    });
    values.filter(|value| value.run.is_none_or(|run| seen.insert(run))).collect()
}

/// Takes out what both sides have from the same run, which cannot differ; whether there was such a value.
fn apart(a: Vec<Measured<'_>>, b: Vec<Measured<'_>>) -> (ByContext, ByContext, bool) {
    let runs = |side: &[Measured<'_>]| -> BTreeSet<String> {
        side.iter().filter_map(|value| value.run.map(str::to_owned)).collect()
    };
    let both: BTreeSet<String> = runs(&a).intersection(&runs(&b)).cloned().collect();
    let rest = |side: Vec<Measured<'_>>| -> ByContext {
        let mut contexts = ByContext::new();
        for own in side.into_iter().filter(|own| !own.run.is_some_and(|run| both.contains(run))) {
            let within = contexts.entry(own.context).or_default();
            let key = (own.cell, own.repeat);
            within.works.extend(own.work.map(|work| (key.clone(), work)));
            within.trees.extend(own.tree.map(|tree| (key.clone(), tree.to_owned())));
            within.grains.extend(own.grain);
            within.values.push((key, own.rounds));
        }
        contexts
    };
    (rest(a), rest(b), !both.is_empty())
}

/// A row for each file system and medium, which are never compared together.
fn of_contexts(
    (metric, series): (&str, &Series),
    a: ByContext,
    mut b: ByContext,
    options: &Options,
) -> Vec<Row> {
    let rows = a.into_iter().filter_map(|(context, of_a)| {
        let of_b = b.remove(&context)?;
        let grain = grain::root_mean_square(of_a.grains.iter().chain(&of_b.grains).copied());
        let row = row::row((metric, &context), series, &of_a.values, &of_b.values, grain, options)?;
        let row = Row { trees: trees(&of_a, &of_b), ..row };
        Some(match different(&of_a.works, &of_b.works) {
            Some(how) => row.refused(how),
            None => row,
        })
    });
    rows.collect()
}

/// Whether trials of the same cell and repeat measured the same tree; not known where there are none.
fn trees(a: &Within, b: &Within) -> Trees {
    let known = b.values.iter().map(|(key, _)| key).collect::<BTreeSet<_>>();
    let digest = |side: &Within, key| side.trees.get(key).cloned();
    let pairs = a.values.iter().map(|(key, _)| key).filter(|key| known.contains(key));
    let digests: Vec<_> = pairs.map(|key| (digest(a, key), digest(b, key))).collect();
    let digests: Vec<_> = digests.iter().map(|(a, b)| (a.as_deref(), b.as_deref())).collect();
    Trees::of_digests(&digests)
}

/// In which respect the sides did different work, A's first: trials of the same cell and repeat, or where there
/// are none, the bytes of all trials.
fn different(a: &Works, b: &Works) -> Option<String> {
    let both: Vec<(&Work, &Work)> = a.iter().filter_map(|(key, work)| Some((work, b.get(key)?))).collect();
    if !both.is_empty() {
        return both.into_iter().find_map(|(a, b)| a.differs(b));
    }
    let bytes = |works: &Works| {
        let all: Vec<f64> = works.values().map(|work| as_f64(work.bytes)).collect();
        Some(Work { bytes: to_u64(mean(&all)?), ..Work::default() })
    };
    bytes(a)?.differs(&bytes(b)?)
}

/// Notes on values without a counterpart, one for each number of them.
fn left_out(rows: &[Row]) -> Vec<String> {
    let mut of_metric: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.left_out > 0) {
        *of_metric.entry(&row.metric).or_default() += row.left_out;
    }
    let mut metrics: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (metric, left) in of_metric {
        metrics.entry(left).or_default().push(metric);
    }
    let note = |(values, metrics): (usize, Vec<&str>)| {
        let (values, metrics) = (counted(values, "value"), gate::some_of(&metrics));
        format!("unpaired, left out: {values} of {metrics}")
    };
    metrics.into_iter().map(note).collect()
}

/// A note where sides measured different files.
fn different_trees(rows: &[Row]) -> Option<String> {
    let names: BTreeSet<&str> =
        rows.iter().filter(|row| row.trees.differ()).map(|row| row.metric.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| {
        format!(
            "different trees on the sides, so a difference may be due to the files: {}",
            gate::some_of(&names)
        )
    })
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
