//! Telling the device what the file system does not use (`FITRIM`, `linux/fs.h`).

use std::os::fd::BorrowedFd;

use crate::Result;
use crate::ioctl::Request;

#[repr(C)]
struct FstrimRange {
    start: u64,
    length: u64,
    minimum_length: u64,
}

const FITRIM: Request<FstrimRange> = Request::read_write("FITRIM", b'X', 121);

/// Discards all free space of the file system whose mount point (or any directory) `fd` is. Returns the bytes
/// discarded, as far as the file system tells (ext4 skips what it trimmed before).
///
/// # Errors
/// `EOPNOTSUPP` where device or file system cannot, `EPERM` without `CAP_SYS_ADMIN`.
pub fn trim(fd: BorrowedFd<'_>) -> Result<u64> {
    let mut range = FstrimRange { start: 0, length: u64::MAX, minimum_length: 0 };
    // SAFETY: FITRIM reads and writes exactly one `fstrim_range`, which this is.
    unsafe { FITRIM.call(fd, &raw mut range) }?;
    Ok(range.length)
}
