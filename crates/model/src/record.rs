//! The store's files.
//!
//! `trial.json` is one [`TrialRecord`], for anyone who writes or reads it; readers accept older versions,
//! give keys that these lack their defaults, and ignore keys they do not know; writers never change the
//! meaning of a key.

use std::collections::BTreeMap;

use crate::cluster::ClusterRecord;
use crate::crash::CrashReport;
use crate::disk::DiskUse;
use crate::explanation::Explanation;
use crate::fio::FioRecord;
use crate::layout::{FreeSpace, LayoutSummary};
use crate::load::{LoadResult, Probe, Tick};
use crate::lockstep::Round;
use crate::measure::{MeasureResult, Work};
use crate::precondition::PreconditionRecord;
use crate::protocol::{BlockFacts, HostFacts};
use crate::remedy::Remedy;
use crate::warning::Warning;
use crate::wear::StageWear;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the store. 1: first. 2: stages `image`, `copy` and `measure`. 3: stage `lockstep`; later also
/// `explain.json`, the stage of a metric, and trial and factors in `probes.parquet`, which readers of version 3
/// may find missing and need not know. 4: stage `remedy`. 5: stages `fio`, whose JSON is in `fio/`, and
/// `power-cuts`; later also `precondition` and the devices' wear counters, which readers of version 5 may find
/// missing.
pub const STORE_VERSION: u32 = 5;

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialStatus {
    /// Every stage ran; what it measured counts.
    Complete,
    /// It was tried and failed; running the study again tries it again.
    Failed,
}

/// A number with a name, a unit and its samples. Names are made by [`crate::metric`]: dotted, lower case and
/// end in their unit unless they are shares or counts:
///
/// | name | what |
/// | --- | --- |
/// | `latency.OP.mean_ns`, `.p50_ns`, `.p99_ns`, `.p999_ns`, `.max_ns` | over the whole `age` stage; OP is an operation |
/// | `age.operations_per_s`, `age.elapsed_s`, `age.device_bytes`, `age.overhead_ns` | cost of ageing |
/// | `age.model_time`, `age.disk_NAME`, `age.wall_s` | on a virtual disk: its time, its counters; in model time also wall-clock time |
/// | `use.share` | utilisation of the volume at the last probe (`use.share_over_time`: at every probe) |
/// | `free.extents`, `free.median_bytes`, `free.largest_bytes` | free space at the end |
/// | `layout.small_extents` | used extents below 64 KiB at the end |
/// | `MEASURE`, `MEASURE.NAME` | the main metric of a measure and its other numbers (docs/measures.md) |
/// | `REMEDY.elapsed_s`, `.wall_s`, `.read_bytes`, `.written_bytes`, `.disk_NAME`, `.layout.*`, `.free.*` | cost of a `remedy` stage, and the state after it |
/// | `AFTER_over_BEFORE.MEASURE` | main metric of a measure after a remedy ÷ before it, if both did the same work |
/// | `VOLUME.write`, `VOLUME.MEASURE`, `VOLUME.use_share`, `VOLUME.layout.*`, `VOLUME.free.*` | of each volume of a `lockstep` stage; samples of the second half of its rounds |
/// | `A_over_B.MEASURE`, `A_over_B.write`, `use_over_fullness.MEASURE`, `VOLUME.write_late_over_early` | ratios between its volumes, sample by sample |
/// | `POINT.iops`, `.bandwidth`, `.mean_ns`, `.cpu_ns`, `.host_cpu_ns`, `.in_flight`, `.context_switches`, `.read_p99_ns`, … | a point of a `fio` stage, named after its parameters (docs/device.md) |
/// | `MEASURE.model_time`, `MEASURE.disk_NAME` | on a virtual disk: its time, its counters |
/// | `MEASURE.queue_depth` | mean number of requests at the device during the measure |
/// | `MEASURE.extra_factor`, `MEASURE.extra_requests` | of a control with added requests: factor by which they lengthened the measure, and their number |
/// | `CUTS.states`, `.kept_share`, `.documented_share`, `.broken_share`, `.unexplained_share` | crash states that a `power-cuts` stage tried, and their verdicts (docs/power.md) |
/// | `CUTS.damage.KIND_share`, `CUTS.WAY.OUTCOME_share` | states with that damage; replaced files with that outcome |
/// | `CUTS.mount.median_ns`, `CUTS.check.max_ns`, …, `CUTS.states_per_s` | wall-clock time per state |
/// | `layout.extents_per_file`, `layout.one_extent_share`, `layout.fragmented_share`, `layout.score`, `layout.noncontiguous_files` | files at the end |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Dotted name.
    pub name: String,
    /// `ns`, `s`, `bytes`, `count`, `share`, `1/s`, …; times of a virtual disk in model time are in `model
    /// ns`, `model s`, ….
    pub unit: String,
    /// All samples of this trial (mostly one).
    pub samples: Vec<f64>,
    /// Whether a larger value is worse (`true`), better (`false`), or neither (absent).
    #[serde(default)]
    pub larger_is_worse: Option<bool>,
    /// Identifies the run of the stages before an image; absent if there is none. All trials that continue
    /// from one image have the samples of that one run, which count as one sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Name of its stage; absent in old records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Work that was measured, for numbers of measures: numbers with different work are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

/// One finished stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StageRecord {
    /// An `age` stage.
    Age {
        /// The stage's name.
        name: String,
        /// Key of the image it was taken from, when this trial did not run it itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
        /// The stage whose files it worked on, when it made none of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<String>,
        /// What the load left.
        result: Box<LoadResult>,
        /// Steps of the latency evolution.
        #[serde(default)]
        ticks: Vec<Tick>,
        /// Probes in order.
        #[serde(default)]
        probes: Vec<Probe>,
    },
    /// An `image` stage: the volume was restored from an image.
    Image {
        /// The stage's name.
        name: String,
        /// Key of the image.
        key: String,
        /// Names the run that led to the image ([`Metric::run`]); empty in records from before this was kept.
        #[serde(default)]
        run: String,
        /// Whether this trial made it.
        #[serde(default)]
        made: bool,
        /// Size of the image's file.
        #[serde(default)]
        file_bytes: u64,
        /// Bytes of the volume that it holds.
        #[serde(default)]
        used_bytes: u64,
        /// Time of saving, when this trial made it.
        #[serde(default)]
        save_ns: Option<u64>,
        /// Time of restoring.
        #[serde(default)]
        restore_ns: u64,
    },
    /// A `copy` stage: later stages worked on the copy.
    Copy {
        /// The stage's name.
        name: String,
        /// Folder that was copied, the name of the stage that filled it.
        folder: String,
        /// Files copied.
        #[serde(default)]
        files: u64,
        /// Bytes in them.
        #[serde(default)]
        bytes: u64,
        /// Digest of names and contents, which original and copy have in common.
        #[serde(default)]
        digest: String,
        /// Time of copying, syncing included, reading back left out.
        #[serde(default)]
        elapsed_ns: u64,
        /// Whether the copy was saved and restored as the original was.
        #[serde(default)]
        restored: bool,
        /// Layout of the copy.
        #[serde(default)]
        layout: Box<LayoutSummary>,
        /// Free space of its volume, where the file system tells.
        #[serde(default)]
        free_space: Option<Box<FreeSpace>>,
    },
    /// A `measure` stage.
    Measure {
        /// The stage's name.
        name: String,
        /// Results in order.
        #[serde(default)]
        results: Vec<MeasureResult>,
        /// Measures left out: there were no old files, or no room.
        #[serde(default)]
        left_out: Vec<String>,
        /// Layout before the first measure.
        #[serde(default)]
        before: Box<LayoutSummary>,
        /// Free space then, where the file system tells.
        #[serde(default)]
        free_before: Option<Box<FreeSpace>>,
        /// Layout after the last measure.
        #[serde(default)]
        after: Box<LayoutSummary>,
        /// Free space then.
        #[serde(default)]
        free_after: Option<Box<FreeSpace>>,
    },
    /// A `remedy` stage.
    Remedy(Box<RemedyRecord>),
    /// A `fio` stage.
    Fio(Box<FioRecord>),
    /// A `lockstep` stage.
    Lockstep {
        /// The stage's name.
        name: String,
        /// Names of the volumes, the leader first; the copy, if any, is last and takes part in no round.
        #[serde(default)]
        volumes: Vec<String>,
        /// Every round, round 0 filling the volume.
        #[serde(default)]
        rounds: Vec<Round>,
        /// Looks, at intervals of rounds.
        #[serde(default)]
        looks: Vec<Look>,
        /// Digest of the logical tree at the end.
        #[serde(default)]
        digest: String,
        /// Operations that failed on the leader, and were left out on the others, by errno name.
        #[serde(default)]
        failed: BTreeMap<String, u64>,
        /// Rounds after which it was interrupted and continued from the look there.
        #[serde(default)]
        resumed_after: Vec<u64>,
    },
    /// A `power-cuts` stage.
    PowerCuts(Box<PowerCutsRecord>),
    /// A `precondition` stage.
    Precondition(Box<PreconditionRecord>),
    /// A `cluster` stage.
    Cluster(Box<ClusterRecord>),
}

/// What a `power-cuts` stage found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerCutsRecord {
    /// The stage's name.
    pub name: String,
    /// What came of the states.
    pub report: CrashReport,
}

/// What a `remedy` stage did and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemedyRecord {
    /// The stage's name.
    pub name: String,
    /// What was done.
    pub method: Remedy,
    /// The command as a shell would read it; empty where fsage did it itself.
    #[serde(default)]
    pub command: String,
    /// The end of what the program said.
    #[serde(default)]
    pub said: String,
    /// Why it did not complete, if the volume had no room for it; empty if it completed.
    #[serde(default)]
    pub incomplete: String,
    /// Wall time, syncing included.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// What the virtual disk did for it: of a copy, the one that was written to. Absent on anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// Of a copy, what the virtual disk did that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_disk: Option<DiskUse>,
    /// Bytes that the device read meanwhile; absent when the kernel does not say.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// Bytes that were written to the device meanwhile (of a copy, to the new one).
    #[serde(default)]
    pub written_bytes: Option<u64>,
    /// Files that were copied or deleted.
    #[serde(default)]
    pub files: u64,
    /// Bytes that were copied, deleted or trimmed.
    #[serde(default)]
    pub bytes: u64,
    /// Layout afterwards.
    #[serde(default)]
    pub layout: LayoutSummary,
    /// Free space then, where the file system tells.
    #[serde(default)]
    pub free_space: Option<FreeSpace>,
}

/// The volumes of a `lockstep` stage after a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// Rounds that were over.
    pub round: u64,
    /// Digest of the logical tree, the same on every volume.
    pub digest: String,
    /// Each volume, in the stage's order.
    pub volumes: Vec<VolumeLook>,
}

/// One volume of a [`Look`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeLook {
    /// Its name.
    pub name: String,
    /// Layout of its files.
    pub layout: Box<LayoutSummary>,
    /// Its free space, where the file system tells.
    #[serde(default)]
    pub free_space: Option<Box<FreeSpace>>,
    /// What was measured, each from a cold start.
    pub measures: Vec<MeasureResult>,
}

impl StageRecord {
    /// Name of the stage.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Age { name, .. }
            | Self::Image { name, .. }
            | Self::Copy { name, .. }
            | Self::Measure { name, .. }
            | Self::Lockstep { name, .. } => name,
            Self::Remedy(remedy) => &remedy.name,
            Self::Fio(fio) => &fio.name,
            Self::PowerCuts(cuts) => &cuts.name,
            Self::Precondition(done) => &done.name,
            Self::Cluster(cluster) => &cluster.name,
        }
    }

    /// Layout that the stage left, where it says.
    #[must_use]
    pub fn layout(&self) -> Option<&LayoutSummary> {
        match self {
            Self::Age { result, .. } => Some(&result.layout),
            Self::Copy { layout, .. } => Some(layout),
            Self::Measure { after, .. } => Some(after),
            Self::Remedy(remedy) => Some(&remedy.layout),
            Self::Lockstep { looks, .. } => looks.last()?.volumes.first().map(|volume| &*volume.layout),
            Self::Image { .. }
            | Self::Fio(_)
            | Self::PowerCuts(_)
            | Self::Precondition(_)
            | Self::Cluster(_) => None,
        }
    }

    /// What a `power-cuts` stage found.
    #[must_use]
    pub fn power_cuts(&self) -> Option<&CrashReport> {
        if let Self::PowerCuts(cuts) = self { Some(&cuts.report) } else { None }
    }

    /// What a `precondition` stage did.
    #[must_use]
    pub fn precondition(&self) -> Option<&PreconditionRecord> {
        if let Self::Precondition(done) = self { Some(done) } else { None }
    }

    /// What the stage says of the tree.
    #[must_use]
    pub fn tree(&self) -> TreeMark<'_> {
        match self {
            Self::Age { result, .. } => TreeMark::Left(&result.digest),
            Self::Lockstep { digest, .. } => TreeMark::Left(digest),
            Self::Measure { .. } => TreeMark::Measured,
            _ => TreeMark::Nothing,
        }
    }

    /// What the load of an `age` stage left.
    #[must_use]
    pub fn load(&self) -> Option<&LoadResult> {
        if let Self::Age { result, .. } = self { Some(result) } else { None }
    }

    /// Whether it left files on the volume, in a folder called as it is.
    #[must_use]
    pub const fn fills(&self) -> bool {
        matches!(self, Self::Age { continues: None, .. } | Self::Lockstep { .. })
    }

    /// Probes of an `age` stage; of others none.
    #[must_use]
    pub fn probes(&self) -> &[Probe] {
        if let Self::Age { probes, .. } = self { probes } else { &[] }
    }
}

/// `trials/<id>/explain.json`: where the files of each volume lay at the end, and what that costs to read.
/// Absent where no stage looked, in trials of an older fsage, and where it could not be found out, of which a
/// warning of the kind `places` tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacesRecord {
    /// [`STORE_VERSION`] of the writer.
    pub version: u32,
    /// In the order in which they were inspected.
    pub volumes: Vec<VolumePlaces>,
}

/// One volume of a [`PlacesRecord`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumePlaces {
    /// The stage that looked.
    pub stage: String,
    /// What the volume is called in a `lockstep` stage; empty where a stage has one.
    #[serde(default)]
    pub volume: String,
    /// The worst files and directories, with shares of cells in thousandths.
    pub explanation: Explanation,
}

/// `trials/<id>/trial.json`. `S` is what is kept of a stage: all of it ([`StageRecord`]), or nothing
/// ([`Unread`]) where only metrics are wanted, which keeps a store of long runs within memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord<S = StageRecord> {
    /// [`STORE_VERSION`] of the writer.
    pub version: u32,
    /// What wrote it: `fsage 0.1.0, protocol 1, workload 1`; empty in records from before this was kept.
    #[serde(default)]
    pub program: String,
    /// Hash of the resolved spec: 16 hex characters.
    pub id: String,
    /// Study name.
    #[serde(default)]
    pub study: String,
    /// Dotted path → value, of the matrix' factors only.
    #[serde(default)]
    pub factors: BTreeMap<String, serde_json::Value>,
    /// 0-based repeat.
    #[serde(default)]
    pub repeat: u32,
    /// Seed of this trial.
    #[serde(default)]
    pub seed: u64,
    /// What became of it.
    pub status: TrialStatus,
    /// Error text with causes, when failed.
    #[serde(default)]
    pub error: String,
    /// Start, RFC 3339 in UTC.
    #[serde(default)]
    pub started: String,
    /// Wall time.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// Where it ran.
    #[serde(default)]
    pub host: HostFacts,
    /// The device under test.
    #[serde(default)]
    pub device: BlockFacts,
    /// Every command and setting, in order, as a shell would read them.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The resolved spec.
    #[serde(default)]
    pub spec: serde_json::Value,
    /// Stages in order.
    #[serde(default = "Vec::new")]
    pub stages: Vec<S>,
    /// What a real device said of its own wear before and after each stage; empty for other volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wear: Vec<StageWear>,
    /// Numbers.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// Typed warnings.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Result of the check after the last unmount (`clean`, `not checked: …`, or what it said).
    #[serde(default)]
    pub check: String,
    /// Final layout, for quick access.
    #[serde(default)]
    pub layout: Option<LayoutSummary>,
}

/// A stage of a [`TrialRecord`] of which only the tree is kept that it left: as little memory as [`Unread`], and
/// enough to say whether two trials measured the same files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StageTree {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    result: TreeDigest,
}

/// The digest among a load's results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct TreeDigest {
    digest: String,
}

/// What a stage says of the tree of files that is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeMark<'a> {
    /// It left a tree with this digest; empty where it is not known.
    Left(&'a str),
    /// It measured the tree.
    Measured,
    /// Nothing.
    Nothing,
}

impl StageTree {
    /// Whether the device was preconditioned by it, or found so.
    #[must_use]
    pub fn is_precondition(&self) -> bool {
        self.kind == "precondition"
    }

    /// What the stage says of the tree.
    #[must_use]
    pub fn tree(&self) -> TreeMark<'_> {
        match self.kind.as_str() {
            "age" => TreeMark::Left(&self.result.digest),
            "lockstep" => TreeMark::Left(&self.digest),
            "measure" => TreeMark::Measured,
            _ => TreeMark::Nothing,
        }
    }
}

/// A stage of a [`TrialRecord`] that was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}
