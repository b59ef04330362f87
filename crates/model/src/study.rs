//! A study as its TOML says it: plain data that touches nothing.
//!
//! `[matrix]`, `[preset.*]` and `--set` change it by dotted paths before it is resolved. In a path a
//! stage is named by its `name`: `stage.age.workload.slots`.

mod claim;
mod cluster;
mod control;
mod drive;
mod fio;
mod precondition;
mod queue;
mod search;
pub mod stack;
mod stage;
mod target;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::disk::{DiskCpu, DiskTime};
use crate::fault::FaultSpec;
use crate::medium::{At, MediumSpec, PartitionSpec};
use crate::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use claim::*;
pub use cluster::{ClusterStack, ClusterStage};
pub use control::*;
pub use drive::{DriveShare, DriveSpec};
pub use fio::{FioStage, MOST_COMBINATIONS};
pub use precondition::PreconditionStage;
pub use queue::{Parameter, QueueError, QueueSpec, SCHEDULERS, is_parameter};
pub use search::*;
pub use stack::{FastDrive, LayerSpec};
pub use stage::*;
pub use target::{Architecture, GuestSpec, GuestTime, SshSpec, TargetSpec};

/// A study file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Name of the study, used in paths: lower-case letters, digits and dashes.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// Question that the study answers.
    pub question: String,
    /// Publication whose method the study follows.
    #[serde(default)]
    pub citation: String,
    /// Random seed; each repeat derives its own from it.
    #[serde(default)]
    pub seed: u64,
    /// On volumes in model time, remove the causes of variation between runs: kernel timers, scheduling on
    /// several CPUs, random numbers. For regression tests; the file system then does not run with its
    /// defaults (docs/disk.md).
    #[serde(default, skip_serializing_if = "is_false")]
    pub deterministic: bool,
    /// Trials per cell of the matrix (at least 1).
    #[serde(default = "one")]
    pub repeats: u32,
    /// Where trials run.
    #[serde(default)]
    pub target: TargetSpec,
    /// Virtual disks whose partitions are volumes of the study, by name (docs/volumes.md).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drive: BTreeMap<String, DriveSpec>,
    /// The volume under test.
    pub volume: VolumeSpec,
    /// The file system under test.
    #[serde(rename = "file_system")]
    pub file_system: FileSystemSpec,
    /// State of the volume that a trial measures (`aged`, `unaged`, `fresh`, …): a stage with `when` runs
    /// only in the states listed there. As a factor of the matrix it gives trials that share their first
    /// stages and differ in the rest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Stages of a trial, in order.
    pub stage: Vec<StageSpec>,
    /// Factors: dotted path → list of values. The cells are the cross product of all factors.
    #[serde(default)]
    pub matrix: BTreeMap<String, Vec<serde_json::Value>>,
    /// Combinations to leave out of the matrix: dotted path of a factor → value or list of values. A cell
    /// that matches every entry is skipped (`{ "stage.remedy.method" = "balance", "file_system.kind" =
    /// ["ext4", "xfs"] }`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<BTreeMap<String, serde_json::Value>>,
    /// Control trials, whose result is known in advance: they show whether the numbers of the study can be
    /// trusted (docs/controls.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<ControlsSpec>,
    /// Of a cell that `controls` made, which control it is; no key of a study file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub control: Option<Control>,
    /// Search for the options that make each cell of the matrix faster (docs/tuning.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchSpec>,
    /// Of a run of a search, its options without settings, which nothing else tells apart; no key of a study
    /// file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub null_options: Vec<String>,
    /// Sets of overrides: name → dotted path → value (`--quick` is the preset `quick`). `inherits` names a
    /// preset whose values apply first.
    // Older stores have it as `profile`.
    #[serde(default, alias = "profile")]
    pub preset: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// File systems without a built-in driver: name → definition.
    #[serde(default)]
    pub driver: BTreeMap<String, DriverSpec>,
    /// Media on which complete trials with a request log (`log = true`) are priced: how long the same
    /// requests would take there, computed without running the kernel again (docs/disk.md). A medium prices
    /// only trials of its own device class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price: Vec<MediumSpec>,
    /// Published findings to check.
    #[serde(default)]
    pub claim: Vec<ClaimSpec>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_one(value: &u32) -> bool {
    *value == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl StudySpec {
    /// Whether a cell with these factors is left out ([`StudySpec::exclude`]).
    #[must_use]
    pub fn excludes(&self, factors: &BTreeMap<String, serde_json::Value>) -> bool {
        let has = |(path, wanted): (&String, &serde_json::Value)| {
            factors.get(path).is_some_and(|value| match wanted {
                serde_json::Value::Array(any) => any.contains(value),
                one => one == value,
            })
        };
        self.exclude.iter().any(|rule| !rule.is_empty() && rule.iter().all(has))
    }

    /// The stages that run in this study's state, in order.
    pub fn stages(&self) -> impl Iterator<Item = &StageSpec> {
        self.stage.iter().filter(|stage| stage.runs_in(&self.state))
    }
}

/// Whether a dotted path names an option of another file system than `kind`: it changes nothing there.
#[must_use]
pub fn is_option_of_another(path: &str, kind: &str) -> bool {
    let of = path.strip_prefix("file_system.options.").and_then(|rest| rest.split('.').next());
    of.is_some_and(|of| of != kind)
}

/// The volume under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum VolumeSpec {
    /// A loop device over a fully allocated file: its whole size must be free on the host.
    ///
    Loop {
        /// Size of the file.
        size: Bytes,
        /// Folder of the file; absent: in the store.
        #[serde(default)]
        directory: Option<PathBuf>,
        /// Bypass the host's page cache (direct I/O of the loop device).
        #[serde(default = "yes")]
        direct_io: bool,
        /// Logical block size in bytes, 512 or 4096.
        #[serde(default = "sector")]
        sector_bytes: u32,
        /// I/O scheduler (`none`, `mq-deadline`, …); absent: not changed.
        #[serde(default)]
        scheduler: Option<String>,
        /// Other settings of the request queue, scheduler parameters included.
        #[serde(default, skip_serializing_if = "QueueSpec::is_empty")]
        queue: QueueSpec,
    },
    /// A real block device; it is written to only if the command line repeats its path with `--erase`.
    Device {
        /// Stable path of a disk or a partition (`/dev/disk/by-id/…`, `/dev/disk/by-partuuid/…`).
        path: PathBuf,
        /// I/O scheduler; absent: not changed.
        #[serde(default)]
        scheduler: Option<String>,
        /// Other settings of the request queue, scheduler parameters included.
        #[serde(default, skip_serializing_if = "QueueSpec::is_empty")]
        queue: QueueSpec,
    },
    /// A virtual disk in memory with the response times of a medium. `kind` may be omitted if `medium` is
    /// given.
    Disk(Box<DiskSpec>),
    /// A partition of a virtual disk that volumes of a trial share. `kind` may be omitted if `drive` is
    /// given.
    Partition {
        /// Name of the drive under `[drive]`.
        drive: String,
        /// Size, a multiple of 1 MiB.
        size: Bytes,
        /// Position on the drive: `outer` (the start), `inner` (the end) or an offset in bytes from the start;
        /// absent: after the previous partition, in the study's order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<At>,
    },
}

impl VolumeSpec {
    /// Its size, if the study gives it.
    #[must_use]
    pub fn size(&self) -> Option<Bytes> {
        match self {
            Self::Loop { size, .. } | Self::Partition { size, .. } => Some(*size),
            // What layers leave of it is known when they are made.
            Self::Disk(disk) => disk.stack.is_empty().then_some(disk.size),
            Self::Device { .. } => None,
        }
    }

    /// The I/O scheduler (`None`: not changed) and the settings of the queue that the study wants; `None` of a partition of
    /// a drive, which has the drive's.
    #[must_use]
    pub fn queue(&self) -> Option<(Option<&str>, &QueueSpec)> {
        match self {
            Self::Loop { scheduler, queue, .. } | Self::Device { scheduler, queue, .. } => {
                Some((scheduler.as_deref(), queue))
            }
            Self::Disk(disk) => Some((disk.scheduler.as_deref(), &disk.queue)),
            Self::Partition { .. } => None,
        }
    }

    /// Another volume of this kind beside it: a partition follows on the same drive.
    #[must_use]
    pub fn another(&self) -> Self {
        let mut other = self.clone();
        if let Self::Partition { at, .. } = &mut other {
            *at = None;
        }
        other
    }

    /// Its part of a drive, where it shares one with others.
    #[must_use]
    pub fn share(&self) -> Option<&DriveShare> {
        match self {
            Self::Disk(disk) => disk.share.as_deref(),
            Self::Loop { .. } | Self::Device { .. } | Self::Partition { .. } => None,
        }
    }

    /// Whether any of its drives is a model of a hard disk.
    #[must_use]
    pub fn is_hard_disk(&self) -> bool {
        let Self::Disk(disk) = self else { return false };
        let fast = disk.fast.as_ref().map(|fast| &fast.medium);
        fast.into_iter().chain([&disk.medium]).any(|medium| medium.preset().is_rotational())
    }

    /// Whether its time is a virtual disk's own.
    #[must_use]
    pub fn is_model_time(&self) -> bool {
        matches!(self, Self::Disk(disk) if disk.time == DiskTime::Model)
    }
}

/// A virtual disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Size, up to 16 TiB; with several `drives`, the size of each. Only written data takes memory, and data
    /// that fsage wrote takes almost none.
    pub size: Bytes,
    /// Device model: name of a preset (`fsage disk media` lists them), path of a medium file (`mine.toml`,
    /// docs/media.md), or a table with `preset` (name or path) and the parameters to change.
    pub medium: MediumSpec,
    /// Position of the volume on its drive, as a partition: `outer` (the start), `inner` (the end) or an
    /// offset in bytes from the start; absent: as `medium` says, else `outer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// `model`: requests complete at once, and their modelled time is only added to the disk's clock; `real`:
    /// each completion is delayed by the modelled time.
    #[serde(default)]
    pub time: DiskTime,
    /// CPU time in model time: `ignored` (default), or `serial`: the disk's clock also advances by the CPU
    /// time of the load's system calls, which varies from run to run (docs/disk.md).
    #[serde(default, skip_serializing_if = "DiskCpu::is_ignored")]
    pub cpu: DiskCpu,
    /// Logical block size in bytes, 512 or 4096.
    #[serde(default = "sector")]
    pub block_bytes: u32,
    /// Log every request and keep the log with the trial; the log takes memory.
    #[serde(default)]
    pub log: bool,
    /// Memory limit for data that is not self-describing (docs/disk.md); absent: derived from the host's
    /// available memory when the disk is created.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Folder of a temporary file for data beyond `memory`; absent: writes beyond it fail.
    #[serde(default)]
    pub spill: Option<PathBuf>,
    /// Faults to inject (docs/disk.md).
    #[serde(default)]
    pub faults: Option<FaultSpec>,
    /// I/O scheduler; absent: not changed.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Other settings of the request queue, scheduler parameters included.
    #[serde(default, skip_serializing_if = "QueueSpec::is_empty")]
    pub queue: QueueSpec,
    /// Number of equal drives below the `stack`, 1 without it; they work in parallel (docs/stacks.md).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub drives: u32,
    /// Additional drive of another medium, for a caching layer (docs/stacks.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<FastDrive>,
    /// Layers between the drives and the file system, lowest first (docs/stacks.md).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<LayerSpec>,
    /// Which partition of which drive it is. No key of a study: it is set where a study's drives are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub share: Option<Box<DriveShare>>,
}

impl DiskSpec {
    /// Bytes that its server serves: its own, or those of all partitions of its drive.
    #[must_use]
    pub fn served_bytes(&self) -> u64 {
        let own = || self.all_bytes();
        self.share.as_ref().map_or_else(own, |share| share.all_bytes())
    }

    /// Bytes of all of its drives.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        let fast = self.fast.as_ref().map_or(0, |fast| fast.size.0);
        self.size.0.saturating_mul(u64::from(self.drives)).saturating_add(fast)
    }

    /// Whether CPU time passes on its clock.
    #[must_use]
    pub const fn is_serial(&self) -> bool {
        matches!(self.cpu, DiskCpu::Serial)
    }

    /// The medium, with the position of the volume.
    #[must_use]
    pub fn drive(&self) -> MediumSpec {
        self.at.map_or_else(|| self.medium.clone(), |at| self.medium.placed(at))
    }

    /// The options of the virtual disk; of a partition those of its drive.
    #[must_use]
    pub fn options(&self) -> DiskOptions {
        let own = self.own_options();
        match &self.share {
            Some(share) => share.options(own, &self.medium),
            None => own,
        }
    }

    fn own_options(&self) -> DiskOptions {
        DiskOptions {
            size: Bytes(self.all_bytes()),
            partitions: Vec::new(),
            drives: self.drives,
            fast: self.fast.as_ref().map(|fast| (fast.size, fast.medium.to_string())),
            stack: self.stack.clone(),
            medium: self.drive().to_string(),
            rotational: self.medium.preset().is_rotational(),
            block_bytes: self.block_bytes,
            time: self.time,
            cpu: self.cpu,
            log: self.log,
            memory: self.memory,
            spill: self.spill.clone(),
            nbd: false,
            faults: self.faults.as_ref().and_then(|faults| serde_json::to_string(faults).ok()),
            scheduler: self.scheduler.clone(),
            queue: self.queue.clone(),
        }
    }
}

const fn yes() -> bool {
    true
}

const fn sector() -> u32 {
    4096
}

/// The file system under test. Options are kept per driver, so that a matrix over `file_system.kind` can set
/// those of each file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSpec {
    /// `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`, a name under `[driver]`, or `bare`: no file system, only for
    /// `fio` stages (docs/device.md).
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

impl FileSystemOptions {
    /// Mount options and parameters of mkfs in one list, as [`crate::crash::promises`] takes them: `noatime`,
    /// `journal=false`.
    #[must_use]
    pub fn listed(&self) -> Vec<String> {
        let mkfs = self.mkfs.iter().flat_map(|(name, value)| listed(name, value));
        self.mount.iter().cloned().chain(mkfs).collect()
    }
}

/// A parameter with its value: `journal=false`; of a list one for each, `features=^has_journal`.
fn listed(name: &str, value: &serde_json::Value) -> Vec<String> {
    let one = |value: &serde_json::Value| {
        value.as_str().map_or_else(|| format!("{name}={value}"), |text| format!("{name}={text}"))
    };
    value.as_array().map_or_else(|| vec![one(value)], |list| list.iter().map(one).collect())
}

/// A file system without a built-in driver. In commands, `{device}` stands for the volume, `{point}` for the
/// mount point and `{NAME}` for the parameter NAME.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverSpec {
    /// Type given to mount(2); absent: the driver's name.
    #[serde(default)]
    pub mount_type: Option<String>,
    /// Command that creates the file system (mkfs).
    pub mkfs: Vec<String>,
    /// Command that checks the file system (fsck); exit status 0 means clean. Absent: not checked, and the
    /// report says so.
    #[serde(default)]
    pub fsck: Option<Vec<String>>,
    /// Mount options that are always set.
    #[serde(default)]
    pub mount: Vec<String>,
    /// Command that mounts the file system, if mount(2) alone cannot (FUSE: `["ntfs-3g", "{device}",
    /// "{point}"]`); mount options are added as `-o LIST`. Absent: mount(2).
    #[serde(default)]
    pub mount_command: Option<Vec<String>>,
    /// Commands to run before each mount, on every host that mounts it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_mount: Vec<Vec<String>>,
    /// Cluster stack of a file system that several hosts can mount at the same time (`o2cb`, of OCFS2); absent: only one can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStack>,
    /// Commands to run after each mount, for example to set tunables.
    #[serde(default)]
    pub after_mount: Vec<Vec<String>>,
    /// Parameters of mkfs: name → default value (text, number or boolean). `{NAME}` in a command is replaced
    /// by the value, which `file_system.options.<driver>.mkfs.NAME` overrides.
    #[serde(default)]
    pub parameter: BTreeMap<String, serde_json::Value>,
    /// Minimum size of a volume; absent: none.
    #[serde(default)]
    pub minimum_size: Option<Bytes>,
    /// Allocation unit in bytes.
    #[serde(default = "sector")]
    pub block_bytes: u32,
    /// Package with the programs, named in the hint if they are missing.
    #[serde(default)]
    pub package: String,
}

/// Smallest and largest size of a disk that the server accepts, in bytes.
pub const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 40;

/// Label that every built-in driver gives a file system by default: a later run may overwrite a device that
/// carries it.
pub const LABEL: &str = "fsage";

/// A virtual disk, as a study or a command line gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// Size; of a drive with partitions or of several drives, all of them together.
    pub size: Bytes,
    /// Its partitions, each a block device; none: the disk is one device.
    pub partitions: Vec<PartitionSpec>,
    /// Equal drives, each a block device, that follow one another.
    pub drives: u32,
    /// One more drive at their end: size and medium.
    pub fast: Option<(Bytes, String)>,
    /// Layers above them, from the drives up.
    pub stack: Vec<LayerSpec>,
    /// Medium, in the form of the flag `--medium`.
    pub medium: String,
    /// Whether its medium is rotational, as the kernel reports it to file systems.
    pub rotational: bool,
    /// Logical block size.
    pub block_bytes: u32,
    /// Its clock: model time or real time.
    pub time: DiskTime,
    /// Whether CPU time passes on its clock.
    pub cpu: DiskCpu,
    /// Log every request.
    pub log: bool,
    /// Memory limit of data that is not self-describing; `None`: the server's default.
    pub memory: Option<Bytes>,
    /// Folder for the file that takes the data beyond `memory`.
    pub spill: Option<PathBuf>,
    /// Serve NBD as well.
    pub nbd: bool,
    /// Faults, as JSON.
    pub faults: Option<String>,
    /// I/O scheduler; `None`: not changed.
    pub scheduler: Option<String>,
    /// Other settings of the request queue.
    pub queue: QueueSpec,
}
