//! Pauses between operations, as in daily use: the disk is idle, its clock moves on, and what the kernel's
//! timers would do meanwhile is done when they would do it. In real time the load waits, and the kernel does
//! it.
//!
//! Beside data and commits (see `timers`) that is the metadata: where a commit only logs it, it is written to
//! its place when it is old enough. ext3 and ext4 keep it in the page cache of the block device, whose pages
//! are written back like those of a file, all of them when the first is old enough (`fs/fs-writeback.c`). xfs
//! pushes it by a worker that goes by wall-clock time: there are no pauses on it in model time.

use std::os::fd::AsFd;
use std::time::Duration;

use fsage_model::filesystem::{self, MetadataBy};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::{Executor, Keeper};
use crate::host::mount;

/// Writes metadata to its place.
#[derive(Debug)]
pub(super) struct MetadataWriter {
    by: MetadataBy,
    /// The device that has it among its pages.
    device: Option<OwnedFd>,
}

impl MetadataWriter {
    /// For the file system that holds `directory`.
    ///
    /// # Errors `EOPNOTSUPP` where nobody can have it done; its device is not the one that the mount table
    /// names (`ENODEV`) or cannot be opened.
    pub(super) fn under(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mounted = mount::holding(&fsage_sys::mount::descriptor_path(directory));
        let row = mounted.as_ref().and_then(|entry| filesystem::by_name(&entry.file_system));
        let by = row.map_or(MetadataBy::Commit, |row| row.metadata);
        let device = match by {
            MetadataBy::Commit => None,
            MetadataBy::Worker => return Err(Errno::OPNOTSUPP),
            MetadataBy::Device => {
                let source = mounted.map(|entry| entry.source).unwrap_or_default();
                let device = fs::open(source, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                if fs::fstat(&device)?.st_rdev != fs::fstat(directory)?.st_dev {
                    return Err(Errno::NODEV);
                }
                Some(device)
            }
        };
        Ok(Self { by, device })
    }

    pub(super) const fn by(&self) -> MetadataBy {
        self.by
    }

    /// What is old enough. What fails is found by the next sync.
    pub(super) fn write(&self) {
        if let Some(device) = &self.device {
            let _ = fsage_sys::write_back(device.as_fd());
        }
    }
}

/// Longest sleep without a look whether the load is over.
const SLICE: Duration = Duration::from_millis(50);

impl Executor {
    /// Lets the time up to the next operation pass, unless the load is `over` meanwhile: on a virtual disk's
    /// clock at once, and elsewhere by waiting. From the start of one operation to that of the next it is the
    /// same time; where an operation takes longer, the next one follows.
    pub fn pause(&mut self, over: &dyn Fn() -> bool) {
        if self.options.pause.is_zero() {
            return;
        }
        if self.left_of_burst > 0 {
            self.left_of_burst -= 1;
            return;
        }
        self.left_of_burst = self.options.burst.saturating_sub(1);
        let pause_ns = u64::try_from(self.options.pause.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = self.clock.now_ns();
        let due_ns = self.due_ns.unwrap_or(now_ns).max(now_ns);
        while self.clock.now_ns() < due_ns && !over() {
            if !self.clock.is_model() {
                let left = Duration::from_nanos(due_ns.saturating_sub(self.clock.now_ns()));
                std::thread::sleep(left.min(SLICE));
                continue;
            }
            let now_ns = self.clock.now_ns();
            let timer_ns = match &self.keeper {
                Keeper::Clock(timers) => timers.next_ns(),
                Keeper::Kernel | Keeper::Operations(_) => u64::MAX,
            };
            self.clock.pause(timer_ns.min(due_ns).saturating_sub(now_ns));
            self.keep_timers();
        }
        self.due_ns = Some(due_ns.saturating_add(pause_ns));
    }
}
