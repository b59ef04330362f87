//! The disk as the file `disk` in a FUSE mount, for a loop device on top.
//!
//! The mount holds one file. Reads and writes go round the page cache (`FOPEN_DIRECT_IO`), several at a time
//! (`ASYNC_DIO`, `FOPEN_PARALLEL_DIRECT_WRITES`), up to 1 MiB each. The kernel's write-back cache is never
//! asked for: it would merge and reorder writes. What the block layer asks arrives so:
//!
//! | block layer | loop and FUSE |
//! | --- | --- |
//! | write, read | `WRITE`, `READ` |
//! | flush before (`PREFLUSH`) | `FSYNC` |
//! | force unit access | `WRITE`, then `FSYNC`: loop has no FUA |
//! | discard | `FALLOCATE` to punch a hole, up to 1 GiB |
//! | write zeroes | `FALLOCATE` of mode 0x11 (0x3 where it may be unmapped) |
//!
//! [`Session`] mounts, [`Session::serve`] answers until the mount is gone. Two transports carry requests:
//! `read` and `write` of `/dev/fuse` everywhere, io_uring where the kernel offers it.
//!
//! Known limit: several flushes are often asked for while a write has been answered by us but not yet been
//! completed in the block layer. A log kept here takes such a write for flushed, which is slightly too kind.

mod device;
mod engine;
mod node;
mod openings;
mod ring;
mod session;
mod uring_switch;

pub use super::heartbeat::Heartbeat;
pub use session::{Choice, FuseError, Session};
pub use uring_switch::restore as restore_switch;

/// Largest read or write in bytes.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;
/// The name of the file.
pub const FILE_NAME: &str = "disk";
