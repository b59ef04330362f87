//! The shipped study of usage and fullness, its quick preset once over with fewer rounds: every cell is complete and every
//! finding has an answer.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::collections::BTreeMap;
use std::process::Command;

use fsage_model::record::TrialStatus;

use lab::Lab;
use support::{can_mount, can_serve_disks, skip};

const STUDY: &str = include_str!("../../../studies/fullness.toml");

#[test]
fn the_quick_study_answers_every_finding() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    for program in ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"] {
        if Command::new(program).arg("-V").output().is_err() {
            skip(format!("{program} is not installed"));
            return;
        }
    }
    let lab = Lab::new(STUDY);
    // Two fifths of its rounds, which replace what is there once: use shows by then.
    let fewer = ["repeats=1", "stage.lockstep.workload.rounds=20", "stage.lockstep.every=10"];
    let output = lab.command(&fewer).args(["--quick", "--jobs", "2"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    let mut cells = BTreeMap::new();
    for trial in &trials {
        let cell =
            [&trial.factors["volume.medium"], &trial.factors["file_system.kind"]].map(ToString::to_string);
        assert_eq!((trial.status, trial.check.as_str()), (TrialStatus::Complete, "clean"), "{cell:?}");
        let value = |name: &str| {
            let metric = trial.metrics.iter().find(|metric| metric.name == name);
            let samples = &metric.unwrap_or_else(|| panic!("{cell:?} has no {name}")).samples;
            samples.iter().sum::<f64>() / f64::from(u32::try_from(samples.len()).unwrap())
        };
        assert!((0.87..0.96).contains(&value("full.use_share")), "{cell:?}: {}", value("full.use_share"));
        assert!(value("empty.use_share") < 0.12, "{cell:?}: {}", value("empty.use_share"));
        for name in ["full_over_empty.write", "full_over_empty.grep", "full.grep.dynamic_layout_score"] {
            assert!(value(name) > 0.0, "{cell:?}: {name}");
        }
        let cost = value("full_over_unaged.grep");
        cells.insert(cell, cost);
    }
    assert_eq!(cells.len(), 6, "{cells:?}");
    // What everybody has found: on a hard disk a full, used volume reads more slowly than a fresh copy.
    for (cell, ratio) in cells.iter().filter(|(cell, _)| cell[0].contains("hdd")) {
        assert!(*ratio > 1.1, "{cell:?}: {ratio}");
    }
    let page = lab.report();
    for words in ["lockstep-read-chart", "answer-chart", "published findings: "] {
        assert!(page.contains(words), "{words}");
    }
    // The terminal ends with the sentences that the page begins with: one for each file system and medium.
    let printed = String::from_utf8_lossy(&output.stdout);
    let sentences: Vec<&str> =
        printed.lines().filter(|line| line.contains("In this run, use made reading all files on")).collect();
    assert_eq!(sentences.len(), 6, "{printed}");
    for medium in ["a 7,200 rpm hard disk (model hdd-7200)", "an SSD (model ssd)"] {
        assert_eq!(sentences.iter().filter(|line| line.contains(medium)).count(), 3, "{printed}");
    }
    for sentence in sentences {
        let (before, _) = sentence.trim().split_once(" on a").unwrap();
        let bare = page.replace("<b>", "").replace("</b>", "");
        assert!(bare.contains(before), "{before}");
    }
}
