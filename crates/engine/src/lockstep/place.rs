//! The volumes: who works on them, and how followers get their work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use fsage_model::lockstep::{LockstepSpec, PartCost, RunHistory, SeenUsage};
use fsage_model::operation::{Operation, Outcome};
use fsage_sys::clock::thread_cpu;
use fsage_sys::errno::is_out_of_space;

use super::{BATCH, Divergence, LockstepError, TURN, bytes_deleted};
use crate::device::Device;
use crate::disk::{Clock, VirtualDisk};
use crate::executor::{Executor, ExecutorOptions, WriteBack};
use crate::filesystem;
use crate::load::{Fullness, LoadError, TestDirectory, Usage, bytes_moved, descriptors};
use crate::tree::Directory;
use crate::workload::Feedback;

/// Failures in a row, other than for lack of space, after which the volume is given up.
const FAILURES: u32 = 64;

/// Operations after which files are written out where that goes by operations (as in a load).
const WRITE_OUT: u64 = 1000;

/// Batches that may wait for a follower.
const WAITING: usize = 16;

/// Volumes that may be worked on at once, among which descriptors are shared out.
const VOLUMES: usize = 4;

/// What works on a volume, and what its part took so far.
#[derive(Debug)]
pub(super) struct VolumeWork {
    executor: Executor,
    clock: Clock,
    device: Option<Device>,
    device_start: u64,
    /// The drive that it is on, where that is a virtual disk.
    disk: Option<VirtualDisk>,
    /// Its clock also passes in the turns of others: a part takes what its own turns do.
    shares_clock: bool,
    /// When the present turn began, on such a clock, and the time of the part's turns before it.
    turn_began_ns: Option<u64>,
    turns_ns: u64,
    /// When the part began.
    began: Moment,
    cost: PartCost,
    /// Turns end with the device at rest.
    drains: bool,
    /// In the part the device did not come to rest after a turn.
    still_busy: bool,
}

/// A part that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) cost: PartCost,
    pub(super) usage: Usage,
    pub(super) model_time: bool,
    pub(super) still_busy: bool,
}

impl Ended {
    /// A part that cost nothing, after which the volume was used so much.
    pub(super) fn of(usage: Usage) -> Self {
        Self { cost: PartCost::default(), usage, model_time: false, still_busy: false }
    }
}

/// A moment of a part, by the volume's clock and by the CPU time of the thread that works on it, which stands
/// still while it waits for others. A disk in model time is charged for all that it does between two of them,
/// no matter which part of the kernel asked.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    clock_ns: u64,
    cpu_ns: u64,
}

impl VolumeWork {
    /// Opens what is below `test_directory`, where `known` directories are already.
    pub(super) fn open(
        test_directory: &TestDirectory,
        spec: &LockstepSpec,
        known: impl IntoIterator<Item = Directory>,
    ) -> Result<Self, LoadError> {
        let facts =
            filesystem::facts(test_directory.fd()).map_err(|errno| test_directory.error("statfs", errno))?;
        let clock = Clock::under(&test_directory.held())?;
        let options = ExecutorOptions {
            write_mode: spec.write_mode,
            in_place: !facts.copy_on_write,
            open_directories: descriptors() / VOLUMES,
            write_back: WriteBack::under(&test_directory.held(), &clock, spec.deterministic),
            pause: std::time::Duration::ZERO,
            burst: 1,
        };
        let mut executor = Executor::open(test_directory.fd(), 0, options, clock.clone())
            .map_err(|errno| test_directory.error("open", errno))?;
        known.into_iter().for_each(|directory| executor.know_directory(directory));
        let device = Device::under(&test_directory.held());
        let device_start = device.as_ref().and_then(Device::bytes_written).unwrap_or(0);
        let (began, cost) = (Moment::default(), PartCost::default());
        Ok(Self {
            executor,
            clock,
            device,
            device_start,
            disk: VirtualDisk::under(&test_directory.held()),
            shares_clock: false,
            turn_began_ns: None,
            turns_ns: 0,
            began,
            cost,
            drains: false,
            still_busy: false,
        })
    }

    /// Makes directories, parents first.
    pub(super) fn make(
        &mut self,
        test_directory: &TestDirectory,
        directories: &[Directory],
    ) -> Result<(), LoadError> {
        directories
            .iter()
            .try_for_each(|directory| self.executor.make_directory(*directory))
            .map_err(|errno| test_directory.error("mkdir", errno))
    }

    /// Whether its turns end with its device at rest.
    #[cfg(test)]
    pub(super) const fn drains(&self) -> bool {
        self.drains
    }

    /// Begins a part, in the thread that will work.
    fn begin(&mut self) {
        let cpu = thread_cpu();
        self.began = Moment { clock_ns: self.clock.now_ns(), cpu_ns: cpu.user_ns + cpu.sys_ns };
    }

    /// Begins a turn, unless one is under way.
    fn begin_turn(&mut self) {
        if self.shares_clock && self.turn_began_ns.is_none() {
            self.turn_began_ns = Some(self.clock.now_ns());
        }
    }

    fn end_turn(&mut self) {
        if let Some(began_ns) = self.turn_began_ns.take() {
            self.turns_ns += self.clock.now_ns().saturating_sub(began_ns);
        }
    }

    /// Writes everything out, which the part is charged for.
    fn sync(&mut self, test_directory: &TestDirectory) -> Result<(), LoadError> {
        self.begin_turn();
        self.clock.count_cpu();
        let start_ns = self.clock.now_ns();
        self.executor.write_out();
        let synced = test_directory.sync();
        self.cost.elapsed_ns += self.clock.now_ns().saturating_sub(start_ns);
        self.clock.hold_cpu();
        synced
    }

    /// Ends a turn, with everything written out: waits until the device is at rest, on nobody's account, so
    /// that nothing of this volume is in the next one's times.
    fn drain(&mut self) {
        self.end_turn();
        if self.drains {
            self.still_busy |= self.device.as_ref().is_some_and(|device| !device.settle());
        }
    }

    fn execute(&mut self, operation: &Operation) -> Outcome {
        self.begin_turn();
        let outcome = self.executor.execute(operation).outcome;
        self.cost.operations += 1;
        if self.cost.operations.is_multiple_of(WRITE_OUT) {
            self.executor.write_out();
        }
        // By wall-clock time the operations alone: making them up is no work of the volume's.
        self.cost.elapsed_ns += outcome.latency_ns;
        if outcome.errno == 0 {
            self.cost.bytes_written += bytes_moved(operation).0;
            self.cost.bytes_deleted += bytes_deleted(operation);
        } else {
            self.cost.failed += 1;
        }
        outcome
    }

    /// Ends the part with everything written out, and inspects the volume.
    fn end_part(&mut self, test_directory: &TestDirectory) -> Result<Ended, LoadError> {
        self.sync(test_directory)?;
        let began = self.began;
        self.begin();
        self.cost.cpu_ns = self.began.cpu_ns.saturating_sub(began.cpu_ns);
        if self.shares_clock {
            self.end_turn();
            self.cost.elapsed_ns = std::mem::take(&mut self.turns_ns);
        } else if self.clock.is_model() {
            self.cost.elapsed_ns = self.began.clock_ns.saturating_sub(began.clock_ns);
        }
        self.drain();
        let written = self.device.as_ref().and_then(Device::bytes_written).unwrap_or(0);
        self.cost.device_bytes_written = written.saturating_sub(self.device_start);
        self.device_start = written;
        let usage = test_directory.settled_usage()?;
        self.begin();
        Ok(Ended {
            cost: std::mem::take(&mut self.cost),
            usage,
            model_time: self.clock.is_model(),
            still_busy: std::mem::take(&mut self.still_busy),
        })
    }
}

/// Settles how these volumes take turns, and says whether they do: by the host's clock, which would see them all,
/// and on a drive that several of them share, whose clock and head would. Turns end with the device at rest where
/// each volume has one of its own. Disks in model time that nobody shares have clocks of their own.
pub(super) fn settle_turns(works: &mut [VolumeWork]) -> bool {
    let again = |index: usize, is_same: &dyn Fn(&VolumeWork) -> bool| works[..index].iter().any(is_same);
    let one_device = (0..works.len())
        .any(|at| works[at].device.is_some() && again(at, &|other| other.device == works[at].device));
    let one_drive = (0..works.len())
        .any(|at| works[at].disk.is_some() && again(at, &|other| other.disk == works[at].disk));
    let apart = works.len() > 1 && !one_device;
    for work in &mut *works {
        let is_model = work.clock.is_model();
        work.drains = apart && (!is_model || one_drive);
        work.shares_clock = is_model && one_drive;
    }
    one_drive || works.first().is_some_and(|leader| !leader.clock.is_model())
}

/// What the workload runs on: the leader's volume, or what is known of it.
pub(super) trait Lead {
    /// What the workload may know of the volume.
    fn feedback(&self) -> Feedback;
    /// Does an operation.
    fn execute(&mut self, operation: &Operation) -> Result<Outcome, LockstepError>;
    /// Takes in how many bytes the model's files have now, and how many files those are.
    fn took(&mut self, before: u64, now: u64, files: u64) -> Result<(), LockstepError>;
    /// Whether the fullness estimate is to be corrected.
    fn is_due(&self) -> bool;
    /// Corrects the estimate.
    fn look(&mut self) -> Result<(), LockstepError>;
    /// Ends a part.
    fn end_part(&mut self) -> Result<Ended, LockstepError>;
}

/// What the workload may know of a volume that is estimated to be so full.
pub(super) fn feedback(fullness: &Fullness) -> Feedback {
    Feedback { used_share: fullness.used_share(), total_bytes: fullness.total_bytes(), grow_share: 0.0 }
}

/// An estimate at the beginning of a run, when the model's files have `live_bytes`.
pub(super) fn estimate(usage: Usage, live_bytes: u64) -> Fullness {
    let fullness = Fullness::new(usage);
    fullness.add(live_bytes.cast_signed());
    fullness.correct(usage);
    fullness
}

/// As a history keeps it.
pub(super) const fn seen(usage: Usage) -> SeenUsage {
    SeenUsage(usage.used_bytes, usage.total_bytes)
}

/// The volume that the workload runs on.
#[derive(Debug)]
pub(super) struct Leader<'a> {
    work: VolumeWork,
    test_directory: &'a TestDirectory,
    fullness: Fullness,
    since_look: u64,
    failures: u32,
    /// Operations of this run.
    operations: u64,
    history: RunHistory,
}

impl<'a> Leader<'a> {
    /// On `test_directory`, whose files have `live_bytes`.
    pub(super) fn new(
        mut work: VolumeWork,
        test_directory: &'a TestDirectory,
        live_bytes: u64,
    ) -> Result<Self, LoadError> {
        let usage = test_directory.settled_usage()?;
        let fullness = estimate(usage, live_bytes);
        work.begin();
        let history = RunHistory { begun: seen(usage), ..RunHistory::default() };
        Ok(Self { work, test_directory, fullness, since_look: 0, failures: 0, operations: 0, history })
    }

    /// What the workload learnt, in a run that went on to round `until`.
    pub(super) fn history(self, until: u64) -> RunHistory {
        RunHistory { until, ..self.history }
    }
}

impl Lead for Leader<'_> {
    fn feedback(&self) -> Feedback {
        feedback(&self.fullness)
    }

    fn execute(&mut self, operation: &Operation) -> Result<Outcome, LockstepError> {
        let outcome = self.work.execute(operation);
        self.operations += 1;
        if outcome.errno != 0 {
            self.history.failures.push((self.operations, outcome.errno));
        }
        self.since_look += bytes_moved(operation).0;
        match outcome.errno {
            0 => self.failures = 0,
            errno if is_out_of_space(errno) => self.failures = 0,
            errno => {
                self.failures += 1;
                if self.failures >= FAILURES {
                    let path = self.test_directory.path().to_owned();
                    return Err(LoadError::DeviceFailed { path, errno, consecutive: FAILURES }.into());
                }
            }
        }
        Ok(outcome)
    }

    fn took(&mut self, before: u64, now: u64, _files: u64) -> Result<(), LockstepError> {
        self.fullness.add(now.cast_signed() - before.cast_signed());
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.since_look >= self.fullness.due_bytes()
    }

    /// Writes everything out, on the part's account, and corrects the estimate.
    fn look(&mut self) -> Result<(), LockstepError> {
        self.work.sync(self.test_directory)?;
        self.work.drain();
        self.since_look = 0;
        let usage = self.test_directory.settled_usage()?;
        self.history.looks.push((self.operations, seen(usage)));
        self.fullness.correct(usage);
        Ok(())
    }

    fn end_part(&mut self) -> Result<Ended, LockstepError> {
        let ended = self.work.end_part(self.test_directory)?;
        self.history.parts.push(seen(ended.usage));
        self.fullness.correct(ended.usage);
        self.since_look = 0;
        Ok(ended)
    }
}

/// A volume that does what the leader did.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    work: VolumeWork,
    test_directory: &'a TestDirectory,
    done: u64,
}

enum Order {
    Do(Arc<[Operation]>),
    Sync,
    EndPart,
}

/// What a follower answers to each order.
type Answer = Result<Option<Ended>, LockstepError>;

impl<'a> Follower<'a> {
    /// On `test_directory`, where `done` operations were done before.
    pub(super) const fn new(work: VolumeWork, test_directory: &'a TestDirectory, done: u64) -> Self {
        Self { work, test_directory, done }
    }

    fn obey(&mut self, order: &Order) -> Answer {
        match order {
            Order::Do(operations) => {
                operations.iter().try_for_each(|operation| self.repeat(operation)).map(|()| None)
            }
            Order::Sync => {
                self.work.sync(self.test_directory)?;
                self.work.drain();
                Ok(None)
            }
            Order::EndPart => Ok(Some(self.work.end_part(self.test_directory)?)),
        }
    }

    fn repeat(&mut self, operation: &Operation) -> Result<(), LockstepError> {
        let Outcome { errno, .. } = self.work.execute(operation);
        if errno != 0 {
            let directory = self.test_directory.path().to_owned();
            let divergence = Divergence { directory, operation: self.done, what: *operation, errno };
            return Err(LockstepError::Diverged(Box::new(divergence)));
        }
        self.done += 1;
        Ok(())
    }
}

/// One follower's thread and the way to it.
struct Line<'scope> {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
    thread: ScopedJoinHandle<'scope, ()>,
    /// Orders without an answer yet.
    owed: usize,
    /// What it said of parts that are over.
    ended: VecDeque<Ended>,
}

/// The followers.
pub(super) struct Post<'scope> {
    lines: Vec<Line<'scope>>,
    batch: Vec<Operation>,
    /// Followers and leader take turns: one clock would see them all. A turn ends with a sync.
    by_turns: bool,
}

impl<'scope> Post<'scope> {
    /// Starts a thread for each follower.
    pub(super) fn open<'env>(
        scope: &'scope Scope<'scope, 'env>,
        followers: Vec<Follower<'env>>,
        by_turns: bool,
    ) -> Self
    where
        'env: 'scope,
    {
        let lines = followers
            .into_iter()
            .map(|mut follower| {
                let (orders, inbox) = bounded::<Order>(WAITING);
                // Room for all that can be owed: a follower never waits for its answer to be heard.
                let (outbox, answers) = bounded(WAITING + 2);
                let thread = scope.spawn(move || {
                    follower.work.begin();
                    for order in inbox {
                        let answer = follower.obey(&order);
                        let failed = answer.is_err();
                        if outbox.send(answer).is_err() || failed {
                            break;
                        }
                    }
                });
                Line { orders, answers, thread, owed: 0, ended: VecDeque::new() }
            })
            .collect();
        Self { lines, batch: Vec::with_capacity(BATCH), by_turns }
    }

    /// Passes an operation on that the leader did.
    pub(super) fn send(&mut self, operation: &Operation) -> Result<(), LockstepError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        self.batch.push(*operation);
        // By turns they get what they are to do when the leader's turn is over.
        if self.by_turns || self.batch.len() < BATCH { Ok(()) } else { self.hand_over() }
    }

    /// Whether the leader's turn has to end: the followers' work must not grow for ever.
    pub(super) fn ends_turn(&self) -> bool {
        self.by_turns && self.batch.len() >= TURN
    }

    fn hand_over(&mut self) -> Result<(), LockstepError> {
        let batch = self.take_batch();
        for line in &mut self.lines {
            line.order(Order::Do(Arc::clone(&batch)))?;
        }
        Ok(())
    }

    fn take_batch(&mut self) -> Arc<[Operation]> {
        self.batch.drain(..).collect()
    }

    /// Gives every follower what is left to do, and this order after it; by turns one after the other.
    fn finish(&mut self, order: impl Fn() -> Order) -> Result<(), LockstepError> {
        let batch = self.take_batch();
        for line in &mut self.lines {
            if !batch.is_empty() {
                line.order(Order::Do(Arc::clone(&batch)))?;
            }
            line.order(order())?;
            if self.by_turns {
                line.settle()?;
            }
        }
        Ok(())
    }

    /// Has followers write out what the leader wrote out.
    pub(super) fn sync(&mut self) -> Result<(), LockstepError> {
        self.finish(|| Order::Sync)
    }

    /// Ends the part on every follower, and waits for them.
    pub(super) fn end_part(&mut self) -> Result<Vec<Ended>, LockstepError> {
        self.finish(|| Order::EndPart)?;
        let mut ended = Vec::new();
        for line in &mut self.lines {
            line.settle()?;
            ended.push(line.ended.pop_front().ok_or(LoadError::Panicked)?);
        }
        Ok(ended)
    }

    /// Sends the followers home; the first thing that one of them had to say that was not heard.
    pub(super) fn close(self) -> Result<(), LockstepError> {
        let mut first = Ok(());
        for mut line in self.lines {
            let settled = line.settle();
            drop(line.orders);
            let joined = line.thread.join().map_err(|_| LockstepError::from(LoadError::Panicked));
            first = first.and(settled).and(joined);
        }
        first
    }
}

impl Line<'_> {
    fn order(&mut self, order: Order) -> Result<(), LockstepError> {
        while self.owed >= WAITING {
            self.hear()?;
        }
        if self.orders.send(order).is_err() {
            // It is gone; what it said last says why.
            return self.settle().and(Err(LoadError::Panicked.into()));
        }
        self.owed += 1;
        Ok(())
    }

    fn hear(&mut self) -> Result<(), LockstepError> {
        let Ok(answer) = self.answers.recv() else {
            self.owed = 0;
            return Err(LoadError::Panicked.into());
        };
        self.owed -= 1;
        match answer {
            Ok(ended) => {
                self.ended.extend(ended);
                Ok(())
            }
            Err(error) => {
                // Nothing more will come.
                self.owed = 0;
                Err(error)
            }
        }
    }

    fn settle(&mut self) -> Result<(), LockstepError> {
        while self.owed > 0 {
            self.hear()?;
        }
        Ok(())
    }
}
