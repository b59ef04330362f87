//! Trials side by side: what they say is what they say one after the other, what they change on the host is
//! put back once, also after a kill, and what cannot run so is refused.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use fsage_lab::store::Store;
use fsage_model::record::TrialStatus;
use rustix::process::{Pid, Signal, kill_process};
use support::{Scratch, agent, can_mount, can_serve_disks, wait_for};

/// Times by the disk's clock that are compared, and how far they may be apart; see `run_deterministic.rs`.
const TIMES: &[&str] = &["age.elapsed_s", "grep", "cold-random-read", "walk", "create", "large-file"];
const TOLERANCE: f64 = 0.02;

/// Runs of a kind at most, until each time was the same in some run of each. What the kernel writes back in one
/// piece or in two depends on when its threads run, and now and then another layout comes of it, with times of
/// its own; they come back to the bit, one after the other and side by side. So each time is compared with
/// those of all runs of the other kind: a run seldom has every one of its times from the more frequent layout.
const RUNS: usize = 6;

/// What trials in model time change on the host.
const SETTINGS: &[&str] = &[
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/module/workqueue/parameters/default_affinity_scope",
    "/proc/sys/vm/dirty_writeback_centisecs",
];

fn settings() -> Vec<String> {
    SETTINGS.iter().map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect()
}

/// One test at a time: what one changes on the host, the other inspects.
static HOST: Mutex<()> = Mutex::new(());

/// Whether two trials at a time can be tried here.
fn possible() -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        support::skip("two trials at a time need two processors");
        return false;
    }
    can_mount() && can_serve_disks()
}

fn fsage(scratch: &Scratch) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    command.env("FSAGE_AGENT", agent()).env("FSAGE_RUNTIME_DIR", scratch.path().join("runtime"));
    fsage_sys::process::die_with_parent(&mut command);
    command
}

fn study(scratch: &Scratch, store: &str, jobs: u32) -> Command {
    let study = scratch.path().join("beside.toml");
    std::fs::write(&study, include_str!("data/beside.toml")).unwrap();
    let mut command = fsage(scratch);
    command.arg("run").arg(study).arg("--store").arg(scratch.path().join(store));
    command.args(["--jobs", &jobs.to_string()]);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a run says of a trial: what must be the same to the bit, and times by the disk's clock.
#[derive(Debug, Default, PartialEq)]
struct Said {
    exact: BTreeMap<String, String>,
    times: BTreeMap<String, f64>,
}

/// By trial.
fn results(store: &Path) -> BTreeMap<String, Said> {
    let trials = Store::open(store).unwrap().trials();
    trials
        .into_iter()
        .map(|trial| {
            assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
            let mut said = Said::default();
            let mut exact = |name: &str, value: String| said.exact.insert(name.to_owned(), value);
            exact("check", trial.check.clone());
            for stage in &trial.stages {
                if let Some(load) = stage.load() {
                    exact("digest", load.digest.clone());
                    exact("operations", load.operations.to_string());
                    exact("bytes written", load.bytes_written.to_string());
                }
                if let fsage_model::record::StageRecord::Measure { results, .. } = stage {
                    for result in results {
                        let counts = (result.files, result.bytes, result.operations);
                        exact(&result.name, format!("{counts:?}"));
                    }
                }
            }
            for name in TIMES {
                // Which of the two that continue from an image ages it is chance.
                if let Some(metric) = trial.metrics.iter().find(|metric| metric.name == *name) {
                    said.times.insert((*name).to_owned(), metric.samples[0]);
                }
            }
            (trial.id, said)
        })
        .collect()
}

/// Times of all runs of a kind, by trial and name.
type Times = BTreeMap<(String, String), Vec<f64>>;

fn times(runs: &[BTreeMap<String, Said>]) -> Times {
    let mut times = Times::new();
    for (id, said) in runs.iter().flatten() {
        for (name, time) in &said.times {
            times.entry((id.clone(), name.clone())).or_default().push(*time);
        }
    }
    times
}

/// Times that no run of one kind shares with any of the other. Both kinds have to know every time but those of
/// ageing, which only the trial has that made the image.
fn apart(singles: &Times, doubles: &Times) -> Vec<String> {
    let mut far = Vec::new();
    for (key, single) in singles {
        let Some(double) = doubles.get(key) else {
            assert!(key.1.starts_with("age."), "{key:?}");
            continue;
        };
        let pairs = single.iter().flat_map(|one| double.iter().map(move |other| (other / one - 1.0).abs()));
        let by = pairs.min_by(f64::total_cmp).unwrap();
        println!("{key:?}: {single:?} and {double:?}, {:.3} % apart", by * 100.0);
        if by > TOLERANCE {
            far.push(format!("{key:?}: {single:?} and {double:?}"));
        }
    }
    far
}

#[test]
fn side_by_side_gives_what_one_after_the_other_gives() {
    if !possible() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let before = support::at_rest(settings);
    let (mut single, mut double) = (Vec::new(), Vec::new());
    let mut far = vec!["there were no two runs".to_owned()];
    while !far.is_empty() && double.len() < RUNS {
        for (jobs, runs) in [(1, &mut single), (2, &mut double)] {
            let store = format!("store-{jobs}-{}", runs.len());
            let output = study(&scratch, &store, jobs).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
            let lines = said(&output);
            // One line for each, whatever happened in it.
            let trials = lines.lines().filter(|line| line.starts_with("trial ")).count();
            assert!(trials == 4 && lines.contains("trial 2/4  ") && !lines.contains("mkfs"), "{lines}");
            let found = results(&scratch.path().join(&store));
            assert_eq!(found.len(), 4);
            let images = std::fs::read_dir(scratch.path().join(&store).join("images")).unwrap();
            let images =
                images.flatten().filter(|entry| entry.path().extension().is_some_and(|e| e == "fsage"));
            assert_eq!(images.count(), 2, "each image is made once");
            runs.push(found);
        }
        for (one, other) in single.iter().chain(&double).zip(double.iter().chain(&single)) {
            for (id, said) in one {
                let theirs = &other[id].exact;
                let both = |name: &&String| theirs.contains_key(*name);
                assert!(said.exact.keys().filter(both).count() > 1, "{id}");
                for name in said.exact.keys().filter(both) {
                    assert_eq!(said.exact[name], theirs[name], "{id}: {name}");
                }
            }
        }
        far = apart(&times(&single), &times(&double));
    }
    assert!(far.is_empty(), "in {RUNS} runs of each kind these were never the same: {far:#?}");
    support::comes_back(settings, &before);
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
}

/// Starts two trials at a time and waits until both hold the host's settings.
fn started(scratch: &Scratch) -> Child {
    let mut lab = study(scratch, "store", 2).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("both trials to hold the host's timers", || {
        assert!(lab.try_wait().unwrap().is_none(), "the run ended");
        journal(scratch).matches("dirty_writeback_centisecs").count() >= 2
    });
    lab
}

fn journal(scratch: &Scratch) -> String {
    let journals = std::fs::read_dir(scratch.path().join("runtime/state")).into_iter().flatten().flatten();
    journals.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
}

#[test]
fn what_two_trials_hold_is_put_back_once_after_a_kill_and_the_run_resumes() {
    if !possible() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let before = support::at_rest(settings);
    if before[2].trim() == "0" {
        return support::skip("somebody else holds this host's timers");
    }
    let mut lab = started(&scratch);
    lab.kill().unwrap();
    lab.wait().unwrap();
    let store = scratch.path().join("store");
    let output = fsage(&scratch).arg("clean").arg(&store).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    support::comes_back(settings, &before);
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
    let output = study(&scratch, "store", 2).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(results(&store).len(), 4);
    support::comes_back(settings, &before);
}

#[test]
fn a_signal_ends_both_trials_and_releases_everything() {
    if !possible() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let before = support::at_rest(settings);
    if before[2].trim() == "0" {
        return support::skip("somebody else holds this host's timers");
    }
    let mut lab = started(&scratch);
    kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
    assert!(!lab.wait().unwrap().success());
    support::comes_back(settings, &before);
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
    let left = fsage_lab::lease::left_over().into_iter().find(|left| left.store.starts_with(scratch.path()));
    assert_eq!(left, None);
}

/// Runs whose journals are in different folders see what the other has set: whichever ends first, what was there before both is
/// there after both.
#[test]
fn runs_with_folders_of_their_own_put_the_hosts_settings_back() {
    if !possible() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (first, second) = (Scratch::new(), Scratch::new());
    let before = support::at_rest(settings);
    let hold = |scratch: &Scratch, jobs| {
        let mut lab =
            study(scratch, "store", jobs).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("a run to hold the host's workqueues", || {
            assert!(lab.try_wait().unwrap().is_none(), "the run ended");
            journal(scratch).contains("cpumask")
        });
        lab
    };
    let mut one = hold(&first, 1);
    let mut other = hold(&second, 2);
    assert!(journal(&first).contains("cpumask"), "both hold it");
    // The first to come is the first to go.
    kill_process(Pid::from_child(&one), Signal::INT).unwrap();
    assert!(!one.wait().unwrap().success());
    kill_process(Pid::from_child(&other), Signal::INT).unwrap();
    assert!(!other.wait().unwrap().success());
    support::comes_back(settings, &before);
    for scratch in [&first, &second] {
        assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
    }
}

/// Nobody may ever clean what a killed run with a folder of its own left: what somebody has put right by hand since stays right.
#[test]
fn a_run_that_was_killed_in_another_folder_does_not_count() {
    if !possible() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (dead, living) = (Scratch::new(), Scratch::new());
    let before = support::at_rest(settings);
    let mut lab = started(&dead);
    lab.kill().unwrap();
    lab.wait().unwrap();
    assert_ne!(settings(), before, "it holds them");
    for (path, value) in SETTINGS.iter().zip(&before) {
        std::fs::write(path, value).unwrap();
    }
    let output = study(&living, "store", 1).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    support::comes_back(settings, &before);
    let output = fsage(&dead).arg("clean").arg(dead.path().join("store")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    support::comes_back(settings, &before);
    for scratch in [&dead, &living] {
        assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
    }
}

#[test]
fn what_goes_by_the_walls_clock_is_refused() {
    let scratch = Scratch::new();
    for (set, why) in [
        ("volume={kind=\"loop\",size=\"256MiB\"}", "a loop file is measured by wall-clock time"),
        ("volume.time=\"real\"", "a virtual disk in real time"),
        ("stage.age.stop.seconds=3", "stop.seconds"),
    ] {
        let all = ["--dry-run", "--set", "deterministic=false", "--set", set];
        let output = study(&scratch, "store", 2).args(all).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("cannot run side by side") && text.contains(why), "{text}");
        assert!(text.contains("hint: leave --jobs out"), "{text}");
    }
    let output = study(&scratch, "store", 4096).arg("--dry-run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("4096 trials at a time need a processor each"), "{}", said(&output));
    assert!(!scratch.path().join("store").exists());
}
