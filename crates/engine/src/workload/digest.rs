//! The digest of a thread's logical tree: the same for a workload's model and for that of a replay, so that
//! both can be compared.

use fsage_model::digest::Digest;

use super::{HardLink, LiveFile, Symlink};
use crate::tree::Directory;

/// A digest under way. Things are distinguished by their first number; the order they are added in does not
/// matter.
pub struct TreeDigest {
    thread: u64,
    digest: Digest,
}

impl TreeDigest {
    /// Of a thread's tree of which nothing is known yet.
    #[must_use]
    pub fn of_thread(thread: u32) -> Self {
        Self { thread: thread.into(), digest: Digest::default() }
    }

    /// Adds a directory; the top is not added.
    pub fn directory(&mut self, directory: Directory) {
        self.digest.add(&[1, self.thread, directory.number.into(), directory.parent.into()]);
    }

    /// Adds a file under its first name.
    pub fn file(&mut self, file: &LiveFile) {
        let LiveFile { file, place, size, version, links } = *file;
        let (version, links) = (version.into(), links.into());
        self.digest.add(&[2, self.thread, place.directory.into(), place.name, file, size, version, links]);
    }

    /// Adds one more name of a file.
    pub fn hard_link(&mut self, link: &HardLink) {
        self.digest.add(&[3, self.thread, link.place.directory.into(), link.place.name, link.file]);
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, link: &Symlink) {
        let Symlink { place, target } = *link;
        let words = [place.directory.into(), place.name, target.directory.into(), target.name];
        self.digest.add(&[4, self.thread, words[0], words[1], words[2], words[3]]);
    }

    /// What it comes to.
    #[must_use]
    pub const fn finish(self) -> Digest {
        self.digest
    }
}
