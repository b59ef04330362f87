//! Counters of a thread.

use std::sync::atomic::AtomicU64;

use fsage_model::operation::OperationKind;

/// What a thread did so far.
#[derive(Debug, Clone)]
pub struct Tally {
    pub operations: u64,
    pub missed: u64,
    pub upkeep: u64,
    /// Failures without a free inode.
    pub without_inode: u64,
    pub bytes_written: u64,
    pub bytes_read: u64,
    pub succeeded: [u64; OperationKind::ALL.len()],
    /// By errno.
    pub failed: [u64; ERRNOS],
}

/// Errnos distinguished; the kernel has 133.
const ERRNOS: usize = 134;

impl Default for Tally {
    fn default() -> Self {
        Self {
            operations: 0,
            missed: 0,
            upkeep: 0,
            without_inode: 0,
            bytes_written: 0,
            bytes_read: 0,
            succeeded: [0; OperationKind::ALL.len()],
            failed: [0; ERRNOS],
        }
    }
}

/// A thread's counters that others may read at any time, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    pub operations: AtomicU64,
    pub bytes_written: AtomicU64,
    /// Bytes written in place at the end.
    pub materialised: AtomicU64,
}
