//! Which blocks of a volume are in use, by the word of the file system on it.
//!
//! Everything counts as used that is not known to be free: the map begins full, and free stretches are taken
//! out where they cover whole units. ext2/3/4 and xfs tell their free space by `FS_IOC_GETFSMAP`, btrfs by
//! its trees. Of any other file system nothing is known. The file system must not change meanwhile: mounted
//! read-only from a device that cannot be written, or frozen.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use fsage_model::image::BLOCK_BYTES;
use fsage_model::quantity::share;
use fsage_sys::{Error, btrfs, fsmap};
use rustix::fs::{fstat, major, minor};

use super::encode::Run;
use super::{ImageError, as_usize};
use crate::layout::has_btrfs_trees;

/// Where btrfs keeps its superblock and the copies; they may lie in what its trees call free.
const BTRFS_SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];

/// A bit for each unit of the volume: one block, and more on volumes above 2 TiB (the map takes 64 MiB at
/// most).
#[derive(Debug)]
pub(super) struct UsedMap {
    /// Blocks in a unit; a power of two.
    unit_blocks: u64,
    blocks: u64,
    /// Set: in use.
    words: Vec<u64>,
}

impl UsedMap {
    const MAX_UNITS: u64 = 64 * 1024 * 1024 * 8;

    /// Every block of the volume in use.
    pub(super) fn all(blocks: u64) -> Self {
        let mut unit_blocks = 1;
        while blocks.div_ceil(unit_blocks) > Self::MAX_UNITS {
            unit_blocks *= 2;
        }
        let words = as_usize(blocks.div_ceil(unit_blocks).div_ceil(64));
        Self { unit_blocks, blocks, words: vec![u64::MAX; words] }
    }

    fn set(&mut self, first: u64, end: u64, used: bool) {
        let mut unit = first;
        while unit < end {
            let (word, bit) = (unit / 64, unit % 64);
            let count = (end - unit).min(64 - bit);
            let mask = (u64::MAX >> (64 - count)) << bit;
            if let Some(word) = self.words.get_mut(as_usize(word)) {
                *word = if used { *word | mask } else { *word & !mask };
            }
            unit += count;
        }
    }

    /// Takes out the units that lie wholly in a free stretch of bytes.
    fn free(&mut self, start: u64, length: u64) {
        let unit_bytes = self.unit_blocks * BLOCK_BYTES;
        let units = self.blocks.div_ceil(self.unit_blocks);
        self.set(start.div_ceil(unit_bytes), (start.saturating_add(length) / unit_bytes).min(units), false);
    }

    /// Puts the unit of a byte back in.
    fn keep(&mut self, byte: u64) {
        let unit = byte / (self.unit_blocks * BLOCK_BYTES);
        if unit < self.blocks.div_ceil(self.unit_blocks) {
            self.set(unit, unit + 1, true);
        }
    }

    fn is_used(&self, block: u64) -> bool {
        let unit = block / self.unit_blocks;
        self.words.get(as_usize(unit / 64)).is_some_and(|word| word >> (unit % 64) & 1 == 1)
    }

    /// The runs of used blocks among `count` from `first` on, counted from there. `runs` is cleared.
    pub(super) fn runs(&self, first: u64, count: u64, runs: &mut Vec<Run>) {
        runs.clear();
        let count = u32::try_from(count.min(self.blocks.saturating_sub(first))).unwrap_or(u32::MAX);
        let mut open = None;
        for block in 0..=count {
            let used = block < count && self.is_used(first + u64::from(block));
            match (open, used) {
                (None, true) => open = Some(block),
                (Some(start), false) => {
                    runs.push((start, block - start));
                    open = None;
                }
                _ => {}
            }
        }
    }

    /// Used blocks among `count` from `first` on.
    pub(super) fn count(&self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count).min(self.blocks);
        let mut used = 0;
        let mut block = first;
        while block < end {
            let unit = block / self.unit_blocks;
            let (word, bit) = (as_usize(unit / 64), unit % 64);
            let whole = bit == 0 && block.is_multiple_of(self.unit_blocks);
            let step = 64 * self.unit_blocks;
            if whole && end - block >= step {
                let ones = self.words.get(word).map_or(0, |word| u64::from(word.count_ones()));
                used += ones * self.unit_blocks;
                block += step;
            } else {
                used += u64::from(self.is_used(block));
                block += 1;
            }
        }
        used
    }
}

/// The map of the file system mounted at `point`, which is all that is on a volume of `blocks` blocks.
///
/// # Errors
/// The kernel does not tell; or the file system lies on more than one device.
pub(super) fn of_mounted(device: &Path, point: &Path, blocks: u64) -> Result<UsedMap, ImageError> {
    let directory = File::open(point).map_err(ImageError::file("open", point))?;
    let fd = directory.as_fd();
    let mut map = UsedMap::all(blocks);
    let single = if has_btrfs_trees(fd) { from_btrfs(fd, &mut map) } else { from_getfsmap(fd, &mut map) };
    match single {
        Ok(true) => {
            map.keep(0);
            Ok(map)
        }
        Ok(false) => Err(ImageError::Point {
            device: device.to_owned(),
            point: point.to_owned(),
            what: "the file system lies on more than one device",
        }),
        Err(source) => Err(ImageError::Used { device: device.to_owned(), source }),
    }
}

/// Share in use (0..=1) of each of `cells` stretches of equal length of the volume of `bytes` bytes on which
/// `directory` is. What its file system changes meanwhile may show or not.
///
/// # Errors
/// As the map of an image: the kernel does not tell, or there are several devices.
pub(crate) fn shares(directory: &Path, bytes: u64, cells: u64) -> Result<Vec<f64>, ImageError> {
    let blocks = bytes / BLOCK_BYTES;
    let map = of_mounted(directory, directory, blocks)?;
    let edge = |cell: u64| {
        let edge = u128::from(blocks) * u128::from(cell) / u128::from(cells.max(1));
        u64::try_from(edge).unwrap_or(blocks)
    };
    Ok((0..cells)
        .map(|cell| {
            let (first, end) = (edge(cell), edge(cell + 1));
            share(map.count(first, end - first), end - first)
        })
        .collect())
}

/// Whether it all lies on one device.
fn from_btrfs(fd: BorrowedFd<'_>, map: &mut UsedMap) -> Result<bool, Error> {
    let devices = btrfs::unused(fd, |extent| map.free(extent.start, extent.length))?;
    for byte in BTRFS_SUPERBLOCKS {
        map.keep(byte);
    }
    Ok(devices == 1)
}

fn from_getfsmap(fd: BorrowedFd<'_>, map: &mut UsedMap) -> Result<bool, Error> {
    // The kernel's `new_encode_dev`: minor 0..8, major 8..20, rest of the minor 20..32.
    let own = fstat(fd).ok().map(|status| {
        let (major, minor) = (major(status.st_dev), minor(status.st_dev));
        (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
    });
    let mut single = true;
    fsmap::visit(fd, |record| {
        if Some(record.device) != own {
            single = false;
        } else if record.is_free() {
            map.free(record.physical, record.length);
        }
    })?;
    Ok(single)
}

#[cfg(test)]
mod test {
    use super::*;

    proptest::proptest! {
        #[test]
        fn only_units_wholly_free_are_left_out(
            free in proptest::collection::vec((0_u64..300 * 4096, 0_u64..100 * 4096), 0..10),
            keep in proptest::collection::vec(0_u64..320 * 4096, 0..4),
            blocks in 1_u64..300,
            window in (0_u64..300, 1_u64..300),
        ) {
            let mut map = UsedMap::all(blocks);
            let mut model = vec![true; as_usize(blocks)];
            for (start, length) in &free {
                map.free(*start, *length);
                for (block, used) in (0_u64..).zip(&mut model) {
                    if block * 4096 >= *start && (block + 1) * 4096 <= start + length {
                        *used = false;
                    }
                }
            }
            for byte in keep {
                map.keep(byte);
                if let Some(used) = model.get_mut(as_usize(byte / 4096)) {
                    *used = true;
                }
            }
            let mut runs = Vec::new();
            let (first, count) = window;
            map.runs(first, count, &mut runs);
            let end = (first + count).min(blocks);
            let mut found = vec![false; as_usize(end.saturating_sub(first))];
            for (start, length) in &runs {
                proptest::prop_assert!(*length > 0);
                found[as_usize(u64::from(*start))..as_usize(u64::from(start + length))].fill(true);
            }
            proptest::prop_assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
            let expected: Vec<bool> = model.iter().copied().take(as_usize(end)).skip(as_usize(first)).collect();
            let used = expected.iter().filter(|used| **used).count();
            proptest::prop_assert_eq!(found, expected);
            proptest::prop_assert_eq!(map.count(first, count), crate::image::as_u64(used));
        }
    }
}
