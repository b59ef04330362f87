//! One workload on several volumes in lock-step: what is asked, and what it leaves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::WriteMode;
use crate::location::Location;
use crate::quantity::as_f64;
use crate::workload::WorkloadSpec;

/// What is run on which volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockstepSpec {
    /// What is done; one that ends by itself, or `round_operations` is given.
    pub workload: WorkloadSpec,
    /// An existing directory on each volume, the leader's first.
    pub directories: Vec<Location>,
    /// Seed of every random choice.
    pub seed: u64,
    /// How data is written.
    #[serde(default)]
    pub write_mode: WriteMode,
    /// Operations of a round, for workloads without rounds of their own.
    #[serde(default)]
    pub round_operations: Option<u64>,
    /// As [`LoadSpec::deterministic`](crate::load::LoadSpec::deterministic).
    #[serde(default)]
    pub deterministic: bool,
}

/// What a part of a round took on one volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartCost {
    /// Operations done.
    pub operations: u64,
    /// Of these, those that failed (on the leader; followers leave them out).
    pub failed: u64,
    /// Bytes that they wrote.
    pub bytes_written: u64,
    /// Bytes that files lost.
    pub bytes_deleted: u64,
    /// Nanoseconds by the volume's clock, the sync at the end included: on a disk in model time all that went
    /// by in the part, else the operations' own time.
    pub elapsed_ns: u64,
    /// CPU time of the thread that worked, the workload's own on the leader included; near to `elapsed_ns` on
    /// a clock of the host's means that the CPU was measured.
    pub cpu_ns: u64,
    /// Bytes the kernel wrote to the device meanwhile; 0 where it does not say.
    pub device_bytes_written: u64,
}

/// One volume after a round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeRound {
    /// Making room: deleting, mostly.
    pub room: PartCost,
    /// What was written again.
    pub write: PartCost,
    /// Use of the volume afterwards, by `statfs`.
    pub used_bytes: u64,
    /// The most of it after a part of the round; 0 in records that do not say.
    #[serde(default)]
    pub most_used_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
    /// `elapsed_ns` is by a disk's model.
    pub model_time: bool,
    /// Its device was not at rest five seconds after one of its turns.
    #[serde(default)]
    pub still_busy: bool,
}

/// A round that is over. Round 0 fills the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Its number.
    pub round: u64,
    /// Operations tried on the leader since the beginning.
    pub operations: u64,
    /// Live files.
    pub files: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Each volume, in the order of the directories.
    pub volumes: Vec<VolumeRound>,
}

/// Use of the leader's volume as it was reported to a workload: bytes in use, and all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenUsage(pub u64, pub u64);

/// What a workload learnt from its volume in one run. With its specification and its seed that is all that
/// its operations follow from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunHistory {
    /// The round that it went on to.
    pub until: u64,
    /// Use at the beginning.
    pub begun: SeenUsage,
    /// Use found within a part, each after so many operations of the run.
    pub looks: Vec<(u64, SeenUsage)>,
    /// Use at the end of each part.
    pub parts: Vec<SeenUsage>,
    /// Operations that failed, by their number in the run (the first is 1), with the errno.
    pub failures: Vec<(u64, i32)>,
}

/// What a run leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockstepResult {
    /// Rounds that ended in this run.
    pub rounds: Vec<Round>,
    /// There is nothing more to do.
    pub finished: bool,
    /// It was stopped when asked, in the middle of a round; it cannot be resumed.
    pub stopped: bool,
    /// Digest of the logical tree, which is the same on every volume: hex, 32 characters.
    pub digest: String,
    /// Failures on the leader since the beginning, by errno name.
    pub failed: BTreeMap<String, u64>,
    /// What the workload learnt in this run.
    #[serde(default)]
    pub history: RunHistory,
}

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

impl PartCost {
    /// Seconds for each GiB that was written; nothing when nothing was.
    #[must_use]
    pub fn seconds_per_gib(&self) -> Option<f64> {
        let gib = as_f64(self.bytes_written) / GIB;
        (gib > 0.0).then(|| as_f64(self.elapsed_ns) / 1e9 / gib)
    }
}
