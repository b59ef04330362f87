//! Pauses between operations, as in daily use: the disk is idle, its clock moves on, and what the kernel's timers
//! would do meanwhile is done when they would do it. In real time the load waits, and the kernel does it.
//!
//! Beside data and commits (see `timers`) that is the metadata: where a commit only logs it, it is written to its place
//! when it is old enough. ext2, ext3 and ext4 keep it in the page cache of the block device, whose pages are written back
//! like those of a file, all of them when the first is old enough (`fs/fs-writeback.c`). xfs pushes what is
//! logged whenever its log worker runs (`fs/xfs/xfs_log.c`); here the file system is held still for a moment, which
//! also writes data that is not old yet, and the superblock.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fsage_model::filesystem::{self, MetadataBy};
use fsage_sys::freeze;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};

use super::{Executor, Keeper};
use crate::host::mount;

/// Writes metadata to its place.
#[derive(Debug)]
pub(super) enum MetadataWriter {
    /// There is nothing to do.
    Idle,
    /// It is among the pages of this device.
    Device(OwnedFd),
    /// The file system is held still.
    Freeze,
}

impl MetadataWriter {
    /// For the file system that holds `directory`.
    pub(super) fn under(directory: BorrowedFd<'_>) -> Self {
        let mounted = mount::holding(&fsage_sys::mount::descriptor_path(directory));
        let row = mounted.as_ref().and_then(|entry| filesystem::by_name(&entry.file_system));
        match row.map(|row| row.metadata) {
            None | Some(MetadataBy::Commit) => Self::Idle,
            Some(MetadataBy::Freeze) => Self::Freeze,
            Some(MetadataBy::Device) => {
                let source = mounted.map(|entry| entry.source).unwrap_or_default();
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let device = fs::open(source, flags, Mode::empty()).ok().filter(|device| {
                    let number = fs::fstat(directory).map(|found| found.st_dev);
                    number.is_ok() && fs::fstat(device).map(|found| found.st_rdev) == number
                });
                device.map_or(Self::Idle, Self::Device)
            }
        }
    }

    /// What is old enough. What fails is found by the next sync.
    pub(super) fn write(&self) {
        if let Self::Device(device) = self {
            let _ = fsage_sys::start_write_back(device.as_fd());
        }
    }

    /// What follows a commit by the file system's timer, below its directory `top`.
    pub(super) fn after_commit(&self, top: BorrowedFd<'_>) {
        if matches!(self, Self::Freeze) {
            let _ = freeze::freeze_and_thaw(top);
        }
    }
}

/// Longest sleep without a look whether the load is over.
const SLICE: Duration = Duration::from_millis(50);

impl Executor {
    /// Lets the time between two operations pass, unless the load is `over` meanwhile: on a virtual disk's clock at
    /// once, and elsewhere by waiting.
    pub fn pause(&mut self, over: &dyn Fn() -> bool) {
        if self.options.pause.is_zero() {
            return;
        }
        if self.clock.is_model() {
            self.pause_model();
            return;
        }
        let end = Instant::now() + self.options.pause;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|_| !over()) {
            std::thread::sleep(left.min(SLICE));
        }
    }

    fn pause_model(&mut self) {
        let pause_ns = u64::try_from(self.options.pause.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = self.clock.now_ns().saturating_add(pause_ns);
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= end_ns {
                break;
            }
            let timer_ns = match &self.keeper {
                Keeper::Clock(timers) => timers.next_ns(),
                Keeper::Kernel | Keeper::Operations(_) => u64::MAX,
            };
            self.clock.pause(timer_ns.min(end_ns).saturating_sub(now_ns));
            if timer_ns > now_ns && self.clock.now_ns() <= now_ns {
                // No clock that can be moved on.
                break;
            }
            self.keep_timers();
        }
    }
}
