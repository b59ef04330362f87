//! Pages that were not used lately, compressed.
//!
//! A group is compressed in units of four pages (zstd, level 1): that gives most of what larger units would, and one page is read by
//! unpacking 16 KiB. File systems' metadata shrinks to a fifth (ext4: journal, inode tables, directories). A group whose first units do
//! not shrink is given up at once.

use std::fmt;

use fsage_sys::memory::HUGE_BYTES;
use zstd::bulk::{Compressor, Decompressor};

use super::code::BLOCK_BYTES;
use super::error::StoreError;

/// Bytes that are compressed together.
const UNIT_BYTES: usize = 4 * BLOCK_BYTES;

const UNITS: usize = HUGE_BYTES / UNIT_BYTES;

/// Level of compression: the fastest that finds what metadata has to give.
const LEVEL: i32 = 1;

/// Packing is worth it where at most three quarters are left.
const WORTH: (usize, usize) = (3, 4);

/// Units looked at before a group is given up.
const SAMPLE_UNITS: usize = 2;

/// A group, compressed.
pub(crate) struct Packed {
    bytes: Box<[u8]>,
    /// Where each unit ends.
    ends: [u32; UNITS],
}

impl Packed {
    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }

    fn unit(&self, number: usize) -> &[u8] {
        let place = |end: u32| usize::try_from(end).unwrap_or(usize::MAX);
        let from = number.checked_sub(1).map_or(0, |before| place(self.ends[before]));
        &self.bytes[from..place(self.ends[number])]
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Compresses and decompresses; its memory is taken once.
pub(crate) struct Packer {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// A group at the most, where it shrinks.
    packed: Vec<u8>,
    unit: Box<[u8; UNIT_BYTES]>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    pub fn new() -> Result<Self, StoreError> {
        Ok(Self {
            compressor: Compressor::new(LEVEL).map_err(StoreError::Pack)?,
            decompressor: Decompressor::new().map_err(StoreError::Pack)?,
            packed: Vec::new(),
            unit: Box::new([0; UNIT_BYTES]),
        })
    }

    /// Compresses a group; `None` if that is not worth it.
    pub fn pack(&mut self, group: &[u8]) -> Option<Packed> {
        let room = |units: usize| units * UNIT_BYTES * WORTH.0 / WORTH.1;
        let bound = zstd::zstd_safe::compress_bound(UNIT_BYTES);
        self.packed.resize(room(UNITS) + bound, 0);
        let (mut ends, mut at) = ([0; UNITS], 0);
        for (number, unit) in group.chunks(UNIT_BYTES).enumerate() {
            at += self.compressor.compress_to_buffer(unit, &mut self.packed[at..]).ok()?;
            ends[number] = u32::try_from(at).ok()?;
            let units = if number < SAMPLE_UNITS { number + 1 } else { UNITS };
            if at > room(units) {
                return None;
            }
        }
        Some(Packed { bytes: self.packed[..at].into(), ends })
    }

    /// Copies bytes of a group from byte `at` on.
    pub fn read(&mut self, packed: &Packed, at: usize, buffer: &mut [u8]) -> Result<(), StoreError> {
        let (mut at, mut rest) = (at, buffer);
        while !rest.is_empty() {
            let (unit, within) = (at / UNIT_BYTES, at % UNIT_BYTES);
            let (now, later) = rest.split_at_mut(rest.len().min(UNIT_BYTES - within));
            let target = if now.len() == UNIT_BYTES { &mut *now } else { &mut self.unit[..] };
            let length = self.decompressor.decompress_to_buffer(packed.unit(unit), target);
            if length.map_err(StoreError::Pack)? != UNIT_BYTES {
                return Err(StoreError::Pack(std::io::ErrorKind::UnexpectedEof.into()));
            }
            if now.len() < UNIT_BYTES {
                now.copy_from_slice(&self.unit[within..within + now.len()]);
            }
            at += now.len();
            rest = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn what_shrinks_comes_back_and_the_rest_is_left() {
        let mut packer = Packer::new().unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut group = vec![0; HUGE_BYTES];
        // A third of each page is noise.
        for page in group.chunks_mut(BLOCK_BYTES) {
            random.fill_bytes(&mut page[100..1400]);
        }
        let packed = packer.pack(&group).unwrap();
        assert!(packed.memory_bytes() < HUGE_BYTES / 2);
        for (at, length) in [(0, HUGE_BYTES), (4096, 4096), (16_000, 70_000), (HUGE_BYTES - 1, 1), (16_384, 16_384)] {
            let mut again = vec![1; length];
            packer.read(&packed, at, &mut again).unwrap();
            assert!(again == group[at..at + length], "{at} {length}");
        }
        random.fill_bytes(&mut group);
        assert!(packer.pack(&group).is_none());
        // A beginning that shrinks does not help.
        group[..UNIT_BYTES * 2].fill(0);
        assert!(packer.pack(&group).is_none());
    }
}
