//! The partitions that the kernel has, by what /sys says of them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::gpt::{self, Entry, Extent};
use super::read_trimmed;

/// Unit of `start` and `size` in /sys, whatever the sectors of the disk.
const SYSFS_SECTOR: u64 = 512;

/// A partition that the kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// From 1.
    pub number: u32,
    /// Where it is on its disk.
    pub extent: Extent,
    /// `/dev/sda1`.
    pub device: PathBuf,
}

/// All of a disk, by the disk's name, in no order.
pub(super) fn of_disk(disk: &str) -> Vec<Known> {
    let Ok(entries) = std::fs::read_dir(Path::new("/sys/block").join(disk)) else { return Vec::new() };
    entries.flatten().filter_map(|entry| of_folder(&entry.path())).collect()
}

/// The partition that a folder in /sys is of.
fn of_folder(folder: &Path) -> Option<Known> {
    let number = |file: &str| read_trimmed(folder.join(file)).parse::<u64>().ok();
    let bytes = |file: &str| number(file)?.checked_mul(SYSFS_SECTOR);
    let extent = Extent { start_bytes: bytes("start")?, size_bytes: bytes("size")? };
    let device = Path::new("/dev").join(folder.file_name()?);
    Some(Known { number: u32::try_from(number("partition")?).ok()?, extent, device })
}

/// The one that an entry of a partition table is about.
pub(super) fn find<'a>(known: &'a [Known], entry: &Entry) -> Option<&'a Known> {
    known.iter().find(|known| (known.number, known.extent) == (entry.number, entry.extent))
}

/// Where the partition of a folder in /sys begins, in bytes.
pub(super) fn start_bytes(folder: &Path) -> Option<u64> {
    Some(of_folder(folder)?.extent.start_bytes)
}

/// The identifier of the partition that a folder in /sys is of, by the partition table of its disk.
pub(super) fn uuid(folder: &Path) -> Option<String> {
    let own = of_folder(folder)?;
    let disk = folder.parent()?;
    let sector_bytes = read_trimmed(disk.join("queue/logical_block_size")).parse().ok()?;
    let file = File::open(Path::new("/dev").join(disk.file_name()?)).ok()?;
    let mut head = vec![0; gpt::HEAD_BYTES];
    file.read_exact_at(&mut head, 0).ok()?;
    let entries = gpt::decode(&head, sector_bytes)?.entries;
    let same = |entry: &&Entry| (entry.number, entry.extent) == (own.number, own.extent);
    entries.iter().find(same).map(Entry::uuid)
}
