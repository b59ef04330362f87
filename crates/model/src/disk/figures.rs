//! What a disk and its server say of themselves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{DiskCounter, DiskCpu, DiskTime};

/// The state of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerStat {
    /// The server.
    pub process: ProcessRecord,
    /// What the disk is made of, as it was asked for.
    pub medium: String,
    /// Whether answers take the medium's time.
    pub time: DiskTime,
    /// Whether CPU time passes on its clock.
    #[serde(default, skip_serializing_if = "DiskCpu::is_ignored")]
    pub cpu: DiskCpu,
    /// How requests come, of FUSE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Clients of the network block device, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd_clients: Option<usize>,
    /// The disk: its clock, requests, contents, and what its medium and its faults counted.
    pub disk: DiskFigures,
    /// What went through the gate.
    pub gate: GateCounts,
    /// How exact the delays are, in real time.
    pub delay_error: DelayError,
}

/// The log that a disk keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStat {
    /// Requests in it.
    pub entries: u64,
    /// Memory for its lists; the data of overwritten blocks is in the store's figure.
    pub memory_bytes: u64,
    /// Nothing more is logged, and changes fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
}

/// The state of a disk in figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFigures {
    /// Its size.
    pub size_bytes: u64,
    /// The unit in which it is addressed.
    pub block_bytes: u32,
    /// Its clock: nanoseconds of model time since it was made.
    pub clock_ns: u64,
    /// Nanoseconds of these in which it had something to do.
    pub busy_ns: u64,
    /// Nanoseconds from arrival to answer, summed over all requests: ÷ `clock_ns` it is their mean number in the disk
    /// (Little 1961).
    pub waiting_ns: u64,
    /// Requests so far.
    pub requests: Counts,
    /// Its contents.
    pub store: StoreUsage,
    /// Its log, while it keeps one.
    pub log: Option<LogStat>,
    /// What its medium counted.
    pub medium: Vec<DiskCounter>,
    /// How often its faults struck.
    pub faults: Vec<DiskCounter>,
}
/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Requests that were answered, failed ones too.
    pub requests: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// Requests of every kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub read: Count,
    /// Writes.
    pub write: Count,
    /// Flushes.
    pub flush: Count,
    /// Discards.
    pub discard: Count,
    /// Writes of zeros without data.
    pub zero: Count,
}

/// What a store holds and takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreUsage {
    /// Bytes of the disk's blocks that are not zero.
    pub held_bytes: u64,
    /// The disk's blocks that are kept as they are.
    pub raw_blocks: u64,
    /// The disk's blocks that are kept by what they say they are.
    pub described_blocks: u64,
    /// The rest.
    pub zero_blocks: u64,
    /// Raw pages in use, by the disk, its snapshots, views and log together.
    pub pages: u64,
    /// Bytes of memory for all that: raw pages with spares, maps, tables. Not the log's own lists.
    pub memory_bytes: u64,
    /// Of these, what says which block holds what.
    pub map_bytes: u64,
    /// Of these, pages that were not used lately, packed.
    pub packed_bytes: u64,
    /// Bytes in the spill file.
    pub spilled_bytes: u64,
    /// Snapshots that exist.
    pub snapshots: u64,
}

/// What went through a gate, beside what the disk itself counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateCounts {
    /// Times that requests were handed over.
    pub batches: u64,
    /// Most requests in one of these.
    pub largest_batch: u64,
    /// Requests for what the disk does not have: they never reached it.
    pub refused: u64,
}

/// How exactly answers were given in [`DiskTime::Real`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayError {
    /// Answers that were delayed.
    pub answers: u64,
    /// How much later than they should they were given, on the average.
    pub mean_ns: u64,
    /// The sum over all of them.
    #[serde(default)]
    pub sum_ns: u64,
    /// The worst of them.
    pub max_ns: u64,
    /// How much earlier than the medium's time they should be given: what the way between the block device and the server
    /// takes.
    #[serde(default)]
    pub lead_ns: u64,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// By reading and writing `/dev/fuse`.
    Device,
    /// By io_uring.
    IoUring,
}

/// A process that cannot be taken for another one that got its number later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Its number.
    pub pid: u32,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// What a server says once its disk can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Its process.
    pub pid: u32,
    /// When that was started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The disk: a file for a loop device, or, of ublk, the block device itself (`/dev/ublkbN`).
    pub file: PathBuf,
    /// Its socket.
    pub control: PathBuf,
    /// The socket of the network block device, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<PathBuf>,
    /// How requests come, of FUSE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
}
