//! A sparse file under a loop device.
//!
//! The file may grow to its full size while the load runs, and a file system whose device fails for lack of
//! room is damaged: it is made only where its full size and a margin are free. Others may still use up the
//! room.

use std::path::{Path, PathBuf};

use fsage_model::protocol::{BlockFacts, Usage, call};
use fsage_model::size::Bytes;

use super::{Taking, VolumeError};
use crate::lease::record::Lease;

/// Smallest volume that is of any use.
const SMALLEST: u64 = 1 << 20;

/// A loop volume, not yet taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopVolume {
    size_bytes: u64,
    directory: PathBuf,
    direct_io: bool,
    sector_bytes: u32,
    scheduler: Option<String>,
}

impl LoopVolume {
    pub(super) fn new(
        size: Bytes,
        directory: &Path,
        direct_io: bool,
        sector_bytes: u32,
        scheduler: Option<String>,
    ) -> Result<Self, VolumeError> {
        let wrong = |key, what: String| Err(VolumeError::Spec { key, what });
        if !matches!(sector_bytes, 512 | 4096) {
            return wrong("sector_bytes", format!("must be 512 or 4096, not {sector_bytes}"));
        }
        if size.0 < SMALLEST || i64::try_from(size.0).is_err() {
            return wrong("size", format!("must be from {} to 8 EiB, not {size}", Bytes(SMALLEST)));
        }
        if !size.0.is_multiple_of(4096) {
            return wrong("size", format!("must be a multiple of 4096 bytes, not {} bytes", size.0));
        }
        let absolute = std::path::absolute(directory);
        let Ok(directory) = absolute else {
            return wrong("directory", format!("must be a path, not `{}`", directory.display()));
        };
        Ok(Self { size_bytes: size.0, directory, direct_io, sector_bytes, scheduler })
    }

    /// Size of the file and the device.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Scheduler wanted, if any.
    #[must_use]
    pub fn scheduler(&self) -> Option<&str> {
        self.scheduler.as_deref()
    }

    /// The backing file of the volume called `name`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.volume"))
    }

    /// Free bytes that the directory must have: the full size, a twentieth and 64 MiB.
    const fn needed_bytes(&self) -> u64 {
        self.size_bytes.saturating_add(self.size_bytes / 20).saturating_add(64 << 20)
    }

    pub(super) fn describe(&self, name: &str) -> Vec<String> {
        let file = self.file(name);
        vec![format!("truncate -s {} {}", self.size_bytes, file.display()), self.attach_line(&file)]
    }

    fn attach_line(&self, file: &Path) -> String {
        let direct_io = if self.direct_io { "on" } else { "off" };
        format!("losetup --find --show --direct-io={direct_io} -b {} {}", self.sector_bytes, file.display())
    }

    pub(super) fn take(&self, taking: &mut Taking<'_>, name: &str) -> Result<BlockFacts, VolumeError> {
        let directory = self.directory.clone();
        taking.make(Lease::Directory { path: directory })?;
        self.check_space(taking)?;
        let file = self.file(name);
        taking.make(Lease::File { path: file.clone() })?;
        taking.lease(Lease::loop_over(&file))?;
        taking.commands.push(format!("truncate -s {} {}", self.size_bytes, file.display()));
        taking.commands.push(self.attach_line(&file));
        let device = taking.session.call(call::LoopAttach {
            file,
            size_bytes: Some(self.size_bytes),
            sector_bytes: self.sector_bytes,
            direct_io: self.direct_io,
        })?;
        taking.facts(&device)
    }

    fn check_space(&self, taking: &mut Taking<'_>) -> Result<(), VolumeError> {
        let directory = self.directory.clone();
        let needed_bytes = self.needed_bytes();
        let Usage { available_bytes, .. } =
            taking.session.call(call::Usage { directory: directory.clone() })?;
        if available_bytes < needed_bytes {
            let size_bytes = self.size_bytes;
            return Err(VolumeError::Space { directory, available_bytes, size_bytes, needed_bytes });
        }
        Ok(())
    }
}
