//! A solid state drive: dies behind channels, a translation layer, garbage collection, wear levelling, trim,
//! a write buffer and a part that holds one bit a cell.
//!
//! Parts: `layout` (sizes), `flash` (dies in time), `channel` (what they share), `ftl` (where data is), `gc`
//! (emptying blocks), `wear` (levelling), `cache` (the write buffer), `map` (which part of the map is at hand), `idle`
//! (what is done while nobody asks), [`theory`] (what write amplification
//! should be).
//!
//! **Time.** Commands are taken in one after the other; from then on everything that can go in parallel does:
//! reads of one request and of a whole batch spread over dies and channels, writes are answered when the
//! buffer has them and programmed beside what follows. Dies have queues of their own: host writes and
//! collecting continue side by side, and a read waits for what its die is doing but not for what that has
//! been asked to do. A flush, and a forced write (FUA), wait for flash unless the buffer is protected against
//! power loss; what does not fill a page by then is padded, which is counted as written.
//!
//! **Room.** `flash_write_bytes / host_write_bytes` is the write amplification; [`theory`] has the formula
//! that the model is checked against. Trimmed data is not moved; with `discards = "ignored"` the drive never
//! learns.
//!
//! **Places.** What is written in sequence goes to one die after the other, `planes × page_bytes` to each, in the
//! order of writing. So data that was written together is read from all dies at once; what was written at different
//! times lies where it happened to, and some dies have more of it than others.
//!
//! Known limits: no read-ahead beyond the page in a die's register, programming is not suspended for reads,
//! blocks do not wear out; with `map_cache_bytes = 0` the map costs nothing.

mod cache;
mod channel;
mod condition;
mod flash;
mod ftl;
mod gc;
mod idle;
mod layout;
mod map;
#[cfg(test)]
mod tests;
pub mod theory;
mod wear;

use fsage_model::disk::{COLLECTIONS, DiskCounter, FLASH_BYTES, FLASH_WORN};
use fsage_model::medium::ssd::{Collection, Discards, Flushes, Folding, Parameters};

use self::flash::{Flash, For, Task};
use self::ftl::{Ftl, Group, NONE, OLD, Stream};
use self::gc::Collector;
use self::layout::Layout;
use self::map::{MapCache, SEGMENT_UNITS};
use super::Model;
use super::interface::Interface;
use super::number::{as_f64, share};
use crate::request::{Operation, Request};

/// The last piece of a read is on the interface after it left the flash.
const LAST_PIECE_BYTES: u64 = 4096;

/// Parameters that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SsdError {
    /// A page does not hold whole units.
    #[error("page_bytes {page_bytes} is not a multiple of mapping_bytes {mapping_bytes}")]
    Page {
        /// Page.
        page_bytes: u64,
        /// Unit.
        mapping_bytes: u64,
    },
    /// The map counts to 2^32.
    #[error("{units} units of {mapping_bytes} B are more than the map can hold")]
    Units {
        /// Units of flash.
        units: u64,
        /// Bytes of a unit.
        mapping_bytes: u64,
    },
    /// More blocks than are kept.
    #[error("{blocks} blocks are more than the {limit} that a model has")]
    Blocks {
        /// Blocks of all dies with one number.
        blocks: u64,
        /// The most.
        limit: u64,
    },
}

impl SsdError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Page { .. } => "give whole units to a page",
            Self::Blocks { .. } => "give a larger pages_per_block, or a smaller disk",
            Self::Units { .. } => "give a larger mapping_bytes, and page_bytes with it",
        }
        .to_owned()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    reads: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    read_bytes: u64,
    write_bytes: u64,
    trimmed_bytes: u64,
    padded_bytes: u64,
    merge_reads: u64,
    buffer_hits: u64,
    unmapped_reads: u64,
    command_ns: u64,
    elapsed_ns: u64,
}

/// The model of a solid state drive.
#[derive(Debug, Clone)]
pub struct Ssd {
    size_bytes: u64,
    interface: Interface,
    command_ns: u64,
    write_command_ns: u64,
    read_latency_ns: u64,
    write_latency_ns: u64,
    idle_ns: u64,
    through: bool,
    protected: bool,
    trims: bool,
    ftl: Ftl,
    flash: Flash,
    collector: Collector,
    /// Nothing when all of the map is at hand.
    map: Option<MapCache>,
    /// When the last requests came.
    now_ns: u64,
    /// When the controller is free to take in a command.
    taken_in_ns: u64,
    /// The latest answer.
    answered_ns: u64,
    tally: Tally,
}

impl Ssd {
    /// The drive of that size.
    ///
    /// # Errors
    /// When the parameters contradict each other or the size.
    pub fn new(parameters: &Parameters, size_bytes: u64) -> Result<Self, SsdError> {
        let (page_bytes, mapping_bytes) = (parameters.page_bytes, parameters.mapping_bytes);
        if page_bytes < mapping_bytes || !page_bytes.is_multiple_of(mapping_bytes) {
            return Err(SsdError::Page { page_bytes, mapping_bytes });
        }
        let layout = Layout::new(parameters, size_bytes)?;
        let mut ftl = Ftl::new(layout);
        condition::prepare(&mut ftl, parameters);
        Ok(Self {
            size_bytes: size_bytes.max(1),
            interface: Interface::new(parameters.interface_bytes_per_s),
            command_ns: parameters.command_ns,
            write_command_ns: parameters.write_command_ns,
            idle_ns: parameters.idle_ns,
            map: MapCache::new(parameters.map_cache_bytes, layout.units),
            read_latency_ns: parameters.read_latency_ns,
            write_latency_ns: parameters.write_latency_ns,
            through: parameters.write_cache_bytes == 0,
            protected: parameters.flushes == Flushes::Protected,
            trims: parameters.discards == Discards::Honoured,
            ftl,
            flash: Flash::new(parameters, &layout),
            collector: Collector::new(parameters.collection, parameters.wear_threshold, parameters.folding),
            now_ns: 0,
            taken_in_ns: 0,
            answered_ns: 0,
            tally: Tally::default(),
        })
    }

    /// The units that a range touches: first, and the first behind it.
    fn units(&self, request: &Request) -> (u32, u32) {
        let bytes = self.ftl.layout.unit_bytes;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(NONE).min(self.ftl.layout.units);
        (narrow(request.offset_bytes / bytes), narrow(request.end_bytes().div_ceil(bytes)))
    }

    fn read(&mut self, request: &Request, ready_ns: u64) -> u64 {
        let (first, end) = self.units(request);
        let (mut read_ns, mut known_ns) = (ready_ns, ready_ns);
        let mut run: Option<(u32, u64)> = None;
        for unit in first..end {
            if self.map.is_some() && (unit == first || unit.is_multiple_of(SEGMENT_UNITS)) {
                let found_ns = self.looked_up(unit, ready_ns, false);
                read_ns = read_ns.max(self.read_group(run.take(), known_ns));
                known_ns = found_ns;
            }
            let (place, is_old) = match self.ftl.place(unit) {
                OLD => (self.ftl.old_place(unit), true),
                place => (place, false),
            };
            if place == NONE {
                self.tally.unmapped_reads += 1;
            } else if !is_old && self.ftl.is_buffered(place) {
                self.tally.buffer_hits += 1;
            } else {
                let (bytes, group) = (self.ftl.layout.unit_bytes, self.ftl.layout.group(place));
                run = match run {
                    Some((of, so_far)) if of == group => Some((of, so_far + bytes)),
                    other => {
                        read_ns = read_ns.max(self.read_group(other, known_ns));
                        Some((group, bytes))
                    }
                };
            }
        }
        read_ns = read_ns.max(self.read_group(run, known_ns));
        // Data goes to the host while the rest is read; only the last piece comes after.
        let over_ns = self.interface.pass(ready_ns, request.length_bytes);
        let last = request.length_bytes.min(LAST_PIECE_BYTES);
        let last_ns = if read_ns > ready_ns { self.interface.cost_ns(last) } else { 0 };
        over_ns.max(read_ns + last_ns)
    }

    /// Reads so many bytes of a group of pages; gives when they have left the die.
    fn read_group(&mut self, run: Option<(u32, u64)>, ready_ns: u64) -> u64 {
        let Some((group, bytes)) = run else { return ready_ns };
        let die = self.ftl.layout.die(group * self.ftl.layout.units_per_group);
        self.flash.read(die, group, bytes, ready_ns).unwrap_or_else(|| {
            self.tally.buffer_hits += bytes / self.ftl.layout.unit_bytes;
            ready_ns
        })
    }

    fn write(&mut self, request: &Request, ready_ns: u64) -> u64 {
        if request.length_bytes == 0 {
            return ready_ns;
        }
        let mut in_ns = ready_ns;
        if request.operation == Operation::Write {
            in_ns = self.interface.pass(ready_ns, request.length_bytes);
        }
        in_ns = self.flash.room_ns(request.length_bytes, in_ns);
        let (first, end) = self.units(request);
        let bytes = self.ftl.layout.unit_bytes;
        // A unit that is covered only in part is read first.
        let begins_within = !request.offset_bytes.is_multiple_of(bytes);
        let ends_within = !request.end_bytes().is_multiple_of(bytes) && request.end_bytes() < self.size_bytes;
        let mut merged_ns = in_ns;
        if begins_within || (ends_within && end - first == 1) {
            merged_ns = self.merge(first, in_ns);
        }
        if ends_within && end - first > 1 {
            merged_ns = merged_ns.max(self.merge(end - 1, in_ns));
        }
        let waits = self.through || (request.fua && !self.protected);
        let mut safe_ns = merged_ns;
        for unit in first..end {
            if unit == first || unit.is_multiple_of(SEGMENT_UNITS) {
                // The answer does not wait for it, the die does.
                self.looked_up(unit, merged_ns, true);
            }
            if let Some(die) = self.write_unit(unit, merged_ns)
                && waits
            {
                safe_ns = safe_ns.max(self.flash.safe_ns(die));
            }
        }
        if waits {
            for die in self.program_rest(merged_ns).into_iter().flatten() {
                safe_ns = safe_ns.max(self.flash.safe_ns(die));
            }
            return safe_ns;
        }
        in_ns
    }

    /// Reads the unit that is written in part.
    fn merge(&mut self, unit: u32, now_ns: u64) -> u64 {
        let place = match self.ftl.place(unit) {
            OLD => self.ftl.old_place(unit),
            NONE => return now_ns,
            place if self.ftl.is_buffered(place) => return now_ns,
            place => place,
        };
        self.tally.merge_reads += 1;
        self.read_group(Some((self.ftl.layout.group(place), self.ftl.layout.unit_bytes)), now_ns)
    }

    /// Writes one unit; gives the die that programs the group that it filled.
    fn write_unit(&mut self, unit: u32, now_ns: u64) -> Option<u32> {
        let slc = self.ftl.has_room(Stream::Slc) || !self.ftl.slc_is_full();
        let stream = if slc { Stream::Slc } else { Stream::Host };
        if !self.ftl.has_room(stream) {
            while stream == Stream::Host
                && self.ftl.free.len() <= gc::KEPT_BLOCKS
                && self.collector.now(&mut self.ftl, &mut self.flash, now_ns)
            {}
            if let Some(block) = wear::erased_for(&self.ftl, stream) {
                self.ftl.open(stream, block);
            }
        }
        let die = self.ftl.append(stream, unit).map(|group| self.program(group, stream, now_ns));
        self.collector.beside(&mut self.ftl, &mut self.flash, now_ns);
        die
    }

    /// Has a group programmed; gives the die that does it.
    fn program(&mut self, group: Group, stream: Stream, now_ns: u64) -> u32 {
        let layout = &self.ftl.layout;
        let pages = group.used.div_ceil(layout.units_per_page);
        let bytes = u64::from(pages * layout.units_per_page) * layout.unit_bytes;
        self.tally.padded_bytes += bytes - u64::from(group.used) * layout.unit_bytes;
        let die = layout.die(group.place);
        let task = Task::Program { group: layout.group(group.place), bytes, slc: stream == Stream::Slc };
        let buffered_bytes = u64::from(group.used) * layout.unit_bytes;
        self.flash.ask(die, task, now_ns, For::Host, buffered_bytes);
        die
    }

    /// Pads and programs what does not fill a group; gives the dies that do it.
    fn program_rest(&mut self, now_ns: u64) -> [Option<u32>; 2] {
        [Stream::Host, Stream::Slc]
            .map(|stream| self.ftl.pad(stream).map(|group| self.program(group, stream, now_ns)))
    }

    fn flush(&mut self, ready_ns: u64) -> u64 {
        if self.protected {
            return ready_ns;
        }
        self.program_rest(ready_ns);
        ready_ns.max(self.flash.all_safe_ns())
    }

    fn discard(&mut self, request: &Request) {
        if !self.trims {
            return;
        }
        let bytes = self.ftl.layout.unit_bytes;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(NONE).min(self.ftl.layout.units);
        // Only units that are covered whole; the last one of the drive may be short.
        let end = if request.end_bytes() >= self.size_bytes {
            self.size_bytes.div_ceil(bytes)
        } else {
            request.end_bytes() / bytes
        };
        let (first, end) = (narrow(request.offset_bytes.div_ceil(bytes)), narrow(end));
        if first < end {
            self.tally.trimmed_bytes += self.ftl.trim_range(first, end) * bytes;
        }
    }

    fn request(&mut self, request: &Request, ready_ns: u64) -> u64 {
        match request.operation {
            Operation::Read => {
                self.tally.reads += 1;
                self.tally.read_bytes += request.length_bytes;
                self.read(request, ready_ns)
            }
            Operation::Write | Operation::Zero => {
                self.tally.writes += 1;
                self.tally.write_bytes += request.length_bytes;
                self.write(request, ready_ns)
            }
            Operation::Flush => {
                self.tally.flushes += 1;
                self.flush(ready_ns)
            }
            Operation::Discard => {
                self.tally.discards += 1;
                self.discard(request);
                ready_ns
            }
        }
    }

    fn flash_counters(&self) -> Vec<DiskCounter> {
        let (work, gc) = (&self.flash.work, &self.collector.tally);
        let slc = wear::spread(&self.ftl.blocks[self.ftl.blocks.len() - slc_blocks(&self.ftl)..]);
        vec![
            DiskCounter::sum("flash_read_bytes", "B", work.read_bytes),
            DiskCounter::sum("flash_write_bytes", "B", work.program_bytes),
            DiskCounter::sum("flash_reads", "1", work.reads),
            DiskCounter::sum("flash_programs", "1", work.programs),
            DiskCounter::sum("read_ns", "ns", work.read_ns),
            DiskCounter::sum("program_ns", "ns", work.program_ns),
            DiskCounter::sum("erase_ns", "ns", work.erase_ns),
            DiskCounter::sum("bus_ns", "ns", work.bus_ns),
            DiskCounter::sum("bus_wait_ns", "ns", work.wait_ns),
            DiskCounter::sum("busy_ns", "ns", work.busy_ns),
            DiskCounter::sum("gc_ns", "ns", work.gc_ns),
            DiskCounter::sum(COLLECTIONS, "1", gc.collections),
            DiskCounter::sum("gc_moves", "1", gc.moves),
            DiskCounter::sum("levelling_moves", "1", gc.levelling_moves),
            DiskCounter::sum("slc_folds", "1", gc.folds),
            DiskCounter::sum("slc_fold_moves", "1", gc.fold_moves),
            DiskCounter::sum("slc_erases", "1", slc.total),
            DiskCounter::sum("map_reads", "1", self.map.as_ref().map_or(0, |map| map.reads)),
            DiskCounter::sum("map_writes", "1", self.map.as_ref().map_or(0, |map| map.writes)),
            DiskCounter::sum(FLASH_WORN, "B", work.worn_groups * self.ftl.layout.group_bytes()),
            DiskCounter::state(FLASH_BYTES, "B", as_f64(self.ftl.layout.main_bytes())),
            DiskCounter::state("mapped_bytes", "B", as_f64(self.ftl.mapped * self.ftl.layout.unit_bytes)),
        ]
    }
}

fn slc_blocks(ftl: &Ftl) -> usize {
    super::number::index(u64::from(ftl.layout.slc_blocks))
}

impl Model for Ssd {
    fn reads_follow_writes(&self) -> bool {
        true
    }

    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.now_ns = self.now_ns.max(now_ns);
        self.idle(self.now_ns);
        self.flash.forget(self.now_ns);
        let before_ns = self.answered_ns.max(self.now_ns);
        self.taken_in_ns = self.taken_in_ns.max(self.now_ns);
        for (request, done) in batch.iter().zip(done_ns) {
            let request = request.within(self.size_bytes);
            let (command_ns, latency_ns) = match request.operation {
                Operation::Read => (self.command_ns, self.read_latency_ns),
                _ => (self.write_command_ns, self.write_latency_ns),
            };
            self.taken_in_ns += command_ns;
            self.tally.command_ns += command_ns;
            *done = self.request(&request, self.taken_in_ns + latency_ns);
            self.answered_ns = self.answered_ns.max(*done);
        }
        self.tally.elapsed_ns += self.answered_ns.max(before_ns) - before_ns;
    }

    fn counters(&self) -> Vec<DiskCounter> {
        let tally = &self.tally;
        let wear = wear::spread(&self.ftl.blocks[..self.ftl.blocks.len() - slc_blocks(&self.ftl)]);
        let amplification = share(self.flash.work.program_bytes, tally.write_bytes);
        let mut counters = vec![
            DiskCounter::sum("reads", "1", tally.reads),
            DiskCounter::sum("writes", "1", tally.writes),
            DiskCounter::sum("flushes", "1", tally.flushes),
            DiskCounter::sum("discards", "1", tally.discards),
            DiskCounter::sum("host_read_bytes", "B", tally.read_bytes),
            DiskCounter::sum("host_write_bytes", "B", tally.write_bytes),
            DiskCounter::sum("trimmed_bytes", "B", tally.trimmed_bytes),
            DiskCounter::sum("padded_bytes", "B", tally.padded_bytes),
            DiskCounter::sum("merge_reads", "1", tally.merge_reads),
            DiskCounter::sum("buffer_hits", "1", tally.buffer_hits),
            DiskCounter::sum("unmapped_reads", "1", tally.unmapped_reads),
            DiskCounter::sum("command_ns", "ns", tally.command_ns),
            DiskCounter::sum("interface_ns", "ns", self.interface.busy_ns),
            DiskCounter::sum("elapsed_ns", "ns", tally.elapsed_ns),
            DiskCounter::sum("erases", "1", wear.total),
            DiskCounter::state("erases_min", "1", as_f64(wear.least)),
            DiskCounter::state("erases_max", "1", as_f64(wear.most)),
        ];
        counters.extend(self.flash_counters());
        counters.extend([
            DiskCounter::state("erases_mean", "1", wear.mean),
            DiskCounter::state("erases_deviation", "1", wear.deviation),
            DiskCounter::state("write_amplification", "1", amplification),
        ]);
        counters
    }
}
