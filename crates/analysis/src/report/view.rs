//! What the page shows of a store, with nothing kept that it does not show.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::crash::CrashReport;
use fsage_model::disk::DiskUse;
use fsage_model::explanation::Explanation;
use fsage_model::filesystem;
use fsage_model::layout::LayoutSummary;
use fsage_model::load::{LoadResult, out_of_space};
use fsage_model::lockstep::Round;
use fsage_model::metric;
use fsage_model::precondition::PreconditionRecord;
use fsage_model::priced::PricedLog;
use fsage_model::protocol::{BlockFacts, HostFacts};
use fsage_model::quantity::share;
use fsage_model::reading::{Note, Records, StudyFacts};
use fsage_model::record::{Look, StageRecord, TrialRecord, TrialStatus, VolumePlaces};
use fsage_model::study::CONTROL;
use fsage_model::warning::Warning;
use fsage_model::wear::StageWear;
use serde_json::Value;

use super::compared;
use super::point::{self, Point};
use super::series::{self, FreeMap, Latency};
use super::{ReportError, ReportOptions, factor, palette, spread, text};
use crate::report::explain::noted;
use crate::stats::Evidence;

/// Points a series may have in a chart.
const POINTS: usize = 2_000;
/// Points of all latency series together, which bounds the page's size.
const ALL_POINTS: usize = 160_000;
/// Columns a heat map may have, and all together.
const COLUMNS: usize = 300;
const ALL_COLUMNS: usize = 6_000;

/// A store, ready to be shown. Two of them make a comparison.
#[derive(Debug)]
pub struct View {
    pub study: StudyFacts,
    /// Complete trials, by panel, file system and repeat.
    pub trials: Vec<Trial>,
    pub failed: Vec<FailedTrial>,
    pub notes: Vec<Note>,
    /// The same trials for comparisons, in the same order.
    pub evidence: Vec<Evidence>,
    /// Complete trials of controls, which nothing else is said of.
    pub controls: Vec<Evidence>,
    /// Labels of the panels, in order.
    pub panels: Vec<String>,
    /// File systems, in order.
    pub file_systems: Vec<String>,
    /// Where files lay, of the first trial of each cell that kept it.
    pub places: Vec<Places>,
    /// Confidence of the intervals, 0..1.
    pub confidence: f64,
}

/// Where the files of a volume lay when its trial was done with it.
#[derive(Debug)]
pub struct Places {
    /// The cell and the volume; short and unique within the page.
    pub label: String,
    pub explanation: Explanation,
    /// Time to read the fresh copy that its trial made, where it made one.
    pub copy_ns: Option<u64>,
}

/// A complete trial.
#[derive(Debug)]
pub struct Trial {
    pub id: String,
    pub file_system: String,
    /// Short and unique within the page.
    pub label: String,
    pub factors: BTreeMap<String, Value>,
    pub repeat: u32,
    pub seed: u64,
    pub started: String,
    pub elapsed_ns: u64,
    pub host: HostFacts,
    pub device: BlockFacts,
    pub commands: Vec<String>,
    pub warnings: Vec<Warning>,
    pub check: String,
    /// The program that made it; empty when that is not known.
    pub program: String,
    /// What its ageing stages left, in order.
    pub ages: Vec<Age>,
    /// The virtual disk it ran on, if it did.
    pub medium: Option<Medium>,
    /// What that disk did, part by part.
    pub disk: Vec<DiskPart>,
    /// Volumes that were driven in lock-step.
    pub lockstep: Option<Lockstep>,
    /// What survived power cuts.
    pub power_cuts: Option<CrashReport>,
    /// What the requests of its logs would take on other media.
    pub priced: Vec<PricedLog>,
    pub points: Vec<Point>,
    /// Job files of fio.
    pub jobs: Vec<point::Job>,
    /// What its device said of its own wear.
    pub wear: Vec<StageWear>,
    pub precondition: Option<PreconditionRecord>,
}

/// What a `lockstep` stage left.
#[derive(Debug, Clone)]
pub struct Lockstep {
    /// What the volumes are called, the copy's last.
    pub volumes: Vec<String>,
    pub rounds: Vec<Round>,
    pub looks: Vec<Look>,
}

/// What a virtual disk is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Medium {
    /// As a flag says it (`hdd-7200,rpm=5400`).
    pub name: String,
    /// Times are by its own clock.
    pub model: bool,
    /// And the study asked that two runs agree (`deterministic = true`).
    pub deterministic: bool,
    /// And CPU time passed on it (`cpu = "serial"`).
    pub serial: bool,
    /// What it is, its parameters and their source; nothing when this fsage does not know it.
    pub spec: Option<fsage_model::medium::MediumSpec>,
}

/// What a virtual disk did in one part of a trial.
#[derive(Debug)]
pub struct DiskPart {
    /// `age`, or a measure's name.
    pub what: String,
    pub used: DiskUse,
    /// CPU time of the threads that worked; of model time no part, unless the disk counted it.
    pub cpu_ns: u64,
}

/// What an ageing stage of a trial left.
#[derive(Debug)]
pub struct Age {
    /// The stage's name.
    pub stage: String,
    /// That of the trial, with the stage's name where the trial has several; short and unique within the
    /// page.
    pub label: String,
    /// Index in [`View::panels`].
    pub panel: usize,
    /// Names the run, when other trials may show the same one.
    pub run: Option<String>,
    pub result: LoadResult,
    pub latency: Option<Latency>,
    pub free: Option<FreeMap>,
    /// Use of the volume at the last probe.
    pub used: Option<f64>,
    /// Largest use any probe saw.
    pub most_used: Option<f64>,
    /// Use that the workload asks for, where it does.
    pub target: Option<f64>,
    pub total_bytes: Option<u64>,
    pub ticks: usize,
    pub probes: usize,
}

/// A trial that failed.
#[derive(Debug)]
pub struct FailedTrial {
    pub id: String,
    pub label: String,
    pub error: String,
    pub commands: Vec<String>,
}

impl Trial {
    /// Whether its times are by a virtual disk's clock.
    pub fn is_model(&self) -> bool {
        self.medium.as_ref().is_some_and(|medium| medium.model)
    }

    /// A latency of its ageing in words, with the clock's name where it is not the wall's.
    pub fn latency(&self, ns: f64) -> String {
        text::in_unit(ns, if self.is_model() { "model ns" } else { "ns" })
    }

    /// Layout at the end of the last ageing stage.
    pub fn layout(&self) -> Option<&LayoutSummary> {
        self.ages.last().map(|age| &age.result.layout)
    }
}

struct Limits {
    points: usize,
    columns: usize,
}

/// Reads and digests the records of a study.
///
/// # Errors
/// As [`super::render`].
pub fn load(records: &dyn Records, options: &ReportOptions) -> Result<View, ReportError> {
    let mut notes = Vec::new();
    let study = records.study(&mut notes);
    let on_disk = records.trial_ids()?;
    let (ids, stale): (Vec<String>, Vec<String>) =
        on_disk.into_iter().partition(|id| study.planned.is_empty() || study.planned.contains(id));
    if !stale.is_empty() {
        let message = format!("{} of an earlier version of the study left out", stale.len());
        notes.push(Note { subject: "trials".to_owned(), message });
    }
    let number = ids.len().max(1);
    // About eight operations are usual; series that are never there cost nothing.
    let limits = Limits {
        points: (ALL_POINTS / 8 / number).clamp(60, POINTS),
        columns: (ALL_COLUMNS / number).clamp(20, COLUMNS),
    };
    let mut view = View {
        study,
        trials: Vec::new(),
        failed: Vec::new(),
        notes,
        evidence: Vec::new(),
        controls: Vec::new(),
        panels: Vec::new(),
        file_systems: Vec::new(),
        places: Vec::new(),
        confidence: options.confidence,
    };
    let mut read = Vec::new();
    for id in &ids {
        match records.trial(id) {
            Ok(trial) if trial.status == TrialStatus::Failed => view.failed.push(failed(trial)),
            Ok(trial) => read.push(digest(trial, &limits)),
            Err(note) => view.notes.push(note),
        }
    }
    let (controls, read): (Vec<_>, Vec<_>) =
        read.into_iter().partition(|(trial, _)| trial.factors.contains_key(CONTROL));
    view.controls = controls.into_iter().map(|(_, own)| own).collect();
    arrange(&mut view, read);
    add_places(&mut view, records);
    add_priced(&mut view, records);
    Ok(view)
}

/// Reads what the requests of each trial would take on other media.
fn add_priced(view: &mut View, records: &dyn Records) {
    for trial in &mut view.trials {
        match records.priced(&trial.id) {
            Ok(record) => trial.priced = record.map(|record| record.logs).unwrap_or_default(),
            Err(note) => view.notes.push(note),
        }
    }
}

/// Reads where files lay, of one trial of each cell: that of the first repeat that kept it.
fn add_places(view: &mut View, records: &dyn Records) {
    let mut seen: Vec<&BTreeMap<String, Value>> = Vec::new();
    for trial in &view.trials {
        if seen.contains(&&trial.factors) {
            continue;
        }
        let record = match records.places(&trial.id) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(note) => {
                view.notes.push(note);
                continue;
            }
        };
        seen.push(&trial.factors);
        let context = factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM]));
        let several = record.volumes.iter().any(|other| other.stage != record.volumes[0].stage);
        for (VolumePlaces { stage, volume, explanation }, copy_ns) in noted(record.volumes) {
            let stage = if several { stage.as_str() } else { "" };
            let label = joined(&[&trial.file_system, &context, stage, &volume]);
            view.places.push(Places { label, explanation, copy_ns });
        }
    }
}

fn failed(trial: TrialRecord) -> FailedTrial {
    let label = factor::context(&trial.factors, &BTreeSet::new());
    let label =
        if label.is_empty() { trial.id.clone() } else { format!("{label}, repeat {}", trial.repeat + 1) };
    FailedTrial { id: trial.id, label, error: trial.error, commands: trial.commands }
}

/// Sorts, labels and gives every trial its panel.
fn arrange(view: &mut View, mut read: Vec<(Trial, Evidence)>) {
    read.sort_by(|(a, _), (b, _)| {
        let context = |trial: &Trial| factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM]));
        (context(a), order(&a.file_system), a.repeat).cmp(&(context(b), order(&b.file_system), b.repeat))
    });
    let repeated = read.iter().any(|(trial, _)| trial.repeat > 0);
    for (mut trial, evidence) in read {
        let context = factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM]));
        let repeat = if repeated { format!("repeat {}", trial.repeat + 1) } else { String::new() };
        trial.label = joined(&[&trial.file_system, &context, &repeat]);
        let several = trial.ages.len() > 1;
        for age in &mut trial.ages {
            let stage = if several { age.stage.as_str() } else { "" };
            age.label = joined(&[&trial.file_system, &context, stage, &repeat]);
            // Panels hold what was aged, each stage apart.
            let panel = joined(&[&context, stage]);
            age.panel = view.panels.iter().position(|known| *known == panel).unwrap_or_else(|| {
                view.panels.push(panel);
                view.panels.len() - 1
            });
        }
        if !view.file_systems.contains(&trial.file_system) {
            view.file_systems.push(trial.file_system.clone());
        }
        view.trials.push(trial);
        view.evidence.push(evidence);
    }
    view.file_systems.sort_by_key(|name| order(name));
}

/// The parts that say something, in one line.
fn joined(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" · ")
}

/// Familiar file systems first, then by name.
fn order(name: &str) -> (usize, String) {
    let mut familiar = filesystem::ALL.iter().filter(|row| row.ink.is_some());
    (familiar.position(|row| row.name == name).unwrap_or(usize::MAX), name.to_owned())
}

fn digest(file: TrialRecord, limits: &Limits) -> (Trial, Evidence) {
    let mut evidence = compared::of(&file);
    let TrialRecord { id, factors, repeat, stages, .. } = file;
    let kind = factors.get(factor::FILE_SYSTEM).or_else(|| evidence.factor(factor::FILE_SYSTEM));
    let file_system = kind.and_then(Value::as_str).unwrap_or("file system").to_owned();
    // What a copy was made of is shown with the trial that measured it.
    let copied = stages.iter().any(|stage| matches!(stage, StageRecord::Copy { .. }));
    let disk = disk_parts(&stages, copied);
    let image = stages.iter().enumerate().find_map(|(position, stage)| match stage {
        StageRecord::Image { run, .. } if !run.is_empty() => Some((position, run.clone())),
        _ => None,
    });
    let (lockstep, points, jobs) = (lockstep(&stages), point::of(&stages), point::jobs(&stages));
    let power_cuts = stages.iter().find_map(StageRecord::power_cuts).cloned();
    let precondition = stages.iter().find_map(StageRecord::precondition).cloned();
    let mut ages = Vec::new();
    for (position, stage) in stages.into_iter().enumerate().filter(|_| !copied) {
        let run = image.as_ref().filter(|(end, _)| position < *end).map(|(_, run)| run.clone());
        let first = ages.is_empty();
        ages.extend(digest_age(stage, first, &mut evidence, limits).map(|age| Age { run, ..age }));
    }
    let trial = Trial {
        id,
        file_system,
        label: String::new(),
        factors,
        repeat,
        seed: file.seed,
        started: file.started,
        elapsed_ns: file.elapsed_ns,
        host: file.host,
        device: file.device,
        commands: file.commands,
        warnings: readable(file.warnings),
        program: file.program,
        check: file.check,
        ages,
        medium: medium(&evidence.spec),
        disk,
        lockstep,
        power_cuts,
        priced: Vec::new(),
        points,
        jobs,
        wear: file.wear,
        precondition,
    };
    (trial, evidence)
}

/// Warnings whose byte counts are made readable.
fn readable(warnings: Vec<Warning>) -> Vec<Warning> {
    let one = |warning: Warning| Warning { message: text::with_sizes(&warning.message), ..warning };
    warnings.into_iter().map(one).collect()
}

/// What a `lockstep` stage left, where there is one.
fn lockstep(stages: &[StageRecord]) -> Option<Lockstep> {
    stages.iter().find_map(|stage| match stage {
        StageRecord::Lockstep { volumes, rounds, looks, .. } => {
            Some(Lockstep { volumes: volumes.clone(), rounds: rounds.clone(), looks: looks.clone() })
        }
        _ => None,
    })
}

/// The virtual disk of a trial's specification.
fn medium(spec: &Value) -> Option<Medium> {
    let deterministic = spec.get("deterministic").and_then(Value::as_bool).unwrap_or_default();
    let volume = spec.get("volume")?;
    if volume.get("kind")?.as_str() != Some("disk") {
        return None;
    }
    let written = volume.get("medium")?;
    let spec: Option<fsage_model::medium::MediumSpec> = serde_json::from_value(written.clone()).ok();
    let name = spec.as_ref().map(ToString::to_string).or_else(|| Some(written.as_str()?.to_owned()))?;
    let model = volume.get("time").and_then(Value::as_str) != Some("real");
    let serial = model && volume.get("cpu").and_then(Value::as_str) == Some("serial");
    Some(Medium { name, model, deterministic: model && deterministic, serial, spec })
}

/// What the disk did in each part of a trial; of a copied tree, what its ageing took is shown where it was
/// done.
fn disk_parts(stages: &[StageRecord], copied: bool) -> Vec<DiskPart> {
    let mut parts = Vec::new();
    let mut add = |what: &str, used: &Option<DiskUse>, cpu_ns: u64| {
        parts.extend(used.iter().map(|used| DiskPart { what: what.to_owned(), used: used.clone(), cpu_ns }));
    };
    for stage in stages {
        match stage {
            StageRecord::Age { name, result, .. } if !copied => {
                add(name, &result.disk, result.cpu_user_ns + result.cpu_sys_ns);
            }
            StageRecord::Measure { results, .. } => {
                results.iter().for_each(|result| add(&result.name, &result.disk, result.cpu_ns));
            }
            StageRecord::Remedy(remedy) => {
                add(&remedy.name, &remedy.disk, 0);
                add(&format!("{}, read from", remedy.name), &remedy.source_disk, 0);
            }
            StageRecord::Lockstep { looks, .. } => {
                for volume in looks.last().iter().flat_map(|look| &look.volumes) {
                    for result in &volume.measures {
                        add(&format!("{}, {}", result.name, volume.name), &result.disk, result.cpu_ns);
                    }
                }
            }
            _ => {}
        }
    }
    parts
}

fn digest_age(stage: StageRecord, first: bool, evidence: &mut Evidence, limits: &Limits) -> Option<Age> {
    let StageRecord::Age { name: stage, result, ticks, probes, .. } = stage else { return None };
    let prefix = metric::prefix(&stage, first);
    let target = ["max", "target"]
        .iter()
        .find_map(|end| evidence.factor(&format!("stage.{stage}.workload.utilisation.{end}"))?.as_f64());
    spread::of_ticks(&ticks, &prefix, evidence);
    spread::of_probes(&probes, &prefix, evidence);
    let last = probes.last();
    Some(Age {
        stage,
        label: String::new(),
        panel: 0,
        run: None,
        latency: series::latency(&ticks, limits.points),
        free: series::free_map(&probes, limits.columns),
        used: last.map(|probe| share(probe.used_bytes, probe.total_bytes)),
        most_used: probes.iter().map(|probe| share(probe.used_bytes, probe.total_bytes)).reduce(f64::max),
        target,
        total_bytes: last.map(|probe| probe.total_bytes).filter(|&bytes| bytes > 0),
        ticks: ticks.len(),
        probes: probes.len(),
        result: *result,
    })
}

impl Age {
    /// Says so when the volume ran out of space well below the use that was asked for: `statfs` counts space
    /// that data cannot have (metadata block groups and the reserve of btrfs, mostly).
    pub fn short_of_target(&self) -> Option<String> {
        // Those found no inode: no question of space.
        let failures = out_of_space(&self.result.failed).saturating_sub(self.result.failed_without_inode);
        let failures = Some(failures).filter(|count| *count > 0)?;
        let (most, target) = (self.most_used?, self.target?);
        (most < target - 0.02).then(|| {
            format!(
                "{} operations found no space although statfs never showed more than {} in use, with a target of {}: \
                 the file system reserves the rest (btrfs about a tenth of a small volume, for metadata and its \
                 reserve), so it is fuller than statfs shows",
                text::grouped(failures),
                text::percent((most * 1000.0).round() / 1000.0),
                text::percent(target)
            )
        })
    }
}

/// By which clocks a page's times are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// The wall's.
    Wall,
    /// A virtual disk's.
    Model,
    /// Both: model times are marked.
    Mixed,
}

impl View {
    /// Every ageing stage of every trial, in the order of the trials.
    pub fn ages(&self) -> impl Iterator<Item = (&Trial, &Age)> {
        self.trials.iter().flat_map(|trial| trial.ages.iter().map(move |age| (trial, age)))
    }

    /// Trials that are complete, those of controls among them.
    pub fn complete(&self) -> usize {
        self.trials.len() + self.controls.len()
    }

    /// By which clocks the trials' times are.
    pub fn clocks(&self) -> Clocks {
        match self.trials.iter().filter(|trial| trial.is_model()).count() {
            0 => Clocks::Wall,
            all if all == self.trials.len() => Clocks::Model,
            _ => Clocks::Mixed,
        }
    }

    /// Whether any trial was held to be repeatable, so that its file system did not run as it does by default.
    fn is_deterministic(&self) -> bool {
        self.trials.iter().any(|trial| trial.medium.as_ref().is_some_and(|medium| medium.deterministic))
    }

    /// Whether CPU time passed on the clock of any trial's disk.
    pub fn is_serial(&self) -> bool {
        self.trials.iter().any(|trial| trial.medium.as_ref().is_some_and(|medium| medium.serial))
    }

    /// A title, with the clock's name where it is not the wall's.
    pub fn timed(&self, title: &str) -> String {
        match self.clocks() {
            Clocks::Wall => title.to_owned(),
            Clocks::Model if self.is_deterministic() => {
                format!("{title}, in model time (deterministic, not the defaults)")
            }
            Clocks::Model if self.is_serial() => {
                format!("{title}, in model time with CPU time (cpu = \"serial\")")
            }
            Clocks::Model => format!("{title}, in model time"),
            Clocks::Mixed if self.is_serial() => {
                format!("{title} (model time on virtual media, with CPU time)")
            }
            Clocks::Mixed => format!("{title} (model time on virtual media)"),
        }
    }

    /// How a trial is drawn.
    pub fn ink(&self, trial: &Trial) -> palette::Ink {
        palette::of(&trial.file_system)
    }

    /// Title of the study.
    pub fn title(&self) -> &str {
        self.study.spec.as_ref().map_or("Untitled study", |spec| &spec.title)
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::load::{LatencySummary, Tick};
    use fsage_model::operation::OperationKind;
    use fsage_model::quantity::as_f64;
    use serde_json::json;

    use super::*;
    use crate::stats::Unit;

    /// An ageing stage whose creates take about `ns`.
    fn stage(name: &str, ns: u64) -> Value {
        let tick = |n: u64| {
            let p50_ns = ns + n % 5;
            let summary = LatencySummary {
                count: 10,
                min_ns: ns / 2,
                p50_ns,
                p90_ns: p50_ns,
                p99_ns: ns * 2,
                p999_ns: ns * 3,
                max_ns: ns * 4,
                mean_ns: as_f64(p50_ns),
            };
            let latency = BTreeMap::from([(OperationKind::Create, summary)]);
            Tick { operations: n * 10, elapsed_ns: n * ns * 10, latency }
        };
        let ticks: Vec<Tick> = (1..=100).map(tick).collect();
        let result = json!({
            "operations": 1000, "missed": 0, "elapsed_ns": 1, "failed": {}, "succeeded": {}, "bytes_written": 1,
            "bytes_read": 1, "cpu_user_ns": 1, "cpu_sys_ns": 1, "device_bytes_written": null,
            "device_bytes_before_materialise": null, "materialise_ns": 0, "digest": name, "digest_caveats": [],
            "stopped_by": "operations", "latency": {}, "layout": LayoutSummary::default(), "free_space": null,
            "overhead_ns_per_operation": 1.0, "files": 1, "live_bytes": 1,
        });
        json!({"kind": "age", "name": name, "result": result, "ticks": ticks, "probes": []})
    }

    fn digested(stages: &[Value]) -> (Trial, Evidence) {
        let metric = |name: &str| {
            let unit = if name.ends_with("_per_s") { "1/s" } else { "ns" };
            json!({"name": name, "unit": unit, "samples": [1.0]})
        };
        let file = json!({
            "version": 2, "id": "x", "status": "complete", "stages": stages,
            "factors": {"file_system.kind": "ext4"},
            "metrics": [metric("latency.create.mean_ns"), metric("churn.latency.create.mean_ns"),
                        metric("age.operations_per_s"), metric("churn.age.operations_per_s")],
        });
        digest(serde_json::from_value(file).unwrap(), &Limits { points: 100, columns: 100 })
    }

    #[test]
    fn every_ageing_stage_has_its_own_charts_and_blocks() {
        let (trial, evidence) = digested(&[stage("fill", 1000), stage("churn", 50_000)]);
        let stages: Vec<&str> = trial.ages.iter().map(|age| age.stage.as_str()).collect();
        assert_eq!(stages, ["fill", "churn"]);
        let median = |n: usize| {
            let latency = serde_json::to_value(trial.ages[n].latency.as_ref().unwrap()).unwrap();
            latency["kinds"]["create"]["p50"][0].as_f64().unwrap()
        };
        assert!((1.0..1.1).contains(&median(0)) && (50.0..50.1).contains(&median(1)), "in microseconds");
        let all = |units: &[Unit], range: std::ops::Range<f64>| {
            !units.is_empty() && units.iter().all(|unit| range.contains(&unit.value))
        };
        let blocks = |metric: &str| &evidence.metrics[metric].blocks;
        assert!(all(blocks("latency.create.mean_ns"), 1000.0..1005.0));
        assert!(all(blocks("churn.latency.create.mean_ns"), 50_000.0..50_005.0));
        assert!(all(blocks("age.operations_per_s"), 999_000.0..1_001_000.0));
        assert!(all(blocks("churn.age.operations_per_s"), 19_900.0..20_100.0));
        assert!(all(&evidence.trend["create"].late, 1000.0..1005.0));
        assert!(all(&evidence.trend["churn.create"].late, 50_000.0..50_005.0));
    }

    #[test]
    fn labels_name_the_stage_only_where_there_are_several() {
        let mut view = View {
            study: StudyFacts::default(),
            trials: Vec::new(),
            failed: Vec::new(),
            notes: Vec::new(),
            evidence: Vec::new(),
            controls: Vec::new(),
            panels: Vec::new(),
            file_systems: Vec::new(),
            places: Vec::new(),
            confidence: 0.95,
        };
        arrange(&mut view, vec![digested(&[stage("fill", 1000), stage("churn", 50_000)])]);
        let labels: Vec<&str> = view.ages().map(|(_, age)| age.label.as_str()).collect();
        assert_eq!((labels, view.panels.len()), (vec!["ext4 · fill", "ext4 · churn"], 2));
        assert_eq!(view.trials[0].label, "ext4");
        let mut single = View { trials: Vec::new(), evidence: Vec::new(), panels: Vec::new(), ..view };
        arrange(&mut single, vec![digested(&[stage("fill", 1000)])]);
        let labels: Vec<&str> = single.ages().map(|(_, age)| age.label.as_str()).collect();
        assert_eq!((labels, single.panels.as_slice()), (vec!["ext4"], &[String::new()][..]));
    }
}
