//! The process that serves a disk, beside the load and apart from it.
//!
//! `fsage-disk up` starts it in the background, in a session of its own; everything about it is in one
//! directory ([`ServerDirectory`]):
//!
//! | entry | what it is |
//! | --- | --- |
//! | `pid` | process and its start time, written before anything is mounted |
//! | `mount/disk` | the disk, for a loop device with direct I/O and 4096-byte sectors |
//! | `ublk` | which block device the disk is, where it was asked for as one (feature `ublk`): nothing is mounted then |
//! | `nbd` | Unix socket: the disk as a network block device, where it was asked for |
//! | `clock` | the disk's clock, eight bytes that readers map |
//! | `control` | Unix socket: one JSON line asks, one answers ([`fsage_model::disk::call`]) |
//! | `log.txt` | what the server had to say |
//!
//! **No process may ever hang on it.** The server must not wait for memory that the kernel wants to free by
//! writing to this very disk: it is locked in memory, says so to the kernel where it may, and refuses to run
//! in a control group with a memory limit ([`fsage_sys::memory_group`]). A watchdog ends the FUSE connection when the
//! loop is stuck (of ublk, the process); the kernel ends it when the process dies. What a killed server
//! leaves (a dead mount, its files) [`client::clean`] removes.

pub mod client;
mod error;
mod exported;
mod guard;
mod log_save;
mod machine;
mod obey;
mod place;
mod run;
mod settings;
mod watchdog;

pub use error::ServerError;
pub use guard::GuardError;
pub use machine::MachineError;
pub use place::{ServerDirectory, is_alive};
pub use run::run;
pub use settings::{Export, FastDrive, MarkError, PackAbove, Settings};
