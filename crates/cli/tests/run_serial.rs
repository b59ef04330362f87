//! `cpu = "serial"`: the CPU time of a load's system calls passes on the disk's clock. On `ram`, which costs
//! nothing, all of the time is CPU time.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::process::Command;

use fsage_lab::store::Store;
use fsage_model::disk::{CPU_COUNTER, DiskCpu, DiskUse};
use fsage_model::record::{StageRecord, TrialStatus};
use support::{Scratch, agent, can_mount, can_serve_disks};

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
    let scratch = Scratch::new();
    let study = scratch.path().join("serial.toml");
    std::fs::write(&study, STUDY).unwrap();
    let store = scratch.path().join("store");
    let fsage = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command
            .args(words)
            .env("FSAGE_RUNTIME_DIR", scratch.path().join("runtime"))
            .env("FSAGE_AGENT", agent());
        command.output().unwrap()
    };
    let run = fsage(&["run", study.to_str().unwrap(), "--store", store.to_str().unwrap()]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let trials = Store::open(&store).unwrap().trials();
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
    let page = scratch.path().join("report.html");
    let report = fsage(&["report", store.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("in model time with CPU time (cpu = "), "titles name it");
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
}
