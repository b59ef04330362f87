//! Power cuts: a load on a virtual disk, and then every crash state of its log that was asked for, mounted
//! and compared with what was promised.
//!
//! One device serves all of it: after the load the disk shows one crash state after the other in the place
//! of its contents, without being detached. The kernel has nothing of a state in memory when it mounts the
//! next one: the device's page cache is dropped before each mount, and the loop device and the disk have
//! none.
//!
//! [`CrashRun::run`] takes a disk for itself; what it takes from the host is in the lease journal of a folder
//! of its own, as for named disks. [`CrashRun::run_at`] works at a [`Bench`] that somebody else has: the
//! volume of a trial.

mod bench;
mod error;
mod keep;
mod place;
mod program;
mod shrink;
mod work;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fsage_model::cause::in_one_line;
use fsage_model::crash::{
    Attempt, AttemptSpec, CrashClass, CrashOperation, CrashReport, CrashSpec, CrashState, Damage, DamageKind,
    DriveBehaviour, Failing, LoadStep, Promises, TimeSummary, promises,
};
use fsage_model::disk::call as disk_call;
use fsage_model::protocol::call;
use fsage_model::study::{DiskOptions, LayerSpec};

pub use bench::Bench;
pub use error::CrashError;
pub use keep::Keep;
use place::Place;
pub use work::CrashWork;
use work::Done;

use crate::filesystem::FileSystem;
use crate::volume::Start;

/// Operations that are shown before a cut.
const SHOWN: usize = 12;

/// File with what a program acknowledged before a cut.
const ACKNOWLEDGED: &str = "acknowledged";
/// Most operations that are shown, those included that made what is damaged.
const MOST_SHOWN: usize = 30;

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
    /// Where and how the failing state is kept.
    pub keep: Option<Keep>,
    /// States that no kernel wrote may be mounted on this host ([`allow`]).
    pub on_host: bool,
}

/// Whether states of a drive may be mounted on this host.
///
/// # Errors
/// They hold what no kernel wrote, and `on_host`, the user's consent, is not there.
pub fn allow(drive: DriveBehaviour, on_host: bool) -> Result<(), CrashError> {
    if drive.fabricates() && !on_host { Err(CrashError::OnHost { drive }) } else { Ok(()) }
}

/// What a run says while it is under way.
pub trait Watch {
    /// A program works as the load, and has acknowledged so much.
    fn working(&mut self, acknowledged: u64);

    /// So many of the states were tried, and so many were damaged.
    fn tried(&mut self, tried: u64, planned: u64, damaged: u64);

    /// Whether it is to end.
    fn is_over(&self) -> bool;
}

impl CrashRun {
    /// What the file system promises, or POSIX where nothing is known about it; and what a database does.
    #[must_use]
    pub fn promises(&self) -> Promises {
        let file_system = promises(self.file_system.kind(), &self.options).unwrap_or(Promises::POSIX);
        self.work.promises(file_system)
    }

    /// Does the load and tries the states.
    ///
    /// # Errors
    /// See [`CrashError`]. Damage is no error. What was taken is released; what cannot be stays leased.
    pub fn run(&self, watch: &mut dyn Watch) -> Result<CrashReport, CrashError> {
        allow(self.states.drive, self.on_host)?;
        self.file_system.fits(self.disk.size.0)?;
        if !self.file_system.mounts_by_kernel() {
            return Err(CrashError::Mount { kind: self.file_system.kind().to_owned() });
        }
        self.keep.as_ref().map_or(Ok(()), |keep| keep::make(&keep.folder))?;
        let outcome = self.run_on_a_disk(watch);
        self.keep.iter().for_each(|keep| keep::remove_if_empty(&keep.folder));
        outcome
    }

    fn run_on_a_disk(&self, watch: &mut dyn Watch) -> Result<CrashReport, CrashError> {
        let mut place = Place::open(&self.disk)?;
        let device = place.device().to_owned();
        let made = self.file_system.make(&mut place.session, &device).map_err(CrashError::from);
        let outcome = made.and_then(|()| self.run_at(&mut place.bench(), watch));
        let closed = place.close();
        let mut report = outcome?;
        // Hours of states are not lost for it: what stays is leased.
        report.problems.extend(closed.err().map(|error| in_one_line(&error)));
        Ok(report)
    }

    /// Does the load on a file system that is there and not mounted, and tries the states; then the disk is as
    /// the load left it.
    ///
    /// # Errors
    /// See [`CrashError`]. The file system may be mounted then, and the disk may show a state.
    pub fn run_at(&self, place: &mut Bench<'_>, watch: &mut dyn Watch) -> Result<CrashReport, CrashError> {
        allow(self.states.drive, self.on_host)?;
        let done = self.load(place, watch)?;
        let end = program::end(place)?;
        let coverage = place.show(disk_call::BeginCrash { spec: self.states.clone() })?;
        let mut report = CrashReport {
            file_system: self.file_system.kind().to_owned(),
            options: self.options.clone(),
            medium: self.disk.medium.clone(),
            stack: self.disk.stack.iter().map(LayerSpec::words).collect(),
            failed_drive: place.failed_drive,
            load: self.work.named(),
            script: self.work.script().cloned(),
            database: self.work.modes(),
            program: self.work.report(&done),
            operations: wide(done.steps.len()),
            interrupted: done.program.as_ref().is_some_and(|program| program.stopped),
            log_full: end.full,
            ..CrashReport::untried(self.states.clone(), coverage)
        };
        if done.program.is_some() && !report.interrupted && !end.full {
            program::check_end(self, place, end.position)?;
        }
        let worst = self.try_all(place, &mut report, watch)?;
        if let Some((state, attempt)) = worst {
            let lost_when_found = wide(state.lost.len());
            let ended = report.oops || report.interrupted || report.no_room;
            let (state, attempt) =
                if ended { (state, attempt) } else { shrink::shrink(self, place, (state, attempt), watch)? };
            let oops = attempt.oops;
            let mut failing = failing(state, attempt, lost_when_found, &done.steps, self.work.has_threads());
            if !(ended || oops || watch.is_over()) {
                self.with_all_drives(place, &mut failing, &mut report);
            }
            if let Some(run) = &done.program {
                program::describe(place, run, &mut failing)?;
            }
            if let Some(keep) = &self.keep {
                let kept = keep::keep(self, place, &failing, &done, keep);
                report.problems.extend(kept.err().map(|error| in_one_line(&error)));
            }
            report.failing = Some(failing);
        }
        let ended = report.oops || report.interrupted || report.no_room || report.log_full;
        match self.end(place, ended) {
            Ok(()) => {}
            // Hours of states are not lost for it.
            Err(error) => report.problems.push(in_one_line(&error)),
        }
        Ok(report)
    }

    /// Tries a state that was tried without a drive with all of them, and inspects it as it was. What was found before stands, whatever
    /// comes of it.
    fn with_all_drives(&self, place: &mut Bench<'_>, failing: &mut Failing, report: &mut CrashReport) {
        let Some(failed) = place.failed_drive.take() else { return };
        let kind = failing.damage.first().map(|damage| damage.kind);
        let inspected = matches!(kind, Some(DamageKind::Check | DamageKind::Use));
        let shown = place.show(disk_call::ShowCrash { state: failing.state.clone() });
        let attempt = shown.and_then(|()| self.attempt(place, &failing.state, inspected));
        place.failed_drive = Some(failed);
        match attempt {
            Err(CrashError::NoRoom) => {}
            Err(error) => report.problems.push(in_one_line(&error)),
            Ok(whole) if whole.undecided && whole.class == CrashClass::Ok => {}
            Ok(whole) => {
                report.oops |= whole.oops;
                failing.with_all_drives = Some(whole.class);
            }
        }
    }

    /// Has the disk show what the load left, with the layers above it unless nothing is to be done with it any more.
    fn end(&self, place: &mut Bench<'_>, ended: bool) -> Result<(), CrashError> {
        // The states go with the log.
        place.show(disk_call::EndLog)?;
        match if ended { None } else { place.start(None)?.refusal } {
            Some(said) => Err(CrashError::Layers { said }),
            None => Ok(()),
        }
    }

    /// Prepares the load, and does it while the disk keeps a log.
    fn load(&self, place: &mut Bench<'_>, watch: &mut dyn Watch) -> Result<Done, CrashError> {
        let (device, point) = (place.device.clone(), place.point.clone());
        let mount = |place: &mut Bench<'_>| self.file_system.mount(place.session, &device, &point);
        // What has a copy of the mount would keep back what is to be on the disk.
        let unmount = |place: &mut Bench<'_>| -> Result<(), CrashError> {
            self.file_system.unmount(place.session, &point)?;
            Ok(place.session.call(call::AwaitFree { device: device.clone() })?)
        };
        mount(place)?;
        let prepared = self.work.prepare(place, self.states.seed);
        unmount(place)?;
        let base = prepared?;
        place.ask(disk_call::StartLog { for_states: true })?;
        mount(place)?;
        let done = self.work.perform(place, watch);
        unmount(place)?;
        Ok(Done { base, ..done? })
    }

    fn try_all(
        &self,
        place: &mut Bench<'_>,
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
            let Some(shown) = place.show(disk_call::NextCrash)? else { break };
            let inspected = self.check_every > 0 && shown.number.is_multiple_of(self.check_every);
            let attempt = match self.attempt(place, &shown.state, inspected) {
                // What was found so far stands.
                Err(CrashError::NoRoom) => {
                    report.no_room = true;
                    break;
                }
                attempt => attempt?,
            };
            report.add(&attempt, inspected);
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
    fn attempt(
        &self,
        place: &mut Bench<'_>,
        state: &CrashState,
        inspected: bool,
    ) -> Result<Attempt, CrashError> {
        let Start { refusal, forced } = place.start(place.failed_drive)?;
        let fsck = self.file_system.fsck(&place.device).filter(|_| inspected);
        let limit = fsck.as_ref().map_or(Duration::ZERO, crate::tools::Invocation::time_limit);
        let attempt = AttemptSpec {
            device: place.device.clone(),
            point: place.point.clone(),
            directory: place.folder(),
            file_system: self.file_system.mount_type().to_owned(),
            options: self.file_system.mount_options().to_vec(),
            promises: self.promises(),
            honest: self.states.drive.keeps_promises(),
            cut: state.cut,
            missing: state.lost.iter().copied().chain(state.torn.as_ref().map(|torn| torn.entry)).collect(),
            layers: refusal,
            used: inspected,
            check: fsck.map(|fsck| fsck.argv().to_vec()),
            check_timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        };
        let judged = self.work.judge(place, attempt).map(|attempt| Attempt { forced, ..attempt });
        // A bug of the kernel is one, whatever made it come out.
        let is_kept = judged.as_ref().is_ok_and(|attempt| attempt.oops || attempt.class == CrashClass::Ok);
        // What flash lost is written to the state too.
        if (!is_kept || self.states.drive.fabricates()) && place.ask(disk_call::StateRanOut)? {
            return Err(CrashError::NoRoom);
        }
        judged
    }
}

/// Which of two damaged states is shown: the worse one, then one that no known finding explains, then the one
/// with less missing, then the earlier cut.
fn rank(attempt: &Attempt, state: &CrashState) -> (CrashClass, bool, Reverse<(usize, u64)>) {
    (attempt.class, attempt.known.is_empty(), Reverse((state.lost.len() + state.flash.len(), state.cut)))
}

/// `has_threads`: each thread works in a directory of its own, and may have an operation under way.
fn failing(
    state: CrashState,
    attempt: Attempt,
    lost_when_found: u64,
    steps: &[LoadStep],
    has_threads: bool,
) -> Failing {
    let returned = usize::try_from(attempt.returned).unwrap_or(usize::MAX).min(steps.len());
    let rest = steps.get(returned..).unwrap_or_default();
    let root = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let damaged: BTreeSet<String> = attempt.damage.iter().map(|damage| root(&damage.path)).collect();
    let own = rest.iter().find(|step| has_threads && damaged.contains(&root(step.operation.paths().0)));
    let before = before(steps.get(..returned).unwrap_or_default(), &attempt.damage);
    Failing {
        state,
        lost_when_found,
        class: attempt.class,
        known: attempt.known,
        damage: attempt.damage,
        kernel: attempt.kernel,
        forced: attempt.forced,
        with_all_drives: None,
        before,
        under_way: own.or(rest.first()).cloned(),
        acknowledged: Vec::new(),
        requests: Vec::new(),
    }
}

/// The last operations, and before them those that made and promised what is damaged: those of its names, of
/// names that they had before, and the last syncs.
fn before(steps: &[LoadStep], damage: &[Damage]) -> Vec<LoadStep> {
    let mut names: BTreeSet<&str> = damage.iter().map(|damage| damage.path.as_str()).collect();
    let mut shown = Vec::new();
    for (back, step) in steps.iter().rev().enumerate() {
        let (path, other) = step.operation.paths();
        let concerns = match &step.operation {
            CrashOperation::Sync => true,
            CrashOperation::FsyncDirectory { .. } => names.iter().any(|name| parent(name) == path),
            _ => names.contains(path) || other.is_some_and(|other| names.contains(other)),
        };
        if back < SHOWN || (concerns && shown.len() < MOST_SHOWN) {
            shown.push(step.clone());
            // What it was called before.
            if let Some(other) = other.filter(|other| concerns && names.contains(other)) {
                names.insert(path);
                names.insert(other);
            }
        }
    }
    shown.reverse();
    shown
}

/// The directory of a path; empty: the load's own.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn saturating_ns(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::DamageKind;

    use super::*;

    #[test]
    fn a_case_shows_what_made_and_promised_what_is_damaged_however_long_ago() {
        let path = |path: &str| path.to_owned();
        let mut operations = vec![
            CrashOperation::Write { path: path("x"), offset_bytes: 0, length_bytes: 1 },
            CrashOperation::Write { path: path("old"), offset_bytes: 0, length_bytes: 1 },
            CrashOperation::Fsync { path: path("old") },
            CrashOperation::Rename { from: path("old"), to: path("one/b") },
            CrashOperation::FsyncDirectory { path: path("one") },
            CrashOperation::FsyncDirectory { path: path("two") },
            CrashOperation::Sync,
        ];
        operations.extend((0..SHOWN).map(|_| CrashOperation::Unlink { path: path("x") }));
        let step = |(position, operation): (u64, CrashOperation)| LoadStep { operation, position };
        let steps: Vec<LoadStep> = (1..).zip(operations).map(step).collect();
        let damage =
            Damage { kind: DamageKind::Content, path: path("one/b"), what: String::new(), pattern: None };
        let shown: Vec<u64> = before(&steps, &[damage]).iter().map(|step| step.position).collect();
        let last = 8..=7 + wide(SHOWN);
        assert_eq!(shown, [2, 3, 4, 5, 7].into_iter().chain(last).collect::<Vec<u64>>());
        assert_eq!(before(&steps[..1], &[]).len(), 1);
    }
}
