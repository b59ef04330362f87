//! What a measure found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::requests::RequestSummary;
use crate::protocol::Warning;

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
    /// System-level operations: reads, creates, names looked at, …; the measure's documentation says which.
    pub operations: u64,
    /// Block requests meanwhile; absent when they were not asked for or cannot be seen here.
    pub requests: Option<RequestSummary>,
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
    /// Its unit: `s`, `s/GiB`, `ns`, `B/s`, `B`, `1/s`, or `1` for counts and shares.
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

impl MeasureResult {
    /// The value of a metric.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }
}
