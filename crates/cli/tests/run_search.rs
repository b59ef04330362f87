//! A small search on a virtual disk in model time: interrupted, resumed, answered; nothing is left behind.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use fsage_lab::plan::Plan;
use lab::Lab;
use serde_json::Value;
use support::{can_mount, can_serve_disks, wait_for};

/// `no-journal` writes less for each synced file; the control gains nothing.
const STUDY: &str = r#"
name = "search"
title = "A small search"
question = "What makes synced appends faster?"
seed = 5

[volume]
medium = "sd-a2"
size = "64MiB"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
stop.operations = 200
workload = { kind = "drift", slots = 50, file_size = { kind = "fixed", size = "8KiB" } }

[[stage]]
kind = "measure"
measures = [{ kind = "append", files = 20, size = "4KiB", fsync = true }]

[search]
budget = 12
null = ["same"]

[search.option.same]

[search.option.no-journal]
"file_system.options.ext4.mkfs.journal" = false
"#;

/// Ids of the plan, and of the trials that are complete.
fn ids(store: &Path) -> (Vec<String>, Vec<String>) {
    let Ok(text) = std::fs::read(store.join("plan.json")) else { return (Vec::new(), Vec::new()) };
    let plan: Plan = serde_json::from_slice(&text).unwrap();
    let planned: Vec<String> = plan.trials.into_iter().map(|trial| trial.id).collect();
    let done = planned.iter().filter(|id| store.join("trials").join(id).join("trial.json").exists());
    (planned.clone(), done.cloned().collect())
}

#[test]
fn a_search_that_is_interrupted_resumes_and_answers() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new(STUDY);
    let store = lab.store();
    let mut first = lab.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("two runs", || ids(&store).1.len() >= 2);
    let interrupt = Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(first.wait().unwrap().code(), Some(130));
    lab.nothing_left();
    let (planned, done) = ids(&store);
    assert!(done.len() < planned.len(), "{} of {}", done.len(), planned.len());

    let output = lab.command(&[]).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["kept"], done.len(), "what was complete is kept");
    let found = &said["answer"]["tuned"][0];
    assert_eq!((&found["is_over"], &found["is_model"]), (&true.into(), &true.into()), "{found}");
    assert_eq!(found["recommended"], serde_json::json!(["no-journal"]), "{found}");
    assert_eq!(found["confirmation"]["verdict"], "confirmed", "{found}");
    let (all, complete) = ids(&store);
    assert_eq!(all[..planned.len()], planned, "the path goes on where it was");
    assert!(all == complete && all.len() <= 12, "{all:?}");
    lab.nothing_left();

    let text = lab.fsage(&["report", store.to_str().unwrap(), "--json"]);
    let report: Value = serde_json::from_slice(&text.stdout).unwrap();
    assert_eq!(&report["findings"]["searches"][0], found, "the report comes to the same decisions");
    assert!(lab.report().contains("Option search"));
    let (code, stderr) = lab.run(&[]);
    assert_eq!((code, ids(&store).0), (Some(0), all), "{stderr}");
}
