//! The geometry of a flash device: reads at the boundaries of its pages and allocation units, and what the kernel says.
//!
//! The boundary test is that of flashbench (A. Bergmann, *Optimizing Linux with cheap flash drives*, LWN, February
//! 2011): two reads of one block each that end at a boundary, cross it, or start at it. If pages or units end
//! there, crossing costs more. Here every boundary is read once in a round, at a random place, and the order of all its reads is
//! random.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::size::Bytes;

/// Fewest triples of an alignment from which an answer is given.
pub const LEAST_TRIPLES: u32 = 30;

/// Most triples of an alignment.
pub const MOST_TRIPLES: u32 = 10_000;

/// Smallest and largest block that is read.
pub const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;

/// What is read to find boundaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundarySpec {
    /// Bytes of each of the two reads; a power of two and a multiple of the device's sector.
    pub block_bytes: u32,
    /// Alignments in bytes, powers of two, each at least twice the block.
    pub align_bytes: Vec<u64>,
    /// Boundaries of each alignment.
    pub triples: u32,
    /// Random seed of places and order.
    pub seed: u64,
}

/// Why a boundary test is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The block is no such block.
    #[error(
        "blocks of {block_bytes} bytes cannot be read from a device with sectors of {sector_bytes} bytes"
    )]
    Block {
        /// What was asked for.
        block_bytes: u32,
        /// The device's.
        sector_bytes: u32,
    },
    /// Too few alignments have enough boundaries.
    #[error("{} has too few boundaries: {triples} of at least 4 alignments are needed", Bytes(*.size_bytes))]
    Small {
        /// The device's size.
        size_bytes: u64,
        /// Boundaries per alignment.
        triples: u32,
    },
    /// Too few or too many triples.
    #[error("{triples} boundaries per alignment are not between {LEAST_TRIPLES} and {MOST_TRIPLES}")]
    Triples {
        /// What was asked for.
        triples: u32,
    },
}

impl GeometryError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Block { sector_bytes, .. } => format!(
                "give a power of two from {sector_bytes} to {} bytes with `--block-size`",
                BLOCK_BYTES.end()
            ),
            Self::Small { .. } => "probe a larger device, or ask for fewer with `--triples`".to_owned(),
            Self::Triples { .. } => {
                format!("give a number from {LEAST_TRIPLES} to {MOST_TRIPLES} with `--triples`")
            }
        }
    }
}

impl BoundarySpec {
    /// Every power of two from twice the block up of which a device of `size_bytes` has enough boundaries. Without
    /// `block_bytes` two sectors, which finds pages of four sectors and more.
    ///
    /// # Errors
    /// A block that the device cannot read, or too small a device.
    pub fn new(
        size_bytes: u64,
        sector_bytes: u32,
        block_bytes: Option<u32>,
        triples: u32,
        seed: u64,
    ) -> Result<Self, GeometryError> {
        let block = block_bytes.unwrap_or_else(|| sector_bytes.saturating_mul(2));
        let whole = sector_bytes > 0 && block.is_multiple_of(sector_bytes) && block.is_power_of_two();
        if !whole || !BLOCK_BYTES.contains(&block) {
            return Err(GeometryError::Block { block_bytes: block, sector_bytes });
        }
        if !(LEAST_TRIPLES..=MOST_TRIPLES).contains(&triples) {
            return Err(GeometryError::Triples { triples });
        }
        // Every other multiple is a boundary of no higher power; one more, as the first and the last may not fit.
        let enough = |align: &u64| size_bytes / align / 2 > u64::from(triples);
        let smallest = 2 * u64::from(block);
        let align_bytes: Vec<u64> = (0..40).map(|power| smallest << power).take_while(enough).collect();
        if align_bytes.len() < 4 {
            return Err(GeometryError::Small { size_bytes, triples });
        }
        Ok(Self { block_bytes: block, align_bytes, triples, seed })
    }
}

/// Times of two reads each around one boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triple {
    /// Both end before it.
    pub before_ns: u64,
    /// One on each side.
    pub across_ns: u64,
    /// Both start behind it.
    pub after_ns: u64,
}

/// The boundaries of one alignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// The power of two; the boundaries are odd multiples of it.
    pub align_bytes: u64,
    /// In the order of their places.
    pub triples: Vec<Triple>,
}

/// What the boundary test measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryTimes {
    /// Smallest alignment first.
    pub alignments: Vec<Alignment>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Wall time.
    pub elapsed_ns: u64,
}

impl BoundaryTimes {
    /// Adds other boundaries of the same device.
    pub fn add(&mut self, more: Self) {
        for alignment in more.alignments {
            match self.alignments.iter_mut().find(|known| known.align_bytes == alignment.align_bytes) {
                Some(known) => known.triples.extend(alignment.triples),
                None => self.alignments.push(alignment),
            }
        }
        self.read_bytes = self.read_bytes.saturating_add(more.read_bytes);
        self.elapsed_ns = self.elapsed_ns.saturating_add(more.elapsed_ns);
    }
}

/// What the kernel says of a device's geometry, in bytes; 0 or absent where it says nothing. Sources: sysfs `queue/`
/// (Documentation/ABI/stable/sysfs-block) and, of MMC and SD cards, `device/` (Documentation/driver-api/mmc).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceHints {
    /// Size.
    pub size_bytes: u64,
    /// Logical sector.
    pub sector_bytes: u32,
    /// Physical sector.
    pub physical_sector_bytes: u64,
    /// Where a partition begins on its disk; 0 of a whole device.
    pub start_bytes: u64,
    /// `queue/minimum_io_size`.
    pub minimum_io_bytes: u64,
    /// `queue/optimal_io_size`.
    pub optimal_io_bytes: u64,
    /// `queue/discard_granularity`.
    pub discard_granularity_bytes: u64,
    /// `queue/rotational`.
    pub rotational: bool,
    /// `device/erase_size`: the smallest unit that the card erases at once.
    pub erase_bytes: Option<u64>,
    /// `device/preferred_erase_size`: the allocation unit, by the card's own word.
    pub preferred_erase_bytes: Option<u64>,
    /// `device/type` of MMC and SD cards: `SD` or `MMC`.
    pub card: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_have_enough_boundaries() {
        let spec = BoundarySpec::new(4 << 30, 512, None, 128, 7).unwrap();
        assert_eq!(spec.block_bytes, 1024);
        assert_eq!((spec.align_bytes[0], *spec.align_bytes.last().unwrap()), (2048, 8 << 20));
        assert!(spec.align_bytes.iter().all(|align| (4_u64 << 30) / align / 2 > 128));
        let coarse = BoundarySpec::new(1 << 40, 4096, None, 30, 7).unwrap();
        assert_eq!((coarse.block_bytes, coarse.align_bytes[0]), (8192, 16384));
    }

    #[test]
    fn boundaries_of_a_further_round_come_to_those_of_the_same_alignment() {
        let times = |aligns: &[u64]| BoundaryTimes {
            alignments: aligns
                .iter()
                .map(|&align_bytes| {
                    let triple = Triple { before_ns: 1, across_ns: align_bytes, after_ns: 1 };
                    Alignment { align_bytes, triples: vec![triple; 30] }
                })
                .collect(),
            read_bytes: 10,
            elapsed_ns: 7,
        };
        let mut all = times(&[2048, 4096, 8192]);
        all.add(times(&[2048, 4096]));
        let counts: Vec<usize> = all.alignments.iter().map(|one| one.triples.len()).collect();
        assert_eq!((counts, all.read_bytes, all.elapsed_ns), (vec![60, 60, 30], 20, 14));
        assert!(all.alignments[1].triples.iter().all(|triple| triple.across_ns == 4096));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_next_step() {
        for (size, sector, block, triples, said) in [
            (
                4 << 30,
                4096,
                Some(1024),
                128,
                "blocks of 1024 bytes cannot be read from a device with sectors of 4096",
            ),
            (4 << 30, 512, Some(1536), 128, "blocks of 1536 bytes"),
            (4 << 30, 512, Some(2 << 20), 128, "blocks of 2097152 bytes"),
            (4 << 30, 0, None, 128, "blocks of 0 bytes"),
            (1 << 20, 512, None, 128, "1MiB has too few boundaries: 128 of at least 4 alignments"),
            (4 << 30, 512, None, 29, "29 boundaries per alignment are not between 30 and 10000"),
        ] {
            let error = BoundarySpec::new(size, sector, block, triples, 7).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.hint().contains("`--"), "{}", error.hint());
        }
    }
}
