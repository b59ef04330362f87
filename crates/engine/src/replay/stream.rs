//! The recorded operations of each thread, as sources of a load.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use fsage_model::digest::Digest;
use fsage_model::operation::{Operation, Outcome};
use fsage_model::replay::Divergence;

use super::pace::{Lateness, Pace, sleep_sharply};
use super::state::Counter;
use crate::load::{Source, Step};
use crate::trace::{Checkpoint, Reader, TraceError};
use crate::workload::{Feedback, LiveFile, Model};

/// Operations handed over at once.
const BATCH: usize = 1024;

/// Batches that may wait for one thread.
const WAITING: usize = 64;

/// How long a thread waits for operations before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(20);

/// One recorded operation.
#[derive(Debug, Clone, Copy)]
pub struct Deal {
    pub operation: Operation,
    /// Its place in the thread's sequence.
    pub sequence: u64,
    /// Its row in the trace.
    pub row: u64,
    /// When it was recorded; nothing for what belongs to no time.
    pub start_ns: Option<u64>,
    /// It failed when recorded: not done, but the model has to know.
    pub failed: bool,
}

/// What a thread continues from, and what it has to mind.
#[derive(Debug)]
pub struct Start {
    /// The tree that is there.
    pub model: Model,
    /// Records of the thread that are in it already.
    pub done: u64,
    /// Digests to be compared on the way.
    pub checkpoints: VecDeque<Checkpoint>,
    /// When operations are due.
    pub pace: Option<Arc<Pace>>,
    /// Where it is noted how far the thread is.
    pub counter: Option<Counter>,
}

/// What a thread saw.
#[derive(Debug)]
pub struct Seen {
    /// The first operation that ended otherwise than when it was recorded.
    pub divergence: Option<Divergence>,
    /// Checkpoints whose digest was the recorded one.
    pub matched: u64,
    /// The first whose digest was not, with the one found.
    pub mismatch: Option<(Checkpoint, Digest)>,
    pub lateness: Lateness,
}

/// One thread's recorded operations.
#[derive(Debug)]
pub struct Recorded {
    batches: Receiver<Vec<Deal>>,
    batch: std::vec::IntoIter<Deal>,
    /// Taken out of the batch, and not due yet.
    waiting: Option<Deal>,
    /// Under way.
    current: Option<Deal>,
    model: Model,
    checkpoints: VecDeque<Checkpoint>,
    /// Records that the model has.
    done: u64,
    pace: Option<Arc<Pace>>,
    sharp: bool,
    counter: Option<Counter>,
    seen: Seen,
}

/// Streams and sources, one of each start.
pub fn open_streams(starts: Vec<Start>) -> (Vec<Sender<Vec<Deal>>>, Vec<Recorded>) {
    starts
        .into_iter()
        .map(|start| {
            let (stream, batches) = bounded(WAITING);
            let lateness = Lateness::new();
            let seen = Seen { divergence: None, matched: 0, mismatch: None, lateness };
            let Start { model, done, checkpoints, pace, counter } = start;
            let (batch, waiting, current, sharp) = (Vec::new().into_iter(), None, None, false);
            let source = Recorded {
                batches,
                batch,
                waiting,
                current,
                model,
                checkpoints,
                done,
                pace,
                sharp,
                counter,
                seen,
            };
            (stream, source)
        })
        .unzip()
}

/// How many operations were dealt out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dealt {
    /// Operations to be done, those of the last batch that nobody took included.
    pub operations: u64,
    /// Those that failed when recorded.
    pub failed: u64,
    /// The trace was read to its end and a thread took every batch.
    pub whole: bool,
}

/// Reads the trace and deals its operations out; of each thread the first `done` are left out.
///
/// # Errors
/// The trace cannot be read on; the sources then end as if it ended there.
pub fn feed(reader: Reader, streams: &[Sender<Vec<Deal>>], done: &[u64]) -> Result<Dealt, TraceError> {
    let mut batches: Vec<Vec<Deal>> = streams.iter().map(|_| Vec::with_capacity(BATCH)).collect();
    let path = reader.path().to_owned();
    let prelude = reader.preamble().prelude;
    let mut dealt = Dealt { whole: true, ..Dealt::default() };
    for (row, record) in (0_u64..).zip(reader) {
        let record = record?;
        let thread = usize::try_from(record.thread).unwrap_or(usize::MAX);
        let (Some(batch), Some(stream)) = (batches.get_mut(thread), streams.get(thread)) else {
            let what = format!("it has an operation of thread {thread}, but only {} began", streams.len());
            return Err(TraceError::Damaged { path, what });
        };
        if done.get(thread).is_some_and(|done| record.sequence < *done) {
            continue;
        }
        let failed = record.outcome.errno != 0;
        *(if failed { &mut dealt.failed } else { &mut dealt.operations }) += 1;
        let start_ns = (row >= prelude).then_some(record.start_ns);
        batch.push(Deal { operation: record.operation, sequence: record.sequence, row, start_ns, failed });
        if batch.len() == BATCH && stream.send(std::mem::replace(batch, Vec::with_capacity(BATCH))).is_err() {
            // The load has ended: nobody reads on.
            return Ok(Dealt { whole: false, ..dealt });
        }
    }
    for (batch, stream) in batches.into_iter().zip(streams) {
        dealt.whole &= batch.is_empty() || stream.send(batch).is_ok();
    }
    Ok(dealt)
}

impl Recorded {
    /// The tree as the operations that succeeded leave it.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// What the thread saw.
    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes no more operations, so that the feeder does not wait for this thread.
    pub fn hang_up(mut self) -> Self {
        self.batches = crossbeam_channel::never();
        self
    }

    /// Compares the digest where the trace has one for this place.
    fn check(&mut self) {
        while let Some(checkpoint) = self.checkpoints.front().copied() {
            if checkpoint.sequence > self.done {
                return;
            }
            self.checkpoints.pop_front();
            if checkpoint.sequence < self.done {
                continue;
            }
            let found = self.model.digest();
            if found == checkpoint.digest {
                self.seen.matched += 1;
            } else {
                self.seen.mismatch.get_or_insert((checkpoint, found));
            }
        }
    }

    /// Gives an operation out when it is due.
    fn give(&mut self, deal: Deal) -> Step {
        if let (Some(pace), Some(start_ns)) = (&self.pace, deal.start_ns) {
            if !std::mem::replace(&mut self.sharp, true) {
                sleep_sharply();
            }
            let Some(late_ns) = pace.wait(start_ns, PATIENCE) else {
                self.waiting = Some(deal);
                return Step::Wait;
            };
            self.seen.lateness.record(late_ns);
        }
        self.current = Some(deal);
        Step::Do(deal.operation)
    }
}

impl Source for Recorded {
    fn next(&mut self, _: &Feedback) -> Step {
        if let Some(deal) = self.waiting.take() {
            return self.give(deal);
        }
        loop {
            if !self.checkpoints.is_empty() {
                self.check();
            }
            if let Some(deal) = self.batch.next() {
                if !deal.failed {
                    return self.give(deal);
                }
                self.model.fail(&deal.operation);
                self.done = deal.sequence + 1;
                continue;
            }
            // Never for long: a load that is stopped must not wait for a feeder that waits for others.
            match self.batches.recv_timeout(PATIENCE) {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(RecvTimeoutError::Timeout) => return Step::Wait,
                Err(RecvTimeoutError::Disconnected) => return Step::End,
            }
        }
    }

    fn release(&mut self) -> Option<Operation> {
        None
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        let deal = self.current.take();
        if let Some(deal) = deal.filter(|_| outcome.errno != 0 && self.seen.divergence.is_none()) {
            self.seen.divergence = Some(divergence(&self.model, &deal, outcome.errno));
        }
        if outcome.errno == 0 {
            self.model.apply(operation);
        } else {
            self.model.fail(operation);
        }
        if let Some(deal) = deal {
            self.done = deal.sequence + 1;
        }
        if let Some(counter) = &self.counter {
            counter.set(self.done);
        }
    }

    fn interrupted(&mut self, operation: &Operation, _: &Outcome) {
        // Still to be done when the replay is resumed: neither the model nor the counter goes on.
        self.model.fail(operation);
        self.current = None;
    }

    fn is_stuck(&self) -> bool {
        false
    }

    fn live_bytes(&self) -> u64 {
        self.model.block_bytes()
    }

    fn files(&self) -> u64 {
        self.model.files()
    }

    fn digest(&self) -> Digest {
        self.model.digest()
    }

    fn try_for_each_live<E>(&self, visit: impl FnMut(LiveFile) -> Result<(), E>) -> Result<(), E> {
        self.model.live_files().try_for_each(visit)
    }
}

/// What is reported of an operation that ended otherwise than it was recorded.
fn divergence(model: &Model, deal: &Deal, errno: i32) -> Divergence {
    Divergence {
        operation: deal.row,
        thread: model.thread(),
        sequence: deal.sequence,
        kind: deal.operation.kind(),
        path: model.path_of(&deal.operation),
        expected: "success".to_owned(),
        found: fsage_sys::errno::name(errno).to_owned(),
    }
}
