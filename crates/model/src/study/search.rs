//! The search of a study (`[search]`): named options, what each sets, and the score by which runs are compared.
//!
//! A study with a search has one search for each cell of its matrix. Each run is a trial whose factor
//! [`SEARCH`] names the options that are set and whose repeat is the number of its block, so that a reader of the records
//! can repeat every decision ([`crate::search`]).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{StageSpec, StudySpec, is_option_of_another, listed};
use crate::crash::{is_found_broken, promises};
use crate::metric;
use crate::search::{Bench, Block, Configuration, Method, Problem, Run, Unknown};

/// The factor that names the options of a run.
pub const SEARCH: &str = "search";
/// Its value where no option is set.
pub const BASE: &str = "base";

/// What stands between the names of options.
const AND: &str = " + ";

/// A search for options that make each cell of the matrix faster (docs/tuning.md). Each option is a named set
/// of settings; runs with several options at once estimate the gain of each, and the chosen options are
/// confirmed in new runs against the study without options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchSpec {
    /// `evidence`: screening designs, in which every run gives information on all options, then a
    /// confirmation; `greedy`: the published search (CEWG 2013), one run per option, keeping the largest
    /// gain, for comparison.
    #[serde(default)]
    pub method: Method,
    /// Options: name (lower-case letters, digits and dashes) → dotted path → value. Allowed paths are
    /// `volume.scheduler` and those below `volume.queue` and `file_system.options`. Mount options are added
    /// to those of the study, other values replace the study's. Options of other file systems are skipped.
    pub option: BTreeMap<String, BTreeMap<String, Value>>,
    /// Names of the options to search; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Sets of options that exclude each other. Options that give one setting different values always do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clashes: Vec<Vec<String>>,
    /// A/A controls: options known to gain nothing; only these may have no settings. A search that keeps one
    /// cannot be trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub null: Vec<String>,
    /// Requirements that the file system has to meet; options known to violate one are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Requirement>,
    /// Limit of the bytes that the recommended options write per operation of the first `age` stage, as a
    /// multiple of those without options (1.1: 10 % more; at least 1.01); absent: no limit. On modelled
    /// flash, bytes programmed are counted, elsewhere bytes written to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<f64>,
    /// Metrics by which runs are compared, as the weighted mean of their logarithms. Empty: every workload of
    /// the `fio` and `measure` stages with equal weight, each by the mean over its points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub score: Vec<ScoreSpec>,
    /// Maximum number of runs per search (one search per cell).
    pub budget: u32,
    /// Smallest relevant gain, as a share (above 0, at most 1): options that are unlikely to reach it are
    /// dropped early.
    #[serde(default = "two_percent")]
    pub least_gain: f64,
    /// Expected noise of one run, as a share (above 0, at most 1), for estimating what the budget can show.
    /// The search itself measures the noise.
    #[serde(default = "three_percent")]
    pub noise: f64,
    /// Random seed of designs and run order; absent: that of the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// A requirement of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    /// After a power cut on an honest drive, the file system mounts, needs no repair, and has everything that
    /// was synced. So it is promised, and no option is set that tests found to break it (docs/power.md).
    SurvivesPowerCut,
}

impl Requirement {
    /// Whether it holds for this file system with these options, as [`promises`] takes them; `None`: unknown.
    #[must_use]
    pub fn holds(self, kind: &str, options: &[String]) -> Option<bool> {
        match self {
            Self::SurvivesPowerCut => promises(kind, options)
                .map(|found| found.consistent && found.durable && !is_found_broken(kind, options)),
        }
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::SurvivesPowerCut => "survives-power-cut",
        })
    }
}

/// A metric of the score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreSpec {
    /// Name of the metric.
    pub metric: String,
    /// Weight relative to the others (above 0).
    #[serde(default = "one_weight")]
    pub weight: f64,
    /// Direction: whether a `larger` or a `smaller` value is better; absent: that of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Larger ones.
    Larger,
    /// Smaller ones.
    Smaller,
}

const fn two_percent() -> f64 {
    0.02
}

const fn three_percent() -> f64 {
    0.03
}

const fn one_weight() -> f64 {
    1.0
}

/// A measured metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Its value: the mean of its samples.
    pub value: f64,
    /// Whether a larger value is worse; `None`: neither.
    pub larger_is_worse: Option<bool>,
}

/// Why a run has no score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// The run did not measure it.
    #[error("it has no metric `{0}`")]
    Missing(String),
    /// It has no logarithm.
    #[error("its metric `{0}` is not above 0")]
    NotPositive(String),
    /// The metric has no direction.
    #[error("its metric `{0}` is neither better nor worse when it is larger: say `better` in the study")]
    Undirected(String),
}

/// The options of one search, in the order of their indices, and what is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// Names.
    pub options: Vec<String>,
    /// Which of them are known to gain nothing.
    pub null: Configuration,
    /// What is searched.
    pub problem: Problem,
}

impl Space {
    /// The options of a configuration in words: `noatime + discard`, or [`BASE`].
    #[must_use]
    pub fn label(&self, configuration: Configuration) -> String {
        let names: Vec<&str> = configuration
            .options()
            .filter_map(|option| self.options.get(option))
            .map(String::as_str)
            .collect();
        if names.is_empty() { BASE.to_owned() } else { names.join(AND) }
    }

    /// The configuration that [`Space::label`] names so; `None` where an option is not one of this search.
    #[must_use]
    pub fn configuration(&self, label: &str) -> Option<Configuration> {
        if label == BASE {
            return Some(Configuration::BASE);
        }
        label.split(AND).map(|name| self.options.iter().position(|known| known == name)).collect()
    }
}

impl SearchSpec {
    /// The search on this kind of file system; `seed` is the study's.
    #[must_use]
    pub fn space(&self, kind: &str, seed: u64) -> Space {
        let applies = |(_, settings): &(&String, &BTreeMap<String, Value>)| {
            settings.is_empty() || settings.keys().any(|path| !is_option_of_another(path, kind))
        };
        let chosen = |(name, _): &(&String, _)| self.only.is_empty() || self.only.contains(name);
        let is_kept = |(name, _): &(&String, _)| {
            self.require.iter().all(|requirement| !self.breaks(name, kind, *requirement))
        };
        let asked = self.option.iter().filter(chosen).filter(applies);
        let options: Vec<String> = asked.filter(is_kept).map(|(name, _)| name.clone()).collect();
        let mut clashes = Vec::new();
        for a in 0..options.len() {
            let others = (0..a).filter(|b| self.exclude(kind, &options[a], &options[*b]));
            clashes.extend(others.map(|b| (b, a)));
        }
        let null = (0..options.len()).filter(|n| self.null.contains(&options[*n])).collect();
        let budget = usize::try_from(self.budget).unwrap_or(usize::MAX);
        let problem = Problem {
            method: self.method,
            options: options.len(),
            clashes,
            budget,
            least_gain: self.least_gain,
            most_written: self.wear,
            seed: self.seed.unwrap_or(seed),
        };
        Space { options, null, problem }
    }

    /// Whether an option is known to break this requirement on this kind of file system.
    #[must_use]
    pub fn breaks(&self, option: &str, kind: &str, requirement: Requirement) -> bool {
        let Some(settings) = self.option.get(option) else { return false };
        let mut options = Vec::new();
        for (path, value) in settings {
            let Some(own) =
                path.strip_prefix("file_system.options.").and_then(|rest| rest.strip_prefix(kind))
            else {
                continue;
            };
            if own == ".mount" {
                options.extend(
                    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned),
                );
            } else if let Some(name) = own.strip_prefix(".mkfs.") {
                options.extend(listed(name, value));
            }
        }
        requirement.holds(kind, &options) == Some(false) && requirement.holds(kind, &[]) == Some(true)
    }

    /// Options that apply to this kind of file system and are left out, because they break what is required.
    #[must_use]
    pub fn unfit(&self, kind: &str) -> Vec<String> {
        let chosen = |name: &&String| self.only.is_empty() || self.only.contains(name);
        let breaks = |name: &&String| self.require.iter().any(|wanted| self.breaks(name, kind, *wanted));
        self.option.keys().filter(chosen).filter(breaks).cloned().collect()
    }

    /// Whether two options cannot be set together: the study says so, or they give one setting different values.
    fn exclude(&self, kind: &str, a: &str, b: &str) -> bool {
        let together =
            |set: &Vec<String>| set.iter().any(|name| name == a) && set.iter().any(|name| name == b);
        if self.clashes.iter().any(together) {
            return true;
        }
        let (Some(a), Some(b)) = (self.option.get(a), self.option.get(b)) else { return false };
        let own = a.iter().filter(|(path, _)| !is_option_of_another(path, kind));
        own.into_iter().any(|(path, one)| b.get(path).is_some_and(|other| differ(path, one, other)))
    }
}

/// Whether two values of one setting exclude each other; of mount options those with one name and different values do.
fn differ(path: &str, one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other), true) = (one.as_array(), other.as_array(), is_mount(path)) else {
        return one != other;
    };
    let texts = |list: &[Value]| -> Vec<String> {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let others = texts(other);
    texts(one).iter().any(|a| others.iter().any(|b| a != b && mount_name(a) == mount_name(b)))
}

/// Whether a path is that of a file system's mount options.
#[must_use]
pub fn is_mount(path: &str) -> bool {
    path.starts_with("file_system.options.") && path.ends_with(".mount")
}

/// Mount options with those of an option added; of several with one name (`commit=5`, `commit=30`) the last is kept.
#[must_use]
pub fn added(mount: &[String], more: &[String]) -> Vec<String> {
    let replaced = |old: &&String| !more.iter().any(|new| mount_name(new) == mount_name(old));
    mount.iter().filter(replaced).chain(more).cloned().collect()
}

fn mount_name(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}

impl StudySpec {
    /// The metrics that count for the score of its search, with their weights.
    #[must_use]
    pub fn score(&self) -> Vec<ScoreSpec> {
        let given = self.search.iter().flat_map(|search| &search.score).cloned().collect::<Vec<_>>();
        if !given.is_empty() {
            return given;
        }
        let weigh = |points: Vec<String>| {
            let weight =
                1.0 / crate::quantity::as_f64(u64::try_from(points.len().max(1)).unwrap_or(u64::MAX));
            points.into_iter().map(move |metric| ScoreSpec { metric, weight, better: None })
        };
        self.workloads().into_iter().flat_map(|workload| weigh(workload.metrics)).collect()
    }

    /// The workloads of its `fio` and `measure` stages, each with the metrics of its points.
    #[must_use]
    pub fn workloads(&self) -> Vec<Workload> {
        let (mut measured, mut pointed) = (true, true);
        let mut found: Vec<Workload> = Vec::new();
        for stage in self.stages() {
            match stage {
                StageSpec::Measure(stage) => {
                    let prefix = metric::prefix(&stage.name, std::mem::take(&mut measured));
                    let names: BTreeSet<&str> = stage.measures.iter().map(|measure| measure.name()).collect();
                    found.extend(names.into_iter().map(|name| {
                        let name = format!("{prefix}{name}");
                        Workload { metrics: vec![name.clone()], name }
                    }));
                }
                StageSpec::Fio(stage) => {
                    let prefix = metric::prefix(&stage.name, std::mem::take(&mut pointed));
                    let mut loads: BTreeMap<String, Vec<String>> = BTreeMap::new();
                    if let Some(job) = stage.job_name() {
                        let metrics = vec![format!("{prefix}{}", metric::of_point(&job, metric::BANDWIDTH))];
                        found.push(Workload { name: format!("{prefix}{job}"), metrics });
                    }
                    for point in stage.points() {
                        let name = metric::of_point(&point, metric::BANDWIDTH);
                        loads.entry(point.load()).or_default().push(format!("{prefix}{name}"));
                    }
                    let named = |(load, metrics)| Workload { name: format!("{prefix}{load}"), metrics };
                    found.extend(loads.into_iter().map(named));
                }
                _ => {}
            }
        }
        found
    }
}

/// A workload of a study, whose points count together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name: a measure, or a load of fio (`randrw70`), after the name of its stage where that is not the first
    /// (`database.randrw70`).
    pub name: String,
    /// The metrics of its points.
    pub metrics: Vec<String>,
}

/// The score of a run: a natural logarithm, larger is better.
///
/// # Errors
/// A metric that it lacks, or that has no logarithm or direction.
pub fn score(parts: &[ScoreSpec], measured: &dyn Fn(&str) -> Option<Measured>) -> Result<f64, ScoreError> {
    let weights: f64 = parts.iter().map(|part| part.weight).sum();
    let mut sum = 0.0;
    for part in parts {
        let name = &part.metric;
        let found = measured(name).ok_or_else(|| ScoreError::Missing(name.clone()))?;
        // Weights of a record from elsewhere may be none.
        let share = part.weight / weights;
        if !(found.value.is_finite() && found.value > 0.0 && share.is_finite()) {
            return Err(ScoreError::NotPositive(name.clone()));
        }
        let own = found.larger_is_worse.map(|worse| if worse { Better::Smaller } else { Better::Larger });
        let sign = match part.better.or(own) {
            Some(Better::Larger) => 1.0,
            Some(Better::Smaller) => -1.0,
            None => return Err(ScoreError::Undirected(name.clone())),
        };
        sum += sign * share * found.value.ln();
    }
    Ok(sum)
}

/// What a run wrote to the medium for each operation of its first `age` stage: the natural logarithm of bytes. `None`: it has no
/// such stage, or nothing counted what was written.
#[must_use]
pub fn written(measured: &dyn Fn(&str) -> Option<Measured>) -> Option<f64> {
    let value = |name: &str| measured(name).map(|found| found.value);
    let operations = value(metric::OPERATIONS_PER_S)? * value(metric::ELAPSED_S)?;
    let bytes = value(metric::WORN_BYTES).or_else(|| value(metric::DEVICE_BYTES))?;
    // A record may come from elsewhere: what overflows says nothing.
    let written = bytes / operations;
    (written.is_finite() && written > 0.0).then(|| written.ln())
}

/// The runs that were done: a search that is given these stops at the first block that lacks one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    /// Their scores.
    pub scores: BTreeMap<Run, f64>,
    /// What they wrote ([`written`]), as far as that is known.
    pub written: BTreeMap<Run, f64>,
}

impl Bench for Done {
    fn measure(&mut self, block: &Block) -> Result<Vec<f64>, Unknown> {
        block.runs.iter().map(|run| self.scores.get(run).copied().ok_or(Unknown)).collect()
    }

    fn written(&self, run: &Run) -> Option<f64> {
        self.written.get(run).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::search::search;

    fn study(search: &Value, stages: &Value) -> StudySpec {
        let study = json!({
            "name": "s", "title": "t", "question": "q", "volume": {"kind": "loop", "size": "1GiB"},
            "file_system": {"kind": "ext4"}, "stage": stages, "search": search,
        });
        serde_json::from_value(study).unwrap()
    }

    fn spec() -> SearchSpec {
        let mount = |of: &str, option: &str| json!({format!("file_system.options.{of}.mount"): [option]});
        let options = json!({
            "commit-30": mount("ext4", "commit=30"),
            "commit-60": mount("ext4", "commit=60"),
            "deadline": {"volume.scheduler": "mq-deadline"},
            "kyber": {"volume.scheduler": "kyber"},
            "noatime": {"file_system.options.ext4.mount": ["noatime"], "file_system.options.xfs.mount": ["noatime"]},
            "no-journal": {"file_system.options.ext4.mkfs.journal": false},
            "nothing": {},
            "writeback": mount("ext4", "data=writeback"),
        });
        let search = json!({"option": options, "budget": 60, "clashes": [["no-journal", "writeback"]], "null": ["nothing"]});
        serde_json::from_value(search).unwrap()
    }

    #[test]
    fn a_search_has_the_options_of_its_file_system_and_those_that_exclude_each_other_clash() {
        let space = spec().space("ext4", 7);
        assert_eq!(
            space.options,
            ["commit-30", "commit-60", "deadline", "kyber", "no-journal", "noatime", "nothing", "writeback"]
        );
        assert_eq!(space.problem.clashes, [(0, 1), (2, 3), (4, 7)]);
        assert_eq!((space.problem.budget, space.problem.seed, space.problem.least_gain), (60, 7, 0.02));
        assert_eq!(space.null, Configuration::BASE.with(6));
        assert_eq!(spec().space("xfs", 7).options, ["deadline", "kyber", "noatime", "nothing"]);
        let some = SearchSpec { only: vec!["noatime".to_owned(), "kyber".to_owned()], ..spec() };
        assert_eq!(some.space("ext4", 7).options, ["kyber", "noatime"]);
    }

    #[test]
    fn numbers_of_a_record_that_overflow_say_nothing_of_what_was_written() {
        let told = |bytes: f64, operations: f64| {
            let measured = move |name: &str| {
                let value = match name {
                    metric::WORN_BYTES => bytes,
                    metric::OPERATIONS_PER_S | metric::ELAPSED_S => operations,
                    _ => return None,
                };
                Some(Measured { value, larger_is_worse: None })
            };
            written(&measured)
        };
        assert_eq!(told(800.0, 10.0), Some(8f64.ln()));
        assert_eq!(told(1.0, 1e200), None);
        assert_eq!(told(1e308, 1e-10), None);
        assert_eq!(told(0.0, 10.0), None);
    }

    #[test]
    fn options_that_lose_what_was_synced_are_left_out_where_that_is_required() {
        let mut spec = spec();
        spec.require = vec![Requirement::SurvivesPowerCut];
        let mount = |option: &str| json!({"file_system.options.ext4.mount": [option]});
        spec.option.insert("nobarrier".to_owned(), serde_json::from_value(mount("barrier=0")).unwrap());
        assert_eq!(spec.unfit("ext4"), ["no-journal", "nobarrier"]);
        // Nothing that is documented speaks against it, but tests do.
        let fast = json!({"file_system.options.ext4.mkfs.features": ["fast_commit"]});
        spec.option.insert("fast-commit".to_owned(), serde_json::from_value(fast).unwrap());
        assert_eq!(spec.unfit("ext4"), ["fast-commit", "no-journal", "nobarrier"]);
        let options = spec.space("ext4", 7).options;
        // data=writeback may show old data in new files, but has everything that was synced.
        assert!(options.contains(&"writeback".to_owned()) && options.len() == 7, "{options:?}");
        assert!(!options.iter().any(|name| spec.unfit("ext4").contains(name)));
        // Options of other file systems break nothing here, and of an unknown one nothing is known.
        assert!(spec.unfit("xfs").is_empty() && spec.unfit("nilfs2").is_empty());
        let holds = |kind: &str| Requirement::SurvivesPowerCut.holds(kind, &[]);
        assert_eq!([holds("xfs"), holds("f2fs"), holds("ext2")], [Some(true), Some(true), Some(false)]);
        assert_eq!(holds("nilfs2"), None);
    }

    #[test]
    fn labels_name_configurations_and_are_read_back() {
        let space = spec().space("ext4", 7);
        for options in [vec![], vec![5], vec![0, 5, 7]] {
            let configuration: Configuration = options.into_iter().collect();
            assert_eq!(space.configuration(&space.label(configuration)), Some(configuration));
        }
        assert_eq!(space.label(Configuration::BASE.with(5).with(0)), "commit-30 + noatime");
        assert_eq!(space.configuration("noatime + discard"), None);
    }

    #[test]
    fn mount_options_are_added_and_replace_those_of_their_name() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let own = texts(&["noatime", "commit=5"]);
        assert_eq!(
            added(&own, &texts(&["discard", "commit=30"])),
            texts(&["noatime", "discard", "commit=30"])
        );
        assert_eq!(added(&own, &own), own);
    }

    #[test]
    fn a_score_is_the_weighted_mean_of_logarithms() {
        let part =
            |metric: &str, weight: f64, better| ScoreSpec { metric: metric.to_owned(), weight, better };
        let measured = |name: &str| match name {
            "rate" => Some(Measured { value: 1f64.exp(), larger_is_worse: Some(false) }),
            "time" => Some(Measured { value: 2f64.exp(), larger_is_worse: Some(true) }),
            "count" => Some(Measured { value: 1.0, larger_is_worse: None }),
            "zero" => Some(Measured { value: 0.0, larger_is_worse: Some(false) }),
            _ => None,
        };
        let parts = [part("rate", 3.0, None), part("time", 1.0, None)];
        assert!((score(&parts, &measured).unwrap() - 0.25).abs() < 1e-12);
        let smaller = [part("rate", 1.0, Some(Better::Smaller))];
        assert!((score(&smaller, &measured).unwrap() + 1.0).abs() < 1e-12);
        let error = |name: &str| score(&[part(name, 1.0, None)], &measured).unwrap_err();
        assert_eq!(error("count"), ScoreError::Undirected("count".to_owned()));
        assert_eq!(error("zero"), ScoreError::NotPositive("zero".to_owned()));
        assert_eq!(error("other"), ScoreError::Missing("other".to_owned()));
    }

    #[test]
    fn what_is_written_is_counted_for_each_operation() {
        let of = |known: &[(&str, f64)]| {
            written(&|name: &str| {
                let found = known.iter().find(|(known, _)| *known == name)?;
                Some(Measured { value: found.1, larger_is_worse: None })
            })
        };
        let load = [("age.operations_per_s", 50.0), ("age.elapsed_s", 2.0), ("age.device_bytes", 4_000.0)];
        assert!((of(&load).unwrap() - 40f64.ln()).abs() < 1e-12);
        let flash = [load[0], load[1], load[2], (metric::WORN_BYTES, 8_000.0)];
        assert!((of(&flash).unwrap() - 80f64.ln()).abs() < 1e-12);
        assert_eq!((of(&load[..2]), of(&load[1..])), (None, None));
        // Runs of one medium are counted alike: flash on which nothing was programmed is not taken for another device.
        assert_eq!(of(&[load[0], load[1], load[2], (metric::WORN_BYTES, 0.0)]), None);
    }

    #[test]
    fn without_a_score_every_workload_counts_alike_whatever_its_number_of_points() {
        let stages = json!([
            {"kind": "fio", "rw": ["read", "randwrite"], "bs": ["4KiB", "64KiB"]},
            {"kind": "measure", "measures": [{"kind": "grep"}]},
            {"kind": "measure", "name": "later", "measures": [{"kind": "grep"}]},
        ]);
        let study = study(&json!({"option": {}, "budget": 1}), &stages);
        let parts = study.score();
        let found: Vec<(&str, f64)> = parts.iter().map(|part| (part.metric.as_str(), part.weight)).collect();
        assert_eq!(
            found,
            [
                ("randwrite-4k-libaio-d1-j1-f1.bandwidth", 0.5),
                ("randwrite-64k-libaio-d1-j1-f1.bandwidth", 0.5),
                ("read-4k-libaio-d1-j1-f1.bandwidth", 0.5),
                ("read-64k-libaio-d1-j1-f1.bandwidth", 0.5),
                ("grep", 1.0),
                ("later.grep", 1.0),
            ]
        );
    }

    #[test]
    fn a_search_goes_as_far_as_runs_are_known() {
        let space =
            SearchSpec { only: vec!["noatime".to_owned(), "kyber".to_owned()], ..spec() }.space("ext4", 7);
        let mut done = Done::default();
        let first = search(&space.problem, &mut done).pending.unwrap();
        done.scores.extend(first.runs.iter().map(|run| (*run, 0.0)));
        let path = search(&space.problem, &mut done);
        assert_eq!((path.blocks.len(), path.pending.is_some()), (1, true));
        done.scores.remove(&first.runs[0]);
        assert_eq!(search(&space.problem, &mut done).pending, Some(first));
    }
}
