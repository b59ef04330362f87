//! What the writes of a device show: the time of one into an empty buffer, what a flush costs, how much the buffer holds, how fast
//! it drains, and where a long sequence becomes slower.
//!
//! - **Single writes**, each flushed: into the buffer the time of a write; of a hard disk, write and flush together are the way to the
//!   place, on average the average seek and half a turn (and, on drives that write a map at every flush, that).
//! - **Sequences** after a rest, each flushed at its end. At first the buffer takes what arrives. When it is full, what is
//!   taken is what drains: from then on bytes over time are a line of that rate, whose value at the beginning is what the buffer
//!   holds, less what drains later than the first byte came. A sequence shows that only if its writes become slower once, and
//!   not again; sequences have to agree. Otherwise nothing is said.
//! - **Cliff.** The drain's rate falls for good: a cache of one bit a cell is full; or the drive has begun to collect garbage, or is hot.
//!   So what follows from it is called derived.
//!
//! Taken from the preset: how large a page is, how many planes a die has, how its cache is folded, and that a disk begins to write when
//! its buffer is half full. Intervals are from the least to the greatest of few sequences, and have what is not known of dies and of the
//! disk's beginning in them.
//!
//! Parts: `sequence` (runs with their times, bend, cliff), `disk` and `flash` (what follows for each class).

mod disk;
mod flash;
mod sequence;

use fsage_model::medium::Parameters;
use fsage_model::timed_read::BlockRange;
use fsage_model::timed_write::{WriteRun, WriteTimes, WrittenRun};

use self::sequence::{Written, buffer, cliff};
use super::plan::{PIECE, Subject};
use super::{Fit, FitError};

pub use self::sequence::Kind;

/// Single writes.
const SINGLES: u32 = 120;
/// Sequences of each kind.
const SEQUENCES: u64 = 4;
/// Bytes of each write of a short sequence, which shows small buffers.
const FINE: u32 = 64 << 10;
/// Bytes of a short sequence.
const SHORT_BYTES: u64 = 64 << 20;
/// Bytes of all long sequences.
pub const BYTES: std::ops::RangeInclusive<u64> = 256 << 20..=512 << 30;
/// Rest before a sequence: buffers drain, and no drive that is known begins to tidy up.
const REST_NS: u64 = 500_000_000;

/// All writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritePlan {
    /// In the order in which they are done: single ones first, because what follows may fill a cache.
    pub runs: Vec<(Kind, Vec<BlockRange>)>,
}

/// The writes that show what reads do not: some `bytes` in long sequences, none of them in the first `head_bytes` or the last
/// `tail_bytes`.
///
/// # Errors
/// Too small a device for sequences of that length.
pub fn plan(
    subject: Subject,
    bytes: u64,
    (head_bytes, tail_bytes): (u64, u64),
) -> Result<WritePlan, FitError> {
    let long_bytes = bytes / SEQUENCES / u64::from(PIECE) * u64::from(PIECE);
    let room_bytes = subject.size_bytes.saturating_sub(head_bytes + tail_bytes);
    let least_bytes = (2 * long_bytes).max(2 * SHORT_BYTES);
    if room_bytes < least_bytes {
        let least_bytes = least_bytes + head_bytes + tail_bytes;
        return Err(FitError::Room { size_bytes: subject.size_bytes, least_bytes });
    }
    let mut dice = subject.dice(0x7772_6974);
    let mut place = |bytes: u64, align: u32| {
        let last = (head_bytes + room_bytes).saturating_sub(bytes);
        dice.place(head_bytes, last, u64::from(align))
    };
    let mut runs = Vec::new();
    for _ in 0..SINGLES {
        let small = subject.small();
        runs.push((Kind::Single, vec![BlockRange::new(place(small.into(), small), small)]));
    }
    for (kind, piece, length) in [(Kind::Fine, FINE, SHORT_BYTES), (Kind::Long, PIECE, long_bytes)] {
        for _ in 0..SEQUENCES {
            let (start, step) = (place(length, PIECE), u64::from(piece));
            runs.push((kind, (0..length / step).map(|n| BlockRange::new(start + n * step, piece)).collect()));
        }
    }
    Ok(WritePlan { runs })
}

impl WritePlan {
    /// What the agent is asked for.
    #[must_use]
    pub fn runs(&self) -> Vec<WriteRun> {
        let run = |(kind, writes): &(Kind, Vec<BlockRange>)| WriteRun {
            rest_ns: if *kind == Kind::Single { 0 } else { REST_NS },
            writes: writes.clone(),
        };
        self.runs.iter().map(run).collect()
    }

    /// Each run with its times.
    fn with<'a>(&'a self, times: &'a WriteTimes) -> Result<Vec<Written<'a>>, FitError> {
        let fits = self.runs.len() == times.runs.len()
            && self.runs.iter().zip(&times.runs).all(|((_, writes), run)| {
                run.times.asked_ns.len() == writes.len() && run.times.answered_ns.len() == writes.len()
            });
        if !fits {
            return Err(FitError::Runs { found: times.runs.len(), planned: self.runs.len() });
        }
        let written = |((kind, writes), run): (&'a (Kind, Vec<BlockRange>), &'a WrittenRun)| Written {
            kind: *kind,
            writes,
            run,
        };
        Ok(self.runs.iter().zip(&times.runs).map(written).collect())
    }
}

/// Adds to a fit what writes show; what they do not show stays as it is.
///
/// # Errors
/// The times are not those of the plan, or vary too much.
pub fn refine(
    fit: &mut Fit,
    subject: &Subject,
    plan: &WritePlan,
    times: &WriteTimes,
    preset: &Parameters,
) -> Result<(), FitError> {
    let runs = plan.with(times)?;
    let of = |kind: Kind| runs.iter().filter(move |run| run.kind == kind);
    let singles: Vec<&Written<'_>> = of(Kind::Single).collect();
    let cliff = cliff(&runs);
    // Behind a cliff another rate drains the buffer.
    let before = cliff.map_or(usize::MAX, |cliff| cliff.sequences);
    let buffer = |kind: Kind, most: usize| {
        let runs: Vec<&Written<'_>> = of(kind).take(most).collect();
        buffer(&runs)
    };
    // The finer the pieces, the more exactly a small buffer shows; a large one shows in long sequences only.
    match preset {
        Parameters::Hdd(preset) => {
            disk::refine(fit, &singles, buffer(Kind::Long, usize::MAX).as_ref(), preset);
            Ok(())
        }
        Parameters::Ssd(preset) => {
            let found = buffer(Kind::Fine, usize::MAX).or_else(|| buffer(Kind::Long, before));
            flash::refine(fit, subject, &singles, (found.as_ref(), cliff), preset)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { size_bytes: 2 << 30, sector_bytes: 512, reads: 200, depths: false, seed: 5 }
    }

    #[test]
    fn ends_of_the_device_are_left_alone() {
        let ends = (4 << 20, 1 << 20);
        let plan = plan(subject(), 512 << 20, ends).unwrap();
        for write in plan.runs.iter().flat_map(|(_, writes)| writes) {
            assert!(write.fits(2 << 30, 512), "{write:?}");
            assert!(write.offset_bytes >= ends.0 && write.end_bytes() <= (2 << 30) - ends.1, "{write:?}");
        }
        let long = plan.runs.iter().filter(|(kind, _)| *kind == Kind::Long);
        let bytes: u64 = long.flat_map(|(_, writes)| writes).map(|write| u64::from(write.length_bytes)).sum();
        assert_eq!(bytes, 512 << 20);
        let small = Subject { size_bytes: 260 << 20, ..subject() };
        assert!(matches!(super::plan(small, 1 << 30, ends), Err(FitError::Room { .. })));
    }
}
