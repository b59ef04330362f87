//! Reads a store without a lock, one trial at a time, also while the study runs; what cannot be read becomes a note.

use std::path::{Path, PathBuf};
use std::{fs, io};

use fsage_model::priced::PricedRecord;
use fsage_model::reading::{Note, ReadError, Records, StudyFacts};
use fsage_model::record::{PlacesRecord, TrialRecord};
use fsage_sys::input::{self, RECORD_LIMIT, TEXT_LIMIT};
use serde::Deserialize;
use serde_json::Value;

use super::{is_trial_id, read_places, read_priced, read_trial};

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

/// The records of a store.
#[derive(Debug, Clone)]
pub struct Reader {
    root: PathBuf,
}

impl Reader {
    /// The store at `root`.
    ///
    /// # Errors
    /// It is none: it has neither a study nor trials.
    pub fn open(root: &Path) -> Result<Self, ReadError> {
        if !root.join("study.toml").is_file() && !root.join("trials").is_dir() {
            return Err(ReadError::NotAStore { path: root.to_owned() });
        }
        Ok(Self { root: root.to_owned() })
    }
}

impl Records for Reader {
    fn study(&self, notes: &mut Vec<Note>) -> StudyFacts {
        let mut study = StudyFacts::default();
        let mut note = |subject: &str, message: String| {
            notes.push(Note { subject: subject.to_owned(), message });
        };
        match input::read_below(&self.root, Path::new("plan.json"), RECORD_LIMIT) {
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
            match study_text(&self.root) {
                Ok(text) => match crate::study::kept(&text) {
                    Ok(spec) => study.spec = Some(spec),
                    Err(error) => note("study.toml", format!("the study cannot be understood: {error}")),
                },
                Err(error) => note("study.toml", format!("the study cannot be read: {error}")),
            }
        }
        study
    }

    fn trial_ids(&self) -> Result<Vec<String>, ReadError> {
        let folder = self.root.join("trials");
        let failed = |source| ReadError::Read { path: folder.clone(), source };
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

    fn trial(&self, id: &str) -> Result<TrialRecord, Note> {
        let note = |message: String| Note { subject: format!("trial {id}"), message };
        match read_trial(&self.root, id) {
            Ok(Some(trial)) => Ok(trial),
            Ok(None) => {
                Err(note("it was begun and not finished; running the study again repeats it".to_owned()))
            }
            Err(reason) => Err(note(format!("its record was left out: {reason}"))),
        }
    }

    fn places(&self, id: &str) -> Result<Option<PlacesRecord>, Note> {
        read_places(&self.root, id).map_err(|reason| Note {
            subject: format!("trial {id}"),
            message: format!("its file layout cannot be read and was left out: {reason}"),
        })
    }

    fn priced(&self, id: &str) -> Result<Option<PricedRecord>, Note> {
        read_priced(&self.root, id).map_err(|reason| Note {
            subject: format!("trial {id}"),
            message: format!("its times on other media cannot be read and were left out: {reason}"),
        })
    }
}

fn study_text(store: &Path) -> io::Result<String> {
    let text = input::read_below(store, Path::new("study.toml"), TEXT_LIMIT)?;
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
