//! What is known about a block device, for the rules that keep others' data safe. Nothing is written.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsage_model::protocol::{BackingFile, BlockFacts, DeviceIdentity};
use rustix::fs::{Mode, OFlags, major, minor};

use super::{HostError, gpt, mount, partition, read_trimmed, setting, signature};

/// Everything [`BlockFacts`] has to say about `device`.
///
/// # Errors
/// It is missing, no block device, or cannot be opened for reading.
pub fn facts(device: &Path) -> Result<BlockFacts, HostError> {
    let path = device.canonicalize().map_err(HostError::file("find device", device))?;
    let metadata = path.metadata().map_err(HostError::file("inspect", &path))?;
    if !metadata.file_type().is_block_device() {
        return Err(HostError::Senseless { what: format!("{} is not a block device", path.display()) });
    }
    let file = File::open(&path).map_err(HostError::file("open", &path))?;
    let what = || format!("ask {} about itself", path.display());
    let size_bytes = fsage_sys::block::size_bytes(file.as_fd()).map_err(HostError::kernel(what()))?;
    let sector_bytes = fsage_sys::block::sector_bytes(file.as_fd()).map_err(HostError::kernel(what()))?;
    let identity = identity(&file, &path)?;
    let found = signature::of_file(&file, size_bytes);
    let beside = beside(&found, &file, size_bytes, sector_bytes);
    drop(file);
    let sysfs = Sysfs::of(metadata.rdev());
    let parts = sysfs.partitions();
    let scheduler = read_trimmed(sysfs.disk.join("queue/scheduler"));
    let backing_file = read_trimmed(sysfs.own.join("loop/backing_file"));
    let behind = identity.backing.as_ref().map(|file| Sysfs::of(file.device).disk_in_words());
    Ok(BlockFacts {
        size_bytes,
        sector_bytes,
        model: behind.unwrap_or_else(|| sysfs.model()),
        serial: sysfs.serial(),
        part_uuid: sysfs.part_uuid(),
        start_bytes: partition::start_bytes(&sysfs.own).unwrap_or(0),
        rotational: read_trimmed(sysfs.disk.join("queue/rotational")) == "1",
        scheduler: setting::chosen(&scheduler).to_owned(),
        schedulers: scheduler
            .split_ascii_whitespace()
            .map(|name| name.trim_matches(['[', ']']))
            .map(str::to_owned)
            .collect(),
        mounted_at: mounted_at(&path, &sysfs, &parts),
        swap: is_swap(&path, &parts),
        holders: holders(&sysfs, &parts),
        partitions: parts.iter().map(|part| part.name.clone()).collect(),
        signature: found.name,
        label: found.label,
        uuid: found.uuid,
        beside,
        identity,
        exclusive: opens_exclusively(&path),
        disk: name_of(&sysfs.disk),
        backing_file: (!backing_file.is_empty()).then(|| PathBuf::from(backing_file)),
        path,
    })
}

/// What was found beside the signature: the table of a disk that was divided after a file system was made on it leaves
/// that one's superblock where it was.
fn beside(found: &signature::Signature, file: &File, size_bytes: u64, sector_bytes: u32) -> String {
    let is_table = matches!(found.name.as_str(), "gpt" | "mbr");
    match (found.beside.is_empty(), is_table) {
        (false, _) => found.beside.clone(),
        (true, true) => String::new(),
        (true, false) => match gpt::partitions_on(file, size_bytes, sector_bytes) {
            Ok(0) => String::new(),
            Ok(1) => "a table of 1 partition".to_owned(),
            Ok(partitions) => format!("a table of {partitions} partitions"),
            Err(_) => signature::UNREADABLE.to_owned(),
        },
    }
}

/// The last part of a path, as text.
fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What tells the block device that is open as `device`, at `path`, from a later one of its name.
///
/// # Errors
/// It is no block device, or does not answer: the file behind a loop device may be gone.
pub fn identity(device: &File, path: &Path) -> Result<DeviceIdentity, HostError> {
    let what = || format!("ask {} about itself", path.display());
    let number = device.metadata().map_err(HostError::file("inspect", path))?.rdev();
    let size_bytes = fsage_sys::block::size_bytes(device.as_fd()).map_err(HostError::kernel(what()))?;
    let sequence = fsage_sys::block::disk_sequence(device.as_fd()).map_err(HostError::kernel(what()))?;
    let (major, minor) = (major(number), minor(number));
    let backing = if major == LOOP_MAJOR {
        let file = fsage_sys::loopdev::backing_of(device.as_fd()).map_err(HostError::kernel(what()))?;
        file.map(|(device, inode)| BackingFile { device, inode })
    } else {
        None
    };
    let offset_bytes = backing.and_then(|_| fsage_sys::loopdev::offset_of(path)).unwrap_or(0);
    Ok(DeviceIdentity { major, minor, sequence, size_bytes, backing, offset_bytes })
}

/// Bytes of a sector in sysfs, whatever the device's own sectors are.
const SECTOR: u64 = 512;

/// Of loop devices (`linux/major.h`). Their partitions have another number and no file of their own.
const LOOP_MAJOR: u32 = 7;

/// Who uses a block device, in words; nobody: empty. Reads nothing from the device, which may not answer.
///
/// # Errors
/// It is not there, or no block device.
pub fn users(path: &Path) -> Result<Vec<String>, HostError> {
    let path = path.canonicalize().map_err(HostError::file("find", path))?;
    let metadata = std::fs::metadata(&path).map_err(HostError::file("stat", &path))?;
    if !metadata.file_type().is_block_device() {
        return Err(HostError::Senseless { what: format!("{} is not a block device", path.display()) });
    }
    let sysfs = Sysfs::of(metadata.rdev());
    let parts = sysfs.partitions();
    let points = mounted_at(&path, &sysfs, &parts);
    let mut users: Vec<String> =
        points.iter().map(|point| format!("mounted at {}", point.display())).collect();
    users.extend(holders(&sysfs, &parts).iter().map(|holder| format!("held by {holder}")));
    if is_swap(&path, &parts) {
        users.push("swap".to_owned());
    }
    if users.is_empty() && !opens_exclusively(&path) {
        users.push("claimed by a holder that is not visible from here".to_owned());
    }
    Ok(users)
}

/// Whether nobody else has claimed it. For reading: closing a device that was open for writing makes udev
/// inspect it again.
pub(super) fn opens_exclusively(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).is_ok()
}

/// The device's folders in /sys.
struct Sysfs {
    number: String,
    own: PathBuf,
    /// Of the whole disk, where the queue is; the same as `own` for whole disks.
    disk: PathBuf,
    is_partition: bool,
}

/// A partition of the device.
struct Partition {
    name: String,
    number: String,
    folder: PathBuf,
}

impl Sysfs {
    fn of(device: u64) -> Self {
        let number = format!("{}:{}", major(device), minor(device));
        let link = Path::new("/sys/dev/block").join(&number);
        let own = link.canonicalize().unwrap_or(link);
        let is_partition = own.join("partition").exists();
        let whole = own.parent().filter(|_| is_partition);
        let disk = whole.map_or_else(|| own.clone(), Path::to_owned);
        Self { number, own, disk, is_partition }
    }

    fn partitions(&self) -> Vec<Partition> {
        let Ok(entries) = std::fs::read_dir(&self.own) else { return Vec::new() };
        let mut found: Vec<Partition> = entries
            .flatten()
            .filter(|entry| entry.path().join("partition").exists())
            .map(|entry| Partition {
                name: entry.file_name().to_string_lossy().into_owned(),
                number: read_trimmed(entry.path().join("dev")),
                folder: entry.path(),
            })
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    fn model(&self) -> String {
        let parts = ["device/vendor", "device/model", "device/rev", "device/firmware_rev"];
        let known = parts.map(|part| read_trimmed(self.disk.join(part)));
        // virtio disks have a number for a vendor.
        let words: Vec<_> = known.iter().filter(|word| !word.is_empty() && !word.starts_with("0x")).collect();
        words.into_iter().cloned().collect::<Vec<_>>().join(" ")
    }

    /// The disk that a file lies on, for who reads a report: its model where that is known, its name and its
    /// size. Empty where the file system has no device of its own (btrfs, overlays, network).
    fn disk_in_words(&self) -> String {
        let Ok(sectors) = read_trimmed(self.disk.join("size")).parse::<u64>() else { return String::new() };
        let (model, name) = (self.model(), name_of(&self.disk));
        let model = if model.is_empty() { String::new() } else { format!("{model} ") };
        format!("{model}{name}, {}", fsage_model::number::whole_bytes(sectors.saturating_mul(SECTOR)))
    }

    /// Of this device itself: that of a disk says nothing about which of its partitions this is. Names of
    /// mappings and arrays come from their metadata and stand for one.
    fn serial(&self) -> String {
        if self.is_partition {
            return String::new();
        }
        let files = ["device/serial", "serial", "device/wwid", "dm/uuid", "md/uuid"];
        let own = files.iter().map(|name| read_trimmed(self.own.join(name))).find(|text| !text.is_empty());
        own.or_else(|| self.udev("ID_SERIAL_SHORT")).unwrap_or_default()
    }

    /// By the kernel's word (since Linux 6.10), by udev's, or as the disk's partition table has it.
    fn part_uuid(&self) -> String {
        if !self.is_partition {
            return String::new();
        }
        let event = read_trimmed(self.own.join("uevent"));
        let known = event.lines().find_map(|line| line.strip_prefix("PARTUUID=")).map(str::to_owned);
        let known = known.or_else(|| self.udev("ID_PART_ENTRY_UUID"));
        known.or_else(|| partition::uuid(&self.own)).unwrap_or_default()
    }

    /// What udev's database says of it.
    fn udev(&self, property: &str) -> Option<String> {
        let database = std::fs::read_to_string(format!("/run/udev/data/b{}", self.number)).ok()?;
        let line =
            |line: &str| Some(line.strip_prefix("E:")?.strip_prefix(property)?.strip_prefix('=')?.to_owned());
        database.lines().find_map(line)
    }
}

/// Serial number of the disk that a block device (its number) is, or is a partition of; empty when unknown.
pub(crate) fn disk_serial(device: u64) -> String {
    let Sysfs { disk, .. } = Sysfs::of(device);
    let number = read_trimmed(disk.join("dev"));
    Sysfs { number, own: disk.clone(), disk, is_partition: false }.serial()
}

/// Mount points of the device and its partitions: by number, and by name for file systems that have
/// numbers of their own (btrfs).
fn mounted_at(path: &Path, sysfs: &Sysfs, parts: &[Partition]) -> Vec<PathBuf> {
    let paths = all_paths(path, parts);
    let is_ours = |entry: &mount::MountEntry| {
        entry.device_number == sysfs.number
            || parts.iter().any(|part| part.number == entry.device_number)
            || entry.source.canonicalize().is_ok_and(|source| paths.contains(&source))
    };
    mount::table().into_iter().filter(is_ours).map(|entry| entry.point).collect()
}

fn all_paths(path: &Path, parts: &[Partition]) -> Vec<PathBuf> {
    let partitions = parts.iter().map(|part| Path::new("/dev").join(&part.name));
    std::iter::once(path.to_owned()).chain(partitions).collect()
}

fn is_swap(path: &Path, parts: &[Partition]) -> bool {
    let paths = all_paths(path, parts);
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_ascii_whitespace().next())
        .any(|swap| Path::new(swap).canonicalize().is_ok_and(|swap| paths.contains(&swap)))
}

/// Devices stacked on it or on a partition of it.
fn holders(sysfs: &Sysfs, parts: &[Partition]) -> Vec<String> {
    let folders = std::iter::once(&sysfs.own).chain(parts.iter().map(|part| &part.folder));
    let entries = folders.filter_map(|folder| std::fs::read_dir(folder.join("holders")).ok()).flatten();
    let mut found: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_refused() {
        assert!(matches!(facts(Path::new("/dev/null")), Err(HostError::Senseless { .. })));
        assert!(matches!(facts(Path::new("/dev/no-such")), Err(HostError::File { .. })));
    }
}
