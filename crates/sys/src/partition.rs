//! Partitions as the kernel knows them (`linux/fs.h`, `linux/blkpg.h`).
//!
//! The kernel reads a partition table itself where it was built to ([`reread`]); where it was not, it can be
//! told of each partition ([`add`]).

use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use rustix::ioctl::opcode;

use crate::Result;
use crate::ioctl::Request;

const BLKRRPART: Request<()> = Request::historic("BLKRRPART", opcode::none(0x12, 95));
const BLKPG: Request<Change> = Request::historic("BLKPG", opcode::none(0x12, 105));
const BLKPG_ADD_PARTITION: c_int = 1;

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct Change {
    operation: c_int,
    flags: c_int,
    data_bytes: c_int,
    data: *mut Partition,
}

/// `struct blkpg_partition`.
#[repr(C)]
struct Partition {
    start: i64,
    length: i64,
    number: c_int,
    device_name: [u8; 64],
    volume_name: [u8; 64],
}

/// Has the kernel read the partition table of a whole disk again. A kernel that does not know the table's
/// format finds no partition, which is no error.
///
/// # Errors
/// `EBUSY` while a partition is in use, `EINVAL` when the device can have none, `EACCES` without
/// `CAP_SYS_ADMIN`.
pub fn reread(disk: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: BLKRRPART takes no argument.
    unsafe { BLKRRPART.call_value(disk, 0) }.map(drop)
}

/// Tells the kernel of a partition: its number (from 1), where it begins, and how long it is, both in bytes
/// and multiples of 512. Nothing is written; the kernel forgets it at the next boot.
///
/// # Errors
/// `EBUSY` when the number is taken or the range overlaps another partition, `EINVAL` when the range is not
/// within the disk or the device can have no partitions, `EACCES` without `CAP_SYS_ADMIN`.
pub fn add(disk: BorrowedFd<'_>, number: u32, start: u64, length: u64) -> Result<()> {
    // What does not fit is beyond every disk: the kernel refuses a negative number with EINVAL.
    let mut partition = Partition {
        start: i64::try_from(start).unwrap_or(-1),
        length: i64::try_from(length).unwrap_or(-1),
        number: c_int::try_from(number).unwrap_or(-1),
        device_name: [0; 64],
        volume_name: [0; 64],
    };
    let data_bytes = c_int::try_from(size_of::<Partition>()).unwrap_or(c_int::MAX);
    let data = &raw mut partition;
    let mut change = Change { operation: BLKPG_ADD_PARTITION, flags: 0, data_bytes, data };
    // SAFETY: BLKPG reads a `blkpg_ioctl_arg`, which this is, and the `blkpg_partition` that it points to, which
    // lives as long as the call.
    unsafe { BLKPG.call(disk, &raw mut change) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!((size_of::<Partition>(), align_of::<Partition>()), (152, 8));
        assert_eq!((size_of::<Change>(), align_of::<Change>()), (24, 8));
    }
}
