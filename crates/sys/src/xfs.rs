//! What xfs leaves for later (`xfs/xfs_fs.h`).

use std::os::fd::BorrowedFd;

use crate::Result;
use crate::ioctl::Request;

/// `struct xfs_fs_eofblocks`.
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    uid: u32,
    gid: u32,
    project: u32,
    padding: u32,
    minimum_file_size: u64,
    more_padding: [u64; 12],
}

const XFS_IOC_FREE_EOFBLOCKS: Request<EofBlocks> = Request::read("XFS_IOC_FREE_EOFBLOCKS", b'X', 58);
const VERSION: u32 = 1;
const FLAG_MINIMUM_FILE_SIZE: u32 = 1 << 4;

/// Waits until the inodes that were unlinked are freed, which xfs does in the background (Linux 5.14 and
/// later), on the file system that `fd` is on. The request is that for trimming what was set aside behind the
/// ends of files; no file is large enough for it here, and what it does at its end remains.
///
/// # Errors
/// `ENOTTY` where it is not xfs, `EPERM` without `CAP_SYS_ADMIN`.
pub fn free_unlinked(fd: BorrowedFd<'_>) -> Result<()> {
    let mut ask = EofBlocks {
        version: VERSION,
        flags: FLAG_MINIMUM_FILE_SIZE,
        uid: 0,
        gid: 0,
        project: 0,
        padding: 0,
        minimum_file_size: u64::MAX,
        more_padding: [0; 12],
    };
    // SAFETY: XFS_IOC_FREE_EOFBLOCKS reads exactly one `xfs_fs_eofblocks`, which this is.
    unsafe { XFS_IOC_FREE_EOFBLOCKS.call(fd, &raw mut ask) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_request_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<EofBlocks>(), 128);
    }

    #[test]
    fn what_is_not_xfs_is_told() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(free_unlinked(file.as_fd()).unwrap_err().errno(), libc::ENOTTY);
    }
}
