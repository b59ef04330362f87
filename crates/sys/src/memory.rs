//! Large regions of zeroed memory, taken from the kernel and released to it piece by piece.
//!
//! A region is private anonymous memory that begins at a multiple of [`HUGE_BYTES`]. It costs address space
//! only until it is touched; what was released reads as zeros and costs nothing again.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::{Error, Result};

/// Bytes of a huge page where pages have 4 KiB (x86-64, and AArch64 with 4 KiB pages).
pub const HUGE_BYTES: usize = 2 << 20;

/// Memory of its own, all zeros when made.
pub struct Region {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the region owns its memory as a `Box<[u8]>` does.
unsafe impl Send for Region {}
// SAFETY: shared references only read.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `length` bytes, rounded up to a multiple of [`HUGE_BYTES`]; none of them is touched. Asks for
    /// huge pages, which the kernel may refuse to give.
    ///
    /// # Errors
    /// The kernel refuses: no address space, a resource limit, or strict accounting of memory.
    pub fn map(length: usize) -> Result<Self> {
        let nothing = || Error::call("mmap")(rustix::io::Errno::NOMEM);
        let length = length.max(1).checked_next_multiple_of(HUGE_BYTES).ok_or_else(nothing)?;
        let span = length.checked_add(HUGE_BYTES).ok_or_else(nothing)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without a wished address the kernel chooses one where nothing is mapped.
        let low = unsafe { mmap_anonymous(ptr::null_mut(), span, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let low = low.map_err(Error::call("mmap"))?.cast::<u8>();
        let skip = low.addr().next_multiple_of(HUGE_BYTES) - low.addr();
        let start = low.wrapping_add(skip);
        unmap(low, skip);
        unmap(start.wrapping_add(length), HUGE_BYTES - skip);
        let start = NonNull::new(start).ok_or_else(nothing)?;
        // SAFETY: this range was just mapped and is ours; the advice does not change what it holds.
        let advised = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        // A kernel without huge pages answers EINVAL: then they are small.
        let _ = advised;
        Ok(Self { start, length })
    }

    /// Touches a range, so that it is backed by memory before it is needed. `range` is rounded out to pages
    /// by the kernel's rules: its start must be a multiple of the page size.
    ///
    /// # Errors
    /// No memory.
    ///
    /// # Panics
    /// A range outside the region, as slicing does.
    pub fn populate(&mut self, range: Range<usize>) -> Result<()> {
        let bytes = &mut self[range];
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the range is ours and borrowed exclusively; populating keeps what it holds.
        match unsafe { madvise(start.cast(), length, Advice::LinuxPopulateWrite) } {
            Ok(()) => Ok(()),
            // Before Linux 5.14.
            Err(rustix::io::Errno::INVAL) => {
                for page in bytes.chunks_mut(4096) {
                    let first = page[0];
                    page[0] = std::hint::black_box(first);
                }
                Ok(())
            }
            Err(error) => Err(Error::call("madvise(MADV_POPULATE_WRITE)")(error)),
        }
    }

    /// Gives the memory of a range back to the kernel; it reads as zeros from now on. `range` must begin and
    /// end at multiples of the page size. Works on locked memory from Linux 5.18 on.
    ///
    /// # Errors
    /// The memory is locked and the kernel is older: then the range is as it was.
    ///
    /// # Panics
    /// A range outside the region, as slicing does.
    pub fn release(&mut self, range: Range<usize>) -> Result<()> {
        let bytes = &mut self[range];
        let (start, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the range is ours and borrowed exclusively, so that nobody sees its bytes become zeros; any
        // bytes are valid.
        if unsafe { madvise(start, length, Advice::LinuxDontneedLocked) }.is_ok() {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { madvise(start, length, Advice::LinuxDontNeed) }
            .map_err(Error::call("madvise(MADV_DONTNEED)"))
    }
}

/// Unmaps bytes that nobody refers to.
fn unmap(start: *mut u8, length: usize) {
    if length == 0 {
        return;
    }
    // SAFETY: callers own the range and keep no reference into it.
    let done = unsafe { munmap(start.cast(), length) };
    // It fails only for ranges that were never mapped, or when splitting a mapping needs memory: then address
    // space is lost, no more.
    let _ = done;
}

impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.start.as_ptr(), self.length);
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length` bytes of our own mapping start there, borrowed as `self` is; untouched ones read
        // as zeros.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a region that are in memory.
    fn resident_bytes(region: &Region) -> usize {
        let mut pages = vec![0_u8; region.len() / 4096];
        // SAFETY: the range is mapped, and `pages` has a byte for each of its pages.
        let answer =
            unsafe { libc::mincore(region.as_ptr().cast_mut().cast(), region.len(), pages.as_mut_ptr()) };
        assert_eq!(answer, 0);
        pages.iter().filter(|page| **page & 1 == 1).count() * 4096
    }

    #[test]
    fn costs_only_what_is_touched() {
        let mut region = Region::map(5 << 20).unwrap();
        assert_eq!(region.len(), 6 << 20);
        assert_eq!(region.as_ptr().addr() % HUGE_BYTES, 0);
        assert_eq!(resident_bytes(&region), 0);
        region.populate(0..HUGE_BYTES).unwrap();
        assert!(resident_bytes(&region) >= HUGE_BYTES);
        region[HUGE_BYTES - 1] = 7;
        region[2 * HUGE_BYTES] = 8;
        region.release(0..HUGE_BYTES).unwrap();
        assert!(resident_bytes(&region) <= HUGE_BYTES);
        assert_eq!((region[HUGE_BYTES - 1], region[2 * HUGE_BYTES]), (0, 8));
        region.release(0..region.len()).unwrap();
        assert_eq!(resident_bytes(&region), 0);
        assert!(region.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn locked_memory_is_released_too() {
        let mut region = Region::map(HUGE_BYTES).unwrap();
        let (start, length) = (region.as_mut_ptr(), 64 << 10);
        // SAFETY: locking changes nothing about what the memory holds.
        let locked = unsafe { rustix::mm::mlock(start.cast(), length) };
        locked.expect("a process may lock 64 KiB");
        region[..length].fill(9);
        region.release(0..length).unwrap();
        assert!(region[..length].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        assert!(Region::map(usize::MAX).is_err());
        assert!(Region::map(usize::MAX / 2).is_err());
    }
}
