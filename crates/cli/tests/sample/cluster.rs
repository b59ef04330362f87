//! Made-up points of a cluster: random writes of 4 KiB, which cost twice as much on the same files where each host locks them.

use std::collections::BTreeMap;

use fsage_model::record::TrialRecord;
use serde_json::json;

use super::{Size, metric};

const POINT: &str = "randwrite-4k-libaio-d1-j1";

/// A made-up trial of two hosts.
fn trial(file_system: &str, number: u32, repeat: u32) -> TrialRecord {
    let cost = if file_system == "ocfs2-full" { 2.0 } else { 1.0 };
    // Repeats differ by a part in a hundred.
    let own_ns = 24_000.0 + 240.0 * f64::from(repeat);
    let metrics = [("same", 16, own_ns * cost, 4.5 * (cost - 1.0) + 0.002), ("disjoint", 8, own_ns, 0.002)];
    let of_set = |(set, files, drive_ns, packets): &(&str, u32, f64, f64)| {
        let name = |what: &str| format!("{set}.{POINT}-f{files}.{what}");
        [
            metric(&name("drive_ns"), "model ns", *drive_ns, Some(true)),
            metric(&name("packets"), "count", *packets, Some(true)),
            metric(&name("overlap"), "share", 0.9, None),
        ]
    };
    let over = metric(&format!("same_over_disjoint.{POINT}-f8.drive_ns"), "ratio", cost, Some(true));
    TrialRecord {
        id: format!("{number:08x}{repeat:08x}"),
        factors: BTreeMap::from([("file_system.kind".to_owned(), json!(file_system))]),
        repeat,
        metrics: metrics.iter().flat_map(of_set).chain([over]).collect(),
        stages: Vec::new(),
        layout: None,
        ..super::trial("xfs", 0.8, repeat, Size { ticks: 1, probes: 1, ..Size::QUICK })
    }
}

/// Two ways to share files, three repeats of each.
pub fn trials() -> Vec<TrialRecord> {
    (0..3).flat_map(|repeat| [trial("ocfs2", 20, repeat), trial("ocfs2-full", 21, repeat)]).collect()
}
