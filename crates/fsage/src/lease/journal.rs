//! The journal: `leases.jsonl` in the store, one [`LeaseRecord`] a line, fsynced line by line.
//!
//! A torn last line is the mark of a crash while it was written: its lease was not taken yet (or its
//! release will be done again), so it is cut off, both when the journal is opened and when a write fails (a full
//! disk): the next line must not be glued to it. Any other line that cannot be read is skipped and
//! reported. Opening a journal without outstanding leases empties it, so that it does not grow for ever.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::LeaseError;
use super::record::{Lease, LeaseRecord, LeaseState};
use super::registry;
use crate::target::Session;

/// The journal's name in the store.
pub const FILE_NAME: &str = "leases.jsonl";

/// Names a lease within its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(u64);

/// The open, locked journal of one store.
#[derive(Debug)]
pub struct Journal {
    store: PathBuf,
    path: PathBuf,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// A write failed, and what it left could not be cut off yet.
    torn: bool,
    boot_id: String,
    next_number: u64,
    outstanding: Vec<LeaseRecord>,
    damaged_lines: usize,
    registered: bool,
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Closing would not do while a child that was just forked still has the file open.
        let _ = self.file.unlock();
    }
}

impl Journal {
    /// Opens (or makes) the journal of `store`, an existing folder, and locks it until it is dropped.
    ///
    /// # Errors
    /// Another process has it open; the folder is missing; reading or writing fails.
    pub fn open(store: &Path) -> Result<Self, LeaseError> {
        let store = store
            .canonicalize()
            .ok()
            .filter(|path| path.is_dir())
            .ok_or_else(|| LeaseError::NoStore { store: store.to_owned() })?;
        let path = store.join(FILE_NAME);
        let failed = |what| {
            let path = path.clone();
            move |source| LeaseError::Journal { what, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LeaseError::Locked { by: holder(&file), store });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let content = parse(&bytes);
        let keep =
            if content.outstanding.is_empty() && content.damaged_lines == 0 { 0 } else { content.whole };
        if keep < bytes.len() {
            file.set_len(keep as u64).and_then(|()| file.sync_all()).map_err(failed("cut"))?;
        }
        file.seek(SeekFrom::Start(keep as u64)).map_err(failed("seek in"))?;
        File::open(&store).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder of"))?;
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok(Self {
            boot_id: boot_id.trim().to_owned(),
            next_number: content.last_number + 1,
            outstanding: content.outstanding,
            damaged_lines: content.damaged_lines,
            registered: false,
            store,
            path,
            file,
            length: keep as u64,
            torn: false,
        })
    }

    /// Leases the agent itself. Must come before everything that the session is going to take.
    ///
    /// # Errors
    /// As [`Journal::take`].
    pub fn attach(&mut self, session: &Session) -> Result<LeaseId, LeaseError> {
        let identity = session.identity();
        if !identity.boot_id.is_empty() {
            self.boot_id.clone_from(&identity.boot_id);
        }
        self.take(Lease::Process { pid: identity.pid, start_ticks: identity.start_ticks })
    }

    /// Writes down that `lease` is about to be taken. Take it only when this has returned.
    ///
    /// # Errors
    /// The journal cannot be written (then nothing may be taken); a file that exists, or a mount point
    /// where something is mounted, that no outstanding lease of this journal covers; a relative path.
    pub fn take(&mut self, lease: Lease) -> Result<LeaseId, LeaseError> {
        self.check(&lease)?;
        if !self.registered {
            registry::add(&self.store)?;
            self.registered = true;
        }
        let boot_id = self.boot_id.clone();
        let record = LeaseRecord { number: self.next_number, boot_id, state: LeaseState::Taken, lease };
        self.append(&record)?;
        self.next_number += 1;
        let id = LeaseId(record.number);
        self.outstanding.push(record);
        Ok(id)
    }

    /// Writes down that the lease was given back: call it when that is done. Twice is once.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn release(&mut self, id: LeaseId) -> Result<(), LeaseError> {
        let Some(mut record) = self.outstanding.iter().find(|record| record.number == id.0).cloned() else {
            return Ok(());
        };
        record.state = LeaseState::Released;
        self.append(&record)?;
        self.outstanding.retain(|record| record.number != id.0);
        if self.outstanding.is_empty() {
            registry::remove(&self.store);
            self.registered = false;
        }
        Ok(())
    }

    /// What was taken and not given back, in the order of taking.
    #[must_use]
    pub fn outstanding(&self) -> &[LeaseRecord] {
        &self.outstanding
    }

    /// Lines, other than a torn last one, that could not be read when the journal was opened.
    #[must_use]
    pub const fn damaged_lines(&self) -> usize {
        self.damaged_lines
    }

    /// The store it belongs to.
    #[must_use]
    pub fn store(&self) -> &Path {
        &self.store
    }

    pub(super) const fn id_of(record: &LeaseRecord) -> LeaseId {
        LeaseId(record.number)
    }

    fn check(&self, lease: &Lease) -> Result<(), LeaseError> {
        let path = match lease {
            Lease::File { path }
            | Lease::Directory { path }
            | Lease::Loop { file: path }
            | Lease::Mount { point: path }
            | Lease::Setting { path, .. }
            | Lease::ControlGroup { path }
            | Lease::Disk { directory: path } => path,
            Lease::Process { .. } | Lease::TraceInstance { .. } => return Ok(()),
        };
        if path.is_relative() {
            return Err(LeaseError::Relative { path: path.clone() });
        }
        let ours = self.outstanding.iter().any(|record| record.lease == *lease);
        let present = |what| LeaseError::Present { path: path.clone(), what };
        match lease {
            Lease::File { .. } if !ours && path.symlink_metadata().is_ok() => Err(present("there")),
            Lease::Mount { .. } if !ours && fsage_engine::host::mount::is_mount_point(path) => {
                Err(present("mounted"))
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, record: &LeaseRecord) -> Result<(), LeaseError> {
        let failed = |what| {
            let path = self.path.clone();
            move |source| LeaseError::Journal { what, path, source }
        };
        let (write, sync, cut) = (failed("write"), failed("sync"), failed("cut"));
        let mut line = serde_json::to_vec(record).map_err(|error| failed("write")(error.into()))?;
        line.push(b'\n');
        if self.torn {
            self.cut_back().map_err(cut)?;
        }
        let written =
            self.file.write_all(&line).map_err(write).and_then(|()| self.file.sync_data().map_err(sync));
        if written.is_ok() {
            self.length += line.len() as u64;
        } else {
            // Should that fail as well, it comes before the next line.
            self.torn = self.cut_back().is_err();
        }
        written
    }

    /// Ends the file after its last whole line.
    fn cut_back(&mut self) -> std::io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        self.torn = false;
        Ok(())
    }
}

/// What a journal's bytes say.
#[derive(Debug, Default)]
struct Content {
    outstanding: Vec<LeaseRecord>,
    last_number: u64,
    damaged_lines: usize,
    /// Bytes of whole lines.
    whole: usize,
}

fn parse(bytes: &[u8]) -> Content {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut content = Content { whole, ..Content::default() };
    let lines = bytes.get(..whole).unwrap_or_default().split(|&byte| byte == b'\n');
    for line in lines.filter(|line| !line.is_empty()) {
        let Ok(record) = serde_json::from_slice::<LeaseRecord>(line) else {
            content.damaged_lines += 1;
            continue;
        };
        content.last_number = content.last_number.max(record.number);
        match record.state {
            LeaseState::Taken => content.outstanding.push(record),
            LeaseState::Released => content.outstanding.retain(|taken| taken.number != record.number),
        }
    }
    content
}

/// Who holds the lock on `file`, by /proc/locks: the kernel's word, which cannot be stale.
fn holder(file: &File) -> String {
    let unknown = || "another process".to_owned();
    let Ok(metadata) = file.metadata() else { return unknown() };
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let suffix = format!(":{}", metadata.ino());
    // `1: FLOCK  ADVISORY  WRITE 1234 fe:00:131085 0 EOF`
    let pid = locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let flock = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?;
        (flock && fields.next()?.ends_with(&suffix)).then(|| pid.to_owned())
    });
    let Some(pid) = pid else { return unknown() };
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    match command.trim() {
        "" => format!("process {pid}"),
        command => format!("process {pid} ({command})"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn lease(number: u64) -> Lease {
        // Directories: they may exist or not, and `take` does not mind.
        Lease::Directory { path: PathBuf::from(format!("/nowhere/mnt {number} \u{e4}\n")) }
    }

    /// Runs takes and gives into a fresh journal; returns its bytes and, for each whole line, what is
    /// outstanding after it.
    fn written(steps: &[(bool, usize)], store: &Path) -> (Vec<u8>, Vec<Vec<Lease>>) {
        let mut journal = Journal::open(store).unwrap();
        let mut held: Vec<(LeaseId, Lease)> = Vec::new();
        let mut after = vec![Vec::new()];
        for (count, (take, which)) in (0..).zip(steps) {
            if *take || held.is_empty() {
                let taken = lease(count);
                held.push((journal.take(taken.clone()).unwrap(), taken));
            } else {
                let (id, _) = held.remove(which % held.len());
                journal.release(id).unwrap();
            }
            after.push(held.iter().map(|(_, lease)| lease.clone()).collect());
        }
        let bytes = std::fs::read(store.join(FILE_NAME)).unwrap();
        registry::remove(store);
        (bytes, after)
    }

    fn outstanding(journal: &Journal) -> Vec<Lease> {
        journal.outstanding().iter().map(|record| record.lease.clone()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A crash leaves any prefix of the bytes that were being written: what is outstanding then is what
        /// the whole lines say, and the journal goes on from there.
        #[test]
        fn a_journal_cut_anywhere_tells_what_its_whole_lines_tell(
            steps in prop::collection::vec((any::<bool>(), 0_usize..8), 1..12), cut in any::<prop::sample::Index>()
        ) {
            let folder = tempfile::tempdir().unwrap();
            let store = folder.path().canonicalize().unwrap();
            let (bytes, after) = written(&steps, &store);
            let cut = cut.index(bytes.len() + 1);
            let kept = &bytes[..cut];
            std::fs::write(store.join(FILE_NAME), kept).unwrap();
            let lines = kept.iter().filter(|&&byte| byte == b'\n').count();
            let mut journal = Journal::open(&store).unwrap();
            prop_assert_eq!(outstanding(&journal), after[lines].clone());
            prop_assert_eq!(journal.damaged_lines(), 0);
            let more = journal.take(lease(1000)).unwrap();
            drop(journal);
            let mut journal = Journal::open(&store).unwrap();
            let mut expected = after[lines].clone();
            expected.push(lease(1000));
            prop_assert_eq!(outstanding(&journal), expected);
            // Numbers are not used twice while anything is outstanding.
            let numbers: BTreeMap<u64, ()> =
                journal.outstanding().iter().map(|record| (record.number, ())).collect();
            prop_assert_eq!(numbers.len(), journal.outstanding().len());
            journal.release(more).unwrap();
            registry::remove(&store);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let content = parse(&bytes);
            prop_assert!(content.whole <= bytes.len());
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_told_and_the_others_count() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let (bytes, _) = written(&[(true, 0), (true, 0)], &store);
        let mut damaged = b"\x00\x00garbage\n".to_vec();
        damaged.extend(bytes);
        std::fs::write(store.join(FILE_NAME), &damaged).unwrap();
        let journal = Journal::open(&store).unwrap();
        assert_eq!((journal.damaged_lines(), journal.outstanding().len()), (1, 2));
    }

    #[test]
    fn an_open_journal_is_locked_and_says_by_whom() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let Err(LeaseError::Locked { by, .. }) = Journal::open(folder.path()) else { panic!("opened twice") };
        assert!(by.starts_with(&format!("process {} (", std::process::id())), "{by}");
        drop(journal);
        Journal::open(folder.path()).unwrap();
    }

    #[test]
    fn stores_with_open_leases_are_registered() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let mut journal = Journal::open(&store).unwrap();
        assert!(!registry::stores().contains(&store));
        let id = journal.take(lease(1)).unwrap();
        assert!(registry::stores().contains(&store));
        journal.release(id).unwrap();
        journal.release(id).unwrap();
        assert!(!registry::stores().contains(&store));
        drop(journal);
        assert!(std::fs::metadata(store.join(FILE_NAME)).unwrap().len() > 0);
        Journal::open(&store).unwrap();
        assert_eq!(std::fs::metadata(store.join(FILE_NAME)).unwrap().len(), 0);
    }
}
