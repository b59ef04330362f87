//! Runs the operations of a trace again in another directory.

use std::path::Path;

use crate::load::{Control, LoadError, LoadResult, LoadSink};
use crate::protocol::FailureKind;
use crate::trace::TraceError;

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The operations could not be run.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl ReplayError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Trace(error) => error.hint(),
            Self::Load(error) => error.hint(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Trace(error) => error.kind(),
            Self::Load(error) => error.kind(),
        }
    }
}

/// Runs the operations of `trace` again below `directory`, each recorded thread in a thread of its own and
/// in its recorded order; operations that failed when recorded are left out.
///
/// # Errors
/// An unreadable trace, a directory that cannot be worked in, a device that stopped working.
pub fn run(
    trace: &Path,
    directory: &Path,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<LoadResult, ReplayError> {
    let _ = (directory, control, sink);
    crate::trace::read(trace)?;
    Err(LoadError::Spec { what: "traces cannot be replayed yet".to_owned() }.into())
}
