//! Running on this host: real agents, loop files and file systems, small enough to be quick.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsage_lab::store::Store;
use fsage_model::record::TrialStatus;
use serde_json::Value;
use support::{Scratch, agent};

const STUDY: &str = include_str!("data/tiny.toml");

struct Lab {
    scratch: Scratch,
}

impl Lab {
    /// `None`, and a word why, when this user cannot mount.
    fn new() -> Option<Self> {
        if !support::can_mount() {
            return None;
        }
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("tiny.toml"), STUDY).unwrap();
        Some(Self { scratch })
    }

    fn store(&self) -> PathBuf {
        self.scratch.path().join("store")
    }

    fn command(&self, set: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.arg("run").arg(self.scratch.path().join("tiny.toml")).arg("--json");
        command.arg("--store").arg(self.store()).env("FSAGE_AGENT", agent());
        for set in set {
            command.arg("--set").arg(set);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Exit code, summary, standard error.
    fn run(&self, set: &[&str]) -> (Option<i32>, Value, String) {
        let output = self.command(set).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), stderr)
    }

    fn nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
        assert!(!self.store().join("volumes").exists());
        assert!(!self.store().join("mounts").exists());
    }
}

#[test]
fn three_file_systems_leave_the_same_tree_and_nothing_else() {
    let Some(lab) = Lab::new() else { return };
    let (code, summary, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(summary["complete"], 3);
    assert_eq!(summary["digest_groups"][0]["agree"], true);
    assert_eq!(summary["digest_groups"][0]["digests"].as_object().unwrap().len(), 3);
    lab.nothing_left();
    for trial in Store::open(&lab.store()).unwrap().trials() {
        assert_eq!((trial.status, trial.check.as_str()), (TrialStatus::Complete, "clean"));
        let (result, probes) = (trial.stages[0].load().unwrap(), trial.stages[0].probes());
        assert_eq!(result.operations, 1500);
        assert!(probes.len() >= 3 && probes.iter().all(|p| p.free_space.is_some()));
        let folder = lab.store().join("trials").join(&trial.id);
        let hlog = std::fs::read_to_string(folder.join("latency.hlog")).unwrap();
        assert!(hlog.contains("\nTag=create,"), "{hlog}");
        assert!(std::fs::metadata(folder.join("trace.parquet")).unwrap().len() > 1000);
    }
    let (code, summary, _) = lab.run(&[]);
    assert_eq!((code, &summary["kept"]), (Some(0), &Value::from(3)));
}

/// Runs until the store has a trial whose load is under way, then calls `act` with the pid of the lab.
fn interrupted(lab: &Lab, act: impl FnOnce(u32)) -> Option<i32> {
    let set = ["stage.age.stop={ seconds = 60 }", "matrix.file_system.kind=[\"ext4\"]"];
    let mut child = lab.command(&set).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let begun = || {
        std::fs::read_dir(lab.store().join("mounts"))
            .is_ok_and(|mut points| points.any(|p| p.is_ok_and(|p| p.path().join("age/t00").exists())))
    };
    while !begun() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the load never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    act(child.id());
    child.wait().unwrap().code()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_and_sigterm_release_everything() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let Some(lab) = Lab::new() else { return };
        assert_eq!(interrupted(&lab, |pid| signal(pid, name)), Some(code));
        lab.nothing_left();
        assert!(Store::open(&lab.store()).unwrap().trials().is_empty(), "the trial is not recorded");
    }
}

#[test]
fn a_killed_agent_fails_its_trial_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let code = interrupted(&lab, |pid| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut agents: Vec<u32> = tasks
            .filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("children")).ok())
            .chain([children])
            .flat_map(|c| c.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<u32>>())
            .collect();
        agents.dedup();
        assert!(!agents.is_empty(), "the lab has an agent");
        signal(agents[0], "KILL");
    });
    assert_eq!(code, Some(4));
    lab.nothing_left();
    let trials = Store::open(&lab.store()).unwrap().trials();
    let error = &trials[0].error;
    assert!(error.contains("the agent was lost during load (signal: 9"), "{error}");
    assert!(error.contains("last seen: "), "{error}");
}

#[test]
fn a_killed_lab_leaves_what_the_next_run_cleans() {
    let Some(lab) = Lab::new() else { return };
    assert_eq!(interrupted(&lab, |pid| signal(pid, "KILL")), None);
    // Another study into the same store is refused, so the same one: but short.
    std::fs::remove_file(lab.store().join("plan.json")).unwrap();
    let (code, summary, stderr) = lab.run(&["matrix.file_system.kind=[\"ext4\"]"]);
    assert_eq!((code, &summary["complete"]), (Some(0), &Value::from(1)), "{stderr}");
    assert!(stderr.contains("leases of an earlier run"), "{stderr}");
    lab.nothing_left();
}

#[test]
fn a_store_without_space_says_so_and_keeps_what_is_complete() {
    let Some(lab) = Lab::new() else { return };
    let disk = lab.scratch.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1200k", "tmpfs"]).arg(&disk).status();
    assert!(mounted.unwrap().success());
    let volumes = format!("volume.directory=\"{}\"", lab.scratch.path().join("volumes").display());
    let set = [volumes.as_str(), "matrix.file_system.kind=[\"ext4\"]", "stage.age.stop.operations=200"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    command.arg("run").arg(lab.scratch.path().join("tiny.toml")).env("FSAGE_AGENT", agent());
    command.arg("--store").arg(disk.join("store"));
    for set in set {
        command.arg("--set").arg(set);
    }
    let first = command.output().unwrap();
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    // Fill what is left, then ask for one more repeat.
    let _ = std::fs::write(disk.join("filler"), vec![1; 2 << 20]);
    let second = command.args(["--set", "repeats=2"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("no space left"), "{stderr}");
    assert_eq!(Store::open(&disk.join("store")).unwrap().trials().len(), 1);
    std::fs::remove_file(disk.join("filler")).unwrap();
    let third = command.output().unwrap();
    assert_eq!(third.status.code(), Some(0), "{}", String::from_utf8_lossy(&third.stderr));
    assert_eq!(Store::open(&disk.join("store")).unwrap().trials().len(), 2);
}
