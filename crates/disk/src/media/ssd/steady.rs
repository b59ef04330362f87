//! A drive that has been written over and over before the disk is made: the steady state of uniformly random
//! writes.
//!
//! Made directly instead of by writing: in that state a block whose age is the share `x` of a block's life
//! holds `e^−Lx` of its data (see [`theory`](super::theory)), so blocks are filled with that much, oldest
//! first, and every unit of the host lies somewhere. Costs about 8 bytes of memory for each unit of the whole
//! capacity.

use super::ftl::{Ftl, NONE};
use super::gc::LOW_BLOCKS;
use super::theory::life;
use crate::media::number::{as_f64, count, index, to_u64};

/// Fills an unused translation.
pub(super) fn fill(ftl: &mut Ftl) {
    let layout = ftl.layout;
    let (units, per_block) = (u64::from(layout.units), u64::from(layout.units_per_block));
    let blocks = u64::from(layout.blocks).saturating_sub(count(LOW_BLOCKS)).max(units.div_ceil(per_block));
    let rate = life(as_f64(blocks * per_block) / as_f64(units));
    let mut left = units;
    // Units in an order that has nothing to do with their numbers: a stride that shares no factor with the
    // count.
    let stride = stride(units);
    let mut unit = 0;
    for block in 0..blocks {
        // The oldest block holds the least.
        let share = (-rate * (as_f64(blocks - block) - 0.5) / as_f64(blocks)).exp();
        let after = (blocks - block - 1) * per_block;
        let valid = to_u64(as_f64(per_block) * share).min(left).max(left.saturating_sub(after));
        left -= valid;
        let mut owners = vec![NONE; index(per_block)];
        for (slot, owner) in (0..).zip(&mut owners) {
            // As evenly over the block as can be.
            if (slot + 1) * valid / per_block > slot * valid / per_block {
                *owner = u32::try_from(unit).unwrap_or(NONE);
                unit = (unit + stride) % units;
            }
        }
        ftl.preload(u32::try_from(block).unwrap_or(NONE), owners);
    }
}

fn stride(units: u64) -> u64 {
    let common = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // Near the golden section of the range, which spreads best.
    let golden = to_u64(as_f64(units) * 0.618_033_988_749_895).max(1);
    (golden..golden + units).find(|s| common(*s, units) == 1).unwrap_or(1)
}
