//! Virtual disks with a name, for anything: `fsage disk up NAME` gives a block device that stays until
//! `fsage disk down NAME`.
//!
//! A disk has a folder of its own below /run/fsage/disks, which is also the folder of its lease journal, so
//! that `fsage clean` finds it like a store. `disk.json` is written last: a disk that has one was brought up
//! whole, and as long as its server lives it is no rest of a killed run and is left alone. Anything else
//! there is released by the next `up`, `down` or `clean`.

mod error;
mod record;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_engine::disk::VirtualDisk;
use fsage_engine::host::disk::FILE;
use fsage_engine::host::held::same;
use fsage_engine::host::{block, disk as server};
use fsage_model::disk::call::{self, Call};
use fsage_model::study::DiskOptions;

pub use error::DiskError;
pub use record::{DiskRecord, PartitionRecord};

use crate::lease::disk::{FOLDER, SERVED, folder, is_name};
use crate::lease::{Journal, LeaseError, LeaseId, clean, runtime};
use crate::target::{Session, Target};
use crate::volume::DiskVolume;

/// How long a disk that is brought up waits for another process that has its journal.
const CLEANING: Duration = Duration::from_secs(10);

/// A disk by its name; whether there is one is another question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedDisk {
    name: String,
    folder: PathBuf,
}

/// How a disk is.
#[derive(Debug, Clone, PartialEq)]
pub enum DiskState {
    /// Served.
    Up(DiskRecord),
    /// Its server is gone, or it was never brought up whole; `fsage disk down` or `fsage clean` removes what
    /// is left.
    Dead(Option<DiskRecord>),
}

impl NamedDisk {
    /// The disk of this name.
    ///
    /// # Errors
    /// The name cannot be one: letters, digits, `-`, `_` and `.`, the first a letter or digit, at most
    /// [`LONGEST_NAME`](crate::lease::disk::LONGEST_NAME).
    pub fn new(name: &str) -> Result<Self, DiskError> {
        if !is_name(name) {
            return Err(DiskError::Name { name: name.to_owned() });
        }
        Ok(Self { name: name.to_owned(), folder: folder().join(name) })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it is; `None` when there is none.
    #[must_use]
    pub fn state(&self) -> Option<DiskState> {
        // What was killed before it took anything leaves an empty folder.
        std::fs::read_dir(&self.folder).ok()?.next()?.ok()?;
        let record = DiskRecord::read(&self.folder);
        let alive = !server::servers(&self.folder.join(SERVED)).is_empty();
        Some(match record {
            Some(record) if alive => DiskState::Up(record),
            record => DiskState::Dead(record),
        })
    }

    /// Its record, when it is up.
    ///
    /// # Errors
    /// There is none of that name, or its server is gone.
    pub fn find(&self) -> Result<DiskRecord, DiskError> {
        match self.state() {
            Some(DiskState::Up(record)) => Ok(record),
            Some(DiskState::Dead(_)) => Err(DiskError::Dead { name: self.name.clone() }),
            None => Err(DiskError::Unknown { name: self.name.clone(), known: names() }),
        }
    }

    /// Brings it up.
    ///
    /// # Errors
    /// There is one of that name, the options are invalid, or it does not work.
    pub fn up(&self, options: DiskOptions) -> Result<DiskRecord, DiskError> {
        let volume = DiskVolume::lasting(options, &self.folder.join(SERVED))?;
        let (mut session, mut journal, agent) = self.open().inspect_err(|_| {
            // Nothing was brought up: what was made for it goes, unless something of another is in it.
            let _ = std::fs::remove_dir(&self.folder);
        })?;
        let outcome = self.bring_up(&volume, &mut session, &mut journal);
        drop(session);
        // While there is a lease `clean` finds the folder.
        if outcome.is_err() && journal.outstanding().len() == 1 {
            self.remove_folder();
        }
        journal.release(agent)?;
        outcome
    }

    /// An agent and the journal, with whatever a dead one of this name left released.
    fn open(&self) -> Result<(Session, Journal, LeaseId), DiskError> {
        // The lock first: two that are brought up at once must not both find the place empty.
        let mut journal = self.lock()?;
        if let Some(DiskState::Up(record)) = self.state() {
            return Err(DiskError::Taken { name: self.name.clone(), device: record.device });
        }
        let mut session = Target::local()?;
        let agent = journal.attach(&session)?;
        release(&mut session, &mut journal, &self.name)?;
        let _ = std::fs::remove_file(record::path(&self.folder));
        Ok((session, journal, agent))
    }

    /// Its journal. What cleans at this moment has it for a moment only, and may remove the folder.
    fn lock(&self) -> Result<Journal, DiskError> {
        let started = Instant::now();
        loop {
            runtime::make(&Path::new(FOLDER).join(&self.name))?;
            match Journal::open(&self.folder) {
                Err(LeaseError::Locked { .. } | LeaseError::NoStore { .. })
                    if started.elapsed() < CLEANING && !matches!(self.state(), Some(DiskState::Up(_))) =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(journal) if !self.folder.is_dir() => drop(journal),
                journal => return Ok(journal?),
            }
        }
    }

    fn bring_up(
        &self,
        volume: &DiskVolume,
        session: &mut Session,
        journal: &mut Journal,
    ) -> Result<DiskRecord, DiskError> {
        let mut acquired =
            crate::volume::Volume::Disk(volume.clone()).acquire(session, journal, &self.name)?;
        let record = DiskRecord::new(&self.name, volume, &self.folder.join(SERVED), &acquired);
        if let Err(error) = record.write(&self.folder) {
            acquired.release(session, journal)?;
            return Err(error);
        }
        // It stays taken, and leased, until `down`.
        Ok(record)
    }

    /// Takes it down, alive or dead.
    ///
    /// # Errors
    /// There is none of that name; it is in use; something cannot be released.
    pub fn down(&self) -> Result<(), DiskError> {
        if self.state().is_none() {
            // One that was killed when all but its journal was gone leaves that; what it names has ended. Whether
            // that goes or not, there is no disk.
            let _ = crate::lease::clean_stores(std::slice::from_ref(&self.folder));
            return Err(DiskError::Unknown { name: self.name.clone(), known: names() });
        }
        if self.find().is_ok() {
            self.refuse_in_use()?;
        }
        let mut journal = Journal::open(&self.folder)?;
        let mut session = Target::local()?;
        let agent = journal.attach(&session)?;
        let outcome = release(&mut session, &mut journal, &self.name);
        drop(session);
        // While there is a lease, so that `clean` finds what is left of the folder; and before the lock is
        // let go of: another of this name may be brought up the moment it is.
        if outcome.is_ok() {
            self.remove_folder();
        }
        journal.release(agent)?;
        outcome
    }

    /// Refuses a disk that something is mounted from, or that is part of something: it is not to be pulled
    /// away or changed below it.
    ///
    /// # Errors
    /// It is in use, or not up.
    pub fn refuse_in_use(&self) -> Result<(), DiskError> {
        let record = self.find()?;
        // By the disk's own file: what has the device's name may be another's by now.
        let devices = fsage_sys::loopdev::by_backing_file(&record.directory.join(FILE));
        let devices = devices.unwrap_or_else(|_| vec![record.device.clone()]);
        let of = |device: &PathBuf| block::users(device).unwrap_or_default();
        let mut users: Vec<String> = devices.iter().flat_map(of).collect();
        let used = devices.iter().find(|device| !of(device).is_empty()).cloned();
        if record.nbd.is_some() {
            let clients = self.ask(call::Stat)?.nbd_clients;
            users.extend(clients.filter(|count| *count > 0).map(|count| format!("{count} NBD clients")));
        }
        if users.is_empty() {
            return Ok(());
        }
        let device = used.unwrap_or(record.device);
        Err(DiskError::InUse { name: self.name.clone(), device, users: users.join(", ") })
    }

    /// Refuses an open device that is not the disk's any more: who detaches it frees its name for any other
    /// file. What is open cannot become another's afterwards.
    ///
    /// # Errors
    /// [`DiskError::Lost`].
    pub fn check_device(&self, record: &DiskRecord, opened: &File) -> Result<(), DiskError> {
        block::identity(opened, &record.device)
            .and_then(|found| same(&record.device, &record.identity, &found))
            .map_err(|source| DiskError::Lost { name: self.name.clone(), source })
    }

    fn remove_folder(&self) {
        // What is left is found empty by the next, and by `fsage clean`.
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Asks its server one thing.
    ///
    /// # Errors
    /// It is not up, or refuses.
    pub fn ask<C: Call>(&self, call: C) -> Result<C::Reply, DiskError> {
        let record = self.find()?;
        Ok(VirtualDisk::at(record.directory).ask(call)?)
    }
}

fn release(session: &mut Session, journal: &mut Journal, name: &str) -> Result<(), DiskError> {
    let summary = clean(session, journal)?;
    match summary.failed.into_iter().next() {
        Some((_, why)) => Err(DiskError::Stuck { name: name.to_owned(), why }),
        None => Ok(()),
    }
}

/// Names of all disks, alive or dead, sorted.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| NamedDisk::new(name).is_ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for right in ["a", "old-hdd", "7", "a.b_c", &"x".repeat(32)] {
            assert_eq!(NamedDisk::new(right).unwrap().name(), right);
        }
        for wrong in ["", ".", "..", "-a", "a/b", "a b", "ä", "../x", &"x".repeat(33)] {
            let error = NamedDisk::new(wrong).unwrap_err();
            assert!(matches!(&error, DiskError::Name { .. }), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_there_is_none() {
        let disk = NamedDisk::new("no-such-disk-anywhere").unwrap();
        assert_eq!(disk.state(), None);
        assert!(matches!(disk.find(), Err(DiskError::Unknown { .. })));
        assert!(matches!(disk.down(), Err(DiskError::Unknown { .. })));
        assert_eq!(crate::lease::disk::holds(Path::new("/nowhere")), None);
    }
}
