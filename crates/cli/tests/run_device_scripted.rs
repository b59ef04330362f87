//! A real device with a scripted agent: what it says of its wear around each stage, and preconditioning once.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod scripted;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::run::{RunEvent, RunObserver, RunOptions, RunSummary, TrialState, run_study_with};
use fsage_lab::store::{Reader, Store};
use fsage_lab::target::{Session, Target, TargetError};
use fsage_model::fio::{FioRun, FioSample, Settled};
use fsage_model::precondition::PreconditionRecord;
use fsage_model::protocol::{
    BlockFacts, Call as _, DeviceIdentity, Failure, FailureKind, HostFacts, Reply, Request, ToolOutput,
};
use fsage_model::record::{StageRecord, TrialRecord};
use fsage_model::warning::WarningKind;
use fsage_model::wear::{WearCounter, WearDifference, WearKind, WearReading, changes};

const STUDY: &str = r#"
name = "worn"
title = "t"
question = "q"
seed = 3
repeats = 2
volume = { kind = "device", path = "/dev/disk/by-id/scripted" }
[file_system]
kind = "bare"
[[stage]]
kind = "precondition"
runtime = 1.0
round = 0.2
[[stage]]
kind = "fio"
rw = "randread"
size = "64MiB"
runtime = 1.0
"#;

const DEVICE_BYTES: u64 = 105 << 20;
/// What preconditioning writes of it.
const REGION: u64 = 100 << 20;

struct Plot {
    serial: &'static str,
    /// Random writes become steady.
    steady: bool,
    /// The device has no counters, and says why.
    silent: bool,
    /// A run of fio of this number fails.
    fails: Option<usize>,
    /// What fio says it is, and its engines.
    fio: (&'static str, &'static str),
    /// Bytes that hosts wrote.
    written: u64,
    /// Command lines of fio.
    ran: Vec<String>,
    /// Bytes from which on random writes may end.
    from: Vec<u64>,
    asked: Vec<String>,
}

impl Default for Plot {
    fn default() -> Self {
        Self {
            serial: "S1",
            steady: true,
            silent: false,
            fails: None,
            fio: ("fio-3.33", "libaio"),
            written: 512_000,
            ran: Vec::new(),
            from: Vec::new(),
            asked: Vec::new(),
        }
    }
}

fn reading(plot: &Plot) -> WearReading {
    let counter = |kind, name: &str, value, step| WearCounter { kind, name: name.to_owned(), value, step };
    let counters = vec![
        counter(WearKind::HostWritten, "data_units_written", plot.written, 512_000),
        counter(WearKind::Used, "percentage_used", 4, 1),
    ];
    let device = PathBuf::from("/dev/scripted0");
    if plot.silent {
        let missing = "smartctl: the program smartctl is not installed".to_owned();
        return WearReading { device, missing, ..WearReading::default() };
    }
    WearReading {
        device,
        serial: plot.serial.to_owned(),
        source: "smartctl -j -x /dev/scripted0".to_owned(),
        counters,
        missing: String::new(),
    }
}

fn fio(plot: &mut Plot, argv: &[String]) -> FioRun {
    plot.ran.push(argv.join(" "));
    let value = |key: &str| argv.iter().find_map(|word| word.strip_prefix(&format!("--{key}="))).unwrap();
    let bytes: u64 = value("size").parse().unwrap();
    let way = if value("rw").ends_with("write") { "write" } else { "read" };
    if way == "write" {
        plot.written += bytes;
    }
    let json = format!(
        r#"{{"fio version":"fio-3.33","jobs":[{{"jobname":"x","error":0,"job_runtime":1000,"usr_cpu":1.0,"sys_cpu":1.0,"ctx":5,
            "{way}":{{"total_ios":100,"io_bytes":{bytes},"runtime":1000,"clat_ns":{{"mean":5.0,"max":9}}}}}}]}}"#
    );
    let sample = FioSample { at_ms: 200, interval_ms: 200, operations: 20, bytes: 20 << 20 };
    let ended_steady = plot.steady && value("rw") == "randwrite";
    FioRun { json, ended_steady, samples: vec![sample; 5], ..FioRun::default() }
}

fn answer(plot: &mut Plot, request: &Request) -> Option<Result<Reply, Failure>> {
    plot.asked.push(request.name());
    Some(match request {
        Request::HostFacts(call) => {
            let tools = [("fio".to_owned(), plot.fio.0.to_owned())].into();
            call.reply(&HostFacts { tools, memory_bytes: 1 << 20, ..HostFacts::default() })
        }
        Request::BlockFacts(call) => call.reply(&BlockFacts {
            path: "/dev/scripted0".into(),
            disk: "scripted0".into(),
            size_bytes: DEVICE_BYTES,
            sector_bytes: 512,
            model: "EXAMPLE SSD".to_owned(),
            serial: plot.serial.to_owned(),
            exclusive: true,
            identity: DeviceIdentity {
                sequence: Some(7),
                size_bytes: DEVICE_BYTES,
                ..DeviceIdentity::default()
            },
            ..BlockFacts::default()
        }),
        Request::WearCounters(call) => {
            assert_eq!(call.device, PathBuf::from("/dev/scripted0"));
            call.reply(&Some(reading(plot)))
        }
        Request::SettleDevice(call) => {
            assert_eq!(call.directory, None, "nothing is mounted on a bare device");
            call.reply(&Settled { elapsed_ns: 50_000_000, quiet: true, ..Settled::default() })
        }
        Request::RunTool(call) => {
            let argv = call.argv.clone();
            let (stdout, stderr) = (format!("Available IO engines:\n\t{}\n", plot.fio.1), String::new());
            call.reply(&ToolOutput { argv, status: 0, stdout, stderr, elapsed_ns: 1 })
        }
        Request::RunFio(call) if plot.fails == Some(plot.ran.len()) => {
            plot.ran.push(call.argv.join(" "));
            let (message, hint) = ("made to fail".to_owned(), String::new());
            Err(Failure { message, hint, errno: None, kind: FailureKind::Failed })
        }
        Request::RunFio(call) => {
            let is_random_write = call.argv.iter().any(|word| word == "--rw=randwrite");
            plot.from.extend(call.steady_from.filter(|_| is_random_write));
            call.reply(&fio(plot, &call.argv))
        }
        Request::HostActivity(_) | Request::RemoveMade(_) | Request::Usage(_) => {
            return scripted::host(request);
        }
        _ => Ok(Reply::done()),
    })
}

struct Log;

impl RunObserver for Log {
    fn event(&mut self, _: RunEvent) {}
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

    fn run(&self) -> RunSummary {
        let options = RunOptions {
            study: self.directory.path().join("s.toml"),
            store: Some(self.store()),
            erase: vec!["/dev/disk/by-id/scripted".to_owned()],
            ..RunOptions::default()
        };
        let mut start = || -> Result<Session, TargetError> {
            let plot = Arc::clone(&self.plot);
            Ok(Target::scripted(Box::new(move |request, _| answer(&mut plot.lock().unwrap(), request))))
        };
        run_study_with(&options, &mut Log, &mut start).unwrap()
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// In the order in which they ran.
    fn trials(&self) -> Vec<TrialRecord> {
        let mut trials = Store::open(&self.store()).unwrap().trials();
        trials.sort_by_key(|trial| precondition(trial).taken_from.is_some());
        trials
    }

    fn asked_from(&self) -> Vec<u64> {
        self.plot.lock().unwrap().from.clone()
    }

    fn passes(&self) -> usize {
        let region = format!("--size={REGION}");
        let plot = self.plot.lock().unwrap();
        plot.ran.iter().filter(|line| line.contains("--rw=write") && line.contains(&region)).count()
    }
}

fn precondition(trial: &TrialRecord) -> &PreconditionRecord {
    trial.stages.iter().find_map(StageRecord::precondition).unwrap()
}

fn states(summary: &RunSummary) -> Vec<TrialState> {
    summary.trials.iter().map(|trial| trial.state).collect()
}

#[test]
fn a_device_is_preconditioned_once_and_its_wear_is_read_around_each_stage() {
    let stage = Stage::new(Plot::default());
    assert_eq!(states(&stage.run()), [TrialState::Complete; 2]);
    assert_eq!(stage.passes(), 2);
    let trials = stage.trials();
    let (first, second) = (precondition(&trials[0]), precondition(&trials[1]));
    assert!(first.is_steady() && first.taken_from.is_none(), "{first:?}");
    assert_eq!(first.passes.iter().map(|pass| pass.bytes).collect::<Vec<_>>(), [REGION; 2]);
    assert_eq!(second.taken_from.as_deref(), Some(trials[0].id.as_str()));
    assert_eq!((second.made.as_str(), second.passes.len()), (first.made.as_str(), 2));
    for (trial, did) in [(&trials[0], true), (&trials[1], false)] {
        let names: Vec<&str> = trial.wear.iter().map(|wear| wear.stage.as_str()).collect();
        assert_eq!(names, ["precondition", "fio"]);
        let moved = |index: usize| {
            let wear = &trial.wear[index];
            changes(&wear.before, &wear.after).iter().map(|change| change.difference()).collect::<Vec<_>>()
        };
        let wrote = if did { WearDifference::By(3 * REGION) } else { WearDifference::BelowStep(512_000) };
        assert_eq!(moved(0), [wrote, WearDifference::BelowStep(1)]);
        assert_eq!(moved(1), [WearDifference::By(64 << 20), WearDifference::BelowStep(1)]);
        let commands = trial.commands.join("\n");
        assert_eq!(commands.contains("--rw=randwrite"), did, "{commands}");
    }
    // What the stage wrote is on the device before its counters are read again.
    let asked = stage.plot.lock().unwrap().asked.clone();
    let settled = asked.iter().rposition(|name| name == "settle-device").unwrap();
    assert_eq!(asked[settled + 1], "wear-counters");
    let page = render(&Reader::open(&stage.store()).unwrap(), &ReportOptions::default()).unwrap();
    for text in ["Device wear counters", "less than 1 %", "2 sequential passes, random writes steady"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_run_that_resumes_does_not_precondition_again_and_another_device_is() {
    let stage = Stage::new(Plot { steady: false, ..Plot::default() });
    // The point of the first trial fails after the device was done: two passes, random writes, the layout.
    stage.plot.lock().unwrap().fails = Some(4);
    let _ = stage.run();
    stage.plot.lock().unwrap().fails = None;
    let mut resumed = states(&stage.run());
    resumed.sort_by_key(|state| *state == TrialState::Kept);
    assert_eq!(resumed, [TrialState::Complete, TrialState::Kept]);
    assert_eq!(stage.passes(), 2);
    // Random writes that were not steady go on in each trial, after what the trials before wrote.
    let mut before: Vec<u64> = Vec::new();
    for trial in stage.trials() {
        let did = precondition(&trial);
        assert!(did.continues.is_some() && did.taken_from.is_none() && !did.is_steady(), "{did:?}");
        assert!(trial.warnings.iter().any(|warning| warning.kind == WarningKind::NotSteady));
        assert_eq!((did.passes.len(), did.write.bytes), (2, REGION));
        before.push(did.earlier_bytes);
    }
    before.sort_unstable();
    assert_eq!(before, [REGION, 2 * REGION]);
    assert_eq!(stage.asked_from(), [REGION, REGION / 10, REGION / 10]);
    std::fs::remove_dir_all(stage.store().join("trials")).unwrap();
    stage.plot.lock().unwrap().serial = "S2";
    assert_eq!(states(&stage.run()), [TrialState::Complete; 2]);
    assert_eq!(stage.passes(), 4);
}

#[test]
fn an_interrupted_preconditioning_and_a_device_without_a_number_are_done_again() {
    let stage = Stage::new(Plot::default());
    // Random writes of the first trial fail.
    stage.plot.lock().unwrap().fails = Some(2);
    let _ = stage.run();
    assert_eq!(stage.passes(), 4, "the second trial has no preconditioned device");
    let nameless = Stage::new(Plot { serial: "", ..Plot::default() });
    assert_eq!(states(&nameless.run()), [TrialState::Complete; 2]);
    assert_eq!(nameless.passes(), 4);
    assert!(nameless.trials().iter().all(|trial| precondition(trial).taken_from.is_none()));
}

#[test]
fn an_fio_that_is_too_old_or_lacks_the_engine_writes_nothing_to_the_device() {
    for (fio, said) in [
        (("fio-3.32", "libaio"), "fio-3.32 is too old: at least fio 3.33 is needed"),
        (("fio-3.33", "psync"), "this fio has no engine `libaio`"),
    ] {
        let stage = Stage::new(Plot { fio, ..Plot::default() });
        let summary = stage.run();
        for trial in &summary.trials {
            assert!(trial.state == TrialState::Failed && trial.error.contains(said), "{trial:?}");
        }
        let ran = stage.plot.lock().unwrap().ran.clone();
        assert!(!summary.trials.is_empty() && ran.is_empty(), "{ran:?}");
        // With another fio the same store goes on.
        stage.plot.lock().unwrap().fio = Plot::default().fio;
        assert_eq!(states(&stage.run()), [TrialState::Complete; 2]);
    }
}

#[test]
fn a_device_that_does_not_tell_is_no_failure_and_the_reason_is_kept() {
    let stage = Stage::new(Plot { silent: true, ..Plot::default() });
    assert_eq!(states(&stage.run()), [TrialState::Complete; 2]);
    for trial in stage.trials() {
        assert!(trial.wear.iter().all(|wear| wear.before.counters.is_empty() && wear.after == wear.before));
    }
    let page = render(&Reader::open(&stage.store()).unwrap(), &ReportOptions::default()).unwrap();
    assert!(page.contains("No counters of /dev/scripted0: smartctl: the program smartctl is not installed."));
}
