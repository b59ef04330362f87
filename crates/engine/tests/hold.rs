//! Use of a real volume is held at its target, and the tree on it is what the load says it is.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use fsage_engine::load::{Control, LoadSink, run};
use fsage_model::load::{LoadSpec, Probe, StopSpec, Tick, WriteMode};
use fsage_model::operation::OperationKind as K;
use fsage_model::quantity::share;
use fsage_model::size::Bytes;
use fsage_model::warning::Warning;
use fsage_model::workload::{DriftSpec, SizeSpec, UtilisationSpec, WorkloadSpec};
use fsage_sys::{loopdev, mount};

/// A mounted file system on a sparse file; gone when dropped, also by a panic.
struct Volume {
    device: PathBuf,
    point: PathBuf,
    _folder: tempfile::TempDir,
}

impl Volume {
    fn new(kind: &str, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("mounting needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("volume");
        File::create(&file).unwrap().set_len(400 << 20).unwrap();
        let point = folder.path().join("mount");
        fs::create_dir(&point).unwrap();
        let attach = loopdev::AttachOptions { file, offset: 0, size: 0, sector_bytes: 4096, direct_io: true };
        let volume = Self { device: loopdev::attach(&attach).unwrap(), point, _folder: folder };
        let made = Command::new(format!("mkfs.{kind}")).args(options).arg(&volume.device).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        mount::mount(&volume.device, &volume.point, kind, &["noatime".to_owned()]).unwrap();
        Some(volume)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = mount::unmount(&self.point);
        let _ = loopdev::detach(&self.device);
    }
}

/// Use of the volume at each probe, synced.
#[derive(Default)]
struct Uses(Vec<f64>);

impl LoadSink for Uses {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, probe: Probe) {
        self.0.push(share(probe.used_bytes, probe.total_bytes));
    }
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}

/// `late` is the share of the volume that the file system may show in use after it was released.
fn hold(kind: &str, options: &[&str], target: f64, threads: u32, late: f64) {
    let Some(volume) = Volume::new(kind, options) else { return };
    let weights =
        [(K::Create, 10.0), (K::Append, 4.0), (K::Truncate, 2.0), (K::RandomWrite, 2.0), (K::Delete, 8.0)];
    let workload = WorkloadSpec::Drift(DriftSpec {
        slots: 40_000,
        weights: weights.into_iter().collect(),
        file_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) },
        io_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) },
        utilisation: Some(UtilisationSpec::Hold { target }),
        ..DriftSpec::default()
    });
    let load = LoadSpec {
        workload,
        directory: volume.point.clone(),
        threads,
        seed: 5,
        stop: StopSpec { operations: Some(30_000), ..StopSpec::default() },
        write_mode: WriteMode::Fast,
        probe_every: 2_500,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: false,
        deterministic: false,
        pace: None,
        continues: false,
    };
    let mut uses = Uses::default();
    run(&load, &Control::new(), &mut uses).unwrap();
    let held = &uses.0[uses.0.len() / 2..];
    assert!(held.iter().all(|used| (used - target).abs() <= 0.01 + late), "{kind}: {:?}", uses.0);
    let mut sorted = held.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    assert!((sorted[sorted.len() / 2] - target).abs() <= 0.01, "{kind}: {:?}", uses.0);
}

#[test]
fn ext4_is_held() {
    hold("ext4", &["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], 0.8, 2, 0.0);
}

#[test]
fn xfs_is_held() {
    // Unlinked inodes are freed in the background, up to 256 a CPU (fs/xfs/xfs_icache.c), here of 34 KiB on
    // average: a single look on this small volume may see that much more, the middle of them does not.
    hold("xfs", &["-q"], 0.7, 1, 2.0 * 256.0 * 34.0 / 1024.0 / 400.0);
}

#[test]
fn btrfs_is_held() {
    hold("btrfs", &["-q"], 0.6, 1, 0.0);
}
