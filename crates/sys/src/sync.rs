//! Writing a file system's dirty data out.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::{Error, Result};

/// Writes everything dirty of the file system that `fd` is on, and waits for it (`syncfs(2)`).
///
/// # Errors
/// What the kernel answers; since Linux 5.8 also errors of earlier writeback that nobody saw yet.
pub fn syncfs(fd: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::syncfs(fd).map_err(Error::call("syncfs"))
}

/// Starts writing out what is dirty of a file's data, and does not wait for it (`sync_file_range(2)` with
/// `SYNC_FILE_RANGE_WRITE` alone), as the kernel does with data that is old enough.
///
/// # Errors
/// What the kernel answers; `ESPIPE` for what is no file.
pub fn start_write_back(fd: BorrowedFd<'_>) -> Result<()> {
    sync_file_range(fd, libc::SYNC_FILE_RANGE_WRITE)
}

/// As [`start_write_back`], and waits until it is written. Metadata stays where it is.
///
/// # Errors
/// As there; what writing answers.
pub fn write_back(fd: BorrowedFd<'_>) -> Result<()> {
    let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(fd, wait | libc::SYNC_FILE_RANGE_WRITE)
}

fn sync_file_range(fd: BorrowedFd<'_>, flags: libc::c_uint) -> Result<()> {
    // SAFETY: the call takes no pointer, and the descriptor is open as long as it is borrowed.
    match unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, flags) } {
        0 => Ok(()),
        _ => Err(Error::call("sync_file_range")(std::io::Error::last_os_error())),
    }
}
