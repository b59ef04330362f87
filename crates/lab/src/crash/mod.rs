//! Power cuts: a load on a virtual disk, and then every crash state of its log that was asked for, mounted
//! and compared with what was promised.
//!
//! One device serves all of it: after the load the disk shows one crash state after the other in the place
//! of its contents, without being detached. The kernel has nothing of a state in memory when it mounts the
//! next one: the device's page cache is dropped before each mount, and the loop device and the disk have
//! none.
//!
//! Everything taken from the host is in the lease journal of a folder of its own, as for named disks.

mod error;
mod keep;
mod place;
mod program;
mod shrink;

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fsage_engine::disk::VirtualDisk;
use fsage_model::crash::{
    Attempt, AttemptSpec, CrashClass, CrashLoadSpec, CrashReport, CrashSpec, CrashState, Failing, LoadStep,
    ProgramReport, ProgramRun, ProgramSpec, Promises, StateCheck, TimeSummary, promises,
};
use fsage_model::disk::call as disk_call;
use fsage_model::protocol::call;
use fsage_model::study::DiskOptions;

pub use error::CrashError;
use place::Place;

use crate::filesystem::FileSystem;

/// The load's directory on the volume.
const DIRECTORY: &str = "load";

/// Operations that are shown before a cut.
const SHOWN: usize = 12;

/// File with what a program acknowledged before a cut.
const ACKNOWLEDGED: &str = "acknowledged";

/// A run.
#[derive(Debug, Clone)]
pub struct CrashRun {
    /// The file system, as it is mounted.
    pub file_system: FileSystem,
    /// Its mount options and mkfs parameters as they were given, for what it promises.
    pub options: Vec<String>,
    /// The disk.
    pub disk: DiskOptions,
    /// What is done before the cut.
    pub work: CrashWork,
    /// Which states.
    pub states: CrashSpec,
    /// Every so many states are checked by the file system's program and written to; 0: none.
    pub check_every: u64,
    /// A folder that does not exist yet, for the failing state and what it takes to see it without fsage.
    pub keep: Option<PathBuf>,
}

/// What is done before the cut.
#[derive(Debug, Clone)]
pub enum CrashWork {
    /// A load of fsage, which knows what it was promised.
    Load(CrashLoadSpec),
    /// A program of the user's, and one that judges what is left.
    Program(Box<ProgramSpec>),
}

/// What was done.
#[derive(Debug, Default)]
struct Done {
    /// By a load of fsage.
    steps: Vec<LoadStep>,
    /// By a program of the user's.
    program: Option<ProgramRun>,
}

/// What a run says while it is under way.
pub trait Watch {
    /// The user's own program works, and has acknowledged so much.
    fn working(&mut self, acknowledged: u64);

    /// So many of the states were tried, and so many were damaged.
    fn tried(&mut self, tried: u64, planned: u64, damaged: u64);

    /// Whether it is to end.
    fn is_over(&self) -> bool;
}

impl CrashRun {
    /// What the file system promises; what POSIX does where nothing is known about it.
    #[must_use]
    pub fn promises(&self) -> Promises {
        promises(self.file_system.kind(), &self.options).unwrap_or(Promises::POSIX)
    }

    /// Does the load and tries the states.
    ///
    /// # Errors
    /// See [`CrashError`]. Damage is no error. What was taken is released; what cannot be stays leased.
    pub fn run(&self, watch: &mut dyn Watch) -> Result<CrashReport, CrashError> {
        self.file_system.fits(self.disk.size.0)?;
        if !self.file_system.mounts_by_kernel() {
            return Err(CrashError::Mount { kind: self.file_system.kind().to_owned() });
        }
        self.keep.as_deref().map_or(Ok(()), keep::check)?;
        let mut place = Place::open(&self.disk)?;
        let outcome = self.run_at(&mut place, watch);
        let closed = place.close();
        let report = outcome?;
        closed?;
        Ok(report)
    }

    fn run_at(&self, place: &mut Place, watch: &mut dyn Watch) -> Result<CrashReport, CrashError> {
        let done = self.load(place, watch)?;
        let end = program::end(place)?;
        let coverage = place.ask(disk_call::BeginCrash { spec: self.states.clone() })?;
        let mut report = CrashReport {
            file_system: self.file_system.kind().to_owned(),
            options: self.options.clone(),
            medium: self.disk.medium.clone(),
            load: match &self.work {
                CrashWork::Load(load) => Some(*load),
                CrashWork::Program(_) => None,
            },
            program: self.program_report(&done),
            operations: wide(done.steps.len()),
            spec: self.states.clone(),
            coverage,
            tried: 0,
            ok: 0,
            documented: 0,
            broken: 0,
            checked: 0,
            damage: Vec::new(),
            updates: Vec::new(),
            times: Vec::new(),
            failing: None,
            oops: false,
            interrupted: done.program.as_ref().is_some_and(|program| program.stopped),
            elapsed_ns: 0,
        };
        if done.program.is_some() && !report.interrupted {
            program::check_end(self, place, end)?;
        }
        let worst = self.try_all(place, &mut report, watch)?;
        if let Some((state, attempt)) = worst {
            let lost_when_found = wide(state.lost.len());
            let ended = report.oops || report.interrupted;
            let (state, attempt) =
                if ended { (state, attempt) } else { shrink::shrink(self, place, state, attempt)? };
            let mut failing = failing(state, attempt, lost_when_found, &done.steps);
            if let Some(run) = &done.program {
                program::describe(place, run, &mut failing)?;
            }
            if let Some(folder) = &self.keep {
                keep::keep(self, place, &failing, done.program.as_ref(), folder)?;
            }
            report.failing = Some(failing);
        }
        place.ask(disk_call::EndCrash)?;
        Ok(report)
    }

    /// Makes the file system, prepares the load, and does it while the disk keeps a log.
    fn load(&self, place: &mut Place, watch: &mut dyn Watch) -> Result<Done, CrashError> {
        let (device, point) = (place.device().to_owned(), place.point());
        self.file_system.make(&mut place.session, &device)?;
        let mount = |place: &mut Place| self.file_system.mount(&mut place.session, &device, &point);
        let unmount = |place: &mut Place| self.file_system.unmount(&mut place.session, &point);
        mount(place)?;
        let directory = place.folder();
        let prepared = match &self.work {
            CrashWork::Load(load) => place.session.call(call::CrashPrepare { load: *load, directory }),
            CrashWork::Program(_) => place.session.call(call::CrashMake { directory }),
        };
        unmount(place)?;
        prepared?;
        place.ask(disk_call::StartLog)?;
        mount(place)?;
        let done = self.do_load(place, watch);
        unmount(place)?;
        done
    }

    fn do_load(&self, place: &mut Place, watch: &mut dyn Watch) -> Result<Done, CrashError> {
        let directory = place.folder();
        Ok(match &self.work {
            CrashWork::Load(_) => {
                let steps = place.session.call(call::CrashLoad { directory })?;
                Done { steps, ..Done::default() }
            }
            CrashWork::Program(program) => {
                Done { program: Some(program::work(place, program, watch)?), ..Done::default() }
            }
        })
    }

    fn program_report(&self, done: &Done) -> Option<ProgramReport> {
        match (&self.work, &done.program) {
            (CrashWork::Program(program), Some(run)) => Some(ProgramReport::new((**program).clone(), run)),
            _ => None,
        }
    }

    fn try_all(
        &self,
        place: &mut Place,
        report: &mut CrashReport,
        watch: &mut dyn Watch,
    ) -> Result<Option<(CrashState, Attempt)>, CrashError> {
        let started = Instant::now();
        let mut times: [Vec<u64>; 5] = Default::default();
        let mut worst: Option<(CrashState, Attempt)> = None;
        while !report.oops {
            if report.interrupted || watch.is_over() {
                report.interrupted = true;
                break;
            }
            let Some(shown) = place.ask(disk_call::NextCrash)? else { break };
            let inspected = self.check_every > 0 && shown.number.is_multiple_of(self.check_every);
            let attempt = self.attempt(place, &shown.state, inspected)?;
            report.add(&attempt);
            let taken = attempt.times;
            for (all, one) in times.iter_mut().zip([
                shown.moved_ns,
                taken.mount_ns,
                taken.verify_ns,
                taken.unmount_ns,
                taken.check_ns,
            ]) {
                all.extend((one > 0).then_some(one));
            }
            watch.tried(report.tried, report.coverage.planned, report.damaged());
            let is_worse =
                |worst: &(CrashState, Attempt)| rank(&attempt, &shown.state) > rank(&worst.1, &worst.0);
            if attempt.class > CrashClass::Ok && worst.as_ref().is_none_or(is_worse) {
                worst = Some((shown.state, attempt));
            }
        }
        report.elapsed_ns = saturating_ns(started.elapsed());
        let steps = ["move", "mount", "verify", "unmount", "check"];
        report.times = steps.iter().zip(times).filter_map(|(step, all)| TimeSummary::of(step, all)).collect();
        Ok(worst)
    }

    /// Tries the state that the disk shows. `inspected`: with the file system's check, and by writing to it.
    fn attempt(&self, place: &mut Place, state: &CrashState, inspected: bool) -> Result<Attempt, CrashError> {
        let fsck = self.file_system.fsck(place.device()).filter(|_| inspected);
        let limit = fsck.as_ref().map_or(Duration::ZERO, crate::tools::Invocation::time_limit);
        let attempt = AttemptSpec {
            device: place.device().to_owned(),
            point: place.point(),
            directory: place.folder(),
            file_system: self.file_system.mount_type().to_owned(),
            options: self.file_system.mount_options().to_vec(),
            promises: self.promises(),
            honest: self.states.drive.keeps_promises(),
            cut: state.cut,
            used: inspected,
            check: fsck.map(|fsck| fsck.argv().to_vec()),
            check_timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        };
        let attempt = Box::new(attempt);
        Ok(match &self.work {
            CrashWork::Load(_) => place.session.call(call::CrashTry { attempt })?,
            CrashWork::Program(program) => {
                let check =
                    StateCheck { program: (**program).clone(), acknowledged: place.scratch(ACKNOWLEDGED) };
                place.session.call(call::CrashCheck { attempt, check: Box::new(check) })?
            }
        })
    }
}

/// Which of two damaged states is shown: the worse one, then the one with less missing, then the earlier cut.
fn rank(attempt: &Attempt, state: &CrashState) -> (CrashClass, Reverse<(usize, u64)>) {
    (attempt.class, Reverse((state.lost.len(), state.cut)))
}

fn failing(state: CrashState, attempt: Attempt, lost_when_found: u64, steps: &[LoadStep]) -> Failing {
    let returned = usize::try_from(attempt.returned).unwrap_or(usize::MAX).min(steps.len());
    let before = steps.get(returned.saturating_sub(SHOWN)..returned).unwrap_or_default().to_vec();
    Failing {
        state,
        lost_when_found,
        class: attempt.class,
        damage: attempt.damage,
        kernel: attempt.kernel,
        before,
        under_way: steps.get(returned).cloned(),
        acknowledged: Vec::new(),
        requests: Vec::new(),
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn saturating_ns(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// The disk of a place, by its folder.
fn disk_at(place: &std::path::Path) -> VirtualDisk {
    VirtualDisk::at(place.to_owned())
}
