//! A digest of a tree: names, kinds, permissions, sizes, content, what symbolic links say, and which names
//! are the same file. Owners, times and extended attributes are not in it.
//!
//! It is a sum over the things in the tree ([`Digest`]), so it does not depend on the order in which they are
//! listed. A file adds one thing for itself and one for each mebibyte of its content, holes read as zeros;
//! its further names add one thing each, saying with which name they share it. `lost+found` below the root is
//! left out.

use std::collections::BTreeMap;
use std::path::Path;

use fsage_model::digest::Digest;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::{AtFlags, FileType, fstat, readlinkat, statat};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::measure::MeasureError;
use crate::measure::listing::{Found, below, walk};

/// Content that is one thing.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

const DIRECTORY: u64 = 1;
const FILE: u64 = 2;
const CONTENT: u64 = 3;
const SYMLINK: u64 = 4;
const SAME: u64 = 5;
const OTHER: u64 = 6;

/// Bits of a mode that a copy has too.
pub(super) const PERMISSIONS: u32 = 0o777;

/// A digest under way.
#[derive(Debug, Default)]
pub(super) struct TreeDigest {
    digest: Digest,
    /// Names of each file that has several, by device and inode.
    links: BTreeMap<(u64, u64), Vec<Vec<u8>>>,
}

impl TreeDigest {
    pub fn directory(&mut self, path: &[u8], mode: u32) {
        self.digest.add_bytes(&[DIRECTORY, u64::from(mode & PERMISSIONS)], path, b"");
    }

    pub fn file(&mut self, path: &[u8], mode: u32, size: u64) {
        self.digest.add_bytes(&[FILE, u64::from(mode & PERMISSIONS), size], path, b"");
    }

    /// A stretch of content; cut at multiples of [`CHUNK_BYTES`].
    pub fn content(&mut self, path: &[u8], offset: u64, bytes: &[u8]) {
        self.digest.add_bytes(&[CONTENT, offset], path, bytes);
    }

    pub fn symlink(&mut self, path: &[u8], text: &[u8]) {
        self.digest.add_bytes(&[SYMLINK], path, text);
    }

    pub fn other(&mut self, path: &[u8], mode: u32) {
        self.digest.add_bytes(&[OTHER, u64::from(mode)], path, b"");
    }

    /// A name of a file that has several.
    pub fn link(&mut self, inode: (u64, u64), path: &[u8]) {
        self.links.entry(inode).or_default().push(path.to_vec());
    }

    pub fn finish(mut self) -> Digest {
        for mut names in self.links.into_values() {
            names.sort();
            if let Some((first, others)) = names.split_first() {
                for other in others {
                    self.digest.add_bytes(&[SAME], first, other);
                }
            }
        }
        self.digest
    }
}

/// Digest of the tree below `root`, every byte of it read with one thread.
///
/// # Errors
/// Anything that cannot be read.
pub fn tree_digest(root: &Path) -> Result<Digest, MeasureError> {
    let mut digest = TreeDigest::default();
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    let unseen = walk(root, |found| {
        add(found, &mut digest, &mut buffer)
            .map_err(|errno| MeasureError::system("read", &below(root, found.path))(errno))
    })?;
    if unseen.count > 0 {
        let path = root.join(unseen.first);
        return Err(MeasureError::System { what: "read", path, errno: Errno::IO });
    }
    Ok(digest.finish())
}

fn add(found: &Found<'_>, digest: &mut TreeDigest, buffer: &mut [u8]) -> Result<(), Errno> {
    let path = found.path;
    let stat = statat(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW)?;
    match found.kind {
        FileType::Directory => digest.directory(path, stat.st_mode),
        FileType::Symlink => {
            let text = readlinkat(found.directory, found.name, Vec::new())?;
            digest.symlink(path, text.as_bytes());
        }
        FileType::RegularFile => {
            let file = found.open()?;
            let stat = fstat(&file)?;
            digest.file(path, stat.st_mode, u64::try_from(stat.st_size).unwrap_or(0));
            if stat.st_nlink > 1 {
                digest.link((stat.st_dev, stat.st_ino), path);
            }
            let mut at = 0;
            loop {
                let count = fill(&file, at, buffer)?;
                if count > 0 {
                    digest.content(path, at, &buffer[..count]);
                }
                if count < buffer.len() {
                    break;
                }
                at += count as u64;
            }
        }
        _ => digest.other(path, stat.st_mode),
    }
    Ok(())
}

/// Reads from `at` on until the buffer is full or the file ends.
pub(super) fn fill(file: &rustix::fd::OwnedFd, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match retry_on_intr(|| pread(file, &mut buffer[done..], at + done as u64))? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}
