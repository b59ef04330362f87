//! What trials say about a metric, and ratios of it between them.
//!
//! Trials that differ in other factors are no repeats of each other: what a file system's being full does on
//! ext4 says little of what it does on btrfs, while five repeats on ext4 are alike. So values are grouped by
//! *context*, the cell of the factors that are not compared, and each context weighs the same:
//!
//! - Three or more contexts: whole contexts are the sampling units, the repeats of one go together (the
//!   cluster bootstrap: groups with replacement, nothing drawn within, Davison & Hinkley 1997 §3.8). The
//!   interval speaks of contexts like these.
//! - One context: its repeats are the units.
//! - Two contexts, each repeated: two do not tell how contexts vary. The interval takes them as given, adds
//!   the variances within them (Welch 1938, freedom by Satterthwaite 1946), and [`Basis::Within`] says so.
//!   Not each repeated: no interval ([`Basis::FewContexts`]).
//! - One or two values in all: only the variation *within* each trial is known. The interval comes from
//!   blocks of neighbouring ticks or probes (see [`super::bootstrap`]), or from the few samples of a metric
//!   as they are, and [`Basis::Blocks`] says so, because it holds for that one run, not for a run made again.
//!
//! Fewer than eight units give Student's t (see [`super::student`]), more are drawn.
//!
//! What trials that share an image have from before it is of one run, and counts once ([`super::shared`]).
//!
//! Ratios over several pairs are geometric means (Fleming & Wallace 1986), so that a pair with large numbers
//! does not outvote the others and a ratio and its inverse agree. A pair with a zero has no such ratio; it is
//! left out and counted in [`Estimate::zeros`].

use std::collections::BTreeMap;

use fsage_model::metric;
use serde_json::Value;

use super::bootstrap::{Bootstrap, Interval, Method};
use super::quantile::{count, mean};
use super::{shared, student};

/// Units (contexts, trials, or pairs of trials) from which on they give an interval.
pub const TRIALS: usize = 3;
/// Blocks a trial must have before its own variation gives an interval.
pub const BLOCKS: usize = 8;
/// Samples a trial must have for them to be its units as they are.
pub const ALONE: usize = 4;

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
    /// Names the run of the stages before an image ([`fsage_model::record::Metric::run`]), which other trials
    /// may share.
    pub run: Option<String>,
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
    /// Drawing trials (or pairs of trials) of one context.
    Trials,
    /// Drawing whole contexts with all their trials.
    Contexts,
    /// Repeats within two contexts, which are taken as given.
    Within,
    /// No interval: two contexts that are not each repeated.
    FewContexts,
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
            Self::Contexts => "over contexts",
            Self::Within => "over repeats, for these two contexts only",
            Self::FewContexts => "no interval: two contexts, not each repeated",
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
    /// Cells of the factors that are not compared, among which the trials are spread.
    pub contexts: usize,
    /// Trials or pairs that were left out because a side was 0, which has no ratio.
    pub zeros: usize,
    /// Chance of an effect as large when there is none, two-sided; ratios with an interval only.
    pub p: Option<f64>,
    /// Where the interval comes from.
    pub basis: Basis,
}

impl Evidence {
    /// Value of a factor: the matrix', else what the resolved spec has at that dotted path.
    #[must_use]
    pub fn factor(&self, path: &str) -> Option<&Value> {
        self.factors.get(path).or_else(|| look_up(&self.spec, path))
    }

    /// Whether a factor can make a difference to this trial: one of a stage that its state leaves out cannot.
    #[must_use]
    pub fn applies(&self, path: &str) -> bool {
        let Some(name) = path.strip_prefix("stage.").and_then(|rest| rest.split('.').next()) else {
            return true;
        };
        let when = look_up(&self.spec, &format!("stage.{name}.when")).and_then(Value::as_array);
        let state = look_up(&self.spec, "state").and_then(Value::as_str).unwrap_or_default();
        when.is_none_or(|when| when.is_empty() || when.iter().any(|known| known.as_str() == Some(state)))
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

/// The same for a metric's samples: where they are too few for blocks, each stands alone from [`ALONE`] on.
/// Their interval allows for that they follow each other ([`student::interval_of_series`]).
#[must_use]
pub fn samples(values: &[f64]) -> Vec<Unit> {
    let units: Vec<(f64, f64)> = values.iter().map(|value| (1.0, *value)).collect();
    if (ALONE..student::FEW).contains(&values.len()) {
        return units.into_iter().map(|(weight, value)| Unit { weight, value }).collect();
    }
    blocks(&units)
}

/// metric(numerator) / metric(denominator) over pairs of trials; `None` when no pair has it above 0.
#[must_use]
pub fn ratio(pairs: &[(&Evidence, &Evidence)], metric: &str, bootstrap: &Bootstrap) -> Option<Estimate> {
    let pairs = shared::once_in_pairs(pairs, metric);
    let mut apart = compared(&pairs);
    apart.extend(shared::indifferent(pairs.iter().flat_map(|(a, b)| [*a, *b]), metric));
    let known: Vec<_> = pairs
        .iter()
        .filter_map(|(a, b)| Some(((a.sample(metric)?, b.sample(metric)?), *a, *b)))
        .filter(|((a, b), ..)| *a > 0.0 && *b > 0.0)
        .collect();
    let logs: Vec<(String, f64)> =
        known.iter().map(|((x, y), a, _)| (context(a, &apart), (x / y).ln())).collect();
    let units = |i: usize| {
        let (_, a, b) = known.get(i)?;
        Some((&a.metrics.get(metric)?.blocks[..], &b.metrics.get(metric)?.blocks[..]))
    };
    let estimate = combine(&logs, bootstrap, units)?;
    Some(Estimate { zeros: zeros(&pairs, metric), ..estimate })
}

/// Pairs that know the metric on both sides and have no ratio, because a side is 0 or below.
#[must_use]
pub fn zeros(pairs: &[(&Evidence, &Evidence)], metric: &str) -> usize {
    let pairs = shared::once_in_pairs(pairs, metric);
    let known = pairs.iter().filter_map(|(a, b)| Some((a.sample(metric)?, b.sample(metric)?)));
    known.filter(|(a, b)| *a <= 0.0 || *b <= 0.0).count()
}

/// Latency late in the run over that early in it, over trials; `None` when none has both.
#[must_use]
pub fn trend(trials: &[&Evidence], operation: &str, bootstrap: &Bootstrap) -> Option<Estimate> {
    let metric = metric::latency_of(operation, metric::MEAN_NS);
    let apart = indifferent(trials, &metric);
    let trials = shared::once(trials, &metric);
    let present = trials
        .iter()
        .filter_map(|trial| Some((*trial, trial.trend.get(operation)?)))
        .filter(|(_, trend)| !trend.early.is_empty() && !trend.late.is_empty());
    let (known, zero): (Vec<_>, Vec<_>) =
        present.partition(|(_, trend)| centre(&trend.early) > 0.0 && centre(&trend.late) > 0.0);
    let logs: Vec<(String, f64)> = known
        .iter()
        .map(|(trial, trend)| (context(trial, &apart), (centre(&trend.late) / centre(&trend.early)).ln()))
        .collect();
    let units = |i: usize| known.get(i).map(|(_, trend)| (&trend.late[..], &trend.early[..]));
    let estimate = combine(&logs, bootstrap, units)?;
    Some(Estimate { zeros: zero.len(), ..estimate })
}

/// The metric itself over trials, each context weighing the same; `None` when none has it.
#[must_use]
pub fn level(trials: &[&Evidence], metric: &str, bootstrap: &Bootstrap) -> Option<Estimate> {
    let apart = indifferent(trials, metric);
    let trials = shared::once(trials, metric);
    let known: Vec<(f64, &Evidence)> =
        trials.iter().filter_map(|trial| Some((trial.sample(metric)?, *trial))).collect();
    let samples: Vec<(String, f64)> =
        known.iter().map(|(value, trial)| (context(trial, &apart), *value)).collect();
    let grouped = Grouped::new(&samples)?;
    let plain = grouped.estimate();
    let n = plain.n;
    if let Some(drawn) = grouped.interval(bootstrap) {
        return Some(Estimate { interval: drawn.interval, basis: drawn.basis, ..plain });
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
    let Some(within) = within.filter(|within| !within.is_empty()) else { return Some(plain) };
    let spread = |part: fn(&Interval) -> f64| {
        within.iter().map(|interval| part(interval).powi(2)).sum::<f64>().sqrt() / count(n)
    };
    let interval = Interval { low: plain.value - spread(|i| i.low), high: plain.value + spread(|i| i.high) };
    Some(Estimate { interval: Some(interval), basis: Basis::Blocks, ..plain })
}

/// Paths of the factors in which the sides of any pair differ, of those that make a difference to both.
fn compared<'a>(pairs: &[(&'a Evidence, &Evidence)]) -> Vec<&'a str> {
    let differ = |(a, b): &(&'a Evidence, &Evidence)| {
        let paths = a.factors.iter().filter(|(path, value)| b.factors.get(*path) != Some(value));
        let paths = paths.filter(|(path, _)| a.applies(path) && b.applies(path));
        paths.map(|(path, _)| path.as_str()).collect::<Vec<_>>()
    };
    pairs.iter().flat_map(differ).collect()
}

fn indifferent<'a>(trials: &[&'a Evidence], metric: &str) -> Vec<&'a str> {
    shared::indifferent(trials.iter().copied(), metric).into_iter().collect()
}

/// The cell of a trial's factors without those that are compared or make no difference.
fn context(trial: &Evidence, without: &[&str]) -> String {
    let held = trial.factors.iter().filter(|(path, _)| !without.contains(&path.as_str()));
    held.map(|(path, value)| format!("{path}={value};")).collect()
}

/// Values by context.
struct Grouped {
    groups: Vec<Vec<f64>>,
    n: usize,
    /// Mean of the contexts' means.
    centre: f64,
}

/// An interval that was drawn or computed over trials.
struct Drawn {
    interval: Option<Interval>,
    /// Degrees of freedom of a t interval; `None` for a drawn one.
    freedom: Option<f64>,
    basis: Basis,
}

impl Grouped {
    /// `None` without values.
    fn new(values: &[(String, f64)]) -> Option<Self> {
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (context, value) in values {
            groups.entry(context).or_default().push(*value);
        }
        let groups: Vec<Vec<f64>> = groups.into_values().collect();
        let centre = mean(&means(&groups))?;
        Some(Self { groups, n: values.len(), centre })
    }

    /// The value without an interval.
    fn estimate(&self) -> Estimate {
        let contexts = self.groups.len();
        let basis = Basis::Single;
        Estimate { value: self.centre, interval: None, n: self.n, contexts, zeros: 0, p: None, basis }
    }

    /// By the rule in the module's header; `None` where only blocks can tell.
    fn interval(&self, bootstrap: &Bootstrap) -> Option<Drawn> {
        match self.groups.as_slice() {
            _ if self.n < TRIALS => None,
            [one] => Some(over_units(bootstrap, one, Basis::Trials)),
            [a, b] if a.len() > 1 && b.len() > 1 => {
                let (interval, freedom) = student::of_means(&self.groups, bootstrap.confidence)?;
                Some(Drawn { interval: Some(interval), freedom: Some(freedom), basis: Basis::Within })
            }
            [_, _] => Some(Drawn { interval: None, freedom: None, basis: Basis::FewContexts }),
            groups => Some(over_units(bootstrap, &means(groups), Basis::Contexts)),
        }
    }
}

fn means(groups: &[Vec<f64>]) -> Vec<f64> {
    groups.iter().filter_map(|group| mean(group)).collect()
}

/// Geometric mean of ratios given by their logs, with an interval over trials or from within them.
fn combine<'a>(
    logs: &[(String, f64)],
    bootstrap: &Bootstrap,
    units: impl Fn(usize) -> Option<(&'a [Unit], &'a [Unit])>,
) -> Option<Estimate> {
    let grouped = Grouped::new(logs)?;
    let log = grouped.centre;
    let plain = Estimate { value: log.exp(), ..grouped.estimate() };
    let finish = |interval: Interval, freedom: Option<f64>, basis: Basis| Estimate {
        interval: Some(Interval { low: interval.low.exp(), high: interval.high.exp() }),
        p: student::p_of_interval(log, interval, freedom, bootstrap.confidence),
        basis,
        ..plain
    };
    if let Some(Drawn { interval, freedom, basis }) = grouped.interval(bootstrap) {
        let without = Estimate { basis, ..plain };
        return Some(interval.map_or(without, |interval| finish(interval, freedom, basis)));
    }
    // Distances of the ends from the estimate on the log scale, added in quadrature over the pairs and
    // hung onto the measured ratio: blocks know the relative uncertainty, the trial knows the value.
    let n = plain.n;
    let (mut below, mut above) = (0.0_f64, 0.0_f64);
    for i in 0..n {
        let interval = units(i).and_then(|(a, b)| {
            let interval = block_interval(bootstrap, a, b).filter(|_| !b.is_empty())?;
            let estimate = (centre(a) / centre(b)).ln();
            Some((estimate - interval.low.ln(), interval.high.ln() - estimate))
        });
        let Some((low, high)) = interval.filter(|(low, high)| low.is_finite() && high.is_finite()) else {
            return Some(plain);
        };
        below += low.powi(2);
        above += high.powi(2);
    }
    let interval = Interval { low: log - below.sqrt() / count(n), high: log + above.sqrt() / count(n) };
    Some(finish(interval, None, Basis::Blocks))
}

/// Interval of the mean over independent units.
fn over_units(bootstrap: &Bootstrap, values: &[f64], basis: Basis) -> Drawn {
    if values.len() < student::FEW {
        let freedom = (values.len() > 1).then(|| count(values.len()) - 1.0);
        return Drawn { interval: student::interval(values, bootstrap.confidence), freedom, basis };
    }
    let method = Bootstrap::best(values.len(), 0);
    let interval = bootstrap.one(method, values, |drawn| mean(drawn).unwrap_or(f64::NAN));
    Drawn { interval, freedom: None, basis }
}

fn block_interval(bootstrap: &Bootstrap, a: &[Unit], b: &[Unit]) -> Option<Interval> {
    if a.len() < ALONE {
        return None;
    }
    if b.is_empty() && a.len() < student::FEW {
        let values: Vec<f64> = a.iter().map(|unit| unit.value).collect();
        return student::interval_of_series(&values, bootstrap.confidence);
    }
    // A comparison has a p, and few samples of one run are too few for one.
    if !b.is_empty() && a.len().min(b.len()) < BLOCKS {
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

    /// Ratios of xfs to ext4 by context (`use`) and repeat.
    fn pooled(ratios: &[&[f64]]) -> Estimate {
        let mut trials = Vec::new();
        for (place, repeats) in ratios.iter().enumerate() {
            for (repeat, ratio) in (0..).zip(*repeats) {
                for (kind, value) in [("xfs", *ratio), ("ext4", 1.0)] {
                    let mut one = trial(kind, repeat, "m", value, None);
                    one.factors.insert("use".to_owned(), json!(place));
                    trials.push(one);
                }
            }
        }
        let pairs: Vec<_> = trials.chunks(2).map(|pair| (&pair[0], &pair[1])).collect();
        ratio(&pairs, "m", &Bootstrap::default()).unwrap()
    }

    #[test]
    fn repeats_of_a_context_are_drawn_together() {
        // Ten repeats that agree in each of three contexts that do not: thirty pairs are three units.
        let estimate = pooled(&[&[1.5; 10], &[2.0; 10], &[3.0; 10]]);
        assert_eq!((estimate.n, estimate.contexts, estimate.basis), (30, 3, Basis::Contexts));
        let once = pooled(&[&[1.5], &[2.0], &[3.0]]);
        let (many, once) = (estimate.interval.unwrap(), once.interval.unwrap());
        assert!((many.low - once.low).abs() < 1e-9 && (many.high - once.high).abs() < 1e-9);
        assert!(many.low < 1.0, "three contexts this far apart tell nothing: {many:?}");
    }

    #[test]
    fn two_contexts_are_taken_as_given_or_have_no_interval() {
        let given = pooled(&[&[1.4, 1.5, 1.6], &[2.9, 3.0, 3.1]]);
        assert_eq!((given.contexts, given.basis), (2, Basis::Within));
        let interval = given.interval.unwrap();
        assert!(interval.low > 1.8 && interval.high < 2.4 && interval.contains(given.value), "{interval:?}");
        let few = pooled(&[&[1.4, 1.5, 1.6], &[3.0]]);
        assert_eq!((few.interval, few.p, few.basis), (None, None, Basis::FewContexts));
        assert!((few.value - (1.4_f64 * 1.5 * 1.6).cbrt().sqrt() * 3.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn pairs_with_a_zero_are_counted() {
        let estimate = pooled(&[&[2.0, 0.0, 2.1, 2.2]]);
        assert_eq!((estimate.n, estimate.zeros), (3, 1));
        let (a, b) = (trial("xfs", 0, "m", 0.0, None), trial("ext4", 0, "m", 1.0, None));
        assert_eq!(ratio(&[(&a, &b)], "m", &Bootstrap::default()), None);
        assert_eq!(zeros(&[(&a, &b)], "m"), 1);
    }

    #[test]
    fn the_chance_agrees_with_the_interval() {
        let sure = pooled(&[&[2.0, 2.1, 2.2]]);
        assert!(sure.p.unwrap() < 0.05 && !sure.interval.unwrap().contains(1.0));
        let unsure = pooled(&[&[0.5, 1.1, 2.2]]);
        assert!(unsure.p.unwrap() > 0.05 && unsure.interval.unwrap().contains(1.0));
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
    fn few_samples_of_one_trial_have_students_interval() {
        let of = |values: &[f64]| {
            let series =
                Series { samples: vec![mean(values).unwrap()], blocks: samples(values), ..Series::default() };
            let metrics = BTreeMap::from([("m".to_owned(), series)]);
            Evidence { metrics, ..Evidence::default() }
        };
        let (six, three) = (of(&[5.1, 5.3, 5.0, 5.4, 5.2, 5.2]), of(&[5.1, 5.3, 5.0]));
        let estimate = level(&[&six], "m", &Bootstrap::default()).unwrap();
        assert_eq!(estimate.basis, Basis::Blocks);
        let interval = estimate.interval.unwrap();
        // 5.2 ± t(0.975; 5) · 0.1414 / √6
        assert!(
            (interval.low - 5.0516).abs() < 1e-3 && (interval.high - 5.3484).abs() < 1e-3,
            "{interval:?}"
        );
        assert_eq!(level(&[&three], "m", &Bootstrap::default()).unwrap().interval, None);
        // Values that go one way are worth fewer.
        let rising = of(&[5.0, 5.1, 5.2, 5.3, 5.4, 5.5]);
        let wide = level(&[&rising], "m", &Bootstrap::default()).unwrap().interval.unwrap();
        // 5.25 ± t(0.975; 5) · 0.1871 / √6 · √3, with r = 0.5
        assert!((wide.low - 4.9099).abs() < 1e-3 && (wide.high - 5.5901).abs() < 1e-3, "{wide:?}");
        assert_eq!(ratio(&[(&rising, &six)], "m", &Bootstrap::default()).unwrap().interval, None);
        assert_eq!(samples(&[1.0; 16]).len(), BLOCKS);
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
    fn a_factor_of_a_stage_that_a_state_leaves_out_keeps_contexts_apart() {
        let with_state = |mut trial: Evidence, state: &str, max: f64| {
            trial.factors.insert("state".to_owned(), json!(state));
            trial.factors.insert("stage.age.workload.max".to_owned(), json!(max));
            trial.spec = json!({"state": state, "stage": [{"kind": "age", "name": "age", "when": ["aged"]}]});
            trial
        };
        let fresh: Vec<_> = (0..3)
            .map(|r| with_state(trial("ext4", r, "m", 10.0 + f64::from(r), None), "fresh", 0.8))
            .collect();
        let aged: Vec<_> = [0.8, 0.99]
            .iter()
            .flat_map(|max| (0..3).map(move |r| (r, *max)))
            .map(|(r, max)| with_state(trial("ext4", r, "m", 20.0 + f64::from(r), None), "aged", max))
            .collect();
        assert!(!fresh[0].applies("stage.age.workload.max") && aged[0].applies("stage.age.workload.max"));
        let pairs: Vec<_> = aged.iter().map(|a| (a, &fresh[usize::try_from(a.repeat).unwrap()])).collect();
        assert_eq!(ratio(&pairs, "m", &Bootstrap::default()).unwrap().contexts, 2);
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
