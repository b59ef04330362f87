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
    /// Where it is when it has to go elsewhere.
    at: Location,
}

impl<'a> ReadingHead<'a> {
    pub(super) fn new(
        mechanism: &'a Mechanism,
        read_cache: &'a ReadCache,
        interface: &'a Interface,
        now_ns: u64,
    ) -> Self {
        let geometry = &mechanism.geometry;
        let now_ns = mechanism.free_ns.max(now_ns);
        let read_to = read_cache.stream.as_ref().map(|stream| stream.reached(geometry, now_ns));
        let at = read_to.map_or(mechanism.at, |byte| geometry.locate(byte));
        Self { mechanism, read_cache, interface, at }
    }
}

impl Head for ReadingHead<'_> {
    fn begins_ns(&self, waiting: &Waiting) -> u64 {
        let Self { mechanism, read_cache, interface, at } = self;
        let mut ready_ns = waiting.ready_ns;
        if waiting.request.operation == Operation::Write {
            ready_ns = interface.free_ns().max(ready_ns) + interface.cost_ns(waiting.request.length_bytes);
        }
        let start_ns = mechanism.free_ns.max(ready_ns);
        let reads = waiting.request.operation == Operation::Read;
        if reads && read_cache.streams(&mechanism.geometry, start_ns, waiting.place.byte) {
            return read_cache
                .stream
                .map_or(start_ns, |stream| start_ns.max(stream.reaches_ns(&waiting.place)));
        }
        start_ns + mechanism.positioning_from(at, start_ns, &waiting.place, !reads).total_ns()
    }

    fn end_ns(&self, waiting: &Waiting) -> u64 {
        let length_bytes = waiting.request.length_bytes;
        self.mechanism.geometry.locate(waiting.place.byte.saturating_add(length_bytes)).stream_ns
    }

    fn turn_ns(&self) -> u64 {
        self.mechanism.geometry.turn_ns()
    }
}
