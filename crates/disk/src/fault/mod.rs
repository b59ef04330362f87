//! Faults on demand: what a disk does when it goes bad.
//!
//! The store stays pristine. Damage is rules and overlays beside it: which sectors cannot be read, which bits
//! are flipped, which places were written since. So it can be undone: after [`Faults::clear`] the disk
//! releases every byte it was given, and takes every write.
//!
//! **Rules.** Every fault has a place, a rate, or numbers of requests ([`fsage_model::fault`]). Whether a
//! rule strikes is a hash of the seed, the rule and the place (or the request's number), never of what
//! happened before: the same spec makes the same damage whatever the load does in between.
//!
//! | fault | strikes | effect | ends |
//! | --- | --- | --- | --- |
//! | read error | sectors of 4096 bytes | reads that touch one fail | when the whole sector is written, zeroed or discarded |
//! | write error | requests that change what the disk holds | they fail and change nothing | with the rule |
//! | ignored flush | flushes and forced writes | answered, but nothing is brought to the medium | with the rule |
//! | bit rot | sectors of 4096 bytes | one bit of each reads flipped | when that byte is written, zeroed or discarded |
//! | slow region | requests | the medium takes longer by a fixed time | with the rule |
//!
//! So damage is of what the disk holds when the rules are made: bring faults in when there is something to
//! damage. What is written later is safe from rules with a place or a rate, as on a disk that remaps a bad
//! sector when it is written.
//!
//! **Limit.** Anyone who reads part of a bad sector fails, but writing part of it neither fails nor heals it:
//! a real disk would have to read the rest first. Sectors that are torn by a power cut belong to crash
//! states, not here.

mod overlay;
mod range_set;
mod rule;
#[cfg(test)]
mod tests;

use fsage_model::disk::DiskCounter;
use fsage_model::fault::{FaultError, FaultSpec, RuleSpec};
use fsage_model::quantity::to_u64;

use crate::request::{IoError, Operation, Request};
use overlay::Overlay;
use rule::{FaultKind, Rule};

/// Bytes of a sector of the medium: what goes bad as a whole.
pub const SECTOR_BYTES: u64 = 4096;

/// Thousandths of the medium's own time.
const PERMILLE: u64 = 1000;

/// Factors of slow regions.
const FACTORS: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultVerdict {
    /// Whether it fails; then it must change nothing.
    pub result: Result<(), IoError>,
    /// Time that the medium needs beside its own, in nanoseconds.
    pub extra_ns: u64,
    /// How many times as long it takes before that, in thousandths.
    pub factor_permille: u64,
    /// It is to be answered as if it had brought data to the medium, and brings none.
    pub flush_ignored: bool,
}

impl FaultVerdict {
    /// Nothing is wrong.
    pub const GOOD: Self =
        Self { result: Ok(()), extra_ns: 0, factor_permille: PERMILLE, flush_ignored: false };

    /// What a request takes that takes the medium `own_ns`.
    #[must_use]
    pub fn slowed(&self, own_ns: u64) -> u64 {
        let scaled = u128::from(own_ns) * u128::from(self.factor_permille) / u128::from(PERMILLE);
        u64::try_from(scaled).unwrap_or(u64::MAX).saturating_add(self.extra_ns)
    }
}

/// The faults of one disk. Calls belong to its requests in the order in which they take effect:
/// [`Faults::before`], then, of what was done, [`Faults::after_read`] or [`Faults::after_change`].
#[derive(Debug, Default)]
pub struct Faults {
    read_errors: Vec<Rule>,
    write_errors: Vec<Rule>,
    ignored_flushes: Vec<Rule>,
    bit_rot: Vec<Rule>,
    slow_regions: Vec<Slow>,
    bad: Overlay,
    rotten: Overlay,
    counts: Counts,
}

/// A slow region that was checked.
#[derive(Debug)]
struct Slow {
    rule: Rule,
    extra_ns: u64,
    factor_permille: u64,
}

/// How often each fault struck.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    read_errors: u64,
    write_errors: u64,
    ignored_flushes: u64,
    flipped_bits: u64,
    slow_requests: u64,
    slow_ns: u64,
}

impl Faults {
    /// The faults of `spec` on a disk of `size_bytes`.
    ///
    /// # Errors
    /// A rule is invalid, or lies beyond the disk.
    pub fn new(spec: &FaultSpec, size_bytes: u64) -> Result<Self, FaultError> {
        let rules = |kind, specs: &[RuleSpec]| {
            let numbered = (0..).zip(specs);
            numbered
                .map(|(number, rule)| Rule::resolve(kind, number, rule, spec.seed, size_bytes))
                .collect::<Result<Vec<_>, _>>()
        };
        let slow = (0..).zip(&spec.slow_region).map(|(number, slow)| {
            let rule = Rule::resolve(FaultKind::SlowRegion, number, &slow.rule(), spec.seed, size_bytes)?;
            let factor = slow.factor.unwrap_or(1.0);
            if !FACTORS.contains(&factor) {
                return Err(FaultError::Factor { number, factor });
            }
            Ok(Slow { rule, extra_ns: slow.extra_ns, factor_permille: to_u64((factor * 1000.0).round()) })
        });
        Ok(Self {
            read_errors: rules(FaultKind::ReadError, &spec.read_error)?,
            write_errors: rules(FaultKind::WriteError, &spec.write_error)?,
            ignored_flushes: rules(FaultKind::IgnoredFlush, &spec.ignored_flush)?,
            bit_rot: rules(FaultKind::BitRot, &spec.bit_rot)?,
            slow_regions: slow.collect::<Result<Vec<_>, _>>()?,
            ..Self::default()
        })
    }

    /// Whether nothing can strike: the other calls need not be made.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.read_errors.is_empty()
            && self.write_errors.is_empty()
            && self.ignored_flushes.is_empty()
            && self.bit_rot.is_empty()
            && self.slow_regions.is_empty()
    }

    /// Undoes all damage and forgets all rules. What was counted stays.
    pub fn clear(&mut self) {
        *self = Self { counts: self.counts, ..Self::default() };
    }

    /// Goes on counting where others, whose place these take, ended.
    pub(crate) const fn count_on(&mut self, from: &Self) {
        self.counts = from.counts;
    }

    /// Decides about request `number`, counted from the first that the disk ever had, before it is done.
    pub fn before(&mut self, number: u64, request: &Request) -> FaultVerdict {
        let mut verdict = FaultVerdict::GOOD;
        for slow in self.slow_regions.iter().filter(|slow| slow.rule.strikes_request(number, request)) {
            verdict.extra_ns = verdict.extra_ns.saturating_add(slow.extra_ns);
            verdict.factor_permille = verdict.factor_permille.saturating_mul(slow.factor_permille) / PERMILLE;
        }
        self.counts.slow_requests += u64::from(verdict.extra_ns > 0 || verdict.factor_permille > PERMILLE);
        match request.operation {
            Operation::Read => {
                self.spoil(number, request);
                if self.is_bad(request) {
                    self.counts.read_errors += 1;
                    verdict.result = Err(IoError::Medium);
                }
            }
            Operation::Flush => verdict.flush_ignored = self.ignores(number, request),
            Operation::Write | Operation::Discard | Operation::Zero => {
                if self.write_errors.iter().any(|rule| rule.strikes_request(number, request)) {
                    self.counts.write_errors += 1;
                    verdict.result = Err(IoError::Medium);
                } else if request.fua {
                    verdict.flush_ignored = self.ignores(number, request);
                }
            }
        }
        verdict
    }

    /// Counts time by which slow regions moved the disk's clock: where requests overlap, less than the sum of theirs.
    pub const fn count_slow(&mut self, ns: u64) {
        self.counts.slow_ns = self.counts.slow_ns.saturating_add(ns);
    }

    /// Flips bits in what a read found; `data` has the request's length.
    pub fn after_read(&mut self, request: &Request, data: &mut [u8]) {
        if self.bit_rot.is_empty() {
            return;
        }
        let mut flipped_bits = 0;
        for sector in touched(request) {
            let by_rule = (0..self.bit_rot.len()).filter_map(|number| self.rot_of(number, sector));
            for bit in by_rule.chain(self.rotten.struck(sector)) {
                let place = place_of(sector, bit);
                let index = place.checked_sub(request.offset_bytes).and_then(|at| usize::try_from(at).ok());
                if let Some(byte) = index.and_then(|at| data.get_mut(at)) {
                    *byte ^= 1 << (bit % 8);
                    flipped_bits += 1;
                }
            }
        }
        self.counts.flipped_bits += flipped_bits;
    }

    /// The bit of a sector that rule `number` flips, unless it was written since or a rule before flips the
    /// same.
    fn rot_of(&self, number: usize, sector: u64) -> Option<u16> {
        let bit_of = |rule: &Rule| rule.strikes_sector(sector).then(|| rule.bit(sector));
        let bit = bit_of(&self.bit_rot[number])?;
        let place = place_of(sector, bit);
        let is_left = !self.rotten.is_healed(place..place + 1)
            && self.bit_rot[..number].iter().all(|rule| bit_of(rule) != Some(bit));
        is_left.then_some(bit)
    }

    /// Takes notice of a write, discard or zeroing that was done: what it covers is healed. `number` is as
    /// before.
    pub fn after_change(&mut self, number: u64, request: &Request) {
        if self.read_errors.is_empty() && self.bit_rot.is_empty() {
            return;
        }
        for sector in touched(request) {
            let begin = sector * SECTOR_BYTES;
            let written = request.offset_bytes.max(begin)..request.end_bytes().min(begin + SECTOR_BYTES);
            if written.end - written.start == SECTOR_BYTES {
                self.bad.repair(&written);
                if self.read_errors.iter().any(|rule| rule.strikes_sector(sector)) {
                    self.bad.heal(written.clone());
                }
            }
            self.rotten.repair(&written);
            if self.bit_rot.iter().any(|rule| rule.strikes_sector(sector)) {
                self.rotten.heal(written.clone());
            }
            for rule in self.bit_rot.iter().filter(|rule| rule.names(number)) {
                self.rotten
                    .strike(sector, rule.bit_within(sector, written.start - begin..written.end - begin));
            }
        }
    }

    /// How often each fault struck since the disk was made.
    #[must_use]
    pub fn counters(&self) -> Vec<DiskCounter> {
        let Counts { read_errors, write_errors, ignored_flushes, flipped_bits, slow_requests, slow_ns } =
            self.counts;
        vec![
            DiskCounter::sum("fault_read_errors", "1", read_errors),
            DiskCounter::sum("fault_write_errors", "1", write_errors),
            DiskCounter::sum("fault_ignored_flushes", "1", ignored_flushes),
            DiskCounter::sum("fault_flipped_bits", "1", flipped_bits),
            DiskCounter::sum("fault_slow_requests", "1", slow_requests),
            DiskCounter::sum("fault_slow_ns", "ns", slow_ns),
        ]
    }

    fn ignores(&mut self, number: u64, request: &Request) -> bool {
        let ignores = self.ignored_flushes.iter().any(|rule| rule.strikes_request(number, request));
        self.counts.ignored_flushes += u64::from(ignores);
        ignores
    }

    /// Makes the sectors bad that a read touches which a rule names.
    fn spoil(&mut self, number: u64, request: &Request) {
        if self.read_errors.iter().any(|rule| rule.names(number)) {
            touched(request).for_each(|sector| self.bad.strike(sector, 0));
        }
    }

    fn is_bad(&self, request: &Request) -> bool {
        if self.read_errors.is_empty() {
            return false;
        }
        touched(request).any(|sector| {
            let place = sector * SECTOR_BYTES;
            self.bad.struck(sector).next().is_some()
                || (self.read_errors.iter().any(|rule| rule.strikes_sector(sector))
                    && !self.bad.is_healed(place..place + SECTOR_BYTES))
        })
    }
}

/// The byte that has a sector's bit.
fn place_of(sector: u64, bit: u16) -> u64 {
    sector * SECTOR_BYTES + u64::from(bit / 8)
}

/// The sectors that a request touches.
fn touched(request: &Request) -> std::ops::Range<u64> {
    match request.length_bytes {
        0 => 0..0,
        _ => request.offset_bytes / SECTOR_BYTES..request.end_bytes().div_ceil(SECTOR_BYTES),
    }
}
