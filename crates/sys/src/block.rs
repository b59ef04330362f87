//! Block devices (`linux/fs.h`).

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::ioctl::opcode;

use crate::ioctl::Request;
use crate::{Error, Result};

/// The header says `size_t`, for the sake of the number; the kernel always writes 64 bits.
const BLKGETSIZE64: Request<u64> = Request::historic("BLKGETSIZE64", opcode::read::<usize>(0x12, 114));
const BLKFLSBUF: Request<()> = Request::historic("BLKFLSBUF", opcode::none(0x12, 97));
const BLKGETDISKSEQ: Request<u64> = Request::read("BLKGETDISKSEQ", 0x12, 128);
const BLKDISCARD: Request<[u64; 2]> = Request::historic("BLKDISCARD", opcode::none(0x12, 119));

/// Size of the device.
///
/// # Errors
/// `ENOTTY` when `fd` is no block device.
pub fn size_bytes(fd: BorrowedFd<'_>) -> Result<u64> {
    let mut size = 0;
    // SAFETY: BLKGETSIZE64 writes one u64.
    unsafe { BLKGETSIZE64.call(fd, &raw mut size) }?;
    Ok(size)
}

/// The disk's number in the order in which media came up since boot: a name or device number that is used
/// again has a higher one. `None` before Linux 5.15.
///
/// # Errors
/// What the kernel says beside `ENOTTY`.
pub fn disk_sequence(fd: BorrowedFd<'_>) -> Result<Option<u64>> {
    let mut sequence = 0;
    // SAFETY: BLKGETDISKSEQ writes one u64.
    match unsafe { BLKGETDISKSEQ.call(fd, &raw mut sequence) } {
        Ok(_) => Ok(Some(sequence)),
        Err(error) if matches!(error.errno(), libc::ENOTTY | libc::EINVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The device's logical sector: the unit of direct I/O.
///
/// # Errors
/// `ENOTTY` when `fd` is no block device.
pub fn sector_bytes(fd: BorrowedFd<'_>) -> Result<u32> {
    rustix::fs::ioctl_blksszget(fd).map_err(Error::call("BLKSSZGET"))
}

/// The device's physical sector: what it writes without reading before.
///
/// # Errors
/// `ENOTTY` when `fd` is no block device.
pub fn physical_sector_bytes(fd: BorrowedFd<'_>) -> Result<u32> {
    rustix::fs::ioctl_blkpbszget(fd).map_err(Error::call("BLKPBSZGET"))
}

/// Writes out and drops the device's own page cache.
///
/// # Errors
/// `EACCES` without `CAP_SYS_ADMIN`, `ENOTTY` when `fd` is no block device.
pub fn flush_buffers(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: BLKFLSBUF ignores its argument.
    unsafe { BLKFLSBUF.call_value(fd, 0) }.map(drop)
}

/// Its number on every architecture (`include/uapi/asm-generic/unistd.h`).
const CACHESTAT: libc::c_long = 451;

/// How many pages of the device are in the kernel's page cache (`cachestat(2)`, `include/uapi/linux/mman.h`, since Linux
/// 6.5); nothing where the kernel has no such call.
#[must_use]
pub fn cached_pages(fd: BorrowedFd<'_>) -> Option<u64> {
    // struct cachestat_range: offset and length, 0 for all; struct cachestat: five numbers, the first of them is asked for.
    let range = [0_u64; 2];
    let mut stat = [0_u64; 5];
    // SAFETY: both arrays have the size and layout of the structures that the kernel reads and writes, and live through the call.
    let done = unsafe { libc::syscall(CACHESTAT, fd.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0_u32) };
    (done == 0).then_some(stat[0])
}

/// Tells the device that `length` bytes from `start` on are not needed any more. What they read as afterwards
/// is the device's affair.
///
/// # Errors
/// `EOPNOTSUPP` where the device cannot, `EBADF` when it is not open for writing, `EINVAL` when the range is
/// not of whole sectors.
pub fn discard(fd: BorrowedFd<'_>, start: u64, length: u64) -> Result<()> {
    let mut range = [start, length];
    // SAFETY: BLKDISCARD reads two u64, which this is.
    unsafe { BLKDISCARD.call(fd, &raw mut range) }.map(drop)
}

/// Opens a block device for reading and writing, only if nobody else holds it: not mounted, not swap, not
/// part of something stacked on it. Holding the result keeps others (who ask likewise) out.
///
/// # Errors
/// `EBUSY` when in use; `ENOTBLK` when it is no block device.
pub fn open_exclusive(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty()).map_err(Error::path("open", path))?;
    let status = fstat(&fd).map_err(Error::path("fstat", path))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::BlockDevice {
        let source = std::io::Error::from_raw_os_error(libc::ENOTBLK);
        return Err(Error::Path { call: "open", path: path.to_owned(), source });
    }
    Ok(fd)
}
