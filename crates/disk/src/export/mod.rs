//! The ways a disk becomes a block device.
//!
//! | export | what it is | where |
//! | --- | --- | --- |
//! | [`fuse`] | a file, for a loop device with direct I/O | every kernel that has FUSE |
//! | [`nbd`] | a network block device on a Unix socket | everywhere: QEMU, `nbd-client`, libnbd |
//!
//! Every export goes through the one [`Gate`] of the disk: it refuses what the disk does not have, counts, and keeps the time.
//! The same contract suite (`tests/export_contract.rs`) runs on each of them.
//!
//! **Batches.** An export gathers the requests that wait for it and hands them over together: the medium's model
//! orders them as a device orders its queue.

pub mod fuse;
mod gate;
pub mod nbd;

pub use gate::{DelayError, Gate, GateCounts, TimeMode, Wall};

use crate::request::Transfer;

/// Largest number of requests that are handed over together: as many as a loop device ever has under way.
pub const BATCH: usize = 128;

/// What is exported: anything that serves requests.
pub trait Backend: Send {
    /// Its size.
    fn size_bytes(&self) -> u64;

    /// Offsets and lengths are multiples of this.
    fn block_bytes(&self) -> u32;

    /// Serves the requests that wait together, in the order in which they came: a later one sees what an earlier one wrote. All
    /// lie within the disk, are aligned to its blocks and have the data they need.
    fn submit(&mut self, transfers: &mut [Transfer<'_>]);
}
