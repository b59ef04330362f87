//! What a `precondition` stage did to a device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fio::{DeviceCounts, FioEnd, FioLatency, FioSample};
use crate::quantity::share;

/// One sequential pass over the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Pass {
    /// Bytes written.
    pub bytes: u64,
    /// Nanoseconds that fio was at it, without its start-up.
    pub runtime_ns: u64,
}

impl Pass {
    /// Bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        share(self.bytes, self.runtime_ns) * 1e9
    }
}

/// What a `precondition` stage did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreconditionRecord {
    /// The stage's name.
    pub name: String,
    /// As fio has it (`fio-3.33`).
    pub version: String,
    /// When it was over, RFC 3339 in UTC.
    #[serde(default)]
    pub made: String,
    /// The trial that did it, where that is another one: this trial found the device preconditioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<String>,
    /// The trial whose preconditioning this one continued with further random writes, because they had not become
    /// steady there; the passes are of that trial or an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Bytes that the random writes of the trials before wrote, where it continues them.
    #[serde(default)]
    pub earlier_bytes: u64,
    /// The sequential passes, in order.
    pub passes: Vec<Pass>,
    /// How the random writes ended.
    pub end: FioEnd,
    /// The random writes, without those of the trials before.
    pub write: FioLatency,
    /// Nanoseconds of the random writes.
    pub runtime_ns: u64,
    /// Their rate, round by round.
    #[serde(default)]
    pub samples: Vec<FioSample>,
    /// What the block device counted over all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceCounts>,
    /// Wall time of all of it.
    #[serde(default)]
    pub elapsed_ns: u64,
}

impl PreconditionRecord {
    /// Whether the random writes reached the steady state.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.end == FioEnd::Steady
    }

    /// Bytes written at random, in this trial and those that it continues.
    #[must_use]
    pub const fn random_bytes(&self) -> u64 {
        self.earlier_bytes.saturating_add(self.write.bytes)
    }

    /// Random writes per second in the last rounds, at most five; nothing without a round.
    #[must_use]
    pub fn last_iops(&self) -> Option<f64> {
        let last = &self.samples[self.samples.len().saturating_sub(crate::steady_state::WINDOW)..];
        let operations = last.iter().map(|sample| sample.operations).sum();
        let ms: u64 = last.iter().map(|sample| sample.interval_ms).sum();
        (ms > 0).then(|| share(operations, ms) * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rate_is_that_of_the_last_five_rounds() {
        let sample = |operations| FioSample { at_ms: 0, interval_ms: 1000, operations, bytes: 0 };
        let record = PreconditionRecord {
            name: "precondition".to_owned(),
            version: String::new(),
            made: String::new(),
            taken_from: None,
            continues: None,
            earlier_bytes: 0,
            passes: vec![Pass { bytes: 4_000_000, runtime_ns: 2_000_000_000 }],
            end: FioEnd::Time,
            write: FioLatency::default(),
            runtime_ns: 0,
            samples: [900, 100, 100, 100, 100, 200].map(sample).to_vec(),
            device: None,
            elapsed_ns: 0,
        };
        assert_eq!((record.last_iops(), record.is_steady()), (Some(120.0), false));
        assert!((record.passes[0].bandwidth() - 2e6).abs() < 1e-6);
        assert_eq!(PreconditionRecord { samples: Vec::new(), ..record }.last_iops(), None);
    }
}
