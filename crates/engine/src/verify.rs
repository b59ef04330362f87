//! Checks that the self-describing data below a directory is what it says.
//!
//! Every block of a file must be whole, of one and the same file identity, and at its own offset. Nothing is
//! known of versions here, so data that is merely too old is not found. A block of zeros inside a file of
//! ours is damage (`zero`): loads leave no holes. A file without any block of ours is damage when its path is
//! one that a load makes ([`crate::tree`]); any other such file is counted and otherwise left alone. Zeros
//! where the file system has space reserved and nothing written are `unwritten`: a load in fast mode did not
//! get to write its data in place.

mod file;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crossbeam_channel::{Receiver, bounded};
use fsage_model::protocol::FailureKind;
use fsage_model::verify::{FINDINGS, VerifyResult};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, fstat, statat};
use rustix::io::Errno;

use crate::location::Anchor;
use crate::tree::is_file_path;
use file::{CHUNK_BYTES, check_file};

/// Paths under way to the threads.
const WAITING: usize = 1024;

/// Why a directory could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The directory could not be read.
    #[error("cannot read directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl VerifyError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub const fn hint(&self) -> String {
        String::new()
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Directory { .. } => FailureKind::Failed,
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Directory { source, .. } => source.raw_os_error(),
        }
    }
}

/// Reads every regular file below `directory` and checks every block, with `threads` threads (0: one per
/// CPU). Other file systems mounted there are left out unless `cross_mounts`. Damage is in the result, not an
/// error; so is a file that cannot be read. Symbolic links are not followed. Memory: about 2 MiB per thread,
/// whatever the number of files.
///
/// # Errors
/// `directory` itself cannot be read.
pub fn run(directory: &Path, threads: usize, cross_mounts: bool) -> Result<VerifyResult, VerifyError> {
    let error = |errno: Errno| VerifyError::Directory { path: directory.to_owned(), source: errno.into() };
    Ok(run_in(&Anchor::at(directory).map_err(error)?, threads, cross_mounts))
}

/// As [`run`], below an open directory.
#[must_use]
pub fn run_in(directory: &Anchor, threads: usize, cross_mounts: bool) -> VerifyResult {
    let tree = Tree { root: directory, cross_mounts };
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let total = Mutex::new(VerifyResult::default());
    std::thread::scope(|scope| {
        let (paths, inbox) = bounded(WAITING);
        for _ in 0..threads {
            let inbox = inbox.clone();
            scope.spawn(|| check_files(tree, inbox, &total));
        }
        drop(inbox);
        let mut unreadable = VerifyResult::default();
        walk(tree, &mut |entry| match entry {
            // The threads end only after this.
            Ok(path) => drop(paths.send(path)),
            Err(path) => unreadable.unreadable(&shown(&path), 0, "the directory cannot be read"),
        });
        drop(paths);
        add(&total, unreadable);
    });
    let mut total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    total.findings.sort_by(|a, b| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
    total.findings.truncate(FINDINGS);
    total
}

fn check_files(tree: Tree<'_>, paths: Receiver<PathBuf>, total: &Mutex<VerifyResult>) {
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    let mut found = VerifyResult::default();
    for path in paths {
        let is_ours = is_file_path(&tree.root.path().join(&path));
        check_file(tree.file(&path), &shown(&path), is_ours, &mut buffer, &mut found);
    }
    add(total, found);
}

/// What is verified.
#[derive(Clone, Copy)]
struct Tree<'a> {
    root: &'a Anchor,
    /// Other mounts below it are part of it.
    cross_mounts: bool,
}

impl Tree<'_> {
    fn open(self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.cross_mounts {
            self.root.open_across(path, flags, Mode::empty())
        } else {
            self.root.open(path, flags, Mode::empty())
        }
    }

    /// A regular file and nothing that took its name meanwhile.
    fn file(self, path: &Path) -> Result<File, Errno> {
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let regular = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
        if regular { Ok(file.into()) } else { Err(Errno::INVAL) }
    }
}

/// Visits regular files (`Ok`) and directories that cannot be read (`Err`), by their paths below the root.
fn walk(tree: Tree<'_>, visit: &mut impl FnMut(Result<PathBuf, PathBuf>)) {
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(directory) = waiting.pop() {
        let path = directory.strip_prefix(".").unwrap_or(&directory);
        let Some(opened) = (match tree.open(&directory, OFlags::RDONLY | OFlags::DIRECTORY) {
            // Another mount.
            Err(Errno::XDEV) => continue,
            opened => opened.ok(),
        }) else {
            visit(Err(path.to_owned()));
            continue;
        };
        let Ok(entries) = Dir::read_from(&opened) else {
            visit(Err(path.to_owned()));
            continue;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                visit(Err(path.to_owned()));
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            match kind(&opened, &entry) {
                Ok(FileType::Directory) => waiting.push(below),
                Ok(FileType::RegularFile) => visit(Ok(below)),
                Ok(_) => {}
                Err(_) => visit(Err(below)),
            }
        }
    }
}

/// The kind of a name, asked for where the directory does not tell.
fn kind(directory: &OwnedFd, entry: &DirEntry) -> Result<FileType, Errno> {
    match entry.file_type() {
        FileType::Unknown => {
            let facts = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(facts.st_mode))
        }
        reported => Ok(reported),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn add(total: &Mutex<VerifyResult>, part: VerifyResult) {
    // A thread that panicked left whole parts or none.
    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    total.files += part.files;
    total.bytes = total.bytes.saturating_add(part.bytes);
    total.good_blocks += part.good_blocks;
    total.foreign_files += part.foreign_files;
    for (what, count) in part.bad_blocks {
        *total.bad_blocks.entry(what).or_default() += count;
    }
    total.findings.extend(part.findings);
}
