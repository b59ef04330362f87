//! The dies and the channels they hang on: when each is free, and what they did.
//!
//! A die does one thing at a time and holds data in its page register until the channel has taken it; dies on other
//! channels go on meanwhile. What the register holds stays there until the die does something else: reading it again costs
//! only the channel. `busy_ns`, summed over the dies, is `read_ns + program_ns + erase_ns + bus_ns + wait_ns`
//! without remainder: reading, programming and erasing the array, moving data over the channel, and waiting for the channel with
//! the register full. `gc_ns` is the part of it that was done for collecting.

use super::Parameters;
use super::layout::Layout;
use crate::media::number::{index, scale};

/// What the dies did, in nanoseconds summed over them unless named otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub reads: u64,
    pub programs: u64,
    pub read_bytes: u64,
    pub program_bytes: u64,
    pub read_ns: u64,
    pub program_ns: u64,
    pub erase_ns: u64,
    pub bus_ns: u64,
    pub wait_ns: u64,
    pub busy_ns: u64,
    pub gc_ns: u64,
}

/// For whom flash is read or programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Host,
    Collection,
}

#[derive(Debug, Clone)]
pub(super) struct Flash {
    die_free_ns: Vec<u64>,
    channel_free_ns: Vec<u64>,
    /// The group of pages in each die's register.
    registers: Vec<Option<u32>>,
    read_ns: u64,
    program_ns: u64,
    slc_program_ns: u64,
    erase_ns: u64,
    channel_bytes_per_s: u64,
    pub work: Work,
}

impl Flash {
    pub(super) fn new(parameters: &Parameters, layout: &Layout) -> Self {
        let channels = parameters.channels.min(u64::from(layout.dies));
        Self {
            die_free_ns: vec![0; index(u64::from(layout.dies))],
            channel_free_ns: vec![0; index(channels)],
            registers: vec![None; index(u64::from(layout.dies))],
            read_ns: parameters.read_ns,
            program_ns: parameters.program_ns,
            slc_program_ns: parameters.slc_program_ns,
            erase_ns: layout.erase_ns,
            channel_bytes_per_s: parameters.channel_bytes_per_s,
            work: Work::default(),
        }
    }

    /// When the die is free.
    fn free_ns(&mut self, die: u32) -> &mut u64 {
        let dies = self.die_free_ns.len();
        &mut self.die_free_ns[index(u64::from(die)) % dies]
    }

    fn register(&mut self, die: u32) -> &mut Option<u32> {
        let dies = self.registers.len();
        &mut self.registers[index(u64::from(die)) % dies]
    }

    /// Moves bytes over the die's channel, not before `from_ns`; gives when it began and when it is over.
    fn bus(&mut self, die: u32, from_ns: u64, bytes: u64) -> (u64, u64) {
        let channels = self.channel_free_ns.len();
        let free_ns = &mut self.channel_free_ns[index(u64::from(die)) % channels];
        let begun_ns = from_ns.max(*free_ns);
        let cost_ns = scale(bytes, 1_000_000_000, self.channel_bytes_per_s);
        *free_ns = begun_ns + cost_ns;
        self.work.bus_ns += cost_ns;
        (begun_ns, begun_ns + cost_ns)
    }

    fn busy(&mut self, from_ns: u64, until_ns: u64, of: For) {
        self.work.busy_ns += until_ns - from_ns;
        if of == For::Collection {
            self.work.gc_ns += until_ns - from_ns;
        }
    }

    /// Reads `bytes` of a group of pages; gives when they have left the die.
    pub(super) fn read(&mut self, die: u32, group: u32, bytes: u64, ready_ns: u64, of: For) -> u64 {
        let start_ns = ready_ns.max(*self.free_ns(die));
        let held = self.register(die).replace(group) == Some(group);
        let array_ns = if held { 0 } else { self.read_ns };
        let read_ns = start_ns + array_ns;
        let (begun_ns, over_ns) = self.bus(die, read_ns, bytes);
        *self.free_ns(die) = over_ns;
        self.work.reads += 1;
        self.work.read_bytes += bytes;
        self.work.read_ns += array_ns;
        self.work.wait_ns += begun_ns - read_ns;
        self.busy(start_ns, over_ns, of);
        over_ns
    }

    /// Programs `bytes`; gives when they are safe.
    pub(super) fn program(&mut self, die: u32, bytes: u64, slc: bool, ready_ns: u64, of: For) -> u64 {
        let start_ns = ready_ns.max(*self.free_ns(die));
        let (begun_ns, moved_ns) = self.bus(die, start_ns, bytes);
        let program_ns = if slc { self.slc_program_ns } else { self.program_ns };
        let over_ns = moved_ns + program_ns;
        *self.free_ns(die) = over_ns;
        *self.register(die) = None;
        self.work.programs += 1;
        self.work.program_bytes += bytes;
        self.work.program_ns += program_ns;
        self.work.wait_ns += begun_ns - start_ns;
        self.busy(start_ns, over_ns, of);
        over_ns
    }

    /// Erases the die's part of a block.
    pub(super) fn erase(&mut self, die: u32, ready_ns: u64) {
        let start_ns = ready_ns.max(*self.free_ns(die));
        let over_ns = start_ns + self.erase_ns;
        *self.free_ns(die) = over_ns;
        *self.register(die) = None;
        self.work.erase_ns += self.erase_ns;
        self.busy(start_ns, over_ns, For::Collection);
    }
}
