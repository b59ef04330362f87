//! The figures of a disk.

use serde::{Deserialize, Serialize};

use crate::media::Counter;
use crate::request::{IoError, Operation, Request};
use crate::store::Usage;

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Requests that were answered, failed ones too.
    pub requests: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// Requests of every kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub read: Count,
    /// Writes.
    pub write: Count,
    /// Flushes.
    pub flush: Count,
    /// Discards.
    pub discard: Count,
    /// Writes of zeros without data.
    pub zero: Count,
}

impl Count {
    /// Counts a request that was answered.
    pub(super) const fn add(&mut self, request: &Request, result: Result<(), IoError>) {
        self.requests += 1;
        match result {
            Ok(()) => self.bytes += request.length_bytes,
            Err(_) => self.errors += 1,
        }
    }
}

impl Counts {
    pub(super) const fn of(&mut self, operation: Operation) -> &mut Count {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
            Operation::Flush => &mut self.flush,
            Operation::Discard => &mut self.discard,
            Operation::Zero => &mut self.zero,
        }
    }
}

/// The log that a disk keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStat {
    /// Requests in it.
    pub entries: u64,
    /// Memory for its lists; the data of overwritten blocks is in the store's figure.
    pub memory_bytes: u64,
}

/// The state of a disk in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Its size.
    pub size_bytes: u64,
    /// The unit in which it is addressed.
    pub block_bytes: u32,
    /// Its clock: nanoseconds of model time since it was made.
    pub clock_ns: u64,
    /// Nanoseconds of these in which it had something to do.
    pub busy_ns: u64,
    /// Requests so far.
    pub requests: Counts,
    /// Its contents.
    pub store: Usage,
    /// Its log, while it keeps one.
    pub log: Option<LogStat>,
    /// What its medium counted.
    pub medium: Vec<Counter>,
    /// How often its faults struck.
    pub faults: Vec<Counter>,
}
