//! Writing a file system's dirty data out.

use std::os::fd::BorrowedFd;

use crate::{Error, Result};

/// Writes everything dirty of the file system that `fd` is on, and waits for it (`syncfs(2)`).
///
/// # Errors
/// What the kernel answers; since Linux 5.8 also errors of earlier writeback that nobody saw yet.
pub fn syncfs(fd: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::syncfs(fd).map_err(Error::call("syncfs"))
}
