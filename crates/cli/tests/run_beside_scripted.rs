//! Two trials at a time with scripted agents: who waits for whom, what a failure ends, and what is reported of which.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod scripted;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fsage_lab::lease::Journal;
use fsage_lab::run::{RunEvent, RunObserver, RunOptions, RunSummary, TrialState, run_study_with};
use fsage_lab::target::{Incoming, Session, Target};
use fsage_model::layout::LayoutSummary;
use fsage_model::load::{LoadResult, StopReason};
use fsage_model::protocol::{Call as _, Event, Failure, FailureKind, Reply, Request, ToolOutput};

const STUDY: &str = r#"
name = "scripted"
title = "t"
question = "q"
repeats = 4
[volume]
kind = "disk"
medium = "hdd-7200"
size = "400MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 100
workload = { kind = "drift", slots = 10, file_size = { kind = "fixed", size = "8KiB" } }
"#;

const SERVED: &str = r#"{"pid":7,"start_ticks":9,"file":"/nowhere/disk","control":"/nowhere/control"}"#;

/// How long a load waits for the one beside it.
const PATIENCE: Duration = Duration::from_secs(60);

fn result(digest: &str) -> LoadResult {
    LoadResult {
        pace: None,
        operations: 100,
        missed: 0,
        elapsed_ns: 1_000_000_000,
        failed: [].into(),
        succeeded: [].into(),
        bytes_written: 800_000,
        bytes_read: 0,
        cpu_user_ns: 600_000_000,
        cpu_sys_ns: 390_000_000,
        device_bytes_written: None,
        device_bytes_before_materialise: None,
        materialise_ns: 0,
        materialised: true,
        probes: 0,
        probe_ns: 0,
        failed_without_inode: 0,
        digest: digest.to_owned(),
        digest_caveats: Vec::new(),
        stopped_by: StopReason::Operations,
        latency: [].into(),
        layout: LayoutSummary::default(),
        free_space: None,
        overhead_ns_per_operation: 500.0,
        files: 10,
        live_bytes: 80_000,
        disk: None,
    }
}

/// What the agents share.
#[derive(Default)]
struct Plot {
    /// Loads that have begun, over all agents.
    loads: Mutex<usize>,
    begun: Condvar,
    /// The load of this number fails, or its agent dies, when the next one has begun.
    fails: Option<(usize, Option<FailureKind>)>,
}

impl Plot {
    /// A load; the first two wait for each other.
    fn load(&self, call: &fsage_model::protocol::call::Load) -> Option<Result<Reply, Failure>> {
        let mut loads = self.loads.lock().unwrap();
        let number = *loads;
        *loads += 1;
        self.begun.notify_all();
        if number < 2 {
            let waited = self.begun.wait_timeout_while(loads, PATIENCE, |begun| *begun < 2).unwrap();
            assert!(!waited.1.timed_out(), "nothing runs beside it");
        }
        match self.fails {
            Some((fails, None)) if fails == number => None,
            Some((fails, Some(kind))) if fails == number => Some(Err(Failure {
                message: "made to fail".to_owned(),
                hint: String::new(),
                errno: None,
                kind,
            })),
            _ => Some(call.reply(&result(&call.load.seed.to_string()))),
        }
    }

    fn answer(&self, request: &Request, say: &mut dyn FnMut(Incoming)) -> Option<Result<Reply, Failure>> {
        if let Some(reply) = scripted::host(request) {
            return Some(reply);
        }
        Some(match request {
            Request::RunTool(run) => {
                let up = run.argv.get(1).is_some_and(|word| word == "up");
                let (stdout, stderr) = (if up { SERVED } else { "" }.to_owned(), String::new());
                run.reply(&ToolOutput { argv: run.argv.clone(), status: 0, stdout, stderr, elapsed_ns: 1 })
            }
            Request::Load(call) => {
                let note = call.load.directory.display().to_string();
                let (operations, elapsed_ns, share) = (1, 1, None);
                say(Incoming::Event(Event::Progress { operations, elapsed_ns, share, note }));
                return self.load(call);
            }
            _ => Ok(Reply::done()),
        })
    }
}

/// Events with the position of their trial.
#[derive(Default)]
struct Log(Vec<(Option<usize>, RunEvent)>);

impl RunObserver for Log {
    fn event(&mut self, event: RunEvent) {
        self.0.push((None, event));
    }

    fn event_of(&mut self, position: usize, event: RunEvent) {
        self.0.push((Some(position), event));
    }
}

struct Rig(tempfile::TempDir);

impl Rig {
    fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn run(&self, plot: Plot) -> (RunSummary, Log) {
        let study = self.0.path().join("s.toml");
        std::fs::write(&study, STUDY).unwrap();
        let options = RunOptions { study, store: Some(self.store()), jobs: 2, ..RunOptions::default() };
        let (plot, mut log) = (Arc::new(plot), Log::default());
        let mut start = || {
            let plot = Arc::clone(&plot);
            Ok::<Session, _>(Target::scripted(Box::new(move |request, say| plot.answer(request, say))))
        };
        let summary = run_study_with(&options, &mut log, &mut start).unwrap();
        (summary, log)
    }

    /// `None` on a host with one processor.
    fn new() -> Option<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (processors > 1).then(|| Self(tempfile::tempdir().unwrap()))
    }
}

#[test]
fn two_trials_run_at_the_same_time_and_each_event_says_whose_it_is() {
    let Some(rig) = Rig::new() else { return };
    let (summary, log) = rig.run(Plot::default());
    assert_eq!((summary.complete, summary.exit_code()), (4, 0));
    let ids: Vec<&str> = summary.trials.iter().map(|trial| trial.id.as_str()).collect();
    let mut open = Vec::new();
    let mut most = 0;
    for (position, event) in &log.0 {
        let Some(position) = position else {
            assert!(matches!(event, RunEvent::Planned { .. }), "{event:?}");
            continue;
        };
        match event {
            RunEvent::TrialStarted { position: own, trial, of, .. } => {
                assert_eq!((own, *of, trial.id.as_str()), (position, 4, ids[position - 1]));
                open.push(*position);
            }
            RunEvent::TrialFinished { id, state, .. } => {
                assert_eq!((id.as_str(), *state), (ids[position - 1], TrialState::Complete));
                open.retain(|other| other != position);
            }
            RunEvent::Progress { note, .. } => assert!(note.contains(ids[position - 1]), "{note}"),
            _ => assert!(open.contains(position), "{event:?}"),
        }
        most = most.max(open.len());
    }
    assert_eq!((most, open.len()), (2, 0));
    assert!(Journal::open(&rig.store()).unwrap().outstanding().is_empty());
}

#[test]
fn one_that_fails_leaves_the_one_beside_it_alone_and_is_tried_again() {
    for how in [Some(FailureKind::Failed), None] {
        let Some(rig) = Rig::new() else { return };
        let (summary, _) = rig.run(Plot { fails: Some((0, how)), ..Plot::default() });
        assert_eq!((summary.complete, summary.failed, summary.exit_code()), (3, 1, 4), "{how:?}");
        assert!(Journal::open(&rig.store()).unwrap().outstanding().is_empty(), "{how:?}");
        assert_eq!(std::fs::read_dir(rig.store().join("mounts")).map_or(0, Iterator::count), 0);
        // Alone, it has nobody to wait for.
        let (again, _) = rig.run(Plot { loads: Mutex::new(2), ..Plot::default() });
        assert_eq!((again.kept, again.complete, again.exit_code()), (3, 1, 0));
    }
}
