//! The plots of `docs/media.md`: what the models do, with the published figures marked.

use fsage_disk::media::ssd::theory::{greedy, write_amplification};
use fsage_disk::request::Operation;

use crate::media_rig::flashbench::{README_RATES, open_units};
use crate::media_rig::{Bench, HDD_SHEETS, HddSheet, SSD_SHEETS, float, parameter};
use crate::svg::{Axis, COLOURS, Chart, Mark, number};

/// Every plot with the name of its file.
pub fn all() -> [(&'static str, Chart); 6] {
    [
        ("media-hdd-seek.svg", seek()),
        ("media-hdd-rate.svg", rate()),
        ("media-depth.svg", depth()),
        ("media-ssd-amplification.svg", amplification()),
        ("media-ssd-steady.svg", steady()),
        ("media-sd-open.svg", open()),
    ]
}

/// The share of the capacity that lies outside of a share of the stroke.
fn capacity_share(sheet: &HddSheet, share: f64) -> f64 {
    let outer = parameter(sheet.preset, "outer_track_bytes");
    let inner = parameter(sheet.preset, "inner_track_bytes");
    let held = |x: f64| outer * x - (outer - inner) * x * x / 2.0;
    held(share) / held(1.0)
}

/// The byte at a share of the stroke: outer tracks hold more.
fn byte_at(sheet: &HddSheet, share: f64) -> u64 {
    // As a whole number of millionths, so that no float becomes an offset.
    let millionths = (capacity_share(sheet, share) * 1_000_000.0).round();
    let mut part = 0_u64;
    for bit in (0..21).rev() {
        if float(part | 1 << bit) <= millionths {
            part |= 1 << bit;
        }
    }
    (sheet.size_bytes / 1_000_000 * part / 4096 * 4096).min(sheet.size_bytes / 4096 * 4096 - 4096)
}

fn seek() -> Chart {
    let mut chart = Chart {
        title: "Hard disks: seek time over distance",
        x: Axis::linear("distance (% of the full stroke)", 100.0, 10.0),
        y: Axis::linear("seek, ready to read (ms)", 22.0, 2.0),
        series: Vec::new(),
    };
    for (sheet, colour) in HDD_SHEETS.iter().zip(COLOURS) {
        let flag = format!("{},read_cache_bytes=0", sheet.preset);
        let mut bench = Bench::new(&flag, sheet.size_bytes);
        let mut time_ms = |to: u64| {
            bench.one(Operation::Read, 0, 4096);
            let grown = bench.grown(&["seek_ns"], |bench| {
                bench.one(Operation::Read, to, 4096);
            });
            grown[0] / 1e6
        };
        let mut points = vec![(0.0, time_ms(sheet.cylinder_bytes))];
        for step in 1..=200_u32 {
            let share = f64::from(step) / 200.0;
            points.push((100.0 * share, time_ms(byte_at(sheet, share))));
        }
        chart.add(sheet.preset, colour, Mark::Line, points);
        if !sheet.seeks_published {
            continue;
        }
        chart.add(
            &format!("{}, published", sheet.preset),
            colour,
            Mark::Published,
            vec![
                (0.0, sheet.track_to_track_ms),
                (100.0 / 3.0, sheet.average_ms),
                (100.0, sheet.full_stroke_ms),
            ],
        );
    }
    chart
}

fn rate() -> Chart {
    let mut chart = Chart {
        title: "Hard disks: sequential read over position",
        x: Axis::linear("position (% of the capacity, from the outer edge)", 100.0, 10.0),
        y: Axis::linear("rate (MB/s)", 300.0, 50.0),
        series: Vec::new(),
    };
    let mut published = Vec::new();
    for (sheet, colour) in HDD_SHEETS.iter().zip(COLOURS) {
        let (mut streamed, mut under_head) = (Vec::new(), Vec::new());
        for part in 0..=96_u32 {
            let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
            let bytes = 128 << 20;
            let at = ((sheet.size_bytes - 2 * bytes) / 96 * u64::from(part)) / 4096 * 4096;
            bench.one(Operation::Read, at, 4096);
            let begun_ns = bench.now_ns;
            let grown = bench.grown(&["host_read_bytes", "transfer_ns"], |bench| {
                bench.sequential(Operation::Read, at + 4096, bytes, 128 << 10, 1);
            });
            let position = f64::from(part) / 0.96;
            streamed.push((position, grown[0] / float(bench.now_ns - begun_ns) * 1e3));
            under_head.push((position, grown[0] / grown[1] * 1e3));
        }
        chart.add(&format!("{}, sequential read", sheet.preset), colour, Mark::Line, streamed);
        let point = match (sheet.mean_media_rate, sheet.outer_rate) {
            (Some(mean), _) => {
                chart.add(&format!("{}, under the head", sheet.preset), colour, Mark::Dashed, under_head);
                // The track in the middle has the mean rate.
                let middle = 100.0 * capacity_share(sheet, 0.5);
                ("mean under the head, published", (middle, mean / 1e6))
            }
            (_, outer) => ("outside, published", (0.0, outer.unwrap_or_default() / 1e6)),
        };
        published.push((format!("{}, {}", sheet.preset, point.0), colour, point.1));
    }
    for (name, colour, point) in published {
        chart.add(&name, colour, Mark::Published, vec![point]);
    }
    chart
}

fn depth() -> Chart {
    let depths = [1_u32, 2, 4, 8, 16, 32];
    let ticks = |values: &[f64]| values.iter().map(|v| (*v, number(*v))).collect();
    let mut chart = Chart {
        title: "Random 4 KiB reads over queue depth",
        x: Axis::log("requests that wait together", 1.0, 32.0, ticks(&depths.map(f64::from))),
        y: Axis::log(
            "reads per second (logarithmic)",
            30.0,
            1_000_000.0,
            ticks(&[100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0]),
        ),
        series: Vec::new(),
    };
    for (sheet, colour) in HDD_SHEETS.iter().filter(|sheet| sheet.seeks_published).zip(COLOURS) {
        let rate = |depth: u32| {
            let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
            (f64::from(depth), bench.random(Operation::Read, 4096, u64::from(depth), 8_000))
        };
        chart.add(sheet.preset, colour, Mark::Line, depths.map(rate).to_vec());
        let access_ms = sheet.overhead_ms + sheet.average_ms + sheet.latency_ms;
        let published = vec![(1.0, 1000.0 / access_ms)];
        chart.add(&format!("{}, published", sheet.preset), colour, Mark::Published, published);
    }
    for (sheet, colour) in SSD_SHEETS[..3].iter().zip(&COLOURS[3..]) {
        let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
        bench.sequential(Operation::Write, 0, sheet.size_bytes, 128 << 10, 32);
        bench.one(Operation::Flush, 0, 0);
        bench.now_ns += 1_000_000_000;
        let rate = |depth: u32| {
            let kept = usize::try_from(depth).unwrap_or(1);
            (f64::from(depth), bench.kept(Operation::Read, 4096, kept, 20_000))
        };
        chart.add(sheet.preset, colour, Mark::Line, depths.map(rate).to_vec());
        let at_32 = (sheet.depth == 32).then_some((32.0, sheet.random_read));
        let mut published = Vec::from_iter(at_32);
        published.extend(sheet.random_read_one.map(|rate| (1.0, rate)));
        chart.add(&format!("{}, published", sheet.preset), colour, Mark::Published, published);
    }
    chart
}

fn amplification() -> Chart {
    let units = 1_u64 << 16;
    let mut chart = Chart {
        title: "SSD: write amplification of uniformly random writes over spare flash",
        x: Axis::linear("flash beyond the capacity that data may use (%)", 60.0, 10.0),
        y: Axis::linear("write amplification", 12.0, 2.0),
        series: Vec::new(),
    };
    let theory = |of: &dyn Fn(f64) -> f64| {
        (9..=120_u32).map(|n| f64::from(n) / 2.0).map(|x| (x, of(1.0 + x / 100.0))).collect::<Vec<_>>()
    };
    chart.add("theory: greedy, blocks of 64 units", COLOURS[0], Mark::Line, theory(&|a| greedy(64, a)));
    let limit: Vec<_> = theory(&write_amplification).into_iter().filter(|(_, y)| *y <= 12.0).collect();
    chart.add("theory: its limit for large blocks", COLOURS[1], Mark::Dashed, limit);
    let measured = [50_u64, 70, 100, 150, 200, 280, 400, 590]
        .map(|spare| {
            let flag = format!(
                "ssd,channels=1,dies_per_channel=1,planes=1,page_bytes=4096,pages_per_block=64,wear_threshold=0,spare_permille={spare}"
            );
            let mut bench = Bench::new(&flag, units * 4096);
            bench.sequential(Operation::Write, 0, units * 4096, 128 << 10, 1);
            bench.random(Operation::Write, 4096, 1, 5 * units);
            let grown = bench.grown(&["flash_write_bytes", "host_write_bytes"], |bench| {
                bench.random(Operation::Write, 4096, 1, 5 * units);
            });
            let blocks = (units * (1000 + spare) / 1000).div_ceil(64) - 3;
            (100.0 * (float(blocks * 64) / float(units) - 1.0), grown[0] / grown[1])
        })
        .to_vec();
    chart.add("model", "#222222", Mark::Dots, measured);
    chart
}

fn steady() -> Chart {
    let mut chart = Chart {
        title: "SSDs: random 4 KiB writes, depth 32, from fresh to the steady state",
        x: Axis::linear("written (times the capacity)", 8.0, 1.0),
        y: Axis::linear("writes per second", 100_000.0, 20_000.0),
        series: Vec::new(),
    };
    let size_bytes = 1 << 30;
    let units = size_bytes / 4096;
    for (preset, colour) in ["ssd", "ssd-consumer"].into_iter().zip(COLOURS) {
        let mut bench = Bench::new(preset, size_bytes);
        let points = (0..200_u32)
            .map(|n| ((f64::from(n) + 0.5) / 25.0, bench.kept(Operation::Write, 4096, 32, units / 25)))
            .collect();
        chart.add(preset, colour, Mark::Line, points);
    }
    chart.add(
        "ssd, published for the steady state",
        COLOURS[0],
        Mark::Dashed,
        vec![(0.0, 36_000.0), (8.0, 36_000.0)],
    );
    chart.add(
        "ssd-consumer, published for a fresh drive",
        COLOURS[1],
        Mark::Published,
        vec![(0.0, 90_000.0)],
    );
    chart
}

fn open() -> Chart {
    let kib = [256_u32, 512, 1024, 2048, 4096];
    let mut chart = Chart {
        title: "SD card: blocks written in turn to several allocation units",
        x: Axis::log(
            "bytes of a block (KiB)",
            256.0,
            4096.0,
            kib.map(|k| (f64::from(k), number(f64::from(k)))).to_vec(),
        ),
        y: Axis::linear("rate (MiB/s)", 10.0, 2.0),
        series: Vec::new(),
    };
    let of = |units: u64| format!("{units} allocation unit{}", if units == 1 { "" } else { "s" });
    for (units, colour) in (1..=4_u64).zip(COLOURS) {
        let points = kib.map(|k| {
            let rate = open_units("sd", 4 << 20, u64::from(k) << 10, units, true);
            (f64::from(k), rate / f64::from(1 << 20))
        });
        // Every second one dashed: they lie on each other.
        let mark = if units % 2 == 0 { Mark::Dashed } else { Mark::Line };
        chart.add(&of(units), colour, mark, points.to_vec());
    }
    for (units, colour) in (2..=3_u64).zip(&COLOURS[1..]) {
        let rows = README_RATES.iter().filter(|(of, ..)| *of == units);
        let published = rows.map(|(_, block, rate)| (float(block >> 10), *rate)).collect();
        chart.add(&format!("{}, published", of(units)), colour, Mark::Published, published);
    }
    chart
}
