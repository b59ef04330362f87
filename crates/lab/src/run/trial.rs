//! One trial: volume, file system, stages, check; everything taken is released whatever happens.
//!
//! The order of releasing is the reverse of taking. When a step fails, what is outstanding in the journal is
//! released through the same agent, or through a fresh one when the agent is lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_model::protocol::{BlockFacts, HostFacts, call};
use fsage_model::record::{STORE_VERSION, StageRecord, TrialRecord, TrialStatus};
use fsage_model::study::StageSpec;
use fsage_model::warning::Warning;
use fsage_model::wear::StageWear;

use super::beside::Processors;
use super::deterministic::{self, DeterministicSettings};
use super::drives::Drives;
use super::error::TrialError;
use super::interrupt::Interrupt;
use super::making::{Making, Wanted};
use super::observer::{RunEvent, RunObserver};
use super::stage::{self, StageContext};
use super::there::{Asked, Others};
use super::trial_volume::TrialVolume;
use super::{metric, warning};
use crate::filesystem::FileSystem;
use crate::lease::record::Lease;
use crate::lease::{self, Journal, LeaseError};
use crate::plan::PlannedTrial;

use crate::store::TrialFolder;
use crate::study::{Cell, identity};
use crate::target::{Session, Target, TargetError};
use crate::time;
use crate::volume::{self, EraseConsent, Volume};

/// Starts agents, from any thread.
pub(super) type Start<'a> = dyn Fn() -> Result<Session, TargetError> + Sync + 'a;

/// What the trials of a run share, or of several at a time those that run one after the other.
pub(super) struct Lab<'a> {
    /// Folder of the store, absolute.
    pub(super) root: PathBuf,
    /// Devices that may be erased.
    pub(super) consent: EraseConsent,
    /// Crash states that no kernel wrote may be mounted.
    pub(super) on_host: bool,
    /// The other hosts of the study; `None` on one of these, where every trial is its own.
    pub(super) others: Option<Others>,
    /// Starts agents.
    pub(super) start: &'a Start<'a>,
    /// What is taken from the host.
    pub(super) journal: Journal,
    /// Signals.
    pub(super) interrupt: Interrupt,
    /// Where its trials run.
    processors: Processors,
    /// Images that trials of this run are making.
    making: Making,
}

/// What a trial collects on its way; all of it is kept when a later step fails.
#[derive(Default)]
struct Collected {
    facts: HostFacts,
    device: BlockFacts,
    commands: Vec<String>,
    stages: Vec<StageRecord>,
    wear: Vec<StageWear>,
    warnings: Vec<Warning>,
    check: String,
}

/// A trial's specification, resolved: nothing of it can be wrong any more.
pub(super) struct Resolved {
    pub(super) volume: Volume,
    pub(super) file_system: FileSystem,
}

/// Resolves what a cell says about its volume, and its file system as it is in a trial of this seed; touches
/// nothing.
pub(super) fn resolve(
    cell: &Cell,
    seed: u64,
    consent: &EraseConsent,
    root: &Path,
) -> Result<Resolved, super::RunError> {
    let spec = &cell.spec;
    let mut volume = volume::resolve(&spec.volume, consent, root)?;
    if spec.target.hosts().is_some() {
        volume.of_host();
    }
    let file_system =
        deterministic::file_system(spec, &cell.file_system, seed, &Target::kernel(&spec.target));
    if let Some(bytes) = volume.size_bytes() {
        file_system.fits(bytes)?;
    }
    // Refused before hours of ageing, not after.
    for other in spec.stages().flat_map(|stage| stage::of(stage).other_volumes(&spec.volume)) {
        if let Some(bytes) = volume::resolve(&other, consent, root)?.size_bytes() {
            file_system.fits(bytes)?;
        }
    }
    Ok(Resolved { volume, file_system })
}

/// Where a trial's file system is mounted.
pub(super) fn mount_point(root: &Path, id: &str) -> PathBuf {
    root.join("mounts").join(id)
}

impl<'a> Lab<'a> {
    /// Of a run whose trials are one after the other.
    pub(super) fn new(
        root: PathBuf,
        consent: EraseConsent,
        start: &'a Start<'a>,
        journal: Journal,
        interrupt: Interrupt,
    ) -> Self {
        let (processors, making) = (Processors::default(), Making::default());
        Self { root, consent, on_host: false, others: None, start, journal, interrupt, processors, making }
    }

    /// One of several that run at the same time, with leases of its own.
    pub(super) fn lane(&self, number: usize, processors: &Processors) -> Self {
        Self {
            root: self.root.clone(),
            consent: self.consent.clone(),
            on_host: self.on_host,
            others: self.others.clone(),
            start: self.start,
            journal: self.journal.branch(),
            interrupt: self.interrupt.of_lane(number),
            processors: processors.clone(),
            making: self.making.clone(),
        }
    }

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
        let there = match (self.others.clone(), cell.spec.target.hosts()) {
            (Some(others), Some(_)) => {
                Some(self.on_served_disk(&others, (study, planned, cell), folder, observer))
            }
            (Some(others), None) => {
                let asked = Asked { study, planned, cell, served: None };
                others.trial(asked, folder, &self.interrupt, observer)
            }
            (None, _) => None,
        };
        let error = match there {
            Some(Ok(done)) => return done,
            Some(Err(error)) => Some(self.or_interrupted(error)),
            // A stage that was interrupted says so itself. When every stage ran, the trial is complete, whatever
            // was asked while its volume was released.
            None => self.attempt(planned, cell, folder, observer, &mut collected).err(),
        };
        folder.log(&match &error {
            None => "complete".to_owned(),
            Some(error) => format!("failed: {}", error.text()),
        });
        let last = collected.stages.iter().rev().find_map(StageRecord::layout);
        let record = TrialRecord {
            version: STORE_VERSION,
            program: identity::program(),
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
            wear: collected.wear,
            warnings: collected.warnings,
            check: collected.check,
        };
        (record, error)
    }

    /// Takes an agent, runs the trial through it, and releases everything in every case.
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
        let Err(error) = outcome else {
            drop(session);
            self.journal.release(own)?;
            return Ok(());
        };
        folder.log(&format!("releases after: {}", error.text()));
        let through_own = if session.is_lost() { Ok(false) } else { self.clean(&mut session, folder) };
        // Dropping waits until the process and all it started are gone.
        drop(session);
        self.journal.release(own)?;
        if !through_own? && !self.release_all(folder)? {
            let text = "not everything was released: `fsage clean` or the next run tries again".to_owned();
            folder.log(&text);
            observer.event(RunEvent::Note { text });
        }
        // Only now: whatever was asked meanwhile, everything has been released.
        Err(self.or_interrupted(error))
    }

    /// That the user asked to end, where that can be what failed a trial.
    pub(super) fn or_interrupted(&self, error: TrialError) -> TrialError {
        let asked = self.interrupt.by().is_some() && error.may_come_from_a_signal();
        if asked { TrialError::Interrupted } else { error }
    }

    /// Releases everything outstanding through a fresh agent; whether that agent lived to do it.
    pub(super) fn release_all(&mut self, folder: &mut TrialFolder) -> Result<bool, TrialError> {
        let mut session = match (self.start)() {
            Ok(session) => session,
            Err(error) => {
                folder.log(&format!("no fresh agent: {}", TrialError::from(error).text()));
                return Ok(false);
            }
        };
        let own = self.journal.attach(&session)?;
        let done = self.clean(&mut session, folder);
        drop(session);
        self.journal.release(own)?;
        done
    }

    /// Releases everything outstanding through `session`; `false` when its agent was lost before the end.
    pub(super) fn clean(
        &mut self,
        session: &mut Session,
        folder: &mut TrialFolder,
    ) -> Result<bool, TrialError> {
        match lease::clean(session, &mut self.journal) {
            Ok(summary) => {
                for (lease, why) in summary.failed.into_iter().chain(summary.left) {
                    folder.log(&format!("not released: {lease:?}: {why}"));
                }
                Ok(true)
            }
            Err(LeaseError::Target(error)) => {
                folder.log(&format!("releasing ended: {}", TrialError::from(error).text()));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
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
        collected.facts = session.call(call::HostFacts)?;
        let others =
            (1..cell.spec.target.hosts().unwrap_or(1)).map(Target::of_guest).collect::<Result<_, _>>()?;
        collected.warnings.extend(warning::of_clock(&collected.facts));
        let file_system =
            deterministic::file_system(&cell.spec, &cell.file_system, planned.seed, &collected.facts.kernel);
        file_system.check_host(&collected.facts)?;
        for stage in cell.spec.stages() {
            stage::of(stage).check_host(&file_system, &collected.facts)?;
        }
        let mut context = StageContext {
            session,
            others,
            journal: &mut self.journal,
            root: &self.root,
            consent: &self.consent,
            on_host: self.on_host,
            planned,
            spec: &cell.spec,
            file_system: &file_system,
            facts: &collected.facts,
            folder,
            interrupt: &self.interrupt,
            processors: &self.processors,
            used_partitions: BTreeSet::new(),
            making: &self.making,
            observer,
            warnings: &mut collected.warnings,
            commands: &mut collected.commands,
            done: &mut collected.stages,
            wear: &mut collected.wear,
        };
        let mounts = context.journal.make(Lease::Directory { path: self.root.join("mounts") })?;
        check_room(&mut context)?;
        let deterministic = DeterministicSettings::take(&mut context)?;
        let drives = Drives::take(cell, &mut context)?;
        let mut place = TrialVolume::acquire(&cell.spec.volume, &planned.id, &mut context)?;
        collected.device = place.facts().clone();
        context.interrupted()?;
        let outcome = stages(&mut place, &mut context);
        // A copy may have taken the volume's place.
        collected.device = place.facts().clone();
        outcome?;
        collected.check = place.check(&mut context)?;
        place.release(&mut context)?;
        drives.release(&mut context)?;
        deterministic.release(&mut context)?;
        context.release(mounts)
    }
}

/// Refuses volumes that the host has no room for, before the first is made: what a stage takes is there
/// beside the trial's own.
fn check_room(context: &mut StageContext<'_>) -> Result<(), TrialError> {
    let own = &context.spec.volume;
    for stage in context.spec.stages() {
        let specs = std::iter::once(own.clone()).chain(stage::of(stage).other_volumes(own));
        let volumes: Result<Vec<_>, _> =
            specs.map(|spec| volume::resolve(&spec, context.consent, context.root)).collect();
        volume::check_room(&volumes?, context.session)?;
    }
    Ok(())
}

/// Makes and mounts the file system; the first stage that is to be run on it.
fn made(place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<usize, TrialError> {
    place.make(context)?;
    place.mount(context)?;
    Ok(0)
}

/// Every stage of the trial's state, those before mkfs first, or those after its image where that is there already.
fn stages(place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
    let spec = context.spec;
    let before = stage::before_mkfs(spec);
    for stage in spec.stages().take(before) {
        stage::run(stage, place, context)?;
    }
    let (first, mut claim) = match stage::image::want(context) {
        Some(Wanted::Found(record)) => (stage::image::resume(&record, place, context)?, None),
        Some(Wanted::Ended) => return Err(TrialError::Interrupted),
        Some(Wanted::Make(claim)) => (made(place, context)?, Some(claim)),
        None => (made(place, context)?, None),
    };
    for stage in spec.stages().skip(first.max(before)) {
        stage::run(stage, place, context)?;
        if matches!(stage, StageSpec::Image(_)) {
            // Who waits for the image finds it now.
            drop(claim.take());
        }
    }
    context.interrupted()
}
