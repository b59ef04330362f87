//! Volumes, specs and sinks of the tests of loads.

#![allow(clippy::unwrap_used, reason = "a test's way to fail and to say what it skips")]
#![allow(dead_code, reason = "each test program needs some of it")]

#[path = "../../../sys/tests/support/skip.rs"]
mod skip;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_engine::load::{Control, LoadSink, run};
use fsage_engine::verify;
use fsage_model::load::{LoadResult, LoadSpec, Probe, StopSpec, Tick, WriteMode};
use fsage_model::operation::OperationKind;
use fsage_model::size::Bytes;
use fsage_model::warning::Warning;
use fsage_model::workload::{DirectorySpec, DriftSpec, SizeSpec, WorkloadSpec};
use fsage_sys::{loopdev, mount};

/// A mounted file system on a sparse file; gone when dropped, also by a panic.
pub struct Volume {
    pub kind: &'static str,
    pub file: PathBuf,
    pub device: PathBuf,
    pub point: PathBuf,
    /// Last: removed when all else is undone.
    _folder: tempfile::TempDir,
}

/// Those on which every operation works.
pub const MKFS: [(&str, &[&str]); 3] = [
    ("ext4", &["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
    ("xfs", &["-q", "-f"]),
    ("btrfs", &["-q", "-f"]),
];

/// It has no `fallocate`.
pub const EXT2: (&str, &[&str]) = ("ext2", &["-q", "-b", "4096"]);

impl Volume {
    pub fn new(kind: &str, mebibytes: u64) -> Option<Self> {
        let (kind, options) = MKFS.into_iter().chain([EXT2]).find(|(name, _)| *name == kind).unwrap();
        Self::with(kind, mebibytes, options)
    }

    pub fn with(kind: &'static str, mebibytes: u64, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("mounting needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("volume");
        File::create(&file).unwrap().set_len(mebibytes << 20).unwrap();
        let point = folder.path().join("mount");
        std::fs::create_dir(&point).unwrap();
        let attach = loopdev::AttachOptions {
            file: file.clone(),
            offset: 0,
            size: 0,
            sector_bytes: 4096,
            direct_io: true,
        };
        let device = loopdev::attach(&attach).unwrap();
        let volume = Self { kind, file, device, point, _folder: folder };
        let mkfs = Command::new(format!("mkfs.{kind}")).args(options).arg(&volume.device).output().unwrap();
        assert!(mkfs.status.success(), "mkfs.{kind}: {}", String::from_utf8_lossy(&mkfs.stderr));
        mount::mount(&volume.device, &volume.point, kind, &["noatime".to_owned()]).unwrap();
        Some(volume)
    }

    pub fn directory(&self) -> PathBuf {
        let directory = self.point.join("load");
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    /// What is read next comes from the device.
    pub fn remount(&self) {
        fsage_engine::host::mount::unmount(&self.point).unwrap();
        mount::mount(&self.device, &self.point, self.kind, &["noatime".to_owned()]).unwrap();
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = mount::unmount(&self.point).or_else(|_| mount::unmount_lazily(&self.point));
        let _ = loopdev::detach(&self.device);
    }
}

/// A sink that keeps everything.
#[derive(Default)]
pub struct Kept {
    pub ticks: Vec<Tick>,
    pub probes: Vec<Probe>,
    pub warnings: Vec<Warning>,
    pub trace: Vec<u8>,
    pub progress: u32,
}

impl LoadSink for Kept {
    fn tick(&mut self, tick: Tick) {
        self.ticks.push(tick);
    }
    fn probe(&mut self, probe: Probe) {
        self.probes.push(probe);
    }
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {
        self.progress += 1;
    }
    fn warning(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
    fn trace_chunk(&mut self, chunk: &[u8]) {
        self.trace.extend_from_slice(chunk);
    }
}

/// Every kind of operation.
pub fn full_mix() -> DriftSpec {
    DriftSpec {
        slots: 800,
        weights: OperationKind::ALL
            .into_iter()
            .filter(|kind| !matches!(kind, OperationKind::Fsync | OperationKind::Fdatasync))
            .map(|kind| (kind, if kind == OperationKind::Create { 12.0 } else { 3.0 }))
            .collect(),
        file_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(96 << 10) },
        directories: DirectorySpec { count: 40, fan_out: 5, depth: 3 },
        fsync_probability: 0.01,
        fdatasync_probability: 0.01,
        random_accesses: 3,
        ..DriftSpec::default()
    }
}

pub fn spec(directory: &Path, drift: DriftSpec, operations: u64) -> LoadSpec {
    LoadSpec {
        workload: WorkloadSpec::Drift(drift),
        directory: directory.to_owned(),
        threads: 1,
        seed: 7,
        stop: StopSpec { operations: Some(operations), ..StopSpec::default() },
        write_mode: WriteMode::Buffered,
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: false,
        deterministic: false,
        pace: None,
        continues: false,
    }
}

pub fn load(spec: &LoadSpec) -> (LoadResult, Kept) {
    let mut kept = Kept::default();
    let result = run(spec, &Control::new(), &mut kept).unwrap();
    (result, kept)
}

/// No operation failed, but for kinds that a file system lacks.
pub fn assert_clean(result: &LoadResult) {
    assert!(result.failed.is_empty(), "{:?}", result.failed);
    assert!(result.digest_caveats.is_empty(), "{:?}", result.digest_caveats);
}

pub fn assert_good(directory: &Path, files: u64) {
    let found = verify::run(directory, 2, false).unwrap();
    assert!(found.bad_blocks.is_empty(), "{found:?}");
    assert!(found.files >= files && found.foreign_files == 0, "{found:?}");
}
