//! What the page shows of a store, with nothing kept that it does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsage_engine::disk::DiskUse;
use fsage_engine::layout::LayoutSummary;
use fsage_engine::load::{LoadResult, Tick};
use fsage_engine::protocol::{BlockFacts, HostFacts, Warning};
use fsage_engine::quantity::{as_f64, share};
use serde_json::Value;

use super::series::{self, FreeMap, Latency};
use super::source::{self, Note, ProbeFile, StageFile, Study, TrialFile};
use super::{ReportError, ReportOptions, factor, palette, text};
use crate::stats::evidence::{self, Series, Trend};
use crate::stats::{Bootstrap, Evidence};
use crate::store::format::TrialStatus;

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
    pub study: Study,
    /// Complete trials, by panel, file system and repeat.
    pub trials: Vec<Trial>,
    pub failed: Vec<FailedTrial>,
    pub notes: Vec<Note>,
    /// The same trials for comparisons, in the same order.
    pub evidence: Vec<Evidence>,
    /// Labels of the panels, in order.
    pub panels: Vec<String>,
    /// File systems, in order.
    pub file_systems: Vec<String>,
    pub bootstrap: Bootstrap,
}

/// A complete trial.
#[derive(Debug)]
pub struct Trial {
    pub id: String,
    pub file_system: String,
    /// Index in [`View::panels`].
    pub panel: usize,
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
    pub age: Option<Age>,
    /// The virtual disk it ran on, if it did.
    pub medium: Option<Medium>,
    /// What that disk did, part by part.
    pub disk: Vec<DiskPart>,
}

/// What a virtual disk is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Medium {
    /// As a flag says it (`hdd-7200,rpm=5400`).
    pub name: String,
    /// Times are by its own clock.
    pub model: bool,
    /// What it is, its parameters and their source; nothing when this fsage does not know it.
    pub spec: Option<fsage_disk::media::Spec>,
}

/// What a virtual disk did in one part of a trial.
#[derive(Debug)]
pub struct DiskPart {
    /// `age`, or a measure's name.
    pub what: String,
    pub used: DiskUse,
}

/// What the ageing of a trial left.
#[derive(Debug)]
pub struct Age {
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

    /// Layout at the end.
    pub fn layout(&self) -> Option<&LayoutSummary> {
        self.age.as_ref().map(|age| &age.result.layout)
    }
}

struct Limits {
    points: usize,
    columns: usize,
}

/// Reads and digests a store.
///
/// # Errors
/// As [`super::render`].
pub fn load(store: &Path, options: &ReportOptions) -> Result<View, ReportError> {
    let mut notes = Vec::new();
    let study = source::study(store, &mut notes);
    let on_disk = source::trial_ids(store)?;
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
        panels: Vec::new(),
        file_systems: Vec::new(),
        bootstrap: Bootstrap {
            replicates: options.replicates.max(100),
            confidence: options.confidence,
            seed: options.seed,
        },
    };
    let mut read = Vec::new();
    for id in &ids {
        match source::trial(store, id) {
            Ok(trial) if trial.status == TrialStatus::Failed => view.failed.push(failed(trial)),
            Ok(trial) => read.push(digest(trial, &limits)),
            Err(note) => view.notes.push(note),
        }
    }
    arrange(&mut view, read);
    Ok(view)
}

fn failed(trial: TrialFile) -> FailedTrial {
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
        let panel = factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM]));
        // Panels hold what was aged.
        if trial.age.is_some() {
            trial.panel = view.panels.iter().position(|known| *known == panel).unwrap_or_else(|| {
                view.panels.push(panel.clone());
                view.panels.len() - 1
            });
        }
        let mut parts = vec![trial.file_system.clone()];
        if !panel.is_empty() {
            parts.push(panel);
        }
        if repeated {
            parts.push(format!("repeat {}", trial.repeat + 1));
        }
        trial.label = parts.join(" · ");
        if !view.file_systems.contains(&trial.file_system) {
            view.file_systems.push(trial.file_system.clone());
        }
        view.trials.push(trial);
        view.evidence.push(evidence);
    }
    view.file_systems.sort_by_key(|name| order(name));
}

/// Familiar file systems first, then by name.
fn order(name: &str) -> (usize, String) {
    const FIRST: [&str; 5] = ["ext4", "xfs", "btrfs", "ext3", "ext2"];
    (FIRST.iter().position(|known| *known == name).unwrap_or(FIRST.len()), name.to_owned())
}

fn digest(file: TrialFile, limits: &Limits) -> (Trial, Evidence) {
    let TrialFile { id, factors, repeat, spec, stages, metrics, .. } = file;
    let file_system = factors
        .get(factor::FILE_SYSTEM)
        .or_else(|| evidence::look_up(&spec, factor::FILE_SYSTEM))
        .and_then(Value::as_str)
        .unwrap_or("file system")
        .to_owned();
    let mut evidence =
        Evidence { factors: factors.clone(), spec, repeat, metrics: BTreeMap::new(), trend: BTreeMap::new() };
    for metric in &metrics {
        let series = Series {
            unit: metric.unit.clone(),
            larger_is_worse: metric.larger_is_worse,
            samples: metric.samples.clone(),
            blocks: Vec::new(),
        };
        evidence.metrics.insert(metric.name.clone(), series);
    }
    let medium = medium(&evidence.spec);
    // What a copy was made of is shown with the trial that measured it.
    let copied = stages.iter().any(|stage| stage.kind == "copy");
    let disk = disk_parts(&stages, copied);
    let age = stages
        .into_iter()
        .filter(|_| !copied)
        .rfind(|stage| stage.kind == "age" && stage.result.is_some())
        .and_then(|stage| digest_age(stage, &mut evidence, limits));
    let trial = Trial {
        id,
        file_system,
        panel: 0,
        label: String::new(),
        factors,
        repeat,
        seed: file.seed,
        started: file.started,
        elapsed_ns: file.elapsed_ns,
        host: file.host,
        device: file.device,
        commands: file.commands,
        warnings: file
            .warnings
            .into_iter()
            .map(|warning| Warning { message: text::with_sizes(&warning.message), ..warning })
            .collect(),
        program: program(&file.program),
        check: file.check,
        age,
        medium,
        disk,
    };
    (trial, evidence)
}

/// The virtual disk of a trial's specification.
fn medium(spec: &Value) -> Option<Medium> {
    let volume = spec.get("volume")?;
    if volume.get("kind")?.as_str() != Some("disk") {
        return None;
    }
    let written = volume.get("medium")?;
    let spec: Option<fsage_disk::media::Spec> = serde_json::from_value(written.clone()).ok();
    let name = spec.as_ref().map(ToString::to_string).or_else(|| Some(written.as_str()?.to_owned()))?;
    Some(Medium { name, model: volume.get("time").and_then(Value::as_str) != Some("real"), spec })
}

/// What the disk did in each part of a trial; of a copied tree, what its ageing took is shown where it was done.
fn disk_parts(stages: &[StageFile], copied: bool) -> Vec<DiskPart> {
    let mut parts = Vec::new();
    let mut add =
        |what: &str, used: &DiskUse| parts.push(DiskPart { what: what.to_owned(), used: used.clone() });
    for stage in stages {
        if let Some(used) = stage.result.as_ref().and_then(|result| result.disk.as_ref()).filter(|_| !copied)
        {
            add(&stage.name, used);
        }
        for result in &stage.results {
            if let Some(used) = &result.disk {
                add(&result.name, used);
            }
        }
    }
    parts
}

fn digest_age(stage: StageFile, evidence: &mut Evidence, limits: &Limits) -> Option<Age> {
    let StageFile { name, result, ticks, probes, .. } = stage;
    let target = ["max", "target"]
        .iter()
        .find_map(|end| evidence.factor(&format!("stage.{name}.workload.utilisation.{end}"))?.as_f64());
    add_tick_blocks(&ticks, evidence);
    add_probe_blocks(&probes, evidence);
    let last = probes.last();
    Some(Age {
        latency: series::latency(&ticks, limits.points),
        free: series::free_map(&probes, limits.columns),
        used: last.map(|probe| share(probe.used_bytes, probe.total_bytes)),
        most_used: probes.iter().map(|probe| share(probe.used_bytes, probe.total_bytes)).reduce(f64::max),
        target,
        total_bytes: last.map(|probe| probe.total_bytes).filter(|&bytes| bytes > 0),
        ticks: ticks.len(),
        probes: probes.len(),
        result: *result?,
    })
}

/// How latencies and speed varied within the trial.
fn add_tick_blocks(ticks: &[Tick], evidence: &mut Evidence) {
    let kinds: BTreeSet<_> = ticks.iter().flat_map(|tick| tick.latency.keys().copied()).collect();
    let quarter = ticks.len() / 4;
    for kind in kinds {
        let column =
            |ticks: &[Tick], pick: fn(&fsage_engine::load::LatencySummary) -> f64| -> Vec<(f64, f64)> {
                let present = ticks.iter().filter_map(|tick| tick.latency.get(&kind));
                present.map(|latency| (as_f64(latency.count), pick(latency))).collect()
            };
        let name = kind.name();
        let mut put = |metric: &str, values: Vec<(f64, f64)>| {
            if let Some(series) = evidence.metrics.get_mut(&format!("latency.{name}.{metric}")) {
                series.blocks = evidence::blocks(&values);
            }
        };
        put("mean_ns", column(ticks, |latency| latency.mean_ns));
        put("p50_ns", column(ticks, |latency| as_f64(latency.p50_ns)));
        put("p99_ns", column(ticks, |latency| as_f64(latency.p99_ns)));
        put("p999_ns", column(ticks, |latency| as_f64(latency.p999_ns)));
        let part =
            |from: usize, to: usize| evidence::blocks(&column(&ticks[from..to], |latency| latency.mean_ns));
        let trend =
            Trend { early: part(quarter, 2 * quarter), late: part(ticks.len() - quarter, ticks.len()) };
        evidence.trend.insert(name.to_owned(), trend);
    }
    // The ticks' own time is the wall's.
    if let Some(series) =
        evidence.metrics.get_mut("age.operations_per_s").filter(|series| series.unit == "1/s")
    {
        let speeds: Vec<(f64, f64)> = ticks
            .windows(2)
            .filter_map(|pair| {
                let seconds = as_f64(pair[1].elapsed_ns.checked_sub(pair[0].elapsed_ns)?) / 1e9;
                let operations = as_f64(pair[1].operations.checked_sub(pair[0].operations)?);
                (seconds > 0.0).then(|| (seconds, operations / seconds))
            })
            .collect();
        series.blocks = evidence::blocks(&speeds);
    }
}

/// How the state varied over the last half of the probes.
fn add_probe_blocks(probes: &[ProbeFile], evidence: &mut Evidence) {
    let late = &probes[probes.len() / 2..];
    let mut put = |metric: &str, pick: &dyn Fn(&ProbeFile) -> Option<f64>| {
        if let Some(series) = evidence.metrics.get_mut(metric) {
            let values: Vec<(f64, f64)> = late.iter().filter_map(pick).map(|value| (1.0, value)).collect();
            series.blocks = evidence::blocks(&values);
        }
    };
    put("free.extents", &|probe| Some(as_f64(probe.free_space.as_ref()?.extents)));
    put("free.median_bytes", &|probe| Some(as_f64(probe.free_space.as_ref()?.median_bytes)));
    put("free.largest_bytes", &|probe| Some(as_f64(probe.free_space.as_ref()?.largest_bytes)));
    put("use.share", &|probe| Some(share(probe.used_bytes, probe.total_bytes)));
    put("layout.extents_per_file", &|probe| Some(probe.layout.as_ref()?.extents_per_file));
    put("layout.one_extent_share", &|probe| Some(probe.layout.as_ref()?.one_extent_share));
    put("layout.fragmented_share", &|probe| Some(1.0 - probe.layout.as_ref()?.one_extent_share));
}

/// A program in words: its name and version, or all its fields.
fn program(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let words = fields.values().filter_map(Value::as_str).filter(|text| !text.is_empty());
            words.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

impl Age {
    /// Says so when the volume ran out of space well below the use that was asked for: `statfs` counts space that
    /// data cannot have (metadata block groups and the reserve of btrfs, mostly).
    pub fn short_of_target(&self) -> Option<String> {
        let failures = self.result.failed.get("ENOSPC").copied().filter(|count| *count > 0)?;
        let (most, target) = (self.most_used?, self.target?);
        (most < target - 0.02).then(|| {
            format!(
                "{} operations found no space although use never passed {} of the {} asked for, as statfs counts it: \
                 the file system keeps the rest for itself (btrfs' metadata and reserve take about a tenth of a small \
                 volume), so that it is fuller than the share says",
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
    /// By which clocks the trials' times are.
    pub fn clocks(&self) -> Clocks {
        match self.trials.iter().filter(|trial| trial.is_model()).count() {
            0 => Clocks::Wall,
            all if all == self.trials.len() => Clocks::Model,
            _ => Clocks::Mixed,
        }
    }

    /// A title, with the clock's name where it is not the wall's.
    pub fn timed(&self, title: &str) -> String {
        match self.clocks() {
            Clocks::Wall => title.to_owned(),
            Clocks::Model => format!("{title}, in model time"),
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
