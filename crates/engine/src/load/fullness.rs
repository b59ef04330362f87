//! How full the volume is, without asking it at every operation.
//!
//! used ≈ live bytes of the model + overhead. The first is kept by the threads (block-rounded, in an atomic
//! that each adds to every few operations); the second, whatever `statfs` counts beyond, is corrected at
//! every look. A look is `syncfs` and `statfs`: without writing everything out first, `statfs` is several per
//! cent off on a busy volume (measured: xfs +7 % by preallocation and inodes waiting to be freed; btrfs frees
//! when a transaction commits; even ext4 +2 % under two threads). It is made with every thread waiting: at
//! every probe, and where the mix is steered also whenever 1 % to 20 % of the volume was written, seldom when
//! the last looks found little to correct.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fsage_model::operation::{Action, Operation};
use fsage_model::quantity::share;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Space of a file system, as `statfs` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub used_bytes: u64,
    pub total_bytes: u64,
}

/// Asks the file system.
pub fn usage(directory: BorrowedFd<'_>) -> Result<Usage, Errno> {
    let facts = rustix::fs::fstatvfs(directory)?;
    let total_bytes = facts.f_blocks.saturating_mul(facts.f_frsize);
    let free = facts.f_bfree.saturating_mul(facts.f_frsize);
    Ok(Usage { used_bytes: total_bytes.saturating_sub(free), total_bytes })
}

/// Blocks that may be kept for what a file needs beside its data, before a volume counts as out of blocks.
const SLACK_BLOCKS: u64 = 16;

/// Whether a volume has no inode left although it has blocks for `bytes`: why making a file fails with
/// `ENOSPC` then. `false` where inodes are not counted (btrfs), or the file system cannot be asked.
pub fn lacks_inodes(directory: BorrowedFd<'_>, bytes: u64) -> bool {
    rustix::fs::fstatvfs(directory).is_ok_and(|facts| {
        // xfs counts the inodes that its free blocks could hold: without blocks it has none of either.
        let room = facts.f_bavail.saturating_sub(SLACK_BLOCKS).saturating_mul(facts.f_frsize);
        facts.f_files > 0 && facts.f_ffree == 0 && room > 0 && room >= bytes
    })
}

/// The estimate, shared by the threads.
#[derive(Debug)]
pub struct Fullness {
    total_bytes: u64,
    live: AtomicI64,
    overhead: AtomicI64,
    /// Bytes written between two looks.
    due: AtomicU64,
}

/// Bytes written between two looks as divisors of the volume: at least, at most.
const OFTEN: u64 = 100;
const SELDOM: u64 = 5;

/// Corrections, as divisors of the volume, below which looks become rarer and above which more frequent.
const SMALL: u64 = 1000;
const LARGE: u64 = 300;

impl Fullness {
    /// An estimate that starts from `usage` with no live bytes.
    pub const fn new(usage: Usage) -> Self {
        Self {
            total_bytes: usage.total_bytes,
            live: AtomicI64::new(0),
            overhead: AtomicI64::new(usage.used_bytes.cast_signed()),
            due: AtomicU64::new(usage.total_bytes / OFTEN),
        }
    }

    /// Size of the volume.
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Adds what a thread took since it last did.
    pub fn add(&self, live: i64) {
        self.live.fetch_add(live, Ordering::Relaxed);
    }

    /// The estimated share in use.
    pub fn used_share(&self) -> f64 {
        let used = self.live.load(Ordering::Relaxed) + self.overhead.load(Ordering::Relaxed);
        share(u64::try_from(used).unwrap_or(0), self.total_bytes)
    }

    /// Bytes to be written before the next look.
    pub fn due_bytes(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Corrects the estimate by what `statfs` says just after a sync.
    pub fn correct(&self, usage: Usage) {
        let overhead = usage.used_bytes.cast_signed().saturating_sub(self.live.load(Ordering::Relaxed));
        let correction = overhead.abs_diff(self.overhead.swap(overhead, Ordering::Relaxed));
        let (often, seldom) = (self.total_bytes / OFTEN, self.total_bytes / SELDOM);
        let due = self.due.load(Ordering::Relaxed);
        if correction < self.total_bytes / SMALL {
            self.due.store((due * 2).min(seldom), Ordering::Relaxed);
        } else if correction > self.total_bytes / LARGE {
            self.due.store((due / 2).max(often), Ordering::Relaxed);
        }
    }
}

/// Bytes that a successful operation writes (or allocates), and reads.
pub fn bytes_moved(operation: &Operation) -> (u64, u64) {
    let accesses = || operation.accesses().map(|(_, length)| length).sum();
    match operation.action {
        Action::Create { length } | Action::Append { length, .. } => (length, 0),
        Action::Overwrite => (operation.size, 0),
        Action::RandomWrite { .. } => (accesses(), 0),
        Action::Read { .. } => (0, operation.size),
        Action::RandomRead { .. } => (0, accesses()),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::operation::DirectoryEntry;

    #[test]
    fn bytes_stop_at_the_end_of_the_file() {
        let of = |action, size| {
            bytes_moved(&Operation { action, file: 1, place: DirectoryEntry::default(), size, version: 1 })
        };
        assert_eq!(of(Action::RandomRead { offset: 4096, length: 4096, accesses: 1 }, 5000), (0, 904));
        assert_eq!(of(Action::Create { length: 77 }, 0), (77, 0));
    }

    #[test]
    fn the_estimate_follows_the_model_between_looks() {
        let usage = Usage { used_bytes: 100, total_bytes: 1000 };
        let fullness = Fullness::new(usage);
        assert!((fullness.used_share() - 0.1).abs() < 1e-9);
        fullness.add(390);
        assert!((fullness.used_share() - 0.49).abs() < 1e-9);
        assert_eq!(fullness.due_bytes(), 10);
        fullness.correct(Usage { used_bytes: 490, total_bytes: 1000 });
        assert_eq!(fullness.due_bytes(), 20, "nothing to correct: looks become rarer");
        fullness.correct(Usage { used_bytes: 590, total_bytes: 1000 });
        assert!((fullness.used_share() - 0.59).abs() < 1e-9);
        assert_eq!(fullness.due_bytes(), 10, "much to correct: looks become frequent");
    }
}
