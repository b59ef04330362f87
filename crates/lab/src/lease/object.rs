//! Making what is leased, a file or a directory, so that it can never be mistaken for a later one of the same
//! name.
//!
//! 1. The lease is written down with a name that nobody can guess ([`Made::staged`]).
//! 2. The file or directory is made under that name, which must be free.
//! 3. Device, inode and birth time are written down with the lease.
//! 4. It gets its name, which must be free too (`RENAME_NOREPLACE`).
//!
//! Whenever that is cut off, what is there is known: before 3 only the name that nobody can guess can be
//! ours, after it only what has the identity, whatever its name. So a lease without an identity removes
//! nothing that has the name the user knows.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use fsage_engine::host::file::{identity, identity_at};
use fsage_model::protocol::{FileIdentity, Made};
use fsage_sys::folder::Folder;
use fsage_sys::new_file::{check_owner, is_temporary, make_folder, rename_new, temporary_name};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

/// What is being made, and where.
#[derive(Debug)]
pub(super) struct Object {
    path: PathBuf,
    folder: Folder,
    name: OsString,
    directory: bool,
}

impl Object {
    /// Opens the folder that it comes into, which is made for a directory.
    pub(super) fn at(path: &Path, directory: bool) -> Result<Self> {
        if directory && let Some(parent) = path.parent() {
            make_folder(parent, 0o700)?;
        }
        let (folder, name) = Folder::of(path)?;
        check_owner(&folder)?;
        Ok(Self { path: path.to_owned(), folder, name, directory })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What has the name now.
    pub(super) fn present(&self) -> Result<Option<FileIdentity>> {
        identity_at(&self.folder, &self.name)
    }

    /// Whether a directory has the name now.
    pub(super) fn is_directory(&self) -> bool {
        let found = self.folder.find(&self.name).ok().flatten();
        found.is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
    }

    /// A name that nobody can guess, for it to have first.
    pub(super) fn staged(&self) -> Result<Made> {
        let staged = temporary_name(&self.name).into_string();
        let staged = staged.map_err(|_| Error::new(ErrorKind::InvalidInput, "its name is not UTF-8"))?;
        Ok(Made { staged, identity: None })
    }

    /// Makes it under its unguessable name.
    pub(super) fn stage(&self, staged: &str) -> Result<FileIdentity> {
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = if self.directory {
            mkdirat(&self.folder, staged, Mode::RWXU)?;
            openat(&self.folder, staged, flags | OFlags::DIRECTORY, Mode::empty())?
        } else {
            let flags = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            openat(&self.folder, staged, flags, Mode::RUSR | Mode::WUSR)?
        };
        identity(&made)
    }

    /// Gives it its name, unless something has it.
    pub(super) fn publish(&self, staged: &str) -> Result<()> {
        let (folder, name) = (&self.folder, self.name.as_os_str());
        if !self.directory {
            return Ok(rename_new(folder, OsStr::new(staged), name)?);
        }
        match renameat_with(folder, staged, folder, name, RenameFlags::NOREPLACE) {
            // A file system that cannot: an empty directory in a directory's place loses nothing.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, staged, folder, name)?,
            other => other?,
        }
        Ok(())
    }

    /// Removes it again while it has its unguessable name; done as far as it goes.
    pub(super) fn discard(&self, staged: &str) {
        let flags = if self.directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _ = unlinkat(&self.folder, OsStr::new(staged), flags);
    }
}

/// Whether a name can be one of [`Object::staged`].
pub(super) fn is_staged(name: &str) -> bool {
    !name.contains('/') && is_temporary(OsStr::new(name))
}
