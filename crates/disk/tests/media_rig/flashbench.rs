//! What flashbench (A. Bergmann) does to a card: it finds the geometry from nothing but times.

use fsage_disk::request::Operation;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Bench, float};

/// Times of two reads before, across and behind boundaries of one alignment, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Alignment {
    pub align_bytes: u64,
    pub pre_us: f64,
    pub on_us: f64,
    pub post_us: f64,
}

impl Alignment {
    /// What the boundary costs.
    pub fn difference_us(&self) -> f64 {
        self.on_us - f64::midpoint(self.pre_us, self.post_us)
    }
}

/// `flashbench --align`: two reads of `block` bytes around boundaries of every power of two from `2 · block`
/// to an eighth of the card, smallest first; the mean of eight boundaries each, none of which is one of a
/// higher power.
pub fn align(bench: &mut Bench, block: u64) -> Vec<Alignment> {
    let mut rows = Vec::new();
    let mut align_bytes = 2 * block;
    while align_bytes <= bench.size_bytes / 16 {
        let mut sums = [0; 3];
        for n in 0..8 {
            let boundary = align_bytes * (2 * n + 1);
            for (sum, first) in sums.iter_mut().zip([boundary - 2 * block, boundary - block, boundary]) {
                // Elsewhere in between, so that no read finds what another left.
                bench.one(Operation::Read, bench.size_bytes - bench.size_bytes / 32, block);
                *sum += bench.one(Operation::Read, first, block);
                *sum += bench.one(Operation::Read, first + block, block);
            }
        }
        let [pre_us, on_us, post_us] = sums.map(|ns| float(ns) / 8.0 / 1000.0);
        rows.push(Alignment { align_bytes, pre_us, on_us, post_us });
        align_bytes *= 2;
    }
    rows
}

/// Where the cost of a boundary jumps by more than a tenth of its largest: page, pages of all planes,
/// allocation unit.
pub fn boundaries(rows: &[Alignment]) -> Vec<u64> {
    let largest = rows.iter().map(Alignment::difference_us).fold(0.0, f64::max);
    let mut before = 0.0;
    let mut found = Vec::new();
    for row in rows {
        let difference = row.difference_us();
        if difference - before > largest / 10.0 {
            found.push(row.align_bytes);
        }
        before = difference;
    }
    found
}

/// `flashbench --open-au`: one block to each of `units` allocation units in turn until they are full, upwards
/// or in random order; gives bytes per second.
pub fn open_units(medium: &str, unit_bytes: u64, block: u64, units: u64, in_order: bool) -> f64 {
    let mut bench = Bench::new(medium, 4 << 30);
    let mut order: Vec<u64> = (0..unit_bytes / block).collect();
    if !in_order {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        order.sort_by_cached_key(|_| random.next_u64());
    }
    for at in &order {
        for unit in 0..units {
            // Units that do not follow each other.
            bench.one(Operation::Write, (2 * unit + 1) * unit_bytes + at * block, block);
        }
    }
    float(units * unit_bytes) / (float(bench.now_ns) / 1e9)
}

/// The most allocation units that may be written in turn at more than half of the rate of one; 0 when even
/// one is as slow in this order as too many are in the other.
pub fn most_open(medium: &str, unit_bytes: u64, block: u64, in_order: bool) -> u64 {
    let one = open_units(medium, unit_bytes, block, 1, true);
    (1..=12)
        .take_while(|units| open_units(medium, unit_bytes, block, *units, in_order) > one / 2.0)
        .last()
        .unwrap_or(0)
}

/// The rates that the tool's README prints: units written in turn, bytes of a block, MiB per second.
pub const README_RATES: [(u64, u64, f64); 10] = [
    (2, 4 << 20, 8.79),
    (2, 2 << 20, 7.41),
    (2, 1 << 20, 6.87),
    (2, 512 << 10, 6.39),
    (2, 256 << 10, 6.27),
    (3, 4 << 20, 7.75),
    (3, 2 << 20, 5.03),
    (3, 1 << 20, 3.24),
    (3, 512 << 10, 1.76),
    (3, 256 << 10, 0.912),
];
