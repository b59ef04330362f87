//! Ageing slowdown: each measure on the aged file system against a copy of the same tree without age, and
//! against a file system fresh from mkfs.
//!
//! A study tells the states apart by the factor `state`; the copy is the fair comparison, because it holds
//! the same bytes in the same use of the volume, so that all that differs is where they lie.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::measure::QUEUE_DEPTH;
use fsage_model::metric::is_headline;
use serde::Serialize;
use serde_json::json;

use super::difference::{Finding, finding};
use super::factor;
use super::text::rounded;
use super::view::View;
use crate::stats::benjamini_hochberg::adjusted;
use crate::stats::claim::pairs;
use crate::stats::evidence::{is_of_target, ratio};
use crate::stats::quantile::mean;
use crate::stats::{Estimate, Evidence, Trees, work};

/// The factor that tells the states apart.
pub const STATE: &str = "state";
/// The state that the others are compared with.
const AGED: &str = "aged";
/// What it is compared with, the fair comparison first.
const OTHERS: [&str; 2] = ["unaged", "fresh"];
/// Share of findings that may be false.
const FALSE_DISCOVERIES: f64 = 0.05;
/// Numbers of a measure that explain its headline.
const BESIDE: [&str; 5] =
    ["read_requests", "dynamic_layout_score", "write_requests", "write_layout_score", QUEUE_DEPTH];

/// One measure's number, aged against another state, on one file system.
#[derive(Debug, Clone)]
pub struct AgeCost {
    /// The measure (`grep`).
    pub measure: String,
    /// Metric name: the measure's own for its headline (`grep`), else below it (`grep.read_requests`).
    pub metric: String,
    /// Unit of the levels.
    pub unit: String,
    pub file_system: String,
    /// `unaged` or `fresh`.
    pub against: &'static str,
    /// The medium where it is a factor, and the aged side's factors that the other side has no part in, in
    /// words; empty when there are none.
    pub context: String,
    /// The same without the medium.
    pub settings: String,
    /// The first aged trial: its index in [`View::trials`].
    pub trial: usize,
    /// Whether larger is worse, better or neither.
    pub larger_is_worse: Option<bool>,
    /// Whether the sides did the same work, as far as that is known.
    pub same_work: bool,
    /// Whether they had the same files.
    pub trees: Trees,
    /// Means over the paired trials.
    pub aged: f64,
    pub other: f64,
    /// aged ÷ other.
    pub estimate: Estimate,
    /// What the interval says, corrected for the number of comparisons (Benjamini & Hochberg 1995).
    pub finding: Finding,
    /// Whether the interval excludes 1 and only the correction keeps it from counting.
    pub corrected: bool,
}

/// One trial in the scatter of cost over layout.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Index in the view's file systems.
    pub file_system: usize,
    pub state: String,
    pub measure: String,
    /// The dynamic layout score of the measure, 0..=1.
    pub score: f64,
    /// Its headline, in `unit`.
    pub cost: f64,
    pub unit: String,
    /// The trial's other factors, in words.
    pub label: String,
}

/// Measures that any trial has, in alphabetical order: their headlines are the metrics without a dot.
pub fn measures(view: &View) -> Vec<String> {
    let names = view.evidence.iter().flat_map(|trial| trial.metrics.keys());
    names.filter(|name| is_headline(name)).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Every number of every measure, aged against the other states, each file system apart.
pub fn all(view: &View) -> Vec<AgeCost> {
    let mut found = Vec::new();
    for measure in measures(view) {
        let beside = BESIDE.iter().map(|name| format!("{measure}.{name}"));
        for metric in std::iter::once(measure.clone()).chain(beside) {
            for file_system in &view.file_systems {
                for against in OTHERS {
                    found.extend(compare(view, (&measure, &metric), file_system, against));
                }
            }
        }
    }
    correct(&mut found);
    found
}

/// Takes back findings that do not survive the number of comparisons made; without an interval there is none,
/// and within one run nothing is tested.
fn correct(found: &mut [AgeCost]) {
    let p: Vec<f64> = found.iter().map(|cost| cost.estimate.p.unwrap_or(1.0)).collect();
    for (cost, adjusted) in found.iter_mut().zip(adjusted(&p)) {
        if adjusted > FALSE_DISCOVERIES && cost.finding != Finding::OneRun {
            cost.corrected = cost.finding != Finding::NoEvidence;
            cost.finding = Finding::NoEvidence;
        }
    }
}

/// Measures that are not compared, because the states did different work: one sentence each.
pub fn refused(view: &View) -> Vec<String> {
    let mut found = Vec::new();
    for measure in measures(view) {
        for file_system in &view.file_systems {
            for against in OTHERS {
                let contexts = contexts(view, &measure, file_system, against);
                let how = contexts.values().find_map(|pairs| work::different(pairs, &measure));
                found.extend(how.map(|how| format!("{measure} on {file_system}, aged ÷ {against}: {how}")));
            }
        }
    }
    found
}

/// Pairs of an aged trial and another, by the context of the aged side, with and without the medium.
fn contexts<'a>(
    view: &'a View,
    metric: &str,
    file_system: &str,
    against: &str,
) -> BTreeMap<(String, String), Vec<(&'a Evidence, &'a Evidence)>> {
    let cells = |state: &str| BTreeMap::from([(STATE.to_owned(), json!(state))]);
    let of = |trial: &Evidence| {
        trial.factor(factor::FILE_SYSTEM).and_then(serde_json::Value::as_str) == Some(file_system)
    };
    let mut contexts: BTreeMap<(String, String), Vec<(&Evidence, &Evidence)>> = BTreeMap::new();
    for (aged, other) in pairs(&view.evidence, &cells(AGED), &cells(against)) {
        if of(aged) && of(other) && aged.metrics.contains_key(metric) && other.metrics.contains_key(metric) {
            // Times on different media, hosts and kernels are no repeats of each other.
            let own = aged.factors.iter().filter(|(path, _)| {
                path.as_str() == factor::MEDIUM || is_of_target(path) || !other.applies(path)
            });
            let own: BTreeMap<_, _> = own.map(|(path, value)| (path.clone(), value.clone())).collect();
            let context = factor::context(&own, &BTreeSet::new());
            let settings = factor::context(&own, &BTreeSet::from([factor::MEDIUM]));
            contexts.entry((context, settings)).or_default().push((aged, other));
        }
    }
    contexts
}

/// One comparison, or one for each context of the aged side where several of them share one other trial.
fn compare(
    view: &View,
    (measure, metric): (&str, &str),
    file_system: &str,
    against: &'static str,
) -> Vec<AgeCost> {
    let cost = |((context, settings), pairs): ((String, String), Vec<(&Evidence, &Evidence)>)| {
        let estimate = ratio(&pairs, metric, view.confidence)?;
        let series = pairs.first()?.0.metrics.get(metric)?;
        let value = |trial: &Evidence| trial.metrics.get(metric)?.samples.first().copied();
        let aged: Vec<f64> = pairs.iter().filter_map(|(aged, _)| value(aged)).collect();
        let other: Vec<f64> = pairs.iter().filter_map(|(_, other)| value(other)).collect();
        Some(AgeCost {
            measure: measure.to_owned(),
            metric: metric.to_owned(),
            unit: series.unit.clone(),
            file_system: file_system.to_owned(),
            against,
            context,
            settings,
            trial: view.evidence.iter().position(|trial| std::ptr::eq(trial, pairs[0].0)).unwrap_or(0),
            larger_is_worse: series.larger_is_worse,
            same_work: pairs.iter().all(|(aged, other)| work::same(aged, other, measure)),
            trees: Trees::of(&pairs),
            aged: mean(&aged)?,
            other: mean(&other)?,
            finding: finding(&estimate, series.larger_is_worse),
            corrected: false,
            estimate,
        })
    };
    contexts(view, metric, file_system, against).into_iter().filter_map(cost).collect()
}

/// Every measure of every trial that has both a cost and a layout score.
pub fn points(view: &View) -> Vec<Point> {
    let measures = measures(view);
    let mut points = Vec::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        let Some(file_system) = view.file_systems.iter().position(|name| *name == trial.file_system) else {
            continue;
        };
        let value = |metric: &str| evidence.metrics.get(metric)?.samples.first().copied();
        for measure in &measures {
            let (Some(cost), Some(score)) =
                (value(measure), value(&format!("{measure}.dynamic_layout_score")))
            else {
                continue;
            };
            points.push(Point {
                file_system,
                state: evidence.factor(STATE).and_then(|s| s.as_str()).unwrap_or("aged").to_owned(),
                measure: measure.clone(),
                score: rounded(score),
                cost: rounded(cost),
                unit: evidence.metrics.get(measure).map(|s| s.unit.clone()).unwrap_or_default(),
                label: trial.label.clone(),
            });
        }
    }
    points
}
