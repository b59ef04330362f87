//! What is to go wrong, as it is written down.
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

/// All faults of a disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// Random seed of all faults.
    pub seed: u64,
    /// Sectors that cannot be read until they are written. The rate is that of sectors; requests are reads
    /// whose sectors go bad.
    pub read_error: Vec<RuleSpec>,
    /// Writes, discards and zeroings that fail. The rate is that of requests.
    pub write_error: Vec<RuleSpec>,
    /// Flushes and forced writes that are answered, but bring nothing to the medium. The rate is that of
    /// requests; there is no place.
    pub ignored_flush: Vec<RuleSpec>,
    /// Sectors of which one bit reads flipped until it is written. The rate is that of sectors; requests are
    /// writes whose sectors rot.
    pub bit_rot: Vec<RuleSpec>,
    /// Requests that take longer. The rate is that of requests.
    pub slow_region: Vec<SlowSpec>,
}

/// When a fault strikes: in a region, at a rate, or both; or at requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSpec {
    /// First byte of the region; 0 unless given.
    pub offset_bytes: Option<u64>,
    /// Bytes of the region; to the end of the disk unless given.
    pub length_bytes: Option<u64>,
    /// Probability in 0..=1; 1 unless given.
    pub rate: Option<f64>,
    /// Numbers of requests, counted from the first that the disk ever had (0).
    pub requests: Vec<u64>,
}

/// When requests take longer, and by how much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlowSpec {
    /// First byte of the region; 0 unless given.
    pub offset_bytes: Option<u64>,
    /// Bytes of the region; to the end of the disk unless given.
    pub length_bytes: Option<u64>,
    /// Probability in 0..=1; 1 unless given.
    pub rate: Option<f64>,
    /// Numbers of requests, counted from the first that the disk ever had (0).
    pub requests: Vec<u64>,
    /// Time of the disk's clock that is added, in nanoseconds.
    pub extra_ns: u64,
    /// How many times as long as by itself the medium takes (1..=1000, in steps of 0.001); 1 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
}

impl SlowSpec {
    /// When it strikes.
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
    #[error("{kind} {number} has the rate {rate}, which is no probability")]
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
