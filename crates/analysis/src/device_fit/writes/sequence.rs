//! Runs of writes with their times, and what sequences of them show: where they bend, what a buffer holds, where the rate falls for good.

use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::timed_read::BlockRange;
use fsage_model::timed_write::WrittenRun;

use crate::device_fit::Parameter;
use crate::stats::quantile::{count, median, quantile};

/// Fewest writes of a window that a sequence is examined through, and most windows.
const WINDOW: usize = 4;
const WINDOWS: usize = 128;
/// How much slower writes have to become for a bend.
const BEND: f64 = 1.1;
/// How far the rates of both halves behind the bend may be apart.
const STEADY: f64 = 0.1;
/// How far what a sequence shows may be from the median of all.
const AGREEING: f64 = 0.15;
/// Fewest writes of a window of which a rate is taken to find a cliff, and most windows.
const CLIFF_WINDOW: usize = 8;
const CLIFF_WINDOWS: usize = 512;
/// A rate that falls below this share of the one before has fallen off the cliff.
const CLIFF: f64 = 0.75;

/// Nothing was found.
pub(super) const NO_BUFFER: &str = "too few sequences of writes become slower, once and at the same place: write buffer and drain are the preset's";

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One small write.
    Single,
    /// A short sequence of small pieces.
    Fine,
    /// A long sequence of large pieces.
    Long,
}

/// A run with its times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) kind: Kind,
    pub(super) writes: &'a [BlockRange],
    pub(super) run: &'a WrittenRun,
}

impl Written<'_> {
    pub(super) fn asked_ns(&self) -> u64 {
        self.run.times.asked_ns.first().copied().unwrap_or(0)
    }

    pub(super) fn answered_ns(&self) -> u64 {
        self.run.times.answered_ns.last().copied().unwrap_or(0)
    }

    /// From the first question to the last answer.
    pub(super) fn taken_ns(&self) -> f64 {
        as_f64(self.answered_ns().saturating_sub(self.asked_ns()))
    }

    /// From the last answer on.
    pub(super) fn flush_ns(&self) -> f64 {
        as_f64(self.run.flushed_ns.saturating_sub(self.answered_ns()))
    }

    /// From the first question to the end of the flush.
    pub(super) fn durable_ns(&self) -> f64 {
        as_f64(self.run.flushed_ns.saturating_sub(self.asked_ns()))
    }

    /// How long each write took, from the answer before.
    pub(super) fn steps_ns(&self) -> Vec<f64> {
        let answered = &self.run.times.answered_ns;
        let before = std::iter::once(self.asked_ns()).chain(answered.iter().copied());
        before.zip(answered).map(|(before, after)| as_f64(after.saturating_sub(before))).collect()
    }

    /// What the sequence shows, if its writes become slower once.
    pub(super) fn sequence(&self) -> Option<Sequence> {
        let piece = f64::from(self.writes.first()?.length_bytes);
        let steps = self.steps_ns();
        let window = WINDOW.max(steps.len().div_ceil(WINDOWS));
        let windows: Vec<f64> = steps.chunks_exact(window).map(|steps| steps.iter().sum()).collect();
        let bend = bend(&windows)?;
        // The window behind it may have some of both.
        let from = (bend + 1) * window;
        let (before, tail) = steps.split_at_checked(from).filter(|(_, tail)| tail.len() >= 2 * window)?;
        let halves = tail.split_at(tail.len() / 2);
        let rate = |steps: &[f64]| piece * count(steps.len()) * 1e9 / steps.iter().sum::<f64>().max(1.0);
        let (first, second) = (rate(halves.0), rate(halves.1));
        let drain = rate(tail);
        let is_steady = (first - second).abs() <= STEADY * drain;
        let bytes = piece * count(before.len());
        let fill = piece * count(window) * 1e9 / median(&windows[..bend])?.max(1.0);
        is_steady.then(|| Sequence {
            piece,
            rate: drain,
            fill,
            held_bytes: bytes - drain * before.iter().sum::<f64>() / 1e9,
            bend_bytes: piece * count((bend + 1) * window),
            first_ns: steps.first().copied().unwrap_or(0.0),
            flush_ns: self.flush_ns(),
        })
    }
}

/// The number of windows before writes become slower: the two halves whose medians leave least (least absolute deviations,
/// which late answers do not move), where there are two windows before and a quarter of all behind.
fn bend(windows: &[f64]) -> Option<usize> {
    let left = |windows: &[f64]| {
        let middle = median(windows).unwrap_or(0.0);
        windows.iter().map(|one| (one - middle).abs()).sum::<f64>()
    };
    let last = windows.len().checked_sub(windows.len().div_ceil(4).max(2))?;
    let cost = |at: usize| left(&windows[..at]) + left(&windows[at..]);
    let best = (2..=last).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    let (before, after) = (median(&windows[..best])?, median(&windows[best..])?);
    (after >= BEND * before).then_some(best)
}

/// What a sequence shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// Bytes of each write.
    pub(super) piece: f64,
    /// Bytes per second behind the bend.
    pub(super) rate: f64,
    /// Bytes per second before it.
    pub(super) fill: f64,
    /// Bytes that were taken more than the rate explains.
    pub(super) held_bytes: f64,
    /// Bytes that were taken up to the bend, at most.
    pub(super) bend_bytes: f64,
    /// What the first write took.
    pub(super) first_ns: f64,
    pub(super) flush_ns: f64,
}

/// The buffer and what drains it.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) sequences: Vec<Sequence>,
    /// Bytes per second.
    pub(super) rate: f64,
}

/// What most sequences show: those near the median of all, if these are more than half. A late answer near the bend spoils one.
pub(super) fn buffer(runs: &[&Written<'_>]) -> Option<Buffer> {
    let mut sequences: Vec<Sequence> = runs.iter().filter_map(|run| run.sequence()).collect();
    let middle = median(&sequences.iter().map(|one| one.held_bytes).collect::<Vec<_>>())?;
    sequences
        .retain(|one| one.held_bytes > one.piece && (one.held_bytes - middle).abs() <= AGREEING * middle);
    let rate = median(&sequences.iter().map(|one| one.rate).collect::<Vec<_>>())?;
    (2 * sequences.len() > runs.len()).then_some(Buffer { sequences, rate })
}

/// Where the rate falls for good.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cliff {
    /// Bytes that all writes had brought by then.
    pub(super) bytes: f64,
    /// Long sequences that ended before it.
    pub(super) sequences: usize,
    /// Bytes per second behind it.
    pub(super) rate: f64,
}

/// Rates over the long sequences, window by window: the bytes that were written before, the sequence, and bytes per second.
fn windows(runs: &[Written<'_>]) -> Vec<(f64, usize, f64)> {
    let writes = runs.iter().filter(|run| run.kind == Kind::Long).map(|run| run.writes.len()).sum::<usize>();
    let window = CLIFF_WINDOW.max(writes.div_ceil(CLIFF_WINDOWS));
    let mut written = 0.0;
    let mut found = Vec::new();
    let mut sequence = 0;
    for run in runs {
        let answered = &run.run.times.answered_ns;
        let mut begin_ns = run.asked_ns();
        for (index, writes) in run.writes.chunks(window).enumerate() {
            let bytes: f64 = writes.iter().map(|write| f64::from(write.length_bytes)).sum();
            let end_ns = answered[index * window + writes.len() - 1];
            if run.kind == Kind::Long {
                found.push((written, sequence, bytes * 1e9 / as_f64(end_ns.saturating_sub(begin_ns).max(1))));
            }
            written += bytes;
            begin_ns = end_ns;
        }
        sequence += usize::from(run.kind == Kind::Long);
    }
    found
}

/// The first window from which on nearly all are slower than those before.
pub(super) fn cliff(runs: &[Written<'_>]) -> Option<Cliff> {
    let windows = windows(runs);
    let rates: Vec<f64> = windows.iter().map(|window| window.2).collect();
    let least = windows.len().div_ceil(8);
    (least..windows.len().saturating_sub(least)).find_map(|index| {
        let before = median(&rates[..index])?;
        let is_slow = |rate: f64| rate < CLIFF * before;
        let later = &rates[index..];
        let slow = later.iter().filter(|rate| is_slow(**rate)).count();
        let is_cliff = is_slow(rates[index]) && 10 * slow >= 9 * later.len();
        let (bytes, sequences, _) = windows[index];
        is_cliff.then_some(Cliff { bytes, sequences, rate: median(later)? })
    })
}

/// A parameter of few sequences: the median, from the least to the greatest, or derived of fewer than three.
pub(super) fn of_few(key: &'static str, values: &[f64], (low, high): (f64, f64), how: String) -> Parameter {
    let value = to_u64(median(values).unwrap_or(0.0));
    if values.len() < 3 {
        return Parameter::derived(key, value, how);
    }
    Parameter::measured(key, value, (low.max(0.0), high.max(0.0)), how)
}

pub(super) fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)))
}

pub(super) fn slows_down(buffer: &Buffer) -> String {
    format!(
        "{} sequences of writes take so much before they slow down to {:.1} MB/s",
        buffer.sequences.len(),
        buffer.rate / 1e6
    )
}

pub(super) fn spread(samples: &[f64]) -> f64 {
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| quantile(samples, q).unwrap_or(0.0));
    (high - low) / middle.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence into a buffer of so many bytes that fills with one rate and drains with another; every `late`th answer is 3 ms late.
    fn sequence(buffer: f64, fill: f64, drain: f64, late: usize) -> Option<Sequence> {
        let writes: Vec<BlockRange> = (0..256).map(|n| BlockRange::new(n << 20, 1 << 20)).collect();
        let (mut now, mut held, mut run) = (0.0_f64, 0.0_f64, WrittenRun::default());
        for (index, write) in writes.iter().enumerate() {
            run.times.asked_ns.push(to_u64(now));
            let length = f64::from(write.length_bytes);
            let waits = ((held + length - buffer) / drain).max(0.0);
            let takes = waits.max(length / fill) + if index % late == late - 1 { 0.003 } else { 0.0 };
            held = (held + length - takes * drain).max(0.0);
            now += takes * 1e9;
            run.times.answered_ns.push(to_u64(now));
        }
        run.flushed_ns = to_u64(now + held / drain * 1e9);
        Written { kind: Kind::Long, writes: &writes, run: &run }.sequence()
    }

    #[test]
    fn a_bend_shows_the_buffer_and_none_shows_nothing() {
        for late in [10_000, 40] {
            let found = sequence(64e6, 300e6, 150e6, late).unwrap();
            assert!((found.held_bytes / 64e6 - 1.0).abs() < 0.05, "{found:?}");
            assert!((found.rate / 150e6 - 1.0).abs() < 0.02 && found.flush_ns > 0.3e9, "{found:?}");
            assert!((found.fill / 300e6 - 1.0).abs() < 0.02, "{found:?}");
            assert!(sequence(64e6, 100e6, 150e6, late).is_none(), "what drains faster than it fills");
        }
        // It is full at the very end: nothing is known of the rate behind it.
        assert!(sequence(120e6, 300e6, 150e6, 10_000).is_none());
    }

    #[test]
    fn windows_that_become_slower_have_one_bend() {
        let mut windows = vec![10.0; 20];
        windows.extend(vec![15.0; 20]);
        (windows[3], windows[30]) = (90.0, 70.0);
        assert_eq!(bend(&windows), Some(20));
        assert_eq!(bend(&[10.0; 40]), None);
        windows.reverse();
        assert_eq!(bend(&windows), None, "they become faster");
        assert_eq!(bend(&[10.0, 20.0]), None);
    }
}
