//! Garbage collection: which block is emptied next, and how fast.
//!
//! Greedy takes the block with the least current data; cost-benefit (Rosenblum and Ousterhout, *The design
//! and implementation of a log-structured file system*, ACM TOCS 10(1), 1992, section 3.6) the one with the
//! highest `(1 − u) · age / (1 + u)`, where `u` is the share of current data and the age is counted in blocks
//! filled since.
//!
//! It begins when fewer than [`LOW_BLOCKS`] blocks are erased and goes beside the host's writes: when the
//! block has `v` current units of `n`, every unit the host writes pays for `v / (n − v)` moves, so that the
//! block is empty when its room is needed. Only when a burst runs ahead of that does a write wait for a whole
//! collection.

use super::flash::{Flash, For, Task};
use super::ftl::{Ftl, State, Stream};
use super::wear;
use super::{Collection, Folding};

/// Erased blocks below which collecting begins.
pub(super) const LOW_BLOCKS: usize = 4;

/// Erased blocks that only collecting may take.
pub(super) const KEPT_BLOCKS: usize = 1;

/// Erased blocks below which an idle drive collects, from blocks of which a quarter or more is stale.
const IDLE_BLOCKS: usize = 16;

/// Emptying one block.
#[derive(Debug, Clone, Copy)]
struct Victim {
    block: u32,
    /// The next place to inspect.
    slot: u32,
    /// Steps due for each `gain` units that the host writes.
    due: u64,
    gain: u64,
    /// What the host's writes have paid, in parts of a step.
    paid: u64,
    /// The group that was read last.
    read: Option<u32>,
    /// Units of old data when it began; where in the block they lie is not known, and taken to be evenly.
    old: u32,
}

/// What collecting did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub collections: u64,
    pub moves: u64,
    pub levelling_moves: u64,
    pub folds: u64,
    pub fold_moves: u64,
}

/// Empties blocks of normal flash, and of the part with one bit a cell.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    policy: Collection,
    wear_threshold: u64,
    folding: Folding,
    normal: Option<Victim>,
    levelling: bool,
    fold: Option<Victim>,
    since_levelling: u64,
    pub tally: Tally,
}

impl Collector {
    pub(super) fn new(policy: Collection, wear_threshold: u64, folding: Folding) -> Self {
        Self {
            policy,
            wear_threshold,
            folding,
            normal: None,
            levelling: false,
            fold: None,
            since_levelling: 0,
            tally: Tally::default(),
        }
    }

    /// The host wrote one unit at `now_ns`: does what that pays for.
    pub(super) fn beside(&mut self, ftl: &mut Ftl, flash: &mut Flash, now_ns: u64) {
        if self.normal.is_none() && ftl.free.len() < LOW_BLOCKS {
            self.begin(ftl);
        }
        self.pay(ftl, flash, now_ns, false);
        if ftl.layout.slc_blocks == 0 {
            return;
        }
        if self.fold.is_none() && self.folding == Folding::Beside && ftl.slc_is_full() {
            self.fold = oldest_slc(ftl).map(|block| victim(ftl, block, 1, 1));
        }
        if ftl.free.len() > KEPT_BLOCKS {
            self.pay(ftl, flash, now_ns, true);
        }
    }

    fn pay(&mut self, ftl: &mut Ftl, flash: &mut Flash, now_ns: u64, fold: bool) {
        let Some(current) = (if fold { &mut self.fold } else { &mut self.normal }) else { return };
        current.paid += current.due;
        let steps = current.paid / current.gain;
        current.paid %= current.gain;
        for _ in 0..steps {
            if !self.step(ftl, flash, now_ns, fold) {
                break;
            }
        }
    }

    /// Empties a whole block at once, because the host cannot continue without; whether one was emptied.
    pub(super) fn now(&mut self, ftl: &mut Ftl, flash: &mut Flash, now_ns: u64) -> bool {
        if self.normal.is_none() && !self.begin(ftl) {
            return false;
        }
        while self.step(ftl, flash, now_ns, false) {}
        self.normal.is_none()
    }

    /// A slice of what an idle drive does, from `now_ns` on: it empties blocks with one bit a cell, then collects
    /// until enough blocks are erased. Whether there was anything to do.
    pub(super) fn idle(&mut self, ftl: &mut Ftl, flash: &mut Flash, now_ns: u64) -> bool {
        let units = ftl.layout.dies * ftl.layout.units_per_group;
        (0..units).take_while(|_| self.idle_step(ftl, flash, now_ns)).count() > 0
    }

    fn idle_step(&mut self, ftl: &mut Ftl, flash: &mut Flash, now_ns: u64) -> bool {
        if self.fold.is_none() {
            self.fold = oldest_slc(ftl).map(|block| victim(ftl, block, 1, 1));
        }
        if self.fold.is_some() && ftl.free.len() > KEPT_BLOCKS {
            self.step(ftl, flash, now_ns, true);
            return true;
        }
        if self.normal.is_none() {
            let is_worth_it = |block| ftl.block(block).valid <= ftl.layout.units_per_block / 4 * 3;
            let has_few = ftl.free.len() < IDLE_BLOCKS;
            if !(has_few && choose(ftl, self.policy).is_some_and(is_worth_it) && self.begin(ftl)) {
                return false;
            }
        }
        self.step(ftl, flash, now_ns, false) || self.normal.is_none()
    }

    fn begin(&mut self, ftl: &Ftl) -> bool {
        self.since_levelling += 1;
        self.levelling = false;
        if self.since_levelling >= wear::BETWEEN
            && ftl.free.len() > KEPT_BLOCKS + 1
            && let Some(block) = wear::too_still(ftl, self.wear_threshold)
        {
            self.since_levelling = 0;
            self.levelling = true;
            let valid = u64::from(ftl.block(block).valid);
            // It may hold nothing stale: never more than eight moves for a unit of the host.
            self.normal = Some(victim(ftl, block, valid + 1, (valid / 8).max(1)));
            return true;
        }
        let Some(block) = choose(ftl, self.policy) else { return false };
        let (valid, units) = (ftl.block(block).valid, ftl.layout.units_per_block);
        // One step more than there are moves: the erasure.
        self.normal = Some(victim(ftl, block, u64::from(valid) + 1, u64::from(units - valid)));
        true
    }

    /// Moves one unit, or erases the block when there is none left; whether the block still is not erased.
    fn step(&mut self, ftl: &mut Ftl, flash: &mut Flash, now_ns: u64, fold: bool) -> bool {
        let Some(mut current) = (if fold { self.fold } else { self.normal }) else { return false };
        let old = ftl.block(current.block).old;
        let next = match old {
            0 => ftl.next_valid(current.block, current.slot).map(|(slot, owner)| (slot, Some(owner))),
            _ => Some((evenly(old, current.old, ftl.layout.units_per_block), None)),
        };
        let Some((slot, owner)) = next else {
            self.finish(ftl, flash, &current, now_ns, fold);
            return false;
        };
        let stream = if self.levelling && !fold { Stream::Levelling } else { Stream::Collection };
        if !ftl.has_room(stream) {
            let Some(block) = wear::erased_for(ftl, stream) else { return false };
            ftl.open(stream, block);
        }
        let place = current.block * ftl.layout.units_per_block + slot;
        read_group(ftl, flash, &mut current, place, now_ns);
        let moved = match owner {
            Some(owner) => {
                current.slot = slot + 1;
                ftl.append(stream, owner)
            }
            None => ftl.append_old(stream, current.block),
        };
        if let Some(group) = moved {
            let bytes = u64::from(ftl.layout.units_per_group) * ftl.layout.unit_bytes;
            // Reads run ahead of programs by more than a group, so that the data is there by then.
            let task = Task::Program { group: ftl.layout.group(group.place), bytes, slc: false };
            flash.ask(ftl.layout.die(group.place), task, now_ns, For::Collection, 0);
        }
        match (fold, self.levelling) {
            (true, _) => self.tally.fold_moves += 1,
            (false, true) => self.tally.levelling_moves += 1,
            (false, false) => self.tally.moves += 1,
        }
        *(if fold { &mut self.fold } else { &mut self.normal }) = Some(current);
        true
    }

    fn finish(&mut self, ftl: &mut Ftl, flash: &mut Flash, current: &Victim, now_ns: u64, fold: bool) {
        // Behind the reads of the block, which wait in the same queues.
        for die in 0..ftl.layout.dies {
            flash.ask(die, Task::Erase, now_ns, For::Collection, 0);
        }
        ftl.erased(current.block);
        if fold {
            self.tally.folds += 1;
            self.fold = None;
        } else {
            self.tally.collections += 1;
            self.normal = None;
        }
    }
}

fn victim(ftl: &Ftl, block: u32, due: u64, gain: u64) -> Victim {
    Victim { block, slot: 0, due, gain, paid: 0, read: None, old: ftl.block(block).old }
}

/// The slot of a unit of old data, when so many are `left` of `all`.
fn evenly(left: u32, all: u32, slots: u32) -> u32 {
    let slot = u64::from(all.saturating_sub(left)) * u64::from(slots) / u64::from(all.max(1));
    u32::try_from(slot).unwrap_or(0)
}

/// Reads the group of a place unless it was the last.
fn read_group(ftl: &Ftl, flash: &mut Flash, current: &mut Victim, place: u32, now_ns: u64) {
    let group = ftl.layout.group(place);
    if current.read.replace(group) != Some(group) {
        let bytes = u64::from(ftl.layout.units_per_group) * ftl.layout.unit_bytes;
        flash.ask(ftl.layout.die(place), Task::Read { group, bytes }, now_ns, For::Collection, 0);
    }
}

/// The block that is emptied next.
fn choose(ftl: &Ftl, policy: Collection) -> Option<u32> {
    let closed = (0..ftl.layout.blocks)
        .map(|b| (b, ftl.block(b)))
        .filter(|(_, b)| b.state == State::Closed && b.valid < ftl.layout.units_per_block);
    match policy {
        Collection::Greedy => {
            closed.min_by_key(|(number, b)| (b.valid, b.closed_at, *number)).map(|(number, _)| number)
        }
        Collection::CostBenefit => {
            let units = u64::from(ftl.layout.units_per_block);
            let benefit = |valid: u32, closed_at: u64| {
                let age = u128::from(ftl.filled - closed_at + 1);
                u128::from(units - u64::from(valid)) * age * 1_000_000 / u128::from(units + u64::from(valid))
            };
            closed
                .max_by_key(|(number, b)| (benefit(b.valid, b.closed_at), std::cmp::Reverse(*number)))
                .map(|(number, _)| number)
        }
    }
}

/// The part with one bit a cell is emptied in the order it was filled.
fn oldest_slc(ftl: &Ftl) -> Option<u32> {
    (ftl.layout.blocks..ftl.layout.blocks + ftl.layout.slc_blocks)
        .filter(|b| ftl.block(*b).state == State::Closed)
        .min_by_key(|b| ftl.block(*b).closed_at)
}
