//! Which crash states are tried.
//!
//! For each cut the pending changes are known; a *choice* says which of them are missing and which one is
//! torn. States are chosen in three parts, each of which goes around the cuts rather than from the first to
//! the last:
//!
//! 1. *prefix*: everything before the cut is there, at every cut where there is room for all, else at a
//!    sample in which the cuts just before a flush come first; at most half of all states;
//! 2. *around flushes*: at each cut just before a flush (also before that of a commit) nothing pending, all
//!    but one, only one, one torn; every subset where at most [`EXHAUSTIVE`] changes are pending; at most
//!    three quarters together with the first part;
//! 3. *random*: a cut drawn evenly, a probability of 1/4, 1/2 or 3/4 drawn evenly, each pending change there
//!    with that probability; in one of four one that is there is torn instead.
//!
//! Of drives with flash faults every state has a fault (`flash`).
//!
//! What holds the same bytes as a state that was chosen is not chosen again; of the cuts that leave the same
//! image the latest is kept, at which the most was promised.

mod flash;

use std::collections::HashMap;

use fsage_model::crash::{
    CrashCoverage, CrashKind, CrashSpec, CrashState, DriveBehaviour, FlashLoss, TornRequest,
};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::timeline::{Change, Image, Timeline, Unit};

/// Pending changes up to which every subset is tried at a cut before a flush.
pub const EXHAUSTIVE: usize = 4;

/// Random states that are drawn for each that is wanted, before too few distinct ones are accepted.
const DRAWS: u64 = 6;

/// The states of a log that are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In the order of their cuts.
    pub states: Vec<CrashState>,
    /// How much they are of what is possible.
    pub coverage: CrashCoverage,
}

/// A point at which power may be lost: after one change.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Pending changes, as a range of the timeline's; the last is the one after which the cut is.
    first: usize,
    end: usize,
    /// How many of them may be missing: not those that their own drive has flushed.
    pending: usize,
    /// Number of the first request that may be missing.
    durable: u64,
    /// The latest position with the same bytes if nothing is missing, and if something is.
    whole_until: u64,
    partial_until: u64,
    before_flush: bool,
}

/// Which pending changes are missing or torn, by their place among the pending ones.
#[derive(Debug, Clone, Default)]
struct Choice {
    lost: Vec<usize>,
    torn: Option<(usize, Vec<u64>)>,
    flash: Vec<FlashLoss>,
}

/// Plans the states of a log.
#[must_use]
pub fn plan(timeline: &Timeline, spec: &CrashSpec) -> Plan {
    let cuts = cuts(timeline, spec);
    let mut planner = Planner {
        timeline,
        spec,
        rng: Xoshiro256PlusPlus::seed_from_u64(spec.seed),
        seen: HashMap::new(),
        states: Vec::new(),
        considered: 0,
        scratch: HashMap::new(),
    };
    let order = planner.shuffled(&cuts);
    let images = Images::new(timeline);
    if spec.drive.fabricates() {
        planner.flash(&cuts, &images);
    } else {
        planner.prefixes(&cuts, &order, &images);
        planner.around_flushes(&cuts, &order, &images);
        planner.random(&cuts, &images);
    }
    let Planner { mut states, considered, seen, .. } = planner;
    states.sort_by(|a, b| (a.cut, a.durable, &a.lost).cmp(&(b.cut, b.durable, &b.lost)));
    let pending = |cut: &Cut| wide(cut.pending);
    let coverage = CrashCoverage {
        changes: wide(timeline.changes.len()),
        flushes: wide(timeline.flushes.len()),
        most_pending: cuts.iter().map(pending).max().unwrap_or(0),
        possible_log2: log2_of_sum(cuts.iter().map(pending)),
        considered,
        distinct: wide(seen.len()),
        planned: wide(states.len()),
    };
    Plan { states, coverage }
}

/// Every cut, in order.
fn cuts(timeline: &Timeline, spec: &CrashSpec) -> Vec<Cut> {
    let mut cuts = Vec::with_capacity(timeline.changes.len());
    let (mut flushed, mut first, mut held) = (0, 0, 0);
    let (mut pending, mut counted) = (0, 0);
    let by_place = flushes_count_by_place(spec.drive);
    for (number, change) in timeline.changes.iter().enumerate() {
        while timeline.flushes.get(flushed).is_some_and(|flush| *flush < change.entry) {
            flushed += 1;
        }
        let flush = timeline.flushes.get(flushed).copied().unwrap_or(timeline.entries);
        let after = timeline.flushes.get(flushed + 1).copied().unwrap_or(timeline.entries);
        let next = timeline.changes.get(number + 1).map_or(timeline.entries, |next| next.entry);
        let before_flush = flush < next;
        // The last flush that was done, counted from 1, and until when nothing more can be known to be there.
        let (done, partial_until) = match spec.drive {
            DriveBehaviour::Honest | DriveBehaviour::LostMapping | DriveBehaviour::BitErrors => {
                (flushed, flush.min(next))
            }
            // The flush that follows is the one that is dropped, or the one before was.
            DriveBehaviour::DropsFlush if before_flush => (flushed, after.min(next)),
            DriveBehaviour::DropsFlush => (flushed.saturating_sub(1), next),
            DriveBehaviour::Lying => (0, next),
            // A request is torn, or destroys another, while it is under way.
            DriveBehaviour::Protected | DriveBehaviour::PairedPages => (flushed, change.entry),
        };
        let durable = done.checked_sub(1).and_then(|last| timeline.flushes.get(last)).copied().unwrap_or(0);
        held += wide(change.effects.len()).saturating_mul(timeline.unit_bytes);
        let is_certain = |first: usize, held: u64| match spec.drive {
            DriveBehaviour::Protected | DriveBehaviour::PairedPages => true,
            DriveBehaviour::Lying => held > spec.cache_bytes,
            _ if by_place => {
                timeline.changes.get(first).is_some_and(|pending| pending.is_flushed_before(change.entry))
            }
            _ => timeline.changes.get(first).is_some_and(|change| change.entry < durable),
        };
        while first < number && is_certain(first, held) {
            let done = timeline.changes.get(first).map_or(0, |change| wide(change.effects.len()));
            held -= done.saturating_mul(timeline.unit_bytes);
            first += 1;
        }
        pending = if !by_place {
            number + 1 - first
        } else if counted == flushed {
            pending + 1
        } else {
            let rest = timeline.changes.get(first..=number).unwrap_or_default();
            rest.iter().filter(|pending| !pending.is_flushed_before(change.entry)).count()
        };
        counted = flushed;
        cuts.push(Cut {
            first,
            end: number + 1,
            pending,
            durable: timeline.changes.get(first).map_or(durable, |change| change.entry),
            whole_until: next,
            partial_until,
            before_flush,
        });
    }
    cuts
}

/// Whether a flush that was done brings all of its place to the medium, and nothing else decides what is there.
const fn flushes_count_by_place(drive: DriveBehaviour) -> bool {
    matches!(drive, DriveBehaviour::Honest | DriveBehaviour::LostMapping | DriveBehaviour::BitErrors)
}

/// What the medium holds for sure at each cut, computed once in order.
struct Images<'a> {
    timeline: &'a Timeline,
    /// The image after so many changes, now and then; in order.
    certain: Vec<(usize, Image<'a>)>,
    /// The digest after each change with everything before it.
    whole: Vec<u64>,
}

impl<'a> Images<'a> {
    /// Images that are kept: between them changes are applied again.
    const KEPT_EVERY: usize = 64;

    fn new(timeline: &'a Timeline) -> Self {
        let mut whole = Vec::with_capacity(timeline.changes.len());
        let mut image = Image::new(timeline);
        let mut certain = vec![(0, image.clone())];
        for (number, change) in (1..).zip(&timeline.changes) {
            image.apply(change);
            whole.push(image.digest());
            if number % Self::KEPT_EVERY == 0 {
                certain.push((number, image.clone()));
            }
        }
        Self { timeline, certain, whole }
    }

    /// The image with the first `count` changes.
    fn at(&self, count: usize) -> Image<'a> {
        let kept = self.certain.partition_point(|(number, _)| *number <= count).saturating_sub(1);
        let Some((number, image)) = self.certain.get(kept) else { return Image::new(self.timeline) };
        let mut image = image.clone();
        for change in self.timeline.changes.get(*number..count).unwrap_or_default() {
            image.apply(change);
        }
        image
    }
}

struct Planner<'a> {
    timeline: &'a Timeline,
    spec: &'a CrashSpec,
    rng: Xoshiro256PlusPlus,
    /// Digest of an image and its place among the states; beyond the last where it was not wanted any more.
    seen: HashMap<u64, usize>,
    states: Vec<CrashState>,
    considered: u64,
    scratch: HashMap<Unit, u64>,
}

impl Planner<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let limit = wide(limit.max(1));
        usize::try_from(self.rng.next_u64() % limit).unwrap_or(0)
    }

    /// Numbers of the cuts in a random order, those before a flush first.
    fn shuffled(&mut self, cuts: &[Cut]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..cuts.len()).collect();
        for last in (1..order.len()).rev() {
            let other = self.below(last + 1);
            order.swap(last, other);
        }
        order.sort_by_key(|number| !cuts.get(*number).is_some_and(|cut| cut.before_flush));
        order
    }

    /// Whether there is room for more, of so many of a hundred of the states.
    fn has_room(&self, percent: u64) -> bool {
        wide(self.states.len()) < self.spec.states.saturating_mul(percent).div_ceil(100)
    }

    /// Adds a state, unless its bytes are those of one that is there.
    fn offer(&mut self, cut: &Cut, choice: &Choice, image: u64) {
        self.considered += 1;
        let whole = choice.lost.is_empty() && choice.torn.is_none();
        let until = if whole { cut.whole_until } else { cut.partial_until };
        let place = *self.seen.entry(image).or_insert(self.states.len());
        if let Some(known) = self.states.get(place) {
            // The latest cut, at which most was promised.
            if known.cut >= until {
                return;
            }
        } else if !self.has_room(100) {
            return;
        }
        let entry =
            |pending: &usize| self.timeline.changes.get(cut.first + pending).map_or(0, |change| change.entry);
        let kind = match (whole, &choice.torn) {
            _ if !choice.flash.is_empty() => CrashKind::Flash,
            (true, _) => CrashKind::Prefix,
            (false, Some(_)) => CrashKind::Torn,
            (false, None) => CrashKind::Loss,
        };
        let state = CrashState {
            kind,
            cut: until,
            durable: cut.durable,
            pending: wide(cut.pending),
            lost: choice.lost.iter().map(entry).collect(),
            torn: choice
                .torn
                .as_ref()
                .map(|(pending, kept)| TornRequest { entry: entry(pending), kept: kept.clone() }),
            flash: choice.flash.clone(),
            image,
        };
        match self.states.get_mut(place) {
            Some(known) => *known = state,
            None => self.states.push(state),
        }
    }

    fn prefixes(&mut self, cuts: &[Cut], order: &[usize], images: &Images<'_>) {
        for number in order {
            if !self.has_room(50) {
                return;
            }
            let (Some(cut), Some(image)) = (cuts.get(*number), images.whole.get(*number)) else { continue };
            self.offer(cut, &Choice::default(), *image);
        }
    }

    fn around_flushes(&mut self, cuts: &[Cut], order: &[usize], images: &Images<'_>) {
        let near: Vec<(Cut, Image<'_>)> = order
            .iter()
            .filter_map(|number| cuts.get(*number))
            .filter(|cut| cut.before_flush)
            .take(usize::try_from(self.spec.states).unwrap_or(usize::MAX))
            .map(|cut| (*cut, images.at(cut.first)))
            .collect();
        for level in 0.. {
            let mut any = false;
            for (cut, image) in &near {
                if !self.has_room(75) {
                    return;
                }
                let Some(choice) = self.nth(cut, level) else { continue };
                any = true;
                self.consider_on(cut, &choice, image, images);
            }
            if !any {
                return;
            }
        }
    }

    /// The choice of this number at a cut before a flush; none beyond the last.
    fn nth(&mut self, cut: &Cut, level: usize) -> Option<Choice> {
        let losable = self.losable(cut);
        let pending = losable.len();
        let all_but = |kept: usize| -> Vec<usize> { (0..pending).filter(|number| *number != kept).collect() };
        let subsets = if pending <= EXHAUSTIVE { (1 << pending) - 1 } else { 1 + 2 * pending };
        if level >= subsets {
            let number = *losable.get(level - subsets)?;
            let torn = self.tear(cut, number).map(|kept| (number, kept));
            return Some(Choice { torn, ..Choice::default() });
        }
        let lost = if pending <= EXHAUSTIVE {
            // Every subset but the empty one, that with everything missing first.
            let mask = subsets - level;
            (0..pending).filter(|number| mask >> number & 1 == 1).collect::<Vec<usize>>()
        } else if level == 0 {
            (0..pending).collect()
        } else if level <= pending {
            vec![pending - level]
        } else {
            all_but(2 * pending - level)
        };
        let lost = lost.into_iter().filter_map(|number| losable.get(number).copied()).collect();
        Some(Choice { lost, ..Choice::default() })
    }

    fn random(&mut self, cuts: &[Cut], images: &Images<'_>) {
        let draws = self.spec.states.saturating_mul(DRAWS);
        for _ in 0..draws {
            if !self.has_room(100) {
                return;
            }
            let number = self.below(cuts.len());
            let Some(cut) = cuts.get(number).copied() else { return };
            let mut choice = self.missing(&cut);
            if self.below(4) == 0 {
                let number = self.below(cut.end - cut.first);
                if !choice.lost.contains(&number) {
                    choice.torn = self.tear(&cut, number).map(|kept| (number, kept));
                }
            }
            self.consider(&cut, &choice, images);
        }
    }

    /// Each pending change is there with a probability of 1/4, 1/2 or 3/4.
    fn missing(&mut self, cut: &Cut) -> Choice {
        let quarters = 1 + self.below(3);
        let lost = self.losable(cut).into_iter().filter(|_| self.below(4) >= quarters).collect();
        Choice { lost, ..Choice::default() }
    }

    /// The pending changes that may be missing, by their places: not those that their own drive has flushed.
    fn losable(&self, cut: &Cut) -> Vec<usize> {
        let changes = self.timeline.changes.get(cut.first..cut.end).unwrap_or_default();
        if changes.len() == cut.pending {
            return (0..cut.pending).collect();
        }
        let until = changes.last().map_or(0, |change| change.entry);
        let changes = changes.iter().enumerate().filter(|(_, change)| !change.is_flushed_before(until));
        changes.map(|(number, _)| number).collect()
    }

    /// Atomic units of a pending change that are on the medium: some, not all; none where it is only one.
    fn tear(&mut self, cut: &Cut, number: usize) -> Option<Vec<u64>> {
        let change = self.timeline.changes.get(cut.first + number)?;
        let units = change.length_bytes.div_ceil(self.spec.atomic_bytes);
        if !(2..=MOST_TORN).contains(&units) || change.effects.is_empty() {
            return None;
        }
        let half = units.div_ceil(2);
        Some(match self.below(3) {
            0 => (0..half).collect(),
            1 => (half..units).collect(),
            _ => (0..units).filter(|unit| unit % 2 == 0).collect(),
        })
    }

    fn consider(&mut self, cut: &Cut, choice: &Choice, images: &Images<'_>) {
        self.consider_on(cut, choice, &images.at(cut.first), images);
    }

    /// `image`: what is there for sure at the cut.
    fn consider_on(&mut self, cut: &Cut, choice: &Choice, image: &Image<'_>, images: &Images<'_>) {
        let changes = self.timeline.changes.get(cut.first..cut.end).unwrap_or_default();
        // Forced writes are on the medium once they are answered, whatever else is missing, and so is what its own drive has
        // flushed since.
        let honest = self.spec.drive == DriveBehaviour::Honest;
        let cut_entry = changes.last().map_or(0, |change| change.entry);
        let is_there = |change: &Change| change.forced || change.is_flushed_before(cut_entry);
        let stays = |number: usize| honest && changes.get(number).is_some_and(is_there);
        let mut choice = choice.clone();
        choice.lost.retain(|number| !stays(*number));
        choice.torn = choice.torn.filter(|(number, _)| !stays(*number));
        let mut lost = choice.lost.iter().peekable();
        let mut there: Vec<(Unit, u64)> = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            if lost.next_if(|next| **next == number).is_some() {
                continue;
            }
            match &choice.torn {
                Some((torn, kept)) if *torn == number => {
                    there.extend(change.effects.iter().filter(|(unit, _)| {
                        let byte = (unit * self.timeline.unit_bytes).saturating_sub(change.offset_bytes);
                        kept.contains(&(byte / self.spec.atomic_bytes))
                    }));
                }
                _ => there.extend(&change.effects),
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut digest = image.with(there.iter().copied(), &mut scratch);
        if !choice.flash.is_empty() {
            let now = |unit: Unit| scratch.get(&unit).copied().unwrap_or_else(|| image.get(unit));
            let lost = self.lost(&choice.flash, now, images);
            there.extend(lost);
            let damaged = image.with(there.into_iter(), &mut scratch);
            // A fault that changes nothing is none.
            if damaged == digest {
                self.scratch = scratch;
                return;
            }
            digest = damaged;
        }
        self.scratch = scratch;
        self.offer(cut, &choice, digest);
    }
}

/// Atomic units of the longest request that is torn.
const MOST_TORN: u64 = 1 << 16;

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The binary logarithm of a sum of powers of two.
fn log2_of_sum(exponents: impl Iterator<Item = u64>) -> f64 {
    let exponents: Vec<u32> = exponents.map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect();
    let Some(most) = exponents.iter().max().copied() else { return 0.0 };
    let sum: f64 = exponents.iter().map(|n| (f64::from(*n) - f64::from(most)).exp2()).sum();
    f64::from(most) + sum.log2()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
