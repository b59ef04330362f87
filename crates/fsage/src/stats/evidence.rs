//! What trials say about a metric, and ratios of it between them.
//!
//! The sampling unit is the trial. Three or more of them (or pairs of them) give an interval: Student's t while they
//! are few (see [`super::student`]), else by drawing trials. With one or two, only the variation *within* each trial is known: the interval then comes from
//! blocks of neighbouring ticks or probes (see [`super::bootstrap`]) and [`Basis::Blocks`] says so, because
//! it holds for that one run, not for a run made again.
//!
//! Ratios over several pairs are geometric means (Fleming & Wallace 1986), so that a pair with large numbers
//! does not outvote the others and a ratio and its inverse agree.

use std::collections::BTreeMap;

use serde_json::Value;

use super::bootstrap::{Bootstrap, Interval, Method};
use super::quantile::{count, mean};
use super::student;

/// Trials (or pairs of trials) from which on the trial is the sampling unit.
pub const TRIALS: usize = 3;
/// Blocks a trial must have before its own variation gives an interval.
pub const BLOCKS: usize = 8;

/// One block of neighbouring ticks or probes of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// What it counts (operations, or 1 a probe).
    pub weight: f64,
    /// Its weighted mean.
    pub value: f64,
}

/// A metric of one trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// `ns`, `bytes`, …
    pub unit: String,
    /// Whether larger is worse, better or neither.
    pub larger_is_worse: Option<bool>,
    /// The trial's own samples.
    pub samples: Vec<f64>,
    /// How it varied within the trial; empty when only its end is known.
    pub blocks: Vec<Unit>,
}

/// A latency early and late in a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trend {
    /// The second quarter of the ticks.
    pub early: Vec<Unit>,
    /// The last quarter.
    pub late: Vec<Unit>,
}

/// One complete trial, as far as comparisons need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Dotted path → value, of the matrix' factors.
    pub factors: BTreeMap<String, Value>,
    /// The resolved spec, for factors that are not in the matrix.
    pub spec: Value,
    /// 0-based repeat.
    pub repeat: u32,
    /// By metric name.
    pub metrics: BTreeMap<String, Series>,
    /// By operation name.
    pub trend: BTreeMap<String, Trend>,
}

/// Where an interval comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Drawing trials (or pairs of trials).
    Trials,
    /// Drawing blocks of ticks or probes within one or two trials.
    Blocks,
    /// No interval: too few trials and nothing known of the variation within them.
    Single,
}

impl Basis {
    /// As the page says it.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Trials => "over trials",
            Self::Blocks => "within one run (blocks)",
            Self::Single => "no interval: one value",
        }
    }
}

/// A measured value with what is known of its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Its interval, when there is one.
    pub interval: Option<Interval>,
    /// Trials or pairs of trials behind it.
    pub n: usize,
    /// Where the interval comes from.
    pub basis: Basis,
}

impl Evidence {
    /// Value of a factor: the matrix', else what the resolved spec has at that dotted path.
    #[must_use]
    pub fn factor(&self, path: &str) -> Option<&Value> {
        self.factors.get(path).or_else(|| look_up(&self.spec, path))
    }

    /// Whether every named factor has the value given.
    #[must_use]
    pub fn matches(&self, cells: &BTreeMap<String, Value>) -> bool {
        cells.iter().all(|(path, want)| self.factor(path).is_some_and(|have| same(have, want)))
    }

    fn sample(&self, metric: &str) -> Option<f64> {
        mean(&self.metrics.get(metric)?.samples).filter(|value| value.is_finite())
    }
}

/// The value at a dotted path; an element of a list is named by its `name` (or, lacking one, its `kind`).
#[must_use]
pub fn look_up<'a>(spec: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(spec, |at, part| match at {
        Value::Array(items) => items.iter().find(|item| {
            let name = item.get("name").or_else(|| item.get("kind"));
            name.and_then(Value::as_str) == Some(part)
        }),
        other => other.get(part),
    })
}

/// Equal, with numbers compared as numbers (`1` is `1.0`).
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Puts weighted values, in order of time, into blocks: about √n of them, at least [`BLOCKS`]. Too few values
/// give none.
#[must_use]
pub fn blocks(values: &[(f64, f64)]) -> Vec<Unit> {
    if values.len() < 2 * BLOCKS {
        return Vec::new();
    }
    let number = values.len().isqrt().max(BLOCKS);
    (0..number)
        .filter_map(|block| {
            let part = &values[block * values.len() / number..(block + 1) * values.len() / number];
            let weight: f64 = part.iter().map(|(weight, _)| weight).sum();
            let sum: f64 = part.iter().map(|(weight, value)| weight * value).sum();
            (weight > 0.0).then_some(Unit { weight, value: sum / weight })
        })
        .collect()
}

/// metric(numerator) / metric(denominator) over pairs of trials; `None` when no pair has it.
#[must_use]
pub fn ratio(pairs: &[(&Evidence, &Evidence)], metric: &str, bootstrap: &Bootstrap) -> Option<Estimate> {
    let known: Vec<_> = pairs
        .iter()
        .filter_map(|(a, b)| {
            let pair = (a.sample(metric)?, b.sample(metric)?);
            (pair.0 > 0.0 && pair.1 > 0.0).then_some((pair, *a, *b))
        })
        .collect();
    let values: Vec<(f64, f64)> = known.iter().map(|(pair, ..)| *pair).collect();
    combine(&values, bootstrap, |i| {
        let (_, a, b) = known[i];
        Some((&a.metrics.get(metric)?.blocks[..], &b.metrics.get(metric)?.blocks[..]))
    })
}

/// Latency late in the run over that early in it, over trials; `None` when none has both.
#[must_use]
pub fn trend(trials: &[&Evidence], operation: &str, bootstrap: &Bootstrap) -> Option<Estimate> {
    let known: Vec<&Trend> = trials
        .iter()
        .filter_map(|trial| trial.trend.get(operation))
        .filter(|trend| centre(&trend.early) > 0.0 && centre(&trend.late) > 0.0)
        .collect();
    let values: Vec<(f64, f64)> =
        known.iter().map(|trend| (centre(&trend.late), centre(&trend.early))).collect();
    combine(&values, bootstrap, |i| Some((&known[i].late[..], &known[i].early[..])))
}

/// The metric itself over trials; `None` when none has it.
#[must_use]
pub fn level(trials: &[&Evidence], metric: &str, bootstrap: &Bootstrap) -> Option<Estimate> {
    let known: Vec<(f64, &Evidence)> =
        trials.iter().filter_map(|trial| Some((trial.sample(metric)?, *trial))).collect();
    let samples: Vec<f64> = known.iter().map(|(value, _)| *value).collect();
    let value = mean(&samples)?;
    let n = samples.len();
    if n >= TRIALS {
        return Some(Estimate { value, interval: over_trials(bootstrap, &samples), n, basis: Basis::Trials });
    }
    let within: Option<Vec<Interval>> = known
        .iter()
        .map(|(sample, trial)| {
            let units = &trial.metrics.get(metric)?.blocks;
            let interval = block_interval(bootstrap, units, &[])?;
            let shift = sample - centre(units);
            Some(Interval { low: interval.low + shift - sample, high: interval.high + shift - sample })
        })
        .collect();
    let Some(within) = within.filter(|within| !within.is_empty()) else {
        return Some(Estimate { value, interval: None, n, basis: Basis::Single });
    };
    let spread = |part: fn(&Interval) -> f64| {
        within.iter().map(|interval| part(interval).powi(2)).sum::<f64>().sqrt() / count(n)
    };
    let interval = Interval { low: value - spread(|i| i.low), high: value + spread(|i| i.high) };
    Some(Estimate { value, interval: Some(interval), n, basis: Basis::Blocks })
}

/// Geometric mean of ratios, with an interval over pairs or from within them.
fn combine<'a>(
    values: &[(f64, f64)],
    bootstrap: &Bootstrap,
    units: impl Fn(usize) -> Option<(&'a [Unit], &'a [Unit])>,
) -> Option<Estimate> {
    let logs: Vec<f64> = values.iter().map(|(a, b)| (a / b).ln()).collect();
    let log = mean(&logs)?;
    let n = logs.len();
    if n >= TRIALS {
        let interval = over_trials(bootstrap, &logs)
            .map(|interval| Interval { low: interval.low.exp(), high: interval.high.exp() });
        return Some(Estimate { value: log.exp(), interval, n, basis: Basis::Trials });
    }
    // Distances of the ends from the estimate on the log scale, added in quadrature over the pairs and
    // hung onto the measured ratio: blocks know the relative uncertainty, the trial knows the value.
    let (mut below, mut above) = (0.0_f64, 0.0_f64);
    for i in 0..n {
        let interval = units(i).and_then(|(a, b)| {
            let interval = block_interval(bootstrap, a, b).filter(|_| !b.is_empty())?;
            let estimate = (centre(a) / centre(b)).ln();
            Some((estimate - interval.low.ln(), interval.high.ln() - estimate))
        });
        let Some((low, high)) = interval.filter(|(low, high)| low.is_finite() && high.is_finite()) else {
            return Some(Estimate { value: log.exp(), interval: None, n, basis: Basis::Single });
        };
        below += low.powi(2);
        above += high.powi(2);
    }
    let interval =
        Interval { low: (log - below.sqrt() / count(n)).exp(), high: (log + above.sqrt() / count(n)).exp() };
    Some(Estimate { value: log.exp(), interval: Some(interval), n, basis: Basis::Blocks })
}

/// Interval of the mean over trials.
fn over_trials(bootstrap: &Bootstrap, values: &[f64]) -> Option<Interval> {
    if values.len() < student::FEW {
        return student::interval(values, bootstrap.confidence);
    }
    bootstrap.one(Bootstrap::best(values.len(), 0), values, |drawn| mean(drawn).unwrap_or(f64::NAN))
}

fn block_interval(bootstrap: &Bootstrap, a: &[Unit], b: &[Unit]) -> Option<Interval> {
    if a.len() < BLOCKS.min(4) || (!b.is_empty() && b.len() < BLOCKS.min(4)) {
        return None;
    }
    if b.is_empty() {
        return bootstrap.one(Method::Percentile, a, centre);
    }
    bootstrap.two(Method::Percentile, a, b, |a, b| centre(a) / centre(b))
}

/// Weighted mean of units; 0 without any.
fn centre(units: &[Unit]) -> f64 {
    let weight: f64 = units.iter().map(|unit| unit.weight).sum();
    let sum: f64 = units.iter().map(|unit| unit.weight * unit.value).sum();
    if weight > 0.0 { sum / weight } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A trial with one metric and, when `wave` is given, blocks around it.
    pub(crate) fn trial(kind: &str, repeat: u32, metric: &str, value: f64, wave: Option<f64>) -> Evidence {
        let ticks: Vec<(f64, f64)> = wave.map_or_else(Vec::new, |wave| {
            (0..400).map(|i| (10.0, value * (1.0 + wave * (f64::from(i) * 0.7).sin()))).collect()
        });
        let series = Series {
            unit: "ns".to_owned(),
            samples: vec![value],
            blocks: blocks(&ticks),
            ..Series::default()
        };
        Evidence {
            factors: BTreeMap::from([("file_system.kind".to_owned(), json!(kind))]),
            repeat,
            metrics: BTreeMap::from([(metric.to_owned(), series)]),
            ..Evidence::default()
        }
    }

    #[test]
    fn three_pairs_draw_trials() {
        let a: Vec<_> = (0..3).map(|r| trial("xfs", r, "m", 20.0 + f64::from(r), None)).collect();
        let b: Vec<_> = (0..3).map(|r| trial("ext4", r, "m", 10.0, None)).collect();
        let pairs: Vec<_> = a.iter().zip(&b).collect();
        let estimate = ratio(&pairs, "m", &Bootstrap::default()).unwrap();
        assert_eq!((estimate.n, estimate.basis), (3, Basis::Trials));
        assert!((estimate.value - (20.0_f64 * 21.0 * 22.0).cbrt() / 10.0).abs() < 1e-12);
        let interval = estimate.interval.unwrap();
        // Wider than the three values are: three do not tell the range.
        assert!(interval.low < 2.0 && interval.high > 2.2 && interval.contains(estimate.value));
    }

    #[test]
    fn one_pair_draws_blocks_and_says_so() {
        let (a, b) = (trial("xfs", 0, "m", 20.0, Some(0.3)), trial("ext4", 0, "m", 10.0, Some(0.3)));
        let estimate = ratio(&[(&a, &b)], "m", &Bootstrap::default()).unwrap();
        assert_eq!((estimate.n, estimate.basis), (1, Basis::Blocks));
        let interval = estimate.interval.unwrap();
        assert!(interval.low > 1.7 && interval.high < 2.3 && interval.contains(2.0), "{interval:?}");
    }

    #[test]
    fn one_value_has_no_interval() {
        let (a, b) = (trial("xfs", 0, "m", 20.0, None), trial("ext4", 0, "m", 10.0, None));
        let estimate = ratio(&[(&a, &b)], "m", &Bootstrap::default()).unwrap();
        assert_eq!((estimate.interval, estimate.basis), (None, Basis::Single));
        assert_eq!(ratio(&[(&a, &b)], "other", &Bootstrap::default()), None);
        assert_eq!(level(&[&a], "m", &Bootstrap::default()).unwrap().value, 20.0);
    }

    #[test]
    fn levels_have_intervals_around_the_value() {
        let one = trial("xfs", 0, "m", 20.0, Some(0.5));
        let estimate = level(&[&one], "m", &Bootstrap::default()).unwrap();
        assert_eq!(estimate.basis, Basis::Blocks);
        assert!(estimate.interval.unwrap().contains(20.0));
    }

    #[test]
    fn factors_are_found_in_the_spec_too() {
        let evidence = Evidence {
            spec: json!({"stage": [{"kind": "age", "name": "age", "workload": {"slots": 500}}]}),
            ..Evidence::default()
        };
        assert_eq!(evidence.factor("stage.age.workload.slots"), Some(&json!(500)));
        assert!(evidence.matches(&BTreeMap::from([("stage.age.workload.slots".to_owned(), json!(500.0))])));
        assert!(!evidence.matches(&BTreeMap::from([("stage.other.x".to_owned(), json!(1))])));
    }

    #[test]
    fn blocks_keep_the_weighted_mean() {
        let values: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i % 7), f64::from(i))).collect();
        let units = blocks(&values);
        assert_eq!(units.len(), 31);
        let weight: f64 = values.iter().map(|(weight, _)| weight).sum();
        let want = values.iter().map(|(weight, value)| weight * value).sum::<f64>() / weight;
        assert!((centre(&units) - want).abs() < 1e-9);
        assert_eq!(blocks(&values[..10]), Vec::new());
    }
}
