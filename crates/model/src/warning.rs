//! Kinds of warnings: what makes a number of a trial doubtful. Each is written down once, with the condition
//! that raises it and what it means for a number; programs, report, comparison and docs/warnings.md take both
//! from here.

use std::cmp::Ordering;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time of a thread, as a share of elapsed time, from which the CPU and not the device decides:
/// [`WarningKind::CpuBound`].
pub const CPU_BOUND: f64 = 0.9;

/// Makes the enum, the list of its kinds and their texts from one table.
macro_rules! warning_kinds {
    ($($variant:ident = $name:literal, $condition:literal, $meaning:literal;)*) => {
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
        "A thread of the load or measure was on the CPU for at least 90 % of the elapsed time.",
        "Latencies and throughput show the CPU more than the device.";
    StolenTime = "stolen-time",
        "The hypervisor gave at least 2 % of the CPU time to others during the stage.",
        "Times are too long by an unknown amount and vary between trials.";
    OtherIo = "other-io",
        "At least 64 MiB, and at least a quarter of what the volume wrote, were written to other disks of the host during the stage.",
        "Latencies may include waiting for other I/O.";
    CachesDropped = "caches-dropped",
        "Another process dropped the host's caches during an `age` stage.",
        "The load read metadata and data again: more reads and longer times than in other trials.";
    CacheTooLarge = "cache-too-large",
        "A load without direct I/O ran where memory is larger than the volume, or a measured loop device works through the page cache.",
        "Reads mostly measure the page cache.";
    WarmCache = "warm-cache",
        "Caches could not be dropped before a measure, as without root.",
        "The measure was not cold: its reads are too fast and too few.";
    TooFewSamples = "too-few-samples",
        "An operation has fewer than 1000 latency samples.",
        "Its 99.9th percentile is close to its maximum.";
    Clock = "clock",
        "The kernel's clock source needs a system call or a slow device.",
        "Every timestamp is slow and may be coarse: short latencies are too long.";
    LessSteady = "less-steady",
        "The host refused a setting that keeps model time deterministic.",
        "Model times may differ between runs of the same trial.";
    NoRoom = "no-room",
        "The volume had too little free space for a measure.",
        "The measure was left out: this trial has no number for it.";
    ShortOfRoom = "short-of-room",
        "More than 32, and more than 0.1 %, of the operations of a `lockstep` stage found no room on the leader.",
        "They were left out on all volumes: the tree has less data than the workload asks for.";
    VolumeFull = "volume-full",
        "The volume was full before the measure `create` had made all its files.",
        "Its numbers are those of the files that were made.";
    FragmentationEstimate = "fragmentation-estimate",
        "Free space could not be read from the file system, or only in part.",
        "Numbers of free extents are an estimate or missing.";
    ProbeCost = "probe-cost",
        "Probes took at least 10 s and more than 5 % of an ageing run.",
        "No number of the load has it in it, but the run is longer than it need be.";
    NoInodes = "no-inodes",
        "Operations found no free inode although blocks were free.",
        "The tree has fewer files than the workload asks for, and the volume is emptier.";
    NotInPlace = "not-in-place",
        "A fast load was stopped twice, before the data of its files was written.",
        "Space is reserved, but reads give zeros without reading: measure nothing on it.";
    Trim = "trim",
        "`fstrim` failed during a probe.",
        "The device was not informed of freed blocks, as if `trim = false`.";
    NotLike = "not-like",
        "A load with a profile ended before the volume was near it.",
        "The volume resembles its profile less than was asked.";
    DigestCaveat = "digest-caveat",
        "Operations of a load failed, or the load was steered or stopped by the time or by what it measured.",
        "The final tree may differ between file systems without an error: compare digests with care.";
    NoRequests = "no-requests",
        "Block requests could not be traced, as without root or tracefs.",
        "A measure has no numbers of block requests.";
    LostRequests = "lost-requests",
        "Events of block requests did not fit into the trace buffer.",
        "Counts and sums of block requests are too small.";
    Unreadable = "unreadable",
        "Names could not be read, for example without permission.",
        "Their files are missing from the numbers.";
    Places = "places",
        "Where the files of a volume lie could not be found out at the end of a stage.",
        "`fsage explain STORE` has nothing for that volume; no number depends on it.";
    Fsck = "fsck",
        "The check after the last unmount gave no verdict, as where the file system has no checker.",
        "Damage would not have been noticed; the numbers themselves are as good as in other trials.";
}

impl WarningKind {
    /// Condition and meaning, as a reader who meets the name needs them.
    #[must_use]
    pub fn explanation(&self) -> String {
        format!("{} {}", self.condition(), self.meaning())
    }
}

impl From<String> for WarningKind {
    fn from(name: String) -> Self {
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
    }

    #[test]
    fn every_kind_is_explained_and_stands_in_the_docs() {
        let rows: Vec<&str> = DOCS.lines().filter(|line| line.starts_with("| `")).collect();
        let wanted: Vec<String> = WarningKind::ALL
            .iter()
            .map(|kind| format!("| `{kind}` | {} | {} |", kind.condition(), kind.meaning()))
            .collect();
        assert_eq!(rows, wanted, "the table of docs/warnings.md should be:\n{}", wanted.join("\n"));
        for kind in WarningKind::ALL {
            for text in [kind.condition(), kind.meaning()] {
                assert!(text.len() > 20 && text.ends_with('.'), "{kind}: {text}");
            }
        }
    }
}
