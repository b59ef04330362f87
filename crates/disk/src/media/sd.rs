//! An SD card: allocation units, few of which may be open, and a page register.
//!
//! Follows what flashbench measures (A. Bergmann, *Optimizing Linux with cheap flash drives*, LWN, February
//! 2011, and the tool's README). Reading loads a page pair into the register; the next read of the same pair
//! is free of that, the other plane's page costs a little, another allocation unit costs a look-up besides.
//! Writing is fast only in open allocation units: there a write goes to the next page of a log that replaces
//! the unit. When another unit is needed and none may be opened, the one that was not written for longest is
//! closed: what its log does not hold is copied from the old unit.
//!
//! `order = "linear"`: the log holds the unit's pages in order; a write further on copies what it skips, one
//! further back closes the unit and opens it again. `"any"`: the log holds pages in any order; when it is
//! full the unit is closed and opened again.
//!
//! Everything goes one after the other, so that the parts of the time add up to `busy_ns` and to the time
//! that passed. Known limits: no discards (a card copies what the host does not need any more), no cache, no
//! wear.

use fsage_model::disk::{DiskCounter, FLASH_BYTES, FLASH_WORN};
use fsage_model::medium::sd::{Order, Parameters};

use super::Model;
use super::number::{as_f64, count, index, scale, share};
use crate::request::{Operation, Request};

/// Parameters that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SdError {
    /// An allocation unit does not hold whole pages.
    #[error("unit_bytes {unit_bytes} is not a multiple of page_bytes × planes = {pages_bytes}")]
    Unit {
        /// Unit.
        unit_bytes: u64,
        /// Pages of all planes.
        pages_bytes: u64,
    },
}

impl SdError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unit { .. } => "give whole pages of all planes to a unit",
        }
        .to_owned()
    }
}

/// A unit that is open for writing.
#[derive(Debug, Clone)]
struct Open {
    unit: u64,
    /// When it was written last, in writes.
    used: u64,
    /// Pages that the log holds of the new unit.
    written: Vec<bool>,
    distinct: u64,
    /// Pages that the log has taken, or the next page when the order is linear.
    taken: u64,
    /// The byte behind the last write: a write that continues there fills the page that is begun.
    tail: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    flash_write_bytes: u64,
    copied_bytes: u64,
    unit_opens: u64,
    unit_closes: u64,
    page_loads: u64,
    command_ns: u64,
    load_ns: u64,
    interface_ns: u64,
    program_ns: u64,
    copy_ns: u64,
    close_ns: u64,
}

impl Tally {
    const fn busy_ns(&self) -> u64 {
        self.command_ns + self.load_ns + self.interface_ns + self.program_ns + self.copy_ns + self.close_ns
    }
}

/// The model of a card.
#[derive(Debug, Clone)]
pub struct Sd {
    parameters: Parameters,
    size_bytes: u64,
    /// Bytes of a page on all planes.
    row_bytes: u64,
    rows_per_unit: u64,
    /// The page that was read last.
    register: Option<u64>,
    open: Vec<Open>,
    clock_ns: u64,
    tally: Tally,
}

impl Sd {
    /// The card of that size.
    ///
    /// # Errors
    /// When the parameters contradict each other.
    pub fn new(parameters: &Parameters, size_bytes: u64) -> Result<Self, SdError> {
        let row_bytes = parameters.page_bytes * parameters.planes;
        if row_bytes > parameters.unit_bytes || !parameters.unit_bytes.is_multiple_of(row_bytes) {
            return Err(SdError::Unit { unit_bytes: parameters.unit_bytes, pages_bytes: row_bytes });
        }
        Ok(Self {
            parameters: parameters.clone(),
            size_bytes: size_bytes.max(1),
            row_bytes,
            rows_per_unit: parameters.unit_bytes / row_bytes,
            register: None,
            open: Vec::new(),
            clock_ns: 0,
            tally: Tally::default(),
        })
    }

    fn read(&mut self, start: u64, end: u64) {
        self.tally.reads += 1;
        self.tally.read_bytes += end - start;
        self.tally.command_ns += self.parameters.read_command_ns;
        self.tally.interface_ns += scale(end - start, 1_000_000_000, self.parameters.interface_bytes_per_s);
        if start == end {
            return;
        }
        let (first, last) = (start / self.parameters.page_bytes, (end - 1) / self.parameters.page_bytes);
        let mut page = first;
        while page <= last {
            let row = page / self.parameters.planes;
            let end_of_row = ((row + 1) * self.parameters.planes - 1).min(last);
            self.load(page, row);
            self.tally.load_ns += (end_of_row - page) * self.parameters.plane_ns;
            self.register = Some(end_of_row);
            page = end_of_row + 1;
        }
    }

    /// Brings a page into the register.
    fn load(&mut self, page: u64, row: u64) {
        let planes = self.parameters.planes;
        match self.register {
            Some(last) if last == page => {}
            Some(last) if last / planes == row => self.tally.load_ns += self.parameters.plane_ns,
            last => {
                self.tally.page_loads += 1;
                self.tally.load_ns += self.parameters.load_ns;
                let unit = row / self.rows_per_unit;
                if last.is_none_or(|l| l / planes / self.rows_per_unit != unit) {
                    self.tally.load_ns += self.parameters.lookup_ns;
                }
            }
        }
    }

    fn write(&mut self, start: u64, end: u64) {
        self.tally.writes += 1;
        self.tally.write_bytes += end - start;
        self.tally.command_ns += self.parameters.write_command_ns;
        if start == end {
            return;
        }
        self.register = None;
        let (first, last) = (start / self.row_bytes, (end - 1) / self.row_bytes);
        for row in first..=last {
            let slot = self.opened(row / self.rows_per_unit);
            if row == first && !start.is_multiple_of(self.row_bytes) && self.open[slot].tail == start {
                self.program();
            } else {
                self.write_row(slot, row % self.rows_per_unit);
            }
            self.open[slot].tail = end;
        }
    }

    const fn program(&mut self) {
        self.tally.program_ns += self.parameters.program_ns;
        self.tally.flash_write_bytes += self.row_bytes;
    }

    /// The open unit's index, opening it if need be.
    fn opened(&mut self, unit: u64) -> usize {
        let used = self.tally.writes;
        if let Some(slot) = self.open.iter().position(|o| o.unit == unit) {
            self.open[slot].used = used;
            return slot;
        }
        if count(self.open.len()) >= self.parameters.open_units
            && let Some(oldest) = (0..self.open.len()).min_by_key(|i| self.open[*i].used)
        {
            self.close(oldest);
            self.open.remove(oldest);
        }
        self.tally.unit_opens += 1;
        let written = vec![false; index(self.rows_per_unit)];
        self.open.push(Open { unit, used, written, distinct: 0, taken: 0, tail: u64::MAX });
        self.open.len() - 1
    }

    /// Copies what the log does not hold, so that the log replaces the unit.
    fn close(&mut self, slot: usize) {
        let missing = self.rows_per_unit - self.open[slot].distinct;
        self.copy(missing);
        self.tally.unit_closes += 1;
        self.tally.close_ns += self.parameters.close_ns;
    }

    const fn copy(&mut self, rows: u64) {
        self.tally.copy_ns += rows * self.parameters.copy_ns;
        self.tally.copied_bytes += rows * self.row_bytes;
        self.tally.flash_write_bytes += rows * self.row_bytes;
    }

    fn write_row(&mut self, slot: usize, row: u64) {
        let full = self.open[slot].taken == self.rows_per_unit;
        let back = self.parameters.order == Order::Linear && row < self.open[slot].taken;
        if full || back {
            // A log that holds the whole unit replaces it at no cost.
            if self.open[slot].distinct < self.rows_per_unit {
                self.close(slot);
            }
            self.open[slot].restart();
        }
        if self.parameters.order == Order::Linear {
            let skipped = row - self.open[slot].taken;
            self.copy(skipped);
            self.open[slot].skip_to(row);
        }
        self.open[slot].take(row);
        self.program();
    }
}

impl Open {
    fn restart(&mut self) {
        self.written.fill(false);
        self.distinct = 0;
        self.taken = 0;
    }

    fn hold(&mut self, row: u64) {
        if let Some(written) = self.written.get_mut(index(row))
            && !std::mem::replace(written, true)
        {
            self.distinct += 1;
        }
    }

    fn skip_to(&mut self, row: u64) {
        for skipped in self.taken..row {
            self.hold(skipped);
        }
        self.taken = row;
    }

    fn take(&mut self, row: u64) {
        self.hold(row);
        self.taken += 1;
    }
}

impl Model for Sd {
    fn reads_follow_writes(&self) -> bool {
        true
    }

    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.clock_ns = self.clock_ns.max(now_ns);
        for (request, done) in batch.iter().zip(done_ns) {
            let start = request.offset_bytes.min(self.size_bytes);
            let end = request.end_bytes().min(self.size_bytes);
            let before_ns = self.tally.busy_ns();
            match request.operation {
                Operation::Read => self.read(start, end),
                Operation::Write | Operation::Zero => self.write(start, end),
                Operation::Flush | Operation::Discard => {}
            }
            self.clock_ns += self.tally.busy_ns() - before_ns;
            *done = self.clock_ns;
        }
    }

    fn counters(&self) -> Vec<DiskCounter> {
        let tally = &self.tally;
        vec![
            DiskCounter::sum("reads", "1", tally.reads),
            DiskCounter::sum("writes", "1", tally.writes),
            DiskCounter::sum("host_read_bytes", "B", tally.read_bytes),
            DiskCounter::sum("host_write_bytes", "B", tally.write_bytes),
            DiskCounter::sum("flash_write_bytes", "B", tally.flash_write_bytes),
            DiskCounter::sum(FLASH_WORN, "B", tally.flash_write_bytes),
            DiskCounter::state(FLASH_BYTES, "B", as_f64(self.size_bytes)),
            DiskCounter::sum("copied_bytes", "B", tally.copied_bytes),
            DiskCounter::sum("unit_opens", "1", tally.unit_opens),
            DiskCounter::sum("unit_closes", "1", tally.unit_closes),
            DiskCounter::state("units_open", "1", as_f64(count(self.open.len()))),
            DiskCounter::sum("page_loads", "1", tally.page_loads),
            DiskCounter::sum("command_ns", "ns", tally.command_ns),
            DiskCounter::sum("load_ns", "ns", tally.load_ns),
            DiskCounter::sum("interface_ns", "ns", tally.interface_ns),
            DiskCounter::sum("program_ns", "ns", tally.program_ns),
            DiskCounter::sum("copy_ns", "ns", tally.copy_ns),
            DiskCounter::sum("close_ns", "ns", tally.close_ns),
            DiskCounter::sum("busy_ns", "ns", tally.busy_ns()),
            DiskCounter::state("write_amplification", "1", share(tally.flash_write_bytes, tally.write_bytes)),
        ]
    }
}
