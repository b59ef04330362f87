//! Standard measurements of a medium: what a data sheet publishes, taken from the model by requests alone.
//! The tests hold them against the published values, the example that makes the documentation's tables and
//! plots prints them.

pub mod cliff;
pub mod flashbench;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fsage_disk::media::Resolve as _;
use fsage_disk::media::{Model, Partition};
use fsage_disk::request::{Operation, Request};
use fsage_model::medium::MediumSpec;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A medium under measurement, with its clock.
pub struct Bench {
    pub medium: Partition,
    pub size_bytes: u64,
    pub now_ns: u64,
    random: Xoshiro256PlusPlus,
    done_ns: Vec<u64>,
}

/// A counter's value.
pub fn counter(medium: &Partition, name: &str) -> f64 {
    medium.counters().into_iter().find(|c| c.name == name).map_or(f64::NAN, |c| c.value)
}

/// A parameter of a preset.
pub fn parameter(preset: &str, key: &str) -> f64 {
    let spec = MediumSpec::named(preset).unwrap_or_else(|e| panic!("{e}"));
    let found = spec.parameters().into_iter().find(|p| p.key == key);
    found.and_then(|p| p.value.parse().ok()).unwrap_or(f64::NAN)
}

/// A whole number as a float; exact for what is measured here.
pub fn float(number: u64) -> f64 {
    let high = u32::try_from(number >> 32).unwrap_or(u32::MAX);
    let low = u32::try_from(number & 0xffff_ffff).unwrap_or(u32::MAX);
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

/// The medium as a drive that is as large as its volume, where it has no geometry that says its size: a small
/// drive is quickly filled.
pub fn whole(medium: &str, size_bytes: u64) -> MediumSpec {
    let spec = medium.parse::<MediumSpec>().unwrap_or_else(|e| panic!("{e}"));
    match spec.parameters().iter().any(|parameter| parameter.key == "capacity_bytes") {
        true => format!("{medium},capacity_bytes={size_bytes}").parse().unwrap_or_else(|e| panic!("{e}")),
        false => spec,
    }
}

impl Bench {
    /// A volume of `size_bytes`, which is the whole of an SSD or a card and the outer edge of a hard disk.
    pub fn new(medium: &str, size_bytes: u64) -> Self {
        let medium = whole(medium, size_bytes).resolve(size_bytes);
        let medium = medium.unwrap_or_else(|e| panic!("{e}"));
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        Self { medium, size_bytes, now_ns: 0, random, done_ns: Vec::new() }
    }

    /// Serves requests that wait together; gives the time that took.
    pub fn serve(&mut self, batch: &[Request]) -> u64 {
        self.done_ns.clear();
        self.done_ns.resize(batch.len(), 0);
        self.medium.serve(self.now_ns, batch, &mut self.done_ns);
        let before_ns = self.now_ns;
        self.now_ns = self.done_ns.iter().copied().max().unwrap_or(before_ns);
        self.now_ns - before_ns
    }

    pub fn one(&mut self, operation: Operation, offset: u64, length: u64) -> u64 {
        self.serve(&[Request::new(operation, offset, length)])
    }

    /// A random aligned place.
    pub fn place(&mut self, block: u64) -> u64 {
        self.random.next_u64() % (self.size_bytes / block) * block
    }

    /// Bytes per second of sequential requests, `depth` of them at a time, from `start` on.
    pub fn sequential(
        &mut self,
        operation: Operation,
        start: u64,
        bytes: u64,
        block: u64,
        depth: u64,
    ) -> f64 {
        let begun_ns = self.now_ns;
        let mut at = start;
        while at < start + bytes {
            let batch: Vec<Request> =
                (0..depth).map(|n| Request::new(operation, at + n * block, block)).collect();
            self.serve(&batch);
            at += depth * block;
        }
        float(at - start) / (float(self.now_ns - begun_ns) / 1e9)
    }

    /// Requests per second at random aligned places, `depth` of them at a time.
    pub fn random(&mut self, operation: Operation, block: u64, depth: u64, count: u64) -> f64 {
        let begun_ns = self.now_ns;
        let rounds = (count / depth).max(1);
        for _ in 0..rounds {
            let batch: Vec<Request> =
                (0..depth).map(|_| Request::new(operation, self.place(block), block)).collect();
            self.serve(&batch);
        }
        float(rounds * depth) / (float(self.now_ns - begun_ns) / 1e9)
    }

    /// Requests per second at random aligned places while `depth` of them always wait: each answer brings the
    /// next one.
    pub fn kept(&mut self, operation: Operation, block: u64, depth: usize, count: u64) -> f64 {
        let mut waiting = BinaryHeap::from(vec![Reverse(self.now_ns); depth]);
        let begun_ns = self.now_ns;
        for _ in 0..count {
            let Reverse(now_ns) = waiting.pop().unwrap_or(Reverse(begun_ns));
            let mut done_ns = [0];
            let request = Request::new(operation, self.place(block), block);
            self.medium.serve(now_ns, &[request], &mut done_ns);
            waiting.push(Reverse(done_ns[0]));
            self.now_ns = self.now_ns.max(done_ns[0]);
        }
        float(count) / (float(self.now_ns - begun_ns) / 1e9)
    }

    /// Microseconds within which 99.9 % of random aligned requests are answered, each alone.
    pub fn slowest_us(&mut self, operation: Operation, block: u64, count: usize) -> f64 {
        let mut times_ns: Vec<u64> = (0..count)
            .map(|_| {
                let at = self.place(block);
                self.one(operation, at, block)
            })
            .collect();
        times_ns.sort_unstable();
        float(times_ns[count - 1 - count / 1000]) / 1e3
    }

    /// What a counter grew by while something was done.
    pub fn grown(&mut self, names: &[&str], what: impl FnOnce(&mut Self)) -> Vec<f64> {
        let before: Vec<f64> = names.iter().map(|n| counter(&self.medium, n)).collect();
        what(self);
        names.iter().zip(before).map(|(n, b)| counter(&self.medium, n) - b).collect()
    }
}

/// A figure of a model beside the published one.
pub struct Figure {
    pub name: &'static str,
    pub unit: &'static str,
    pub modelled: f64,
    /// Not every figure is published.
    pub published: Option<f64>,
}

impl Figure {
    pub fn deviation(&self) -> Option<f64> {
        self.published.map(|p| self.modelled / p - 1.0)
    }
}

/// What is published of a hard disk.
pub struct HddSheet {
    pub preset: &'static str,
    pub size_bytes: u64,
    pub cylinder_bytes: u64,
    pub track_to_track_ms: f64,
    pub average_ms: f64,
    pub full_stroke_ms: f64,
    pub write_track_to_track_ms: f64,
    pub write_average_ms: f64,
    pub write_full_stroke_ms: f64,
    /// Whether the seeks are published; else they are what the preset assumes.
    pub seeks_published: bool,
    pub latency_ms: f64,
    pub overhead_ms: f64,
    /// Mean rate under the head, bytes per second.
    pub mean_media_rate: Option<f64>,
    /// Rate outside by rate inside.
    pub rate_ratio: Option<f64>,
    pub outer_rate: Option<f64>,
    pub inner_rate: Option<f64>,
}

/// The data sheets of the presets.
pub const HDD_SHEETS: [HddSheet; 5] = [
    HddSheet {
        preset: "hdd-7200",
        size_bytes: 486_000_000_000,
        cylinder_bytes: 4 * 967_438,
        track_to_track_ms: 0.23,
        average_ms: 7.5,
        full_stroke_ms: 17.06,
        write_track_to_track_ms: 0.44,
        write_average_ms: 8.5,
        write_full_stroke_ms: 18.08,
        seeks_published: true,
        latency_ms: 4.16,
        overhead_ms: 0.2,
        mean_media_rate: Some(732_998.0 * 120.0),
        rate_ratio: Some(163.0 / 84.0),
        outer_rate: None,
        inner_rate: None,
    },
    HddSheet {
        preset: "hdd-10k",
        size_bytes: 600_000_000_000,
        cylinder_bytes: 6 * 883_770,
        track_to_track_ms: 0.30,
        average_ms: 3.8,
        full_stroke_ms: 7.81,
        write_track_to_track_ms: 0.56,
        write_average_ms: 4.4,
        write_full_stroke_ms: 8.18,
        seeks_published: true,
        latency_ms: 3.0,
        overhead_ms: 0.2,
        mean_media_rate: Some(677_557.0 / 0.006),
        rate_ratio: Some(135.0 / 72.0),
        outer_rate: Some(135e6),
        inner_rate: Some(72e6),
    },
    HddSheet {
        preset: "hdd-5400",
        size_bytes: 320_000_000_000,
        cylinder_bytes: 4 * 851_700,
        track_to_track_ms: 1.0,
        average_ms: 12.0,
        full_stroke_ms: 20.0,
        write_track_to_track_ms: 1.1,
        write_average_ms: 13.0,
        write_full_stroke_ms: 21.0,
        seeks_published: true,
        latency_ms: 5.5,
        overhead_ms: 0.3,
        mean_media_rate: None,
        rate_ratio: None,
        outer_rate: Some(70e6),
        inner_rate: None,
    },
    HddSheet {
        preset: "hdd-500gb",
        size_bytes: 500_107_862_016,
        cylinder_bytes: 1_773_300,
        track_to_track_ms: 1.0,
        average_ms: 8.5,
        full_stroke_ms: 18.0,
        write_track_to_track_ms: 1.2,
        write_average_ms: 9.5,
        write_full_stroke_ms: 19.0,
        seeks_published: false,
        latency_ms: 4.17,
        overhead_ms: 0.2,
        mean_media_rate: None,
        rate_ratio: None,
        outer_rate: Some(190e6),
        inner_rate: Some(90e6),
    },
    HddSheet {
        preset: "hdd-20tb",
        size_bytes: 20_000_588_955_648,
        cylinder_bytes: 20 * 2_466_200,
        track_to_track_ms: 0.23,
        average_ms: 7.5,
        full_stroke_ms: 15.0,
        write_track_to_track_ms: 0.32,
        write_average_ms: 8.0,
        write_full_stroke_ms: 15.5,
        seeks_published: false,
        latency_ms: 4.16,
        overhead_ms: 0.2,
        mean_media_rate: None,
        rate_ratio: None,
        outer_rate: Some(285e6),
        inner_rate: None,
    },
];

/// Mean seek and settle over requests to places that `next` gives, in milliseconds.
fn mean_seek_ms(
    sheet: &HddSheet,
    operation: Operation,
    count: u64,
    next: impl Fn(u64, &mut Bench) -> u64,
) -> f64 {
    let flag = format!("{},read_cache_bytes=0,write_cache_bytes=0", sheet.preset);
    let mut bench = Bench::new(&flag, sheet.size_bytes);
    let grown = bench.grown(&["seek_ns", "settle_ns", "seeks"], |bench| {
        for n in 0..count {
            let at = next(n, bench);
            bench.one(operation, at, 4096);
        }
    });
    (grown[0] + grown[1]) / grown[2] / 1e6
}

/// A seek figure beside the data sheet's, if that is published.
fn seek_figures(sheet: &HddSheet) -> Vec<Figure> {
    let last = sheet.size_bytes / 4096 * 4096 - 4096;
    let step = |operation| mean_seek_ms(sheet, operation, 100, |n, _| n % 2 * sheet.cylinder_bytes);
    let average = |operation| mean_seek_ms(sheet, operation, 40_000, |_, bench| bench.place(4096));
    let stroke = |operation| mean_seek_ms(sheet, operation, 100, |n, _| n % 2 * last);
    let figure = |name, modelled, published| {
        let published = sheet.seeks_published.then_some(published);
        Figure { name, unit: "ms", modelled, published }
    };
    let (read, write) = (Operation::Read, Operation::Write);
    vec![
        figure("seek to the next track, read", step(read), sheet.track_to_track_ms),
        figure("seek to the next track, write", step(write), sheet.write_track_to_track_ms),
        figure("average seek, read", average(read), sheet.average_ms),
        figure("average seek, write", average(write), sheet.write_average_ms),
        figure("full stroke, read", stroke(read), sheet.full_stroke_ms),
        figure("full stroke, write", stroke(write), sheet.write_full_stroke_ms),
    ]
}

/// Seeks, rates and random reads of a preset beside its data sheet.
pub fn hdd_figures(sheet: &HddSheet) -> Vec<Figure> {
    let last = sheet.size_bytes / 4096 * 4096 - 4096;
    let figure = |name, unit, modelled, published| Figure { name, unit, modelled, published };
    let rate = |flag: &str, start| {
        let mut bench = Bench::new(flag, sheet.size_bytes);
        bench.sequential(Operation::Read, start, 256 << 20, 128 << 10, 1)
    };
    let outer = rate(sheet.preset, 0);
    let inner = rate(sheet.preset, last - (300 << 20));
    let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
    let media = bench.grown(&["host_read_bytes", "transfer_ns"], |bench| {
        for part in 0..200 {
            let at = sheet.size_bytes / 200 * part;
            bench.one(Operation::Read, at / 4096 * 4096, 16 << 20);
        }
    });
    let random = |depth, count| {
        let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
        bench.random(Operation::Read, 4096, depth, count)
    };
    let slowest_us = Bench::new(sheet.preset, sheet.size_bytes).slowest_us(Operation::Read, 4096, 10_000);
    let access_ms = sheet.overhead_ms + sheet.average_ms + sheet.latency_ms;
    let access = sheet.seeks_published.then_some(1000.0 / access_ms);
    let mean_rate = media[0] / media[1] * 1e3;
    let mut figures = seek_figures(sheet);
    figures.extend([
        figure("sequential read, outside", "MB/s", outer / 1e6, sheet.outer_rate.map(|r| r / 1e6)),
        figure("sequential read, inside", "MB/s", inner / 1e6, sheet.inner_rate.map(|r| r / 1e6)),
        figure("outer ÷ inner rate", "1", outer / inner, sheet.rate_ratio),
        figure("mean rate under the head", "MB/s", mean_rate, sheet.mean_media_rate.map(|r| r / 1e6)),
        figure("random 4 KiB reads, depth 1", "1/s", random(1, 20_000), access),
        figure("random 4 KiB reads, 32 at a time", "1/s", random(32, 20_000), None),
        figure("random 4 KiB reads, queue kept full", "1/s", random(4_000, 20_000), None),
        figure("99.9 % of random 4 KiB reads, depth 1, within", "ms", slowest_us / 1e3, None),
    ]);
    figures
}

/// What is published of an SSD.
pub struct SsdSheet {
    pub preset: &'static str,
    pub size_bytes: u64,
    /// What random requests are spread over, and how many wait.
    pub span_bytes: u64,
    pub depth: usize,
    /// Sequential writes of the second half of the drive: behind the SLC cache.
    pub behind_cache: Option<f64>,
    pub read_rate: f64,
    pub write_rate: f64,
    pub random_read: f64,
    pub random_write: f64,
    /// Whether the random writes are those of the steady state.
    pub steady: bool,
    pub random_read_one: Option<f64>,
    pub random_write_one: Option<f64>,
    pub read_latency_us: Option<f64>,
    pub write_latency_us: Option<f64>,
}

/// The data sheets of the presets, at a size that is quickly measured (see `docs/media.md`).
pub const SSD_SHEETS: [SsdSheet; 7] = [
    SsdSheet {
        preset: "ssd",
        size_bytes: 4 << 30,
        span_bytes: 4 << 30,
        depth: 32,
        behind_cache: Some(460e6),
        read_rate: 500e6,
        write_rate: 460e6,
        random_read: 75_000.0,
        random_write: 36_000.0,
        steady: true,
        random_read_one: None,
        random_write_one: None,
        read_latency_us: Some(50.0),
        write_latency_us: Some(65.0),
    },
    SsdSheet {
        preset: "ssd-consumer",
        size_bytes: 4 << 30,
        span_bytes: 4 << 30,
        depth: 32,
        behind_cache: None,
        read_rate: 550e6,
        write_rate: 520e6,
        random_read: 98_000.0,
        random_write: 90_000.0,
        steady: false,
        random_read_one: Some(10_000.0),
        random_write_one: Some(42_000.0),
        read_latency_us: None,
        write_latency_us: None,
    },
    SsdSheet {
        preset: "nvme-tlc",
        size_bytes: 4 << 30,
        span_bytes: 256 << 20,
        depth: 512,
        behind_cache: Some(2_000e6),
        read_rate: 7_000e6,
        write_rate: 5_000e6,
        random_read: 1_000_000.0,
        random_write: 1_000_000.0,
        steady: false,
        random_read_one: Some(22_000.0),
        random_write_one: Some(60_000.0),
        read_latency_us: None,
        write_latency_us: None,
    },
    SsdSheet {
        preset: "nvme-qlc",
        size_bytes: 4 << 30,
        span_bytes: 256 << 20,
        depth: 256,
        behind_cache: Some(100e6),
        read_rate: 1_800e6,
        write_rate: 1_800e6,
        random_read: 220_000.0,
        random_write: 220_000.0,
        steady: false,
        random_read_one: None,
        random_write_one: None,
        read_latency_us: None,
        write_latency_us: None,
    },
    SsdSheet {
        preset: "ufs",
        size_bytes: 4 << 30,
        span_bytes: 512 << 20,
        depth: 32,
        behind_cache: None,
        read_rate: 2_100e6,
        write_rate: 1_200e6,
        random_read: 100_000.0,
        random_write: 70_000.0,
        steady: false,
        random_read_one: None,
        random_write_one: None,
        read_latency_us: None,
        write_latency_us: None,
    },
    SsdSheet {
        preset: "emmc",
        size_bytes: 1 << 30,
        span_bytes: 512 << 20,
        depth: 32,
        behind_cache: None,
        read_rate: 250e6,
        write_rate: 125e6,
        random_read: 11_000.0,
        random_write: 13_000.0,
        steady: false,
        random_read_one: None,
        random_write_one: None,
        read_latency_us: None,
        write_latency_us: None,
    },
    SsdSheet {
        preset: "sd-a2",
        size_bytes: 1 << 30,
        span_bytes: 512 << 20,
        depth: 32,
        behind_cache: None,
        read_rate: 90e6,
        write_rate: 10e6,
        random_read: 4_000.0,
        random_write: 2_000.0,
        steady: false,
        random_read_one: None,
        random_write_one: None,
        read_latency_us: None,
        write_latency_us: None,
    },
];

/// Rates, requests per second and latencies of a preset beside its data sheet.
pub fn ssd_figures(sheet: &SsdSheet) -> Vec<Figure> {
    let figure = |name, unit, modelled, published| Figure { name, unit, modelled, published };
    let (size, depth) = (sheet.size_bytes, sheet.depth);
    let mut bench = Bench::new(sheet.preset, size);
    let burst = bench.sequential(Operation::Write, 0, 128 << 20, 128 << 10, 32);
    bench.sequential(Operation::Write, 128 << 20, size / 2 - (128 << 20), 128 << 10, 32);
    let sustained = bench.sequential(Operation::Write, size / 2, size / 2, 128 << 10, 32);
    bench.one(Operation::Flush, 0, 0);
    let read = bench.sequential(Operation::Read, 0, size / 4, 128 << 10, 32);
    let read_one = bench.sequential(Operation::Read, 0, 256 << 20, 128 << 10, 1);
    let latency = bench.sequential(Operation::Read, size / 4, 16 << 20, 4096, 1);
    // Random reads of what was just written, as makers measure them.
    let mut written = Bench::new(sheet.preset, size);
    written.size_bytes = sheet.span_bytes;
    written.sequential(Operation::Write, 0, sheet.span_bytes, 128 << 10, 32);
    written.one(Operation::Flush, 0, 0);
    let random_read = written.kept(Operation::Read, 4096, depth, 100_000);
    let random_read_one = written.random(Operation::Read, 4096, 1, 10_000);
    let slowest_read_us = written.slowest_us(Operation::Read, 4096, 10_000);
    let slowest_write_us = written.slowest_us(Operation::Write, 4096, 10_000);
    let steady = {
        let mut bench = Bench::new(&format!("{},condition=steady", sheet.preset), size);
        let count = if sheet.steady { 400_000 } else { 100_000 };
        bench.kept(Operation::Write, 4096, 32, count);
        bench.kept(Operation::Write, 4096, 32, count)
    };
    let mut fresh = Bench::new(sheet.preset, size);
    fresh.size_bytes = sheet.span_bytes;
    let fresh_write = fresh.kept(Operation::Write, 4096, depth, 20_000);
    let fresh_write_one = fresh.random(Operation::Write, 4096, 1, 2_000);
    let us = |rate: f64| 4096.0 / rate * 1e6;
    let mut fresh = Bench::new(sheet.preset, size);
    let write_latency = us(fresh.sequential(Operation::Write, 0, 16 << 20, 4096, 1));
    let when = |condition: bool, value| if condition { Some(value) } else { None };
    vec![
        figure("sequential read, depth 32", "MB/s", read / 1e6, Some(sheet.read_rate / 1e6)),
        figure("sequential read, depth 1", "MB/s", read_one / 1e6, None),
        figure("sequential write, first 128 MiB", "MB/s", burst / 1e6, Some(sheet.write_rate / 1e6)),
        figure("sequential write, second half", "MB/s", sustained / 1e6, sheet.behind_cache.map(|r| r / 1e6)),
        figure("random 4 KiB reads, queue kept full", "1/s", random_read, Some(sheet.random_read)),
        figure("random 4 KiB reads, depth 1", "1/s", random_read_one, sheet.random_read_one),
        figure("random 4 KiB writes, steady state", "1/s", steady, when(sheet.steady, sheet.random_write)),
        figure(
            "random 4 KiB writes, fresh, queue kept full",
            "1/s",
            fresh_write,
            when(!sheet.steady, sheet.random_write),
        ),
        figure("random 4 KiB writes, fresh, depth 1", "1/s", fresh_write_one, sheet.random_write_one),
        figure("99.9 % of random 4 KiB reads, depth 1, within", "µs", slowest_read_us, None),
        figure("99.9 % of random 4 KiB writes, depth 1, within", "µs", slowest_write_us, None),
        figure("latency, sequential 4 KiB read", "µs", us(latency), sheet.read_latency_us),
        figure("latency, sequential 4 KiB write", "µs", write_latency, sheet.write_latency_us),
    ]
}

/// The counters of a medium by name.
pub fn counters(medium: &Partition) -> BTreeMap<String, f64> {
    medium.counters().into_iter().map(|c| (c.name, c.value)).collect()
}
