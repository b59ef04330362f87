//! The record of a board: `record.jsonl`, one line of JSON for its beginning and one per cycle, in the order in
//! which they ended. Lines are only added. A line without an end was being written when the run was killed: it does
//! not count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format of a record.
///
/// 1: the first.
pub const POWER_CYCLE_VERSION: u32 = 1;

/// A line of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum RecordLine {
    /// The first.
    Begun(PowerCycleHeader),
    /// Every other one.
    Cycle(CycleRecord),
}

/// What a record is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCycleHeader {
    /// [`POWER_CYCLE_VERSION`] of the writer.
    pub version: u32,
    /// As the file says.
    pub name: String,
    /// Digest of all of the file that decides what a cycle is: everything but comments, `cycles` and `timeout`.
    pub digest: String,
    /// When it was begun: RFC 3339, UTC.
    pub at: String,
}

/// One cut, and what was found after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CycleRecord {
    /// The configuration.
    pub configuration: String,
    /// Which file system of the configuration, from 1.
    pub life: u64,
    /// Which cut of that file system, from 1.
    pub cycle: u64,
    /// When the cycle ended: RFC 3339, UTC.
    pub at: String,
    /// How long the load was to run before the cut, in nanoseconds.
    pub cut_after_ns: u64,
    /// What was found.
    pub outcome: CycleOutcome,
    /// The check repaired something.
    pub repaired: bool,
    /// The load had ended by itself, with status 0, before the cut.
    pub idle: bool,
    /// Found by inspecting a life that goes on, after a cut that is not counted: damage when a run was resumed, or
    /// an undecided cycle that is undecided again. It ends the life and is no cycle of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Lines that were acknowledged in this cycle.
    pub acknowledged: u64,
    /// Bytes that the file of this life's acknowledged lines has from this cycle on.
    pub acknowledged_bytes: u64,
    /// What `boot_id` said after the cut.
    pub boot_id: String,
    /// How long the steps after the cut took.
    pub times: StepTimes,
}

/// What was found after a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CycleOutcome {
    /// Everything that was acknowledged is there; also after a repair.
    Survived,
    /// It is not.
    Damage {
        /// What found it.
        found_by: CutDamage,
        /// Exit status of the command.
        status: i32,
        /// Its last line.
        reason: String,
    },
    /// A command did not end in its time, or its status says nothing of the file system.
    Undecided {
        /// Key of the command.
        step: String,
        /// Why.
        reason: String,
    },
}

/// What found damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutDamage {
    /// The check could not repair the file system.
    Check,
    /// It cannot be mounted.
    Mount,
    /// What was acknowledged is not there.
    Verify,
}

impl CutDamage {
    /// All, in the order in which they are found.
    pub const ALL: [Self; 3] = [Self::Check, Self::Mount, Self::Verify];

    /// The command that found it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Mount => "mount",
            Self::Verify => "verify",
        }
    }
}

/// Wall times of the steps after a cut, in nanoseconds; none of a step that was not reached or not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepTimes {
    /// From the start of `power_on` to the answer of `boot_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_ns: Option<u64>,
    /// Of `check`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_ns: Option<u64>,
    /// Of `mount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_ns: Option<u64>,
    /// Of `verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_ns: Option<u64>,
    /// Of `unmount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmount_ns: Option<u64>,
}

impl StepTimes {
    /// Each with its name, in the order of the table.
    #[must_use]
    pub const fn all(&self) -> [(&'static str, Option<u64>); 5] {
        [
            ("check", self.check_ns),
            ("mount", self.mount_ns),
            ("verify", self.verify_ns),
            ("unmount", self.unmount_ns),
            ("boot", self.boot_ns),
        ]
    }
}
