//! What can be wrong with a study.

use std::fmt;
use std::path::{Path, PathBuf};

use fsage_model::problem::{EXIT_USAGE, Explain};

use super::document::TextPosition;
use super::schema::Problem;

/// What is wrong with a study.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file cannot be read.
    #[error("cannot read study {}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Neither a file nor a shipped study.
    #[error("there is no study {}", path.display())]
    NotFound {
        /// As given.
        path: PathBuf,
        /// What to do.
        hint: String,
    },
    /// The text is not TOML.
    #[error("{place}: not TOML: {message}\n{}", place.excerpt())]
    Syntax {
        /// Where.
        place: TextPosition,
        /// Why.
        message: String,
    },
    /// There is no such preset.
    #[error("there is no preset `{preset}` in {}", path.display())]
    NoPreset {
        /// Asked for.
        preset: String,
        /// File.
        path: PathBuf,
        /// What to do.
        hint: String,
    },
    /// A `--set` that is not `path=value`.
    #[error("`--set {text}` is not path=value")]
    NotAnAssignment {
        /// As given.
        text: String,
    },
    /// Keys or values that are invalid; at least one fault.
    #[error("{}", Faults(faults))]
    Invalid {
        /// In document order.
        faults: Vec<Fault>,
    },
}

impl StudyError {
    /// Problems of a configuration of a study's search, which has no line of its own.
    #[must_use]
    pub(crate) fn of_search(study: &Path, problems: Vec<Problem>) -> Self {
        let fault = |problem: Problem| Fault {
            place: None,
            origin: study.display().to_string(),
            path: problem.path.join("."),
            message: problem.message,
            hint: problem.hint,
        };
        Self::Invalid { faults: problems.into_iter().map(fault).collect() }
    }
}

/// One thing that is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it was written; absent for `--set`.
    pub place: Option<TextPosition>,
    /// What put the value there when it was not the study itself (`--set a=b`, `preset quick`).
    pub origin: String,
    /// Dotted path.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.origin.is_empty() {
            write!(f, "{}: ", self.origin)?;
        }
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.place {
            Some(place) => write!(f, "\n{}", place.excerpt()),
            None => Ok(()),
        }
    }
}

struct Faults<'a>(&'a [Fault]);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
            // The first hint is the error's own; the others stand with their fault.
            if let (true, Some(hint)) = (index > 0, &fault.hint) {
                write!(f, "\nhint: {hint}")?;
            }
        }
        Ok(())
    }
}

impl Explain for StudyError {
    fn exit_code(&self) -> u8 {
        EXIT_USAGE
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { hint, .. } | Self::NoPreset { hint, .. } => Some(hint.clone()),
            Self::NotAnAssignment { .. } => Some("write --set volume.size=2GiB".to_owned()),
            Self::Invalid { faults } => faults.first().and_then(|f| f.hint.clone()),
            Self::Read { source, .. } => fsage_sys::input::Unfit::hint(source).map(str::to_owned),
            Self::Syntax { .. } => None,
        }
    }
}
