//! Controls on this host: one aged image measured twice, and a virtual disk that is slower by a known factor.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::process::Command;

use fsage_model::record::{TrialRecord, TrialStatus};
use lab::Lab;
use serde_json::{Value, json};
use support::{can_mount, can_serve_disks};

const STUDY: &str = include_str!("data/controls.toml");

fn control(trial: &TrialRecord) -> &str {
    trial.factors.get("control").and_then(Value::as_str).unwrap_or("none")
}

fn value(trial: &TrialRecord, name: &str) -> Option<f64> {
    trial.metrics.iter().find(|metric| metric.name == name)?.samples.first().copied()
}

/// What `fsage` prints.
fn said(lab: &Lab, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    let output = command.args(words).arg(lab.store()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Changes the `grep` of the A/A pair, as if the same state had not been the same.
fn spoil(lab: &Lab) {
    for trial in lab.trials().iter().filter(|trial| control(trial) == "same") {
        let path = lab.store().join("trials").join(&trial.id).join("trial.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for metric in record["metrics"].as_array_mut().unwrap() {
            if metric["name"] == "grep" {
                let value = metric["samples"][0].as_f64().unwrap();
                metric["samples"] = json!([value * (1.5 + f64::from(trial.repeat) / 100.0)]);
            }
        }
        std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    }
}

#[test]
fn the_same_is_the_same_and_a_known_slowdown_is_found_with_its_size() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new(STUDY);
    let output = lab.command(&[]).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{errors}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 12);
    assert!(trials.iter().all(|trial| trial.status == TrialStatus::Complete), "{errors}");
    // Every repeat aged one volume, and its controls began with that image.
    for trial in &trials {
        let own = trials.iter().find(|own| own.repeat == trial.repeat && control(own) == "none").unwrap();
        let run = |trial: &TrialRecord| {
            trial.metrics.iter().find(|metric| metric.name == "age.device_bytes").unwrap().run.clone()
        };
        assert!(run(trial).is_some() && run(trial) == run(own), "{}", control(trial));
        let (slow, grep) = (value(trial, "grep.disk_fault_slow_ns"), value(trial, "grep").unwrap());
        assert_eq!(slow.is_some(), control(trial) == "slow");
        let times = grep / value(own, "grep").unwrap();
        let extra = value(trial, "grep.extra_factor");
        assert_eq!(extra.is_some(), control(trial) == "extra");
        let wanted = match (control(trial), extra) {
            ("slow", _) => 1.35..1.65,
            // As much as the measure's clock says was added; the disk counts the requests as any others.
            (_, Some(extra)) => {
                assert!((1.08..1.20).contains(&extra), "{extra}");
                assert!(value(trial, "grep.extra_requests").unwrap() >= 1.0);
                // One trial beside one; the page wants the interval of all to be closer.
                extra * 0.95..extra * 1.05
            }
            _ => 0.97..1.03,
        };
        assert!(wanted.contains(&times), "{}: {times}", control(trial));
        assert!(
            value(trial, "grep.queue_depth").is_some_and(|depth| depth > 0.1),
            "the disk counted its requests"
        );
        // Only what was measured was slowed: not the restoring, which the disk was not yet slow for.
        assert_eq!(trial.spec["control"]["kind"].as_str().unwrap_or("none"), control(trial));
    }
    let line = text.lines().find(|line| line.contains("Controls passed")).unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains("the known slowdown of ×1.") && line.contains("was found in 2 of 2 measures"),
        "{line}"
    );
    assert!(
        line.contains("added requests of ×1.") && line.contains("2 of 2 measures equal within 5"),
        "{line}"
    );
    assert!(text.contains("1 published finding: 1 holds."), "{text}");
    let page = lab.report();
    assert!(page.contains("control-table") && page.contains("known slowdown"), "the page has the section");
    assert!(!page.contains("This run is incomplete"), "controls are no missing trials");
    // The trials of controls are in the export, recognised by their factor.
    let export = said(&lab, &["export", "--format", "csv"]);
    let mut rows = export.lines();
    let heading: Vec<&str> = rows.next().unwrap().split(',').collect();
    let column = heading.iter().position(|name| *name == "factor.control").unwrap();
    let mut kinds: Vec<&str> = rows.map(|row| row.split(',').nth(column).unwrap()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["", "extra", "same", "slow"]);

    // Where the same is not the same, no claim is judged.
    spoil(&lab);
    let page = lab.report();
    assert!(page.contains("Controls failed: "), "the page says so");
    assert!(page.contains("controls failed: of"), "and so does the finding");
    assert!(page.contains("No published finding is judged"), "{}", page.len());
    assert!(!page.contains("verdict holds"), "nothing holds then");
}
