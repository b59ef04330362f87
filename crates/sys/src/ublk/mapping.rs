//! Memory of the driver that we read.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Result};

/// Memory that is shared with the kernel, for reading.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to its owner alone, wherever that one is.
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn new(fd: &OwnedFd, length: usize, offset: u64) -> Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a place where nothing else is.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, fd, offset) }
            .map_err(Error::call("mmap of a ring"))?;
        let start = NonNull::new(start.cast()).ok_or(Error::Malformed { call: "mmap", what: "null" })?;
        Ok(Self { start, length })
    }

    /// The place of a `T` at `offset`, checked to be inside and aligned.
    pub fn place<T>(&self, offset: usize) -> *const T {
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.length), "outside the ring");
        // SAFETY: inside the mapping, as was just checked.
        let place = unsafe { self.start.as_ptr().add(offset) }.cast::<T>();
        assert!(place.is_aligned(), "ring that is not aligned");
        place
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
