//! Reads a store for the report: leniently, without a lock, one trial at a time.
//!
//! The records here are narrower than those of [`crate::store::format`]: what the page does not show
//! (interval logs, latencies of probes) is skipped while parsing, which keeps a run of 100 million
//! operations within memory. Keys that are missing take their defaults, so that older stores can be shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fsage_engine::disk::DiskUse;
use fsage_engine::layout::FreeSpace;
use fsage_engine::load::{LoadResult, Tick};
use fsage_engine::lockstep::Round;
use fsage_engine::protocol::{BlockFacts, HostFacts, Warning};
use serde::Deserialize;
use serde_json::Value;

use super::ReportError;
use crate::store::format::{Look, Metric, PlacesRecord, STORE_VERSION, TrialStatus};
use crate::store::read_places;
use crate::study::spec::StudySpec;

/// Something the reader of the page must know about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The trial or file it is about.
    pub subject: String,
    /// One sentence.
    pub message: String,
}

/// What is known of the study.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// The spec, when it can be read.
    pub spec: Option<StudySpec>,
    /// Ids of the planned trials in their order; empty without a plan.
    pub planned: Vec<String>,
    /// What the command line changed, as it stands in the plan.
    pub overrides: Value,
}

#[derive(Deserialize)]
struct PlanFile {
    #[serde(default)]
    study: Value,
    #[serde(default)]
    overrides: Value,
    #[serde(default)]
    trials: Vec<PlannedId>,
}

#[derive(Deserialize)]
struct PlannedId {
    id: String,
}

/// `trial.json`, as far as the page shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct TrialFile {
    pub version: u32,
    pub id: String,
    #[serde(default)]
    pub factors: BTreeMap<String, Value>,
    #[serde(default)]
    pub repeat: u32,
    #[serde(default)]
    pub seed: u64,
    pub status: TrialStatus,
    #[serde(default)]
    pub error: String,
    #[serde(default)]
    pub started: String,
    #[serde(default)]
    pub elapsed_ns: u64,
    #[serde(default)]
    pub host: HostFacts,
    #[serde(default)]
    pub device: BlockFacts,
    #[serde(default)]
    pub commands: Vec<String>,
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub stages: Vec<StageFile>,
    #[serde(default)]
    pub metrics: Vec<Metric>,
    #[serde(default)]
    pub warnings: Vec<Warning>,
    #[serde(default)]
    pub check: String,
    /// The program that made it, in whatever form its version has it.
    #[serde(default)]
    pub program: Value,
}

/// A stage; kinds that have no ticks and probes leave them empty.
#[derive(Debug, Clone, Deserialize)]
pub struct StageFile {
    #[serde(default)]
    pub name: String,
    pub kind: String,
    /// Of an `image` stage: names the run that led to the image.
    #[serde(default)]
    pub run: String,
    #[serde(default)]
    pub result: Option<Box<LoadResult>>,
    #[serde(default)]
    pub ticks: Vec<Tick>,
    #[serde(default)]
    pub probes: Vec<ProbeFile>,
    #[serde(default)]
    pub results: Vec<MeasureFile>,
    /// Of a `lockstep` stage, as are the next two: what its volumes are called.
    #[serde(default)]
    pub volumes: Vec<String>,
    #[serde(default)]
    pub rounds: Vec<Round>,
    #[serde(default)]
    pub looks: Vec<Look>,
}

/// A measure's result, as far as its metrics do not tell it.
#[derive(Debug, Clone, Deserialize)]
pub struct MeasureFile {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub disk: Option<DiskUse>,
}

/// A probe without its latencies.
#[derive(Debug, Clone, Deserialize)]
pub struct ProbeFile {
    pub operations: u64,
    #[serde(default)]
    pub used_bytes: u64,
    #[serde(default)]
    pub total_bytes: u64,
    #[serde(default)]
    pub free_space: Option<FreeSpace>,
    #[serde(default)]
    pub layout: Option<ProbeLayout>,
}

/// The two numbers of a probe's layout that are compared.
#[derive(Debug, Clone, Deserialize)]
pub struct ProbeLayout {
    #[serde(default)]
    pub extents_per_file: f64,
    #[serde(default)]
    pub one_extent_share: f64,
}

/// Study and plan of a store; what cannot be read becomes a note.
pub fn study(store: &Path, notes: &mut Vec<Note>) -> Study {
    let mut study = Study::default();
    let mut note = |subject: &str, message: String| {
        notes.push(Note { subject: subject.to_owned(), message });
    };
    match fs::read(store.join("plan.json")) {
        Ok(text) => match serde_json::from_slice::<PlanFile>(&text) {
            Ok(plan) => {
                study.planned = plan.trials.into_iter().map(|trial| trial.id).collect();
                study.overrides = plan.overrides;
                study.spec = serde_json::from_value(plan.study).ok();
            }
            Err(error) => note("plan.json", format!("the plan is damaged and was left out: {error}")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => note("plan.json", format!("the plan cannot be read: {error}")),
    }
    if study.spec.is_none() {
        match fs::read_to_string(store.join("study.toml")) {
            Ok(text) => match toml::from_str(&text) {
                Ok(spec) => study.spec = Some(spec),
                Err(error) => {
                    note("study.toml", format!("the study cannot be understood: {}", error.message()))
                }
            },
            Err(error) => note("study.toml", format!("the study cannot be read: {error}")),
        }
    }
    study
}

/// Ids of the trials on disk, sorted.
///
/// # Errors
/// The folder exists and cannot be listed.
pub fn trial_ids(store: &Path) -> Result<Vec<String>, ReportError> {
    let folder = store.join("trials");
    let failed = |source| ReportError::Read { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.path().is_dir() {
            ids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    ids.sort();
    Ok(ids)
}

/// One trial; `Err` has the note that takes its place.
pub fn trial(store: &Path, id: &str) -> Result<TrialFile, Note> {
    let note = |message: String| Note { subject: format!("trial {id}"), message };
    let path = store.join("trials").join(id).join("trial.json");
    let text = fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            note("it was begun and not finished; running the study again does it anew".to_owned())
        }
        _ => note(format!("its record cannot be read: {error}")),
    })?;
    let trial: TrialFile = serde_json::from_slice(&text).map_err(|error| {
        note(format!(
            "its record is damaged and was left out ({error}); running the study again does it anew"
        ))
    })?;
    if trial.version > STORE_VERSION {
        return Err(note(format!(
            "it was written in version {} of the format, this fsage knows {STORE_VERSION}",
            trial.version
        )));
    }
    Ok(trial)
}

/// Where the files of a trial lay, where it was kept; `Err` has the note that takes its place.
pub fn places(store: &Path, id: &str) -> Result<Option<PlacesRecord>, Note> {
    read_places(&store.join("trials").join(id)).map_err(|reason| Note {
        subject: format!("trial {id}"),
        message: format!("where its files lay cannot be read and was left out: {reason}"),
    })
}
