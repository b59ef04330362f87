//! The free-space map of a mounted file system.
//!
//! ext2/3/4 and xfs tell it in one pass (`FS_IOC_GETFSMAP`), btrfs through its trees ([`fsage_sys::btrfs`]
//! says what counts as free there). Of anything else every file is mapped, and what no file claims counts as
//! free. Nothing is written out before: data that has no place yet counts as free, so that anyone who wants
//! the figures to agree with `statfs` syncs first. Even then they differ by what ext4's allocator has set
//! aside for files in memory (used here, free there; gone after unmounting) and by what xfs keeps for its own
//! trees (free here, used there): the caveat tells by how much.
//!
//! Free extents that touch each other are one, also across block groups (btrfs excepted: no file extent
//! crosses them there), as e2freefrag counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fsage_model::filesystem::FreeSpaceSource;
use fsage_model::layout::{FreeSpace, FreeSpaceMethod, SizeHistogram};
use fsage_model::number::{plural, whole_bytes};
use fsage_sys::fiemap::{self, Reader};
use fsage_sys::{btrfs, fsmap};
use rustix::fs::{StatVfs, fstatvfs, major, minor};
use rustix::io::Errno;

use super::walk::{OpenFile, Visitor, walk};
use super::{LayoutError, ScanOptions};
use crate::filesystem;

/// Free space of the file system that `dir` is on.
///
/// # Errors
/// When `dir` cannot be opened, the kernel refuses the map (btrfs wants root) or the file system maps no
/// file.
pub fn free_space(dir: &Path) -> Result<FreeSpace, LayoutError> {
    let open_error = |source| LayoutError::Open { path: dir.to_owned(), source };
    let directory = File::open(dir).map_err(open_error)?;
    let volume = fstatvfs(&directory).map_err(|errno| open_error(errno.into()))?;
    let map_error = |source| LayoutError::Map { path: dir.to_owned(), source };
    if has_btrfs_trees(directory.as_fd()) {
        return from_btrfs(directory.as_fd()).map_err(map_error);
    }
    match from_getfsmap(directory.as_fd(), &volume) {
        Ok(free) => Ok(free),
        Err(error) if is_unsupported(error.errno()) => from_files(dir, directory.as_fd(), &volume),
        Err(error) => Err(map_error(error)),
    }
}

/// Whether free space and addresses of files on this file system come from the trees of btrfs.
pub(crate) fn has_btrfs_trees(fd: BorrowedFd<'_>) -> bool {
    filesystem::facts(fd).is_ok_and(|facts| facts.free_space == Some(FreeSpaceSource::BtrfsTrees))
}

fn is_unsupported(errno: i32) -> bool {
    [Errno::NOTTY, Errno::OPNOTSUPP, Errno::NOSYS].iter().any(|known| known.raw_os_error() == errno)
}

fn from_getfsmap(fd: BorrowedFd<'_>, volume: &StatVfs) -> Result<FreeSpace, fsage_sys::Error> {
    let mut sizes = Sizes::new(volume.f_frsize);
    // Where the last free extent ended, and its length so far.
    let (mut device, mut end, mut length) = (0, 0, 0);
    fsmap::visit(fd, |record| {
        if !record.is_free() {
            return;
        }
        if record.physical != end || record.device != device {
            sizes.add(length);
            length = 0;
        }
        device = record.device;
        end = record.physical.saturating_add(record.length);
        length += record.length;
    })?;
    sizes.add(length);
    let free = sizes.finish(FreeSpaceMethod::Getfsmap, String::new());
    let counted_bytes = volume.f_bfree.saturating_mul(volume.f_frsize);
    let caveat = against_statfs(free.bytes, counted_bytes);
    // What is free for the trees of xfs is free, and was found.
    Ok(FreeSpace { caveat, is_estimate: free.bytes < counted_bytes, ..free })
}

/// Why map and `statfs` may differ; empty when they do not.
fn against_statfs(mapped: u64, counted: u64) -> String {
    if mapped < counted {
        let less = whole_bytes(counted - mapped);
        format!(
            "{less} less than statfs says: what the allocator has set aside in memory counts as used until unmount"
        )
    } else if mapped > counted {
        let more = whole_bytes(mapped - counted);
        format!(
            "{more} more than statfs says: kept for the file system's own trees, or promised to data not yet written"
        )
    } else {
        String::new()
    }
}

fn from_btrfs(fd: BorrowedFd<'_>) -> Result<FreeSpace, fsage_sys::Error> {
    let mut sizes = Sizes::new(4096);
    let summary = btrfs::free_space(fd, |extent| sizes.add(extent.length))?;
    let mut caveat = format!(
        "space that data can take: {} free inside metadata block groups are left out",
        whole_bytes(summary.metadata_free_bytes)
    );
    if summary.data_copies > 1 {
        caveat += &format!(
            "; data is kept {} times, so that {} unallocated hold that much less",
            summary.data_copies,
            whole_bytes(summary.unallocated_bytes)
        );
    }
    let free = sizes.finish(FreeSpaceMethod::BtrfsTree, caveat);
    Ok(FreeSpace { is_estimate: summary.data_copies > 1, ..free })
}

/// Sizes of extents, counted: memory grows with the number of different sizes (at most about √(2 × blocks of
/// the volume)), not of extents.
struct Sizes {
    block_bytes: u64,
    /// How often each size below [`Sizes::DENSE`] blocks came.
    dense: Vec<u64>,
    other: BTreeMap<u64, u64>,
}

impl Sizes {
    const DENSE: usize = 4096;

    fn new(block_bytes: u64) -> Self {
        Self { block_bytes: block_bytes.max(1), dense: vec![0; Self::DENSE], other: BTreeMap::new() }
    }

    /// Counts an extent; one of 0 bytes is none.
    fn add(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let blocks = if bytes.is_multiple_of(self.block_bytes) { bytes / self.block_bytes } else { u64::MAX };
        match usize::try_from(blocks).ok().and_then(|blocks| self.dense.get_mut(blocks)) {
            Some(count) => *count += 1,
            None => *self.other.entry(bytes).or_default() += 1,
        }
    }

    fn finish(mut self, method: FreeSpaceMethod, caveat: String) -> FreeSpace {
        for (blocks, count) in (0..).zip(&self.dense) {
            if *count > 0 {
                *self.other.entry(blocks * self.block_bytes).or_default() += count;
            }
        }
        let extents: u64 = self.other.values().sum();
        let mut histogram = SizeHistogram::default();
        let mut not_larger = 0;
        let mut median_bytes = 0;
        for (size, count) in &self.other {
            histogram.add_many(*size, *count);
            if not_larger < extents.div_ceil(2) {
                median_bytes = *size;
            }
            not_larger += count;
        }
        FreeSpace {
            method,
            caveat,
            is_estimate: false,
            extents,
            bytes: histogram.total_bytes(),
            largest_bytes: self.other.last_key_value().map_or(0, |(size, _)| *size),
            median_bytes,
            histogram,
        }
    }
}

/// The complement of all files.
fn from_files(dir: &Path, directory: BorrowedFd<'_>, volume: &StatVfs) -> Result<FreeSpace, LayoutError> {
    let root = mount_point(dir).unwrap_or_else(|| dir.to_owned());
    let counted_bytes = volume.f_blocks.saturating_mul(volume.f_frsize);
    let used = UsedMap::new(counted_bytes.max(device_bytes(directory).unwrap_or(0)), volume.f_frsize);
    let options = ScanOptions { threads: 0, one_file_system: true };
    let claims = walk(&root, &options, || Claims {
        reader: Reader::new(),
        used: &used,
        mapped: 0,
        failed: 0,
        errno: 0,
    })?;
    let mapped: u64 = claims.iter().map(|claim| claim.mapped).sum();
    let failed: u64 = claims.iter().map(|claim| claim.failed).sum();
    let refusal = claims.iter().map(|claim| claim.errno).find(|errno| is_unsupported(*errno));
    if let (0, Some(errno)) = (mapped, refusal) {
        let source = std::io::Error::from_raw_os_error(errno);
        return Err(LayoutError::Map {
            path: dir.to_owned(),
            source: fsage_sys::Error::Call { call: "FS_IOC_FIEMAP", source },
        });
    }
    let mut sizes = Sizes::new(used.unit_bytes);
    used.visit_free(|length| sizes.add(length));
    let mut caveat = "an upper estimate: what no file claims counts as free, metadata among it".to_owned();
    if failed > 0 {
        caveat += &format!(
            "; {} could not be inspected and count as free as well",
            plural(failed, "file", "files")
        );
    }
    if used.unit_bytes > volume.f_frsize {
        caveat += &format!("; in units of {}, because the volume is large", whole_bytes(used.unit_bytes));
    }
    caveat += &format!("; statfs says {}", whole_bytes(volume.f_bfree.saturating_mul(volume.f_frsize)));
    let free = sizes.finish(FreeSpaceMethod::FiemapComplement, caveat);
    Ok(FreeSpace { is_estimate: true, ..free })
}

/// Top directory of the mount that holds `dir`.
fn mount_point(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    points.filter(|point| dir.starts_with(point)).max_by_key(|point| point.as_os_str().len())
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(text: &str) -> PathBuf {
    let mut text = text.to_owned();
    for (escape, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        text = text.replace(escape, character);
    }
    PathBuf::from(text)
}

/// Size of the volume of the file system that a descriptor is on: that of the device, else what `statfs`
/// says.
pub(crate) fn volume_bytes(fd: BorrowedFd<'_>) -> u64 {
    let counted = fstatvfs(fd).map_or(0, |volume| volume.f_blocks.saturating_mul(volume.f_frsize));
    device_bytes(fd).unwrap_or(0).max(counted)
}

/// Size of the block device below, where there is one.
fn device_bytes(directory: BorrowedFd<'_>) -> Option<u64> {
    let device = rustix::fs::fstat(directory).ok()?.st_dev;
    let name = format!("/sys/dev/block/{}:{}/size", major(device), minor(device));
    let sectors: u64 = std::fs::read_to_string(name).ok()?.trim().parse().ok()?;
    sectors.checked_mul(512)
}

/// A bit for each unit of the volume. At most 64 MiB of bits: on larger volumes (2 TiB with 4 KiB blocks) the
/// unit is larger than a block.
struct UsedMap {
    unit_bytes: u64,
    units: u64,
    words: Vec<AtomicU64>,
}

impl UsedMap {
    const MAX_UNITS: u64 = 64 * 1024 * 1024 * 8;

    fn new(volume_bytes: u64, block_bytes: u64) -> Self {
        let mut unit_bytes = block_bytes.max(512);
        while volume_bytes / unit_bytes > Self::MAX_UNITS {
            unit_bytes *= 2;
        }
        let units = volume_bytes / unit_bytes;
        Self { unit_bytes, units, words: (0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Marks all units that `start..start + length` touches. What lies beyond the volume is left out.
    fn claim(&self, start: u64, length: u64) {
        let end = start.saturating_add(length).div_ceil(self.unit_bytes).min(self.units);
        let mut unit = start / self.unit_bytes;
        while unit < end {
            let (word, bit) = (unit / 64, unit % 64);
            let count = (end - unit).min(64 - bit);
            let mask = (u64::MAX >> (64 - count)) << bit;
            if let Some(word) = usize::try_from(word).ok().and_then(|word| self.words.get(word)) {
                word.fetch_or(mask, Ordering::Relaxed);
            }
            unit += count;
        }
    }

    /// Calls `each` with the length in bytes of every run of unclaimed units.
    fn visit_free(&self, mut each: impl FnMut(u64)) {
        let mut run = 0;
        let mut unit = 0;
        for word in &self.words {
            let mut bits = word.load(Ordering::Relaxed);
            let mut left = (self.units - unit).min(64);
            unit += left;
            while left > 0 {
                let free = u64::from(bits.trailing_zeros()).min(left);
                run += free;
                left -= free;
                if left == 0 {
                    break;
                }
                each(run * self.unit_bytes);
                run = 0;
                bits >>= free;
                let used = u64::from(bits.trailing_ones()).min(left);
                left -= used;
                bits = bits.checked_shr(u32::try_from(used).unwrap_or(64)).unwrap_or(0);
            }
        }
        each(run * self.unit_bytes);
    }
}

struct Claims<'a> {
    reader: Reader,
    used: &'a UsedMap,
    mapped: u64,
    failed: u64,
    errno: i32,
}

impl Visitor for Claims<'_> {
    fn directory(&mut self) {}

    fn failed(&mut self, errno: i32) {
        self.failed += 1;
        self.errno = errno;
    }

    fn file(&mut self, file: &OpenFile<'_>) {
        let visited = self.reader.visit(file.fd, |extent| {
            if extent.flags & (fiemap::UNKNOWN | fiemap::DELALLOC | fiemap::DATA_INLINE) == 0 {
                self.used.claim(extent.physical, extent.length);
            }
        });
        match visited {
            Ok(()) => self.mapped += 1,
            Err(error) => self.failed(error.errno()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_smallest_size_that_half_are_not_larger_than() {
        let mut sizes = Sizes::new(4096);
        for size in [4096, 4096, 8192, 1 << 30, 0] {
            sizes.add(size);
        }
        let free = sizes.finish(FreeSpaceMethod::Getfsmap, String::new());
        assert_eq!((free.extents, free.median_bytes, free.largest_bytes), (4, 4096, 1 << 30));
        assert_eq!(free.bytes, 16384 + (1 << 30));
        assert_eq!((free.histogram.count[12], free.histogram.count[13], free.histogram.count[30]), (2, 1, 1));
    }

    #[test]
    fn no_extents_are_a_map_of_zeros() {
        let free = Sizes::new(4096).finish(FreeSpaceMethod::Getfsmap, String::new());
        assert_eq!((free.extents, free.bytes, free.median_bytes, free.largest_bytes), (0, 0, 0, 0));
    }

    proptest::proptest! {
        #[test]
        fn unclaimed_runs_are_the_complement_of_the_claims(
            claims in proptest::collection::vec((0_u64..300, 0_u64..200), 0..20),
            units in 1_u64..300,
        ) {
            let map = UsedMap::new(units * 4096, 4096);
            let mut model = vec![false; usize::try_from(units).unwrap()];
            for (start, length) in claims {
                map.claim(start * 4096, length * 4096);
                for unit in start..(start + length).min(units) {
                    model[usize::try_from(unit).unwrap()] = true;
                }
            }
            let mut found = Vec::new();
            map.visit_free(|length| if length > 0 { found.push(length / 4096) });
            let expected: Vec<u64> = model
                .split(|used| *used)
                .filter(|run| !run.is_empty())
                .map(|run| u64::try_from(run.len()).unwrap())
                .collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
