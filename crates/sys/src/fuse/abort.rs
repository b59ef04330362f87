//! Ending a connection whose server does not answer.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, openat, statx};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::{Error, Result};

/// The file that ends a connection when it is written to. Everyone who waits gets an error at once, and so
/// does everyone who asks later.
#[derive(Debug)]
pub struct Abort {
    file: OwnedFd,
    connection: u32,
}

impl Abort {
    /// That of what is mounted at `point`. No request is sent: the server need not be alive. Where the
    /// control file system is mounted nowhere it is reached through a mount that has no place in the tree.
    ///
    /// # Errors
    /// `ENOENT` when nothing of FUSE is mounted there; `EPERM`.
    pub fn of(point: &Path) -> Result<Self> {
        // The kernel is told not to ask the server what it already knows: the number of the device.
        let found = statx(CWD, point, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())
            .map_err(Error::path("statx", point))?;
        let connection = found.stx_dev_minor;
        let path = PathBuf::from(format!("/sys/fs/fuse/connections/{connection}/abort"));
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = match open(&path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(_) => detached(connection, flags).map_err(Error::path("open", &path))?,
        };
        Ok(Self { file, connection })
    }

    /// The kernel's number of the connection.
    #[must_use]
    pub const fn connection(&self) -> u32 {
        self.connection
    }

    /// Ends it. One that has ended is left alone.
    ///
    /// # Errors
    /// None that is known.
    pub fn abort(&self) -> Result<()> {
        rustix::io::write(&self.file, b"1\n").map(drop).map_err(Error::call("write abort"))
    }
}

fn detached(connection: u32, flags: OFlags) -> io::Result<OwnedFd> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(openat(&root, format!("{connection}/abort"), flags, Mode::empty())?)
}
