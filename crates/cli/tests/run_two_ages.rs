//! A study with two ageing stages: each has its own numbers, traces, intervals and charts.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::process::Command;

use fsage_engine::trace;
use fsage_lab::store::Store;
use fsage_model::record::TrialRecord;
use serde_json::Value;
use support::{Scratch, agent, can_mount};

const STUDY: &str = include_str!("data/two-ages.toml");

/// The data of the charts.
fn island(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\"").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

fn value(trial: &TrialRecord, name: &str) -> f64 {
    trial.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).samples[0]
}

/// Start times of a stage's lines, in order.
fn starts(log: &str, stage: &str) -> Vec<f64> {
    let tag = format!("Tag={stage}.");
    let lines = log.lines().filter(|line| line.starts_with(&tag));
    lines.map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn two_ageing_stages_do_not_mix() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (study, store) = (scratch.path().join("two-ages.toml"), scratch.path().join("store"));
    std::fs::write(&study, STUDY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    command.arg("run").arg(&study).arg("--store").arg(&store).env("FSAGE_AGENT", agent());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trial = Store::open(&store).unwrap().trials().remove(0);
    let slower = value(&trial, "churn.latency.create.mean_ns") / value(&trial, "latency.create.mean_ns");
    assert!(slower > 1.0, "{slower}");

    // Each has its own whole trace.
    let folder = store.join("trials").join(&trial.id);
    for (name, operations) in [("trace.parquet", 4000), ("trace-churn.parquet", 3000)] {
        let reader = trace::read(&folder.join(name)).unwrap();
        assert_eq!(reader.operations(), operations, "{name}");
        assert!(reader.map(Result::unwrap).count() > 0);
    }
    let log = std::fs::read_to_string(folder.join("latency.hlog")).unwrap();
    let (fill, churn) = (starts(&log, "fill"), starts(&log, "churn"));
    assert!(!fill.is_empty() && !churn.is_empty(), "{log}");
    assert!(churn.iter().all(|start| fill.iter().all(|earlier| start > earlier)), "{fill:?} {churn:?}");

    let page = scratch.path().join("report.html");
    let mut report = Command::new(env!("CARGO_BIN_EXE_fsage"));
    assert!(report.arg("report").arg(&store).arg("-o").arg(&page).status().unwrap().success());
    let data = island(&std::fs::read_to_string(&page).unwrap());
    let ages = data["ages"].as_array().unwrap();
    let panel = |of: &Value| of["panel"].as_u64().unwrap();
    let shown: Vec<_> = ages.iter().map(|age| (age["label"].as_str().unwrap(), panel(age))).collect();
    assert_eq!(shown, [("ext4 · fill", 0), ("ext4 · churn", 1)]);
    let last = |of: &Value| of["latency"]["operations"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    let drawn: Vec<_> =
        data["latencies"].as_array().unwrap().iter().map(|one| (last(one), panel(one))).collect();
    assert_eq!(drawn, [(4000, 0), (3000, 1)]);
    assert_eq!(data["panels"], serde_json::json!(["fill", "churn"]));
    // Doing the trial again leaves no trace of a stage that is not there any more.
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
}
