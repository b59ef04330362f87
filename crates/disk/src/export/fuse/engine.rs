//! Requests from a carrier to the gate, and answers back.
//!
//! One thread. What waits is gathered, handed to the gate in one batch and answered; then again. In real
//! time, answers are held until they are due; what arrives meanwhile waits and becomes the next batch, as it
//! would in a device's queue, but flushes, discards and zeroes are served when they arrive (see
//! [`crate::export::Gate`]).
//!
//! No memory is asked for once the loop runs: requests stay in the carrier's slots, which move between lists
//! of fixed capacity.

use fsage_model::disk::DiskTime;
use fsage_sys::clock;
use fsage_sys::fuse::reply;
use fsage_sys::fuse::request::{self, Message};
use rustix::io::Errno;

use super::node::{Action, Tree};
use super::openings::Openings;
use crate::export::gate::hand_over;
use crate::export::{BATCH, Backend, Gate, Heartbeat, errno};
use crate::request::{Data, IoError, Operation, Request, Transfer};

/// Room for one request and its answer.
pub(super) trait Slot {
    /// The request.
    fn message(&self) -> Message<'_>;
    /// Room for what is read, as large as the largest read. The request's payload may be gone after this.
    fn data_mut(&mut self) -> &mut [u8];
}

/// How long to wait when nothing waits for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until something comes.
    Forever,
    /// Until this time ([`clock::raw_ns`]).
    Until(u64),
}

impl Wait {
    /// Nanoseconds from now.
    pub fn timeout_ns(self) -> Option<u64> {
        match self {
            Self::Forever => None,
            Self::Until(due_ns) => Some(due_ns.saturating_sub(clock::raw_ns())),
        }
    }
}

/// The answer to a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reply<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// The first so many bytes of the slot's data.
    Data(usize),
    /// This error.
    Error(Errno),
    /// None is expected.
    Nothing,
}

/// What carries requests here and answers back.
pub(super) trait Carrier {
    type Slot: Slot;

    /// Adds the requests that wait to `arrived`; waits for one if there is none. May come back with none.
    /// `false`: the mount is gone.
    fn receive(&mut self, arrived: &mut Vec<Self::Slot>, wait: Wait) -> fsage_sys::Result<bool>;

    /// Answers, and takes the slot back.
    fn answer(&mut self, slot: Self::Slot, unique: u64, reply: Reply<'_>) -> fsage_sys::Result<()>;

    /// How many slots there are.
    fn slots(&self) -> usize;
}

/// A request to the disk, in its slot.
struct Job<S> {
    slot: S,
    unique: u64,
    request: Request,
    result: Result<(), IoError>,
    /// When to answer; nothing: at once.
    due_ns: Option<u64>,
}

/// The loop and what it holds.
pub(super) struct Engine<'a, B, C: Carrier> {
    gate: &'a Gate<B>,
    carrier: C,
    tree: Tree,
    heartbeat: Heartbeat,
    arrived: Vec<C::Slot>,
    /// Not handed over yet.
    waiting: Vec<Job<C::Slot>>,
    /// Served, but not due yet.
    held: Vec<Job<C::Slot>>,
}

impl<'a, B: Backend, C: Carrier> Engine<'a, B, C> {
    pub fn new(gate: &'a Gate<B>, carrier: C, heartbeat: Heartbeat) -> Self {
        let slots = carrier.slots();
        Self {
            gate,
            tree: Tree {
                size_bytes: gate.size_bytes(),
                block_bytes: gate.block_bytes(),
                openings: gate.has_drives().then(Openings::default),
            },
            carrier,
            heartbeat,
            arrived: Vec::with_capacity(slots),
            waiting: Vec::with_capacity(slots),
            held: Vec::with_capacity(slots),
        }
    }

    /// Serves until the mount is gone.
    pub fn run(&mut self) -> fsage_sys::Result<()> {
        if self.gate.time() == DiskTime::Real {
            // The kernel's default of 50 µs is as long as a read of flash. Where it is not allowed, lateness tells.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        loop {
            self.heartbeat.rest();
            let next_due_ns = self.held.iter().filter_map(|job| job.due_ns).min();
            let wait = next_due_ns.map_or(Wait::Forever, Wait::Until);
            let mut goes_on = self.receive(wait)?;
            self.heartbeat.work();
            if self.gate.gather_ns() > 0 {
                goes_on = goes_on && self.gather()?;
            }
            self.answer_due()?;
            if self.held.is_empty() {
                self.serve_waiting()?;
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Takes what comes; `false`: the mount is gone.
    #[inline]
    fn receive(&mut self, wait: Wait) -> fsage_sys::Result<bool> {
        let mut arrived = std::mem::take(&mut self.arrived);
        let goes_on = self.carrier.receive(&mut arrived, wait)?;
        for slot in arrived.drain(..) {
            self.take(slot)?;
        }
        self.arrived = arrived;
        Ok(goes_on)
    }

    /// Waits for more of what waits, until nothing comes.
    fn gather(&mut self) -> fsage_sys::Result<bool> {
        let mut known = 0;
        while known < self.waiting.len() && self.waiting.len() < BATCH {
            known = self.waiting.len();
            if !self.receive(Wait::Until(clock::raw_ns() + self.gate.gather_ns()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decides about a request that has come.
    #[inline]
    fn take(&mut self, slot: C::Slot) -> fsage_sys::Result<()> {
        let message = slot.message();
        let Ok(header) = request::header(&message) else {
            return self.carrier.answer(slot, 0, Reply::Nothing);
        };
        let unique = header.unique;
        let mut room = [0; 128];
        match self.tree.decide(&header, &message, &mut room) {
            Action::Transfer(request) => {
                let mut job = Job { slot, unique, request, result: Ok(()), due_ns: None };
                if self.may_wait(request.operation) {
                    self.waiting.push(job);
                    return Ok(());
                }
                serve(self.gate, std::slice::from_mut(&mut job));
                self.answer(job)
            }
            Action::Answer(length) => self.carrier.answer(slot, unique, Reply::Bytes(&room[..length])),
            Action::Refuse(errno) => self.carrier.answer(slot, unique, Reply::Error(errno)),
            Action::Nothing => self.carrier.answer(slot, unique, Reply::Nothing),
        }
    }

    /// Whether a request goes with the others. In real time the others may wait for long.
    fn may_wait(&self, operation: Operation) -> bool {
        self.gate.time() == DiskTime::Model || matches!(operation, Operation::Read | Operation::Write)
    }

    /// Hands over what waits and answers what is due.
    fn serve_waiting(&mut self) -> fsage_sys::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut jobs = std::mem::take(&mut self.waiting);
        for batch in jobs.chunks_mut(BATCH) {
            serve(self.gate, batch);
        }
        for job in jobs.drain(..) {
            if job.due_ns.is_some() {
                self.held.push(job);
            } else {
                self.answer(job)?;
            }
        }
        self.waiting = jobs;
        self.answer_due()
    }

    /// Answers what has been held until now.
    fn answer_due(&mut self) -> fsage_sys::Result<()> {
        let mut index = 0;
        while let Some(job) = self.held.get(index) {
            let now_ns = clock::raw_ns();
            let due_ns = job.due_ns.unwrap_or(0);
            if due_ns > now_ns {
                index += 1;
                continue;
            }
            let job = self.held.swap_remove(index);
            self.gate.note_late(now_ns - due_ns);
            self.answer(job)?;
        }
        Ok(())
    }

    #[inline]
    fn answer(&mut self, job: Job<C::Slot>) -> fsage_sys::Result<()> {
        // A request is at most 1 MiB when it carries data.
        let length = u32::try_from(job.request.length_bytes).unwrap_or(0);
        let written = reply::write(length);
        let reply = match (job.result, job.request.operation) {
            (Ok(()), Operation::Read) => Reply::Data(usize::try_from(length).unwrap_or(0)),
            (Ok(()), Operation::Write) => Reply::Bytes(&written),
            (Ok(()), _) => Reply::Bytes(&[]),
            (Err(error), _) => Reply::Error(errno(error)),
        };
        self.carrier.answer(job.slot, job.unique, reply)
    }
}

/// Hands a batch over, and keeps what became of each request.
fn serve<B: Backend, S: Slot>(gate: &Gate<B>, jobs: &mut [Job<S>]) {
    let (wall, outcomes) = hand_over(gate, jobs.iter_mut().map(transfer).collect());
    for (job, (result, done_ns)) in jobs.iter_mut().zip(outcomes) {
        job.result = result;
        job.due_ns = wall.due_ns(job.request.operation, done_ns);
    }
}

fn transfer<S: Slot>(job: &mut Job<S>) -> Transfer<'_> {
    let length = usize::try_from(job.request.length_bytes).unwrap_or(usize::MAX);
    let data = match job.request.operation {
        // A length that the slot has no room for fails at the gate: the data is not as long as the request
        // says.
        Operation::Read => Data::In(job.slot.data_mut().get_mut(..length).unwrap_or_default()),
        Operation::Write => Data::Out(job.slot.message().payload),
        Operation::Flush | Operation::Discard | Operation::Zero => Data::None,
    };
    Transfer::new(job.request, data)
}
