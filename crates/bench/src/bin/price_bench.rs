//! Times `fsage price` on a log of ten million requests: read from its file and run through a medium's model.
//!
//! `price_bench [MILLIONS]` (default 10). The log is made up: reads and writes of 4 to 128 KiB, three of four in a
//! few neighbourhoods of a volume of 64 GiB, one flush in 64. In `batches` they come as from a virtual disk,
//! 1 to 8 together; in `queue` as from a device that is kept busy by eight loads and is idle now and then.
//! Bound: 10 s for each medium.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks and stops at the first fault"
)]

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::Instant;

use fsage_disk::log::file::{Reader, Writer};
use fsage_disk::log::stream::{Item, Sink as _};
use fsage_disk::log::{Entry, Geometry};
use fsage_disk::media::Resolve as _;
use fsage_disk::price::price;
use fsage_disk::request::{Operation, Request};
use fsage_model::medium::MediumSpec;
use fsage_model::quantity::as_f64;

const SIZE_BYTES: u64 = 64 << 30;
const LIMIT_S: f64 = 10.0;
const MEDIA: [&str; 4] = ["hdd-7200", "hdd-10k", "ssd", "ssd-consumer"];

fn main() {
    let millions = std::env::args().nth(1).map_or(10, |number| number.parse().unwrap());
    let count = millions * 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    println!("{millions} million requests:\n\n| log | medium | seconds | ns per request | model time, s |");
    println!("| --- | --- | --- | --- | --- |");
    let mut slowest: f64 = 0.0;
    for (name, queued) in [("batches", false), ("queue", true)] {
        let path = folder.path().join(name);
        write(&path, count, queued);
        for medium in MEDIA {
            let spec: MediumSpec = medium.parse().unwrap();
            let begun = Instant::now();
            let mut model = spec.resolve(SIZE_BYTES).unwrap();
            let mut reader = Reader::new(BufReader::new(File::open(&path).unwrap())).unwrap();
            let priced = price(&mut reader, &mut model).unwrap();
            let seconds = begun.elapsed().as_secs_f64();
            assert_eq!(priced.requests, count);
            slowest = slowest.max(seconds);
            let (each_ns, model_s) = (seconds * 1e9 / as_f64(count), as_f64(priced.total_ns) / 1e9);
            println!("| {name} | {medium} | {seconds:.2} | {each_ns:.0} | {model_s:.0} |");
        }
        std::fs::remove_file(&path).unwrap();
    }
    assert!(slowest < LIMIT_S, "the limit is {LIMIT_S} s");
}

/// A sequence of numbers that look like chance (Steele et al. 2014, `SplitMix64`).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

fn request(dice: &mut Dice) -> Request {
    let draw = dice.next();
    if draw & 63 == 0 {
        return Request::new(Operation::Flush, 0, 0);
    }
    let place = dice.next() % (SIZE_BYTES / 4096 - 64) * 4096;
    let near = place % (64 << 20) + (draw >> 8 & 7) * (6 << 30);
    let operation = if draw >> 12 & 1 == 0 { Operation::Read } else { Operation::Write };
    let length = 4096 << (draw >> 16 & 7).min(5);
    Request::new(operation, if draw >> 20 & 3 == 0 { place } else { near }, length)
}

fn write(path: &Path, count: u64, queued: bool) {
    let geometry = Geometry { size_bytes: SIZE_BYTES, block_bytes: 4096 };
    let mut writer = Writer::new(BufWriter::new(File::create(path).unwrap()), geometry, 1).unwrap();
    let mut dice = Dice(7);
    let (mut number, mut now_ns) = (0, 0);
    // When each load has its answer.
    let mut due_ns = [0_u64; 8];
    while number < count {
        if queued {
            let load = (0..due_ns.len()).min_by_key(|&load| due_ns[load]).unwrap();
            now_ns = due_ns[load];
            due_ns[load] += 50_000 + dice.next() % 1_000_000;
            put(&mut writer, request(&mut dice), [now_ns, due_ns[load], number]);
            number += 1;
            if number % 1000 == 0 {
                due_ns = [due_ns.into_iter().max().unwrap_or(now_ns); 8];
            }
        } else {
            let batch = (1 + dice.next() % 8).min(count - number);
            let done_ns = now_ns + batch * 100_000;
            for _ in 0..batch {
                put(&mut writer, request(&mut dice), [now_ns, done_ns, number]);
            }
            (number, now_ns) = (number + batch, done_ns);
        }
    }
    writer.finish().unwrap();
}

fn put(writer: &mut Writer<BufWriter<File>>, request: Request, times: [u64; 3]) {
    let [issued_ns, done_ns, arrived_ns] = times;
    let entry = Entry { issued_ns, done_ns, arrived_ns, ..Entry::new(request) };
    writer.put(&Item::Entry(entry), &[]).unwrap();
}
