//! Goes on with a replay that was killed.
//!
//! The state file says for each thread how many records are done, and a thread is at most one operation ahead of it. So the models
//! are brought there by reading the trace, the one operation that may have been under way is undone or taken as done (names are never used twice, so
//! that a look at the names and the size tells), and then the directory must have exactly the shape of the models. Where it has not, as after a crash of
//! the host, or the host was started anew, the replay starts over: what it had made is removed, but only
//! what has names and content of a replay.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fsage_content::{BLOCK_BYTES, Block, recognise};

use super::ReplayError;
use crate::operation::{Operation, OperationKind};
use crate::trace::{Reader, TraceError};
use crate::tree::{self, Shape, walk};
use crate::workload::Model;

/// `O_NOFOLLOW`: a link is never a replay's file.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

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

/// Finds the place where an interrupted replay goes on; or why it cannot.
///
/// # Errors
/// The trace cannot be read, or the directory not be looked at.
pub fn find(reader: Reader, root: &Path, done: Vec<u64>) -> Result<Result<Position, String>, ReplayError> {
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
    if walk(root)? != wanted {
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
fn settle(root: &Path, model: &Model, operation: &Operation) -> Result<bool, Stranger> {
    use OperationKind as K;
    let object = root.join(model.path_of(operation));
    let unseen = |error| Stranger::Unseen(object.clone(), error);
    let is_there = |path: &Path| match fs::symlink_metadata(path) {
        Ok(facts) => Ok(Some(facts)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Stranger::Unseen(path.to_owned(), error)),
    };
    // Looked at before it is touched: somebody may have put a file of that name there meanwhile.
    let ours = |facts: &fs::Metadata| {
        let mut block = vec![0; BLOCK_BYTES];
        if facts.is_file() && begins_as_ours(&object, &mut block).map_err(unseen)? {
            Ok(())
        } else {
            Err(Stranger::Found(object.clone()))
        }
    };
    match operation.kind {
        K::Create => {
            if let Some(facts) = is_there(&object)? {
                ours(&facts)?;
                fs::remove_file(&object).map_err(unseen)?;
            }
            Ok(false)
        }
        K::Append => {
            if let Some(facts) = is_there(&object)?.filter(|facts| facts.len() > operation.size) {
                ours(&facts)?;
                let file = fs::OpenOptions::new().write(true).custom_flags(NO_FOLLOW).open(&object);
                file.and_then(|file| file.set_len(operation.size)).map_err(unseen)?;
            }
            Ok(false)
        }
        K::Truncate => Ok(is_there(&object)?.is_some_and(|facts| facts.len() == operation.offset)),
        K::Link | K::Symlink | K::Mkdir => Ok(is_there(&object)?.is_some()),
        K::Delete | K::Rename | K::Rmdir => Ok(is_there(&object)?.is_none()),
        K::RandomWrite | K::Overwrite | K::Fallocate | K::Read | K::RandomRead | K::Fsync | K::Fdatasync => {
            Ok(false)
        }
    }
}

/// The threads' trees that are there and hold something.
pub fn used_tops(root: &Path, threads: usize) -> Vec<PathBuf> {
    let mut name = Vec::new();
    (0_u32..)
        .take(threads)
        .map(|thread| {
            name.clear();
            tree::write_top_name(&mut name, thread);
            root.join(std::ffi::OsStr::from_bytes(&name))
        })
        .filter(|top| fs::read_dir(top).is_ok_and(|mut entries| entries.next().is_some()))
        .collect()
}

/// Removes the threads' trees, after a look that everything in them is a replay's: nothing is removed when one thing is not. `left` is when the
/// replay noted its place last: a tree that was made later is somebody else's, such as a load's, whatever it looks like.
pub fn remove_trees(root: &Path, threads: usize, left: SystemTime) -> Result<(), ReplayError> {
    let tops = used_tops(root, threads);
    let mut block = vec![0; BLOCK_BYTES];
    for top in &tops {
        // Where a file system does not tell when a tree was made, nothing proves that it is the replay's.
        if !fs::metadata(top).and_then(|facts| facts.created()).is_ok_and(|made| made <= left) {
            return Err(ReplayError::Stranger { path: top.clone() });
        }
        look_through(top, &mut block).map_err(|error| match error {
            Stranger::Found(path) => ReplayError::Stranger { path },
            Stranger::Unseen(path, source) => ReplayError::resume(&path, source),
        })?;
    }
    tops.iter().try_for_each(|top| fs::remove_dir_all(top).map_err(|error| ReplayError::resume(top, error)))
}

/// Why a tree is left alone.
enum Stranger {
    Found(PathBuf),
    Unseen(PathBuf, io::Error),
}

fn look_through(top: &Path, block: &mut [u8]) -> Result<(), Stranger> {
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        let unseen = |error| Stranger::Unseen(directory.clone(), error);
        for entry in fs::read_dir(&directory).map_err(unseen)? {
            let entry = entry.map_err(unseen)?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().map_err(|error| Stranger::Unseen(path.clone(), error))?;
            if kind.is_dir() && tree::is_directory_name(name.as_bytes()) {
                waiting.push(path);
                continue;
            }
            let named = !kind.is_dir() && tree::is_file_name(name.as_bytes());
            let ours = named
                && (!kind.is_file()
                    || begins_as_ours(&path, block)
                        .map_err(|error| Stranger::Unseen(path.clone(), error))?);
            if !ours {
                return Err(Stranger::Found(path));
            }
        }
    }
    Ok(())
}

/// Whether a file's first block is one of ours, or has not been written.
fn begins_as_ours(path: &Path, block: &mut [u8]) -> io::Result<bool> {
    let mut file = fs::File::open(path)?;
    let mut length = 0;
    while length < block.len() {
        match file.read(&mut block[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(recognise(&block[..length]) != Block::Foreign)
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

    #[test]
    fn only_what_a_replay_made_is_removed() {
        let mut block = vec![0; BLOCK_BYTES];
        fsage_content::fill(&mut block, 5, 0, 1);
        let ours = tree_of(&[("t00/f00000001", &block), ("t00/d0001/f00000002", b""), ("notes", b"kept")]);
        remove_trees(ours.path(), 2, SystemTime::now()).unwrap();
        assert!(!ours.path().join("t00").exists() && ours.path().join("notes").exists());
        for (path, bytes) in [
            ("t00/d0001/notes.txt", &b"text"[..]),
            ("t00/f00000001", b"somebody's own text"),
            ("t01/x/f00000001", b""),
        ] {
            let mixed = tree_of(&[("t00/f00000009", &block), (path, bytes)]);
            let error = remove_trees(mixed.path(), 2, SystemTime::now()).unwrap_err();
            assert!(matches!(error, ReplayError::Stranger { .. }), "{path}: {error}");
            assert!(mixed.path().join("t00/f00000009").exists(), "{path}: nothing was removed");
        }
        let later = tree_of(&[("t00/f00000001", &block)]);
        let error = remove_trees(later.path(), 2, SystemTime::UNIX_EPOCH).unwrap_err();
        assert!(matches!(error, ReplayError::Stranger { .. }), "it was made after the replay: {error}");
        let beyond = tree_of(&[("t05/f00000001", &block)]);
        remove_trees(beyond.path(), 2, SystemTime::now()).unwrap();
        assert!(beyond.path().join("t05/f00000001").exists(), "of another load");
    }
}
