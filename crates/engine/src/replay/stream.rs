//! The recorded operations of each thread, as sources of a load.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::load::{Source, Step};
use crate::operation::{Operation, Outcome};
use crate::trace::{Reader, TraceError};
use crate::tree::Directory;
use crate::workload::{Feedback, LiveFile, Model};

/// Operations handed over at once.
const BATCH: usize = 1024;

/// Batches that may wait for one thread.
const WAITING: usize = 64;

/// How long a thread waits for operations before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(20);

/// One recorded operation.
#[derive(Debug, Clone, Copy)]
pub enum Deal {
    /// To be done again.
    Do(Operation),
    /// It failed when recorded: not done, but the model has to know.
    Failed(Operation),
}

/// One thread's recorded operations.
#[derive(Debug)]
pub struct Recorded {
    batches: Receiver<Vec<Deal>>,
    batch: std::vec::IntoIter<Deal>,
    model: Model,
}

/// Streams and sources for as many threads as there are initial trees.
pub fn open_streams(initial: &[Vec<Directory>]) -> (Vec<Sender<Vec<Deal>>>, Vec<Recorded>) {
    (0_u32..)
        .zip(initial)
        .map(|(thread, directories)| {
            let (stream, batches) = bounded(WAITING);
            let model = Model::new(thread, directories);
            (stream, Recorded { batches, batch: Vec::new().into_iter(), model })
        })
        .unzip()
}

/// How many operations were dealt out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealt {
    /// Operations to be done, those of the last batch that nobody took included.
    pub operations: u64,
    /// The trace was read to its end and a thread took every batch.
    pub whole: bool,
}

/// Reads the trace and deals its operations out.
///
/// # Errors
/// The trace cannot be read on; the sources then end as if it ended there.
pub fn feed(reader: Reader, streams: &[Sender<Vec<Deal>>]) -> Result<Dealt, TraceError> {
    let mut batches: Vec<Vec<Deal>> = streams.iter().map(|_| Vec::with_capacity(BATCH)).collect();
    let path = reader.path().to_owned();
    let mut dealt = Dealt { operations: 0, whole: true };
    for record in reader {
        let record = record?;
        let thread = usize::try_from(record.thread).unwrap_or(usize::MAX);
        let (Some(batch), Some(stream)) = (batches.get_mut(thread), streams.get(thread)) else {
            let what = format!("it has an operation of thread {thread}, but only {} began", streams.len());
            return Err(TraceError::Damaged { path, what });
        };
        if record.outcome.errno == 0 {
            batch.push(Deal::Do(record.operation));
            dealt.operations += 1;
        } else {
            batch.push(Deal::Failed(record.operation));
        }
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

    /// Takes no more operations, so that the feeder does not wait for this thread.
    pub fn hang_up(mut self) -> Self {
        self.batches = crossbeam_channel::never();
        self
    }
}

impl Source for Recorded {
    fn next(&mut self, _: &Feedback) -> Step {
        loop {
            match self.batch.next() {
                Some(Deal::Do(operation)) => return Step::Do(operation),
                Some(Deal::Failed(operation)) => {
                    self.model.fail(&operation);
                    continue;
                }
                None => {}
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
        if outcome.errno == 0 {
            self.model.apply(operation);
        } else {
            self.model.fail(operation);
        }
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

    fn try_for_each_live<E>(&self, visit: impl FnMut(LiveFile) -> Result<(), E>) -> Result<(), E> {
        self.model.live_files().try_for_each(visit)
    }
}
