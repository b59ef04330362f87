//! Points of fio: one setting of its parameters each, what a run of one left, and the figures taken from it.
//!
//! fio's own JSON (`--output-format=json+`) is kept as it is beside the record; what is here is what comparisons
//! and reports need. Names of parameters and patterns are fio's own (`fio(1)`).

mod distribution;
mod name;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disk::DiskUse;
use crate::memory::MemoryUse;
use crate::quantity::{as_f64, share};
use crate::size::Bytes;
use crate::steady_state;
use crate::warning::Warning;

pub use distribution::{Distribution, LatencyAt, PERCENTILES};

/// Bytes at the beginning of a bare device that fio does not write: they identify its contents, and are kept
/// so that the rules that protect a device from being erased find them again.
pub const BARE_HEAD_BYTES: u64 = 4 << 20;
/// The same at its end.
pub const BARE_TAIL_BYTES: u64 = 1 << 20;

macro_rules! words {
    ($(#[doc = $doc:literal])+ $Name:ident { $($(#[doc = $about:literal])+ $Variant:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum $Name {
            $($(#[doc = $about])+ #[serde(rename = $word)] $Variant,)+
        }

        impl $Name {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$Variant),+];

            /// As fio and studies have it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $word,)+
                }
            }
        }
    };
}

words! {
    /// Pattern of accesses (`rw` of fio).
    FioPattern {
        /// Sequential reads.
        Read = "read",
        /// Sequential writes.
        Write = "write",
        /// Sequential reads and writes, mixed.
        ReadWrite = "rw",
        /// Random reads.
        RandRead = "randread",
        /// Random writes.
        RandWrite = "randwrite",
        /// Random reads and writes, mixed.
        RandReadWrite = "randrw",
    }
}

words! {
    /// How fio submits its requests (`ioengine` of fio).
    FioEngine {
        /// read(2) and write(2): one request at a time per job.
        Sync = "sync",
        /// Linux native asynchronous I/O.
        Libaio = "libaio",
        /// io_uring(7).
        IoUring = "io_uring",
        /// A memory mapping: one access at a time per job, never direct.
        Mmap = "mmap",
    }
}

impl FioPattern {
    /// Whether offsets are random.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandReadWrite)
    }

    /// Whether it writes.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }

    /// Whether it both reads and writes.
    #[must_use]
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::ReadWrite | Self::RandReadWrite)
    }
}

impl FioEngine {
    /// Whether a job has at most one request in flight.
    #[must_use]
    pub const fn is_synchronous(self) -> bool {
        matches!(self, Self::Sync | Self::Mmap)
    }
}

/// One setting of fio's parameters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct FioPoint {
    /// Pattern.
    pub rw: FioPattern,
    /// Percentage of reads, of a mixed pattern only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwmixread: Option<u32>,
    /// Block size.
    pub bs: Bytes,
    /// Engine.
    pub ioengine: FioEngine,
    /// Maximum number of requests in flight per job.
    pub iodepth: u32,
    /// Jobs that use all files; of a sequential pattern 1, because each file has its own job.
    pub numjobs: u32,
    /// Number of files of equal size; on a bare device, areas of it.
    pub files: u32,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Limit of the memory of fio and its page cache; of buffered points only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
}

impl FioPoint {
    /// Whether its accesses go through the page cache: a mapping's always do.
    #[must_use]
    pub const fn is_buffered(&self) -> bool {
        !self.direct || matches!(self.ioengine, FioEngine::Mmap)
    }

    /// Jobs that run at the same time.
    #[must_use]
    pub const fn jobs(&self) -> u32 {
        if self.rw.is_random() { self.numjobs } else { self.files }
    }

    /// Maximum number of requests in flight.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.jobs().saturating_mul(self.iodepth)
    }

    /// The pattern with its share of reads: `randrw70`.
    #[must_use]
    pub fn load(&self) -> String {
        match self.rwmixread {
            Some(percent) => format!("{}{percent}", self.rw.name()),
            None => self.rw.name().to_owned(),
        }
    }
}

/// What a run did between two of its reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FioSample {
    /// Milliseconds from the end of the ramp to the end of this interval.
    pub at_ms: u64,
    /// Length of the interval in milliseconds.
    pub interval_ms: u64,
    /// Operations in it.
    pub operations: u64,
    /// Bytes in it.
    pub bytes: u64,
}

impl FioSample {
    /// When it ends, in ns.
    const fn end_ns(&self) -> u64 {
        self.at_ms.saturating_mul(1_000_000)
    }

    /// Operations per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        share(self.operations, self.interval_ms) * 1e3
    }
}

/// Rates of the intervals, as the rule for steady state takes them.
#[must_use]
pub fn rates(samples: &[FioSample]) -> Vec<f64> {
    samples.iter().map(FioSample::iops).collect()
}

/// The intervals of the steady window at the end, where there is one.
#[must_use]
pub fn steady_window(samples: &[FioSample]) -> Option<&[FioSample]> {
    let start = samples.len().checked_sub(steady_state::WINDOW)?;
    samples.get(start..).filter(|_| steady_state::is_reached(&rates(samples)))
}

/// Counters of a block device (`Documentation/block/stat.rst`) over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounts {
    /// Reads that were completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes that were completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes, where the kernel counts them (5.5 and later).
    pub flushes: u64,
    /// Milliseconds in which something was under way.
    pub busy_ms: u64,
    /// Milliseconds that requests were under way, summed over them; 0 in records from before this was kept.
    #[serde(default)]
    pub queued_ms: u64,
}

impl DeviceCounts {
    /// Both together.
    #[must_use]
    pub const fn plus(self, more: &Self) -> Self {
        Self {
            reads: self.reads.saturating_add(more.reads),
            read_bytes: self.read_bytes.saturating_add(more.read_bytes),
            writes: self.writes.saturating_add(more.writes),
            written_bytes: self.written_bytes.saturating_add(more.written_bytes),
            flushes: self.flushes.saturating_add(more.flushes),
            busy_ms: self.busy_ms.saturating_add(more.busy_ms),
            queued_ms: self.queued_ms.saturating_add(more.queued_ms),
        }
    }

    /// What was counted since `before`.
    #[must_use]
    pub const fn since(self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
            busy_ms: self.busy_ms.saturating_sub(before.busy_ms),
            queued_ms: self.queued_ms.saturating_sub(before.queued_ms),
        }
    }
}

/// What it took to bring a volume to rest before something was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// Nanoseconds until the file system was written back (`syncfs`); close to 0 without one.
    pub sync_ns: u64,
    /// Nanoseconds until the device had written back and emptied its volatile cache.
    pub flush_ns: u64,
    /// Nanoseconds until the device was quiet, those before included.
    pub elapsed_ns: u64,
    /// Whether it was quiet: nothing under way, and nothing asked for 10 to 50 ms. False where it was not within 5 s.
    pub quiet: bool,
}

/// What the agent has of a run of fio.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FioRun {
    /// Exit status; 128 + n when it died of signal n, and 128 when it was asked to end.
    pub status: i32,
    /// Whether it was asked to end because it was steady.
    pub ended_steady: bool,
    /// Its last JSON document, as it is; empty when it wrote none to its end.
    pub json: String,
    /// What else it wrote, the last of it.
    pub said: String,
    /// Intervals in order.
    pub samples: Vec<FioSample>,
    /// Counters of the block device.
    pub device: Option<DeviceCounts>,
    /// What the virtual disk did, where there is one.
    pub disk: Option<DiskUse>,
    /// Wall time, start-up included.
    pub elapsed_ns: u64,
    /// What it used of the limit of its memory, where there was one.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
}

/// How a point ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FioEnd {
    /// It was steady by the rule of SNIA ([`steady_state`]).
    Steady,
    /// Its time was over.
    Time,
}

impl FioEnd {
    /// As tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Time => "time",
        }
    }
}

/// Latency of one direction in nanoseconds, from submission on (of job files, and in records from before this was kept, of
/// completion alone); zeros without operations.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FioLatency {
    /// Operations.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// Largest.
    pub max_ns: f64,
}

/// A point that was run, with what its JSON says of the time after the ramp; or a job file, with its name (`P`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FioResult<P = FioPoint> {
    /// Which.
    pub point: P,
    /// fio's JSON: a file of the trial.
    pub file: String,
    /// How it ended.
    pub end: FioEnd,
    /// Time of its jobs after the ramp.
    pub runtime_ns: u64,
    /// Time that its jobs were to run after the ramp; 0 in records from before this was kept.
    #[serde(default)]
    pub planned_ns: u64,
    /// Time before that, which is counted by the device alone.
    #[serde(default)]
    pub ramp_ns: u64,
    /// Wall time, start-up and ramp included.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// Reads.
    pub read: FioLatency,
    /// Writes.
    pub write: FioLatency,
    /// Percentiles of the latency of reads, in rising order; empty in records from before they were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_percentiles: Vec<LatencyAt>,
    /// The same of writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_percentiles: Vec<LatencyAt>,
    /// CPU time of its threads in user mode.
    #[serde(default)]
    pub user_ns: u64,
    /// CPU time of its threads in the kernel.
    #[serde(default)]
    pub system_ns: u64,
    /// Context switches of its threads.
    #[serde(default)]
    pub context_switches: u64,
    /// CPU time of the whole host while fio ran, start-up and ramp included; absent where the kernel does not tell,
    /// and in records from before it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpu: Option<HostCpu>,
    /// Bandwidth and operations over time.
    #[serde(default)]
    pub samples: Vec<FioSample>,
    /// What the block device counted, ramp included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceCounts>,
    /// What the virtual disk did, ramp included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// What it used of the limit of its memory; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUse>,
    /// How the volume came to rest before it, so that what was written before is not in its time; absent in records
    /// from before this was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// What makes its numbers doubtful; the trial repeats them.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Whether an earlier attempt at the trial ran it.
    #[serde(default)]
    pub kept: bool,
}

impl FioResult {
    /// Requests in flight at its ends ÷ what it counted, in bytes, where its rate has the end of its time in it.
    #[must_use]
    pub fn share_at_ends(&self) -> Option<f64> {
        let in_flight = self.point.bs.0.saturating_mul(u64::from(self.point.depth()));
        let has_end = match self.window() {
            Some(window) => self.end == FioEnd::Time && window.last()?.end_ns() > self.planned_ns,
            None => true,
        };
        (has_end && self.planned_ns > 0).then(|| share(in_flight, self.read.bytes + self.write.bytes))
    }
}

/// CPU time of all that ran on a host over a stretch of time, as the kernel accounts for it (in ticks of 10 ms, sampled on
/// many).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostCpu {
    /// CPU time of all CPUs, in ns.
    pub busy_ns: u64,
    /// Wall-clock time of the stretch, in ns.
    pub elapsed_ns: u64,
}

impl<P> FioResult<P> {
    /// One without figures, for filling in.
    #[must_use]
    pub fn empty(point: P) -> Self {
        Self {
            point,
            file: String::new(),
            end: FioEnd::Time,
            runtime_ns: 0,
            planned_ns: 0,
            ramp_ns: 0,
            elapsed_ns: 0,
            read: FioLatency::default(),
            write: FioLatency::default(),
            read_percentiles: Vec::new(),
            write_percentiles: Vec::new(),
            user_ns: 0,
            system_ns: 0,
            context_switches: 0,
            host_cpu: None,
            samples: Vec::new(),
            device: None,
            disk: None,
            memory: None,
            settled: None,
            warnings: Vec::new(),
            kept: false,
        }
    }

    /// Operations of both directions.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.read.operations + self.write.operations
    }

    /// Operations per second: over the steady window where it ended steady, else over the time in which its requests were
    /// always in flight, and where the reports do not show that, over all of its time.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.rate(self.operations(), |sample| sample.operations)
    }

    /// Bytes per second, over the same time.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.rate(self.read.bytes + self.write.bytes, |sample| sample.bytes)
    }

    fn rate(&self, all: u64, of: fn(&FioSample) -> u64) -> f64 {
        match self.window() {
            Some(window) => {
                let sum: u64 = window.iter().map(of).sum();
                share(sum, window.iter().map(|sample| sample.interval_ms).sum()) * 1e3
            }
            None => share(all, self.runtime_ns) * 1e9,
        }
    }

    /// The reports that its rate is taken from: the steady ones, or those without its ends.
    fn window(&self) -> Option<&[FioSample]> {
        match self.end {
            FioEnd::Steady => steady_window(&self.samples),
            FioEnd::Time => self.full_window(),
        }
    }

    /// The reports from the second on, until its jobs stop asking: requests that are in flight at its ends are then as many as those
    /// that come in. `None` where that is less than half of its time. A report that comes more than twice as late as usual is that of a
    /// stall, which belongs to its time, so that the window ends with it.
    fn full_window(&self) -> Option<&[FioSample]> {
        // Nothing is known of records from before the planned time was kept.
        let planned_ns = Some(self.planned_ns).filter(|planned_ns| *planned_ns > 0)?;
        let end = self.samples.iter().take_while(|sample| sample.end_ns() <= planned_ns).count();
        let within = self.samples.get(1..end)?;
        let mut intervals_ms: Vec<u64> = within.iter().map(|sample| sample.interval_ms).collect();
        intervals_ms.sort_unstable();
        let usual_ms = intervals_ms.get(intervals_ms.len() / 2)?;
        let elapsed_ms: u64 = intervals_ms.iter().sum();
        if elapsed_ms == 0 || elapsed_ms.saturating_mul(2_000_000) < planned_ns {
            return None;
        }
        let left_ns = planned_ns - within.last()?.end_ns();
        let stalled = left_ns > usual_ms.saturating_mul(2_000_000);
        if stalled { self.samples.get(1..=end) } else { Some(within) }
    }

    /// Mean latency over both directions.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let part = |one: &FioLatency| one.mean_ns * as_f64(one.operations);
        let operations = as_f64(self.operations());
        if operations > 0.0 { (part(&self.read) + part(&self.write)) / operations } else { 0.0 }
    }

    /// CPU time of its threads per operation.
    #[must_use]
    pub fn cpu_ns_per_operation(&self) -> f64 {
        share(self.user_ns + self.system_ns, self.operations())
    }

    /// CPU time of the whole host per operation, as if start-up and ramp took as much of it per second as the rest: threads of the
    /// kernel and whatever else ran are in it. `None` if it was not counted.
    #[must_use]
    pub fn host_cpu_ns_per_operation(&self) -> Option<f64> {
        let HostCpu { busy_ns, elapsed_ns } =
            self.host_cpu.filter(|host| host.elapsed_ns > 0 && self.operations() > 0)?;
        Some(share(busy_ns, self.operations()) * share(self.runtime_ns, elapsed_ns).min(1.0))
    }
}

/// What a stage of fio left.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FioRecord {
    /// The stage's name.
    pub name: String,
    /// As fio has it (`fio-3.33`).
    pub version: String,
    /// Bytes of all files together, or of the stretch of a bare device.
    #[serde(default)]
    pub bytes: u64,
    /// Whether there was no file system.
    #[serde(default)]
    pub bare: bool,
    /// Points in the order in which they ran; none where it ran a job file.
    pub results: Vec<FioResult>,
    /// The job file that it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<FioResult<String>>>,
}

impl FioRecord {
    /// Names of its points and its job, each with the warnings that are about it.
    #[must_use]
    pub fn warned(&self) -> Vec<(String, &[Warning])> {
        let points = self.results.iter().map(|result| (result.point.to_string(), result.warnings.as_slice()));
        points.chain(self.job.iter().map(|job| (job.point.clone(), job.warnings.as_slice()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn point() -> FioPoint {
        FioPoint {
            rw: FioPattern::RandReadWrite,
            rwmixread: Some(70),
            bs: Bytes(4096),
            ioengine: FioEngine::Libaio,
            iodepth: 32,
            numjobs: 2,
            files: 16,
            direct: true,
            memory: None,
        }
    }

    fn sample(operations: u64) -> FioSample {
        FioSample { at_ms: 0, interval_ms: 500, operations, bytes: operations * 4096 }
    }

    #[test]
    fn a_point_is_named_by_all_of_its_parameters() {
        let point = point();
        assert_eq!(point.to_string(), "randrw70-4k-libaio-d32-j2-f16");
        let other = FioPoint {
            rw: FioPattern::Write,
            rwmixread: None,
            bs: Bytes(1 << 20),
            numjobs: 1,
            direct: false,
            ..point.clone()
        };
        assert_eq!(other.to_string(), "write-1m-libaio-d32-j1-f16-buffered");
        assert_eq!((point.depth(), other.depth()), (64, 512));
        let json = serde_json::to_string(&point).unwrap();
        assert_eq!(serde_json::from_str::<FioPoint>(&json).unwrap(), point);
    }

    #[test]
    fn rates_are_those_of_the_steady_window_where_it_ended_so() {
        let samples = [900, 500, 100, 101, 99, 100, 100].map(sample).to_vec();
        assert_eq!(steady_window(&samples).map(<[FioSample]>::len), Some(5));
        assert_eq!(steady_window(&samples[..6]), None);
        let read =
            FioLatency { operations: 1900, bytes: 1900 * 4096, mean_ns: 10.0, ..FioLatency::default() };
        let result = FioResult {
            end: FioEnd::Steady,
            runtime_ns: 3_500_000_000,
            read,
            write: FioLatency { operations: 100, mean_ns: 30.0, ..FioLatency::default() },
            user_ns: 1000,
            system_ns: 3000,
            host_cpu: Some(HostCpu { busy_ns: 8000, elapsed_ns: 7_000_000_000 }),
            samples,
            ..FioResult::empty(point())
        };
        assert_eq!((result.iops(), result.bandwidth()), (200.0, 200.0 * 4096.0));
        assert_eq!((result.mean_ns(), result.cpu_ns_per_operation()), (11.0, 2.0));
        // Half of its time counts.
        assert_eq!(result.host_cpu_ns_per_operation(), Some(2.0));
        let timed = FioResult { end: FioEnd::Time, host_cpu: None, ..result };
        assert_eq!(timed.host_cpu_ns_per_operation(), None);
        assert!((timed.iops() - 2000.0 / 3.5).abs() < 1e-9);
    }

    #[test]
    fn a_stall_at_the_end_of_a_point_is_in_its_rate() {
        let reports = |all: &[(u64, u64, u64)]| -> Vec<FioSample> {
            let report = |&(at_ms, interval_ms, operations): &(u64, u64, u64)| FioSample {
                at_ms,
                interval_ms,
                operations,
                bytes: operations * 4096,
            };
            all.iter().map(report).collect()
        };
        let timed = |samples| FioResult {
            runtime_ns: 8_000_000_000,
            planned_ns: 4_000_000_000,
            write: FioLatency { operations: 3064, bytes: 3064 * 4096, ..FioLatency::default() },
            samples,
            ..FioResult::empty(point())
        };
        // Requests are in flight from the first report to the last one in its time.
        let even =
            timed(reports(&[(1000, 1000, 900), (2000, 1000, 700), (3000, 1000, 700), (4500, 1500, 764)]));
        assert_eq!((even.iops(), even.share_at_ends()), (700.0, None));
        // Nothing came for more than five seconds after the fifth report, and fio's own one was as late.
        let usual = [(500, 500, 900), (1000, 500, 350), (1500, 500, 350), (2000, 500, 350), (2500, 500, 350)];
        let late = [(8000, 5500, 64)];
        let stalled = timed(reports(&[&usual[..], &late].concat()));
        assert!((stalled.iops() - 1464.0 / 7.5).abs() < 1e-9, "{}", stalled.iops());
        assert!((stalled.share_at_ends().unwrap() - 64.0 / 3064.0).abs() < 1e-9);
        // Less than half of its time is known well enough: all of it counts.
        let soon = timed(reports(&[&usual[..4], &[(8000, 6000, 64)]].concat()));
        assert_eq!((soon.iops(), soon.share_at_ends()), (383.0, Some(64.0 / 3064.0)));
        // Reports of a steady window may come late.
        let steady = FioResult { end: FioEnd::Steady, ..timed(reports(&[(4200, 840, 500); 5])) };
        assert!(steady_window(&steady.samples).is_some() && steady.share_at_ends().is_none());
        // Without that report all of its time counts.
        let unreported = FioResult { samples: stalled.samples[..5].to_vec(), ..stalled };
        assert_eq!((unreported.iops(), unreported.share_at_ends()), (383.0, Some(64.0 / 3064.0)));
    }
}
