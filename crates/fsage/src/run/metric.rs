//! Metrics of a trial, out of what its stages left. Names are those that `store/format.rs` lists; a second and
//! further stage's begin with its name.

use fsage_engine::layout::{FreeSpace, LayoutSummary};
use fsage_engine::load::{LoadResult, Probe};
use fsage_engine::quantity::{as_f64, share};

use crate::store::format::{Metric, StageRecord};

/// Used extents below this size count as small.
const SMALL_EXTENT_BITS: usize = 16;

/// All metrics of a trial.
#[must_use]
pub(super) fn all(stages: &[StageRecord]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let StageRecord::Age { name, result, probes, .. } = stage;
        let prefix = if index == 0 { String::new() } else { format!("{name}.") };
        let mut list = List { prefix, metrics: &mut metrics };
        latency(&mut list, result);
        cost(&mut list, result);
        usage(&mut list, probes);
        layout(&mut list, &result.layout);
        if let Some(free) = &result.free_space {
            free_space(&mut list, free);
        }
    }
    metrics
}

struct List<'a> {
    prefix: String,
    metrics: &'a mut Vec<Metric>,
}

const WORSE: Option<bool> = Some(true);
const BETTER: Option<bool> = Some(false);

impl List<'_> {
    fn push(&mut self, name: &str, unit: &str, samples: Vec<f64>, larger_is_worse: Option<bool>) {
        let name = format!("{}{name}", self.prefix);
        self.metrics.push(Metric { name, unit: unit.to_owned(), samples, larger_is_worse });
    }

    fn one(&mut self, name: &str, unit: &str, value: f64, larger_is_worse: Option<bool>) {
        self.push(name, unit, vec![value], larger_is_worse);
    }
}

fn latency(list: &mut List<'_>, result: &LoadResult) {
    for (kind, summary) in &result.latency {
        let name = kind.name();
        for (statistic, value) in [
            ("mean_ns", summary.mean_ns),
            ("p50_ns", as_f64(summary.p50_ns)),
            ("p99_ns", as_f64(summary.p99_ns)),
            ("p999_ns", as_f64(summary.p999_ns)),
            ("max_ns", as_f64(summary.max_ns)),
        ] {
            list.one(&format!("latency.{name}.{statistic}"), "ns", value, WORSE);
        }
    }
}

fn cost(list: &mut List<'_>, result: &LoadResult) {
    let seconds = as_f64(result.elapsed_ns) / 1e9;
    if seconds > 0.0 {
        list.one("age.operations_per_s", "1/s", as_f64(result.operations) / seconds, BETTER);
    }
    list.one("age.elapsed_s", "s", seconds, None);
    if let Some(bytes) = result.device_bytes_written {
        list.one("age.device_bytes", "bytes", as_f64(bytes), WORSE);
    }
    list.one("age.overhead_ns", "ns", result.overhead_ns_per_operation, None);
}

fn usage(list: &mut List<'_>, probes: &[Probe]) {
    let over_time: Vec<f64> = probes.iter().map(|p| share(p.used_bytes, p.total_bytes)).collect();
    if let Some(last) = over_time.last() {
        list.one("use.share", "share", *last, None);
        list.push("use.share_over_time", "share", over_time, None);
    }
}

fn layout(list: &mut List<'_>, layout: &LayoutSummary) {
    let fragmented = (1.0 - layout.one_extent_share).clamp(0.0, 1.0);
    let small: u64 = layout.extent_histogram.count.iter().take(SMALL_EXTENT_BITS).sum();
    list.one("layout.extents_per_file", "count", layout.extents_per_file, WORSE);
    list.one("layout.one_extent_share", "share", layout.one_extent_share, BETTER);
    list.one("layout.fragmented_share", "share", fragmented, WORSE);
    list.one("layout.score", "share", layout.layout_score, BETTER);
    list.one(
        "layout.noncontiguous_files",
        "count",
        (fragmented * as_f64(layout.mapped_files)).round(),
        WORSE,
    );
    list.one("layout.small_extents", "count", as_f64(small), WORSE);
}

fn free_space(list: &mut List<'_>, free: &FreeSpace) {
    list.one("free.extents", "count", as_f64(free.extents), WORSE);
    list.one("free.median_bytes", "bytes", as_f64(free.median_bytes), BETTER);
    list.one("free.largest_bytes", "bytes", as_f64(free.largest_bytes), BETTER);
}
