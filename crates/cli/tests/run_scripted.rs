//! Running with a scripted agent: order, resuming, failures and what is written, without a kernel's help.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod scripted;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use fsage_lab::plan::Plan;
use fsage_lab::run::{RunEvent, RunObserver, RunOptions, RunSummary, TrialState, run_study_with};
use fsage_lab::store::Store;
use fsage_lab::target::{Incoming, Session, Target, TargetError};
use fsage_model::layout::LayoutSummary;
use fsage_model::load::{LoadResult, Probe, StopReason};
use fsage_model::protocol::{Call as _, Event, Failure, FailureKind, Placed, Reply, Request, ToolOutput};
use fsage_model::record::{TrialRecord, TrialStatus};
use fsage_model::verify::VerifyResult;
use fsage_model::warning::WarningKind;

const STUDY: &str = r#"
name = "scripted"
title = "t"
question = "q"
repeats = 2
[volume]
kind = "loop"
size = "400MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 100
verify = true
trace = true
workload = { kind = "drift", slots = 10, file_size = { kind = "fixed", size = "8KiB" } }
[matrix]
"file_system.kind" = ["ext4", "xfs"]
"#;

#[derive(Default)]
struct Log(Vec<RunEvent>);

impl RunObserver for Log {
    fn event(&mut self, event: RunEvent) {
        self.0.push(event);
    }
}

/// What the scripted agents are told to do wrong, and what they were asked.
#[derive(Default)]
struct Plot {
    /// Load number (over all agents) → how it fails; `None` plays an agent that dies.
    load: Vec<(usize, Option<FailureKind>)>,
    loads: usize,
    /// The agent that is asked to remove a file dies, this often.
    deaths_while_giving_back: usize,
    /// A load sends this to the own process before it does what `load` says.
    signal: Option<&'static str>,
    bad_blocks: u64,
    unclean: bool,
    digest_by_kind: bool,
    /// Where files lie cannot be determined.
    blind: bool,
    asked: Vec<String>,
    agents: usize,
}

fn result(digest: &str) -> LoadResult {
    LoadResult {
        operations: 100,
        missed: 0,
        elapsed_ns: 1_000_000_000,
        failed: [].into(),
        succeeded: [].into(),
        bytes_written: 800_000,
        bytes_read: 0,
        cpu_user_ns: 600_000_000,
        cpu_sys_ns: 390_000_000,
        device_bytes_written: Some(900_000),
        device_bytes_before_materialise: Some(900_000),
        materialise_ns: 0,
        materialised: true,
        probes: 0,
        probe_ns: 0,
        failed_without_inode: 0,
        digest: digest.into(),
        digest_caveats: Vec::new(),
        stopped_by: StopReason::Operations,
        latency: [].into(),
        layout: LayoutSummary {
            files: 10,
            mapped_files: 10,
            one_extent_share: 0.9,
            ..LayoutSummary::default()
        },
        free_space: None,
        overhead_ns_per_operation: 500.0,
        files: 10,
        live_bytes: 80_000,
        disk: None,
        pace: None,
    }
}

fn probe() -> Probe {
    Probe {
        operations: 100,
        elapsed_ns: 1_000_000_000,
        used_bytes: 100,
        total_bytes: 400,
        files: 10,
        device_bytes_written: None,
        free_space: None,
        layout: None,
        latency: [].into(),
        interval_log: Vec::new(),
        disk: None,
    }
}

/// Some thread has taken the signal when this returns.
fn send_to_self(signal: &str) {
    let own = std::process::id().to_string();
    assert!(Command::new("kill").args([signal, &own]).status().unwrap().success());
    while !std::fs::read_to_string("/proc/self/status").unwrap().contains("ShdPnd:\t0000000000000000") {
        std::thread::yield_now();
    }
}

fn answer(
    plot: &mut Plot,
    request: &Request,
    say: &mut dyn FnMut(Incoming),
) -> Option<Result<Reply, Failure>> {
    let failure = |kind| Failure { message: "made to fail".into(), hint: String::new(), errno: None, kind };
    plot.asked.push(request.name());
    if matches!(request, Request::RemoveMade(_)) && plot.deaths_while_giving_back > 0 {
        plot.deaths_while_giving_back -= 1;
        return None;
    }
    if let Some(reply) = scripted::host(request) {
        return Some(reply);
    }
    Some(match request {
        Request::RunTool(run) => {
            let check = run.argv.iter().any(|a| a.contains("fsck") || a.contains("xfs_repair"));
            let status = i32::from(plot.unclean && check) * 4;
            let (stdout, stderr) = (String::new(), "said something".to_owned());
            run.reply(&ToolOutput { argv: run.argv.clone(), status, stdout, stderr, elapsed_ns: 1 })
        }
        Request::Load(call) => {
            let number = plot.loads;
            plot.loads += 1;
            if let Some(signal) = plot.signal {
                send_to_self(signal);
            }
            match plot.load.iter().find(|(n, _)| *n == number) {
                Some((_, None)) => return None,
                Some((_, Some(kind))) => return Some(Err(failure(*kind))),
                None => {}
            }
            say(Incoming::Event(Event::Progress {
                operations: 50,
                elapsed_ns: 500_000_000,
                share: Some(0.5),
                note: String::new(),
            }));
            say(Incoming::Event(Event::Probe { probe: Box::new(probe()) }));
            say(Incoming::Chunk(b"trace of ".to_vec()));
            say(Incoming::Chunk(call.load.seed.to_string().into_bytes()));
            let digest = if plot.digest_by_kind { number.to_string() } else { call.load.seed.to_string() };
            call.reply(&result(&digest))
        }
        Request::Verify(verify) => {
            let bad_blocks = [("torn".to_owned(), plot.bad_blocks)].into();
            verify.reply(&VerifyResult { good_blocks: 20, bad_blocks, ..VerifyResult::default() })
        }
        Request::Places(_) if plot.blind => Err(failure(FailureKind::Failed)),
        Request::Places(call) => {
            let lines = r#"{"path":"a/1","size":8192,"extents":[[1048576,4096],[104857600,4096]]}"#;
            say(Incoming::Chunk(lines.as_bytes().to_vec()));
            let (unknown, used) = (String::new(), vec![0.25; 1024]);
            call.reply(&Placed {
                files: 1,
                failed: 0,
                logical: false,
                volume_bytes: 400 << 20,
                used,
                unknown,
            })
        }
        _ => Ok(Reply::done()),
    })
}

struct Stage {
    directory: tempfile::TempDir,
    plot: Arc<Mutex<Plot>>,
}

impl Stage {
    fn new(plot: Plot) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("s.toml"), STUDY).unwrap();
        Self { directory, plot: Arc::new(Mutex::new(plot)) }
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn options(&self, set: &[&str]) -> RunOptions {
        RunOptions {
            study: self.directory.path().join("s.toml"),
            store: Some(self.store()),
            set: set.iter().map(|s| (*s).to_owned()).collect(),
            ..RunOptions::default()
        }
    }

    fn run(&self, set: &[&str]) -> (RunSummary, Vec<RunEvent>) {
        let mut log = Log::default();
        let mut start = || -> Result<Session, TargetError> {
            let plot = Arc::clone(&self.plot);
            plot.lock().unwrap().agents += 1;
            Ok(Target::scripted(Box::new(move |request, say| {
                answer(&mut plot.lock().unwrap(), request, say)
            })))
        };
        let summary = run_study_with(&self.options(set), &mut log, &mut start).unwrap();
        (summary, log.0)
    }

    fn change(&self, change: impl FnOnce(&mut Plot)) {
        change(&mut self.plot.lock().unwrap());
    }
}

fn states(summary: &RunSummary) -> Vec<TrialState> {
    summary.trials.iter().map(|t| t.state).collect()
}

fn leases(store: &Path) -> usize {
    fsage_lab::lease::Journal::open(store).unwrap().outstanding().len()
}

#[test]
fn every_trial_is_done_once_and_kept_when_run_again() {
    let stage = Stage::new(Plot::default());
    let (summary, events) = stage.run(&[]);
    assert_eq!(states(&summary), [TrialState::Complete; 4]);
    assert_eq!(summary.exit_code(), 0);
    assert!(
        events.iter().any(|e| matches!(e, RunEvent::Progress { rate, .. } if (*rate - 100.0).abs() < 1e-6))
    );
    let store = Store::open(&stage.store()).unwrap();
    let trial = &store.trials()[0];
    assert_eq!(trial.check, "clean");
    assert_eq!(trial.warnings.iter().filter(|w| w.kind == WarningKind::CpuBound).count(), 1);
    assert!(trial.metrics.iter().any(|m| m.name == "layout.noncontiguous_files" && m.samples == [1.0]));
    let trace = std::fs::read_to_string(store.trial_directory(&trial.id).join("trace.parquet")).unwrap();
    assert_eq!(trace, format!("trace of {}", trial.seed));
    let (again, _) = stage.run(&[]);
    assert_eq!(states(&again), [TrialState::Kept; 4]);
    assert_eq!(stage.plot.lock().unwrap().loads, 4, "nothing is done twice");
    let (more, _) = stage.run(&["repeats=3"]);
    assert_eq!((more.kept, more.complete), (4, 2));
    assert_eq!(leases(&stage.store()), 0);
}

#[test]
fn where_files_lie_is_kept_and_what_cannot_be_told_is_a_warning() {
    let stage = Stage::new(Plot::default());
    stage.run(&[]);
    let store = Store::open(&stage.store()).unwrap();
    let trials = store.trials();
    let trial = &trials[0];
    assert!(trial.warnings.iter().all(|warning| warning.kind != WarningKind::Places), "{:?}", trial.warnings);
    assert!(
        trial
            .commands
            .iter()
            .any(|line| line.starts_with("fsage explain ") && line.ends_with("/age --medium hdd-7200"))
    );
    let record = store.places(&trial.id).unwrap().unwrap();
    let [kept] = &record.volumes[..] else { panic!("{record:?}") };
    assert_eq!((kept.stage.as_str(), kept.volume.as_str()), ("age", ""));
    let found = &kept.explanation;
    assert_eq!(
        (found.medium.as_str(), found.files[0].path.as_str(), found.used.len()),
        ("hdd-7200", "a/1", 1024)
    );
    assert!(found.tree.extra_ns() > 0, "{:?}", found.tree);
    let metrics =
        |trials: &[TrialRecord]| trials.iter().map(|trial| trial.metrics.clone()).collect::<Vec<_>>();
    let blind = Stage::new(Plot { blind: true, ..Plot::default() });
    let (summary, _) = blind.run(&[]);
    assert_eq!(states(&summary), [TrialState::Complete; 4]);
    let without = Store::open(&blind.store()).unwrap();
    let other = without.trials();
    assert_eq!(without.places(&other[0].id), Ok(None));
    let said: Vec<&str> = other[0]
        .warnings
        .iter()
        .filter(|warning| warning.kind == WarningKind::Places)
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(said, ["where the files of age lie is not kept: places failed: made to fail"]);
    assert_eq!(metrics(&trials), metrics(&other), "no number has any of it");
}

#[test]
fn digests_are_compared_across_file_systems() {
    let stage = Stage::new(Plot::default());
    let (summary, _) = stage.run(&[]);
    assert_eq!(summary.digest_groups.len(), 2, "{:?}", summary.digest_groups);
    assert!(summary.digest_groups.iter().all(|g| g.agree && g.digests.len() == 2));
    let stage = Stage::new(Plot { digest_by_kind: true, ..Plot::default() });
    let (summary, _) = stage.run(&[]);
    assert!(summary.digest_groups.iter().all(|g| !g.agree));
    assert_eq!(summary.exit_code(), 5);
}

#[test]
fn a_failed_trial_lets_the_others_go_on_and_is_tried_again() {
    let stage = Stage::new(Plot { load: vec![(1, Some(FailureKind::Failed))], ..Plot::default() });
    let (summary, _) = stage.run(&[]);
    assert_eq!((summary.complete, summary.failed, summary.exit_code()), (3, 1, 4));
    let records = Store::open(&stage.store()).unwrap().trials();
    let failed: Vec<_> = records.iter().filter(|r| r.status == TrialStatus::Failed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].error, "load failed: made to fail");
    assert_eq!(leases(&stage.store()), 0);
    let (again, _) = stage.run(&[]);
    assert_eq!((again.kept, again.complete, again.exit_code()), (3, 1, 0));
}

#[test]
fn a_lost_agent_fails_its_trial_and_a_fresh_one_releases_everything() {
    let stage = Stage::new(Plot { load: vec![(0, None)], ..Plot::default() });
    let (summary, _) = stage.run(&[]);
    assert_eq!((summary.complete, summary.failed, summary.exit_code()), (3, 1, 4));
    assert!(
        summary.trials[0].error.contains("the agent was lost during load"),
        "{}",
        summary.trials[0].error
    );
    let plot = stage.plot.lock().unwrap();
    assert_eq!(plot.agents, 5, "one per trial and one to release");
    let after_load: Vec<&str> =
        plot.asked.iter().skip_while(|a| *a != "load").skip(1).take(6).map(String::as_str).collect();
    // A scripted agent has no boot id: mounts and loop devices count as gone with an earlier boot.
    let removed = after_load.iter().filter(|request| **request == "remove-made").count();
    assert!(removed >= 2, "{after_load:?}");
    drop(plot);
    assert_eq!(leases(&stage.store()), 0);
}

#[test]
fn an_agent_lost_while_it_releases_fails_no_other_trial_and_leaves_nothing() {
    for deaths in [1, 2] {
        let load = vec![(0, Some(FailureKind::Failed))];
        let stage = Stage::new(Plot { load, deaths_while_giving_back: deaths, ..Plot::default() });
        let (summary, events) = stage.run(&[]);
        assert_eq!((summary.complete, summary.failed, summary.exit_code()), (3, 1, 4));
        assert_eq!(summary.trials[0].error, "load failed: made to fail", "what went wrong first");
        assert_eq!(leases(&stage.store()), 0, "after {deaths} deaths");
        let reported =
            events.iter().any(|e| matches!(e, RunEvent::Note { text } if text.contains("not everything")));
        assert_eq!(reported, deaths == 2);
    }
}

#[test]
fn an_agent_lost_together_with_ctrl_c_leaves_nothing() {
    // Signals are of the whole process: this test runs in one of its own.
    if std::env::var_os("FSAGE_TEST_ALONE").is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "an_agent_lost_together_with_ctrl_c_leaves_nothing", "--nocapture"]);
        let output = alone.env("FSAGE_TEST_ALONE", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let stage = Stage::new(Plot { load: vec![(0, None)], signal: Some("-INT"), ..Plot::default() });
    let (summary, _) = stage.run(&[]);
    assert_eq!((summary.interrupted_by, summary.pending, summary.exit_code()), (Some(2), 4, 130));
    assert_eq!(stage.plot.lock().unwrap().agents, 2, "one for the trial and one to release");
    assert_eq!(leases(&stage.store()), 0);
    assert!(Store::open(&stage.store()).unwrap().trials().is_empty(), "the trial is not recorded");
}

#[test]
fn damage_is_exit_code_5() {
    let stage = Stage::new(Plot { bad_blocks: 3, ..Plot::default() });
    let (summary, _) = stage.run(&["repeats=1"]);
    assert_eq!((summary.failed, summary.exit_code()), (2, 5));
    assert!(summary.trials[0].error.starts_with("3 of 23 blocks are not what was written"));
    stage.change(|p| {
        p.bad_blocks = 0;
        p.unclean = true;
    });
    let (summary, _) = stage.run(&["repeats=1"]);
    assert_eq!((summary.failed, summary.exit_code()), (2, 5));
    assert!(summary.trials[0].error.contains("status 4"), "{}", summary.trials[0].error);
    assert_eq!(leases(&stage.store()), 0);
}

#[test]
fn a_host_that_lacks_something_is_exit_code_3() {
    let stage = Stage::new(Plot {
        load: (0..4).map(|n| (n, Some(FailureKind::Missing))).collect(),
        ..Plot::default()
    });
    assert_eq!(stage.run(&[]).0.exit_code(), 3);
}

#[test]
fn a_damaged_record_is_set_aside_and_redone() {
    let stage = Stage::new(Plot::default());
    stage.run(&[]);
    let store = Store::open(&stage.store()).unwrap();
    let Plan { trials, .. } = store.plan().clone();
    let record = store.trial_directory(&trials[1].id).join("trial.json");
    std::fs::write(&record, "{\"version\":1,\"id\"").unwrap();
    let (summary, _) = stage.run(&[]);
    assert_eq!((summary.kept, summary.complete, summary.damaged.len()), (3, 1, 1));
    assert!(record.with_extension("json.damaged").exists());
    assert_eq!(Store::open(&stage.store()).unwrap().trials().len(), 4);
}

#[test]
fn a_dry_run_prints_every_command_and_writes_nothing() {
    let stage = Stage::new(Plot::default());
    let mut log = Log::default();
    let options = RunOptions { dry_run: true, ..stage.options(&["repeats=1"]) };
    let summary = run_study_with(&options, &mut log, &mut || panic!("no agent")).unwrap();
    assert_eq!(summary.pending, 2);
    let lines: Vec<String> = log
        .0
        .into_iter()
        .map(|e| if let RunEvent::DryRun { line } = e { line } else { format!("{e:?}") })
        .collect();
    let text = lines.join("\n");
    for wanted in [
        "fallocate -l 419430400 ",
        "losetup ",
        "mkfs.xfs",
        "mount -t ext4",
        "fsage age ",
        "umount ",
        "write ",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    assert!(!stage.store().exists());
}
