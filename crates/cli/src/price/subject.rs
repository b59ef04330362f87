//! What is priced: a log that was named, or those that the trials of a store kept.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fsage_lab::run::label;
use fsage_lab::store::Store;
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Problem};
use fsage_model::record::TrialStatus;
use fsage_sys::input;

/// A log.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// The file.
    pub log: PathBuf,
    /// The store that it is in; no link in it leads to the log.
    pub store: Option<PathBuf>,
    /// The trial that it is of.
    pub trial: Option<String>,
    /// In words.
    pub name: String,
}

impl Subject {
    /// Opens the file.
    ///
    /// # Errors
    /// It is no ordinary file, or a link of the store leads to it.
    pub(super) fn file(&self) -> io::Result<File> {
        match &self.store {
            Some(store) => input::open_below(store, self.log.strip_prefix(store).unwrap_or(&self.log)),
            None => input::open(&self.log),
        }
    }
}

/// The log at `path`, or those of the complete trials of the store there, in the order of its plan.
pub(super) fn all(path: &Path) -> Result<Vec<Subject>, Problem> {
    if !path.is_dir() {
        let name = path.display().to_string();
        return Ok(vec![Subject { log: path.to_owned(), store: None, trial: None, name }]);
    }
    if !path.join("plan.json").is_file() {
        let message = format!("{} is a folder, and neither a log nor a store", path.display());
        return Err(Problem::new(EXIT_USAGE, message)
            .hint("name a file that `fsage disk log save` wrote, or the store of a study"));
    }
    let store = Store::open(path)?;
    let trials = store.trials();
    let mut found = Vec::new();
    for trial in trials.iter().filter(|trial| trial.status == TrialStatus::Complete) {
        let planned = store.plan().trials.iter().find(|planned| planned.id == trial.id);
        let words = planned.map(|planned| label(planned, store.plan().study.repeats)).unwrap_or_default();
        found.extend(store.request_logs(&trial.id).into_iter().map(|log| {
            let file = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Most trials have one volume, and its log needs no name.
            let file = if file == "requests.log" { String::new() } else { file };
            let parts = [trial.id.as_str(), &words, &file];
            let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
            Subject { log, store: Some(path.to_owned()), trial: Some(trial.id.clone()), name }
        }));
    }
    if found.is_empty() {
        let message = format!("no complete trial of {} kept a log of its requests", path.display());
        return Err(Problem::new(EXIT_FAILED, message)
            .hint("run its study into a new `--store` with `--set volume.log=true`, on a virtual disk"));
    }
    Ok(found)
}
