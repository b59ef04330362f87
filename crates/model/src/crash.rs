//! Power cuts: what a disk may hold after one, and what a file system made of it.
//!
//! A *crash state* is what a disk may hold when power is lost at some point of its request log. Which states
//! there are follows from what the drive declares ([`DriveBehaviour`]); the fault model is docs/power.md.

mod block_log;
mod database;
mod flash;
mod found;
pub mod known;
mod operation;
mod program;
mod promise;
mod report;
mod script;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use block_log::{BlockLog, BlockWrite};
pub use database::{DatabaseModes, DatabasePromises, DatabaseSpec, JournalMode, Synchronous};
pub use flash::{FlashFault, FlashLoss, MAP_BYTES};
pub use found::{Attempt, AttemptSpec, AttemptTimes, CrashClass, Damage, DamageKind, UpdateOutcome};
pub use known::KnownFinding;
pub use operation::{
    ATTRIBUTE_NAME, CrashLoad, CrashLoadSpec, CrashOperation, LoadStep, MOST_THREADS, UpdateWay,
};
pub use program::{
    ACKNOWLEDGED_VARIABLE, ACKNOWLEDGES, Acknowledgement, CutFate, CutRequest, DIRECTORY_VARIABLE,
    LONGEST_ACKNOWLEDGEMENT, MOST_ACKNOWLEDGED_BYTES, ProgramReport, ProgramRun, ProgramSpec, StateCheck,
};
pub use promise::{Promises, is_found_broken, promises};
pub use report::{CrashReport, Failing, TimeSummary, WayOutcomes, at_most};
pub use script::{CrashScript, CrashScriptError, LARGEST_SCRIPTED_FILE_BYTES, SCRIPT_BEGINS};

/// How a drive treats writes and flushes, as visible after a power cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriveBehaviour {
    /// Writes wait in a volatile cache and may reach the medium in any order; a flush brings everything
    /// completed before it to the medium, and a FUA write is on the medium when it completes.
    #[default]
    Honest,
    /// As `honest`, but the last flush before the cut (and no other) completed without being performed.
    DropsFlush,
    /// Flushes and FUA writes complete without being performed: only data that the cache had no more space
    /// for is on the medium.
    Lying,
    /// The cache survives a power cut: every completed write is on the medium. Only a request in flight may
    /// be torn.
    Protected,
    /// Every completed write is on the medium, but the mapping table is damaged: ranges of 4 MiB have
    /// contents from before the last flush, or none (after Zheng et al. 2013, FAST: metadata corruption,
    /// unserializable writes). Needs consent.
    LostMapping,
    /// Every completed write is on the medium, but up to three blocks that the load wrote have up to three
    /// wrong bits each (after Zheng et al. 2013, FAST: bit corruption). Needs consent.
    BitErrors,
    /// No write cache and no power-loss protection: the flash page that shares its cells with the page being
    /// programmed at the cut is destroyed, however old it is (after Tseng et al. 2011, DAC). Needs consent.
    PairedPages,
}

impl DriveBehaviour {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Honest,
        Self::DropsFlush,
        Self::Lying,
        Self::Protected,
        Self::LostMapping,
        Self::BitErrors,
        Self::PairedPages,
    ];

    /// As a flag names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::DropsFlush => "drops-flush",
            Self::Lying => "lying",
            Self::Protected => "protected",
            Self::LostMapping => "lost-mapping",
            Self::BitErrors => "bit-errors",
            Self::PairedPages => "paired-pages",
        }
    }

    /// Whether it follows the rules of the block layer for flushes and FUA writes.
    #[must_use]
    pub const fn keeps_promises(self) -> bool {
        matches!(self, Self::Honest | Self::Protected)
    }

    /// Whether its states contain data that no kernel wrote there: hostile input for a kernel that mounts
    /// them.
    #[must_use]
    pub const fn fabricates(self) -> bool {
        matches!(self, Self::LostMapping | Self::BitErrors | Self::PairedPages)
    }
}

/// Which crash states of a log are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashSpec {
    /// What the drive does.
    pub drive: DriveBehaviour,
    /// Unit that the drive writes completely or not at all, in bytes: a multiple of its logical block.
    pub atomic_bytes: u64,
    /// Volatile cache in bytes of a drive that does not flush: the newest writes of this size may be missing.
    /// The cache of a drive that flushes holds everything between two flushes.
    pub cache_bytes: u64,
    /// Maximum number of states.
    pub states: u64,
    /// Random seed.
    pub seed: u64,
}

/// Cache of a drive that lies, unless another size is given.
pub const CACHE_BYTES: u64 = 4 << 20;

/// What a crash state was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CrashKind {
    /// Every request before the cut is on the medium.
    Prefix,
    /// Some requests that no flush brought to the medium are missing.
    Loss,
    /// Of one request only some atomic units are on the medium.
    Torn,
    /// The flash lost what the interface of block devices does not let it lose.
    Flash,
}

/// A request of which only a part reached the medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TornRequest {
    /// Its number in the log.
    pub entry: u64,
    /// The atomic units of it that are on the medium, counted from 0.
    pub kept: Vec<u64>,
}

/// One crash state of a log: enough to make it again from the same log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrashState {
    /// What it was made for.
    pub kind: CrashKind,
    /// Requests that were answered before the cut. Where several cuts leave the same image: the latest, at
    /// which most was promised.
    pub cut: u64,
    /// All requests before this one are on the medium.
    pub durable: u64,
    /// Writes between `durable` and the cut.
    pub pending: u64,
    /// Numbers of those that are missing, in order.
    pub lost: Vec<u64>,
    /// The one that is torn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn: Option<TornRequest>,
    /// What the flash lost beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flash: Vec<FlashLoss>,
    /// Digest of what differs from the disk at the start of the log.
    pub image: u64,
}

/// A state that the disk shows now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownState {
    /// Its place among those that are tried, from 0.
    pub number: u64,
    /// Which it is.
    pub state: CrashState,
    /// Time that it took to move there, in nanoseconds.
    pub moved_ns: u64,
}

/// How much of what is possible is covered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CrashCoverage {
    /// Requests in the log that change the disk.
    pub changes: u64,
    /// Flushes that the drive does, or says it does.
    pub flushes: u64,
    /// Most writes that may be missing at one cut.
    pub most_pending: u64,
    /// Binary logarithm of the number of (cut, missing writes) pairs, torn ones not counted.
    pub possible_log2: f64,
    /// States considered.
    pub considered: u64,
    /// Of these, states that differ from each other in what the disk holds.
    pub distinct: u64,
    /// Distinct states that will be shown: [`CrashSpec::states`] at most.
    pub planned: u64,
}
