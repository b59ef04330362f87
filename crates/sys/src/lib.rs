//! The kernel's interfaces, and the only unsafe code of the project.
//!
//! Each module is one interface. Where the kernel answers with a buffer, making the request (which needs
//! `unsafe`) and decoding the answer (a pure function over bytes, fuzzed) are kept apart. Every ioctl number
//! is computed from the type of its argument (module `ioctl`).

pub mod aligned;
pub mod block;
pub mod btrfs;
mod bytes;
pub mod clock;
mod close;
pub mod cpu;
pub mod entropy;
pub mod errno;
mod error;
pub mod fiemap;
pub mod fitrim;
pub mod folder;
pub mod freeze;
pub mod fsmap;
pub mod fuse;
pub mod input;
mod ioctl;
pub mod line_socket;
pub mod loopdev;
pub mod mapped_numbers;
mod mapped_write;
pub mod memory;
pub mod memory_group;
pub mod memory_limit;
pub mod mount;
pub mod new_file;
pub mod open_folders;
pub mod owners;
pub mod partition;
pub mod process;
pub mod shared_clock;
pub mod signal;
mod sync;
pub mod think_time;
#[cfg(feature = "ublk")]
pub mod ublk;
mod uring;
pub mod xfs;

pub use close::close;
pub use error::{Error, Result};
pub use mapped_write::write_mapped;
pub use sync::{start_write_back, syncfs, write_back};
