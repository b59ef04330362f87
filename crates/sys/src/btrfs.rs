//! Free space of a mounted btrfs, from its own trees.
//!
//! **What counts as free**: what file data could take. That is the space in data (and mixed) block groups
//! that no extent uses, and the space of the devices that belongs to no block group yet. It is what `statfs`
//! calls available (`f_bavail`), to within 1 MiB a device that btrfs keeps for itself and the space it
//! promises to data that is not written out yet. Free space inside metadata and system block groups is not
//! data's to take; its sum is distinguished ([`Summary::metadata_free_bytes`]), and with it (each copy
//! counted) and the global reserve the sum comes to `f_bfree`.
//!
//! Where the kernel keeps a valid free-space tree it is read; otherwise each block group is what remains
//! beside the extent tree's extents. Addresses are mapped through the chunk tree to the device. A free range
//! is given once, however many copies its profile keeps, and as one range even where striping spreads it over
//! devices: the place is that of its first byte (on RAID5/6 without regard to the rotation of parity). Copies
//! of the superblock (64 KiB at 64 MiB and 256 GiB) count as free.
//!
//! What is not committed yet does not show: call [`crate::syncfs`] before for exact figures. Needs
//! `CAP_SYS_ADMIN`.

mod chunk;
mod device;
mod search;

use std::os::fd::BorrowedFd;

use crate::ioctl::Request;
use crate::{Error, Result};
pub use chunk::{Chunk, Stripe};
pub use device::{device, forget};
pub use search::{Item, decode};
use search::{Key, Search};

/// One stretch of free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeExtent {
    /// btrfs' number of the device, from 1.
    pub device: u64,
    /// Byte offset on it.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

/// Which tree says what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The free-space tree.
    FreeSpaceTree,
    /// What the extent tree leaves.
    ExtentTree,
}

/// What is known beside the free extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Which tree was read.
    pub source: Source,
    /// Bytes on all devices that belong to no block group.
    pub unallocated_bytes: u64,
    /// Free bytes inside data (and mixed) block groups.
    pub data_free_bytes: u64,
    /// Free bytes inside metadata and system block groups, one copy counted. Not among the free extents.
    pub metadata_free_bytes: u64,
    /// Copies kept of data: a byte of unallocated space holds only 1/`data_copies` of a byte. 1 for parity
    /// profiles.
    pub data_copies: u64,
}

#[repr(C)]
struct FeatureFlags {
    compat: u64,
    compat_ro: u64,
    incompat: u64,
}

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C)]
struct FsInfo {
    max_id: u64,
    num_devices: u64,
    fsid: [u8; 16],
    nodesize: u32,
    sectorsize: u32,
    rest: [u8; 984],
}

const BTRFS_IOC_GET_FEATURES: Request<FeatureFlags> = Request::read("BTRFS_IOC_GET_FEATURES", 0x94, 57);
const BTRFS_IOC_WAIT_SYNC: Request<u64> = Request::write("BTRFS_IOC_WAIT_SYNC", 0x94, 22);
const BTRFS_IOC_START_SYNC: Request<u64> = Request::read("BTRFS_IOC_START_SYNC", 0x94, 24);
const BTRFS_IOC_FS_INFO: Request<FsInfo> = Request::read("BTRFS_IOC_FS_INFO", 0x94, 31);

const EXTENT_TREE: u64 = 2;
const CHUNK_TREE: u64 = 3;
const DEVICE_TREE: u64 = 4;
const FREE_SPACE_TREE: u64 = 10;

const EXTENT_ITEM: u32 = 168;
const METADATA_ITEM: u32 = 169;
const FREE_SPACE_EXTENT: u32 = 199;
const FREE_SPACE_BITMAP: u32 = 200;
const DEVICE_EXTENT: u32 = 204;
const DEVICE_ITEM: u32 = 216;
const CHUNK_ITEM: u32 = 228;

const DEVICES: u64 = 1;
const CHUNKS: u64 = 256;
/// Start of each device that is never allocated.
const DEVICE_RESERVED: u64 = 1 << 20;

/// Calls `each` with every free extent: first those in data block groups in the order of btrfs' own
/// addresses, then unallocated space.
///
/// # Errors
/// `ENOTTY` on other file systems, `EPERM` without `CAP_SYS_ADMIN`.
pub fn free_space(fd: BorrowedFd<'_>, each: impl FnMut(FreeExtent)) -> Result<Summary> {
    let source = if has_free_space_tree(fd)? { Source::FreeSpaceTree } else { Source::ExtentTree };
    free_space_from(fd, source, each)
}

/// [`free_space`] from a tree of the caller's choice; a free-space tree that does not exist or is not valid
/// gives nonsense or `ENOENT`.
///
/// # Errors
/// As [`free_space`].
pub fn free_space_from(
    fd: BorrowedFd<'_>,
    source: Source,
    mut each: impl FnMut(FreeExtent),
) -> Result<Summary> {
    let mut search = Search::new(fd);
    let chunks = chunks(&mut search)?;
    let data = chunks.iter().filter(|chunk| chunk.is_data());
    let mut summary = Summary {
        source,
        unallocated_bytes: 0,
        data_free_bytes: 0,
        metadata_free_bytes: 0,
        data_copies: data.map(Chunk::copies).max().unwrap_or(1),
    };
    let mut ranges = Ranges { search, source, info: info(fd)? };
    for chunk in &chunks {
        let mut free_bytes = 0;
        ranges.visit(chunk, |start, length| {
            free_bytes += length;
            if chunk.is_data()
                && let Some((device, start)) = chunk.place(start)
            {
                each(FreeExtent { device, start, length });
            }
        })?;
        let sum =
            if chunk.is_data() { &mut summary.data_free_bytes } else { &mut summary.metadata_free_bytes };
        *sum += free_bytes;
    }
    unallocated(&mut ranges.search, |extent| {
        summary.unallocated_bytes += extent.length;
        each(extent);
    })?;
    Ok(summary)
}

/// Calls `each` with every stretch of the devices that holds nothing of the file system: free space of block
/// groups of every kind, each copy of it, and unallocated space. Left out, and so to be taken for used, are
/// free space of striped profiles and whatever the trees do not name. Copies of the superblock may lie in
/// what is given. Returns the number of devices.
///
/// # Errors
/// As [`free_space`].
pub fn unused(fd: BorrowedFd<'_>, mut each: impl FnMut(FreeExtent)) -> Result<u64> {
    let source = if has_free_space_tree(fd)? { Source::FreeSpaceTree } else { Source::ExtentTree };
    let mut search = Search::new(fd);
    let chunks = chunks(&mut search)?;
    let mut ranges = Ranges { search, source, info: info(fd)? };
    for chunk in &chunks {
        ranges.visit(chunk, |start, length| {
            for (device, start) in chunk.copies_of(start) {
                each(FreeExtent { device, start, length });
            }
        })?;
    }
    unallocated(&mut ranges.search, each)?;
    Ok(ranges.info.num_devices)
}

/// Starts the commit of the running transaction and does not wait for its end, as the file system's own timer
/// does; data that has no place yet stays in the page cache. Tells the number of the transaction.
///
/// # Errors
/// `ENOTTY` on other file systems, what the commit answers.
pub fn start_commit(fd: BorrowedFd<'_>) -> Result<u64> {
    let mut transaction = 0_u64;
    // SAFETY: BTRFS_IOC_START_SYNC writes exactly one number of 64 bits, which this is.
    unsafe { BTRFS_IOC_START_SYNC.call(fd, &raw mut transaction) }.map(|_| transaction)
}

/// Waits until the transaction that [`start_commit`] told is committed.
///
/// # Errors
/// As there.
pub fn wait_for_commit(fd: BorrowedFd<'_>, mut transaction: u64) -> Result<()> {
    // SAFETY: BTRFS_IOC_WAIT_SYNC reads exactly one number of 64 bits, which this is.
    unsafe { BTRFS_IOC_WAIT_SYNC.call(fd, &raw mut transaction) }.map(drop)
}

fn has_free_space_tree(fd: BorrowedFd<'_>) -> Result<bool> {
    /// Both that it exists and that no kernel without knowledge of it wrote since.
    const VALID: u64 = 1 | 2;
    let mut flags = FeatureFlags { compat: 0, compat_ro: 0, incompat: 0 };
    // SAFETY: BTRFS_IOC_GET_FEATURES writes exactly one `btrfs_ioctl_feature_flags`, which this is.
    unsafe { BTRFS_IOC_GET_FEATURES.call(fd, &raw mut flags) }?;
    Ok(flags.compat_ro & VALID == VALID)
}

fn info(fd: BorrowedFd<'_>) -> Result<FsInfo> {
    let mut info =
        FsInfo { max_id: 0, num_devices: 0, fsid: [0; 16], nodesize: 0, sectorsize: 0, rest: [0; 984] };
    // SAFETY: BTRFS_IOC_FS_INFO reads and writes exactly one `btrfs_ioctl_fs_info_args`, which this is.
    unsafe { BTRFS_IOC_FS_INFO.call(fd, &raw mut info) }?;
    Ok(info)
}

/// Every chunk: which of btrfs' own addresses lie where on the devices.
///
/// # Errors
/// The kernel refuses (it wants `CAP_SYS_ADMIN`), or answers what is invalid.
pub fn chunk_tree(fd: BorrowedFd<'_>) -> Result<Vec<Chunk>> {
    chunks(&mut Search::new(fd))
}

fn chunks(search: &mut Search<'_>) -> Result<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let last = Key { object: CHUNKS, kind: CHUNK_ITEM, offset: u64::MAX };
    search.visit(CHUNK_TREE, Key { offset: 0, ..last }, last, |item| {
        if item.kind == CHUNK_ITEM {
            chunks.push(Chunk::decode(item.offset, item.body).ok_or(malformed("chunk"))?);
        }
        Ok(())
    })?;
    Ok(chunks)
}

/// Finds the free ranges of block groups, in btrfs' own addresses.
struct Ranges<'a> {
    search: Search<'a>,
    source: Source,
    info: FsInfo,
}

impl Ranges<'_> {
    fn visit(&mut self, chunk: &Chunk, each: impl FnMut(u64, u64)) -> Result<()> {
        let first = Key { object: chunk.logical, kind: 0, offset: 0 };
        let last = Key { object: chunk.end() - 1, kind: u32::from(u8::MAX), offset: u64::MAX };
        match self.source {
            Source::FreeSpaceTree => self.visit_free_space_tree(first, last, each),
            Source::ExtentTree => self.visit_extent_tree(chunk, first, last, each),
        }
    }

    fn visit_free_space_tree(&mut self, first: Key, last: Key, each: impl FnMut(u64, u64)) -> Result<()> {
        let mut run = Run::new(each);
        let sector_bytes = u64::from(self.info.sectorsize);
        self.search.visit(FREE_SPACE_TREE, first, last, |item| {
            match item.kind {
                FREE_SPACE_EXTENT => run.add(item.object, item.offset),
                FREE_SPACE_BITMAP => {
                    for (start, length) in bitmap_runs(item.body) {
                        run.add(item.object.saturating_add(start * sector_bytes), length * sector_bytes);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        run.end();
        Ok(())
    }

    fn visit_extent_tree(
        &mut self,
        chunk: &Chunk,
        first: Key,
        last: Key,
        mut each: impl FnMut(u64, u64),
    ) -> Result<()> {
        let node_bytes = u64::from(self.info.nodesize);
        let mut free_from = chunk.logical;
        self.search.visit(EXTENT_TREE, first, last, |item| {
            let length = match item.kind {
                EXTENT_ITEM => item.offset,
                METADATA_ITEM => node_bytes,
                _ => return Ok(()),
            };
            if item.object > free_from {
                each(free_from, item.object - free_from);
            }
            free_from = free_from.max(item.object.saturating_add(length));
            Ok(())
        })?;
        if chunk.end() > free_from {
            each(free_from, chunk.end() - free_from);
        }
        Ok(())
    }
}

/// Joins ranges that follow each other.
struct Run<F> {
    start: u64,
    length: u64,
    each: F,
}

impl<F: FnMut(u64, u64)> Run<F> {
    fn new(each: F) -> Self {
        Self { start: 0, length: 0, each }
    }

    fn add(&mut self, start: u64, length: u64) {
        if self.length > 0 && self.start.wrapping_add(self.length) == start {
            self.length += length;
        } else {
            self.end();
            (self.start, self.length) = (start, length);
        }
    }

    fn end(&mut self) {
        if self.length > 0 {
            (self.each)(self.start, self.length);
            self.length = 0;
        }
    }
}

/// Runs of set bits: first bit and number of bits. Bits count from the lowest of each byte.
pub fn bitmap_runs(bitmap: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let bit = move |index: u64| {
        let byte = usize::try_from(index / 8).ok().and_then(|byte| bitmap.get(byte));
        byte.map(|byte| byte >> (index % 8) & 1 == 1)
    };
    let mut next = 0;
    std::iter::from_fn(move || {
        while !bit(next)? {
            next += 1;
        }
        let start = next;
        while bit(next) == Some(true) {
            next += 1;
        }
        Some((start, next - start))
    })
}

/// What the device extents leave of each device.
fn unallocated(search: &mut Search<'_>, mut each: impl FnMut(FreeExtent)) -> Result<()> {
    let mut devices = Vec::new();
    let last = Key { object: DEVICES, kind: DEVICE_ITEM, offset: u64::MAX };
    search.visit(CHUNK_TREE, Key { offset: 0, ..last }, last, |item| {
        if item.kind == DEVICE_ITEM {
            devices.push((item.offset, item.le64(8).ok_or(malformed("device item"))?));
        }
        Ok(())
    })?;
    for (device, size) in devices {
        let mut free_from = DEVICE_RESERVED;
        let last = Key { object: device, kind: DEVICE_EXTENT, offset: u64::MAX };
        search.visit(DEVICE_TREE, Key { offset: 0, ..last }, last, |item| {
            if item.kind == DEVICE_EXTENT {
                let length = item.le64(24).ok_or(malformed("device extent"))?;
                if item.offset > free_from {
                    each(FreeExtent { device, start: free_from, length: item.offset - free_from });
                }
                free_from = free_from.max(item.offset.saturating_add(length));
            }
            Ok(())
        })?;
        if size > free_from {
            each(FreeExtent { device, start: free_from, length: size - free_from });
        }
    }
    Ok(())
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { call: "BTRFS_IOC_TREE_SEARCH_V2", what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bitmap_runs_are_the_set_bits(bitmap in proptest::collection::vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..40)) {
            let bits: Vec<bool> = bitmap.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect();
            let mut rebuilt = vec![false; bits.len()];
            let mut behind = None;
            for (start, length) in bitmap_runs(&bitmap) {
                prop_assert!(length > 0 && behind.is_none_or(|behind| start > behind));
                behind = Some(start + length);
                for bit in start..start + length {
                    rebuilt[usize::try_from(bit).unwrap()] = true;
                }
            }
            prop_assert_eq!(rebuilt, bits);
        }

        #[test]
        fn runs_join_what_touches(lengths in proptest::collection::vec((0_u64..3, 1_u64..5), 0..20)) {
            let mut expected: Vec<(u64, u64)> = Vec::new();
            let mut found = Vec::new();
            let mut run = Run::new(|start, length| found.push((start, length)));
            let mut at = 10;
            for (gap, length) in lengths {
                at += gap;
                run.add(at, length);
                match expected.last_mut() {
                    Some((start, sum)) if *start + *sum == at => *sum += length,
                    _ => expected.push((at, length)),
                }
                at += length;
            }
            run.end();
            prop_assert_eq!(found, expected);
        }
    }
}
