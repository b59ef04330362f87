//! A store with made-up numbers, for tests of what reads stores. Nothing in it was measured: the host is
//! called `made up` and the numbers follow simple formulas.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsage_lab::plan::{PlannedTrial, plan};
use fsage_lab::store::Store;
use fsage_lab::study::{Consent, Overrides, load};
use fsage_model::layout::{FreeSpace, FreeSpaceMethod, LayoutSummary, SizeHistogram};
use fsage_model::load::{LatencySummary, LoadResult, Probe, StopReason, Tick};
use fsage_model::operation::OperationKind as K;
use fsage_model::protocol::{BlockFacts, HostFacts};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::record::{Metric, STORE_VERSION, StageRecord, TrialRecord, TrialStatus};
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

const KINDS: [K; 7] = [K::Create, K::Append, K::RandomWrite, K::Truncate, K::Read, K::RandomRead, K::Delete];
const VOLUME: u64 = 1 << 30;

/// Makes a store of the quick `aging` study with `repeats` repeats in `root`; every trial is complete.
#[allow(dead_code, reason = "each test that includes this module uses some of it")]
pub fn sample(root: &Path, repeats: u32) -> PathBuf {
    let set = vec![format!("repeats={repeats}")];
    let study =
        load(Path::new("aging"), &Overrides { preset: Some("quick".into()), set }, Consent::Given).unwrap();
    let plan = plan(&study);
    let writer = Store::create(root, &plan, &study.text).unwrap();
    for trial in &plan.trials {
        let spec = serde_json::to_value(&study.cells[trial.cell].spec).unwrap();
        let mut folder = writer.begin(&trial.id).unwrap();
        folder.log("made up");
        folder.finish(&record(trial, spec), 1_767_225_600).unwrap();
    }
    root.to_owned()
}

/// A complete record with made-up numbers.
#[allow(dead_code, reason = "each test that includes this module uses some of it")]
pub fn record(trial: &PlannedTrial, spec: serde_json::Value) -> TrialRecord {
    let kind = trial.factors.get("file_system.kind").and_then(|v| v.as_str()).unwrap_or("ext4");
    let full =
        trial.factors.get("stage.age.workload.utilisation.max").and_then(|v| v.as_f64()).unwrap_or(0.8);
    let base = match kind {
        "xfs" => 9_000.0,
        "btrfs" => 14_000.0,
        _ => 10_000.0,
    };
    let base = base * (1.0 + (full - 0.8)) * (1.0 + 0.01 * f64::from(trial.repeat));
    let probes: Vec<Probe> = (1..=40).map(|n| probe(n, base, full)).collect();
    let ticks: Vec<Tick> = (1..=400).map(|n| tick(n, base)).collect();
    let last = &probes[39];
    let layout = last.layout.clone().unwrap();
    let free = last.free_space.clone().unwrap();
    TrialRecord {
        program: "fsage 0.1.0, protocol 1, workload 1".into(),
        version: STORE_VERSION,
        id: trial.id.clone(),
        study: "aging".into(),
        factors: trial.factors.clone(),
        repeat: trial.repeat,
        seed: trial.seed,
        status: TrialStatus::Complete,
        error: String::new(),
        started: "2026-01-01T00:00:00Z".into(),
        elapsed_ns: 40_000_000_000,
        host: HostFacts {
            kernel: "0.0.0-made-up".into(),
            machine: "x86_64".into(),
            distribution: "made up".into(),
            cpu_model: "made up".into(),
            cpus: 2,
            memory_bytes: 4 << 30,
            ..HostFacts::default()
        },
        device: BlockFacts {
            path: "/dev/made-up".into(),
            size_bytes: VOLUME,
            sector_bytes: 4096,
            ..BlockFacts::default()
        },
        commands: vec![format!("mkfs.{kind} /dev/made-up")],
        spec,
        metrics: metrics(base, full, &layout, &free),
        wear: Vec::new(),
        stages: vec![StageRecord::Age {
            name: "age".into(),
            image: None,
            result: Box::new(result(base, layout.clone(), free)),
            ticks,
            probes,
            continues: None,
        }],
        warnings: vec![Warning { kind: WarningKind::CpuBound, message: "made up: 0.97 of a core".into() }],
        check: "clean".into(),
        layout: Some(layout),
    }
}

fn latencies(base: f64, age: f64) -> BTreeMap<K, LatencySummary> {
    KINDS
        .into_iter()
        .enumerate()
        .map(|(n, kind)| {
            let n = u32::try_from(n).unwrap();
            let median = base * (1.0 + 0.3 * f64::from(n)) * (1.0 + 0.4 * age);
            let at = |factor: f64| to_u64(median * factor);
            let summary = LatencySummary {
                count: 100 + u64::from(n),
                min_ns: at(0.5),
                p50_ns: at(1.0),
                p90_ns: at(2.0),
                p99_ns: at(8.0),
                p999_ns: at(30.0),
                max_ns: at(90.0),
                mean_ns: median * 1.3,
            };
            (kind, summary)
        })
        .collect()
}

fn tick(n: u64, base: f64) -> Tick {
    // A little deterministic noise, so that smoothing has something to do.
    let noise = as_f64(n * 7919 % 101) / 101.0;
    Tick {
        operations: n * 150,
        elapsed_ns: n * 90_000_000,
        latency: latencies(base * (0.7 + 0.6 * noise), as_f64(n) / 400.0),
    }
}

fn histogram(count: impl Fn(u32) -> u64, buckets: std::ops::Range<u32>) -> SizeHistogram {
    let counts: Vec<u64> = (0..buckets.end).map(|b| if b < buckets.start { 0 } else { count(b) }).collect();
    let bytes = counts.iter().enumerate().map(|(b, c)| c << b).collect();
    SizeHistogram { count: counts, bytes }
}

fn probe(n: u64, base: f64, full: f64) -> Probe {
    let age = as_f64(n) / 40.0;
    let free_histogram = histogram(|b| to_u64(age * 40.0 * full * full * f64::from(27 - b)), 12..27);
    let extents: u64 = free_histogram.count.iter().sum();
    let files = 100 + n * 200;
    let layout = LayoutSummary {
        files,
        mapped_files: files,
        directories: 200,
        extents: files + to_u64(as_f64(files) * 0.2 * age),
        extents_per_file: 1.0 + 0.2 * age,
        one_extent_share: 1.0 - 0.08 * age,
        layout_score: 1.0 - 0.02 * age,
        mapped_bytes: files * 65_536,
        size_bytes: files * 60_000,
        extent_histogram: histogram(|b| files / u64::from(b), 12..22),
        file_histogram: histogram(|b| files / u64::from(b), 9..24),
        ..LayoutSummary::default()
    };
    Probe {
        operations: n * 1500,
        elapsed_ns: n * 900_000_000,
        used_bytes: to_u64(as_f64(VOLUME) * full * (0.5 + 0.5 * age)),
        total_bytes: VOLUME,
        files,
        device_bytes_written: Some(n * 50_000_000),
        free_space: Some(FreeSpace {
            method: FreeSpaceMethod::Getfsmap,
            caveat: String::new(),
            is_estimate: false,
            extents,
            bytes: free_histogram.bytes.iter().sum(),
            largest_bytes: 1 << 26,
            median_bytes: 1 << 16,
            histogram: free_histogram,
        }),
        layout: Some(layout),
        latency: latencies(base, age),
        interval_log: Vec::new(),
        disk: None,
    }
}

fn result(base: f64, layout: LayoutSummary, free: FreeSpace) -> LoadResult {
    LoadResult {
        pace: None,
        operations: 60_000,
        missed: 12,
        elapsed_ns: 36_000_000_000,
        failed: BTreeMap::from([("ENOSPC".to_owned(), 3)]),
        succeeded: KINDS.into_iter().map(|k| (k, 8_000)).collect(),
        bytes_written: 3 << 30,
        bytes_read: 1 << 30,
        cpu_user_ns: 2_000_000_000,
        cpu_sys_ns: 9_000_000_000,
        device_bytes_written: Some(2 << 30),
        device_bytes_before_materialise: Some(2 << 30),
        materialise_ns: 0,
        materialised: true,
        probes: 0,
        probe_ns: 0,
        failed_without_inode: 0,
        digest: "00000000000000000000000000000000".into(),
        digest_caveats: vec!["made up".into()],
        stopped_by: StopReason::Operations,
        latency: latencies(base, 0.5),
        files: layout.files,
        live_bytes: layout.size_bytes,
        disk: None,
        layout,
        free_space: Some(free),
        overhead_ns_per_operation: 900.0,
    }
}

fn metrics(base: f64, full: f64, layout: &LayoutSummary, free: &FreeSpace) -> Vec<Metric> {
    let one = |name: String, unit: &str, value: f64, worse: Option<bool>| Metric {
        name,
        unit: unit.into(),
        samples: vec![value],
        larger_is_worse: worse,
        run: None,
        stage: None,
        work: None,
    };
    let mut metrics = Vec::new();
    for (kind, l) in latencies(base, 0.5) {
        let name = kind.name();
        metrics.push(one(format!("latency.{name}.mean_ns"), "ns", l.mean_ns, Some(true)));
        metrics.push(one(format!("latency.{name}.p50_ns"), "ns", as_f64(l.p50_ns), Some(true)));
        metrics.push(one(format!("latency.{name}.p99_ns"), "ns", as_f64(l.p99_ns), Some(true)));
        metrics.push(one(format!("latency.{name}.p999_ns"), "ns", as_f64(l.p999_ns), Some(true)));
        metrics.push(one(format!("latency.{name}.max_ns"), "ns", as_f64(l.max_ns), Some(true)));
    }
    metrics.push(one("age.operations_per_s".into(), "1/s", 60_000.0 / 36.0, Some(false)));
    metrics.push(one("age.elapsed_s".into(), "s", 36.0, None));
    metrics.push(one("use.share".into(), "share", full, None));
    metrics.push(one("free.extents".into(), "count", as_f64(free.extents), Some(true)));
    metrics.push(one("free.median_bytes".into(), "bytes", as_f64(free.median_bytes), Some(false)));
    metrics.push(one("free.largest_bytes".into(), "bytes", as_f64(free.largest_bytes), Some(false)));
    metrics.push(one("layout.extents_per_file".into(), "count", layout.extents_per_file, Some(true)));
    metrics.push(one("layout.one_extent_share".into(), "share", layout.one_extent_share, Some(false)));
    metrics.push(one("layout.fragmented_share".into(), "share", 1.0 - layout.one_extent_share, Some(true)));
    metrics.push(one("layout.score".into(), "share", layout.layout_score, Some(false)));
    metrics.push(one("layout.noncontiguous_files".into(), "count", as_f64(layout.files) * 0.08, Some(true)));
    metrics
}
