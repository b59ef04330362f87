//! The stages of a study and their parameters.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FioStage, PreconditionStage, VolumeSpec, one, yes};
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
    /// Keep the volume as an image; trials that are the same up to here restore it instead.
    "image" Image(Box<ImageStage>);
    /// Copy the tree to a fresh volume, file by file in directory order: the same files without ageing.
    "copy" Copy(Box<CopyStage>);
    /// Measure the cost of operations in this state.
    "measure" Measure(Box<MeasureStage>);
    /// Apply a remedy to an aged file system: defragment, copy, trim, delete files.
    "remedy" Remedy(Box<RemedyStage>);
    /// Run a workload on this volume and, operation for operation, on others.
    "lockstep" Lockstep(Box<LockstepStage>);
    /// Run fio at every point of its parameters, on files or on the bare device.
    "fio" Fio(Box<FioStage>);
    /// Run a load, simulate power cuts, and check the file system on each state that the drive may be left in.
    "power-cuts" PowerCuts(Box<PowerCutsStage>);
    /// Write the device from end to end and then at random until its rate is steady, before mkfs.
    "precondition" Precondition(Box<PreconditionStage>);
}

impl StageSpec {
    /// Name in dotted paths.
    #[must_use]
    pub fn name(&self) -> &str {
        with_stage!(self, stage => &stage.name)
    }

    /// States it runs in; empty: in all.
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
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// What is done.
    pub workload: WorkloadSpec,
    /// Threads (1..=64).
    #[serde(default = "one")]
    pub threads: u32,
    /// When it ends; may be left out for a workload that ends by itself.
    #[serde(default)]
    pub stop: StopSpec,
    /// How data is written.
    #[serde(default)]
    pub write_mode: WriteMode,
    /// Operations between two probes; 0: one at the end.
    #[serde(default)]
    pub probe_every: u64,
    /// Whether probes walk the layout of every file.
    #[serde(default)]
    pub probe_layout: bool,
    /// Run `fstrim` at every probe.
    #[serde(default)]
    pub trim: bool,
    /// Record the trace.
    #[serde(default)]
    pub trace: bool,
    /// Check every block of data at the end.
    #[serde(default)]
    pub verify: bool,
    /// Spreads the operations over days, as in daily use (docs/wear.md): on the clock of a virtual disk in
    /// model time with `cpu = "serial"`, where that takes no time, and by waiting elsewhere. Absent: one
    /// follows the other. For one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceSpec>,
    /// Name of an earlier `age` stage whose files it continues to work on; absent: it creates files of its
    /// own. For `drift` without links or a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
}

fn age_name() -> String {
    "age".to_owned()
}

/// Parameters of the `image` stage: the volume, with every stage before this one done, is kept as
/// `images/<key>.fsage`. The key is a hash of everything that the state depends on: volume, file system and
/// its options, the stages before, seed, kernel and mkfs version. Where the image is there already, it is
/// restored and the stages before are not run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageStage {
    /// Name in dotted paths; absent: `image`.
    #[serde(default = "image_name")]
    pub name: String,
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Compression level of zstd (1..=19).
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
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// The volume it is copied to; absent: another volume like the study's. A study on a real device has to
    /// name one.
    #[serde(default)]
    pub volume: Option<VolumeSpec>,
}

fn copy_name() -> String {
    "copy".to_owned()
}

/// Parameters of the `remedy` stage: one thing is done about the age of the file system, and what that takes is
/// counted: time by the device's clock, bytes read and written, wear where the medium counts it. `none` is
/// the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemedyStage {
    /// Name in dotted paths; absent: `remedy`.
    #[serde(default = "remedy_name")]
    pub name: String,
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// What is done: `none`, `defragment`, `balance`, `fstrim`, `copy`, or `free-N` (delete N percent of the
    /// files).
    pub method: Remedy,
    /// The volume that `copy` copies to; absent: another one like the study's. A study on a real device has to
    /// name one for `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSpec>,
    /// Longest that its program may run, in seconds (above 0); then it is killed and the trial fails. Absent:
    /// 12 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<f64>,
    /// Check every block of data afterwards.
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
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Run `fstrim` before the first measure.
    #[serde(default)]
    pub trim: bool,
    /// What is measured, in order: those that change the tree after those that read it.
    pub measures: Vec<MeasureSpec>,
}

fn measure_name() -> String {
    "measure".to_owned()
}

/// Parameters of the `lockstep` stage (Conway et al. 2019, §4): the workload runs on the trial's own volume;
/// what succeeds there is done on the followers' volumes too. Every so many rounds each volume is inspected,
/// mounted afresh and measured, and so is a copy of the tree on a fresh volume, which has the same files
/// without their age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockstepStage {
    /// Name in dotted paths; absent: `lockstep`.
    #[serde(default = "lockstep_name")]
    pub name: String,
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// What is done.
    pub workload: WorkloadSpec,
    /// Operations of a round, for a workload without rounds of its own.
    #[serde(default)]
    pub round_operations: Option<u64>,
    /// Rounds after the first, which fills the volume; absent: those of the workload.
    #[serde(default)]
    pub rounds: Option<u64>,
    /// How data is written.
    #[serde(default)]
    pub write_mode: WriteMode,
    /// What the trial's own volume is called in metrics and charts; absent: `full`.
    #[serde(default = "full")]
    pub leader: String,
    /// The other volumes, by what they are called in metrics and charts.
    pub followers: BTreeMap<String, FollowerSpec>,
    /// The volume of the copy, which is called `unaged`; absent: no copy is made.
    #[serde(default)]
    pub unaged: Option<FollowerSpec>,
    /// Rounds between two looks (at least 1); the first is after round 0, the last after the last round.
    pub every: u64,
    /// What is measured at a look on each volume: measures that change nothing.
    pub measures: Vec<MeasureSpec>,
    /// Check every block of data on every volume at the end.
    #[serde(default)]
    pub verify: bool,
}

impl LockstepStage {
    /// Rounds after the first; `None` when neither stage nor workload say.
    #[must_use]
    pub fn rounds(&self) -> Option<u64> {
        self.rounds.or_else(|| self.workload.rounds())
    }

    /// What the volumes are called, the trial's own first, the copy's last.
    #[must_use]
    pub fn volumes(&self) -> Vec<&str> {
        std::iter::once(self.leader.as_str()).chain(self.others().map(|(name, _)| name)).collect()
    }

    /// Followers and the copy's volume, with what they are called.
    pub fn others(&self) -> impl Iterator<Item = (&str, &FollowerSpec)> {
        let followers = self.followers.iter().map(|(name, follower)| (name.as_str(), follower));
        followers.chain(self.unaged.iter().map(|unaged| (UNAGED, unaged)))
    }
}

/// What the copy of a `lockstep` stage is called.
pub const UNAGED: &str = "unaged";

/// Another volume of a `lockstep` stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FollowerSpec {
    /// Its size; the rest is as the study's volume.
    pub size: Option<Bytes>,
    /// The volume, where it is of another kind; a study on a real device has to name one.
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
/// Then the disk shows what it may hold after a power cut, one crash state after the other; each is mounted
/// and compared with what `fsync`, `sync` and `rename` had promised. Damage is a result, no failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerCutsStage {
    /// Name in dotted paths; absent: `power-cuts`.
    #[serde(default = "power_cuts_name")]
    pub name: String,
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// What is done before the cut: `update` replaces files in the ways that applications do it, `metadata`
    /// does random operations on names and files, `sequences` goes through short sequences of operations with any
    /// sync between them, `data` does random operations on what files hold, `append` writes records to
    /// the end of logs, `database` commits transactions with SQLite.
    #[serde(default)]
    pub load: CrashLoad,
    /// Length of the load (1..=10,000): rounds of `update`, operations of `metadata` and `data`, how many `sequences`,
    /// records of `append`, transactions of `database`; absent: 4, 200, 200, 100, 100 and 40.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// Threads (1..=8) that share the operations of `metadata`, each in a directory of its own; other loads have one; absent: 1.
    #[serde(default = "one_thread", skip_serializing_if = "is_one_thread")]
    pub threads: u32,
    /// Journal mode of SQLite (`pragma journal_mode`), for the load `database` only; absent: `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_mode: Option<JournalMode>,
    /// When SQLite syncs (`pragma synchronous`), for the load `database` only; absent: `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronous: Option<Synchronous>,
    /// How the drive treats writes and flushes.
    #[serde(default)]
    pub drive: DriveBehaviour,
    /// Unit that the drive writes wholly or not at all: a multiple of 4 KiB.
    #[serde(default = "atomic")]
    pub atomic: Bytes,
    /// Volatile cache of a drive that lies: the newest writes of that size may be missing.
    #[serde(default = "cache")]
    pub cache: Bytes,
    /// Most crash states that are tried (1..=1,000,000).
    #[serde(default = "crash_states")]
    pub states: u64,
    /// Check one of so many states with the file system's own program and write to it; 0: none.
    #[serde(default = "check_every")]
    pub check_every: u64,
    /// Seed of the load and of the states; absent: the trial's, so that every repeat has a load of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl PowerCutsStage {
    /// Length of the load.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.length.unwrap_or_else(|| self.load.default_size())
    }

    /// How SQLite is set, for the load `database`.
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
