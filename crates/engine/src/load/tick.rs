//! The evolution of latency: samples of all threads become ticks, intervals between probes, and totals.
//!
//! Threads send latencies in batches; all histograms are kept here, by the thread that runs the load, beside
//! the operations and not among them. Ticks end at fixed numbers of operations: about 2,000 over a load whose
//! operations are known; else a tick lasts 500 operations at first and, from the 500th tick on, twice as many
//! after every further 250, so that memory and report stay bounded however long the load runs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LatencySummary, Tick};
use crate::latency::LatencySet;
use crate::operation::OperationKind;

/// A latency with its kind, packed: kind in bits 60.., failure in bit 59, nanoseconds below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

const TICKS: u64 = 2000;
const SHORTEST: u64 = 500;
const FIRST_TICKS: u64 = 500;
const FURTHER_TICKS: u64 = 250;

/// Collects samples.
#[derive(Debug)]
pub struct Evolution {
    tick: LatencySet,
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
        let length = operations.map_or(SHORTEST, |operations| operations.div_ceil(TICKS).max(SHORTEST));
        Self {
            tick: LatencySet::default(),
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

    /// How many samples a thread should send at once, of `threads` threads.
    pub fn batch(&self, threads: u64) -> usize {
        usize::try_from((self.length / (2 * threads)).clamp(64, 2048)).unwrap_or(64)
    }

    /// Takes a batch whose last operation ended at `elapsed_ns`; `done` gets the ticks that it ends.
    pub fn take(&mut self, samples: &[Sample], elapsed_ns: u64, mut done: impl FnMut(Tick)) {
        for sample in samples {
            self.operations += 1;
            if let Some((kind, latency_ns)) = sample.success() {
                self.tick.record(kind, latency_ns);
                self.interval.record(kind, latency_ns);
            }
            if self.operations >= self.next {
                self.elapsed_ns = elapsed_ns.max(self.elapsed_ns);
                done(self.end_tick());
            }
        }
        self.elapsed_ns = elapsed_ns.max(self.elapsed_ns);
    }

    /// The tick that is under way, at the end of the load.
    pub fn last(&mut self) -> Option<Tick> {
        (self.operations + self.length > self.next).then(|| self.end_tick())
    }

    fn end_tick(&mut self) -> Tick {
        let tick =
            Tick { operations: self.operations, elapsed_ns: self.elapsed_ns, latency: self.tick.summary() };
        self.tick.clear();
        self.ticks += 1;
        if !self.fixed
            && self.ticks >= FIRST_TICKS
            && (self.ticks - FIRST_TICKS).is_multiple_of(FURTHER_TICKS)
        {
            self.length *= 2;
        }
        self.next = self.operations + self.length;
        tick
    }

    /// Latencies since the last call, with their interval-log lines; `elapsed_ns` is now.
    pub fn end_interval(
        &mut self,
        elapsed_ns: u64,
    ) -> (BTreeMap<OperationKind, LatencySummary>, Vec<String>) {
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
