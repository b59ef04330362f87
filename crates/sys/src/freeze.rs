//! Holding a mounted file system still (`FIFREEZE`, `FITHAW`, `linux/fs.h`).

use std::os::fd::BorrowedFd;

use crate::Result;
use crate::ioctl::Request;

const FIFREEZE: Request<i32> = Request::read_write("FIFREEZE", b'X', 119);
const FITHAW: Request<i32> = Request::read_write("FITHAW", b'X', 120);

/// Whether somebody has frozen the file system whose mount point (or any directory) `fd` is. There is no way
/// to ask; freezing it is tried: the kernel refuses what is frozen already (`EBUSY`). One that was not frozen
/// is thawed again at once.
///
/// # Errors
/// `EOPNOTSUPP` where it cannot be frozen, `EPERM` without `CAP_SYS_ADMIN`; or it could not be thawed again.
pub fn is_frozen(fd: BorrowedFd<'_>) -> Result<bool> {
    // SAFETY: FIFREEZE ignores its argument.
    match unsafe { FIFREEZE.call_value(fd, 0) } {
        Ok(_) => {
            // SAFETY: FITHAW ignores its argument.
            unsafe { FITHAW.call_value(fd, 0) }?;
            Ok(false)
        }
        Err(error) if error.errno() == libc::EBUSY => Ok(true),
        Err(error) => Err(error),
    }
}
