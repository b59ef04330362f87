//! What a measure asked of the block device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MeasureMetric;
use crate::layout::SizeHistogram;
use crate::quantity::as_f64;

/// Block requests while a clock ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestSummary {
    /// Reads.
    pub reads: Requests,
    /// Writes.
    pub writes: Requests,
    /// Discards (trims).
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
    /// Events that were lost; the sums are too small when there are any.
    pub lost_events: u64,
    /// The device has no request queue: requests were taken before merging, and their time is not known.
    pub unmerged: bool,
}

/// Requests of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Requests {
    /// How many.
    pub requests: u64,
    /// How many of them the file system calls metadata (not every file system says so).
    pub metadata_requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dynamic layout score in 0..=1, 1 is perfect; absent without requests.
    pub layout_score: Option<f64>,
    /// Share in 0..=1 of the requests, the first left out, that begin where the one before ended; absent
    /// below two.
    pub sequential_share: Option<f64>,
    /// Mean bytes of a request.
    pub mean_bytes: f64,
    /// Distances in bytes from the end of one request to the begin of the next, forth or back; sequential
    /// ones are not in it.
    pub seeks: SizeHistogram,
    /// Mean time from issue to completion in nanoseconds; absent where it cannot be known.
    pub mean_service_ns: Option<f64>,
}

impl RequestSummary {
    /// The figures that are compared between volumes, kinds without requests left out.
    #[must_use]
    pub fn metrics(&self) -> Vec<MeasureMetric> {
        let mut metrics = Vec::new();
        for (name, kind) in [("read", &self.reads), ("write", &self.writes)] {
            if kind.requests == 0 {
                continue;
            }
            metrics.push(MeasureMetric::cost(&format!("{name}_requests"), "1", as_f64(kind.requests)));
            metrics.push(MeasureMetric::cost(&format!("{name}_request_bytes"), "B", as_f64(kind.bytes)));
            metrics.push(MeasureMetric::gain(&format!("mean_{name}_request"), "B", kind.mean_bytes));
            let score = kind.layout_score;
            // The name that the literature has is for reads.
            let named = if name == "read" { "dynamic_layout_score" } else { "write_layout_score" };
            metrics.extend(score.map(|score| MeasureMetric::gain(named, "1", score)));
            let sequential = format!("sequential_{name}_share");
            metrics.extend(kind.sequential_share.map(|share| MeasureMetric::gain(&sequential, "1", share)));
            let service = format!("mean_{name}_service");
            metrics.extend(kind.mean_service_ns.map(|ns| MeasureMetric::cost(&service, "ns", ns)));
        }
        metrics
    }
}
