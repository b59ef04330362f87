//! Made-up points of fio: random reads of 4 KiB over depth, on a device with a knee and on a file system that follows the
//! Universal Scalability Law and falls beyond depth 30.

use std::collections::BTreeMap;

use fsage_model::fio::{
    FioEngine, FioLatency, FioPattern, FioPoint, FioRecord, FioResult, LatencyAt, PERCENTILES,
};
use fsage_model::quantity::to_u64;
use fsage_model::record::{StageRecord, TrialRecord};
use fsage_model::size::Bytes;
use serde_json::json;

use super::{Noise, Size, metric};

pub const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

fn point(iodepth: u32) -> FioPoint {
    FioPoint {
        rw: FioPattern::RandRead,
        rwmixread: None,
        bs: Bytes(4096),
        ioengine: FioEngine::Libaio,
        iodepth,
        numjobs: 1,
        files: 1,
        direct: true,
        memory: None,
    }
}

fn rate(file_system: &str, depth: u32) -> f64 {
    let n = f64::from(depth);
    match file_system {
        "bare" => 12_000.0 * n.min(16.0),
        _ => 10_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0)),
    }
}

fn result(file_system: &str, depth: u32, noise: &mut Noise) -> FioResult {
    let iops = rate(file_system, depth) * (0.99 + 0.02 * noise.next());
    let mean_ns = f64::from(depth) / iops * 1e9;
    let at =
        |percent: &f64| LatencyAt { percent: *percent, ns: mean_ns * (100.0 / (100.0 - percent)).powf(0.3) };
    let read = FioLatency {
        operations: to_u64(iops),
        bytes: 4096 * to_u64(iops),
        mean_ns,
        p50_ns: mean_ns * 1.2,
        p99_ns: mean_ns * 4.0,
        p999_ns: mean_ns * 8.0,
        max_ns: mean_ns * 20.0,
    };
    FioResult {
        file: format!("fio/fio-{}.json", point(depth)),
        runtime_ns: 1_000_000_000,
        elapsed_ns: 1_100_000_000,
        read,
        read_percentiles: PERCENTILES.iter().take(24).map(at).collect(),
        user_ns: 1_000_000,
        system_ns: 5_000_000,
        context_switches: 1000,
        ..FioResult::empty(point(depth))
    }
}

/// A made-up trial of one `fio` stage.
pub fn trial(file_system: &str, repeat: u32) -> TrialRecord {
    let number = if file_system == "bare" { 7 } else { 8 };
    let mut noise = Noise(number * 1000 + u64::from(repeat));
    let results: Vec<FioResult> =
        DEPTHS.iter().map(|depth| result(file_system, *depth, &mut noise)).collect();
    let metrics = results.iter().flat_map(|result| {
        let name = |what: &str| format!("{}.{what}", result.point);
        [
            metric(&name("iops"), "1/s", result.iops(), Some(false)),
            metric(&name("bandwidth"), "bytes/s", result.bandwidth(), Some(false)),
            metric(&name("mean_ns"), "ns", result.mean_ns(), Some(true)),
            metric(&name("read_p99_ns"), "ns", result.read.p99_ns, Some(true)),
        ]
    });
    TrialRecord {
        id: format!("{number:08x}{repeat:08x}"),
        factors: BTreeMap::from([("file_system.kind".to_owned(), json!(file_system))]),
        repeat,
        metrics: metrics.collect(),
        stages: vec![StageRecord::Fio(Box::new(FioRecord {
            name: "fio".to_owned(),
            version: "fio-3.33".to_owned(),
            bytes: 1 << 30,
            bare: file_system == "bare",
            results,
            job: None,
        }))],
        layout: None,
        ..super::trial("xfs", 0.8, repeat, Size { ticks: 1, probes: 1, ..Size::QUICK })
    }
}

/// The bare device and xfs, so many repeats of each.
pub fn trials(repeats: u32) -> Vec<TrialRecord> {
    (0..repeats).flat_map(|repeat| ["bare", "xfs"].map(|file_system| trial(file_system, repeat))).collect()
}
