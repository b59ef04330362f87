//! Damage that lies over the store: what was healed of the rules', and what single requests struck.

use std::collections::BTreeMap;
use std::ops::Range;

use super::SECTOR_BYTES;
use super::range_set::RangeSet;

/// One kind of damage.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlay {
    /// Bytes that were written since: rules of places and rates have no power there.
    healed: RangeSet,
    /// Sectors that a request struck, and which of their bits.
    struck: BTreeMap<u64, Vec<u16>>,
}

impl Overlay {
    /// Damages a bit of a sector.
    pub(super) fn strike(&mut self, sector: u64, bit: u16) {
        let bits = self.struck.entry(sector).or_default();
        if !bits.contains(&bit) {
            bits.push(bit);
        }
    }

    /// Undoes what requests struck in these bytes of one sector.
    pub(super) fn repair(&mut self, bytes: &Range<u64>) {
        let sector = bytes.start / SECTOR_BYTES;
        if let Some(bits) = self.struck.get_mut(&sector) {
            bits.retain(|bit| !bytes.contains(&(sector * SECTOR_BYTES + u64::from(bit / 8))));
            if bits.is_empty() {
                self.struck.remove(&sector);
            }
        }
    }

    /// Takes the rules' power over these bytes. Cost: logarithmic in the damage that was healed, which is all
    /// that is kept.
    pub(super) fn heal(&mut self, bytes: Range<u64>) {
        self.healed.insert(bytes);
    }

    /// Whether all of these bytes were written since.
    pub(super) fn is_healed(&self, bytes: Range<u64>) -> bool {
        self.healed.covers(&bytes)
    }

    /// The bits of a sector that requests struck.
    pub(super) fn struck(&self, sector: u64) -> impl Iterator<Item = u16> + '_ {
        self.struck.get(&sector).into_iter().flatten().copied()
    }
}
