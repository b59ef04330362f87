//! What each option of a search adds to each workload, and the configurations with the largest merit, as published
//! ([`crate::stats::merit`]).
//!
//! Gains by workload are those of the same runs and the same least squares as the gains by which the search decides, with the
//! score of one workload alone. The runs of the confirmation have no part in them.

use std::collections::BTreeMap;

use fsage_model::metric;
use fsage_model::search::{Configuration, Gain, Purpose, Run, gains};
use fsage_model::study::{Measured, ScoreSpec, Workload, score};
use serde::Serialize;

use super::search::{self, Searched};
use super::text::rounded;
use super::view::View;
use crate::stats::merit::{Entry, Ranking, rankings, throughput};

/// What a run of a search has of one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worked {
    /// Natural logarithm, larger is better: the mean over its points.
    pub score: f64,
    /// As published; only of loads of fio, which are rates.
    pub merit: Option<f64>,
}

/// A run's score and merit in each workload; none where a metric is missing.
pub fn worked(workloads: &[Workload], measured: &dyn Fn(&str) -> Option<Measured>) -> Vec<Option<Worked>> {
    let one = |workload: &Workload| {
        let part = |metric: &String| ScoreSpec { metric: metric.clone(), weight: 1.0, better: None };
        let parts: Vec<ScoreSpec> = workload.metrics.iter().map(part).collect();
        Some(Worked { score: score(&parts, measured).ok()?, merit: merit(workload, measured) })
    };
    workloads.iter().map(one).collect()
}

/// The sum over directions: a load that reads and writes has the merit of both.
fn merit(workload: &Workload, measured: &dyn Fn(&str) -> Option<Measured>) -> Option<f64> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for name in &workload.metrics {
        let (_, point, number) = metric::point_parts(name)?;
        let kb_per_s = measured(name).filter(|_| number == metric::BANDWIDTH)?.value / 1e3;
        match point.rwmixread {
            // So many percent of the operations read, all of one size.
            Some(percent) => {
                reads.push(kb_per_s * f64::from(percent) / 100.0);
                writes.push(kb_per_s * f64::from(100 - percent.min(100)) / 100.0);
            }
            // Some files are read and others written: which part of the rate is which is not known.
            None if point.rw.is_mixed() => return None,
            None => reads.push(kb_per_s),
        }
    }
    let both = [reads, writes].into_iter().filter(|points| !points.is_empty());
    both.map(|points| throughput(&points)).sum()
}

/// Gains by option and workload, for the heat map.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByWorkload {
    /// Where the search was.
    pub place: String,
    /// Names of the workloads.
    workloads: Vec<String>,
    /// Names of the options.
    options: Vec<String>,
    /// By option, then workload, as shares; none where the runs do not tell.
    gains: Vec<Vec<Option<Share>>>,
}

/// A gain as a share, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    gain: f64,
    low: Option<f64>,
    high: Option<f64>,
}

/// Those of every search of a view, in its order.
pub fn all(view: &View) -> Vec<ByWorkload> {
    search::all(view).iter().filter_map(by_workload).collect()
}

/// Those of a search; none without a workload that several runs have.
fn by_workload(searched: &Searched) -> Option<ByWorkload> {
    let options = searched.space.options.clone();
    let columns: Vec<(String, Vec<Option<Gain>>)> = searched
        .workloads
        .iter()
        .enumerate()
        .map(|(index, workload)| {
            let scores = scores(searched, index);
            (workload.name.clone(), gains(options.len(), &scores))
        })
        .filter(|(_, gains)| gains.iter().any(Option::is_some))
        .collect();
    if columns.is_empty() {
        return None;
    }
    let share = |gain: Gain| Share {
        gain: rounded(gain.value.exp_m1()),
        low: gain.interval.map(|(low, _)| rounded(low.exp_m1())),
        high: gain.interval.map(|(_, high)| rounded(high.exp_m1())),
    };
    let row = |option: usize| columns.iter().map(|(_, gains)| gains[option].map(share)).collect();
    Some(ByWorkload {
        place: searched.place.clone(),
        workloads: columns.iter().map(|(name, _)| name.clone()).collect(),
        gains: (0..options.len()).map(row).collect(),
        options,
    })
}

/// The scores in one workload of the runs by which the search chose.
fn scores(searched: &Searched, workload: usize) -> Vec<(Run, f64)> {
    let chose = |purpose: Purpose| matches!(purpose, Purpose::Screening | Purpose::Race);
    let blocks = searched.path.blocks.iter().filter(|block| chose(block.purpose));
    let runs = blocks.flat_map(|block| &block.runs).map(|run| run.run);
    runs.filter_map(|run| Some((run, searched.worked.get(&run)?[workload]?.score))).collect()
}

/// A table of merit with the default's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Merits {
    /// The configurations with the largest merit.
    pub ranking: Ranking,
    /// The merit of the default, where it was run.
    pub base: Option<f64>,
}

/// The tables as published: for the sum over the workloads of fio and for each, the configurations with the largest merit, over
/// the means of their runs. Each run counts by its difference from the mean of its block, so that a block on a slow host does no
/// harm to the configurations that it has.
pub fn merits(searched: &Searched) -> Vec<Merits> {
    let mut entries = Vec::new();
    for (index, workload) in searched.workloads.iter().enumerate() {
        for (configuration, merits) in within_blocks(searched, index) {
            let mean = crate::stats::quantile::mean(&merits);
            entries.extend(mean.map(|merit| Entry {
                medium: searched.place.clone(),
                file_system: String::new(),
                workload: workload.name.clone(),
                configuration: searched.space.label(configuration),
                merit,
            }));
        }
    }
    let base = searched.space.label(Configuration::BASE);
    let of_base = |ranking: &Ranking| {
        let own: Vec<&Entry> = entries.iter().filter(|entry| entry.configuration == base).collect();
        match &ranking.workload {
            Some(name) => own.iter().find(|entry| entry.workload == *name).map(|entry| entry.merit),
            None => (!own.is_empty()).then(|| own.iter().map(|entry| entry.merit).sum()),
        }
    };
    rankings(&entries).into_iter().map(|ranking| Merits { base: of_base(&ranking), ranking }).collect()
}

/// Merits of every run in one workload by configuration, less the mean of the run's block, plus the mean over all.
fn within_blocks(searched: &Searched, workload: usize) -> BTreeMap<Configuration, Vec<f64>> {
    let runs: Vec<(Run, f64)> = searched
        .worked
        .iter()
        .filter_map(|(run, worked)| Some((*run, worked.get(workload)?.as_ref()?.merit?)))
        .collect();
    let mean = |of: &dyn Fn(&Run) -> bool| {
        let own: Vec<f64> = runs.iter().filter(|(run, _)| of(run)).map(|(_, merit)| *merit).collect();
        crate::stats::quantile::mean(&own).unwrap_or(0.0)
    };
    let all = mean(&|_| true);
    let mut found: BTreeMap<Configuration, Vec<f64>> = BTreeMap::new();
    for (run, merit) in &runs {
        let block = mean(&|other| other.replicate == run.replicate);
        found.entry(run.configuration).or_default().push(merit - block + all);
    }
    found
}

/// Runs of each configuration that the merits are means of.
pub fn run_counts(searched: &Searched) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for run in searched.worked.keys() {
        *found.entry(searched.space.label(run.configuration)).or_default() += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::search::tests::searched;

    fn workload(name: &str, metrics: &[&str]) -> Workload {
        Workload { name: name.to_owned(), metrics: metrics.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn a_mixed_load_has_the_merit_of_both_directions() {
        let rate = |value: f64| move |_: &str| Some(Measured { value, larger_is_worse: Some(false) });
        let of = |name: &str, bytes_per_s: f64| {
            let metric = format!("{name}.bandwidth");
            worked(&[workload("w", &[&metric])], &rate(bytes_per_s))[0].unwrap()
        };
        let one = of("read-64k-libaio-d1-j1-f1", 11_081e3);
        assert!((one.merit.unwrap() - 9313.0).abs() < 0.5, "{one:?}");
        assert!((one.score - 11_081e3_f64.ln()).abs() < 1e-12);
        let both = of("randrw50-4k-mmap-d1-j1-f1-buffered", 41_260e3);
        assert!((both.merit.unwrap() - 19_869.0).abs() < 1.0, "{both:?}");
        let measure = worked(&[workload("grep", &["grep"])], &rate(3.0));
        assert_eq!(measure[0].unwrap().merit, None, "a time is no rate");
        let missing = worked(&[workload("grep", &["grep"])], &|_: &str| None);
        assert_eq!(missing, [None]);
    }

    #[test]
    fn gains_by_workload_are_those_of_the_search_where_there_is_one_workload() {
        let searched = searched(usize::MAX);
        let found = by_workload(&searched).unwrap();
        assert_eq!((found.workloads.as_slice(), found.options.len()), (["grep".to_owned()].as_slice(), 2));
        for (option, row) in found.gains.iter().enumerate() {
            let gain = row[0].unwrap().gain;
            let decided = searched.path.findings[option].gain.unwrap().value.exp_m1();
            assert!((gain - decided).abs() < 1e-3, "{option}: {gain} for {decided}");
        }
        assert!(merits(&searched).is_empty(), "no workload of fio");
        assert!(run_counts(&searched).values().sum::<usize>() >= searched.path.runs());
    }

    #[test]
    fn merits_are_ranked_by_workload_and_in_all() {
        let mut searched = searched(usize::MAX);
        searched.workloads = vec![workload("read", &["a"]), workload("write", &["b"])];
        for (run, worked) in &mut searched.worked {
            // Every other block is on a slow host.
            let slow = if run.replicate.is_multiple_of(2) { 0.0 } else { -500.0 };
            let merit = if run.configuration.has(0) { 10_000.0 } else { 9_000.0 } + slow;
            *worked = [merit, 1.0].map(|merit| Some(Worked { score: 0.0, merit: Some(merit) })).to_vec();
        }
        let found = merits(&searched);
        let names: Vec<Option<&str>> = found.iter().map(|one| one.ranking.workload.as_deref()).collect();
        assert_eq!(names, [None, Some("read"), Some("write")]);
        let (best, merit) = &found[1].ranking.places[0];
        let base = found[1].base.unwrap();
        assert!(best.contains("noatime") && (*merit - base - 1_000.0).abs() < 300.0, "{found:?}");
        assert!(found[0].base.unwrap() > base && (found[2].base.unwrap() - 1.0).abs() < 1e-9);
    }
}
