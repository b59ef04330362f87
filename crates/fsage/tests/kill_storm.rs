//! `kill -9` of lab, agent, disk server, several of them, or the cleaning itself at random moments: after `fsage clean` nothing is
//! left on the host, no complete trial is lost, and running on ends with the digests of a run in peace.
//!
//! `FSAGE_KILLS` sets how many kills (6), `FSAGE_SEED` where they fall (printed).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsage::store::format::{StageRecord, TrialRecord, TrialStatus};
use support::Scratch;

const STUDY: &str = r#"
name = "kill-storm"
title = "A small run to be killed"
question = "Is anything left behind?"
seed = 7

[volume]
VOLUME
scheduler = "SCHEDULER"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
threads = 2
stop.operations = 4000
probe_every = 1000
probe_layout = true

[stage.workload]
kind = "drift"
slots = 200
file_size = { kind = "uniform", min = "4KiB", max = "64KiB" }
io_size = { kind = "fixed", size = "8KiB" }
choice = { kind = "uniform" }
directories = { count = 10, fan_out = 4, depth = 2 }
fsync_probability = 0.05

[stage.workload.weights]
create = 4
append = 2
random_write = 2
truncate = 1
read = 1
delete = 3

[matrix]
"file_system.kind" = ["ext4", "xfs", "btrfs"]
"#;

/// A file under a loop device.
const ON_LOOP: &str = "kind = \"loop\"\nsize = \"320MiB\"\ndirect_io = false";
/// A virtual disk.
const ON_DISK: &str = "kind = \"disk\"\nsize = \"320MiB\"\nmedium = \"hdd-7200\"\nlog = true";

/// SplitMix64 (Steele, Lea & Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

struct Storm {
    scratch: Scratch,
    study: PathBuf,
    schedulers: BTreeMap<String, String>,
}

impl Storm {
    fn new(volume: &str) -> Self {
        let scratch = Scratch::new();
        let study = scratch.path().join("kill-storm.toml");
        let text = STUDY.replace("VOLUME", volume).replace("SCHEDULER", other_scheduler());
        std::fs::write(&study, text).unwrap();
        Self { scratch, study, schedulers: free_schedulers() }
    }

    fn store(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn fsage(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command
            .current_dir(self.scratch.path())
            .env("FSAGE_AGENT", support::agent())
            .env("FSAGE_RUNTIME_DIR", self.scratch.path().join("runtime"))
            .stdin(Stdio::null());
        // It must not outlive a test that fails.
        fsage_sys::process::die_with_parent(&mut command);
        command
    }

    fn run(&self, store: &Path) -> Command {
        let mut command = self.fsage();
        command.arg("run").arg(&self.study).arg("--store").arg(store).arg("--json");
        command
    }

    fn run_in_peace(&self, store: &Path) -> BTreeMap<String, String> {
        let output = self.run(store).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}\n{said}", output.status);
        let digests = complete(store);
        assert_eq!(digests.len(), 3, "{said}");
        digests
    }

    /// Cleans; half of the time it is killed in between, and done again.
    fn clean(&self, dice: &mut Dice) {
        if dice.below(2) == 0 {
            let mut cleaner =
                self.fsage().arg("clean").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(dice.below(60)));
            cleaner.kill().unwrap();
            cleaner.wait().unwrap();
        }
        let output = self.fsage().args(["clean", "--json"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "fsage clean: {}\n{said}\n{complaint}", output.status);
    }

    fn assert_nothing_left(&self, context: &str) {
        let mut left = self.scratch.left_behind();
        let mark = self.scratch.path().join("runtime").display().to_string();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&mark) {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                left.push(format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        for (device, now) in free_schedulers() {
            let before = self.schedulers.get(&device).map_or("none", String::as_str);
            if now != before {
                left.push(format!("scheduler of {device}: {now}, was {before}"));
            }
        }
        for file in files_below(self.scratch.path()) {
            if file.metadata().is_ok_and(|metadata| metadata.len() >= 320 << 20) {
                left.push(format!("volume {}", file.display()));
            }
        }
        left.extend(files_below(&self.disks()).iter().map(|file| format!("of a disk: {}", file.display())));
        assert!(left.is_empty(), "{context}: left behind: {left:#?}");
    }

    /// Folder of the disks of trials.
    fn disks(&self) -> PathBuf {
        self.scratch.path().join("runtime/volumes")
    }

    /// The server of a disk, if there is one now.
    fn server(&self) -> Option<u32> {
        let records = files_below(&self.disks()).into_iter().filter(|file| file.ends_with("pid"));
        let mut texts = records.filter_map(|file| std::fs::read_to_string(file).ok());
        let record: serde_json::Value = serde_json::from_str(&texts.next()?).ok()?;
        record["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
    }
}

/// A scheduler that loop devices can have and that is not their usual one.
fn other_scheduler() -> &'static str {
    let usual = std::fs::read_to_string("/sys/block/loop0/queue/scheduler").unwrap_or_default();
    if usual.contains(" mq-deadline") || usual.starts_with("mq-deadline") { "mq-deadline" } else { "none" }
}

/// Loop device → scheduler, of those that are not attached: nobody's run needs a setting there.
fn free_schedulers() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("loop"))
        .filter(|entry| !entry.path().join("loop/backing_file").exists())
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path().join("queue/scheduler")).ok()?;
            let chosen = text.split_once('[')?.1.split_once(']')?.0.to_owned();
            Some((entry.file_name().to_string_lossy().into_owned(), chosen))
        })
        .collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// Trial id → digests of its stages, of the complete trials of a store.
fn complete(store: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(store.join("trials")).into_iter().flatten().flatten() {
        let Ok(bytes) = std::fs::read(entry.path().join("trial.json")) else { continue };
        let trial: TrialRecord = serde_json::from_slice(&bytes).expect("a trial.json is whole or not there");
        if trial.status == TrialStatus::Complete {
            let digests =
                trial.stages.iter().filter_map(StageRecord::load).map(|result| result.digest.clone());
            found.insert(trial.id, digests.collect::<Vec<_>>().join(" "));
        }
    }
    found
}

/// The agent that a lab started, if it has one now.
fn agent_of(lab: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok()).find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((front, back)) = stat.rsplit_once(')') else { return false };
        let parent = back.split_ascii_whitespace().nth(1).and_then(|parent| parent.parse::<u32>().ok());
        front.ends_with("(fsage-agent") && parent == Some(lab)
    })
}

fn kill(pid: u32) {
    // It may be gone by now: the moment is random.
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Kills as the dice say and waits until the lab has ended.
fn strike(storm: &Storm, lab: &mut Child, dice: &mut Dice) -> &'static str {
    let agent = agent_of(lab.id());
    // Where there are servers, two of three strikes are at them.
    let (name, victims) = match (dice.below(4), agent, storm.server().filter(|_| dice.below(3) > 0)) {
        (0, Some(agent), Some(server)) => ("disk server and agent", vec![server, agent]),
        (1, _, Some(server)) => ("disk server, then lab", vec![server, lab.id()]),
        (_, _, Some(server)) => ("disk server", vec![server]),
        (0, Some(agent), None) => ("agent", vec![agent]),
        (1, Some(agent), None) => ("agent, then lab", vec![agent, lab.id()]),
        (2, Some(agent), None) => ("lab, then agent", vec![lab.id(), agent]),
        _ => ("lab", vec![lab.id()]),
    };
    for victim in victims {
        kill(victim);
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    while lab.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the lab does not end after {name} was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    name
}

/// The storm while it goes on.
struct Storming<'a> {
    storm: &'a Storm,
    expected: &'a BTreeMap<String, String>,
    /// Milliseconds that a whole run takes, as far as is known.
    length: u64,
    dice: Dice,
    /// Complete trials of the store that is run now.
    kept: BTreeMap<String, String>,
}

impl Storming<'_> {
    /// Runs, kills, cleans and looks. `false`: the run ended before the moment came, so nothing was killed.
    fn round(&mut self, number: u64, store: &Path) -> bool {
        let all = u64::try_from(self.expected.len()).unwrap();
        let left = all - u64::try_from(self.kept.len()).unwrap();
        let moment = self.dice.below(self.length * left / all + 50);
        let mut lab = self.storm.run(store).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        let mut ended = false;
        while started.elapsed() < Duration::from_millis(moment) && !ended {
            std::thread::sleep(Duration::from_millis(1));
            ended = lab.try_wait().unwrap().is_some();
        }
        let context = if ended {
            let took = u64::try_from(started.elapsed().as_millis()).unwrap();
            self.length = self.length.min(took * all / left);
            format!("not killed: the run ended after {took} ms")
        } else {
            let victims = strike(self.storm, &mut lab, &mut self.dice);
            format!("kill {number}: {victims} after {moment} ms")
        };
        lab.wait().unwrap();
        self.storm.clean(&mut self.dice);
        self.storm.assert_nothing_left(&context);
        let now = complete(store);
        println!("{context}: {} trials complete", now.len());
        assert!(
            self.kept.iter().all(|(id, digest)| now.get(id) == Some(digest)),
            "{context}: a trial was lost"
        );
        assert!(
            now.iter().all(|(id, digest)| self.expected.get(id) == Some(digest)),
            "{context}: digests differ"
        );
        self.kept = now;
        !ended
    }
}

#[test]
fn nothing_is_left_and_nothing_is_lost_whatever_is_killed() {
    if support::can_mount() {
        storm_on(ON_LOOP);
    }
}

#[test]
fn nothing_is_left_and_nothing_is_lost_on_virtual_disks() {
    if support::can_mount() && support::can_serve_disks() {
        storm_on(ON_DISK);
    }
}

/// One storm at a time: while a killed disk server's file still stands, mkfs.btrfs fails on any device of the host
/// (it asks the backing file of each loop device whether it is mounted).
static ONE_STORM: Mutex<()> = Mutex::new(());

fn storm_on(volume: &str) {
    let _turn = ONE_STORM.lock().unwrap_or_else(PoisonError::into_inner);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FSAGE_KILLS").unwrap_or(6);
    let seed = number("FSAGE_SEED").unwrap_or(20_261_121);
    println!("FSAGE_KILLS={kills} FSAGE_SEED={seed}");
    let storm = Storm::new(volume);
    let started = Instant::now();
    let expected = storm.run_in_peace(&storm.store("peace"));
    let length = u64::try_from(started.elapsed().as_millis()).unwrap();
    storm.assert_nothing_left("after a run in peace");
    let mut storming =
        Storming { storm: &storm, expected: &expected, length, dice: Dice(seed), kept: BTreeMap::new() };
    let (mut store, mut round, mut tries) = (storm.store("storm-0"), 0, 0);
    while round < kills {
        tries += 1;
        assert!(tries < 10 * kills, "too many runs end before they are killed");
        round += u64::from(storming.round(round + 1, &store));
        if storming.dice.below(5) == 0 {
            // What the kills left is run on in peace; then another store starts from nothing.
            storming.kept = storm.run_in_peace(&store);
            assert_eq!(storming.kept, expected);
        }
        if storming.kept.len() == expected.len() {
            store = storm.store(&format!("storm-{tries}"));
            storming.kept.clear();
        }
    }
    assert_eq!(storm.run_in_peace(&store), expected);
    storm.assert_nothing_left("after the last run");
}
