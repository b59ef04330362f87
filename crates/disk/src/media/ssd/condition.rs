//! A drive that was used before the disk is made: partly occupied, filled once, or in the steady state of
//! uniformly random writes.
//!
//! Made directly instead of by writing, and counted instead of stored: in the steady state a block whose age is
//! the share `x` of a block's life holds `e^−Lx` of its data (see [`theory`](super::theory)), so blocks are
//! given that much, oldest first. Which unit lies where is drawn when it is read, overwritten or discarded.

use fsage_model::medium::ssd::{Condition, Parameters};

use super::ftl::{Ftl, NONE};
use super::gc::LOW_BLOCKS;
use super::theory::life;
use crate::media::number::{as_f64, count, scale, to_u64};

/// Brings an unused translation into the condition of the parameters.
pub(super) fn prepare(ftl: &mut Ftl, parameters: &Parameters) {
    match parameters.condition {
        Condition::Fresh => {
            occupy(ftl, scale(u64::from(ftl.layout.units), parameters.occupied_permille, 1000));
        }
        Condition::Filled => {
            occupy(ftl, u64::from(ftl.layout.units));
            ftl.all_old(true);
        }
        Condition::Steady => {
            wear_in(ftl);
            ftl.all_old(false);
        }
    }
}

/// Fills blocks with `units`.
fn occupy(ftl: &mut Ftl, units: u64) {
    let per_block = u64::from(ftl.layout.units_per_block);
    for block in 0..units.div_ceil(per_block) {
        let old = (units - block * per_block).min(per_block);
        ftl.preload(narrow(block), narrow(old));
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(NONE)
}

fn wear_in(ftl: &mut Ftl) {
    let layout = ftl.layout;
    let (units, per_block) = (u64::from(layout.units), u64::from(layout.units_per_block));
    let blocks = u64::from(layout.blocks).saturating_sub(count(LOW_BLOCKS)).max(units.div_ceil(per_block));
    let rate = life(as_f64(blocks * per_block) / as_f64(units));
    let mut left = units;
    for block in 0..blocks {
        // The oldest block holds the least.
        let share = (-rate * (as_f64(blocks - block) - 0.5) / as_f64(blocks)).exp();
        let after = (blocks - block - 1) * per_block;
        let valid = to_u64(as_f64(per_block) * share).min(left).max(left.saturating_sub(after));
        left -= valid;
        ftl.preload(narrow(block), narrow(valid));
    }
}
