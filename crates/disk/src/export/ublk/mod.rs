//! The disk as a block device of its own, `/dev/ublkbN`: no file system and no loop device in between.
//!
//! The kernel's ublk driver (6.0 and later, `CONFIG_BLK_DEV_UBLK`; `Documentation/block/ublk.rst`,
//! `linux/ublk_cmd.h`) hands us what the block layer asks, as it asks it:
//!
//! | ublk | request |
//! | --- | --- |
//! | `READ`, `WRITE` | read, write; with `FUA` a write that is forced to the medium |
//! | `FLUSH` | flush |
//! | `DISCARD` | discard |
//! | `WRITE_ZEROES` | discard, since the disk then reads zeros too; with `NOUNMAP` zero |
//! | everything else | `EOPNOTSUPP` |
//!
//! [`decode`], [`result`] and [`parameters`] say what this means, and touch nothing; [`serve()`] is the loop,
//! over any [`Queue`]; [`Device`] is the driver's side of it.
//!
//! **Known limit: not tried on a real driver.** The kernels at hand have none. What runs in tests is the loop
//! and all that is pure, on a queue that is simulated; the commands to the driver are checked against its
//! header, and no kernel has seen them.

mod device;
mod request;
mod serve;
#[cfg(test)]
mod tests;

pub use device::{Device, UblkError, remove_left};
pub use request::{decode, parameters, result};
pub use serve::{Queue, Slot, serve};

/// Largest read or write in bytes.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;
/// Largest discard, or write of zeroes, in bytes.
pub const MAX_DISCARD_BYTES: u32 = 1 << 30;
