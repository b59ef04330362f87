//! Kinds of warnings: what makes a number of a trial doubtful. Each is written down once, with the condition
//! that raises it and what it means for a number; programs, report, comparison and docs/warnings.md take both
//! from here.

use std::cmp::Ordering;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of elapsed time on the CPU from which the CPU, not the device, is the bottleneck:
/// [`WarningKind::CpuBound`].
pub const CPU_BOUND: f64 = 0.9;

/// CPU time as a share of model time, which does not include it, from which it matters:
/// [`WarningKind::CpuBesideModel`].
pub const CPU_BESIDE: f64 = 0.25;

/// Maximum busy time of a modelled drive as a multiple of its modelled time; beyond it,
/// [`WarningKind::LateReplies`] is raised.
pub const LATE_REPLIES: f64 = 1.1;

/// Numbers that a condition makes unfit for a verdict: a claim based on such a number is *not comparable*. A
/// condition of a measure concerns the numbers of that measure, one of a load or a stage all other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalidates {
    /// No number: it is for the reader to weigh.
    Nothing,
    /// Times and rates by wall-clock time.
    WallTimes,
    /// Times and rates, also in model time.
    Times,
    /// Latencies' 99.9th percentiles and maxima.
    Tails,
    /// Numbers of free space.
    FreeSpace,
    /// Counts and sums of block requests.
    Requests,
    /// Ratios of the full volume of a `lockstep` stage to the others.
    Fullness,
    /// Every number of the trial, or of the measure that it was raised for.
    Everything,
}

impl Invalidates {
    /// As documentation says it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::WallTimes => "wall-clock times",
            Self::Times => "times",
            Self::Tails => "p99.9, maximum",
            Self::FreeSpace => "free space",
            Self::Requests => "request counts",
            Self::Fullness => "fullness",
            Self::Everything => "everything",
        }
    }
}

/// Makes the enum, the list of its kinds and their texts from one table.
macro_rules! warning_kinds {
    ($($variant:ident = $name:literal, $condition:literal, $meaning:literal, $invalidates:ident;)*) => {
        /// Kind of a warning: its name in records (kebab case) is [`WarningKind::as_str`].
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum WarningKind {
            $(
                #[doc = concat!("`", $name, "`: ", $condition, " ", $meaning)]
                $variant,
            )*
            /// A kind that this program does not know, from a record of another version; kept as it is
            /// written there.
            Other(String),
        }

        impl WarningKind {
            /// Every kind that this program raises, in the order of docs/warnings.md.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name in records.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// What raises it, in a sentence.
            #[must_use]
            pub const fn condition(&self) -> &'static str {
                match self {
                    $(Self::$variant => $condition,)*
                    Self::Other(_) => "Raised by another version of fsage.",
                }
            }

            /// What it makes unfit for a verdict.
            #[must_use]
            pub const fn invalidates(&self) -> Invalidates {
                match self {
                    $(Self::$variant => Invalidates::$invalidates,)*
                    Self::Other(_) => Invalidates::Nothing,
                }
            }

            /// What it means for a number, in a sentence.
            #[must_use]
            pub const fn meaning(&self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                    Self::Other(_) => "See the documentation of that version.",
                }
            }
        }
    };
}

warning_kinds! {
    CpuBound = "cpu-bound",
        "A thread of the load or measure was on the CPU for at least 90 % of the elapsed time; at a point of a `fio` stage this is the mean over its threads, or over the CPUs if there are fewer.",
        "Latencies and throughput reflect the CPU rather than the device.",
        WallTimes;
    CpuBesideModel = "cpu-beside-model",
        "On a disk in model time, the CPU time of a load or measure was at least a quarter of the model time.",
        "Model time does not include CPU time: on a real device the work would take longer, and differences in CPU time are not in the number.",
        Nothing;
    StolenTime = "stolen-time",
        "At least 2 % of the CPU time was stolen by the hypervisor (steal time) during the stage.",
        "Times are too long by an unknown amount and vary between trials.",
        WallTimes;
    OtherIo = "other-io",
        "At least 64 MiB, and at least a quarter of what the volume wrote, were written to other disks of the host during the stage.",
        "Latencies may include waiting for other I/O.",
        WallTimes;
    MemoryPressure = "memory-pressure",
        "Tasks of the host were stalled on memory for at least 1 % of the time of a load or measure (PSI, `some`).",
        "The page cache lost pages that it would have kept: data was read again, and the stalls are in the times.",
        Times;
    Swap = "swap",
        "At least 256 pages were swapped in or out during a load or measure.",
        "Waiting for swap is in the times, and its I/O may share the device.",
        WallTimes;
    Frequency = "frequency",
        "The mean CPU frequency changed by more than 10 % from the beginning to the end of a load or measure.",
        "CPU time varies from trial to trial: times that depend on it differ for reasons other than the file system.",
        WallTimes;
    Thermal = "thermal",
        "A CPU was thermally throttled during a load or measure.",
        "Times depend on the temperature of the host.",
        WallTimes;
    CachesDropped = "caches-dropped",
        "Another process dropped the host's caches during an `age` stage, or during a point of fio with the page cache (one that only reads: twice), or during a job of fio.",
        "The load read metadata and data again: more reads and longer times than in other trials.",
        Times;
    CacheTooLarge = "cache-too-large",
        "A load without direct I/O ran on a volume smaller than memory (on a disk in model time, only if at least half of its reads took no model time), or a measured loop device uses the page cache.",
        "Reads mostly measure the page cache.",
        Times;
    WarmCache = "warm-cache",
        "Caches could not be dropped before a measure, for example without root.",
        "The measure did not start with cold caches: its reads are too fast and too few.",
        Times;
    TooFewSamples = "too-few-samples",
        "An operation has fewer than 1,000 latency samples.",
        "Its 99.9th percentile is close to its maximum.",
        Tails;
    Clock = "clock",
        "Reading the kernel's clock source takes a system call or an access to a slow device.",
        "Every timestamp is slow and may be coarse: short latencies are too long.",
        Nothing;
    NotDeterministic = "not-deterministic",
        "The host refused a setting that keeps model time deterministic.",
        "Model times may differ between runs of the same trial.",
        Nothing;
    NoRoom = "no-room",
        "The volume had too little free space for a measure or a remedy.",
        "The measure was skipped: this trial has no number for it. A remedy did not complete: later measures use the state that it left.",
        Nothing;
    ShortOfRoom = "short-of-room",
        "More than 32, and more than 0.1 %, of the operations of a `lockstep` stage found no free space on the leader.",
        "They were skipped on all volumes: the tree has less data than the workload specifies.",
        Nothing;
    NotFull = "not-full",
        "At most 85 % of the leader of a `lockstep` stage was in use between the parts of rounds, although operations found no space there, or although the workload has no target utilisation and every operation found space.",
        "The leader was not full (inodes or metadata space ran out, or nothing did): a comparison with it says nothing about a full volume.",
        Fullness;
    StillBusy = "still-busy",
        "The device of a volume in a `lockstep` stage was not idle 5 s after its turn, or that of a `fio` stage was not idle 5 s after the write-back before a point.",
        "Its remaining work is included in the times of the volume with the next turn, or of the point.",
        WallTimes;
    LateReplies = "late-replies",
        "At a point of a `fio` stage, a virtual disk in real time was busy for more than 1.1 times the modelled time of its requests.",
        "The host could not complete requests in time: rates are lower than the model's, and differences between file systems may be too small or too large.",
        Nothing;
    NotSteady = "not-steady",
        "The random writes of a `precondition` stage did not reach a steady rate within `runtime`, or wrote less than the size of the device.",
        "The device may become slower while it is measured: rates of later points and trials may be lower for that reason alone.",
        WallTimes;
    ShortPoint = "short-point",
        "At a point of a `fio` stage, requests that were in flight when it began and ended are more than 5 % of the bytes that it counted, and fio's reports have no time between these ends.",
        "fio counts requests that the device served before or after the time of the point: its rate may be wrong by that share, and mostly is too high.",
        WallTimes;
    NotTogether = "not-together",
        "At a point of a `cluster` stage, less than 80 % of the operations were done while all hosts worked.",
        "In the rest of the time one host had the drive and all locks for itself: hosts that work together may be slower.",
        Everything;
    NoCheckpoint = "no-checkpoint",
        "A checkpoint of a `lockstep` stage could not be saved, for example without space in the store, or the stage could not resume from it.",
        "Results are not affected; after an interruption the stage continues from an earlier look or starts over.",
        Nothing;
    NoLog = "no-log",
        "The log of a volume's requests could not be saved.",
        "Results are not affected; the trial cannot be priced on other media.",
        Nothing;
    VolumeFull = "volume-full",
        "The volume became full before the measure `create` had created all its files.",
        "Its numbers are those of the files that were created.",
        Everything;
    FragmentationEstimate = "fragmentation-estimate",
        "Free space could not be read from the file system, or only in part.",
        "Numbers of free extents are an estimate or missing.",
        FreeSpace;
    ProbeCost = "probe-cost",
        "Probes took at least 10 s and more than 5 % of an ageing run.",
        "Numbers of the load do not include this time, but the run takes longer than necessary.",
        Nothing;
    NoInodes = "no-inodes",
        "Operations found no free inode although blocks were free.",
        "The tree has fewer files than the workload specifies, and the volume is less full.",
        Nothing;
    NotInPlace = "not-in-place",
        "A load in write mode `fast` was stopped a second time, before the data of its files was written.",
        "Space is reserved but unwritten, so reads return zeros without I/O: do not measure this volume.",
        Everything;
    Trim = "trim",
        "`fstrim` failed during a probe.",
        "The device was not informed of free blocks, as with `trim = false`.",
        Nothing;
    NotLike = "not-like",
        "A load with a profile (`like`) ended before the volume matched it.",
        "The volume is less similar to its profile than requested.",
        Nothing;
    DigestCaveat = "digest-caveat",
        "Operations of a load failed, or the load was controlled or stopped by time or by measured values.",
        "The final tree may differ between file systems without an error: compare digests with care.",
        Nothing;
    NoRequests = "no-requests",
        "Block requests could not be traced, for example without root or tracefs.",
        "A measure has no numbers of block requests.",
        Nothing;
    LostRequests = "lost-requests",
        "Events of block requests did not fit into the trace buffer.",
        "Counts and sums of block requests are too small.",
        Requests;
    Unreadable = "unreadable",
        "Names could not be read, for example without permission.",
        "Their files are missing from the numbers.",
        Nothing;
    Places = "places",
        "The layout of a volume's files could not be read at the end of a stage.",
        "`fsage explain STORE` has no data for this volume; no number depends on it.",
        Nothing;
    Fsck = "fsck",
        "The check after the last unmount had no result, for example because the file system has no checker.",
        "Damage would not have been detected; the numbers themselves are not affected.",
        Nothing;
}

impl WarningKind {
    /// Condition and meaning, as a reader who meets the name needs them.
    #[must_use]
    pub fn explanation(&self) -> String {
        format!("{} {}", self.condition(), self.meaning())
    }
}

/// What [`WarningKind::NotDeterministic`] was called in earlier records.
const WAS_NOT_DETERMINISTIC: &str = "less-steady";

impl From<String> for WarningKind {
    fn from(name: String) -> Self {
        if name == WAS_NOT_DETERMINISTIC {
            return Self::NotDeterministic;
        }
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Other(name))
    }
}

impl From<WarningKind> for String {
    fn from(kind: WarningKind) -> Self {
        kind.as_str().to_owned()
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// By name, so that lists of kinds read alphabetically.
impl Ord for WarningKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for WarningKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A typed warning; charts and tables show it beside the number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// What raised it.
    #[schemars(with = "String")]
    pub kind: WarningKind,
    /// One sentence with the numbers.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const DOCS: &str = include_str!("../../../docs/warnings.md");

    #[test]
    fn every_kind_has_its_own_name_and_survives_a_record() {
        let names: BTreeSet<&str> = WarningKind::ALL.iter().map(WarningKind::as_str).collect();
        assert_eq!(names.len(), WarningKind::ALL.len());
        for kind in WarningKind::ALL {
            assert!(!matches!(kind, WarningKind::Other(_)));
            let name = kind.as_str();
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
            let written = serde_json::to_string(&kind).unwrap();
            assert_eq!(written, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<WarningKind>(&written).unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_kind_is_kept_as_it_is_written() {
        let kind: WarningKind = serde_json::from_str("\"from-tomorrow\"").unwrap();
        assert_eq!(kind, WarningKind::Other("from-tomorrow".to_owned()));
        assert_eq!(serde_json::to_string(&kind).unwrap(), "\"from-tomorrow\"");
        let earlier: WarningKind = serde_json::from_str("\"less-steady\"").unwrap();
        assert_eq!(earlier, WarningKind::NotDeterministic);
    }

    #[test]
    fn every_kind_is_explained_and_stands_in_the_docs() {
        let rows: Vec<&str> = DOCS.lines().filter(|line| line.starts_with("| `")).collect();
        let wanted: Vec<String> = WarningKind::ALL
            .iter()
            .map(|kind| {
                let invalidates = kind.invalidates().words();
                format!("| `{kind}` | {} | {} | {invalidates} |", kind.condition(), kind.meaning())
            })
            .collect();
        assert_eq!(rows, wanted, "the table of docs/warnings.md should be:\n{}", wanted.join("\n"));
        for kind in WarningKind::ALL {
            for text in [kind.condition(), kind.meaning()] {
                assert!(text.len() > 20 && text.ends_with('.'), "{kind}: {text}");
            }
        }
    }
}
