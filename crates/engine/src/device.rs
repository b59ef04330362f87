//! What the kernel counts of the block device under a directory.
//!
//! `/sys/dev/block/MAJOR:MINOR/stat` (Documentation/block/stat.rst): the 3rd and the 7th field are sectors of
//! 512 bytes read and written, whatever the device's sector size. `st_dev` names the device but on btrfs, whose numbers are
//! anonymous and differ between `stat` and the mount table: there the line of the mount
//! (`/proc/self/mountinfo`, found by the mount's number) tells the source, and `/sys/fs/btrfs/*/devices`
//! every device of the file system. File systems without a block device (tmpfs, nfs, overlay) have no
//! counter.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::fio::DeviceCounts;
use fsage_model::protocol::DeviceBytes;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Bytes in a sector of the kernel's counters.
const SECTOR_BYTES: u64 = 512;

/// A device that does nothing for so long is quiet.
const QUIET: Duration = Duration::from_millis(50);
/// Time between two readings of its counters.
const READING: Duration = Duration::from_millis(5);
/// How long it is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The counters of the device (or devices) under a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    stat: Vec<PathBuf>,
    /// Of the devices that these are made of.
    below: Vec<PathBuf>,
}

impl Device {
    /// The device under `directory`; nothing where there is none or the kernel does not say.
    #[must_use]
    pub fn under(directory: &Path) -> Option<Self> {
        let number = fs::metadata(directory).ok()?.dev();
        let direct = stat_of(number);
        if direct.exists() {
            return Some(Self::of(vec![direct]));
        }
        let source = mount_source(&fs::read_to_string("/proc/self/mountinfo").ok()?, mount_id(directory)?)?;
        let number = fs::metadata(&source).ok()?.rdev();
        let own = stat_of(number);
        let stat = btrfs_members(&own).unwrap_or_else(|| vec![own]);
        stat.iter().all(|path| path.exists()).then(|| Self::of(stat))
    }

    /// The block device of this node; nothing where it is none or the kernel does not say.
    #[must_use]
    pub fn of_node(node: &Path) -> Option<Self> {
        let stat = stat_of(fs::metadata(node).ok()?.rdev());
        stat.exists().then(|| Self::of(vec![stat]))
    }

    fn of(stat: Vec<PathBuf>) -> Self {
        let mut below = Vec::new();
        stat.iter().filter_map(|path| path.parent()).for_each(|folder| add_below(folder, &mut below, 0));
        Self { stat, below }
    }

    /// Everything that it counted since it came up; nothing when it is gone.
    #[must_use]
    pub fn counts(&self) -> Option<DeviceCounts> {
        let mut sum = DeviceCounts::default();
        for path in &self.stat {
            let one = counts(&fs::read_to_string(path).ok()?)?;
            sum.reads += one.reads;
            sum.read_bytes += one.read_bytes;
            sum.writes += one.writes;
            sum.written_bytes += one.written_bytes;
            sum.flushes += one.flushes;
            sum.busy_ms += one.busy_ms;
            sum.queued_ms += one.queued_ms;
        }
        Some(sum)
    }

    /// The folders of the devices in sysfs.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.stat.iter().filter_map(|stat| stat.parent().map(Path::to_owned)).collect()
    }

    /// Waits until nothing is under way and nothing was asked for some time: also what a file system does in
    /// the background after a sync is over then. Whether it came to that within five seconds; one that is
    /// gone is quiet.
    #[must_use]
    pub fn settle(&self) -> bool {
        self.settle_for(QUIET)
    }

    /// As [`Self::settle`], with another time in which nothing is asked for.
    #[must_use]
    pub fn settle_for(&self, quiet: Duration) -> bool {
        self.settle_within(quiet, PATIENCE)
    }

    fn settle_within(&self, quiet: Duration, patience: Duration) -> bool {
        let reading = READING.min(quiet / 5);
        let started = Instant::now();
        let mut seen = self.activity();
        let mut since = started;
        loop {
            std::thread::sleep(reading);
            let now = self.activity();
            if now != seen || now.iter().any(|one| one.under_way > 0) {
                since = Instant::now();
            }
            if since.elapsed() >= quiet {
                return true;
            }
            if started.elapsed() >= patience {
                return false;
            }
            seen = now;
        }
    }

    /// Of the devices and of all below them: layers write by themselves.
    fn activity(&self) -> Vec<Activity> {
        let of = |path: &PathBuf| activity(&fs::read_to_string(path).ok()?);
        self.stat.iter().chain(&self.below).filter_map(of).collect()
    }

    /// Bytes written to it since it came up; nothing when it is gone.
    #[must_use]
    pub fn bytes_written(&self) -> Option<u64> {
        self.bytes_of(WRITTEN)
    }

    /// Bytes read from it and written to it since it came up; nothing when it is gone.
    #[must_use]
    pub fn bytes(&self) -> Option<DeviceBytes> {
        Some(DeviceBytes { read: self.bytes_of(READ)?, written: self.bytes_of(WRITTEN)? })
    }

    fn bytes_of(&self, field: usize) -> Option<u64> {
        self.stat
            .iter()
            .map(|path| sectors(&fs::read_to_string(path).ok()?, field))
            .sum::<Option<u64>>()
            .map(|sectors| sectors * SECTOR_BYTES)
    }
}

/// Layers of devices that are looked through.
const DEEPEST: usize = 16;

/// Adds the counters of the devices that the one with this folder is made of, each once.
fn add_below(folder: &Path, found: &mut Vec<PathBuf>, depth: usize) {
    for entry in fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten() {
        let stat = entry.path().join("stat");
        if depth < DEEPEST && !found.contains(&stat) {
            found.push(stat);
            add_below(&entry.path(), found, depth + 1);
        }
    }
}

fn stat_of(number: u64) -> PathBuf {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
}

/// What a device has done and is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Activity {
    /// Reads, writes, discards and flushes that are over; the last two where the kernel counts them.
    over: u64,
    under_way: u64,
}

fn activity(stat: &str) -> Option<Activity> {
    let fields: Vec<u64> = stat.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let over = [0, 4, 11, 15].iter().filter_map(|field| fields.get(*field)).sum();
    Some(Activity { over, under_way: *fields.get(8)? })
}

/// Fields of `stat` with the sectors that were read, and written.
const READ: usize = 2;
const WRITTEN: usize = 6;

fn sectors(stat: &str, field: usize) -> Option<u64> {
    stat.split_ascii_whitespace().nth(field)?.parse().ok()
}

/// The counters of `stat`: reads, merged, sectors, ms, writes, merged, sectors, ms, under way, busy ms, weighted
/// ms, then four of discards (4.18) and two of flushes (5.5).
fn counts(stat: &str) -> Option<DeviceCounts> {
    let fields: Vec<u64> = stat.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let field = |index: usize| fields.get(index).copied();
    Some(DeviceCounts {
        reads: field(0)?,
        read_bytes: field(READ)? * SECTOR_BYTES,
        writes: field(4)?,
        written_bytes: field(WRITTEN)? * SECTOR_BYTES,
        flushes: field(15).unwrap_or(0),
        busy_ms: field(9)?,
        queued_ms: field(10)?,
    })
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
        assert_eq!(sectors(stat, WRITTEN), Some(48128));
        assert_eq!(sectors("1 2 3", WRITTEN), None);
    }

    #[test]
    fn every_counter_has_its_field() {
        let found = counts("  184   0  13104  9  1000  20  48128  70  0  60  80  0 0 0 0 5 1\n").unwrap();
        let wanted = DeviceCounts {
            reads: 184,
            read_bytes: 13104 * 512,
            writes: 1000,
            written_bytes: 48128 * 512,
            flushes: 5,
            busy_ms: 60,
            queued_ms: 80,
        };
        assert_eq!(found, wanted);
        assert_eq!(counts("1 0 2 0 3 0 4 0 0 5 6").map(|old| (old.flushes, old.busy_ms)), Some((0, 5)));
        assert_eq!(counts("1 2 3"), None);
    }

    #[test]
    fn reads_writes_discards_and_flushes_are_activity() {
        let stat = "  184   0  13104  9  1000  20  48128  70  3  60  80  7 0 0 0 5 1\n";
        assert_eq!(activity(stat), Some(Activity { over: 184 + 1000 + 7 + 5, under_way: 3 }));
        // Kernels before 4.18 have eleven fields.
        assert_eq!(activity("1 0 0 0 2 0 0 0 0 0 0"), Some(Activity { over: 3, under_way: 0 }));
        assert_eq!(activity("1 2 3"), None);
    }

    #[test]
    fn a_device_that_is_asked_all_the_time_never_settles_and_one_at_rest_does() {
        let folder = tempfile::tempdir().unwrap();
        let stat = folder.path().join("stat");
        let write = |reads: u64| {
            let next = folder.path().join("next");
            fs::write(&next, format!("{reads} 0 0 0 2 0 0 0 0 0 0\n")).unwrap();
            fs::rename(&next, &stat).unwrap();
        };
        write(0);
        let device = Device { stat: vec![stat.clone()], below: Vec::new() };
        let started = Instant::now();
        assert!(device.settle() && started.elapsed() >= QUIET);
        let (started, short) = (Instant::now(), Duration::from_millis(10));
        assert!(device.settle_for(short) && started.elapsed() >= short);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| device.settle_within(QUIET, 4 * QUIET));
            let mut reads = 0;
            while !waiting.is_finished() {
                reads += 1;
                write(reads);
            }
            assert!(!waiting.join().unwrap());
        });
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
