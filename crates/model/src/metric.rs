//! Names of metrics ([`crate::record::Metric`] lists what each is): where a trial's metrics are made they are
//! written with these, and where they are looked up or taken apart they are read with these. Nothing else
//! spells one.

use std::fmt::Display;

use crate::crash::{DamageKind, KnownFinding, UpdateOutcome, UpdateWay};
use crate::fio::FioPoint;
use crate::operation::OperationKind;
use crate::size::Bytes;

/// Operations per second of ageing.
pub const OPERATIONS_PER_S: &str = "age.operations_per_s";
/// Time of ageing.
pub const ELAPSED_S: &str = "age.elapsed_s";
/// Wall-clock time of ageing, where [`ELAPSED_S`] is the time of a virtual disk.
pub const WALL_S: &str = "age.wall_s";
/// Bytes that ageing wrote to the device.
pub const DEVICE_BYTES: &str = "age.device_bytes";
/// Bytes of a virtual disk's flash that ageing used up by programming.
pub const WORN_BYTES: &str = "age.disk_worn_bytes";
/// CPU time of fsage itself per operation.
pub const OVERHEAD_NS: &str = "age.overhead_ns";
/// Average erase cycles per year of all flash, at the pace of ageing.
pub const WEAR_CYCLES: &str = "age.wear_cycles_per_year";
/// Years until this use exhausts the rated cycles of the flash.
pub const LIFETIME_YEARS: &str = "age.lifetime_years";
/// Bytes that the drive programs ÷ bytes that the host writes, at this pace.
pub const DRIVE_AMPLIFICATION: &str = "age.drive_amplification";
/// Mean time of an operation at this pace.
pub const OPERATION_NS: &str = "age.operation_ns";
/// Bytes that the host writes to the device per day, at this pace.
pub const WRITTEN_PER_DAY: &str = "age.written_per_day";
/// Erases of the most worn block of a virtual disk's flash.
pub const ERASES_MAX: &str = "age.disk_erases_max";
/// Mean erases of its blocks.
pub const ERASES_MEAN: &str = "age.disk_erases_mean";
/// Utilisation of the volume at the last probe.
pub const USE_SHARE: &str = "use.share";
/// The same at every probe.
pub const USE_SHARE_OVER_TIME: &str = "use.share_over_time";
/// Free extents.
pub const FREE_EXTENTS: &str = "free.extents";
/// Median size of a free extent.
pub const FREE_MEDIAN_BYTES: &str = "free.median_bytes";
/// Size of the largest free extent.
pub const FREE_LARGEST_BYTES: &str = "free.largest_bytes";
/// Extents per file.
pub const EXTENTS_PER_FILE: &str = "layout.extents_per_file";
/// Share of files in one extent.
pub const ONE_EXTENT_SHARE: &str = "layout.one_extent_share";
/// Share of files in several extents.
pub const FRAGMENTED_SHARE: &str = "layout.fragmented_share";
/// Layout score.
pub const LAYOUT_SCORE: &str = "layout.score";
/// Layout score between files that are neighbours in their directory.
pub const INTER_FILE_SCORE: &str = "layout.inter_file_score";
/// Files in several extents.
pub const NONCONTIGUOUS_FILES: &str = "layout.noncontiguous_files";
/// Used extents below 64 KiB.
pub const SMALL_EXTENTS: &str = "layout.small_extents";
/// Time of a remedy by the clock of its device, below the name of the stage.
pub const REMEDY_ELAPSED_S: &str = "elapsed_s";
/// Wall-clock time of a remedy, where [`REMEDY_ELAPSED_S`] is the time of a virtual disk.
pub const REMEDY_WALL_S: &str = "wall_s";
/// Bytes that the device read for a remedy.
pub const REMEDY_READ_BYTES: &str = "read_bytes";
/// Bytes that were written to the device for a remedy.
pub const REMEDY_WRITTEN_BYTES: &str = "written_bytes";
/// Cost of writing on a volume of a `lockstep` stage.
pub const WRITE: &str = "write";
/// Cost of writing late in the run ÷ cost early in the run.
pub const WRITE_LATE_OVER_EARLY: &str = "write_late_over_early";
/// Operations that found no free space on the leader of a `lockstep` stage.
pub const NO_SPACE: &str = "no_space";
/// Utilisation of a volume of a `lockstep` stage.
pub const VOLUME_USE_SHARE: &str = "use_share";

/// Operations per second of a point of fio.
pub const IOPS: &str = "iops";
/// Bytes per second of a point of fio.
pub const BANDWIDTH: &str = "bandwidth";
/// CPU time of fio's threads per operation.
pub const CPU_NS: &str = "cpu_ns";
/// CPU time of the whole host per operation.
pub const HOST_CPU_NS: &str = "host_cpu_ns";
/// Mean number of requests in flight at the block device of a point while it had any.
pub const IN_FLIGHT: &str = "in_flight";
/// Bytes of a modelled drive with delayed replies per second of its own clock, which passes only while it serves requests.
pub const DRIVE_BANDWIDTH: &str = "drive_bandwidth";
/// Most page cache that a point with limited memory had, in bytes.
pub const CACHE_BYTES: &str = "cache_bytes";
/// Bytes of all files of a point with limited memory ÷ what the limit leaves for the page cache: the limit less the memory of the
/// processes.
pub const FILES_OVER_CACHE: &str = "files_over_cache";
/// Bytes that the device read and wrote during a buffered point without a ramp ÷ bytes that fio read and wrote.
pub const DEVICE_SHARE: &str = "device_share";
/// Bandwidth of a point of fio ÷ that of the same point at depth 1.
pub const OVER_DEPTH_1: &str = "over_depth_1";
/// The same ÷ that with one file.
pub const OVER_FILES_1: &str = "over_files_1";
/// The same ÷ that with the largest block size of its stage.
pub const OVER_LARGEST_BLOCK: &str = "over_largest_block";
/// Context switches of fio's threads per operation.
pub const CONTEXT_SWITCHES: &str = "context_switches";
/// Time of the drive per operation of a `cluster` stage, below the files that its hosts used; so are the following.
pub const DRIVE_NS: &str = "drive_ns";
/// Packets per operation that the hosts sent to each other.
pub const PACKETS: &str = "packets";
/// Bytes of these packets per operation.
pub const PACKET_BYTES: &str = "packet_bytes";
/// Flushes that the drive had, per operation.
pub const FLUSHES: &str = "flushes";
/// Bytes that the devices of all hosts read and wrote ÷ bytes that their loads read and wrote.
pub const BYTES_OVER_ASKED: &str = "bytes_over_asked";
/// Share of the drive's time that it takes as well if no host works.
pub const IDLE_SHARE: &str = "idle_share";
/// Wall-clock time in which all hosts worked ÷ time in which any did.
pub const OVERLAP: &str = "overlap";
/// Crash states that a `power-cuts` stage tried, below the stage's name; so are the following.
pub const CUTS_STATES: &str = "states";
/// Share of states without damage.
pub const CUTS_KEPT_SHARE: &str = "kept_share";
/// Share of states with damage that no promise excludes.
pub const CUTS_DOCUMENTED_SHARE: &str = "documented_share";
/// Share of states in which a promise was broken.
pub const CUTS_BROKEN_SHARE: &str = "broken_share";
/// Share of states in which a promise was broken without a known finding that explains it.
pub const CUTS_UNEXPLAINED_SHARE: &str = "unexplained_share";
/// States without damage. This and the following are counts.
pub const CUTS_KEPT_STATES: &str = "kept_states";
/// Of these, states that were checked with fsck and written to.
pub const CUTS_KEPT_INSPECTED_STATES: &str = "kept_inspected_states";
/// States with damage, promised not to happen or not.
pub const CUTS_DAMAGED_STATES: &str = "damaged_states";
/// States with damage that no promise excludes.
pub const CUTS_DOCUMENTED_STATES: &str = "documented_states";
/// States in which a promise was broken.
pub const CUTS_BROKEN_STATES: &str = "broken_states";
/// States in which a promise was broken without a known finding that explains it.
pub const CUTS_UNEXPLAINED_STATES: &str = "unexplained_states";
/// Damaged states, of those that were to be checked with fsck and written to.
pub const CUTS_DAMAGED_INSPECTED_STATES: &str = "damaged_inspected_states";
/// Of these, silent ones: no mount, read or check failed.
pub const CUTS_SILENT_STATES: &str = "silent_states";
/// States per second of wall time.
pub const CUTS_STATES_PER_S: &str = "states_per_s";

/// Statistics of a latency.
pub const MEAN_NS: &str = "mean_ns";
/// The median.
pub const P50_NS: &str = "p50_ns";
/// The 99th percentile.
pub const P99_NS: &str = "p99_ns";
/// The 99.9th percentile.
pub const P999_NS: &str = "p999_ns";
/// The largest.
pub const MAX_NS: &str = "max_ns";

const LATENCY: &str = "latency";
const FREE: &str = "free.";
const OVER: &str = "_over_";
const USE_OVER_FULLNESS: (&str, &str) = ("use", "fullness");

/// What the names of a stage begin with: nothing for the first of its kind, the stage's name for others.
#[must_use]
pub fn prefix(stage: &str, first: bool) -> String {
    if first { String::new() } else { format!("{stage}.") }
}

/// A statistic of an operation's latency, over a whole `age` stage.
#[must_use]
pub fn latency(operation: OperationKind, statistic: &str) -> String {
    latency_of(operation.name(), statistic)
}

/// The same by the operation's name.
#[must_use]
pub fn latency_of(operation: &str, statistic: &str) -> String {
    format!("{LATENCY}.{operation}.{statistic}")
}

/// Operation and statistic of a latency.
#[must_use]
pub fn latency_parts(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(LATENCY)?.strip_prefix('.')?.split_once('.').filter(|(_, last)| !last.contains('.'))
}

/// Whether it is of free space.
#[must_use]
pub fn is_of_free_space(name: &str) -> bool {
    name.starts_with(FREE)
}

/// A number of a point of fio, or of a job file by its name.
#[must_use]
pub fn of_point(point: &impl Display, number: &str) -> String {
    format!("{point}.{number}")
}

/// What a number of a point of fio begins with (the name of its stage, unless that is the first), the point, and the
/// number.
#[must_use]
pub fn point_parts(name: &str) -> Option<(&str, FioPoint, &str)> {
    let (before, number) = name.rsplit_once('.')?;
    let point = before.rsplit('.').next()?;
    Some((before.strip_suffix(point)?, FioPoint::of_name(point)?, number))
}

/// The point that a number of `point` is a ratio to, where it is one; `largest`: the largest block of its stage.
#[must_use]
pub fn divisor(number: &str, point: &FioPoint, largest: impl FnOnce() -> Bytes) -> Option<FioPoint> {
    match number {
        OVER_DEPTH_1 => Some(FioPoint { iodepth: 1, ..point.clone() }),
        OVER_FILES_1 => Some(FioPoint { files: 1, ..point.clone() }),
        OVER_LARGEST_BLOCK => Some(FioPoint { bs: largest(), ..point.clone() }),
        _ => None,
    }
}

/// What the virtual disk did while ageing.
#[must_use]
pub fn of_age(what: &str) -> String {
    format!("age.{what}")
}

/// A number of a measure: its headline has the measure's name, the others stand below it.
#[must_use]
pub fn of_measure(measure: &str, index: usize, number: &str) -> String {
    if index == 0 { measure.to_owned() } else { format!("{measure}.{number}") }
}

/// Whether it is the headline of a measure.
#[must_use]
pub fn is_headline(name: &str) -> bool {
    !name.contains('.')
}

/// Share of crash states with damage of this kind, below the stage's name.
#[must_use]
pub fn damage_share(kind: DamageKind) -> String {
    format!("damage.{}_share", kind.name())
}

/// Share of the files that were being replaced in this way and ended so, below the stage's name.
#[must_use]
pub fn update_share(way: UpdateWay, outcome: UpdateOutcome) -> String {
    format!("{}.{}_share", way.name(), outcome.name())
}

/// Files that were being replaced in this way, below the stage's name.
#[must_use]
pub fn update_files(way: UpdateWay) -> String {
    format!("{}.files", way.name())
}

/// The files among them that ended so.
#[must_use]
pub fn update_ended(way: UpdateWay, outcome: UpdateOutcome) -> String {
    format!("{}.{}_files", way.name(), outcome.name())
}

/// Crash states in which a known finding broke a promise, and nothing that is not known did, below the stage's
/// name.
#[must_use]
pub fn known_states(finding: KnownFinding) -> String {
    format!("known.{}_states", finding.name())
}

/// A statistic (`min`, `median`, `mean`, `max`) of what a step took with a crash state, below the stage's name.
#[must_use]
pub fn step_time(step: &str, statistic: &str) -> String {
    format!("{step}.{statistic}_ns")
}

/// Something of a volume of a `lockstep` stage.
#[must_use]
pub fn of_volume(volume: &str, what: &str) -> String {
    format!("{volume}.{what}")
}

/// The ratio of something between two volumes of a `lockstep` stage.
#[must_use]
pub fn over(above: &str, below: &str, what: &str) -> String {
    format!("{above}{OVER}{below}.{what}")
}

/// Ratio of the cost of use to the cost of fullness.
#[must_use]
pub fn use_over_fullness(what: &str) -> String {
    over(USE_OVER_FULLNESS.0, USE_OVER_FULLNESS.1, what)
}

/// The volumes above and below, and what is compared, of a name that [`over`] made of two volumes.
#[must_use]
pub fn over_parts(name: &str) -> Option<(&str, &str, &str)> {
    let (sides, what) = name.split_once('.')?;
    let (above, below) = sides.split_once(OVER)?;
    (above != USE_OVER_FULLNESS.0).then_some((above, below, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_is_taken_apart_again() {
        for operation in OperationKind::ALL {
            for statistic in [MEAN_NS, P50_NS, P99_NS, P999_NS, MAX_NS] {
                let name = latency(operation, statistic);
                assert_eq!(latency_parts(&name), Some((operation.name(), statistic)));
            }
        }
        assert_eq!(over_parts(&over("full", "empty", "grep.bytes")), Some(("full", "empty", "grep.bytes")));
        assert_eq!(
            [over_parts(&use_over_fullness("grep")), over_parts("full.write_late_over_early")],
            [None; 2]
        );
        for (name, stage) in
            [("read-4k-sync-d1-j1-f1.iops", ""), ("block.read-4k-sync-d1-j1-f1.iops", "block.")]
        {
            let (prefix, point, number) = point_parts(name).unwrap();
            assert_eq!((prefix, number), (stage, IOPS));
            assert_eq!(format!("{prefix}{}", of_point(&point, number)), name);
        }
        assert_eq!([point_parts("grep.bytes"), point_parts("grep")], [None, None]);
        assert_eq!([latency_parts("age.elapsed_s"), latency_parts("churn.latency.create.max_ns")], [None; 2]);
        assert!(is_headline(&of_measure("grep", 0, "time")) && !is_headline(&of_measure("grep", 1, "bytes")));
        assert!([FREE_EXTENTS, FREE_MEDIAN_BYTES, FREE_LARGEST_BYTES].into_iter().all(is_of_free_space));
    }
}
