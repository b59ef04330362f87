//! Wear levelling: dynamic by the choice of the erased block, static by moving data that lies still.
//!
//! Dynamic: the host's data goes to the least worn erased block, collected data, which has outlived other
//! data, to the most worn. That levels only what is rewritten. Static (Chang, Hsieh, Kuo, DAC 2007, in its
//! simplest form): when the most worn block is more than a threshold ahead of the least worn that holds data,
//! the least worn is collected next although it may hold nothing stale, into a block of its own; at most
//! every eighth collection, so that it never costs more than that.

use super::ftl::{Block, Ftl, State, Stream};
use crate::media::number::{as_f64, count, share};

/// Collections between two that only level wear.
pub(super) const BETWEEN: u64 = 8;

/// The erased block for a stream.
pub(super) fn erased_for(ftl: &Ftl, stream: Stream) -> Option<u32> {
    match stream {
        Stream::Host => ftl.free.first(),
        Stream::Slc => ftl.free_slc.first(),
        Stream::Collection | Stream::Levelling => ftl.free.last(),
    }
    .map(|(_, block)| *block)
}

/// The block whose data lies too still, if the wear differs by more than the threshold; 0 switches it off.
pub(super) fn too_still(ftl: &Ftl, threshold: u64) -> Option<u32> {
    if threshold == 0 {
        return None;
    }
    let normal = || (0..ftl.layout.blocks).map(|b| (b, ftl.block(b)));
    let most = normal().map(|(_, b)| b.erases).max()?;
    let (block, least) = normal()
        .filter(|(_, b)| b.state == State::Closed)
        .min_by_key(|(number, b)| (b.erases, *number))
        .map(|(number, b)| (number, b.erases))?;
    (u64::from(most - least) > threshold).then_some(block)
}

/// How often blocks were erased.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub total: u64,
    pub least: u64,
    pub most: u64,
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// Over all blocks of normal flash.
pub(super) fn spread(blocks: &[Block]) -> Spread {
    let erases = || blocks.iter().map(|b| u64::from(b.erases));
    let total: u64 = erases().sum();
    let mean = share(total, count(blocks.len()));
    let squares: f64 = erases().map(|e| (as_f64(e) - mean) * (as_f64(e) - mean)).sum();
    Spread {
        total,
        least: erases().min().unwrap_or(0),
        most: erases().max().unwrap_or(0),
        mean,
        deviation: (squares / as_f64(count(blocks.len())).max(1.0)).sqrt(),
    }
}
