//! How much flash there is for a size, and where a unit of it lies.
//!
//! Blocks of all dies that have the same number are written, collected and erased together (a *superblock*,
//! as most drives do); its pages are filled die by die, so that consecutive data spreads over all of them. In
//! this module's neighbours "block" means such a superblock.
//!
//! The number of blocks follows the size. When fewer than [`BLOCKS`] would be left, or of a large disk, which has
//! spare enough to keep some of them open, [`LARGE_BLOCKS`], they get fewer pages (and erase in proportion), then there are fewer dies, then one plane: otherwise the few blocks
//! that are always open or free would eat the spare area. Known error: below [`BLOCKS`] × dies × planes ×
//! page size (1 GiB for 32 dies with two planes of 16 KiB) a disk has less parallelism than its preset.

use fsage_model::medium::ssd::Parameters;

use super::SsdError;
use crate::media::number::scale;

/// Blocks that a disk has at least, if its size allows.
const BLOCKS: u64 = 1024;

/// The same for a disk of [`LARGE_BYTES`] and more: those of drives that are sold have their own size.
const LARGE_BLOCKS: u64 = 512;

const LARGE_BYTES: u64 = 64 << 30;

/// Blocks beyond the capacity that the translation needs to continue: three that are open, five that are
/// free, one to collect.
pub(super) const RESERVED_BLOCKS: u64 = 9;

/// Blocks that a disk has at most: some 100 bytes of this host's memory are kept for each.
const BLOCK_LIMIT: u64 = 1 << 23;

/// Sizes of a disk, in units of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// Units that the host sees.
    pub units: u32,
    /// Units that a die programs at once: one page on every plane.
    pub units_per_group: u32,
    /// Units of a page of one plane.
    pub units_per_page: u32,
    /// Units of a block of all dies.
    pub units_per_block: u32,
    pub dies: u32,
    pub blocks: u32,
    pub slc_blocks: u32,
    /// What is left of these when the disk is full.
    pub slc_least_blocks: u32,
    pub erase_ns: u64,
}

impl Layout {
    /// Bytes that a die programs at once.
    pub(super) const fn group_bytes(&self) -> u64 {
        self.units_per_group as u64 * self.unit_bytes
    }

    /// Bytes of all blocks but those of the cache with one bit a cell.
    pub(super) const fn main_bytes(&self) -> u64 {
        self.blocks as u64 * self.units_per_block as u64 * self.unit_bytes
    }

    pub(super) fn new(parameters: &Parameters, size_bytes: u64) -> Result<Self, SsdError> {
        let unit_bytes = parameters.mapping_bytes;
        let per_page = parameters.page_bytes / unit_bytes;
        let units = size_bytes.div_ceil(unit_bytes).max(1);
        let flash = scale(units, 1000 + parameters.spare_permille, 1000);
        let least_blocks = if size_bytes < LARGE_BYTES { BLOCKS } else { LARGE_BLOCKS };
        let most = (flash / least_blocks).max(1);
        let mut per_group = per_page * parameters.planes;
        let mut dies = parameters.channels * parameters.dies_per_channel;
        let mut pages = parameters.pages_per_block;
        if dies * per_group * pages > most {
            pages = (most / (dies * per_group)).max(1);
        }
        if dies * per_group * pages > most {
            dies = (most / per_group).max(1);
        }
        if dies * per_group * pages > most {
            per_group = per_page;
        }
        let per_block = dies * per_group * pages;
        let blocks = flash.div_ceil(per_block).max(units.div_ceil(per_block) + RESERVED_BLOCKS);
        let slc_blocks = match parameters.slc_permille {
            0 => 0,
            permille => scale(units, permille, 1000).div_ceil(per_block).max(2),
        };
        let slc_least_blocks = match parameters.slc_least_permille {
            permille if permille < parameters.slc_permille => {
                scale(units, permille, 1000).div_ceil(per_block).max(2).min(slc_blocks)
            }
            _ => slc_blocks,
        };
        let total = (blocks + slc_blocks).saturating_mul(per_block);
        // The last two numbers mean "not mapped" and "mapped before".
        if total >= u64::from(u32::MAX) - 1 {
            return Err(SsdError::Units { units: total, mapping_bytes: unit_bytes });
        }
        if blocks + slc_blocks > BLOCK_LIMIT {
            return Err(SsdError::Blocks { blocks: blocks + slc_blocks, limit: BLOCK_LIMIT });
        }
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Self {
            unit_bytes,
            units: narrow(units),
            units_per_group: narrow(per_group),
            units_per_page: narrow(per_page),
            units_per_block: narrow(per_block),
            dies: narrow(dies),
            blocks: narrow(blocks),
            slc_blocks: narrow(slc_blocks),
            slc_least_blocks: narrow(slc_least_blocks),
            erase_ns: scale(parameters.erase_ns, pages, parameters.pages_per_block),
        })
    }

    /// The die that a unit of flash lies on.
    pub(super) const fn die(&self, place: u32) -> u32 {
        (place % self.units_per_block) / self.units_per_group % self.dies
    }

    /// The group of pages that is read or programmed with it.
    pub(super) const fn group(&self, place: u32) -> u32 {
        place / self.units_per_group
    }

    pub(super) const fn block(&self, place: u32) -> u32 {
        place / self.units_per_block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::ssd_parameters;

    #[test]
    fn drives_of_their_own_size_have_blocks_of_their_own_size() {
        for name in ["ssd", "ssd-consumer", "nvme-tlc", "nvme-qlc", "ufs", "sd-a2"] {
            let parameters = ssd_parameters(name);
            let layout = Layout::new(&parameters, parameters.capacity_bytes).unwrap();
            let dies = parameters.channels * parameters.dies_per_channel;
            let block = dies * parameters.planes * parameters.page_bytes * parameters.pages_per_block;
            assert_eq!(u64::from(layout.units_per_block) * layout.unit_bytes, block, "{name}");
            assert_eq!(u64::from(layout.dies), dies, "{name}");
        }
    }
}
