//! Where a workload was: its operations made again without the volumes that they ran on.
//!
//! A workload is a pure generator: what it does next follows from its specification, its seed, how each
//! operation went and what it was told of the volume's use. The last two are its history
//! ([`RunHistory`]), a few numbers for a round, so the generator is brought to where it was in the time of
//! making its operations up (some millions in a second) and no state of it has to be saved.

use fsage_model::lockstep::{RunHistory, SeenUsage};
use fsage_model::operation::{Operation, Outcome};

use super::LockstepError;
use super::place::{Ended, Lead, estimate, feedback};
use crate::load::{Fullness, Usage};
use crate::workload::Feedback;

const fn usage(SeenUsage(used_bytes, total_bytes): SeenUsage) -> Usage {
    Usage { used_bytes, total_bytes }
}

/// A run that is over, in the leader's place.
pub(super) struct Past<'a> {
    fullness: Fullness,
    /// Operations that were done in this run.
    operations: u64,
    looks: &'a [(u64, SeenUsage)],
    parts: &'a [SeenUsage],
    failures: &'a [(u64, i32)],
}

impl<'a> Past<'a> {
    /// At the beginning of the run, when the model's files have `live_bytes`.
    pub(super) fn new(history: &'a RunHistory, live_bytes: u64) -> Self {
        Self {
            fullness: estimate(usage(history.begun), live_bytes),
            operations: 0,
            looks: &history.looks,
            parts: &history.parts,
            failures: &history.failures,
        }
    }

    /// Whether all that was is told.
    pub(super) const fn is_over(&self) -> bool {
        self.looks.is_empty() && self.parts.is_empty() && self.failures.is_empty()
    }
}

impl Lead for Past<'_> {
    fn feedback(&self) -> Feedback {
        feedback(&self.fullness)
    }

    fn execute(&mut self, _operation: &Operation) -> Result<Outcome, LockstepError> {
        self.operations += 1;
        let errno = match self.failures.split_first() {
            Some(((number, errno), later)) if *number == self.operations => {
                self.failures = later;
                *errno
            }
            _ => 0,
        };
        Ok(Outcome { errno, latency_ns: 0 })
    }

    fn took(&mut self, before: u64, now: u64) {
        self.fullness.add(now.cast_signed() - before.cast_signed());
    }

    fn is_due(&self) -> bool {
        self.looks.first().is_some_and(|(number, _)| *number == self.operations)
    }

    fn look(&mut self) -> Result<(), LockstepError> {
        let ((_, found), later) = self.looks.split_first().ok_or(LockstepError::Past)?;
        self.looks = later;
        self.fullness.correct(usage(*found));
        Ok(())
    }

    fn end_part(&mut self) -> Result<Ended, LockstepError> {
        let (found, later) = self.parts.split_first().ok_or(LockstepError::Past)?;
        self.parts = later;
        self.fullness.correct(usage(*found));
        Ok(Ended::of(usage(*found)))
    }
}
