//! Why a recording could not be imported.

use std::path::PathBuf;

use fsage_model::problem::{Explain, exit_code_of};
use fsage_model::protocol::FailureKind;

/// Why a recording could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The trace cannot be written.
    #[error("cannot write trace {}: {what}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A line is not what the program writes.
    #[error("{}, line {line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The last line has no end: the program was killed, or the file is incomplete.
    #[error("{}, line {line}: the last line is truncated", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
}

impl ImportError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::CutOff { .. } => "--allow-truncated ignores a truncated last line".to_owned(),
            Self::Malformed { .. } => "docs/traces.md says how to run each program".to_owned(),
            Self::Read { .. } | Self::Write { .. } => String::new(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Read { .. } => FailureKind::Usage,
            Self::Write { .. } => FailureKind::Failed,
            Self::Malformed { .. } | Self::CutOff { .. } => FailureKind::Damage,
        }
    }
}

impl Explain for ImportError {
    fn exit_code(&self) -> u8 {
        exit_code_of(self.kind())
    }

    fn hint(&self) -> Option<String> {
        Some(Self::hint(self)).filter(|hint| !hint.is_empty())
    }
}
