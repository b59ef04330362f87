//! What lab and agent say to each other.
//!
//! A frame is `length: u32 LE` (bytes after this field), `kind: u8`, `id: u64 LE`, payload. `id` is the
//! request's; everything about a request carries it. Order on the stream is the order of sending.
//!
//! | kind | direction | payload |
//! | --- | --- | --- |
//! | 0 request | lab → agent | JSON [`Request`] |
//! | 1 event | agent → lab | JSON [`Event`], any number before the reply |
//! | 2 reply | agent → lab | JSON of the call's [`Call::Reply`], one for each request |
//! | 3 chunk | agent → lab | raw bytes of the trace |
//! | 4 failure | agent → lab | JSON [`Failure`], instead of a reply |
//!
//! The agent ends, undoing nothing but stopping its own children, when its input ends: what it took
//! from the host is in the lab's lease journal. Requests run one at a time, except `Pause`, `Resume`,
//! `Stop` and `Abandon`, which act on the running one at once.

#![allow(missing_docs, reason = "fields of requests and events are described on the whole")]

pub mod call;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::call::{Answer, Call, Handle, Reply, Request};
use crate::disk::DiskUse;
use crate::layout::LayoutSummary;
use crate::load::{Probe, Tick};
use crate::warning::Warning;

/// Version of this protocol; both sides must have the same. Changes: 1 first; 2 directories below a mount
/// point, what identifies leased things, held devices; 3 the folder of a measure is passed as a descriptor;
/// 4 a reply is the value alone, without its kind; 5 loop files with all their blocks, lock-step that resumes,
/// partition tables, timers by the disk's clock, what a copy took, deleting a share of files, continuing an
/// earlier load; 6 a lock-step that resumes can be stopped, and so can making a
/// loop file; points of fio; 7 loop devices over a part of a file, discarding a device; 8 requests
/// that a control adds to a measure, reads around boundaries, what the kernel says of a device's geometry,
/// what a log of requests has of self-describing blocks; 9 databases that a power cut is to hit;
/// 10 what a load for power cuts begins with is a reply; 11 wear counters of devices, settling a device, reads that are
/// timed one by one; 12 from how many bytes on fio may end steady, how long a device is quiet, serial numbers of wear;
/// 13 what layers are between drives and a file system, the lead of delayed replies, fio in a control group; 14 writes that
/// are timed one by one; 15 layers that are put together again; 16 CPU time of all that ran.
pub const PROTOCOL_VERSION: u32 = 16;

/// Longest frame accepted, in bytes after the length field.
pub const FRAME_LIMIT: u32 = 64 << 20;

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

/// Who answers: the reply to `Hello`. It looks as in every version of the protocol, so that each side can
/// tell the other's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename = "hello")]
pub struct Greeting {
    /// The agent's [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Field 22 of its /proc/PID/stat.
    pub start_ticks: u64,
    /// Boot id of the target.
    pub boot_id: String,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The command line, with the program's full path.
    pub argv: Vec<String>,
    /// Exit status; 128 + signal when a signal ended it.
    pub status: i32,
    /// The last 64 KiB of its standard output, as far as it is UTF-8.
    pub stdout: String,
    /// The same of its standard error.
    pub stderr: String,
    /// Wall time.
    pub elapsed_ns: u64,
}

/// What `statfs` says of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Blocks in use.
    pub used_bytes: u64,
    /// All blocks.
    pub total_bytes: u64,
    /// Blocks that an ordinary user may still take.
    pub available_bytes: u64,
    /// Its type (`ext4`).
    pub file_system: String,
}

/// A directory tree that was scanned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scanned {
    /// Its layout.
    pub layout: LayoutSummary,
    /// Time of the scan.
    pub elapsed_ns: u64,
}

/// What is known about all the files whose places went before as chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// Files whose places are known.
    pub files: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Places are btrfs' own addresses.
    pub logical: bool,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Share in use of each cell; empty where the file system does not tell.
    pub used: Vec<f64>,
    /// Why `used` is empty.
    pub unknown: String,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// Regular files; one with several names counts once.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directories below the root.
    pub directories: u64,
    /// Digest of what was read from the source.
    pub digest_from: String,
    /// Digest of the copy as read back from the volume; the same.
    pub digest_to: String,
    /// Time to copy and sync, without reading back.
    pub elapsed_ns: u64,
    /// What the virtual disk under the source did meanwhile, where there is one.
    #[serde(default)]
    pub source_disk: Option<DiskUse>,
    /// What that under the target did.
    #[serde(default)]
    pub target_disk: Option<DiskUse>,
    /// Bytes read from the source's device meanwhile; absent when the kernel does not say.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// Bytes written to the target's.
    #[serde(default)]
    pub written_bytes: Option<u64>,
}

/// What a device read and wrote since it came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written; discards are not.
    pub written: u64,
}

/// Files that were deleted to free their space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What tells a file or directory from a later one of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Device number of its file system; `None`: another boot gave it, and after a boot numbers may be
    /// others.
    pub device: Option<u64>,
    /// Inode number.
    pub inode: u64,
    /// When it was made, in seconds and nanoseconds since 1970; `None` where the file system does not keep
    /// that.
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
    /// The request is invalid: exit 2.
    Usage,
    /// The host lacks something: exit 3.
    Missing,
    /// It was tried and did not work: exit 4.
    Failed,
    /// Data is not what it must be: exit 5.
    Damage,
}

/// What a host did since it was booted: the difference of two says what went on meanwhile. 0 where the kernel
/// does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostActivity {
    /// All CPU time, in ticks.
    pub total_ticks: u64,
    /// CPU time of all that ran, interrupts included, in ticks, as the kernel accounts for it (sampled, on many).
    pub busy_ticks: u64,
    /// CPU time taken by the hypervisor for others, in ticks.
    pub stolen_ticks: u64,
    /// Bytes written to the host's own disks.
    pub disk_bytes_written: u64,
    /// Times that somebody dropped the page cache, or dentries and inodes.
    pub cache_drops: u64,
    /// Time that processes waited for memory, in microseconds (PSI, `some`).
    pub memory_wait_us: u64,
    /// Pages swapped in and out.
    pub swapped_pages: u64,
    /// Times that a CPU was throttled for its temperature.
    pub throttles: u64,
    /// Mean frequency of the CPUs at the moment, in kHz: no count.
    pub frequency_khz: u64,
}

impl HostActivity {
    /// One tick of `/proc/stat` in ns: `USER_HZ` is 100 on Linux (`include/asm-generic/param.h`).
    const TICK_NS: u64 = 10_000_000;

    /// CPU time of all that ran since `before`, in ns. `None` where the kernel does not tell.
    #[must_use]
    pub fn busy_ns_since(&self, before: &Self) -> Option<u64> {
        let ticks = self.busy_ticks.checked_sub(before.busy_ticks)?;
        (self.total_ticks > before.total_ticks).then(|| ticks.saturating_mul(Self::TICK_NS))
    }
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
    /// Feature → what was found (`loop`, `fuse`, `virtual_disk`, `io_uring`, `tracefs`, `cgroup`,
    /// `schedulers`, `clocksource`…).
    pub features: BTreeMap<String, String>,
    /// Virtual machine kind, empty on bare metal.
    pub virtualisation: String,
    /// Tells this host from others, and does not name it: 16 hexadecimal digits; empty in records from before this was kept.
    #[serde(default)]
    pub identity: String,
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
    /// Where it begins in that file.
    #[serde(default)]
    pub offset_bytes: u64,
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
        if self.offset_bytes != found.offset_bytes {
            let (was, is) = (self.offset_bytes, found.offset_bytes);
            return Some(format!("it began at byte {was} of its file, and begins at byte {is}"));
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
    /// Where a partition begins on its disk, in bytes; 0 for whole devices.
    pub start_bytes: u64,
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
    /// What signature it carries (`ext4`, `gpt`, `LVM2`, …), `unreadable`, `unknown data`; empty when its
    /// first 4 MiB and its last 1 MiB are zeros.
    pub signature: String,
    /// Label (volume name) of the file system behind `signature` (ext*, xfs, btrfs), empty when it has none
    /// or none is known. `fsage` says that the volume is a previous run's and may be overwritten.
    pub label: String,
    /// Identifier that `signature` carries, as blkid writes it (`UUID`, of partition tables `PTUUID`); empty
    /// when it has none or none is known.
    pub uuid: String,
    /// What else was recognised beside `signature` (`md`, `LVM2`, `zfs`, a partition table that the kernel does not
    /// show), so that neither need be what it holds; empty when nothing was.
    #[serde(default)]
    pub beside: String,
    /// `O_EXCL` open worked.
    pub exclusive: bool,
    /// Backing file, when it is a loop device.
    pub backing_file: Option<PathBuf>,
    /// What tells it from a later one of its name.
    pub identity: DeviceIdentity,
    /// Name of the disk that it is, or that it is a partition of (`sda`); the queue is the disk's.
    pub disk: String,
}

impl BlockFacts {
    /// Whether it is a partition of another device.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        !self.disk.is_empty() && self.path.file_name().is_some_and(|name| *name != *self.disk)
    }

    /// Whether both have sectors in common: one is the other by another name, or a part of it.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |of: &Self| of.start_bytes.saturating_add(of.size_bytes);
        self.disk == other.disk && self.start_bytes < end(other) && other.start_bytes < end(self)
    }
}

/// A disk with the partitions that it was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SplitDisk {
    /// The disk, canonical (`/dev/sda`).
    pub device: PathBuf,
    /// Identifier of its partition table (`PTUUID`).
    pub uuid: String,
    /// Partitions, from the beginning of the disk.
    pub partitions: Vec<DiskPartition>,
    /// The kernel reads this partition table by itself, so that the partitions are there after the next boot.
    pub lasting: bool,
}

/// A partition of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskPartition {
    /// Its number, from 1.
    pub number: u32,
    /// The block device (`/dev/sda1`).
    pub device: PathBuf,
    /// The path that names it after a reboot too (`/dev/disk/by-partuuid/…`); absent where no udev makes such
    /// links.
    pub link: Option<PathBuf>,
    /// Its `PARTUUID`.
    pub part_uuid: String,
    /// Where it begins on the disk.
    pub start_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}
