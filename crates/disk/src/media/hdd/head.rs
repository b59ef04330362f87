//! The head as the queue sees it: busy with a request, or reading ahead until it has to go elsewhere.

use super::cache::ReadCache;
use super::geometry::Location;
use super::mechanism::Mechanism;
use super::queue::{Head, Waiting};
use crate::media::interface::Interface;
use crate::request::Operation;

/// The head, which may be reading ahead.
pub(super) struct ReadingHead<'a> {
    mechanism: &'a Mechanism,
    read_cache: &'a ReadCache,
    interface: &'a Interface,
    /// Where it is when the mechanism is free.
    at: Location,
}

impl<'a> ReadingHead<'a> {
    pub(super) fn new(mechanism: &'a Mechanism, read_cache: &'a ReadCache, interface: &'a Interface) -> Self {
        let mut head = Self { mechanism, read_cache, interface, at: mechanism.at };
        head.at = head.has_read_to(mechanism.free_ns);
        head
    }

    /// Where reading ahead has moved it.
    fn has_read_to(&self, now_ns: u64) -> Location {
        let geometry = &self.mechanism.geometry;
        let stream = self.read_cache.stream.as_ref();
        stream.map_or(self.mechanism.at, |stream| geometry.locate(stream.reached(geometry, now_ns)))
    }

    /// When a read that is served from `start_ns` on begins, if the buffer holds its first byte or soon will.
    fn buffered_ns(&self, waiting: &Waiting, start_ns: u64) -> Option<u64> {
        let (geometry, byte) = (&self.mechanism.geometry, waiting.place.byte);
        let end = byte.saturating_add(waiting.request.length_bytes);
        if self.read_cache.ended(geometry, start_ns, byte).is_some() || self.read_cache.holds(byte, end) {
            return Some(start_ns);
        }
        let stream = self.read_cache.stream.filter(|_| self.read_cache.streams(geometry, start_ns, byte))?;
        Some(start_ns.max(stream.reaches_ns(&waiting.place)))
    }
}

impl Head for ReadingHead<'_> {
    fn begins_ns(&self, waiting: &Waiting) -> u64 {
        let Self { mechanism, interface, .. } = self;
        let mut ready_ns = waiting.ready_ns;
        if waiting.request.operation == Operation::Write {
            ready_ns = interface.free_ns().max(ready_ns) + interface.cost_ns(waiting.request.length_bytes);
        }
        let start_ns = mechanism.free_ns.max(ready_ns);
        let reads = waiting.request.operation == Operation::Read;
        if reads && let Some(ns) = self.buffered_ns(waiting, start_ns) {
            return ns;
        }
        let at = if start_ns == mechanism.free_ns { self.at } else { self.has_read_to(start_ns) };
        start_ns + mechanism.positioning_from(&at, start_ns, &waiting.place, !reads).total_ns()
    }

    fn end_ns(&self, waiting: &Waiting) -> u64 {
        let length_bytes = waiting.request.length_bytes;
        self.mechanism.geometry.locate(waiting.place.byte.saturating_add(length_bytes)).stream_ns
    }

    fn turn_ns(&self) -> u64 {
        self.mechanism.geometry.turn_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::hdd_parameters;
    use crate::request::Request;

    #[test]
    fn it_is_where_reading_ahead_has_brought_it_and_writes_wait_for_their_data() {
        let parameters = hdd_parameters("hdd-7200");
        let mut mechanism = Mechanism::new(&parameters).unwrap();
        let mut read_cache = ReadCache::new(parameters.read_cache_bytes, parameters.read_segments);
        let interface = Interface::new(parameters.interface_bytes_per_s);
        let first = mechanism.geometry.locate(0);
        let ended_ns = mechanism.access(0, &first, 4096, false);
        read_cache.begin(0, mechanism.at, ended_ns, u64::MAX);
        let later_ns = ended_ns + 1_000_000_000;
        let head = ReadingHead::new(&mechanism, &read_cache, &interface);
        let read_to = 4096 + parameters.read_cache_bytes / parameters.read_segments;
        assert_eq!([head.at.byte, head.has_read_to(later_ns).byte], [4096, read_to]);
        let begins_ns = |operation, byte, length_bytes| {
            let request = Request::new(operation, byte, length_bytes);
            head.begins_ns(&Waiting::of(request, mechanism.geometry.locate(byte), later_ns))
        };
        assert_eq!(begins_ns(Operation::Read, read_to - 4096, 4096), later_ns);
        assert!(begins_ns(Operation::Read, read_to + (1 << 30), 4096) > later_ns);
        // Data that takes several turns over the interface is written so many turns later, at the same place.
        let [small_ns, large_ns] =
            [4096, 64 << 20].map(|length| begins_ns(Operation::Write, 1 << 30, length));
        let transfer_ns = interface.cost_ns(64 << 20);
        assert!(large_ns >= later_ns + transfer_ns && large_ns <= small_ns + transfer_ns + head.turn_ns());
        assert_eq!((large_ns - small_ns) % head.turn_ns(), 0);
    }
}
