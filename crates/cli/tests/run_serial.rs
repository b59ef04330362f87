//! `cpu = "serial"`: the CPU time of a load's system calls passes on the disk's clock. On `ram`, which costs
//! nothing, all of the time is CPU time.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use fsage_model::disk::{CPU_COUNTER, DiskCpu, DiskUse};
use fsage_model::record::{StageRecord, TrialStatus};
use lab::Lab;
use support::{can_mount, can_serve_disks};

const STUDY: &str = r#"
name = "serial"
title = "A small trial whose disk counts CPU time"
question = "What does the processor take?"
seed = 5

[volume]
medium = "ram"
size = "320MiB"
cpu = "serial"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
stop.operations = 1_500
probe_every = 500
[stage.workload]
kind = "drift"
slots = 300
file_size = { kind = "uniform", min = "4KiB", max = "256KiB" }
weights = { create = 10, delete = 4, append = 5 }

[[stage]]
kind = "measure"
measures = [{ kind = "grep" }, { kind = "create", files = 50 }]

[matrix]
"volume.cpu" = ["ignored", "serial"]
"#;

/// What the disk did in every part of a trial.
fn parts(stages: Vec<StageRecord>) -> Vec<(String, DiskUse)> {
    let mut parts = Vec::new();
    for stage in stages {
        match stage {
            StageRecord::Age { name, result, .. } => parts.extend(result.disk.map(|used| (name, used))),
            StageRecord::Measure { results, .. } => {
                parts.extend(results.into_iter().filter_map(|one| Some((one.name, one.disk?))));
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn cpu_time_passes_where_it_is_asked_for_and_nowhere_else() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = lab.trials();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
        let serial = trial.factors["volume.cpu"] == "serial";
        let parts = parts(trial.stages);
        assert_eq!(parts.len(), 3, "{parts:?}");
        for (name, used) in parts {
            let cpu_ns = used.counter(CPU_COUNTER);
            if serial {
                assert_eq!(used.cpu, DiskCpu::Serial, "{name}");
                let spent = cpu_ns.unwrap();
                assert!(spent > 0.0, "{name}");
                assert_eq!(fsage_model::quantity::as_f64(used.elapsed_ns), spent, "{name}");
            } else {
                assert_eq!((used.cpu, used.elapsed_ns, cpu_ns), (DiskCpu::Ignored, 0, None), "{name}");
            }
        }
    }
    assert!(lab.report().contains("in model time with CPU time (cpu = "), "titles name it");
    lab.nothing_left();
}
