//! Loads on real file systems: the tree they leave, the data in it, and what they do when something gives
//! out.

#![allow(clippy::unwrap_used, reason = "a test's way to fail and to say what it skips")]

mod load_rig;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsage_engine::load::{Control, LoadError, LoadSink, NoSink, run};
use fsage_engine::{tree, verify};
use fsage_model::load::{AgeTarget, LoadResult, LoadSpec, Probe, StopReason, StopSpec, Tick, WriteMode};
use fsage_model::operation::OperationKind;
use fsage_model::quantity::share;
use fsage_model::size::Bytes;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use fsage_model::workload::{DriftSpec, SizeSpec, UtilisationSpec, WorkloadSpec};
use fsage_sys::mount;

use load_rig::{MKFS, Volume, assert_clean, assert_good, full_mix, load, spec};

#[test]
fn the_same_seed_leaves_the_same_tree_everywhere() {
    for threads in [1, 4] {
        let mut seen: Vec<(LoadResult, tree::Shape)> = Vec::new();
        for (kind, _) in MKFS {
            let Some(volume) = Volume::new(kind, 384) else { return };
            let directory = volume.directory();
            let spec = LoadSpec { threads, probe_every: 3000, ..spec(&directory, full_mix(), 10_000) };
            let (result, kept) = load(&spec);
            assert_clean(&result);
            assert_eq!((result.operations, result.stopped_by), (10_000, StopReason::Operations));
            assert_eq!(
                kept.probes.iter().map(|probe| probe.operations).collect::<Vec<_>>(),
                [3000, 6000, 9000, 10_000]
            );
            let ticked: u64 =
                kept.ticks.iter().flat_map(|tick| tick.latency.values()).map(|summary| summary.count).sum();
            assert_eq!(ticked, 10_000, "every success is in one tick");
            assert!(result.device_bytes_written.is_some_and(|bytes| bytes > 0), "{kind} has a device");
            volume.remount();
            assert_good(&directory, result.files);
            seen.push((result, tree::walk(&directory).unwrap()));
        }
        assert!(seen.iter().all(|(result, shape)| result.digest == seen[0].0.digest && *shape == seen[0].1));
    }
}

#[test]
fn every_write_mode_leaves_verified_data() {
    for (kind, _) in MKFS {
        for mode in [WriteMode::Direct, WriteMode::Fast] {
            let Some(volume) = Volume::new(kind, 384) else { return };
            let directory = volume.directory();
            let mut drift = DriftSpec { fsync_probability: 0.0, fdatasync_probability: 0.0, ..full_mix() };
            // Its space beyond the ends of files stays unwritten, and nothing else may.
            drift.weights.remove(&OperationKind::Fallocate);
            let (result, _) = load(&LoadSpec { write_mode: mode, ..spec(&directory, drift, 3000) });
            assert_clean(&result);
            volume.remount();
            assert_good(&directory, result.files);
            if mode == WriteMode::Fast {
                assert!(result.materialise_ns > 0);
                let before = result.device_bytes_before_materialise.unwrap();
                assert!(before < result.device_bytes_written.unwrap());
                if kind != "btrfs" {
                    assert_eq!(result.layout.unwritten_bytes, 0, "{kind}: all data is written");
                }
            }
        }
    }
}

#[test]
fn verify_finds_damage_on_the_device() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let directory = volume.directory();
    load(&spec(&directory, DriftSpec { slots: 100, ..full_mix() }, 1000));
    let victim = largest(&directory);
    let file = File::options().write(true).open(&victim).unwrap();
    file.write_at(b"damage", 4096 + 700).unwrap();
    drop(file);
    let found = verify::run(&directory, 0, false).unwrap();
    assert_eq!(found.bad_blocks.values().sum::<u64>(), 1, "{found:?}");
    assert_eq!(found.findings[0].offset, 4096);
    assert!(victim.ends_with(&found.findings[0].path));
}

fn largest(directory: &Path) -> PathBuf {
    let mut waiting = vec![directory.to_owned()];
    let mut best = (0, PathBuf::new());
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                waiting.push(entry.path());
            } else if facts.is_file() && facts.len() > best.0 {
                best = (facts.len(), entry.path());
            }
        }
    }
    best.1
}

#[test]
fn fullness_is_held() {
    for (kind, _) in MKFS {
        for threads in [1, 2] {
            let Some(volume) = Volume::new(kind, 384) else { return };
            // A small btrfs is out of space for metadata long before it is full.
            let target = if kind == "btrfs" { 0.7 } else { 0.85 };
            let drift = DriftSpec {
                slots: 40_000,
                file_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(128 << 10) },
                utilisation: Some(UtilisationSpec::Hold { target }),
                ..DriftSpec::default()
            };
            let spec = LoadSpec { threads, probe_every: 3000, ..spec(&volume.directory(), drift, 15_000) };
            let (result, kept) = load(&spec);
            let used: Vec<f64> =
                kept.probes.iter().skip(2).map(|probe| share(probe.used_bytes, probe.total_bytes)).collect();
            assert!(used.len() >= 3);
            assert!(used.iter().all(|used| (used - target).abs() <= 0.01), "{kind} {threads}: {used:?}");
            assert!(!result.digest_caveats.is_empty());
        }
    }
}

#[test]
fn upkeep_releases_what_it_should() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let drift = DriftSpec {
        slots: 100_000,
        file_size: SizeSpec::Fixed { size: Bytes(64 << 10) },
        weights: [(OperationKind::Create, 1.0)].into(),
        utilisation: Some(UtilisationSpec::Maintain { max: 0.5, free: 0.2, check_operations: 200 }),
        ..DriftSpec::default()
    };
    let (result, kept) = load(&LoadSpec { probe_every: 1000, ..spec(&volume.directory(), drift, 6000) });
    assert_eq!(result.succeeded[&OperationKind::Create], 6000);
    for probe in &kept.probes {
        let used = share(probe.used_bytes, probe.total_bytes);
        assert!(used < 0.58, "{used}");
    }
    assert!(result.files < 6000);
}

#[test]
fn a_full_volume_is_survived_or_ends_the_load() {
    for (kind, _) in MKFS {
        let Some(volume) = Volume::new(kind, 320) else { return };
        let directory = volume.directory();
        let drift = DriftSpec {
            slots: 100_000,
            file_size: SizeSpec::Uniform { min: Bytes(64 << 10), max: Bytes(8 << 20) },
            weights: [
                (OperationKind::Create, 4.0),
                (OperationKind::Append, 4.0),
                (OperationKind::Delete, 1.0),
            ]
            .into(),
            ..DriftSpec::default()
        };
        let (result, _) = load(&spec(&directory, drift.clone(), 1500));
        assert!(result.failed["ENOSPC"] > 0, "{:?}", result.failed);
        assert_eq!(result.operations, 1500);
        assert!(result.digest_caveats.iter().any(|caveat| caveat.contains("ENOSPC")));
        let shape = tree::walk(&directory).unwrap();
        assert_eq!(
            (shape.file_names, shape.bytes),
            (result.files, result.live_bytes),
            "{kind}: nothing half made"
        );
        assert_good(&directory, result.files);
        drop(volume);
        let Some(volume) = Volume::new(kind, 320) else { return };
        let stop = StopSpec { full: true, ..StopSpec::default() };
        let (result, _) = load(&LoadSpec { stop, ..spec(&volume.directory(), drift, 0) });
        assert_eq!(result.stopped_by, StopReason::Full);
    }
}

#[test]
fn bytes_seconds_and_age_end_a_load() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let directory = volume.directory();
    let stop = |stop: StopSpec| LoadSpec { stop, probe_every: 1000, ..spec(&directory, full_mix(), 0) };
    let reason = |spec: &LoadSpec| {
        let (result, _) = load(spec);
        std::fs::remove_dir_all(directory.join("t00")).unwrap();
        (result.stopped_by, result)
    };
    let (by, result) = reason(&stop(StopSpec { bytes: Some(Bytes(20 << 20)), ..StopSpec::default() }));
    assert_eq!(by, StopReason::Bytes);
    assert!((20 << 20..21 << 20).contains(&result.bytes_written), "{}", result.bytes_written);
    let (by, result) = reason(&stop(StopSpec { seconds: Some(0.3), ..StopSpec::default() }));
    assert_eq!(by, StopReason::Seconds);
    assert!((250_000_000..600_000_000).contains(&result.elapsed_ns), "{}", result.elapsed_ns);
    let age = AgeTarget { volume_overwrites: Some(0.2), extents_per_file: Some(1.0), ..AgeTarget::default() };
    let (by, result) = reason(&stop(StopSpec { age: Some(age), ..StopSpec::default() }));
    assert_eq!((by, result.operations % 1000), (StopReason::Age, 0));
}

#[test]
fn an_age_that_needs_no_probe_is_reached_without_one() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let age = AgeTarget { volume_overwrites: Some(0.5), ..AgeTarget::default() };
    let stop = StopSpec { age: Some(age), ..StopSpec::default() };
    let spec = LoadSpec { stop, write_mode: WriteMode::Fast, ..spec(&volume.directory(), full_mix(), 0) };
    let (result, kept) = load(&spec);
    assert_eq!(result.stopped_by, StopReason::Age);
    assert!(share(result.bytes_written, kept.probes[0].total_bytes) >= 0.5);
    assert_eq!((result.probes, kept.probes.len()), (1, 1), "the last only");
    assert!(kept.probes[0].layout.is_none() && result.probe_ns > 0);
}

#[test]
fn probes_that_do_not_fit_their_share_are_left_out() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let spec =
        LoadSpec { probe_every: 100, probe_layout: true, ..spec(&volume.directory(), full_mix(), 6000) };
    let (all, _) = load(&spec);
    std::fs::remove_dir_all(volume.directory().join("t00")).unwrap();
    let (few, _) = load(&LoadSpec { probe_share: Some(0.05), ..spec });
    assert_eq!(all.probes, 60);
    assert!((2..30).contains(&few.probes), "{}", few.probes);
    assert_eq!(all.digest, few.digest);
}

#[test]
fn the_layout_is_that_of_the_run_and_of_nothing_beside_it() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let directory = volume.directory();
    std::fs::create_dir(directory.join("others")).unwrap();
    for name in 0..200 {
        std::fs::write(directory.join("others").join(name.to_string()), vec![1; 10_000]).unwrap();
    }
    std::fs::write(directory.join("note"), "x").unwrap();
    let mut drift = full_mix();
    // A file with two names is one in a layout.
    drift.weights.remove(&OperationKind::Link);
    let spec = LoadSpec { probe_every: 1000, probe_layout: true, ..spec(&directory, drift, 2000) };
    let (result, kept) = load(&spec);
    assert_eq!(result.layout.files, result.files);
    assert_eq!(kept.probes[0].layout.as_ref().unwrap().files, kept.probes[0].files);
}

#[test]
fn a_volume_without_inodes_is_told_from_one_without_blocks() {
    let Some(volume) = Volume::with("ext4", 64, &["-q", "-b", "4096", "-N", "512"]) else { return };
    let drift = DriftSpec {
        slots: 100_000,
        file_size: SizeSpec::Fixed { size: Bytes(4096) },
        weights: [(OperationKind::Create, 1.0)].into(),
        ..DriftSpec::default()
    };
    for stop in [
        StopSpec { full: true, ..StopSpec::default() },
        StopSpec { operations: Some(6000), ..StopSpec::default() },
    ] {
        let spec = LoadSpec { stop, ..spec(&volume.directory(), drift.clone(), 0) };
        let (result, kept) = load(&spec);
        assert_eq!(result.stopped_by, StopReason::Inodes);
        assert!(result.failed_without_inode > 0 && result.failed["ENOSPC"] == result.failed_without_inode);
        assert!(
            kept.warnings.iter().any(|warning| warning.kind == WarningKind::NoInodes),
            "{:?}",
            kept.warnings
        );
        std::fs::remove_dir_all(volume.directory().join("t00")).unwrap();
    }
    // A directory that cannot be made says it by its hint.
    let mut name = 0;
    while std::fs::write(volume.point.join(format!("rest{name}")), "").is_ok() {
        name += 1;
    }
    let error = run(&spec(&volume.directory(), drift, 10), &Control::new(), &mut NoSink).unwrap_err();
    assert!(error.hint().contains("no free inode"), "{error}: {}", error.hint());
}

#[test]
fn pause_and_stop_are_obeyed_and_not_counted() {
    let Some(volume) = Volume::new("ext4", 300) else { return };
    let spec = LoadSpec {
        threads: 2,
        stop: StopSpec { seconds: Some(60.0), ..StopSpec::default() },
        ..spec(&volume.directory(), full_mix(), 0)
    };
    let control = Control::new();
    let (sender, notes) = crossbeam_channel::unbounded();
    std::thread::scope(|scope| {
        let (control, spec) = (&control, &spec);
        let load = scope.spawn(move || run(spec, control, &mut Notes(sender)).unwrap());
        let first = notes.recv_timeout(Duration::from_secs(20)).unwrap();
        control.pause();
        // The first note that is reported while paused, and a later one: nothing moves between them.
        let paused: Vec<(u64, u64)> =
            std::iter::repeat_with(|| notes.recv_timeout(Duration::from_secs(20)).unwrap())
                .filter(|(_, _, note)| note == "paused")
                .take(4)
                .map(|(operations, elapsed, _)| (operations, elapsed))
                .collect();
        assert!(paused[1..].windows(2).all(|pair| pair[0].0 == pair[1].0), "{paused:?}");
        assert!(paused[3].1 - paused[1].1 < 100_000_000, "time stands still: {paused:?}");
        control.resume();
        let moved = std::iter::repeat_with(|| notes.recv_timeout(Duration::from_secs(20)).unwrap())
            .take(100)
            .any(|(operations, ..)| operations > paused[3].0);
        assert!(moved && first.0 <= paused[0].0);
        control.stop();
        let result = load.join().unwrap();
        assert_eq!(result.stopped_by, StopReason::Asked);
        assert!(result.elapsed_ns < 60_000_000_000);
    });
}

/// Passes progress on.
struct Notes(crossbeam_channel::Sender<(u64, u64, String)>);

impl LoadSink for Notes {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, operations: u64, elapsed_ns: u64, _: Option<f64>, note: &str) {
        let _ = self.0.send((operations, elapsed_ns, note.to_owned()));
    }
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}

/// Asks for the end at the last probe, which is before files are written in place, or gives all up there.
struct StopAtProbe<'a>(&'a Control, fn(&Control));

impl LoadSink for StopAtProbe<'_> {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {
        self.1(self.0);
    }
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}

#[test]
fn data_is_written_in_place_when_a_load_is_stopped_and_not_when_it_is_given_up() {
    for (kind, _) in MKFS {
        let Some(volume) = Volume::new(kind, 384) else { return };
        let directory = volume.directory();
        let mut drift = full_mix();
        // Its space beyond the ends of files stays unwritten.
        drift.weights.remove(&OperationKind::Fallocate);
        let spec = LoadSpec { write_mode: WriteMode::Fast, ..spec(&directory, drift, 500) };
        let control = Control::new();
        let stopped = run(&spec, &control, &mut StopAtProbe(&control, Control::stop)).unwrap();
        assert!(stopped.materialised && stopped.materialise_ns > 0, "{kind}");
        assert_good(&directory, stopped.files);

        std::fs::remove_dir_all(directory.join("t00")).unwrap();
        let control = Control::new();
        let left = run(&spec, &control, &mut StopAtProbe(&control, Control::abandon)).unwrap();
        assert!(!left.materialised && left.layout.unwritten_bytes > 0, "{kind}");
        assert!(left.digest_caveats.iter().any(|caveat| caveat.contains("not written")));
        let found = verify::run(&directory, 0, false).unwrap();
        assert!(found.bad_blocks["unwritten"] > 0 && found.good_blocks == 0, "{kind}: {found:?}");
        // btrfs writes zeros to the rest of a block in which a file is cut off.
        let zeros = found.bad_blocks.get("zero").copied().unwrap_or(0);
        assert!(if kind == "btrfs" { zeros < 100 } else { zeros == 0 }, "{kind}: {:?}", found.bad_blocks);
        assert!(found.findings.iter().any(|finding| finding.what.contains("fast mode")), "{kind}");
    }
}

#[test]
fn a_load_that_cannot_begin_touches_nothing() {
    let missing = spec(Path::new("/nonexistent/fsage"), full_mix(), 10);
    let error = |spec: &LoadSpec| run(spec, &Control::new(), &mut NoSink).unwrap_err();
    assert!(matches!(error(&missing), LoadError::Directory { .. }));
    let folder = tempfile::tempdir().unwrap();
    let fine = spec(folder.path(), full_mix(), 10);
    for threads in [0, 65] {
        assert!(matches!(error(&LoadSpec { threads, ..fine.clone() }), LoadError::Spec { .. }));
    }
    assert!(matches!(error(&LoadSpec { stop: StopSpec::default(), ..fine.clone() }), LoadError::Spec { .. }));
    let weightless = WorkloadSpec::Drift(DriftSpec { weights: [].into(), ..full_mix() });
    assert!(matches!(error(&LoadSpec { workload: weightless, ..fine.clone() }), LoadError::Workload { .. }));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::create_dir_all(folder.path().join("t01/left")).unwrap();
    assert!(matches!(error(&LoadSpec { threads: 2, ..fine }), LoadError::Leftover { .. }));
    assert!(!folder.path().join("t00").exists());
    let Some(volume) = Volume::new("ext4", 300) else { return };
    fsage_engine::host::mount::unmount(&volume.point).unwrap();
    mount::mount(&volume.device, &volume.point, "ext4", &["ro".to_owned()]).unwrap();
    let error = error(&spec(&volume.point, full_mix(), 10));
    assert!(error.hint().contains("read-only"), "{error}");
}

#[test]
fn a_device_that_goes_away_ends_the_load() {
    for (kind, _) in MKFS {
        let Some(volume) = Volume::new(kind, 320) else { return };
        let spec = LoadSpec {
            stop: StopSpec { seconds: Some(60.0), ..StopSpec::default() },
            write_mode: WriteMode::Direct,
            ..spec(&volume.directory(), full_mix(), 0)
        };
        // Only what the mount and mkfs wrote at the very front stays.
        File::options().write(true).open(&volume.file).unwrap().set_len(1 << 20).unwrap();
        assert!(Command::new("losetup").arg("-c").arg(&volume.device).status().unwrap().success());
        let error = run(&spec, &Control::new(), &mut NoSink).unwrap_err();
        let reported = matches!(error, LoadError::DeviceFailed { .. } | LoadError::System { .. });
        assert!(reported || matches!(error, LoadError::Directory { .. }), "{kind}: {error}");
    }
}
