//! The translation from the host's units to places on flash, and the blocks.
//!
//! Page-mapped and log-structured: a write takes the next place of an open block (the *frontier* of its
//! stream) and makes the old place stale. Host data and collected data have a frontier each, so that what has
//! survived a collection does not mix with what was just written.
//!
//! Memory: 4 bytes for each unit of a 16 MiB range that was written, and 4 bytes for each place of a block
//! that was filled since the disk was made: about 8 bytes for 4 KiB written, nothing for what never was, and
//! nothing for what was there before, of which only counts are kept.

use std::collections::BTreeSet;

use super::layout::Layout;
use crate::media::number::index;

/// Not mapped; no owner.
pub(super) const NONE: u32 = u32::MAX;

/// Mapped since before the disk was made, to a place that nothing is known of but what the drive's condition
/// says ([`Ftl::old_place`]).
pub(super) const OLD: u32 = u32::MAX - 1;

/// Units of a part of the map.
const CHUNK_UNITS: u32 = 4096;

/// Blocks drawn for a unit of old data before the one that has most of it is taken.
const DRAWS: u32 = 64;

/// A number that has nothing to do with its neighbours' (the finaliser of MurmurHash3, A. Appleby).
pub(super) const fn scattered(number: u32) -> u32 {
    let number = number.wrapping_add(0x9e37_79b9);
    let number = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ (number >> 13)).wrapping_mul(0xc2b2_ae35);
    number ^ (number >> 16)
}

/// An index that is surely a `u32`.
fn at(number: u32) -> usize {
    index(u64::from(number))
}

/// The map, in parts that take memory only while their units differ.
#[derive(Debug, Clone)]
struct Map {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    /// All its units have this place, [`NONE`] or [`OLD`].
    Uniform(u32),
    Places(Box<Places>),
}

#[derive(Debug, Clone)]
struct Places {
    /// Units that are not [`NONE`].
    used: u32,
    places: Vec<u32>,
}

impl Map {
    fn get(&self, unit: u32) -> u32 {
        match self.parts.get(at(unit / CHUNK_UNITS)) {
            Some(Part::Places(part)) => part.places[at(unit % CHUNK_UNITS)],
            Some(Part::Uniform(place)) => *place,
            None => NONE,
        }
    }

    fn set(&mut self, unit: u32, place: u32) {
        let Some(part) = self.parts.get_mut(at(unit / CHUNK_UNITS)) else { return };
        if let Part::Uniform(all) = *part {
            if all == place {
                return;
            }
            let used = if all == NONE { 0 } else { CHUNK_UNITS };
            *part = Part::Places(Box::new(Places { used, places: vec![all; at(CHUNK_UNITS)] }));
        }
        let Part::Places(places) = part else { return };
        let entry = &mut places.places[at(unit % CHUNK_UNITS)];
        match (*entry == NONE, place == NONE) {
            (true, false) => places.used += 1,
            (false, true) => places.used -= 1,
            _ => {}
        }
        *entry = place;
        if places.used == 0 {
            *part = Part::Uniform(NONE);
        }
    }
}

/// Which writes go to the same block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// The host's, to normal flash.
    Host = 0,
    /// The host's, to the part that holds one bit a cell.
    Slc = 1,
    /// What collecting moves.
    Collection = 2,
    /// What lay still until levelling moved it: among data that comes and goes it would be moved again and
    /// again.
    Levelling = 3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Open,
    Closed,
}

/// One block of all dies.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub state: State,
    /// Places whose data is current.
    pub valid: u32,
    /// Of these, the ones whose data is from before the disk was made. Nothing else is known of them: not
    /// which units they are, nor where in the block.
    pub old: u32,
    pub erases: u32,
    /// When it was filled, counted in blocks filled.
    pub closed_at: u64,
    /// Whose data is at each place that was written.
    owners: Vec<u32>,
}

/// Where a stream writes.
#[derive(Debug, Clone, Copy)]
struct Frontier {
    block: u32,
    /// Places taken.
    taken: u32,
    /// Places that are on flash; the rest is in the buffer.
    programmed: u32,
}

/// A group of places that is to be programmed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// Its first place.
    pub place: u32,
    /// Places of it that hold something.
    pub used: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Ftl {
    pub layout: Layout,
    map: Map,
    pub blocks: Vec<Block>,
    /// Erased blocks by wear: normal flash, and the part with one bit a cell.
    pub free: BTreeSet<(u32, u32)>,
    pub free_slc: BTreeSet<(u32, u32)>,
    frontiers: [Option<Frontier>; 4],
    /// Blocks filled so far.
    pub filled: u64,
    /// Units that hold data, of other volumes too.
    pub mapped: u64,
    /// Whether old data lies in the order of its units.
    old_in_order: bool,
}

impl Ftl {
    pub(super) fn new(layout: Layout) -> Self {
        let parts = at(layout.units.div_ceil(CHUNK_UNITS));
        let block =
            Block { state: State::Free, valid: 0, old: 0, erases: 0, closed_at: 0, owners: Vec::new() };
        let total = layout.blocks + layout.slc_blocks;
        Self {
            layout,
            map: Map { parts: vec![Part::Uniform(NONE); parts] },
            blocks: vec![block; at(total)],
            free: (0..layout.blocks).map(|b| (0, b)).collect(),
            free_slc: (layout.blocks..total).map(|b| (0, b)).collect(),
            frontiers: [None; 4],
            filled: 0,
            mapped: 0,
            old_in_order: false,
        }
    }

    /// Where old data is taken to lie: in the order of its units, or anywhere.
    pub(super) fn old_place(&self, unit: u32) -> u32 {
        let places = self.layout.blocks * self.layout.units_per_block;
        if self.old_in_order {
            return unit % places;
        }
        let high = (u64::from(scattered(unit)) * u64::from(places)) >> 32;
        u32::try_from(high).unwrap_or(0)
    }

    /// Old data of a unit is not current any more: one block has less of it. Which one is drawn from the unit's
    /// number, each as likely as it has old data.
    fn release_old(&mut self, unit: u32) {
        let (blocks, per_block) = (u64::from(self.layout.blocks), u64::from(self.layout.units_per_block));
        let mut draw = unit;
        let mut found = None;
        for _ in 0..DRAWS {
            draw = scattered(draw);
            let block = u32::try_from((u64::from(draw) * blocks) >> 32).unwrap_or(0);
            draw = scattered(draw);
            if (u64::from(draw) * per_block) >> 32 < u64::from(self.block(block).old) {
                found = Some(block);
                break;
            }
        }
        let most = || (0..self.layout.blocks).max_by_key(|block| (self.block(*block).old, !*block));
        if let Some(block) = found.or_else(most) {
            let entry = &mut self.blocks[at(block)];
            entry.old = entry.old.saturating_sub(1);
            entry.valid = entry.valid.saturating_sub(1);
        }
    }

    /// Where a unit's data is, or [`NONE`].
    pub(super) fn place(&self, unit: u32) -> u32 {
        self.map.get(unit)
    }

    /// Whether any unit near it has a place, so that this part of the map is on flash.
    pub(super) fn has_map(&self, unit: u32) -> bool {
        !matches!(self.map.parts.get(at(unit / CHUNK_UNITS)), None | Some(Part::Uniform(NONE)))
    }

    /// Whether no block of the part with one bit a cell may be opened: all are in use, or those that a drive as
    /// full as this one has.
    pub(super) fn slc_is_full(&self) -> bool {
        let free = u32::try_from(self.free_slc.len()).unwrap_or(u32::MAX);
        let (all, least) = (self.layout.slc_blocks, self.layout.slc_least_blocks);
        let empty_units = u64::from(self.layout.units).saturating_sub(self.mapped);
        let lent = u64::from(all - least) * empty_units / u64::from(self.layout.units);
        free == 0 || u64::from(all - free) >= u64::from(least) + lent
    }

    pub(super) fn block(&self, block: u32) -> &Block {
        &self.blocks[at(block)]
    }

    /// Whether the place is still in the buffer.
    pub(super) fn is_buffered(&self, place: u32) -> bool {
        let (block, slot) = (self.layout.block(place), place % self.layout.units_per_block);
        self.frontiers.iter().flatten().any(|f| f.block == block && slot >= f.programmed)
    }

    /// Whether the stream has a place to write to.
    pub(super) fn has_room(&self, stream: Stream) -> bool {
        self.frontiers[stream as usize].is_some()
    }

    /// Gives the stream an erased block.
    pub(super) fn open(&mut self, stream: Stream, block: u32) {
        let entry = &mut self.blocks[at(block)];
        debug_assert_eq!(entry.state, State::Free);
        entry.state = State::Open;
        entry.owners.reserve_exact(at(self.layout.units_per_block));
        let key = (entry.erases, block);
        self.free.remove(&key);
        self.free_slc.remove(&key);
        self.frontiers[stream as usize] = Some(Frontier { block, taken: 0, programmed: 0 });
    }

    /// Writes a unit to the stream's next place; gives the group that is full with it. A unit that still is
    /// in the buffer of the same stream stays where it is.
    pub(super) fn append(&mut self, stream: Stream, unit: u32) -> Option<Group> {
        let frontier = self.frontiers[stream as usize]?;
        let old = self.map.get(unit);
        if old == OLD {
            self.release_old(unit);
        } else if old != NONE {
            let in_buffer = self.layout.block(old) == frontier.block
                && old % self.layout.units_per_block >= frontier.programmed;
            if in_buffer {
                return None;
            }
            self.blocks[at(self.layout.block(old))].valid -= 1;
        } else {
            self.mapped += 1;
        }
        self.map.set(unit, frontier.block * self.layout.units_per_block + frontier.taken);
        let block = &mut self.blocks[at(frontier.block)];
        block.owners.push(unit);
        block.valid += 1;
        self.take(stream, 1)
    }

    /// Moves one unit of old data from a block to the stream's next place; gives the group that is full with it.
    pub(super) fn append_old(&mut self, stream: Stream, from: u32) -> Option<Group> {
        let frontier = self.frontiers[stream as usize]?;
        let entry = &mut self.blocks[at(from)];
        entry.old -= 1;
        entry.valid -= 1;
        let block = &mut self.blocks[at(frontier.block)];
        block.owners.push(NONE);
        block.old += 1;
        block.valid += 1;
        self.take(stream, 1)
    }

    /// Pads the stream's unfinished group; gives it if there is one.
    pub(super) fn pad(&mut self, stream: Stream) -> Option<Group> {
        let frontier = self.frontiers[stream as usize]?;
        let used = frontier.taken - frontier.programmed;
        if used == 0 {
            return None;
        }
        let missing = self.layout.units_per_group - used;
        let block = &mut self.blocks[at(frontier.block)];
        block.owners.resize(block.owners.len() + at(missing), NONE);
        self.take(stream, missing).map(|group| Group { used, ..group })
    }

    fn take(&mut self, stream: Stream, units: u32) -> Option<Group> {
        let frontier = self.frontiers[stream as usize].as_mut()?;
        frontier.taken += units;
        if frontier.taken - frontier.programmed < self.layout.units_per_group {
            return None;
        }
        let place = frontier.block * self.layout.units_per_block + frontier.programmed;
        frontier.programmed = frontier.taken;
        if frontier.taken == self.layout.units_per_block {
            let block = &mut self.blocks[at(frontier.block)];
            block.state = State::Closed;
            self.filled += 1;
            block.closed_at = self.filled;
            self.frontiers[stream as usize] = None;
        }
        Some(Group { place, used: self.layout.units_per_group })
    }

    /// The unit's data is not needed any more.
    pub(super) fn trim(&mut self, unit: u32) -> bool {
        match self.map.get(unit) {
            NONE => return false,
            OLD => self.release_old(unit),
            old => self.blocks[at(self.layout.block(old))].valid -= 1,
        }
        self.map.set(unit, NONE);
        self.mapped -= 1;
        true
    }

    /// Trims a range; parts of the map that hold nothing cost nothing. Gives how many units held data.
    pub(super) fn trim_range(&mut self, start: u32, end: u32) -> u64 {
        let (mut unit, mut trimmed) = (start, 0);
        while unit < end {
            let next = (unit / CHUNK_UNITS + 1).saturating_mul(CHUNK_UNITS).min(end);
            if !matches!(self.map.parts.get(at(unit / CHUNK_UNITS)), None | Some(Part::Uniform(NONE))) {
                trimmed += (unit..next).map(|u| u64::from(self.trim(u))).sum::<u64>();
            }
            unit = next;
        }
        trimmed
    }

    /// From slot `from` of a block on, the first one whose data is current: slot and owner.
    pub(super) fn next_valid(&self, block: u32, from: u32) -> Option<(u32, u32)> {
        let first = block * self.layout.units_per_block;
        let owners = self.blocks[at(block)].owners.iter().enumerate().skip(at(from));
        owners.filter(|(_, owner)| **owner != NONE).find_map(|(slot, owner)| {
            let slot = u32::try_from(slot).unwrap_or(NONE);
            (self.map.get(*owner) == first + slot).then_some((slot, *owner))
        })
    }

    /// The block was erased.
    pub(super) fn erased(&mut self, block: u32) {
        let entry = &mut self.blocks[at(block)];
        debug_assert_eq!(entry.valid, 0);
        entry.state = State::Free;
        entry.erases += 1;
        entry.owners = Vec::new();
        let free = if block < self.layout.blocks { &mut self.free } else { &mut self.free_slc };
        free.insert((entry.erases, block));
    }

    /// Fills an erased block with so many units of old data.
    pub(super) fn preload(&mut self, block: u32, old: u32) {
        self.mapped += u64::from(old);
        self.filled += 1;
        let entry = &mut self.blocks[at(block)];
        self.free.remove(&(entry.erases, block));
        entry.state = State::Closed;
        (entry.valid, entry.old) = (old, old);
        entry.closed_at = self.filled;
    }

    /// Every unit is one of those that were preloaded.
    pub(super) fn all_old(&mut self, in_order: bool) {
        self.map.parts.fill(Part::Uniform(OLD));
        self.old_in_order = in_order;
    }

    /// Whether every count agrees with the map; for tests.
    #[cfg(test)]
    pub(super) fn agrees(&self) -> bool {
        let mut valid: Vec<u32> = self.blocks.iter().map(|block| block.old).collect();
        let mut mapped: u64 = valid.iter().map(|old| u64::from(*old)).sum();
        for unit in 0..self.layout.units {
            let place = self.place(unit);
            if place != NONE && place != OLD {
                let slot = at(place % self.layout.units_per_block);
                let block = at(self.layout.block(place));
                if self.blocks[block].owners.get(slot) != Some(&unit) {
                    return false;
                }
                valid[block] += 1;
                mapped += 1;
            }
        }
        mapped == self.mapped && self.blocks.iter().zip(valid).all(|(b, v)| b.valid == v)
    }
}
