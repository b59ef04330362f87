//! Made-up stores for tests of the report: clearly no measurements. Shapes are plausible (free space falls
//! apart, latency creeps up), numbers come from a small generator and are the same every time.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test stops at the first fault")]

pub mod cluster;
pub mod points;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fsage_model::layout::{FreeSpace, FreeSpaceMethod, LayoutSummary, SizeHistogram, WorstFile};
use fsage_model::load::{LatencySummary, LoadResult, Probe, StopReason, Tick};
use fsage_model::operation::OperationKind;
use fsage_model::protocol::{BlockFacts, HostFacts};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::record::{Metric, StageRecord, TrialRecord, TrialStatus};
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use serde_json::json;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub operations: u64,
    pub ticks: u64,
    pub probes: u64,
    pub kinds: usize,
    pub repeats: u32,
}

impl Size {
    /// As large as the quick preset.
    pub const QUICK: Self = Self { operations: 200_000, ticks: 400, probes: 60, kinds: 8, repeats: 1 };
    /// 100 million operations.
    pub const LARGE: Self =
        Self { operations: 100_000_000, ticks: 2_000, probes: 10_000, kinds: 16, repeats: 1 };
}

pub const FACTOR: &str = "stage.age.workload.utilisation.target";

/// Splitmix64: enough for made-up noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        as_f64((z ^ (z >> 31)) >> 11) / 9_007_199_254_740_992.0
    }
}

fn summary(median_ns: f64, count: u64, noise: &mut Noise) -> LatencySummary {
    let p50 = median_ns * (0.85 + 0.3 * noise.next());
    LatencySummary {
        count,
        min_ns: to_u64(p50 * 0.5),
        p50_ns: to_u64(p50),
        p90_ns: to_u64(p50 * 1.8),
        p99_ns: to_u64(p50 * (3.0 + noise.next())),
        p999_ns: to_u64(p50 * 9.0),
        max_ns: to_u64(p50 * (12.0 + 200.0 * noise.next().powi(8))),
        mean_ns: p50 * 1.25,
    }
}

fn latencies(
    kinds: usize,
    slow: f64,
    age: f64,
    count: u64,
    noise: &mut Noise,
) -> BTreeMap<OperationKind, LatencySummary> {
    const BASE: [f64; 16] =
        [28e3, 14e3, 17e3, 25e3, 9e3, 8e3, 11e3, 7e3, 12e3, 10e3, 9e3, 9e3, 8e3, 7e3, 900e3, 800e3];
    OperationKind::ALL
        .iter()
        .zip(BASE)
        .take(kinds)
        .map(|(kind, base)| (*kind, summary(base * slow * (1.0 + 0.6 * age), count, noise)))
        .collect()
}

fn free_space(age: f64, pieces: f64, noise: &mut Noise) -> FreeSpace {
    let mut histogram = SizeHistogram { count: vec![0; 30], bytes: vec![0; 30] };
    for (bucket, power) in (12_i32..30).enumerate() {
        let small = pieces * age * (-f64::from(power - 12) * 0.55).exp();
        let large = if power > 25 { (1.0 - age) * 12.0 + 0.6 } else { 0.0 };
        let count = to_u64((small + large) * (0.9 + 0.2 * noise.next()));
        histogram.count[bucket + 12] = count;
        histogram.bytes[bucket + 12] = count * to_u64(1.4 * 2_f64.powi(power));
    }
    FreeSpace {
        method: FreeSpaceMethod::Getfsmap,
        caveat: String::new(),
        is_estimate: false,
        extents: histogram.count.iter().sum(),
        bytes: histogram.bytes.iter().sum(),
        largest_bytes: to_u64((1.0 - age).mul_add(600e6, 12e6)),
        median_bytes: 8192,
        histogram,
    }
}

fn layout(extents_per_file: f64, noise: &mut Noise) -> LayoutSummary {
    let curve = |centre: f64, width: f64, total: f64, noise: &mut Noise| {
        let mut histogram = SizeHistogram { count: vec![0; 28], bytes: vec![0; 28] };
        for bucket in 12_i32..28 {
            let distance = (f64::from(bucket) - centre) / width;
            let count = to_u64(total * (-distance * distance / 2.0).exp() * (0.9 + 0.2 * noise.next()));
            histogram.count[usize::try_from(bucket).unwrap()] = count;
            histogram.bytes[usize::try_from(bucket).unwrap()] =
                to_u64(as_f64(count) * 1.4 * 2_f64.powi(bucket));
        }
        histogram
    };
    let files = 9_000;
    LayoutSummary {
        files,
        mapped_files: files,
        directories: 100,
        extents: to_u64(as_f64(files) * extents_per_file),
        extents_per_file,
        one_extent_share: 0.93 - 0.25 * (extents_per_file - 1.0),
        layout_score: 0.99 - 0.05 * (extents_per_file - 1.0),
        mapped_bytes: 900 << 20,
        size_bytes: 880 << 20,
        extent_histogram: curve(16.0 - 2.0 * (extents_per_file - 1.0), 2.2, 3000.0, noise),
        file_histogram: curve(16.5, 2.4, 2000.0, noise),
        worst: vec![WorstFile { path: "t00/d0003/f0000a1b2".to_owned(), extents: 214, bytes: 4 << 20 }],
        ..LayoutSummary::default()
    }
}

fn metric(name: &str, unit: &str, value: f64, worse: Option<bool>) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        samples: vec![value],
        larger_is_worse: worse,
        run: None,
        stage: None,
        work: None,
    }
}

fn metrics(result: &LoadResult, used: f64) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (kind, latency) in &result.latency {
        let name = |what: &str| format!("latency.{}.{what}", kind.name());
        metrics.push(metric(&name("mean_ns"), "ns", latency.mean_ns, Some(true)));
        metrics.push(metric(&name("p50_ns"), "ns", as_f64(latency.p50_ns), Some(true)));
        metrics.push(metric(&name("p99_ns"), "ns", as_f64(latency.p99_ns), Some(true)));
        metrics.push(metric(&name("p999_ns"), "ns", as_f64(latency.p999_ns), Some(true)));
    }
    let seconds = as_f64(result.elapsed_ns) / 1e9;
    metrics.push(metric("age.operations_per_s", "1/s", as_f64(result.operations) / seconds, Some(false)));
    metrics.push(metric("age.device_bytes", "bytes", 4e9, Some(true)));
    metrics.push(metric("use.share", "share", used, None));
    if let Some(free) = &result.free_space {
        metrics.push(metric("free.extents", "count", as_f64(free.extents), Some(true)));
        metrics.push(metric("free.median_bytes", "bytes", as_f64(free.median_bytes), Some(false)));
    }
    let layout = &result.layout;
    metrics.push(metric("layout.extents_per_file", "count", layout.extents_per_file, Some(true)));
    metrics.push(metric("layout.one_extent_share", "share", layout.one_extent_share, Some(false)));
    metrics.push(metric("layout.fragmented_share", "share", 1.0 - layout.one_extent_share, Some(true)));
    metrics.push(metric("layout.score", "share", layout.layout_score, Some(false)));
    metrics
}

fn host() -> HostFacts {
    HostFacts {
        kernel: "6.18.0-sample".to_owned(),
        machine: "x86_64".to_owned(),
        distribution: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        cpu_model: "Sample CPU (made-up data)".to_owned(),
        cpus: 2,
        memory_bytes: 8 << 30,
        tools: BTreeMap::from([
            ("mkfs.ext4".to_owned(), "mke2fs 1.47.0 (5-Feb-2023)".to_owned()),
            ("mkfs.xfs".to_owned(), "mkfs.xfs version 6.1.0".to_owned()),
            ("mkfs.btrfs".to_owned(), "mkfs.btrfs, part of btrfs-progs v6.2".to_owned()),
        ]),
        virtualisation: "kvm".to_owned(),
        ..HostFacts::default()
    }
}

/// What tells the made-up file systems apart.
struct Shape {
    slow: f64,
    pieces: f64,
    extents: f64,
    full: f64,
}

fn ticks(size: Size, shape: &Shape, noise: &mut Noise) -> Vec<Tick> {
    let each = (size.operations / size.ticks).max(1);
    (1..=size.ticks)
        .map(|n| {
            let age = as_f64(n) / as_f64(size.ticks) * (0.3 + shape.full);
            Tick {
                operations: n * each,
                elapsed_ns: n * each * 25_000,
                latency: latencies(size.kinds, shape.slow, age, each / 8 + 1, noise),
            }
        })
        .collect()
}

fn probes(size: Size, target: f64, shape: &Shape, noise: &mut Noise) -> Vec<Probe> {
    (0..=size.probes)
        .map(|n| {
            let share = as_f64(n) / as_f64(size.probes);
            let age = (1.0 - (-share * 4.0).exp()) * (0.55 + 0.4 * shape.full);
            Probe {
                operations: to_u64(share * as_f64(size.operations)),
                elapsed_ns: to_u64(share * as_f64(size.operations) * 25_000.0),
                used_bytes: to_u64(1e9 * target * (share * 6.0).min(1.0)),
                total_bytes: 1_000_000_000,
                files: 9_000,
                device_bytes_written: Some(n * 40_000_000),
                free_space: Some(free_space(age, shape.pieces * (1.0 + 2.0 * shape.full), noise)),
                layout: None,
                latency: latencies(size.kinds, shape.slow, age, 1000, noise),
                interval_log: vec!["Tag=create,1.0,2.0,3.0,HISTFAAAA".repeat(8); size.kinds],
                disk: None,
            }
        })
        .collect()
}

fn result(size: Size, target: f64, shape: &Shape, probes: &[Probe], noise: &mut Noise) -> LoadResult {
    let last = probes.last().unwrap();
    LoadResult {
        operations: size.operations,
        missed: 0,
        elapsed_ns: size.operations * 25_000,
        failed: BTreeMap::from([("ENOSPC".to_owned(), 12)]),
        succeeded: BTreeMap::new(),
        bytes_written: 6 << 30,
        bytes_read: 2 << 30,
        cpu_user_ns: size.operations * 900,
        cpu_sys_ns: size.operations * 17_000,
        device_bytes_written: Some(7 << 30),
        device_bytes_before_materialise: Some(7 << 30),
        materialise_ns: 0,
        materialised: true,
        probes: 0,
        probe_ns: 0,
        failed_without_inode: 0,
        digest: "00112233445566778899aabbccddeeff".to_owned(),
        digest_caveats: if target > 0.85 {
            vec!["use was held at its target".to_owned()]
        } else {
            Vec::new()
        },
        stopped_by: StopReason::Operations,
        latency: latencies(size.kinds, shape.slow, 0.2 + shape.full * 0.4, size.operations / 8, noise),
        layout: layout(shape.extents + 0.3 * shape.full, noise),
        free_space: last.free_space.clone(),
        overhead_ns_per_operation: 310.0,
        files: 9_000,
        live_bytes: 880 << 20,
        disk: None,
        pace: None,
    }
}

/// One made-up trial.
pub fn trial(file_system: &str, target: f64, repeat: u32, size: Size) -> TrialRecord {
    let number = match file_system {
        "ext4" => 1,
        "xfs" => 2,
        _ => 3,
    };
    let mut noise = Noise(number * 1000 + to_u64(target * 100.0) * 7 + u64::from(repeat));
    let (slow, pieces, extents) = match number {
        1 => (1.0, 9_000.0, 1.25),
        2 => (1.18, 5_000.0, 1.15),
        _ => (1.7, 4_000.0, 1.6),
    };
    let full = (target - 0.8) * 5.0;
    let shape = Shape { slow, pieces, extents, full };
    let ticks = ticks(size, &shape, &mut noise);
    let probes = probes(size, target, &shape, &mut noise);
    let result = result(size, target, &shape, &probes, &mut noise);
    let metrics = metrics(&result, target);
    let warnings = if number == 3 && target > 0.85 {
        vec![Warning { kind: WarningKind::CpuBound, message: "the load used 97 % of a CPU".to_owned() }]
    } else {
        Vec::new()
    };
    TrialRecord {
        program: "fsage 0.1.0, protocol 1, workload 1".into(),
        version: 1,
        id: format!("{number:04x}{:04x}{repeat:08x}", to_u64(target * 100.0)),
        study: "sample".to_owned(),
        factors: BTreeMap::from([
            ("file_system.kind".to_owned(), json!(file_system)),
            (FACTOR.to_owned(), json!(target)),
        ]),
        repeat,
        seed: 42 + u64::from(repeat),
        status: TrialStatus::Complete,
        error: String::new(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        elapsed_ns: 61_000_000_000,
        host: host(),
        device: BlockFacts {
            path: PathBuf::from("/dev/loop7"),
            size_bytes: 1 << 30,
            sector_bytes: 4096,
            model: "loop".to_owned(),
            scheduler: "none".to_owned(),
            backing_file: Some(PathBuf::from("/var/tmp/sample/volume")),
            ..BlockFacts::default()
        },
        commands: vec![
            format!("mkfs.{file_system} -b 4096 /dev/loop7"),
            format!("mount -t {file_system} -o noatime /dev/loop7 /run/fsage/sample"),
            "umount /run/fsage/sample".to_owned(),
        ],
        spec: json!({"volume": {"kind": "loop"}}),
        layout: Some(result.layout.clone()),
        wear: Vec::new(),
        stages: vec![StageRecord::Age {
            name: "age".to_owned(),
            image: None,
            result: Box::new(result),
            ticks,
            probes,
            continues: None,
        }],
        metrics,
        warnings,
        check: "clean".to_owned(),
    }
}

/// Every trial of the made-up study.
pub fn trials(size: Size) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for repeat in 0..size.repeats {
        for target in [0.8, 0.95] {
            for file_system in ["ext4", "xfs", "btrfs"] {
                trials.push(trial(file_system, target, repeat, size));
            }
        }
    }
    trials
}

/// The made-up study.
pub const STUDY: &str = r#"
name = "sample"
title = "Sample data: how three file systems age"
question = "Do ext4, xfs and btrfs get slower and more fragmented under the same made-up operations?"
citation = "Petrovič 2017"
seed = 42

[volume]
kind = "loop"
size = "1GiB"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
[stage.workload]
kind = "drift"
slots = 9000
utilisation = { kind = "hold", target = 0.8 }
[stage.stop]
operations = 200000

[matrix]
"file_system.kind" = ["ext4", "xfs", "btrfs"]
"stage.age.workload.utilisation.target" = [0.8, 0.95]

[[claim]]
id = "fragments"
source = "Petrovič 2017 §6.1"
statement = "A fuller volume has far more free extents."
published = "99 % against 80 %"
[claim.check]
kind = "ratio"
metric = "free.extents"
numerator = { "stage.age.workload.utilisation.target" = 0.95 }
denominator = { "stage.age.workload.utilisation.target" = 0.8 }
above = 1.5

[[claim]]
id = "xfs-ahead"
source = "Petrovič 2017 table 7.2"
statement = "XFS creates files faster than ext4."
published = "slightly ahead"
[claim.check]
kind = "ratio"
metric = "latency.create.mean_ns"
numerator = { "file_system.kind" = "xfs" }
denominator = { "file_system.kind" = "ext4" }
below = 1.0

[[claim]]
id = "one-extent"
source = "Petrovič 2017 §6.2"
statement = "About 92 % of the files lie in one extent."
published = "92 %"
each = "file_system.kind"
[claim.check]
kind = "value"
metric = "layout.one_extent_share"
where = { "stage.age.workload.utilisation.target" = 0.8 }
above = 0.85
below = 0.97

[[claim]]
id = "slower"
source = "Petrovič 2017 §6.1"
statement = "Create gets slower as the run continues at high use."
[claim.check]
kind = "trend"
operation = "create"
where = { "stage.age.workload.utilisation.target" = 0.95 }
above = 1.0

[[claim]]
id = "hdd"
source = "Petrovič 2017 table 7.3"
statement = "An SSD is ahead of a hard disk by an order of magnitude."
published = "×10"
not_tested = "this host has no hard disk"
"#;

/// Writes one record.
pub fn write_trial(store: &Path, trial: &TrialRecord) {
    let folder = store.join("trials").join(&trial.id);
    fs::create_dir_all(&folder).unwrap();
    let file = std::io::BufWriter::new(fs::File::create(folder.join("trial.json")).unwrap());
    serde_json::to_writer(file, trial).unwrap();
}

/// Writes a whole made-up store.
pub fn write_store(store: &Path, trials: &[TrialRecord]) {
    fs::create_dir_all(store.join("trials")).unwrap();
    fs::write(store.join("study.toml"), STUDY).unwrap();
    for trial in trials {
        write_trial(store, trial);
    }
}
