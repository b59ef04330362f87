//! Writes until a drive's fast part is full, behind that, and after a rest: what a data sheet calls "up to", and
//! what it does not say.

use fsage_disk::request::Operation;

use super::{Bench, SsdSheet, counter, float};

/// A write cliff, and what a rest does to it.
#[derive(Debug)]
pub struct Cliff {
    /// Units per second before it: bytes, or requests.
    pub before: f64,
    /// Bytes or requests until it.
    pub until: f64,
    pub behind: f64,
    /// After the rest, and for how many bytes or requests.
    pub rested: f64,
    pub rested_until: f64,
}

/// Sequential writes of an SSD of `size_bytes` that is filled from `from_bytes` on to three quarters; between
/// them it rests for a minute.
pub fn ssd(sheet: &SsdSheet, size_bytes: u64, from_bytes: u64) -> Cliff {
    let mut bench = Bench::new(sheet.preset, size_bytes);
    let (step, end) = (size_bytes / 256 / (4 << 20) * (4 << 20), size_bytes / 4 * 3);
    bench.sequential(Operation::Write, 0, from_bytes, 128 << 10, 32);
    rest(&mut bench, 60);
    let phase = |bench: &mut Bench, from: u64, to: u64| {
        let rates: Vec<f64> = (from..to)
            .step_by(usize::try_from(step).expect("a step is small"))
            .map(|at| bench.sequential(Operation::Write, at, step, 128 << 10, 32))
            .collect();
        let fast = rates.iter().take_while(|rate| **rate > 0.6 * rates[0]).count();
        let slow = &rates[(fast + 2).min(rates.len() - 1)..];
        (rates[0], fast, slow.iter().sum::<f64>() / float(slow.len().try_into().unwrap_or(1)))
    };
    let middle = from_bytes + (end - from_bytes) / 2 / step * step;
    let (before, fast, behind) = phase(&mut bench, from_bytes, middle);
    rest(&mut bench, 60);
    let (rested, fast_again, _) = phase(&mut bench, middle, end);
    let bytes = |count: usize| float(count.try_into().unwrap_or(0) * step);
    Cliff { before, until: bytes(fast), behind, rested, rested_until: bytes(fast_again) }
}

/// So many seconds without requests.
pub fn rest(bench: &mut Bench, seconds: u64) {
    bench.one(Operation::Flush, 0, 0);
    bench.now_ns += seconds * 1_000_000_000;
}

/// Random writes of 4 KiB all over a disk with bands, one after the other: `most` of them, then a rest of ten
/// minutes, then `most` again.
pub fn shingled(flag: &str, most: u64) -> Cliff {
    let mut bench = Bench::new(flag, 8_000_000_000_000);
    let phase = |bench: &mut Bench| {
        let begun_ns = bench.now_ns;
        let mut fast = 0;
        while fast < most && bench.now_ns - begun_ns < 3_600_000_000_000 {
            let at = bench.place(4096);
            // The first write that waits for a band ends the fast phase.
            if bench.one(Operation::Write, at, 4096) > 200_000_000 {
                break;
            }
            fast += 1;
        }
        let fast_s = float(bench.now_ns - begun_ns) / 1e9;
        let slow = bench.random(Operation::Write, 4096, 1, 200);
        (float(fast) / fast_s, float(fast), slow)
    };
    let (before, until, behind) = phase(&mut bench);
    rest(&mut bench, 600);
    let (rested, rested_until, _) = phase(&mut bench);
    Cliff { before, until, behind, rested, rested_until }
}

/// Seconds that cleaning a band takes in idle time, on a disk whose bands are all written.
pub fn band_clean_s() -> f64 {
    let mut bench = Bench::new("smr,bands=written", 8_000_000_000_000);
    bench.random(Operation::Write, 4096, 1, 2000);
    rest(&mut bench, 0);
    let before = counter(&bench.medium, "busy_ns");
    bench.now_ns += 3_600_000_000_000;
    bench.one(Operation::Read, 0, 4096);
    (counter(&bench.medium, "busy_ns") - before) / counter(&bench.medium, "band_cleans") / 1e9
}

/// Reading 64 MiB that were written in sequence on a disk with bands, in bytes per second: as they were, after
/// 2,000 pages of them were written again, and after an hour's rest.
pub fn shingled_read() -> [f64; 3] {
    let mut bench = Bench::new("smr", 1 << 40);
    let bytes = 64 << 20;
    let read = |bench: &mut Bench| bench.sequential(Operation::Read, 0, bytes, 1 << 20, 1);
    bench.sequential(Operation::Write, 0, 2 * bytes, 1 << 20, 1);
    bench.one(Operation::Flush, 0, 0);
    let new = read(&mut bench);
    for _ in 0..2000 {
        let at = bench.place(4096) % bytes;
        bench.one(Operation::Write, at, 4096);
    }
    bench.one(Operation::Flush, 0, 0);
    let aged = read(&mut bench);
    rest(&mut bench, 3600);
    [new, aged, read(&mut bench)]
}
