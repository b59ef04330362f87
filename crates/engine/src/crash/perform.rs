//! Doing an operation of a load, below its directory and nowhere else.

use std::path::Path;

use fsage_content::fill;
use fsage_model::crash::{ATTRIBUTE_NAME, CrashOperation};
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::{write_back, write_mapped};
use rustix::fd::AsFd;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags, fallocate, fdatasync, fremovexattr,
    fsetxattr, fsync, ftruncate, linkat, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::{Errno, pwrite};

use super::tree::{BLOCK, Identity, Tree, attribute_bytes};
use crate::location::Anchor;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Whether an operation was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It was.
    Yes,
    /// The file system has no such operation, or one left out before makes it impossible.
    No,
}

/// Does it, where it is possible. `tree` is the tree before. Where the file system has no `fallocate` the file is made longer and
/// zeros are written.
///
/// # Errors
/// What the kernel says.
pub fn perform(directory: &Anchor, tree: &Tree, operation: &CrashOperation) -> Result<Done, Errno> {
    if !is_possible(tree, operation) {
        return Ok(Done::No);
    }
    match do_it(directory, tree, operation) {
        Ok(()) => Ok(Done::Yes),
        Err(Errno::INVAL) if matches!(operation, CrashOperation::Exchange { .. }) => Ok(Done::No),
        // Without `user_xattr`.
        Err(Errno::OPNOTSUPP) if matches!(operation, CrashOperation::SetAttribute { .. }) => Ok(Done::No),
        Err(errno) => Err(errno),
    }
}

/// Whether a write leaves every block with one version, and a mapped one is within the file: so it is when a load is made, and
/// perhaps not after an exchange that was left out.
fn is_possible(tree: &Tree, operation: &CrashOperation) -> bool {
    let end = |path: &str, offset: u64, length: u64| {
        tree.contents(path).map(|held| (held.size_bytes, offset + length))
    };
    match operation {
        CrashOperation::Write { path, offset_bytes, length_bytes } => {
            end(path, *offset_bytes, *length_bytes).is_some_and(|(size, end)| end >= size || end % BLOCK == 0)
        }
        CrashOperation::MappedWrite { path, offset_bytes, length_bytes } => {
            end(path, *offset_bytes, *length_bytes)
                .is_some_and(|(size, end)| end == size || (end < size && end % BLOCK == 0))
        }
        CrashOperation::RemoveAttribute { path } => {
            tree.contents(path).is_some_and(|held| held.attribute > 0)
        }
        _ => true,
    }
}

fn do_it(directory: &Anchor, tree: &Tree, operation: &CrashOperation) -> Result<(), Errno> {
    let open = |path: &str, flags| directory.open(path, flags, FILE_MODE);
    match operation {
        CrashOperation::Create { path } => {
            open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map(drop)
        }
        CrashOperation::Write { path, offset_bytes, length_bytes } => {
            let bytes = content(tree, tree.file(path), *offset_bytes, *length_bytes)?;
            write_all(open(path, OFlags::WRONLY)?, &bytes, *offset_bytes)
        }
        CrashOperation::DirectWrite { path, offset_bytes, length_bytes } => {
            let bytes = content(tree, tree.file(path), *offset_bytes, *length_bytes)?;
            write_all(open(path, OFlags::WRONLY | OFlags::DIRECT)?, &bytes, *offset_bytes)
        }
        CrashOperation::MappedWrite { path, offset_bytes, length_bytes } => {
            let bytes = content(tree, tree.file(path), *offset_bytes, *length_bytes)?;
            let file = open(path, OFlags::RDWR)?;
            write_mapped(file.as_fd(), *offset_bytes, &bytes).map_err(plain)
        }
        CrashOperation::LinkUnnamed { path, length_bytes } => {
            let (parent, name) = directory.parent(Path::new(path))?;
            let file = openat(&parent, ".", OFlags::WRONLY | OFlags::TMPFILE, FILE_MODE)?;
            write_all(&file, &content(tree, Some(tree.next_file()), 0, *length_bytes)?, 0)?;
            fsync(&file)?;
            linkat(&file, "", parent, name, AtFlags::EMPTY_PATH)
        }
        CrashOperation::WriteOut { path } => write_back(open(path, OFlags::WRONLY)?.as_fd()).map_err(plain),
        CrashOperation::Punch { path, offset_bytes, length_bytes } => {
            punch(open(path, OFlags::WRONLY)?, size(tree, path), *offset_bytes, *length_bytes)
        }
        CrashOperation::Allocate { path, size_bytes } => {
            allocate(open(path, OFlags::WRONLY)?, size(tree, path), *size_bytes)
        }
        CrashOperation::Truncate { path, size_bytes } => ftruncate(open(path, OFlags::WRONLY)?, *size_bytes),
        CrashOperation::Rename { from, to } => {
            let (old, old_name) = directory.parent(Path::new(from))?;
            let (new, new_name) = directory.parent(Path::new(to))?;
            renameat(old, old_name, new, new_name)
        }
        CrashOperation::Exchange { from, to } => {
            let (old, old_name) = directory.parent(Path::new(from))?;
            let (new, new_name) = directory.parent(Path::new(to))?;
            renameat_with(old, old_name, new, new_name, RenameFlags::EXCHANGE)
        }
        CrashOperation::Link { from, to } => {
            let (old, old_name) = directory.parent(Path::new(from))?;
            let (new, new_name) = directory.parent(Path::new(to))?;
            linkat(old, old_name, new, new_name, AtFlags::empty())
        }
        CrashOperation::Unlink { path } => remove(directory, path, AtFlags::empty()),
        CrashOperation::Mkdir { path } => {
            let (parent, name) = directory.parent(Path::new(path))?;
            mkdirat(parent, name, Mode::RWXU)
        }
        CrashOperation::Rmdir { path } => remove(directory, path, AtFlags::REMOVEDIR),
        CrashOperation::SetAttribute { path } => {
            let file = tree.file(path).ok_or(Errno::NOENT)?;
            let value = attribute_bytes(file, tree.next_version());
            fsetxattr(open(path, OFlags::WRONLY)?, ATTRIBUTE_NAME, &value, XattrFlags::empty())
        }
        CrashOperation::RemoveAttribute { path } => fremovexattr(open(path, OFlags::WRONLY)?, ATTRIBUTE_NAME),
        CrashOperation::Fsync { path } => fsync(open(path, OFlags::WRONLY)?),
        CrashOperation::Fdatasync { path } => fdatasync(open(path, OFlags::WRONLY)?),
        CrashOperation::FsyncDirectory { path } if path.is_empty() => fsync(directory),
        CrashOperation::FsyncDirectory { path } => fsync(open(path, OFlags::RDONLY | OFlags::DIRECTORY)?),
        CrashOperation::Sync => rustix::fs::syncfs(directory),
    }
}

fn remove(directory: &Anchor, path: &str, flags: AtFlags) -> Result<(), Errno> {
    let (parent, name) = directory.parent(Path::new(path))?;
    unlinkat(parent, name, flags)
}

/// What the next write puts there, at an address for direct I/O.
fn content(tree: &Tree, file: Option<Identity>, offset: u64, length: u64) -> Result<AlignedBuffer, Errno> {
    let mut bytes = AlignedBuffer::new(usize::try_from(length).map_err(|_| Errno::FBIG)?);
    fill(&mut bytes, file.ok_or(Errno::NOENT)?, offset, tree.next_version());
    Ok(bytes)
}

/// The size of a file.
fn size(tree: &Tree, path: &str) -> u64 {
    tree.contents(path).map_or(0, |held| held.size_bytes)
}

/// Makes a hole in a file of `size` bytes, or writes zeros as far as it goes.
fn punch(file: impl AsFd, size: u64, offset: u64, length: u64) -> Result<(), Errno> {
    match fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
        Err(Errno::OPNOTSUPP) => {
            let length = (offset + length).min(size).saturating_sub(offset);
            write_all(file, &vec![0; usize::try_from(length).map_err(|_| Errno::FBIG)?], offset)
        }
        done => done,
    }
}

/// Allocates `wanted` bytes of a file of `size`, or makes it that long.
fn allocate(file: impl AsFd, size: u64, wanted: u64) -> Result<(), Errno> {
    match fallocate(&file, FallocateFlags::empty(), 0, wanted) {
        Err(Errno::OPNOTSUPP) => ftruncate(file, size.max(wanted)),
        done => done,
    }
}

fn write_all(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        let written = pwrite(&file, rest, at)?;
        rest = rest.get(written..).unwrap_or_default();
        at += u64::try_from(written).unwrap_or(0);
    }
    Ok(())
}

fn plain(error: fsage_sys::Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt as _;

    use fsage_model::crash::{CrashLoad, CrashLoadSpec};
    use fsage_model::location::Location;

    use super::super::load::generate;
    use super::super::tree::Node;
    use super::*;
    use crate::location::Reach as _;

    /// Done on the file system of the temporary folder, every operation of `data` leaves what the tree says.
    #[test]
    fn every_kind_comes_and_the_kernel_does_what_the_tree_says() {
        let place = tempfile::tempdir().unwrap();
        let directory = Location::from(place.path()).open().unwrap();
        let spec = CrashLoadSpec { load: CrashLoad::Data, size: 600, seed: 3, threads: 1 };
        let generated = generate(spec).unwrap();
        assert_eq!(generated.operations.len(), 600);
        let (mut tree, mut kinds) = (Tree::new(spec.seed), BTreeSet::new());
        for operation in generated.base.iter().chain(&generated.operations) {
            kinds.insert(operation.to_string().split(' ').next().unwrap().to_owned());
            let done = perform(&directory, &tree, operation);
            if done.unwrap_or_else(|errno| panic!("{operation}: {errno}")) == Done::Yes {
                tree.apply(operation);
            }
            let listed = std::fs::read_dir(place.path()).unwrap();
            let listed: BTreeSet<String> =
                listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            assert_eq!(listed, tree.names.keys().cloned().collect(), "{operation}");
        }
        assert_eq!(kinds.len(), 15, "{kinds:?}");
        for (name, node) in &tree.names {
            let Node::File(file) = node else { panic!("{name}") };
            let held = tree.contents(name).unwrap();
            let opened = std::fs::File::open(place.path().join(name)).unwrap();
            let mut bytes = vec![1; usize::try_from(held.size_bytes).unwrap()];
            opened.read_exact_at(&mut bytes, 0).unwrap();
            assert!(
                bytes == held.bytes(*file) && opened.metadata().unwrap().len() == held.size_bytes,
                "{name}"
            );
        }
    }
}
