//! What a run works with: an agent, a virtual disk and a mount point that somebody else took.

use std::path::PathBuf;

use fsage_engine::disk::VirtualDisk;
use fsage_model::disk::call::Call;
use fsage_model::location::Location;

use super::CrashError;
use crate::target::Session;
use crate::volume::{Layers, Start};

/// What a run works with.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The agent.
    pub session: &'a mut Session,
    /// The block device of the disk, or of the uppermost layer.
    pub device: PathBuf,
    /// Layers between the disk's drives and the device.
    pub layers: Option<Layers>,
    /// Number of the drive, from 0, that the array of a state is without.
    pub failed_drive: Option<u32>,
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

    /// Has the disk show something else; until [`Bench::start`] there are no layers, which would remember what was there.
    ///
    /// # Errors
    /// A layer is in use; as [`Bench::ask`].
    pub fn show<C: Call>(&mut self, call: C) -> Result<C::Reply, CrashError> {
        if let Some(layers) = &self.layers {
            layers.stop(self.session)?;
        }
        self.ask(call)
    }

    /// Puts the layers together on what the disk shows, without the drive of the number `failed`.
    ///
    /// # Errors
    /// As [`Layers::start`].
    pub fn start(&mut self, failed: Option<u32>) -> Result<Start, CrashError> {
        let Some(layers) = &self.layers else { return Ok(Start::default()) };
        Ok(layers.start(self.session, failed)?)
    }

    /// Asks the disk one thing.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn ask<C: Call>(&self, call: C) -> Result<C::Reply, CrashError> {
        Ok(VirtualDisk::at(self.served.clone()).ask(call)?)
    }
}
