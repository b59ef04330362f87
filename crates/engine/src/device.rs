//! What the kernel counts of the block device under a directory.
//!
//! `/sys/dev/block/MAJOR:MINOR/stat` (Documentation/block/stat.rst): the 7th field is sectors of 512 bytes
//! written, whatever the device's sector size. `st_dev` names the device but on btrfs, whose numbers are
//! anonymous and differ between `stat` and the mount table: there the line of the mount
//! (`/proc/self/mountinfo`, found by the mount's number) tells the source, and `/sys/fs/btrfs/*/devices`
//! every device of the file system. File systems without a block device (tmpfs, nfs, overlay) have no
//! counter.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Bytes in a sector of the kernel's counters.
const SECTOR_BYTES: u64 = 512;

/// The counters of the device (or devices) under a directory.
#[derive(Debug, Clone)]
pub struct Device {
    stat: Vec<PathBuf>,
}

impl Device {
    /// The device under `directory`; nothing where there is none or the kernel does not say.
    #[must_use]
    pub fn under(directory: &Path) -> Option<Self> {
        let number = fs::metadata(directory).ok()?.dev();
        let direct = stat_of(number);
        if direct.exists() {
            return Some(Self { stat: vec![direct] });
        }
        let source = mount_source(&fs::read_to_string("/proc/self/mountinfo").ok()?, mount_id(directory)?)?;
        let number = fs::metadata(&source).ok()?.rdev();
        let own = stat_of(number);
        let stat = btrfs_members(&own).unwrap_or_else(|| vec![own]);
        stat.iter().all(|path| path.exists()).then_some(Self { stat })
    }

    /// The folders of the devices in sysfs.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.stat.iter().filter_map(|stat| stat.parent().map(Path::to_owned)).collect()
    }

    /// Bytes written to it since it came up; nothing when it is gone.
    #[must_use]
    pub fn bytes_written(&self) -> Option<u64> {
        self.stat
            .iter()
            .map(|path| sectors_written(&fs::read_to_string(path).ok()?))
            .sum::<Option<u64>>()
            .map(|sectors| sectors * SECTOR_BYTES)
    }
}

fn stat_of(number: u64) -> PathBuf {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
}

fn sectors_written(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(6)?.parse().ok()
}

/// The mount that a directory is on, by its number in the mount table.
fn mount_id(directory: &Path) -> Option<u64> {
    let facts = statx(CWD, directory, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    Some(facts.stx_mnt_id)
}

/// The source of the mount with the number `id`: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS … - TYPE SOURCE
/// OPTIONS`.
fn mount_source(mountinfo: &str, id: u64) -> Option<PathBuf> {
    let wanted = id.to_string();
    let (_, tail) = mountinfo
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .find(|(head, _)| head.split(' ').next() == Some(wanted.as_str()))?;
    let source = tail.split(' ').nth(1)?;
    source.starts_with('/').then(|| PathBuf::from(unescape(source)))
}

/// Undoes the octal escapes of the mount table.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The counters of every device of the btrfs that the device with the counter `own` belongs to.
fn btrfs_members(own: &Path) -> Option<Vec<PathBuf>> {
    let own = fs::canonicalize(own).ok()?;
    for file_system in fs::read_dir("/sys/fs/btrfs").ok()?.flatten() {
        let Ok(devices) = fs::read_dir(file_system.path().join("devices")) else { continue };
        let stat: Vec<PathBuf> = devices
            .flatten()
            .filter_map(|device| fs::canonicalize(device.path().join("stat")).ok())
            .collect();
        if stat.contains(&own) {
            return Some(stat);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seventh_field_is_sectors_written() {
        let stat = "  184   0  13104  9  1000  20  48128  70  0  60  80  0 0 0 0 5 1\n";
        assert_eq!(sectors_written(stat), Some(48128));
        assert_eq!(sectors_written("1 2 3"), None);
    }

    #[test]
    fn the_source_is_found_by_mount() {
        let table = "36 25 0:29 / /mnt/a rw - btrfs /dev/loop\\0407 rw,space_cache=v2\n\
                     37 25 7:3 / /mnt/b rw shared:1 - ext4 /dev/loop3 rw\n\
                     38 25 0:31 / /tmp rw - tmpfs tmpfs rw\n";
        let of = |id| mount_source(table, id);
        assert_eq!(of(36), Some(PathBuf::from("/dev/loop 7")));
        assert_eq!(of(37), Some(PathBuf::from("/dev/loop3")));
        assert_eq!(of(38), None, "tmpfs has no device");
        assert_eq!(of(3), None);
    }

    #[test]
    fn proc_has_no_device() {
        assert!(Device::under(Path::new("/proc")).is_none());
    }
}
