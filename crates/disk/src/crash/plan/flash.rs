//! Which states of drives with flash faults are tried ([`DriveBehaviour::fabricates`]).
//!
//! Nothing that was answered is missing but by the fault, so that what is damaged is damaged by the fault, as far as the
//! file system is whole after a cut without it. Every state has a fault, at a cut that is drawn evenly; how often a drive
//! has one is not modelled.
//!
//! **Assumed.** A page of the map of logical to physical pages has 1,024 entries for blocks of 4 KiB. A drive without a
//! write cache programs each request by itself, in pages of [`PAGE_BYTES`], and the second page of a pair comes
//! [`PAIR_DISTANCE`] pages after the first (the order 0-2, 1-4, 3-6, 5-8, …, one of several in use). Wrong bits are in blocks
//! whose last change is a write of the log.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::crash::{DriveBehaviour, FlashFault, FlashLoss, MAP_BYTES};

use super::{Choice, Cut, DRAWS, Images, Planner, wide};
use crate::crash::timeline::{Change, Image, Unit, ZEROS, weight};

/// A page of flash, which is programmed at once.
pub const PAGE_BYTES: u64 = 16 << 10;

/// Pages between the first and the second page of a pair.
pub const PAIR_DISTANCE: usize = 3;

/// Most pages of the map that are lost in a state.
const MOST_MAP_PAGES: usize = 4;

/// Most blocks with wrong bits, and most wrong bits in each.
const MOST_WRONG: usize = 3;

/// The pages that a log programs, in order: number of the change, and its blocks.
type Pages<'a> = Vec<(usize, &'a [(Unit, u64)])>;

impl Planner<'_> {
    pub(super) fn flash(&mut self, cuts: &[Cut], images: &Images<'_>) {
        let timeline = self.timeline;
        let pages = programmed(&timeline.changes, timeline.unit_bytes);
        let draws = self.spec.states.saturating_mul(DRAWS);
        for _ in 0..draws {
            if !self.has_room(100) {
                return;
            }
            let number = self.below(cuts.len());
            let Some(cut) = cuts.get(number).copied() else { return };
            let mut choice = Choice::default();
            choice.flash = match self.spec.drive {
                DriveBehaviour::PairedPages => {
                    // The request in progress.
                    choice.lost = vec![0];
                    self.destroyed(&pages, &cut)
                }
                DriveBehaviour::BitErrors => self.wrong_bits(&cut),
                _ => self.lost_map(&cut, images),
            };
            if !choice.flash.is_empty() {
                self.consider(&cut, &choice, images);
            }
        }
    }

    /// What was in the first page of a pair whose second page is being programmed at the cut, as far as it was not
    /// replaced since. Which of the pages are first ones depends on what the drive wrote before, so any may be.
    fn destroyed(&mut self, pages: &Pages<'_>, cut: &Cut) -> Vec<FlashLoss> {
        let last = cut.end.saturating_sub(1);
        let begin = pages.partition_point(|(number, _)| *number < last);
        let end = pages.partition_point(|(number, _)| *number <= last);
        if begin == end {
            return Vec::new();
        }
        let page = begin + self.below(end - begin);
        let first = page.checked_sub(PAIR_DISTANCE);
        let Some((number, blocks)) = first.and_then(|first| pages.get(first)) else { return Vec::new() };
        let since = self.timeline.changes.get(*number + 1..last).unwrap_or_default();
        let units: BTreeSet<Unit> = blocks
            .iter()
            .map(|(unit, _)| *unit)
            .filter(|unit| *number < last && !since.iter().any(|change| self.touches(change, *unit)))
            .collect();
        // The same page is destroyed in the same way whenever it is drawn.
        let seed = weight(wide(page), self.spec.seed);
        self.ranges(&units, &FlashFault::Destroyed { seed })
    }

    fn touches(&self, change: &Change, unit: Unit) -> bool {
        let byte = unit * self.timeline.unit_bytes;
        (change.offset_bytes..change.offset_bytes + change.length_bytes).contains(&byte)
    }

    fn wrong_bits(&mut self, cut: &Cut) -> Vec<FlashLoss> {
        let (timeline, count) = (self.timeline, 1 + self.below(MOST_WRONG));
        let mut wrong: BTreeMap<Unit, Vec<u64>> = BTreeMap::new();
        for _ in 0..count {
            let number = self.below(cut.end);
            let Some(change) = timeline.changes.get(number) else { continue };
            let block = self.below(change.effects.len());
            let Some((unit, _)) = change.effects.get(block) else { continue };
            let so_far = timeline.changes.get(..cut.end).unwrap_or_default();
            // What was discarded since is in no cell.
            if !so_far
                .iter()
                .rev()
                .find(|change| self.touches(change, *unit))
                .is_some_and(|last| last.written)
            {
                continue;
            }
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

    /// Some pages of the map are as they were before some request that a flush brought to the medium, or gone.
    fn lost_map(&mut self, cut: &Cut, images: &Images<'_>) -> Vec<FlashLoss> {
        let timeline = self.timeline;
        if cut.first == 0 {
            return Vec::new();
        }
        let since = self.below(cut.first);
        let changes = timeline.changes.get(since..cut.end).unwrap_or_default();
        let durable = timeline.changes.get(since..cut.first).unwrap_or_default();
        let Some(before) = durable.first().map(|change| change.entry) else { return Vec::new() };
        let count = 1 + self.below(MOST_MAP_PAGES);
        // Each has at least a block that was flushed.
        let pages: BTreeSet<u64> = (0..count)
            .filter_map(|_| {
                let number = self.below(durable.len());
                let change = durable.get(number)?;
                let block = self.below(change.effects.len());
                Some(change.effects.get(block)?.0 * timeline.unit_bytes / MAP_BYTES)
            })
            .collect();
        let are_gone = self.below(4) == 0;
        let now = images.at(cut.end);
        let mut losses = Vec::new();
        for page in pages {
            let (first, end) = (page * MAP_BYTES, (page + 1) * MAP_BYTES);
            let reach = |change: &&Change| {
                change.offset_bytes < end && change.offset_bytes + change.length_bytes > first
            };
            let units =
                changes.iter().filter(reach).flat_map(|change| &change.effects).map(|(unit, _)| *unit);
            let of_page = units.filter(|unit| (first..end).contains(&(unit * timeline.unit_bytes)));
            let units: BTreeSet<Unit> = of_page.collect();
            if !are_gone {
                losses.extend(self.ranges(&units, &FlashFault::Older { before }));
            } else if units.iter().any(|unit| now.get(*unit) != ZEROS) {
                let (offset_bytes, length_bytes) = (first, MAP_BYTES);
                losses.push(FlashLoss { offset_bytes, length_bytes, fault: FlashFault::Unmapped });
            }
        }
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

    /// Blocks of losses and digests of what they hold then; `now`: what they hold without them. Of a range that is not
    /// mapped, blocks that the log does not touch count as one, which changes.
    pub(super) fn lost(
        &self,
        losses: &[FlashLoss],
        now: impl Fn(Unit) -> u64,
        images: &Images<'_>,
    ) -> Vec<(Unit, u64)> {
        let unit_bytes = self.timeline.unit_bytes;
        // All of a state are of one time.
        let older = losses.iter().find_map(|loss| match loss.fault {
            FlashFault::Older { before } => Some(before),
            _ => None,
        });
        let then: Option<Image<'_>> = older
            .map(|before| images.at(self.timeline.changes.partition_point(|change| change.entry < before)));
        let mut lost = Vec::new();
        for loss in losses {
            let first = loss.offset_bytes / unit_bytes;
            let units = first..(loss.offset_bytes + loss.length_bytes) / unit_bytes;
            match (&loss.fault, &then) {
                (FlashFault::Destroyed { seed }, _) => {
                    lost.extend(units.map(|unit| (unit, weight(unit, *seed))));
                }
                (FlashFault::Flipped { bits }, _) => {
                    let mixed = |unit| bits.iter().fold(now(unit), |word, bit| weight(*bit, word));
                    lost.extend(units.map(|unit| (unit, mixed(unit))));
                }
                (FlashFault::Older { .. }, Some(then)) => {
                    lost.extend(units.map(|unit| (unit, then.get(unit))));
                }
                (FlashFault::Older { .. }, None) => {}
                (FlashFault::Unmapped, _) => {
                    let touched = units.filter(|unit| self.timeline.base.contains_key(unit));
                    lost.extend(touched.map(|unit| (unit, ZEROS)));
                    lost.push((u64::MAX - first, weight(first, 1)));
                }
            }
        }
        lost
    }
}

/// Each request begins a page.
fn programmed(changes: &[Change], unit_bytes: u64) -> Pages<'_> {
    let per_page = usize::try_from(PAGE_BYTES / unit_bytes).unwrap_or(1).max(1);
    let written = changes.iter().enumerate().filter(|(_, change)| change.written);
    written
        .flat_map(|(number, change)| change.effects.chunks(per_page).map(move |blocks| (number, blocks)))
        .collect()
}
