//! Doing an operation of a load, below its directory and nowhere else.

use std::path::Path;

use fsage_content::fill;
use fsage_model::crash::CrashOperation;
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fsync, ftruncate, linkat, mkdirat, renameat, unlinkat};
use rustix::io::{Errno, pwrite};

use super::tree::Tree;
use crate::location::Anchor;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Does it. `tree` is the tree before.
///
/// # Errors
/// What the kernel says.
pub fn perform(directory: &Anchor, tree: &Tree, operation: &CrashOperation) -> Result<(), Errno> {
    let open = |path: &str, flags| directory.open(path, flags, FILE_MODE);
    match operation {
        CrashOperation::Create { path } => {
            open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map(drop)
        }
        CrashOperation::Write { path, offset_bytes, length_bytes } => {
            let file = tree.file(path).ok_or(Errno::NOENT)?;
            let mut bytes = vec![0; usize::try_from(*length_bytes).map_err(|_| Errno::FBIG)?];
            fill(&mut bytes, file, *offset_bytes, tree.next_version());
            let opened = open(path, OFlags::WRONLY)?;
            let (mut rest, mut at) = (bytes.as_slice(), *offset_bytes);
            while !rest.is_empty() {
                let written = pwrite(&opened, rest, at)?;
                rest = rest.get(written..).unwrap_or_default();
                at += u64::try_from(written).unwrap_or(0);
            }
            Ok(())
        }
        CrashOperation::Truncate { path, size_bytes } => ftruncate(open(path, OFlags::WRONLY)?, *size_bytes),
        CrashOperation::Rename { from, to } => {
            let (old, old_name) = directory.parent(Path::new(from))?;
            let (new, new_name) = directory.parent(Path::new(to))?;
            renameat(old, old_name, new, new_name)
        }
        CrashOperation::Link { from, to } => {
            let (old, old_name) = directory.parent(Path::new(from))?;
            let (new, new_name) = directory.parent(Path::new(to))?;
            linkat(old, old_name, new, new_name, AtFlags::empty())
        }
        CrashOperation::Unlink { path } => {
            let (parent, name) = directory.parent(Path::new(path))?;
            unlinkat(parent, name, AtFlags::empty())
        }
        CrashOperation::Mkdir { path } => {
            let (parent, name) = directory.parent(Path::new(path))?;
            mkdirat(parent, name, Mode::RWXU)
        }
        CrashOperation::Rmdir { path } => {
            let (parent, name) = directory.parent(Path::new(path))?;
            unlinkat(parent, name, AtFlags::REMOVEDIR)
        }
        CrashOperation::Fsync { path } => fsync(open(path, OFlags::WRONLY)?),
        CrashOperation::Fdatasync { path } => fdatasync(open(path, OFlags::WRONLY)?),
        CrashOperation::FsyncDirectory { path } if path.is_empty() => fsync(directory),
        CrashOperation::FsyncDirectory { path } => fsync(open(path, OFlags::RDONLY | OFlags::DIRECTORY)?),
        CrashOperation::Sync => rustix::fs::syncfs(directory),
    }
}
