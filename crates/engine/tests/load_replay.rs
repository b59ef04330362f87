//! Traces of loads on real file systems, and their replay.

#![allow(clippy::unwrap_used, reason = "a test's way to fail and to say what it skips")]

mod load_rig;

use std::path::Path;

use fsage_engine::load::{Control, NoSink};
use fsage_engine::{replay, trace, tree};
use fsage_model::load::{LoadResult, LoadSpec, StopReason, StopSpec};
use fsage_model::operation::OperationKind;
use fsage_model::quantity::share;
use fsage_model::size::Bytes;
use fsage_model::workload::DriftSpec;

use load_rig::{EXT2, Kept, MKFS, Volume, assert_good, full_mix, load, spec};

#[test]
fn a_replayed_trace_leaves_the_same_tree() {
    let Some(volume) = Volume::new("ext4", 384) else { return };
    let directory = volume.directory();
    let spec = LoadSpec { threads: 3, trace: true, ..spec(&directory, full_mix(), 9000) };
    let (result, kept) = load(&spec);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    std::fs::write(&path, &kept.trace).unwrap();
    let records: Vec<_> = trace::read(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!(records.len(), 9000);
    let each = share(u64::try_from(kept.trace.len()).unwrap(), 9000);
    assert!(each < 20.0, "{each} bytes per operation");
    for thread in 0..3 {
        let own = records.iter().filter(|record| record.thread == thread);
        assert!(own.enumerate().all(|(place, record)| record.sequence == u64::try_from(place).unwrap()));
    }
    let Some(other) = Volume::new("xfs", 384) else { return };
    let copy = other.directory();
    let replayed = replay::run(&path, &copy, &Control::new(), &mut NoSink).unwrap();
    assert_eq!((replayed.files, replayed.live_bytes), (result.files, result.live_bytes));
    assert_eq!(tree::walk(&copy).unwrap(), tree::walk(&directory).unwrap());
    assert_good(&copy, result.files);
}

/// Replays what a load left of a trace, and says what came of it.
fn replayed(kept: &Kept, directory: &Path) -> LoadResult {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    std::fs::write(&path, &kept.trace).unwrap();
    replay::run(&path, directory, &Control::new(), &mut NoSink).unwrap()
}

#[test]
fn a_replay_ends_with_the_digest_of_the_load() {
    for (kind, _) in MKFS.into_iter().chain([EXT2]) {
        let (Some(volume), Some(other)) = (Volume::new(kind, 384), Volume::new(kind, 384)) else { return };
        let spec = LoadSpec { threads: 2, trace: true, ..spec(&volume.directory(), full_mix(), 8000) };
        let (result, kept) = load(&spec);
        assert_eq!(result.failed.is_empty(), kind != "ext2", "{kind}: {:?}", result.failed);
        let again = replayed(&kept, &other.directory());
        assert_eq!(again.digest, result.digest, "{kind}");
        assert!(again.failed.is_empty() && again.digest_caveats.is_empty(), "{again:?}");
        assert_good(&other.directory(), result.files);
    }
}

#[test]
fn writes_that_failed_when_recorded_are_in_the_digest_of_a_replay() {
    let Some(volume) = Volume::new("ext4", 64) else { return };
    let Some(roomy) = Volume::new("ext4", 384) else { return };
    let drift = DriftSpec {
        weights: [(OperationKind::Create, 3.0), (OperationKind::Append, 12.0), (OperationKind::Delete, 2.0)]
            .into_iter()
            .collect(),
        ..full_mix()
    };
    let spec = LoadSpec { trace: true, ..spec(&volume.directory(), drift, 20_000) };
    let (result, kept) = load(&spec);
    assert!(result.failed["ENOSPC"] > 10, "{:?}", result.failed);
    let again = replayed(&kept, &roomy.directory());
    assert!(again.failed.is_empty(), "{again:?}");
    assert_eq!((again.digest, again.files), (result.digest, result.files));
}

#[test]
fn threads_of_unequal_length_are_replayed_whole() {
    let Some(volume) = Volume::new("ext4", 384) else { return };
    let directory = volume.directory();
    let stop = StopSpec { bytes: Some(Bytes(200 << 20)), ..StopSpec::default() };
    let spec = LoadSpec { threads: 2, trace: true, stop, ..spec(&directory, full_mix(), 0) };
    let (result, kept) = load(&spec);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    std::fs::write(&path, &kept.trace).unwrap();
    let first = trace::read(&path).unwrap().map(Result::unwrap).filter(|record| record.thread == 0).count();
    assert_ne!(u64::try_from(first * 2).unwrap(), result.operations, "the threads did unequal numbers");
    let Some(other) = Volume::new("ext4", 384) else { return };
    let copy = other.directory();
    let replayed = replay::run(&path, &copy, &Control::new(), &mut NoSink).unwrap();
    assert_eq!((replayed.operations, replayed.files), (result.operations, result.files));
    assert_eq!(replayed.stopped_by, StopReason::Ended);
    assert_eq!(tree::walk(&copy).unwrap(), tree::walk(&directory).unwrap());
}

#[test]
fn damaged_traces_are_errors() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let spec = LoadSpec { trace: true, ..spec(&volume.directory(), full_mix(), 2000) };
    let (_, kept) = load(&spec);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let read = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        trace::read(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>)
    };
    let whole = &kept.trace;
    assert_eq!(read(whole).unwrap().len(), 2000);
    for length in [12, 100, whole.len() / 2, whole.len() - 1] {
        let error = read(&whole[..length]).unwrap_err();
        assert!(matches!(error, trace::TraceError::Truncated { .. }), "{error}");
    }
    assert!(matches!(read(b"not a trace at all").unwrap_err(), trace::TraceError::Damaged { .. }));
    // Damage anywhere is reported or harmless; it never ends the program.
    let mut errors = 0;
    for place in (4..whole.len()).step_by(whole.len() / 150) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0xa5;
        errors += u32::from(read(&damaged).is_err());
    }
    assert!(errors > 20, "{errors}");
}
