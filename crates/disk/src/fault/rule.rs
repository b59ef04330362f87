//! When a fault strikes.

use std::collections::BTreeSet;
use std::ops::Range;

use fsage_model::fault::{FaultError, RuleSpec};

use super::SECTOR_BYTES;
use crate::request::Request;

/// Kinds of faults; each draws from a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    ReadError,
    WriteError,
    IgnoredFlush,
    BitRot,
    SlowRegion,
}

impl FaultKind {
    /// As it is called in a spec.
    const fn name(self) -> &'static str {
        match self {
            Self::ReadError => "read_error",
            Self::WriteError => "write_error",
            Self::IgnoredFlush => "ignored_flush",
            Self::BitRot => "bit_rot",
            Self::SlowRegion => "slow_region",
        }
    }

    const fn salt(self) -> u64 {
        match self {
            Self::ReadError => 1,
            Self::WriteError => 2,
            Self::IgnoredFlush => 3,
            Self::BitRot => 4,
            Self::SlowRegion => 5,
        }
    }
}

/// A rule that was checked.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    when: When,
    seed: u64,
}

#[derive(Debug, Clone)]
enum When {
    /// At requests with these numbers.
    Requests(BTreeSet<u64>),
    /// In a region, with a probability.
    Rate {
        bytes: Range<u64>,
        /// Of 2^64 draws so many strike; none: all.
        below: Option<u64>,
    },
}

impl Rule {
    /// Checks rule `number` of its kind.
    pub(super) fn resolve(
        kind: FaultKind,
        number: u64,
        spec: &RuleSpec,
        seed: u64,
        size_bytes: u64,
    ) -> Result<Self, FaultError> {
        let name = kind.name();
        let placed = spec.offset_bytes.is_some() || spec.length_bytes.is_some();
        let seed = mix(mix(seed ^ mix(kind.salt())) ^ number);
        if !spec.requests.is_empty() {
            if placed || spec.rate.is_some() {
                return Err(FaultError::Both { kind: name, number });
            }
            return Ok(Self { when: When::Requests(spec.requests.iter().copied().collect()), seed });
        }
        if !placed && spec.rate.is_none() {
            return Err(FaultError::Nothing { kind: name, number });
        }
        if placed && kind == FaultKind::IgnoredFlush {
            return Err(FaultError::Placed { number });
        }
        let rate = spec.rate.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&rate) {
            return Err(FaultError::Rate { kind: name, number, rate });
        }
        let begin = spec.offset_bytes.unwrap_or(0);
        let length = spec.length_bytes.unwrap_or_else(|| size_bytes.saturating_sub(begin));
        let end = begin.checked_add(length).filter(|end| *end <= size_bytes && length > 0);
        let Some(end) = end else {
            return Err(FaultError::Beyond {
                kind: name,
                number,
                offset_bytes: begin,
                length_bytes: length,
                size_bytes,
            });
        };
        let below = (rate < 1.0).then(|| threshold(rate));
        Ok(Self { when: When::Rate { bytes: begin..end, below }, seed })
    }

    /// Whether it names request `number`.
    pub(super) fn names(&self, number: u64) -> bool {
        matches!(&self.when, When::Requests(numbers) if numbers.contains(&number))
    }

    /// Whether it strikes request `number` as a whole. A request without range is everywhere.
    pub(super) fn strikes_request(&self, number: u64, request: &Request) -> bool {
        match &self.when {
            When::Requests(numbers) => numbers.contains(&number),
            When::Rate { bytes, below } => {
                let inside = request.length_bytes == 0
                    || request.offset_bytes.max(bytes.start) < request.end_bytes().min(bytes.end);
                inside && self.draws(number, *below)
            }
        }
    }

    /// Whether it strikes a sector, for as long as nobody writes it.
    pub(super) fn strikes_sector(&self, sector: u64) -> bool {
        match &self.when {
            When::Requests(_) => false,
            When::Rate { bytes, below } => {
                let begin = sector.saturating_mul(SECTOR_BYTES);
                begin.max(bytes.start) < begin.saturating_add(SECTOR_BYTES).min(bytes.end)
                    && self.draws(sector, *below)
            }
        }
    }

    fn draws(&self, place: u64, below: Option<u64>) -> bool {
        below.is_none_or(|below| mix(self.seed ^ mix(place)) < below)
    }

    /// The bit of a sector that it flips.
    pub(super) fn bit(&self, sector: u64) -> u16 {
        let begin = sector.saturating_mul(SECTOR_BYTES);
        let within = match &self.when {
            When::Requests(_) => 0..SECTOR_BYTES,
            When::Rate { bytes, .. } => {
                bytes.start.saturating_sub(begin)..bytes.end.saturating_sub(begin).min(SECTOR_BYTES)
            }
        };
        self.bit_within(sector, within)
    }

    /// The bit of a sector that it flips, within these bytes of it.
    pub(super) fn bit_within(&self, sector: u64, bytes: Range<u64>) -> u16 {
        let bits = (bytes.end - bytes.start.min(bytes.end)).clamp(1, SECTOR_BYTES) * 8;
        // The second mix makes it independent of whether the rule strikes.
        let drawn = mix(!mix(self.seed ^ mix(sector))) % bits;
        u16::try_from(bytes.start * 8 + drawn).unwrap_or(0)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014), of the next state: a bijection that scatters.
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Of 2^64 draws, how many are a rate in 0..1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; the rate was checked"
)]
fn threshold(rate: f64) -> u64 {
    (rate * 18_446_744_073_709_551_616.0) as u64
}
