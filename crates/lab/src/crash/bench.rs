//! What a run works with: an agent, a virtual disk and a mount point that somebody else took.

use std::path::PathBuf;

use fsage_engine::disk::VirtualDisk;
use fsage_model::disk::call::Call;
use fsage_model::location::Location;

use super::CrashError;
use crate::target::Session;

/// What a run works with.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The agent.
    pub session: &'a mut Session,
    /// The block device of the disk.
    pub device: PathBuf,
    /// Where it is mounted, state by state: a mount point that is leased.
    pub point: PathBuf,
    /// Folder from which the disk is served.
    pub served: PathBuf,
    /// Name of the load's directory on the volume.
    pub directory: String,
    /// Folder for files of the run.
    pub own: PathBuf,
}

impl Bench<'_> {
    /// The load's directory.
    #[must_use]
    pub fn folder(&self) -> Location {
        Location::on(&self.point, &self.directory)
    }

    /// A file of the run.
    #[must_use]
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.own.join(name)
    }

    /// Asks the disk one thing.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn ask<C: Call>(&self, call: C) -> Result<C::Reply, CrashError> {
        Ok(VirtualDisk::at(self.served.clone()).ask(call)?)
    }
}
