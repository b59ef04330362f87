//! Requests from a queue to the gate, and answers back.
//!
//! One thread. What waits is gathered, handed to the gate in one batch and answered; then again. In real
//! time, answers to reads and writes are held until they are due; those that arrive meanwhile are the next
//! batch, and everything else is served when it arrives (see [`crate::export::Gate`]). Answers may be given
//! in any order. No memory is asked for once the loop runs.

use fsage_model::disk::DiskTime;
use fsage_sys::clock;
use fsage_sys::ublk::Descriptor;

use super::{decode, result};
use crate::export::gate::hand_over;
use crate::export::{BATCH, Backend, Gate, Heartbeat};
use crate::request::{Data, IoError, Operation, Request, Transfer};

/// Room for one request and its data, [`super::MAX_TRANSFER_BYTES`] long.
pub trait Slot {
    /// What is asked.
    fn descriptor(&self) -> Descriptor;
    /// The data of a write, and what is behind it.
    fn data(&self) -> &[u8];
    /// Room for the data of a read.
    fn data_mut(&mut self) -> &mut [u8];
}

/// Where requests come from and answers go to.
pub trait Queue {
    /// What requests come in.
    type Slot: Slot;

    /// Adds the requests that wait to `arrived`; waits for one if there is none, at most `timeout_ns`. May
    /// come back with none. `false`: no more will come, and none is unanswered.
    ///
    /// # Errors
    /// The kernel's.
    fn receive(&mut self, arrived: &mut Vec<Self::Slot>, timeout_ns: Option<u64>) -> fsage_sys::Result<bool>;

    /// Answers with bytes, 0 or a negative error number, and takes the slot back.
    ///
    /// # Errors
    /// The kernel's.
    fn answer(&mut self, slot: Self::Slot, result: i32) -> fsage_sys::Result<()>;

    /// How many slots there are.
    fn slots(&self) -> usize;
}

/// A request to the disk, in its slot.
struct Job<S> {
    slot: S,
    request: Request,
    result: Result<(), IoError>,
    /// When to answer; nothing: at once.
    due_ns: Option<u64>,
}

/// Serves until no more requests come.
///
/// # Errors
/// What the queue says.
pub fn serve<B: Backend, Q: Queue>(
    gate: &Gate<B>,
    queue: &mut Q,
    heartbeat: &Heartbeat,
) -> fsage_sys::Result<()> {
    let slots = queue.slots();
    let mut arrived = Vec::with_capacity(slots);
    let mut waiting = Vec::with_capacity(slots);
    let mut held: Vec<Job<Q::Slot>> = Vec::with_capacity(slots);
    loop {
        heartbeat.rest();
        let next_due_ns = held.iter().filter_map(|job| job.due_ns).min();
        let timeout_ns = next_due_ns.map(|due_ns| due_ns.saturating_sub(clock::raw_ns()));
        let goes_on = queue.receive(&mut arrived, timeout_ns)?;
        heartbeat.work();
        for slot in arrived.drain(..) {
            take(gate, queue, &mut waiting, slot)?;
        }
        answer_due(gate, queue, &mut held)?;
        if held.is_empty() {
            for batch in waiting.chunks_mut(BATCH) {
                submit(gate, batch);
            }
            held.append(&mut waiting);
            answer_due(gate, queue, &mut held)?;
        }
        if !goes_on {
            return Ok(());
        }
    }
}

/// Decides about a request that has come.
fn take<B: Backend, Q: Queue>(
    gate: &Gate<B>,
    queue: &mut Q,
    waiting: &mut Vec<Job<Q::Slot>>,
    slot: Q::Slot,
) -> fsage_sys::Result<()> {
    let request = match decode(&slot.descriptor()) {
        Ok(request) => request,
        Err(errno) => return queue.answer(slot, -errno.raw_os_error()),
    };
    let mut job = Job { slot, request, result: Ok(()), due_ns: None };
    // In real time the others may wait for long.
    if gate.time() == DiskTime::Model || matches!(request.operation, Operation::Read | Operation::Write) {
        waiting.push(job);
        return Ok(());
    }
    submit(gate, std::slice::from_mut(&mut job));
    queue.answer(job.slot, result(&job.request, job.result))
}

/// Answers what is due, or was never held.
fn answer_due<B: Backend, Q: Queue>(
    gate: &Gate<B>,
    queue: &mut Q,
    held: &mut Vec<Job<Q::Slot>>,
) -> fsage_sys::Result<()> {
    let mut index = 0;
    while let Some(job) = held.get(index) {
        if let Some(due_ns) = job.due_ns {
            let now_ns = clock::raw_ns();
            if due_ns > now_ns {
                index += 1;
                continue;
            }
            gate.note_late(now_ns - due_ns);
        }
        let job = held.swap_remove(index);
        queue.answer(job.slot, result(&job.request, job.result))?;
    }
    Ok(())
}

/// Hands a batch over, and keeps what became of each request.
fn submit<B: Backend, S: Slot>(gate: &Gate<B>, jobs: &mut [Job<S>]) {
    let (wall, outcomes) = hand_over(gate, jobs.iter_mut().map(transfer).collect());
    for (job, (result, done_ns)) in jobs.iter_mut().zip(outcomes) {
        job.result = result;
        job.due_ns = wall.due_ns(job.request.operation, done_ns);
    }
}

/// What a slot has no room for fails at the gate: the data is not as long as the request says.
fn transfer<S: Slot>(job: &mut Job<S>) -> Transfer<'_> {
    let length = usize::try_from(job.request.length_bytes).unwrap_or(usize::MAX);
    let data = match job.request.operation {
        Operation::Read => Data::In(job.slot.data_mut().get_mut(..length).unwrap_or_default()),
        Operation::Write => Data::Out(job.slot.data().get(..length).unwrap_or_default()),
        Operation::Flush | Operation::Discard | Operation::Zero => Data::None,
    };
    Transfer::new(job.request, data)
}
