//! `fsage age`: a load in a directory of any mounted file system, through the agent.

use std::path::PathBuf;

use fsage_engine::load::{LoadResult, LoadSpec};

use crate::run::{RunError, RunObserver};

/// What `fsage age` is asked to do.
#[derive(Debug, Clone)]
pub struct AgeOptions {
    /// The load; its directory must exist.
    pub load: LoadSpec,
    /// `path=value` on the load (`workload.slots=100`, `write_mode=fast`), in order.
    pub set: Vec<String>,
    /// Where the trace goes (Parquet); sets `load.trace`.
    pub trace: Option<PathBuf>,
}

/// Runs a load in a directory.
///
/// # Errors
/// The load makes no sense, or the agent or the load fails.
pub fn age(options: &AgeOptions, _observer: &mut dyn RunObserver) -> Result<LoadResult, RunError> {
    Err(RunError::Unsupported { what: format!("ageing {}", options.load.directory.display()) })
}
