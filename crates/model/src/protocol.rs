//! What lab and agent say to each other.
//!
//! A frame is `length: u32 LE` (bytes after this field), `kind: u8`, `id: u64 LE`, payload. `id` is the
//! request's; everything about a request carries it. Order on the stream is the order of sending.
//!
//! | kind | direction | payload |
//! | --- | --- | --- |
//! | 0 request | lab → agent | JSON [`Request`] |
//! | 1 event | agent → lab | JSON [`Event`], any number before the reply |
//! | 2 reply | agent → lab | JSON [`Reply`], one for each request |
//! | 3 chunk | agent → lab | raw bytes of the trace |
//! | 4 failure | agent → lab | JSON [`Failure`], instead of a reply |
//!
//! The agent ends, undoing nothing but stopping its own children, when its input ends: what it took
//! from the host is in the lab's lease journal. Requests run one at a time, except `Pause`, `Resume`,
//! `Stop` and `Abandon`, which act on the running one at once.

#![allow(missing_docs, reason = "fields of requests and replies are described on the variant")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::verify::VerifyResult;
use crate::warning::Warning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disk::DiskStat;
use crate::image::ImageSummary;
use crate::layout::{FreeSpace, LayoutSummary};
use crate::load::{LoadResult, LoadSpec, Probe, Tick};
use crate::location::Location;
use crate::lockstep::{LockstepResult, LockstepSpec};
use crate::measure::{MeasureResult, MeasureSpec};
use crate::replay::{ReplayOptions, ReplayResult};

/// Version of this protocol; both sides must have the same. Changes: 1 first; 2 directories below a mount point, what leased things are
/// told by, held devices; 3 the folder of a measure is told by its descriptor.
pub const PROTOCOL_VERSION: u32 = 3;

/// Longest frame accepted, in bytes after the length field.
pub const FRAME_LIMIT: u32 = 64 << 20;

/// What the lab asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// First on every stream.
    Hello { protocol: u32 },
    /// What this host is and can do.
    HostFacts,
    /// Run an external program. `argv[0]` is looked up in PATH and /usr/sbin, /sbin.
    RunTool { argv: Vec<String>, timeout_ms: u64 },
    /// The same, where what the program leaves in the background is to outlive the agent.
    StartServer { argv: Vec<String>, timeout_ms: u64 },
    /// Make a sparse file of `size_bytes` (when given) and attach it as a loop device.
    LoopAttach { file: PathBuf, size_bytes: Option<u64>, sector_bytes: u32, direct_io: bool },
    /// Detach every loop device whose backing file is `file`; none is not an error. `backing` is the file that was attached under this
    /// name: another one of that name keeps its devices, and the reply says so.
    LoopDetach { file: PathBuf, backing: Option<BackingFile> },
    /// End the virtual disk served from `directory`, killing its server when it does not go, and remove the folder; one
    /// that is gone is not an error.
    EndDisk { directory: PathBuf },
    /// What the virtual disk under `directory` says of itself.
    DiskStat { directory: PathBuf },
    /// Remove a file; a missing one is not an error.
    RemoveFile { file: PathBuf },
    /// Make a directory of the lab's and its parents, for this user alone.
    MakeDirectory { directory: PathBuf },
    /// Make a directory to work in; one that is there is not an error.
    MakeFolder { directory: Location },
    /// Remove a file that the lab made, or an empty directory (one that is not empty stays, as does what is mounted on); a missing one is not
    /// an error. What has its name and is another is left: `Reply::Left`.
    RemoveMade { path: PathBuf, directory: bool, made: Made },
    /// What is known about a block device, for the safety rules.
    BlockFacts { device: PathBuf },
    /// Hold a block device open from now on, if it still is the one of `identity`; loop devices that the agent attaches are held
    /// without it. Only what is held is mounted, written an image to, or has the settings of its queue changed, and it is compared with
    /// what it was before each time.
    HoldDevice { device: PathBuf, identity: DeviceIdentity },
    /// Hold a block device no longer; one that is not held is not an error.
    LetDeviceGo { device: PathBuf },
    /// Make a mount point, in a folder of the lab's for nothing else that only this user may enter.
    MakeMountPoint { point: PathBuf },
    /// Mount with exactly these options: a mount of the user's own that was unmounted for a moment.
    MountAgain { device: PathBuf, point: PathBuf, file_system: String, options: Vec<String> },
    /// Make what another program mounted `nosuid,nodev,noexec`.
    RestrictMount { point: PathBuf },
    /// Mount a device that is held, always `nosuid,nodev,noexec`, in a folder that only this user may enter; options as for mount(8) `-o`.
    Mount { device: PathBuf, point: PathBuf, file_system: String, options: Vec<String> },
    /// Unmount what this agent mounted there, or whatever is where it mounted nothing, waiting some seconds while it is busy; not
    /// mounted is not an error, something else mounted over it is.
    Unmount { point: PathBuf },
    /// What a sysfs or procfs setting is now.
    Get { path: PathBuf },
    /// Write a sysfs or procfs setting; the reply has the old value.
    Set { path: PathBuf, value: String },
    /// Write `old` back to a setting, but only where it still is `new`; one that is gone is not an error.
    Restore { path: PathBuf, old: String, new: String },
    /// Kill a process an earlier agent was (and everything that agent started), if `start_ticks` says that
    /// it is still that one, and wait until it is gone; a missing one is not an error.
    EndProcess { pid: u32, start_ticks: u64, timeout_ms: u64 },
    /// Keep the agent, and all that it starts from now on, on one processor.
    Pin,
    /// Bring the virtual disk that holds a directory to rest, where there is one in model time.
    DiskRest { directory: PathBuf },
    /// Write back and drop the page cache, dentries and inodes.
    DropCaches,
    /// `syncfs`.
    Sync { directory: PathBuf },
    /// `FITRIM` of the whole file system.
    Trim { directory: Location },
    /// Run a load: `Event::Tick`, `Event::Probe`, `Event::Progress` and chunks, then `Reply::Load`. `mount`: the mount point that its
    /// directory must be below; absent where the directory is the user's own choice.
    Load {
        load: Box<LoadSpec>,
        #[serde(default)]
        mount: Option<PathBuf>,
    },
    /// Run the operations of a trace again below a directory.
    Replay {
        trace: PathBuf,
        directory: PathBuf,
        #[serde(default)]
        options: ReplayOptions,
    },
    /// Set a workload up on several volumes: makes the initial directories. One at a time; an earlier one is forgotten.
    LockstepBegin { lockstep: Box<LockstepSpec> },
    /// Go on until round `until` is over: `Event::Progress`, then `Reply::Lockstep`. Nothing stays open afterwards. `Stop` ends it in the
    /// middle of a round.
    LockstepRun { until: u64 },
    /// Compare what is on every volume with what the workload made, and forget the workload.
    LockstepEnd,
    /// Layout of a directory tree; `threads` 0: one a CPU; `detail`: with the finer distributions.
    Scan {
        directory: Location,
        threads: u32,
        one_file_system: bool,
        #[serde(default)]
        detail: bool,
    },
    /// Where every file below a directory lies: chunks with a JSON line (`PlacedFile`) a file, then `Reply::Placed`. `cells`: stretches of
    /// equal length that the volume is divided into.
    Places { directory: Location, cells: u64 },
    /// Free space of the file system that holds `directory`.
    FreeSpace { directory: Location },
    /// `statfs`.
    Usage { directory: PathBuf },
    /// Check every block of self-describing data below a directory, on its own file system only unless `cross_mounts`.
    Verify {
        directory: Location,
        #[serde(default)]
        cross_mounts: bool,
    },
    /// Attach a file or block device as a loop device that refuses every write, with direct I/O where it can be.
    LoopAttachReadOnly { file: PathBuf, sector_bytes: u32 },
    /// Save a volume as an image: `Event::Progress` (blocks), then `Reply::Image`. `point` is where its file system is mounted
    /// from a read-only loop device over it, or, with `frozen`, itself; without it, or with `all_blocks`, every block is saved. `level` is zstd's,
    /// `threads` 0 takes what suits. It has no name until it is complete.
    ImageSave {
        device: PathBuf,
        point: Option<PathBuf>,
        frozen: bool,
        all_blocks: bool,
        file: PathBuf,
        level: i32,
        threads: u32,
        facts: BTreeMap<String, String>,
    },
    /// Write an image to a device or file (made when it is not there), which loses what it has, discarded first with `trim`: `Event::Progress` (blocks), then
    /// `Reply::Image`.
    ImageRestore { file: PathBuf, device: PathBuf, trim: bool, threads: u32 },
    /// Check every byte of an image: `Event::Progress` (blocks), then `Reply::Image`.
    ImageVerify { file: PathBuf, threads: u32 },
    /// Write self-describing data into the blocks that the files below a directory have.
    ImageMaterialise { directory: PathBuf },
    /// What an image is of.
    ImageInfo { file: PathBuf },
    /// Measure what age costs below `directory`: `Event::Progress`, then `Reply::Measured`. `device` whose requests
    /// are seen: absent, what `directory` is mounted from. `trace_instance`: name of the trace instance (`fsage-…`)
    /// that is made for it and removed; absent, requests are not looked at. `Stop` ends it with a failure.
    Measure {
        measure: MeasureSpec,
        directory: Location,
        device: Option<PathBuf>,
        seed: u64,
        trace_instance: Option<String>,
    },
    /// Make the folder of a measure that the lab runs, `fsage-measure` below `directory`, and hold it open until it is removed:
    /// `Reply::MeasureFolder`. One that is there is an error.
    MakeMeasureFolder { directory: Location },
    /// Remove the folder `fsage-measure` below `directory` with what is in it, and sync; a missing one is not an error.
    RemoveMeasureFolder { directory: Location },
    /// Copy the logical tree below `from`, in directory order and with one thread, into the empty directory `to`:
    /// `Event::Progress`, then `Reply::Copied`. `Stop` ends it with a failure.
    Copy { from: Location, to: Location },
    /// Remove a trace instance of ours; one that is not there is not an error.
    RemoveTraceInstance { name: String },
    /// Hold the running load at its next operation.
    Pause,
    /// Go on.
    Resume,
    /// End the running load; its reply comes as usual, stopped by `asked`. In `fast` mode the data is written in place first.
    Stop,
    /// The same without writing the data: the result says `materialised: false`.
    Abandon,
    /// End the agent after its reply.
    Goodbye,
}

/// What the agent says while a request runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A step of the latency evolution.
    Tick { tick: Tick },
    /// A probe.
    Probe { probe: Box<Probe> },
    /// How far it is, at least twice a second while it moves. `share` in 0..=1 where the end is known.
    Progress { operations: u64, elapsed_ns: u64, share: Option<f64>, note: String },
    /// Something the user should know; stored with the trial.
    Warning { warning: Warning },
}

/// What comes back when a request succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// To `Hello`. `start_ticks` is field 22 of the agent's /proc/PID/stat, `boot_id` the target's.
    Hello { protocol: u32, version: String, pid: u32, start_ticks: u64, boot_id: String },
    /// To `HostFacts`.
    HostFacts { facts: Box<HostFacts> },
    /// To `RunTool` and `StartServer`; a non-zero exit status is a reply, not a failure. Output is cut to its last 64 KiB.
    Tool { argv: Vec<String>, status: i32, stdout: String, stderr: String, elapsed_ns: u64 },
    /// To `LoopAttach`.
    Device { device: PathBuf },
    /// To `DiskStat`; `None` where there is no virtual disk.
    DiskStat { stat: Option<Box<DiskStat>> },
    /// To `BlockFacts`.
    BlockFacts { facts: Box<BlockFacts> },
    /// To `Pin`: which processor.
    Pinned { cpu: u32 },
    /// To `Get`, and to `Set` what was there before.
    Setting { old: String },
    /// To `Trim`.
    Trimmed { bytes: u64 },
    /// To `Load`.
    Load { result: Box<LoadResult> },
    /// To `LockstepRun`.
    Lockstep { result: Box<LockstepResult> },
    /// To `Replay`.
    Replayed { result: Box<ReplayResult> },
    /// To `Scan`.
    Layout { layout: Box<LayoutSummary>, elapsed_ns: u64 },
    /// To `Places`. `used`: share in use of each cell, empty where the file system does not tell; then `unknown` says why. `logical`:
    /// places are btrfs' own addresses.
    Placed { files: u64, failed: u64, logical: bool, volume_bytes: u64, used: Vec<f64>, unknown: String },
    /// To `FreeSpace`.
    FreeSpace { free_space: Box<FreeSpace>, elapsed_ns: u64 },
    /// To `Usage`.
    Usage { used_bytes: u64, total_bytes: u64, available_bytes: u64, file_system: String },
    /// To `Verify`.
    Verified { result: Box<VerifyResult> },
    /// To `ImageSave`, `ImageRestore`, `ImageVerify` and `ImageInfo`.
    Image { summary: Box<ImageSummary> },
    /// To `MakeMeasureFolder`: a path of the descriptor that the agent holds, which nobody can lead elsewhere.
    MeasureFolder { path: PathBuf },
    /// To `Measure`.
    Measured { result: Box<MeasureResult> },
    /// To `Copy`. Both digests are the same, or it would be a failure of kind `damage`; `elapsed_ns` is without the
    /// reading back.
    Copied {
        files: u64,
        bytes: u64,
        directories: u64,
        digest_from: String,
        digest_to: String,
        elapsed_ns: u64,
    },
    /// To `RemoveMade` and `LoopDetach`, when something else has the name: it was left alone, and why.
    Left { why: String },
    /// To everything else.
    Done,
}

/// What tells a file or directory from a later one of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Device number of its file system; `None`: another boot gave it, and after a boot numbers may be others.
    pub device: Option<u64>,
    /// Inode number.
    pub inode: u64,
    /// When it was made, in seconds and nanoseconds since 1970; `None` where the file system does not keep that.
    pub born: Option<(i64, u32)>,
}

impl FileIdentity {
    /// Whether both are of the same file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let device = self.device.is_none() || other.device.is_none() || self.device == other.device;
        device && self.inode == other.inode && self.born == other.born
    }

    /// What of it outlives this boot: without a birth time everything has to do.
    #[must_use]
    pub const fn of_earlier_boot(self) -> Self {
        if self.born.is_some() { Self { device: None, ..self } } else { self }
    }
}

/// How the lab made a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Its name, which nobody can guess, until it got the one it was made for.
    pub staged: String,
    /// Which one it is; `None`: it was not made yet, or had `staged` as its name at most.
    pub identity: Option<FileIdentity>,
}

/// What comes back when a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What failed, with its object, lower case, causes joined by `: `.
    pub message: String,
    /// What to do next; may be empty.
    pub hint: String,
    /// The errno behind it, where there is one.
    pub errno: Option<i32>,
    /// What kind of failure it is, which settles the exit code.
    pub kind: FailureKind,
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A bug or something unforeseen: exit 1.
    Internal,
    /// The request makes no sense: exit 2.
    Usage,
    /// The host lacks something: exit 3.
    Missing,
    /// It was tried and did not work: exit 4.
    Failed,
    /// Data is not what it must be: exit 5.
    Damage,
}

/// The host, as the report's setup table shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// `uname -r`.
    pub kernel: String,
    /// Machine type (`x86_64`).
    pub machine: String,
    /// `PRETTY_NAME` of os-release.
    pub distribution: String,
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs this process may use.
    pub cpus: u32,
    /// `MemTotal`.
    pub memory_bytes: u64,
    /// Boot id, to recognise leases of an earlier boot.
    pub boot_id: String,
    /// Effective user is root.
    pub root: bool,
    /// Block and nodev file systems the kernel has now.
    pub kernel_file_systems: Vec<String>,
    /// Program → version line, for every program fsage may call that was found.
    pub tools: BTreeMap<String, String>,
    /// Feature → what was found (`loop`, `fuse`, `virtual_disk`, `io_uring`, `tracefs`, `cgroup`, `schedulers`, `clocksource`…).
    pub features: BTreeMap<String, String>,
    /// Virtual machine kind, empty on bare metal.
    pub virtualisation: String,
}

/// What tells a block device from a later one of the same name or number. Valid until the next boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceIdentity {
    /// Device number.
    pub major: u32,
    /// Device number.
    pub minor: u32,
    /// `BLKGETDISKSEQ`: every attachment of a file and every medium has its own; `None` before Linux 5.15.
    pub sequence: Option<u64>,
    /// Size.
    pub size_bytes: u64,
    /// Of the file behind a loop device.
    pub backing: Option<BackingFile>,
}

/// The file behind a loop device, which its name does not tell from others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackingFile {
    /// Device number of its file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl DeviceIdentity {
    /// Whether it cannot be another's: without a sequence number only the file behind a loop device tells.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        self.sequence.is_some() || self.backing.is_some()
    }

    /// What of it differs in `found`, in words; `None`: it is the same device.
    #[must_use]
    pub fn difference(&self, found: &Self) -> Option<String> {
        let number = |of: &Self| format!("{}:{}", of.major, of.minor);
        if (self.major, self.minor) != (found.major, found.minor) {
            return Some(format!("its device number was {}, and is {}", number(self), number(found)));
        }
        if self.backing != found.backing {
            let named = |of: &Self| {
                let file = |file: BackingFile| format!("inode {} of device {}", file.inode, file.device);
                of.backing.map_or_else(|| "no file".to_owned(), file)
            };
            return Some(format!("{} was behind it, and now {}", named(self), named(found)));
        }
        if self.sequence != found.sequence {
            return Some("its medium or its file was taken away and another one is there".to_owned());
        }
        (self.size_bytes != found.size_bytes)
            .then(|| format!("it had {} bytes, and has {}", self.size_bytes, found.size_bytes))
    }
}

/// A block device, as the safety rules need it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlockFacts {
    /// Canonical path (`/dev/sda`).
    pub path: PathBuf,
    /// Size.
    pub size_bytes: u64,
    /// Logical sector size.
    pub sector_bytes: u32,
    /// Model, serial and firmware where known.
    pub model: String,
    /// Serial number of this very device, empty when unknown; a partition has none.
    pub serial: String,
    /// `PARTUUID` of a partition, empty when unknown and for whole devices.
    pub part_uuid: String,
    /// Rotational, by the kernel's word.
    pub rotational: bool,
    /// Current and possible I/O schedulers.
    pub scheduler: String,
    /// All schedulers it can have.
    pub schedulers: Vec<String>,
    /// Where it or a partition of it is mounted.
    pub mounted_at: Vec<PathBuf>,
    /// It or a partition of it is swap.
    pub swap: bool,
    /// Holders (device-mapper, md) and partitions.
    pub holders: Vec<String>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// What signature it carries (`ext4`, `gpt`, `LVM2`, …), `unreadable`, `unknown data`; empty when its first 4 MiB and
    /// its last 1 MiB are zeros.
    pub signature: String,
    /// Label (volume name) of the file system behind `signature` (ext*, xfs, btrfs), empty when it has none or
    /// none is known. `fsage` says that the volume is a previous run's and may be overwritten.
    pub label: String,
    /// Identifier that `signature` carries, as blkid writes it (`UUID`, of partition tables `PTUUID`); empty when it has none
    /// or none is known.
    pub uuid: String,
    /// `O_EXCL` open worked.
    pub exclusive: bool,
    /// Backing file, when it is a loop device.
    pub backing_file: Option<PathBuf>,
    /// What tells it from a later one of its name.
    pub identity: DeviceIdentity,
}
