//! Which states of drives with flash faults are tried ([`DriveBehaviour::fabricates`]).
//!
//! Every one of them has a fault, drawn for a cut that is drawn evenly; so the share of damaged states is that of
//! power cuts *with* such a fault. How often a drive has one is not modelled.
//!
//! **Assumed.** A page of the map of logical to physical pages has 1,024 entries for blocks of 4 KiB. The drive programs
//! what is written in the order of the log, in pages of [`PAGE_BYTES`], and the second page of a pair comes
//! [`PAIR_DISTANCE`] pages after the first (the order 0-2, 1-4, 3-6, 5-8, … of memory with two bits per cell; Tseng,
//! Grupp and Swanson 2011, DAC). Blocks that were written in the log have wrong bits, others do not.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::crash::{DriveBehaviour, FlashFault, FlashLoss};
use rand_core::Rng as _;

use super::{Choice, Cut, DRAWS, Images, Planner, wide};
use crate::crash::timeline::{Image, Unit, ZEROS, weight};

/// What one page of the drive's map describes.
pub const MAP_BYTES: u64 = 4 << 20;

/// A page of flash, which is programmed at once.
pub const PAGE_BYTES: u64 = 16 << 10;

/// Pages between the first and the second page of a pair.
pub const PAIR_DISTANCE: usize = 3;

/// Most pages of the map that are lost in a state.
const MOST_MAP_PAGES: usize = 4;

/// Most blocks with wrong bits, and most wrong bits in each.
const MOST_WRONG: usize = 3;

/// The writes of a log in the order in which they are programmed.
struct Programmed {
    /// Number of the change and block, one after the other.
    blocks: Vec<(usize, Unit)>,
    /// Where the blocks of each change begin; one more at the end.
    begins: Vec<usize>,
}

impl Planner<'_> {
    pub(super) fn flash(&mut self, cuts: &[Cut], images: &Images<'_>) {
        let programmed = self.programmed();
        // Not every cut destroys a page.
        let draws = self.spec.states.saturating_mul(DRAWS * 4);
        for _ in 0..draws {
            if !self.has_room(100) {
                return;
            }
            let number = self.below(cuts.len());
            let Some(cut) = cuts.get(number).copied() else { return };
            let (mut choice, flash) = match self.spec.drive {
                DriveBehaviour::PairedPages => {
                    let in_progress = Choice { lost: vec![0], ..Choice::default() };
                    (in_progress, self.destroyed(&programmed, &cut))
                }
                DriveBehaviour::BitErrors => (self.some_missing(&cut), self.wrong_bits(&cut)),
                _ => (self.some_missing(&cut), self.lost_map(&cut)),
            };
            if !flash.is_empty() {
                choice.flash = flash;
                self.consider(&cut, &choice, images);
            }
        }
    }

    /// Nothing or some of what is pending, as a drive without these faults may lose it.
    fn some_missing(&mut self, cut: &Cut) -> Choice {
        if self.below(2) == 0 { Choice::default() } else { self.missing(cut) }
    }

    fn programmed(&self) -> Programmed {
        let mut programmed = Programmed { blocks: Vec::new(), begins: Vec::new() };
        for (number, change) in self.timeline.changes.iter().enumerate() {
            programmed.begins.push(programmed.blocks.len());
            if change.written {
                programmed.blocks.extend(change.effects.iter().map(|(unit, _)| (number, *unit)));
            }
        }
        programmed.begins.push(programmed.blocks.len());
        programmed
    }

    /// What was in the first page of a pair whose second page is being programmed at the cut, as far as it was not
    /// replaced since; nothing if a first page is being programmed.
    fn destroyed(&mut self, programmed: &Programmed, cut: &Cut) -> Vec<FlashLoss> {
        let blocks_per_page = usize::try_from(PAGE_BYTES / self.timeline.unit_bytes).unwrap_or(1).max(1);
        let last = cut.end.saturating_sub(1);
        let (Some(begin), Some(end)) = (programmed.begins.get(last), programmed.begins.get(cut.end)) else {
            return Vec::new();
        };
        if begin == end {
            return Vec::new();
        }
        let block = begin + self.below(end - begin);
        let page = block / blocks_per_page;
        // Which pages are first ones is not known: that depends on what the drive wrote before.
        let is_second = self.below(2) == 0;
        let Some(first) = page.checked_sub(PAIR_DISTANCE).filter(|_| is_second) else { return Vec::new() };
        let seed = self.rng.next_u64();
        let blocks = programmed.blocks.iter().skip(first * blocks_per_page).take(blocks_per_page);
        let is_newest = |(number, unit): &&(usize, Unit)| {
            let before = self.timeline.changes.get(*number + 1..last).unwrap_or_default();
            *number < last
                && !before.iter().any(|change| change.effects.iter().any(|(other, _)| other == unit))
        };
        let units: BTreeSet<Unit> = blocks.filter(is_newest).map(|(_, unit)| *unit).collect();
        self.ranges(&units, &FlashFault::Destroyed { seed })
    }

    fn wrong_bits(&mut self, cut: &Cut) -> Vec<FlashLoss> {
        let (timeline, count) = (self.timeline, 1 + self.below(MOST_WRONG));
        let mut wrong: BTreeMap<Unit, Vec<u64>> = BTreeMap::new();
        for _ in 0..count {
            let change = self.below(cut.end);
            let Some(change) = timeline.changes.get(change).filter(|change| change.written) else { continue };
            let block = self.below(change.effects.len());
            let Some((unit, _)) = change.effects.get(block) else { continue };
            let most = usize::try_from(timeline.unit_bytes * 8).unwrap_or(usize::MAX);
            let bits: BTreeSet<u64> = (0..=self.below(MOST_WRONG)).map(|_| wide(self.below(most))).collect();
            wrong.insert(*unit, bits.into_iter().collect());
        }
        let length_bytes = timeline.unit_bytes;
        let loss = |(unit, bits): (Unit, Vec<u64>)| FlashLoss {
            offset_bytes: unit * length_bytes,
            length_bytes,
            fault: FlashFault::Flipped { bits },
        };
        wrong.into_iter().map(loss).collect()
    }

    /// Some pages of the map are as they were before some request, or gone.
    fn lost_map(&mut self, cut: &Cut) -> Vec<FlashLoss> {
        let timeline = self.timeline;
        let since = self.below(cut.end);
        let changes = timeline.changes.get(since..cut.end).unwrap_or_default();
        let Some(before) = changes.first().map(|change| change.entry) else { return Vec::new() };
        let mut pages: BTreeMap<u64, BTreeSet<Unit>> = BTreeMap::new();
        for (unit, _) in changes.iter().flat_map(|change| &change.effects) {
            pages.entry(unit * timeline.unit_bytes / MAP_BYTES).or_default().insert(*unit);
        }
        let mut pages: Vec<(u64, BTreeSet<Unit>)> = pages.into_iter().collect();
        let count = 1 + self.below(pages.len().min(MOST_MAP_PAGES));
        let are_gone = self.below(4) == 0;
        let mut losses = Vec::new();
        for _ in 0..count.min(pages.len()) {
            let at = self.below(pages.len());
            let (page, units) = pages.swap_remove(at);
            if are_gone {
                losses.push(FlashLoss {
                    offset_bytes: page * MAP_BYTES,
                    length_bytes: MAP_BYTES,
                    fault: FlashFault::Unmapped,
                });
            } else {
                losses.extend(self.ranges(&units, &FlashFault::Older { before }));
            }
        }
        losses.sort_by_key(|loss| loss.offset_bytes);
        losses
    }

    /// Neighbouring blocks as one loss each.
    fn ranges(&self, units: &BTreeSet<Unit>, fault: &FlashFault) -> Vec<FlashLoss> {
        let unit_bytes = self.timeline.unit_bytes;
        let mut ranges: Vec<FlashLoss> = Vec::new();
        for unit in units {
            let offset_bytes = unit * unit_bytes;
            match ranges.last_mut() {
                Some(last) if last.offset_bytes + last.length_bytes == offset_bytes => {
                    last.length_bytes += unit_bytes;
                }
                _ => ranges.push(FlashLoss { offset_bytes, length_bytes: unit_bytes, fault: fault.clone() }),
            }
        }
        ranges
    }

    /// Blocks of a loss and digests of what they hold then; `now`: what they hold without it. Of a range that is not
    /// mapped, blocks that the log does not touch count as one.
    pub(super) fn lost(
        &self,
        loss: &FlashLoss,
        now: impl Fn(Unit) -> u64,
        images: &Images<'_>,
    ) -> Vec<(Unit, u64)> {
        let unit_bytes = self.timeline.unit_bytes;
        let (first, end) =
            (loss.offset_bytes / unit_bytes, (loss.offset_bytes + loss.length_bytes) / unit_bytes);
        let units = first..end;
        match &loss.fault {
            FlashFault::Destroyed { seed } => units.map(|unit| (unit, weight(unit, *seed))).collect(),
            FlashFault::Flipped { bits } => {
                let mixed = |unit| bits.iter().fold(now(unit), |word, bit| weight(*bit, word));
                units.map(|unit| (unit, mixed(unit))).collect()
            }
            FlashFault::Older { before } => {
                let then = self.timeline.changes.partition_point(|change| change.entry < *before);
                let then: Image<'_> = images.at(then);
                units.map(|unit| (unit, then.get(unit))).collect()
            }
            FlashFault::Unmapped => {
                let touched = units.filter(|unit| self.timeline.base.contains_key(unit));
                let rest = (u64::MAX - first, weight(first, 1));
                touched.map(|unit| (unit, ZEROS)).chain([rest]).collect()
            }
        }
    }
}
