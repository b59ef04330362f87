//! What ends a whole run (a failed trial does not).

use crate::cli::explain::Explain;
use crate::store::StoreError;
use crate::study::StudyError;

/// What ends a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study is not usable.
    #[error("the study cannot be run")]
    Study(#[from] StudyError),
    /// The store is not usable.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// This build cannot do it.
    #[error("{what} is not supported by this build")]
    Unsupported {
        /// What.
        what: String,
    },
}

impl Explain for RunError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Study(e) => e.exit_code(),
            Self::Store(e) => e.exit_code(),
            Self::Unsupported { .. } => 1,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Study(e) => e.hint(),
            Self::Store(e) => e.hint(),
            Self::Unsupported { .. } => None,
        }
    }
}
