//! One trial: volume, file system, stages, check; everything taken is given back whatever happens.
//!
//! The order of giving back is the reverse of taking. When a step fails, what is outstanding in the journal is
//! released through the same agent, or through a fresh one when the agent is lost.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_engine::protocol::{BlockFacts, HostFacts, Reply, Request, Warning};

use super::error::TrialError;
use super::interrupt::Interrupt;
use super::observer::{RunEvent, RunObserver};
use super::stage::{self, StageContext};
use super::{Starter, metric, warning};
use crate::filesystem::{FileSystem, FileSystemError, Registry};
use crate::lease::record::Lease;
use crate::lease::{self, Journal, LeaseError};
use crate::plan::PlannedTrial;
use crate::store::format::{STORE_VERSION, StageRecord, TrialRecord, TrialStatus};
use crate::store::{TrialFolder, time};
use crate::study::Cell;
use crate::study::spec::StudySpec;
use crate::target::Session;
use crate::tools::ToolError;
use crate::volume::{self, EraseConsent, Volume, VolumeError};

/// What every trial of a run shares.
pub(super) struct Lab<'a> {
    /// Folder of the store, absolute.
    pub(super) root: PathBuf,
    /// Devices that may be erased.
    pub(super) consent: EraseConsent,
    /// Starts agents.
    pub(super) start: &'a mut Starter<'a>,
    /// What is taken from the host.
    pub(super) journal: Journal,
    /// Signals.
    pub(super) interrupt: Interrupt,
}

/// What a trial collects on its way; all of it is kept when a later step fails.
#[derive(Default)]
struct Collected {
    facts: HostFacts,
    device: BlockFacts,
    commands: Vec<String>,
    stages: Vec<StageRecord>,
    warnings: Vec<Warning>,
    check: String,
}

/// A trial's specification, resolved: nothing of it can be wrong any more.
pub(super) struct Resolved {
    pub(super) volume: Volume,
    pub(super) file_system: FileSystem,
}

/// Resolves what a cell says about its volume and file system; touches nothing.
pub(super) fn resolve(
    spec: &StudySpec,
    consent: &EraseConsent,
    root: &Path,
) -> Result<Resolved, super::RunError> {
    let volume = volume::resolve(&spec.volume, consent, root)?;
    let file_system = Registry::new(&spec.driver).resolve(&spec.file_system)?;
    if let Some(bytes) = volume.size_bytes() {
        file_system.fits(bytes)?;
    }
    Ok(Resolved { volume, file_system })
}

/// Where a trial's file system is mounted.
pub(super) fn mount_point(root: &Path, id: &str) -> PathBuf {
    root.join("mounts").join(id)
}

impl Lab<'_> {
    /// Runs one trial and gives its record, with the error when it failed.
    pub(super) fn trial(
        &mut self,
        study: &str,
        planned: &PlannedTrial,
        cell: &Cell,
        folder: &mut TrialFolder,
        observer: &mut dyn RunObserver,
    ) -> (TrialRecord, Option<TrialError>) {
        let (started, clock) = (time::now_rfc3339(), Instant::now());
        folder.log(&format!("trial {} begins", planned.id));
        let mut collected = Collected::default();
        // A stage that was interrupted says so itself. When every stage ran, the trial is complete, whatever was asked
        // while its volume was given back.
        let error = self.attempt(planned, cell, folder, observer, &mut collected).err();
        folder.log(&match &error {
            None => "complete".to_owned(),
            Some(error) => format!("failed: {}", error.text()),
        });
        let last = collected.stages.iter().rev().map(|StageRecord::Age { result, .. }| &result.layout).next();
        let record = TrialRecord {
            version: STORE_VERSION,
            id: planned.id.clone(),
            study: study.to_owned(),
            factors: planned.factors.clone(),
            repeat: planned.repeat,
            seed: planned.seed,
            status: if error.is_none() { TrialStatus::Complete } else { TrialStatus::Failed },
            error: error.as_ref().map(TrialError::text).unwrap_or_default(),
            started,
            elapsed_ns: u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX),
            spec: serde_json::to_value(&cell.spec).unwrap_or_default(),
            metrics: metric::all(&collected.stages),
            layout: last.cloned(),
            host: collected.facts,
            device: collected.device,
            commands: collected.commands,
            stages: collected.stages,
            warnings: collected.warnings,
            check: collected.check,
        };
        (record, error)
    }

    /// Takes an agent, runs the trial through it, and gives back everything in every case.
    fn attempt(
        &mut self,
        planned: &PlannedTrial,
        cell: &Cell,
        folder: &mut TrialFolder,
        observer: &mut dyn RunObserver,
        collected: &mut Collected,
    ) -> Result<(), TrialError> {
        let mut session = (self.start)()?;
        let own = self.journal.attach(&session)?;
        let outcome = self.with_session(&mut session, planned, cell, folder, observer, collected);
        if let Err(error) = &outcome {
            folder.log(&format!("gives back after: {}", error.text()));
            if is_lost(error) {
                // Dropping waits until the process and all it started are gone.
                drop(session);
                self.journal.release(own)?;
                return self.give_back_all(folder).and(outcome);
            }
            let summary = lease::clean(&mut session, &mut self.journal);
            note_failures(summary, folder)?;
        }
        drop(session);
        self.journal.release(own)?;
        outcome
    }

    /// Releases everything outstanding through a fresh agent.
    pub(super) fn give_back_all(&mut self, folder: &mut TrialFolder) -> Result<(), TrialError> {
        let mut session = (self.start)()?;
        let own = self.journal.attach(&session)?;
        let summary = lease::clean(&mut session, &mut self.journal);
        drop(session);
        self.journal.release(own)?;
        note_failures(summary, folder)
    }

    fn with_session(
        &mut self,
        session: &mut Session,
        planned: &PlannedTrial,
        cell: &Cell,
        folder: &mut TrialFolder,
        observer: &mut dyn RunObserver,
        collected: &mut Collected,
    ) -> Result<(), TrialError> {
        collected.facts = host_facts(session)?;
        collected.warnings.extend(warning::of_clock(&collected.facts));
        let spec = &cell.spec;
        let volume = volume::resolve(&spec.volume, &self.consent, &self.root)?;
        let file_system = Registry::new(&spec.driver).resolve(&spec.file_system)?;
        file_system.check_host(&collected.facts)?;
        step(observer, "volume", &volume.describe(&planned.id).join("; "));
        let acquired = volume.acquire(session, &mut self.journal, &planned.id)?;
        collected.device = acquired.facts.clone();
        collected.commands.extend(acquired.commands.iter().cloned());
        file_system.fits(acquired.facts.size_bytes)?;
        self.interrupted()?;
        let device = acquired.device.clone();
        self.on_device(session, planned, spec, &file_system, &device, folder, observer, collected)?;
        let check = file_system.check(session, &device)?;
        collected.commands.extend(file_system.fsck(&device).map(|fsck| fsck.to_string()));
        collected.check.clone_from(&check.summary);
        volume.release(acquired, session, &mut self.journal)?;
        match check.clean {
            Some(false) => Err(TrialError::Unclean(check.summary)),
            Some(true) => Ok(()),
            None => {
                collected.warnings.push(Warning { kind: "fsck".into(), message: check.summary });
                Ok(())
            }
        }
    }

    /// mkfs, mount, stages, unmount.
    #[expect(
        clippy::too_many_arguments,
        reason = "each belongs to another owner; a struct would only rename them"
    )]
    fn on_device(
        &mut self,
        session: &mut Session,
        planned: &PlannedTrial,
        spec: &StudySpec,
        file_system: &FileSystem,
        device: &Path,
        folder: &mut TrialFolder,
        observer: &mut dyn RunObserver,
        collected: &mut Collected,
    ) -> Result<(), TrialError> {
        let make = file_system.mkfs(device).to_string();
        step(observer, "mkfs", &make);
        folder.log(&make);
        collected.commands.push(make);
        file_system.make(session, device)?;
        let point = mount_point(&self.root, &planned.id);
        let mounts = self.journal.take(Lease::Directory { path: self.root.join("mounts") })?;
        let directory = self.journal.take(Lease::Directory { path: point.clone() })?;
        session.call(Request::MakeDirectory { directory: point.clone() }, &mut |_| {})?;
        let mount = self.journal.take(Lease::Mount { point: point.clone() })?;
        let line = file_system.mount_line(device, &point);
        step(observer, "mount", &line);
        folder.log(&line);
        collected.commands.push(line);
        file_system.mount(session, device, &point)?;
        for stage in &spec.stage {
            self.interrupted()?;
            let mut context = StageContext {
                session,
                point: &point,
                volume_bytes: collected.device.size_bytes,
                facts: &collected.facts,
                seed: planned.seed,
                folder,
                interrupt: &self.interrupt,
                observer,
                warnings: &mut collected.warnings,
                commands: &mut collected.commands,
                done: &mut collected.stages,
            };
            stage::run(stage, &mut context)?;
        }
        step(observer, "unmount", "");
        collected.commands.push(format!("umount {}", point.display()));
        file_system.unmount(session, &point)?;
        self.journal.release(mount)?;
        session.call(Request::RemoveDirectory { directory: point }, &mut |_| {})?;
        self.journal.release(directory)?;
        session.call(Request::RemoveDirectory { directory: self.root.join("mounts") }, &mut |_| {})?;
        self.journal.release(mounts)?;
        step(observer, "check", "");
        Ok(())
    }

    fn interrupted(&self) -> Result<(), TrialError> {
        if self.interrupt.by().is_some() { Err(TrialError::Interrupted) } else { Ok(()) }
    }
}

/// Whether the agent is gone. The errors that only pass an agent's on hide it from `source`.
fn is_lost(error: &TrialError) -> bool {
    let target = match error {
        TrialError::Target(error)
        | TrialError::Volume(VolumeError::Target(error) | VolumeError::Lease(LeaseError::Target(error)))
        | TrialError::FileSystem(
            FileSystemError::Target(error) | FileSystemError::Tool(ToolError::NotRun { source: error, .. }),
        )
        | TrialError::Lease(LeaseError::Target(error)) => error,
        _ => return false,
    };
    target.is_lost()
}

fn note_failures(
    summary: Result<lease::CleanSummary, LeaseError>,
    folder: &mut TrialFolder,
) -> Result<(), TrialError> {
    for (lease, why) in summary?.failed {
        folder.log(&format!("not given back: {lease:?}: {why}"));
    }
    Ok(())
}

fn host_facts(session: &mut Session) -> Result<HostFacts, TrialError> {
    match session.call(Request::HostFacts, &mut |_| {})? {
        Reply::HostFacts { facts } => Ok(*facts),
        other => Err(volume::unexpected("host-facts", &other).into()),
    }
}

fn step(observer: &mut dyn RunObserver, name: &str, detail: &str) {
    observer.event(RunEvent::Step { name: name.to_owned(), detail: detail.to_owned() });
}
