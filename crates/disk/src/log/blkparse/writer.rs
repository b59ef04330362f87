//! Writes text as blkparse does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use fsage_model::disk::call::Converted;

use super::{FORMAT, MARK, NS_IN_S, SECTOR_BYTES};
use crate::log::stream::{Item, Sink};
use crate::log::{Entry, LogError};
use crate::request::{IoError, Operation, Request};

/// Which times are written.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The disk's clock: requests go to the medium and come back.
    #[default]
    Model,
    /// Real arrivals, `CLOCK_MONOTONIC`: requests only go (`D`), since no real time of their end is kept.
    Real,
}

/// Writes requests as events, each `D` in the order of the log, each `C` before the first `D` that is later.
pub struct Writer<W> {
    file: W,
    clock: Clock,
    lines: u64,
    number: u64,
    /// When what is under way will be done, and what it is.
    pending: BinaryHeap<Reverse<(u64, u64, Ending)>>,
    last_ns: u64,
    converted: Converted,
}

/// The end of a request: what its line says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ending {
    rwbs: &'static str,
    sector: u64,
    sectors: u64,
    errno: i32,
}

impl<W: Write> Writer<W> {
    /// Writes with the times of `clock`.
    pub const fn new(file: W, clock: Clock) -> Self {
        Self {
            file,
            clock,
            lines: 0,
            number: 0,
            pending: BinaryHeap::new(),
            last_ns: 0,
            converted: Converted {
                entries: 0,
                marks: 0,
                reads_left_out: 0,
                failed_left_out: 0,
                ignored_flushes_left_out: 0,
                zeroes_as_writes: 0,
            },
        }
    }

    /// A line. The device is called 259,0 as one of no known driver, the processor 0.
    fn line(&mut self, time_ns: u64, action: &str, rwbs: &str, rest: &str) -> Result<(), LogError> {
        // Messages have no number of their own.
        let sequence = if action == "m" { 0 } else { self.lines + 1 };
        self.lines += u64::from(action != "m");
        let (seconds, ns) = (time_ns / NS_IN_S, time_ns % NS_IN_S);
        writeln!(
            self.file,
            "259,0    0 {sequence:>8} {seconds:>5}.{ns:09} {pid:>5} {action:>2} {rwbs:>3} {rest}",
            pid = 0,
        )
        .map_err(LogError::write)
    }

    /// Writes the ends that are due at `until_ns`.
    fn ends(&mut self, until_ns: u64) -> Result<(), LogError> {
        while let Some(Reverse((done_ns, ..))) = self.pending.peek()
            && *done_ns <= until_ns
            && let Some(Reverse((done_ns, _, end))) = self.pending.pop()
        {
            let Ending { rwbs, sector, sectors, errno } = end;
            let rest = if sectors == 0 {
                format!("{sector} [{errno}]")
            } else {
                format!("{sector} + {sectors} [{errno}]")
            };
            self.line(done_ns, "C", rwbs, &rest)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), LogError> {
        let Request { operation, offset_bytes, length_bytes, fua } = entry.request;
        let rwbs = match operation {
            Operation::Read => "R",
            Operation::Write if fua => "WF",
            Operation::Write | Operation::Zero => "W",
            Operation::Discard => "D",
            Operation::Flush => "FN",
        };
        let whole = offset_bytes % SECTOR_BYTES == 0 && length_bytes % SECTOR_BYTES == 0;
        let empty = length_bytes == 0 && operation != Operation::Flush;
        if !whole || empty {
            let what = format!("bytes {offset_bytes} to {} are not whole sectors", entry.request.end_bytes());
            return Err(LogError::Unfit { format: FORMAT, number: self.number, what });
        }
        let (sector, sectors) = (offset_bytes / SECTOR_BYTES, length_bytes / SECTOR_BYTES);
        let time_ns = match self.clock {
            Clock::Model => entry.issued_ns,
            Clock::Real => entry.arrived_ns,
        };
        self.ends(time_ns)?;
        self.last_ns = time_ns;
        let rest = if sectors == 0 { "[fsage]".to_owned() } else { format!("{sector} + {sectors} [fsage]") };
        self.line(time_ns, "D", rwbs, &rest)?;
        if self.clock == Clock::Model {
            let end = Ending { rwbs, sector, sectors, errno: errno(entry.result) };
            self.pending.push(Reverse((entry.done_ns.max(time_ns), self.number, end)));
        }
        self.converted.zeroes_as_writes += u64::from(operation == Operation::Zero);
        Ok(())
    }
}

const fn errno(result: Result<(), IoError>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(IoError::Medium) => -5,
        Err(IoError::Space) => -28,
        Err(IoError::Range) => -22,
    }
}

impl<W: Write> Sink for Writer<W> {
    fn put(&mut self, item: &Item, _data: &[u8]) -> Result<(), LogError> {
        match item {
            Item::Entry(entry) => {
                self.entry(entry)?;
                self.number += 1;
                self.converted.entries += 1;
            }
            Item::Mark(mark) => {
                let time_ns = match self.clock {
                    Clock::Model => self.last_ns,
                    Clock::Real => mark.set_ns,
                };
                self.line(time_ns, "m", "N", &format!("{MARK}{}", mark.name))?;
                self.converted.marks += 1;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Converted, LogError> {
        self.ends(u64::MAX)?;
        self.file.flush().map_err(LogError::write)?;
        Ok(self.converted)
    }
}
