//! What can go wrong with a remedy, with a scripted agent: its program is missing, fails, hangs, finds no room;
//! a copy finds none.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod scripted;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fsage_lab::run::{RunEvent, RunObserver, RunOptions, run_study_with};
use fsage_lab::store::Store;
use fsage_lab::target::{Session, Target, TargetError};
use fsage_model::layout::LayoutSummary;
use fsage_model::load::LoadResult;
use fsage_model::protocol::{
    Call as _, DeviceBytes, Failure, FailureKind, HostFacts, Reply, Request, Scanned, ToolOutput,
};
use fsage_model::record::{RemedyRecord, StageRecord, TrialRecord, TrialStatus};
use fsage_model::remedy::Remedy;
use fsage_model::verify::VerifyResult;
use fsage_model::warning::WarningKind;

const STUDY: &str = r#"
name = "scripted"
title = "t"
question = "q"
[volume]
kind = "loop"
size = "400MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 100
workload = { kind = "drift", slots = 10, file_size = { kind = "fixed", size = "8KiB" } }
[[stage]]
kind = "remedy"
method = "defragment"
limit_s = 7.0
"#;

struct Nobody;

impl RunObserver for Nobody {
    fn event(&mut self, _: RunEvent) {}
}

/// How the world is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum World {
    Right,
    Missing,
    Fails,
    Hangs,
    NoRoom,
    Damage,
}

fn failure(kind: FailureKind, message: &str, errno: Option<i32>) -> Failure {
    Failure { message: message.to_owned(), hint: String::new(), errno, kind }
}

fn load_result() -> LoadResult {
    let result = serde_json::json!({
        "operations": 100, "missed": 0, "elapsed_ns": 1_000_000_000, "failed": {}, "succeeded": {},
        "bytes_written": 1, "bytes_read": 0, "cpu_user_ns": 1, "cpu_sys_ns": 1, "materialise_ns": 0, "digest": "d",
        "digest_caveats": [], "stopped_by": "operations", "latency": {}, "layout": LayoutSummary::default(),
        "overhead_ns_per_operation": 1.0, "files": 10, "live_bytes": 1,
    });
    serde_json::from_value(result).unwrap()
}

fn tool(world: World, argv: &[String], timeout_ms: u64) -> Result<ToolOutput, Failure> {
    let ended = |status, stderr: &str| {
        let (argv, stderr) = (argv.to_vec(), stderr.to_owned());
        Ok(ToolOutput { argv, status, stdout: "Success: [ 9/10 ]".to_owned(), stderr, elapsed_ns: 5 })
    };
    if argv[0] != "e4defrag" {
        return ended(0, "");
    }
    assert!(argv.len() == 2 && argv[1].contains("/mounts/"), "{argv:?}");
    match world {
        World::Fails => ended(3, "e4defrag: cannot do it"),
        World::NoRoom => ended(1, "balance: No space left on device"),
        World::Hangs => {
            let message = format!("e4defrag did not end within {:.1} s and was killed", timeout_ms / 1000);
            Err(failure(FailureKind::Failed, &message, None))
        }
        _ => ended(0, ""),
    }
}

fn answer(world: World, asked: &mut Vec<String>, request: &Request) -> Option<Result<Reply, Failure>> {
    asked.push(request.name());
    if let Request::HostFacts(call) = request {
        let mut tools = vec!["mkfs.ext4", "mke2fs", "e2fsck", "e4defrag"];
        tools.retain(|tool| world != World::Missing || *tool != "e4defrag");
        let tools = tools.into_iter().map(|tool| (tool.to_owned(), "1".to_owned())).collect();
        return Some(call.reply(&HostFacts { tools, ..HostFacts::default() }));
    }
    if let Some(reply) = scripted::host(request) {
        return Some(reply);
    }
    Some(match request {
        Request::RunTool(run) => tool(world, &run.argv, run.timeout_ms).and_then(|output| run.reply(&output)),
        Request::Trim(call) => call.reply(&4096),
        Request::Load(call) => call.reply(&load_result()),
        Request::Scan(call) => call.reply(&Scanned { layout: LayoutSummary::default(), elapsed_ns: 1 }),
        Request::DeviceBytes(call) => {
            let times = u64::try_from(asked.iter().filter(|name| *name == "device-bytes").count()).unwrap();
            call.reply(&Some(DeviceBytes { read: 10 * times, written: 1000 * times }))
        }
        Request::Verify(call) => {
            let bad_blocks = [("torn".to_owned(), u64::from(world == World::Damage))].into();
            call.reply(&VerifyResult { good_blocks: 20, bad_blocks, ..VerifyResult::default() })
        }
        Request::Copy(_) if world == World::NoRoom => {
            Err(failure(FailureKind::Failed, "write t00/f1: No space left on device", Some(28)))
        }
        Request::FreeSpace(_) | Request::Places(_) => Err(failure(FailureKind::Failed, "not told", None)),
        _ => Ok(Reply::done()),
    })
}

/// The trial, what the agents were asked, the exit code, and the folder to be held.
fn run(world: World, set: &[&str]) -> (TrialRecord, Vec<String>, u8) {
    let directory = tempfile::tempdir().unwrap();
    let study: PathBuf = directory.path().join("s.toml");
    std::fs::write(&study, STUDY).unwrap();
    let store = directory.path().join("store");
    let set = set.iter().map(|s| (*s).to_owned()).collect();
    let options = RunOptions { study, store: Some(store.clone()), set, ..RunOptions::default() };
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut start = || -> Result<Session, TargetError> {
        let asked = Arc::clone(&asked);
        Ok(Target::scripted(Box::new(move |request, _| answer(world, &mut asked.lock().unwrap(), request))))
    };
    let summary = run_study_with(&options, &mut Nobody, &mut start).unwrap();
    let trial = Store::open(&store).unwrap().trials().remove(0);
    let asked = asked.lock().unwrap().clone();
    (trial, asked, summary.exit_code())
}

fn remedy(trial: &TrialRecord) -> Option<&RemedyRecord> {
    trial.stages.iter().find_map(|stage| match stage {
        StageRecord::Remedy(remedy) => Some(&**remedy),
        _ => None,
    })
}

#[test]
fn what_a_remedy_takes_is_counted_around_it() {
    let (trial, asked, code) = run(World::Right, &[]);
    assert_eq!((trial.status, code), (TrialStatus::Complete, 0), "{}", trial.error);
    let record = remedy(&trial).unwrap();
    assert_eq!(
        (record.method, record.read_bytes, record.written_bytes),
        (Remedy::Defragment, Some(10), Some(1000))
    );
    assert!(record.incomplete.is_empty() && record.said.contains("9/10"), "{record:?}");
    let place = |name: &str| asked.iter().rposition(|asked| asked == name).unwrap();
    let first = asked.iter().position(|asked| asked == "device-bytes").unwrap();
    assert!(
        place("load") < first
            && place("sync") < place("device-bytes")
            && place("device-bytes") < place("verify")
    );
}

#[test]
fn a_missing_program_is_named_with_its_package_before_anything_is_aged() {
    let (trial, asked, code) = run(World::Missing, &[]);
    assert_eq!((trial.status, code), (TrialStatus::Failed, 3));
    assert!(trial.error.contains("`e4defrag` is not installed"), "{}", trial.error);
    assert!(trial.error.contains("apt-get install e2fsprogs"), "{}", trial.error);
    assert!(!asked.iter().any(|name| name == "load"));
    // What needs no program is not held up by it.
    assert_eq!(run(World::Missing, &["stage.remedy.method=fstrim"]).2, 0);
}

#[test]
fn a_program_that_fails_or_hangs_fails_the_trial() {
    let (trial, _, code) = run(World::Fails, &[]);
    assert_eq!((trial.status, code), (TrialStatus::Failed, 4));
    assert!(trial.error.contains("ended with status 3: e4defrag: cannot do it"), "{}", trial.error);
    let (trial, _, code) = run(World::Hangs, &[]);
    assert_eq!((trial.status, code), (TrialStatus::Failed, 4));
    assert!(trial.error.contains("did not end within 7"), "{}", trial.error);
    assert!(trial.error.contains("cannot apply the remedy"), "{}", trial.error);
}

#[test]
fn damage_is_found_after_a_remedy() {
    let (trial, _, code) = run(World::Damage, &[]);
    assert_eq!((trial.status, code), (TrialStatus::Failed, 5), "{}", trial.error);
    assert!(remedy(&trial).is_some(), "what was done is in the record");
    assert_eq!(run(World::Damage, &["stage.remedy.verify=false"]).2, 0);
}

#[test]
fn without_room_the_trial_says_so_and_continues() {
    for method in ["defragment", "copy"] {
        let (trial, asked, code) = run(World::NoRoom, &[&format!("stage.remedy.method={method}")]);
        assert_eq!((trial.status, code), (TrialStatus::Complete, 0), "{method}: {}", trial.error);
        let record = remedy(&trial).unwrap();
        assert!(record.incomplete.contains("no room"), "{method}: {}", record.incomplete);
        assert_eq!(
            trial.warnings.iter().filter(|warning| warning.kind == WarningKind::NoRoom).count(),
            1,
            "{method}"
        );
        // The data of the original is checked as ever.
        assert!(asked.iter().any(|name| name == "verify"), "{method}");
        assert!(!trial.metrics.iter().any(|metric| metric.name.starts_with("remedy.layout.")), "{method}");
    }
}
