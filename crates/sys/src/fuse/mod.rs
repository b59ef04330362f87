//! FUSE, from the server's side, without libfuse (`linux/fuse.h`, protocol 7.28 and later).
//!
//! [`Device`] is an open `/dev/fuse`: it is mounted by its descriptor, requests are read from it and answers
//! written to it. [`ring`] is the same by io_uring, where the kernel has that. [`request`] reads what the
//! kernel asks (pure, fuzzed), [`reply`] makes the bytes of answers.
//!
//! A request is a header of 40 bytes, a part whose size goes by its kind, and a payload (name or data):
//!
//! ```text
//! length u32 · opcode u32 · unique u64 · node u64 · uid u32 · gid u32 · pid u32 · extensions u16 · padding u16
//! ```
//!
//! An answer is a header of 16 bytes (length u32, negative errno i32, unique u64) and a body. All in the
//! machine's byte order.

mod abort;
mod device;
pub mod reply;
pub mod request;
pub mod ring;

pub use abort::Abort;
pub use device::{Device, MessageBuffer, Received};

/// Bytes of a request's header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of the fixed part of reads and writes.
pub const TRANSFER_BYTES: usize = 40;
/// The node number of the root directory.
pub const ROOT_NODE: u64 = 1;
