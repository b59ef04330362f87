//! A partition of a virtual disk that volumes of one trial share, and the drive itself.
//!
//! The drive is served for the whole trial; a volume is a loop device over its part of the file, and released
//! without the drive. What is on it stays there: who takes a partition again discards it.

use std::path::{Path, PathBuf};

use fsage_engine::host::disk::FILE;
use fsage_model::extent::Extent;
use fsage_model::protocol::BlockFacts;
use fsage_model::study::{DiskSpec, DriveShare, QueueSpec, VolumeSpec};

use super::{Acquired, DiskVolume, Taking, VolumeError, release_all};
use crate::lease::Journal;
use crate::target::{Incoming, Session};
use crate::tools::Invocation;

/// A partition, checked, not yet taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionVolume {
    drive: Drive,
    /// Its part of what the drive serves.
    part: Extent,
}

/// A drive that volumes of a trial share, checked, not yet taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    disk: DiskVolume,
    /// In the study.
    name: String,
    trial: String,
}

impl PartitionVolume {
    /// The partition of a drive that `share` says; `owner` (the store) tells the drive from others.
    ///
    /// # Errors
    /// The drive's options are invalid.
    pub(super) fn new(disk: &DiskSpec, share: &DriveShare, owner: &Path) -> Result<Self, VolumeError> {
        let drive = Drive {
            disk: DiskVolume::new(disk.options(), owner)?,
            name: share.drive.clone(),
            trial: String::new(),
        };
        Ok(Self { drive, part: share.served() })
    }

    pub(super) fn of_trial(&mut self, trial: &str) {
        trial.clone_into(&mut self.drive.trial);
    }

    /// The drive's name, and where the partition begins in what it serves.
    pub(super) fn key(&self) -> (String, u64) {
        (self.drive.name.clone(), self.part.start_bytes)
    }

    /// Size.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.part.size_bytes
    }

    /// Scheduler and settings of the queue wanted, if any: those of the whole drive.
    #[must_use]
    pub fn queue(&self) -> (Option<&str>, &QueueSpec) {
        self.drive.disk.queue()
    }

    pub(super) const fn keeps_log(&self) -> bool {
        self.drive.disk.keeps_log()
    }

    pub(super) fn mark(&self, session: &mut Session, mark: &str) -> Result<(), VolumeError> {
        self.drive.disk.mark(session, &self.drive.key(), mark)
    }

    pub(super) fn describe(&self) -> Vec<String> {
        self.drive.disk.describe_part(&self.drive.key(), Some(self.part)).to_vec()
    }

    /// Attaches it; its drive is served.
    pub(super) fn take(&self, taking: &mut Taking<'_>) -> Result<BlockFacts, VolumeError> {
        let file = self.drive.directory().join(FILE);
        self.drive.disk.attach(taking, &file, Some(self.part))
    }
}

impl Drive {
    /// The drives that these volumes of a trial are partitions of, each once, in their order.
    ///
    /// # Errors
    /// A drive's options are invalid.
    pub fn of<'a>(
        volumes: impl IntoIterator<Item = &'a VolumeSpec>,
        trial: &str,
        owner: &Path,
    ) -> Result<Vec<Self>, VolumeError> {
        let mut drives: Vec<Self> = Vec::new();
        for volume in volumes {
            let VolumeSpec::Disk(disk) = volume else { continue };
            let Some(share) = disk.share.as_deref() else { continue };
            if drives.iter().all(|drive| drive.name != share.drive) {
                let mut partition = PartitionVolume::new(disk, share, owner)?;
                partition.of_trial(trial);
                drives.push(partition.drive);
            }
        }
        Ok(drives)
    }

    /// The same beside so many trials in all, whose disks share the host's memory.
    pub const fn beside(&mut self, trials: u32) {
        self.disk.beside(trials);
    }

    /// Its name in the study.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its folder is named after.
    fn key(&self) -> String {
        format!("{}-drive-{}", self.trial, self.name)
    }

    fn directory(&self) -> PathBuf {
        self.disk.directory(&self.key())
    }

    /// What serves it, as a shell would read it.
    #[must_use]
    pub fn describe(&self) -> String {
        self.disk.serve_line(&self.key())
    }

    /// What writes the log of its requests to a file that is not there yet; nothing where it keeps none.
    #[must_use]
    pub fn save_log(&self, file: &Path) -> Option<Invocation> {
        self.disk.save_log(&self.key(), file)
    }

    /// Serves it; its partitions are taken as volumes.
    ///
    /// # Errors
    /// See [`VolumeError`]; what was taken has been released.
    pub fn serve(&self, session: &mut Session, journal: &mut Journal) -> Result<Acquired, VolumeError> {
        let mut incoming = |_: Incoming| {};
        let mut taking = Taking::new(session, journal, &mut incoming);
        match self.disk.serve(&mut taking, &self.key()) {
            Ok(_) => {
                let Taking { taken, layers, commands, .. } = taking;
                let (device, facts, devices) = (PathBuf::new(), BlockFacts::default(), Vec::new());
                Ok(Acquired { device, facts, devices, commands, layers, taken })
            }
            Err(error) => {
                let Taking { session, journal, taken, .. } = taking;
                // The first error tells more; what is not released here stays leased.
                let _ = release_all(session, journal, taken);
                Err(error)
            }
        }
    }
}
