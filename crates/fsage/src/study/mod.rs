//! Studies: a TOML file becomes resolved, validated cells.
//!
//! Order: text → profile → `--set` → matrix → one [`Cell`] for each combination of factor values. Every
//! cell is checked before anything is taken from the host.

mod error;
pub mod spec;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use error::StudyError;
use serde::{Deserialize, Serialize};
use spec::StudySpec;

/// What the command line changes in a study.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// Profile to apply (`--quick` is `quick`).
    pub profile: Option<String>,
    /// `path=value` texts, applied after the profile, in order.
    pub set: Vec<String>,
}

/// A study, read, changed by profile and `--set`, expanded and checked.
#[derive(Debug, Clone)]
pub struct Study {
    /// Where it was read from; a shipped study has its file name.
    pub path: PathBuf,
    /// The file as it is.
    pub text: String,
    /// What the command line changed.
    pub overrides: Overrides,
    /// The study with profile and `--set` applied, matrix not expanded.
    pub spec: StudySpec,
    /// One for each combination of factor values, in the order of the matrix.
    pub cells: Vec<Cell>,
}

/// One combination of factor values.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Dotted path → value, of the matrix' factors.
    pub factors: BTreeMap<String, serde_json::Value>,
    /// The study with these values in place and an empty matrix.
    pub spec: StudySpec,
}

/// A study that can be run by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StudyEntry {
    /// What to give to `fsage run`.
    pub name: String,
    /// One line.
    pub title: String,
    /// File; absent for a study shipped within the program.
    pub path: Option<PathBuf>,
    /// Why it cannot be run; empty when it can.
    pub error: String,
}

/// Reads and checks a study. `path` is a file or the name of a shipped study.
///
/// # Errors
/// What is wrong, with the line where it can be known.
pub fn load(path: &Path, _overrides: &Overrides) -> Result<Study, StudyError> {
    Err(StudyError::Unsupported { what: format!("loading {}", path.display()) })
}

/// The studies shipped with fsage and those in `directory` (`./studies`), by name.
#[must_use]
pub fn list(_directory: &Path) -> Vec<StudyEntry> {
    Vec::new()
}

/// JSON Schema of a study file, for editors.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(StudySpec).to_value()
}
