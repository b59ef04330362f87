//! What can be wrong with a study.

use std::path::PathBuf;

/// What is wrong with a study.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file cannot be read.
    #[error("cannot read study {path}")]
    Read {
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// This build cannot do it.
    #[error("{what} is not supported by this build")]
    Unsupported {
        /// What.
        what: String,
    },
}

impl StudyError {
    /// Exit code of the command: 2, the input is wrong.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        2
    }

    /// The next step, where one is known.
    #[must_use]
    pub const fn hint(&self) -> Option<String> {
        None
    }
}
