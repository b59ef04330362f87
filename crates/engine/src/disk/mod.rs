//! The virtual disk as seen from beside the file system: its own time, and what it counted.
//!
//! A disk is served from a folder (crates/disk): `mount/disk` is the file under the loop device, `control` a
//! Unix socket that answers one JSON line with another, `clock` the disk's own time as a
//! [`SharedClock`](fsage_sys::shared_clock). A disk is found from a directory on it, through the mount table,
//! device-mapper and md, and the loop device's backing file; nobody has to name it.
//!
//! In `model` time the disk's clock is exact to the sequence of requests, and the processor's time is not in
//! it: a clock on the wall tells nothing about the medium then, and everything that is timed is timed by the
//! disk ([`Clock`]). In `real` time replies come when the medium would have given them, and wall-clock time
//! is the right one.

mod clock;
mod control;
mod find;
pub mod lead;
mod meter;

pub use clock::Clock;
pub use control::ControlError;
pub use meter::Meter;

use std::path::{Path, PathBuf};

use fsage_model::disk::DiskStat;
use fsage_model::disk::call::{self, Call};

use crate::host::disk::CONTROL;

/// A virtual disk that is being served on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualDisk {
    directory: PathBuf,
}

impl VirtualDisk {
    /// The disk served from `directory`, whether or not there is one.
    #[must_use]
    pub const fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The virtual disk that the file system holding `directory` is on; `None` when it is on anything else,
    /// or on several.
    #[must_use]
    pub fn under(directory: &Path) -> Option<Self> {
        find::under(directory)
    }

    /// The virtual disk below a block device; `None` when it is anything else, or several.
    #[must_use]
    pub fn of_device(device: &Path) -> Option<Self> {
        find::of_device(device)
    }

    /// Its folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Asks it one thing.
    ///
    /// # Errors
    /// Nobody serves it, it does not answer in time, or it refuses.
    pub fn ask<C: Call>(&self, call: C) -> Result<C::Reply, ControlError> {
        control::ask(&self.directory.join(CONTROL), call)
    }

    /// Brings its medium to rest, where it keeps model time: what follows takes as long as after any other
    /// rest.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn rest(&self) -> Result<(), ControlError> {
        self.ask(call::Rest)
    }

    /// What it is and what it counted.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn stat(&self) -> Result<DiskStat, ControlError> {
        self.ask(call::Stat).map(DiskStat::from)
    }
}
