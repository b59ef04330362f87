//! Pages that were not used lately, compressed.
//!
//! A group is compressed in units of eight pages (zstd, level 1). Larger ones, and higher levels, give next
//! to nothing more: ext4's journal shrinks to 1/6.3 in units of 4 KiB, 1/7.2 of 16, 1/7.6 of 32 and 1/7.7
//! of 2048. A page is read by unpacking its unit. A group of which samples do not shrink is given up at once.

use std::fmt;

use fsage_sys::memory::HUGE_BYTES;
use zstd::bulk::{Compressor, Decompressor};

use super::code::BLOCK_BYTES;
use super::error::StoreError;

/// Bytes that are compressed together.
pub(super) const UNIT_BYTES: usize = 8 * BLOCK_BYTES;

const UNITS: usize = HUGE_BYTES / UNIT_BYTES;

/// Level of compression: the fastest that finds what metadata has to give.
const LEVEL: i32 = 1;

/// Packing is worth it where at most three quarters are left.
const WORTH: (usize, usize) = (3, 4);

/// Units that are tried before a group is packed, so that one which does not shrink costs little.
const SAMPLES: [usize; 3] = [UNITS / 2, UNITS - 1, 0];

/// A group, compressed.
pub(crate) struct Packed {
    bytes: Box<[u8]>,
    /// Where each unit ends.
    ends: Box<[u32; UNITS]>,
}

impl Packed {
    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of::<[u32; UNITS]>()
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

/// How often in a row packing was not worth it: where nothing shrinks it is tried the more rarely, once in 32
/// times in the end.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    row: u32,
    wait: u32,
}

impl Refusals {
    /// Whether it is time to try again.
    pub const fn try_again(&mut self) -> bool {
        let now = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        now
    }

    /// What became of a try.
    pub fn note(&mut self, refused: bool) {
        self.row = if refused { 5.min(self.row + 1) } else { 0 };
        self.wait = (1 << self.row) - 1;
    }
}

/// Compresses and decompresses; its memory is taken once.
pub(crate) struct Packer {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// A group at the most, where it shrinks.
    packed: Vec<u8>,
    /// The unit that was unpacked last, to read a part of it or another part of it.
    unit: Box<[u8; UNIT_BYTES]>,
    /// Which one it is: group and number.
    holds: Option<(usize, usize)>,
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
            holds: None,
        })
    }

    /// Compresses a group; `None` if that is not worth it.
    pub fn pack(&mut self, group: &[u8]) -> Option<Packed> {
        // What was unpacked may be of this group.
        self.holds = None;
        let room = |units: usize| units * UNIT_BYTES * WORTH.0 / WORTH.1;
        let bound = zstd::zstd_safe::compress_bound(UNIT_BYTES);
        self.packed.resize(room(UNITS) + bound, 0);
        let mut tried = 0;
        for number in SAMPLES {
            let unit = &group[number * UNIT_BYTES..][..UNIT_BYTES];
            tried += self.compressor.compress_to_buffer(unit, &mut self.packed[..]).ok()?;
        }
        if tried > room(SAMPLES.len()) {
            return None;
        }
        let (mut ends, mut at) = (Box::new([0; UNITS]), 0);
        for (unit, end) in group.chunks(UNIT_BYTES).zip(&mut ends[..]) {
            at += self.compressor.compress_to_buffer(unit, &mut self.packed[at..]).ok()?;
            *end = u32::try_from(at).ok()?;
            if at > room(UNITS) {
                return None;
            }
        }
        Some(Packed { bytes: self.packed[..at].into(), ends })
    }

    /// Copies bytes of a group from byte `at` on.
    pub fn read(
        &mut self,
        group: usize,
        packed: &Packed,
        at: usize,
        buffer: &mut [u8],
    ) -> Result<(), StoreError> {
        let (mut at, mut rest) = (at, buffer);
        while !rest.is_empty() {
            let (number, within) = (at / UNIT_BYTES, at % UNIT_BYTES);
            let (now, later) = rest.split_at_mut(rest.len().min(UNIT_BYTES - within));
            if now.len() == UNIT_BYTES {
                unpack(&mut self.decompressor, packed.unit(number), now)?;
            } else {
                if self.holds != Some((group, number)) {
                    self.holds = None;
                    unpack(&mut self.decompressor, packed.unit(number), &mut self.unit[..])?;
                    self.holds = Some((group, number));
                }
                now.copy_from_slice(&self.unit[within..within + now.len()]);
            }
            at += now.len();
            rest = later;
        }
        Ok(())
    }
}

fn unpack(decompressor: &mut Decompressor<'_>, packed: &[u8], unit: &mut [u8]) -> Result<(), StoreError> {
    let length = decompressor.decompress_to_buffer(packed, unit).map_err(StoreError::Pack)?;
    if length == UNIT_BYTES {
        Ok(())
    } else {
        Err(StoreError::Pack(std::io::ErrorKind::UnexpectedEof.into()))
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
        for (at, length) in
            [(0, HUGE_BYTES), (4096, 4096), (16_000, 70_000), (HUGE_BYTES - 1, 1), (16_384, 16_384)]
        {
            let mut again = vec![1; length];
            packer.read(7, &packed, at, &mut again).unwrap();
            assert!(again == group[at..at + length], "{at} {length}");
        }
        random.fill_bytes(&mut group);
        assert!(packer.pack(&group).is_none());
        // A sample that shrinks does not help.
        group[..UNIT_BYTES * 2].fill(0);
        assert!(packer.pack(&group).is_none());
        for number in SAMPLES {
            group[number * UNIT_BYTES..][..UNIT_BYTES].fill(0);
        }
        assert!(packer.pack(&group).is_none());
    }

    #[test]
    fn a_unit_that_was_read_is_not_taken_for_another() {
        let mut packer = Packer::new().unwrap();
        let group = |byte: u8| -> Vec<u8> {
            (0..HUGE_BYTES).map(|at| byte ^ u8::try_from(at / UNIT_BYTES).unwrap()).collect()
        };
        let (one, other) = (packer.pack(&group(1)).unwrap(), packer.pack(&group(2)).unwrap());
        let read = |packer: &mut Packer, number, packed, at| {
            let mut byte = [0];
            packer.read(number, packed, at, &mut byte).unwrap();
            byte[0]
        };
        assert_eq!([0, 1].map(|unit| read(&mut packer, 1, &one, unit * UNIT_BYTES)), [1, 0]);
        assert_eq!(read(&mut packer, 2, &other, UNIT_BYTES), 3);
        let again = packer.pack(&group(9)).unwrap();
        assert_eq!(read(&mut packer, 2, &again, UNIT_BYTES), 8);
    }

    #[test]
    fn where_nothing_shrinks_it_is_tried_rarely() {
        let mut refusals = Refusals::default();
        let tries = |refusals: &mut Refusals| {
            let mut try_one = || refusals.try_again().then(|| refusals.note(true)).is_some();
            (0..320).filter(|_| try_one()).count()
        };
        assert!((10..20).contains(&tries(&mut refusals)));
        assert_eq!(tries(&mut refusals), 10);
        refusals.note(false);
        assert!(refusals.try_again() && refusals.try_again());
    }
}
