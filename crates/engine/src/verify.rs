//! Checks that the self-describing data below a directory is what it says.

use std::path::{Path, PathBuf};

use crate::protocol::{FailureKind, VerifyResult};

/// Why a directory could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The directory could not be read.
    #[error("cannot read directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl VerifyError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub const fn hint(&self) -> String {
        String::new()
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Directory { .. } => FailureKind::Failed,
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Directory { source, .. } => source.raw_os_error(),
        }
    }
}

/// Reads every regular file below `directory` and checks every block, with `threads` threads (0: one a CPU).
/// Damage is in the result, not an error; so is a file that cannot be read.
///
/// # Errors
/// `directory` itself cannot be read.
pub fn run(directory: &Path, threads: usize) -> Result<VerifyResult, VerifyError> {
    let _ = threads;
    Err(VerifyError::Directory {
        path: directory.to_owned(),
        source: std::io::Error::from(std::io::ErrorKind::Unsupported),
    })
}
