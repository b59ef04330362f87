//! Workloads: pure, seeded generators of operations.
//!
//! A workload sees a model of the tree and the outcome of earlier operations, never the file system. Each
//! thread has its own workload over its own part of the tree, so the final logical state does not depend
//! on how threads interleave.

pub mod spec;

use crate::operation::{Operation, Outcome};

/// What a workload may know of the volume; refreshed by the executor now and then.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Feedback {
    /// Share of the volume in use (0..=1), estimated between two looks at `statfs`.
    pub used_share: f64,
    /// Size of the volume in bytes.
    pub total_bytes: u64,
}

/// A seeded generator of operations over one thread's part of the tree.
pub trait Workload: Send {
    /// The next operation, or nothing when the pick found no object to work on (a miss: not an
    /// operation). Cost matters: called once an operation, must not allocate.
    fn next(&mut self, feedback: &Feedback) -> Option<Operation>;

    /// A delete of a random live file, for upkeep (`Maintain`, and getting out of a full volume); nothing when
    /// no file is left. Its outcome comes through [`Workload::completed`] as any other's. It is not counted
    /// as an operation of the load.
    fn release(&mut self) -> Option<Operation> {
        None
    }

    /// Tells how the operation went; the model changes only on success.
    fn completed(&mut self, operation: &Operation, outcome: &Outcome);
}
