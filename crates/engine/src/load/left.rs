//! What an earlier load left of a thread's tree, read back from the volume, so that a load can go on with it.
//!
//! Directories and names follow from their numbers ([`crate::tree`]); sizes are the file system's; which file
//! the data is of, and its newest version, the data says itself. So nothing has to be kept of the earlier
//! load, and what happened to the tree since (a copy, files that were deleted) makes no difference. Every file
//! is read once, past the page cache where the file system lets us. A file too short to say whose it is gets
//! a new identity: the next write to it covers all of it.

use fsage_content::{BLOCK_BYTES, Block, recognise};
use fsage_model::operation::DirectoryEntry;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat};
use rustix::io::{Errno, read, retry_on_intr};

use super::LoadError;
use super::setup::{TestDirectory, top_name};
use crate::tree::{Directory, directory_number, file_number};
use crate::workload::{LeftTree, LiveFile};

/// Bytes read at once: whole blocks.
const CHUNK_BYTES: usize = 1 << 20;

/// Bits of a file's identity that number it within its thread's.
const THREAD_SHIFT: u32 = 48;

/// Reads the tree of a thread.
///
/// # Errors
/// There is none; it holds what no load made, or links; it cannot be read.
pub(super) fn read_tree(test_directory: &TestDirectory, thread: u32) -> Result<LeftTree, LoadError> {
    let mut reader = Reader {
        test_directory,
        thread,
        buffer: AlignedBuffer::new(CHUNK_BYTES),
        tree: LeftTree::default(),
        nameless: Vec::new(),
    };
    let top = std::os::unix::ffi::OsStringExt::into_vec(top_name(thread).into_os_string());
    let mut waiting = vec![(top, 0)];
    while let Some((path, number)) = waiting.pop() {
        reader.directory(&path, number, &mut waiting)?;
    }
    Ok(reader.finish())
}

struct Reader<'a> {
    test_directory: &'a TestDirectory,
    thread: u32,
    buffer: AlignedBuffer,
    tree: LeftTree,
    /// Files of the tree, by position, that do not say whose they are.
    nameless: Vec<usize>,
}

impl Reader<'_> {
    /// Takes in what a directory holds; those below it are `waiting` then.
    fn directory(
        &mut self,
        path: &[u8],
        number: u32,
        waiting: &mut Vec<(Vec<u8>, u32)>,
    ) -> Result<(), LoadError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = self.test_directory.anchor().open(path, flags, Mode::empty());
        let open = open.map_err(|errno| match errno {
            Errno::NOENT => self.refused(path, "is not there: no load with as many threads left anything"),
            errno => self.failed("open", path, errno),
        })?;
        let entries = Dir::read_from(&open).map_err(|errno| self.failed("read", path, errno))?;
        for entry in entries {
            let entry = entry.map_err(|errno| self.failed("read", path, errno))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let below = [path, b"/", name].concat();
            if let Some(own) = directory_number(name) {
                self.tree.directories.push(Directory { number: own, parent: number });
                waiting.push((below, own));
            } else if let Some(name) = file_number(name) {
                self.file(&below, DirectoryEntry { directory: number, name })?;
            } else {
                return Err(self.refused(&below, "was not made by a load"));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &[u8], place: DirectoryEntry) -> Result<(), LoadError> {
        let file = self.open(path)?;
        let stat = fstat(&file).map_err(|errno| self.failed("inspect", path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1 {
            return Err(self.refused(path, "is a link or has several names, which cannot be continued with"));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let (mut file_number, mut version, mut seen) = (None, 1, 0);
        // Not beyond the end: past the page cache that place need not be one to read from.
        while seen < size {
            let count = retry_on_intr(|| read(&file, &mut *self.buffer))
                .map_err(|errno| self.failed("read", path, errno))?;
            if count == 0 {
                break;
            }
            seen += u64::try_from(count).unwrap_or(u64::MAX);
            for block in self.buffer[..count].chunks(BLOCK_BYTES) {
                let header = match recognise(block) {
                    Block::Good { header, .. } | Block::Torn { header: Some(header), .. } => header,
                    Block::Fragment { .. } => {
                        let bytes = block.get(4..8).and_then(|bytes| bytes.try_into().ok());
                        version = version.max(bytes.map_or(1, u32::from_le_bytes));
                        continue;
                    }
                    Block::Zero | Block::Torn { .. } | Block::Foreign => continue,
                };
                file_number.get_or_insert(header.file);
                version = version.max(header.version);
            }
        }
        if file_number.is_none() {
            self.nameless.push(self.tree.files.len());
        }
        let file = file_number.unwrap_or(0);
        self.tree.files.push(LiveFile { file, place, size, version, links: 1 });
        Ok(())
    }

    /// Opens a file past the page cache, or through it where the file system does not know that.
    fn open(&self, path: &[u8]) -> Result<OwnedFd, LoadError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = |flags| self.test_directory.anchor().open(path, flags, Mode::empty());
        let opened = open(flags | OFlags::DIRECT).or_else(|errno| match errno {
            Errno::INVAL => open(flags),
            errno => Err(errno),
        });
        opened.map_err(|errno| match errno {
            Errno::LOOP => self.refused(path, "is a symbolic link, which cannot be continued with"),
            errno => self.failed("open", path, errno),
        })
    }

    /// In the order of the numbers, which does not depend on the file system.
    fn finish(mut self) -> LeftTree {
        let own = u64::from(self.thread) << THREAD_SHIFT;
        let mut next = self.tree.files.iter().map(|file| file.file).max().unwrap_or(0).max(own);
        for position in self.nameless {
            if let Some(file) = self.tree.files.get_mut(position) {
                next += 1;
                file.file = next;
            }
        }
        self.tree.files.sort_unstable_by_key(|file| file.place.name);
        self.tree.directories = parents_first(std::mem::take(&mut self.tree.directories));
        self.tree
    }

    fn refused(&self, path: &[u8], what: &'static str) -> LoadError {
        LoadError::Left { path: self.shown(path), what }
    }

    fn failed(&self, call: &'static str, path: &[u8], errno: Errno) -> LoadError {
        LoadError::System { call, path: self.shown(path), errno: errno.raw_os_error() }
    }

    fn shown(&self, path: &[u8]) -> std::path::PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        self.test_directory.path().join(std::ffi::OsStr::from_bytes(path))
    }
}

/// Directories by their levels, and by number within a level.
fn parents_first(directories: Vec<Directory>) -> Vec<Directory> {
    let mut below: std::collections::BTreeMap<u32, Vec<u32>> = std::collections::BTreeMap::new();
    for Directory { number, parent } in directories {
        below.entry(parent).or_default().push(number);
    }
    let mut ordered = Vec::new();
    let mut level = vec![0];
    while !level.is_empty() {
        let mut next = Vec::new();
        for parent in level {
            let mut children = below.remove(&parent).unwrap_or_default();
            children.sort_unstable();
            ordered.extend(children.iter().map(|number| Directory { number: *number, parent }));
            next.extend(children);
        }
        level = next;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_what_they_hold() {
        let directory = |number, parent| Directory { number, parent };
        let found = parents_first(vec![directory(1, 7), directory(7, 3), directory(3, 0), directory(2, 0)]);
        assert_eq!(found, [directory(2, 0), directory(3, 0), directory(7, 3), directory(1, 7)]);
    }
}
