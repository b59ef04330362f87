//! `fsage price` on a store: a study on a virtual disk keeps the log of its requests, and its trial is priced
//! on another medium.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use lab::Lab;
use serde_json::Value;
use support::{can_mount, can_serve_disks};

const STUDY: &str = r#"
name = "priced"
title = "A small trial on a virtual disk that keeps its log"
question = "What would its requests take on another medium?"
seed = 5
price = ["hdd-10k"]

[volume]
medium = "hdd-7200"
size = "320MiB"
log = true

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
"file_system.kind" = ["ext4"]
"#;

#[test]
fn a_trial_that_keeps_its_log_is_priced() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");

    let store = lab.store().display().to_string();
    let priced = lab.fsage(&["price", &store, "--medium", "hdd-10k", "--json"]);
    assert!(priced.status.success(), "{}", String::from_utf8_lossy(&priced.stderr));
    let found: Value = serde_json::from_slice(&priced.stdout).unwrap();
    let log = &found[0];
    assert_eq!((log["recorded_on"].as_str(), log["trial"].is_string()), (Some("hdd-7200"), true));
    // The log began with the disk, so its own medium repeats it.
    assert_eq!(log["check"]["deviation"], serde_json::json!({"requests": 0, "largest_ns": 0}));
    assert_eq!(log["check"]["begin_ns"], 0);
    let ratio = log["media"][0]["ratio"].as_f64().unwrap();
    assert!((0.2..0.95).contains(&ratio), "{ratio}");
    let intervals = log["check"]["intervals"].as_array().unwrap();
    let marks: Vec<_> = intervals.iter().map(|one| one["mark"].as_str().unwrap_or("")).collect();
    let wanted = [
        "",
        "age",
        "measure",
        "measure grep",
        "after measure grep",
        "measure create",
        "after measure create",
    ];
    assert_eq!(marks, wanted);
    let read = &intervals[3];
    assert!(read["requests"].as_u64() > Some(0) && read["total_ns"] == read["recorded_ns"], "{read}");

    // The run has priced it already, on the medium that the study lists.
    let trial = lab.store().join("trials").join(log["trial"].as_str().unwrap());
    let kept: Value = serde_json::from_slice(&std::fs::read(trial.join("priced.json")).unwrap()).unwrap();
    assert_eq!(kept["asked"], serde_json::json!(["hdd-10k"]));
    let (own, on) = (&kept["logs"][0], &kept["logs"][0]["media"][0]);
    assert_eq!((&own["file"], &own["recorded_on"]), (&"requests.log".into(), &"hdd-7200".into()));
    assert_eq!((&own["deviating"], &own["largest_ns"]), (&0.into(), &0.into()));
    assert_eq!(on["total_ns"], log["media"][0]["priced"]["total_ns"]);
    assert_eq!(on["parts"].as_array().unwrap().len(), marks.len());
    let page = lab.report();
    assert!(page.contains("priced, not measured") && page.contains("hdd-10k"), "the report shows it");

    // With another list the trial stays and is priced again.
    let (code, stderr) = lab.run(&[r#"price=["hdd-5400"]"#]);
    assert_eq!(code, Some(0), "{stderr}");
    let kept: Value = serde_json::from_slice(&std::fs::read(trial.join("priced.json")).unwrap()).unwrap();
    assert_eq!(kept["logs"][0]["media"][0]["medium"], "hdd-5400");

    // Another class: reported, and nothing is left to price.
    let refused = lab.fsage(&["price", &store, "--medium", "ssd"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("the one is rotational") && said.contains("hint: "), "{said}");
    lab.nothing_left();
}
