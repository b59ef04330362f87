//! Remedies on real, small file systems: each does what it says, and every block of data is what it was.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::process::Command;

use fsage_lab::store::Store;
use fsage_model::record::{RemedyRecord, StageRecord, TrialRecord, TrialStatus};
use fsage_model::remedy::Remedy;
use lab::Lab;
use support::{can_mount, can_serve_disks, skip};

const STUDY: &str = include_str!("data/remedies.toml");

fn can_run(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| fsage_engine::host::tool::look_up(program).is_none());
    if let Some(program) = missing {
        skip(format!("{program} is not installed"));
    }
    missing.is_none() && can_mount() && can_serve_disks()
}

fn metric(trial: &TrialRecord, name: &str) -> Option<f64> {
    trial.metrics.iter().find(|metric| metric.name == name)?.samples.first().copied()
}

fn remedy(trial: &TrialRecord) -> &RemedyRecord {
    let found = trial.stages.iter().find_map(|stage| match stage {
        StageRecord::Remedy(remedy) => Some(&**remedy),
        _ => None,
    });
    found.unwrap()
}

fn of(trials: &[TrialRecord], method: Remedy) -> &TrialRecord {
    trials.iter().find(|trial| remedy(trial).method == method).unwrap()
}

#[test]
fn every_remedy_of_ext4_is_what_it_says_and_keeps_the_data() {
    if !can_run(&["mke2fs", "e4defrag"]) {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 5);
    for trial in &trials {
        let method = remedy(trial).method;
        assert_eq!((trial.status, trial.check.as_str()), (TrialStatus::Complete, "clean"), "{method}");
        let verified = trial.commands.iter().filter(|line| line.starts_with("fsage verify ")).count();
        assert_eq!(verified, 2, "{method}: after the remedy and after further use");
        for name in
            ["grep", "after.grep", "later.grep", "after.create", "remedy.elapsed_s", "further.age.elapsed_s"]
        {
            assert!(metric(trial, name).is_some(), "{method} has no {name}");
        }
        // Further use is of the same files, which it changes.
        let further = trial.stages.iter().rev().find_map(StageRecord::load).unwrap();
        assert!(further.operations == 500 && further.files > 100, "{method}: {} files", further.files);
    }
    let (none, defragmented) = (of(&trials, Remedy::None), of(&trials, Remedy::Defragment));
    let extents = |trial| metric(trial, "remedy.layout.extents_per_file").unwrap();
    assert!(extents(defragmented) < extents(none), "{} {}", extents(defragmented), extents(none));
    assert!(remedy(defragmented).command.starts_with("e4defrag /"), "{}", remedy(defragmented).command);
    assert!(remedy(defragmented).said.contains("Success"), "{}", remedy(defragmented).said);
    let written = |trial| metric(trial, "remedy.written_bytes").unwrap();
    assert!(written(defragmented) > written(none) + 1e6);
    let copied = of(&trials, Remedy::Copy);
    assert!(extents(copied) < extents(none) && remedy(copied).files == remedy(none).layout.files);
    assert!(metric(copied, "remedy.elapsed_s") > metric(none, "remedy.elapsed_s"));
    // What was deleted is less to read: no ratio, and no claim of a gain.
    let freed = of(&trials, Remedy::Free(20));
    let files = remedy(none).layout.files;
    assert_eq!((remedy(freed).files, remedy(freed).layout.files), ((files + 2) / 5, files - (files + 2) / 5));
    assert_eq!(metric(freed, "after_over_before.grep"), None);
    assert!(metric(none, "after_over_before.grep").is_some_and(|ratio| (0.8..1.25).contains(&ratio)));
    assert!(remedy(of(&trials, Remedy::Fstrim)).bytes > 1 << 20);
    // All began with one image, so the control and the others are pairs.
    let page = lab.report();
    for words in ["Remedies", "remedies-gain", "remedies-cost", "different work"] {
        assert!(page.contains(words), "{words}");
    }
    let explain = |more: &[&str]| {
        let mut explain = Command::new(env!("CARGO_BIN_EXE_fsage"));
        explain.arg("explain").arg(lab.scratch.path()).args(more).env("FSAGE_AGENT", support::agent());
        explain.output().unwrap()
    };
    let store = lab.store();
    let told = explain(&["--measured", store.to_str().unwrap()]);
    // The folder of the test may be on a file system that tells nothing; what is measured needs no such thing.
    if told.status.success() {
        assert!(String::from_utf8_lossy(&told.stdout).contains("Measured fixes"));
    }
    assert!(Store::open(&store).is_ok());
}

#[test]
fn xfs_and_btrfs_have_programs_of_their_own() {
    if !can_run(&["mkfs.xfs", "xfs_fsr", "mkfs.btrfs", "btrfs"]) {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) = lab.run(&[
        "matrix.\"file_system.kind\"=[\"xfs\", \"btrfs\"]",
        "matrix.\"stage.remedy.method\"=[\"defragment\", \"balance\"]",
        "exclude=[{ \"file_system.kind\" = \"xfs\", \"stage.remedy.method\" = [\"balance\"] }]",
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    let mut commands: Vec<String> = Vec::new();
    for trial in &trials {
        assert_eq!((trial.status, trial.check.as_str()), (TrialStatus::Complete, "clean"));
        let command = &remedy(trial).command;
        let before = trial.stages.iter().find_map(|stage| match stage {
            StageRecord::Measure { before, .. } => Some(before.extents_per_file),
            _ => None,
        });
        if remedy(trial).method == Remedy::Defragment {
            assert!(remedy(trial).layout.extents_per_file < before.unwrap(), "{command}");
        }
        commands.push(command.split(" /").next().unwrap().to_owned());
    }
    commands.sort();
    assert_eq!(commands, ["btrfs balance start --full-balance", "btrfs filesystem defragment -r", "xfs_fsr"]);
}

#[test]
fn what_does_not_suit_is_refused_before_anything_is_taken() {
    let lab = Lab::new(STUDY);
    for (set, words) in [
        (
            &["stage.remedy.method=balance", "matrix.\"stage.remedy.method\"=[]"][..],
            "`balance` does not suit ext4",
        ),
        (&["file_system.kind=ext2", "matrix.\"file_system.kind\"=[]"][..], "`defragment` does not suit ext2"),
        (&["stage.remedy.method=cure", "matrix.\"stage.remedy.method\"=[]"][..], "cure"),
        (&["stage.further.continues=nothing"][..], "no `age` stage `nothing` comes before"),
        (&["stage.further.threads=2"][..], "use as many"),
        (&["exclude=[{ \"file_system.kind\" = \"xfs\" }]"][..], "\"xfs\" is not a value of the factor"),
    ] {
        let (code, stderr) = lab.run(set);
        assert_eq!(code, Some(2), "{set:?}: {stderr}");
        assert!(stderr.contains(words), "{set:?}: {stderr}");
    }
    assert!(!lab.store().exists());
}
