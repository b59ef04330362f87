//! The file that takes what does not fit into memory.
//!
//! It is removed from its folder as soon as it is open, so that nothing is left behind however the process
//! ends.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fsage_sys::folder::Folder;
use fsage_sys::memory::HUGE_BYTES;
use fsage_sys::new_file::{check_owner, temporary_name};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, openat};

use super::error::StoreError;
use super::number::wide;

/// An open spill file.
#[derive(Debug)]
pub(crate) struct Spill {
    file: File,
    folder: PathBuf,
}

impl Spill {
    /// Makes one in a folder, for root in none that another user could change.
    pub fn new(folder: &Path) -> Result<Self, StoreError> {
        let fail = |source| StoreError::Spill { what: "make", path: folder.to_owned(), source };
        let place = Folder::open(folder).map_err(fail)?;
        check_owner(&place).map_err(fail)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let unnamed = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match openat(&place, ".", unnamed, mode) {
            Ok(file) => File::from(file),
            // Not every file system has files without names.
            Err(_) => {
                let name = temporary_name("fsage-spill".as_ref());
                let file = openat(&place, &name, flags, mode).map_err(|errno| fail(errno.into()))?;
                place.remove(&name).map_err(fail)?;
                File::from(file)
            }
        };
        Ok(Self { file, folder: folder.to_owned() })
    }

    fn fail(&self, what: &'static str, source: std::io::Error) -> StoreError {
        StoreError::Spill { what, path: self.folder.clone(), source }
    }

    /// Writes a whole group.
    pub fn write(&mut self, group: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.file.write_all_at(bytes, wide(group * HUGE_BYTES));
        written.map_err(|source| self.fail("write", source))
    }

    /// Reads from a byte of a group on.
    pub fn read(&mut self, group: usize, at: usize, buffer: &mut [u8]) -> Result<(), StoreError> {
        let read = self.file.read_exact_at(buffer, wide(group * HUGE_BYTES + at));
        read.map_err(|source| self.fail("read", source))
    }

    /// Gives the space of a group back.
    pub fn forget(&mut self, group: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system that cannot keeps the space until the disk goes down.
        let _ = fallocate(&self.file, flags, wide(group * HUGE_BYTES), wide(HUGE_BYTES));
    }
}
