//! Where a workload was: its operations made again without the volumes that they ran on.
//!
//! A workload is a pure generator: what it does next follows from its specification, its seed, how each
//! operation went and what it was told of the volume's use. The last two are its history
//! ([`RunHistory`]), a few numbers for a round, so the generator is brought to where it was in the time of
//! making its operations up (some millions in a second) and no state of it has to be saved.
//!
//! A history may come from a store that somebody else wrote, so it is held to what a run on this volume can
//! have left. It inspects the volume wherever a run does, it sees no more than the volume has, and the files
//! that it leads to have room there. That bounds the memory that making it up takes by what the run itself
//! took; its time ends when that is asked.

use fsage_model::lockstep::{RunHistory, SeenUsage};
use fsage_model::operation::{Operation, Outcome};

use super::LockstepError;
use super::place::{Ended, Lead, estimate, feedback};
use crate::load::{Fullness, Usage, bytes_moved};
use crate::workload::Feedback;

/// Bytes that a file takes at least, beside its data: ext4's smallest inode. Others take more.
const INODE_BYTES: u64 = 128;

/// Bytes of a file's last block that need no room of their own: it may lie in the inode.
const INLINE_BYTES: u64 = 4096;

/// What two mounts of one volume may differ by in its size, as its divisor: a file system does not always count
/// the same trees of its own.
const RESIZED: u64 = 16;

const fn usage(SeenUsage(used_bytes, total_bytes): SeenUsage) -> Usage {
    Usage { used_bytes, total_bytes }
}

/// A history that no run on the volume can have left, and why.
pub(super) const fn refused(what: &'static str) -> LockstepError {
    LockstepError::Past { what }
}

/// A run that is over, in the leader's place.
pub(super) struct Past<'a> {
    fullness: Fullness,
    /// Operations that were done in this run.
    operations: u64,
    /// Bytes written since the volume was last inspected.
    since_look: u64,
    /// Size of the volume, as two mounts may differ in it.
    volume_bytes: u64,
    looks: &'a [(u64, SeenUsage)],
    parts: &'a [SeenUsage],
    failures: &'a [(u64, i32)],
}

impl<'a> Past<'a> {
    /// At the beginning of the run, when the model's files have `live_bytes`, on a volume of `volume_bytes`.
    ///
    /// # Errors
    /// The run saw more than the volume has.
    pub(super) fn new(
        history: &'a RunHistory,
        live_bytes: u64,
        volume_bytes: u64,
    ) -> Result<Self, LockstepError> {
        let looks = history.looks.iter().map(|(_, seen)| seen);
        let most = volume_bytes.saturating_add(volume_bytes / RESIZED);
        let fits = |seen: &SeenUsage| seen.0 <= seen.1 && seen.1 <= most;
        if !looks.chain(&history.parts).chain([&history.begun]).all(fits) {
            return Err(refused("it saw more in use than the volume has room for"));
        }
        Ok(Self {
            fullness: estimate(usage(history.begun), live_bytes),
            operations: 0,
            since_look: 0,
            volume_bytes: most,
            looks: &history.looks,
            parts: &history.parts,
            failures: &history.failures,
        })
    }

    /// Whether all that was is reported.
    pub(super) const fn is_over(&self) -> bool {
        self.looks.is_empty() && self.parts.is_empty() && self.failures.is_empty()
    }

    /// Whether the next look was after this operation.
    fn looked(&self) -> bool {
        self.looks.first().is_some_and(|(number, _)| *number == self.operations)
    }
}

/// Whether so many files, of so many bytes in whole blocks, can have been on a volume of `volume_bytes`.
const fn has_room(files: u64, live_bytes: u64, volume_bytes: u64) -> bool {
    let data = live_bytes.saturating_sub(files.saturating_mul(INLINE_BYTES));
    data.saturating_add(files.saturating_mul(INODE_BYTES)) <= volume_bytes
}

impl Lead for Past<'_> {
    fn feedback(&self) -> Feedback {
        feedback(&self.fullness)
    }

    fn execute(&mut self, operation: &Operation) -> Result<Outcome, LockstepError> {
        self.operations += 1;
        self.since_look = self.since_look.saturating_add(bytes_moved(operation).0);
        let errno = match self.failures.split_first() {
            Some(((number, errno), later)) if *number == self.operations => {
                self.failures = later;
                *errno
            }
            _ => 0,
        };
        Ok(Outcome { errno, latency_ns: 0 })
    }

    fn took(&mut self, before: u64, now: u64, files: u64) -> Result<(), LockstepError> {
        self.fullness.add(now.cast_signed() - before.cast_signed());
        if has_room(files, now, self.volume_bytes) {
            Ok(())
        } else {
            Err(refused("it leads to more files than the volume has room for"))
        }
    }

    /// Whether the run looked now, or had to.
    fn is_due(&self) -> bool {
        self.looked() || self.since_look >= self.fullness.due_bytes()
    }

    fn look(&mut self) -> Result<(), LockstepError> {
        let (true, Some(((_, found), later))) = (self.looked(), self.looks.split_first()) else {
            return Err(refused("it did not look at the volume where a run does"));
        };
        self.looks = later;
        self.since_look = 0;
        self.fullness.correct(usage(*found));
        Ok(())
    }

    fn end_part(&mut self) -> Result<Ended, LockstepError> {
        let Some((found, later)) = self.parts.split_first() else {
            return Err(refused("it ends before the workload's round does"));
        };
        self.parts = later;
        self.since_look = 0;
        self.fullness.correct(usage(*found));
        Ok(Ended::of(usage(*found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_need_room_for_their_data_and_their_inodes() {
        // 1 GiB: files of 100 KiB, and of 100 bytes in an inode.
        let of = |files: u64, bytes: u64| has_room(files, files * bytes, 1 << 30);
        assert!(of(10_000, 100 << 10) && !of(12_000, 100 << 10));
        assert!(of(8 << 20, 4096) && !of(9 << 20, 4096));
        assert!(!has_room(u64::MAX, u64::MAX, 1 << 30) && has_room(0, 0, 1 << 30));
    }

    #[test]
    fn a_run_sees_no_more_than_there_is() {
        let history = |seen| RunHistory { begun: seen, ..RunHistory::default() };
        let of = |used, total| Past::new(&history(SeenUsage(used, total)), 0, 1600).is_ok();
        assert!(of(0, 1600) && of(1600, 1600) && of(1700, 1700));
        assert!(!of(1601, 1600) && !of(0, 1701) && !of(0, u64::MAX));
    }
}
