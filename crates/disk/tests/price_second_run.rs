//! Pricing against the truth: the same load really run on the other medium's model.
//!
//! The load is a generator that is driven by the answers of the medium under it, so that on another medium
//! its requests come at other times and in another order. What is recorded on one medium and priced on another is
//! compared with the generator run there. Nothing of the kernel is in it: a file system that would ask
//! something else on the other medium is another matter (docs/disk.md).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say what it measured")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsage_disk::disk::{Disk, DiskOptions};
use fsage_disk::log::stream::{LogSource, NoContents};
use fsage_disk::log::{Entry, Geometry, Log};
use fsage_disk::media::{Model as _, Partition, Resolve as _};
use fsage_disk::price::{Deviation, Priced, price};
use fsage_disk::request::{Data, Operation, Request, Transfer};
use fsage_model::medium::MediumSpec;
use fsage_model::quantity::as_f64;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const SIZE_BYTES: u64 = 1 << 30;

/// Drives of flash as large as the volume: large ones take longer to make.
const HDD_7200: &str = "hdd-7200";
const HDD_10K: &str = "hdd-10k";
const SSD: &str = "ssd,capacity_bytes=1073741824";
const CONSUMER: &str = "ssd-consumer,capacity_bytes=1073741824";

fn medium(flag: &str) -> Partition {
    flag.parse::<MediumSpec>().unwrap().resolve(SIZE_BYTES).unwrap()
}

fn priced(log: &Log, flag: &str) -> Priced {
    price(&mut LogSource::new(log, NoContents), &mut medium(flag)).unwrap()
}

/// A mixed request at a random place, mostly in a few neighbourhoods.
fn request(random: &mut Xoshiro256PlusPlus, reads_of_16: u64) -> Request {
    let draw = random.next_u64();
    let place = random.next_u64() % (SIZE_BYTES / 4096 - 64) * 4096;
    let near = if draw >> 8 & 3 > 0 { place % (32 << 20) + (draw >> 16 & 3) * (200 << 20) } else { place };
    let length = 4096 << (draw >> 20 & 3);
    match draw & 15 {
        n if n < reads_of_16 => Request::new(Operation::Read, near, length),
        15 if draw >> 24 & 3 == 0 => Request::new(Operation::Flush, 0, 0),
        14 if draw >> 24 & 3 == 0 => Request::new(Operation::Discard, near, length),
        _ => Request::new(Operation::Write, near, length),
    }
}

/// A disk whose load keeps up to `depth` requests waiting and asks again when all are answered, as requests
/// come to a disk in model time; its log, and what its clock showed at the end.
fn batches(flag: &str, depth: u64, rounds: u64) -> (Log, u64) {
    let mut disk = Disk::new(&DiskOptions::new(SIZE_BYTES), Box::new(medium(flag))).unwrap();
    disk.name_medium(flag.to_owned());
    disk.start_log();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(depth);
    let zeros = vec![0; 32 << 10];
    for round in 0..rounds {
        if round % 200 == 100 {
            disk.rest();
        }
        if round == rounds / 2 {
            disk.mark("half").unwrap();
        }
        let count = 1 + random.next_u64() % depth;
        let requests: Vec<Request> = (0..count).map(|_| request(&mut random, 8)).collect();
        let mut buffers: Vec<Vec<u8>> =
            requests.iter().map(|request| vec![0; usize::try_from(request.length_bytes).unwrap()]).collect();
        let mut transfers: Vec<Transfer<'_>> = requests
            .iter()
            .zip(&mut buffers)
            .map(|(request, buffer)| {
                let data = match request.operation {
                    Operation::Read => Data::In(buffer),
                    Operation::Write => Data::Out(&zeros[..buffer.len()]),
                    _ => Data::None,
                };
                Transfer::new(*request, data)
            })
            .collect();
        disk.submit(&mut transfers);
    }
    let mut log = Log::new(Geometry { size_bytes: SIZE_BYTES, block_bytes: 4096 });
    let recorded = disk.log().unwrap();
    let mut marks = recorded.marks().iter().peekable();
    for (number, entry) in (0..).zip(recorded.entries(0)) {
        while let Some(mark) = marks.next_if(|mark| mark.position <= number) {
            log.mark(&mark.name, mark.set_ns);
        }
        log.push(&entry);
    }
    (log, disk.clock_ns())
}

/// What a worker does between an answer and its next request.
type Think = fn(&mut Xoshiro256PlusPlus) -> u64;

const NO_THINK: Think = |_| 0;
/// Up to 200 µs, as programs that work on what they read.
const SOME_THINK: Think = |random| random.next_u64() % 200_000;

/// Workers, each with its own requests, that ask again when their own request is answered and they have
/// thought; the log, and the sums of the times of reads and of writes.
fn workers(flag: &str, count: u64, each: u64, think: Think) -> Log {
    let mut medium = medium(flag);
    let mut log = Log::new(Geometry { size_bytes: SIZE_BYTES, block_bytes: 4096 });
    let mut randoms: Vec<_> = (0..count).map(Xoshiro256PlusPlus::seed_from_u64).collect();
    let mut left = vec![each; randoms.len()];
    let mut due: BinaryHeap<_> = (0..randoms.len()).map(|worker| Reverse((0, worker))).collect();
    while let Some(Reverse((now_ns, worker))) = due.pop() {
        // Workers differ in what they do: one reads, another one writes.
        let asked = request(&mut randoms[worker], if worker % 2 == 0 { 14 } else { 4 });
        let mut done_ns = [0];
        medium.serve(now_ns, &[asked], &mut done_ns);
        let arrived_ns = log.len();
        log.push(&Entry { issued_ns: now_ns, done_ns: done_ns[0], arrived_ns, ..Entry::new(asked) });
        left[worker] -= 1;
        if left[worker] > 0 {
            due.push(Reverse((done_ns[0] + think(&mut randoms[worker]), worker)));
        }
    }
    log
}

/// The figures of a log as it was recorded: whole time, mean time of reads, of writes.
fn figures(log: &Log) -> [f64; 3] {
    let (mut sums, mut counts, mut end_ns) = ([0, 0], [0, 0], 0);
    for entry in log.entries(0) {
        let kind = match entry.request.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            _ => continue,
        };
        sums[kind] += entry.done_ns - entry.issued_ns;
        counts[kind] += 1;
        end_ns = end_ns.max(entry.done_ns);
    }
    let mean = |kind: usize| as_f64(sums[kind]) / as_f64(counts[kind]);
    [as_f64(end_ns), mean(0), mean(1)]
}

/// By how much pricing misses a second run, of each figure.
fn errors(from: &str, to: &str, run: impl Fn(&str) -> Log) -> [f64; 3] {
    let second = figures(&run(to));
    let found = priced(&run(from), to);
    let mean = |kind: fsage_disk::price::KindTimes| as_f64(kind.sum_ns) / as_f64(kind.requests);
    let found = [as_f64(found.total_ns), mean(found.read), mean(found.write)];
    std::array::from_fn(|figure| found[figure] / second[figure] - 1.0)
}

#[test]
fn the_medium_recorded_is_repeated_to_the_nanosecond() {
    for flag in [HDD_7200, SSD, "sd,capacity_bytes=1073741824", "ram"] {
        for (depth, rounds) in [(1, 600), (32, 60)] {
            let (log, clock_ns) = batches(flag, depth, rounds);
            let found = priced(&log, flag);
            assert_eq!(found.deviation, Deviation::default(), "{flag}, {depth} at a time");
            assert_eq!((found.total_ns, found.recorded_ns), (clock_ns, clock_ns), "{flag}");
            assert_eq!(found.intervals.len(), 2);
        }
        for think in [NO_THINK, SOME_THINK] {
            let found = priced(&workers(flag, 8, 100, think), flag);
            assert_eq!(found.deviation, Deviation::default(), "{flag}, workers");
        }
    }
}

#[test]
fn a_load_in_model_time_is_priced_exactly() {
    for (from, to) in [(HDD_7200, HDD_10K), (HDD_10K, HDD_7200), (SSD, CONSUMER), (CONSUMER, SSD)] {
        for (depth, rounds) in [(1, 600), (32, 60)] {
            let (log, _) = batches(from, depth, rounds);
            let (second, clock_ns) = batches(to, depth, rounds);
            let found = priced(&log, to);
            assert_eq!(found.total_ns, clock_ns, "{from} on {to}");
            let own = priced(&second, to);
            assert_eq!((found.read.sum_ns, found.write.sum_ns), (own.read.sum_ns, own.write.sum_ns));
            assert_eq!((found.flush.p99_ns, &found.counters), (own.flush.p99_ns, &own.counters));
            let times = |priced: &Priced| priced.intervals.iter().map(|one| one.total_ns).collect::<Vec<_>>();
            assert_eq!(times(&found), times(&own));
        }
    }
}

/// Bounds of docs/disk.md for the whole time, reads and writes: of a queue that is kept full, and of workers
/// that think between an answer and their next request, whose log does not say who waited for what.
const KEPT: [f64; 3] = [0.05, 0.05, 0.10];
const THINKING: [f64; 3] = [0.25, 0.10, 0.30];

#[test]
fn a_queue_that_workers_keep_is_priced_within_the_bounds() {
    println!("| recorded on | priced on | workers | thinking | whole time | reads | writes |");
    let mut beyond = Vec::new();
    for (from, to) in [(HDD_7200, HDD_10K), (HDD_10K, HDD_7200), (SSD, CONSUMER), (CONSUMER, SSD)] {
        for count in [4, 16] {
            for (think, thinking, bounds) in [(NO_THINK, "none", KEPT), (SOME_THINK, "0 to 200 µs", THINKING)]
            {
                let found = errors(from, to, |flag| workers(flag, count, 1000, think));
                let percent = found.map(|error| format!("{:+.2} %", error * 100.0));
                let row = format!("| {from} | {to} | {count} | {thinking} | {} |", percent.join(" | "));
                println!("{row}");
                if found.iter().zip(bounds).any(|(error, bound)| error.abs() > bound) {
                    beyond.push(row);
                }
            }
        }
    }
    assert_eq!(beyond, [] as [String; 0]);
}

#[test]
fn slower_seeks_take_longer() {
    let (log, _) = batches(HDD_7200, 4, 200);
    let as_it_is = priced(&log, HDD_7200);
    let slow =
        priced(&log, "hdd-7200,track_to_track_ns=460000,average_seek_ns=15000000,full_stroke_ns=34120000");
    assert!(slow.total_ns > as_it_is.total_ns && slow.read.sum_ns > as_it_is.read.sum_ns);
    let seek_ns = |priced: &Priced| {
        priced.counters.iter().find(|counter| counter.name == "seek_ns").map_or(0.0, |counter| counter.value)
    };
    assert!(seek_ns(&slow) > 1.5 * seek_ns(&as_it_is), "{} {}", seek_ns(&slow), seek_ns(&as_it_is));
}
