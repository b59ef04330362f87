//! The `power-cuts` stage: a load on the trial's own disk, and every crash state that was asked for.
//!
//! The file system is as the stages before left it. It is unmounted and mounted again and again while the
//! mount of the trial stays leased, so that whatever ends the stage finds it unmounted or unmounts it. At the
//! end the disk is as the load left it. Damage is a result; a bug that the kernel reports fails the trial and
//! ends the run, because nothing may be mounted after it.

use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::crash::{CrashLoad, CrashLoadSpec, CrashSpec};
use fsage_model::quantity::share;
use fsage_model::record::{PowerCutsRecord, StageRecord};
use fsage_model::study::{FileSystemOptions, PowerCutsStage, StudySpec, VolumeSpec};

use super::{Stage, StageContext};
use crate::crash::{Bench, CrashError, CrashRun, CrashWork, Watch};
use crate::filesystem::FileSystem;
use crate::run::error::TrialError;
use crate::run::interrupt::Interrupt;
use crate::run::observer::{RunEvent, RunObserver};
use crate::run::trial_volume::TrialVolume;

/// Between two events.
const TELL_EVERY: Duration = Duration::from_millis(500);

impl Stage for PowerCutsStage {
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let run = run_of(self, context).ok_or(TrialError::NoDisk { stage: self.name.clone() })?;
        let served = place.served().ok_or(TrialError::NoDisk { stage: self.name.clone() })?;
        let (device, point) = (place.device().to_owned(), place.point().to_owned());
        for line in self.describe(&point, context.planned.seed) {
            context.command(&self.name, &line);
        }
        context.file_system.unmount(context.session, &point)?;
        let mut progress = Progress {
            stage: &self.name,
            begun: Instant::now(),
            told: None,
            interrupt: context.interrupt,
            observer: &mut *context.observer,
        };
        let directory = self.name.clone();
        let mut bench = Bench {
            session: &mut *context.session,
            device: device.clone(),
            layers: place.layers(),
            failed_drive: self.failed_drive,
            point: point.clone(),
            own: served.clone(),
            served,
            directory,
        };
        let report = run.run_at(&mut bench, &mut progress)?;
        if report.interrupted {
            return Err(TrialError::Interrupted);
        }
        let oops = report.oops.then(|| {
            let failing = report.failing.iter().flat_map(|failing| &failing.kernel);
            failing.cloned().collect::<Vec<_>>().join("; ")
        });
        let log_full = report.log_full;
        let no_room = report.no_room;
        let name = self.name.clone();
        context.done.push(StageRecord::PowerCuts(Box::new(PowerCutsRecord { name, report })));
        if let Some(said) = oops {
            return Err(TrialError::Kernel { said });
        }
        if log_full {
            return Err(TrialError::LogFull { stage: self.name.clone() });
        }
        if no_room {
            return Err(CrashError::NoRoom.into());
        }
        Ok(context.file_system.mount(context.session, &device, &point)?)
    }

    fn describe(&self, point: &Path, seed: u64) -> Vec<String> {
        vec![format!(
            "# power cuts on {}: load {}{} of {}, {} drive, atomic unit {}, {} states, seed {}{}",
            point.join(&self.name).display(),
            self.load.name(),
            match (self.load, self.threads) {
                (CrashLoad::Database, _) => format!(" ({})", self.modes()),
                (_, 1) => String::new(),
                (_, threads) => format!(" ({threads} threads)"),
            },
            self.size(),
            self.drive.name(),
            self.atomic,
            self.states,
            self.seed.unwrap_or(seed),
            self.failed_drive.map_or_else(String::new, |drive| format!(", drive {drive} is lost too"))
        )]
    }
}

/// The run that a stage asks for; nothing where the volume is no virtual disk.
fn run_of(stage: &PowerCutsStage, context: &StageContext<'_>) -> Option<CrashRun> {
    let spec = context.spec;
    let VolumeSpec::Disk(disk) = &spec.volume else { return None };
    let seed = stage.seed.unwrap_or(context.planned.seed);
    Some(CrashRun {
        file_system: context.file_system.clone(),
        options: options(spec, context.file_system),
        disk: disk.options(),
        work: CrashWork::of(
            CrashLoadSpec { load: stage.load, size: stage.size(), seed, threads: stage.threads },
            stage.modes(),
        ),
        states: CrashSpec {
            drive: stage.drive,
            atomic_bytes: stage.atomic.0,
            cache_bytes: stage.cache.0,
            states: stage.states,
            seed,
        },
        check_every: stage.check_every,
        keep: None,
        on_host: context.on_host,
    })
}

/// Mount options and mkfs parameters (`journal=false`) that the study gives, those of a described file system among them: they decide what
/// is promised.
fn options(spec: &StudySpec, file_system: &FileSystem) -> Vec<String> {
    let given = spec.file_system.options.get(&spec.file_system.kind);
    let mut found = given.map(FileSystemOptions::listed).unwrap_or_default();
    if spec.driver.contains_key(&spec.file_system.kind) {
        let others = file_system.mount_options().iter().filter(|option| !found.contains(option));
        let others: Vec<String> = others.cloned().collect();
        found.extend(others);
    }
    found
}

/// Tells how far it is, and ends at a signal.
struct Progress<'a> {
    stage: &'a str,
    begun: Instant,
    told: Option<Instant>,
    interrupt: &'a Interrupt,
    observer: &'a mut dyn RunObserver,
}

impl Watch for Progress<'_> {
    /// The load takes little of the stage's time.
    fn working(&mut self, _acknowledged: u64) {}

    fn tried(&mut self, tried: u64, planned: u64, damaged: u64) {
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if !is_due && tried < planned {
            return;
        }
        self.told = Some(Instant::now());
        let elapsed_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.observer.event(RunEvent::Progress {
            stage: self.stage.to_owned(),
            operations: tried,
            elapsed_ns,
            share: Some(share(tried, planned)),
            rate: share(tried, elapsed_ns) * 1e9,
            eta_s: None,
            note: if damaged > 0 { format!("{damaged} with damage") } else { String::new() },
        });
    }

    fn is_over(&self) -> bool {
        self.interrupt.by().is_some()
    }
}
