//! `fsage crash` with a user's own program: an unsafe script is found out, its repaired version passes, what
//! is wrong with the programs themselves is said, and a failing state is seen by stock tools alone.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Scratch, skip};

/// A runtime folder of its own, and a working directory for scripts.
struct Rig {
    scratch: Scratch,
}

impl Rig {
    fn new() -> Option<Self> {
        (support::can_mount() && support::can_serve_disks()).then(|| Self { scratch: Scratch::new() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// An executable script.
    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn crash(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.arg("crash").args(words).current_dir(self.scratch.path()).stdin(Stdio::null());
        command.env("FSAGE_AGENT", support::agent());
        command.env("FSAGE_RUNTIME_DIR", self.path("runtime"));
        fsage_sys::process::die_with_parent(&mut command);
        let output = command.output().unwrap();
        self.nothing_left();
        output
    }

    /// Its exit code and its report.
    fn report(&self, words: &[&str]) -> (i32, Value) {
        let output = self.crash(&[&["--json"], words].concat());
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", said(&output)));
        (output.status.code().unwrap(), report)
    }

    fn nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
        let journals = std::fs::read_dir(self.path("runtime/state")).into_iter().flatten().flatten();
        let names: Vec<_> = journals.map(|entry| entry.file_name()).collect();
        assert!(names.iter().all(|name| name == "settings.lock"), "{names:?}");
        assert!(!self.path("runtime/crash/1").exists());
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/crash");
    folder.canonicalize().unwrap().join(name).into_os_string().into_string().unwrap()
}

fn count(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report}"))
}

#[test]
fn an_unsafe_script_is_found_out_and_its_repaired_version_passes() {
    let Some(rig) = Rig::new() else { return };
    let check = example("notes-check.sh");
    for file_system in ["ext4", "xfs"] {
        let common = ["--fs", file_system, "--states", "40", "--check", &check, "--"];
        let (code, report) = rig.report(&[&common[..], &[&example("notes-unsafe.sh")]].concat());
        assert_eq!(code, 5, "{file_system}: {report}");
        assert_eq!(report["program"]["acknowledged"], 8, "{report}");
        let failing = &report["failing"];
        assert_eq!((&failing["class"], &failing["damage"][0]["kind"]), (&"broken".into(), &"program".into()));
        assert!(failing["damage"][0]["what"].as_str().unwrap().contains("the note"), "{failing}");
        assert!(!failing["acknowledged"].as_array().unwrap().is_empty(), "{failing}");
        let cut = count(&failing["state"], "cut");
        for acknowledged in failing["acknowledged"].as_array().unwrap() {
            assert!(count(acknowledged, "position") <= cut, "{failing}");
        }
        let missing = failing["requests"].as_array().unwrap().iter();
        let missing: Vec<&Value> =
            missing.filter(|one| one["fate"] == "missing").map(|one| &one["entry"]).collect();
        let lost: Vec<&Value> = failing["state"]["lost"].as_array().unwrap().iter().collect();
        assert_eq!(missing, lost, "{failing}");

        let (code, report) = rig.report(&[&common[..], &[&example("notes-safe.sh")]].concat());
        assert_eq!((code, count(&report, "ok")), (0, count(&report, "tried")), "{file_system}: {report}");
        assert!(count(&report, "tried") > 20 && report["failing"].is_null(), "{report}");
        assert!(count(&report["program"], "flushes") > 0, "{report}");
    }
}

/// The check sees what was acknowledged before the cut: neither nothing nor everything in every state.
#[test]
fn the_check_is_told_what_was_acknowledged_before_the_cut() {
    let Some(rig) = Rig::new() else { return };
    rig.script(
        "load.sh",
        "for n in 1 2 3 4; do echo $n > $n; sync $n; sync .; echo \"ack $n\"; echo $n; done",
    );
    let seen = rig.path("seen");
    // It is the standard input, too.
    let check = format!(
        "cmp - \"$FSAGE_ACKNOWLEDGED\" || exit 9\nwc -l < \"$FSAGE_ACKNOWLEDGED\" >> {}\n\
         [ \"$PWD\" = \"$FSAGE_DIRECTORY\" ] || exit 8\nfor n in $(cat \"$FSAGE_ACKNOWLEDGED\"); do\n\
         [ \"$(cat $n)\" = $n ] || exit 1; done",
        seen.display()
    );
    rig.script("check.sh", &check);
    let (code, report) = rig.report(&["--states", "40", "--check", "./check.sh", "--", "./load.sh"]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["program"]["acknowledged"], 4, "{report}");
    let text = std::fs::read_to_string(seen).unwrap();
    let counts: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!(text.lines().next(), Some("4"), "first of all the finished volume");
    assert!(counts.contains("0") && counts.len() >= 3, "{counts:?}");
}

/// It would write for ever. What it acknowledges by mistake after the end of the log is not taken for a promise.
#[test]
fn a_load_that_outgrows_the_disks_memory_is_judged_as_far_as_it_went() {
    let Some(rig) = Rig::new() else { return };
    rig.script(
        "load.sh",
        "n=0; while :; do n=$((n + 1)); head -c 1000000 /dev/urandom > new; printf \"\\\\n$n\\\\n\" >> new; sync new; mv new file; \
         sync .; echo \"ack $n\"; done",
    );
    rig.script(
        "check.sh",
        "last=$(tail -n 1 \"$FSAGE_ACKNOWLEDGED\"); [ -z \"$last\" ] || [ \"$(tail -n 1 file)\" -ge \"$last\" ]",
    );
    for file_system in ["ext4", "xfs", "btrfs"] {
        let words =
            ["--fs", file_system, "--memory", "64MiB", "--states", "30", "--check", "./check.sh", "--"];
        let (code, report) = rig.report(&[&words[..], &["./load.sh"]].concat());
        assert_eq!((code, &report["log_full"]), (0, &true.into()), "{file_system}: {report}");
        assert_eq!((count(&report, "ok"), &report["interrupted"]), (30, &false.into()), "{report}");
        let acknowledged = count(&report["program"], "acknowledged");
        assert!((5..64).contains(&acknowledged), "{file_system}: {report}");
        assert_eq!(report["program"]["timed_out"], false, "{report}");
    }
    let spill = rig.path("spill");
    std::fs::create_dir(&spill).unwrap();
    let words = ["--memory", "16MiB", "--spill", "spill", "--states", "20", "--check", "./check.sh"];
    let load = ["--load-timeout", "3", "--", "./load.sh"];
    let (code, report) = rig.report(&[&words[..], &load].concat());
    assert_eq!((code, &report["program"]["timed_out"]), (0, &true.into()), "{report}");
    assert!(report["log_full"].is_null(), "{report}");
}

#[test]
fn what_is_wrong_with_the_programs_is_said_before_any_cut() {
    let Some(rig) = Rig::new() else { return };
    rig.script("good.sh", "echo hello > file; sync file; echo ack 1");
    rig.script("bad.sh", "echo I gave up >&2; exit 3");
    rig.script("much.sh", "printf 'ack '; head -c 5000 /dev/zero | tr '\\0' x; echo; sleep 600");
    rig.script("no.sh", "echo I want more; exit 1");
    rig.script("hang.sh", "sleep 600");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--check", "./no.sh", "--", "./good.sh"], 4, "before any power cut: I want more"),
        (&["--check", "./hang.sh", "--check-timeout", "1", "--", "./good.sh"], 4, "did not end within 1 s"),
        (&["--check", "./good.sh", "--", "./bad.sh"], 4, "status 3: I gave up"),
        (&["--check", "./good.sh", "--", "./much.sh"], 2, "acknowledges too much"),
        (&["--check", "./good.sh", "--", "./missing.sh"], 2, "there is no program ./missing.sh"),
        (&["--check", "./good.sh", "--", "no-such-program-anywhere"], 3, "no-such-program-anywhere"),
        (&["--", "./good.sh"], 2, "--check"),
        (&["--check", "./good.sh", "--load", "update", "--", "./good.sh"], 2, "--load"),
    ];
    for (words, code, reason) in cases {
        let started = Instant::now();
        let output = rig.crash(&[&["--states", "20"], words].concat());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(reason), "{words:?}: {said}");
        assert!(output.stdout.is_empty() && started.elapsed() < Duration::from_secs(60), "{words:?}");
    }
    assert!(rig.crash(&["--check", "./good.sh"]).status.code() == Some(2));
}

#[test]
fn loads_that_fork_sync_nothing_or_never_end_are_said() {
    let Some(rig) = Rig::new() else { return };
    rig.script("check.sh", "exit 0");
    rig.script(
        "fork.sh",
        "setsid sleep 600 & setsid sh -c 'sleep 600; echo ack 2' & echo ack 1; sync .; sleep 0.3",
    );
    rig.script("quiet.sh", "echo hello > file");
    rig.script("endless.sh", "while :; do echo x >> file; sync file; echo ack x; sleep 0.05; done");
    let check = ["--states", "12", "--check", "./check.sh"];
    let text = |words: &[&str]| {
        let output = rig.crash(&[&check[..], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let forked = text(&["--", "./fork.sh"]);
    assert!(forked.contains("the load left") && forked.contains("running, ended with it"), "{forked}");
    let quiet = text(&["--", "./quiet.sh"]);
    assert!(quiet.contains("acknowledged nothing") && quiet.contains("no flush"), "{quiet}");
    let started = Instant::now();
    let endless = text(&["--load-timeout", "1", "--", "./endless.sh"]);
    assert!(endless.contains("the load was ended after 1 s"), "{endless}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// A check that hangs in some states decides nothing about them.
#[test]
fn a_check_that_hangs_after_a_cut_is_counted_apart() {
    let Some(rig) = Rig::new() else { return };
    rig.script(
        "load.sh",
        "echo hello > file; sync file; sync .; echo ack 1; echo more > other; sync other; sync .",
    );
    rig.script("check.sh", "[ -e other ] || sleep 600");
    let words = ["--states", "6", "--check", "./check.sh", "--check-timeout", "5", "--", "./load.sh"];
    let (code, report) = rig.report(&words);
    let undecided = count(&report["program"], "undecided");
    assert!(code == 4 && undecided > 0, "{report}");
    assert_eq!(count(&report, "ok") + undecided, count(&report, "tried"), "{report}");
}

/// Only losetup, mount, fsck and the check itself: nothing of fsage sees the state.
#[test]
fn a_failing_state_is_reproduced_by_stock_tools() {
    let Some(rig) = Rig::new() else { return };
    let check = example("notes-check.sh");
    let words = ["--states", "40", "--keep", "kept", "--check", &check, "--", &example("notes-unsafe.sh")];
    let (code, report) = rig.report(&words);
    assert_eq!(code, 5, "{report}");
    let kept = rig.path("kept");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kept), 0o700);
    for name in ["state.img", "requests.log", "acknowledged", "reproduce.txt"] {
        assert_eq!(mode(&kept.join(name)), 0o600, "{name}");
    }
    // A folder that is there is neither replaced nor filled.
    let output = rig.crash(&words);
    assert!(output.status.code() == Some(2) && said(&output).contains("exists"), "{}", said(&output));

    let text = std::fs::read_to_string(kept.join("reproduce.txt")).unwrap();
    let (_, commands) = text.split_once("hence the copy):\n\n").unwrap();
    let ran = Command::new("sh")
        .args(["-c", &format!("set -x\n{commands}")])
        .current_dir(&kept)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    let reason = report["failing"]["damage"][0]["what"].as_str().unwrap();
    assert!(printed.contains(reason) && printed.contains("exit status 1"), "{printed}\n{}", said(&ran));
    // The file system itself is in order: the damage is the application's.
    assert!(ran.status.success(), "{printed}\n{}", said(&ran));
    rig.nothing_left();
}

/// SQLite keeps what it promises, and with `synchronous = off` nobody promises anything.
#[test]
fn sqlite_keeps_committed_transactions_unless_it_is_told_not_to_sync() {
    let Some(rig) = Rig::new() else { return };
    let python = Command::new("python3").args(["-c", "import sqlite3"]).output();
    if !python.is_ok_and(|output| output.status.success()) {
        return skip("python3 with sqlite3 is not installed");
    }
    let (load, check) = (example("sqlite_load.py"), example("sqlite_check.py"));
    for (mode, synchronous, expected) in [("wal", "full", 0), ("delete", "extra", 0), ("delete", "off", 5)] {
        let words = ["--states", "24", "--check", &check, "--", &load, mode, synchronous, "12"];
        let (code, report) = rig.report(&words);
        assert_eq!(code, expected, "{mode} {synchronous}: {report}");
        assert_eq!(report["program"]["acknowledged"], 13, "{report}");
    }
}
