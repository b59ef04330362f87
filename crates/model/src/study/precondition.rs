//! The `precondition` stage and its parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fio::{BARE_HEAD_BYTES, BARE_TAIL_BYTES, FioEngine, FioPattern, FioPoint};
use crate::size::Bytes;

/// Unit that the bytes written are rounded down to: the block of the sequential passes.
const UNIT: u64 = 1 << 20;

/// Parameters of the `precondition` stage: the device is written sequentially from end to end, then at random until its
/// rate is steady (SNIA's performance test specification) and the device's size was written, so that flash is measured as it is in use and not as it is
/// when new. It comes first and works on the device before mkfs; on a real device it is done once, and further trials and
/// runs of the study take it from the store. Needs fio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreconditionStage {
    /// Name in dotted paths; absent: `precondition`.
    #[serde(default = "precondition_name")]
    pub name: String,
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// How often the whole device is written sequentially (1..=10).
    #[serde(default = "two")]
    pub fills: u32,
    /// Block size of the random writes: a multiple of the device's logical block.
    #[serde(default = "four_kib")]
    pub bs: Bytes,
    /// Requests under way per job (1..=4096); at most what the device's queue takes.
    #[serde(default = "thirty_two")]
    pub iodepth: u32,
    /// Jobs that write at random at the same time (1..=256).
    #[serde(default = "one")]
    pub numjobs: u32,
    /// Longest time of the random writes in seconds (0.5 to a week). They end earlier when their rate is steady, on flash not before the device's size was written.
    #[serde(default = "two_hours")]
    pub runtime: f64,
    /// Seconds of a round of the rule for steady state (at least 0.1); absent: 60, or a twentieth of `runtime` where that
    /// is less.
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
    /// The random writes as a point of fio on one stretch of the device.
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
        }
    }

    /// Seconds of a round.
    #[must_use]
    pub fn round_s(&self) -> f64 {
        self.round.unwrap_or_else(|| (self.runtime / 20.0).clamp(0.2, 60.0))
    }

    /// Bytes that are written of a device of this size: all but what tells whose it is. 0 where there is no room.
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
