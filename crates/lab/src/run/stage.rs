//! Stages: what a trial does with its file system, one file a kind.

pub(super) mod age;
mod checkpoint;
mod cluster;
pub(super) mod copy;
mod fio;
pub(super) mod image;
pub(super) mod lockstep;
pub(super) mod measure;
mod places;
pub(super) mod power_cuts;
mod precondition;
pub(super) mod remedy;

use std::collections::BTreeSet;
use std::path::Path;

use fsage_model::cause::in_one_line;
use fsage_model::layout::{FreeSpace, LayoutSummary};
use fsage_model::location::Location;
use fsage_model::protocol::{Event, HostFacts, call};
use fsage_model::record::StageRecord;
use fsage_model::study::{StageSpec, StudySpec, VolumeSpec};
use fsage_model::warning::{Warning, WarningKind};
use fsage_model::wear::StageWear;
use fsage_model::with_stage;

use super::beside::Processors;
use super::error::TrialError;
use super::interrupt::Interrupt;
use super::making::Making;
use super::observer::{RunEvent, RunObserver};
use super::trial_volume::TrialVolume;
use super::warning::Watch;
use super::wear;
use crate::filesystem::FileSystem;
use crate::lease::{self, Journal, LeaseId};
use crate::plan::PlannedTrial;
use crate::store::TrialFolder;
use crate::target::{Incoming, Session};
use crate::tools::Invocation;
use crate::volume::{EraseConsent, VolumeError};

/// What the stages of a trial work with.
pub(super) struct StageContext<'a> {
    /// The agent.
    pub(super) session: &'a mut Session,
    /// Agents of the other hosts that share the volume.
    pub(super) others: Vec<Session>,
    /// What is taken from the host.
    pub(super) journal: &'a mut Journal,
    /// Folder of the store.
    pub(super) root: &'a Path,
    /// Devices that may be erased.
    pub(super) consent: &'a EraseConsent,
    /// Crash states that no kernel wrote may be mounted.
    pub(super) on_host: bool,
    /// Which trial.
    pub(super) planned: &'a PlannedTrial,
    /// Its study.
    pub(super) spec: &'a StudySpec,
    /// The file system under test.
    pub(super) file_system: &'a FileSystem,
    /// The target.
    pub(super) facts: &'a HostFacts,
    /// Where the trace and the log go.
    pub(super) folder: &'a mut TrialFolder,
    /// Signals.
    pub(super) interrupt: &'a Interrupt,
    /// Where it runs, and where those beside it do.
    pub(super) processors: &'a Processors,
    /// Partitions of shared drives that were taken before: they are discarded when they are taken again.
    pub(super) used_partitions: BTreeSet<(String, u64)>,
    /// Images that trials of this run are making.
    pub(super) making: &'a Making,
    /// Who gets events.
    pub(super) observer: &'a mut dyn RunObserver,
    /// Collected for the record.
    pub(super) warnings: &'a mut Vec<Warning>,
    /// Collected for the record.
    pub(super) commands: &'a mut Vec<String>,
    /// Stages that are done; a stage adds itself, also when it fails afterwards.
    pub(super) done: &'a mut Vec<StageRecord>,
    /// What the device said of its wear around them.
    pub(super) wear: &'a mut Vec<StageWear>,
}

impl StageContext<'_> {
    /// Releases what was leased; nothing to release is fine.
    pub(super) fn release(&mut self, id: Option<LeaseId>) -> Result<(), TrialError> {
        match id {
            Some(id) => Ok(lease::release(self.session, self.journal, id)?),
            None => Ok(()),
        }
    }

    /// Hosts that share the volume, this one among them.
    pub(super) fn hosts(&self) -> u32 {
        u32::try_from(self.others.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Tells that a step begins.
    pub(super) fn step(&mut self, name: &str, detail: &str) {
        self.observer.event(RunEvent::Step { name: name.to_owned(), detail: detail.to_owned() });
    }

    /// Tells, logs and records a command that is about to be run.
    pub(super) fn command(&mut self, step: &str, line: &str) {
        self.step(step, line);
        self.folder.log(line);
        self.commands.push(line.to_owned());
    }

    /// Tells, logs and records a warning.
    pub(super) fn warn(&mut self, warning: Warning) {
        self.folder.log(&format!("warning {}: {}", warning.kind, warning.message));
        self.observer.event(RunEvent::Warning { warning: warning.clone() });
        self.warnings.push(warning);
    }

    /// Keeps the log of a disk's requests in a file of the trial, where the disk keeps one. The results are complete
    /// without it.
    pub(super) fn keep_log(&mut self, save: Option<Invocation>, file: &Path) -> Result<(), TrialError> {
        let Some(save) = save else { return Ok(()) };
        self.command("requests", &save.to_string());
        match save.run_checked(self.session) {
            Err(error) if self.session.is_lost() => return Err(VolumeError::Log(error).into()),
            Err(error) => {
                let message = format!("{}: {}", file.display(), in_one_line(&error));
                self.warn(Warning { kind: WarningKind::NoLog, message });
            }
            Ok(_) => {}
        }
        Ok(())
    }

    /// Begins to watch the host around something that is measured.
    pub(super) fn watch(&mut self) -> Result<Watch, TrialError> {
        let before = self.session.call(call::HostActivity)?;
        Ok(Watch::new(before, self.spec.volume.is_model_time()))
    }

    /// Ends the trial when a signal came.
    pub(super) fn interrupted(&self) -> Result<(), TrialError> {
        if self.interrupt.by().is_some() { Err(TrialError::Interrupted) } else { Ok(()) }
    }

    /// Names of the ageing stages done so far, each a folder on the file system.
    pub(super) fn aged_folders(&self) -> Vec<String> {
        self.done.iter().filter(|stage| stage.fills()).map(|stage| stage.name().to_owned()).collect()
    }

    /// Asks the agent for something long: progress is passed on, and signals to end from when it speaks.
    pub(super) fn ask_long<T>(
        &mut self,
        stage: &str,
        ask: impl FnOnce(&mut Session, &mut Journal, &mut dyn FnMut(Incoming)) -> T,
    ) -> T {
        self.ask_followed(ask, &mut |incoming, observer| progress(stage, incoming, observer))
    }

    /// As [`StageContext::ask_long`], where progress is passed on as the caller sees it.
    pub(super) fn ask_followed<T>(
        &mut self,
        ask: impl FnOnce(&mut Session, &mut Journal, &mut dyn FnMut(Incoming)) -> T,
        follow: &mut dyn FnMut(Incoming, &mut dyn RunObserver),
    ) -> T {
        let (observer, interrupt) = (&mut *self.observer, self.interrupt);
        let control = self.session.control();
        let mut begun = false;
        let answer = ask(self.session, self.journal, &mut |incoming| {
            if !std::mem::replace(&mut begun, true) {
                interrupt.direct(Some(control.clone()));
            }
            follow(incoming, observer);
        });
        interrupt.direct(None);
        answer
    }

    /// Layout of the files below `directory`, by one thread and so in reading order, and free space where the
    /// file system tells.
    pub(super) fn look(
        &mut self,
        directory: &Location,
    ) -> Result<(LayoutSummary, Option<FreeSpace>), TrialError> {
        let directory = directory.clone();
        let scan =
            call::Scan { directory: directory.clone(), threads: 1, one_file_system: true, detail: false };
        let layout = self.session.call(scan)?.layout;
        // A file system that does not tell its free space is no failure: the record has none.
        let free_space = match self.session.call(call::FreeSpace { directory }) {
            Ok(free_space) => Some(free_space),
            Err(error) if self.session.is_lost() => return Err(error.into()),
            Err(_) => None,
        };
        Ok((layout, free_space))
    }
}

/// Passes on how far a request is.
fn progress(stage: &str, incoming: Incoming, observer: &mut dyn RunObserver) {
    if let Incoming::Event(Event::Progress { operations, elapsed_ns, share, note }) = incoming {
        let rate = fsage_model::quantity::share(operations, elapsed_ns) * 1e9;
        let stage = stage.to_owned();
        observer.event(RunEvent::Progress { stage, operations, elapsed_ns, share, rate, eta_s: None, note });
    }
}

/// How many of a trial's stages come before mkfs.
pub(super) fn before_mkfs(spec: &StudySpec) -> usize {
    spec.stages().take_while(|stage| of(stage).is_before_mkfs()).count()
}

/// What a kind of stage does: one file beside this one for each line of the registry ([`StageSpec`]).
pub(super) trait Stage {
    /// Runs on a mounted file system, and leaves one mounted ([`Stage::is_before_mkfs`]: on none).
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError>;

    /// What it does, as a shell would read it.
    fn describe(&self, point: &Path, seed: u64) -> Vec<String>;

    /// Whether it works on the device as it was taken: before mkfs, and with nothing mounted before and after it.
    fn is_before_mkfs(&self) -> bool {
        false
    }

    /// Checks that the host has the programs that it runs on this file system, before the first stage begins.
    fn check_host(&self, file_system: &FileSystem, facts: &HostFacts) -> Result<(), TrialError> {
        let _ = (file_system, facts);
        Ok(())
    }

    /// Volumes that it takes beside the trial's own.
    fn other_volumes(&self, own: &VolumeSpec) -> Vec<VolumeSpec> {
        let _ = own;
        Vec::new()
    }
}

/// The stage as what it does.
pub(super) fn of(stage: &StageSpec) -> &dyn Stage {
    with_stage!(stage, stage => &**stage)
}

/// Runs one stage on a mounted file system, and leaves one mounted; before mkfs on the device alone.
pub(super) fn run(
    stage: &StageSpec,
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    context.interrupted()?;
    place.mark(stage.name(), context)?;
    let before = wear::before(place, context)?;
    of(stage).run(place, context)?;
    wear::after(stage.name(), before, place, context)
}

/// The example of docs/adding-a-stage.md.
#[cfg(test)]
#[path = "../../../../docs/examples/rest.rs"]
mod rest;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_guide_is_a_stage_like_any_other() {
        let stage: &dyn Stage = &rest::RestStage { name: "rest".to_owned(), seconds: 60 };
        assert_eq!(stage.describe(Path::new("/mnt"), 1), ["sleep 60 # rest"]);
        let own: VolumeSpec = serde_json::from_str(r#"{"kind": "loop", "size": "1GiB"}"#).unwrap();
        assert!(stage.other_volumes(&own).is_empty());
    }
}
