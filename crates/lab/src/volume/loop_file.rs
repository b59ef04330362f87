//! A file under a loop device.
//!
//! The file has all of its blocks before a file system is made on it, so that what the host does to find room
//! is no part of what is measured; it is made only where its full size and a margin are free.
//!
//! A loop device hands a discard on as a hole in its file, and the next write there has the host look for
//! room again. mkfs discards the whole device, and so does restoring an image; so the file gets its blocks
//! back before each mount (`LoopVolume::allocate`), and with that before each measure. The device itself
//! cannot be told to take no discards: `discard_max_bytes` takes the 0, but no kernel that was tried takes
//! the old value back.
//!
//! Known limits: what is discarded while it is mounted (`fstrim` of an `age` stage, the option `discard`,
//! btrfs by itself) is a hole until the next mount. What `fallocate` has set aside is marked as unwritten,
//! and the first write of a block changes that mark in the host's metadata. On a host whose file system never
//! writes in place (btrfs, zfs, bcachefs) every overwrite has it look for room, preallocated or not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsage_model::protocol::{BlockFacts, Usage, call};
use fsage_model::size::Bytes;
use fsage_model::study::QueueSpec;

use super::{Taking, VolumeError};
use crate::lease::record::Lease;
use crate::target::Session;

/// Smallest volume that is of any use.
const SMALLEST: u64 = 1 << 20;

/// Refuses volumes whose files do not fit beside each other.
pub(super) fn check_room(volumes: &[&LoopVolume], session: &mut Session) -> Result<(), VolumeError> {
    let mut needed: BTreeMap<&Path, (usize, u64)> = BTreeMap::new();
    for volume in volumes {
        let (count, bytes) = needed.entry(&volume.directory).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(volume.needed_bytes());
    }
    // One alone is checked when it is taken.
    for (directory, (volumes, needed_bytes)) in needed.into_iter().filter(|(_, (count, _))| *count > 1) {
        // The folder may be still to be made.
        let there = directory.ancestors().find(|folder| folder.is_dir()).unwrap_or(directory);
        let Usage { available_bytes, .. } = session.call(call::Usage { directory: there.to_owned() })?;
        if available_bytes < needed_bytes {
            let directory = directory.to_owned();
            return Err(VolumeError::Room { directory, available_bytes, volumes, needed_bytes });
        }
    }
    Ok(())
}

/// A loop volume, not yet taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopVolume {
    size_bytes: u64,
    directory: PathBuf,
    direct_io: bool,
    sector_bytes: u32,
    scheduler: Option<String>,
    queue: QueueSpec,
}

impl LoopVolume {
    pub(super) fn new(
        size: Bytes,
        directory: &Path,
        direct_io: bool,
        sector_bytes: u32,
        scheduler: Option<String>,
        queue: QueueSpec,
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
        Ok(Self { size_bytes: size.0, directory, direct_io, sector_bytes, scheduler, queue })
    }

    /// Size of the file and the device.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Scheduler and settings of the queue wanted, if any.
    #[must_use]
    pub fn queue(&self) -> (Option<&str>, &QueueSpec) {
        (self.scheduler.as_deref(), &self.queue)
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
        vec![self.make_line(&file), self.attach_line(&file)]
    }

    /// Gives the file of the volume called `name` back what blocks it lost to discards.
    pub(super) fn allocate(&self, name: &str, session: &mut Session) -> Result<(), VolumeError> {
        Ok(session.call(call::LoopAllocate { file: self.file(name) })?)
    }

    fn make_line(&self, file: &Path) -> String {
        format!("fallocate -l {} {}", self.size_bytes, file.display())
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
        taking.commands.push(self.make_line(&file));
        taking.commands.push(self.attach_line(&file));
        let attach = call::LoopAttach {
            file,
            size_bytes: Some(self.size_bytes),
            sector_bytes: self.sector_bytes,
            direct_io: self.direct_io,
            part: None,
        };
        let device = taking.session.call_with(attach, &mut *taking.incoming)?;
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

#[cfg(test)]
mod tests {
    use fsage_model::problem::{EXIT_MISSING, Explain as _};
    use fsage_model::protocol::{Call as _, Reply, Request};

    use super::*;
    use crate::target::Target;

    fn volume(size: Bytes, directory: &Path) -> LoopVolume {
        LoopVolume::new(size, directory, true, 4096, None, QueueSpec::default()).unwrap()
    }

    /// A host with so many bytes free wherever it is asked.
    fn host(available_bytes: u64) -> Session {
        Target::scripted(Box::new(move |request, _| {
            Some(match request {
                Request::Usage(usage) => {
                    assert!(usage.directory.is_dir(), "{}", usage.directory.display());
                    usage.reply(&Usage {
                        used_bytes: 0,
                        total_bytes: available_bytes,
                        available_bytes,
                        file_system: "script".to_owned(),
                    })
                }
                _ => Ok(Reply::done()),
            })
        }))
    }

    #[test]
    fn files_that_fit_alone_and_not_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store/volumes");
        let (small, large) = (volume(Bytes(1 << 30), &store), volume(Bytes(10 << 30), &store));
        let both = small.needed_bytes() + large.needed_bytes();
        check_room(&[&small, &large], &mut host(both)).unwrap();
        let error = check_room(&[&small, &large], &mut host(both - 1)).unwrap_err();
        assert_eq!(error.exit_code(), EXIT_MISSING);
        assert!(error.to_string().contains("2 volumes at once need 11.7GiB"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("volume.directory")));
        // Elsewhere each has room of its own.
        let other = volume(Bytes(10 << 30), folder.path());
        check_room(&[&small, &other], &mut host(large.needed_bytes())).unwrap();
    }

    #[test]
    fn what_it_does_is_said_beforehand() {
        let lines = volume(Bytes(1 << 30), Path::new("/store")).describe("t1");
        assert_eq!(lines[0], "fallocate -l 1073741824 /store/t1.volume");
        assert!(lines[1].starts_with("losetup ") && lines.len() == 2, "{lines:?}");
    }
}
