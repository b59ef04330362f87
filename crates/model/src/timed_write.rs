//! Writes to a device that are timed one by one: what is asked for, and what came back. What the device held is lost.
//!
//! Each write is asked for when the one before is answered. After the last of a run the device's cache is flushed.

use serde::{Deserialize, Serialize};

use crate::size::Bytes;
use crate::timed_read::{BlockRange, RunTimes};

/// Most writes of one request, so that its reply fits into a frame.
pub const MOST_WRITES: usize = 1_000_000;

/// Longest rest before a run.
pub const MOST_REST_NS: u64 = 60_000_000_000;

/// Writes that follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteRun {
    /// How long nothing is asked of the device before the first, in ns: what its buffer holds can drain.
    pub rest_ns: u64,
    /// In the order in which they are asked for.
    pub writes: Vec<BlockRange>,
}

impl WriteRun {
    /// Writes without a rest before them.
    #[must_use]
    pub const fn at_once(writes: Vec<BlockRange>) -> Self {
        Self { rest_ns: 0, writes }
    }
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSpec {
    /// Runs, one after the other.
    pub runs: Vec<WriteRun>,
    /// Random seed of the data, in which no 4 KiB are the same as others.
    pub seed: u64,
    /// Clear both ends of the device first, so that nobody takes what is left for a file system.
    pub clear_ends: bool,
}

/// When the writes of a run were asked for and answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRun {
    /// Of each write, in the order of the run.
    pub times: RunTimes,
    /// When the flush after the last was answered, in ns since the same moment.
    pub flushed_ns: u64,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteTimes {
    /// As many as were asked for, in their order.
    pub runs: Vec<WrittenRun>,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Why writes are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteSpecError {
    /// A write that the device has no room for, or that is not of whole sectors.
    #[error(
        "{length_bytes} bytes at {offset_bytes} cannot be written to {} with sectors of {sector_bytes} bytes",
        Bytes(*.size_bytes)
    )]
    Write {
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u32,
        /// Of the device.
        size_bytes: u64,
        /// Of the device.
        sector_bytes: u32,
    },
    /// Too long a rest.
    #[error("a rest of {rest_ns} ns is longer than {MOST_REST_NS}")]
    Rest {
        /// What was asked for.
        rest_ns: u64,
    },
    /// Too many writes.
    #[error("{writes} writes are more than {MOST_WRITES}")]
    Many {
        /// What was asked for.
        writes: usize,
    },
}

impl WriteSpec {
    /// All writes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.iter().map(|run| run.writes.len()).sum()
    }

    /// Whether a device of that size and sector can be asked for it.
    ///
    /// # Errors
    /// A write that it has no room for, too many writes, too long a rest.
    pub fn check(&self, size_bytes: u64, sector_bytes: u32) -> Result<(), WriteSpecError> {
        let writes = self.count();
        if writes > MOST_WRITES {
            return Err(WriteSpecError::Many { writes });
        }
        if let Some(run) = self.runs.iter().find(|run| run.rest_ns > MOST_REST_NS) {
            return Err(WriteSpecError::Rest { rest_ns: run.rest_ns });
        }
        let mut all = self.runs.iter().flat_map(|run| &run.writes);
        match all.find(|write| !write.fits(size_bytes, sector_bytes)) {
            Some(&BlockRange { offset_bytes, length_bytes }) => {
                Err(WriteSpecError::Write { offset_bytes, length_bytes, size_bytes, sector_bytes })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_has_no_room_for_is_refused() {
        let spec = |offset, length, rest_ns| WriteSpec {
            runs: vec![
                WriteRun::at_once(vec![BlockRange::new(0, 4096)]),
                WriteRun { rest_ns, writes: vec![BlockRange::new(offset, length)] },
            ],
            seed: 1,
            clear_ends: false,
        };
        assert_eq!(spec(4096, 4096, MOST_REST_NS).check(8192, 4096), Ok(()));
        for (offset, length, rest_ns, said) in [
            (8192, 4096, 0, "4096 bytes at 8192 cannot be written to 8KiB"),
            (u64::MAX, 4096, 0, "cannot be written"),
            (512, 4096, 0, "sectors of 4096"),
            (0, 0, 0, "0 bytes at 0"),
            (0, 4096, MOST_REST_NS + 1, "a rest of 60000000001 ns"),
        ] {
            let error = spec(offset, length, rest_ns).check(8192, 4096).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        let writes = vec![BlockRange::new(0, 4096); MOST_WRITES + 1];
        let many = WriteSpec { runs: vec![WriteRun::at_once(writes)], ..spec(0, 4096, 0) };
        assert_eq!(many.check(8192, 4096), Err(WriteSpecError::Many { writes: MOST_WRITES + 1 }));
    }
}
