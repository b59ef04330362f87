//! Where `fsage image` keeps its lease journal and mount points: a folder of its own for each image, below
//! /run or where this user may write ([`runtime`]), because it works without a store. `fsage clean` finds it
//! like a store.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::ImageError;
use crate::lease::{Journal, LeaseId, clean, runtime};
use crate::target::{Session, Target};

/// An agent and a journal for work on one image.
#[derive(Debug)]
pub struct Workplace {
    /// The agent.
    pub session: Session,
    /// What is taken.
    pub journal: Journal,
    folder: PathBuf,
    agent: LeaseId,
}

impl Workplace {
    /// Starts an agent and releases what a killed run on the same file left.
    ///
    /// # Errors
    /// No agent, no place for the journal, or another process works on the same file.
    pub fn open(file: &Path) -> Result<Self, ImageError> {
        let hash = blake3::hash(file.as_os_str().as_bytes()).to_hex();
        let name = Path::new("image").join(hash.as_str().get(..16).unwrap_or("image"));
        let folder = runtime::make(&name)?;
        let mut session = Target::local()?;
        let mut journal = Journal::open(&folder)?;
        let agent = journal.attach(&session)?;
        clean(&mut session, &mut journal)?;
        Ok(Self { session, journal, folder, agent })
    }

    /// A place for a mount.
    #[must_use]
    pub fn point(&self) -> PathBuf {
        self.journal.store().join("mount")
    }

    /// Ends the agent and removes the folder.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn close(self) -> Result<(), ImageError> {
        let Self { session, mut journal, folder, agent } = self;
        drop(session);
        if journal.outstanding().len() == 1 {
            // Before the lock goes with the journal; one that stays is found empty by the next.
            let _ = std::fs::remove_dir_all(&folder);
        }
        journal.release(agent)?;
        Ok(())
    }
}
