//! A thread of a load: takes operations from its source, runs them, tells the thread in charge.
//!
//! Its loop shares nothing but read-mostly atomics (is something asked of the load?), its own line of
//! counters, and every few operations the fullness estimate. Latencies and trace records leave it in batches
//! of recycled memory; when their reader lags, it waits between operations, never inside one.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use fsage_model::load::StopReason;
use fsage_model::operation::{Action, Operation, Outcome};
use fsage_model::quantity::{as_f64, share, to_u64};
use fsage_sys::clock::raw_ns;
use fsage_sys::errno::{ENOSPC, is_out_of_space};
use rustix::io::Errno;

use super::Control;
use super::fullness::{Fullness, bytes_moved, lacks_inodes};
use super::halt::Halt;
use super::materialise::{Manner, write_live};
use super::message::{Arrival, Command, Failure, Message};
use super::source::{Source, Step};
use super::tally::{Progress, Tally};
use super::tick::Sample;
use crate::executor::{Executor, Interrupt};
use crate::trace::{Checkpoint, Feed, Record, checkpoint_after};
use crate::workload::Feedback;

/// What all threads of a load share.
#[derive(Debug)]
pub struct Shared<'a> {
    pub control: &'a Control,
    pub halt: Halt,
    pub fullness: Fullness,
    pub progress: Vec<Progress>,
    /// `CLOCK_MONOTONIC_RAW` when the load began.
    pub start_raw_ns: AtomicU64,
    /// [`Feedback::grow_share`] as bits; changes only between commands.
    pub grow_share: AtomicU64,
    /// The volume is a virtual disk in model time.
    pub model_time: bool,
    /// And what is written is written back after so many operations, and not when time has passed.
    pub by_operations: bool,
}

/// A write comes to its end where the load only stops: nothing half written is left.
impl Interrupt for Shared<'_> {
    fn goes_on_reading(&self) -> bool {
        !self.control.is_stopped() && !self.halt.is_set()
    }

    fn goes_on_writing(&self) -> bool {
        !self.control.is_abandoned()
    }
}

/// What a thread may stop by on its own.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes written after which the thread is finished.
    pub bytes: Option<u64>,
    /// The first `ENOSPC` ends the load.
    pub full: bool,
    /// Files may be deleted to get out of a full volume.
    pub upkeep: bool,
}

/// One thread of a load.
#[derive(Debug)]
pub struct Worker<'a, S> {
    pub thread: usize,
    pub executor: Executor,
    pub source: S,
    pub shared: &'a Shared<'a>,
    pub limits: Limits,
    pub messages: Sender<Message>,
    pub commands: Receiver<Command>,
    pub empty: Receiver<Vec<Sample>>,
    pub trace: Option<Feed>,
    pub state: State,
}

/// What a thread remembers between operations.
#[derive(Debug, Default)]
pub struct State {
    samples: Vec<Sample>,
    tally: Tally,
    feedback: Feedback,
    sequence: u64,
    /// Sequence at which the trace gets its next checkpoint.
    next_checkpoint: u64,
    since_feedback: u64,
    live_published: u64,
    paused_ns: u64,
    /// Rises with device errors, falls with successes.
    fault: u32,
    faults: u32,
    out_of_space: u32,
    /// Failures in a row other than for lack of space.
    failures: u32,
    misses: u32,
    failure: Option<Failure>,
    finished: Option<StopReason>,
    unmaterialised: bool,
}

impl State {
    /// The beginning, with room for `batch` samples.
    pub fn new(batch: usize) -> Self {
        let samples = Vec::with_capacity(batch);
        Self { samples, next_checkpoint: checkpoint_after(0), ..Self::default() }
    }
}

/// Operations between two refreshes of the fullness estimate.
const FEEDBACK_EVERY: u64 = 16;
/// A device error weighs this much against one success…
const FAULT_WEIGHT: u32 = 4;
/// …and this much weight means that the device is gone: 64 errors in a row.
const FAULT_LIMIT: u32 = 256;
/// `ENOSPC` in a row after which files are deleted…
const SPACE_PATIENCE: u32 = 16;
/// …this share of the volume at once…
const SPACE_RELEASE: f64 = 0.005;
/// …and after which the load ends where that is not allowed or of no use.
const SPACE_LIMIT: u32 = 4096;
/// Failures of any other kind in a row, without a success between them, after which nothing works here.
const FAILURE_LIMIT: u32 = 4096;
/// Misses in a row between two looks whether anything can be done at all.
const MISS_PATIENCE: u32 = 10_000;
/// Deletes for upkeep that may fail in a row.
const RELEASE_PATIENCE: u32 = 64;

impl<S: Source> Worker<'_, S> {
    /// Does what is commanded until the thread in charge hangs up; gives the source back.
    pub fn work(mut self) -> S {
        let _alarm = Alarm(self.messages.clone());
        let fullness = &self.shared.fullness;
        self.state.feedback = Feedback {
            used_share: fullness.used_share(),
            total_bytes: fullness.total_bytes(),
            grow_share: 0.0,
        };
        while let Ok(command) = self.commands.recv() {
            match command {
                Command::Run { until } => self.run(until),
                Command::Release { bytes } => {
                    self.release(bytes);
                }
                Command::Materialise => self.materialise(),
                Command::WriteOut => self.executor.write_out(),
            }
            self.publish();
            self.flush();
            let arrival = Box::new(Arrival {
                raw_ns: raw_ns(),
                paused_ns: std::mem::take(&mut self.state.paused_ns),
                tally: self.state.tally.clone(),
                failure: self.state.failure,
                finished: self.state.finished,
                files: self.source.files(),
                live_bytes: self.source.live_bytes(),
                unmaterialised: self.state.unmaterialised,
            });
            if self.messages.send(Message::Arrived { thread: self.thread, arrival }).is_err() {
                break;
            }
        }
        self.checkpoint();
        self.source
    }

    fn run(&mut self, until: u64) {
        self.state.feedback.grow_share = f64::from_bits(self.shared.grow_share.load(Ordering::Relaxed));
        while self.state.tally.operations < until && self.state.finished.is_none() {
            if (self.shared.control.is_asked() || self.shared.halt.is_set()) && !self.obey_control() {
                return;
            }
            match self.source.next(&self.state.feedback) {
                Step::Do(operation) => self.do_operation(&operation),
                Step::Upkeep(operation) => self.do_upkeep(&operation),
                Step::Miss => self.miss(),
                Step::Wait => {}
                Step::End => self.state.finished = Some(StopReason::Ended),
            }
        }
    }

    /// Does what is asked of the load from outside; whether to continue.
    #[cold]
    fn obey_control(&mut self) -> bool {
        if self.shared.halt.is_set() {
            return false;
        }
        let before = raw_ns();
        let goes_on = self.shared.control.wait(&|| self.shared.halt.is_set());
        self.state.paused_ns += raw_ns().saturating_sub(before);
        if !goes_on {
            self.shared.halt.set(StopReason::Asked);
        }
        goes_on
    }

    #[inline]
    fn do_operation(&mut self, operation: &Operation) {
        let shared = self.shared;
        // A sync belongs to what was just written.
        if !matches!(operation.action, Action::Fsync | Action::Fdatasync) {
            self.executor.pause(&|| shared.control.is_asked() || shared.halt.is_set());
        }
        let Some(outcome) = self.execute(operation) else { return };
        let state = &mut self.state;
        state.misses = 0;
        state.tally.operations += 1;
        if outcome.errno == 0 {
            state.tally.succeeded[operation.kind() as usize] += 1;
            let (written, read) = bytes_moved(operation);
            state.tally.bytes_written += written;
            state.tally.bytes_read += read;
            state.fault = state.fault.saturating_sub(1);
            state.out_of_space = 0;
            state.failures = 0;
        } else {
            self.count_failure(operation, outcome.errno);
        }
        let state = &mut self.state;
        state.samples.push(Sample::new(operation.kind(), outcome.latency_ns, outcome.errno != 0));
        if state.samples.len() == state.samples.capacity() {
            self.send_samples();
        }
        let progress = &self.shared.progress[self.thread];
        progress.operations.store(self.state.tally.operations, Ordering::Relaxed);
        progress.bytes_written.store(self.state.tally.bytes_written, Ordering::Relaxed);
        if self.limits.bytes.is_some_and(|limit| self.state.tally.bytes_written >= limit) {
            self.state.finished = Some(StopReason::Bytes);
        }
        self.refresh();
    }

    fn do_upkeep(&mut self, operation: &Operation) {
        let Some(outcome) = self.execute(operation) else { return };
        if outcome.errno == 0 {
            self.state.tally.upkeep += 1;
            self.state.fault = self.state.fault.saturating_sub(1);
            self.state.failures = 0;
        } else {
            self.count_failure(operation, outcome.errno);
        }
        self.refresh();
    }

    /// Runs an operation, tells the model and the trace. Nothing where the end of the load ended it early: then it is
    /// neither done nor failed.
    #[inline]
    fn execute(&mut self, operation: &Operation) -> Option<Outcome> {
        let timed = self.executor.execute_until(operation, self.shared);
        if timed.interrupted {
            self.source.interrupted(operation, &timed.outcome);
        } else {
            self.source.completed(operation, &timed.outcome);
        }
        // An interrupted read or create left nothing; of what else was interrupted a replay has to know the version.
        let is_nothing = timed.interrupted && !operation.kind().writes_again();
        if let Some(feed) = self.trace.as_mut().filter(|_| !is_nothing) {
            let start_ns =
                timed.start_raw_ns.saturating_sub(self.shared.start_raw_ns.load(Ordering::Relaxed));
            feed.push(Record {
                thread: u32::try_from(self.thread).unwrap_or(u32::MAX),
                sequence: self.state.sequence,
                operation: *operation,
                outcome: timed.outcome,
                start_ns,
            });
            self.state.sequence += 1;
            if self.state.sequence >= self.state.next_checkpoint {
                self.checkpoint();
            }
        }
        (!timed.interrupted).then_some(timed.outcome)
    }

    /// Notes in the trace what the tree comes to, and when to do so next.
    #[cold]
    fn checkpoint(&mut self) {
        let Some(feed) = &self.trace else { return };
        let thread = u32::try_from(self.thread).unwrap_or(u32::MAX);
        let State { sequence, next_checkpoint, .. } = &mut self.state;
        *next_checkpoint = *sequence + checkpoint_after(self.source.files());
        feed.checkpoint(Checkpoint { thread, sequence: *sequence, digest: self.source.digest() });
    }

    #[cold]
    fn count_failure(&mut self, operation: &Operation, errno: i32) {
        self.note_failure(errno);
        if is_out_of_space(errno) {
            let no_inode = errno == ENOSPC && self.lacks_inode(operation);
            self.state.tally.without_inode += u64::from(no_inode);
            self.run_out_of_space(if no_inode { StopReason::Inodes } else { StopReason::Full });
        }
    }

    /// Whether it is inodes that an operation found none of, and not blocks.
    fn lacks_inode(&self, operation: &Operation) -> bool {
        let bytes = match operation.action {
            Action::Create { length } => length,
            Action::Mkdir { .. } | Action::Symlink { .. } => 0,
            _ => return false,
        };
        lacks_inodes(self.executor.top(), bytes)
    }

    /// Counts a failure, and gives up when there are too many in a row.
    fn note_failure(&mut self, errno: i32) {
        let state = &mut self.state;
        if let Some(count) = usize::try_from(errno).ok().and_then(|errno| state.tally.failed.get_mut(errno)) {
            *count += 1;
        }
        let errno = Errno::from_raw_os_error(errno);
        if is_out_of_space(errno.raw_os_error()) {
            return;
        }
        state.failures += 1;
        if state.failures >= FAILURE_LIMIT {
            let failure = Failure::Futile { errno: errno.raw_os_error(), consecutive: state.failures };
            self.give_up(failure);
        } else if DEVICE_ERRORS.contains(&errno) {
            state.faults = if state.fault == 0 { 1 } else { state.faults + 1 };
            state.fault += FAULT_WEIGHT;
            if state.fault >= FAULT_LIMIT {
                let failure = Failure::Device { errno: errno.raw_os_error(), consecutive: state.faults };
                self.give_up(failure);
            }
        }
    }

    fn run_out_of_space(&mut self, reason: StopReason) {
        if self.limits.full {
            self.shared.halt.set(reason);
            return;
        }
        self.state.out_of_space += 1;
        if self.limits.upkeep && self.state.out_of_space.is_multiple_of(SPACE_PATIENCE) {
            let threads = u64::try_from(self.shared.progress.len()).unwrap_or(1);
            let volume = as_f64(self.shared.fullness.total_bytes());
            if self.release(to_u64(volume * SPACE_RELEASE) / threads) {
                self.state.out_of_space = 0;
            }
        }
        if self.state.out_of_space >= SPACE_LIMIT {
            self.shared.halt.set(reason);
        }
    }

    /// Deletes files until `bytes` are free or it is of no use; whether any was.
    fn release(&mut self, bytes: u64) -> bool {
        let upkeep = self.state.tally.upkeep;
        let before = self.source.live_bytes();
        let mut failures = 0;
        while before.saturating_sub(self.source.live_bytes()) < bytes && failures < RELEASE_PATIENCE {
            if self.shared.control.is_stopped() || self.state.failure.is_some() {
                break;
            }
            let Some(operation) = self.source.release() else { break };
            let Some(outcome) = self.execute(&operation) else { break };
            if outcome.errno == 0 {
                self.state.tally.upkeep += 1;
                self.state.fault = self.state.fault.saturating_sub(1);
                self.state.failures = 0;
                failures = 0;
            } else {
                // Not for lack of space by way of this again.
                self.note_failure(outcome.errno);
                failures += 1;
            }
        }
        self.publish();
        self.state.tally.upkeep > upkeep
    }

    #[cold]
    fn miss(&mut self) {
        self.state.tally.missed += 1;
        self.state.misses += 1;
        if self.state.misses.is_multiple_of(MISS_PATIENCE) && self.source.is_stuck() {
            self.give_up(Failure::Stuck);
        }
    }

    #[cold]
    fn give_up(&mut self, failure: Failure) {
        self.state.failure.get_or_insert(failure);
        self.state.finished = Some(StopReason::Asked);
        self.shared.halt.set(StopReason::Asked);
    }

    fn materialise(&mut self) {
        let Self { source, executor, shared, .. } = self;
        let done = &shared.progress[self.thread].materialised;
        let manner = if shared.by_operations {
            Manner::deterministic()
        } else {
            Manner::fast(shared.progress.len(), executor.writes_in_place())
        };
        let written = write_live(source, executor, manner, &|bytes| {
            done.fetch_add(bytes, Ordering::Relaxed);
            // ECANCELED is nothing that a write says.
            if shared.control.is_abandoned() { Err(Errno::CANCELED) } else { Ok(()) }
        });
        match written {
            Ok(()) => {}
            Err(Errno::CANCELED) => self.state.unmaterialised = true,
            Err(errno) => self.state.failure = Some(Failure::Materialise { errno: errno.raw_os_error() }),
        }
    }

    /// Keeps the fullness estimate and the feedback fresh.
    #[inline]
    fn refresh(&mut self) {
        self.state.since_feedback += 1;
        if self.state.since_feedback >= FEEDBACK_EVERY {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let state = &mut self.state;
        let fullness = &self.shared.fullness;
        let live = self.source.live_bytes();
        fullness.add(live.cast_signed().wrapping_sub(state.live_published.cast_signed()));
        state.live_published = live;
        state.since_feedback = 0;
        self.state.feedback.used_share = fullness.used_share();
    }

    /// Sends off what was collected.
    fn flush(&mut self) {
        self.send_samples();
        if let Some(feed) = &mut self.trace {
            feed.flush();
        }
    }

    fn send_samples(&mut self) {
        if self.state.samples.is_empty() {
            return;
        }
        let Ok(empty) = self.empty.recv() else { return };
        let samples = std::mem::replace(&mut self.state.samples, empty);
        // The thread in charge hangs up only when the load is over.
        let _ = self.messages.send(Message::Samples { thread: self.thread, samples, end_raw_ns: raw_ns() });
    }
}

/// Tells the thread in charge, which would wait for ever, when a thread panics.
struct Alarm(Sender<Message>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The thread in charge may be gone as well.
            let _ = self.0.send(Message::Died);
        }
    }
}

/// Errors that say that the device or the file system stopped working.
const DEVICE_ERRORS: [Errno; 8] = [
    Errno::IO,
    Errno::ROFS,
    Errno::NODEV,
    Errno::NXIO,
    Errno::SHUTDOWN,
    Errno::UCLEAN,
    Errno::BADMSG,
    Errno::STALE,
];

/// What thread `thread` of `threads` does of `total`: shares differ by at most one and add up.
pub fn share_of(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (u64::try_from(thread).unwrap_or(0), u64::try_from(threads).unwrap_or(1).max(1));
    total / threads + u64::from(thread < total % threads)
}

/// How far a load is, by the furthest of its known ends.
pub fn progress_share(done: [(u64, Option<u64>); 3]) -> Option<f64> {
    done.into_iter().filter_map(|(done, end)| end.map(|end| share(done, end).min(1.0))).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::fullness::Usage;
    use super::*;

    #[test]
    fn a_stop_ends_reads_and_only_giving_up_ends_writes() {
        let control = Control::new();
        let volume = Usage { used_bytes: 0, total_bytes: 1 };
        let shared = |halt| Shared {
            control: &control,
            halt,
            fullness: Fullness::new(volume),
            progress: Vec::new(),
            start_raw_ns: AtomicU64::new(0),
            grow_share: AtomicU64::new(0),
            model_time: false,
            by_operations: false,
        };
        let halted = Halt::default();
        halted.set(StopReason::Full);
        let (shared, halted) = (shared(Halt::default()), shared(halted));
        let goes_on = |shared: &Shared<'_>| (shared.goes_on_reading(), shared.goes_on_writing());
        assert_eq!((goes_on(&shared), goes_on(&halted)), ((true, true), (false, true)));
        control.pause();
        assert_eq!(goes_on(&shared), (true, true));
        control.stop();
        assert_eq!(goes_on(&shared), (false, true));
        control.abandon();
        assert_eq!(goes_on(&shared), (false, false));
    }

    #[test]
    fn shares_add_up_and_grow_with_the_total() {
        for total in [0, 1, 7, 1000, 1001] {
            for threads in 1..=7 {
                let shares: Vec<u64> = (0..threads).map(|thread| share_of(total, thread, threads)).collect();
                assert_eq!(shares.iter().sum::<u64>(), total);
                let next: Vec<u64> =
                    (0..threads).map(|thread| share_of(total + 1, thread, threads)).collect();
                assert!(shares.iter().zip(&next).all(|(now, then)| now <= then));
            }
        }
    }
}
