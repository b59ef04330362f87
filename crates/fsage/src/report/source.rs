//! Reads a store for the report: without a lock, one trial at a time; what cannot be read becomes a note.

use std::path::Path;
use std::{fs, io};

use fsage_model::record::{PlacesRecord, TrialRecord};
use fsage_model::study::StudySpec;
use fsage_sys::input::{self, RECORD_LIMIT, TEXT_LIMIT};
use serde::Deserialize;
use serde_json::Value;

use super::ReportError;
use crate::store::{is_trial_id, read_places, read_trial};

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

/// Study and plan of a store; what cannot be read becomes a note.
pub fn study(store: &Path, notes: &mut Vec<Note>) -> Study {
    let mut study = Study::default();
    let mut note = |subject: &str, message: String| {
        notes.push(Note { subject: subject.to_owned(), message });
    };
    match input::read_below(store, Path::new("plan.json"), RECORD_LIMIT) {
        Ok(text) => match serde_json::from_slice::<PlanFile>(&text) {
            Ok(plan) => {
                study.planned = plan.trials.into_iter().map(|trial| trial.id).collect();
                study.overrides = plan.overrides;
                study.spec = serde_json::from_value(plan.study).ok();
            }
            Err(error) => note("plan.json", format!("the plan is damaged and was left out: {error}")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => note("plan.json", format!("the plan cannot be read: {error}")),
    }
    if study.spec.is_none() {
        match study_text(store) {
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

fn study_text(store: &Path) -> io::Result<String> {
    let text = input::read_below(store, Path::new("study.toml"), TEXT_LIMIT)?;
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
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
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.path().is_dir() && is_trial_id(&entry.file_name().to_string_lossy()) {
            ids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    ids.sort();
    Ok(ids)
}

/// One trial; `Err` has the note that takes its place.
pub fn trial(store: &Path, id: &str) -> Result<TrialRecord, Note> {
    let note = |message: String| Note { subject: format!("trial {id}"), message };
    match read_trial(store, id) {
        Ok(Some(trial)) => Ok(trial),
        Ok(None) => {
            Err(note("it was begun and not finished; running the study again does it again".to_owned()))
        }
        Err(reason) => Err(note(format!("its record was left out: {reason}"))),
    }
}

/// Where the files of a trial lay, where it was kept; `Err` has the note that takes its place.
pub fn places(store: &Path, id: &str) -> Result<Option<PlacesRecord>, Note> {
    read_places(store, id).map_err(|reason| Note {
        subject: format!("trial {id}"),
        message: format!("where its files lay cannot be read and was left out: {reason}"),
    })
}
