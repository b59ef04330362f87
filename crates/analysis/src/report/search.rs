//! Searches of a study: the path of each, worked out again from the runs that the store has.
//!
//! The decisions are those of the run ([`fsage_model::search`]): the same runs and scores give the same path. Runs that
//! failed have no score, and the path ends before their block.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::quantity::as_f64;
use fsage_model::search::{Configuration, Path, Run, search};
use fsage_model::study::{
    Done, FileSystemOptions, Measured, Requirement, SEARCH, ScoreSpec, Space, StudySpec, Workload,
    is_option_of_another, score, written,
};
use serde_json::Value;

use super::answer::device_words;
use super::factor;
use super::search_workload::{self, Worked};
use super::view::{Trial, View};
use crate::stats::Evidence;

/// The search on one cell of the matrix.
#[derive(Debug)]
pub struct Searched {
    /// The file system with the other factors, and the device: `ext4 on an SSD (model ssd)`.
    pub place: String,
    /// Options and budget.
    pub space: Space,
    /// What each option sets here, by its name.
    pub settings: BTreeMap<String, BTreeMap<String, Value>>,
    /// What runs are compared by.
    pub parts: Vec<ScoreSpec>,
    /// Blocks, gains and what came of them.
    pub path: Path,
    /// Times are by a virtual disk's clock.
    pub is_model: bool,
    /// Options that were left out, because they failed by themselves.
    pub refused: Vec<String>,
    /// Options that were left out, because they break what the study requires.
    pub unfit: Vec<String>,
    /// Options with which it is not promised that a power cut is survived, or was found not to be.
    pub lossy: Vec<String>,
    /// Whether it is promised to be survived with the options that every run has; `None`: nothing is known of this file system.
    pub survives: Option<bool>,
    /// The workloads that its runs are measured by.
    pub workloads: Vec<Workload>,
    /// What each run has of each of them.
    pub worked: BTreeMap<Run, Vec<Option<Worked>>>,
}

/// Every search that has a complete run, by place.
#[must_use]
pub fn all(view: &View) -> Vec<Searched> {
    let mut groups: BTreeMap<String, Vec<(&Trial, &Evidence)>> = BTreeMap::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        if !evidence.factors.contains_key(SEARCH) {
            continue;
        }
        let own: BTreeMap<&String, &Value> =
            evidence.factors.iter().filter(|(path, _)| *path != SEARCH).collect();
        groups.entry(format!("{own:?}")).or_default().push((trial, evidence));
    }
    let mut found: Vec<Searched> =
        groups.into_values().filter_map(|group| one(&group, view.study.spec.as_ref())).collect();
    found.sort_by(|a, b| a.place.cmp(&b.place));
    found
}

fn one(group: &[(&Trial, &Evidence)], study: Option<&StudySpec>) -> Option<Searched> {
    let (trial, first) = group.first()?;
    let spec: StudySpec = serde_json::from_value(first.spec.clone()).ok()?;
    let own = spec.search.as_ref()?;
    let space = own.space(&spec.file_system.kind, spec.seed);
    // The study has all options; its trials those that the host takes.
    let wanted =
        study.and_then(|study| study.search.as_ref()).unwrap_or(own).space(&spec.file_system.kind, spec.seed);
    let refused = wanted.options.into_iter().filter(|name| !space.options.contains(name)).collect();
    // The study may compare its runs by other metrics than when they were made.
    let mut compared = spec.clone();
    if let (Some(own), Some(wanted)) = (&mut compared.search, study.and_then(|study| study.search.as_ref())) {
        own.score.clone_from(&wanted.score);
    }
    let parts = compared.score();
    let (workloads, mut worked) = (spec.workloads(), BTreeMap::new());
    let mut done = Done::default();
    for (_, evidence) in group {
        let label = evidence.factors.get(SEARCH).and_then(Value::as_str).unwrap_or_default();
        let Some(configuration) = space.configuration(label) else { continue };
        let run = Run { configuration, replicate: evidence.repeat };
        worked.insert(run, search_workload::worked(&workloads, &|name| measured(evidence, name)));
        if let Ok(found) = score(&parts, &|name| measured(evidence, name)) {
            done.scores.insert(run, found);
            done.written.extend(written(&|name| measured(evidence, name)).map(|found| (run, found)));
        }
    }
    let path = search(&space.problem, &mut done);
    let context = factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM, SEARCH]));
    let with = if context.is_empty() { String::new() } else { format!(", {context},") };
    let place = format!("{}{with} on {}", trial.file_system, device_words(trial));
    let settings = own.option.iter().map(|(name, all)| {
        let here = all.iter().filter(|(path, _)| !is_option_of_another(path, &spec.file_system.kind));
        (name.clone(), here.map(|(path, value)| (path.clone(), value.clone())).collect())
    });
    let (settings, is_model) = (settings.collect(), trial.is_model());
    let kind = &spec.file_system.kind;
    // Its trials name only the options that the host takes.
    let asked = study.and_then(|study| study.search.as_ref()).unwrap_or(own);
    let unfit = asked.unfit(kind);
    let loses = |name: &&String| own.breaks(name, kind, Requirement::SurvivesPowerCut);
    let lossy = own.option.keys().filter(loses).cloned().collect();
    let base = group.iter().find(|(_, one)| {
        one.factors.get(SEARCH).and_then(Value::as_str) == Some(&space.label(Configuration::BASE))
    });
    let base = base.and_then(|(_, one)| serde_json::from_value::<StudySpec>(one.spec.clone()).ok());
    let base = base.and_then(|spec| spec.file_system.options.get(kind).map(FileSystemOptions::listed));
    let survives = Requirement::SurvivesPowerCut.holds(kind, &base.unwrap_or_default());
    Some(Searched {
        place,
        space,
        settings,
        parts,
        path,
        is_model,
        refused,
        unfit,
        lossy,
        survives,
        workloads,
        worked,
    })
}

fn measured(evidence: &Evidence, name: &str) -> Option<Measured> {
    let series = evidence.metrics.get(name)?;
    let count = as_f64(u64::try_from(series.samples.len()).ok()?);
    let value = series.samples.iter().sum::<f64>() / count;
    Some(Measured { value, larger_is_worse: series.larger_is_worse })
}

#[cfg(test)]
pub(super) mod tests {
    use fsage_model::search::Fate;
    use serde_json::json;

    use super::*;

    /// The trials of a search over two options of which the first gains 10 %, as far as so many blocks.
    pub(in crate::report) fn runs(blocks: usize) -> Vec<Evidence> {
        let spec = json!({
            "name": "s", "title": "t", "question": "q", "seed": 3,
            "volume": {"kind": "disk", "medium": "ssd", "size": "1GiB"}, "file_system": {"kind": "ext4"},
            "stage": [{"kind": "measure", "name": "measure", "measures": [{"kind": "grep"}]}],
            "search": {"budget": 24, "null": ["same"], "option": {
                "noatime": {"file_system.options.ext4.mount": ["noatime"]}, "same": {},
            }},
        });
        let study: StudySpec = serde_json::from_value(spec.clone()).unwrap();
        let space = study.search.as_ref().unwrap().space("ext4", 3);
        let (mut done, mut found) = (Done::default(), Vec::new());
        for _ in 0..blocks {
            let Some(block) = search(&space.problem, &mut done).pending else { break };
            for (place, run) in block.runs.iter().enumerate() {
                let noise = 0.002 * f64::from(u32::try_from(place * 7 % 5).unwrap());
                let time = 10.0 * (1.0 + noise) / if run.configuration.has(0) { 1.1 } else { 1.0 };
                done.scores.insert(*run, -time.ln());
                let factors = BTreeMap::from([(SEARCH.to_owned(), json!(space.label(run.configuration)))]);
                let series = crate::stats::evidence::Series {
                    unit: "s".to_owned(),
                    larger_is_worse: Some(true),
                    samples: vec![time],
                    ..Default::default()
                };
                let metrics = BTreeMap::from([("grep".to_owned(), series)]);
                found.push(Evidence {
                    factors,
                    spec: spec.clone(),
                    repeat: run.replicate,
                    metrics,
                    ..Evidence::default()
                });
            }
        }
        found
    }

    /// The same as a search of the report.
    pub(in crate::report) fn searched(blocks: usize) -> Searched {
        let runs = runs(blocks);
        let spec: StudySpec = serde_json::from_value(runs[0].spec.clone()).unwrap();
        let own = spec.search.clone().unwrap();
        let space = own.space("ext4", 3);
        let (workloads, mut worked) = (spec.workloads(), BTreeMap::new());
        let mut done = Done::default();
        for run in &runs {
            let configuration = space.configuration(run.factors[SEARCH].as_str().unwrap()).unwrap();
            let found = score(&spec.score(), &|name| measured(run, name)).unwrap();
            let key = Run { configuration, replicate: run.repeat };
            worked.insert(key, search_workload::worked(&workloads, &|name| measured(run, name)));
            done.scores.insert(key, found);
        }
        let path = search(&space.problem, &mut done);
        let place = "ext4 on an SSD (model ssd)".to_owned();
        Searched {
            place,
            settings: own.option,
            parts: spec.score(),
            space,
            path,
            is_model: true,
            refused: Vec::new(),
            unfit: Vec::new(),
            lossy: Vec::new(),
            survives: Some(true),
            workloads,
            worked,
        }
    }

    #[test]
    fn the_path_is_that_of_the_runs() {
        let path = searched(usize::MAX).path;
        assert!(path.pending.is_none() && path.runs() <= 24);
        assert!(path.chosen.has(0) && !path.chosen.has(1), "{path:?}");
        assert!(!matches!(path.findings[1].fate, Fate::Kept { .. }));
        assert!(path.confirmation.is_some());
        let begun = searched(1).path;
        assert_eq!((begun.blocks.len(), begun.chosen.is_empty(), begun.pending.is_some()), (1, true, true));
    }
}
