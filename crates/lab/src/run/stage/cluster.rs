//! The `cluster` stage: all hosts of the target load one volume at the same time.
//!
//! The first host makes the files, and before each point every host does a few operations that are not counted. A point is a fixed number
//! of operations of all hosts together, so that its time is that of the drive for the same work. What the drive does while nobody works (heartbeats go by the
//! wall's clock) is measured beforehand, so that its share of a point is known.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsage_model::cause::in_one_line;
use fsage_model::cluster::{ClusterRecord, ClusterResult, FileSet, HostLoad, Sent};
use fsage_model::disk::DiskStat;
use fsage_model::fio::{FioEngine, FioPoint, FioRun};
use fsage_model::location::Location;
use fsage_model::protocol::{Event, HostFacts, call};
use fsage_model::quantity::{as_f64, share, to_u64};
use fsage_model::record::StageRecord;
use fsage_model::study::ClusterStage;
use fsage_model::warning::{Warning, WarningKind};

use super::fio::{GRACE, SLOWEST, check_engines, check_fio, figures, mixed};
use super::{Stage, StageContext};
use crate::filesystem::FileSystem;
use crate::run::error::TrialError;
use crate::run::fio::FioError;
use crate::run::fio::ask::{self, Limits, line};
use crate::run::fio::job::{FioTarget, Place};
use crate::run::observer::RunEvent;
use crate::run::trial_volume::TrialVolume;
use crate::target::{Control, Incoming, Session, TargetError};
use crate::tools::fio::PROGRAM;
use crate::tools::fio::plus::Figures;
use crate::volume::VolumeError;

/// How long nobody works while what the drive does by itself is counted: five heartbeats of every host.
const IDLE: Duration = Duration::from_secs(10);

/// How long the device is quiet before a point. Heartbeats come every two seconds.
const QUIET_MS: u64 = 50;

/// Time between two of fio's reports.
const ROUND_MS: u64 = 1000;

/// Slowest operation that is waited for.
const SLOWEST_OPERATION: Duration = Duration::from_millis(500);

/// Share of the operations that hosts do while all of them work, at least.
const TOGETHER: f64 = 0.8;

/// Nanoseconds until the jobs of all hosts begin: fio takes a second or two to be ready where processors are emulated.
const STARTS_NS: u64 = 4_000_000_000;

/// Operations of each host on each of its files before a point, which are not counted: inodes are in memory then, and what a point before it left
/// (whose locks are where) is gone.
const OPENING: u64 = 4;

impl Stage for ClusterStage {
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        check_engines(&[FioEngine::Libaio], context)?;
        let folder = place.folder(&self.name);
        context.session.call(call::MakeFolder { directory: folder.clone() })?;
        let made = context.session.call(call::MakeMeasureFolder { directory: folder.clone() })?;
        let outcome = self.with_folders(place, &folder, made.display().to_string(), context);
        let others = context.others.iter_mut().filter(|session| !session.is_lost());
        let left: Result<Vec<()>, TargetError> =
            others.map(|session| session.call(call::LeaveMeasureFolder)).collect();
        let removed = context.session.call(call::RemoveMeasureFolder { directory: folder });
        // What failed first says more than what could not be cleared up after it.
        let record = outcome?;
        left?;
        removed?;
        context.done.push(StageRecord::Cluster(Box::new(record)));
        Ok(())
    }

    fn describe(&self, point: &Path, seed: u64) -> Vec<String> {
        let folder = Location::on(point, &self.name).path.join("fsage-measure").display().to_string();
        let mut lines = vec![line(self.place(&folder, (0, 1), self.files).layout(true, seed))];
        lines.push(format!(
            "# before each: {OPENING} operations on each file, not counted; two hosts begin at the same moment (`exec_prerun`)"
        ));
        // How many there are is the target's.
        for (hosts, with) in [(1, "with one host"), (2, "with two hosts")] {
            for (set, load) in ordered(self.points(hosts), seed) {
                for host in 0..hosts {
                    let place = self.place(&folder, (host, hosts), load.files);
                    let operations = self.operations / u64::from(hosts);
                    let words = place.counted(&load, operations, seed_of(set, &load, host, seed));
                    lines.push(format!("# {with}, on host {}: {}", host + 1, line(words)));
                }
            }
        }
        lines
    }

    fn check_host(&self, _: &FileSystem, facts: &HostFacts) -> Result<(), TrialError> {
        check_fio(facts)
    }
}

/// Private steps of the stage.
trait Steps {
    fn with_folders(
        &self,
        place: &TrialVolume,
        folder: &Location,
        own: String,
        context: &mut StageContext<'_>,
    ) -> Result<ClusterRecord, TrialError>;
    fn place(&self, folder: &str, host: (u32, u32), files: u32) -> Place;
}

impl Steps for ClusterStage {
    /// Runs it with the folder of its files open on every host.
    fn with_folders(
        &self,
        place: &TrialVolume,
        folder: &Location,
        own: String,
        context: &mut StageContext<'_>,
    ) -> Result<ClusterRecord, TrialError> {
        let mut folders = vec![own];
        for session in &mut context.others {
            let held = session.call(call::HoldMeasureFolder { directory: folder.clone() })?;
            folders.push(held.display().to_string());
        }
        Run { stage: self, place, folders, hosts: context.hosts() }.all(context)
    }

    /// So many files of the one of so many hosts: all, or its own.
    fn place(&self, folder: &str, (host, hosts): (u32, u32), files: u32) -> Place {
        // Neighbours are different hosts': both reach over all of the volume.
        let (first, step) = if files == self.files { (0, 1) } else { (host, hosts) };
        let target = FioTarget::Folder(folder.to_owned());
        Place { target, first, step, files, each_bytes: self.file_bytes(), writers: None }
    }
}

/// A stage that is being run.
struct Run<'a> {
    stage: &'a ClusterStage,
    place: &'a TrialVolume,
    /// Folder of the files, as each host has it.
    folders: Vec<String>,
    hosts: u32,
}

/// When the jobs of a host began and ended, in nanoseconds of the first host's clock.
type Span = (i64, i64);

/// The clocks of the hosts as a point finds them.
struct Clocks {
    /// By how much each is ahead of the first one's, in nanoseconds.
    ahead: Vec<i64>,
    /// Nanoseconds until the jobs of all hosts begin.
    lead_ns: u64,
}

impl Clocks {
    /// Has fio of a host begin its job at a moment of the first host's clock: it runs this when all else is ready.
    fn wait_until(&self, host: u32, begin_ns: u64) -> String {
        let ahead = usize::try_from(host).ok().and_then(|host| self.ahead.get(host)).copied().unwrap_or(0);
        let moment = begin_ns.saturating_add_signed(ahead);
        format!("--exec_prerun={}/fsage-agent --wait-until {moment}", crate::guest::PROGRAMS)
    }

    /// When a host's jobs ran.
    fn span(&self, host: usize, figures: &Figures) -> Span {
        let ahead = self.ahead.get(host).copied().unwrap_or(0);
        let end = figures.written_ms.saturating_mul(1_000_000).cast_signed().saturating_sub(ahead);
        (end.saturating_sub(figures.runtime_ns.cast_signed()), end)
    }
}

impl Run<'_> {
    fn all(&self, context: &mut StageContext<'_>) -> Result<ClusterRecord, TrialError> {
        self.lay_out(context)?;
        let idle = self.idle(context)?;
        let (mut results, mut clocks_apart_ns) = (Vec::new(), 0);
        for (set, point) in ordered(self.stage.points(self.hosts), context.planned.seed) {
            context.interrupted()?;
            let begun = Instant::now();
            self.open_all(set, &point, context)?;
            // What takes long to begin gets more time for it.
            let ready_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let clocks =
                Clocks { ahead: clocks(context)?, lead_ns: STARTS_NS.max(ready_ns.saturating_mul(2)) };
            clocks_apart_ns =
                clocks.ahead.iter().map(|ahead| ahead.unsigned_abs()).fold(clocks_apart_ns, u64::max);
            results.push(self.point((set, point), idle, &clocks, context)?);
        }
        let version = context.facts.tools.get(PROGRAM.name).cloned().unwrap_or_default();
        let bytes = self.stage.file_bytes().saturating_mul(u64::from(self.stage.files));
        Ok(ClusterRecord { name: self.stage.name.clone(), version, bytes, clocks_apart_ns, results })
    }

    /// Operations of each host: all points are the same work, however many hosts share it.
    fn operations(&self) -> u64 {
        self.stage.operations / u64::from(self.hosts)
    }

    /// So many files of a host: all, or its own.
    fn place_of(&self, host: u32, files: u32) -> Place {
        let folder = usize::try_from(host).ok().and_then(|host| self.folders.get(host));
        self.stage.place(folder.map_or("", String::as_str), (host, self.hosts), files)
    }

    /// Writes every byte of every file, on the first host.
    fn lay_out(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let place = self.place_of(0, self.stage.files);
        let limit = GRACE + Duration::from_secs(place.bytes() / SLOWEST);
        let words = place.layout(true, context.planned.seed);
        let at = (self.stage.name.as_str(), self.place.device());
        let run = ask::ask(at, words, limits(limit), |incoming| self.progress("layout", incoming), context)?;
        let laid = figures("layout", &run)?;
        if laid.write.bytes == place.bytes() {
            return Ok(());
        }
        Err(FioError::Laid { written_bytes: laid.write.bytes, wanted_bytes: place.bytes() }.into())
    }

    /// Does a little of what a point does, uncounted: the point would pay for opening its files and for the locks of the one before it.
    fn open_all(
        &self,
        set: FileSet,
        point: &FioPoint,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let blocks = self.place_of(0, point.files).bytes() / point.bs.0.max(1);
        let operations = (OPENING * u64::from(point.files)).min(blocks.max(1));
        let seed = mixed("open", context.planned.seed);
        let words = |host| {
            let seed = seed_of(set, point, host, seed);
            self.place_of(host, point.files).counted(point, operations, seed)
        };
        let name = format!("open-{set}-{point}");
        let jobs = (0..self.hosts).map(words).collect();
        for (number, run) in (1..).zip(self.together(&name, jobs, operations, context)?) {
            figures(&format!("{name} on host {number}"), &run)?;
        }
        Ok(())
    }

    /// Nanoseconds of the drive's clock per second in which no host works.
    fn idle(&self, context: &mut StageContext<'_>) -> Result<f64, TrialError> {
        self.settle(context)?;
        let (before, begun) = (self.disk(context)?, Instant::now());
        while begun.elapsed() < IDLE {
            context.interrupted()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let used = self.disk(context)?.since(&before);
        Ok(as_f64(used.elapsed_ns) / begun.elapsed().as_secs_f64())
    }

    fn point(
        &self,
        (set, point): (FileSet, FioPoint),
        idle: f64,
        clocks: &Clocks,
        context: &mut StageContext<'_>,
    ) -> Result<ClusterResult, TrialError> {
        self.settle(context)?;
        let (seed, operations) = (context.planned.seed, self.operations());
        let sent_before = sent(context)?;
        let (disk_before, begun) = (self.disk(context)?, Instant::now());
        let begin_ns = context.session.call(call::ClockTime)?.saturating_add(clocks.lead_ns);
        let words = |host| {
            let words = self.place_of(host, point.files).counted(
                &point,
                operations,
                seed_of(set, &point, host, seed),
            );
            // One host has nobody to wait for.
            let waits = (self.hosts > 1).then(|| clocks.wait_until(host, begin_ns));
            words.into_iter().chain(waits).collect()
        };
        let name = format!("{set}-{point}");
        let ended = self.together(&name, (0..self.hosts).map(words).collect(), operations, context)?;
        // What the drive still has in its cache is part of the work.
        self.settle(context)?;
        let disk = self.disk(context)?.since(&disk_before);
        let idle_ns = to_u64(idle * begun.elapsed().as_secs_f64());
        let sent_after = sent(context)?;
        let (mut hosts, mut times) = (Vec::new(), Vec::new());
        for (index, run) in ended.into_iter().enumerate() {
            let name = format!("{name}-host{}", index + 1);
            let figures = figures(&name, &run)?;
            let file = format!("{}-{name}.json", self.stage.name);
            context.folder.keep_fio(&file, run.json.as_bytes())?;
            times.push(clocks.span(index, &figures));
            let before = sent_before.get(index).copied().unwrap_or_default();
            hosts.push(HostLoad {
                file: format!("fio/{file}"),
                operations: figures.read.operations + figures.write.operations,
                bytes: figures.read.bytes + figures.write.bytes,
                device: run.device.unwrap_or_default(),
                sent: sent_after.get(index).copied().unwrap_or_default().since(before),
                wall_ns: figures.runtime_ns,
            });
        }
        if let Some(short) = hosts.iter().find(|host| host.operations != operations) {
            let (done, wanted) = (short.operations, operations);
            return Err(FioError::Operations { point: name, done, wanted }.into());
        }
        let overlap = overlap(&times);
        let mut warnings = Vec::new();
        let together = together(&times);
        if hosts.len() > 1 && together < TOGETHER {
            let message = format!(
                "{name}: {:.0} % of the operations were done while all hosts worked",
                together * 100.0
            );
            let warning = Warning { kind: WarningKind::NotTogether, message };
            context.warn(warning.clone());
            warnings.push(warning);
        }
        Ok(ClusterResult { set, point, disk, idle_ns, overlap, hosts, warnings })
    }

    /// Runs a job on each host, the first host's with progress, and waits for all.
    fn together(
        &self,
        name: &str,
        jobs: Vec<Vec<String>>,
        operations: u64,
        context: &mut StageContext<'_>,
    ) -> Result<Vec<FioRun>, TrialError> {
        let slow = SLOWEST_OPERATION * u32::try_from(operations).unwrap_or(u32::MAX);
        let limits = limits(GRACE + slow);
        let mut jobs = jobs.into_iter();
        let own = jobs.next().unwrap_or_default();
        let mut others = std::mem::take(&mut context.others);
        let controls: Vec<Control> = others.iter().map(Session::control).collect();
        let (own_control, is_stopped) = (context.session.control(), AtomicBool::new(false));
        let device = self.place.device();
        let (mine, theirs, own_first) = std::thread::scope(|scope| {
            let (limits, is_stopped, own_control) = (&limits, &is_stopped, &own_control);
            let run = move |(session, argv): (&mut Session, Vec<String>)| {
                let timeout_ms = u64::try_from(limits.limit.as_millis()).unwrap_or(u64::MAX);
                let device = device.to_owned();
                let (round_ms, steady_from, memory) = (ROUND_MS, None, None);
                let ask = call::RunFio { argv, timeout_ms, round_ms, steady_from, device, memory };
                let control = session.control();
                // A stop that came before the load was asked for did nothing.
                let mut sent = || {
                    if is_stopped.load(Ordering::SeqCst) {
                        control.stop();
                    }
                };
                let ended = session.call_and(ask, &mut sent, &mut |_| {});
                if ended.is_err() && !is_stopped.swap(true, Ordering::SeqCst) {
                    own_control.stop();
                }
                ended
            };
            let running: Vec<_> =
                others.iter_mut().zip(jobs).map(|job| scope.spawn(move || run(job))).collect();
            let at = (self.stage.name.as_str(), device);
            let follow = |incoming: &Incoming| {
                // A stop that came before the load was asked for did nothing.
                if is_stopped.load(Ordering::SeqCst) {
                    own_control.stop();
                }
                self.progress(name, incoming)
            };
            let mine = ask::ask(at, own, limits.clone(), follow, context);
            let own_first = mine.is_err() && !is_stopped.swap(true, Ordering::SeqCst);
            if own_first {
                controls.iter().for_each(Control::stop);
            }
            let theirs: Vec<Result<FioRun, TargetError>> = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            (mine, theirs, own_first)
        });
        context.others = others;
        let own = if own_first { Own::First(mine) } else { Own::Last(mine) };
        ended(own, theirs, context)
    }

    /// Writes back what every host has, and waits until its device is quiet.
    fn settle(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        self.place.settle(QUIET_MS, context)?;
        let (device, directory) = (self.place.device().to_owned(), Some(self.place.point().to_owned()));
        for session in &mut context.others {
            let (device, directory) = (device.clone(), directory.clone());
            session.call(call::SettleDevice { device, directory, quiet_ms: QUIET_MS })?;
        }
        Ok(())
    }

    fn disk(&self, context: &mut StageContext<'_>) -> Result<DiskStat, TrialError> {
        let stat = context.session.call(call::DiskStat { directory: self.place.point().to_owned() })?;
        stat.ok_or_else(|| VolumeError::NoServedDisk.into())
    }

    fn progress(&self, note: &str, incoming: &Incoming) -> Option<RunEvent> {
        let Incoming::Event(Event::Progress { operations, elapsed_ns, .. }) = incoming else { return None };
        Some(RunEvent::Progress {
            stage: self.stage.name.clone(),
            operations: *operations,
            elapsed_ns: *elapsed_ns,
            share: (note != "layout").then(|| share(*operations, self.operations()).clamp(0.0, 1.0)),
            rate: share(*operations, *elapsed_ns) * 1e9,
            eta_s: None,
            note: note.to_owned(),
        })
    }
}

/// What became of the first host's load.
enum Own {
    /// It failed before any other did.
    First(Result<FioRun, TrialError>),
    /// It did not.
    Last(Result<FioRun, TrialError>),
}

/// What became of the loads of all hosts; an error is that of the one that failed first, for which others were stopped.
fn ended(
    own: Own,
    theirs: Vec<Result<FioRun, TargetError>>,
    context: &mut StageContext<'_>,
) -> Result<Vec<FioRun>, TrialError> {
    for (number, run) in (2..).zip(&theirs) {
        if let Err(error) = run {
            context.folder.log(&format!("host {number}: {}", in_one_line(error)));
        }
    }
    let theirs = theirs.into_iter().map(|run| run.map_err(FioError::from)).collect::<Result<Vec<_>, _>>();
    match own {
        Own::First(own) => Ok([vec![own?], theirs?].concat()),
        Own::Last(own) => {
            let theirs = theirs?;
            Ok([vec![own?], theirs].concat())
        }
    }
}

const fn limits(limit: Duration) -> Limits {
    Limits { limit, round_ms: ROUND_MS, steady_from: None, memory: None }
}

/// What each host sent since it was booted, the first one's first.
fn sent(context: &mut StageContext<'_>) -> Result<Vec<Sent>, TrialError> {
    let mut found = vec![context.session.call(call::NetworkSent)?];
    for session in &mut context.others {
        found.push(session.call(call::NetworkSent)?);
    }
    Ok(found)
}

/// By how much the clock of each host is ahead of the first one's: it is asked between two questions to the first one, and taken to have
/// answered in the middle. Off by half of what these took at most.
fn clocks(context: &mut StageContext<'_>) -> Result<Vec<i64>, TrialError> {
    let mut ahead = vec![0];
    for session in &mut context.others {
        let before = context.session.call(call::ClockTime)?;
        let theirs = session.call(call::ClockTime)?;
        let after = context.session.call(call::ClockTime)?;
        let middle = before.midpoint(after);
        ahead.push(theirs.cast_signed().saturating_sub(middle.cast_signed()));
    }
    Ok(ahead)
}

/// Share of each host's time in which all hosts worked, on the average: about that of their operations.
fn together(times: &[Span]) -> f64 {
    let begin = times.iter().map(|(begin, _)| *begin).max().unwrap_or(0);
    let end = times.iter().map(|(_, end)| *end).min().unwrap_or(0);
    let length = |from: i64, to: i64| u64::try_from(to.saturating_sub(from)).unwrap_or(0);
    let shares = times.iter().map(|(from, to)| share(length(begin, end), length(*from, *to).max(1)));
    let count = u64::try_from(times.len()).unwrap_or(u64::MAX).max(1);
    shares.sum::<f64>() / as_f64(count)
}

/// Time in which all worked ÷ time in which any did.
fn overlap(times: &[Span]) -> f64 {
    let (begins, ends) = (times.iter().map(|(begin, _)| *begin), times.iter().map(|(_, end)| *end));
    let (Some(first), Some(last_begin)) = (begins.clone().min(), begins.max()) else { return 0.0 };
    let (Some(first_end), Some(last)) = (ends.clone().min(), ends.max()) else { return 0.0 };
    let length = |from: i64, to: i64| u64::try_from(to.saturating_sub(from)).unwrap_or(0);
    share(length(last_begin, first_end), length(first, last).max(1))
}

/// Points in an order that the seed shuffles: what a point leaves behind, such as locks, meets no point in particular.
fn ordered(mut points: Vec<(FileSet, FioPoint)>, seed: u64) -> Vec<(FileSet, FioPoint)> {
    // The same order for any number of hosts.
    let alike = |point: &FioPoint| FioPoint { files: 0, ..point.clone() };
    points.sort_by_cached_key(|(set, point)| mixed(&format!("{set} {}", alike(point)), seed));
    points
}

/// The seed of a host's offsets: another for each point and host, the same on every file system.
fn seed_of(set: FileSet, point: &FioPoint, host: u32, seed: u64) -> u64 {
    // fio reads it as a signed number.
    mixed(&format!("{set} {point} {host}"), seed) >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> ClusterStage {
        serde_json::from_str(
            r#"{"rw": ["randread", "randwrite"], "size": "64MiB", "operations": 100, "iodepth": [1, 8]}"#,
        )
        .unwrap()
    }

    #[test]
    fn hosts_use_the_same_files_or_each_its_own() {
        let stage = stage();
        let lines = stage.describe(Path::new("/mnt"), 7);
        // The layout and a word, and one host and two at two sets, patterns and depths.
        assert_eq!(lines.len(), 2 + 3 * 8);
        let of = |host: &str, files: &str| -> Vec<&String> {
            lines.iter().filter(|line| line.starts_with(host) && line.contains(files)).collect()
        };
        let own: Vec<Vec<&String>> = vec![
            of("# with two hosts, on host 1:", "-f8 ")
                .into_iter()
                .filter(|line| line.contains("/fsage.0:") && line.contains("/fsage.2:"))
                .collect(),
            of("# with two hosts, on host 2:", "-f8 ")
                .into_iter()
                .filter(|line| line.contains("/fsage.1:") && line.contains("/fsage.3:"))
                .collect(),
        ];
        assert!(own.iter().all(|lines| lines.len() == 4), "{own:?}");
        assert!(own[1].iter().all(|line| !line.contains("fsage.2:") && line.contains("fsage.15 ")));
        assert!(
            of("# with two hosts, on host 2:", "-f16 ")
                .iter()
                .all(|line| line.contains("fsage.0:") && line.contains("fsage.15 "))
        );
        assert!(
            lines
                .iter()
                .filter(|line| line.contains("with two hosts"))
                .all(|line| line.contains("--number_ios=50") && !line.contains("runtime"))
        );
    }

    #[test]
    fn no_two_hosts_or_points_go_to_the_same_places_in_the_same_order() {
        let stage = stage();
        let mut seeds: Vec<u64> = Vec::new();
        for (set, point) in ordered(stage.points(2), 7) {
            seeds.extend((0..2).map(|host| seed_of(set, &point, host, 7)));
        }
        let count = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!((seeds.len(), count), (16, 16));
        assert_ne!(ordered(stage.points(2), 1), ordered(stage.points(2), 2));
    }

    #[test]
    fn loads_overlap_as_far_as_all_of_them_run() {
        assert!((overlap(&[(0, 8), (2, 10)]) - 0.6).abs() < 1e-9);
        assert!((overlap(&[(0, 8)]) - 1.0).abs() < 1e-9);
        assert!(overlap(&[(0, 2), (5, 8)]) < 1e-9);
        assert!(overlap(&[]) < 1e-9 && together(&[]) < 1e-9);
        // The slower one does a third of its operations alone.
        assert!((together(&[(0, 4), (0, 6)]) - (1.0 + 4.0 / 6.0) / 2.0).abs() < 1e-9);
    }
}
