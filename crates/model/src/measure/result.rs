//! What a measure found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::requests::RequestSummary;
use super::work::Work;
use crate::disk::{DELAY_COUNTERS, DiskCounter, DiskTime, DiskUse, WAITING};
use crate::quantity::as_f64;
use crate::warning::Warning;

/// What a measure found. `elapsed_ns` leaves out what prepares it (finding old files, dropping caches).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MeasureResult {
    /// Name of the measure.
    pub name: String,
    /// Wall time of what is measured, syncing included where it writes.
    pub elapsed_ns: u64,
    /// CPU time of the measuring thread meanwhile, user and system. The kernel's own threads are not in it.
    pub cpu_ns: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Files touched.
    pub files: u64,
    /// System-level operations: reads, creates, names inspected, …; the measure's documentation says which.
    pub operations: u64,
    /// The work that numbers are compared by, where it is not the counts above: of a job of fio that is bound by
    /// time, the space it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Work>,
    /// Block requests meanwhile; absent when they were not asked for or cannot be seen here.
    pub requests: Option<RequestSummary>,
    /// What the virtual disk did meanwhile; absent on anything else. When it keeps `model` time, every time
    /// among `metrics` is by the disk's clock and has `model` in its unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// Named values, the one to compare first.
    pub metrics: Vec<MeasureMetric>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
}

/// One named value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureMetric {
    /// Unique within the measure; lower case with underscores.
    pub name: String,
    /// Its unit: `s`, `s/GiB`, `ns`, `B/s`, `B`, `1/s`, or `1` for counts and shares. By a virtual disk's
    /// clock: `model s`, `model s/GiB`, `model ns`, `B/model s`, `1/model s`.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// Whether larger is worse.
    pub larger_is_worse: bool,
}

impl MeasureMetric {
    /// A value of which less is better.
    #[must_use]
    pub fn cost(name: &str, unit: &str, value: f64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), value, larger_is_worse: true }
    }

    /// A value of which more is better.
    #[must_use]
    pub fn gain(name: &str, unit: &str, value: f64) -> Self {
        Self { larger_is_worse: false, ..Self::cost(name, unit, value) }
    }
}

/// The unit of a time, or of something a time, when it is by a virtual disk's clock; others stay as they are.
#[must_use]
pub fn model_unit(unit: &str) -> String {
    match unit {
        "s" | "ns" | "s/GiB" => format!("model {unit}"),
        "B/s" => "B/model s".to_owned(),
        "1/s" => "1/model s".to_owned(),
        other => other.to_owned(),
    }
}

/// What the names of a virtual disk's counters begin with, among metrics.
pub const DISK_COUNTER: &str = "disk_";
/// Time that went by on a virtual disk's clock, among metrics.
pub const MODEL_TIME: &str = "model_time";
/// How many times as long a measure took for the requests that a control added to it, among metrics.
pub const EXTRA_FACTOR: &str = "extra_factor";
/// How many these were.
pub const EXTRA_REQUESTS: &str = "extra_requests";

/// Mean number of requests that the device had while a measure's clock ran, among metrics.
pub const QUEUE_DEPTH: &str = "queue_depth";

/// The realised queue depth: the time that requests waited for their answers, summed, ÷ the time that went by in the same
/// unit (Little 1961).
#[must_use]
pub fn depth(waiting: f64, elapsed: f64) -> MeasureMetric {
    MeasureMetric::cost(QUEUE_DEPTH, "1", waiting / elapsed)
}

/// What a disk did as metrics: `model_time` and `queue_depth` when it keeps model time, and `disk_NAME` for each counter.
#[must_use]
pub fn disk_metrics(used: &DiskUse) -> Vec<MeasureMetric> {
    let mut metrics = Vec::new();
    if used.time == DiskTime::Model {
        metrics.push(MeasureMetric::cost(MODEL_TIME, "model ns", as_f64(used.elapsed_ns)));
        // Elsewhere the kernel's counters say it.
        let waiting_ns = used.counter(WAITING).filter(|_| used.elapsed_ns > 0);
        metrics.extend(waiting_ns.map(|waiting_ns| depth(waiting_ns, as_f64(used.elapsed_ns))));
    }
    // How well replies were timed is said of the host, and no cost of what was measured.
    let counters = used.counters.iter().filter(|counter| !DELAY_COUNTERS.contains(&counter.name.as_str()));
    metrics.extend(counters.map(|counter| {
        let DiskCounter { name, unit, value, .. } = counter;
        let unit = if used.time == DiskTime::Model { model_unit(unit) } else { unit.clone() };
        MeasureMetric::cost(&format!("{DISK_COUNTER}{name}"), &unit, *value)
    }));
    metrics
}

impl MeasureResult {
    /// The value of a metric.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_model_say_so() {
        for (unit, model) in
            [("s", "model s"), ("s/GiB", "model s/GiB"), ("B/s", "B/model s"), ("B", "B"), ("1", "1")]
        {
            assert_eq!(model_unit(unit), model);
        }
        let counter = |name: &str, unit: &str, value| DiskCounter {
            name: name.to_owned(),
            unit: unit.to_owned(),
            value,
            state: false,
        };
        let counters = vec![counter("seek_ns", "ns", 3.0), counter("erases", "1", 2.0)];
        let mut used = DiskUse { elapsed_ns: 7, counters, ..DiskUse::default() };
        let names = |used: &DiskUse| -> Vec<(String, String)> {
            disk_metrics(used).into_iter().map(|metric| (metric.name, metric.unit)).collect()
        };
        let pair = |name: &str, unit: &str| (name.to_owned(), unit.to_owned());
        let erases = pair("disk_erases", "1");
        assert_eq!(
            names(&used),
            [pair("model_time", "model ns"), pair("disk_seek_ns", "model ns"), erases.clone()]
        );
        used.time = DiskTime::Real;
        assert_eq!(names(&used), [pair("disk_seek_ns", "ns"), erases]);
        // Seven nanoseconds in which requests waited for 21 in all: three at a time.
        used.time = DiskTime::Model;
        used.counters.push(counter(WAITING, "ns", 21.0));
        let depth = disk_metrics(&used).into_iter().find(|metric| metric.name == QUEUE_DEPTH).unwrap();
        assert_eq!((depth.value.to_bits(), depth.unit.as_str()), (3.0_f64.to_bits(), "1"));
    }
}
