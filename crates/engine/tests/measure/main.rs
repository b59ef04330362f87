//! Measures on real volumes: what each of them must keep to, and that age shows in the block requests.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests may panic and say what they saw"
)]

#[path = "../../../sys/tests/support/skip.rs"]
mod skip;
mod volume;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fsage_engine::copy;
use fsage_engine::host::held::HeldDevices;
use fsage_engine::load::{Control, NoSink};
use fsage_engine::location::Anchor;
use fsage_engine::measure::{FOLDER, MeasureError, Order, make_folder, remove_folder, run};
use fsage_engine::verify;
use fsage_model::measure::{
    AppendSpec, ColdRandomReadSpec, CreateSpec, DeleteSpec, Effect, GrepSpec, LargeFileSpec, MeasureResult,
    MeasureSpec, registry,
};
use fsage_model::size::Bytes;
use fsage_model::warning::WarningKind;
use volume::{KINDS, Volume, plant};

fn measure(spec: MeasureSpec, directory: &Path, seed: u64) -> Result<MeasureResult, MeasureError> {
    // Tests run at the same time.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let trace_instance = Some(format!("fsage-test-{}-{number}", std::process::id()));
    let order = Order {
        measure: spec,
        directory: directory.into(),
        device: None,
        seed,
        trace_instance,
        mark: None,
        extra: None,
    };
    run(&order, &HeldDevices::default(), &Control::new(), &mut NoSink)
}

/// Names below a directory with their sizes, sorted.
fn names(root: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            let path = entry.path().strip_prefix(root).unwrap().display().to_string();
            if metadata.is_dir() {
                waiting.push(entry.path());
                found.push((path, 0));
            } else {
                found.push((path, metadata.len()));
            }
        }
    }
    found.sort();
    found
}

/// Every measure of the engine with the work it does being small.
fn all() -> Vec<MeasureSpec> {
    let small = |spec: MeasureSpec| match spec {
        MeasureSpec::ColdRandomRead(_) => {
            Some(MeasureSpec::ColdRandomRead(ColdRandomReadSpec { reads: 200, readahead: false }))
        }
        MeasureSpec::Create(_) => {
            Some(MeasureSpec::Create(CreateSpec { files: Some(50), ..CreateSpec::default() }))
        }
        MeasureSpec::LargeFile(_) => {
            let size = Some(Bytes(20 << 20));
            Some(MeasureSpec::LargeFile(LargeFileSpec { size, ..LargeFileSpec::default() }))
        }
        MeasureSpec::Fio(_) => None,
        other => Some(other),
    };
    registry().into_iter().filter_map(|line| small(line.default)).collect()
}

/// Whether the traces of this host can be read; says `skipped` when not.
fn sees_requests(result: &MeasureResult) -> bool {
    if let Some(warning) = result.warnings.iter().find(|warning| warning.kind == WarningKind::NoRequests) {
        skip::skip(format!("block requests cannot be seen here: {}", warning.message));
        return false;
    }
    true
}

/// What every measure must keep to, on one volume: a tree and its copy are asked the same; the tree is as it
/// was unless the measure says otherwise; the data stays what it says it is; nothing of the trace is left.
fn contract(kind: &str) {
    let Some(volume) = Volume::new(kind) else { return };
    let (old, other) = (volume.folder("old"), volume.folder("other"));
    plant(&old);
    let copied = copy::run(&old, &other, &Control::new(), &mut NoSink).unwrap();
    assert_eq!((copied.files, &copied.digest_from), (300, &copied.digest_to));
    for spec in all() {
        let before = copy::tree_digest(&old).unwrap();
        volume.remount();
        let name = spec.name();
        let result = measure(spec.clone(), &old, 7).unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        println!("{kind} {name}: {}", serde_json::to_string(&result).unwrap());
        assert_eq!(result.name, name);
        assert!(result.elapsed_ns > 0 && result.files > 0 && result.operations > 0, "{result:?}");
        assert!(!result.metrics.is_empty() && result.metrics.iter().all(|metric| metric.value.is_finite()));
        let mut metrics: Vec<_> = result.metrics.iter().map(|metric| &metric.name).collect();
        metrics.sort();
        metrics.dedup();
        assert_eq!(metrics.len(), result.metrics.len(), "{kind} {name}: a metric twice");
        if sees_requests(&result) {
            let requests = result.requests.as_ref().unwrap();
            assert_eq!(requests.lost_events, 0);
            let writes = spec.effect() != Effect::Nothing;
            let moved = if writes { &requests.writes } else { &requests.reads };
            assert!(moved.requests > 0 && moved.bytes > 0, "{kind} {name}: {requests:?}");
            assert!(moved.mean_service_ns.is_some(), "{kind} {name}: {requests:?}");
        }
        let expected = [WarningKind::NoRequests, WarningKind::CpuBound];
        let warnings: Vec<_> = result.warnings.iter().filter(|w| !expected.contains(&w.kind)).collect();
        assert!(warnings.is_empty(), "{kind} {name}: {warnings:?}");

        let after = copy::tree_digest(&old).unwrap();
        assert_eq!(after != before, spec.changes_tree(), "{kind} {name}");
        let again = measure(spec, &other, 7).unwrap();
        assert_eq!((again.bytes, again.files), (result.bytes, result.files), "{kind} {name}");
        assert_eq!(copy::tree_digest(&other).unwrap(), after, "{kind} {name} chose others in the copy");
        let verified = verify::run(&volume.point, 1, false).unwrap();
        assert!(verified.bad_blocks.is_empty() && verified.foreign_files == 0, "{kind} {name}: {verified:?}");
    }
    assert_eq!(names(&old), names(&other));
    // Tests beside this one have instances of their own while they measure; one that stays is left behind.
    let own = format!("test-{}-", std::process::id());
    let mut left = trace_instances();
    left.retain(|name| name.contains(&own));
    let started = Instant::now();
    while !left.is_empty() && started.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
        let still = trace_instances();
        left.retain(|name| still.contains(name));
    }
    assert_eq!(left, [] as [String; 0], "left behind");
}

/// Trace instances, as far as tracefs is mounted anywhere.
fn trace_instances() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let point = words.next()?;
        (words.next()? == "tracefs").then_some(point.to_owned())
    });
    let entries = points.filter_map(|point| fs::read_dir(Path::new(&point).join("instances")).ok());
    entries
        .flat_map(|entries| entries.flatten())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_measure_keeps_its_contract_on_ext4() {
    contract(KINDS[0]);
}

#[test]
fn every_measure_keeps_its_contract_on_xfs() {
    contract(KINDS[1]);
}

#[test]
fn every_measure_keeps_its_contract_on_btrfs() {
    contract(KINDS[2]);
}

/// Takes all free space with files of 64 KiB (space only, no data), gives every second of them back, and
/// takes what is in large pieces (what the file system had reserved for itself, for one).
fn shatter(volume: &Volume) {
    let filler = volume.folder("filler");
    let take = |number: u32| {
        let file = File::create(filler.join(number.to_string()))?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 64 << 10)
            .map_err(std::io::Error::from)
    };
    let taken = (0..100_000).take_while(|&number| take(number).is_ok()).count();
    assert!(taken > 1000, "{taken}");
    for number in (0..taken).step_by(2) {
        fs::remove_file(filler.join(number.to_string())).unwrap();
    }
    volume.remount();
    let rest = File::create(filler.join("rest")).unwrap();
    rustix::fs::fallocate(&rest, rustix::fs::FallocateFlags::empty(), 0, 64 << 20).unwrap();
    rest.sync_all().unwrap();
}

/// A file of 8 MiB on a fresh volume against one in free space that is in pieces.
#[test]
fn a_fragmented_file_needs_more_requests_and_scores_lower() {
    const SIZE: usize = 8 << 20;
    for kind in KINDS {
        let Some(volume) = Volume::new(kind) else { return };
        let write = |folder: &str| {
            let file = File::create(volume.folder(folder).join("file")).unwrap();
            file.write_all_at(&vec![0x5a; SIZE], 0).unwrap();
            file.sync_all().unwrap();
        };
        write("contiguous");
        shatter(&volume);
        write("fragmented");
        let found = ["contiguous", "fragmented"].map(|folder| {
            let folder = volume.folder(folder);
            volume.remount();
            measure(MeasureSpec::Grep(GrepSpec::default()), &folder, 1).unwrap()
        });
        assert!(found.iter().all(|result| result.bytes == SIZE as u64));
        if !found.iter().all(sees_requests) {
            return;
        }
        let [contiguous, fragmented] = found.map(|result| result.requests.unwrap().reads);
        println!("{kind}: contiguous {contiguous:?}\n{kind}: fragmented {fragmented:?}");
        assert!(fragmented.requests > 2 * contiguous.requests, "{kind}: {fragmented:?} {contiguous:?}");
        assert!(fragmented.layout_score < contiguous.layout_score, "{kind}: {fragmented:?} {contiguous:?}");
        assert!(fragmented.mean_bytes < contiguous.mean_bytes / 2.0, "{kind}");
    }
}

#[test]
fn a_full_volume_ends_create_with_a_warning_and_is_free_again_afterwards() {
    let Some(volume) = Volume::new("ext4") else { return };
    let old = volume.folder("old");
    let file_size = fsage_model::workload::SizeSpec::Fixed { size: Bytes(4 << 20) };
    let spec = CreateSpec { files: Some(1000), file_size, ..CreateSpec::default() };
    let before = fsage_engine::host::cache::usage(&old).unwrap().used_bytes;
    let result = measure(MeasureSpec::Create(spec), &old, 1).unwrap();
    assert!(
        result.warnings.iter().any(|warning| warning.kind == WarningKind::VolumeFull),
        "{:?}",
        result.warnings
    );
    assert!((50..130).contains(&result.files), "{}", result.files);
    assert_eq!(names(&old), []);
    let after = fsage_engine::host::cache::usage(&old).unwrap().used_bytes;
    assert!(after < before + (1 << 20), "{before} {after}");
}

#[test]
fn senseless_orders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |spec: MeasureSpec, said: &str| {
        let order = Order {
            measure: spec,
            directory: folder.path().into(),
            device: None,
            seed: 1,
            trace_instance: None,
            mark: None,
            extra: None,
        };
        let error = run(&order, &HeldDevices::default(), &Control::new(), &mut NoSink).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    };
    refused(MeasureSpec::Grep(GrepSpec { read_size: Bytes(1) }), "`read_size` = 1B: must be 4KiB to 16MiB");
    refused(MeasureSpec::ColdRandomRead(ColdRandomReadSpec { reads: 0, readahead: true }), "`reads` = 0");
    refused(MeasureSpec::Create(CreateSpec { files: Some(0), ..CreateSpec::default() }), "`files` = 0");
    refused(MeasureSpec::Create(CreateSpec { free_share: 1.0, ..CreateSpec::default() }), "`free_share` = 1");
    refused(MeasureSpec::Append(AppendSpec { size: Bytes(0), ..AppendSpec::default() }), "`size` = 0B");
    refused(MeasureSpec::Delete(DeleteSpec { file_share: f64::NAN }), "`file_share` = NaN");
    refused(MeasureSpec::Delete(DeleteSpec::default()), "there are no files");
    refused(MeasureSpec::by_name("fio").unwrap(), "the lab runs it");
    fs::create_dir(folder.path().join("fsage-measure")).unwrap();
    refused(MeasureSpec::Create(CreateSpec { files: Some(1), ..CreateSpec::default() }), "already exists");
}

#[test]
fn the_folder_of_a_measure_is_made_once_and_removed_with_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (folder.path().join(FOLDER), folder.path().join("other"));
    fs::create_dir(&others).unwrap();
    fs::write(others.join("file"), "x").unwrap();
    let directory = Anchor::at(folder.path()).unwrap();
    make_folder(&directory).unwrap();
    assert!(ours.is_dir());
    fs::create_dir(ours.join("deep")).unwrap();
    fs::write(ours.join("deep/file"), "x").unwrap();
    assert!(matches!(make_folder(&directory), Err(MeasureError::Leftover { path }) if path == ours));
    assert!(ours.join("deep/file").exists(), "what was there is not touched");
    remove_folder(&directory).unwrap();
    assert!(!ours.exists());
    remove_folder(&directory).unwrap();
    std::os::unix::fs::symlink(&others, &ours).unwrap();
    assert!(matches!(make_folder(&directory), Err(MeasureError::Leftover { .. })));
    let _ = remove_folder(&directory);
    assert!(others.join("file").exists(), "a link is not followed");
}
