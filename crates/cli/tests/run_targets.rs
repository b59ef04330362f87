//! The contract of targets: one study runs unchanged on this host, on another one, in a guest and on a cluster, and whatever
//! is killed, nothing is left and it resumes to the same trees.
//!
//! `FSAGE_KILLS` sets how many kills in all (9), `FSAGE_SEED` where they fall (printed); `make test-full` makes 100.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod dice;
mod guest_rig;
mod lab;
mod slurm_rig;
mod ssh_rig;
mod support;
#[path = "storm/victim.rs"]
mod victim;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dice::{Dice, number};
use fsage_lab::store::Store;
use fsage_model::record::{StageRecord, TrialStatus};
use lab::Lab;
use slurm_rig::{Cluster, NODES};
use ssh_rig::Server;

/// In model time: an emulated guest has no times of its own.
const STUDY: &str = r#"
name = "everywhere"
title = "The same everywhere"
question = "Is the tree the same wherever the study runs?"
seed = 7
[volume]
medium = "ssd"
size = "320MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 1_500
verify = true
trace = true
workload = { kind = "drift", slots = 300, file_size = { kind = "uniform", min = "1KiB", max = "64KiB" } }
[matrix]
"file_system.kind" = ["ext4", "xfs", "btrfs"]
"#;

/// A file system that cannot be made.
const BROKEN: &str = r#"
[driver.broken]
mkfs = ["false", "{device}"]
mount_type = "ext4"
"#;

const EXT4: &str = r#"matrix.file_system.kind=["ext4"]"#;
/// Long enough to be killed in the middle.
const LONG: &str = "stage.age.stop.operations=15_000";

/// Where a study runs.
enum Place {
    Here(PathBuf),
    Ssh(Server),
    Guest(&'static Path, PathBuf),
    Cluster(Cluster),
}

/// A study on a target.
struct Rig {
    name: &'static str,
    place: Place,
    lab: Lab,
}

impl Rig {
    /// Every target that this host can have.
    fn all(study: &str) -> Vec<Self> {
        if !support::can_mount() || !support::can_serve_disks() {
            return Vec::new();
        }
        let rig = |name, place: &dyn Fn(&Lab) -> Option<Place>| {
            let lab = Lab::new(study);
            place(&lab).map(|place| Self { name, place, lab })
        };
        let runtime = |lab: &Lab| lab.scratch.path().join("runtime");
        let found = [
            rig("here", &|lab| Some(Place::Here(runtime(lab)))),
            rig("ssh", &|_| Server::new().map(Place::Ssh)),
            rig("guest", &|lab| Some(Place::Guest(guest_rig::cache()?, runtime(lab)))),
            rig("cluster", &|_| Cluster::new().map(Place::Cluster)),
        ];
        found.into_iter().flatten().collect()
    }

    /// Another study, or another store, on the same target.
    fn begin_again(&mut self, study: &str) {
        let lab = Lab::new(study);
        match &mut self.place {
            Place::Here(mark) | Place::Guest(_, mark) => *mark = lab.scratch.path().join("runtime"),
            Place::Ssh(_) | Place::Cluster(_) => {}
        }
        self.lab = lab;
    }

    /// What marks processes on the target.
    fn mark(&self) -> PathBuf {
        match &self.place {
            Place::Here(mark) | Place::Guest(_, mark) => mark.clone(),
            Place::Ssh(server) => server.mark(),
            Place::Cluster(cluster) => cluster.mark(),
        }
    }

    /// `fsage run` there.
    fn command(&self, set: &[&str]) -> Command {
        let mut set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        match &self.place {
            Place::Ssh(server) => set.push(server.target()),
            Place::Guest(..) => set.push(r#"target={ kind = "guest", kernel = "6.1" }"#.to_owned()),
            Place::Here(_) | Place::Cluster(_) => {}
        }
        let mut command = self.lab.command(&set.iter().map(String::as_str).collect::<Vec<_>>());
        command.arg("--allow-commands");
        match &self.place {
            Place::Here(mark) => command.env("FSAGE_RUNTIME_DIR", mark),
            Place::Guest(cache, mark) => command.env("FSAGE_CACHE_DIR", cache).env("FSAGE_RUNTIME_DIR", mark),
            Place::Ssh(_) => &mut command,
            Place::Cluster(cluster) => {
                command = cluster.with(command);
                command.args(["--fleet", "slurm"])
            }
        };
        command.stdout(Stdio::null());
        command
    }

    /// Begins the study, or resumes it.
    fn start(&self, set: &[&str]) -> Child {
        self.command(set).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Whether it is over, well or not.
    fn is_over(&self, run: &mut Child) -> bool {
        let ended = run.try_wait().unwrap().is_some();
        match &self.place {
            Place::Cluster(cluster) if ended => {
                cluster.tend();
                let asked = cluster.slurm(&["squeue", "--noheader"]);
                asked.status.success() && asked.stdout.is_empty()
            }
            _ => ended,
        }
    }

    /// Runs it to its end; the exit code, on a cluster that of collecting, and what was said.
    fn finish(&self, set: &[&str]) -> (Option<i32>, String) {
        let output = self.command(set).output().unwrap();
        let Place::Cluster(cluster) = &self.place else {
            return (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        };
        if !output.status.success() {
            return (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        }
        cluster.drained();
        let mut command = cluster.with(Command::new(env!("CARGO_BIN_EXE_fsage")));
        let output = command.args(["fleet", "collect"]).arg(self.lab.store()).output().unwrap();
        let text = [output.stderr, output.stdout].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether every trial is complete, in the store or on a node.
    fn is_complete(&self) -> bool {
        if let Place::Cluster(cluster) = &self.place {
            let mut command = cluster.with(Command::new(env!("CARGO_BIN_EXE_fsage")));
            // Nothing was submitted yet: then nothing is complete.
            let _ = command.args(["fleet", "collect"]).arg(self.lab.store()).output().unwrap();
        }
        let Ok(store) = Store::open(&self.lab.store()) else { return false };
        !store.trials().is_empty() && store.trials().iter().all(|trial| trial.status == TrialStatus::Complete)
    }

    /// The logical trees by file system; every trial is complete.
    fn digests(&self) -> BTreeMap<String, String> {
        let digest = |trial: &fsage_model::record::TrialRecord| {
            assert_eq!(trial.status, TrialStatus::Complete, "{}: {}", self.name, trial.error);
            let StageRecord::Age { result, .. } = &trial.stages[0] else { panic!("the stage ages") };
            (trial.factors["file_system.kind"].as_str().unwrap().to_owned(), result.digest.clone())
        };
        self.lab.trials().iter().map(digest).collect()
    }

    /// Names of the files of each trial, by file system.
    fn files(&self) -> BTreeMap<String, BTreeSet<String>> {
        let names = |trial: &fsage_model::record::TrialRecord| {
            let folder = std::fs::read_dir(self.lab.store().join("trials").join(&trial.id)).unwrap();
            let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            (trial.factors["file_system.kind"].as_str().unwrap().to_owned(), names)
        };
        self.lab.trials().iter().map(names).collect()
    }

    /// Releases what killed runs left and no later one released.
    fn clean(&self) {
        if let Place::Cluster(cluster) = &self.place {
            return cluster.clean();
        }
        let mut clean = Command::new(env!("CARGO_BIN_EXE_fsage"));
        clean.arg("clean").env("FSAGE_RUNTIME_DIR", self.mark()).env("FSAGE_AGENT", support::agent());
        let output = clean.output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
    }

    /// Nothing of a run is left on either side, perhaps a moment later.
    fn nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let ours = || {
            let living = victim::ours(&self.mark()).into_iter();
            living
                .filter(|one| one.name.starts_with("fsage") || one.name.starts_with("qemu"))
                .collect::<Vec<_>>()
        };
        while !ours().is_empty() {
            assert!(Instant::now() < deadline, "{}: {:?} still live", self.name, ours());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.lab.nothing_left();
        match &self.place {
            Place::Ssh(server) => server.nothing_left(),
            Place::Cluster(cluster) => cluster.nothing_mounted(),
            Place::Here(_) | Place::Guest(..) => {}
        }
    }

    /// Kills one of those that live and have to do with the run; who it was.
    fn strike(&mut self, run: &Child, dice: &mut Dice) -> Option<String> {
        let living = victim::ours(&self.mark());
        let known = ["fsage", "fsage-agent", "fsage-disk", "qemu-system-x86", "slurmstepd", "sshd"];
        let mut targets: Vec<(String, u32)> = living
            .into_iter()
            .filter(|one| known.contains(&one.name.as_str()))
            .map(|one| (one.name, one.pid))
            .collect();
        match &mut self.place {
            Place::Cluster(cluster) => {
                // One of the daemons, which an administrator would start again.
                if dice.one_in(3) {
                    let node = *dice.of(&NODES);
                    let name = *dice.of(&[node, "slurmctld"]);
                    cluster.kill(name);
                    std::thread::sleep(Duration::from_millis(dice.below(1500)));
                    if name == "slurmctld" {
                        cluster.start_controller()
                    } else {
                        cluster.start_node(node)
                    }
                    return Some(name.to_owned());
                }
            }
            Place::Ssh(_) => {
                targets.push(("the lab".to_owned(), run.id()));
                targets
                    .extend(victim::children(run.id(), "ssh").into_iter().map(|pid| ("ssh".to_owned(), pid)));
            }
            Place::Here(_) | Place::Guest(..) => {}
        }
        if targets.is_empty() {
            return None;
        }
        let (name, pid) = dice.of(&targets).clone();
        victim::kill(pid);
        Some(name)
    }
}

#[test]
fn one_study_leaves_the_same_trees_and_files_on_every_target() {
    let rigs = Rig::all(STUDY);
    for rig in &rigs {
        let (code, said) = rig.finish(&[]);
        assert_eq!(code, Some(0), "{}: {said}", rig.name);
        rig.nothing_left();
        assert_eq!(rig.digests().len(), 3, "{}", rig.name);
        assert_eq!(rig.digests(), rigs[0].digests(), "{}", rig.name);
        assert_eq!(rig.files(), rigs[0].files(), "{}", rig.name);
        for trial in rig.lab.trials() {
            assert!(trial.check.contains("clean"), "{}: {}", rig.name, trial.check);
            assert_eq!(trial.host.identity.len(), 16, "{}", rig.name);
        }
    }
}

#[test]
fn a_failed_trial_has_the_same_reason_on_every_target() {
    let study = format!("{STUDY}{BROKEN}");
    let set = [r#"matrix.file_system.kind=["ext4", "broken"]"#];
    for rig in &Rig::all(&study) {
        let (code, said) = rig.finish(&set);
        assert_eq!(code, Some(4), "{}: {said}", rig.name);
        rig.nothing_left();
        let trials = rig.lab.trials();
        let of = |kind: &str| trials.iter().find(|trial| trial.factors["file_system.kind"] == kind).unwrap();
        assert_eq!(of("ext4").status, TrialStatus::Complete, "{}: the others go on", rig.name);
        assert_eq!(of("broken").status, TrialStatus::Failed, "{}", rig.name);
        let error = &of("broken").error;
        assert!(
            error.contains("cannot use the file system") && error.contains("`false"),
            "{}: {error}",
            rig.name
        );
    }
}

#[test]
fn after_any_kill_nothing_is_left_and_the_study_resumes_to_the_same_trees() {
    let (kills, seed) = (number("FSAGE_KILLS", 9), number("FSAGE_SEED", 20_261_128));
    println!("FSAGE_KILLS={kills} FSAGE_SEED={seed}");
    let mut dice = Dice(seed);
    let mut rigs = Rig::all(STUDY);
    let set = [EXT4, LONG];
    let Some(here) = rigs.first() else { return };
    assert_eq!(here.finish(&set).0, Some(0));
    let wanted = here.digests();
    let others = u64::try_from(rigs.len() - 1).unwrap().max(1);
    for rig in &mut rigs[1..] {
        let mut struck: BTreeMap<String, u64> = BTreeMap::new();
        let mut run = rig.start(&set);
        let deadline = Instant::now() + Duration::from_secs(300 + 60 * kills);
        while struck.values().sum::<u64>() < kills.div_ceil(others) {
            assert!(Instant::now() < deadline, "{}: only {struck:?}", rig.name);
            std::thread::sleep(Duration::from_millis(50 + dice.below(1500)));
            if rig.is_over(&mut run) {
                if rig.is_complete() {
                    rig.begin_again(STUDY);
                }
                run = rig.start(&set);
                continue;
            }
            if let Some(name) = rig.strike(&run, &mut dice) {
                *struck.entry(name).or_default() += 1;
            }
        }
        println!("{}: {struck:?}", rig.name);
        let deadline = Instant::now() + Duration::from_secs(120);
        while !rig.is_over(&mut run) {
            assert!(Instant::now() < deadline, "{} does not end", rig.name);
            std::thread::sleep(Duration::from_millis(50));
        }
        // A task may have failed by what was killed: the same command again does what is left.
        let (code, said) = rig.finish(&set);
        assert_eq!(code, Some(0), "{}: {said}", rig.name);
        assert_eq!(rig.digests(), wanted, "{}", rig.name);
        rig.clean();
        rig.nothing_left();
    }
}
