//! Running: from a study to a store full of trials.

pub mod age;
mod error;
mod observer;
mod summary;

use std::path::PathBuf;

pub use error::RunError;
pub use observer::{Quiet, RunEvent, RunObserver};
pub use summary::{DigestGroup, RunSummary, TrialOutcome, TrialState};

use crate::study::Overrides;

/// What `fsage run` is asked to do.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// A study file or the name of a shipped study.
    pub study: PathBuf,
    /// Same as profile `quick`.
    pub quick: bool,
    /// Profile to apply.
    pub profile: Option<String>,
    /// `path=value`, in order.
    pub set: Vec<String>,
    /// Where results go; absent: `./store/<study name>`.
    pub store: Option<PathBuf>,
    /// Print every command and write, take nothing.
    pub dry_run: bool,
    /// Devices (or serial numbers, `PATH=SERIAL`) that may be erased, as given with `--erase`.
    pub erase: Vec<String>,
}

impl RunOptions {
    /// The overrides among the options.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        let profile = if self.quick { Some("quick".to_owned()) } else { self.profile.clone() };
        Overrides { profile, set: self.set.clone() }
    }
}

/// Runs a study, or resumes it. A failed trial does not end the run; the summary's exit code tells.
///
/// # Errors
/// The study or the store is not usable, or the host lacks something every trial needs.
pub fn run_study(options: &RunOptions, _observer: &mut dyn RunObserver) -> Result<RunSummary, RunError> {
    let study = crate::study::load(&options.study, &options.overrides())?;
    Err(RunError::Unsupported { what: format!("running {}", study.spec.name) })
}
