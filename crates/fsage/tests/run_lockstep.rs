//! Volumes driven in lock-step, on virtual disks and on loop files.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsage::store::Store;
use fsage::store::format::{Look, StageRecord, TrialRecord, TrialStatus};
use fsage_engine::lockstep::Round;
use fsage_engine::quantity::share;
use support::{Scratch, agent, can_mount, can_serve_disks};

const STUDY: &str = include_str!("data/lockstep.toml");

struct Lab {
    scratch: Scratch,
}

impl Lab {
    fn new() -> Self {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("lockstep.toml"), STUDY).unwrap();
        Self { scratch }
    }

    fn store(&self) -> PathBuf {
        self.scratch.path().join("store")
    }

    fn command(&self, set: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.arg("run").arg(self.scratch.path().join("lockstep.toml")).arg("--store").arg(self.store());
        for set in set {
            command.arg("--set").arg(set);
        }
        command.env("FSAGE_AGENT", agent());
        command
    }

    fn run(&self, set: &[&str]) -> (Option<i32>, String) {
        let output = self.command(set).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn trials(&self) -> Vec<TrialRecord> {
        Store::open(&self.store()).unwrap().trials()
    }

    fn nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
        for folder in ["volumes", "mounts"] {
            assert!(!self.store().join(folder).exists(), "{folder} is still there");
        }
    }
}

fn samples<'a>(trial: &'a TrialRecord, name: &str) -> &'a [f64] {
    &trial.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).samples
}

fn stage(trial: &TrialRecord) -> (&[String], &[Round], &[Look]) {
    match &trial.stages[0] {
        StageRecord::Lockstep { volumes, rounds, looks, .. } => (volumes, rounds, looks),
        other => panic!("{}", other.name()),
    }
}

#[test]
fn a_full_and_an_empty_volume_go_through_the_same_states() {
    if !can_mount() || !can_serve_disks() {
        return;
    }
    let lab = Lab::new();
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 3);
    for trial in &trials {
        let which = &trial.factors["file_system.kind"];
        assert_eq!((trial.status, trial.check.as_str()), (TrialStatus::Complete, "clean"), "{which}");
        let (volumes, rounds, looks) = stage(trial);
        assert_eq!(volumes, ["full", "empty", "unaged"]);
        assert_eq!(rounds.iter().map(|round| round.round).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(looks.iter().map(|look| look.round).collect::<Vec<_>>(), [0, 2, 4]);
        for round in rounds {
            let [full, empty] = &round.volumes[..] else { panic!("{} volumes", round.volumes.len()) };
            assert_eq!(full.write.bytes_written, empty.write.bytes_written, "{which}");
            assert_eq!(full.write.operations - full.write.failed, empty.write.operations, "{which}");
            assert!(full.write.elapsed_ns > 0 && empty.write.elapsed_ns > 0 && full.model_time, "{which}");
            let used = share(full.used_bytes, full.total_bytes);
            assert!((0.585..0.615).contains(&used), "{which}: round {} left {used}", round.round);
        }
        for look in looks {
            // The same files on every volume: what grep read.
            let bytes: Vec<u64> =
                look.volumes.iter().map(|volume| volume.layout.file_histogram.total_bytes()).collect();
            assert!(bytes[0] > 0 && bytes.iter().all(|other| *other == bytes[0]), "{which}: {bytes:?}");
            assert!(look.volumes.iter().all(|volume| volume.measures[0].name == "grep"), "{which}");
        }
        for name in [
            "full_over_empty.grep",
            "empty_over_unaged.grep",
            "full_over_unaged.grep",
            "use_over_fullness.grep",
        ] {
            assert_eq!(samples(trial, name).len(), 2, "{which}: {name}");
        }
        assert_eq!(samples(trial, "full_over_empty.write").len(), 2);
        assert!(
            samples(trial, "full_over_unaged.grep")[1] > 1.0,
            "{which}: use costs nothing on a hard disk?"
        );
    }
    let page = lab.scratch.path().join("report.html");
    let mut report = Command::new(env!("CARGO_BIN_EXE_fsage"));
    assert!(report.arg("report").arg(lab.store()).arg("-o").arg(&page).status().unwrap().success());
    let page = std::fs::read_to_string(page).unwrap();
    for words in [
        "lockstep-read-chart",
        "lockstep-write-chart",
        "lockstep-free-chart",
        "full ÷ empty",
        "as long again when full",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn loop_files_are_timed_by_the_wall_and_a_kill_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let set = ["volume={ kind = \"loop\", size = \"320MiB\" }", "matrix.\"file_system.kind\"=[\"ext4\"]"];
    let mut victim = lab.command(&set).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    // Killed when both volumes are mounted, which is when the log says what runs on them.
    let started = Instant::now();
    let mounted = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let own = lab.store().display().to_string();
        mounts.lines().filter(|line| line.contains(&own)).count() >= 2
    };
    while !mounted() {
        assert!(started.elapsed() < Duration::from_secs(60), "two volumes were never mounted");
        std::thread::yield_now();
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    let (code, stderr) = lab.run(&set);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    let (_, rounds, _) = stage(&trials[0]);
    assert!(rounds.iter().flat_map(|round| &round.volumes).all(|volume| !volume.model_time));
    assert!(samples(&trials[0], "full.write").iter().all(|cost| *cost > 0.0));
}

#[test]
fn followers_that_cannot_follow_are_refused_before_anything_is_begun() {
    let lab = Lab::new();
    for (set, words) in [
        ("stage.lockstep.followers.empty.size=\"64MiB\"", "smaller than the volume that is followed"),
        ("stage.lockstep.leader=\"empty\"", "two volumes are called `empty`"),
        ("stage.lockstep.every=0", "every"),
        ("stage.lockstep.measures=[{ kind = \"delete\" }]", "changes what it measures"),
        ("stage.lockstep.rounds=9", "9 rounds are more than the workload's 4"),
        ("volume={ kind = \"device\", path = \"/dev/disk/by-id/x\" }", "a device cannot be two volumes"),
        ("stage.lockstep.workload.target=1.5", "target"),
    ] {
        let (code, stderr) = lab.run(&[set]);
        assert_eq!(code, Some(2), "{set}: {stderr}");
        assert!(stderr.contains(words), "{set}: {stderr}");
    }
    assert!(!lab.store().exists());
}
