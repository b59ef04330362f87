//! Daily use (`pace`): days pass on the disk's clock, and what the kernel's timers would write meanwhile is
//! written.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use fsage_model::metric;
use fsage_model::record::{TrialRecord, TrialStatus};
use lab::Lab;
use support::{can_mount, can_serve_disks};

const STUDY: &str = r#"
name = "wear"
title = "Four days of use"
question = "What do four days of use write?"
seed = 5

[volume]
medium = { preset = "emmc", capacity_bytes = 268_435_456 }
size = "256MiB"
cpu = "serial"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
name = "fill"
stop.operations = 300
[stage.workload]
kind = "drift"
slots = 300
file_size = { kind = "fixed", size = "16KiB" }
weights = { create = 10 }
fill_until = 1.0

[[stage]]
kind = "age"
name = "daily"
continues = "fill"
stop.operations = 2_000
pace = { operations_per_day = 500, rated_cycles = 3_000 }
[stage.workload]
kind = "drift"
slots = 300
file_size = { kind = "fixed", size = "16KiB" }
io_size = { kind = "fixed", size = "4KiB" }
weights = { create = 0.001, random_write = 10 }
fill_until = 0.0

[matrix]
"file_system.kind" = ["ext4", "btrfs"]
"stage.daily.pace.operations_per_day" = [500, 100_000_000]
"#;

fn value(trial: &TrialRecord, name: &str) -> f64 {
    let name = format!("daily.{name}");
    let metric = trial.metrics.iter().find(|metric| metric.name == name);
    metric.unwrap_or_else(|| panic!("no {name}")).samples[0]
}

#[test]
fn days_of_use_write_more_than_the_same_operations_at_once() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = lab.trials();
    assert_eq!(trials.len(), 4);
    let kinds = ["ext4", "btrfs"];
    for kind in kinds {
        let of = |per_day: u64| {
            let found = trials.iter().find(|trial| {
                trial.factors["file_system.kind"] == kind
                    && trial.factors["stage.daily.pace.operations_per_day"] == per_day
            });
            let trial = found.unwrap();
            assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
            trial
        };
        let (days, at_once) = (of(500), of(100_000_000));
        let elapsed = value(days, metric::ELAPSED_S);
        assert!((345_000.0..347_000.0).contains(&elapsed), "{kind}: four days took {elapsed} s");
        assert!(value(at_once, metric::ELAPSED_S) < 600.0, "{kind}");
        // 173 s lie between two operations: each is a commit of its own, and its data and metadata reach
        // their places.
        let written = |trial| value(trial, "age.disk_host_write_bytes");
        let flushes = value(days, "age.disk_flushes");
        let (apart, together) = (written(days), written(at_once));
        // btrfs: paths of five trees, twice (DUP), in one or two transactions. ext4: a block of data, a
        // descriptor, the inode's block and the commit in the journal, and the inode's block again.
        let blocks = apart / 4096.0 / 2_000.0;
        let expected = if kind == "ext4" { 4.5..5.5 } else { 20.0..150.0 };
        assert!(expected.contains(&blocks), "{kind}: {blocks} blocks for one of data");
        // No more than two commits to an operation: of its change, and of its data's place.
        let most = if kind == "ext4" { 2.0 * 2.0 } else { 2.0 * 3.0 };
        assert!((2_000.0..most * 2_100.0).contains(&flushes), "{kind}: {flushes} flushes");
        assert!(apart > 2.0 * together, "{kind}: {apart} and {together}");
        let (cycles, years) = (value(days, metric::WEAR_CYCLES), value(days, metric::LIFETIME_YEARS));
        assert!((cycles * years - 3_000.0).abs() < 1e-6 * 3_000.0, "{kind}: {cycles} {years}");
        let per_day = value(days, metric::WRITTEN_PER_DAY);
        assert!((per_day / apart - 86_400.0 / elapsed).abs() < 1e-6, "{kind}: {per_day} {apart}");
        // What is used up is erased in the end.
        let erased = value(days, "age.disk_erases") / value(days, "age.disk_erases_mean");
        let worn = value(days, "age.disk_worn_bytes") / value(days, "age.disk_flash_bytes");
        assert!(worn > 0.0 && erased > 0.0, "{kind}: {worn} {erased}");
        // Pauses are none of the processor's time.
        assert!(value(days, "age.disk_cpu_ns") < 1e11 && value(days, "age.disk_paused_ns") > 3e14, "{kind}");
        assert!(value(days, metric::OPERATION_NS) < 1e9, "{kind}: pauses are in no latency");
    }
    assert!(lab.report().contains("Wear and lifetime"));
    lab.nothing_left();
}

#[test]
fn where_no_clock_can_be_moved_on_it_is_refused() {
    let lab = Lab::new(&STUDY.replace("cpu = \"serial\"\n", ""));
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("cpu = \"serial\""), "{stderr}");
}
