//! A study as its TOML says it: plain data that touches nothing.
//!
//! `[matrix]`, `[preset.*]` and `--set` change it by dotted paths before it is resolved. In a path a
//! stage is named by its `name`: `stage.age.workload.slots`.

mod stage;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::disk::DiskTime;
use crate::fault::FaultSpec;
use crate::medium::{At, MediumSpec};
use crate::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use stage::*;

/// The whole study file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Name in paths: lower case, digits and dashes.
    pub name: String,
    /// One line.
    pub title: String,
    /// What the study answers.
    pub question: String,
    /// The publication whose method it follows, if any.
    #[serde(default)]
    pub citation: String,
    /// Seed of every random choice; each repeat derives its own.
    #[serde(default)]
    pub seed: u64,
    /// Trials for each cell of the matrix (at least 1).
    #[serde(default = "one")]
    pub repeats: u32,
    /// Where trials run.
    #[serde(default)]
    pub target: TargetSpec,
    /// The device under test.
    pub volume: VolumeSpec,
    /// The file system under test.
    #[serde(rename = "file_system")]
    pub file_system: FileSystemSpec,
    /// Which of the study's states a trial is about (`aged`); stages that list states in `when` run only in
    /// those. A factor over it makes trials that share their first stages and differ in the rest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// What a trial does, in order.
    pub stage: Vec<StageSpec>,
    /// Dotted path → the values it takes; the cells are the cross product.
    #[serde(default)]
    pub matrix: BTreeMap<String, Vec<serde_json::Value>>,
    /// Name → dotted path → value: overrides taken together (`--quick` is the preset `quick`). `inherits`
    /// names a preset whose values come first.
    // Stores of before have it as `profile`.
    #[serde(default, alias = "profile")]
    pub preset: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// File systems described in TOML alone: name → description.
    #[serde(default)]
    pub driver: BTreeMap<String, DriverSpec>,
    /// Published findings to check.
    #[serde(default)]
    pub claim: Vec<ClaimSpec>,
}

const fn one() -> u32 {
    1
}

impl StudySpec {
    /// The stages that run in this study's state, in order.
    pub fn stages(&self) -> impl Iterator<Item = &StageSpec> {
        self.stage.iter().filter(|stage| stage.runs_in(&self.state))
    }
}

/// Where trials run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TargetSpec {
    /// This host.
    #[default]
    Local,
}

/// The device under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum VolumeSpec {
    /// A sparse file under a loop device.
    Loop {
        /// Size of the file.
        size: Bytes,
        /// Where the file is made; absent: in the store.
        #[serde(default)]
        directory: Option<PathBuf>,
        /// Bypass the host's page cache.
        #[serde(default = "yes")]
        direct_io: bool,
        /// Logical sector size, 512 or 4096.
        #[serde(default = "sector")]
        sector_bytes: u32,
        /// I/O scheduler (`none`, `mq-deadline`, …); absent: left alone.
        #[serde(default)]
        scheduler: Option<String>,
    },
    /// A real block device; written to only when the command line repeats it with `--erase`.
    Device {
        /// A stable path (`/dev/disk/by-id/…`).
        path: PathBuf,
        /// I/O scheduler; absent: left alone.
        #[serde(default)]
        scheduler: Option<String>,
    },
    /// A virtual disk: any medium, in memory. The kind need not be written where a medium is.
    Disk(Box<DiskSpec>),
}

impl VolumeSpec {
    /// Its size, where the study says it.
    #[must_use]
    pub fn size(&self) -> Option<Bytes> {
        match self {
            Self::Loop { size, .. } => Some(*size),
            Self::Disk(disk) => Some(disk.size),
            Self::Device { .. } => None,
        }
    }
}

/// A virtual disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Size, up to 16 TiB; only what is written takes memory, and data that fsage wrote almost none.
    pub size: Bytes,
    /// What it is made of: a preset (`fsage disk media` lists them), or a table with `preset` and what is
    /// changed of it.
    pub medium: MediumSpec,
    /// Where on its drive the volume lies: `outer` (the beginning), `inner` (the end) or so many bytes from the
    /// beginning, as a partition; absent: as `medium` says, else `outer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// `model`: requests cost nothing, what the medium would have taken is counted; `real`: replies come when
    /// the medium would have given them.
    #[serde(default)]
    pub time: DiskTime,
    /// Logical block size, 512 or 4096.
    #[serde(default = "sector")]
    pub block_bytes: u32,
    /// Keep every request: it takes memory.
    #[serde(default)]
    pub log: bool,
    /// Most memory for what is not self-describing data; absent: no limit.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Folder for a file, made and removed, that takes what goes beyond `memory`; absent: writes beyond fail.
    #[serde(default)]
    pub spill: Option<PathBuf>,
    /// Faults (docs/disk.md).
    #[serde(default)]
    pub faults: Option<FaultSpec>,
    /// I/O scheduler; absent: left alone.
    #[serde(default)]
    pub scheduler: Option<String>,
}

impl DiskSpec {
    /// The medium with the volume at its place.
    #[must_use]
    pub fn drive(&self) -> MediumSpec {
        self.at.map_or_else(|| self.medium.clone(), |at| self.medium.placed(at))
    }

    /// What a volume is made of it.
    #[must_use]
    pub fn options(&self) -> DiskOptions {
        DiskOptions {
            size: self.size,
            medium: self.drive().to_string(),
            rotational: self.medium.preset().is_rotational(),
            block_bytes: self.block_bytes,
            time: self.time,
            log: self.log,
            memory: self.memory,
            spill: self.spill.clone(),
            nbd: false,
            faults: self.faults.as_ref().and_then(|faults| serde_json::to_string(faults).ok()),
            scheduler: self.scheduler.clone(),
        }
    }
}

const fn yes() -> bool {
    true
}

const fn sector() -> u32 {
    4096
}

/// The file system under test. The tables named after drivers hold options that apply to that one only,
/// so that a matrix over `file_system.kind` can keep options for each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSpec {
    /// `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`, or a name under `[driver]`.
    pub kind: String,
    /// Driver name → its options.
    #[serde(default)]
    pub options: BTreeMap<String, FileSystemOptions>,
}

/// Options of one driver. `mkfs` keys are the driver's typed parameters (`fsage study schema` and
/// docs/file-systems.md list them); `mount` is a list of `-o` options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileSystemOptions {
    /// Parameter → value.
    pub mkfs: BTreeMap<String, serde_json::Value>,
    /// Mount options (`noatime`, `discard`, …).
    pub mount: Vec<String>,
}

/// A file system without a driver of its own. In the commands `{device}` and `{point}` stand for the
/// volume and the mount point, and `{NAME}` for the parameter NAME.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverSpec {
    /// Type given to mount(2); absent: the driver's name.
    #[serde(default)]
    pub mount_type: Option<String>,
    /// Command that makes it.
    pub mkfs: Vec<String>,
    /// Command that checks it; exit status 0 is clean. Absent: not checked, and the report says so.
    #[serde(default)]
    pub fsck: Option<Vec<String>>,
    /// Mount options always given.
    #[serde(default)]
    pub mount: Vec<String>,
    /// Command that mounts it, for file systems that mount(2) alone cannot mount (FUSE: `["ntfs-3g",
    /// "{device}", "{point}"]`); mount options are added as `-o LIST`. Absent: mount(2).
    #[serde(default)]
    pub mount_command: Option<Vec<String>>,
    /// Commands run after each mount (tunables).
    #[serde(default)]
    pub after_mount: Vec<Vec<String>>,
    /// Parameter → default value; its `{NAME}` in a command is replaced by the value, which
    /// `file_system.options.<driver>.mkfs.NAME` overrides. Values are text, numbers or booleans.
    #[serde(default)]
    pub parameter: BTreeMap<String, serde_json::Value>,
    /// Smallest volume it works on; absent: any.
    #[serde(default)]
    pub minimum_size: Option<Bytes>,
    /// Allocation unit in bytes.
    #[serde(default = "sector")]
    pub block_bytes: u32,
    /// Package that has the programs, for the hint when they are missing.
    #[serde(default)]
    pub package: String,
}

/// A published finding and how to check it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// Short name.
    pub id: String,
    /// Author, year, section or table.
    pub source: String,
    /// What the publication says, in one sentence.
    pub statement: String,
    /// The published number, as text (`"11.40 ms → 11.84 ms"`).
    #[serde(default)]
    pub published: String,
    /// How it is checked; absent: not tested here.
    #[serde(default)]
    pub check: Option<ClaimCheck>,
    /// Factor for each of whose values it has to hold, as a dotted path (`"file_system.kind"`): the trials of
    /// each value are judged for themselves, where otherwise all are taken together.
    #[serde(default)]
    pub each: Option<String>,
    /// Why it is not tested here, when `check` is absent.
    #[serde(default)]
    pub not_tested: String,
}

/// A check of a claim. Cells are chosen by factor values: dotted path → value; factors not named vary
/// freely and pair up between both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClaimCheck {
    /// metric(numerator) / metric(denominator), paired over the other factors and repeats.
    Ratio {
        /// Metric name.
        metric: String,
        /// Factor values of the numerator.
        numerator: BTreeMap<String, serde_json::Value>,
        /// Factor values of the denominator.
        denominator: BTreeMap<String, serde_json::Value>,
        /// Holds when the ratio's whole interval is above this…
        #[serde(default)]
        above: Option<f64>,
        /// … and below this.
        #[serde(default)]
        below: Option<f64>,
    },
    /// A metric's own value in the chosen cells.
    Value {
        /// Metric name.
        metric: String,
        /// Factor values.
        #[serde(default, rename = "where")]
        cells: BTreeMap<String, serde_json::Value>,
        /// Holds when the whole interval is above this…
        #[serde(default)]
        above: Option<f64>,
        /// … and below this.
        #[serde(default)]
        below: Option<f64>,
    },
    /// Ratio of a latency's mean over the last quarter of the run to that over the second quarter.
    Trend {
        /// Operation name (`create`).
        operation: String,
        /// Factor values.
        #[serde(default, rename = "where")]
        cells: BTreeMap<String, serde_json::Value>,
        /// Holds when the whole interval is above this…
        #[serde(default)]
        above: Option<f64>,
        /// … and below this.
        #[serde(default)]
        below: Option<f64>,
    },
}

/// Smallest disk that is of any use, and the largest that the server takes.
pub const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 40;

/// Label that every built-in driver gives a file system by default: a later run may overwrite a device that
/// carries it.
pub const LABEL: &str = "fsage";

/// A virtual disk, as the study or a command line says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// Size.
    pub size: Bytes,
    /// Medium, as a flag says it.
    pub medium: String,
    /// Whether its medium turns: what the kernel reports to file systems.
    pub rotational: bool,
    /// Logical block size.
    pub block_bytes: u32,
    /// How it keeps time.
    pub time: DiskTime,
    /// Keep every request.
    pub log: bool,
    /// Most memory for what is not self-describing data; `None`: no limit.
    pub memory: Option<Bytes>,
    /// Folder for the file that takes what goes beyond.
    pub spill: Option<PathBuf>,
    /// Serve NBD as well.
    pub nbd: bool,
    /// Faults, as JSON.
    pub faults: Option<String>,
    /// I/O scheduler; `None`: left alone.
    pub scheduler: Option<String>,
}
