//! Checks that the self-describing data below a directory is what it says.
//!
//! Every block of a file must be whole, of one and the same file identity, and at its own offset. Nothing is known of
//! versions here, so data that is merely too old is not found. A block of zeros inside a file of ours is
//! damage (`zero`): loads leave no holes. A file without any block of ours is damage when its path is one that a
//! load makes ([`crate::tree`]); any other such file is counted and otherwise left alone. Zeros where the file system has space reserved and
//! nothing written are `unwritten`: a load in fast mode did not get to write its data in place.

mod file;

use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crossbeam_channel::{Receiver, bounded};
use fsage_sys::aligned::AlignedBuffer;

use crate::protocol::{FailureKind, VerifyFinding, VerifyResult};
use file::{CHUNK_BYTES, check_file};

/// Findings kept.
const FINDINGS: usize = 100;

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

/// Reads every regular file below `directory` and checks every block, with `threads` threads (0: one a CPU). Other file systems mounted there
/// are left out unless `cross_mounts`.
/// Damage is in the result, not an error; so is a file that cannot be read. Symbolic links are not followed.
/// Memory: about 2 MiB a thread, whatever the number of files.
///
/// # Errors
/// `directory` itself cannot be read.
pub fn run(directory: &Path, threads: usize, cross_mounts: bool) -> Result<VerifyResult, VerifyError> {
    let error = |source| VerifyError::Directory { path: directory.to_owned(), source };
    fs::read_dir(directory).map_err(error)?;
    let mount = if cross_mounts { None } else { Some(mount_of(directory).map_err(error)?) };
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let total = Mutex::new(VerifyResult::default());
    std::thread::scope(|scope| {
        let (paths, inbox) = bounded(WAITING);
        for _ in 0..threads {
            let inbox = inbox.clone();
            scope.spawn(|| check_files(directory, inbox, &total));
        }
        drop(inbox);
        let mut unreadable = VerifyResult::default();
        walk(directory, mount, &mut |entry| match entry {
            // The threads end only after this.
            Ok(path) => drop(paths.send(path)),
            Err(path) => unreadable.unreadable(&below(directory, &path), 0, "the directory cannot be read"),
        });
        drop(paths);
        add(&total, unreadable);
    });
    let mut total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    total.findings.sort_by(|a, b| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
    total.findings.truncate(FINDINGS);
    Ok(total)
}

fn check_files(root: &Path, paths: Receiver<PathBuf>, total: &Mutex<VerifyResult>) {
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    let mut found = VerifyResult::default();
    for path in paths {
        check_file(&path, &below(root, &path), &mut buffer, &mut found);
    }
    add(total, found);
}

/// Number of the mount that a directory is on.
fn mount_of(directory: &Path) -> std::io::Result<u64> {
    let directory = fs::File::open(directory)?;
    Ok(crate::host::mount::number(directory.as_fd())?)
}

/// Visits regular files (`Ok`) and directories that cannot be read (`Err`), of one mount only where it is named.
fn walk(root: &Path, mount: Option<u64>, visit: &mut impl FnMut(Result<PathBuf, PathBuf>)) {
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        if mount.is_some_and(|mount| mount_of(&directory).is_ok_and(|other| other != mount)) {
            continue;
        }
        let Ok(entries) = fs::read_dir(&directory) else {
            visit(Err(directory));
            continue;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                visit(Err(directory.clone()));
                break;
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() => visit(Ok(entry.path())),
                Ok(_) => {}
                Err(_) => visit(Err(entry.path())),
            }
        }
    }
}

fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn add(total: &Mutex<VerifyResult>, part: VerifyResult) {
    // A thread that panicked left whole parts or none.
    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    total.files += part.files;
    total.bytes += part.bytes;
    total.good_blocks += part.good_blocks;
    total.foreign_files += part.foreign_files;
    for (what, count) in part.bad_blocks {
        *total.bad_blocks.entry(what).or_default() += count;
    }
    total.findings.extend(part.findings);
}

impl VerifyResult {
    /// Counts a bad block and keeps it as a finding while there is room.
    fn bad(&mut self, kind: &str, path: &str, offset: u64, what: String) {
        *self.bad_blocks.entry(kind.to_owned()).or_default() += 1;
        if self.findings.len() < FINDINGS {
            self.findings.push(VerifyFinding { path: path.to_owned(), offset, what });
        }
    }

    fn unreadable(&mut self, path: &str, offset: u64, what: &str) {
        self.bad("unreadable", path, offset, what.to_owned());
    }
}
