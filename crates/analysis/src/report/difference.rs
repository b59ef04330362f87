//! Comparisons between the values of each factor, everything else equal.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::metric;
use serde::Serialize;
use serde_json::Value;

use super::factor;
use super::view::View;
use crate::stats::benjamini_hochberg::adjusted;
use crate::stats::claim::pairs;
use crate::stats::effect::cliffs_delta;
use crate::stats::evidence::{SEEDS, place, ratio, zeros};
use crate::stats::{Estimate, Evidence, Trees, shared};

/// Comparisons a page may hold; more would hide what matters.
const LIMIT: usize = 2_000;

/// Share of the surviving comparisons that may be false, on average.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// The context of a comparison over all contexts of one file system and medium.
const TOGETHER: &str = "all together";

/// State metrics that are compared beside the latencies.
const STATE: [&str; 7] = [
    metric::FREE_EXTENTS,
    metric::FREE_MEDIAN_BYTES,
    metric::EXTENTS_PER_FILE,
    metric::FRAGMENTED_SHARE,
    metric::LAYOUT_SCORE,
    metric::OPERATIONS_PER_S,
    metric::DEVICE_BYTES,
];

/// One comparison.
#[derive(Debug, Clone)]
pub struct Difference {
    pub metric: String,
    /// Dotted path of the factor.
    pub factor: String,
    /// `xfs ÷ ext4`.
    pub sides: String,
    /// What was held equal: `utilisation target 80 %`, or `ext4, all together`.
    pub context: String,
    pub estimate: Estimate,
    pub finding: Finding,
    /// Whether both sides had the same files.
    pub trees: Trees,
    /// Whether it survives the correction for all comparisons made (Benjamini–Hochberg, see
    /// [`FALSE_DISCOVERIES`]).
    pub survives: bool,
    /// Cliff's delta where both sides have at least three trials.
    pub delta: Option<f64>,
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The first side is worse.
    Worse,
    /// The first side is better.
    Better,
    /// They differ, and neither direction is good or bad.
    Differs,
    /// The whole range lies beside 1 within single runs: what another run would show is not known.
    OneRun,
    /// The interval or range holds 1, or there is none.
    NoEvidence,
}

impl Finding {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Differs => "differs",
            Self::OneRun => "in this run only",
            Self::NoEvidence => "no evidence",
        }
    }
}

/// Metrics that are compared, latencies first.
pub fn metrics(view: &View) -> Vec<String> {
    let known: BTreeSet<&str> =
        view.evidence.iter().flat_map(|trial| trial.metrics.keys().map(String::as_str)).collect();
    let mut names = Vec::new();
    for kind in fsage_model::operation::OperationKind::ALL {
        for what in [metric::MEAN_NS, metric::P50_NS, metric::P99_NS] {
            let name = metric::latency(kind, what);
            if known.contains(name.as_str()) {
                names.push(name);
            }
        }
    }
    names.extend(STATE.iter().filter(|name| known.contains(*name)).map(|name| (*name).to_owned()));
    names
}

/// What came of comparing.
#[derive(Debug, Default)]
pub struct Differences {
    /// Every comparison made.
    pub made: Vec<Difference>,
    /// Comparisons that were left out, because a page holds only so many.
    pub left_out: usize,
    /// Comparisons in which every pair had a zero: there is no ratio.
    pub all_zero: Vec<String>,
}

/// Every comparison.
pub fn all(view: &View) -> Differences {
    let metrics = metrics(view);
    let fitting = (LIMIT / metrics.len().max(1)).max(1);
    let mut differences = Differences::default();
    // Most metrics have the same factors.
    let mut known: BTreeMap<BTreeSet<&str>, Vec<Comparison<'_>>> = BTreeMap::new();
    for metric in &metrics {
        let without = shared::indifferent(&view.evidence, metric);
        let comparisons = known.entry(without).or_insert_with_key(|without| comparisons(view, without));
        differences.left_out += comparisons.len().saturating_sub(fitting);
        for comparison in comparisons.iter().take(fitting) {
            match compare(view, comparison, metric) {
                Some(made) => differences.made.push(made),
                None if zeros(&comparison.pairs, metric) > 0 => {
                    differences.all_zero.push(comparison.describe(metric));
                }
                None => {}
            }
        }
    }
    // A comparison without an interval was made all the same, so it counts.
    let p: Vec<f64> =
        differences.made.iter().map(|difference| difference.estimate.p.unwrap_or(1.0)).collect();
    for (difference, p) in differences.made.iter_mut().zip(adjusted(&p)) {
        let shown = !matches!(difference.finding, Finding::NoEvidence | Finding::OneRun);
        difference.survives = p <= FALSE_DISCOVERIES && shown;
    }
    differences
}

struct Comparison<'a> {
    factor: String,
    sides: String,
    context: String,
    pairs: Vec<(&'a Evidence, &'a Evidence)>,
}

impl Comparison<'_> {
    /// For a list: `free extents, xfs ÷ ext4 (utilisation target 80 %)`.
    fn describe(&self, metric: &str) -> String {
        let context = if self.context.is_empty() { String::new() } else { format!(" ({})", self.context) };
        format!("{}, {}{context}", super::text::metric(metric), self.sides)
    }
}

/// Pairs of values of each factor that can make a difference: over the contexts of one file system and
/// medium, and in each context apart.
fn comparisons<'a>(view: &'a View, without: &BTreeSet<&str>) -> Vec<Comparison<'a>> {
    let factors: BTreeSet<&String> = view.evidence.iter().flat_map(|trial| trial.factors.keys()).collect();
    let mut comparisons = Vec::new();
    for path in factors.into_iter().filter(|path| !without.contains(path.as_str())) {
        let values = values(view, path);
        for (i, low) in values.iter().enumerate() {
            for high in &values[i + 1..] {
                let side = |value: &Value| BTreeMap::from([((*path).clone(), value.clone())]);
                let pairs = pairs(&view.evidence, &side(high), &side(low));
                let sides = format!("{} ÷ {}", factor::value(path, high), factor::value(path, low));
                add(&mut comparisons, (path, without), &sides, pairs);
            }
        }
    }
    comparisons
}

fn add<'a>(
    comparisons: &mut Vec<Comparison<'a>>,
    (path, without): (&str, &BTreeSet<&str>),
    sides: &str,
    pairs: Vec<(&'a Evidence, &'a Evidence)>,
) {
    let mut places: BTreeMap<String, BTreeMap<String, Vec<_>>> = BTreeMap::new();
    let mut without = without.clone();
    without.insert(path);
    for pair in &pairs {
        let contexts = places.entry(place(pair.0, |fixed| fixed == path)).or_default();
        contexts.entry(factor::context(&pair.0.factors, &without)).or_default().push(*pair);
    }
    let one = |context: String, pairs| Comparison {
        factor: path.to_owned(),
        sides: sides.to_owned(),
        context,
        pairs,
    };
    for (place, contexts) in places {
        if contexts.len() > 1 {
            let name = if place.is_empty() { TOGETHER.to_owned() } else { format!("{place}, {TOGETHER}") };
            comparisons.push(one(name, contexts.values().flatten().copied().collect()));
        }
        comparisons.extend(contexts.into_iter().map(|(context, pairs)| one(context, pairs)));
    }
}

/// A factor's values, familiar file systems first, numbers by size.
fn values(view: &View, path: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for trial in &view.evidence {
        if let Some(value) = trial.factors.get(path).filter(|value| !values.contains(value)) {
            values.push(value.clone());
        }
    }
    if path == factor::FILE_SYSTEM {
        let place =
            |value: &Value| view.file_systems.iter().position(|name| Some(name.as_str()) == value.as_str());
        values.sort_by_key(place);
    } else {
        values.sort_by(|a, b| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => a.to_string().cmp(&b.to_string()),
        });
    }
    values
}

fn compare(view: &View, comparison: &Comparison<'_>, metric: &str) -> Option<Difference> {
    let estimate = ratio(&comparison.pairs, metric, view.confidence)?;
    let worse = comparison.pairs.iter().find_map(|(a, _)| a.metrics.get(metric))?.larger_is_worse;
    // Fewer free extents are no gain when there is less free space.
    let worse = worse.filter(|_| !metric::is_of_free_space(metric));
    // Trials of different contexts are not samples of one thing: no effect size over them.
    let delta = (estimate.n >= SEEDS && !comparison.context.ends_with(TOGETHER)).then(|| {
        let value = |evidence: &Evidence| evidence.metrics.get(metric)?.samples.first().copied();
        let pairs = shared::once_in_pairs(&comparison.pairs, metric);
        let a: Vec<f64> = pairs.iter().filter_map(|(a, _)| value(a)).collect();
        let b: Vec<f64> = pairs.iter().filter_map(|(_, b)| value(b)).collect();
        cliffs_delta(&a, &b)
    });
    Some(Difference {
        metric: metric.to_owned(),
        factor: comparison.factor.clone(),
        sides: comparison.sides.clone(),
        context: comparison.context.clone(),
        finding: finding(&estimate, worse),
        trees: Trees::of(&comparison.pairs),
        estimate,
        survives: false,
        delta: delta.flatten(),
    })
}

pub(super) fn finding(estimate: &Estimate, larger_is_worse: Option<bool>) -> Finding {
    match (estimate.interval, larger_is_worse) {
        (Some(interval), _) if interval.contains(1.0) => Finding::NoEvidence,
        (None, _) if estimate.range.is_some_and(|range| !range.contains(1.0)) => Finding::OneRun,
        (None, _) => Finding::NoEvidence,
        (Some(_), None) => Finding::Differs,
        (Some(interval), Some(worse)) if (interval.low > 1.0) == worse => Finding::Worse,
        (Some(_), Some(_)) => Finding::Better,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_need_an_interval_beside_one() {
        let estimate = |low: f64, high: f64| Estimate {
            value: (low * high).sqrt(),
            interval: Some(crate::stats::Interval { low, high }),
            range: None,
            n: 3,
            units: 3,
            contexts: 1,
            zeros: 0,
            p: None,
            basis: crate::stats::evidence::Basis::Seeds,
            detectable: None,
            more: None,
        };
        assert_eq!(finding(&estimate(0.9, 1.1), Some(true)), Finding::NoEvidence);
        assert_eq!(finding(&estimate(1.1, 1.2), Some(true)), Finding::Worse);
        assert_eq!(finding(&estimate(1.1, 1.2), Some(false)), Finding::Better);
        assert_eq!(finding(&estimate(1.1, 1.2), None), Finding::Differs);
        let within = |low: f64, high: f64| {
            let range = Some(crate::stats::Interval { low, high });
            finding(&Estimate { interval: None, range, ..estimate(1.1, 1.2) }, Some(true))
        };
        assert_eq!((within(1.1, 1.2), within(0.9, 1.2)), (Finding::OneRun, Finding::NoEvidence));
    }
}
