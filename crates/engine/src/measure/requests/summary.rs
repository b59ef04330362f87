//! From events to figures.
//!
//! The dynamic layout score is that of Conway et al. 2017 ("File Systems Fated for Senescence? Nonsense, Says
//! Science!", FAST '17, §2): of the blocks requested, the share that directly follow the one requested
//! before. Blocks are of 4 KiB (a shorter request counts as one), in order of issue; the first one of all is
//! left out, so that a single sequential stream has 1 however it was cut into requests. It is formed over all
//! requests of a kind, metadata included.

use std::collections::HashMap;

use fsage_model::layout::SizeHistogram;
use fsage_model::measure::RequestSummary;
use fsage_model::measure::Requests;
use fsage_model::quantity::share;

use super::event::{Action, Event, EventKind};

const SECTOR_BYTES: u64 = 512;

/// Sectors of the blocks that the layout score counts.
const BLOCK_SECTORS: u64 = 8;

/// Requests kept in mind until they are done.
const IN_FLIGHT: usize = 1 << 16;

/// Adds up events.
#[derive(Debug, Default)]
pub struct Collector {
    start: u64,
    sectors: u64,
    reads: DirectionTally,
    writes: DirectionTally,
    discards: u64,
    discard_sectors: u64,
    flushes: u64,
    /// First sector and kind of what is under way, and when it was issued.
    in_flight: HashMap<(u64, Action), u64>,
}

/// What went one way.
#[derive(Debug, Default)]
struct DirectionTally {
    requests: u64,
    metadata: u64,
    sectors: u64,
    blocks: u64,
    following: u64,
    sequential: u64,
    end: Option<u64>,
    seeks: SizeHistogram,
    served: u64,
    service_ns: u64,
}

impl Collector {
    /// A collector for `sectors` sectors from `start_sector` of the disk on; others are of other partitions.
    #[must_use]
    pub fn new(start_sector: u64, sectors: u64) -> Self {
        Self { start: start_sector, sectors, ..Self::default() }
    }

    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        if event.sectors > 0 && event.sector.checked_sub(self.start).is_none_or(|place| place >= self.sectors)
        {
            return;
        }
        match event.kind {
            EventKind::Issue => self.issue(event),
            EventKind::Complete => self.complete(event),
        }
    }

    fn issue(&mut self, event: &Event) {
        match event.action {
            Action::Read if event.sectors > 0 => self.reads.issue(event),
            Action::Write if event.sectors > 0 => self.writes.issue(event),
            Action::Discard => {
                self.discards += 1;
                self.discard_sectors = self.discard_sectors.saturating_add(event.sectors);
                return;
            }
            // A write of nothing with a flush before is a flush.
            Action::Flush | Action::Write => {
                self.flushes += 1;
                return;
            }
            // A read of nothing moves nothing: it has no place in a sequence.
            Action::Read | Action::Other => return,
        }
        if self.in_flight.len() < IN_FLIGHT {
            self.in_flight.insert((event.sector, event.action), event.time_ns);
        }
    }

    fn complete(&mut self, event: &Event) {
        // A request that is done in parts counts with its first.
        let Some(issued) = self.in_flight.remove(&(event.sector, event.action)) else { return };
        let kind = if event.action == Action::Read { &mut self.reads } else { &mut self.writes };
        kind.served += 1;
        kind.service_ns = kind.service_ns.saturating_add(event.time_ns.saturating_sub(issued));
    }

    /// The figures. `lost` events did not fit the buffer.
    #[must_use]
    pub fn finish(self, lost: u64, unmerged: bool) -> RequestSummary {
        RequestSummary {
            reads: self.reads.finish(),
            writes: self.writes.finish(),
            discards: self.discards,
            discard_bytes: self.discard_sectors.saturating_mul(SECTOR_BYTES),
            flushes: self.flushes,
            lost_events: lost,
            unmerged,
        }
    }
}

impl DirectionTally {
    fn issue(&mut self, event: &Event) {
        self.requests += 1;
        self.metadata += u64::from(event.metadata);
        self.sectors = self.sectors.saturating_add(event.sectors);
        let blocks = event.sectors.div_ceil(BLOCK_SECTORS);
        self.blocks = self.blocks.saturating_add(blocks);
        self.following = self.following.saturating_add(blocks.saturating_sub(1));
        match self.end {
            Some(end) if end == event.sector => {
                self.sequential += 1;
                self.following = self.following.saturating_add(1);
            }
            Some(end) => self.seeks.add(end.abs_diff(event.sector).saturating_mul(SECTOR_BYTES)),
            None => {}
        }
        self.end = Some(event.sector.saturating_add(event.sectors));
    }

    fn finish(self) -> Requests {
        let bytes = self.sectors.saturating_mul(SECTOR_BYTES);
        Requests {
            requests: self.requests,
            metadata_requests: self.metadata,
            bytes,
            layout_score: (self.blocks > 1).then(|| share(self.following, self.blocks - 1)),
            sequential_share: (self.requests > 1).then(|| share(self.sequential, self.requests - 1)),
            mean_bytes: share(bytes, self.requests),
            seeks: self.seeks,
            mean_service_ns: (self.served > 0).then(|| share(self.service_ns, self.served)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of `(sector, sectors)` one after the other, each done after 5 µs.
    fn reads(places: &[(u64, u64)]) -> Requests {
        let mut collector = Collector::new(0, 1 << 40);
        for (n, &(sector, sectors)) in (0_u64..).zip(places) {
            let (action, metadata) = (Action::Read, n == 0);
            let issue =
                Event { kind: EventKind::Issue, time_ns: n * 10_000, action, metadata, sector, sectors };
            collector.add(&issue);
            collector.add(&Event { kind: EventKind::Complete, time_ns: n * 10_000 + 5000, ..issue });
        }
        collector.finish(0, false).reads
    }

    #[test]
    fn one_stream_is_perfect_however_it_is_cut() {
        for pieces in [&[(64, 1024)][..], &[(64, 512), (576, 512)], &[(64, 8), (72, 8), (80, 1008)]] {
            let found = reads(pieces);
            assert_eq!((found.layout_score, found.bytes), (Some(1.0), 512 << 10));
            assert_eq!(found.seeks.total_count(), 0);
        }
    }

    #[test]
    fn scores_of_sequences_made_by_hand() {
        // Four times two blocks: one of each two follows inside its request, none between.
        let apart = reads(&[(800, 16), (0, 16), (1600, 16), (400, 16)]);
        assert_eq!(apart.layout_score, Some(4.0 / 7.0));
        assert_eq!(apart.sequential_share, Some(0.0));
        // 816 → 0, 16 → 1600, 1616 → 400 sectors.
        let mut seeks = SizeHistogram::default();
        for sectors in [816, 1584, 1216] {
            seeks.add(sectors * 512);
        }
        assert_eq!(apart.seeks, seeks);
        // Two follow, one does not.
        let half = reads(&[(0, 8), (8, 8), (800, 8), (808, 8)]);
        assert_eq!((half.layout_score, half.sequential_share), (Some(2.0 / 3.0), Some(2.0 / 3.0)));
        // The same blocks backwards, one at a time: nothing follows.
        let back: Vec<_> = (0..100).rev().map(|n| (8 * n, 8)).collect();
        assert_eq!(reads(&back).layout_score, Some(0.0));
        let forth: Vec<_> = (0..100).map(|n| (8 * n, 8)).collect();
        assert_eq!(reads(&forth).layout_score, Some(1.0));
        // A request below a block counts as one.
        assert_eq!(reads(&[(0, 1), (1, 1), (8, 8)]).layout_score, Some(0.5));
        assert_eq!(half.mean_service_ns, Some(5000.0));
        assert_eq!((half.metadata_requests, half.mean_bytes), (1, 4096.0));
        assert_eq!(reads(&[]), Requests::default());
    }

    #[test]
    fn a_read_of_nothing_is_none() {
        let with = reads(&[(8, 8), (0, 0), (16, 8), (16, 0), (24, 8)]);
        let without = reads(&[(8, 8), (16, 8), (24, 8)]);
        assert_eq!(with, without);
        assert_eq!(with.layout_score, Some(1.0));
        assert_eq!(reads(&[(0, 0), (0, 0)]), Requests::default());
    }

    #[test]
    fn writes_flushes_and_discards_are_told_apart_and_other_partitions_left_out() {
        let mut collector = Collector::new(2048, 1000);
        let event = |action, sector, sectors| Event {
            kind: EventKind::Issue,
            time_ns: 1,
            action,
            metadata: false,
            sector,
            sectors,
        };
        for event in [
            event(Action::Write, 2048, 8),
            event(Action::Write, 0, 0),
            event(Action::Flush, 0, 0),
            event(Action::Discard, 2100, 100),
            event(Action::Read, 2047, 8),
            event(Action::Read, 3048, 8),
            event(Action::Read, 3032, 16),
            event(Action::Other, 3040, 8),
        ] {
            collector.add(&event);
        }
        let found = collector.finish(3, true);
        assert_eq!((found.reads.requests, found.writes.requests), (1, 1));
        assert_eq!((found.flushes, found.discards, found.discard_bytes), (2, 1, 51_200));
        assert_eq!((found.lost_events, found.unmerged), (3, true));
        let names: Vec<_> = found.metrics().into_iter().map(|metric| metric.name).collect();
        assert!(names.contains(&"dynamic_layout_score".to_owned()), "{names:?}");
    }
}
