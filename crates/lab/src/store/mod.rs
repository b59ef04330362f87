//! The store: the folder of a study's runs.
//!
//! A file appears under its name only when it is whole (temporary name, fsync, rename, fsync of the
//! folder); `trial.json` is written last, so that a trial with one has all its files. One run writes at a
//! time, under a lock; readers need none. What cannot be read is reported and done again, never deleted.

pub mod checkpoint;
mod error;
pub mod file;
mod hlog;
pub mod images;
mod lock;
pub mod preconditioned;
mod probes;
mod reading;
mod take;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use error::StoreError;
pub use file::NewFile;
use fsage_model::priced::PricedRecord;
use fsage_model::record::{PlacesRecord, STORE_VERSION, StageTree, TrialRecord, TrialStatus, Unread};
use fsage_sys::input::{self, RECORD_LIMIT};
pub use lock::Lock;
pub use reading::Reader;
use serde::de::DeserializeOwned;
pub(crate) use take::take;
pub use writer::{TrialFolder, Writer};

use crate::plan::Plan;
use crate::study::identity::TRIAL_ID_LENGTH;

/// The record of a trial, in its folder.
pub(crate) const RECORD: &str = "trial.json";
/// What the requests of a trial would take on other media, within its folder.
pub(crate) const PRICED: &str = "priced.json";
/// Where the files of a trial lay, in its folder.
pub(crate) const PLACES: &str = "explain.json";
/// Folder of fio's JSON within that of a trial.
pub(crate) const FIO: &str = "fio";
/// How the names of the request logs of a trial's volumes begin, in its folder, and how they end.
pub(crate) const REQUESTS: (&str, &str) = ("requests", ".log");

/// A store on disk, open to be read.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    plan: Plan,
}

/// A trial whose record cannot be read: not complete, to be done again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DamagedTrial {
    /// Folder name, the trial's id.
    pub id: String,
    /// The file that is damaged.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl Store {
    /// Opens a store to read it, without a lock.
    ///
    /// # Errors
    /// Not a store, or one of a version that is not known.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("plan.json");
        if !path.exists() {
            return Err(StoreError::NotAStore { path: root.to_owned() });
        }
        Ok(Self { root: root.to_owned(), plan: read_plan(&path)? })
    }

    /// Makes a store for a plan or opens the one that is there, for writing: locked until dropped.
    ///
    /// # Errors
    /// Another run holds it, it holds another study, or the folder cannot be written to.
    pub fn create(root: &Path, plan: &Plan, study_text: &str) -> Result<Writer, StoreError> {
        Writer::open(root, plan, study_text)
    }

    /// Folder of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The plan: the study as it was run (preset and `--set` applied) and its trials.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Every readable trial of the plan, complete and failed ones, in the order of the plan.
    #[must_use]
    pub fn trials(&self) -> Vec<TrialRecord> {
        self.read_trials().0
    }

    /// Trials whose record cannot be read.
    #[must_use]
    pub fn damaged(&self) -> Vec<DamagedTrial> {
        self.read_trials().1
    }

    /// Both of the above in one pass.
    #[must_use]
    pub fn read_trials(&self) -> (Vec<TrialRecord>, Vec<DamagedTrial>) {
        let mut trials = Vec::new();
        let mut damaged = Vec::new();
        let mut seen = BTreeSet::new();
        for planned in self.plan.trials.iter().filter(|t| seen.insert(&t.id)) {
            match self.trial(&planned.id) {
                Ok(Some(trial)) => trials.push(trial),
                Ok(None) => {}
                Err(reason) => damaged.push(DamagedTrial {
                    id: planned.id.clone(),
                    path: self.record_path(&planned.id),
                    reason,
                }),
            }
        }
        (trials, damaged)
    }

    /// One trial; nothing when it was never written.
    ///
    /// # Errors
    /// Why its record cannot be read, in words.
    pub fn trial(&self, id: &str) -> Result<Option<TrialRecord>, String> {
        read_trial(&self.root, id)
    }

    /// The same without its stages, which takes little memory however long it ran.
    ///
    /// # Errors
    /// As [`Store::trial`].
    pub fn trial_without_stages(&self, id: &str) -> Result<Option<TrialRecord<Unread>>, String> {
        read_trial(&self.root, id)
    }

    /// Where the files of a trial lay; nothing when that was not kept.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub fn places(&self, id: &str) -> Result<Option<PlacesRecord>, String> {
        read_places(&self.root, id)
    }

    /// What the requests of a trial would take on other media; nothing when it was not priced.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub fn priced(&self, id: &str) -> Result<Option<PricedRecord>, String> {
        read_priced(&self.root, id)
    }

    /// The complete trials of the plan, of their stages only the digests of trees, so that long runs take little memory; and a
    /// sentence for each that is left out.
    #[must_use]
    pub fn complete_trials(&self) -> (Vec<TrialRecord<StageTree>>, Vec<String>) {
        let (mut records, mut notes) = (Vec::new(), Vec::new());
        let path = self.root().display();
        let ids: BTreeSet<&String> = self.plan().trials.iter().map(|trial| &trial.id).collect();
        for id in ids {
            match read_trial::<StageTree>(self.root(), id) {
                Ok(Some(record)) if record.status == TrialStatus::Complete => records.push(record),
                Ok(Some(_)) => notes.push(format!("trial {id} of `{path}` failed and is left out")),
                Ok(None) => {}
                Err(reason) => notes.push(format!("trial {id} of `{path}` is left out: {reason}")),
            }
        }
        (records, notes)
    }

    /// Folder of a trial, which also holds `latency.hlog`, `probes.parquet`, `explain.json`, `trace.parquet`
    /// and `requests.log`.
    #[must_use]
    pub fn trial_directory(&self, id: &str) -> PathBuf {
        trial_directory(&self.root, id)
    }

    /// The request logs of a trial's volumes, by name; none where it kept none.
    #[must_use]
    pub fn request_logs(&self, id: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.trial_directory(id)).into_iter().flatten().flatten();
        let (begin, end) = REQUESTS;
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(begin) && name.ends_with(end))
            .collect();
        names.sort();
        names.into_iter().map(|name| self.trial_directory(id).join(name)).collect()
    }

    fn record_path(&self, id: &str) -> PathBuf {
        self.trial_directory(id).join(RECORD)
    }
}

/// Holds a store against runs until the lock is dropped.
///
/// # Errors
/// [`StoreError::Locked`] with who holds it.
pub fn lock(root: &Path) -> Result<Lock, StoreError> {
    Lock::take(root)
}

/// Folder of a trial of the store at `root`.
fn trial_directory(root: &Path, id: &str) -> PathBuf {
    root.join("trials").join(id)
}

/// Reads `trial.json` of a trial of the store at `root`; nothing when it was never written. Of its stages as
/// much is kept as `S` does.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) fn read_trial<S: DeserializeOwned>(
    root: &Path,
    id: &str,
) -> Result<Option<TrialRecord<S>>, String> {
    let record: Option<TrialRecord<S>> = read_record(root, id, RECORD)?;
    match record {
        Some(record) if record.id != id => Err(format!("it says it is trial {}", record.id)),
        record => Ok(record),
    }
}

/// Reads `explain.json` of a trial of the store at `root`; nothing when there is none.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) fn read_places(root: &Path, id: &str) -> Result<Option<PlacesRecord>, String> {
    read_record(root, id, PLACES)
}

/// Reads `priced.json` of a trial of the store at `root`; nothing when it was not priced.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) fn read_priced(root: &Path, id: &str) -> Result<Option<PricedRecord>, String> {
    read_record(root, id, PRICED)
}

/// The version of a file of a store, whatever else is in it.
#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

/// Whether a text has the form of a trial's id: it becomes the name of a folder.
pub(crate) fn is_trial_id(id: &str) -> bool {
    id.len() == TRIAL_ID_LENGTH && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a versioned file of a trial; nothing when there is none.
fn read_record<T: DeserializeOwned>(root: &Path, id: &str, name: &str) -> Result<Option<T>, String> {
    if !is_trial_id(id) {
        return Err(not_an_id(id));
    }
    let bytes = match input::read_below(root, &Path::new("trials").join(id).join(name), RECORD_LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let damaged = |error: serde_json::Error| match error.is_eof() {
        true => format!("it ends after {} bytes, in the middle", bytes.len()),
        false => error.to_string(),
    };
    // The version first: a later format may not parse as ours.
    let Versioned { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
    if version > STORE_VERSION {
        return Err(format!("it has store version {version}, this fsage reads up to {STORE_VERSION}"));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

fn read_plan(path: &Path) -> Result<Plan, StoreError> {
    // The version first: a later format may not parse as ours.
    let Versioned { version } = read_json(path)?;
    if version > STORE_VERSION {
        let root = path.parent().unwrap_or(path).to_owned();
        return Err(StoreError::Version { path: root, found: version, known: STORE_VERSION });
    }
    let plan: Plan = read_json(path)?;
    match plan.trials.iter().find(|trial| !is_trial_id(&trial.id)) {
        Some(trial) => Err(StoreError::Damaged { path: path.to_owned(), reason: not_an_id(&trial.id) }),
        None => Ok(plan),
    }
}

fn not_an_id(id: &str) -> String {
    format!("`{id}` is not a trial id, which has {TRIAL_ID_LENGTH} lower-case hexadecimal digits")
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let (folder, name) = (path.parent().unwrap_or(Path::new(".")), path.file_name().unwrap_or_default());
    let bytes = input::read_below(folder, Path::new(name), RECORD_LIMIT)
        .map_err(|e| file::failed("read", path, e))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| StoreError::Damaged { path: path.to_owned(), reason: e.to_string() })
}
