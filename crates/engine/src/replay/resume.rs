//! Goes on with a replay that was killed.
//!
//! The state file says for each thread how many records are done, and a thread is at most one operation ahead
//! of it. So the models are brought there by reading the trace, the one operation that may have been under
//! way is undone or taken as done (names are never used twice, so that an inspection of the names and the
//! size tells), and then the directory must have exactly the shape of the models. Where it has not, as after
//! a crash of the host, or the host was started again, the replay starts over: what it had made is removed,
//! but only what has names and content of a replay.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fsage_content::{BLOCK_BYTES, Block, recognise};
use fsage_model::operation::{Action, Operation, OperationKind};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::ReplayError;
use crate::load::{is_empty, top_name};
use crate::location::Anchor;
use crate::trace::{Reader, TraceError};
use crate::tree::{self, Shape, walk};
use crate::workload::Model;

/// Where the threads are.
#[derive(Debug)]
pub struct Position {
    pub models: Vec<Model>,
    /// Records of each thread that are done.
    pub done: Vec<u64>,
    /// Recorded time of the earliest operation that is not.
    pub from_ns: u64,
}

/// The next operation of a thread, and those before it that failed when recorded.
#[derive(Debug, Default)]
struct Pending {
    failed: Vec<Operation>,
    next: Option<(Operation, u64)>,
}

/// Finds the place where an interrupted replay continues; or why it cannot.
///
/// # Errors
/// The trace cannot be read, or the directory not be inspected.
pub fn find(reader: Reader, root: &Anchor, done: Vec<u64>) -> Result<Result<Position, String>, ReplayError> {
    let trees = reader.preamble().directories.clone();
    let mut models: Vec<Model> =
        (0_u32..).zip(&trees).map(|(thread, directories)| Model::new(thread, directories)).collect();
    let mut done = done;
    if done.len() != models.len() {
        return Ok(Err("it had another number of threads".to_owned()));
    }
    let (pending, from_ns) = read_to(reader, &mut models, &done)?;
    for ((model, done), pending) in models.iter_mut().zip(&mut done).zip(pending) {
        let Some((operation, sequence)) = pending.next else { continue };
        let settled = settle(root, model, &operation).map_err(|error| match error {
            Stranger::Found(path) => ReplayError::Stranger { path },
            Stranger::Unseen(path, source) => ReplayError::resume(&path, source),
        })?;
        if settled {
            pending.failed.iter().for_each(|failed| model.fail(failed));
            model.apply(&operation);
            *done = sequence + 1;
        }
    }
    let mut wanted = Shape::default();
    models.iter().for_each(|model| wanted.merge(&model.shape()));
    if walk(&root.held())? != wanted {
        return Ok(Err("the directory is not as it was left".to_owned()));
    }
    Ok(Ok(Position { models, done, from_ns }))
}

/// Brings the models to where the threads are.
fn read_to(reader: Reader, models: &mut [Model], done: &[u64]) -> Result<(Vec<Pending>, u64), TraceError> {
    let mut pending: Vec<Pending> = models.iter().map(|_| Pending::default()).collect();
    let mut from_ns = u64::MAX;
    for record in reader {
        let record = record?;
        let thread = usize::try_from(record.thread).unwrap_or(usize::MAX);
        let (Some(model), Some(pending), Some(done)) =
            (models.get_mut(thread), pending.get_mut(thread), done.get(thread))
        else {
            continue;
        };
        let failed = record.outcome.errno != 0;
        if record.sequence < *done {
            if failed { model.fail(&record.operation) } else { model.apply(&record.operation) }
        } else if pending.next.is_none() {
            if failed {
                pending.failed.push(record.operation);
            } else {
                pending.next = Some((record.operation, record.sequence));
                from_ns = from_ns.min(record.start_ns);
            }
        }
    }
    Ok((pending, if from_ns == u64::MAX { 0 } else { from_ns }))
}

/// Undoes what there is of an operation, or finds that it is done. What is no replay's is left as it is.
fn settle(root: &Anchor, model: &Model, operation: &Operation) -> Result<bool, Stranger> {
    use OperationKind as K;
    let below = PathBuf::from(model.path_of(operation));
    let object = root.path().join(&below);
    let unseen = |error: Errno| Stranger::Unseen(object.clone(), error.into());
    // What is settled is settled in the directory that was inspected.
    let (parent, name) = match root.parent(&below) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(matches!(operation.kind(), K::Delete | K::Rename | K::Rmdir)),
        Err(errno) => return Err(unseen(errno)),
    };
    let facts = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Some(facts),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(unseen(errno)),
    };
    let size = facts.as_ref().map(|facts| u64::try_from(facts.st_size).unwrap_or(0));
    // Looked at before it is touched: somebody may have put a file of that name there meanwhile.
    let ours = || match open_ours(&parent, name, OFlags::RDWR, &mut vec![0; BLOCK_BYTES]) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(Stranger::Found(object.clone())),
        Err(error) => Err(Stranger::Unseen(object.clone(), error)),
    };
    match operation.action {
        Action::Create { .. } => {
            if facts.is_some() {
                ours()?;
                unlinkat(&parent, name, AtFlags::empty()).map_err(unseen)?;
            }
            Ok(false)
        }
        Action::Append { .. } => {
            if size.is_some_and(|size| size > operation.size) {
                rustix::fs::ftruncate(ours()?, operation.size).map_err(unseen)?;
            }
            Ok(false)
        }
        Action::Truncate { new_size } => Ok(size == Some(new_size)),
        Action::Link { .. } | Action::Symlink { .. } | Action::Mkdir { .. } => Ok(facts.is_some()),
        Action::Delete | Action::Rename { .. } | Action::Rmdir { .. } => Ok(facts.is_none()),
        Action::RandomWrite { .. }
        | Action::Overwrite
        | Action::Fallocate { .. }
        | Action::Read { .. }
        | Action::RandomRead { .. }
        | Action::Fsync
        | Action::Fdatasync => Ok(false),
    }
}

/// The threads' trees that are there and hold something, by name.
pub fn used_tops(root: &Anchor, threads: usize) -> Vec<PathBuf> {
    let used = |top: &PathBuf| {
        let opened = root.open(top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        opened.is_ok_and(|top| !is_empty(&top))
    };
    (0_u32..).take(threads).map(top_name).filter(used).collect()
}

/// What tells each thread's tree from every other directory, as the state file keeps it: a hash of inode
/// number and birth time; nothing where there is no tree, or a file system that does not tell when it was
/// made. The device number has no part: it changes when a volume is mounted again.
pub fn identities(root: &Anchor, threads: usize) -> Vec<Option<String>> {
    (0_u32..).take(threads).map(|thread| identity(root, &top_name(thread))).collect()
}

fn identity(root: &Anchor, top: &Path) -> Option<String> {
    let top = root.open(top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let facts = fs::File::from(top).metadata().ok()?;
    let born = facts.created().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let whole = blake3::hash(format!("{} {}", facts.ino(), born.as_nanos()).as_bytes()).to_hex();
    whole.get(..16).map(str::to_owned)
}

/// The first tree in use that is not the one the state file names; nothing when all are.
pub fn stranger(root: &Anchor, kept: &[Option<String>]) -> Option<PathBuf> {
    let is_kept = |top: &PathBuf| {
        let found = identity(root, top);
        found.is_some() && kept.contains(&found)
    };
    used_tops(root, kept.len()).into_iter().find(|top| !is_kept(top)).map(|top| root.path().join(top))
}

/// Removes the threads' trees, after a look that everything in them is a replay's: nothing is removed when
/// one thing is not. `kept` are the identities that the replay noted: another tree is somebody else's, such
/// as a load's, whatever it looks like.
pub fn remove_trees(root: &Anchor, kept: &[Option<String>]) -> Result<(), ReplayError> {
    if let Some(path) = stranger(root, kept) {
        return Err(ReplayError::Stranger { path });
    }
    let tops = used_tops(root, kept.len());
    let mut block = vec![0; BLOCK_BYTES];
    for top in &tops {
        look_through(root, top, &mut block).map_err(|error| match error {
            Stranger::Found(path) => ReplayError::Stranger { path },
            Stranger::Unseen(path, source) => ReplayError::resume(&path, source),
        })?;
    }
    // No link is followed there, neither at the top nor below.
    tops.iter().try_for_each(|top| {
        fs::remove_dir_all(root.held().join(top))
            .map_err(|error| ReplayError::resume(&root.path().join(top), error))
    })
}

/// Why a tree is left alone.
enum Stranger {
    Found(PathBuf),
    Unseen(PathBuf, io::Error),
}

fn look_through(root: &Anchor, top: &Path, block: &mut [u8]) -> Result<(), Stranger> {
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        let unseen = |errno: Errno| Stranger::Unseen(root.path().join(&directory), errno.into());
        let opened = root.open(&directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let opened = opened.map_err(unseen)?;
        for entry in Dir::read_from(&opened).map_err(unseen)? {
            let entry = entry.map_err(unseen)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            let facts = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unseen)?;
            let kind = FileType::from_raw_mode(facts.st_mode);
            if kind == FileType::Directory && tree::is_directory_name(name.to_bytes()) {
                waiting.push(path);
                continue;
            }
            let named = kind != FileType::Directory && tree::is_file_name(name.to_bytes());
            let ours = named && (kind != FileType::RegularFile || is_ours(&opened, name, block, &path)?);
            if !ours {
                return Err(Stranger::Found(root.path().join(path)));
            }
        }
    }
    Ok(())
}

fn is_ours(directory: &OwnedFd, name: &CStr, block: &mut [u8], path: &Path) -> Result<bool, Stranger> {
    let file = open_ours(directory, name, OFlags::RDONLY, block);
    file.map(|file| file.is_some()).map_err(|error| Stranger::Unseen(path.to_owned(), error))
}

/// Opens a regular file whose first block is one of ours, or has not been written; `None` where it is
/// something else.
fn open_ours(
    directory: &OwnedFd,
    name: impl Arg,
    flags: OFlags,
    block: &mut [u8],
) -> io::Result<Option<fs::File>> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file: fs::File = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut length = 0;
    while length < block.len() {
        match file.read(&mut block[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((recognise(&block[..length]) != Block::Foreign).then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_of(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn anchor(folder: &tempfile::TempDir) -> Anchor {
        Anchor::at(folder.path()).unwrap()
    }

    #[test]
    fn only_what_a_replay_made_is_removed() {
        let mut block = vec![0; BLOCK_BYTES];
        fsage_content::fill(&mut block, 5, 0, 1);
        let ours = tree_of(&[("t00/f00000001", &block), ("t00/d0001/f00000002", b""), ("notes", b"kept")]);
        let all = |folder: &tempfile::TempDir| identities(&anchor(folder), 2);
        remove_trees(&anchor(&ours), &all(&ours)).unwrap();
        assert!(!ours.path().join("t00").exists() && ours.path().join("notes").exists());
        for (path, bytes) in [
            ("t00/d0001/notes.txt", &b"text"[..]),
            ("t00/f00000001", b"somebody's own text"),
            ("t01/x/f00000001", b""),
        ] {
            let mixed = tree_of(&[("t00/f00000009", &block), (path, bytes)]);
            let error = remove_trees(&anchor(&mixed), &all(&mixed)).unwrap_err();
            assert!(matches!(error, ReplayError::Stranger { .. }), "{path}: {error}");
            assert!(mixed.path().join("t00/f00000009").exists(), "{path}: nothing was removed");
        }
        // A load's tree in the place of the replay's, and one of which nothing is known.
        let other = tree_of(&[("t00/f00000001", &block)]);
        let before = all(&other);
        fs::rename(other.path().join("t00"), other.path().join("away")).unwrap();
        fs::create_dir(other.path().join("t00")).unwrap();
        fs::write(other.path().join("t00/f00000001"), &block).unwrap();
        for kept in [before, vec![None, None]] {
            let error = remove_trees(&anchor(&other), &kept).unwrap_err();
            assert!(matches!(error, ReplayError::Stranger { .. }), "{error}");
            assert!(other.path().join("t00/f00000001").exists());
        }
        let beyond = tree_of(&[("t05/f00000001", &block)]);
        remove_trees(&anchor(&beyond), &all(&beyond)).unwrap();
        assert!(beyond.path().join("t05/f00000001").exists(), "of another load");
    }
}
