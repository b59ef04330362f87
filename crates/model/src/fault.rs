//! Faults to inject, as they are written in a study or given to `fsage disk fault`.
//!
//! ```toml
//! seed = 7
//!
//! [[read_error]]              # two bad sectors in a thousand of the second gibibyte
//! offset_bytes = 1073741824
//! length_bytes = 1073741824
//! rate = 0.002
//!
//! [[write_error]]             # the tenth and the twentieth request fail, if they are writes
//! requests = [10, 20]
//!
//! [[ignored_flush]]           # the disk lies
//! rate = 1.0
//!
//! [[slow_region]]
//! offset_bytes = 0
//! length_bytes = 1048576
//! extra_ns = 20000000
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Faults of a virtual disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// Random seed of all faults.
    pub seed: u64,
    /// Sectors that cannot be read until they are rewritten. `rate` is per sector; `requests` are reads that
    /// make their sectors bad.
    pub read_error: Vec<RuleSpec>,
    /// Writes, discards and write-zeroes requests that fail. `rate` is per request.
    pub write_error: Vec<RuleSpec>,
    /// Flushes and FUA writes that complete without being performed. `rate` is per request; a region is not
    /// allowed.
    pub ignored_flush: Vec<RuleSpec>,
    /// Sectors that read back with one flipped bit until they are rewritten. `rate` is per sector; `requests`
    /// are writes whose sectors are affected.
    pub bit_rot: Vec<RuleSpec>,
    /// Requests that take longer. `rate` is per request.
    pub slow_region: Vec<SlowSpec>,
}

/// Where a fault occurs: in a region, at a rate, or both; or at given requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSpec {
    /// Offset of the region in bytes; absent: 0.
    pub offset_bytes: Option<u64>,
    /// Length of the region in bytes; absent: to the end of the disk.
    pub length_bytes: Option<u64>,
    /// Probability (0..=1); absent: 1.
    pub rate: Option<f64>,
    /// Numbers of requests, counted from 0 since the disk was created.
    pub requests: Vec<u64>,
}

/// Slow requests: where, and by how much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlowSpec {
    /// Offset of the region in bytes; absent: 0.
    pub offset_bytes: Option<u64>,
    /// Length of the region in bytes; absent: to the end of the disk.
    pub length_bytes: Option<u64>,
    /// Probability (0..=1); absent: 1.
    pub rate: Option<f64>,
    /// Numbers of requests, counted from 0 since the disk was created.
    pub requests: Vec<u64>,
    /// Time to add per request, in nanoseconds on the disk's clock.
    pub extra_ns: u64,
    /// Factor by which the time of the medium is multiplied (1..=1000, in steps of 0.001); absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
}

impl SlowSpec {
    /// Where it occurs.
    #[must_use]
    pub fn rule(&self) -> RuleSpec {
        RuleSpec {
            offset_bytes: self.offset_bytes,
            length_bytes: self.length_bytes,
            rate: self.rate,
            requests: self.requests.clone(),
        }
    }
}

/// A fault that is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// It has requests and a region or rate.
    #[error("{kind} {number} has requests as well as a region or a rate")]
    Both {
        /// Its list in the spec.
        kind: &'static str,
        /// Its place there, from 0.
        number: u64,
    },
    /// It has neither.
    #[error("{kind} {number} says neither where nor how often it strikes")]
    Nothing {
        /// Its list in the spec.
        kind: &'static str,
        /// Its place there, from 0.
        number: u64,
    },
    /// Flushes have no place.
    #[error("ignored_flush {number} has a region, but a flush is of the whole disk")]
    Placed {
        /// Its place in the list, from 0.
        number: u64,
    },
    /// The rate is no probability.
    #[error("{kind} {number} has the rate {rate}, which is not a probability")]
    Rate {
        /// Its list in the spec.
        kind: &'static str,
        /// Its place there, from 0.
        number: u64,
        /// The rate.
        rate: f64,
    },
    /// A slow region is none.
    #[error("slow_region {number} has the factor {factor}, which is not from 1 to 1000")]
    Factor {
        /// Its place in the list, from 0.
        number: u64,
        /// The factor.
        factor: f64,
    },
    /// The region is empty or not on the disk.
    #[error(
        "{kind} {number} has a region of {length_bytes} bytes from {offset_bytes} on, the disk has {size_bytes} bytes"
    )]
    Beyond {
        /// Its list in the spec.
        kind: &'static str,
        /// Its place there, from 0.
        number: u64,
        /// Where the region begins.
        offset_bytes: u64,
        /// How long it is.
        length_bytes: u64,
        /// The disk.
        size_bytes: u64,
    },
}

impl FaultError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Both { .. } => "make two faults of it".to_owned(),
            Self::Nothing { .. } => "give it offset_bytes and length_bytes, a rate, or requests".to_owned(),
            Self::Placed { .. } => "give it a rate or requests".to_owned(),
            Self::Rate { .. } => "give it a rate from 0 to 1".to_owned(),
            Self::Factor { .. } => "give it a factor from 1 to 1000".to_owned(),
            Self::Beyond { size_bytes, .. } => format!("keep it within 0 and {size_bytes}, and not empty"),
        }
    }
}
