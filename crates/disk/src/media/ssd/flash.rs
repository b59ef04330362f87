//! The dies and the channels they hang on: what each is asked to do, when it does it, and what all did.
//!
//! A die does one thing at a time. Programs, erasures and the reads of collecting wait in its queue, first
//! come, first served: that keeps a block's erasure before what is programmed into it. The host's reads go
//! before the queue, as soon as the die is done with what it does. Dies are independent of each other but for
//! their channel, so host writes and collecting continue in parallel wherever they meet different dies.
//!
//! A die holds data in its page register until the channel has taken it; what the register holds stays there
//! until the die does something else: reading it again costs only the channel. Data that waits to be
//! programmed is read from the buffer.
//!
//! `busy_ns`, summed over the dies, is `read_ns + program_ns + erase_ns + bus_ns + wait_ns` without
//! remainder: reading, programming and erasing the array, moving data over the channel, and waiting for the
//! channel with the register full. `gc_ns` is the part of it that was done for collecting. Time is counted
//! when a die begins, bytes when the work is decided.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fsage_model::medium::ssd::Parameters;

use super::cache::WriteBuffer;
use super::channel::Channel;
use super::layout::Layout;
use crate::media::number::{index, scale};

/// Transfers that a channel may remember before it is asked to forget.
const REMEMBERED: usize = 64;

/// What the dies did, in nanoseconds summed over them unless named otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub reads: u64,
    pub programs: u64,
    pub read_bytes: u64,
    pub program_bytes: u64,
    /// Groups of pages that were programmed, also in part, without those of flash with one bit a cell: what
    /// is left of a group is not programmed later.
    pub worn_groups: u64,
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

/// What a die is asked to do with a group of its pages, or with its part of a block.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    Read { group: u32, bytes: u64 },
    Program { group: u32, bytes: u64, slc: bool },
    Erase,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    task: Task,
    of: For,
    ready_ns: u64,
    /// Bytes that leave the write buffer with it.
    buffered_bytes: u64,
}

#[derive(Debug, Clone, Default)]
struct Die {
    free_ns: u64,
    /// The group of pages in its register.
    register: Option<u32>,
    /// The group that it was programming last.
    programming: Option<u32>,
    queue: VecDeque<Job>,
    /// Programs for the host in the queue.
    host_programs: u32,
    /// Whether `starts` has it.
    listed: bool,
}

impl Die {
    /// When it can begin with the first of its queue.
    fn start_ns(&self) -> Option<u64> {
        self.queue.front().map(|job| job.ready_ns.max(self.free_ns))
    }

    /// Whether the group waits to be programmed, or is being programmed.
    fn holds_back(&self, of: u32, now_ns: u64) -> bool {
        (self.free_ns > now_ns && self.programming == Some(of))
            || self.queue.iter().any(|job| matches!(job.task, Task::Program { group, .. } if group == of))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Flash {
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// When a die can begin with the first of its queue, or earlier, by time.
    starts: BinaryHeap<Reverse<(u64, usize)>>,
    buffer: WriteBuffer,
    read_ns: u64,
    slc_read_ns: u64,
    /// The first group of the part with one bit a cell; behind it is the map.
    slc_group: u32,
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
            dies: vec![Die::default(); index(u64::from(layout.dies))],
            channels: vec![Channel::default(); index(channels)],
            starts: BinaryHeap::new(),
            buffer: WriteBuffer::new(parameters.write_cache_bytes),
            read_ns: parameters.read_ns,
            slc_read_ns: parameters.slc_read_ns,
            slc_group: layout.group(layout.blocks * layout.units_per_block),
            program_ns: parameters.program_ns,
            slc_program_ns: parameters.slc_program_ns,
            erase_ns: layout.erase_ns,
            channel_bytes_per_s: parameters.channel_bytes_per_s,
            work: Work::default(),
        }
    }

    fn number(&self, die: u32) -> usize {
        index(u64::from(die)) % self.dies.len()
    }

    /// No request comes before `now_ns` any more.
    pub(super) fn forget(&mut self, now_ns: u64) {
        self.advance(now_ns);
        for channel in &mut self.channels {
            channel.forget(now_ns);
        }
    }

    /// Begins everything that can begin until `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        while let Some(Reverse((start_ns, number))) = self.starts.peek().copied() {
            if start_ns > now_ns {
                return;
            }
            self.starts.pop();
            self.dies[number].listed = false;
            // A read of the host may have come between.
            if self.dies[number].start_ns() == Some(start_ns) {
                self.begin(number);
            }
            self.list(number);
        }
    }

    fn list(&mut self, number: usize) {
        let die = &mut self.dies[number];
        if let Some(start_ns) = die.start_ns()
            && !std::mem::replace(&mut die.listed, true)
        {
            self.starts.push(Reverse((start_ns, number)));
        }
    }

    /// Since when no die has anything to do, if that is so before `now_ns`.
    pub(super) fn quiet_ns(&mut self, now_ns: u64) -> Option<u64> {
        self.advance(now_ns);
        let quiet_ns = self.dies.iter().map(|die| die.free_ns).max().unwrap_or(0);
        (self.starts.is_empty() && quiet_ns < now_ns).then_some(quiet_ns)
    }

    /// Has all queues worked off; gives when they are.
    pub(super) fn finish_ns(&mut self) -> u64 {
        self.advance(u64::MAX);
        self.dies.iter().map(|die| die.free_ns).max().unwrap_or(0)
    }

    /// Asks a die for something, not before `ready_ns`. Of what is programmed, `buffered_bytes` wait in the
    /// write buffer.
    pub(super) fn ask(&mut self, die: u32, task: Task, ready_ns: u64, of: For, buffered_bytes: u64) {
        match task {
            Task::Read { bytes, .. } => self.count_read(bytes),
            Task::Program { bytes, slc, .. } => {
                self.work.programs += 1;
                self.work.program_bytes += bytes;
                self.work.worn_groups += u64::from(!slc);
            }
            Task::Erase => {}
        }
        self.buffer.push(buffered_bytes);
        let number = self.number(die);
        let entry = &mut self.dies[number];
        entry.host_programs += u32::from(buffered_bytes > 0);
        entry.queue.push_back(Job { task, of, ready_ns, buffered_bytes });
        self.list(number);
    }

    const fn count_read(&mut self, bytes: u64) {
        self.work.reads += 1;
        self.work.read_bytes += bytes;
    }

    /// The die begins with the first of its queue.
    fn begin(&mut self, number: usize) {
        let die = &mut self.dies[number];
        let Some(start_ns) = die.start_ns() else { return };
        let Some(job) = die.queue.pop_front() else { return };
        match job.task {
            Task::Read { group, bytes } => {
                self.read_at(number, group, bytes, start_ns, job.of);
            }
            Task::Program { group, bytes, slc } => {
                let done_ns = self.program_at(number, group, bytes, slc, start_ns, job.of);
                if job.buffered_bytes > 0 {
                    self.dies[number].host_programs -= 1;
                    self.buffer.begin(done_ns, job.buffered_bytes);
                }
            }
            Task::Erase => {
                die.register = None;
                die.free_ns = start_ns + self.erase_ns;
                self.work.erase_ns += self.erase_ns;
                self.busy(start_ns, start_ns + self.erase_ns, job.of);
            }
        }
    }

    /// Moves bytes over the die's channel, not before `from_ns`; gives when that is over.
    fn bus(&mut self, number: usize, from_ns: u64, bytes: u64) -> u64 {
        let channels = self.channels.len();
        let channel = number % channels;
        if self.channels[channel].remembered() >= REMEMBERED {
            // Who asks at one moment for more than was done by then lets the clock stand still: no die goes
            // back behind what it has been asked to do.
            let dies = self.dies.iter().skip(channel).step_by(channels);
            let floor_ns = dies.map(|die| die.free_ns).min().unwrap_or(0);
            self.channels[channel].forget(floor_ns);
        }
        let cost_ns = scale(bytes, 1_000_000_000, self.channel_bytes_per_s);
        let begun_ns = self.channels[channel].take(from_ns, cost_ns);
        self.work.bus_ns += cost_ns;
        self.work.wait_ns += begun_ns - from_ns;
        begun_ns + cost_ns
    }

    fn busy(&mut self, from_ns: u64, until_ns: u64, of: For) {
        self.work.busy_ns += until_ns - from_ns;
        if of == For::Collection {
            self.work.gc_ns += until_ns - from_ns;
        }
    }

    fn read_at(&mut self, number: usize, group: u32, bytes: u64, start_ns: u64, of: For) -> u64 {
        let held = self.dies[number].register.replace(group) == Some(group);
        let array_ns = match held {
            true => 0,
            false if group >= self.slc_group => self.slc_read_ns,
            false => self.read_ns,
        };
        let over_ns = self.bus(number, start_ns + array_ns, bytes);
        self.dies[number].free_ns = over_ns;
        self.dies[number].programming = None;
        self.work.read_ns += array_ns;
        self.busy(start_ns, over_ns, of);
        over_ns
    }

    fn program_at(
        &mut self,
        number: usize,
        group: u32,
        bytes: u64,
        slc: bool,
        start_ns: u64,
        of: For,
    ) -> u64 {
        let program_ns = if slc { self.slc_program_ns } else { self.program_ns };
        let over_ns = self.bus(number, start_ns, bytes) + program_ns;
        let die = &mut self.dies[number];
        die.free_ns = over_ns;
        die.register = None;
        die.programming = Some(group);
        self.work.program_ns += program_ns;
        self.busy(start_ns, over_ns, of);
        over_ns
    }

    /// The host reads `bytes` of a group of pages; gives when they have left the die, and nothing when the
    /// group is not on flash yet.
    pub(super) fn read(&mut self, die: u32, group: u32, bytes: u64, ready_ns: u64) -> Option<u64> {
        self.advance(ready_ns);
        let number = self.number(die);
        if self.dies[number].holds_back(group, ready_ns) {
            return None;
        }
        self.count_read(bytes);
        let start_ns = ready_ns.max(self.dies[number].free_ns);
        Some(self.read_at(number, group, bytes, start_ns, For::Host))
    }

    /// When the write buffer has room for that many bytes, not before `now_ns`.
    pub(super) fn room_ns(&mut self, bytes: u64, now_ns: u64) -> u64 {
        self.advance(now_ns);
        self.buffer.release(now_ns);
        let mut room_ns = now_ns;
        while !self.buffer.has_room(bytes) {
            let start_ns = self.starts.peek().map(|Reverse((ns, _))| *ns);
            match (start_ns, self.buffer.next_done_ns()) {
                (Some(start_ns), done_ns) if done_ns.is_none_or(|d| start_ns < d) => self.advance(start_ns),
                (_, Some(done_ns)) => {
                    room_ns = room_ns.max(done_ns);
                    self.buffer.release(done_ns);
                }
                _ => break,
            }
        }
        room_ns
    }

    /// When everything of the host that a die was asked to program is on flash.
    pub(super) fn safe_ns(&mut self, die: u32) -> u64 {
        let number = self.number(die);
        while self.dies[number].host_programs > 0 {
            self.begin(number);
        }
        self.dies[number].free_ns
    }

    /// The same for all dies.
    pub(super) fn all_safe_ns(&mut self) -> u64 {
        for number in 0..self.dies.len() {
            while self.dies[number].host_programs > 0 {
                self.begin(number);
            }
        }
        self.buffer.safe_ns
    }
}
