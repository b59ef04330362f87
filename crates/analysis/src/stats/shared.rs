//! Numbers that several trials have from one run of their first stages.
//!
//! Trials that continue from one image differ in what comes after it, and all of them have the numbers of the
//! stages before it: the same numbers, of one run. They are one sample. Counted once for each trial they
//! would make intervals narrow with nothing but copies.
//!
//! A factor in which trials of one run differ cannot have made a difference to what the run measured: it
//! tells no contexts apart there.

use std::collections::{BTreeMap, BTreeSet};

use super::Evidence;

/// Names the run behind a trial's metric, when other trials may have it, too.
fn run<'a>(trial: &'a Evidence, metric: &str) -> Option<&'a str> {
    trial.metrics.get(metric)?.run.as_deref()
}

/// Whether two trials have a metric from one run.
#[must_use]
pub fn same_run(a: &Evidence, b: &Evidence, metric: &str) -> bool {
    std::ptr::eq(a, b) || run(a, metric).is_some_and(|run_of_a| run(b, metric) == Some(run_of_a))
}

/// Of the trials that have the metric from one run the first.
#[must_use]
pub fn once<'a>(trials: &[&'a Evidence], metric: &str) -> Vec<&'a Evidence> {
    let mut seen = BTreeSet::new();
    trials.iter().filter(|trial| run(trial, metric).is_none_or(|run| seen.insert(run))).copied().collect()
}

/// Of the pairs that have the metric from the same two runs the first; pairs with both sides from one run are
/// left out.
#[must_use]
pub fn once_in_pairs<'a>(
    pairs: &[(&'a Evidence, &'a Evidence)],
    metric: &str,
) -> Vec<(&'a Evidence, &'a Evidence)> {
    let mut kept: Vec<(&Evidence, &Evidence)> = Vec::new();
    for (a, b) in pairs {
        let shared = run(a, metric).is_some() || run(b, metric).is_some();
        let known = |(c, d): &(&Evidence, &Evidence)| same_run(a, c, metric) && same_run(b, d, metric);
        if !shared || !(same_run(a, b, metric) || kept.iter().any(known)) {
            kept.push((a, b));
        }
    }
    kept
}

/// Paths of the factors that cannot have made a difference to the metric, because trials of one run differ in
/// them.
#[must_use]
pub fn indifferent<'a>(trials: impl IntoIterator<Item = &'a Evidence>, metric: &str) -> BTreeSet<&'a str> {
    let mut first: BTreeMap<&str, &Evidence> = BTreeMap::new();
    let mut paths = BTreeSet::new();
    for trial in trials {
        let Some(run) = run(trial, metric) else { continue };
        let other = *first.entry(run).or_insert(trial);
        let differs = trial.factors.iter().filter(|(path, value)| other.factors.get(*path) != Some(value));
        paths.extend(differs.map(|(path, _)| path.as_str()));
    }
    paths
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evidence::tests::trial;
    use super::super::evidence::{self, Basis, level, ratio, zeros};
    use super::*;

    const M: &str = "age.operations_per_s";

    /// Three repeats, each restored from its own image for `cells` values of a factor behind it.
    fn restored(kind: &str, values: [f64; 3], cells: u32) -> Vec<Evidence> {
        let mut trials = Vec::new();
        for cell in 0..cells {
            for (repeat, value) in (0..).zip(values) {
                let mut one = trial(kind, repeat, M, value, None);
                one.metrics.get_mut(M).unwrap().run = Some(format!("{kind}-{repeat}"));
                one.factors.insert("stage.measure.reads".to_owned(), json!(cell));
                trials.push(one);
            }
        }
        trials
    }

    fn refs(trials: &[Evidence]) -> Vec<&Evidence> {
        trials.iter().collect()
    }

    #[test]
    fn a_factor_behind_the_image_adds_no_samples() {
        let (once_each, five) =
            (restored("ext4", [9.0, 10.0, 12.0], 1), restored("ext4", [9.0, 10.0, 12.0], 5));
        let (alone, many) = (level(&refs(&once_each), M, 0.95), level(&refs(&five), M, 0.95));
        assert_eq!(alone, many);
        assert_eq!((many.unwrap().n, many.unwrap().contexts, many.unwrap().basis), (3, 1, Basis::Seeds));
        // A trial that is missing changes nothing either, whichever cell it is missing from.
        let mut some = restored("ext4", [9.0, 10.0, 12.0], 5);
        some.remove(1);
        assert_eq!(level(&refs(&some), M, 0.95), alone);
    }

    #[test]
    fn which_of_several_equal_pairs_comes_first_changes_nothing() {
        let (a, b) = (restored("xfs", [18.0, 21.0, 25.0], 2), restored("ext4", [9.0, 10.0, 12.0], 2));
        let pairs: Vec<(&Evidence, &Evidence)> = a.iter().zip(&b).collect();
        let in_order = ratio(&pairs, M, 0.95).unwrap();
        assert_eq!((in_order.units, in_order.contexts), (3, 1));
        // Of one seed the first cell comes first, of another the second, as in a plan of random blocks.
        let mixed = [pairs[0], pairs[4], pairs[2], pairs[3], pairs[1], pairs[5]];
        assert_eq!(ratio(&mixed, M, 0.95), Some(in_order));
    }

    #[test]
    fn pairs_of_the_same_two_runs_are_one_pair() {
        let of = |cells| {
            let (a, b) =
                (restored("xfs", [18.0, 21.0, 25.0], cells), restored("ext4", [9.0, 10.0, 12.0], cells));
            let pairs: Vec<_> = a.iter().zip(&b).collect();
            ratio(&pairs, M, 0.95)
        };
        assert_eq!(of(1), of(4));
        assert_eq!(of(4).unwrap().n, 3);
        // A run against itself is no comparison, and no zero either.
        let trials = restored("ext4", [9.0, 0.0, 12.0], 2);
        let pairs: Vec<_> = trials[..3].iter().zip(&trials[3..]).collect();
        assert_eq!((ratio(&pairs, M, 0.95), zeros(&pairs, M)), (None, 0));
        assert_eq!(indifferent(&trials, M), BTreeSet::from(["stage.measure.reads"]));
    }

    #[test]
    fn trials_of_their_own_are_all_counted() {
        let mut own = restored("ext4", [9.0, 10.0, 12.0], 2);
        own.iter_mut().for_each(|trial| trial.metrics.get_mut(M).unwrap().run = None);
        assert_eq!(once(&refs(&own), M).len(), 6);
        assert!(indifferent(&own, M).is_empty());
        let estimate = level(&refs(&own), M, 0.95).unwrap();
        assert_eq!((estimate.n, estimate.units, estimate.contexts), (6, 3, 2));
    }

    #[test]
    fn latency_over_time_is_counted_once() {
        let wave = |value: f64| -> Vec<evidence::Unit> {
            (0..8).map(|i| evidence::Unit { weight: 1.0, value: value + f64::from(i) / 100.0 }).collect()
        };
        let mut trials = restored("ext4", [9.0, 10.0, 12.0], 4);
        for trial in &mut trials {
            let late = wave(10.0 + f64::from(trial.repeat));
            trial.trend.insert("create".to_owned(), evidence::Trend { early: wave(10.0), late });
            let series = trial.metrics[M].clone();
            trial.metrics.insert("latency.create.mean_ns".to_owned(), series);
        }
        let estimate = evidence::trend(&refs(&trials), "create", 0.95).unwrap();
        assert_eq!((estimate.n, estimate.contexts, estimate.basis), (3, 1, Basis::Seeds));
    }
}
