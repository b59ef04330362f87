//! btrfs' own trees (`BTRFS_IOC_TREE_SEARCH_V2`, `linux/btrfs_tree.h`).

use std::os::fd::BorrowedFd;

use crate::{Error, Result};

/// Free space.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENOTTY` on other file systems.
pub fn free_space(_fd: BorrowedFd<'_>, _each: impl FnMut(u64, u64)) -> Result<()> {
    Err(Error::call("BTRFS_IOC_TREE_SEARCH_V2")(std::io::Error::from_raw_os_error(libc::ENOTTY)))
}
