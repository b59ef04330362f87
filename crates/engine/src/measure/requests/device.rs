//! Which disk a directory is on, and which of its sectors.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::host::tracefs::TraceError;
use crate::host::{mount, read_trimmed};

/// A disk and the part of it that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disk {
    major: u32,
    minor: u32,
    pub start_sector: u64,
    pub sectors: u64,
    /// It has no request queue.
    pub bio_based: bool,
}

impl Disk {
    /// The disk of `device`, or of what the file system that holds `directory` is mounted from. btrfs gives
    /// its files a device number of their own, so the mount table is asked, not `stat`.
    pub fn find(directory: &Path, device: Option<&Path>) -> Result<Self, TraceError> {
        let path = match device {
            Some(device) => device.to_owned(),
            None => source(directory)
                .ok_or_else(|| error(directory, "nothing that is mounted holds it".to_owned()))?,
        };
        let found = path.metadata().map_err(|source| error(&path, source.to_string()))?;
        if !found.file_type().is_block_device() {
            return Err(error(&path, "it is not a block device".to_owned()));
        }
        Ok(Self::of(major(found.rdev()), minor(found.rdev())))
    }

    fn of(major: u32, minor: u32) -> Self {
        let system = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        if !system.join("partition").exists() {
            return Self {
                major,
                minor,
                start_sector: 0,
                sectors: u64::MAX,
                bio_based: !system.join("mq").exists(),
            };
        }
        let number = |file: &str| read_trimmed(system.join(file)).parse().ok();
        // The folder of a partition is in that of its disk.
        let disk =
            system.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned())).unwrap_or_default();
        let whole = read_trimmed(disk.join("dev"));
        let (whole_major, whole_minor) = whole
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .unwrap_or((major, minor));
        Self {
            major: whole_major,
            minor: whole_minor,
            start_sector: number("start").unwrap_or(0),
            sectors: number("size").unwrap_or(u64::MAX),
            bio_based: !disk.join("mq").exists(),
        }
    }

    /// The number as events carry it: the kernel's own `dev_t`, 12 bits of major over 20 of minor.
    pub fn number(&self) -> u32 {
        (self.major << 20) | self.minor
    }
}

/// What the file system that holds `directory` is mounted from.
fn source(directory: &Path) -> Option<PathBuf> {
    let table = mount::table();
    let holders = table.iter().filter(|entry| directory.starts_with(&entry.point));
    // Of several mounts at the same point the last covers the others, and the last maximum is taken.
    let entry = holders.max_by_key(|entry| entry.point.components().count())?;
    if entry.source.exists() {
        return Some(entry.source.clone());
    }
    // `/dev/root` and the like: by number.
    let name = std::fs::read_link(format!("/sys/dev/block/{}", entry.device_number)).ok()?;
    Some(Path::new("/dev").join(name.file_name()?))
}

fn error(path: &Path, what: String) -> TraceError {
    TraceError::Device { path: path.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels_own() {
        let disk = Disk { major: 7, minor: 300, start_sector: 0, sectors: 1, bio_based: false };
        assert_eq!(disk.number(), 7 * 1_048_576 + 300);
        assert_eq!(disk.minor, minor(rustix::fs::makedev(7, 300)));
    }

    #[test]
    fn what_is_no_block_device_is_refused() {
        for (directory, device) in [("/proc", None), ("/", Some(Path::new("/dev/null")))] {
            let error = Disk::find(Path::new(directory), device).unwrap_err();
            assert!(matches!(error, TraceError::Device { .. }), "{error}");
        }
    }
}
