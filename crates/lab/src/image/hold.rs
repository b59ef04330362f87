//! Things taken one after the other, to be released in reverse order.

use std::path::{Path, PathBuf};

use fsage_model::protocol::{Call, call};

use super::ImageError;
use crate::lease::record::Lease;
use crate::lease::{Journal, LeaseId, release};
use crate::target::Session;

/// What is held. [`Hold::release`] must be called; what is dropped instead stays leased for
/// `fsage clean`.
#[derive(Debug, Default)]
#[must_use = "what is held has to be released"]
pub struct Hold {
    taken: Vec<LeaseId>,
}

impl Hold {
    /// Makes a directory.
    ///
    /// # Errors
    /// It cannot be leased or made.
    pub fn directory(&mut self, journal: &mut Journal, directory: &Path) -> Result<(), ImageError> {
        self.taken.extend(journal.make(Lease::Directory { path: directory.to_owned() })?);
        Ok(())
    }

    /// Makes a file, empty; removed again.
    ///
    /// # Errors
    /// It is there already, or cannot be made.
    pub fn file(&mut self, journal: &mut Journal, file: &Path) -> Result<(), ImageError> {
        self.taken.extend(journal.make(Lease::File { path: file.to_owned() })?);
        Ok(())
    }

    /// Attaches a loop device with `call`, one of `LoopAttach…` over `file`.
    ///
    /// # Errors
    /// It cannot be leased or attached.
    pub fn attach(
        &mut self,
        session: &mut Session,
        journal: &mut Journal,
        file: &Path,
        call: impl Call<Reply = PathBuf>,
    ) -> Result<PathBuf, ImageError> {
        self.taken.push(journal.take(Lease::loop_over(file))?);
        Ok(session.call(call)?)
    }

    /// Mounts `device` at `point`, which is made.
    ///
    /// # Errors
    /// It cannot be leased or mounted.
    pub fn mount(
        &mut self,
        session: &mut Session,
        journal: &mut Journal,
        device: &Path,
        point: &Path,
        (file_system, options): (&str, &[&str]),
    ) -> Result<(), ImageError> {
        self.directory(journal, point)?;
        session.call(call::MakeMountPoint { point: point.to_owned() })?;
        self.taken.push(journal.take(Lease::Mount { point: point.to_owned() })?);
        session.call(call::Mount {
            device: device.to_owned(),
            point: point.to_owned(),
            file_system: file_system.to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            afresh: false,
        })?;
        Ok(())
    }

    /// How much is held; for [`Hold::release_to`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Lets go of the last thing taken without undoing it: it is the result now.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn keep_last(&mut self, journal: &mut Journal) -> Result<(), ImageError> {
        if let Some(id) = self.taken.pop() {
            journal.release(id)?;
        }
        Ok(())
    }

    /// Releases what was taken after the first `kept` things, in reverse order; every step is tried.
    ///
    /// # Errors
    /// The first step that failed; its lease stays for `fsage clean`.
    pub fn release_to(
        &mut self,
        kept: usize,
        session: &mut Session,
        journal: &mut Journal,
    ) -> Result<(), ImageError> {
        let mut first = Ok(());
        while self.taken.len() > kept {
            let Some(id) = self.taken.pop() else { break };
            let released = release(session, journal, id).map_err(ImageError::from);
            if first.is_ok() {
                first = released;
            }
        }
        first
    }

    /// Gives everything back, and tells the first thing that went wrong: in `outcome`, or in releasing.
    ///
    /// # Errors
    /// See there.
    pub fn release<T>(
        mut self,
        session: &mut Session,
        journal: &mut Journal,
        outcome: Result<T, ImageError>,
    ) -> Result<T, ImageError> {
        let given = self.release_to(0, session, journal);
        let value = outcome?;
        given.map(|()| value)
    }
}
