//! A hard disk: arm, platters, buffer, command queue.
//!
//! Follows Ruemmler and Wilkes (*An introduction to disk drive modeling*, IEEE Computer 27(3), 1994): zoned
//! geometry, a seek curve in two parts, settling, head switches, rotation by angle, read-ahead and write
//! caching; to it come a command queue (shortest positioning time first) and elevator destaging. Parts:
//! `geometry`, `seek`, `mechanism`, `cache`, `queue`, `head`; `shingle` and `place` for tracks that overlap.
//!
//! **Time.** The mechanism does one thing at a time; the electronics take commands in and move data over the
//! interface beside it. The mechanism's time is split without remainder: `busy_ns = seek_ns + settle_ns +
//! switch_ns + rotation_ns + transfer_ns`. Time of reading ahead is counted when the data is asked for.
//!
//! **Writes** go to the buffer unless it is switched off or they are forced (FUA). Once more than half of it
//! waits, the mechanism destages beside the host's commands, always the next range inwards from the head (a
//! one-way elevator); a write that finds no room waits for it. A flush destages everything. Below half,
//! nothing is destaged without a flush: no time passes between commands in which an idle disk would do it.
//!
//! **Bands.** A disk whose tracks overlap (`band_bytes`) puts what does not continue or replace a band into a
//! persistent cache, and cleans bands when that is full, or when no request came for `idle_ns`. Only such a disk
//! does something in idle time.
//!
//! **Size.** The disk has the capacity, the zones and the stroke that its parameters describe; a volume is a
//! partition of it, whatever its size.
//!
//! Known limits: interface transfers of one command do not overlap with the mechanism's work on the same
//! command except for streaming reads; no thermal recalibration, no defects, no power saving; discards cost
//! only the command.

mod cache;
mod geometry;
mod head;
mod mechanism;
mod place;
mod queue;
mod seek;
mod shingle;

use fsage_model::disk::DiskCounter;
use fsage_model::medium::hdd::{Arrival, Parameters};

use self::cache::{ReadCache, WriteCache};
use self::geometry::Location;
use self::head::ReadingHead;
use self::mechanism::Mechanism;
use self::queue::{Queue, Waiting};
pub use self::seek::Points;
use self::shingle::Shingle;
use super::Model;
use super::interface::Interface;
use super::number::{as_f64, scale};
use crate::request::{Operation, Request};

/// Most bytes that are destaged in one go, before a read may come in between.
const DESTAGE_BYTES: u64 = 1 << 20;

/// The last piece of a read is on the interface after it left the platter.
const LAST_PIECE_BYTES: u64 = 4096;

/// Parameters that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HddError {
    /// The seek times do not lie on a rising curve.
    #[error(
        "no rising seek curve before {before} has {} ns to the next track, {} ns on average and {} ns over the full stroke",
        .points.track_to_track_ns, .points.average_ns, .points.full_stroke_ns
    )]
    SeekCurve {
        /// Reads or writes.
        before: &'static str,
        /// What the curve should go through.
        points: Points,
    },
    /// The inner tracks are longer than the outer ones.
    #[error("inner_track_bytes {inner} is more than outer_track_bytes {outer}")]
    Tracks {
        /// Inner.
        inner: u64,
        /// Outer.
        outer: u64,
    },
    /// More zones than cylinders.
    #[error("{zones} zones in {cylinders} cylinders")]
    Zones {
        /// Zones.
        zones: u64,
        /// Cylinders.
        cylinders: u64,
    },
    /// The persistent cache does not hold what cleaning a band needs.
    #[error("media_cache_bytes {cache_bytes} has no room for two bands of band_bytes {band_bytes}")]
    Cache {
        /// The cache.
        cache_bytes: u64,
        /// A band.
        band_bytes: u64,
    },
    /// A transfer cannot follow the skew.
    #[error("{switch} of {switch_ns} ns is a turn of the platters ({turn_ns} ns) or more")]
    Skew {
        /// Which parameter.
        switch: &'static str,
        /// Its value.
        switch_ns: u64,
        /// One turn.
        turn_ns: u64,
    },
}

impl HddError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::SeekCurve { .. } => {
                "the average is about a third of the way from the next track to the full stroke, or more; seek_knee_permille bends the curve"
            }
            Self::Tracks { .. } => "the outer tracks are the longer ones",
            Self::Zones { .. } => "give at most as many zones as cylinders",
            Self::Cache { .. } => "give a larger media_cache_bytes, or smaller bands",
            Self::Skew { .. } => "give a shorter switch",
        }
        .to_owned()
    }
}

/// What the buffer and the electronics did.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    reads: u64,
    writes: u64,
    flushes: u64,
    read_bytes: u64,
    write_bytes: u64,
    command_ns: u64,
    cache_hits: u64,
    cached_writes: u64,
    cache_destages: u64,
    destaged_bytes: u64,
    elapsed_ns: u64,
}

/// The model of a hard disk.
#[derive(Debug, Clone)]
pub struct Hdd {
    size_bytes: u64,
    /// With the persistent cache.
    platter_bytes: u64,
    command_ns: u64,
    interface: Interface,
    write_cache_bytes: u64,
    mechanism: Mechanism,
    read_cache: ReadCache,
    write_cache: WriteCache,
    queue: Queue,
    shingle: Option<Box<Shingle>>,
    reads_on_arrival: bool,
    /// The end of the last range that the write buffer took in.
    buffered_to: u64,
    /// When the last requests came.
    now_ns: u64,
    /// When the electronics are free to take in a command.
    taken_in_ns: u64,
    /// The latest answer.
    answered_ns: u64,
    /// Since when more than half of the write buffer waits.
    pressed_ns: u64,
    tally: Tally,
}

impl Hdd {
    /// The disk, which holds `size_bytes`.
    ///
    /// # Errors
    /// When the parameters contradict each other.
    pub fn new(parameters: &Parameters, size_bytes: u64) -> Result<Self, HddError> {
        check(parameters)?;
        Ok(Self {
            size_bytes,
            platter_bytes: size_bytes.saturating_add(parameters.cache_on_media_bytes()),
            command_ns: parameters.command_ns,
            interface: Interface::new(parameters.interface_bytes_per_s),
            write_cache_bytes: parameters.write_cache_bytes,
            mechanism: Mechanism::new(parameters)?,
            read_cache: ReadCache::new(parameters.read_cache_bytes, parameters.read_segments),
            write_cache: WriteCache::default(),
            queue: Queue::new(parameters.queue_depth, parameters.queue_patience),
            shingle: Shingle::new(parameters, size_bytes).map(Box::new),
            reads_on_arrival: parameters.arrival == Arrival::Reads,
            buffered_to: 0,
            now_ns: 0,
            taken_in_ns: 0,
            answered_ns: 0,
            pressed_ns: 0,
            tally: Tally::default(),
        })
    }

    /// The arm is needed for something else than reading ahead.
    fn stop_stream(&mut self, now_ns: u64) {
        let start_ns = now_ns.max(self.mechanism.free_ns);
        if let Some(byte) = self.read_cache.stop(&self.mechanism.geometry, start_ns) {
            self.mechanism.at = self.mechanism.geometry.locate(byte);
        }
    }

    /// Whether the platters have to move for it; if not, it has been answered.
    fn electronics(&mut self, request: &Request, ready_ns: u64) -> Option<u64> {
        let (start, end) = (request.offset_bytes, request.end_bytes());
        match request.operation {
            _ if start == end => Some(ready_ns),
            Operation::Read
                if !self.queue.changes(start, end)
                    && (self.write_cache.holds(start, end) || self.is_held(start, end)) =>
            {
                self.tally.cache_hits += 1;
                Some(self.interface.pass(ready_ns, request.length_bytes))
            }
            Operation::Write
                if !request.fua
                    && request.length_bytes <= self.write_cache_bytes
                    && !self.queue.changes(start, end) =>
            {
                Some(self.buffer_write(request, ready_ns))
            }
            Operation::Discard | Operation::Flush => Some(ready_ns),
            _ => None,
        }
    }

    fn is_held(&mut self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            let (place, next) = self.place(at, end);
            if self.read_cache.held(place, place + (next - at)) < next - at {
                return false;
            }
            at = next;
        }
        true
    }

    /// Takes a write into the buffer, destaging until there is room.
    fn buffer_write(&mut self, request: &Request, ready_ns: u64) -> u64 {
        self.destage_beside(ready_ns);
        let mut room_ns = ready_ns;
        while self.write_cache.bytes() + request.length_bytes > self.write_cache_bytes {
            match self.destage_next(self.pressed_ns) {
                Some(done_ns) => room_ns = room_ns.max(done_ns),
                None => break,
            }
        }
        let (start, end) = (request.offset_bytes, request.end_bytes());
        self.superseded(start, end, ready_ns);
        let was_pressed = self.is_pressed();
        self.write_cache.insert(start, end);
        self.buffered_to = end;
        self.tally.cached_writes += 1;
        let done_ns = self.interface.pass(room_ns, request.length_bytes);
        if self.is_pressed() && !was_pressed {
            self.pressed_ns = done_ns;
        }
        done_ns
    }

    const fn is_pressed(&self) -> bool {
        self.write_cache.bytes() > self.write_cache_bytes / 2
    }

    /// What the mechanism destaged beside the host's commands until now.
    fn destage_beside(&mut self, now_ns: u64) {
        while self.is_pressed() && self.mechanism.free_ns.max(self.pressed_ns) < now_ns {
            if self.destage_next(self.pressed_ns).is_none() {
                break;
            }
        }
    }

    /// Destages the next range in elevator order, not before `from_ns`; gives when it is on the platters.
    fn destage_next(&mut self, from_ns: u64) -> Option<u64> {
        self.stop_stream(from_ns);
        let (start, end) = self.next_waiting()?;
        let done_ns = self.store(from_ns, start, end, self.write_cache.until(start));
        self.write_cache.remove(start, end);
        self.tally.cache_destages += 1;
        self.tally.destaged_bytes += end - start;
        Some(done_ns)
    }

    /// A range of addresses holds something new.
    fn superseded(&mut self, start: u64, end: u64, now_ns: u64) {
        let mut at = start;
        while at < end {
            let (place, next) = self.place(at, end);
            self.overwritten(place, place + (next - at), now_ns);
            at = next;
        }
    }

    /// A range of the platters holds something new: what was read of it is stale.
    fn overwritten(&mut self, start: u64, end: u64, now_ns: u64) {
        if self.read_cache.stream_touches(start, end) {
            self.stop_stream(now_ns);
        }
        self.read_cache.forget(start, end);
    }

    /// Serves one request on the platters; gives when it is done.
    fn platters(&mut self, waiting: &Waiting) -> u64 {
        let request = &waiting.request;
        let (start, end) = (request.offset_bytes, request.end_bytes());
        self.destage_beside(waiting.ready_ns);
        if request.operation == Operation::Read {
            return self.read(waiting);
        }
        let mut ready_ns = waiting.ready_ns;
        if request.operation == Operation::Write {
            ready_ns = self.interface.pass(ready_ns, request.length_bytes);
        }
        self.superseded(start, end, ready_ns);
        self.stop_stream(ready_ns);
        self.write_cache.remove(start, end);
        self.store(ready_ns, start, end, end)
    }

    fn read(&mut self, waiting: &Waiting) -> u64 {
        let (start, end) = (waiting.request.offset_bytes, waiting.request.end_bytes());
        let (mut at, mut ended_ns) = (start, waiting.ready_ns);
        while at < end {
            let (place, next) = self.place(at, end);
            ended_ns = self.read_places(waiting, place, place + (next - at));
            at = next;
        }
        // The data was on its way to the host while it was read; only the last piece comes after.
        let over_ns = self.interface.pass(waiting.ready_ns, waiting.request.length_bytes);
        let last = waiting.request.length_bytes.min(LAST_PIECE_BYTES);
        over_ns.max(ended_ns + self.interface.cost_ns(last))
    }

    /// Reads a part of a request that is in one piece on the platters; gives when its end has been read.
    fn read_places(&mut self, waiting: &Waiting, start: u64, end: u64) -> u64 {
        let now_ns = waiting.ready_ns.max(self.mechanism.free_ns);
        if self.read_cache.streams(&self.mechanism.geometry, now_ns, start) || self.resumes(now_ns, start) {
            return self.read_on(end);
        }
        if self.read_cache.held(start, end) == end - start {
            // It came into the buffer while it waited.
            self.tally.cache_hits += 1;
            return now_ns;
        }
        self.stop_stream(now_ns);
        let from = start + self.read_cache.held(start, end).min(end - start - 1);
        let known = from == waiting.place.byte;
        let place = if known { waiting.place } else { self.mechanism.geometry.locate(from) };
        let before = self.reads_on_arrival.then(|| self.passed_before(&place, now_ns));
        let ended_ns = self.mechanism.access(waiting.ready_ns, &place, end - from, false);
        let (first, around) = before.unwrap_or((from, None));
        if let Some((from, to)) = around {
            self.read_cache.passed(from, to);
        }
        self.read_cache.begin(start.min(first), self.mechanism.at, ended_ns, self.platter_bytes);
        ended_ns
    }

    /// Whether reading ahead had ended and holds a byte: it goes on when the place where it ended is below the head again.
    fn resumes(&mut self, now_ns: u64, start: u64) -> bool {
        let geometry = &self.mechanism.geometry;
        let Some(limit) = self.read_cache.ended(geometry, now_ns, start) else { return false };
        let at = geometry.locate(limit);
        let rotation_ns = self.mechanism.positioning_from(&at, now_ns, &at, false).rotation_ns();
        self.read_cache.resume(at, now_ns, rotation_ns);
        true
    }

    /// What of a track passes under the head between its arrival and a place: the first byte of what ends at
    /// the place, and, where the wait began before the start of the track, the range at its end.
    fn passed_before(&self, place: &Location, now_ns: u64) -> (u64, Option<(u64, u64)>) {
        let wait_ns = self.mechanism.positioning(now_ns, place, false).rotation_ns();
        let (start, end) = self.mechanism.geometry.track(place.byte);
        let turn_ns = self.mechanism.geometry.turn_ns();
        let passed = scale(wait_ns, end - start, turn_ns);
        let before = place.byte - start;
        let around = passed.checked_sub(before).filter(|bytes| *bytes > 0);
        let end = end.min(self.platter_bytes);
        (
            place.byte - passed.min(before),
            around.map(|bytes| (end.saturating_sub(bytes).max(place.byte), end)),
        )
    }

    /// The stream has or gets the range; gives when its end has been read.
    fn read_on(&mut self, end: u64) -> u64 {
        self.read_cache.demand(end, self.platter_bytes);
        let to = self.mechanism.geometry.locate(end);
        let Some(stream) = &mut self.read_cache.stream else { return 0 };
        let (reaches_ns, is_ahead) = (stream.reaches_ns(&to), stream.is_ahead(&to));
        self.mechanism.turned(stream.take_rotation_ns(&to));
        if to.byte > stream.counted.byte {
            let from = std::mem::replace(&mut stream.counted, to);
            self.mechanism.passed(&from, &to);
        }
        if is_ahead {
            self.mechanism.busy_until(reaches_ns, &to);
        }
        self.tally.cache_hits += 1;
        reaches_ns
    }

    /// Everything that waits goes to the platters; gives when it is there.
    fn flush(&mut self, ready_ns: u64) -> u64 {
        let from_ns = if self.is_pressed() { self.pressed_ns } else { ready_ns };
        let mut done_ns = ready_ns;
        while let Some(destaged_ns) = self.destage_next(from_ns) {
            done_ns = done_ns.max(destaged_ns);
        }
        done_ns
    }

    /// Takes in a command that came at `now_ns`; gives when it has been taken in.
    fn take_in(&mut self, now_ns: u64) -> u64 {
        self.tally.command_ns += self.command_ns;
        self.taken_in_ns = self.taken_in_ns.max(now_ns) + self.command_ns;
        self.taken_in_ns
    }

    /// Serves the requests between two flushes, all of them waiting at `now_ns`. Of those that need the platters, the
    /// queue takes in as many as it has places for; the others come when one becomes free.
    fn section(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) -> u64 {
        let (mut last_ns, mut free_ns) = (now_ns, now_ns);
        let mut arrivals = batch.iter().enumerate();
        loop {
            while !self.queue.is_full() {
                let Some((slot, request)) = arrivals.next() else { break };
                let request = request.within(self.size_bytes);
                self.count(&request);
                let taken_in_ns = self.take_in(free_ns);
                match self.electronics(&request, taken_in_ns) {
                    Some(ns) => {
                        done_ns[slot] = ns;
                        last_ns = last_ns.max(ns);
                    }
                    None => {
                        let (place, _) = self.place(request.offset_bytes, request.end_bytes());
                        let place = self.mechanism.geometry.locate(place);
                        self.queue.push(slot, request, place, taken_in_ns);
                    }
                }
            }
            let was_full = self.queue.is_full();
            let head = ReadingHead::new(&self.mechanism, &self.read_cache, &self.interface);
            let Some(waiting) = self.queue.pop(&head) else { break };
            let ns = self.platters(&waiting);
            if was_full {
                free_ns = ns;
            }
            done_ns[waiting.slot] = ns;
            last_ns = last_ns.max(ns);
        }
        last_ns
    }

    const fn count(&mut self, request: &Request) {
        match request.operation {
            Operation::Read => {
                self.tally.reads += 1;
                self.tally.read_bytes += request.length_bytes;
            }
            Operation::Write | Operation::Zero => {
                self.tally.writes += 1;
                self.tally.write_bytes += request.length_bytes;
            }
            Operation::Flush | Operation::Discard => {}
        }
    }
}

impl Model for Hdd {
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.now_ns = self.now_ns.max(now_ns);
        self.idle(self.now_ns);
        let before_ns = self.answered_ns.max(self.now_ns);
        let mut now_ns = self.now_ns;
        let mut from = 0;
        // A flush is not queued: it waits for what came before, and what comes after waits for it.
        while from < batch.len() {
            let rest = &batch[from..];
            let until = rest.iter().position(|r| r.operation == Operation::Flush).unwrap_or(rest.len());
            now_ns = self.section(now_ns, &rest[..until], &mut done_ns[from..from + until]);
            self.answered_ns = self.answered_ns.max(now_ns);
            from += until;
            if from < batch.len() {
                self.tally.flushes += 1;
                let ready_ns = self.take_in(self.answered_ns);
                now_ns = self.flush(ready_ns);
                self.answered_ns = self.answered_ns.max(now_ns);
                done_ns[from] = now_ns;
                from += 1;
            }
        }
        self.tally.elapsed_ns += self.answered_ns.max(before_ns) - before_ns;
    }

    /// The write buffer is on the platters, the read buffer is empty, the arm is where a new disk has it, and
    /// a turn of the platters begins.
    fn rest(&mut self, now_ns: u64) -> u64 {
        let mut done_ns = [now_ns];
        self.serve(now_ns, &[Request::new(Operation::Flush, 0, 0)], &mut done_ns);
        self.stop_stream(done_ns[0]);
        self.read_cache.clear();
        let turn_ns = self.mechanism.geometry.turn_ns();
        let free_ns = done_ns[0].max(self.mechanism.free_ns).max(self.interface.free_ns());
        let rested_ns = free_ns.next_multiple_of(turn_ns);
        self.mechanism.at = self.mechanism.geometry.locate(0);
        self.mechanism.free_ns = rested_ns;
        (self.now_ns, self.answered_ns) = (rested_ns, rested_ns);
        rested_ns
    }

    fn counters(&self) -> Vec<DiskCounter> {
        let (work, tally) = (&self.mechanism.work, &self.tally);
        let mut counters = vec![
            DiskCounter::sum("reads", "1", tally.reads),
            DiskCounter::sum("writes", "1", tally.writes),
            DiskCounter::sum("flushes", "1", tally.flushes),
            DiskCounter::sum("host_read_bytes", "B", tally.read_bytes),
            DiskCounter::sum("host_write_bytes", "B", tally.write_bytes),
            DiskCounter::sum("seeks", "1", work.seeks),
            DiskCounter::sum("seek_distance_bytes", "B", work.seek_distance_bytes),
            DiskCounter::sum("seek_ns", "ns", work.seek_ns),
            DiskCounter::sum("settle_ns", "ns", work.settle_ns),
            DiskCounter::sum("switch_ns", "ns", work.switch_ns),
            DiskCounter::sum("rotation_ns", "ns", work.rotation_ns),
            DiskCounter::sum("transfer_ns", "ns", work.transfer_ns),
            DiskCounter::sum("busy_ns", "ns", work.busy_ns),
            DiskCounter::sum("command_ns", "ns", tally.command_ns),
            DiskCounter::sum("interface_ns", "ns", self.interface.busy_ns),
            DiskCounter::sum("elapsed_ns", "ns", tally.elapsed_ns),
            DiskCounter::sum("cache_hits", "1", tally.cache_hits),
            DiskCounter::sum("cached_writes", "1", tally.cached_writes),
            DiskCounter::sum("cache_destages", "1", tally.cache_destages),
            DiskCounter::sum("destaged_bytes", "B", tally.destaged_bytes),
            DiskCounter::state("cache_waiting_bytes", "B", as_f64(self.write_cache.bytes())),
        ];
        if let Some(shingle) = &self.shingle {
            counters.extend([
                DiskCounter::sum("media_cache_write_bytes", "B", shingle.tally.cached_bytes),
                DiskCounter::sum("direct_write_bytes", "B", shingle.tally.direct_bytes),
                DiskCounter::sum("band_cleans", "1", shingle.tally.band_cleans),
                DiskCounter::sum("cleaning_write_bytes", "B", shingle.tally.cleaning_bytes),
                DiskCounter::state("media_cache_used_bytes", "B", as_f64(shingle.used_bytes())),
            ]);
        }
        counters
    }
}

fn check(parameters: &Parameters) -> Result<(), HddError> {
    let turn_ns = geometry::turn_ns(parameters.rpm);
    let (inner, outer) = (parameters.inner_track_bytes, parameters.outer_track_bytes);
    if inner > outer {
        return Err(HddError::Tracks { inner, outer });
    }
    if parameters.zones > parameters.cylinders {
        return Err(HddError::Zones { zones: parameters.zones, cylinders: parameters.cylinders });
    }
    let (cache_bytes, band_bytes) = (parameters.media_cache_bytes, parameters.band_bytes);
    if band_bytes > 0 && cache_bytes / 2 < band_bytes {
        return Err(HddError::Cache { cache_bytes, band_bytes });
    }
    for (switch, switch_ns) in
        [("head_switch_ns", parameters.head_switch_ns), ("cylinder_switch_ns", parameters.cylinder_switch_ns)]
    {
        if switch_ns >= turn_ns {
            return Err(HddError::Skew { switch, switch_ns, turn_ns });
        }
    }
    Ok(())
}
