//! A real block device, behind the rules of [`safety`].

use std::path::{Path, PathBuf};

use fsage_model::protocol::BlockFacts;
use fsage_model::study::QueueSpec;

use super::consent::EraseConsent;
use super::safety::{self, Refusal};
use super::{Taking, VolumeError};

/// A device volume, not yet taken: the command line allows it to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceVolume {
    path: PathBuf,
    consent: EraseConsent,
    store_directory: PathBuf,
    scheduler: Option<String>,
    queue: QueueSpec,
}

impl DeviceVolume {
    pub(super) fn new(
        path: &Path,
        consent: &EraseConsent,
        store_directory: &Path,
        scheduler: Option<String>,
        queue: QueueSpec,
    ) -> Result<Self, VolumeError> {
        if !path.starts_with("/dev") {
            let what = format!("must be a path under /dev, not `{}`", path.display());
            return Err(VolumeError::Spec { key: "path", what });
        }
        if consent.for_path(path).is_none() {
            return Err(VolumeError::Refused { path: path.to_owned(), refusal: Refusal::NoConsent });
        }
        Ok(Self {
            path: path.to_owned(),
            consent: consent.clone(),
            store_directory: store_directory.to_owned(),
            scheduler,
            queue,
        })
    }

    /// Path in the study.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Scheduler and settings of the queue wanted, if any.
    #[must_use]
    pub fn queue(&self) -> (Option<&str>, &QueueSpec) {
        (self.scheduler.as_deref(), &self.queue)
    }

    pub(super) fn describe(&self) -> Vec<String> {
        vec![format!("# everything on {} is lost", self.path.display())]
    }

    /// Asks what the device is and decides; nothing is written here.
    pub(super) fn take(&self, taking: &mut Taking<'_>) -> Result<BlockFacts, VolumeError> {
        let facts = taking.facts(&self.path)?;
        self.decide(&facts)?;
        taking.hold(&facts)?;
        self.consent.give_up(&self.path, &facts.identity);
        Ok(facts)
    }

    /// The same decision by what this process can read, for a dry run.
    pub(super) fn look(&self) -> Result<(), VolumeError> {
        let facts = fsage_engine::host::block::facts(&self.path).map_err(VolumeError::Look)?;
        self.decide(&facts)
    }

    pub(super) fn decide(&self, facts: &BlockFacts) -> Result<(), VolumeError> {
        let consent = self.consent.for_path(&self.path);
        let store_mount = mount_point_of(&self.store_directory);
        let given_up = self.consent.has_given_up(&self.path, &facts.identity);
        safety::decide(&self.path, facts, consent, given_up, &store_mount)
            .map_err(|refusal| VolumeError::Refused { path: self.path.clone(), refusal })
    }
}

/// The mount point of the file system that holds `directory`: its nearest ancestor on the same device that is
/// a mount point, by /proc/self/mounts; `/` when that cannot be read.
fn mount_point_of(directory: &Path) -> PathBuf {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let is_mount_point = |folder: &&Path| fsage_engine::host::mount::is_mount_point(folder);
    directory.ancestors().find(is_mount_point).unwrap_or(Path::new("/")).to_owned()
}
