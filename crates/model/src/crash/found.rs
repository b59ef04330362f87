//! What a file system made of a crash state.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KnownFinding, Promises, UpdateWay};
use crate::location::Location;

/// What is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DamageKind {
    /// It cannot be mounted.
    Mount,
    /// The file system's own check finds errors after it was mounted and unmounted.
    Check,
    /// A name that was durable is gone, or a name is there that must not be.
    Name,
    /// Bytes that were durable are not there.
    Content,
    /// Bytes of another file, or of no file of the load, show in a file.
    Foreign,
    /// The check of the user's own program says so.
    Program,
    /// A database is not what any number of whole transactions leaves.
    Database,
    /// A transaction of a database is gone whose commit had returned.
    Transaction,
    /// It cannot be read, written, synced or unmounted afterwards.
    Use,
}

impl DamageKind {
    /// Those that a study may find, the worst first: it has no program of the user's.
    pub const ALL: [Self; 8] = [
        Self::Mount,
        Self::Check,
        Self::Name,
        Self::Content,
        Self::Foreign,
        Self::Database,
        Self::Transaction,
        Self::Use,
    ];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Check => "check",
            Self::Name => "name",
            Self::Content => "content",
            Self::Foreign => "foreign",
            Self::Program => "program",
            Self::Database => "database",
            Self::Transaction => "transaction",
            Self::Use => "use",
        }
    }
}

/// One thing that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// What.
    pub kind: DamageKind,
    /// Where, relative to the load's directory; empty: the whole file system.
    pub path: String,
    /// What is there and what should be.
    pub what: String,
    /// The known finding whose every condition it meets, whatever the file system is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<KnownFinding>,
}

/// How a state is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CrashClass {
    /// Everything that was promised is there.
    #[default]
    Ok,
    /// Damage that nobody promised would not happen: by the file system's documentation, or because the
    /// drive does not do what it answers.
    Documented,
    /// A promise was broken.
    Broken,
}

impl CrashClass {
    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Documented => "documented",
            Self::Broken => "broken",
        }
    }
}

/// What a file that was being replaced held after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateOutcome {
    /// What it held before.
    Old,
    /// What it was to hold.
    New,
    /// Nothing: it is empty.
    Empty,
    /// A part of the old or new content, or a mixture of both.
    Mixed,
    /// It is gone.
    Missing,
    /// Bytes that never were its own.
    Foreign,
}

impl UpdateOutcome {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Old, Self::New, Self::Empty, Self::Mixed, Self::Missing, Self::Foreign];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
            Self::Empty => "empty",
            Self::Mixed => "mixed",
            Self::Missing => "missing",
            Self::Foreign => "foreign",
        }
    }
}

/// How to try a state that a device shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptSpec {
    /// The device.
    pub device: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The load's directory there.
    pub directory: Location,
    /// Type of the mount.
    pub file_system: String,
    /// Options of the mount.
    pub options: Vec<String>,
    /// What the file system promises.
    pub promises: Promises,
    /// Whether the drive does what it answers.
    pub honest: bool,
    /// Requests of the log that were answered before the cut.
    pub cut: u64,
    /// Those of them that are not there, or not wholly.
    #[serde(default)]
    pub missing: Vec<u64>,
    /// Why there is no device: what a layer below it said when it was to start.
    #[serde(default)]
    pub layers: Option<String>,
    /// Write to it, to see whether it can be used.
    pub used: bool,
    /// The command that checks it after it was unmounted, where that is wanted; status 0: nothing found.
    #[serde(default)]
    pub check: Option<Vec<String>>,
    /// Longest that may take.
    pub check_timeout_ms: u64,
}

/// What one state took, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptTimes {
    /// Mounting, with recovery.
    pub mount_ns: u64,
    /// Comparing what is there with what was promised.
    pub verify_ns: u64,
    /// Unmounting.
    pub unmount_ns: u64,
    /// The check; 0 where none was made.
    pub check_ns: u64,
}

/// What was found in one state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// How it is judged, by what the file system promises on a drive that keeps its word.
    pub class: CrashClass,
    /// Everything that is damaged, the worst first; at most a few dozen.
    pub damage: Vec<Damage>,
    /// Where every promise that was broken is a known finding: which they are; else empty.
    #[serde(default)]
    pub known: Vec<KnownFinding>,
    /// Operations of the load that had returned before the cut.
    pub returned: u64,
    /// Names and contents that were compared.
    pub compared: u64,
    /// What became of files that were being replaced, and may have been either.
    pub updates: Vec<(UpdateWay, UpdateOutcome)>,
    /// What it took.
    pub times: AttemptTimes,
    /// Lines that the kernel logged about the device.
    pub kernel: Vec<String>,
    /// The kernel reported a bug of its own: no further state may be mounted.
    pub oops: bool,
    /// Whether the file system's check was made.
    pub checked: bool,
    /// The check of the user's own program did not end in time: without other damage the state is undecided.
    #[serde(default)]
    pub undecided: bool,
    /// Processes that the check of the user's own program left running, which were ended with it.
    #[serde(default)]
    pub left: u64,
    /// Whether it was written to and unmounted to see that it can be used.
    pub used: bool,
    /// Whether an array below it started by force only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}
