//! The load `database` of `fsage crash` and of studies: SQLite keeps what its documentation promises with each of its
//! settings, what it does not promise is documented damage, and what is wrong with the host is said.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod lab;
mod support;

use std::process::{Command, Output, Stdio};

use fsage_model::crash::{CrashLoad, CrashReport, DamageKind, Synchronous};
use fsage_model::record::StageRecord;
use lab::Lab;
use support::{Scratch, skip};

/// Whether it can run here; says why not.
fn can_run() -> bool {
    let can_cut = support::can_mount() && support::can_serve_disks();
    let has_sqlite =
        Command::new("sqlite3").arg("--version").output().is_ok_and(|output| output.status.success());
    if can_cut && !has_sqlite {
        skip("sqlite3 is not installed");
    }
    can_cut && has_sqlite
}

fn crash(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    command.arg("crash").args(words);
    run(scratch, command)
}

fn run(scratch: &Scratch, mut command: Command) -> Output {
    command.current_dir(scratch.path()).stdin(Stdio::null());
    command.env("FSAGE_AGENT", support::agent()).env("FSAGE_RUNTIME_DIR", scratch.path().join("runtime"));
    fsage_sys::process::die_with_parent(&mut command);
    let output = command.output().unwrap();
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Its exit code and report, with 12 transactions and 24 states.
fn report(scratch: &Scratch, words: &[&str]) -> (i32, CrashReport) {
    let common = ["--json", "--load", "database", "--length", "12", "--states", "24"];
    let output = crash(scratch, &[&common[..], words].concat());
    let report = serde_json::from_slice(&output.stdout);
    (
        output.status.code().unwrap(),
        report.unwrap_or_else(|error| panic!("{words:?}: {error}: {}", said(&output))),
    )
}

fn states(report: &CrashReport, kind: DamageKind) -> u64 {
    report.damage.iter().find(|(known, _)| *known == kind).map_or(0, |(_, states)| *states)
}

#[test]
fn sqlite_keeps_what_each_setting_promises() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let common = ["--fs", "ext4", "--journal-mode"];
    for (mode, synchronous) in [("wal", "full"), ("delete", "extra"), ("truncate", "full")] {
        let (code, report) = report(&scratch, &[&common[..], &[mode, "--synchronous", synchronous]].concat());
        assert_eq!(
            (code, report.ok, report.damaged()),
            (0, report.tried, 0),
            "{mode} {synchronous}: {report:?}"
        );
        assert!(report.tried > 15 && report.checked > 0, "{report:?}");
        // The table and each transaction.
        let program = report.program.as_ref().unwrap();
        assert_eq!((program.acknowledged, program.left, program.timed_out), (13, 0, false), "{report:?}");
        let modes = report.database.unwrap();
        assert_eq!((modes.journal_mode.name(), modes.synchronous.name()), (mode, synchronous));
        assert_eq!(report.load.unwrap().load, CrashLoad::Database);
    }
}

/// Where SQLite promises nothing, or not that a commit stays, damage is documented and shown with what led to it.
#[test]
fn what_sqlite_does_not_promise_is_documented() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let (code, off) = report(&scratch, &["--synchronous", "off"]);
    assert_eq!((code, off.broken), (5, 0), "{off:?}");
    let failing = off.failing.as_ref().unwrap();
    assert!(off.documented > 0 && failing.damage[0].path == "fsage.db", "{failing:?}");
    assert!(!failing.acknowledged.is_empty() && !failing.requests.is_empty(), "{failing:?}");

    // A write-ahead log that is not synced at commits loses the last of them, and stays consistent.
    let (code, normal) = report(&scratch, &["--journal-mode", "wal", "--synchronous", "normal"]);
    assert_eq!((code, normal.broken, states(&normal, DamageKind::Database)), (5, 0, 0), "{normal:?}");
    assert!(states(&normal, DamageKind::Transaction) > 0, "{normal:?}");

    // A drive that lies breaks its own promise, whatever SQLite syncs.
    let (code, lying) = report(&scratch, &["--drive", "lying", "--journal-mode", "wal"]);
    assert_eq!((code, lying.broken), (5, 0), "{lying:?}");
}

#[test]
fn the_summary_says_what_is_promised_and_a_kept_state_is_seen_by_sqlite_alone() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let words =
        ["--load", "database", "--synchronous", "off", "--length", "12", "--states", "24", "--keep", "kept"];
    let output = crash(&scratch, &words);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(5), "{text}");
    for words in [
        "SQLite promises (delete, synchronous off): nothing\n    sqlite.org/pragma.html#pragma_synchronous",
        "load database (delete, synchronous off): 13 acknowledgements in ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let kept = scratch.path().join("kept");
    let how = std::fs::read_to_string(kept.join("reproduce.txt")).unwrap();
    let (_, commands) = how.split_once("hence the copy):\n\n").unwrap();
    let ran = Command::new("sh").args(["-c", commands]).current_dir(&kept).output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned() + &said(&ran);
    // The last line of `acknowledged`, and whatever sqlite3 makes of the state.
    let last = std::fs::read_to_string(kept.join("acknowledged")).unwrap();
    assert!(commands.contains("sqlite3") && printed.contains(last.lines().last().unwrap()), "{printed}");
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
}

/// In a mount namespace of its own, where something that is no program lies over sqlite3.
#[test]
fn a_host_without_sqlite_is_told_which_package_has_it() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let hide =
        "for program in $(which -a sqlite3); do mount --bind /dev/null \"$program\"; done; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", hide, "sh"]);
    command.args([env!("CARGO_BIN_EXE_fsage"), "crash", "--load", "database", "--states", "1"]);
    let output = run(&scratch, command);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the program sqlite3 is not installed"), "{said}");
    assert!(said.contains("install the package sqlite3") && output.stdout.is_empty(), "{said}");
}

const STUDY: &str = include_str!("../../../docs/examples/database.toml");

/// The example of the documentation, small enough for a test: settings are factors, and every layer shows them.
#[test]
fn settings_are_factors_of_a_study_and_the_report_shows_them() {
    if !can_run() {
        return;
    }
    let lab = Lab::new(STUDY);
    let set = [
        "repeats=1",
        "stage.power.states=16",
        "stage.power.length=8",
        "matrix.\"file_system.kind\"=[\"ext4\"]",
        "matrix.\"stage.power.journal_mode\"=[\"wal\"]",
        "matrix.\"stage.power.synchronous\"=[\"off\", \"full\"]",
    ];
    let (code, stderr) = lab.run(&set);
    assert_eq!(code, Some(0), "damage is a result: {stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let found = trial.stages.iter().find_map(StageRecord::power_cuts).unwrap();
        let modes = found.database.unwrap();
        assert_eq!((found.broken, found.program.as_ref().unwrap().acknowledged), (0, 9), "{found:?}");
        assert_eq!(found.damaged() == 0, modes.synchronous == Synchronous::Full, "{found:?}");
        let line = format!("load database ({modes}) of 8");
        assert!(trial.commands.iter().any(|command| command.contains(&line)), "{:?}", trial.commands);
        let metric = trial.metrics.iter().find(|metric| metric.name == "power.damage.transaction_share");
        assert!(metric.is_some(), "{:?}", trial.metrics.len());
    }
    let page = lab.report();
    for words in [
        "power-databases",
        "ext4, SQLite wal, synchronous full",
        "ext4, SQLite wal, synchronous off",
        "consistent and durable",
        "database 8",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let export = lab.fsage(&["export", lab.store().to_str().unwrap(), "--format", "csv"]);
    let rows = String::from_utf8_lossy(&export.stdout);
    assert!(rows.contains("power.damage.database_share"), "{}", said(&export));
}
