//! How far a replay is, in a file, so that one that was killed can be resumed.
//!
//! Bytes 0..4096: one line of JSON ([`Header`]), then blanks. From 4096 on 64 bytes per thread, of which the
//! first eight are the number of its records that are done (little endian). A thread writes its number after
//! every operation, into the page cache (through a mapping where that can need no space): a killed process
//! leaves it true to within the one operation that was under way. After a crash of the host it may be
//! anything, which is why the header names the boot, and why the tree is compared with the model before
//! anything continues ([`super::resume`]).

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fsage_sys::mapped_numbers::MappedNumbers;
use fsage_sys::new_file::{self, NewFile, Readers};
use fsage_sys::owners::is_trusted;
use fsage_sys::{folder, input};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::filesystem;
use crate::host::facts::boot_id;

/// Version of the file. 1: first.
const STATE_VERSION: u32 = 1;

/// Bytes of the header, and of a thread's number with what keeps it apart from the next.
const HEADER_BYTES: u64 = 4096;
const SLOT_BYTES: u64 = 64;

/// Last bytes of a trace that tell it from others: the footer is there.
const TAIL_BYTES: u64 = 64 << 10;

/// Which replay it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`STATE_VERSION`].
    format: u32,
    /// Bytes of the trace.
    trace_bytes: u64,
    /// Hash (BLAKE3) of its last 64 KiB.
    trace_tail: String,
    /// Threads.
    threads: usize,
    /// Where it is replayed.
    directory: PathBuf,
    /// Boot of the host.
    boot_id: String,
    /// Identity of each thread's tree, from [`super::resume::identities`]; empty in files from before this
    /// was kept.
    #[serde(default)]
    trees: Vec<Option<String>>,
}

impl Header {
    /// Of a replay of `trace` in `directory` on this host.
    pub fn new(trace: &Path, directory: &Path, threads: usize) -> io::Result<Self> {
        let file = input::open(trace)?;
        let trace_bytes = file.metadata()?.len();
        let from = trace_bytes.saturating_sub(TAIL_BYTES);
        let mut tail = vec![0; usize::try_from(trace_bytes - from).unwrap_or(0)];
        file.read_exact_at(&mut tail, from)?;
        Ok(Self {
            format: STATE_VERSION,
            trace_bytes,
            trace_tail: blake3::hash(&tail).to_hex().to_string(),
            threads,
            directory: directory.to_owned(),
            boot_id: boot_id(),
            trees: Vec::new(),
        })
    }

    /// The same with the identities of the threads' trees.
    pub fn with_trees(self, trees: Vec<Option<String>>) -> Self {
        Self { trees, ..self }
    }

    /// Identities of the threads' trees; `None` when the file is from before they were kept.
    pub fn trees(&self) -> Option<&[Option<String>]> {
        (!self.trees.is_empty()).then_some(&self.trees[..])
    }

    /// Whether it is a replay of the same trace in the same directory.
    pub fn is_same(&self, other: &Self) -> bool {
        let fixed = |it: &Self| Self { boot_id: String::new(), trees: Vec::new(), ..it.clone() };
        fixed(self) == fixed(other)
    }

    /// Whether the host was not started again between them.
    pub fn same_boot(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id
    }
}

/// The file, open.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    file: Arc<File>,
    /// The same, mapped, where writing to it can need no space: it costs a nanosecond instead of a call.
    numbers: Option<Arc<MappedNumbers>>,
}

/// What a file says.
#[derive(Debug)]
pub struct Kept {
    pub header: Header,
    /// For each thread the number of its records that are done.
    pub done: Vec<u64>,
}

impl State {
    /// Makes the file: whole and in its place, or not at all.
    pub fn create(path: &Path, header: &Header, done: &[u64]) -> io::Result<Self> {
        // For its owner alone: what others may write root does not believe (`read`).
        let new = NewFile::create(path, Readers::Owner)?;
        let file = new.file();
        let mut line = serde_json::to_vec(header)?;
        let length = usize::try_from(HEADER_BYTES).unwrap_or(0);
        if line.len() > length {
            return Err(io::Error::other("the path of the directory is too long for it"));
        }
        line.resize(length, b' ');
        file.write_all_at(&line, 0)?;
        for (thread, done) in (0_u64..).zip(done) {
            let mut slot = [0; 64];
            slot[..8].copy_from_slice(&done.to_le_bytes());
            file.write_all_at(&slot, HEADER_BYTES + thread * SLOT_BYTES)?;
        }
        let file = Arc::new(new.commit()?);
        Ok(Self { path: path.to_owned(), numbers: mapped(&file).map(Arc::new), file })
    }

    /// Reads a file; nothing where there is none, an error where it is something else. What it says can make
    /// a replay remove files, so root reads only a file that nobody else could have written.
    pub fn read(path: &Path) -> io::Result<Option<Kept>> {
        let Some(file) = new_file::open_existing(path)? else { return Ok(None) };
        let facts = file.metadata()?;
        let others_write = facts.mode() & 0o022 != 0;
        if geteuid().is_root() && (others_write || !is_trusted(facts.uid())) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user could have written it, so it is not believed",
            ));
        }
        let mut line = vec![0; usize::try_from(HEADER_BYTES).unwrap_or(4096)];
        file.read_exact_at(&mut line, 0)?;
        let header: Header = serde_json::from_slice(&line)?;
        if header.format != STATE_VERSION || !(1..=64).contains(&header.threads) {
            return Err(io::Error::other("it is of another version"));
        }
        let slots = u64::try_from(header.threads).unwrap_or(0);
        let done = (0..slots).map(|thread| {
            let mut number = [0; 8];
            file.read_exact_at(&mut number, HEADER_BYTES + thread * SLOT_BYTES)?;
            Ok(u64::from_le_bytes(number))
        });
        Ok(Some(Kept { done: done.collect::<io::Result<_>>()?, header }))
    }

    /// Where a thread notes how far it is.
    pub fn counter(&self, thread: u64) -> Counter {
        let offset = HEADER_BYTES + thread * SLOT_BYTES;
        Counter { file: Arc::clone(&self.file), offset, numbers: self.numbers.clone() }
    }

    /// Removes the file: the replay is over.
    pub fn remove(self) -> io::Result<()> {
        let (folder, name) = folder::Folder::of(&self.path)?;
        folder.remove(&name)
    }
}

/// One thread's number.
#[derive(Debug)]
pub struct Counter {
    file: Arc<File>,
    offset: u64,
    numbers: Option<Arc<MappedNumbers>>,
}

/// The file's numbers, where its file system overwrites blocks in place; elsewhere a full volume would end the
/// process instead of the write.
fn mapped(file: &File) -> Option<MappedNumbers> {
    let facts = filesystem::facts(file.as_fd()).ok()?;
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
    facts.overwrites_blocks.then(|| MappedNumbers::writable(file, length).ok())?
}

impl Counter {
    /// Notes that so many records are done.
    #[inline]
    pub fn set(&self, done: u64) {
        let number = self.numbers.as_ref().zip(usize::try_from(self.offset / 8).ok());
        if let Some(number) = number.and_then(|(numbers, index)| numbers.get(index)) {
            number.store(done.to_le(), Ordering::Release);
            return;
        }
        // When it fails the number is behind, the tree will not be what it says, and the replay starts over.
        let _ = self.file.write_all_at(&done.to_le_bytes(), self.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (trace, path) = (folder.path().join("trace"), folder.path().join("state"));
        std::fs::write(&trace, b"some trace").unwrap();
        assert!(State::read(&path).unwrap().is_none());
        let header = Header::new(&trace, folder.path(), 3).unwrap();
        let state = State::create(&path, &header, &[0, 7, 0]).unwrap();
        state.counter(2).set(1 << 40);
        let kept = State::read(&path).unwrap().unwrap();
        assert_eq!((&kept.header, &kept.done[..]), (&header, &[0, 7, 1 << 40][..]));
        assert!(kept.header.is_same(&header) && kept.header.same_boot(&header));
        std::fs::write(&trace, b"other trace").unwrap();
        assert!(!Header::new(&trace, folder.path(), 3).unwrap().is_same(&header));
        state.remove().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, b"{}").unwrap();
        assert!(State::read(&path).is_err());
    }

    #[test]
    fn a_file_of_before_has_no_identities_and_they_do_not_make_another_replay() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        std::fs::write(&trace, b"some trace").unwrap();
        let header = Header::new(&trace, folder.path(), 2).unwrap();
        let mut old = serde_json::to_value(&header).unwrap();
        old.as_object_mut().unwrap().remove("trees");
        let old: Header = serde_json::from_value(old).unwrap();
        assert!(old.trees().is_none());
        let now = header.with_trees(vec![Some("a".to_owned()), None]);
        assert!(now.is_same(&old) && now.trees().is_some_and(|trees| trees.len() == 2));
    }

    #[test]
    fn what_others_could_have_put_there_is_not_read_and_not_waited_for() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        use std::path::PathBuf;

        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        std::fs::write(&trace, b"some trace").unwrap();
        let header = Header::new(&trace, folder.path(), 1).unwrap();
        let make = |name: &str| -> PathBuf {
            let path = folder.path().join(name);
            State::create(&path, &header, &[3]).unwrap();
            path
        };
        let good = make("good");
        assert!(State::read(&good).unwrap().is_some());
        let link = folder.path().join("link");
        symlink(&good, &link).unwrap();
        assert!(State::read(&link).is_err());
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(State::read(&pipe).is_err());
        let twice = make("twice");
        std::fs::hard_link(&twice, folder.path().join("again")).unwrap();
        assert!(State::read(&twice).is_err());
        if geteuid().is_root() {
            let (writable, foreign) = (make("writable"), make("foreign"));
            std::fs::set_permissions(&writable, std::fs::Permissions::from_mode(0o666)).unwrap();
            assert!(State::read(&writable).is_err());
            std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
            assert!(State::read(&foreign).is_err());
        }
    }
}
