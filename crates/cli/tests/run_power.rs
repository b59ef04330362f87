//! Power cuts as a study, on real, small file systems: the right ones are damaged, nothing else is, and the
//! record, the answer, the export and the page say the same.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::process::Command;

use fsage_model::crash::{CrashReport, DriveBehaviour};
use fsage_model::quantity::share;
use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};
use lab::Lab;
use support::{can_mount, can_serve_disks};

const STUDY: &str = include_str!("data/power.toml");

fn report(trial: &TrialRecord) -> &CrashReport {
    trial.stages.iter().find_map(StageRecord::power_cuts).unwrap()
}

fn of<'a>(
    trials: &'a [TrialRecord],
    file_system: &str,
    options: &[&str],
    drive: DriveBehaviour,
) -> &'a TrialRecord {
    let is = |trial: &&TrialRecord| {
        let report = report(trial);
        report.file_system == file_system && report.options == options && report.spec.drive == drive
    };
    trials.iter().find(is).unwrap()
}

fn metric(trial: &TrialRecord, name: &str) -> f64 {
    trial.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).samples[0]
}

#[test]
fn the_right_ones_are_damaged_and_every_layer_says_so() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new(STUDY);
    let output = lab.command(&[]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "damage is a result: {stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 6, "ext2 and two configurations of ext4 on two drives");
    for trial in &trials {
        let found = report(trial);
        assert_eq!((trial.status, trial.check.as_str()), (TrialStatus::Complete, "clean"), "{found:?}");
        assert_eq!((found.tried, found.broken, found.interrupted), (40, 0, false), "{found:?}");
        assert_eq!(found.load.unwrap().seed, trial.seed, "every repeat has a load of its own");
        assert_eq!(found.ok + found.documented, 40);
        assert!(found.kept_inspected <= found.checked.min(found.ok), "{found:?}");
        assert_eq!(metric(trial, "power.damaged_states") + metric(trial, "power.kept_states"), 40.0);
        assert!((metric(trial, "power.kept_share") - share(found.ok, 40)).abs() < 1e-12);
        assert!(metric(trial, "power.mount.median_ns") > 0.0 && metric(trial, "power.check.max_ns") > 0.0);
        assert!(
            trial.commands.iter().any(|line| line.starts_with("# power cuts on ")),
            "{:?}",
            trial.commands
        );
    }
    let (honest, lying) = (DriveBehaviour::Honest, DriveBehaviour::Lying);
    let ext4 = of(&trials, "ext4", &[], honest);
    assert_eq!((report(ext4).ok, report(ext4).failing.as_ref()), (40, None), "no false alarm");
    for (file_system, options, drive) in [
        ("ext4", &[][..], lying),
        ("ext2", &[][..], honest),
        ("ext2", &[][..], lying),
        ("ext4", &["journal=false"][..], lying),
    ] {
        let trial = of(&trials, file_system, options, drive);
        let found = report(trial);
        assert!(found.documented > 0 && found.failing.is_some(), "{file_system} {options:?}: {found:?}");
        assert!(metric(trial, "power.documented_share") > 0.0);
    }

    shown(&lab, &stdout);
}

/// The answer, the page and the export say the same.
fn shown(lab: &Lab, stdout: &str) {
    for words in [
        "ower cuts on ext2: honest drive, ",
        "ower cuts on ext4: honest drive, nothing lost in 40 states (damage in",
        "; lying drive, ",
    ] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    let page = lab.report();
    for words in [
        "Power cuts",
        "power-matrix",
        "power-ways",
        "power-times",
        "ext4 (journal=false)",
        "40 of 40 kept, 20 of these checked and written to",
        "not seen in 40 distinct states of 1 log",
        "must be at least one",
        "power lost, ",
        "write-fsync-rename-fsync-dir",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let mut export = Command::new(env!("CARGO_BIN_EXE_fsage"));
    let export = export.arg("export").arg(lab.store()).arg("--format").arg("csv").output().unwrap();
    let rows = String::from_utf8_lossy(&export.stdout);
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    for name in [
        "power.kept_share",
        "power.unexplained_states",
        "power.damage.check_share",
        "power.write-rename.empty_share",
        "power.unmount.mean_ns",
    ] {
        assert!(rows.contains(name), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_load_and_an_aged_file_system_can_be_cut_too() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let aged = STUDY.replace(
        "[[stage]]\nkind = \"power-cuts\"",
        "[[stage]]\nkind = \"age\"\nstop.operations = 300\nworkload = { kind = \"drift\", slots = 60, file_size = \
         { kind = \"fixed\", size = \"16KiB\" } }\n\n[[stage]]\nkind = \"power-cuts\"\nseed = 5",
    );
    assert_ne!(aged, STUDY);
    let lab = Lab::new(&aged);
    let set = [
        "matrix.\"file_system.kind\"=[\"ext4\"]",
        "matrix.\"file_system.options.ext4\"=[]",
        "matrix.\"stage.power.drive\"=[\"honest\", \"protected\"]",
    ];
    let (code, stderr) = lab.run(&set);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    let reports: Vec<&CrashReport> = trials.iter().map(report).collect();
    let [first, second] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((first.load.unwrap().seed, first.operations), (5, second.operations));
    assert_eq!((first.load, first.ok, second.ok), (second.load, first.tried, second.tried));
    assert!(first.tried > 20 && second.tried > 20);
    // What was there before the load is still there after hundreds of mounts.
    assert!(
        trials
            .iter()
            .all(|trial| trial.check == "clean" && trial.layout.as_ref().is_some_and(|l| l.files > 20))
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let refused = |from: &str, to: &str, wanted: &str| {
        let study = STUDY.replacen(from, to, 1);
        assert_ne!(study, STUDY, "{from}");
        let lab = Lab::new(&study);
        let mut check = Command::new(env!("CARGO_BIN_EXE_fsage"));
        let output =
            check.args(["study", "check"]).arg(lab.scratch.path().join("study.toml")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(wanted), "{to}: {said}");
    };
    refused(
        "medium = \"ram\"\nsize = \"64MiB\"\nblock_bytes = 4096",
        "kind = \"loop\"\nsize = \"64MiB\"",
        "only a virtual disk can show",
    );
    refused("size = \"64MiB\"", "size = \"64MiB\"\nlog = true", "the disk keeps one log");
    refused("size = \"64MiB\"", "size = \"64MiB\"\nfaults = { seed = 1 }", "injected faults");
    refused("states = 40", "states = 0", "0 states: 1 to 1,000,000");
    refused("length = 2", "length = 0", "0 is not a load length");
    refused("length = 2", "length = 2\natomic = \"6KiB\"", "is not a multiple of 4 KiB");
    refused("length = 2", "length = 2\ncache = \"1KiB\"", "too small");
    refused("length = 2", "length = 2\ndrive = \"honset\"", "honset");
    refused("length = 2", "lenght = 2", "length");
    refused("length = 2", "length = 2\nthreads = 2", "the load `update` has one thread");
    refused("length = 2", "length = 2\njournal_mode = \"wal\"", "the load `update` has no database");
    refused("load = \"update\"", "load = \"database\"\nsynchronous = \"often\"", "often");
    refused(
        "[matrix]",
        "[[stage]]\nkind = \"measure\"\nmeasures = [{ kind = \"walk\" }]\n\n[matrix]",
        "power cuts come last",
    );
}

#[test]
fn states_that_no_kernel_wrote_are_mounted_by_nobody_without_consent() {
    let drives = "\"stage.power.drive\" = [\"honest\", \"lying\"]";
    let study = STUDY.replacen(drives, "\"stage.power.drive\" = [\"honest\", \"lying\", \"bit-errors\"]", 1);
    assert_ne!(study, STUDY);
    let lab = Lab::new(&study);
    let output = lab.command(&[]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let root = rustix::process::geteuid().is_root();
    assert_eq!(output.status.code(), Some(if root { 2 } else { 3 }), "{said}");
    assert!(!root || (said.contains("bit-errors") && said.contains("--on-host")), "{said}");
    assert!(!lab.store().exists(), "nothing was made");
    let check = lab.fsage(&["study", "check", lab.scratch.path().join("study.toml").to_str().unwrap()]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success() && said.contains("full: has drives with flash faults"), "{said}");
}
