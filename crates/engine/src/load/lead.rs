//! The thread in charge of a load.
//!
//! It hands out phases, and between phases, with every thread waiting and no time counted, probes and keeps
//! up; see [`super::run`] for how a load is set up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use fsage_model::disk::DiskUse;
use fsage_model::filesystem::FileSystemFacts;
use fsage_model::load::{AgeTarget, LoadResult, LoadSpec, Probe, StopReason, WriteMode};
use fsage_model::number;
use fsage_model::operation::OperationKind;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use fsage_model::workload::UtilisationSpec;
use fsage_sys::clock::{CpuTime, process_cpu, raw_ns};
use fsage_sys::errno::OUT_OF_SPACE;

use super::age::AgeWatch;
use super::fullness::Usage;
use super::like::LikeWatch;
use super::message::{Arrival, Command, Failure, Message};
use super::probe::Prober;
use super::result::{Ending, Spent, assemble};
use super::setup::TestDirectory;
use super::spacing::{Moment, Spacing, complaint};
use super::tally::Tally;
use super::tick::{Evolution, Sample};
use super::worker::{Shared, progress_share, share_of};
use super::{LoadError, LoadSink};
use crate::disk::Meter;
use fsage_model::fit::Fit;

fn like_watch(spec: &LoadSpec, volume_bytes: u64) -> Option<LikeWatch> {
    let profile = &spec.workload.drift()?.like.as_ref()?.profile;
    Some(LikeWatch::new(Fit::new(profile, volume_bytes, spec.threads)))
}

/// The channels to the threads.
pub(super) struct Lines {
    commands: Vec<Sender<Command>>,
    recycle: Vec<Sender<Vec<Sample>>>,
    last_empty: Option<Receiver<Vec<Sample>>>,
}

/// Batches of latencies under way for each thread.
const BATCHES: usize = 8;

impl Lines {
    pub fn new(threads: usize) -> Self {
        Self { commands: Vec::with_capacity(threads), recycle: Vec::with_capacity(threads), last_empty: None }
    }

    pub fn open(&mut self, batch: usize) -> Receiver<Command> {
        let (to_worker, commands) = bounded(1);
        let (recycle, empty) = bounded(BATCHES);
        for _ in 0..BATCHES {
            // The channel has room for them.
            let _ = recycle.send(Vec::with_capacity(batch));
        }
        self.commands.push(to_worker);
        self.recycle.push(recycle);
        self.last_empty = Some(empty);
        commands
    }

    pub fn empty(&mut self) -> Receiver<Vec<Sample>> {
        self.last_empty.take().unwrap_or_else(crossbeam_channel::never)
    }
}

/// The thread in charge.
pub(super) struct Lead<'a> {
    spec: &'a LoadSpec,
    test_directory: &'a TestDirectory,
    shared: &'a Shared<'a>,
    lines: Lines,
    inbox: Receiver<Message>,
    evolution: Evolution,
    /// Operations that will be done, if that is known.
    expected: Option<u64>,
    sink: &'a mut dyn LoadSink,
    prober: Prober,
    /// What the virtual disk does for the load: all that it does but what probes ask of it.
    meter: Meter,
    disk: Option<DiskUse>,
    age: Option<AgeWatch>,
    spacing: Spacing,
    like: Option<LikeWatch>,
    /// Probes made, and what they took.
    probes: u64,
    probe_ns: u64,
    /// Failures for lack of space that upkeep has answered already.
    answered_shortages: u64,
    /// Load done in earlier phases.
    elapsed_ns: u64,
    /// Time of the whole process on the CPU in those phases.
    cpu: CpuTime,
    leg_start_raw_ns: u64,
    held_ns: u64,
    tallies: Vec<Tally>,
    files: Vec<u64>,
    live_bytes: Vec<u64>,
    failure: Option<Failure>,
    trace_failure: Option<String>,
    next_progress_raw_ns: u64,
}

/// How long the thread in charge waits for a message before it looks round.
const LOOK_ROUND: Duration = Duration::from_millis(20);
/// Operations of a thread between two reads of the volume's fullness, at least.
const LOOK_OPERATIONS: u64 = 128;
/// Operations between two write-backs where they go by operations.
const SYNC_OPERATIONS: u64 = 1000;
/// Operations after which an age is judged that needs no probe.
const JUDGE_OPERATIONS: u64 = 5000;
const PROGRESS_EVERY_NS: u64 = 250_000_000;
/// What is said while fast mode's data is written.
const MATERIALISING: &str = "writing every live file in place";

impl<'a> Lead<'a> {
    #[expect(clippy::too_many_arguments, reason = "called once; a struct of them would be this one")]
    pub fn new(
        spec: &'a LoadSpec,
        test_directory: &'a TestDirectory,
        shared: &'a Shared<'a>,
        facts: &FileSystemFacts,
        lines: Lines,
        inbox: Receiver<Message>,
        evolution: Evolution,
        expected: Option<u64>,
        sink: &'a mut dyn LoadSink,
    ) -> Self {
        let threads = shared.progress.len();
        let like = like_watch(spec, shared.fullness.total_bytes());
        let layout = spec.probe_layout
            || like.is_some()
            || spec.stop.age.as_ref().is_some_and(AgeTarget::needs_layout);
        let grow = like.as_ref().map_or(0.0, LikeWatch::first_share);
        shared.grow_share.store(grow.to_bits(), Ordering::Relaxed);
        Self {
            prober: Prober::new(
                test_directory,
                threads,
                layout,
                like.is_some(),
                spec.trim,
                facts.counts_at_once,
            ),
            meter: Meter::under(&test_directory.held()),
            disk: None,
            age: spec.stop.age.clone().map(AgeWatch::new),
            spacing: Spacing::new(spec.probe_every, spec.probe_share, shared.model_time),
            like,
            probes: 0,
            probe_ns: 0,
            answered_shortages: 0,
            spec,
            test_directory,
            shared,
            lines,
            inbox,
            evolution,
            expected,
            sink,
            elapsed_ns: 0,
            cpu: CpuTime::default(),
            leg_start_raw_ns: 0,
            held_ns: 0,
            tallies: vec![Tally::default(); threads],
            files: vec![0; threads],
            live_bytes: vec![0; threads],
            failure: None,
            trace_failure: None,
            next_progress_raw_ns: 0,
        }
    }

    pub fn lead(mut self) -> Result<LoadResult, LoadError> {
        self.meter.rest();
        self.shared.start_raw_ns.store(raw_ns(), Ordering::Relaxed);
        self.meter.start();
        let reason = self.phases()?;
        if let Some(tick) = self.evolution.last() {
            self.sink.tick(tick);
        }
        if self.prober.last_operations() != Some(self.operations()) {
            self.probe()?;
        }
        self.tell_nearness(reason);
        let before_materialise = self.prober.device_bytes();
        let mut materialise_ns = 0;
        let mut materialised = true;
        if self.spec.write_mode == WriteMode::Fast {
            let start = raw_ns();
            let arrivals = self.command(|_| Command::Materialise)?;
            materialised = arrivals.iter().all(|arrival| !arrival.unmaterialised);
            self.test_directory.sync()?;
            materialise_ns = raw_ns().saturating_sub(start);
        }
        self.finish(Ending { reason, before_materialise, materialise_ns, materialised })
    }

    /// Sends the threads home, waits for the last of the trace, and adds everything up.
    fn finish(mut self, ending: Ending) -> Result<LoadResult, LoadError> {
        self.lines.commands.clear();
        let before = process_cpu();
        while let Ok(message) = self.inbox.recv() {
            match message {
                Message::Trace(chunk) => self.sink.trace_chunk(&chunk),
                Message::TraceFailed(what) => self.trace_failure = Some(what),
                Message::Died => return Err(LoadError::Panicked),
                Message::Samples { .. } | Message::Arrived { .. } => {}
            }
        }
        // What is left of the trace is work for the load, though done after it.
        self.spend(before);
        if let Some(what) = self.trace_failure.take() {
            return Err(LoadError::Trace { what });
        }
        let total = self.evolution.total();
        let spent = Spent { elapsed_ns: self.elapsed_ns, cpu: self.cpu };
        let result =
            assemble(self.spec, self.test_directory, &self.prober, &self.tallies, spent, total, ending)?;
        self.warn(&result);
        Ok(LoadResult { disk: self.disk.take(), probes: self.probes, probe_ns: self.probe_ns, ..result })
    }

    /// Phase after phase until the load ends; says why it did.
    fn phases(&mut self) -> Result<StopReason, LoadError> {
        let end = self.spec.stop.operations.unwrap_or(u64::MAX);
        let check_every = match self.spec.workload.utilisation() {
            Some(UtilisationSpec::Maintain { check_operations, .. }) => (*check_operations).max(1),
            _ => u64::MAX,
        };
        let judge_every = if self.judged_by_probes() { u64::MAX } else { JUDGE_OPERATIONS };
        let steered = self.spec.workload.is_steered();
        let (mut next_check, mut next_judge) = (check_every, judge_every);
        let mut next_look = if steered { self.look_after(0) } else { u64::MAX };
        let sync_every = if self.shared.by_operations { SYNC_OPERATIONS } else { u64::MAX };
        let mut next_sync = sync_every;
        loop {
            let next_probe = self.spacing.next();
            let until = end.min(next_check).min(next_probe).min(next_look).min(next_sync).min(next_judge);
            let threads = self.tallies.len();
            let arrivals = self.command(|thread| Command::Run { until: share_of(until, thread, threads) })?;
            if let Some(reason) = self.shared.halt.reason() {
                return Ok(reason);
            }
            let finished: Vec<StopReason> = arrivals.iter().filter_map(|arrival| arrival.finished).collect();
            if let (true, Some(reason)) = (finished.len() == threads, finished.first()) {
                return Ok(*reason);
            }
            if until >= end {
                return Ok(StopReason::Operations);
            }
            if until >= next_check {
                self.keep_up()?;
                next_check = next_check.saturating_add(check_every);
            }
            if until >= next_judge {
                next_judge = next_judge.saturating_add(judge_every);
                if self.is_overwritten() {
                    return Ok(StopReason::Age);
                }
            }
            if until >= next_probe && self.spacing.is_due(&self.moment()) {
                if self.probe()? {
                    return Ok(StopReason::Age);
                }
            } else if until >= next_look {
                self.look()?;
            }
            if steered && (until >= next_look || until >= next_probe) {
                next_look = self.look_after(until);
            }
            if until >= next_sync {
                self.sync()?;
                next_sync = next_sync.saturating_add(sync_every);
            }
        }
    }

    /// Whether the age to stop at is judged by probes, or there is none. Probes that are spaced by what they
    /// cost may be minutes apart.
    fn judged_by_probes(&self) -> bool {
        let regular = self.spec.probe_every > 0 && self.spec.probe_share.is_none();
        regular || self.spec.stop.age.as_ref().is_none_or(AgeTarget::needs_probes)
    }

    /// Whether the age to stop at is reached, where that needs no probe.
    fn is_overwritten(&self) -> bool {
        let written = self.tallies.iter().map(|tally| tally.bytes_written).sum();
        let total = self.shared.fullness.total_bytes();
        self.age.as_ref().and_then(|age| age.is_reached_without_probe(written, total)).unwrap_or(false)
    }

    fn moment(&self) -> Moment {
        let files = self.files.iter().sum();
        Moment { operations: self.operations(), files, elapsed_ns: self.elapsed_ns }
    }

    fn operations(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.operations).sum()
    }

    /// After how many operations the fullness estimate is to be corrected, by what an operation wrote so far.
    /// It counts from `until`, what the threads got last, and not from what they did: one that is
    /// finished does less than its share, and the next look must be later than the last nevertheless.
    fn look_after(&self, until: u64) -> u64 {
        let operations = self.operations();
        let written = self.tallies.iter().map(|tally| tally.bytes_written).sum::<u64>();
        let each = (written / operations.max(1)).max(1);
        let few = LOOK_OPERATIONS * u64::try_from(self.tallies.len()).unwrap_or(1);
        let step = if operations == 0 { few } else { (self.shared.fullness.due_bytes() / each).max(few) };
        until.saturating_add(step)
    }

    /// Writes everything out. In model time each thread first writes out its own files, one by one.
    fn sync(&mut self) -> Result<(), LoadError> {
        if self.shared.by_operations {
            self.command(|_| Command::WriteOut)?;
        }
        self.test_directory.sync()
    }

    /// Corrects the fullness estimate. Like that of a probe, its time is no load.
    fn look(&mut self) -> Result<(), LoadError> {
        self.sync()?;
        self.shared.fullness.correct(self.test_directory.settled_usage()?);
        Ok(())
    }

    /// Inspects the volume; whether the age to stop at is reached.
    fn probe(&mut self) -> Result<bool, LoadError> {
        let (latency, interval_log) = self.evolution.end_interval(self.elapsed_ns);
        let files = self.files.iter().sum();
        let disk = self.read_meter()?;
        let start = raw_ns();
        let mut probe = self.prober.probe(self.operations(), self.elapsed_ns, files, self.sink)?;
        let took_ns = raw_ns().saturating_sub(start);
        self.probe_ns += took_ns;
        self.spacing.probed(&self.moment(), took_ns);
        self.shared.fullness.correct(Usage { used_bytes: probe.used_bytes, total_bytes: probe.total_bytes });
        probe.latency = latency;
        probe.interval_log = interval_log;
        probe.disk = disk;
        let written = self.tallies.iter().map(|tally| tally.bytes_written).sum();
        let first = self.probes == 0;
        self.probes += 1;
        if let Some(what) = self.age.as_ref().filter(|_| first).and_then(|age| age.lacks(&probe)) {
            return Err(LoadError::Layout {
                path: self.test_directory.path().to_owned(),
                what: what.to_owned(),
            });
        }
        let reached = self.age.as_mut().is_some_and(|age| age.is_reached(&probe, written));
        let reached = self.steer(&probe) && reached;
        self.sink.probe(probe);
        self.meter.start();
        Ok(reached)
    }

    /// Holds the meter, with all written out that the load left in memory, and says what the disk did since
    /// it was read last.
    fn read_meter(&mut self) -> Result<Option<DiskUse>, LoadError> {
        self.sync()?;
        self.meter.stop();
        let used = self.meter.take()?;
        match (&mut self.disk, used.clone()) {
            (Some(total), Some(used)) => total.add(used),
            (total, used) => *total = total.take().or(used),
        }
        Ok(used)
    }

    /// Steers towards the profile; whether it is near, where that is to end the load.
    fn steer(&mut self, probe: &Probe) -> bool {
        let creates = self.tallies.iter().map(|tally| tally.succeeded[OperationKind::Create as usize]).sum();
        let Some(like) = &mut self.like else { return true };
        if let Some(grow) = like.take(probe, creates) {
            self.shared.grow_share.store(grow.to_bits(), Ordering::Relaxed);
        }
        !self.waits_for_near()
            || self.like.as_ref().and_then(LikeWatch::last).is_some_and(|near| near.is_near())
    }

    fn waits_for_near(&self) -> bool {
        self.spec.stop.age.as_ref().is_some_and(|age| age.near)
    }

    /// Says what a user should know beside the figures.
    fn warn(&mut self, result: &LoadResult) {
        let probing = complaint(self.probes, self.probe_ns, self.elapsed_ns, self.prober.walks());
        if let Some(message) = probing {
            self.sink.warning(Warning { kind: WarningKind::ProbeCost, message });
        }
        if result.failed_without_inode > 0 {
            let message = format!(
                "{} found no free inode although blocks were free: make the file system with more inodes (mkfs.ext4 -i or -N, \
                 mkfs.xfs -i maxpct), or let the workload make fewer and larger files",
                number::plural(result.failed_without_inode, "operation", "operations")
            );
            self.sink.warning(Warning { kind: WarningKind::NoInodes, message });
        }
        if !result.materialised {
            let message = "asked twice to stop: space of the live files is reserved, but their data is not written and reads as zeros"
                .to_owned();
            self.sink.warning(Warning { kind: WarningKind::NotInPlace, message });
        }
    }

    /// Says how far from its profile a load ended.
    fn tell_nearness(&mut self, reason: StopReason) {
        let Some(near) = self.like.as_ref().and_then(LikeWatch::last) else { return };
        if near.is_near() || (reason == StopReason::Age && !self.waits_for_near()) {
            return;
        }
        let message = format!("the volume is not near its profile: {}", near.in_words());
        self.sink.warning(Warning { kind: WarningKind::NotLike, message });
    }

    /// Operations that failed for lack of space.
    fn shortages(&self) -> u64 {
        let places = OUT_OF_SPACE.into_iter().filter_map(|errno| usize::try_from(errno).ok());
        places.map(|place| self.tallies.iter().filter_map(|tally| tally.failed.get(place)).sum::<u64>()).sum()
    }

    /// Deletes files when the volume is fuller than it may be, or as full as it gets: some file systems keep
    /// so much for themselves (ext4 16 MiB, btrfs its metadata) that `max` is never seen in `statfs`.
    fn keep_up(&mut self) -> Result<(), LoadError> {
        let Some(UtilisationSpec::Maintain { max, free, .. }) = self.spec.workload.utilisation() else {
            return Ok(());
        };
        let (max, free) = (*max, *free);
        if !self.prober.counts_at_once() {
            self.sync()?;
        }
        let usage = self.prober.usage()?;
        let shortages = self.shortages();
        let ran_out = shortages > std::mem::replace(&mut self.answered_shortages, shortages);
        if !ran_out && fsage_model::quantity::share(usage.used_bytes, usage.total_bytes) <= max {
            return Ok(());
        }
        let bytes = fsage_model::quantity::to_u64(fsage_model::quantity::as_f64(usage.total_bytes) * free);
        let threads = self.tallies.len();
        self.command(|thread| Command::Release { bytes: share_of(bytes, thread, threads) })?;
        Ok(())
    }

    /// Gives every thread its command and waits until all are done.
    fn command(&mut self, command: impl Fn(usize) -> Command) -> Result<Vec<Arrival>, LoadError> {
        let before = process_cpu();
        self.leg_start_raw_ns = raw_ns();
        self.held_ns = 0;
        let first = command(0);
        let timed = matches!(first, Command::Run { .. });
        for (thread, line) in self.lines.commands.iter().enumerate() {
            line.send(command(thread)).map_err(|_| LoadError::Panicked)?;
        }
        let mut arrivals = Vec::new();
        let mut looked = raw_ns();
        while arrivals.len() < self.tallies.len() {
            match self.inbox.recv_timeout(LOOK_ROUND) {
                Ok(message) => self.receive(message, &mut arrivals)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Panicked),
            }
            if timed {
                self.look_round(&mut looked);
            } else {
                self.tell_progress(first);
            }
        }
        if timed {
            self.elapsed_ns += leg_ns(&arrivals, self.leg_start_raw_ns);
            self.spend(before);
        }
        match self.failure {
            Some(failure) => Err(self.test_directory.failure(failure)),
            None => Ok(arrivals),
        }
    }

    /// Counts the CPU time since `before` as the load's.
    fn spend(&mut self, before: CpuTime) {
        let now = process_cpu();
        self.cpu.user_ns += now.user_ns.saturating_sub(before.user_ns);
        self.cpu.sys_ns += now.sys_ns.saturating_sub(before.sys_ns);
    }

    fn receive(&mut self, message: Message, arrivals: &mut Vec<Arrival>) -> Result<(), LoadError> {
        match message {
            Message::Samples { thread, mut samples, end_raw_ns } => {
                let elapsed = self.elapsed_at(end_raw_ns);
                self.evolution.take(&samples, elapsed, |tick| self.sink.tick(tick));
                samples.clear();
                // The thread takes one back for each that it sends: there is room.
                let _ = self.lines.recycle[thread].try_send(samples);
            }
            Message::Arrived { thread, arrival } => {
                self.tallies[thread] = arrival.tally.clone();
                self.files[thread] = arrival.files;
                self.live_bytes[thread] = arrival.live_bytes;
                self.failure = self.failure.or(arrival.failure);
                arrivals.push(*arrival);
            }
            Message::Trace(chunk) => self.sink.trace_chunk(&chunk),
            Message::TraceFailed(what) => {
                self.trace_failure = Some(what);
                self.shared.halt.set(StopReason::Asked);
            }
            Message::Died => return Err(LoadError::Panicked),
        }
        Ok(())
    }

    /// Nanoseconds of load at a moment of the phase under way.
    fn elapsed_at(&self, moment_raw_ns: u64) -> u64 {
        self.elapsed_ns + moment_raw_ns.saturating_sub(self.leg_start_raw_ns).saturating_sub(self.held_ns)
    }

    /// Says how far a command is that is no load.
    fn tell_progress(&mut self, command: Command) {
        let now = raw_ns();
        if now < self.next_progress_raw_ns {
            return;
        }
        self.next_progress_raw_ns = now + PROGRESS_EVERY_NS;
        let (done, note) = match command {
            Command::Materialise => {
                let progress = self.shared.progress.iter();
                let done = progress.map(|thread| thread.materialised.load(Ordering::Relaxed)).sum();
                let all = self.live_bytes.iter().sum();
                (Some(fsage_model::quantity::share(done, all).min(1.0)), MATERIALISING)
            }
            Command::Release { .. } => (None, "deleting files to make room"),
            Command::Run { .. } | Command::WriteOut => (None, ""),
        };
        self.sink.progress(self.operations(), self.elapsed_ns, done, note);
    }

    /// Minds the clock, pauses and the progress display.
    fn look_round(&mut self, looked: &mut u64) {
        let now = raw_ns();
        let paused = self.shared.control.is_paused();
        if paused {
            self.held_ns += now.saturating_sub(*looked);
        }
        *looked = now;
        let elapsed = self.elapsed_at(now);
        let limit_ns = self.spec.stop.seconds.map(|seconds| fsage_model::quantity::to_u64(seconds * 1e9));
        if limit_ns.is_some_and(|limit| elapsed >= limit) {
            self.shared.halt.set(StopReason::Seconds);
        }
        if now < self.next_progress_raw_ns {
            return;
        }
        self.next_progress_raw_ns = now + PROGRESS_EVERY_NS;
        let progress = &self.shared.progress;
        let operations = progress.iter().map(|thread| thread.operations.load(Ordering::Relaxed)).sum();
        let bytes = progress.iter().map(|thread| thread.bytes_written.load(Ordering::Relaxed)).sum();
        let stop = &self.spec.stop;
        let share = progress_share([
            (operations, self.expected),
            (bytes, stop.bytes.map(|bytes| bytes.0)),
            (elapsed, limit_ns),
        ]);
        self.sink.progress(operations, elapsed, share, if paused { "paused" } else { "" });
    }
}

impl Drop for Lead<'_> {
    /// However the load ended: threads that still work must not continue for nobody.
    fn drop(&mut self) {
        self.shared.halt.set(StopReason::Asked);
    }
}

/// How long a phase lasted, by the thread that was the last to arrive; what held that one was no load. Others
/// say nothing about pauses: one that had finished was never held.
fn leg_ns(arrivals: &[Arrival], start_raw_ns: u64) -> u64 {
    let last = arrivals.iter().max_by_key(|arrival| arrival.raw_ns);
    last.map_or(0, |last| last.raw_ns.saturating_sub(start_raw_ns).saturating_sub(last.paused_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_that_of_the_thread_that_came_last() {
        let arrival = |raw_ns, paused_ns| Arrival {
            raw_ns,
            paused_ns,
            tally: Tally::default(),
            failure: None,
            finished: None,
            files: 0,
            live_bytes: 0,
            unmaterialised: false,
        };
        assert_eq!(leg_ns(&[arrival(1100, 0), arrival(9000, 5000)], 1000), 3000);
        assert_eq!(leg_ns(&[], 1000), 0);
    }
}
