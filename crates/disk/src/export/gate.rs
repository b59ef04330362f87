//! The one way into a disk for all of its exports.
//!
//! **Time.** In [`DiskTime::Model`] every request is answered at once; how long it took is the medium's
//! business. In [`DiskTime::Real`] the answer is given when the medium's time has passed on the wall clock. A
//! batch that finds the disk idle starts now; one that finds it busy starts when the disk is done, as the
//! model has it. So the load sees the model's times, and time in which nobody asks passes on the wall clock
//! only.
//!
//! The way from the block device to here and back takes time of its own. Answers are given earlier by that much
//! ([`Gate::set_lead`]), but the disk is busy for as long as the model says: a load of one request at a time does not
//! get more of them done than the model allows, however wrong the lead is, and one that leaves the disk idle between its requests sees
//! latencies that are wrong by the error of the lead.
//!
//! Flushes, discards and zeroes are accounted like any other request but answered at once: a loop device does
//! them in the thread that also submits everything else, so sleeping in one would stop all. What they took,
//! the next read or write waits for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrayvec::ArrayVec;
use fsage_model::disk::{DelayError, DiskTime, GateCounts};
use fsage_sys::clock;
use fsage_sys::shared_clock::SharedClock;

use super::{BATCH, Backend};
use crate::request::{Data, IoError, Operation, Request, Transfer};

/// See [`Inner::anchor`].
const MOST_EARLY_NS: u64 = 2_000_000;

/// A disk with its counts and its clock on the wall.
#[derive(Debug)]
pub struct Gate<B> {
    size_bytes: u64,
    block_bytes: u32,
    time: DiskTime,
    /// How long more requests are waited for.
    gather_ns: u64,
    /// Whether there are several drives behind it.
    drives: bool,
    inner: Mutex<Inner<B>>,
}

#[derive(Debug)]
struct Inner<B> {
    backend: B,
    counts: GateCounts,
    /// The disk's clock: when the last request was done.
    clock_ns: u64,
    /// Where others read it.
    shared_clock: Option<SharedClock>,
    /// How much earlier than the medium's time answers are given.
    lead_ns: u64,
    /// By how much requests began before the disk was done, less by how much later than that they came.
    early_ns: u64,
    /// On the wall, when the disk's clock was `anchor_clock_ns`.
    anchor_wall_ns: u64,
    anchor_clock_ns: u64,
    late_answers: u64,
    late_sum_ns: u64,
    late_max_ns: u64,
}

impl<B: Backend> Gate<B> {
    /// A gate to `backend`.
    pub fn new(backend: B, time: DiskTime) -> Self {
        let (size_bytes, block_bytes) = (backend.size_bytes(), backend.block_bytes());
        let inner = Inner {
            backend,
            counts: GateCounts::default(),
            clock_ns: 0,
            shared_clock: None,
            lead_ns: 0,
            early_ns: 0,
            anchor_wall_ns: 0,
            anchor_clock_ns: 0,
            late_answers: 0,
            late_sum_ns: 0,
            late_max_ns: 0,
        };
        Self { size_bytes, block_bytes, time, gather_ns: 0, drives: false, inner: Mutex::new(inner) }
    }

    /// There are several drives behind it, each with a block device of its own. Flushes are of one of them. In model time, requests are
    /// waited for until none has come for so long on the wall: what is asked of several drives at one moment comes through
    /// several block devices, one after the other, and is to be one batch.
    #[must_use]
    pub fn of_drives(mut self, gather_ns: u64) -> Self {
        self.drives = true;
        self.gather_ns = if self.time == DiskTime::Model { gather_ns } else { 0 };
        self
    }

    /// Whether there are several drives behind it.
    #[must_use]
    pub const fn has_drives(&self) -> bool {
        self.drives
    }

    /// How long more requests are waited for, in nanoseconds; 0: they are not.
    #[must_use]
    pub const fn gather_ns(&self) -> u64 {
        self.gather_ns
    }

    /// The disk's size.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Its block size.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// How it keeps time.
    #[must_use]
    pub const fn time(&self) -> DiskTime {
        self.time
    }

    /// A panic while the lock was held says nothing about the rest: the store's own invariants hold between
    /// its steps, and anyone who reads on gets what is there.
    fn lock(&self) -> MutexGuard<'_, Inner<B>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the backend between two batches.
    pub fn with<R>(&self, work: impl FnOnce(&mut B) -> R) -> R {
        work(&mut self.lock().backend)
    }

    /// Has `rest` bring the disk to rest and say what its clock shows then. In [`DiskTime::Real`] nothing is
    /// done: a disk rests when nobody asks.
    pub fn rest(&self, rest: impl FnOnce(&mut B) -> u64) {
        if self.time == DiskTime::Real {
            return;
        }
        let mut inner = self.lock();
        let clock_ns = rest(&mut inner.backend);
        inner.clock_ns = inner.clock_ns.max(clock_ns);
        if let Some(clock) = &inner.shared_clock {
            clock.set_ns(inner.clock_ns);
        }
    }

    /// What went through so far.
    #[must_use]
    pub fn counts(&self) -> GateCounts {
        self.lock().counts
    }

    /// Lets others read the disk's clock from now on. It is set before the requests that moved it are
    /// answered.
    pub fn share_clock(&self, clock: SharedClock) {
        let mut inner = self.lock();
        clock.set_ns(inner.clock_ns);
        inner.shared_clock = Some(clock);
    }

    /// The disk's clock: when the last request was done.
    #[must_use]
    pub fn clock_ns(&self) -> u64 {
        self.lock().clock_ns
    }

    /// Has answers given this much earlier than the medium's time from now on, in [`DiskTime::Real`].
    pub fn set_lead(&self, lead_ns: u64) {
        self.lock().lead_ns = lead_ns;
    }

    /// How exact the delays were.
    #[must_use]
    pub fn delay_error(&self) -> DelayError {
        let inner = self.lock();
        DelayError {
            answers: inner.late_answers,
            mean_ns: inner.late_sum_ns.checked_div(inner.late_answers).unwrap_or(0),
            sum_ns: inner.late_sum_ns,
            max_ns: inner.late_max_ns,
            lead_ns: inner.lead_ns,
        }
    }

    /// Serves the requests that wait together, at most [`BATCH`]. Requests that the disk does not have fail
    /// without reaching it. Returns what `done_ns` is to be counted from on the wall clock (see [`Wall`]).
    pub fn submit(&self, transfers: &mut [Transfer<'_>]) -> Wall {
        let fits = transfers.iter().all(|transfer| self.fits(transfer));
        let mut inner = self.lock();
        inner.anchor(self.time, transfers.len());
        if fits {
            inner.backend.submit(transfers);
        } else {
            self.submit_what_fits(&mut inner, transfers);
        }
        inner.account(transfers);
        let Inner { lead_ns, anchor_wall_ns: wall_ns, anchor_clock_ns: clock_ns, .. } = *inner;
        Wall { time: self.time, wall_ns, clock_ns, lead_ns }
    }

    /// The slow way: in pieces between those that do not fit.
    fn submit_what_fits(&self, inner: &mut Inner<B>, transfers: &mut [Transfer<'_>]) {
        for run in transfers.chunk_by_mut(|one, other| self.fits(one) == self.fits(other)) {
            if run.first().is_some_and(|transfer| self.fits(transfer)) {
                inner.backend.submit(run);
            } else {
                for transfer in run {
                    (transfer.result, transfer.done_ns) = (Err(IoError::Range), inner.clock_ns);
                    inner.counts.refused += 1;
                }
            }
        }
    }

    /// Whether the disk has the range, in whole blocks, and the data is as long as it says.
    fn fits(&self, transfer: &Transfer<'_>) -> bool {
        let Request { operation, offset_bytes, length_bytes, .. } = transfer.request;
        let block = u64::from(self.block_bytes);
        let end = offset_bytes.checked_add(length_bytes);
        let in_range = end.is_some_and(|end| end <= self.size_bytes)
            && offset_bytes.is_multiple_of(block)
            && length_bytes.is_multiple_of(block);
        let is_long = |bytes: usize| u64::try_from(bytes) == Ok(length_bytes);
        in_range
            && match (operation, &transfer.data) {
                (Operation::Read, Data::In(data)) => is_long(data.len()),
                (Operation::Write, Data::Out(data)) => is_long(data.len()),
                (Operation::Flush, Data::None) => length_bytes == 0 || self.drives,
                (Operation::Discard | Operation::Zero, Data::None) => true,
                _ => false,
            }
    }

    /// Notes how much later than it should an answer was given.
    pub fn note_late(&self, late_ns: u64) {
        let mut inner = self.lock();
        inner.late_answers += 1;
        inner.late_sum_ns = inner.late_sum_ns.saturating_add(late_ns);
        inner.late_max_ns = inner.late_max_ns.max(late_ns);
    }
}

impl<B> Inner<B> {
    /// Ties the disk's clock to the wall's when the disk is idle.
    ///
    /// The way of a request varies around the lead. One that is the answer to the last reply may come before the disk is
    /// done, by less than half the way: it begins then, so that short ways make up for long ones and what the load
    /// does between its requests is not lost in the difference. Together they may be [`MOST_EARLY_NS`] ahead: a lead that is too long makes no faster disk.
    fn anchor(&mut self, time: DiskTime, requests: usize) {
        if time == DiskTime::Model {
            return;
        }
        let now_ns = clock::raw_ns();
        let busy_until_ns = self.anchor_wall_ns + self.clock_ns.saturating_sub(self.anchor_clock_ns);
        let early_ns = busy_until_ns.saturating_sub(now_ns);
        let ahead_ns = self.early_ns.saturating_add(early_ns);
        if early_ns == 0 {
            self.early_ns = self.early_ns.saturating_sub(now_ns - busy_until_ns);
        } else if requests == 1 && early_ns <= self.lead_ns / 2 && ahead_ns <= MOST_EARLY_NS {
            self.early_ns = ahead_ns;
        } else {
            return;
        }
        (self.anchor_wall_ns, self.anchor_clock_ns) = (now_ns, self.clock_ns);
    }

    fn account(&mut self, transfers: &[Transfer<'_>]) {
        self.counts.batches += 1;
        let size = u64::try_from(transfers.len()).unwrap_or(u64::MAX);
        self.counts.largest_batch = self.counts.largest_batch.max(size);
        for transfer in transfers {
            self.clock_ns = self.clock_ns.max(transfer.done_ns);
        }
        if let Some(clock) = &self.shared_clock {
            clock.set_ns(self.clock_ns);
        }
    }
}

/// How a batch's times on the disk's clock translate to the wall's.
#[derive(Debug, Clone, Copy)]
pub struct Wall {
    time: DiskTime,
    wall_ns: u64,
    clock_ns: u64,
    lead_ns: u64,
}

impl Wall {
    /// When ([`clock::raw_ns`]) a request is to be answered that is done at `done_ns`; `None`: at once.
    #[inline]
    #[must_use]
    pub const fn due_ns(&self, operation: Operation, done_ns: u64) -> Option<u64> {
        match (self.time, operation) {
            (DiskTime::Real, Operation::Read | Operation::Write) => {
                let done_wall_ns = self.wall_ns.saturating_add(done_ns.saturating_sub(self.clock_ns));
                Some(done_wall_ns.saturating_sub(self.lead_ns))
            }
            _ => None,
        }
    }
}

/// Room for a batch, without asking for memory.
pub(super) type Batch<'a> = ArrayVec<Transfer<'a>, BATCH>;

/// What became of each request of a batch: its result, and when it was done by the disk's clock.
pub(super) type Outcomes = ArrayVec<(Result<(), IoError>, u64), BATCH>;

/// Hands a batch over, and keeps what became of each request when the room for their data is released.
pub(super) fn hand_over<B: Backend>(gate: &Gate<B>, mut batch: Batch<'_>) -> (Wall, Outcomes) {
    let wall = gate.submit(&mut batch);
    (wall, batch.iter().map(|transfer| (transfer.result, transfer.done_ns)).collect())
}

#[cfg(test)]
mod tests {
    use fsage_model::disk::call::MOST_LEAD_NS;

    use super::*;

    /// Each request takes a microsecond; nothing is kept.
    struct Slow {
        clock_ns: u64,
        seen: Vec<Request>,
    }

    impl Backend for Slow {
        fn size_bytes(&self) -> u64 {
            1 << 20
        }

        fn block_bytes(&self) -> u32 {
            4096
        }

        fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
            for transfer in transfers {
                self.clock_ns += 1000;
                transfer.done_ns = self.clock_ns;
                self.seen.push(transfer.request);
            }
        }
    }

    fn gate(time: DiskTime) -> Gate<Slow> {
        Gate::new(Slow { clock_ns: 0, seen: Vec::new() }, time)
    }

    const fn flush() -> Transfer<'static> {
        Transfer::new(Request::new(Operation::Flush, 0, 0), Data::None)
    }

    const fn discard(offset: u64, length: u64) -> Transfer<'static> {
        Transfer::new(Request::new(Operation::Discard, offset, length), Data::None)
    }

    #[test]
    fn what_the_disk_does_not_have_never_reaches_it() {
        let gate = gate(DiskTime::Model);
        let (mut short, long) = ([0; 4096], [0; 8192]);
        let mut transfers = [
            discard(0, 4096),
            discard(1 << 20, 4096),
            discard(u64::MAX - 4095, 4096),
            discard(512, 4096),
            discard(0, 100),
            Transfer::new(Request::new(Operation::Read, 0, 8192), Data::In(&mut short)),
            Transfer::new(Request::new(Operation::Write, 0, 4096), Data::Out(&long)),
            Transfer::new(Request::new(Operation::Write, 0, 8192), Data::Out(&long)),
            Transfer::new(Request::new(Operation::Read, 0, 0), Data::None),
            flush(),
        ];
        let _ = gate.submit(&mut transfers);
        let done: Vec<bool> = transfers.iter().map(|transfer| transfer.result.is_ok()).collect();
        assert_eq!(done, [true, false, false, false, false, false, false, true, false, true]);
        let seen: Vec<Operation> =
            gate.with(|backend| backend.seen.iter().map(|one| one.operation).collect());
        assert_eq!(seen, [Operation::Discard, Operation::Write, Operation::Flush]);
        let counts = gate.counts();
        assert_eq!((counts.batches, counts.largest_batch, counts.refused), (1, 10, 7));
        assert_eq!(gate.clock_ns(), 3000);
    }

    #[test]
    fn others_read_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let gate = gate(DiskTime::Model);
        let _ = gate.submit(&mut [discard(0, 4096)]);
        gate.share_clock(SharedClock::create(&path).unwrap());
        let clock = SharedClock::open(&path).unwrap();
        assert_eq!(clock.now_ns(), 1000);
        let _ = gate.submit(&mut [discard(0, 4096), flush()]);
        assert_eq!(clock.now_ns(), 3000);
        let _ = gate.submit(&mut [discard(1 << 20, 4096)]);
        assert_eq!(clock.now_ns(), 3000);
    }

    #[test]
    fn a_rest_moves_the_clock_in_model_time_alone() {
        for (time, wanted) in [(DiskTime::Model, 5000), (DiskTime::Real, 1000)] {
            let gate = gate(time);
            let _ = gate.submit(&mut [discard(0, 4096)]);
            gate.rest(|backend| {
                backend.clock_ns = 5000;
                5000
            });
            assert_eq!(gate.clock_ns(), wanted);
        }
    }

    #[test]
    fn model_time_never_waits() {
        let gate = gate(DiskTime::Model);
        let mut transfers = [discard(0, 4096)];
        let wall = gate.submit(&mut transfers);
        assert_eq!(wall.due_ns(Operation::Read, transfers[0].done_ns), None);
    }

    #[test]
    fn an_idle_disk_starts_now_and_a_busy_one_when_it_is_done() {
        let gate = gate(DiskTime::Real);
        gate.with(|backend| backend.clock_ns = 0);
        let data = [0; 4096];
        let write = || {
            let request = Request::new(Operation::Write, 0, 4096);
            let mut transfers = [Transfer::new(request, Data::Out(&data))];
            let wall = gate.submit(&mut transfers);
            wall.due_ns(Operation::Write, transfers[0].done_ns).unwrap()
        };
        let before = clock::raw_ns();
        let first = write();
        assert!(first >= before + 1000);
        // Make the disk busy for a minute: the next one is due behind it.
        gate.with(|backend| backend.clock_ns += 60_000_000_000);
        let second = write();
        assert!(second >= before + 60_000_000_000);
        let third = write();
        assert_eq!(third, second + 1000);
        // Flushes count but are never waited for.
        let mut transfers = [flush()];
        let wall = gate.submit(&mut transfers);
        assert_eq!(wall.due_ns(Operation::Flush, transfers[0].done_ns), None);
        assert_eq!(write(), third + 2000);
    }

    #[test]
    fn lateness_is_kept_as_mean_and_maximum() {
        let gate = gate(DiskTime::Real);
        assert_eq!(gate.delay_error(), DelayError::default());
        for late in [10, 20, 60] {
            gate.note_late(late);
        }
        let wanted = DelayError { answers: 3, mean_ns: 30, sum_ns: 90, max_ns: 60, lead_ns: 0 };
        assert_eq!(gate.delay_error(), wanted);
    }

    #[test]
    fn a_request_that_answers_a_reply_may_begin_a_little_early_but_not_for_ever() {
        let gate = gate(DiskTime::Real);
        let data = [0; 4096];
        // Each begins when the gate says that it does: 1 µs before it is done.
        let begin = |number: usize| {
            let request = Request::new(Operation::Write, 0, 4096);
            let mut transfers: Vec<_> =
                std::iter::repeat_with(|| Transfer::new(request, Data::Out(&data))).take(number).collect();
            let wall = gate.submit(&mut transfers);
            wall.due_ns(Operation::Write, transfers[0].done_ns).unwrap() + gate.delay_error().lead_ns - 1000
        };
        gate.set_lead(MOST_LEAD_NS);
        let _ = begin(1);
        // The disk is busy for less than half the way: a single request begins at once, two begin when it is done.
        gate.with(|backend| backend.clock_ns += MOST_LEAD_NS / 4);
        let busy = begin(1);
        let now = clock::raw_ns();
        assert!(busy <= now + MOST_LEAD_NS / 4 + 2000, "{busy} {now}");
        gate.with(|backend| backend.clock_ns += MOST_LEAD_NS / 4);
        let _ = begin(1);
        assert!(begin(2) > clock::raw_ns(), "a queue waits");
        // In all it is never more than two milliseconds ahead: then requests wait.
        let before = clock::raw_ns();
        for _ in 0..100 {
            gate.with(|backend| backend.clock_ns += MOST_LEAD_NS / 4);
            let _ = begin(1);
        }
        assert!(begin(1) >= before + 100 * (MOST_LEAD_NS / 4) - MOST_EARLY_NS - 1_000_000);
    }

    #[test]
    fn a_lead_brings_answers_forward_and_makes_no_faster_disk() {
        let gate = gate(DiskTime::Real);
        let data = [0; 4096];
        let write = || {
            let request = Request::new(Operation::Write, 0, 4096);
            let mut transfers = [Transfer::new(request, Data::Out(&data))];
            let wall = gate.submit(&mut transfers);
            wall.due_ns(Operation::Write, transfers[0].done_ns).unwrap()
        };
        // Busy for a minute, so that every write is due behind the one before.
        gate.with(|backend| backend.clock_ns += 60_000_000_000);
        let without = write();
        gate.set_lead(700);
        assert_eq!(gate.delay_error().lead_ns, 700);
        assert_eq!((write(), write()), (without + 1000 - 700, without + 2000 - 700));
    }
}
