//! The stages of a study and their parameters.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterStage, FioStage, PreconditionStage, VolumeSpec, one, yes};
use crate::crash::{CACHE_BYTES, CrashLoad, DatabaseModes, DriveBehaviour, JournalMode, Synchronous};
use crate::load::{PaceSpec, StopSpec, WriteMode};
use crate::measure::MeasureSpec;
use crate::remedy::Remedy;
use crate::size::Bytes;
use crate::workload::WorkloadSpec;

/// Makes the registry of stages, and `with_stage!`, which does something with a stage of any kind.
macro_rules! stages {
    ($($(#[doc = $about:literal])+ $kind:literal $Name:ident($Spec:ty);)+) => {
        /// One stage, distinguished by `kind`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", deny_unknown_fields)]
        pub enum StageSpec {
            $($(#[doc = $about])+ #[serde(rename = $kind)] $Name($Spec),)+
        }

        impl StageSpec {
            /// Every kind, in the order of the registry.
            pub const KINDS: &[&str] = &[$($kind),+];

            /// Its kind, as studies have it.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Name(_) => $kind,)+
                }
            }
        }

        /// Does the same with a stage of any kind.
        #[macro_export]
        macro_rules! with_stage {
            ($stage:expr, $it:ident => $call:expr) => {
                match $stage {
                    $($crate::study::StageSpec::$Name($it) => $call,)+
                }
            };
        }
    };
}

// Every kind of stage, one line each: its name in studies, and its parameters. What it does is in a file of
// `run/stage/`.
stages! {
    /// Run a workload to age the file system.
    "age" Age(Box<AgeStage>);
    /// Save the volume as an image; trials that are the same up to here restore it instead of running the
    /// stages before.
    "image" Image(Box<ImageStage>);
    /// Copy the tree to a fresh volume, file by file in directory order: an unaged volume with the same
    /// files.
    "copy" Copy(Box<CopyStage>);
    /// Measure the cost of operations in this state.
    "measure" Measure(Box<MeasureStage>);
    /// Apply a remedy to an aged file system: defragment, copy, trim, delete files.
    "remedy" Remedy(Box<RemedyStage>);
    /// Run a workload on this volume, and each successful operation also on other volumes.
    "lockstep" Lockstep(Box<LockstepStage>);
    /// Run fio at every combination of its parameters, on files or on the bare device.
    "fio" Fio(Box<FioStage>);
    /// Run a load, simulate power cuts, and check the file system in each state that the drive may be left
    /// in.
    "power-cuts" PowerCuts(Box<PowerCutsStage>);
    /// Write the whole device sequentially, then at random until its rate is steady, before mkfs.
    "precondition" Precondition(Box<PreconditionStage>);
    /// Load the volume from several guests that mount it at the same time (docs/cluster.md).
    "cluster" Cluster(Box<ClusterStage>);
}

impl StageSpec {
    /// Name in dotted paths.
    #[must_use]
    pub fn name(&self) -> &str {
        with_stage!(self, stage => &stage.name)
    }

    /// States that the stage runs in; empty: all.
    #[must_use]
    pub fn when(&self) -> &[String] {
        with_stage!(self, stage => &stage.when)
    }

    /// Whether it runs in `state`.
    #[must_use]
    pub fn runs_in(&self, state: &str) -> bool {
        self.when().is_empty() || self.when().iter().any(|known| known == state)
    }
}

/// Parameters of the `age` stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgeStage {
    /// Name in dotted paths; absent: `age`.
    #[serde(default = "age_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// The workload.
    pub workload: WorkloadSpec,
    /// Number of threads (1..=64).
    #[serde(default = "one")]
    pub threads: u32,
    /// End of the stage; may be absent for a workload that ends by itself.
    #[serde(default)]
    pub stop: StopSpec,
    /// How data is written: `buffered`, `direct` (`O_DIRECT`), or `fast` (`fallocate` only; the data is
    /// written at the end).
    #[serde(default)]
    pub write_mode: WriteMode,
    /// Operations between two probes; 0: one probe at the end.
    #[serde(default)]
    pub probe_every: u64,
    /// Whether probes also read the layout of every file.
    #[serde(default)]
    pub probe_layout: bool,
    /// Run `fstrim` at every probe.
    #[serde(default)]
    pub trim: bool,
    /// Record a trace of the operations.
    #[serde(default)]
    pub trace: bool,
    /// Verify every block of data at the end.
    #[serde(default)]
    pub verify: bool,
    /// Pace of daily use: spreads the operations over days (docs/wear.md). Idle time passes on the clock of a
    /// virtual disk in model time with `cpu = "serial"`, without waiting; elsewhere the stage waits. For one
    /// thread; absent: no pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceSpec>,
    /// Name of an earlier `age` stage on whose files this stage works; absent: it creates its own. Only for
    /// `drift` without links and without a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
}

fn age_name() -> String {
    "age".to_owned()
}

/// Parameters of the `image` stage: the volume, after every stage before this one, is saved as
/// `images/<key>.fsage`. The key is a hash of everything that the state depends on: volume, file system and
/// its options, the stages before, seed, kernel and mkfs version. If the image exists already, it is restored
/// and the stages before are not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageStage {
    /// Name in dotted paths; absent: `image`.
    #[serde(default = "image_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// zstd compression level (1..=19).
    #[serde(default = "level")]
    pub level: i32,
}

fn image_name() -> String {
    "image".to_owned()
}

const fn level() -> i32 {
    3
}

/// Parameters of the `copy` stage: everything is copied in directory order to a fresh volume of the same kind
/// with the same file system, the digests of both trees are compared, and the later stages work on the copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyStage {
    /// Name in dotted paths; absent: `copy`.
    #[serde(default = "copy_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Volume to copy to; absent: another one like the study's. Required if the study's volume is a real
    /// device.
    #[serde(default)]
    pub volume: Option<VolumeSpec>,
}

fn copy_name() -> String {
    "copy".to_owned()
}

/// Parameters of the `remedy` stage: applies one remedy to an aged file system and records its cost: time by
/// the device's clock, bytes read and written, wear if the medium counts it. `none` is the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemedyStage {
    /// Name in dotted paths; absent: `remedy`.
    #[serde(default = "remedy_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Remedy: `none`, `defragment`, `balance`, `fstrim`, `copy`, or `free-N` (delete N percent of the
    /// files).
    pub method: Remedy,
    /// Volume that `copy` copies to; absent: another one like the study's. Required for `copy` if the study's
    /// volume is a real device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSpec>,
    /// Time limit of its program in seconds (above 0): at the limit it is killed and the trial fails. Absent:
    /// 12 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<f64>,
    /// Verify every block of data afterwards.
    #[serde(default = "yes")]
    pub verify: bool,
}

impl RemedyStage {
    /// The volume that it copies to beside the study's `own`; nothing where it copies nothing.
    #[must_use]
    pub fn target(&self, own: &VolumeSpec) -> Option<VolumeSpec> {
        (self.method == Remedy::Copy).then(|| self.volume.clone().unwrap_or_else(|| own.another()))
    }
}

fn remedy_name() -> String {
    "remedy".to_owned()
}

/// Parameters of the `measure` stage. The file system is unmounted and mounted again before each measure.
/// Measures that need old files are left out where there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureStage {
    /// Name in dotted paths; absent: `measure`.
    #[serde(default = "measure_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Run `fstrim` before the first measure.
    #[serde(default)]
    pub trim: bool,
    /// Measures, in order: those that change the tree after those that only read it.
    pub measures: Vec<MeasureSpec>,
}

fn measure_name() -> String {
    "measure".to_owned()
}

/// Parameters of the `lockstep` stage (Conway et al. 2019, §4): the workload runs on the trial's own volume
/// (the leader); every operation that succeeds there is repeated on the followers. At intervals (looks) each
/// volume is mounted again and measured, and so is a copy of the tree on a fresh volume, which has the same
/// files without ageing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockstepStage {
    /// Name in dotted paths; absent: `lockstep`.
    #[serde(default = "lockstep_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// The workload.
    pub workload: WorkloadSpec,
    /// Operations per round, for a workload without rounds of its own.
    #[serde(default)]
    pub round_operations: Option<u64>,
    /// Number of rounds after the filling (round 0); absent: that of the workload.
    #[serde(default)]
    pub rounds: Option<u64>,
    /// How data is written: `buffered`, `direct` (`O_DIRECT`), or `fast` (`fallocate` only; the data is
    /// written at the end).
    #[serde(default)]
    pub write_mode: WriteMode,
    /// Name of the trial's own volume in metrics and charts; absent: `full`.
    #[serde(default = "full")]
    pub leader: String,
    /// The other volumes, by their names in metrics and charts.
    pub followers: BTreeMap<String, FollowerSpec>,
    /// Volume of the unaged copy, named `unaged`; absent: no copy is made.
    #[serde(default)]
    pub unaged: Option<FollowerSpec>,
    /// Rounds between two looks, each of which measures all volumes (at least 1). The first look is after
    /// round 0, the last after the last round.
    pub every: u64,
    /// Measures run on each volume at a look: only those that change nothing.
    pub measures: Vec<MeasureSpec>,
    /// Verify every block of data on every volume at the end.
    #[serde(default)]
    pub verify: bool,
}

impl LockstepStage {
    /// Rounds after the first; `None` when neither stage nor workload say.
    #[must_use]
    pub fn rounds(&self) -> Option<u64> {
        self.rounds.or_else(|| self.workload.rounds())
    }

    /// Names of the volumes, the trial's own first, the copy's last.
    #[must_use]
    pub fn volumes(&self) -> Vec<&str> {
        std::iter::once(self.leader.as_str()).chain(self.others().map(|(name, _)| name)).collect()
    }

    /// Followers and the volume of the copy, with their names.
    pub fn others(&self) -> impl Iterator<Item = (&str, &FollowerSpec)> {
        let followers = self.followers.iter().map(|(name, follower)| (name.as_str(), follower));
        followers.chain(self.unaged.iter().map(|unaged| (UNAGED, unaged)))
    }
}

/// Name of the copy of a `lockstep` stage.
pub const UNAGED: &str = "unaged";

/// Another volume of a `lockstep` stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FollowerSpec {
    /// Size; all else is as for the study's volume.
    pub size: Option<Bytes>,
    /// The volume, if it is of another kind; required if the study's volume is a real device.
    pub volume: Option<VolumeSpec>,
}

impl FollowerSpec {
    /// The volume it stands for beside the study's `own`; nothing where a device would have to be two.
    #[must_use]
    pub fn resolve(&self, own: &VolumeSpec) -> Option<VolumeSpec> {
        let mut volume = self.volume.clone().unwrap_or_else(|| own.another());
        let size = self.size;
        match &mut volume {
            VolumeSpec::Loop { size: its, .. } | VolumeSpec::Partition { size: its, .. } => {
                *its = size.unwrap_or(*its);
            }
            VolumeSpec::Disk(disk) => disk.size = size.unwrap_or(disk.size),
            VolumeSpec::Device { .. } if self.volume.is_none() || size.is_some() => return None,
            VolumeSpec::Device { .. } => {}
        }
        Some(volume)
    }
}

fn lockstep_name() -> String {
    "lockstep".to_owned()
}

fn full() -> String {
    "full".to_owned()
}

/// Parameters of the `power-cuts` stage: a load runs on the volume, a virtual disk that logs every request.
/// Then the disk presents what it may hold after a power cut, one crash state after the other; each is
/// mounted and compared with what `fsync`, `sync` and `rename` promised. Damage is a result, not an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerCutsStage {
    /// Name in dotted paths; absent: `power-cuts`.
    #[serde(default = "power_cuts_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Load before the cut: `update` replaces files as applications do, `metadata` runs random operations on
    /// names and files, `sequences` runs short sequences of operations with any sync in between, `data` runs
    /// random operations on file contents, `append` appends records to logs, `database` commits transactions
    /// with SQLite.
    #[serde(default)]
    pub load: CrashLoad,
    /// Length of the load (1..=10,000), absent: its default: rounds of `update` (4), operations of `metadata`
    /// (200) and `data` (200), number of `sequences` (100), records of `append` (100), transactions of
    /// `database` (40).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// Number of threads (1..=8) for `metadata`, each in its own directory; other loads have one. Absent: 1.
    #[serde(default = "one_thread", skip_serializing_if = "is_one_thread")]
    pub threads: u32,
    /// SQLite's `pragma journal_mode`, only for the load `database`; absent: `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_mode: Option<JournalMode>,
    /// SQLite's `pragma synchronous`, only for the load `database`; absent: `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronous: Option<Synchronous>,
    /// How the drive treats writes and flushes (docs/power.md).
    #[serde(default)]
    pub drive: DriveBehaviour,
    /// Unit that the drive writes completely or not at all: a multiple of 4 KiB.
    #[serde(default = "atomic")]
    pub atomic: Bytes,
    /// Volatile cache of a `lying` drive: the newest writes of this size may be missing.
    #[serde(default = "cache")]
    pub cache: Bytes,
    /// Maximum number of crash states to try (1..=1,000,000).
    #[serde(default = "crash_states")]
    pub states: u64,
    /// Interval, in crash states, at which a state is also checked with fsck and written to; 0: none.
    #[serde(default = "check_every")]
    pub check_every: u64,
    /// Number of the drive, from 0, that is lost with the power: the array of `volume.stack` starts without it
    /// (docs/stacks.md). Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_drive: Option<u32>,
    /// Random seed of the load and the states; absent: that of the trial, so that each repeat has a different
    /// load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl PowerCutsStage {
    /// Length of the load.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.length.unwrap_or_else(|| self.load.default_size())
    }

    /// Settings of SQLite for the load `database`.
    #[must_use]
    pub fn modes(&self) -> DatabaseModes {
        DatabaseModes {
            journal_mode: self.journal_mode.unwrap_or_default(),
            synchronous: self.synchronous.unwrap_or_default(),
        }
    }
}

/// As serde asks.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_one_thread(threads: &u32) -> bool {
    *threads == 1
}

const fn one_thread() -> u32 {
    1
}

fn power_cuts_name() -> String {
    "power-cuts".to_owned()
}

const fn atomic() -> Bytes {
    Bytes(4096)
}

const fn cache() -> Bytes {
    Bytes(CACHE_BYTES)
}

const fn crash_states() -> u64 {
    200
}

const fn check_every() -> u64 {
    8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_stage_round_trips_and_is_in_the_schema_and_the_documentation() {
        let schema = schemars::schema_for!(StageSpec).to_value().to_string();
        let guide = include_str!("../../../../docs/adding-a-stage.md");
        for kind in StageSpec::KINDS {
            let workload = r#""workload": {"kind": "drift"}"#;
            let keys = match *kind {
                "age" => format!(", {workload}"),
                "measure" => r#", "measures": []"#.to_owned(),
                "remedy" => r#", "method": "copy""#.to_owned(),
                "fio" => r#", "rw": "randread""#.to_owned(),
                "cluster" => r#", "rw": "randread", "size": "1GiB", "operations": 8"#.to_owned(),
                "lockstep" => format!(r#", {workload}, "every": 1, "followers": {{}}, "measures": []"#),
                _ => String::new(),
            };
            let stage: StageSpec = serde_json::from_str(&format!(r#"{{"kind": "{kind}"{keys}}}"#)).unwrap();
            assert_eq!((stage.kind(), stage.name()), (*kind, *kind));
            let json = serde_json::to_value(&stage).unwrap();
            assert_eq!(serde_json::from_value::<StageSpec>(json).unwrap(), stage);
            assert!(schema.contains(&format!("\"const\":\"{kind}\"")), "{kind}");
            assert!(guide.contains(&format!("`{kind}`")), "{kind}");
        }
    }
}
