//! The boundary test on modelled cards of known geometry, 1,000 times with 5 % noise: at least 95 % right, and at most 1 %
//! wrong instead of "no answer"; and the open-unit test on them, with the same limits. Places and order are those that the agent
//! reads and writes, times those of the model.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

#[path = "support/noise.rs"]
mod noise;

use std::convert::Infallible;

use fsage_analysis::geometry::open::{self, Device, OpenLimit, OpenUnits, Trial, Units, block_ns};
use fsage_analysis::geometry::{Geometry, NoAnswer, TRIPLES, enough, judge, rows};
use fsage_disk::media::{Model as _, Resolve as _};
use fsage_disk::request::{Operation, Request};
use fsage_engine::geometry::{empty, plan, time};
use fsage_model::geometry::{BoundarySpec, BoundaryTimes};
use fsage_model::medium::MediumSpec;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::timed_read::RunTimes;
use fsage_model::timed_write::WrittenRun;
use noise::Noise;

const SIZE_BYTES: u64 = 8 << 30;

/// A drive and the alignments at which its reads begin to cost more.
type Known = (&'static str, &'static [u64]);

/// Cards: their page, the pages of all planes, and the unit.
const CARDS: [Known; 5] = [
    ("sd", &[8192, 16_384, 4 << 20]),
    ("sd-class10", &[8192, 16_384, 4 << 20]),
    ("sd,unit_bytes=2097152,page_bytes=16384", &[16_384, 32_768, 2 << 20]),
    ("sd,unit_bytes=8388608,page_bytes=4096,planes=4", &[4096, 16_384, 8 << 20]),
    ("sd,unit_bytes=1048576,page_bytes=8192,planes=1", &[8192, 1 << 20]),
];

/// SSDs that map single pages and were written in sequence: the pages of all planes, which a die reads at once and keeps.
const SSDS: [Known; 4] = [
    ("ssd,capacity_bytes=8589934592,condition=filled", &[16_384]),
    ("ssd-consumer,capacity_bytes=8589934592,condition=filled", &[32_768]),
    ("ssd-consumer,capacity_bytes=8589934592,condition=filled,planes=4", &[65_536]),
    ("ssd-consumer,capacity_bytes=8589934592,condition=filled,planes=1", &[16_384]),
];

/// The same with a map that is not in memory as a whole: where one of its segments ends, another one is read now and then, which is a
/// small step.
const PARTLY_MAPPED: [Known; 2] = [
    ("emmc,capacity_bytes=8589934592,condition=filled", &[65_536, 4 << 20]),
    ("sd-a2,capacity_bytes=8589934592,condition=filled", &[32_768, 4 << 20]),
];

/// One test of a card whose times vary by `deviation` of themselves; `outliers` of them take three times as long.
fn probe(medium: &str, seed: u64, deviation: f64, outliers: f64) -> Result<Geometry, NoAnswer> {
    let mut card = medium.parse::<MediumSpec>().unwrap().resolve(SIZE_BYTES).unwrap();
    let mut noise = Noise(seed.wrapping_mul(77));
    let mut now_ns = 0;
    let mut read = |triples, seed| {
        let spec = BoundarySpec::new(SIZE_BYTES, 512, None, triples, seed).unwrap();
        let mut alignments = empty(&spec);
        for reading in plan(&spec, 0, SIZE_BYTES) {
            let before_ns = now_ns;
            for n in 0..2 {
                let offset = reading.offset_bytes + n * u64::from(spec.block_bytes);
                let request = Request::new(Operation::Read, offset, u64::from(spec.block_bytes));
                let mut done_ns = [now_ns];
                card.serve(now_ns, &[request], &mut done_ns);
                now_ns = done_ns[0];
            }
            let slow = if noise.uniform() < outliers { 3.0 } else { 1.0 };
            let taken = as_f64(now_ns - before_ns) * (1.0 + deviation * noise.normal()) * slow;
            *time(&mut alignments[reading.alignment].triples[reading.triple], reading.side) = to_u64(taken);
        }
        BoundaryTimes { alignments, read_bytes: 0, elapsed_ns: now_ns }
    };
    let first = read(TRIPLES, seed);
    let more = |triples, round| Ok::<_, Infallible>(Some(read(triples, seed.wrapping_add(round))));
    judge(&rows(&enough(first, more).unwrap()))
}

/// Right, wrong and unanswered ones of `runs` tests over all of `drives`.
fn tally(drives: &[Known], runs: u64, deviation: f64, outliers: f64) -> (u64, u64, u64) {
    let (mut right, mut wrong, mut none) = (0, 0, 0);
    for (seed, (drive, expected)) in (1..=runs).zip(drives.iter().cycle()) {
        match probe(drive, seed, deviation, outliers) {
            Ok(found) if found.boundaries.iter().map(|one| one.bytes).eq(expected.iter().copied()) => {
                right += 1
            }
            Ok(found) => {
                println!("seed {seed}, {drive}: {found:?}");
                wrong += 1;
            }
            Err(reason) => {
                println!("seed {seed}, {drive}: {reason}");
                none += 1;
            }
        }
    }
    println!(
        "{runs} runs, noise {deviation}, outliers {outliers}: {right} right, {wrong} wrong, {none} no answer"
    );
    (right, wrong, none)
}

#[test]
fn geometries_are_found_under_noise_and_hardly_ever_wrong() {
    for drives in [&CARDS[..], &SSDS, &PARTLY_MAPPED] {
        let (right, wrong, _) = tally(drives, 1000, 0.05, 0.0);
        assert!(right >= 950 && wrong <= 10, "{right} right, {wrong} wrong of 1000");
    }
}

#[test]
fn outliers_do_not_make_wrong_answers() {
    let (right, wrong, _) = tally(&CARDS, 100, 0.05, 0.02);
    assert!(right >= 90 && wrong <= 1, "{right} right, {wrong} wrong of 100");
}

/// Six times the noise: what cannot be known is not said.
#[test]
fn too_much_noise_is_no_answer_rather_than_a_wrong_one() {
    let (_, wrong, none) = tally(&CARDS, 100, 0.3, 0.0);
    assert!(wrong <= 5 && none >= 50, "{wrong} wrong, {none} without an answer of 100");
}

/// An SSD whose cells were never written reads no page.
#[test]
fn an_empty_ssd_has_no_answer() {
    for seed in 1..=100 {
        let found = probe("ssd,capacity_bytes=8589934592", seed, 0.05, 0.0);
        assert!(found.is_err(), "{found:?}");
    }
}

/// Each card, its unit, and how many units can be written in turn: in order, and at random.
const OPEN: [(&str, u64, u32, u32); 6] = [
    ("sd", 4 << 20, 2, 0),
    ("sd-class10", 4 << 20, 5, 0),
    ("sd,unit_bytes=2097152,open_units=5,page_bytes=16384", 2 << 20, 5, 0),
    ("sd,unit_bytes=8388608,open_units=7,page_bytes=4096,planes=4,order=any", 8 << 20, 7, 7),
    ("sd,unit_bytes=1048576,open_units=1,page_bytes=8192,planes=1,order=any", 1 << 20, 1, 1),
    ("sd,open_units=10,order=any", 4 << 20, 10, 10),
];

/// One open-unit test of a card, as [`probe`].
fn probe_open(medium: &str, unit_bytes: u64, seed: u64, deviation: f64, outliers: f64) -> OpenUnits {
    let mut card = medium.parse::<MediumSpec>().unwrap().resolve(SIZE_BYTES).unwrap();
    let device = Device {
        size_bytes: SIZE_BYTES,
        sector_bytes: 512,
        start_bytes: 0,
        head_bytes: 4 << 20,
        tail_bytes: 1 << 20,
    };
    let mut units = Units::new(&device, unit_bytes, 16, seed).unwrap();
    let mut noise = Noise(seed.wrapping_mul(77));
    let (mut now_ns, mut wall_ns) = (0, 0);
    let mut time = |trial: &Trial| {
        let mut times = RunTimes::default();
        for write in units.writes(*trial) {
            let before_ns = now_ns;
            let request = Request::new(Operation::Write, write.offset_bytes, write.length_bytes.into());
            let mut done_ns = [now_ns];
            card.serve(now_ns, &[request], &mut done_ns);
            now_ns = done_ns[0];
            let slow = if noise.uniform() < outliers { 3.0 } else { 1.0 };
            times.asked_ns.push(wall_ns);
            wall_ns += to_u64(as_f64(now_ns - before_ns) * (1.0 + deviation * noise.normal()) * slow);
            times.answered_ns.push(wall_ns);
        }
        block_ns(*trial, &WrittenRun { times, flushed_ns: wall_ns }).unwrap()
    };
    let measure = &mut |trials: &[Trial]| Ok::<_, Infallible>(trials.iter().map(&mut time).collect());
    open::find(16, seed, measure).unwrap()
}

/// Right, wrong and unanswered ones of both orders in `runs` tests over all cards.
fn tally_open(runs: u64, deviation: f64, outliers: f64) -> (u64, u64, u64) {
    let (mut right, mut wrong, mut none) = (0, 0, 0);
    for (seed, (card, unit, linear, random)) in (1..=runs).zip(OPEN.iter().cycle()) {
        let found = probe_open(card, *unit, seed, deviation, outliers);
        for (limit, expected) in [(&found.linear, *linear), (&found.random, *random)] {
            match limit {
                OpenLimit::Units { units, .. } if *units == expected => right += 1,
                OpenLimit::Unclear { .. } | OpenLimit::Gradual { .. } => none += 1,
                _ => {
                    println!("seed {seed}, {card}: {found:?}");
                    wrong += 1;
                }
            }
        }
    }
    println!(
        "{runs} open-unit tests, noise {deviation}, outliers {outliers}: {right} right, {wrong} wrong, {none} no answer"
    );
    (right, wrong, none)
}

#[test]
fn open_units_are_found_under_noise_and_hardly_ever_wrong() {
    let (right, wrong, _) = tally_open(1000, 0.05, 0.0);
    assert!(right >= 1900 && wrong <= 20, "{right} right, {wrong} wrong of 2000");
    let (right, wrong, _) = tally_open(100, 0.3, 0.02);
    assert!(right >= 180 && wrong <= 2, "{right} right, {wrong} wrong of 200");
}

/// An SSD maps pages: no number of units is slow.
#[test]
fn an_ssd_has_no_limit_of_open_units() {
    for seed in 1..=10 {
        let found = probe_open("ssd,capacity_bytes=8589934592", 4 << 20, seed, 0.05, 0.0);
        for limit in [&found.linear, &found.random] {
            assert!(matches!(limit, OpenLimit::NoLimit { tried: 16, .. }), "{found:?}");
        }
    }
}
