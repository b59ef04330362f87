//! Replays: at recorded times, with digests compared, resumed after an interruption, with reports of where they differ.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_engine::load::{self, Control, LoadSink, NoSink};
use fsage_engine::replay::{ReplayError, run_with};
use fsage_engine::trace::{self, Checkpoint, Preamble, Record, TraceWriter};
use fsage_engine::tree;
use fsage_model::load::{LoadSpec, Probe, StopReason, StopSpec, Tick, WriteMode};
use fsage_model::operation::{Action, DirectoryEntry, Operation, OperationKind as K, Outcome};
use fsage_model::replay::{ReplayOptions, ReplayResult, Speed};
use fsage_model::size::Bytes;
use fsage_model::warning::Warning;
use fsage_model::workload::{DirectorySpec, DriftSpec, SizeSpec, WorkloadSpec};

/// A folder on a real file system of the host.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn spec(directory: &Path, operations: u64) -> LoadSpec {
    let drift = DriftSpec {
        slots: 300,
        file_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(16 << 10) },
        io_size: SizeSpec::Fixed { size: Bytes(4 << 10) },
        directories: DirectorySpec { count: 10, fan_out: 4, depth: 2 },
        weights: K::ALL
            .into_iter()
            .filter(|kind| !matches!(kind, K::Fsync | K::Fdatasync))
            .map(|kind| (kind, 2.0))
            .collect(),
        ..DriftSpec::default()
    };
    LoadSpec {
        workload: WorkloadSpec::Drift(drift),
        directory: directory.to_owned(),
        threads: 2,
        seed: 3,
        stop: StopSpec { operations: Some(operations), ..StopSpec::default() },
        write_mode: WriteMode::Buffered,
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: true,
        deterministic: false,
        pace: None,
        continues: false,
    }
}

#[derive(Default)]
struct Kept(Vec<u8>);

impl LoadSink for Kept {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }
}

/// Records a load; its trace and digest.
fn record(below: &Path, operations: u64) -> (PathBuf, String) {
    let (directory, path) = (below.join("recorded"), below.join("trace.parquet"));
    std::fs::create_dir(&directory).unwrap();
    let mut kept = Kept::default();
    let result = load::run(&spec(&directory, operations), &Control::new(), &mut kept).unwrap();
    std::fs::write(&path, kept.0).unwrap();
    (path, result.digest)
}

/// Replays into a new directory `name`.
fn replay(
    path: &Path,
    below: &Path,
    name: &str,
    options: &ReplayOptions,
) -> Result<ReplayResult, ReplayError> {
    let directory = below.join(name);
    let _ = std::fs::create_dir(&directory);
    run_with(path, &directory, options, &Control::new(), &mut NoSink)
}

/// A file of 4 KiB; its identity is one more than its name.
fn operation(action: Action, name: u64) -> Operation {
    let size = if action == CREATE { 0 } else { 4096 };
    Operation { action, file: name + 1, place: DirectoryEntry { directory: 0, name }, size, version: 1 }
}

const CREATE: Action = Action::Create { length: 4096 };

/// A trace made by hand, of one thread.
fn written(below: &Path, rows: &[(Operation, u64)], checkpoints: &[Checkpoint]) -> PathBuf {
    let path = below.join("made.parquet");
    let load = LoadSpec { threads: 1, ..spec(Path::new("/nowhere"), 1) };
    let preamble = Preamble::of_load(load, vec![Vec::new()]);
    let mut writer = TraceWriter::new(std::fs::File::create(&path).unwrap(), &preamble).unwrap();
    for (sequence, (operation, start_ns)) in (0..).zip(rows) {
        let outcome = Outcome::default();
        let record = Record { thread: 0, sequence, operation: *operation, outcome, start_ns: *start_ns };
        writer.extend(&[record]).unwrap();
    }
    writer.finish(checkpoints).unwrap();
    path
}

#[test]
fn traces_of_older_formats_are_read_and_replayed() {
    // Written by the release that had format 2, which printed this digest.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace/format-2.parquet");
    let reader = trace::read(&path).unwrap();
    assert_eq!((reader.format(), reader.operations(), reader.checkpoints().len()), (2, 600, 0));
    assert_eq!((reader.preamble().prelude, &reader.preamble().origin), (0, &None));
    let folder = folder();
    let options = ReplayOptions { verify: true, ..ReplayOptions::default() };
    let result = replay(&path, folder.path(), "old", &options).unwrap();
    assert_eq!(result.load.digest, "ccc0597a0e3290fca5a63de8a20d190e");
    assert_eq!(result.replay.recorded_digest, None);
    assert!(!result.replay.differs(), "{:?}", result.replay);
}

#[test]
fn digests_are_compared_at_every_checkpoint() {
    let folder = folder();
    // Each of the two threads passes one checkpoint on its way, and has one at its end.
    let (path, digest) = record(folder.path(), 140_000);
    assert_eq!(trace::read(&path).unwrap().checkpoints().len(), 4);
    let options = ReplayOptions { verify: true, ..ReplayOptions::default() };
    let result = replay(&path, folder.path(), "again", &options).unwrap();
    assert_eq!((result.replay.checkpoints_matched, &result.replay.checkpoint_differs), (4, &None));
    assert_eq!((Some(&digest), &result.load.digest), (result.replay.recorded_digest.as_ref(), &digest));
    let verified = result.replay.verified.unwrap();
    assert!(verified.good_blocks > 0 && verified.bad_blocks.is_empty(), "{verified:?}");
}

#[test]
fn a_wrong_digest_and_a_failure_are_told_with_their_place() {
    let folder = folder();
    let digest = "00000000000000000000000000000007".parse().unwrap();
    let rows = [
        (operation(CREATE, 1), 0),
        // Nobody has made it.
        (operation(Action::Delete, 2), 0),
        (operation(Action::Read { length: 0 }, 1), 0),
    ];
    let path = written(folder.path(), &rows, &[Checkpoint { thread: 0, sequence: 3, digest }]);
    let options = ReplayOptions { verify: true, ..ReplayOptions::default() };
    let report = replay(&path, folder.path(), "made", &options).unwrap().replay;
    assert!(report.differs());
    let divergence = report.divergence.unwrap();
    assert_eq!((divergence.operation, divergence.thread, divergence.kind), (1, 0, K::Delete));
    assert_eq!((divergence.path.as_str(), divergence.found.as_str()), ("t00/f00000002", "ENOENT"));
    let differs = report.checkpoint_differs.unwrap();
    assert_eq!((differs.sequence, differs.expected.ends_with('7')), (3, true));
    assert_eq!(report.checkpoints_matched, 0);
}

#[test]
fn recorded_times_are_kept_and_lateness_is_told() {
    let folder = folder();
    let rows: Vec<_> = (0..20).map(|name| (operation(CREATE, name), name * 10_000_000)).collect();
    let path = written(folder.path(), &rows, &[]);
    for (name, speed, at_least_ns) in
        [("recorded", Speed::Times(1.0), 190_000_000), ("twice", Speed::Times(2.0), 95_000_000)]
    {
        let options = ReplayOptions { speed, ..ReplayOptions::default() };
        let result = replay(&path, folder.path(), name, &options).unwrap();
        assert!(result.load.elapsed_ns >= at_least_ns, "{name}: {}", result.load.elapsed_ns);
        assert_eq!(result.replay.lateness.unwrap().count, 20);
    }
    let result = replay(&path, folder.path(), "max", &ReplayOptions::default()).unwrap();
    assert_eq!(result.replay.lateness, None);
}

/// Ends the load as soon as it says that it is under way.
struct Stopper<'a>(&'a Control);

impl LoadSink for Stopper<'_> {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, operations: u64, _: u64, _: Option<f64>, _: &str) {
        if operations > 0 {
            self.0.stop();
        }
    }
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}

#[test]
fn an_interrupted_replay_goes_on_where_it_was() {
    let folder = folder();
    let (path, digest) = record(folder.path(), 60_000);
    let directory = folder.path().join("again");
    std::fs::create_dir(&directory).unwrap();
    let state = directory.join(".state");
    let options = ReplayOptions { verify: true, state: Some(state.clone()), ..ReplayOptions::default() };
    let resume = ReplayOptions { resume: true, ..options.clone() };
    let control = Control::new();
    let first = run_with(&path, &directory, &resume, &control, &mut Stopper(&control)).unwrap();
    assert!(first.load.operations > 0 && first.load.operations < 60_000, "{}", first.load.operations);
    assert!(state.exists() && first.replay.verified.is_none());

    let refused = run_with(&path, &directory, &options, &Control::new(), &mut NoSink).unwrap_err();
    assert!(matches!(refused, ReplayError::Interrupted { .. }), "{refused}");
    assert!(refused.hint().contains("--resume"), "{}", refused.hint());

    let second = run_with(&path, &directory, &resume, &Control::new(), &mut NoSink).unwrap();
    assert_eq!(second.replay.started_over, None);
    assert_eq!(second.replay.resumed_after, first.load.operations);
    assert_eq!(first.load.operations + second.load.operations, 60_000);
    assert_eq!(second.load.digest, digest);
    assert!(!second.replay.differs() && !state.exists(), "{:?}", second.replay);
    assert_eq!(tree::walk(&directory).unwrap(), tree::walk(&folder.path().join("recorded")).unwrap());
}

/// Bytes of a file that is all hole: reading it takes a quarter of an hour and more.
const HOLE: u64 = 4 << 40;

/// Ends the load when it says for the second time that this many operations are done: the next one is under way.
struct StopperAt<'a> {
    control: &'a Control,
    operations: u64,
    said: u32,
}

impl LoadSink for StopperAt<'_> {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, operations: u64, _: u64, _: Option<f64>, _: &str) {
        self.said += u32::from(operations == self.operations);
        if self.said > 1 {
            self.control.stop();
        }
    }
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}

#[test]
fn a_replay_in_a_long_read_can_be_stopped_and_reads_again_when_it_is_resumed() {
    let folder = folder();
    let read = Operation { size: HOLE, ..operation(Action::Read { length: HOLE }, 1) };
    let rows = [
        (operation(CREATE, 1), 0),
        (operation(Action::Truncate { new_size: HOLE }, 1), 0),
        (read, 0),
        (operation(Action::Delete, 1), 0),
    ];
    let path = written(folder.path(), &rows, &[]);
    let options = ReplayOptions { state: Some(folder.path().join("state")), ..ReplayOptions::default() };
    let resume = ReplayOptions { resume: true, ..options };
    let directory = folder.path().join("hole");
    std::fs::create_dir(&directory).unwrap();
    for resumed_after in [0, 2] {
        let (control, begun) = (Control::new(), Instant::now());
        let mut stopper = StopperAt { control: &control, operations: 2 - resumed_after, said: 0 };
        let result = run_with(&path, &directory, &resume, &control, &mut stopper).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
        assert_eq!(result.load.stopped_by, StopReason::Asked);
        assert_eq!((result.replay.resumed_after, result.load.operations), (resumed_after, 2 - resumed_after));
        assert!(result.load.failed.is_empty() && result.replay.divergence.is_none(), "{:?}", result.replay);
    }
}

/// Gives the load up a while after it has begun, and keeps its trace.
struct Abandoner<'a>(&'a Control, Kept);

impl LoadSink for Abandoner<'_> {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, operations: u64, _: u64, _: Option<f64>, _: &str) {
        if operations > 1 {
            self.0.abandon();
        }
    }
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, chunk: &[u8]) {
        self.1.trace_chunk(chunk);
    }
}

#[test]
fn a_load_that_is_given_up_in_long_writes_leaves_what_a_replay_of_its_trace_makes() {
    let folder = folder();
    let (directory, path) = (folder.path().join("recorded"), folder.path().join("trace.parquet"));
    std::fs::create_dir(&directory).unwrap();
    let large = SizeSpec::Uniform { min: Bytes(8 << 20), max: Bytes(48 << 20) };
    let drift = DriftSpec {
        slots: 12,
        file_size: large.clone(),
        io_size: large,
        weights: [K::Create, K::Overwrite, K::Append, K::RandomWrite, K::Delete]
            .map(|kind| (kind, 2.0))
            .into(),
        ..DriftSpec::default()
    };
    let spec = LoadSpec { workload: WorkloadSpec::Drift(drift), ..spec(&directory, 100_000) };
    let control = Control::new();
    let mut sink = Abandoner(&control, Kept::default());
    let result = load::run(&spec, &control, &mut sink).unwrap();
    assert_eq!(result.stopped_by, StopReason::Asked);
    std::fs::write(&path, &sink.1.0).unwrap();
    let again = replay(&path, folder.path(), "again", &ReplayOptions::default()).unwrap();
    assert_eq!((again.load.operations, &again.load.digest), (result.operations, &result.digest));
    assert!(!again.replay.differs(), "{:?}", again.replay);
    let trees = [directory, folder.path().join("again")].map(|directory| tree::walk(&directory).unwrap());
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn a_tree_that_was_changed_meanwhile_makes_a_replay_start_over() {
    let folder = folder();
    let (path, digest) = record(folder.path(), 40_000);
    let directory = folder.path().join("again");
    std::fs::create_dir(&directory).unwrap();
    let state = folder.path().join("state");
    let resume = ReplayOptions { resume: true, state: Some(state), ..ReplayOptions::default() };
    let control = Control::new();
    run_with(&path, &directory, &resume, &control, &mut Stopper(&control)).unwrap();
    let block = fsage_content_block();
    std::fs::write(directory.join("t00/fffffffff"), &block).unwrap();
    let own = directory.join("t01/somebody's notes");
    std::fs::write(&own, "text").unwrap();
    let refused = run_with(&path, &directory, &resume, &Control::new(), &mut NoSink).unwrap_err();
    assert!(matches!(&refused, ReplayError::Stranger { path } if *path == own), "{refused}");
    assert!(own.exists() && directory.join("t00/fffffffff").exists());
    std::fs::remove_file(&own).unwrap();
    let again = run_with(&path, &directory, &resume, &Control::new(), &mut NoSink).unwrap();
    assert!(again.replay.started_over.is_some() && again.replay.resumed_after == 0);
    assert_eq!((again.load.operations, again.load.digest), (40_000, digest));
}

/// A block as a load writes it.
fn fsage_content_block() -> Vec<u8> {
    let mut block = vec![0; 4096];
    fsage_content::fill(&mut block, 9, 0, 1);
    block
}

#[test]
fn a_state_of_another_replay_is_refused() {
    let folder = folder();
    let (path, _) = record(folder.path(), 40_000);
    let other = written(folder.path(), &[(operation(CREATE, 1), 0)], &[]);
    let directory = folder.path().join("again");
    std::fs::create_dir(&directory).unwrap();
    let options =
        ReplayOptions { resume: true, state: Some(folder.path().join("state")), ..ReplayOptions::default() };
    let control = Control::new();
    run_with(&path, &directory, &options, &control, &mut Stopper(&control)).unwrap();
    let refused = run_with(&other, &directory, &options, &Control::new(), &mut NoSink).unwrap_err();
    assert!(matches!(refused, ReplayError::OtherReplay { .. }), "{refused}");
    // What is there without a state is of a load, not of a replay.
    std::fs::remove_file(folder.path().join("state")).unwrap();
    let refused = run_with(&path, &directory, &options, &Control::new(), &mut NoSink).unwrap_err();
    assert!(matches!(refused, ReplayError::Load(load::LoadError::Leftover { .. })), "{refused}");
}
