//! Which places are read, and in what order: chosen at random, so that nothing that drifts or is kept from an earlier
//! read falls on one alignment more than on another.

use std::collections::BTreeSet;

use fsage_model::geometry::BoundarySpec;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Where two blocks lie about a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// They end at it.
    Before,
    /// It is between them.
    Across,
    /// They start at it.
    After,
}

/// Two blocks that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Index of the alignment.
    pub alignment: usize,
    /// Index of the boundary.
    pub triple: usize,
    /// Where they lie.
    pub side: Side,
    /// Where the first begins on the device.
    pub offset_bytes: u64,
}

/// Every reading, in random order. `start_bytes`: where the device begins on its disk, whose boundaries are meant. An
/// alignment without enough boundaries has fewer readings; [`BoundarySpec::new`] asks for none such.
#[must_use]
pub fn plan(spec: &BoundarySpec, start_bytes: u64, size_bytes: u64) -> Vec<Reading> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
    let block = u64::from(spec.block_bytes);
    let mut readings = Vec::new();
    for (alignment, &align) in spec.align_bytes.iter().enumerate() {
        let boundaries = boundaries(align, spec, start_bytes, size_bytes, &mut random);
        for (triple, boundary) in boundaries.into_iter().enumerate() {
            for (side, back) in [(Side::Before, 2), (Side::Across, 1), (Side::After, 0)] {
                readings.push(Reading { alignment, triple, side, offset_bytes: boundary - back * block });
            }
        }
    }
    // Fisher & Yates, as Durstenfeld 1964 has it.
    for last in (1..readings.len()).rev() {
        let other = below(&mut random, last as u64 + 1);
        readings.swap(last, usize::try_from(other).unwrap_or(last));
    }
    readings
}

/// Different odd multiples of `align` on the disk, as places on the device, with two blocks on either side.
fn boundaries(
    align: u64,
    spec: &BoundarySpec,
    start_bytes: u64,
    size_bytes: u64,
    random: &mut Xoshiro256PlusPlus,
) -> BTreeSet<u64> {
    let reach = 2 * u64::from(spec.block_bytes);
    // The number n is that of the boundary align × (2n + 1).
    let number = |bytes: u64| (bytes / align).saturating_sub(1).div_ceil(2);
    let first = number((start_bytes + reach).next_multiple_of(align));
    let end = number((start_bytes + size_bytes.saturating_sub(reach)) / align * align + align);
    let mut found = BTreeSet::new();
    let count = end.saturating_sub(first);
    let wanted = u64::from(spec.triples).min(count);
    while (found.len() as u64) < wanted {
        let boundary = align * (2 * (first + below(random, count)) + 1);
        found.insert(boundary - start_bytes);
    }
    found
}

/// A number below `end`; the bias is below `end` parts in 2^64.
fn below(random: &mut Xoshiro256PlusPlus, end: u64) -> u64 {
    let wide = u128::from(random.next_u64()) * u128::from(end);
    u64::try_from(wide >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_boundary_is_one_of_its_alignment_alone_and_lies_on_the_device(
            mib in 1_u64..4096,
            start_sectors in 0_u64..10_000,
            seed: u64,
        ) {
            let (size_bytes, start_bytes) = (mib << 20, start_sectors * 512);
            if let Ok(spec) = BoundarySpec::new(size_bytes, 512, None, 30, seed) {
                let readings = plan(&spec, start_bytes, size_bytes);
                prop_assert_eq!(readings.len(), spec.align_bytes.len() * 30 * 3);
                let mut places = BTreeSet::new();
                for reading in &readings {
                    let back = match reading.side { Side::Before => 2, Side::Across => 1, Side::After => 0 };
                    let boundary = reading.offset_bytes + start_bytes + back * 1024;
                    let align = spec.align_bytes[reading.alignment];
                    prop_assert!(boundary.is_multiple_of(align) && !boundary.is_multiple_of(2 * align));
                    prop_assert!(reading.offset_bytes + 2048 <= size_bytes);
                    places.insert((reading.alignment, reading.triple, reading.offset_bytes));
                }
                prop_assert_eq!(places.len(), readings.len(), "no place is read twice");
                prop_assert_eq!(plan(&spec, start_bytes, size_bytes), readings);
            }
        }
    }

    #[test]
    fn the_order_is_random_and_another_seed_has_another() {
        let spec = BoundarySpec::new(1 << 30, 512, None, 30, 1).unwrap();
        let readings = plan(&spec, 0, 1 << 30);
        let neighbours = readings.windows(2).filter(|pair| pair[0].alignment == pair[1].alignment).count();
        assert!(neighbours < readings.len() / 4, "{neighbours} of {}", readings.len());
        let other = BoundarySpec { seed: 2, ..spec };
        assert_ne!(plan(&other, 0, 1 << 30), readings);
    }
}
