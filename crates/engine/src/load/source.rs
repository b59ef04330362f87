//! Where a thread's operations come from: a workload, or a trace.

use fsage_model::digest::Digest;
use fsage_model::operation::{Operation, Outcome};

use crate::workload::{AnyWorkload, Feedback, LiveFile, Workload};

/// What a source gives.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// An operation of the load.
    Do(Operation),
    /// A delete that only makes room: run and recorded in the trace, but not an operation of the load.
    Upkeep(Operation),
    /// A pick that found no object.
    Miss,
    /// Nothing yet: ask again.
    Wait,
    /// Nothing more will come.
    End,
}

/// The operations of one thread and the model they work on.
pub trait Source: Send {
    /// What to do next.
    fn next(&mut self, feedback: &Feedback) -> Step;
    /// A delete for upkeep.
    fn release(&mut self) -> Option<Operation>;
    /// How the last one went.
    fn completed(&mut self, operation: &Operation, outcome: &Outcome);
    /// The last one was ended early, since the load is to stop.
    fn interrupted(&mut self, operation: &Operation, outcome: &Outcome) {
        self.completed(operation, outcome);
    }
    /// Whether nothing can be done any more, whatever is picked.
    fn is_stuck(&self) -> bool;
    /// Bytes of the live files in whole blocks (cheap).
    fn live_bytes(&self) -> u64;
    /// Live files (cheap).
    fn files(&self) -> u64;
    /// Digest of the thread's tree as its model has it (a walk over everything).
    fn digest(&self) -> Digest;
    /// Visits the live files until one fails.
    fn try_for_each_live<E>(&self, visit: impl FnMut(LiveFile) -> Result<(), E>) -> Result<(), E>;
}

impl Source for AnyWorkload {
    #[inline]
    fn next(&mut self, feedback: &Feedback) -> Step {
        let part = self.part();
        match Workload::next(self, feedback) {
            Some(operation) if self.is_upkeep() => Step::Upkeep(operation),
            Some(operation) => Step::Do(operation),
            None if self.is_finished() => Step::End,
            None if self.part() != part => Step::Wait,
            None => Step::Miss,
        }
    }

    fn release(&mut self) -> Option<Operation> {
        Workload::release(self)
    }

    #[inline]
    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        Workload::completed(self, operation, outcome);
    }

    fn is_stuck(&self) -> bool {
        Workload::is_stuck(self)
    }

    fn live_bytes(&self) -> u64 {
        Self::live_bytes(self)
    }

    fn files(&self) -> u64 {
        Self::files(self)
    }

    fn digest(&self) -> Digest {
        Self::digest(self)
    }

    fn try_for_each_live<E>(&self, visit: impl FnMut(LiveFile) -> Result<(), E>) -> Result<(), E> {
        self.live_files().try_for_each(visit)
    }
}
