//! Reads of a device that are timed one by one: what is asked for, and what came back.
//!
//! A run is a list of reads with a queue depth. At depth 1 each read is asked for when the one before is answered; at depth `q`
//! so many readers take the next read of the list each as soon as their last one is answered. Runs follow one another.

use serde::{Deserialize, Serialize};

use crate::geometry::DeviceHints;
use crate::size::Bytes;

/// Most readers at once.
pub const MOST_DEPTH: u32 = 256;

/// Most reads of one request, so that its reply fits into a frame.
pub const MOST_READS: usize = 1_000_000;

/// Most bytes of one request.
pub const MOST_BYTES: u32 = 16 << 20;

/// What one request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRange {
    /// First byte on the device; a multiple of the sector.
    pub offset_bytes: u64,
    /// Bytes; a multiple of the sector.
    pub length_bytes: u32,
}

impl BlockRange {
    /// `length_bytes` from `offset_bytes` on.
    #[must_use]
    pub const fn new(offset_bytes: u64, length_bytes: u32) -> Self {
        Self { offset_bytes, length_bytes }
    }

    /// The first byte behind it; saturates.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(u64::from(self.length_bytes))
    }

    /// Whether a device of that size has it, in whole sectors, and one request can be of so much.
    #[must_use]
    pub fn fits(&self, size_bytes: u64, sector_bytes: u32) -> bool {
        let sector = sector_bytes.max(1);
        self.end_bytes() <= size_bytes
            && (1..=MOST_BYTES).contains(&self.length_bytes)
            && self.length_bytes.is_multiple_of(sector)
            && self.offset_bytes.is_multiple_of(u64::from(sector))
    }
}

/// Reads that follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRun {
    /// How many are under way at a time.
    pub depth: u32,
    /// In the order in which they are asked for.
    pub reads: Vec<BlockRange>,
}

impl ReadRun {
    /// Reads one after the other.
    #[must_use]
    pub const fn serial(reads: Vec<BlockRange>) -> Self {
        Self { depth: 1, reads }
    }
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSpec {
    /// One after the other.
    pub runs: Vec<ReadRun>,
}

/// What is there to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readable {
    /// Size, sector, class. Of a file, what the kernel says of the device below, and 4,096 bytes as its sector.
    pub hints: DeviceHints,
    /// An ordinary file.
    pub is_file: bool,
    /// A virtual disk of fsage: its times are those of a model.
    pub is_virtual: bool,
    /// A virtual disk that keeps model time, on which reads at a depth above 1 have no time of their own.
    pub keeps_model_time: bool,
}

/// When the reads of a run were asked for and answered, in ns since some moment, in the order of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTimes {
    /// When each was asked for.
    pub asked_ns: Vec<u64>,
    /// When each was answered.
    pub answered_ns: Vec<u64>,
}

impl RunTimes {
    /// How long each took, in ns.
    pub fn taken_ns(&self) -> impl Iterator<Item = u64> {
        self.asked_ns.iter().zip(&self.answered_ns).map(|(asked, answered)| answered.saturating_sub(*asked))
    }

    /// From the first question to the last answer, in ns.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        let first = self.asked_ns.iter().min().copied().unwrap_or(0);
        self.answered_ns.iter().max().copied().unwrap_or(0).saturating_sub(first)
    }
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTimes {
    /// As many as were asked for, in their order.
    pub runs: Vec<RunTimes>,
    /// Bytes read.
    pub read_bytes: u64,
}

/// Why reads are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadSpecError {
    /// A read that the device does not have, or that is not of whole sectors.
    #[error(
        "{length_bytes} bytes at {offset_bytes} cannot be read from {} with sectors of {sector_bytes} bytes",
        Bytes(*.size_bytes)
    )]
    Read {
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u32,
        /// Of the device.
        size_bytes: u64,
        /// Of the device.
        sector_bytes: u32,
    },
    /// Too many readers, or none.
    #[error("{depth} reads at a time are not between 1 and {MOST_DEPTH}")]
    Depth {
        /// What was asked for.
        depth: u32,
    },
    /// Too many reads.
    #[error("{reads} reads are more than {MOST_READS}")]
    Many {
        /// What was asked for.
        reads: usize,
    },
}

impl ReadSpec {
    /// All reads.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.iter().map(|run| run.reads.len()).sum()
    }

    /// Whether a device of that size and sector can be asked for it.
    ///
    /// # Errors
    /// A read that it does not have, an invalid depth, too many reads.
    pub fn check(&self, size_bytes: u64, sector_bytes: u32) -> Result<(), ReadSpecError> {
        let reads = self.count();
        if reads > MOST_READS {
            return Err(ReadSpecError::Many { reads });
        }
        for run in &self.runs {
            if !(1..=MOST_DEPTH).contains(&run.depth) {
                return Err(ReadSpecError::Depth { depth: run.depth });
            }
            let misfit = run.reads.iter().find(|read| !read.fits(size_bytes, sector_bytes));
            if let Some(&BlockRange { offset_bytes, length_bytes }) = misfit {
                return Err(ReadSpecError::Read { offset_bytes, length_bytes, size_bytes, sector_bytes });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_not_have_is_refused() {
        let spec = |depth, offset, length| ReadSpec {
            runs: vec![ReadRun { depth, reads: vec![BlockRange::new(offset, length)] }],
        };
        assert_eq!(spec(1, 4096, 4096).check(8192, 4096), Ok(()));
        for (wrong, said) in [
            (spec(1, 8192, 4096), "4096 bytes at 8192 cannot be read from 8KiB"),
            (spec(1, u64::MAX, 4096), "cannot be read"),
            (spec(1, 512, 4096), "sectors of 4096"),
            (spec(1, 0, 512), "sectors of 4096"),
            (spec(1, 0, 0), "0 bytes at 0"),
            (spec(0, 0, 4096), "0 reads at a time"),
            (spec(257, 0, 4096), "257 reads at a time"),
        ] {
            let error = wrong.check(8192, 4096).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn times_are_between_question_and_answer() {
        let times = RunTimes { asked_ns: vec![10, 12], answered_ns: vec![30, 20] };
        assert_eq!((times.taken_ns().collect::<Vec<_>>(), times.elapsed_ns()), (vec![20, 8], 20));
        assert_eq!(RunTimes::default().elapsed_ns(), 0);
    }
}
