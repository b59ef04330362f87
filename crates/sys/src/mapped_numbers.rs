//! Whole numbers in a file, mapped: set by one process, read by others, and there after it was killed.
//!
//! A store costs a nanosecond, a pwrite(2) of the same eight bytes most of a microsecond. Every access is
//! atomic, so a number is always whole.
//!
//! Limit: a file that someone truncates while it is mapped, or whose file system has no space for a block that
//! is written, ends who touches it with `SIGBUS`.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Result};

/// The first bytes of a file as numbers.
#[derive(Debug)]
pub struct MappedNumbers {
    start: NonNull<AtomicU64>,
    length: usize,
}

// SAFETY: all that is done through the pointer is atomic, and the mapping lives as long as the value.
unsafe impl Send for MappedNumbers {}
// SAFETY: as above.
unsafe impl Sync for MappedNumbers {}

impl MappedNumbers {
    /// Maps `length` bytes of a file that has at least as many, to set and read numbers in them.
    ///
    /// # Errors
    /// The file is shorter, or cannot be mapped.
    pub fn writable(file: &File, length: usize) -> Result<Self> {
        Self::map(file, length, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same only to read; setting a number there ends the process.
    pub(crate) fn readable(file: &File, length: usize) -> Result<Self> {
        Self::map(file, length, ProtFlags::READ)
    }

    fn map(file: &File, length: usize, protection: ProtFlags) -> Result<Self> {
        let there = rustix::fs::fstat(file).map_err(Error::call("fstat"))?.st_size;
        if length < size_of::<u64>() || usize::try_from(there).unwrap_or(0) < length {
            return Err(Error::Malformed { call: "fstat", what: "the file is shorter than what is mapped" });
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice; nothing that exists is touched.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file.as_fd(), 0) }
                .map_err(Error::call("mmap"))?;
        let start =
            NonNull::new(start.cast()).ok_or(Error::Malformed { call: "mmap", what: "no address" })?;
        Ok(Self { start, length })
    }

    /// The number `index` × 8 bytes from the beginning; nothing beyond what is mapped.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: the mapping is page-aligned, all its bytes are initialised, the number lies within it, and it
        // lives as long as `self`; every access to it, from whatever process, is atomic.
        (index < self.length / size_of::<u64>()).then(|| unsafe { self.start.add(index).as_ref() })
    }
}

impl Drop for MappedNumbers {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody holds a reference any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_set_is_in_the_file() {
        let file = tempfile::tempfile().unwrap();
        assert!(MappedNumbers::writable(&file, 8).is_err());
        file.set_len(8200).unwrap();
        let numbers = MappedNumbers::writable(&file, 8200).unwrap();
        numbers.get(1024).unwrap().store(7, Ordering::Relaxed);
        assert!(numbers.get(1025).is_none());
        let reader = MappedNumbers::readable(&file, 8200).unwrap();
        drop(numbers);
        assert_eq!(reader.get(1024).unwrap().load(Ordering::Relaxed), 7);
        let mut bytes = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 8192).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 7);
    }
}
