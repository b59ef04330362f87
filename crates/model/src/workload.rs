//! The workload as a study or a command line describes it: plain data that touches nothing.
//!
//! `resolve` in the workload's own module turns a spec into a validated value with private fields.
//! Sizes are written as a number of bytes or as text with a unit (`"64KiB"`).

mod error;
mod fsfb;
mod histogram;
mod history;
mod interleaved_append;
mod mail;
mod mobile;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::WorkloadError;
pub use fsfb::FsfbSpec;
pub use histogram::{HistogramSource, HistogramSpec};
pub use history::{
    GitSpec, HistorySpec, RecordedCommit, RecordedHistory, ReplaceSpec, SnapshotsSpec, SyntheticHistory,
};
pub use interleaved_append::{InterleavedAppendSpec, SyncSpec};
pub use mail::{MailSpec, MailWeights};
pub use mobile::MobileSpec;

use crate::operation::OperationKind;
use crate::profile::Profile;
use crate::size::Bytes;

/// What is asked about any workload before it is resolved.
trait Parameters {
    /// Share of the volume that it keeps in use, where it has rounds that aim at one.
    fn target(&self) -> Option<f64> {
        None
    }

    /// Whether what is done depends on how full the volume is.
    fn is_steered(&self) -> bool {
        true
    }

    /// Rounds after the filling, where it has rounds of its own.
    fn rounds(&self) -> Option<u64> {
        None
    }
}

/// Makes the registry: the spec of any workload, and what is asked about it.
macro_rules! workloads {
    ($($(#[doc = $about:literal])+ $name:literal $Name:ident($Spec:ident);)+) => {
        /// A workload, distinguished by `kind`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", deny_unknown_fields)]
        pub enum WorkloadSpec {
            $($(#[doc = $about])+ #[serde(rename = $name)] $Name($Spec),)+
        }

        impl WorkloadSpec {
            /// The names of all, in the order of the registry.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The workload of that name with its defaults.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$Name($Spec::default())),)+
                    _ => None,
                }
            }

            /// Its name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$Name(_) => $name,)+
                }
            }

            fn parameters(&self) -> &dyn Parameters {
                match self {
                    $(Self::$Name(spec) => spec,)+
                }
            }
        }
    };
}

// Every workload, one line each: its name, and its parameters in a file of its own.
workloads! {
    /// A random mix of operations over a set of file slots (Petrovič 2017 §4.4).
    "drift" Drift(DriftSpec);
    /// Fill with small files, then delete some and write as much again in one directory, round by round: the
    /// free-space fragmentation benchmark of Conway et al. 2019, §5.
    "fsfb" Fsfb(FsfbSpec);
    /// Large and small files in turn until the volume is full, then some deleted: mobile devices after Ji et
    /// al. 2016.
    "mobile" Mobile(MobileSpec);
    /// Files of a set grow in turn, so that their blocks are interleaved: the ageing of TBBT (Zhu, Chen &
    /// Chiueh 2005).
    "interleaved-append" InterleavedAppend(InterleavedAppendSpec);
    /// A mail server's Maildir boxes: deliveries, reading, moving, deleting.
    "mail" Mail(MailSpec);
    /// Files created and deleted until sizes, depths and ages match histograms: after Geriatrix (Kadekodi et
    /// al. 2018).
    "histogram" Histogram(HistogramSpec);
    /// Clones of a repository updated commit by commit (Conway et al. 2019, §5).
    "git" Git(GitSpec);
    /// The differences between consecutive listings of a tree, replayed (Smith & Seltzer 1997).
    "snapshots" Snapshots(SnapshotsSpec);
}

impl WorkloadSpec {
    /// The parameters of `drift`, if it is that.
    #[must_use]
    pub const fn drift(&self) -> Option<&DriftSpec> {
        if let Self::Drift(drift) = self { Some(drift) } else { None }
    }

    /// How use of the volume is kept, where files may be deleted or operations chosen for that.
    #[must_use]
    pub fn utilisation(&self) -> Option<&UtilisationSpec> {
        self.drift()?.utilisation.as_ref()
    }

    /// Share of the volume that it keeps in use, where it has rounds that aim at one.
    #[must_use]
    pub fn target(&self) -> Option<f64> {
        self.parameters().target()
    }

    /// The largest share of the volume that it leaves in use, where that is known beforehand.
    #[must_use]
    pub fn highest_use(&self) -> Option<f64> {
        match self.utilisation() {
            Some(UtilisationSpec::Maintain { max, .. }) => Some(*max),
            Some(UtilisationSpec::Hold { target }) => Some(target + HOLD_REACH),
            None => self.target(),
        }
    }

    /// Whether what is done depends on how full the volume is.
    #[must_use]
    pub fn is_steered(&self) -> bool {
        self.parameters().is_steered()
    }

    /// Rounds after the filling, where it has rounds of its own.
    #[must_use]
    pub fn rounds(&self) -> Option<u64> {
        self.parameters().rounds()
    }

    /// Whether it ends by itself, so that nothing else need stop it.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.rounds().is_some()
    }
}

/// Parameters of `drift`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DriftSpec {
    /// File slots over all threads: the greatest number of files alive at once. At least 1 a thread.
    pub slots: u64,
    /// Relative weight of each operation; operations not named have weight 0. Not all may be 0.
    pub weights: BTreeMap<OperationKind, f64>,
    /// Which slot an operation picks.
    pub choice: ChoiceSpec,
    /// How large a created file is.
    pub file_size: SizeSpec,
    /// How much an append, a random write or a random read moves.
    pub io_size: SizeSpec,
    /// The directory tree.
    pub directories: DirectorySpec,
    /// Probability (0..=1) that a writing operation is followed by `fsync`.
    pub fsync_probability: f64,
    /// Probability (0..=1) that a writing operation is followed by `fdatasync`.
    pub fdatasync_probability: f64,
    /// While fewer than this share of the slots (0..=1) are live, creates are favoured.
    pub fill_until: f64,
    /// Factor by which the weight of creates is multiplied then (at least 1).
    pub fill_bias: f64,
    /// Random reads and writes per operation of that kind (1..=65536).
    pub random_accesses: u32,
    /// Share of the volume that is to be in use, and how it is maintained. Absent: not controlled.
    pub utilisation: Option<UtilisationSpec>,
    /// A real tree that the volume is to become like: in a study or a flag the path of what `fsage profile`
    /// wrote. `file_size`, `slots`, `directories`, `utilisation` and `weights` follow from it where they are
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<Box<LikeSpec>>,
}

/// What a volume is to become like; a file's content stands in place of its path, so that anyone who has the
/// description has all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LikeSpec {
    /// The profile.
    pub profile: Profile,
    /// Keys of the workload that were given and do not follow from the profile.
    pub given: BTreeSet<DerivedKey>,
}

/// Keys that follow from a profile where they are not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DerivedKey {
    /// `slots`
    Slots,
    /// `weights`
    Weights,
    /// `file_size`
    FileSize,
    /// `directories`
    Directories,
    /// `utilisation`
    Utilisation,
}

impl DerivedKey {
    /// Every key with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Slots, "slots"),
        (Self::Weights, "weights"),
        (Self::FileSize, "file_size"),
        (Self::Directories, "directories"),
        (Self::Utilisation, "utilisation"),
    ];
}

/// How a slot is picked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ChoiceSpec {
    /// Every slot with the same probability.
    Uniform,
    /// Normal around slot 0, taken modulo the slot count.
    Gaussian {
        /// Standard deviation as a share of the slot count (above 0).
        deviation: f64,
    },
    /// As `gaussian`, with a centre that advances: a user works on one set of files for a while.
    Moving {
        /// Standard deviation as a share of the slot count (above 0).
        deviation: f64,
        /// Slots the centre advances for each tick of simulated time.
        velocity: f64,
        /// Operations a tick of simulated time lasts (at least 1).
        tick_operations: u64,
    },
}

/// A distribution of sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizeSpec {
    /// Always the same.
    Fixed {
        /// The size (at least 1 byte).
        size: Bytes,
    },
    /// Uniform from `min` to `max`.
    Uniform {
        /// Smallest size (at least 1 byte).
        min: Bytes,
        /// Largest size.
        max: Bytes,
    },
    /// ln(size / 1 byte) is normal with `mu` and `sigma`, limited to `min..=max`.
    Lognormal {
        /// Mean of ln(bytes).
        mu: f64,
        /// Standard deviation of ln(bytes) (above 0).
        sigma: f64,
        /// Smallest size.
        min: Bytes,
        /// Largest size.
        max: Bytes,
    },
    /// The body of the file-size distribution of Agrawal et al. 2007, a lognormal, cut at `max`.
    Agrawal {
        /// Largest size.
        max: Bytes,
    },
    /// A table of `[upper bound in bytes, weight]` rows; inside a row sizes are uniform.
    Table {
        /// Rows in ascending order of their bound.
        rows: Vec<(Bytes, f64)>,
    },
}

/// The directory tree that files are spread over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DirectorySpec {
    /// Directories over all threads (at least 1 a thread).
    pub count: u64,
    /// Sub-directories a directory has (at least 1).
    pub fan_out: u64,
    /// Levels below the thread's own directory (at least 1).
    pub depth: u32,
}

/// Utilisation of the volume and how it is maintained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum UtilisationSpec {
    /// When utilisation exceeds `max`, random files are deleted until `free` of the volume is released (Petrovič 2017
    /// §5.3). Checked with the load stopped, every `check_operations` operations.
    Maintain {
        /// Share of the volume (0..=1) that may be in use.
        max: f64,
        /// Share of the volume (0..=1) released when it is passed.
        free: f64,
        /// Operations between two checks (at least 1).
        check_operations: u64,
    },
    /// The mix of operations is steered so that use stays within ±1 % of `target`.
    Hold {
        /// Share of the volume (0..=1) to be in use.
        target: f64,
    },
}

/// How far use may be from what is to be held.
const HOLD_REACH: f64 = 0.01;

impl Parameters for DriftSpec {
    fn is_steered(&self) -> bool {
        matches!(self.utilisation, Some(UtilisationSpec::Hold { .. }))
    }
}

impl Default for DriftSpec {
    fn default() -> Self {
        use OperationKind as K;
        Self {
            slots: 10_000,
            weights: BTreeMap::from([
                (K::Create, 10.0),
                (K::Append, 4.0),
                (K::RandomWrite, 2.0),
                (K::Truncate, 2.0),
                (K::Read, 2.0),
                (K::RandomRead, 1.0),
                (K::Delete, 8.0),
            ]),
            choice: ChoiceSpec::Uniform,
            file_size: SizeSpec::Agrawal { max: Bytes(1 << 30) },
            io_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) },
            directories: DirectorySpec::default(),
            fsync_probability: 0.0,
            fdatasync_probability: 0.0,
            fill_until: 0.5,
            fill_bias: 4.0,
            random_accesses: 1,
            utilisation: None,
            like: None,
        }
    }
}

impl Default for DirectorySpec {
    fn default() -> Self {
        Self { count: 100, fan_out: 10, depth: 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_of_the_registry_round_trips_and_is_in_the_schema_and_the_documentation() {
        let schema = schemars::schema_for!(WorkloadSpec).to_value().to_string();
        let guide = include_str!("../../../docs/workload.md");
        for name in WorkloadSpec::NAMES {
            let spec = WorkloadSpec::named(name).unwrap();
            let json = serde_json::to_value(&spec).unwrap();
            assert_eq!((spec.name(), json["kind"].as_str()), (*name, Some(*name)));
            assert_eq!(serde_json::from_value::<WorkloadSpec>(json).unwrap(), spec);
            assert!(schema.contains(&format!("\"const\":\"{name}\"")), "{name}");
            assert!(guide.contains(&format!("`{name}`")), "{name}");
        }
        assert_eq!(WorkloadSpec::named("drfit"), None);
    }
}
