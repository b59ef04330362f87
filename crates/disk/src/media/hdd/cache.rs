//! The disk's buffer: segments of read-ahead, and writes that wait for the platters.
//!
//! Both know only places. A segment is a range that was read; the newest may still be growing, because the
//! head continues reading behind the last demand until the segment is full or the arm is needed elsewhere
//! (its *stream*). Written ranges are kept merged and in order of place, which is the order they are destaged
//! in.

use std::collections::BTreeMap;

use super::geometry::{Geometry, Location};

/// A range that was read and is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// The head reading on behind the last demand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// First byte that is held.
    start: u64,
    /// A place that was under the head...
    from: Location,
    /// ... and when: a turn later at most than the data before it was held, where the head had stopped there.
    from_ns: u64,
    /// When all before that place was held.
    held_ns: u64,
    /// The turn that the head waits at that place, as long as nobody asked for what is behind it.
    rotation_ns: u64,
    /// Where it stops.
    limit: u64,
    /// Up to here its time has been counted.
    pub counted: Location,
}

impl Stream {
    /// The first byte that has not been read at `now_ns`.
    pub(super) fn reached(&self, geometry: &Geometry, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.from_ns);
        geometry.byte_at(self.from.stream_ns.saturating_add(elapsed_ns)).clamp(self.from.byte, self.limit)
    }

    /// What the head waited for a place, to be counted once.
    pub(super) const fn take_rotation_ns(&mut self, to: &Location) -> u64 {
        if self.is_ahead(to) { std::mem::replace(&mut self.rotation_ns, 0) } else { 0 }
    }

    /// Whether what is before a place was not all held when the head last was at a known place.
    pub(super) const fn is_ahead(&self, to: &Location) -> bool {
        to.byte > self.from.byte
    }

    /// When what is before a place has been read.
    pub(super) const fn reaches_ns(&self, to: &Location) -> u64 {
        if !self.is_ahead(to) {
            return self.held_ns;
        }
        self.from_ns.saturating_add(to.stream_ns.saturating_sub(self.from.stream_ns))
    }
}

/// The segments and the stream.
#[derive(Debug, Clone)]
pub(super) struct ReadCache {
    segments: Vec<Segment>,
    most_segments: usize,
    segment_bytes: u64,
    uses: u64,
    pub stream: Option<Stream>,
}

impl ReadCache {
    pub(super) fn new(bytes: u64, segments: u64) -> Self {
        let most_segments = crate::media::number::index(segments);
        Self { segments: Vec::new(), most_segments, segment_bytes: bytes / segments, uses: 0, stream: None }
    }

    /// How much of `[start, end)` from its beginning is held in a finished segment.
    pub(super) fn held(&mut self, start: u64, end: u64) -> u64 {
        self.uses += 1;
        let uses = self.uses;
        let holding = self.segments.iter_mut().find(|s| s.start <= start && start < s.end);
        holding.map_or(0, |segment| {
            segment.used = uses;
            segment.end.min(end) - start
        })
    }

    /// Whether a finished segment holds all of a range.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.segments.iter().any(|segment| segment.start <= start && end <= segment.end)
    }

    /// Whether the stream holds the beginning of a range, or will within the length of an outer track, and can
    /// continue to its end without having stopped.
    pub(super) fn streams(&self, geometry: &Geometry, now_ns: u64, start: u64) -> bool {
        self.stream.as_ref().filter(|stream| stream.start <= start && start <= stream.limit).is_some_and(
            |stream| {
                let reached = stream.reached(geometry, now_ns);
                start <= reached.saturating_add(geometry.outer_track_bytes()) && reached < stream.limit
            },
        )
    }

    /// Where reading ahead ended, if it has by then and holds a byte.
    pub(super) fn ended(&self, geometry: &Geometry, now_ns: u64, start: u64) -> Option<u64> {
        let stream = self.stream.as_ref().filter(|stream| (stream.start..stream.limit).contains(&start))?;
        let has_ended = now_ns >= stream.held_ns && stream.reached(geometry, now_ns) == stream.limit;
        has_ended.then_some(stream.limit)
    }

    /// Reading ahead has ended and is to go on: the head waits until the place where it ended is below it again.
    pub(super) fn resume(&mut self, at: Location, now_ns: u64, rotation_ns: u64) {
        if let Some(stream) = &mut self.stream {
            (stream.from, stream.held_ns, stream.from_ns) = (at, now_ns, now_ns + rotation_ns);
            stream.rotation_ns = rotation_ns;
        }
    }

    /// The demand grew to `end`: the stream continues behind it, and forgets what the segment has no room
    /// for.
    pub(super) fn demand(&mut self, end: u64, size_bytes: u64) {
        let room = self.segment_bytes;
        if let Some(stream) = &mut self.stream {
            stream.limit = stream.limit.max(end.saturating_add(room).min(size_bytes));
            stream.start = stream.start.max(stream.limit.saturating_sub(room.saturating_mul(2)));
        }
    }

    /// Ranges that passed under the head before it read what was asked: held as a segment of their own.
    pub(super) fn passed(&mut self, start: u64, end: u64) {
        if self.segment_bytes == 0 || start >= end {
            return;
        }
        self.add(end.saturating_sub(self.segment_bytes).max(start), end);
    }

    fn add(&mut self, start: u64, end: u64) {
        self.uses += 1;
        if self.segments.len() >= self.most_segments
            && let Some(oldest) = (0..self.segments.len()).min_by_key(|i| self.segments[*i].used)
        {
            self.segments.swap_remove(oldest);
        }
        self.segments.push(Segment { start, end, used: self.uses });
    }

    /// A read from `start` ended at a place: the head reads on from there.
    pub(super) fn begin(&mut self, start: u64, at: Location, at_ns: u64, size_bytes: u64) {
        if self.segment_bytes == 0 {
            return;
        }
        let limit = at.byte.saturating_add(self.segment_bytes).min(size_bytes);
        let start = start.max(at.byte.saturating_sub(self.segment_bytes));
        self.stream = Some(Stream {
            start,
            from: at,
            from_ns: at_ns,
            held_ns: at_ns,
            rotation_ns: 0,
            limit,
            counted: at,
        });
    }

    /// The arm is needed elsewhere: what was read stays as a segment. Gives the byte the head is at.
    pub(super) fn stop(&mut self, geometry: &Geometry, now_ns: u64) -> Option<u64> {
        let stream = self.stream.take()?;
        let end = stream.reached(geometry, now_ns);
        let start = stream.start.max(end.saturating_sub(self.segment_bytes));
        if end > start {
            self.add(start, end);
        }
        Some(end)
    }

    /// Whether a write to the range touches what the stream holds or will read.
    pub(super) fn stream_touches(&self, start: u64, end: u64) -> bool {
        self.stream.as_ref().is_some_and(|s| s.start < end && start < s.limit)
    }

    /// Nothing is held any more.
    pub(super) fn clear(&mut self) {
        self.segments.clear();
        self.stream = None;
    }

    /// The range was overwritten: segments that hold any of it are dropped.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.segments.retain(|s| s.end <= start || end <= s.start);
    }
}

/// Written ranges that are not on the platters yet, merged, by place.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteCache {
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl WriteCache {
    /// Bytes that wait.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the whole range waits here.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.ranges.range(..=start).next_back().is_some_and(|(_, range_end)| end <= *range_end)
    }

    /// The end of what waits in sequence from a byte that waits.
    pub(super) fn until(&self, byte: u64) -> u64 {
        self.ranges.range(..=byte).next_back().map_or(byte, |(_, end)| *end)
    }

    /// Takes a range in.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut from, mut to) = (start, end);
        if let Some((first, last)) = self.ranges.range(..=start).next_back().map(|(s, e)| (*s, *e))
            && last >= start
        {
            if last >= end {
                return;
            }
            from = first;
        }
        while let Some((first, last)) = self.ranges.range(from..=to).next().map(|(s, e)| (*s, *e)) {
            self.ranges.remove(&first);
            self.bytes -= last - first;
            to = to.max(last);
        }
        self.ranges.insert(from, to);
        self.bytes += to - from;
    }

    /// Takes a range out: it is on the platters, or superseded.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let from = self.ranges.range(..=start).next_back().map_or(start, |(first, _)| *first);
        while let Some((first, last)) =
            self.ranges.range(from..end).find(|(_, last)| **last > start).map(|(s, e)| (*s, *e))
        {
            self.ranges.remove(&first);
            self.bytes -= last - first;
            for (kept_start, kept_end) in [(first, last.min(start)), (first.max(end), last)] {
                if kept_start < kept_end {
                    self.ranges.insert(kept_start, kept_end);
                    self.bytes += kept_end - kept_start;
                }
            }
            if last > end {
                break;
            }
            // What was kept before `start` is found again by the search, but never ends behind it.
        }
    }

    /// The next range in elevator order: the first from the head's place inwards, else the outermost; at most
    /// `most_bytes` of it.
    pub(super) fn next(&self, head: u64, most_bytes: u64) -> Option<(u64, u64)> {
        let around = self.ranges.range(..=head).next_back().filter(|(_, end)| **end > head);
        let (start, end) = match around {
            Some((_, end)) => (head, *end),
            None => {
                let (start, end) = self.ranges.range(head..).next().or_else(|| self.ranges.iter().next())?;
                (*start, *end)
            }
        };
        Some((start, end.min(start.saturating_add(most_bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waiting_ranges_are_the_set_of_waiting_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..200, 0_u64..40), 1..60),
            head in 0_u64..240,
        ) {
            let mut cache = WriteCache::default();
            let mut model = [false; 240];
            for (insert, start, length) in steps {
                let end = start + length;
                if insert { cache.insert(start, end) } else { cache.remove(start, end) }
                for byte in start..end {
                    model[usize::try_from(byte).unwrap()] = insert;
                }
                let waiting = model.iter().filter(|w| **w).count();
                prop_assert_eq!(cache.bytes(), u64::try_from(waiting).unwrap());
                let here = model[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()].iter().all(|w| *w);
                prop_assert_eq!(length > 0 && cache.holds(start, end), length > 0 && here);
            }
            match cache.next(head, 7) {
                None => prop_assert_eq!(cache.bytes(), 0),
                Some((start, end)) => {
                    prop_assert!(start < end && end - start <= 7);
                    prop_assert!(cache.holds(start, end));
                    // Nothing that waits lies between the head and the range, going inwards.
                    let first = (head..240).chain(0..head).find(|b| model[usize::try_from(*b).unwrap()]);
                    prop_assert_eq!(Some(start), first);
                }
            }
        }
    }
}
