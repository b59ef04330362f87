//! The journal of a store: one [`LeaseRecord`] a line, fsynced line by line, in a [directory](super::state)
//! that only this user can change.
//!
//! What lies in the store itself is never believed: a store may have come from anywhere. A torn last line is
//! the mark of a crash while it was written: its lease was not taken yet (or its release will be done again),
//! so it is cut off, both when the journal is opened and when a write fails (a full disk): the next line must
//! not be glued to it. Any other line that cannot be read, or that no fsage can have written, is skipped and
//! reported. A journal without outstanding leases goes when it is closed.
//!
//! Trials that run side by side share the file and have a [branch](Journal::branch) each: what one of them has
//! taken is not the other's to release. What two branches hold, as two labs hold a setting, has a lease of each,
//! and the last of them to be released gives it back.

mod content;
mod settings;

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsage_engine::host::process::Identity;
use fsage_model::protocol::{FileIdentity, Made};
use rustix::fs::{AtFlags, major, minor, statat, unlinkat};

use super::error::LeaseError;
use super::object::Object;
use super::place::Trusted;
use super::record::{Lease, LeaseRecord, LeaseState, Opened};
use super::state;
use crate::target::Session;

pub(super) use content::Content;
use content::parse;

/// What journals were called that lay in stores.
const IN_STORE: &str = "leases.jsonl";

/// Names a lease within its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(u64);

/// The open, locked journal of one store, or the branch of it that a trial has.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    boot_id: String,
    /// This branch's.
    outstanding: Vec<LeaseRecord>,
}

impl Journal {
    /// Opens (or makes) the journal of `store`, an existing folder, and locks it until it is dropped.
    ///
    /// # Errors
    /// Another process has it open; the folder is missing; the directory for journals can be changed by
    /// others; reading or writing fails.
    pub fn open(store: &Path) -> Result<Self, LeaseError> {
        let store = store
            .canonicalize()
            .ok()
            .filter(|path| path.is_dir())
            .ok_or_else(|| LeaseError::NoStore { store: store.to_owned() })?;
        let name = state::name_of(&store);
        for directory in state::existing()? {
            if statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Self::open_in(directory, name, Some(&store));
            }
        }
        Self::open_in(state::make()?, name, Some(&store))
    }

    /// The journal of a store, when it has one; the store itself may be gone.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub(super) fn find(store: &Path) -> Result<Option<Self>, LeaseError> {
        let spelled = spelled(store);
        let name = state::name_of(&spelled);
        for directory in state::existing()? {
            if statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Self::open_in(directory, name, Some(&spelled)).map(Some);
            }
        }
        if spelled.is_dir() { Ok(None) } else { Err(LeaseError::NoStore { store: store.to_owned() }) }
    }

    /// What a journal says at this moment, no matter who has it open.
    pub(super) fn peek(directory: &Trusted, name: &str) -> Result<Content, LeaseError> {
        let mut file = state::open(directory, name, false)?;
        let mut bytes = Vec::new();
        let path = directory.path().join(name);
        file.read_to_end(&mut bytes).map_err(|source| LeaseError::Journal { what: "read", path, source })?;
        Ok(parse(&bytes))
    }

    /// Opens the journal of this name, of whatever it is; one that names no store has nothing in it.
    pub(super) fn open_in(
        directory: Trusted,
        name: String,
        store: Option<&Path>,
    ) -> Result<Self, LeaseError> {
        let path = directory.path().join(&name);
        let failed = |what| {
            let path = path.clone();
            move |source| LeaseError::Journal { what, path, source }
        };
        let mut file = lock(&directory, &name, store)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let content = parse(&bytes);
        let found = content.opened.as_ref().map(|opened| opened.store.clone());
        let store = match (store, found) {
            (Some(store), Some(found)) if found != store => {
                return Err(LeaseError::OtherStore { path, store: found });
            }
            (Some(store), _) => store.to_owned(),
            (None, found) => found.unwrap_or_else(|| path.clone()),
        };
        let keep =
            if content.outstanding.is_empty() && content.damaged_lines == 0 { 0 } else { content.whole };
        if keep < bytes.len() {
            file.set_len(keep as u64).and_then(|()| file.sync_all()).map_err(failed("cut"))?;
        }
        file.seek(SeekFrom::Start(keep as u64)).map_err(failed("seek in"))?;
        rustix::fs::fsync(&directory).map_err(|error| failed("sync the folder of")(error.into()))?;
        let ledger = Ledger {
            file,
            length: keep as u64,
            torn: false,
            claimed: false,
            next_number: content.last_number + 1,
            outstanding: content.outstanding.clone(),
        };
        let shared = Shared {
            store,
            directory,
            name,
            path,
            damaged_lines: content.damaged_lines,
            ledger: Mutex::new(ledger),
            directories: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared), boot_id: boot_id(), outstanding: content.outstanding })
    }

    /// A branch without leases, for someone who takes and releases on his own.
    #[must_use]
    pub fn branch(&self) -> Self {
        let (shared, boot_id) = (Arc::clone(&self.shared), self.boot_id.clone());
        Self { shared, boot_id, outstanding: Vec::new() }
    }

    /// Takes over what a branch of this journal has not released.
    pub fn join(&mut self, branch: Self) {
        self.outstanding.extend(branch.outstanding);
        self.outstanding.sort_by_key(|record| record.number);
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
    /// The journal cannot be written (then nothing may be taken); a file that exists, or a mount point where
    /// something is mounted, that no outstanding lease of this journal covers; something that fsage never
    /// takes.
    pub fn take(&mut self, lease: Lease) -> Result<LeaseId, LeaseError> {
        self.record(lease, None)
    }

    /// Makes the file or directory of `lease`, empty and for its user alone, so that it can be distinguished from
    /// every later one of its name. A directory that is there already is its user's, unless a lease of this
    /// journal made it: then it is `None`, and stays.
    ///
    /// # Errors
    /// As [`Journal::take`]; it cannot be made.
    pub fn make(&mut self, lease: Lease) -> Result<Option<LeaseId>, LeaseError> {
        let (path, directory) = match &lease {
            Lease::File { path } => (path.clone(), false),
            Lease::Directory { path } => (path.clone(), true),
            other => return Err(LeaseError::NotOurs { what: format!("{other:?} is not made like that") }),
        };
        lease.check().map_err(|what| LeaseError::NotOurs { what })?;
        let failed = |source| LeaseError::Make { path: path.clone(), source };
        // No other branch may remove it in between.
        let directories = self.directories();
        let _held = directory.then(|| directories.lock().unwrap_or_else(PoisonError::into_inner));
        let object = Object::at(&path, directory).map_err(failed)?;
        if let Some(found) = object.present().map_err(failed)? {
            if !directory || !object.is_directory() {
                return Err(LeaseError::Present { path, what: "there" });
            }
            return match self.made_directory(&lease, &found) {
                Some(made) => self.record(lease, Some(made)).map(Some),
                None => Ok(None),
            };
        }
        let id = self.record(lease, Some(object.staged().map_err(failed)?))?;
        match self.finish(&object, id) {
            Ok(()) => Ok(Some(id)),
            Err(error) => {
                // Should the journal be what fails, the lease tells what may be there.
                let _ = self.release(id);
                Err(error)
            }
        }
    }

    /// Steps 2 to 4 of [`super::object`].
    fn finish(&mut self, object: &Object, id: LeaseId) -> Result<(), LeaseError> {
        let Some(at) = self.outstanding.iter().position(|record| record.number == id.0) else {
            return Ok(());
        };
        let mut record = self.outstanding[at].clone();
        let Some(made) = &mut record.made else { return Ok(()) };
        let staged = made.staged.clone();
        let discarded = |source| {
            object.discard(&staged);
            LeaseError::Make { path: object.path().to_owned(), source }
        };
        made.identity = Some(object.stage(&staged).map_err(discarded)?);
        self.ledger().amend(&self.shared, &record).inspect_err(|_| object.discard(&staged))?;
        self.outstanding[at] = record;
        object.publish(&staged).map_err(discarded)
    }

    /// How this journal, any branch of it, made the directory that has the name now.
    fn made_directory(&self, lease: &Lease, found: &FileIdentity) -> Option<Made> {
        let same = |record: &&LeaseRecord| record.lease == *lease;
        self.ledger()
            .outstanding
            .iter()
            .filter(same)
            .filter_map(|record| self.made(record))
            .find(|made| made.identity.is_some_and(|identity| identity.is_same(found)))
    }

    /// How the thing of a lease was made, as far as that can be determined after this boot.
    pub(super) fn made(&self, record: &LeaseRecord) -> Option<Made> {
        let mut made = record.made.clone()?;
        if record.boot_id != self.boot_id {
            made.identity = made.identity.map(FileIdentity::of_earlier_boot);
        }
        Some(made)
    }

    /// What is locked while a directory that several branches may have is made or removed.
    pub(super) fn directories(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.shared.directories)
    }

    /// Whether another branch holds the same thing: then it is not this one's to remove.
    pub(super) fn is_shared(&self, record: &LeaseRecord) -> bool {
        self.of_other_branches().iter().any(|other| other.lease == record.lease)
    }

    fn of_other_branches(&self) -> Vec<LeaseRecord> {
        let own = |record: &&LeaseRecord| self.outstanding.iter().any(|own| own.number == record.number);
        self.ledger().outstanding.iter().filter(|record| !own(record)).cloned().collect()
    }

    fn record(&mut self, lease: Lease, made: Option<Made>) -> Result<LeaseId, LeaseError> {
        let mut ledger = self.ledger();
        let (number, boot_id) = (ledger.next_number, self.boot_id.clone());
        let record = LeaseRecord { number, boot_id, state: LeaseState::Taken, lease, made };
        record.check().map_err(|what| LeaseError::NotOurs { what })?;
        self.check(&record.lease)?;
        ledger.claim(&self.shared)?;
        ledger.append(&self.shared, &record)?;
        ledger.next_number += 1;
        ledger.outstanding.push(record.clone());
        drop(ledger);
        self.outstanding.push(record);
        Ok(LeaseId(number))
    }

    /// Writes down that the lease was released: call it when that is done. Twice is once.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn release(&mut self, id: LeaseId) -> Result<(), LeaseError> {
        let Some(mut record) = self.outstanding.iter().find(|record| record.number == id.0).cloned() else {
            return Ok(());
        };
        record.state = LeaseState::Released;
        let mut ledger = self.ledger();
        ledger.append(&self.shared, &record)?;
        ledger.outstanding.retain(|record| record.number != id.0);
        drop(ledger);
        self.outstanding.retain(|record| record.number != id.0);
        Ok(())
    }

    /// What this branch took and did not release, in the order of taking.
    #[must_use]
    pub fn outstanding(&self) -> &[LeaseRecord] {
        &self.outstanding
    }

    /// Lines, other than a torn last one, that could not be read when the journal was opened.
    #[must_use]
    pub fn damaged_lines(&self) -> usize {
        self.shared.damaged_lines
    }

    /// The store it belongs to.
    #[must_use]
    pub fn store(&self) -> &Path {
        &self.shared.store
    }

    /// The journal's own file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(super) const fn id_of(record: &LeaseRecord) -> LeaseId {
        LeaseId(record.number)
    }

    fn check(&self, lease: &Lease) -> Result<(), LeaseError> {
        let Lease::Mount { point } = lease else { return Ok(()) };
        let ours = self.outstanding.iter().any(|record| record.lease == *lease);
        if !ours && fsage_engine::host::mount::is_mount_point(point) {
            return Err(LeaseError::Present { path: point.clone(), what: "mounted" });
        }
        Ok(())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all branches of a journal have in common.
#[derive(Debug)]
struct Shared {
    store: PathBuf,
    directory: Trusted,
    name: String,
    path: PathBuf,
    damaged_lines: usize,
    ledger: Mutex<Ledger>,
    directories: Arc<Mutex<()>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ledger = self.ledger.get_mut().unwrap_or_else(PoisonError::into_inner);
        // While it is locked: who opens it at this moment sees that it is gone, and makes another.
        if ledger.outstanding.is_empty() && self.damaged_lines == 0 {
            let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
        // Closing would not do while a child that was just forked still has the file open.
        let _ = ledger.file.unlock();
    }
}

/// The file, and what it says.
#[derive(Debug)]
struct Ledger {
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// A write failed, and what it left could not be cut off yet.
    torn: bool,
    /// It says that the leases that follow are this process's.
    claimed: bool,
    next_number: u64,
    /// Those of all branches.
    outstanding: Vec<LeaseRecord>,
}

impl Ledger {
    /// Says, before the first lease, what the journal is of and which process takes them.
    fn claim(&mut self, of: &Shared) -> Result<(), LeaseError> {
        if self.claimed {
            return Ok(());
        }
        let Identity { pid, start_ticks } = Identity::own();
        let opened = Opened { store: of.store.clone(), pid, start_ticks, boot_id: boot_id() };
        self.append(of, &opened)?;
        self.claimed = true;
        Ok(())
    }

    /// Says more of a lease.
    fn amend(&mut self, of: &Shared, record: &LeaseRecord) -> Result<(), LeaseError> {
        self.append(of, record)?;
        if let Some(known) = self.outstanding.iter_mut().find(|known| known.number == record.number) {
            known.clone_from(record);
        }
        Ok(())
    }

    fn append(&mut self, of: &Shared, record: &impl serde::Serialize) -> Result<(), LeaseError> {
        let failed = |what| {
            let path = of.path.clone();
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

/// How long a lock outlives the process that took it.
const LOCK_OUTLIVES: Duration = Duration::from_secs(1);

/// Whether the process that wrote a journal last still runs; one that nobody wrote to yet is not known to be
/// anybody's.
fn is_worked_on(mut file: &File) -> bool {
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes);
    read.ok().and_then(|_| parse(&bytes).opened).is_some_and(|opened| opened.lives(&boot_id()))
}

/// Opens and locks a journal's file. Its last user may have removed it in between.
fn lock(directory: &Trusted, name: &str, store: Option<&Path>) -> Result<File, LeaseError> {
    let path = directory.path().join(name);
    let started = Instant::now();
    loop {
        let file = state::open(directory, name, store.is_some())?;
        match file.try_lock() {
            Ok(()) => {}
            // A program that a killed process was just starting has its lock until that program runs.
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_OUTLIVES && !is_worked_on(&file) => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err(TryLockError::WouldBlock) => {
                let store = store.map_or_else(|| store_of(&file, &path), Path::to_owned);
                return Err(LeaseError::Locked { by: holder(&file), store });
            }
            Err(TryLockError::Error(source)) => {
                return Err(LeaseError::Journal { what: "lock", path, source });
            }
        }
        let same = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|now| {
            file.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (now.st_dev, now.st_ino))
        });
        if same {
            return Ok(file);
        }
    }
}

/// The store that a journal names, or its own path.
fn store_of(mut file: &File, path: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes);
    let opened = read.ok().and_then(|_| parse(&bytes).opened);
    opened.map_or_else(|| path.to_owned(), |opened| opened.store)
}

/// A journal that lies in the store itself, as those of earlier versions did: anybody may have put it there.
pub(crate) fn ignored(store: &Path) -> Option<PathBuf> {
    Some(store.join(IN_STORE)).filter(|path| path.symlink_metadata().is_ok())
}

/// A store's path as its journal has it.
pub(super) fn spelled(store: &Path) -> PathBuf {
    store.canonicalize().or_else(|_| std::path::absolute(store)).unwrap_or_else(|_| store.to_owned())
}

pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Who holds the lock on `file`, by /proc/locks: the kernel's word, which cannot be stale.
fn holder(file: &File) -> String {
    let unknown = || "another process".to_owned();
    let Ok(metadata) = file.metadata() else { return unknown() };
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let lock = format!("{:02x}:{:02x}:{}", major(metadata.dev()), minor(metadata.dev()), metadata.ino());
    // `1: FLOCK  ADVISORY  WRITE 1234 fe:00:131085 0 EOF`
    let pid = locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let flock = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?;
        (flock && fields.next()? == lock).then(|| pid.to_owned())
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

    use super::content::NUMBER_LIMIT;
    use super::*;

    fn lease(number: u64) -> Lease {
        Lease::loop_over(Path::new(&format!("/nowhere/volume {number} \u{e4}\n")))
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
        let (bytes, path) = (std::fs::read(journal.path()).unwrap(), journal.path().to_owned());
        drop(journal);
        let _ = std::fs::remove_file(path);
        (bytes, after)
    }

    fn outstanding(journal: &Journal) -> Vec<Lease> {
        journal.outstanding().iter().map(|record| record.lease.clone()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A crash leaves any prefix of the bytes that were being written: what is outstanding then is what
        /// the whole lines say, and the journal continues from there.
        #[test]
        fn a_journal_cut_anywhere_tells_what_its_whole_lines_tell(
            steps in prop::collection::vec((any::<bool>(), 0_usize..8), 1..12), cut in any::<prop::sample::Index>()
        ) {
            let folder = tempfile::tempdir().unwrap();
            let store = folder.path().canonicalize().unwrap();
            let (bytes, after) = written(&steps, &store);
            let cut = cut.index(bytes.len() + 1);
            let kept = &bytes[..cut];
            let path = Journal::open(&store).unwrap().path().to_owned();
            std::fs::write(&path, kept).unwrap();
            // The first line says whose it is.
            let lines = kept.iter().filter(|&&byte| byte == b'\n').count().saturating_sub(1);
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
            drop(journal);
            let _ = std::fs::remove_file(path);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let content = parse(&bytes);
            prop_assert!(content.whole <= bytes.len());
        }
    }

    #[test]
    fn a_number_that_has_no_next_is_damage() {
        let line = |number: u64| {
            format!(
                r#"{{"number":{number},"boot_id":"","state":"released","lease":"process","pid":77,"start_ticks":5}}"#
            ) + "\n"
        };
        for (number, damaged_lines) in [(1, 0), (NUMBER_LIMIT, 0), (NUMBER_LIMIT + 1, 1), (u64::MAX, 1)] {
            assert_eq!(parse(line(number).as_bytes()).damaged_lines, damaged_lines, "{number}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_told_and_the_others_count() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let (bytes, _) = written(&[(true, 0), (true, 0)], &store);
        let mut damaged = b"\x00\x00garbage\n".to_vec();
        damaged.extend(bytes);
        let foreign = br#"{"number":9,"boot_id":"","state":"taken","lease":"setting","path":"/proc/sys/kernel/core_pattern","old":"|/x","new":"y"}"#;
        damaged.extend(foreign);
        damaged.push(b'\n');
        let path = Journal::open(&store).unwrap().path().to_owned();
        std::fs::write(&path, &damaged).unwrap();
        let journal = Journal::open(&store).unwrap();
        assert_eq!((journal.damaged_lines(), journal.outstanding().len()), (2, 2));
        drop(journal);
        assert!(path.exists(), "what cannot be read is for the user to inspect");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_made_is_known_from_every_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let mut journal = Journal::open(&store).unwrap();
        let (file, directory) = (store.join("file"), store.join("a/directory"));
        let lease = journal.make(Lease::File { path: file.clone() }).unwrap().unwrap();
        let first = journal.make(Lease::Directory { path: directory.clone() }).unwrap().unwrap();
        assert!(file.is_file() && directory.is_dir());
        assert_eq!(std::fs::read_dir(&store).unwrap().count(), 2, "nothing is left under another name");
        // A file that is there is its user's; a directory of ours is held once more.
        let again = journal.make(Lease::File { path: file.clone() });
        assert!(matches!(again, Err(LeaseError::Present { .. })), "{again:?}");
        let second = journal.make(Lease::Directory { path: directory.clone() }).unwrap().unwrap();
        assert_eq!(journal.make(Lease::Directory { path: store.clone() }).unwrap(), None);
        drop(journal);
        let mut journal = Journal::open(&store).unwrap();
        let made: Vec<_> = journal.outstanding().iter().map(|record| record.made.clone().unwrap()).collect();
        let open = File::open(&file).unwrap();
        assert_eq!(made[0].identity, Some(fsage_engine::host::file::identity(open).unwrap()));
        assert!(made.len() == 3 && made[1] == made[2] && made[1] != made[0]);
        for id in [lease, first, second] {
            journal.release(id).unwrap();
        }
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
    fn a_journal_is_there_while_something_is_leased_and_lies_outside_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let listed =
            || state::journals().unwrap().into_iter().any(|found| found.store() == Some(store.clone()));
        let mut journal = Journal::open(&store).unwrap();
        assert!(!listed());
        let id = journal.take(lease(1)).unwrap();
        let path = journal.path().to_owned();
        assert!(listed() && !path.starts_with(&store));
        drop(journal);
        assert!(listed());
        let mut journal = Journal::open(&store).unwrap();
        assert_eq!(outstanding(&journal), [lease(1)]);
        journal.release(id).unwrap();
        journal.release(id).unwrap();
        drop(journal);
        assert!(!listed() && !path.exists());
        assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
    }

    #[test]
    fn branches_have_leases_of_their_own_in_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let mut journal = Journal::open(&store).unwrap();
        let (mut one, mut two) = (journal.branch(), journal.branch());
        let (first, second) = (one.take(lease(1)).unwrap(), two.take(lease(2)).unwrap());
        assert_eq!((outstanding(&one), outstanding(&two)), (vec![lease(1)], vec![lease(2)]));
        // What is another branch's is not released here.
        one.release(second).unwrap();
        one.release(first).unwrap();
        let path = journal.path().to_owned();
        assert!(outstanding(&one).is_empty() && outstanding(&journal).is_empty());
        assert_eq!(parse(&std::fs::read(&path).unwrap()).outstanding.len(), 1);
        drop(one);
        journal.join(two);
        assert_eq!(outstanding(&journal), [lease(2)]);
        journal.release(second).unwrap();
        drop(journal);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_of_two_branches_is_shared_until_one_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap();
        let journal = Journal::open(&store).unwrap();
        let (mut one, mut two) = (journal.branch(), journal.branch());
        let directory = || Lease::Directory { path: store.join("mounts") };
        let first = one.make(directory()).unwrap().unwrap();
        let second = two.make(directory()).unwrap().unwrap();
        let record = |journal: &Journal| journal.outstanding()[0].clone();
        assert!(one.is_shared(&record(&one)) && two.is_shared(&record(&two)));
        assert_eq!(record(&one).made, record(&two).made);
        one.release(first).unwrap();
        assert!(!two.is_shared(&record(&two)));
        two.release(second).unwrap();
    }

    #[test]
    fn a_journal_of_another_store_is_not_taken_for_this_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.take(lease(1)).unwrap();
        let path = journal.path().to_owned();
        drop(journal);
        let text = std::fs::read_to_string(&path).unwrap();
        let store = folder.path().canonicalize().unwrap();
        std::fs::write(&path, text.replace(store.to_str().unwrap(), "/nowhere")).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(&error, LeaseError::OtherStore { store, .. } if store == Path::new("/nowhere")));
    }
}
