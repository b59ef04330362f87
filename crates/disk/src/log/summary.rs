//! From entries to figures.
//!
//! The dynamic layout score is that of Conway et al. 2017 ("File Systems Fated for Senescence? Nonsense, Says
//! Science!", FAST '17, §2): of the blocks requested, the share that directly follow the one requested
//! before. Blocks are of 4 KiB (a shorter request counts as one), in the log's order; the first one of all is
//! left out, so that a single sequential stream has 1 however it was cut into requests. It is the definition
//! by which the block layer's tracepoints are counted, so that the figures of a real disk and of a virtual
//! one compare.
//!
//! Requests that failed count: they were asked for.

use schemars::JsonSchema;
use serde::Serialize;

use super::Entry;
use super::histogram::Histogram;
use crate::request::Operation;

/// The block that the layout score counts.
const BLOCK_BYTES: u64 = 4096;

/// A log in figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: Transfers,
    /// Writes.
    pub writes: Transfers,
    /// Writes that were forced to the medium.
    pub fua_writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Flushes and forced writes that the disk ignored.
    pub ignored_flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Zeroings.
    pub zeroes: u64,
    /// Bytes zeroed.
    pub zero_bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// From the first request's coming to the medium to the last's being done, in nanoseconds of the disk's
    /// clock.
    pub model_ns: u64,
    /// From the first arrival to the last, in nanoseconds.
    pub real_ns: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Transfers {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dynamic layout score in 0..=1, 1 is perfect; absent below two blocks.
    pub layout_score: Option<f64>,
    /// Share in 0..=1 of the requests, the first left out, that begin where the one before ended; absent
    /// below two.
    pub sequential_share: Option<f64>,
    /// Mean bytes of a request.
    pub mean_bytes: f64,
    /// Mean time from coming to the medium to being done, in nanoseconds of the disk's clock.
    pub mean_service_ns: f64,
    /// Bytes of the requests.
    pub sizes: Histogram,
    /// Distances in bytes from the end of one request to the begin of the next, forth or back; sequential
    /// ones are not in it.
    pub seeks: Histogram,
}

/// Adds up entries.
#[derive(Debug, Default)]
pub struct Collector {
    summary: Summary,
    reads: Sequence,
    writes: Sequence,
    span: Option<Span>,
}

/// First and last moments.
#[derive(Debug, Clone, Copy)]
struct Span {
    issued: u64,
    done: u64,
    first: u64,
    last: u64,
}

/// What follows what, of one kind.
#[derive(Debug, Default)]
struct Sequence {
    blocks: u64,
    following: u64,
    sequential: u64,
    service_ns: u64,
    end: Option<u64>,
}

impl Collector {
    /// Adds an entry.
    pub fn add(&mut self, entry: &Entry) {
        let request = &entry.request;
        let summary = &mut self.summary;
        summary.requests += 1;
        summary.failed += u64::from(entry.result.is_err());
        summary.ignored_flushes += u64::from(entry.flush_ignored);
        match request.operation {
            Operation::Read => self.reads.add(entry, &mut summary.reads),
            Operation::Write => {
                summary.fua_writes += u64::from(request.fua);
                self.writes.add(entry, &mut summary.writes);
            }
            Operation::Flush => summary.flushes += 1,
            Operation::Discard => {
                summary.discards += 1;
                summary.discard_bytes = summary.discard_bytes.saturating_add(request.length_bytes);
            }
            Operation::Zero => {
                summary.zeroes += 1;
                summary.zero_bytes = summary.zero_bytes.saturating_add(request.length_bytes);
            }
        }
        let Entry { issued_ns: issued, done_ns: done, arrived_ns: arrived, .. } = *entry;
        let span = self.span.get_or_insert(Span { issued, done, first: arrived, last: arrived });
        *span = Span {
            issued: span.issued.min(issued),
            done: span.done.max(done),
            first: span.first.min(arrived),
            last: span.last.max(arrived),
        };
    }

    /// The figures.
    #[must_use]
    pub fn finish(mut self) -> Summary {
        self.reads.finish(&mut self.summary.reads);
        self.writes.finish(&mut self.summary.writes);
        if let Some(span) = self.span {
            self.summary.model_ns = span.done.saturating_sub(span.issued);
            self.summary.real_ns = span.last - span.first;
        }
        self.summary
    }
}

impl Sequence {
    fn add(&mut self, entry: &Entry, sums: &mut Transfers) {
        let request = &entry.request;
        // A request for nothing moves nothing: it has no place in a sequence.
        if request.length_bytes == 0 {
            return;
        }
        sums.requests += 1;
        sums.bytes = sums.bytes.saturating_add(request.length_bytes);
        sums.sizes.add(request.length_bytes);
        let blocks = request.length_bytes.div_ceil(BLOCK_BYTES);
        self.blocks = self.blocks.saturating_add(blocks);
        self.following = self.following.saturating_add(blocks - 1);
        match self.end {
            Some(end) if end == request.offset_bytes => {
                self.sequential += 1;
                self.following = self.following.saturating_add(1);
            }
            Some(end) => sums.seeks.add(end.abs_diff(request.offset_bytes)),
            None => {}
        }
        self.end = Some(request.end_bytes());
        let service = entry.done_ns.saturating_sub(entry.issued_ns);
        self.service_ns = self.service_ns.saturating_add(service);
    }

    fn finish(&self, sums: &mut Transfers) {
        sums.layout_score = (self.blocks > 1).then(|| share(self.following, self.blocks - 1));
        sums.sequential_share = (sums.requests > 1).then(|| share(self.sequential, sums.requests - 1));
        sums.mean_bytes = share(sums.bytes, sums.requests);
        sums.mean_service_ns = share(self.service_ns, sums.requests);
    }
}

/// `part / whole`, and 0 when `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "figures for people; exact up to 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{IoError, Request};

    fn summary(entries: &[Entry]) -> Summary {
        let mut collector = Collector::default();
        entries.iter().for_each(|entry| collector.add(entry));
        collector.finish()
    }

    /// Reads of `(sector, sectors)` one after the other, each done after 5 µs.
    fn reads(places: &[(u64, u64)]) -> Transfers {
        let entries: Vec<_> = (0_u64..)
            .zip(places)
            .map(|(n, &(sector, sectors))| Entry {
                issued_ns: n * 10_000,
                done_ns: n * 10_000 + 5000,
                ..Entry::new(Request::new(Operation::Read, sector * 512, sectors * 512))
            })
            .collect();
        summary(&entries).reads
    }

    #[test]
    fn one_stream_is_perfect_however_it_is_cut() {
        for pieces in [&[(64, 1024)][..], &[(64, 512), (576, 512)], &[(64, 8), (72, 8), (80, 1008)]] {
            let found = reads(pieces);
            assert_eq!((found.layout_score, found.bytes), (Some(1.0), 512 << 10));
            assert_eq!(found.seeks.count(), 0);
        }
    }

    #[test]
    fn scores_of_sequences_made_by_hand() {
        // Four times two blocks: one of each two follows inside its request, none between.
        let apart = reads(&[(800, 16), (0, 16), (1600, 16), (400, 16)]);
        assert_eq!(apart.layout_score, Some(4.0 / 7.0));
        assert_eq!(apart.sequential_share, Some(0.0));
        // 816 → 0, 16 → 1600, 1616 → 400 sectors.
        let mut seeks = Histogram::default();
        for sectors in [816, 1584, 1216] {
            seeks.add(sectors * 512);
        }
        assert_eq!(apart.seeks, seeks);
        let half = reads(&[(0, 8), (8, 8), (800, 8), (808, 8)]);
        assert_eq!((half.layout_score, half.sequential_share), (Some(2.0 / 3.0), Some(2.0 / 3.0)));
        assert_eq!((half.mean_service_ns, half.mean_bytes), (5000.0, 4096.0));
        let back: Vec<_> = (0..100).rev().map(|n| (8 * n, 8)).collect();
        assert_eq!(reads(&back).layout_score, Some(0.0));
        // A request below a block counts as one; one of nothing not at all.
        assert_eq!(reads(&[(0, 1), (1, 1), (8, 8)]).layout_score, Some(0.5));
        assert_eq!(reads(&[(0, 0), (0, 8), (8, 0), (8, 8)]), reads(&[(0, 8), (8, 8)]));
        assert_eq!(reads(&[]), Transfers::default());
    }

    #[test]
    fn every_operation_is_counted_where_it_belongs() {
        let entry = |operation, offset, length, fua| {
            let request = Request { fua, ..Request::new(operation, offset, length) };
            Entry::new(request)
        };
        let found = summary(&[
            Entry { issued_ns: 100, arrived_ns: 7, ..entry(Operation::Write, 0, 4096, false) },
            Entry { issued_ns: 100, done_ns: 900, arrived_ns: 5, ..entry(Operation::Write, 4096, 512, true) },
            Entry { issued_ns: 100, arrived_ns: 25, ..entry(Operation::Flush, 0, 0, false) },
            Entry {
                issued_ns: 100,
                flush_ignored: true,
                arrived_ns: 9,
                ..entry(Operation::Flush, 0, 0, false)
            },
            Entry { issued_ns: 200, arrived_ns: 9, ..entry(Operation::Discard, 0, 1 << 30, false) },
            Entry { issued_ns: 200, arrived_ns: 9, ..entry(Operation::Zero, 0, 1 << 20, false) },
            Entry {
                issued_ns: 200,
                arrived_ns: 9,
                result: Err(IoError::Medium),
                ..entry(Operation::Read, 0, 512, false)
            },
        ]);
        assert_eq!((found.requests, found.reads.requests, found.writes.requests), (7, 1, 2));
        assert_eq!((found.fua_writes, found.flushes, found.ignored_flushes), (1, 2, 1));
        assert_eq!((found.discards, found.discard_bytes), (1, 1 << 30));
        assert_eq!((found.zeroes, found.zero_bytes, found.failed), (1, 1 << 20, 1));
        assert_eq!((found.model_ns, found.real_ns), (800, 20));
        assert_eq!(found.writes.sizes.count(), 2);
    }
}
