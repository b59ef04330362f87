//! Reading the records of a study: what is known of it, and one trial at a time.

use std::path::PathBuf;

use crate::priced::PricedRecord;
use crate::problem::{EXIT_FAILED, EXIT_USAGE, Explain};
use crate::record::{PlacesRecord, TrialRecord};
use crate::study::StudySpec;

/// Something the reader must know about the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The trial or file it is about.
    pub subject: String,
    /// One sentence.
    pub message: String,
}

/// What is known of the study.
#[derive(Debug, Clone, Default)]
pub struct StudyFacts {
    /// The spec, when it can be read.
    pub spec: Option<StudySpec>,
    /// Ids of the planned trials in their order; empty without a plan.
    pub planned: Vec<String>,
    /// What the command line changed, as it stands in the plan.
    pub overrides: serde_json::Value,
}

/// Records, wherever they are kept. What is damaged becomes a note.
pub trait Records {
    /// What is known of the study; what cannot be read becomes a note.
    fn study(&self, notes: &mut Vec<Note>) -> StudyFacts;

    /// Ids of the trials there are, sorted.
    ///
    /// # Errors
    /// They cannot be listed.
    fn trial_ids(&self) -> Result<Vec<String>, ReadError>;

    /// One trial.
    ///
    /// # Errors
    /// The note that takes its place.
    fn trial(&self, id: &str) -> Result<TrialRecord, Note>;

    /// Where the files of a trial lay, where it was kept.
    ///
    /// # Errors
    /// The note that takes its place.
    fn places(&self, id: &str) -> Result<Option<PlacesRecord>, Note>;

    /// What its requests would take on other media, where its study lists any.
    ///
    /// # Errors
    /// The note that takes its place.
    fn priced(&self, id: &str) -> Result<Option<PricedRecord>, Note>;
}

/// Why there are no records. Damaged or failed trials are no reason.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path is no store.
    #[error("`{}` is not a store: it has no `study.toml` and no `trials` folder", path.display())]
    NotAStore {
        /// What was given.
        path: PathBuf,
    },
    /// The folder cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Explain for ReadError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotAStore { .. } => EXIT_USAGE,
            Self::Read { .. } => EXIT_FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotAStore { .. } => "give the folder that `fsage run` printed, such as `store/aging`",
            Self::Read { .. } => "check that the folder belongs to you or run as its owner",
        };
        Some(hint.to_owned())
    }
}
