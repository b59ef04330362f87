//! A load that continues with the files of an earlier one: what is on the volume is what its model says, and all
//! data verifies, also where files were deleted or the tree was copied in between.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use std::path::Path;

use fsage_engine::load::{Control, LoadError, NoSink, run};
use fsage_engine::location::Anchor;
use fsage_engine::{copy, free, tree, verify};
use fsage_model::load::{LoadResult, LoadSpec, StopSpec, WriteMode};
use fsage_model::operation::OperationKind as K;
use fsage_model::size::Bytes;
use fsage_model::workload::{DirectorySpec, DriftSpec, FsfbSpec, SizeSpec, WorkloadSpec};

fn drift() -> DriftSpec {
    let weights =
        [(K::Create, 6.0), (K::Append, 4.0), (K::Truncate, 1.0), (K::RandomWrite, 2.0), (K::Delete, 2.0)];
    let tree = [(K::Rename, 1.0), (K::Mkdir, 0.5), (K::Rmdir, 0.5)];
    DriftSpec {
        slots: 300,
        weights: weights.into_iter().chain(tree).collect(),
        // Also files too short to say whose they are.
        file_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(9_000) },
        io_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(6_000) },
        directories: DirectorySpec { count: 20, fan_out: 4, depth: 3 },
        ..DriftSpec::default()
    }
}

fn spec(directory: &Path, drift: DriftSpec, seed: u64, continues: bool) -> LoadSpec {
    LoadSpec {
        workload: WorkloadSpec::Drift(drift),
        directory: directory.to_owned(),
        threads: 2,
        seed,
        stop: StopSpec { operations: Some(3000), ..StopSpec::default() },
        write_mode: WriteMode::Buffered,
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: false,
        deterministic: false,
        pace: None,
        continues,
    }
}

fn load(spec: &LoadSpec) -> LoadResult {
    let result = run(spec, &Control::new(), &mut NoSink).unwrap();
    assert!(result.failed.is_empty(), "{:?}", result.failed);
    result
}

/// What is there is what the load says, and every block is what it was written as.
fn assert_is(directory: &Path, result: &LoadResult) {
    let found = tree::walk(directory).unwrap();
    assert_eq!((found.file_names, found.bytes), (result.files, result.live_bytes));
    let verified = verify::run(directory, 1, false).unwrap();
    assert!(verified.bad_blocks.is_empty() && verified.foreign_files == 0, "{verified:?}");
    assert_eq!(verified.files, result.files);
}

#[test]
fn a_load_continues_where_another_ended_whatever_happened_since() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = folders.each_ref().map(tempfile::TempDir::path);
    assert_is(first, &load(&spec(first, drift(), 1, false)));
    let again = load(&spec(first, drift(), 2, true));
    assert_is(first, &again);
    // Files are deleted, and the rest is copied.
    let anchor = Anchor::at(first).unwrap();
    let freed = free::run_in(&anchor, 0.3, 5, &Control::new(), &mut NoSink).unwrap();
    assert!(freed.files.abs_diff(again.files * 3 / 10) <= 1, "{freed:?} of {}", again.files);
    let copied = copy::run(first, second, &Control::new(), &mut NoSink).unwrap();
    assert_eq!(copied.files, again.files - freed.files);
    let results = [first, second].map(|directory| load(&spec(directory, drift(), 3, true)));
    assert_is(first, &results[0]);
    assert_is(second, &results[1]);
    // What follows depends on what is there, not on how it came there.
    assert_eq!(results[0].digest, results[1].digest);
    assert!(results[0].digest != again.digest && results[0].operations == 3000);
}

#[test]
fn what_cannot_be_continued_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let refused = |spec: &LoadSpec| run(spec, &Control::new(), &mut NoSink).unwrap_err();
    assert!(
        matches!(refused(&spec(directory, drift(), 1, true)), LoadError::Left { .. }),
        "nothing is there"
    );
    load(&spec(directory, drift(), 1, false));
    let few = DriftSpec { slots: 20, ..drift() };
    let error = refused(&spec(directory, few, 2, true));
    assert!(error.to_string().contains("raise `slots`"), "{error}");
    let other =
        LoadSpec { workload: WorkloadSpec::Fsfb(FsfbSpec::default()), ..spec(directory, drift(), 2, true) };
    assert!(refused(&other).to_string().contains("only `drift`"));
    // A link, and a file of somebody else's.
    std::os::unix::fs::symlink("f00000000", directory.join("t00/f0fffffff")).unwrap();
    let error = refused(&spec(directory, drift(), 2, true));
    assert!(error.to_string().contains("symbolic link"), "{error}");
    std::fs::remove_file(directory.join("t00/f0fffffff")).unwrap();
    std::fs::write(directory.join("t01/notes"), "mine").unwrap();
    let error = refused(&spec(directory, drift(), 2, true));
    assert!(matches!(error, LoadError::Left { .. }) && error.to_string().contains("t01/notes"), "{error}");
    assert!(!error.hint().is_empty());
    std::fs::remove_file(directory.join("t01/notes")).unwrap();
    load(&spec(directory, drift(), 2, true));
}
