//! The `precondition` stage and its parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fio::{BARE_HEAD_BYTES, BARE_TAIL_BYTES, FioEngine, FioPattern, FioPoint};
use crate::size::Bytes;

/// Unit that the bytes written are rounded down to: the block of the sequential passes.
const UNIT: u64 = 1 << 20;

/// Parameters of the `precondition` stage: the device is written sequentially from end to end, then at random
/// until its rate is steady (SNIA's performance test specification) and its size was written, so that flash
/// is measured as it is in use, not as it is when new. It is the first stage and works on the device before
/// mkfs. A real device is preconditioned once; later trials and runs of the study use the result recorded in
/// the store. Needs fio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreconditionStage {
    /// Name in dotted paths; absent: `precondition`.
    #[serde(default = "precondition_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Number of sequential passes over the whole device (1..=10).
    #[serde(default = "two")]
    pub fills: u32,
    /// Block size of the random writes: a multiple of the device's logical block size.
    #[serde(default = "four_kib")]
    pub bs: Bytes,
    /// Requests in flight per job (1..=4096). Jobs × `iodepth` must not exceed the device's `nr_requests`.
    #[serde(default = "thirty_two")]
    pub iodepth: u32,
    /// Number of jobs that write at random at the same time (1..=256).
    #[serde(default = "one")]
    pub numjobs: u32,
    /// Maximum time of the random writes in seconds (0.5 to 604,800). They end earlier if their rate is
    /// steady and, on flash, the device's size was written.
    #[serde(default = "two_hours")]
    pub runtime: f64,
    /// Length of a round of the steady-state criterion in seconds (at least 0.1); absent: 60, or a twentieth
    /// of `runtime` if that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<f64>,
}

fn precondition_name() -> String {
    "precondition".to_owned()
}

const fn two() -> u32 {
    2
}

const fn one() -> u32 {
    1
}

const fn thirty_two() -> u32 {
    32
}

const fn four_kib() -> Bytes {
    Bytes(4096)
}

const fn two_hours() -> f64 {
    7200.0
}

impl PreconditionStage {
    /// The random writes as a point of fio on one area of the device.
    #[must_use]
    pub const fn point(&self) -> FioPoint {
        FioPoint {
            rw: FioPattern::RandWrite,
            rwmixread: None,
            bs: self.bs,
            ioengine: FioEngine::Libaio,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            files: 1,
            direct: true,
            memory: None,
        }
    }

    /// Seconds of a round.
    #[must_use]
    pub fn round_s(&self) -> f64 {
        self.round.unwrap_or_else(|| (self.runtime / 20.0).clamp(0.2, 60.0))
    }

    /// Bytes to write on a device of this size: all but its two ends, which identify its contents. 0 if there
    /// is no space.
    #[must_use]
    pub const fn bytes(device_bytes: u64) -> u64 {
        let bytes = device_bytes.saturating_sub(BARE_HEAD_BYTES + BARE_TAIL_BYTES);
        bytes - bytes % UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_device_stay_as_they_are() {
        assert_eq!(PreconditionStage::bytes(100 << 20), 95 << 20);
        assert_eq!(PreconditionStage::bytes((100 << 20) + 512), 95 << 20);
        assert_eq!(PreconditionStage::bytes(5 << 20), 0);
        assert_eq!(PreconditionStage::bytes(0), 0);
    }

    #[test]
    fn a_round_is_a_minute_unless_the_time_is_short() {
        let stage = |keys: &str| serde_json::from_str::<PreconditionStage>(keys).unwrap();
        assert!((stage("{}").round_s() - 60.0).abs() < 1e-9);
        assert!((stage(r#"{"runtime": 100}"#).round_s() - 5.0).abs() < 1e-9);
        assert!((stage(r#"{"runtime": 1}"#).round_s() - 0.2).abs() < 1e-9);
        assert!((stage(r#"{"round": 7.5}"#).round_s() - 7.5).abs() < 1e-9);
        assert_eq!(stage("{}").point().to_string(), "randwrite-4k-libaio-d32-j1-f1");
    }
}
