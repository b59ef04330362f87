//! A volume is a partition of its drive: what a request costs depends on the drive and the place, not on how
//! large the volume is. (Volumes that were drives of their own made a full one of 5 GiB slower than an empty
//! one of 50 GiB by geometry alone.)

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use fsage_disk::media::{Model as _, Partition, Resolve as _};
use fsage_disk::request::{Operation, Request};
use fsage_model::medium::MediumSpec;
use fsage_model::quantity::as_f64;

const GIB: u64 = 1 << 30;

fn volume(medium: &str, size_bytes: u64) -> Partition {
    medium.parse::<MediumSpec>().unwrap().resolve(size_bytes).unwrap()
}

/// Time of requests one after the other.
fn time_ns(volume: &mut Partition, requests: impl IntoIterator<Item = Request>) -> u64 {
    let mut now_ns = volume.rest(0);
    let begun_ns = now_ns;
    for request in requests {
        let mut done_ns = [0];
        volume.serve(now_ns, &[request], &mut done_ns);
        now_ns = done_ns[0];
    }
    now_ns - begun_ns
}

/// Places that jump over `span` bytes, in an order of no pattern.
fn scattered(operation: Operation, span: u64, count: u64) -> impl Iterator<Item = Request> {
    (0..count).map(move |n| Request::new(operation, n * 2_654_435_761 % (span / 4096) * 4096, 4096))
}

#[test]
fn the_same_distance_is_the_same_seek_whatever_the_volumes_size() {
    for medium in ["hdd-7200", "hdd-10k", "hdd-5400", "hdd-500gb", "hdd-20tb"] {
        for span in [GIB, 5 * GIB] {
            let times = [5 * GIB, 50 * GIB, 200 * GIB]
                .map(|size| time_ns(&mut volume(medium, size), scattered(Operation::Read, span, 2000)));
            assert!(times.iter().all(|time| *time == times[0]), "{medium}, {span}: {times:?}");
        }
    }
}

/// Files of 76 KiB that lie one behind the other, read in an order of no pattern: what a drive with a track
/// buffer does better than one without.
#[test]
fn a_head_that_reads_on_arrival_has_the_neighbours_already() {
    const FILE: u64 = 76 << 10;
    let files = |count: u64, step: u64| {
        (0..count).map(move |n| Request::new(Operation::Read, n * step % count * FILE, FILE))
    };
    let [waits, reads] = ["hdd-7200", "hdd-7200,arrival=reads"];
    // 101 and 37 have no common divisor: every file once.
    let random = [waits, reads].map(|medium| time_ns(&mut volume(medium, GIB), files(101, 37)));
    let ratio = as_f64(random[1]) / as_f64(random[0]);
    assert!((0.2..0.7).contains(&ratio), "{random:?}");
    let in_order = [waits, reads].map(|medium| time_ns(&mut volume(medium, GIB), files(101, 1)));
    assert!(as_f64(in_order[1]) > 0.97 * as_f64(in_order[0]), "{in_order:?}");
    assert!(random[1] > in_order[1], "no order is faster than the one on the platters");
    // Single blocks far apart have no neighbours.
    let far = [waits, reads]
        .map(|medium| time_ns(&mut volume(medium, 200 * GIB), scattered(Operation::Read, 200 * GIB, 2000)));
    assert!((0.97..=1.0).contains(&(as_f64(far[1]) / as_f64(far[0]))), "{far:?}");
}

#[test]
fn the_inner_edge_is_slower_and_as_far_apart() {
    let stream = |medium: &str| {
        let requests = (0..2000).map(|n| Request::new(Operation::Read, n << 20, 1 << 20));
        time_ns(&mut volume(medium, 5 * GIB), requests)
    };
    let (outer, inner) = (stream("hdd-7200"), stream("hdd-7200,at=inner"));
    let (middle, outer_again) = (stream("hdd-7200,at=200GiB"), stream("hdd-7200,at=0"));
    assert_eq!(outer, outer_again);
    assert!(outer < middle && middle < inner, "{outer} {middle} {inner}");
    // Its tracks have about half of the bytes.
    assert!((1.8..2.1).contains(&(as_f64(inner) / as_f64(outer))), "{outer} {inner}");
}

#[test]
fn equal_writes_cost_an_ssd_the_same_whatever_the_volumes_share_of_it() {
    for medium in ["ssd", "ssd-consumer", "ssd,occupied_permille=900", "ssd-worn", "nvme-tlc"] {
        let times = [2 * GIB, 20 * GIB, 150 * GIB].map(|size| {
            let mut volume = volume(medium, size);
            let fill = (0..16_384).map(|n| Request::new(Operation::Write, n << 17, 1 << 17));
            time_ns(&mut volume, fill) + time_ns(&mut volume, scattered(Operation::Write, 2 * GIB, 300_000))
        });
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(as_f64(*most) <= 1.05 * as_f64(*least), "{medium}: {times:?}");
    }
}

#[test]
fn what_else_is_on_an_ssd_decides_what_overwriting_costs() {
    let amplification = |medium: &str| {
        let mut volume = volume(medium, 4 * GIB);
        time_ns(&mut volume, (0..32_768).map(|n| Request::new(Operation::Write, n << 17, 1 << 17)));
        time_ns(&mut volume, scattered(Operation::Write, 4 * GIB, 1_000_000));
        volume.counters().into_iter().find(|c| c.name == "write_amplification").unwrap().value
    };
    let capacity = "ssd,capacity_bytes=8589934592,spare_permille=70";
    let (empty, half) =
        (amplification(capacity), amplification(&format!("{capacity},occupied_permille=500")));
    assert!((empty - 1.0).abs() < 0.05, "{empty}");
    assert!(half > 1.3, "half of the drive holds other data: {half}, alone {empty}");
}

#[test]
fn what_another_partition_of_an_ssd_holds_decides_what_overwriting_costs() {
    let amplification = |fills_other: bool| {
        let medium: MediumSpec = "ssd,capacity_bytes=8589934592,spare_permille=70".parse().unwrap();
        let partitions = ["4GiB", "4GiB"].map(|text| text.parse().unwrap());
        let mut drive = medium.partitioned(&partitions).unwrap();
        let fill =
            |from: u64| (from..from + 32_768).map(|n| Request::new(Operation::Write, n << 17, 1 << 17));
        if fills_other {
            time_ns(&mut drive, fill(32_768));
        }
        time_ns(&mut drive, fill(0));
        time_ns(&mut drive, scattered(Operation::Write, 4 * GIB, 1_000_000));
        drive.counters().into_iter().find(|c| c.name == "write_amplification").unwrap().value
    };
    let (empty, full) = (amplification(false), amplification(true));
    assert!((empty - 1.0).abs() < 0.05, "{empty}");
    assert!(full > 1.3, "the other partition is full: {full}, empty {empty}");
}

#[test]
fn a_drive_takes_memory_for_what_is_written_only() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    for medium in [
        "hdd-20tb",
        "smr",
        "smr,bands=written",
        "ssd,condition=filled",
        "ssd-worn",
        "ssd,occupied_permille=900",
        "nvme-tlc",
        "nvme-qlc,condition=filled",
        "ufs,occupied_permille=900",
    ] {
        let before = peak();
        let mut volume = volume(medium, 5 * GIB);
        time_ns(&mut volume, scattered(Operation::Write, 5 * GIB, 20_000));
        time_ns(&mut volume, scattered(Operation::Read, 5 * GIB, 1000));
        let taken = peak().saturating_sub(before);
        assert!(taken < 64 << 20, "{medium}: {taken}");
    }
}
