//! `fsage power-cycle`: a board of shell scripts with its state in files, and a virtual disk as a board.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::Scratch;

/// A board whose `data` is its file system: lines that the load wrote. `hook` may do something else: it knows the
/// command and how often the power was cut, the first cut of a run included.
const BOARD: &str = r#"#!/bin/sh
cuts=$(cat cuts 2>/dev/null || echo 0)
echo "$1" >> log
. ./hook
case $1 in
power_off) echo $((cuts + 1)) > cuts; touch off ;;
power_on) rm -f off; cat cuts > boot ;;
boot_id) [ ! -e off ] && echo "boot $(cat boot)" ;;
prepare) : > data ;;
mount) : > mounted ;;
unmount) rm mounted ;;
verify) while read -r line; do grep -qx "$line" data || { echo "$line is gone"; exit 1; }; done ;;
load) n=$(wc -l < data); while :; do n=$((n + 1)); echo "$n" >> data; echo "ack $n"; sleep 0.02; done ;;
esac
"#;

const FILE: &str = r#"
name = "scripted"
cut_after_s = [0.1, 0.2]
off_for_s = 0
cycles = 3
[command]
power_off = ["./board.sh", "power_off"]
power_on = ["./board.sh", "power_on"]
boot_id = ["./board.sh", "boot_id"]
prepare = ["./board.sh", "prepare", "{options}"]
check = ["./board.sh", "check"]
mount = ["./board.sh", "mount"]
verify = ["./board.sh", "verify"]
unmount = ["./board.sh", "unmount"]
load = ["./board.sh", "load"]
[timeout]
check_s = 20
boot_s = 3
[configuration.default]
options = "defaults"
"#;

struct Rig {
    scratch: Scratch,
}

impl Rig {
    fn new(hook: &str) -> Self {
        let rig = Self { scratch: Scratch::new() };
        rig.write("board.toml", FILE);
        rig.write("hook", hook);
        rig.write("board.sh", BOARD);
        std::fs::set_permissions(rig.path("board.sh"), PermissionsExt::from_mode(0o755)).unwrap();
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn change(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("board.toml")).unwrap();
        assert!(text.contains(from), "{from}");
        self.write("board.toml", &text.replacen(from, to, 1));
    }

    fn command(&self, words: &[&str]) -> Command {
        // Tests that run under nohup(1) would hand on that they ignore a hangup.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,HUP,QUIT", env!("CARGO_BIN_EXE_fsage")]);
        command.args(["power-cycle", "board.toml"]).args(words).current_dir(self.scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        fsage_sys::process::die_with_parent(&mut command);
        command
    }

    fn run(&self, words: &[&str]) -> (i32, String) {
        let output = self.command(words).output().unwrap();
        (output.status.code().unwrap(), text(&output))
    }

    fn json(&self, words: &[&str]) -> (i32, Value) {
        let output = self.command(&[words, &["--json"]].concat()).output().unwrap();
        let value = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), value.unwrap_or_else(|error| panic!("{error}: {}", text(&output))))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Cycles in the record.
    fn recorded(&self) -> usize {
        let text = std::fs::read_to_string(self.path("store/scripted/record.jsonl")).unwrap_or_default();
        text.lines().count().saturating_sub(1)
    }

    fn wait_for(&self, child: &mut Child, is_there: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_there() {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            assert!(started.elapsed() < Duration::from_secs(60), "{}", self.log());
            std::thread::yield_now();
        }
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What every run of the same file has in common.
fn essence(result: &Value) -> Vec<(u64, u64, u64, String)> {
    let number = |cycle: &Value, key: &str| cycle[key].as_u64().unwrap();
    let cycles = result["cycles"].as_array().unwrap().iter();
    cycles
        .map(|cycle| {
            let outcome = cycle["outcome"].to_string();
            (number(cycle, "life"), number(cycle, "cycle"), number(cycle, "cut_after_ns"), outcome)
        })
        .collect()
}

#[test]
fn what_survives_is_counted_and_timed() {
    let rig = Rig::new("");
    rig.change("[configuration.default]", "[configuration.other]\noptions = \"x\"\n[configuration.default]");
    let (code, said) = rig.run(&[]);
    assert_eq!(code, 0, "{said}");
    for line in [
        "scripted: 6 power cuts, complete",
        "default: 3 of 3 decided power cuts survived",
        "other: 3 of 3 decided power cuts survived",
        "damage in none of 3: in at most 70.760 % of cuts (95 %)",
        "file system 1 survived 3 power cuts, then: no damage so far",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let (code, result) = rig.json(&["--report"]);
    assert_eq!((code, &result["complete"]), (0, &true.into()));
    let own = &result["configurations"][0];
    assert_eq!((&own["survived"], &own["undecided"], &own["idle"]), (&3.into(), &0.into(), &0.into()));
    let steps: Vec<&str> =
        own["times"].as_array().unwrap().iter().map(|times| times["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["check", "mount", "verify", "unmount", "boot"]);
    assert!(own["acknowledged"].as_u64().unwrap() >= 3, "{own}");
    // What is recorded is not done again, and more can be had.
    let log = rig.log();
    assert_eq!(rig.run(&[]).0, 0);
    assert_eq!(rig.log(), log);
    let (code, result) = rig.json(&["--cycles", "4"]);
    assert_eq!((code, result["cycles"].as_array().unwrap().len()), (0, 8));
}

#[test]
fn damage_is_found_at_its_cycle_by_what_finds_it() {
    let bad = |key: &str, cuts: u64, status: u64| {
        format!("[ $1 = {key} ] && [ $cuts = {cuts} ] && {{ echo \"bad \x1b[2J\"; exit {status}; }}\n")
    };
    for (key, status) in [("check", 4), ("verify", 7)] {
        // The first cut of a run is no cycle: cut 3 is cycle 2.
        let rig = Rig::new(&bad(key, 3, status));
        let (code, said) = rig.run(&[]);
        assert!(code == 5 && said.contains(&format!("damage found by: {key} 1")), "{code} {said}");
        let line = format!("survived 1 power cut, then: damage found by {key}: bad \\x1b[2J");
        assert!(said.contains(&line), "{said}");
        let (code, result) = rig.json(&["--report"]);
        assert_eq!((code, result["cycles"][1]["outcome"]["status"].as_u64()), (5, Some(status)));
        assert_eq!(result["configurations"][0]["mean_cuts_to_damage"], 2.0);
        // `stop`: the configuration is over, and nothing touches the evidence.
        let log = rig.log();
        assert_eq!((rig.run(&[]).0, rig.log()), (5, log));
    }
    let rig = Rig::new("[ $1 = power_off ] && [ $cuts = 2 ] && echo 1 > data\n");
    let (code, said) = rig.run(&[]);
    assert!(code == 5 && said.contains("then: damage found by verify: 2 is gone"), "{code} {said}");
    // Once: with `prepare` the next life begins well.
    let rig = Rig::new("[ $1 = mount ] && [ $cuts = 2 ] && [ ! -e once ] && { touch once; exit 32; }\n");
    rig.change("cycles = 3", "cycles = 3\nafter_damage = \"prepare\"");
    let (code, result) = rig.json(&[]);
    let places: Vec<_> = essence(&result).into_iter().map(|(life, cycle, ..)| (life, cycle)).collect();
    assert_eq!((code, places), (5, vec![(1, 1), (2, 1), (2, 2)]), "{result}");
    assert_eq!(result["cycles"][0]["outcome"]["reason"], "exit status 32");
}

#[test]
fn a_repair_is_survival_and_is_said() {
    let rig = Rig::new("[ $1 = check ] && [ $cuts -ge 2 ] && exit 1\n");
    let (code, said) = rig.run(&[]);
    assert!(
        code == 0 && said.contains("3 of 3 decided power cuts survived, 3 of them after a repair"),
        "{said}"
    );
}

#[test]
fn a_command_that_does_not_cut_is_said_and_nothing_is_counted() {
    let rig = Rig::new("");
    rig.change("cycles = 3", "cycles = 1");
    assert_eq!(rig.run(&[]).0, 0);
    // The relay sticks: nothing is off, and the board goes on.
    rig.write("hook", "case $1 in power_*) exit 0;; esac\n");
    let before = rig.log();
    let (code, said) = rig.run(&["--cycles", "2"]);
    assert!(
        code == 4 && said.contains("`power_off` did not cut the power: `boot_id` printed `boot 2`"),
        "{said}"
    );
    let did = rig.log()[before.len()..].to_owned();
    assert_eq!(did.split_whitespace().collect::<Vec<_>>(), ["boot_id", "power_off", "power_on", "boot_id"]);
    // In the middle of a run, too.
    rig.write("hook", "[ $cuts = 3 ] && [ -e mounted ] && case $1 in power_*) exit 0;; esac\n");
    let (code, said) = rig.run(&["--cycles", "2"]);
    assert!(code == 4 && said.contains("did not cut the power") && rig.recorded() == 1, "{code} {said}");
}

#[test]
fn a_check_that_hangs_is_undecided() {
    let rig = Rig::new("[ $1 = check ] && [ $cuts = 2 ] && exec sleep 1000\n");
    rig.change("check_s = 20", "check_s = 1");
    let (code, said) = rig.run(&[]);
    assert!(code == 4 && said.contains("1 undecided"), "{code} {said}");
    assert!(said.contains("undecided at check: it did not end within 1 s"), "{said}");
    // It is inspected again, and goes on.
    assert!(said.contains("scripted: 3 power cuts, complete"), "{said}");
    assert!(said.contains("file system 1 survived 2 power cuts, then: no damage so far"), "{said}");
    // No connection says nothing of the file system either.
    let rig = Rig::new("[ $1 = verify ] && [ $cuts = 2 ] && exit 255\n");
    let (code, said) = rig.run(&[]);
    assert!(code == 4 && said.contains("undecided at verify: status 255"), "{code} {said}");
    // One that stays undecided gets a new file system; one that ends so is not complete.
    let rig = Rig::new("[ $1 = check ] && [ $cuts = 2 -o $cuts = 3 ] && exit 127\n");
    let (code, result) = rig.json(&[]);
    let places: Vec<_> = essence(&result).into_iter().map(|(life, cycle, ..)| (life, cycle)).collect();
    assert_eq!((code, places), (4, vec![(1, 1), (1, 2), (2, 1), (2, 2)]), "{result}");
    assert_eq!((&result["complete"], &result["cycles"][1]["resumed"]), (&true.into(), &true.into()));
    let rig = Rig::new("[ $1 = check ] && [ $cuts = 4 ] && exit 127\n");
    let (code, said) = rig.run(&[]);
    assert!(code == 4 && said.contains("scripted: 3 power cuts, not complete"), "{code} {said}");
}

#[test]
fn a_load_that_ends_before_the_cut_is_said_or_an_error() {
    let rig = Rig::new("[ $1 = load ] && { echo 1 >> data; echo ack 1; exit 0; }\n");
    let (code, said) = rig.run(&[]);
    assert!(code == 0 && said.contains("3 not counted: cut when the load had ended"), "{code} {said}");
    assert!(said.contains("default: 0 of 0 decided power cuts survived"), "{said}");
    let rig = Rig::new("[ $1 = load ] && { echo full >&2; exit 3; }\n");
    let (code, said) = rig.run(&[]);
    assert!(code == 4 && said.contains("`load` failed with status 3: full"), "{code} {said}");
    let rig = Rig::new("[ $1 = load ] && { printf 'ack \\377\\n'; exec sleep 1000; }\n");
    let (code, said) = rig.run(&[]);
    assert!(code == 4 && said.contains("acknowledged a line that is not UTF-8"), "{code} {said}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_before_anything_is_cut() {
    let rig = Rig::new("");
    let refused = |wanted: i32, part: &str| {
        let (code, said) = rig.run(&[]);
        assert!(code == wanted && said.contains(part), "{code}, {part}: {said}");
    };
    let (code, said) = rig.run(&["--report"]);
    assert!(code == 2 && said.contains("there is no record"), "{said}");
    rig.change("cut_after_s", "cut_afer_s");
    refused(2, "did you mean `cut_after_s`?");
    rig.change("cut_afer_s", "cut_after_s");
    rig.change("./board.sh\", \"check", "./bord.sh\", \"check");
    refused(3, "bord.sh` for `check`");
    rig.change("./bord.sh", "./board.sh");
    assert_eq!((rig.log(), rig.run(&[]).0), (String::new(), 0));
    rig.change("off_for_s = 0", "off_for_s = 0.1");
    refused(2, "the record of another version of the file");
    rig.change("off_for_s = 0.1", "off_for_s = 0");
    rig.change("boot_s = 3", "boot_s = 4");
    assert_eq!(rig.run(&[]).0, 0);
}

#[test]
fn root_runs_no_commands_of_another_users_file() {
    let rig = Rig::new("");
    if !rustix::process::geteuid().is_root() {
        return support::skip("needs root");
    }
    std::os::unix::fs::chown(rig.path("board.toml"), Some(65534), None).unwrap();
    let (code, said) = rig.run(&[]);
    assert!(code == 2 && said.contains("cannot read board.toml") && rig.log().is_empty(), "{code} {said}");
    assert_eq!(rig.run(&["--allow-foreign-owner", "--cycles", "1"]).0, 0);
}

#[test]
fn a_killed_run_resumes_to_the_record_of_an_undisturbed_one() {
    let rig = Rig::new("");
    rig.change("cycles = 3", "cycles = 6");
    let mut before = 0;
    // What the board was doing, after the load had begun but for `prepare`, when the run was killed.
    for key in ["prepare", "load", "power_off", "power_on", "boot_id", "check", "mount", "verify", "unmount"]
    {
        let mut child = rig.command(&[]).spawn().unwrap();
        let meets = || {
            let log = rig.log();
            let from = if key == "prepare" {
                Some(before)
            } else {
                log[before..].find("load").map(|at| before + at)
            };
            from.is_some_and(|from| log[from..].contains(key))
        };
        rig.wait_for(&mut child, meets);
        if key == "load" {
            // Another run at the same time is refused.
            let (code, said) = rig.run(&[]);
            assert!(code == 3 && said.contains("is locked by pid"), "{code} {said}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        before = rig.log().len();
    }
    assert!(rig.recorded() < 6, "every kill came too late");
    let (code, resumed) = rig.json(&[]);
    assert_eq!(code, 0);
    let undisturbed = Rig::new("");
    undisturbed.change("cycles = 3", "cycles = 6");
    let (_, whole) = undisturbed.json(&[]);
    assert_eq!(essence(&resumed), essence(&whole));
    assert_eq!(essence(&whole).len(), 6);
}

#[test]
fn an_interrupted_run_leaves_the_board_on() {
    // Whether it is off or the load runs when Ctrl-C comes.
    use rustix::process::Signal;
    let off = "[ $1 = power_off ] && [ $cuts = 2 ] && { touch off; sleep 0.5; }\n";
    for (hook, at, signal) in
        [(off, "off", Signal::INT), (off, "off", Signal::HUP), ("", "mounted", Signal::QUIT)]
    {
        let rig = Rig::new(hook);
        rig.change("cycles = 3", "cycles = 1000");
        let mut child = rig.command(&[]).spawn().unwrap();
        rig.wait_for(&mut child, || rig.recorded() >= 1 && rig.path(at).exists());
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert!(output.status.code() == Some(4) && said.contains("not complete"), "{said}");
        assert!(!rig.path("off").exists(), "{}", rig.log());
    }
}

/// The example with a virtual disk, in a folder of its own.
struct Disk {
    rig: Rig,
}

impl Disk {
    fn new() -> Option<Self> {
        if !(support::can_mount() && support::can_serve_disks()) {
            return None;
        }
        let rig = Rig::new("");
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/power-cycle");
        for entry in std::fs::read_dir(examples).unwrap().flatten() {
            // With its mode.
            std::fs::copy(entry.path(), rig.path(&entry.file_name().to_string_lossy())).unwrap();
        }
        let disk = Self { rig };
        let device = disk.fsage(&["disk", "up", "board", "--size", "64MiB", "--medium", "ram"]);
        assert!(device.status.success(), "{}", text(&device));
        std::fs::write(disk.rig.path("device"), device.stdout).unwrap();
        Some(disk)
    }

    fn fsage(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.args(words).current_dir(self.rig.scratch.path()).stdin(Stdio::null());
        command.env("FSAGE_AGENT", support::agent()).env("FSAGE_RUNTIME_DIR", self.rig.path("runtime"));
        command.env("FSAGE", env!("CARGO_BIN_EXE_fsage"));
        command.output().unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fsage_sys::mount::unmount(&self.rig.path("mnt"));
        let _ = self.fsage(&["disk", "down", "board"]);
    }
}

/// A real file system: what was synced before it was acknowledged survives every cut, and what was not is missed.
#[test]
fn a_virtual_disk_as_a_board_keeps_what_was_synced_and_loses_what_was_not() {
    let Some(disk) = Disk::new() else { return };
    let output = disk.fsage(&["power-cycle", "disk.toml", "--json"]);
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(output.status.code(), Some(5), "{result}");
    let [synced, unsynced] = &result["configurations"].as_array().unwrap()[..] else { panic!("{result}") };
    assert_eq!((&synced["survived"], &synced["cycles"]), (&4.into(), &4.into()), "{result}");
    assert!(synced["acknowledged"].as_u64().unwrap() > 10, "{synced}");
    assert_eq!(unsynced["damage"]["verify"], 1, "{result}");
    let reason = unsynced["lives"][0]["end"]["reason"].as_str().unwrap();
    assert!(reason.contains("was acknowledged and does not have its contents"), "{reason}");
    let down = disk.fsage(&["disk", "down", "board"]);
    assert!(down.status.success(), "{}", text(&down));
    assert_eq!(disk.rig.scratch.left_behind(), [] as [String; 0]);
}
