//! Where a run works: a folder with its lease journal, an agent, a virtual disk and a mount point.

use std::path::{Path, PathBuf};

use fsage_model::protocol::call;
use fsage_model::study::DiskOptions;

use super::{Bench, CrashError};
use crate::lease::record::Lease;
use crate::lease::{Journal, LeaseError, LeaseId, clean, release, runtime};
use crate::target::{Session, Target};
use crate::volume::{Acquired, DiskVolume, Volume};

/// Name of the disk.
const DISK: &str = "crash";

/// The load's directory on the volume.
pub(super) const DIRECTORY: &str = "load";

/// Runs that may work at once.
const MOST: u32 = 16;

/// Where a run works.
#[derive(Debug)]
pub(super) struct Place {
    /// The agent.
    pub session: Session,
    journal: Journal,
    folder: PathBuf,
    agent: LeaseId,
    volume: Volume,
    acquired: Option<Acquired>,
    served: PathBuf,
    /// Of the mount point, then of the mount.
    taken: Vec<LeaseId>,
}

impl Place {
    /// Takes a place that no other run has, and the disk.
    ///
    /// # Errors
    /// No agent, no place for the journal, the disk does not come up. What was taken is released.
    pub fn open(disk: &DiskOptions) -> Result<Self, CrashError> {
        let (mut journal, folder) = free()?;
        let mut session = Target::local()?;
        let agent = journal.attach(&session)?;
        clean(&mut session, &mut journal)?;
        let volume = DiskVolume::new(disk.clone(), &folder)?;
        let served = volume.directory(DISK);
        let volume = Volume::Disk(volume);
        let (acquired, taken) = (None, Vec::new());
        let mut place = Self { session, journal, folder, agent, volume, acquired, served, taken };
        match place.take() {
            Ok(()) => Ok(place),
            Err(error) => {
                // The first error tells more; what is not released here stays leased.
                let _ = place.close();
                Err(error)
            }
        }
    }

    fn take(&mut self) -> Result<(), CrashError> {
        let acquired = self.volume.acquire(&mut self.session, &mut self.journal, DISK)?;
        self.acquired = Some(acquired);
        let point = self.point();
        self.taken.extend(self.journal.make(Lease::Directory { path: point.clone() })?);
        self.session.call(call::MakeMountPoint { point: point.clone() })?;
        // One lease for every mount of the run: releasing it unmounts whatever is there.
        self.taken.push(self.journal.take(Lease::Mount { point })?);
        Ok(())
    }

    /// The block device.
    pub fn device(&self) -> &Path {
        self.acquired.as_ref().map_or(Path::new(""), |acquired| &acquired.device)
    }

    /// Where it is mounted.
    pub fn point(&self) -> PathBuf {
        self.folder.join("mounts/state")
    }

    /// What a run works with.
    pub fn bench(&mut self) -> Bench<'_> {
        let (device, point) = (self.device().to_owned(), self.point());
        let (served, directory) = (self.served.clone(), DIRECTORY.to_owned());
        // Files of the run's own lie beside its journal.
        let own = self.folder.clone();
        let session = &mut self.session;
        Bench { session, device, layers: None, failed_drive: None, point, served, directory, own }
    }

    /// Releases everything, in reverse order; every step is tried.
    ///
    /// # Errors
    /// The first step that failed: its lease stays for `fsage clean`.
    pub fn close(mut self) -> Result<(), CrashError> {
        let mut first = Ok(());
        while let Some(lease) = self.taken.pop() {
            let given = release(&mut self.session, &mut self.journal, lease).map_err(CrashError::from);
            first = first.and(given);
        }
        if let Some(acquired) = self.acquired.take() {
            let given = self.volume.release(acquired, &mut self.session, &mut self.journal);
            first = first.and(given.map_err(CrashError::from));
        }
        let Self { session, mut journal, folder, agent, .. } = self;
        drop(session);
        if journal.outstanding().len() == 1 {
            // Before the lock goes with the journal; one that stays is found empty by the next.
            let _ = std::fs::remove_dir_all(&folder);
        }
        first.and(journal.release(agent).map_err(CrashError::from))
    }
}

/// A folder whose journal nobody has.
fn free() -> Result<(Journal, PathBuf), CrashError> {
    let mut number = 1;
    loop {
        let folder = runtime::make(&Path::new("crash").join(number.to_string()))?;
        match Journal::open(&folder) {
            Err(LeaseError::Locked { .. }) if number < MOST => number += 1,
            journal => return Ok((journal?, runtime::real(&folder))),
        }
    }
}
