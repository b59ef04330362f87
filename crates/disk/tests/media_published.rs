//! The models against what is published of devices like them, and against theory.
//!
//! The tolerances are what the models keep today and no more than is said in `docs/media.md`.

#![allow(dead_code, reason = "the example uses the rest of the rig")]

mod media_rig;

use fsage_disk::media::ssd::theory::{greedy, write_amplification};
use fsage_disk::request::Operation;
use media_rig::{Bench, Figure, HDD_SHEETS, SSD_SHEETS, counter, float, hdd_figures, parameter, ssd_figures};

const MIB: u64 = 1 << 20;

/// What is not met of the figures that are published, within the tolerance for its name; at least `least` of them
/// are published.
fn missed(preset: &str, figures: &[Figure], least: usize, tolerance: impl Fn(&str) -> f64) -> Vec<String> {
    let published: Vec<&Figure> = figures.iter().filter(|figure| figure.published.is_some()).collect();
    assert!(published.len() >= least, "{preset}: {} figures published", published.len());
    let misses = published.iter().filter_map(|figure| {
        let deviation = figure.deviation()?;
        let Figure { name, unit, modelled, .. } = figure;
        (deviation.abs() > tolerance(name))
            .then(|| format!("{preset}: {name} is {modelled:.3} {unit}, {:+.1} %", 100.0 * deviation))
    });
    misses.collect()
}

#[test]
fn hard_disks_keep_their_data_sheets() {
    let misses = HDD_SHEETS.iter().flat_map(|sheet| {
        // The mean of a seek over equally likely places is weighted by the longer outer tracks, the data
        // sheet's is not.
        let tolerance = |name: &str| if name.starts_with("average") { 0.02 } else { 0.015 };
        missed(sheet.preset, &hdd_figures(sheet), if sheet.seeks_published { 7 } else { 1 }, tolerance)
    });
    assert_eq!(misses.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn drives_keep_their_data_sheets() {
    let misses = SSD_SHEETS.iter().flat_map(|sheet| {
        missed(sheet.preset, &ssd_figures(sheet), 4, |name| match name {
            _ if name.starts_with("latency") => 0.05,
            _ if name.starts_with("sequential") => 0.06,
            // No flash is spent on the mapping of this drive: the steady state is the model's too kind figure.
            _ => 0.08,
        })
    });
    assert_eq!(misses.collect::<Vec<_>>(), Vec::<String>::new());
}

/// A queue lets the disk choose: more requests per second with every doubling, at most what the seeks that
/// are left allow.
#[test]
fn a_queue_shortens_positioning() {
    for sheet in &HDD_SHEETS {
        let rates = [1, 2, 4, 8, 16, 32].map(|depth| {
            Bench::new(sheet.preset, sheet.size_bytes).random(Operation::Read, 4096, depth, 8_000)
        });
        assert!(rates.is_sorted(), "{}: {rates:?}", sheet.preset);
        let gain = rates[5] / rates[0];
        assert!((1.7..2.6).contains(&gain), "{}: {gain:.2}", sheet.preset);
    }
}

/// Bytes per second of the platters where tracks have this many bytes: a cylinder is its tracks, a turn each, and
/// the switches.
fn platters(preset: &str, track_bytes: &str) -> f64 {
    let of = |key| parameter(preset, key);
    let (surfaces, turn_s) = (of("surfaces"), 60.0 / of("rpm"));
    let switches_s = ((surfaces - 1.0) * of("head_switch_ns") + of("cylinder_switch_ns")) / 1e9;
    surfaces * of(track_bytes) / (surfaces * turn_s + switches_s)
}

/// From zone to zone inwards the rate falls and never rises; streaming keeps the head's rate but for the
/// switches.
#[test]
fn sequential_rates_follow_the_zones() {
    for sheet in &HDD_SHEETS {
        let rates: Vec<f64> = (0..12)
            .map(|part| {
                let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
                bench.sequential(Operation::Read, sheet.size_bytes / 12 * part, 64 * MIB, 128 << 10, 1)
            })
            .collect();
        assert!(rates.is_sorted_by(|a, b| *a >= b * 0.995), "{}: {rates:?}", sheet.preset);
        assert!(rates[0] > 1.3 * rates[11], "{}: {rates:?}", sheet.preset);
        for (start, track) in
            [(0, "outer_track_bytes"), (sheet.size_bytes / 4096 * 4096 - 256 * MIB, "inner_track_bytes")]
        {
            let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
            bench.one(Operation::Read, start, 4096);
            let rate = bench.sequential(Operation::Read, start + 4096, 255 * MIB, 128 << 10, 1);
            let expected = platters(sheet.preset, track);
            assert!(
                (rate / expected - 1.0).abs() < 0.005,
                "{}: {rate:.0} against {expected:.0}",
                sheet.preset
            );
        }
    }
}

/// Requests in sequence that wait together come at the rate of the platters: no faster, because there is one head,
/// and hardly slower, because the disk reads on instead of waiting for a turn.
#[test]
fn sequential_requests_that_wait_together_come_as_fast_as_the_platters_turn() {
    for sheet in &HDD_SHEETS {
        let fastest = platters(sheet.preset, "outer_track_bytes");
        for (block, depth) in
            [(4096, 64), (64 << 10, 3), (128 << 10, 32), (MIB, 3), (MIB, 16), (4 * MIB, 4), (4 * MIB, 64)]
        {
            let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
            bench.one(Operation::Read, 0, 4096);
            let begun_ns = bench.now_ns;
            let mut rate = 0.0;
            let busy_ns = bench.grown(&["busy_ns"], |bench| {
                rate = bench.sequential(Operation::Read, 4096, 1024 * MIB, block, depth);
            })[0];
            let (part, elapsed_ns) = (rate / fastest, float(bench.now_ns - begun_ns));
            let what = format!("{}, {depth} of {block} B: {part:.3} of the platters' rate", sheet.preset);
            // Small ones take the electronics longer than the platters.
            assert!(part < 1.005 && (part > 0.985 || block <= 64 << 10), "{what}");
            assert!(busy_ns <= elapsed_ns, "{what}, busy for {busy_ns} ns of {elapsed_ns}");
        }
    }
}

/// One die whose page is a unit, so that nothing but collecting amplifies.
fn simple(more: &str) -> String {
    format!(
        "ssd,channels=1,dies_per_channel=1,planes=1,page_bytes=4096,pages_per_block=64,wear_threshold=0,{more}"
    )
}

const UNITS: u64 = 1 << 16;

/// Host writes of single units to where `place` says, after the drive was filled; gives the amplification of
/// the second half of them.
fn amplification(bench: &mut Bench, count: u64, place: impl Fn(&mut Bench) -> u64) -> f64 {
    let half = |bench: &mut Bench| {
        let grown = bench.grown(&["flash_write_bytes", "host_write_bytes"], |bench| {
            for _ in 0..count / 2 {
                let at = place(bench);
                bench.one(Operation::Write, at, 4096);
            }
        });
        grown[0] / grown[1]
    };
    half(bench);
    half(bench)
}

fn full(flag: &str, size_bytes: u64) -> Bench {
    let mut bench = Bench::new(flag, size_bytes);
    bench.sequential(Operation::Write, 0, size_bytes, 128 << 10, 1);
    bench
}

#[test]
fn write_amplification_is_what_theory_says() {
    for spare in [70, 150, 280] {
        let mut bench = full(&simple(&format!("spare_permille={spare}")), UNITS * 4096);
        let measured = amplification(&mut bench, 8 * UNITS, |bench| bench.place(4096));
        // Three blocks are always kept erased.
        let blocks = (UNITS * (1000 + spare) / 1000).div_ceil(64) - 3;
        let expected = greedy(64, float(blocks * 64) / float(UNITS));
        let deviation = measured / expected - 1.0;
        assert!(deviation.abs() < 0.02, "{spare}: {measured:.3} against {expected:.3}");
    }
}

#[test]
fn sequential_writes_do_not_amplify_and_trim_makes_room() {
    let mut bench = full(&simple("spare_permille=70"), UNITS * 4096);
    bench.sequential(Operation::Write, 0, UNITS * 4096, 128 << 10, 1);
    bench.sequential(Operation::Write, 0, UNITS * 4096, 128 << 10, 1);
    let sequential = counter(&bench.medium, "write_amplification");
    assert!((sequential - 1.0).abs() < 0.001, "{sequential}");

    // Half of the drive is trimmed: the other half has more than twice its size.
    let half = |discards: &str| {
        let mut bench = full(&simple(&format!("spare_permille=70,discards={discards}")), UNITS * 4096);
        bench.one(Operation::Discard, UNITS / 2 * 4096, UNITS / 2 * 4096);
        amplification(&mut bench, 8 * UNITS, |bench| bench.place(4096) % (UNITS / 2 * 4096))
    };
    let (honoured, ignored) = (half("honoured"), half("ignored"));
    let expected = greedy(64, 2.0 * 1.067);
    assert!((honoured / expected - 1.0).abs() < 0.02, "{honoured:.3} against {expected:.3}");
    assert!(ignored > 1.5 * honoured, "{honoured:.3} {ignored:.3}");
}

/// Nine of ten writes go to a tenth of the drive.
fn hot_and_cold(bench: &mut Bench) -> u64 {
    let (hot, cold) = (UNITS / 10, UNITS - UNITS / 10);
    if bench.place(4096) / 4096 % 10 < 9 {
        bench.place(4096) / 4096 % hot * 4096
    } else {
        (hot + bench.place(4096) / 4096 % cold) * 4096
    }
}

#[test]
fn age_makes_collecting_cheaper_when_some_data_is_hot() {
    let with = |policy: &str| {
        let mut bench = full(&simple(&format!("spare_permille=150,collection={policy}")), UNITS * 4096);
        amplification(&mut bench, 16 * UNITS, hot_and_cold)
    };
    let (greedy, benefit) = (with("greedy"), with("cost-benefit"));
    assert!(benefit < 0.9 * greedy, "cost-benefit {benefit:.3}, greedy {greedy:.3}");
}

#[test]
fn levelling_narrows_the_spread_of_wear() {
    let with = |threshold: u64| {
        let flag =
            simple("spare_permille=150").replace("wear_threshold=0", &format!("wear_threshold={threshold}"));
        let mut bench = full(&flag, UNITS * 4096);
        // All writes to a tenth: the rest lies still.
        let amplification = amplification(&mut bench, 24 * UNITS, |b| b.place(4096) % (UNITS / 10 * 4096));
        let value = |name| counter(&bench.medium, name);
        (value("erases_deviation"), value("erases_max") - value("erases_min"), amplification)
    };
    let ((none, none_span, without), (levelled, span, amplification)) = (with(0), with(4));
    assert!(levelled < none / 3.0, "{levelled:.2} against {none:.2}");
    assert!(span < none_span / 2.0, "{span} against {none_span}");
    // It is bounded: at most an eighth of the collections.
    assert!(amplification < without * 1.5, "{amplification:.3} against {without:.3}");
}

/// The part with one bit a cell takes a burst at the published rate; behind it the drive is as slow as its
/// flash.
#[test]
fn a_burst_ends_with_the_one_bit_part() {
    let size_bytes = 4096 * MIB;
    let mut bench = Bench::new("ssd-consumer", size_bytes);
    let step = 16 * MIB;
    let rates: Vec<f64> = (0..size_bytes / 4 / step)
        .map(|n| bench.sequential(Operation::Write, n * step, step, 128 << 10, 32) / 1e6)
        .collect();
    let fast = rates.iter().take_while(|rate| **rate > 400.0).count();
    let burst_bytes = u64::try_from(fast).unwrap_or_default() * step;
    // 48 thousandths of the capacity.
    let part_bytes = size_bytes * 48 / 1000;
    assert!(burst_bytes.abs_diff(part_bytes) <= 2 * step, "{} MiB", burst_bytes / MIB);
    assert!(rates[0] > 500.0 && rates[fast + 4..].iter().all(|rate| *rate < 300.0), "{rates:?}");
}

/// A worn drive is what a new one becomes.
#[test]
fn the_steady_state_is_the_one_that_writing_leads_to() {
    let size_bytes = 512 * MIB;
    let mut written = full("ssd", size_bytes);
    let units = size_bytes / 4096;
    written.kept(Operation::Write, 4096, 32, 5 * units);
    let mut worn = Bench::new("ssd-worn", size_bytes);
    worn.kept(Operation::Write, 4096, 32, units / 2);
    let [written, worn] =
        [&mut written, &mut worn].map(|bench| bench.kept(Operation::Write, 4096, 32, units));
    assert!((worn / written - 1.0).abs() < 0.05, "{worn:.0} against {written:.0} writes per second");
}

/// Collecting is spread over the writes that make it necessary. The specification of the DC S3700 says: 99.9
/// % of random reads and writes of 4 KiB at depth 1 within 500 us, and the slowest intervals at depth 32
/// within 90 % of the mean.
#[test]
fn the_steady_state_is_steady() {
    let size_bytes = 2048 * MIB;
    let mut worn = Bench::new("ssd-worn", size_bytes);
    worn.kept(Operation::Write, 4096, 32, 100_000);
    for operation in [Operation::Write, Operation::Read] {
        let mut times_ns: Vec<u64> = (0..50_000)
            .map(|_| {
                let at = worn.place(4096);
                worn.one(operation, at, 4096)
            })
            .collect();
        times_ns.sort_unstable();
        let slow_ns = times_ns[times_ns.len() - times_ns.len() / 1000];
        println!("{operation:?}: 99.9 % within {slow_ns} ns");
        assert!(slow_ns <= 500_000, "{operation:?}: {slow_ns} ns");
    }
    let names = ["flash_write_bytes", "host_write_bytes"];
    let mut rates = Vec::new();
    let grown = worn.grown(&names, |worn| {
        // A tenth of a second each.
        rates = (0..80).map(|_| worn.kept(Operation::Write, 4096, 32, 4_000)).collect();
    });
    let mean = rates.iter().sum::<f64>() / 80.0;
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    println!("mean {mean:.0}, slowest {slowest:.0} writes per second");
    assert!(slowest >= 0.9 * mean, "{slowest:.0} of {mean:.0}");
    // Blocks over all dies amplify like blocks of one.
    let (measured, expected) = (grown[0] / grown[1], write_amplification(1.277));
    assert!((measured / expected - 1.0).abs() < 0.04, "{measured:.3} against {expected:.3}");
}

/// A read behind a burst of writes waits for what its die is doing, not for the whole write buffer.
#[test]
fn reads_go_before_writes_that_wait() {
    let mut bench = full("ssd", 1024 * MIB);
    bench.one(Operation::Flush, 0, 0);
    bench.sequential(Operation::Write, 0, 64 * MIB, 128 << 10, 32);
    let mut worst_ns = 0;
    for _ in 0..16 {
        let at = 512 * MIB + bench.place(4096) % (512 * MIB);
        worst_ns = worst_ns.max(bench.one(Operation::Read, at, 4096));
    }
    // A program takes 1.06 ms and the channel 82 us.
    assert!(worst_ns < 1_600_000, "{worst_ns} ns");
}
