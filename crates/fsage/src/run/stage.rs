//! Stages: what a trial does on its mounted file system, one file a kind.

pub(super) mod age;

use std::path::Path;

use fsage_engine::protocol::{HostFacts, Warning};

use super::error::TrialError;
use super::interrupt::Interrupt;
use super::observer::RunObserver;
use crate::store::TrialFolder;
use crate::store::format::StageRecord;
use crate::study::spec::StageSpec;
use crate::target::Session;

/// What a stage works with.
pub(super) struct StageContext<'a> {
    /// The agent.
    pub(super) session: &'a mut Session,
    /// Where the file system under test is mounted.
    pub(super) point: &'a Path,
    /// Size of the volume.
    pub(super) volume_bytes: u64,
    /// The target.
    pub(super) facts: &'a HostFacts,
    /// Seed of the trial.
    pub(super) seed: u64,
    /// Where the trace and the log go.
    pub(super) folder: &'a mut TrialFolder,
    /// Signals.
    pub(super) interrupt: &'a Interrupt,
    /// Who is told.
    pub(super) observer: &'a mut dyn RunObserver,
    /// Collected for the record.
    pub(super) warnings: &'a mut Vec<Warning>,
    /// Collected for the record.
    pub(super) commands: &'a mut Vec<String>,
    /// Stages that are done; a stage adds itself, also when it fails afterwards.
    pub(super) done: &'a mut Vec<StageRecord>,
}

/// Runs one stage.
pub(super) fn run(stage: &StageSpec, context: &mut StageContext<'_>) -> Result<(), TrialError> {
    match stage {
        StageSpec::Age(age) => age::run(age, context),
    }
}

/// What a stage does, as a shell would read it.
pub(super) fn describe(stage: &StageSpec, point: &Path, seed: u64) -> Vec<String> {
    match stage {
        StageSpec::Age(age) => age::describe(age, point, seed),
    }
}
