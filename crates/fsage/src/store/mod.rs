//! The store: the folder of a study's runs.
//!
//! A file appears under its name only when it is whole (temporary name, fsync, rename, fsync of the
//! folder). One run writes at a time, under a lock; readers need none. What cannot be read is reported
//! and done again, never deleted.

mod error;
pub mod format;

use std::path::{Path, PathBuf};

pub use error::StoreError;

use crate::plan::Plan;
use crate::store::format::TrialRecord;

/// A store on disk.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
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
        Ok(Self { root: root.to_owned() })
    }

    /// Folder of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The plan: the study as it was run and its trials.
    ///
    /// # Errors
    /// `plan.json` cannot be read.
    pub fn plan(&self) -> Result<Plan, StoreError> {
        Err(StoreError::NotAStore { path: self.root.clone() })
    }

    /// Every readable trial, complete and failed ones, in the order of the plan.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn trials(&self) -> Result<Vec<TrialRecord>, StoreError> {
        Ok(Vec::new())
    }

    /// Trials whose record cannot be read.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn damaged(&self) -> Result<Vec<DamagedTrial>, StoreError> {
        Ok(Vec::new())
    }

    /// Folder of a trial, which also holds `latency.hlog`, `probes.parquet` and `trace.parquet`.
    #[must_use]
    pub fn trial_directory(&self, id: &str) -> PathBuf {
        self.root.join("trials").join(id)
    }
}
