//! `fsage crash` on real file systems: what keeps its promises passes, what cannot keep them is found, the
//! same seed says the same, and nothing is left behind.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Scratch, wait_for};

/// A runtime folder of its own; whatever a run takes lies below it.
struct Rig {
    scratch: Scratch,
}

impl Rig {
    fn new() -> Option<Self> {
        (support::can_mount() && support::can_serve_disks()).then(|| Self { scratch: Scratch::new() })
    }

    fn fsage(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.args(words).current_dir(self.scratch.path()).stdin(Stdio::null());
        command.env("FSAGE_AGENT", support::agent());
        command.env("FSAGE_RUNTIME_DIR", self.scratch.path().join("runtime"));
        fsage_sys::process::die_with_parent(&mut command);
        command
    }

    /// Runs `fsage crash` and returns its exit code and its report. Nothing is left of the run.
    fn crash(&self, words: &[&str]) -> (i32, Value) {
        let output = self.fsage(&[&["crash", "--json"], words].concat()).output().unwrap();
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", said(&output)));
        self.nothing_left();
        (output.status.code().unwrap(), report)
    }

    /// Leases are in a journal of the run, which goes with the last of them.
    fn leases(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.scratch.path().join("runtime/state")).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "settings.lock").collect()
    }

    fn nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
        assert_eq!(self.leases(), BTreeSet::new());
        assert!(!self.scratch.path().join("runtime/crash/1").exists());
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn count(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report}"))
}

/// Every state was tried and is as promised.
fn all_kept((code, report): &(i32, Value), words: &[&str]) {
    assert_eq!(*code, 0, "{words:?}: {report}");
    let [tried, ok] = ["tried", "ok"].map(|key| count(report, key));
    assert!(tried > 10 && ok == tried, "{words:?}: {report}");
    assert_eq!(tried, count(&report["coverage"], "planned"), "{words:?}");
    assert!(count(report, "checked") > 0 && report["failing"].is_null(), "{words:?}: {report}");
}

#[test]
fn a_load_of_ours_that_outgrows_the_disks_memory_is_judged_as_far_as_it_went() {
    let Some(rig) = Rig::new() else { return };
    let load = ["--load", "sequences", "--length", "1500", "--memory", "8MiB", "--states", "20"];
    let (code, report) = rig.crash(&load);
    assert_eq!((code, &report["log_full"]), (0, &true.into()), "{report}");
    assert_eq!(count(&report, "ok"), 20, "{report}");
    assert!(count(&report, "operations") > 100, "{report}");
}

/// Without room for what recovery writes every state would look damaged.
#[test]
fn a_state_that_cannot_be_written_to_for_want_of_memory_is_not_judged() {
    let Some(rig) = Rig::new() else { return };
    let load = ["--load", "metadata", "--length", "10000", "--memory", "4MiB", "--states", "20"];
    let (code, report) = rig.crash(&load);
    assert_eq!((code, &report["no_room"]), (4, &true.into()), "{report}");
    assert_eq!(count(&report, "ok"), count(&report, "tried"), "{report}");
    assert!(count(&report, "tried") < count(&report["coverage"], "planned"), "{report}");
    let said = rig.fsage(&[&["crash"], &load[..]].concat()).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&said).contains("no room for what was written to the next one"));
    rig.nothing_left();
}

#[test]
fn what_ext4_promises_is_kept_on_an_honest_drive() {
    let Some(rig) = Rig::new() else { return };
    for load in ["update", "metadata", "sequences", "data"] {
        let words = ["--fs", "ext4", "--states", "40", "--load", load];
        let found = rig.crash(&words);
        all_kept(&found, &words);
        // Nothing of it was left out.
        assert!(load != "data" || count(&found.1, "operations") == 200, "{:?}", found.1);
        let updates = found.1["updates"].as_array().unwrap();
        assert_eq!(updates.len(), if load == "update" { 5 } else { 0 }, "{:?}", found.1);
        // Some states have the old file, some the new one: else nothing was at stake.
        let outcomes: BTreeSet<&str> = updates
            .iter()
            .flat_map(|way| way["outcomes"].as_array().unwrap())
            .map(|outcome| outcome[0].as_str().unwrap())
            .collect();
        assert!(updates.is_empty() || outcomes.is_superset(&BTreeSet::from(["old", "new"])), "{outcomes:?}");
    }
}

/// Each of three threads works in a directory of its own, and syncs of one cover all: what is promised is kept, and what is
/// lost is seen in every directory.
#[test]
fn several_threads_are_judged_by_what_each_did() {
    let Some(rig) = Rig::new() else { return };
    let words = ["--fs", "ext4", "--states", "60", "--load", "metadata", "--threads", "3", "--length", "150"];
    let found = rig.crash(&words);
    all_kept(&found, &words);
    assert_eq!(
        (count(&found.1["load"], "threads"), count(&found.1, "operations")),
        (3, 150),
        "{:?}",
        found.1
    );
    let (code, report) = rig.crash(&[&words[..], &["--drive", "lying"]].concat());
    assert_eq!((code, count(&report, "broken")), (5, 0), "{report}");
    let failing = report["failing"]["damage"].as_array().unwrap();
    let paths: Vec<&str> = failing.iter().map(|damage| damage["path"].as_str().unwrap()).collect();
    assert!(paths.iter().all(|path| path.is_empty() || path.starts_with('t')), "{report}");
}

/// `data=writeback` lets a commit overtake data that is not written yet, where blocks are allocated when a program writes
/// (`nodelalloc`); free space that was in use before shows it. In the other modes data is there first.
#[test]
fn bytes_of_others_show_where_data_is_not_ordered_and_only_there() {
    let Some(rig) = Rig::new() else { return };
    let words = ["--fs", "ext4", "--states", "80", "--mount", "nodelalloc"];
    all_kept(&rig.crash(&words), &words);
    let (code, report) = rig.crash(&[&words[..], &["--mount", "data=writeback"]].concat());
    assert_eq!((code, count(&report, "broken")), (5, 0), "{report}");
    let kinds: BTreeSet<&str> =
        report["damage"].as_array().unwrap().iter().map(|kind| kind[0].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["foreign"]), "{report}");
}

/// ext4 leaves the blocks of its fast commits referenced in the page cache of the device, where `BLKFLSBUF` keeps them: states would
/// be recovered from what the load wrote after the cut.
#[test]
fn nothing_of_a_later_state_is_left_in_the_cache_of_the_device() {
    let Some(rig) = Rig::new() else { return };
    let words = ["--fs", "ext4", "--mkfs", "features=[\"fast_commit\"]", "--states", "60", "--length", "2"];
    all_kept(&rig.crash(&words), &words);
}

/// Each of these cannot keep its word, for a reason of its own.
#[test]
fn damage_is_found_where_it_must_be() {
    let Some(rig) = Rig::new() else { return };
    let ext2 = ["--fs", "ext2"];
    let lying = ["--fs", "ext4", "--drive", "lying"];
    let drops_flush = ["--fs", "ext4", "--drive", "drops-flush"];
    for words in [&ext2[..], &lying, &drops_flush] {
        let (code, report) = rig.crash(&[words, &["--states", "60"]].concat());
        assert_eq!(code, 5, "{words:?}: {report}");
        // No file system can do anything about such a drive, and ext2 promises nothing without its check.
        assert!(count(&report, "documented") > 0 && count(&report, "broken") == 0, "{words:?}: {report}");
        let failing = &report["failing"];
        assert_eq!(failing["class"], "documented", "{words:?}: {report}");
        let missing = failing["state"]["lost"].as_array().unwrap().len() as u64;
        assert!(missing <= count(failing, "lost_when_found"), "{words:?}: {failing}");
        let damage = failing["damage"].as_array().unwrap();
        assert!(!damage.is_empty() && damage.iter().all(|one| one["what"] != ""), "{words:?}: {failing}");
    }
}

/// The verdict is the same at once. The states are those of the log, and the kernel may once write a request
/// earlier or later than usual: of three runs two agree in everything but times.
#[test]
fn the_same_seed_says_the_same() {
    let Some(rig) = Rig::new() else { return };
    let words = ["--fs", "ext4", "--states", "32", "--length", "2", "--seed", "7"];
    let of = |report: &Value, keys: &[&str]| -> Vec<Value> {
        keys.iter().map(|key| report.get(key).cloned().unwrap_or_default()).collect()
    };
    let runs: Vec<(i32, Value)> = (0..3).map(|_| rig.crash(&words)).collect();
    let verdict = ["load", "operations", "spec", "tried", "ok", "documented", "broken", "damage", "checked"];
    for (code, report) in &runs {
        assert_eq!((*code, of(report, &verdict)), (0, of(&runs[0].1, &verdict)));
    }
    let more = ["coverage", "updates", "failing"];
    let all: Vec<Vec<Value>> = runs.iter().map(|(_, report)| of(report, &more)).collect();
    assert!(all[0] == all[1] || all[1] == all[2] || all[0] == all[2], "{all:?}");
    // Another seed is another load.
    let (_, other) = rig.crash(&[&words[..6], &["--seed", "8"]].concat());
    assert_ne!(of(&other, &more), all[0]);
}

#[test]
fn what_cannot_be_tried_is_refused_with_the_reason() {
    let Some(rig) = Rig::new() else { return };
    let cases: [(&[&str], &str); 18] = [
        (&["--keep", "no/such/folder"], "hint: name a folder that does not exist, in one that does"),
        (&["--keep", "/etc/passwd"], "/etc/passwd exists"),
        (&["--drive", "lost-mapping"], "with --on-host there"),
        (&["--drive", "bit-errors"], "a drive with bit-errors are fabricated corruption"),
        (&["--fs", "btrfs", "--drive", "paired-pages"], "which this host would mount"),
        (&["--fs", "ext5"], "ext5"),
        (&["--load", "mail"], "mail"),
        (&["--load", "update", "--journal-mode", "wal"], "the load `update` has no database"),
        (&["--synchronous", "full"], "`--synchronous` does not apply"),
        (&["--load", "database", "--synchronous", "sometimes"], "sometimes"),
        (&["--load", "data", "--threads", "2"], "has one thread"),
        (&["--load", "metadata", "--threads", "9"], "9"),
        (&["--medium", "punched-cards"], "punched-cards"),
        (&["--states", "0"], "0"),
        (&["--drive", "honourable"], "honourable"),
        (&["--mkfs", "journal"], "KEY=VALUE"),
        (&["--atomic", "1000"], "atomic"),
        (&["--fs", "xfs", "--size", "1MiB"], "size"),
    ];
    for (words, reason) in cases {
        let output = rig.fsage(&[&["crash"], words].concat()).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(reason), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
        rig.nothing_left();
    }
}

/// Starts a run that takes long, and waits until the load or a state is mounted.
fn under_way(rig: &Rig) -> std::process::Child {
    let words = ["crash", "--json", "--fs", "ext4", "--states", "5000", "--check-every", "0"];
    let child = rig.fsage(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_mounted = || {
        rig.scratch.left_behind().iter().any(|what| what.starts_with("mount ") && what.ends_with("/state"))
    };
    wait_for("the first mount", is_mounted);
    child
}

#[test]
fn a_signal_ends_it_with_what_was_tried() {
    let Some(rig) = Rig::new() else { return };
    let child = under_way(&rig);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["interrupted"]), (Some(4), &Value::from(true)), "{report}");
    assert!(count(&report, "tried") < count(&report["coverage"], "planned"), "{report}");
    rig.nothing_left();
}

#[test]
fn what_a_killed_run_held_is_released_by_clean_or_the_next_run() {
    let Some(rig) = Rig::new() else { return };
    for cleaned in [true, false] {
        let mut child = under_way(&rig);
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(!rig.leases().is_empty());
        if cleaned {
            let output = rig.fsage(&["clean"]).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
            assert_eq!(rig.scratch.left_behind(), [] as [String; 0]);
        }
        let words = ["--fs", "ext4", "--states", "32", "--length", "1"];
        all_kept(&rig.crash(&words), &words);
    }
}

/// Workloads that somebody wrote down: what this kernel has is distinguished from what older ones had, and all of them are kept on ext4.
#[test]
fn workloads_that_broke_file_systems_are_told_by_what_they_break_here() {
    let Some(rig) = Rig::new() else { return };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/crash/known");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let has_them = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().starts_with("6.18.");
    assert!(paths.len() >= 20, "{paths:?}");
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let path = path.to_str().unwrap();
        for file_system in ["ext4", "btrfs"] {
            let words = ["--fs", file_system, "--states", "20", "--check-every", "2", "--script", path];
            let (code, report) = rig.crash(&words);
            let tried = count(&report, "tried");
            println!("{name} on {file_system}: {} of {tried} kept, {}", report["ok"], report["findings"]);
            let known: Vec<&str> = report["findings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|finding| finding[0].as_str().unwrap())
                .collect();
            // What is known of this kernel comes up; what nobody knows would be news.
            assert_eq!(
                count(&report, "broken"),
                count(&report, "known"),
                "{name} on {file_system}: {report}"
            );
            if file_system == "btrfs" && KNOWN.contains(&name) && has_them {
                assert!(code == 5 && known.contains(&finding(name)), "{name}: {report}");
            } else if file_system != "btrfs" {
                assert_eq!((code, known.len()), (0, 0), "{name} on {file_system}: {report}");
            }
        }
    }
}

/// Findings on Linux 6.18; a later one may have them fixed.
const KNOWN: [&str; 8] = [
    "btrfs-removed-file-returns",
    "btrfs-renamed-directory-has-old-name",
    "btrfs-renamed-file-has-both-names",
    "btrfs-replaced-empty-file-returns",
    "btrfs-replaced-file-returns",
    "btrfs-replaced-name-is-gone",
    "btrfs-replaced-name-of-linked-file-is-gone",
    "btrfs-replaced-name-of-synced-file-is-gone",
];

/// The finding that a workload of this name shows.
fn finding(name: &str) -> &str {
    match name {
        "btrfs-removed-file-returns" | "btrfs-replaced-empty-file-returns" => "btrfs-replaced-file-returns",
        "btrfs-replaced-name-of-linked-file-is-gone" | "btrfs-replaced-name-of-synced-file-is-gone" => {
            "btrfs-replaced-name-is-gone"
        }
        name => name,
    }
}

#[test]
fn a_script_that_cannot_be_done_is_refused_with_its_reason() {
    let Some(rig) = Rig::new() else { return };
    let write = |text: &str| std::fs::write(rig.scratch.path().join("script"), text).unwrap();
    let refused = |why: &str| {
        let output = rig.fsage(&["crash", "--script", "script"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
        rig.nothing_left();
    };
    refused("No such file");
    write("create a\nremove a\n");
    refused("line 2: `remove` is not an operation");
    write("create a\n---\nrename b a\n");
    refused("`rename b a` cannot be done: b is not there");
}
