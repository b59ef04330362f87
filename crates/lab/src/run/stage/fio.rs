//! The `fio` stage: files are written once, then fio runs at every point, on files or on the bare device.
//!
//! Points of one number of files follow each other, in an order that the trial's seed shuffles, the same on every
//! file system. What an interrupted attempt has complete is taken over ([`super::super::fio::kept`]).

mod doubt;
mod own;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fsage_engine::latency;
use fsage_model::fio::{
    BARE_HEAD_BYTES, BARE_TAIL_BYTES, FioEnd, FioEngine, FioPoint, FioRecord, FioResult, FioRun, HostCpu,
    Settled,
};
use fsage_model::location::Location;
use fsage_model::memory::{MemoryGroup, MemoryUse};
use fsage_model::protocol::{Event, HostFacts, call};
use fsage_model::quantity::{as_f64, share, to_u64};
use fsage_model::record::StageRecord;
use fsage_model::size::Bytes;
use fsage_model::study::FioStage;
use fsage_model::warning::{Warning, WarningKind};

use super::{Stage, StageContext};
use crate::filesystem::FileSystem;
use crate::lease::LeaseId;
use crate::lease::record::Lease;
use crate::run::error::TrialError;
use crate::run::fio::ask::{self, Limits, line};
use crate::run::fio::job::{FioTarget, Place, Times};
use crate::run::fio::kept::Kept;
use crate::run::fio::{FioError, LONGEST_QUIET_MS};
use crate::run::observer::RunEvent;
use crate::run::trial_volume::TrialVolume;
use crate::run::warning::{Watch, Written, dropped};
use crate::target::Incoming;
use crate::tools::fio::{FioOutputError, PROGRAM, plus};
use crate::tools::{Invocation, ToolError};

/// How much longer than asked for a run may take: start-up, and writing back at its end.
pub(super) const GRACE: Duration = Duration::from_secs(600);

/// Slowest device whose layout is waited for, in bytes per second.
pub(super) const SLOWEST: u64 = 256 << 10;

/// Space that file systems need beside the files, as a share of their bytes: metadata, and what is written again
/// before the old is freed.
const BESIDE: f64 = 0.02;

impl Stage for FioStage {
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let version = context.facts.tools.get(PROGRAM.name).cloned().unwrap_or_default();
        let kept = Kept::find(self, &version, place.facts(), context);
        let mut run = Run {
            stage: self,
            place,
            kept,
            points: ordered(self.points(), context.planned.seed),
            clock: Instant::now(),
            ran: 0,
            group: None,
        };
        if let Some(job) = self.job_name() {
            return run.own_job(job, version, context);
        }
        run.check(context)?;
        let warnings = run.kept.results().iter().flat_map(|result| result.warnings.clone());
        warnings.for_each(|warning| context.warn(warning));
        if !run.kept.results().is_empty() {
            let (kept, all) = (run.kept.results().len(), run.points.len());
            context.folder.log(&format!("{kept} of {all} points are complete from an earlier attempt"));
        }
        let outcome = run.all(context);
        let left = run.leave(context);
        let bytes = outcome?;
        left?;
        let results = run.kept.end();
        doubt::late_replies(&self.name, &results).into_iter().for_each(|warning| context.warn(warning));
        let (name, bare) = (self.name.clone(), context.file_system.is_bare());
        let record = FioRecord { name, version, bytes, bare, results, job: None };
        context.done.push(StageRecord::Fio(Box::new(record)));
        Ok(())
    }

    fn describe(&self, point: &Path, seed: u64) -> Vec<String> {
        if self.job.is_some() {
            return own::describe(self, point, seed);
        }
        let mut lines: Vec<String> = self.size.is_none().then(|| ask::SIZES.to_owned()).into_iter().collect();
        let times = times(self);
        let points = ordered(self.points(), seed);
        for files in groups(&points) {
            let target = if point.starts_with("/dev") {
                FioTarget::Device(point.display().to_string())
            } else {
                FioTarget::Folder(point.join(&self.name).join("fsage-measure").display().to_string())
            };
            let each_bytes = self.size.map_or(1 << 20, |_| self.file_bytes(files, 0));
            let place = Place { target, first: 0, step: 1, files, each_bytes, writers: self.writers };
            lines.push(line(place.layout(direct(&points), seed)));
            let own = points.iter().filter(|point| point.files == files);
            for point in own {
                if let Some(limit) = point.memory {
                    let group = ask::in_group(limit);
                    lines.extend([group.clone(), line(place.warm(seed)), group]);
                }
                lines.push(line(place.words(point, times, seed_of(point, seed))));
            }
        }
        lines
    }

    fn check_host(&self, _: &FileSystem, facts: &HostFacts) -> Result<(), TrialError> {
        check_fio(facts)
    }
}

/// Whether the host has fio, and a version that is new enough.
pub(super) fn check_fio(facts: &HostFacts) -> Result<(), TrialError> {
    let Some(version) = facts.tools.get(PROGRAM.name) else {
        let (program, package) = (PROGRAM.name.to_owned(), PROGRAM.package.to_owned());
        return Err(FioError::Tool(ToolError::Missing { program, package }).into());
    };
    if plus::is_new_enough(version) {
        return Ok(());
    }
    Err(FioError::Version { found: version.clone() }.into())
}

/// Whether fio has the engines.
pub(super) fn check_engines(wanted: &[FioEngine], context: &mut StageContext<'_>) -> Result<(), TrialError> {
    let words = ["fio", "--enghelp"].map(str::to_owned).to_vec();
    let help = Invocation::new(words, PROGRAM.package.to_owned(), Duration::from_secs(60));
    let said = help.run(context.session).map_err(FioError::from)?.stdout;
    let has = |engine: &str| said.split_ascii_whitespace().any(|word| word == engine);
    let (known, missing): (Vec<&str>, Vec<&str>) =
        wanted.iter().map(|engine| engine.name()).partition(|name| has(name));
    match missing.first() {
        Some(&engine) => Err(FioError::Engine { engine, known }.into()),
        None => Ok(()),
    }
}

/// Whether the device's queue takes as many requests as direct points have under way, where the kernel says: of a
/// partition, its disk's.
pub(super) fn check_depth(
    points: &[FioPoint],
    device: &Path,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let class = Path::new("/sys/class/block").join(device.file_name().unwrap_or_default());
    let queue: Option<u32> = ["queue/nr_requests", "../queue/nr_requests"].iter().find_map(|setting| {
        let said = context.session.call(call::Get { path: class.join(setting) }).ok()?;
        said.trim().parse().ok()
    });
    let Some(queue) = queue else { return Ok(()) };
    match points.iter().find(|point| point.direct && point.depth() > queue) {
        Some(point) => Err(FioError::Depth { point: point.to_string(), depth: point.depth(), queue }.into()),
        None => Ok(()),
    }
}

/// A stage that is being run.
struct Run<'a> {
    stage: &'a FioStage,
    place: &'a mut TrialVolume,
    kept: Kept,
    /// Every point, in order.
    points: Vec<FioPoint>,
    clock: Instant,
    /// Points that this attempt ran.
    ran: usize,
    /// The control group of points with limited memory, once one was needed.
    group: Option<(PathBuf, LeaseId)>,
}

impl Run<'_> {
    /// Runs every point that is missing; the bytes of all files.
    fn all(&mut self, context: &mut StageContext<'_>) -> Result<u64, TrialError> {
        let mut bytes = 0;
        for files in groups(&self.points) {
            bytes = self.group(files, context)?;
        }
        Ok(bytes)
    }

    /// The control group for a point, where its memory is limited.
    fn memory(
        &mut self,
        point: &FioPoint,
        context: &mut StageContext<'_>,
    ) -> Result<Option<MemoryGroup>, TrialError> {
        let Some(Bytes(limit_bytes)) = point.memory else { return Ok(None) };
        let path = match &self.group {
            Some((path, _)) => path.clone(),
            None => {
                let path = context.session.call(call::MemoryGroupPlace { name: group_name() })?;
                let id = context.journal.take(Lease::MemoryGroup { path: path.clone() })?;
                self.group = Some((path.clone(), id));
                path
            }
        };
        Ok(Some(MemoryGroup { path, limit_bytes }))
    }

    /// Removes the control group again; a lost agent's stays leased.
    fn leave(&mut self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        match self.group.take() {
            Some((_, id)) if !context.session.is_lost() => context.release(Some(id)),
            _ => Ok(()),
        }
    }

    /// Whether fio has the engines and the device takes the depths.
    fn check(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let engines: BTreeSet<FioEngine> = self.points.iter().map(|point| point.ioengine).collect();
        check_engines(&engines.into_iter().collect::<Vec<_>>(), context)?;
        if self.points.iter().any(|point| point.memory.is_some()) {
            // Not after an hour of other points.
            context.session.call(call::MemoryGroupPlace { name: group_name() })?;
        }
        check_depth(&self.points, self.place.device(), context)
    }

    /// Writes so many files and runs the points that have them; the bytes of all files.
    fn group(&mut self, files: u32, context: &mut StageContext<'_>) -> Result<u64, TrialError> {
        let done = |point: &FioPoint| self.kept.results().iter().any(|result| result.point == *point);
        let own: Vec<FioPoint> = self.points.iter().filter(|point| point.files == files).cloned().collect();
        let todo: Vec<FioPoint> = own.iter().filter(|point| !done(point)).cloned().collect();
        let each_bytes = self.stage.file_bytes(files, self.place.facts().size_bytes);
        let all = each_bytes.saturating_mul(u64::from(files));
        if todo.is_empty() {
            return Ok(all);
        }
        if let Some(point) = own.iter().find(|point| point.bs.0 > each_bytes) {
            return Err(FioError::Block { files, each_bytes, bs: point.bs }.into());
        }
        let folder = self.place.folder(&self.stage.name);
        let target = self.target(&folder, all, context)?;
        let place = Place { target, first: 0, step: 1, files, each_bytes, writers: self.stage.writers };
        let outcome = self.points(&place, &todo, context);
        if context.file_system.is_bare() || context.session.is_lost() {
            return outcome.map(|()| all);
        }
        let removed = context.session.call(call::RemoveMeasureFolder { directory: folder });
        outcome?;
        removed?;
        Ok(all)
    }

    /// Where files go: a new folder, or the device; refused where there is no room.
    fn target(
        &mut self,
        folder: &Location,
        bytes: u64,
        context: &mut StageContext<'_>,
    ) -> Result<FioTarget, TrialError> {
        let room = |needed_bytes: u64, available_bytes: u64| {
            let enough = needed_bytes <= available_bytes;
            if enough { Ok(()) } else { Err(FioError::Room { needed_bytes, available_bytes }) }
        };
        if context.file_system.is_bare() {
            let needed = bytes.saturating_add(BARE_HEAD_BYTES + BARE_TAIL_BYTES);
            room(needed, self.place.facts().size_bytes)?;
            return Ok(FioTarget::Device(self.place.device().display().to_string()));
        }
        // xfs frees the blocks of removed files in the background, and all of them before it is unmounted.
        self.place.remount(context)?;
        let usage = context.session.call(call::Usage { directory: self.place.point().to_owned() })?;
        room(bytes.saturating_add(to_u64(as_f64(bytes) * BESIDE)), usage.available_bytes)?;
        context.session.call(call::MakeFolder { directory: folder.clone() })?;
        let made = context.session.call(call::MakeMeasureFolder { directory: folder.clone() })?;
        Ok(FioTarget::Folder(made.display().to_string()))
    }

    /// Writes the files, then runs the points.
    fn points(
        &mut self,
        place: &Place,
        todo: &[FioPoint],
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let seed = context.planned.seed;
        let limit = GRACE + Duration::from_secs(place.bytes() / SLOWEST);
        let words = place.layout(direct(&self.points), seed);
        let limits = Limits { limit, round_ms: 1000, steady_from: None, memory: None };
        let run = self.fio("layout", words, limits, context)?;
        let laid = figures("layout", &run)?;
        if laid.write.bytes != place.bytes() {
            let (written_bytes, wanted_bytes) = (laid.write.bytes, place.bytes());
            return Err(FioError::Laid { written_bytes, wanted_bytes }.into());
        }
        for point in todo {
            context.interrupted()?;
            self.point(place, point, context)?;
        }
        Ok(())
    }

    /// Runs one point and keeps what it left. A point whose page cache somebody else dropped is run once more: it read from
    /// the device what it would have had in memory. A point that writes is not, because a second run finds other files.
    fn point(
        &mut self,
        place: &Place,
        point: &FioPoint,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let mut tried = self.attempt(place, point, context)?;
        if tried.dropped.is_some() && !point.rw.is_write() {
            context.folder.log(&format!("{point}: somebody dropped the host's caches: once more"));
            tried = self.attempt(place, point, context)?;
        }
        let mut result = self.result(point.clone(), tried.run, tried.around, context)?;
        result.host_cpu = tried.host_cpu;
        if let Some(used) = &mut result.memory {
            used.file_bytes = place.bytes();
        }
        let doubts = [tried.dropped, doubt::short(&result), doubt::cpu_bound(&result, context.facts.cpus)];
        for warning in doubts.into_iter().flatten() {
            context.warn(warning.clone());
            result.warnings.push(warning);
        }
        self.ran += 1;
        self.kept.keep(result, context)
    }

    /// Runs one point, with the caches as it is to find them.
    fn attempt(
        &mut self,
        place: &Place,
        point: &FioPoint,
        context: &mut StageContext<'_>,
    ) -> Result<Attempt, TrialError> {
        let memory = self.memory(point, context)?;
        let settled = self.settle(point.direct, context)?;
        let before = context.session.call(call::HostActivity)?;
        let times = times(self.stage);
        let limit = GRACE + Duration::from_millis(times.runtime_ms + times.ramp_ms);
        let mut limits = Limits { memory, ..self.limits(limit) };
        if let Some(group) = &limits.memory {
            self.warm(place, group.clone(), context)?;
            // Before the limit is full of dirty pages, writes are as fast as memory.
            if point.rw.is_write() {
                limits.steady_from = limits.steady_from.map(|_| group.limit_bytes.saturating_mul(2));
            }
        }
        let name = point.to_string();
        let words = place.words(point, times, seed_of(point, context.planned.seed));
        let watch = context.watch()?;
        let run = self.fio(&name, words, limits, context)?;
        let now = context.session.call(call::HostActivity)?;
        let host_cpu = watch.host_cpu(&now);
        let dropped = dropped(&name, before, now).filter(|_| !point.direct);
        Ok(Attempt { run, around: (settled, watch), host_cpu, dropped })
    }

    /// Fills the page cache of a limited group with what it can hold of the files, before anything is counted.
    fn warm(
        &self,
        place: &Place,
        group: MemoryGroup,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let limit = GRACE + Duration::from_secs(place.bytes() / SLOWEST);
        let limits = Limits { limit, round_ms: 1000, steady_from: None, memory: Some(group) };
        let run = self.fio("warm", place.warm(context.planned.seed), limits, context)?;
        figures("warm", &run)?;
        Ok(())
    }

    /// Those of one point or job.
    fn limits(&self, limit: Duration) -> Limits {
        let round_ms = to_u64(self.stage.round_s() * 1e3).max(1);
        Limits { limit, round_ms, steady_from: self.stage.steady.then_some(0), memory: None }
    }

    /// What a run left, which is kept, with what went on meanwhile.
    fn result<P: Display>(
        &self,
        point: P,
        run: FioRun,
        (settled, watch): (Settled, Watch),
        context: &mut StageContext<'_>,
    ) -> Result<FioResult<P>, TrialError> {
        let name = point.to_string();
        let figures = figures(&name, &run)?;
        let now = context.session.call(call::HostActivity)?;
        let (ours, of) = (figures.write.bytes, figures.read.bytes + figures.write.bytes);
        let mut warnings = watch.end(&name, Some(Written { ours, of }), now);
        // A load waits for memory because that is what was asked for.
        warnings.retain(|warning| run.memory.is_none() || warning.kind != WarningKind::MemoryPressure);
        warnings.extend(doubt::still_busy(&name, settled));
        warnings.iter().for_each(|warning| context.warn(warning.clone()));
        let file = format!("{}-{name}.json", self.stage.name);
        let log = histograms(&figures);
        context.folder.keep_fio(&format!("{}-{name}.hlog", self.stage.name), log.as_bytes())?;
        context.folder.keep_fio(&file, run.json.as_bytes())?;
        Ok(FioResult {
            point,
            file: format!("fio/{file}"),
            end: if run.ended_steady { FioEnd::Steady } else { FioEnd::Time },
            runtime_ns: figures.runtime_ns,
            planned_ns: to_u64(self.stage.runtime * 1e9),
            ramp_ns: to_u64(self.stage.ramp * 1e9),
            elapsed_ns: run.elapsed_ns,
            read: figures.read,
            write: figures.write,
            read_percentiles: figures.read_times.percentiles(),
            write_percentiles: figures.write_times.percentiles(),
            user_ns: figures.user_ns,
            system_ns: figures.system_ns,
            context_switches: figures.context_switches,
            host_cpu: None,
            samples: run.samples,
            device: run.device,
            disk: run.disk,
            memory: run.memory,
            settled: Some(settled),
            warnings,
            kept: false,
        })
    }

    /// Writes back what came before, so that it does not fall into the point, and waits until the device is quiet. Before a
    /// point without direct I/O the caches are dropped as well.
    fn settle(&self, direct: bool, context: &mut StageContext<'_>) -> Result<Settled, TrialError> {
        let settled = self.place.settle(quiet_ms(self.stage.runtime), context)?;
        if !direct {
            context.session.call(call::DropCaches)?;
        }
        Ok(settled)
    }

    /// Runs fio; progress is that of the whole stage.
    fn fio(
        &self,
        name: &str,
        argv: Vec<String>,
        limits: Limits,
        context: &mut StageContext<'_>,
    ) -> Result<FioRun, TrialError> {
        let progress = Progress::of(self, name);
        let place = (self.stage.name.as_str(), self.place.device());
        ask::ask(place, argv, limits, |incoming| progress.event(incoming), context)
    }
}

/// One run of a point.
struct Attempt {
    run: FioRun,
    /// How the device came to rest before it, and what the host did meanwhile.
    around: (Settled, Watch),
    /// What ran on the host meanwhile.
    host_cpu: Option<HostCpu>,
    /// Somebody else dropped the page cache while the point had something in it.
    dropped: Option<Warning>,
}

/// How far the stage is when a run begins.
struct Progress {
    stage: String,
    note: String,
    /// Points that were complete, and all.
    complete: usize,
    all: usize,
    /// Points that this attempt ran.
    ran: usize,
    clock: Instant,
    point_s: f64,
}

impl Progress {
    fn of(run: &Run<'_>, name: &str) -> Self {
        let (complete, all) = (run.kept.results().len(), run.points.len());
        let alone = matches!(name, "layout" | "warm") || all == 0;
        let number = if alone { String::new() } else { format!("point {} of {all}: ", complete + 1) };
        let note = format!("{number}{name}");
        let point_s = run.stage.runtime + run.stage.ramp;
        Self { stage: run.stage.name.clone(), note, complete, all, ran: run.ran, clock: run.clock, point_s }
    }

    /// The time left is that of the points so far for each that is missing; before the first one, their longest.
    fn event(&self, incoming: &Incoming) -> Option<RunEvent> {
        let Incoming::Event(Event::Progress { operations, elapsed_ns, .. }) = incoming else { return None };
        let since = self.clock.elapsed();
        let within = (as_f64(*elapsed_ns) / 1e9 / self.point_s).clamp(0.0, 1.0);
        let count = |number: usize| as_f64(u64::try_from(number).unwrap_or(u64::MAX));
        let done = count(self.complete) + within;
        let each =
            if self.ran == 0 { self.point_s } else { since.as_secs_f64() / (count(self.ran) + within) };
        Some(RunEvent::Progress {
            stage: self.stage.clone(),
            operations: *operations,
            elapsed_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            share: Some((done / count(self.all).max(1.0)).clamp(0.0, 1.0)),
            rate: share(*operations, *elapsed_ns) * 1e9,
            eta_s: Some((count(self.all) - done).max(0.0) * each),
            note: self.note.clone(),
        })
    }
}

/// The figures of a run that ended well. What went wrong in a job is in the JSON; the status says only that
/// something did.
pub(super) fn figures(point: &str, run: &FioRun) -> Result<plus::Figures, FioError> {
    /// fio's own status when it was asked to end.
    const ASKED: i32 = 128;
    let point = point.to_owned();
    if let Some(MemoryUse { limit_bytes, killed: 1.., .. }) = run.memory {
        return Err(FioError::Killed { point, limit: Bytes(limit_bytes) });
    }
    let fine = run.status == 0 || (run.ended_steady && run.status == ASKED);
    match plus::parse(&run.json) {
        Ok(figures) if fine => Ok(figures),
        Err(source @ FioOutputError::Job { .. }) => Err(FioError::Output { point, source }),
        Err(source) if fine => Err(FioError::Output { point, source }),
        _ => {
            let lines: Vec<&str> = run.said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let said = lines.iter().rev().take(4).rev().copied().collect::<Vec<_>>().join(" | ");
            Err(FioError::Failed { point, status: run.status, said })
        }
    }
}

/// Latencies of a point as an HdrHistogram interval log, one line per direction; each value is the middle of
/// fio's bin, and thus known to within 1/128.
fn histograms(figures: &plus::Figures) -> String {
    let length = Duration::from_nanos(figures.runtime_ns);
    let both = [("read", &figures.read_times), ("write", &figures.write_times)];
    let lines: Vec<String> =
        both.iter().filter_map(|(way, times)| latency::bins_line(way, length, times.bins.bins())).collect();
    let begin = SystemTime::now().checked_sub(length).unwrap_or(SystemTime::UNIX_EPOCH);
    latency::interval_log(begin, lines.iter().map(String::as_str))
}

/// A name that no other lab has, not even one that sees other process numbers and the same control groups.
fn group_name() -> String {
    format!("fsage-{}-{}", std::process::id(), RandomState::new().build_hasher().finish())
}

/// Whether files are written past the page cache: where any point reads them so.
fn direct(points: &[FioPoint]) -> bool {
    points.iter().any(|point| point.direct)
}

fn times(stage: &FioStage) -> Times {
    let ms = |seconds: f64| to_u64(seconds * 1e3);
    Times { runtime_ms: ms(stage.runtime), ramp_ms: ms(stage.ramp) }
}

/// How long a device has to be quiet before a point: half a percent of the point's time, so that short points are not mostly
/// waiting, at least 10 ms and at most 50.
fn quiet_ms(runtime_s: f64) -> u64 {
    to_u64(runtime_s * 5.0).clamp(10, LONGEST_QUIET_MS)
}

/// Points in an order that the seed shuffles, those of one number of files together.
fn ordered(mut points: Vec<FioPoint>, seed: u64) -> Vec<FioPoint> {
    points.sort_by_cached_key(|point| {
        (mixed(&format!("files {}", point.files), seed), mixed(&point.to_string(), seed))
    });
    points
}

/// The seed of a point's offsets: the same on every file system, and another for each point. With one for all, each point would go to the
/// places of the one before it in the same order, which copy-on-write and page maps turn into sequential reads, and caches into hits.
fn seed_of(point: &FioPoint, seed: u64) -> u64 {
    // fio reads it as a signed number.
    mixed(&point.to_string(), seed) >> 11
}

/// FNV-1a (Fowler, Noll & Vo 1991) of the name, begun with the seed, its bits mixed as SplitMix64 does.
pub(super) fn mixed(name: &str, seed: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, step);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 31)
}

/// Numbers of files, in the order of the points.
fn groups(points: &[FioPoint]) -> Vec<u32> {
    let mut found = Vec::new();
    for point in points {
        if !found.contains(&point.files) {
            found.push(point.files);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(keys: &str) -> FioStage {
        serde_json::from_str(&format!("{{{keys}}}")).unwrap()
    }

    #[test]
    fn the_seed_shuffles_points_within_groups_of_files() {
        let stage =
            stage(r#""rw": ["randread", "randwrite"], "bs": ["4KiB", "16KiB", "1MiB"], "files": [1, 4, 16]"#);
        let (one, same, other) =
            (ordered(stage.points(), 1), ordered(stage.points(), 1), ordered(stage.points(), 2));
        assert!(one == same && one != other && one != stage.points());
        assert_eq!(groups(&one).len(), 3);
        assert!(one.chunks(6).all(|group| group.iter().all(|point| point.files == group[0].files)));
    }

    #[test]
    fn a_short_point_is_not_waited_for_as_long_as_a_long_one() {
        assert_eq!([0.5, 2.0, 5.0, 10.0, 60.0].map(quiet_ms), [10, 10, 25, 50, 50]);
    }

    #[test]
    fn no_point_goes_to_the_places_of_another_in_the_same_order() {
        let stage = stage(r#""rw": ["randread", "randwrite"], "bs": ["4KiB", "1MiB"], "iodepth": [1, 32]"#);
        let seeds = |seed: u64| -> BTreeSet<String> {
            let lines = stage.describe(Path::new("/m"), seed);
            let word = |line: &String| {
                let word = line.split(' ').find(|word| word.starts_with("--randseed="))?;
                word.split('=').nth(1).map(str::to_owned)
            };
            lines.iter().filter_map(word).collect()
        };
        // Eight points and the layout.
        assert_eq!(seeds(7).len(), 9);
        assert!(seeds(7) == seeds(7) && seeds(7).is_disjoint(&seeds(8)));
        assert!(seeds(7).iter().all(|seed| seed.parse::<i64>().is_ok_and(|seed| seed >= 0)));
    }

    #[test]
    fn a_point_has_a_histogram_for_each_direction_that_did_anything() {
        let figures = plus::parse(include_str!("../../../tests/data/fio-3.33-bins.json")).unwrap();
        let log = histograms(&figures);
        let tags: Vec<&str> =
            log.lines().filter_map(|line| line.strip_prefix("Tag=")?.split(',').next()).collect();
        assert_eq!(tags, ["read", "write"]);
        let reads = plus::Figures { write_times: plus::Latencies::default(), ..figures };
        assert!(!histograms(&reads).contains("Tag=write"));
    }

    #[test]
    fn a_status_of_its_own_asking_is_a_success_and_any_other_is_not() {
        let json = include_str!("../../../tests/data/fio-3.33-plus.json").to_owned();
        let run = FioRun {
            status: 128,
            ended_steady: true,
            json,
            said: "fio: a\n\nb\n".into(),
            ..FioRun::default()
        };
        assert!(figures("x", &run).is_ok());
        let killed = FioRun { ended_steady: false, ..run.clone() };
        let error = figures("x", &killed).unwrap_err().to_string();
        assert_eq!(error, "fio failed at x with status 128: fio: a | b");
        let cut = FioRun { json: run.json[..400].to_owned(), ..run };
        assert!(matches!(figures("x", &cut), Err(FioError::Output { .. })), "truncated JSON is no result");
    }
}
