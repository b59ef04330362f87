//! Writing to a file through a mapping of it.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::pread;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Result};

/// Writes these bytes at `offset_bytes` (a multiple of the page size) of a file that has them all, through a shared mapping
/// (`mmap(2)`). They are in the page cache then, as after `write(2)`.
///
/// The kernel copies them there, so that a page that cannot be had (no space, file truncated) is an error and not `SIGBUS`.
///
/// # Errors
/// The file is shorter or cannot be mapped; `EFAULT` where a page cannot be had.
pub fn write_mapped(file: BorrowedFd<'_>, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
    let size = rustix::fs::fstat(file).map_err(Error::call("fstat"))?.st_size;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if bytes.is_empty() || u64::try_from(size).unwrap_or(0) < offset_bytes.saturating_add(length) {
        return Err(Error::Malformed { call: "fstat", what: "the file is shorter than what is written" });
    }
    let source = File::from(memfd_create("bytes", MemfdFlags::CLOEXEC).map_err(Error::call("memfd_create"))?);
    std::os::unix::fs::FileExt::write_all_at(&source, bytes, 0).map_err(Error::call("pwrite"))?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice; nothing that exists is touched.
    let start =
        unsafe { mmap(std::ptr::null_mut(), bytes.len(), protection, MapFlags::SHARED, file, offset_bytes) }
            .map_err(Error::call("mmap"))?;
    // SAFETY: mapped above with this length and not yet unmapped; bytes that need not be initialised may change at any time.
    let target = unsafe { std::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), bytes.len()) };
    let copied = pread(source.as_fd(), &mut *target, 0).map(|(read, _)| read.len());
    // SAFETY: mapped above with this length; nobody holds a reference any more.
    unsafe { munmap(start, bytes.len()) }.map_err(Error::call("munmap"))?;
    match copied.map_err(Error::call("pread"))? {
        copied if copied == bytes.len() => Ok(()),
        _ => Err(Error::call("pread")(rustix::io::Errno::FAULT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_in_the_file_and_no_page_that_is_missing_ends_the_process() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5000).unwrap();
        write_mapped(file.as_fd(), 4096, b"there").unwrap();
        let mut read = [1; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, 4094).unwrap();
        assert_eq!(&read, b"\0\0there\0");
        assert!(write_mapped(file.as_fd(), 4096, &[1; 905]).is_err());
        assert!(write_mapped(file.as_fd(), 0, &[]).is_err());
    }
}
