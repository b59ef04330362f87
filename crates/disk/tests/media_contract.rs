//! What every medium keeps to, whatever is asked of it.

#![allow(dead_code, reason = "the rig has more than is used here")]

mod media_rig;

use std::collections::BTreeMap;

use fsage_disk::media::Model;
use fsage_disk::media::Resolve as _;
use fsage_disk::request::{Operation, Request};
use fsage_model::medium::{MediumSpec, presets};
use media_rig::{float, whole};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => Just(Operation::Read),
        6 => Just(Operation::Write),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Discard),
        1 => Just(Operation::Zero),
    ]
}

/// Requests of any alignment, clustered so that they meet; some reach beyond the end.
fn request(size: u64) -> impl Strategy<Value = Request> {
    let offset = prop_oneof![0..size, 0..(256_u64 << 10), (size - (64 << 10))..(size + 4096)];
    let aligned = prop_oneof![Just(1_u64), Just(512), Just(4096), Just(4096), Just(65_536)];
    let length = prop_oneof![0_u64..9000, Just(4096_u64), 0_u64..(4 << 20)];
    (operation(), offset, length, aligned, any::<bool>()).prop_map(
        |(operation, offset, length, align, fua)| {
            let flush = operation == Operation::Flush;
            Request {
                operation,
                offset_bytes: if flush { 0 } else { offset / align * align },
                length_bytes: if flush { 0 } else { (length / align * align).max(align.min(length)) },
                fua: fua && operation == Operation::Write,
            }
        },
    )
}

fn counters(model: &impl Model) -> BTreeMap<String, f64> {
    model.counters().into_iter().map(|c| (c.name, c.value)).collect()
}

/// Of the counters, those that are sums.
fn sums(model: &impl Model) -> BTreeMap<String, f64> {
    model.counters().into_iter().filter(|c| !c.state).map(|c| (c.name, c.value)).collect()
}

/// The parts that must add up to `busy_ns`, of those that the medium has.
const PARTS: [&[&str]; 3] = [
    &["seek_ns", "settle_ns", "switch_ns", "rotation_ns", "transfer_ns"],
    &["read_ns", "program_ns", "erase_ns", "bus_ns", "bus_wait_ns"],
    &["command_ns", "load_ns", "interface_ns", "program_ns", "copy_ns", "close_ns"],
];

fn specs() -> Vec<MediumSpec> {
    let mut specs: Vec<MediumSpec> = presets().iter().map(|p| whole(p.name, 64 * MIB)).collect();
    for flag in [
        "hdd-7200,at=inner",
        "hdd-7200,write_cache_bytes=0,read_cache_bytes=0,queue_depth=1",
        "hdd-7200,arrival=reads",
        "hdd-10k,surfaces=1,zones=1,queue_patience=1",
        "ssd,collection=cost-benefit,wear_threshold=1,write_cache_bytes=0,spare_permille=10",
        "ssd,flushes=programmed,mapping_bytes=8192,condition=steady,discards=ignored",
        "ssd-consumer,slc_permille=200,channels=1,planes=1,wear_threshold=2",
        "ssd-consumer,slc_permille=100,slc_least_permille=10,folding=idle,idle_ns=1000000,map_cache_bytes=4096",
        "nvme-qlc,map_cache_bytes=4096,idle_ns=1,planes=1",
        "smr,at=inner",
        "smr,band_bytes=268435456,bands=written,idle_ns=1000000",
        "smr,band_bytes=1000000,media_cache_bytes=2000000,media_cache_ranges=1,write_cache_bytes=0",
        "sd,open_units=1,order=any,page_bytes=512,planes=1",
    ] {
        specs.push(whole(flag, 64 * MIB));
    }
    specs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn serves_anything_in_time_and_counts_what_it_did(
        batches in proptest::collection::vec(proptest::collection::vec(request(64 * MIB), 0..30), 1..10),
        pause in 0_u64..50_000_000, overlapping in any::<bool>(),
    ) {
        for spec in specs() {
            let mut medium = spec.resolve(64 * MIB).unwrap();
            let mut again = medium.clone();
            let mut now_ns = 0;
            let mut before = sums(&medium);
            for batch in &batches {
                let mut done_ns = vec![u64::MAX; batch.len()];
                let mut same_ns = vec![0; batch.len()];
                medium.serve(now_ns, batch, &mut done_ns);
                again.serve(now_ns, batch, &mut same_ns);
                prop_assert_eq!(&done_ns, &same_ns, "{} is not repeatable", spec);
                let after = sums(&medium);
                for (name, value) in &after {
                    prop_assert!(*value >= before[name], "{spec}: {name} fell, so it is a state");
                }
                before = after;
                for (request, done) in batch.iter().zip(&done_ns) {
                    prop_assert!(*done >= now_ns && *done < u64::MAX / 2, "{spec}: {request:?} done at {done}, asked at {now_ns}");
                }
                // The next ones come after all answers, or after the first one.
                now_ns = if overlapping {
                    done_ns.iter().copied().min().unwrap_or(now_ns)
                } else {
                    done_ns.iter().copied().max().unwrap_or(now_ns) + pause
                };
            }
            let counted = counters(&medium);
            prop_assert_eq!(&counted, &counters(&again));
            prop_assert!(counted.values().all(|v| v.is_finite() && *v >= 0.0), "{spec}: {counted:?}");
            if let Some(busy) = counted.get("busy_ns") {
                let adds_up = PARTS.iter().any(|parts| {
                    parts.iter().all(|p| counted.contains_key(*p))
                        && parts.iter().map(|p| counted[*p]).sum::<f64>() == *busy
                });
                prop_assert!(adds_up, "{spec}: {counted:?}");
            }
            // Only a hard disk seeks: it has one arm, which is in one place at a time.
            if counted.contains_key("seek_ns") {
                let rested_ns = medium.rest(now_ns);
                let busy_ns = counters(&medium)["busy_ns"];
                prop_assert!(busy_ns <= float(rested_ns), "{spec}: busy for {busy_ns} ns of {rested_ns}");
            }
        }
    }

    /// A queue that is served together is never slower than the same requests one by one, but for what a
    /// flush forces.
    #[test]
    fn a_batch_costs_no_more_than_one_by_one(
        batch in proptest::collection::vec(request(64 * MIB), 1..40),
    ) {
        for name in ["ram", "ssd", "ssd-consumer", "nvme-tlc", "ufs", "emmc", "sd-a2", "sd", "sd-class10"] {
            let batch: Vec<Request> = batch.iter().copied().filter(|r| r.operation == Operation::Read).collect();
            let mut together = whole(name, 64 * MIB).resolve(64 * MIB).unwrap();
            let mut alone = together.clone();
            let mut done_ns = vec![0; batch.len()];
            together.serve(0, &batch, &mut done_ns);
            let mut now_ns = 0;
            for request in &batch {
                let mut done = [0];
                alone.serve(now_ns, std::slice::from_ref(request), &mut done);
                now_ns = done[0];
            }
            prop_assert!(done_ns.iter().all(|d| *d <= now_ns), "{name}");
        }
    }
}

/// Anyone who gives a time before the last answer is served after it, never before.
#[test]
fn time_does_not_go_back() {
    for spec in specs().into_iter().filter(|s| s.preset().name != "ram") {
        let mut medium = spec.resolve(64 * MIB).unwrap();
        let request = [Request::new(Operation::Read, 8 * MIB, 65_536)];
        let (mut first, mut second) = ([0], [0]);
        medium.serve(1_000_000, &request, &mut first);
        medium.serve(0, &request, &mut second);
        assert!(second[0] >= first[0], "{spec}: {first:?} {second:?}");
    }
}

/// What was asked before a rest changes nothing of what is asked after it takes, on a medium that keeps no
/// more than its buffers.
#[test]
fn after_a_rest_a_disk_takes_as_long_as_after_any_other() {
    let reads: Vec<Request> =
        (0..40).map(|n| Request::new(Operation::Read, n * 7919 % 64 * MIB, 4096)).collect();
    let times = |spec: &MediumSpec, before: &[Request]| {
        let mut medium = spec.resolve(64 * MIB).unwrap();
        let mut now_ns = 0;
        for request in before {
            let mut done_ns = [0];
            medium.serve(now_ns, std::slice::from_ref(request), &mut done_ns);
            now_ns = done_ns[0];
        }
        let rested_ns = medium.rest(now_ns);
        assert!(rested_ns >= now_ns, "{spec}");
        let mut done_ns = vec![0; reads.len()];
        medium.serve(rested_ns, &reads, &mut done_ns);
        done_ns.iter().map(|ns| ns - rested_ns).collect::<Vec<u64>>()
    };
    let write = |offset| Request::new(Operation::Write, offset, 65_536);
    let histories =
        [vec![], vec![write(40 * MIB), reads[5]], vec![reads[9], write(0), write(9 * MIB), reads[1]]];
    for name in ["hdd-7200", "hdd-10k", "hdd-5400", "hdd-500gb", "hdd-20tb", "ram"] {
        let spec = MediumSpec::named(name).unwrap();
        let [first, others @ ..] = histories.each_ref().map(|before| times(&spec, before));
        assert!(others.iter().all(|other| *other == first), "{name}");
    }
    for spec in specs() {
        let _ = times(&spec, &histories[2]);
    }
}

/// Every size from a sector to 16 TiB has a model.
#[test]
fn every_size_has_a_model() {
    for preset in presets() {
        for size in [512, 4096, 1 << 20, 100 << 20, 1 << 30, 1 << 40, 12 << 40] {
            let spec = MediumSpec::named(preset.name).unwrap().holding(size).unwrap();
            let mut medium =
                spec.resolve(size).unwrap_or_else(|e| panic!("{} of {size} B: {e}", preset.name));
            let batch = [
                Request::new(Operation::Write, size - 512, 512),
                Request::new(Operation::Flush, 0, 0),
                Request::new(Operation::Read, size - 512, 512),
                Request::new(Operation::Read, 0, 512),
            ];
            let mut done_ns = [0; 4];
            medium.serve(0, &batch, &mut done_ns);
            assert!(preset.name == "ram" || done_ns[3] > 0, "{}", preset.name);
        }
    }
}
