//! The request log: every request that reached the disk, in the order in which it took effect.
//!
//! An [`Entry`] is a request with its outcome, its times and, of a write, a handle to the data in the store:
//! the log holds no data itself ("the log is the store"; the store keeps what was overwritten while the log
//! lives). [`Mark`]s are names that the user gives to a position.
//!
//! **Order.** Entry n took effect before entry n + 1: a read sees exactly the writes before it. It is the
//! order in which the disk did them, which among requests that wait together may differ from that in which
//! they came ([`Entry::arrived_ns`]) and from that in which the medium finished them ([`Entry::done_ns`]).
//!
//! **Cost.** An entry is one record of 56 bytes in a segment of fixed size. Adding one copies it; nothing is
//! allocated except a new segment every 16,384 entries. Entry n is found at once.

pub mod blkparse;
pub mod convert;
pub mod dm_log_writes;
mod error;
pub mod file;
mod filter;
pub mod heat;
mod histogram;
pub mod own;
mod record;
pub mod show;
pub mod stream;
pub mod summary;
#[cfg(test)]
mod tests;

pub use error::{LogError, LogPosition};
pub use filter::Filter;
pub use histogram::{Histogram, HistogramRange};

use crate::request::{IoError, Operation, Request};
use record::Record;

/// Entries of a segment: 896 KiB.
const SEGMENT_ENTRIES: usize = 1 << 14;

/// Segments for which the table has room before it grows: 16 million entries.
const SEGMENT_ROOM: usize = 1 << 10;

/// Longest request that an entry can hold; the largest disk is a sixteenth of it.
pub const LENGTH_LIMIT: u64 = (1 << 48) - 1;

/// Where the store keeps the data of a write. What the numbers say is the store's own business.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Payload {
    /// The first code.
    pub first: u64,
    /// Codes from there on; 0 where no data was kept.
    pub count: u32,
}

impl Payload {
    /// No data was kept.
    pub const NONE: Self = Self { first: 0, count: 0 };
}

/// One request as it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What was asked.
    pub request: Request,
    /// Whether it was done.
    pub result: Result<(), IoError>,
    /// Of a flush or a write with `fua`: it was answered, but the disk did not bring anything to the medium
    /// (a fault).
    pub flush_ignored: bool,
    /// When its batch came to the medium, in nanoseconds of the disk's clock.
    pub issued_ns: u64,
    /// When the medium was done with it, in nanoseconds of the disk's clock.
    pub done_ns: u64,
    /// When it arrived, in nanoseconds of `CLOCK_MONOTONIC`: comparable with the kernel's tracepoints
    /// (`trace_clock` mono).
    pub arrived_ns: u64,
    /// The data of a write.
    pub payload: Payload,
}

impl Entry {
    /// A request that was done at once at time 0.
    #[must_use]
    pub const fn new(request: Request) -> Self {
        Self {
            request,
            result: Ok(()),
            flush_ignored: false,
            issued_ns: 0,
            done_ns: 0,
            arrived_ns: 0,
            payload: Payload::NONE,
        }
    }

    /// Whether it changed what the disk holds.
    #[must_use]
    pub const fn changes(&self) -> bool {
        matches!(self.request.operation, Operation::Write | Operation::Discard | Operation::Zero)
            && self.result.is_ok()
    }
}

/// A name for a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Entries before it.
    pub position: u64,
    /// When it was set, in nanoseconds of `CLOCK_MONOTONIC`.
    pub set_ns: u64,
    /// The name: one line.
    pub name: String,
}

/// What the disk is that the entries are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Its size.
    pub size_bytes: u64,
    /// Its logical block: offsets and lengths are multiples of it.
    pub block_bytes: u32,
}

/// The log of one disk.
#[derive(Debug)]
pub struct Log {
    geometry: Geometry,
    /// All full but the last.
    segments: Vec<Vec<Record>>,
    marks: Vec<Mark>,
}

impl Log {
    /// A log without entries. The first segment is there already.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        let mut segments = Vec::with_capacity(SEGMENT_ROOM);
        segments.push(Vec::with_capacity(SEGMENT_ENTRIES));
        Self { geometry, segments, marks: Vec::new() }
    }

    /// The disk it is of.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Says of which disk it is, where that shows at the end only.
    const fn set_geometry(&mut self, geometry: Geometry) {
        self.geometry = geometry;
    }

    /// Adds an entry and says its number. A length over [`LENGTH_LIMIT`] is cut to it.
    pub fn push(&mut self, entry: &Entry) -> u64 {
        let number = self.len();
        let record = Record::pack(entry);
        match self.segments.last_mut() {
            Some(segment) if segment.len() < SEGMENT_ENTRIES => segment.push(record),
            _ => {
                let mut segment = Vec::with_capacity(SEGMENT_ENTRIES);
                segment.push(record);
                self.segments.push(segment);
            }
        }
        number
    }

    /// Names the present position. Line breaks in the name become spaces.
    pub fn mark(&mut self, name: &str, set_ns: u64) {
        let name = name.replace(['\n', '\r', '\0'], " ");
        self.marks.push(Mark { position: self.len(), set_ns, name });
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        let full = self.segments.len().saturating_sub(1).saturating_mul(SEGMENT_ENTRIES);
        as_u64(full + self.segments.last().map_or(0, Vec::len))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entry `number`, counted from 0.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<Entry> {
        let number = usize::try_from(number).ok()?;
        let segment = self.segments.get(number / SEGMENT_ENTRIES)?;
        segment.get(number % SEGMENT_ENTRIES).map(Record::unpack)
    }

    /// The entries from `first` on, in order.
    pub fn entries(&self, first: u64) -> impl Iterator<Item = Entry> + '_ {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let (segment, place) = (first / SEGMENT_ENTRIES, first % SEGMENT_ENTRIES);
        let tail = self.segments.get(segment).and_then(|records| records.get(place..)).unwrap_or(&[]);
        let rest = self.segments.iter().skip(segment.saturating_add(1)).flatten();
        tail.iter().chain(rest).map(Record::unpack)
    }

    /// The marks, in order.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Says when entry `number` was done, once that is known; beyond the end it does nothing.
    pub fn set_done(&mut self, number: u64, done_ns: u64, result: Result<(), IoError>) {
        let Ok(number) = usize::try_from(number) else { return };
        let segment = self.segments.get_mut(number / SEGMENT_ENTRIES);
        if let Some(record) = segment.and_then(|segment| segment.get_mut(number % SEGMENT_ENTRIES)) {
            *record = Record::pack(&Entry { done_ns, result, ..record.unpack() });
        }
    }

    /// Forgets all entries and marks; the first segment's memory is kept.
    pub fn clear(&mut self) {
        self.segments.truncate(1);
        self.segments.iter_mut().for_each(Vec::clear);
        self.marks.clear();
    }

    /// Memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let segments = self.segments.len() * SEGMENT_ENTRIES * size_of::<Record>();
        let table = self.segments.capacity() * size_of::<Vec<Record>>();
        let marks: usize = self.marks.iter().map(|mark| size_of::<Mark>() + mark.name.capacity()).sum();
        as_u64(segments + table + marks)
    }
}

/// A count of things in memory.
fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
