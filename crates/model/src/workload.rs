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
    /// Fill the volume with small files, then delete some and write as much again into one directory, round
    /// by round: the free-space fragmentation benchmark of Conway et al. 2019, §5.
    "fsfb" Fsfb(FsfbSpec);
    /// Large and small files alternately until the volume is full, then random deletes: mobile devices, after
    /// Ji et al. 2016.
    "mobile" Mobile(MobileSpec);
    /// Files of a set grow in turn, so that their blocks are interleaved: ageing as in TBBT (Zhu, Chen &
    /// Chiueh 2005).
    "interleaved-append" InterleavedAppend(InterleavedAppendSpec);
    /// Mailboxes of a server in Maildir format: messages are delivered, read, moved and deleted.
    "mail" Mail(MailSpec);
    /// Files are created and deleted until their sizes, depths and ages match histograms: after Geriatrix
    /// (Kadekodi et al. 2018).
    "histogram" Histogram(HistogramSpec);
    /// Clones of a repository, updated commit by commit (Conway et al. 2019, §5).
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

    /// Control of utilisation, if files may be deleted or operations chosen for it.
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
    /// File slots over all threads, which limit the number of live files; at least 1 per thread.
    pub slots: u64,
    /// Relative weight of each operation (0 for those not named); at least one must be above 0.
    pub weights: BTreeMap<OperationKind, f64>,
    /// Distribution by which an operation picks a slot.
    pub choice: ChoiceSpec,
    /// Size of a created file.
    pub file_size: SizeSpec,
    /// Size of an append, a random write or a random read.
    pub io_size: SizeSpec,
    /// The directory tree.
    pub directories: DirectorySpec,
    /// Probability (0..=1) that a writing operation is followed by `fsync`.
    pub fsync_probability: f64,
    /// Probability (0..=1) that a writing operation is followed by `fdatasync`.
    pub fdatasync_probability: f64,
    /// Share of the slots (0..=1) below which creates are preferred.
    pub fill_until: f64,
    /// Factor for the weight of creates below `fill_until` (at least 1).
    pub fill_bias: f64,
    /// Accesses per random read or random write (1..=65536).
    pub random_accesses: u32,
    /// Target utilisation of the volume, and how it is maintained; absent: not controlled.
    pub utilisation: Option<UtilisationSpec>,
    /// A real tree that the volume is to resemble: in a study or a flag, the path of a file that `fsage
    /// profile` wrote. `file_size`, `slots`, `directories`, `utilisation` and `weights` follow from it unless
    /// they are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<Box<LikeSpec>>,
}

/// What a volume is to resemble; a file's content replaces its path, so that the description is complete.
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

/// Distribution by which a slot is picked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ChoiceSpec {
    /// All slots with equal probability.
    Uniform,
    /// Normal distribution around slot 0, modulo the number of slots.
    Gaussian {
        /// Standard deviation as a share of the number of slots (above 0).
        deviation: f64,
    },
    /// As `gaussian`, with a moving centre: models a user who works on one set of files for a while.
    Moving {
        /// Standard deviation as a share of the number of slots (above 0).
        deviation: f64,
        /// Slots by which the centre advances per tick of simulated time.
        velocity: f64,
        /// Operations per tick of simulated time (at least 1).
        tick_operations: u64,
    },
}

/// A distribution of sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizeSpec {
    /// The same size for all.
    Fixed {
        /// The size (at least 1 byte).
        size: Bytes,
    },
    /// Uniform distribution from `min` to `max`.
    Uniform {
        /// Minimum size (at least 1 byte).
        min: Bytes,
        /// Maximum size.
        max: Bytes,
    },
    /// Lognormal distribution: ln(bytes) is normal with `mu` and `sigma`; limited to `min..=max`.
    Lognormal {
        /// Mean of ln(bytes).
        mu: f64,
        /// Standard deviation of ln(bytes) (above 0).
        sigma: f64,
        /// Minimum size.
        min: Bytes,
        /// Maximum size.
        max: Bytes,
    },
    /// The body of the file-size distribution of Agrawal et al. 2007: a lognormal distribution, truncated at
    /// `max`.
    Agrawal {
        /// Maximum size.
        max: Bytes,
    },
    /// Rows of `[upper bound in bytes, weight]`; sizes are uniform within a row.
    Table {
        /// Rows in ascending order of the bound.
        rows: Vec<(Bytes, f64)>,
    },
}

/// The directory tree in which files are created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DirectorySpec {
    /// Number of directories over all threads (at least 1 per thread).
    pub count: u64,
    /// Subdirectories per directory (at least 1).
    pub fan_out: u64,
    /// Levels below the directory of the thread (at least 1).
    pub depth: u32,
}

/// Utilisation of the volume and how it is maintained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum UtilisationSpec {
    /// When utilisation exceeds `max`, random files are deleted until the share `free` of the volume is
    /// released (Petrovič 2017 §5.3). Checked every `check_operations` operations, with the load stopped.
    Maintain {
        /// Maximum share of the volume in use (0..=1).
        max: f64,
        /// Share of the volume (0..=1) to release when `max` is exceeded.
        free: f64,
        /// Operations between two checks (at least 1).
        check_operations: u64,
    },
    /// The mix of operations is adjusted so that utilisation stays within ±0.01 of `target`.
    Hold {
        /// Target share of the volume in use (0..=1).
        target: f64,
    },
}

/// Tolerance of a utilisation that is held.
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
