//! A load: a workload, when it ends, and what it leaves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use fsage_sys::errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disk::DiskUse;
use crate::layout::{FreeSpace, LayoutSummary};
use crate::operation::OperationKind;
use crate::size::Bytes;
use crate::workload::WorkloadSpec;

/// How file data is written to the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// `write(2)` through the page cache.
    #[default]
    Buffered,
    /// `O_DIRECT`; sizes are rounded up to whole 4 KiB blocks.
    Direct,
    /// Space is allocated by `fallocate` during ageing; the data of every live file is written in place at
    /// the end.
    Fast,
}

/// End of a load: the first condition that is met stops it; at least one is required unless the workload ends
/// by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopSpec {
    /// Operations over all threads; failed ones count, probes do not.
    pub operations: Option<u64>,
    /// Bytes of data written by operations.
    pub bytes: Option<Bytes>,
    /// Seconds of load, without pauses and probes.
    pub seconds: Option<f64>,
    /// End when an operation finds no space: no free block or no free inode.
    pub full: bool,
    /// End when the volume has this measured age; checked at every probe, and without probes every few
    /// thousand operations if the condition needs none (`volume_overwrites`).
    pub age: Option<AgeTarget>,
}

/// A measured age. All bounds that are given must be met.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgeTarget {
    /// Minimum of the mean number of extents per file.
    pub extents_per_file: Option<f64>,
    /// Minimum share of files with more than one extent (0..=1).
    pub fragmented_share: Option<f64>,
    /// Maximum of the median size of free extents.
    pub free_extent_median: Option<Bytes>,
    /// Minimum of the data written by operations ÷ size of the volume.
    pub volume_overwrites: Option<f64>,
    /// Extents per file and the number of free extents both changed by less than this share (0..=1) over the
    /// last five probes.
    pub converged: Option<f64>,
    /// The volume matches the profile of the workload (`like`): utilisation within 1 % of the volume,
    /// Kolmogorov–Smirnov distance of file sizes at most 0.05, share of files in one extent within 0.02. This
    /// may never happen, so `operations`, `bytes` or `seconds` is required as well.
    #[serde(skip_serializing_if = "is_false")]
    pub near: bool,
}

impl AgeTarget {
    /// Whether it can only be checked by a probe; the data written is known without one.
    #[must_use]
    pub const fn needs_probes(&self) -> bool {
        self.needs_layout() || self.free_extent_median.is_some()
    }

    /// Whether such a probe has to inspect every file.
    #[must_use]
    pub const fn needs_layout(&self) -> bool {
        self.extents_per_file.is_some()
            || self.fragmented_share.is_some()
            || self.converged.is_some()
            || self.near
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The pace of daily use. Between two operations the disk is idle and its clock advances; writes that the
/// kernel's timers would cause in that time are triggered by the disk's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaceSpec {
    /// Operations per day (1 to 100,000,000), spread evenly over the day; a sync counts as part of the
    /// operation before it.
    pub operations_per_day: f64,
    /// Operations per burst, without pauses in between (1 to 1,000,000); the bursts are spread evenly over
    /// the day. Absent: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub burst: u32,
    /// Rated program/erase cycles of the flash, from its data sheet (at least 1); with it, the result gives
    /// the years of this use until they are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rated_cycles: Option<u32>,
}

impl PaceSpec {
    /// Range of operations per day.
    pub const PER_DAY: RangeInclusive<f64> = 1.0..=1e8;

    /// Range of operations per burst.
    pub const BURST: RangeInclusive<u32> = 1..=1_000_000;

    /// Longest time from one burst to the next, ten years: a clock of 64 bits in ns has room for fifty of them.
    pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

    /// From the start of one burst to that of the next; 0 where the numbers say nothing.
    #[must_use]
    pub fn interval(&self) -> Duration {
        let seconds = 86_400.0 / self.operations_per_day * f64::from(self.burst);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_one(burst: &u32) -> bool {
    *burst == 1
}

/// Everything a target needs to know to run a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// The workload.
    pub workload: WorkloadSpec,
    /// An existing directory; everything is made below it.
    pub directory: PathBuf,
    /// Threads (1..=64). Each owns its part of the tree and its own random stream.
    pub threads: u32,
    /// Seed of every random choice.
    pub seed: u64,
    /// End of the load.
    pub stop: StopSpec,
    /// How data is written.
    #[serde(default)]
    pub write_mode: WriteMode,
    /// Operations between two probes with the load stopped; 0: none but the last.
    #[serde(default)]
    pub probe_every: u64,
    /// Maximum share of the run (0..1) for probes: those beyond it are skipped. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_share: Option<f64>,
    /// Whether a probe also walks the layout of every file (costs some 10 µs per file). What `stop.age` needs
    /// is walked anyway.
    #[serde(default)]
    pub probe_layout: bool,
    /// Run `fstrim` at every probe.
    #[serde(default)]
    pub trim: bool,
    /// Send the trace as Parquet chunks.
    #[serde(default)]
    pub trace: bool,
    /// On a disk in model time, write back by operations and in their order, so that two runs ask the same of
    /// it; elsewhere this changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deterministic: bool,
    /// Idle time between operations, as in daily use; absent: no pauses. For one thread; in model time, on a
    /// virtual disk on whose clock CPU time passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceSpec>,
    /// Work on the files that an earlier load with as many threads left in the directory. For `drift` without
    /// links or a profile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continues: bool,
}

/// The order statistics of one kind of operation over some stretch of the load. Latencies in nanoseconds, of
/// successful operations only, open and close included. On a virtual disk in model time they are by its
/// clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Operations measured.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: f64,
}

/// One step of the evolution of latency: at most about 2,000 of them a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tick {
    /// Operations done when the tick ended, over all threads.
    pub operations: u64,
    /// Nanoseconds of load when it ended (pauses and probes left out).
    pub elapsed_ns: u64,
    /// Latencies within the tick; kinds without a success are absent.
    pub latency: BTreeMap<OperationKind, LatencySummary>,
}

/// What a probe saw, with the load stopped and the file system synced. Keys that an older record lacks take
/// their defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Probe {
    /// Operations done so far.
    pub operations: u64,
    /// Nanoseconds of load so far.
    pub elapsed_ns: u64,
    /// Bytes of the volume in use (blocks − free blocks, as `statfs` has them).
    pub used_bytes: u64,
    /// Size of the file system as `statfs` has it.
    pub total_bytes: u64,
    /// Live files of the workload.
    pub files: u64,
    /// Bytes the kernel wrote to the device since the load began; absent when it does not say.
    pub device_bytes_written: Option<u64>,
    /// Free space by extent size; absent where it cannot be known.
    pub free_space: Option<FreeSpace>,
    /// Layout of the files, when `probe_layout` is set.
    pub layout: Option<LayoutSummary>,
    /// Latencies since the last probe.
    pub latency: BTreeMap<OperationKind, LatencySummary>,
    /// The same as one HdrHistogram interval-log line a kind (tag = the kind's name, ns).
    pub interval_log: Vec<String>,
    /// What the virtual disk did since the last probe, without what probes asked of it; absent on anything
    /// else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
}

/// Why a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// `stop.operations`.
    Operations,
    /// `stop.bytes`.
    Bytes,
    /// `stop.seconds`.
    Seconds,
    /// `stop.full`, or nothing but failures for lack of space: no block was free.
    Full,
    /// The same for lack of inodes: blocks were free, and no file could be made.
    Inodes,
    /// `stop.age`.
    Age,
    /// The user, a signal or the lab asked.
    Asked,
    /// The workload, or the trace that was replayed, was through.
    Ended,
}

/// Operations that found no room, of failed ones by errno name.
#[must_use]
pub fn out_of_space(failed: &BTreeMap<String, u64>) -> u64 {
    errno::OUT_OF_SPACE.iter().filter_map(|number| failed.get(errno::name(*number))).sum()
}

/// Ticks of a load whose operations are known, at most.
const TICKS: u64 = 2000;
/// Operations of a tick, at least.
const SHORTEST_TICK: u64 = 500;

/// Operations of a tick of the latency evolution: about 2,000 ticks over a load that ends after `operations`.
#[must_use]
pub fn tick_operations(operations: Option<u64>) -> u64 {
    operations.map_or(SHORTEST_TICK, |operations| operations.div_ceil(TICKS).max(SHORTEST_TICK))
}

/// What a load leaves. This is also what `fsage age --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Operations tried (successes and failures; a pick that finds no object is not an operation).
    pub operations: u64,
    /// Picks that found no object to work on: never timed, never counted above.
    pub missed: u64,
    /// Nanoseconds of load, pauses and probes left out.
    pub elapsed_ns: u64,
    /// Failed operations by errno name (`"ENOSPC": 12`).
    pub failed: BTreeMap<String, u64>,
    /// Of those with `ENOSPC`, the ones without a free inode: blocks were free.
    #[serde(default)]
    pub failed_without_inode: u64,
    /// Successes by kind.
    pub succeeded: BTreeMap<OperationKind, u64>,
    /// Bytes written by operations (in fast mode: bytes allocated).
    pub bytes_written: u64,
    /// Bytes read by operations.
    pub bytes_read: u64,
    /// User CPU time of the process while the load ran: its threads, the one in charge, the trace's writer.
    /// Probes, upkeep and materialising are left out.
    pub cpu_user_ns: u64,
    /// The same in the kernel; what kernel threads do for the load is not in it.
    pub cpu_sys_ns: u64,
    /// Bytes the kernel wrote to the device meanwhile, up to the final sync; absent when it does not say.
    pub device_bytes_written: Option<u64>,
    /// Of these, those written before materialising began (fast mode; else the same).
    pub device_bytes_before_materialise: Option<u64>,
    /// Nanoseconds that materialising took (0 when not in fast mode).
    pub materialise_ns: u64,
    /// Probes made.
    #[serde(default)]
    pub probes: u64,
    /// Nanoseconds that they took, beside `elapsed_ns`.
    #[serde(default)]
    pub probe_ns: u64,
    /// Every live file has its data in place. `false` only in fast mode, when writing it was given up: then
    /// files, or the end of one, read as zeros.
    #[serde(default = "in_place")]
    pub materialised: bool,
    /// Digest of the logical tree: hex, 32 characters.
    pub digest: String,
    /// Why the digest need not agree with another file system's (out of space, fullness feedback);
    /// empty when it must.
    pub digest_caveats: Vec<String>,
    /// Why it ended.
    pub stopped_by: StopReason,
    /// Latencies over the whole load.
    pub latency: BTreeMap<OperationKind, LatencySummary>,
    /// Layout at the end, of the files that the load made and of no others in its directory.
    pub layout: LayoutSummary,
    /// Free space at the end; absent where it cannot be known.
    pub free_space: Option<FreeSpace>,
    /// `cpu_user_ns` divided by `operations`: what fsage itself takes for an operation, making the data,
    /// keeping the latencies and writing the trace included.
    pub overhead_ns_per_operation: f64,
    /// Live files, directories and links.
    pub files: u64,
    /// Sum of the sizes of the live files.
    pub live_bytes: u64,
    /// What the virtual disk did for the load, upkeep included, probes and materialising left out; absent on
    /// anything else. When it keeps `model` time, every latency is by its clock, and `elapsed_ns` is still
    /// the wall's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// The pace at which it was done, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceSpec>,
}

/// Results of before it was reported are of loads that ran to their end.
const fn in_place() -> bool {
    true
}
