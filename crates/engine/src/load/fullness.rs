//! How full the volume is, without asking it at every operation.
//!
//! used ≈ live bytes of the model + overhead. The first is kept by the threads (block-rounded, in an atomic
//! that each adds to every few operations); the second, whatever `statfs` counts beyond, is corrected at
//! every look. ext2–4, xfs, f2fs and tmpfs count space at once, delayed allocation included, so a look is one
//! `statfs`. Others (btrfs above all) count data when it is written back and free it when a transaction
//! commits: there a look is `syncfs` and `statfs`, made whenever 1 % of the volume was written.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::operation::{Operation, OperationKind};
use crate::quantity::share;

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

/// `f_type` of the file systems whose `statfs` is right at any moment (`linux/magic.h`): ext2–4, xfs, tmpfs, f2fs.
const COUNT_AT_ONCE: [u64; 4] = [0xEF53, 0x5846_5342, 0x0102_1994, 0xF2F5_2010];

/// `f_type` of those that never overwrite data where it is: btrfs, bcachefs, zfs, nilfs2.
const COPY_ON_WRITE: [u64; 4] = [0x9123_683E, 0xCA45_1A4E, 0x2FC1_2FC1, 0x3434];

/// What must be known of a kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemTraits {
    /// `statfs` is right at any moment.
    pub counts_at_once: bool,
    /// Overwriting keeps the blocks.
    pub in_place: bool,
}

/// Looks the traits up by `statfs`' type.
pub fn traits(directory: BorrowedFd<'_>) -> Result<FileSystemTraits, Errno> {
    let facts = rustix::fs::fstatfs(directory)?;
    // Signed on some targets; the magic numbers are 32 bits.
    #[expect(clippy::cast_sign_loss, reason = "the low 32 bits are what counts")]
    let kind = facts.f_type as u64 & 0xffff_ffff;
    Ok(FileSystemTraits {
        counts_at_once: COUNT_AT_ONCE.contains(&kind),
        in_place: !COPY_ON_WRITE.contains(&kind),
    })
}

/// The estimate, shared by the threads.
#[derive(Debug)]
pub struct Fullness {
    total_bytes: u64,
    counts_at_once: bool,
    target: Option<f64>,
    live: AtomicI64,
    overhead: AtomicI64,
    /// Bytes written since the last look.
    written: AtomicU64,
}

/// Operations between two looks near the target, and far from it (counted by one thread).
const LOOK_NEAR: u64 = 256;
const LOOK_FAR: u64 = 2048;
/// How near is near, as a share of the volume.
const NEAR: f64 = 0.03;

impl Fullness {
    /// An estimate that starts from `usage` with no live bytes. `target` is the use to be held, if any.
    pub const fn new(usage: Usage, counts_at_once: bool, target: Option<f64>) -> Self {
        Self {
            total_bytes: usage.total_bytes,
            counts_at_once,
            target,
            live: AtomicI64::new(0),
            overhead: AtomicI64::new(usage.used_bytes.cast_signed()),
            written: AtomicU64::new(0),
        }
    }

    /// Size of the volume.
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Adds what a thread did since it last did.
    pub fn add(&self, live: i64, written: u64) {
        self.live.fetch_add(live, Ordering::Relaxed);
        self.written.fetch_add(written, Ordering::Relaxed);
    }

    /// The estimated share in use.
    pub fn used_share(&self) -> f64 {
        let used = self.live.load(Ordering::Relaxed) + self.overhead.load(Ordering::Relaxed);
        share(u64::try_from(used).unwrap_or(0), self.total_bytes)
    }

    /// Whether it is time to look, `operations` after the last one of the thread whose duty it is.
    pub fn is_due(&self, operations: u64) -> bool {
        let Some(target) = self.target else { return false };
        if !self.counts_at_once {
            return self.written.load(Ordering::Relaxed) > self.total_bytes / 100;
        }
        let near = (self.used_share() - target).abs() < NEAR;
        operations >= if near { LOOK_NEAR } else { LOOK_FAR }
    }

    /// Looks at the volume and corrects the estimate.
    pub fn look(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        self.written.store(0, Ordering::Relaxed);
        if !self.counts_at_once {
            rustix::fs::syncfs(directory)?;
        }
        let live = self.live.load(Ordering::Relaxed);
        let usage = usage(directory)?;
        self.overhead.store(usage.used_bytes.cast_signed().saturating_sub(live), Ordering::Relaxed);
        Ok(())
    }
}

/// Bytes that a successful operation writes (or allocates), and reads.
pub fn bytes_moved(operation: &Operation) -> (u64, u64) {
    use OperationKind as K;
    let accesses = || {
        (0..operation.accesses.max(1))
            .map(|access| operation.length.min(operation.size.saturating_sub(operation.access(access))))
            .sum()
    };
    match operation.kind {
        K::Create | K::Append | K::Overwrite => (operation.length, 0),
        K::RandomWrite => (accesses(), 0),
        K::Read => (0, operation.size),
        K::RandomRead => (0, accesses()),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Place;

    fn operation(kind: OperationKind, offset: u64, length: u64, size: u64) -> Operation {
        let place = Place::default();
        Operation { kind, file: 1, place, target: place, offset, length, size, version: 1, accesses: 1 }
    }

    #[test]
    fn bytes_stop_at_the_end_of_the_file() {
        assert_eq!(bytes_moved(&operation(OperationKind::RandomRead, 4096, 4096, 5000)), (0, 904));
        assert_eq!(bytes_moved(&operation(OperationKind::Create, 0, 77, 0)), (77, 0));
    }

    #[test]
    fn the_estimate_follows_the_model_between_looks() {
        let usage = Usage { used_bytes: 100, total_bytes: 1000 };
        let fullness = Fullness::new(usage, true, Some(0.5));
        assert!((fullness.used_share() - 0.1).abs() < 1e-9);
        fullness.add(390, 390);
        assert!((fullness.used_share() - 0.49).abs() < 1e-9);
        assert!(fullness.is_due(256) && !fullness.is_due(255), "near the target");
        fullness.add(-390, 0);
        assert!(fullness.is_due(2048) && !fullness.is_due(2047), "far from it");
    }
}
