//! The evolution of latency: samples of all threads become ticks, intervals between probes, and totals.
//!
//! Threads send latencies in batches; everything is kept here, by the thread that runs the load, beside the
//! operations and not among them. A tick's order statistics come from its sorted samples: clearing and
//! searching a histogram of 270 KB a kind for every 500 operations would cost more than the operations' other
//! bookkeeping together. Only a tick of more than 65,536 operations is a histogram. Ticks end at fixed
//! numbers of operations: about 2,000 over a load whose operations are known; else a tick lasts 500
//! operations at first and, from the 500th tick on, twice as many after every further 250, so that memory and
//! report stay bounded however long the load runs.

use std::collections::BTreeMap;
use std::time::Duration;

use fsage_model::load::{LatencySummary, Tick, tick_operations};
use fsage_model::operation::OperationKind;

use crate::latency::{LatencySet, summarise_sorted};

/// A latency with its kind, packed: kind in bits 60.., failure in bit 59, nanoseconds below. So samples are
/// sorted by kind, within a kind successes come first, and among those the shortest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample(u64);

const FAILED: u64 = 1 << 59;
const LATENCY: u64 = FAILED - 1;

impl Sample {
    #[inline]
    pub fn new(kind: OperationKind, latency_ns: u64, failed: bool) -> Self {
        let kind = u64::from(kind as u8) << 60;
        Self(kind | (u64::from(failed) * FAILED) | latency_ns.min(LATENCY))
    }

    fn success(self) -> Option<(OperationKind, u64)> {
        let kind = usize::try_from(self.0 >> 60).unwrap_or(0);
        (self.0 & FAILED == 0).then_some((OperationKind::ALL[kind], self.0 & LATENCY))
    }
}

const FIRST_TICKS: u64 = 500;
const FURTHER_TICKS: u64 = 250;

/// Samples of a tick that are kept as they are; a longer tick becomes a histogram.
const KEPT: usize = 1 << 16;

/// Samples that a thread sends at once: one wake-up of the thread in charge for each batch.
const BATCH: usize = 1024;

/// Collects samples.
#[derive(Debug)]
pub struct Evolution {
    /// Samples of the tick under way, unless they are in `long` already.
    samples: Vec<Sample>,
    /// The first of them that is not in `interval` yet.
    fresh: usize,
    /// Of a tick longer than [`KEPT`].
    long: LatencySet,
    interval: LatencySet,
    total: LatencySet,
    operations: u64,
    length: u64,
    next: u64,
    fixed: bool,
    ticks: u64,
    elapsed_ns: u64,
    interval_start_ns: u64,
}

impl Evolution {
    /// An evolution of a load that ends after `operations`, if that is known.
    pub fn new(operations: Option<u64>) -> Self {
        let length = tick_operations(operations);
        Self {
            samples: Vec::with_capacity(usize::try_from(length).unwrap_or(KEPT).min(KEPT)),
            fresh: 0,
            long: LatencySet::default(),
            interval: LatencySet::default(),
            total: LatencySet::default(),
            operations: 0,
            length,
            next: length,
            fixed: operations.is_some(),
            ticks: 0,
            elapsed_ns: 0,
            interval_start_ns: 0,
        }
    }

    /// How many samples a thread should send at once, of `threads` threads: not more than two ticks' worth
    /// together when ticks are short.
    pub fn batch(&self, threads: u64) -> usize {
        usize::try_from(2 * self.length / threads.max(1)).unwrap_or(BATCH).clamp(64, BATCH)
    }

    /// Takes a batch whose last operation ended at `elapsed_ns`; `done` gets the ticks that it ends. When a
    /// tick ends amid a batch, its time is set in proportion between the last batch's end and this one's.
    pub fn take(&mut self, samples: &[Sample], elapsed_ns: u64, mut done: impl FnMut(Tick)) {
        let (before_ns, length) = (self.elapsed_ns, samples.len());
        let gained_ns = elapsed_ns.saturating_sub(before_ns);
        let mut rest = samples;
        while !rest.is_empty() {
            let left = usize::try_from(self.next.saturating_sub(self.operations)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(left.min(KEPT - self.samples.len()).min(rest.len()));
            self.samples.extend_from_slice(now);
            self.operations += u64::try_from(now.len()).unwrap_or(0);
            rest = later;
            self.elapsed_ns = before_ns + part_of(gained_ns, length - rest.len(), length);
            if self.operations >= self.next {
                done(self.end_tick());
            } else if self.samples.len() == KEPT {
                self.lengthen();
            }
        }
    }

    /// The tick that is under way, at the end of the load.
    pub fn last(&mut self) -> Option<Tick> {
        (self.operations + self.length > self.next).then(|| self.end_tick())
    }

    fn end_tick(&mut self) -> Tick {
        let latency = if self.long.is_empty() {
            self.note();
            self.samples.sort_unstable();
            summaries(&self.samples)
        } else {
            self.lengthen();
            let summary = self.long.summary();
            self.long.clear();
            summary
        };
        self.samples.clear();
        self.fresh = 0;
        self.ticks += 1;
        if !self.fixed
            && self.ticks >= FIRST_TICKS
            && (self.ticks - FIRST_TICKS).is_multiple_of(FURTHER_TICKS)
        {
            self.length *= 2;
        }
        self.next = self.operations + self.length;
        Tick { operations: self.operations, elapsed_ns: self.elapsed_ns, latency }
    }

    /// Puts the samples not there yet into the interval's histograms, in order, which spares the caches.
    fn note(&mut self) {
        let fresh = &mut self.samples[self.fresh..];
        fresh.sort_unstable();
        for (kind, latency_ns) in fresh.iter().filter_map(|sample| sample.success()) {
            self.interval.record(kind, latency_ns);
        }
        self.fresh = self.samples.len();
    }

    /// Turns the samples of a long tick into histograms.
    fn lengthen(&mut self) {
        self.note();
        for (kind, latency_ns) in self.samples.drain(..).filter_map(Sample::success) {
            self.long.record(kind, latency_ns);
        }
        self.fresh = 0;
    }

    /// Latencies since the last call, with their interval-log lines; `elapsed_ns` is now.
    pub fn end_interval(
        &mut self,
        elapsed_ns: u64,
    ) -> (BTreeMap<OperationKind, LatencySummary>, Vec<String>) {
        self.note();
        let start = Duration::from_nanos(self.interval_start_ns);
        let length = Duration::from_nanos(elapsed_ns.saturating_sub(self.interval_start_ns));
        let ended = (self.interval.summary(), self.interval.interval_lines(start, length));
        self.total.merge(&self.interval);
        self.interval.clear();
        self.interval_start_ns = elapsed_ns;
        ended
    }

    /// Latencies of everything up to the last end of an interval.
    pub fn total(&self) -> BTreeMap<OperationKind, LatencySummary> {
        self.total.summary()
    }
}

/// `total` × `part` / `whole`, rounded down; `part` is not larger than `whole`.
fn part_of(total: u64, part: usize, whole: usize) -> u64 {
    let wide = |number: usize| u128::try_from(number).unwrap_or(u128::MAX);
    u64::try_from(u128::from(total) * wide(part) / wide(whole).max(1)).unwrap_or(total)
}

/// Order statistics of each kind of sorted samples.
fn summaries(sorted: &[Sample]) -> BTreeMap<OperationKind, LatencySummary> {
    let kinds = sorted.chunk_by(|a, b| a.0 >> 60 == b.0 >> 60);
    kinds
        .filter_map(|samples| {
            let (kind, _) = samples.first()?.success()?;
            let successes = &samples[..samples.partition_point(|sample| sample.0 & FAILED == 0)];
            Some((kind, summarise_sorted(successes.len(), |place| successes[place].0 & LATENCY)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(evolution: &mut Evolution, operations: u64) -> Vec<Tick> {
        let mut ticks = Vec::new();
        let batch = [Sample::new(OperationKind::Create, 7, false); 100];
        for round in 0..operations / 100 {
            evolution.take(&batch, round, |tick| ticks.push(tick));
        }
        ticks.extend(evolution.last());
        ticks
    }

    #[test]
    fn samples_keep_kind_latency_and_failure() {
        for kind in OperationKind::ALL {
            assert_eq!(Sample::new(kind, 123, false).success(), Some((kind, 123)));
            assert_eq!(Sample::new(kind, 123, true).success(), None);
        }
    }

    #[test]
    fn a_known_end_gives_at_most_two_thousand_ticks() {
        let ticks = ticks(&mut Evolution::new(Some(3_000_000)), 3_000_000);
        assert_eq!(ticks.len(), 2000);
        assert!(ticks.iter().all(|tick| tick.latency[&OperationKind::Create].count == 1500));
    }

    #[test]
    fn an_unknown_end_makes_ticks_longer_and_loses_none() {
        let ticks = ticks(&mut Evolution::new(None), 20_000_050);
        assert!(ticks.len() < 2100, "{}", ticks.len());
        let counted: u64 = ticks.iter().map(|tick| tick.latency[&OperationKind::Create].count).sum();
        assert_eq!(counted, 20_000_000);
        assert!(ticks.is_sorted_by_key(|tick| tick.operations));
    }

    #[test]
    fn a_tick_has_the_statistics_of_its_samples() {
        let mut evolution = Evolution::new(Some(1000));
        let mut ticks = Vec::new();
        let mut batch: Vec<Sample> =
            (0..500).map(|n| Sample::new(OperationKind::Read, (n * 7919) % 500 + 1, n % 5 == 4)).collect();
        batch.extend((0..500).map(|n| Sample::new(OperationKind::Create, 40 - n % 4, false)));
        evolution.take(&batch, 1000, |tick| ticks.push(tick));
        assert_eq!(
            ticks.iter().map(|tick| (tick.operations, tick.elapsed_ns)).collect::<Vec<_>>(),
            [(500, 500), (1000, 1000)]
        );
        let mut values: Vec<u64> = (0..500).filter(|n| n % 5 != 4).map(|n| (n * 7919) % 500 + 1).collect();
        values.sort_unstable();
        let read = &ticks[0].latency[&OperationKind::Read];
        assert_eq!(read.count, 400);
        assert_eq!((read.min_ns, read.max_ns), (values[0], values[399]));
        assert_eq!(
            [read.p50_ns, read.p90_ns, read.p99_ns, read.p999_ns],
            [values[199], values[359], values[395], values[399]]
        );
        let mean = fsage_model::quantity::share(values.iter().sum(), 400);
        assert!((read.mean_ns - mean).abs() < 1e-6);
        let create = &ticks[1].latency[&OperationKind::Create];
        assert_eq!((create.count, create.min_ns, create.p50_ns, create.max_ns), (500, 37, 38, 40));
        assert_eq!((ticks[0].latency.len(), ticks[1].latency.len()), (1, 1));
    }

    #[test]
    fn failures_alone_give_no_latency() {
        let mut evolution = Evolution::new(None);
        evolution.take(&[Sample::new(OperationKind::Append, 9, true); 10], 5, |_| ());
        assert_eq!(evolution.last().map(|tick| (tick.operations, tick.latency.len())), Some((10, 0)));
    }

    #[test]
    fn ticks_too_long_to_keep_lose_nothing() {
        let operations = 2000 * 70_000;
        let mut evolution = Evolution::new(Some(operations));
        let mut ticks = Vec::new();
        let batch: Vec<Sample> =
            (1..=1000).map(|n| Sample::new(OperationKind::Read, n * 1000, false)).collect();
        for round in 0..140 {
            evolution.take(&batch, round, |tick| ticks.push(tick));
        }
        assert_eq!(ticks.len(), 2);
        for tick in &ticks {
            let read = &tick.latency[&OperationKind::Read];
            assert_eq!(read.count, 70_000);
            assert!(read.p50_ns.abs_diff(500_000) <= 500 && read.max_ns.abs_diff(1_000_000) <= 1000);
        }
        assert_eq!(evolution.end_interval(200).0[&OperationKind::Read].count, 140_000);
    }

    #[test]
    fn an_interval_may_end_amid_a_tick() {
        let mut evolution = Evolution::new(None);
        let batch = [Sample::new(OperationKind::Create, 7, false); 300];
        evolution.take(&batch, 1, |_| ());
        let (first, _) = evolution.end_interval(1);
        let mut ticks = Vec::new();
        evolution.take(&batch, 2, |tick| ticks.push(tick));
        let (second, _) = evolution.end_interval(2);
        assert_eq!(first[&OperationKind::Create].count, 300);
        assert_eq!(second[&OperationKind::Create].count, 300);
        assert_eq!(ticks[0].latency[&OperationKind::Create].count, 500);
    }

    #[test]
    fn intervals_add_up_to_the_total() {
        let mut evolution = Evolution::new(None);
        ticks(&mut evolution, 1000);
        let (first, lines) = evolution.end_interval(5);
        ticks(&mut evolution, 500);
        let (second, _) = evolution.end_interval(9);
        assert_eq!((first[&OperationKind::Create].count, lines.len()), (1000, 1));
        assert_eq!(second[&OperationKind::Create].count, 500);
        assert_eq!(evolution.total()[&OperationKind::Create].count, 1500);
    }
}
