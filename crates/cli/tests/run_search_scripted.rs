//! Searches with a scripted agent: the path, failures, resuming, and what a store refuses.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod scripted;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fsage_analysis::report::answer::{Answer, Tuned};
use fsage_analysis::report::{ReportOptions, answer as answer_of, render};
use fsage_lab::plan::Plan;
use fsage_lab::run::{RunError, RunEvent, RunObserver, RunOptions, RunSummary, run_study_with};
use fsage_lab::store::Reader;
use fsage_lab::target::{Session, Target, TargetError};
use fsage_model::layout::LayoutSummary;
use fsage_model::load::LoadResult;
use fsage_model::protocol::{
    Call as _, DeviceBytes, Failure, FailureKind, Reply, Request, Scanned, ToolOutput,
};
use fsage_model::verify::VerifyResult;

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
[search]
budget = 30
null = ["same"]
score = [{ metric = "age.operations_per_s" }]
[search.option.noatime]
"file_system.options.ext4.mount" = ["noatime"]
[search.option.discard]
"file_system.options.ext4.mount" = ["discard"]
[search.option.commit-30]
"file_system.options.ext4.mount" = ["commit=30"]
[search.option.same]
"#;

#[derive(Default)]
struct Notes(Vec<String>);

impl RunObserver for Notes {
    fn event(&mut self, event: RunEvent) {
        if let RunEvent::Note { text } = event {
            self.0.push(text);
        }
    }
}

/// What the scripted agents do wrong.
#[derive(Default)]
struct World {
    /// Loads that are answered; further ones fail.
    loads: Option<usize>,
    /// A mount option that the kernel does not take.
    refused: Option<&'static str>,
    /// A mount option with which the agent is lost.
    lost_at: Option<&'static str>,
    /// Options of the last mount.
    mounted: Vec<String>,
    done: usize,
}

fn load_result(elapsed_ns: u64) -> LoadResult {
    let result = serde_json::json!({
        "operations": 100, "missed": 0, "elapsed_ns": elapsed_ns, "failed": {}, "succeeded": {},
        "bytes_written": 1, "bytes_read": 0, "cpu_user_ns": 1, "cpu_sys_ns": 1, "materialise_ns": 0, "digest": "d",
        "digest_caveats": [], "stopped_by": "operations", "latency": {}, "layout": LayoutSummary::default(),
        "overhead_ns_per_operation": 1.0, "files": 10, "live_bytes": 1,
    });
    serde_json::from_value(result).unwrap()
}

fn failure(message: &str) -> Failure {
    Failure { message: message.to_owned(), hint: String::new(), errno: None, kind: FailureKind::Failed }
}

/// 1 s, 10 % less with `noatime`, and up to 1 % of noise that depends on the options and the seed alone.
fn elapsed_ns(options: &[String], seed: &str) -> u64 {
    let text = format!("{options:?} {seed}");
    let noise = text.bytes().fold(17_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let base = if options.iter().any(|option| option == "noatime") { 900_000_000 } else { 1_000_000_000 };
    base + noise % 10_000_000
}

fn answer(world: &mut World, request: &Request) -> Option<Result<Reply, Failure>> {
    if let Some(reply) = scripted::host(request) {
        return Some(reply);
    }
    Some(match request {
        Request::Mount(call) => {
            world.mounted.clone_from(&call.options);
            if world.lost_at.is_some_and(|lost| call.options.iter().any(|option| option == lost)) {
                return None;
            }
            match world.refused {
                Some(refused) if call.options.iter().any(|option| option == refused) => {
                    Err(failure("invalid argument"))
                }
                _ => Ok(Reply::done()),
            }
        }
        Request::Load(call) if world.loads.is_none_or(|most| world.done < most) => {
            world.done += 1;
            let seed = serde_json::to_value(call).unwrap().to_string();
            let seed = seed.split("seed").nth(1).unwrap_or_default().chars().take(24).collect::<String>();
            call.reply(&load_result(elapsed_ns(&world.mounted, &seed)))
        }
        Request::Load(_) => Err(failure("no more loads")),
        Request::RunTool(run) => {
            let (argv, stdout, stderr) = (run.argv.clone(), String::new(), String::new());
            run.reply(&ToolOutput { argv, status: 0, stdout, stderr, elapsed_ns: 5 })
        }
        Request::Scan(call) => call.reply(&Scanned { layout: LayoutSummary::default(), elapsed_ns: 1 }),
        Request::Verify(call) => call.reply(&VerifyResult { good_blocks: 20, ..VerifyResult::default() }),
        Request::DeviceBytes(call) => call.reply(&Some(DeviceBytes { read: 1, written: 1 })),
        Request::FreeSpace(_) | Request::Places(_) => Err(failure("not told")),
        _ => Ok(Reply::done()),
    })
}

/// A study in a folder of its own.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("s.toml"), STUDY).unwrap();
        Self { directory }
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn run(&self, world: World, set: &[&str]) -> (Result<RunSummary, RunError>, Vec<String>) {
        let study = self.directory.path().join("s.toml");
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        let options = RunOptions { study, store: Some(self.store()), set, ..RunOptions::default() };
        let world = Arc::new(Mutex::new(world));
        let mut start = || -> Result<Session, TargetError> {
            let world = Arc::clone(&world);
            Ok(Target::scripted(Box::new(move |request, _| answer(&mut world.lock().unwrap(), request))))
        };
        let mut notes = Notes::default();
        let summary = run_study_with(&options, &mut notes, &mut start);
        (summary, notes.0)
    }

    fn answer(&self) -> Answer {
        answer_of(&Reader::open(&self.store()).unwrap(), &ReportOptions::default()).unwrap()
    }

    fn tuned(&self) -> Tuned {
        self.answer().tuned.remove(0)
    }
}

fn plan(store: &Path) -> Plan {
    serde_json::from_slice(&std::fs::read(store.join("plan.json")).unwrap()).unwrap()
}

#[test]
fn a_search_runs_block_by_block_and_recommends_what_fresh_runs_confirm() {
    let bench = Bench::new();
    let (summary, notes) = bench.run(World::default(), &[]);
    let summary = summary.unwrap();
    assert_eq!((summary.exit_code(), summary.pending, summary.failed), (0, 0, 0), "{notes:?}");
    assert!(summary.complete <= 30 && summary.complete > 12, "{}", summary.complete);
    assert!(notes.iter().any(|note| note.contains("confirmation is next")), "{notes:?}");
    let found = bench.tuned();
    assert!(found.is_over && !found.is_model && found.runs == summary.complete, "{found:?}");
    assert_eq!(found.recommended, ["noatime"]);
    let confirmed = found.confirmation.as_ref().unwrap();
    assert!(confirmed.low_90 > 0.08 && confirmed.high_90 < 0.14, "{confirmed:?}");
    let control = found.options.iter().find(|option| option.name == "same").unwrap();
    assert!(control.is_null && !control.is_kept, "{control:?}");
    let lines = bench.answer().lines();
    assert!(lines.len() <= 10 && lines[0].contains("use noatime; confirmed: +1"), "{lines:?}");
    let page = render(&Reader::open(&bench.store()).unwrap(), &ReportOptions::default()).unwrap();
    for wanted in ["Option search", "Gain per option", "nothing: a control", "confirmation"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // Nothing is left to do.
    let (again, _) = bench.run(World { loads: Some(0), ..World::default() }, &[]);
    let again = again.unwrap();
    assert_eq!((again.kept, again.complete, again.exit_code()), (summary.complete, 0, 0));
}

#[test]
fn a_search_that_was_stopped_resumes_to_the_same_path() {
    let whole = Bench::new();
    whole.run(World::default(), &[]).0.unwrap();
    let bench = Bench::new();
    let (summary, notes) = bench.run(World { loads: Some(11), ..World::default() }, &[]);
    let summary = summary.unwrap();
    assert_eq!((summary.complete, summary.exit_code()), (11, 4));
    assert!(notes.iter().any(|note| note.contains("will be run again")), "{notes:?}");
    let stopped = notes.iter().find(|note| note.contains("stopped: a block is not complete")).unwrap();
    assert!(stopped.contains("no more loads"), "{stopped}");
    assert!(bench.tuned().text().contains("the search is not over (8 of at most 30 runs)"));
    let (resumed, _) = bench.run(World::default(), &[]);
    let resumed = resumed.unwrap();
    assert_eq!((resumed.kept, resumed.exit_code()), (11, 0));
    let ids = |store: &Path| plan(store).trials.into_iter().map(|trial| trial.id).collect::<Vec<_>>();
    assert_eq!(ids(&bench.store()), ids(&whole.store()));
    assert_eq!(bench.tuned(), whole.tuned());
}

#[test]
fn a_run_that_is_lost_is_done_again() {
    let bench = Bench::new();
    bench.run(World::default(), &[]).0.unwrap();
    let found = bench.tuned();
    let lost = &plan(&bench.store()).trials[3].id;
    let record = bench.store().join("trials").join(lost).join("trial.json");
    std::fs::write(&record, "{").unwrap();
    let (summary, _) = bench.run(World::default(), &[]);
    let summary = summary.unwrap();
    assert_eq!((summary.complete, summary.exit_code()), (1, 0), "{:?}", summary.damaged);
    assert_eq!(bench.tuned(), found);
    // The greedy search decides by other runs, and is another study.
    let (refused, _) = bench.run(World::default(), &["search.method=greedy"]);
    let error = fsage_model::problem::Problem::from(refused.unwrap_err()).render(false);
    assert!(error.contains("its search, or what the search runs, was another one"), "{error}");
}

#[test]
fn the_published_search_keeps_the_largest_gain_of_single_runs() {
    let bench = Bench::new();
    let (summary, _) = bench.run(World::default(), &["search.method=greedy"]);
    assert_eq!(summary.unwrap().exit_code(), 0);
    let found = bench.tuned();
    assert!(found.recommended.is_empty() && found.unconfirmed.contains(&"noatime".to_owned()), "{found:?}");
    assert!(found.text().contains("by single runs and unconfirmed"), "{}", found.text());
}

#[test]
fn an_option_that_the_kernel_refuses_is_left_out_with_the_reason() {
    let bench = Bench::new();
    let world = World { refused: Some("discard"), loads: Some(5), ..World::default() };
    let (summary, notes) = bench.run(world, &[]);
    let summary = summary.unwrap();
    assert_eq!((summary.complete, summary.exit_code()), (5, 4));
    let left_out = notes.iter().find(|note| note.contains("`discard` is left out")).unwrap();
    assert!(left_out.contains("invalid argument"), "{left_out}");
    // It is not tried again once runs are there.
    let (summary, notes) = bench.run(World::default(), &[]);
    assert_eq!(summary.unwrap().exit_code(), 0);
    assert!(!notes.iter().any(|note| note.contains("left out")), "{notes:?}");
    let found = bench.tuned();
    assert_eq!((found.refused.as_slice(), found.options.len()), (["discard".to_owned()].as_slice(), 3));
    assert_eq!(found.recommended, ["noatime"]);
    assert!(found.gains().ends_with("; left out, because they fail here: discard."), "{}", found.gains());
    let folders = std::fs::read_dir(bench.store().join("trials")).unwrap().count();
    assert_eq!(folders, plan(&bench.store()).trials.len(), "attempts leave no trials");
}

#[test]
fn a_base_that_fails_refuses_no_option() {
    let bench = Bench::new();
    let set = ["file_system.options.ext4.mount=[\"lazytime\"]"];
    let (summary, notes) = bench.run(World { refused: Some("lazytime"), ..World::default() }, &set);
    assert_eq!(summary.unwrap().exit_code(), 4);
    assert!(notes.iter().any(|note| note.contains("failed twice")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("left out")), "{notes:?}");
}

#[test]
fn a_score_that_no_run_has_stops_the_search_until_the_study_names_another() {
    let bench = Bench::new();
    let set = ["search.score=[{ metric = \"age.disk_erases\" }]"];
    let mut runs = 0;
    for _ in 0..2 {
        let (summary, notes) = bench.run(World::default(), &set);
        let summary = summary.unwrap();
        let stopped = notes.iter().find(|note| note.contains("has no score")).unwrap();
        assert!(stopped.contains("no metric `age.disk_erases`"), "{stopped}");
        assert_eq!((summary.exit_code(), &summary.stopped), (4, &vec![stopped.clone()]));
        runs += summary.complete;
    }
    let (summary, _) = bench.run(World::default(), &[]);
    let summary = summary.unwrap();
    assert_eq!((summary.kept, summary.exit_code()), (runs, 0), "other metrics of the same runs");
    assert_eq!(bench.tuned().recommended, ["noatime"]);
}

#[test]
fn an_agent_that_is_lost_says_nothing_of_the_options() {
    let bench = Bench::new();
    let world = World { lost_at: Some("discard"), ..World::default() };
    let (ended, notes) = bench.run(world, &[]);
    assert!(matches!(ended, Err(RunError::Target(_))), "{ended:?}");
    assert!(!notes.iter().any(|note| note.contains("left out")), "{notes:?}");
}

#[test]
fn a_search_whose_options_all_fail_stops() {
    let bench = Bench::new();
    let set = ["search.only=[\"discard\", \"same\"]"];
    let (summary, notes) = bench.run(World { refused: Some("discard"), ..World::default() }, &set);
    let summary = summary.unwrap();
    assert_eq!((summary.exit_code(), summary.trials.len()), (4, 0), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("`discard` is left out")), "{notes:?}");
    assert!(summary.stopped[0].contains("every option fails here on its own"), "{:?}", summary.stopped);
}
