//! Every request as a type that names its reply.
//!
//! A request is JSON with its name in `request` (`{"request":"usage","directory":"/"}`), its reply the JSON
//! of [`Call::Reply`] as it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    BackingFile, Copied, DeviceIdentity, Failure, FailureKind, Freed, Greeting, Made, Placed, Scanned,
    ToolOutput,
};
use crate::calls::calls;
use crate::cluster::Sent;
use crate::crash::{
    Attempt, AttemptSpec, CrashLoadSpec, CrashOperation, CrashScript, DatabaseSpec, LoadStep, ProgramRun,
    ProgramSpec, StateCheck,
};
use crate::extent::Extent;
use crate::image::ImageSummary;
use crate::layer::LayerDevice;
use crate::load::{LoadResult, LoadSpec};
use crate::location::Location;
use crate::lockstep::{LockstepResult, LockstepSpec, RunHistory};
use crate::measure::{MeasureResult, MeasureSpec};
use crate::memory::MemoryGroup;
use crate::replay::{ReplayOptions, ReplayResult};
use crate::verify::VerifyResult;
use crate::{disk, layout};

/// A request and what a success is answered with.
pub trait Call: Into<Request> {
    /// What comes back.
    type Reply: Serialize + DeserializeOwned;

    /// `reply` as an answer to this very call, for anyone who plays the agent.
    ///
    /// # Errors
    /// JSON cannot express it.
    fn reply(&self, reply: &Self::Reply) -> Result<Reply, Failure> {
        Reply::of::<Self>(reply)
    }
}

/// What does a call on the target.
pub trait Handle<C: Call> {
    /// Does it.
    ///
    /// # Errors
    /// It did not work.
    fn handle(&self, call: C) -> Answer<C>;
}

/// The reply to a call, or why it did not work.
pub type Answer<C> = Result<<C as Call>::Reply, Failure>;

/// The JSON of some call's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply(Vec<u8>);

impl Reply {
    /// The reply to every call that has nothing to say.
    #[must_use]
    pub fn done() -> Self {
        Self(b"null".to_vec())
    }

    /// The reply to a `C`, as it goes over the wire.
    ///
    /// # Errors
    /// JSON cannot express it.
    pub fn of<C: Call>(reply: &C::Reply) -> Result<Self, Failure> {
        serde_json::to_vec(reply).map(Self).map_err(|error| Failure {
            message: format!("a reply that JSON cannot express: {error}"),
            hint: String::new(),
            errno: None,
            kind: FailureKind::Internal,
        })
    }

    /// What a reply frame holds.
    #[must_use]
    pub const fn from_json(json: Vec<u8>) -> Self {
        Self(json)
    }

    /// What a reply frame must hold.
    #[must_use]
    pub fn as_json(&self) -> &[u8] {
        &self.0
    }

    /// The reply to a `C`.
    ///
    /// # Errors
    /// It is the reply to something else.
    pub fn to<C: Call>(&self) -> serde_json::Result<C::Reply> {
        serde_json::from_slice(&self.0)
    }
}

fn answer<C: Call>(answer: Answer<C>) -> Result<Reply, Failure> {
    Reply::of::<C>(&answer?)
}

calls! {
    /// What the lab asks: any call.
    Request, "request", answer -> Result<Reply, Failure>;

    /// First on every stream.
    Hello { protocol: u32 } -> Greeting;
    /// What this host is and can do.
    HostFacts -> super::HostFacts;
    /// Nanoseconds of this host's clock since the epoch.
    ClockTime -> u64;
    /// The block device that the host of a guest serves to it, where this is such a guest.
    ServedDevice -> Option<PathBuf>;
    /// What this host's network devices, other than the loopback, sent since it was booted.
    NetworkSent -> Sent;
    /// What the host did since it was booted.
    HostActivity -> super::HostActivity;
    /// Run an external program. `argv[0]` is looked up in PATH and /usr/sbin, /sbin.
    /// A non-zero exit status is a reply, not a failure.
    RunTool { argv: Vec<String>, timeout_ms: u64 } -> ToolOutput;
    /// The same, where what the program leaves in the background is to outlive the agent.
    StartServer { argv: Vec<String>, timeout_ms: u64 } -> ToolOutput;
    /// Make a file of `size_bytes` with all of its blocks (when given) and attach it as a loop device. The
    /// reply is the device, which has all of the file or `part` of it.
    LoopAttach {
        file: PathBuf,
        size_bytes: Option<u64>,
        sector_bytes: u32,
        direct_io: bool,
        part: Option<Extent>
    } -> PathBuf;
    /// Give the file behind a loop device, which `LoopAttach` made, back what blocks it lost to discards.
    LoopAllocate { file: PathBuf } -> ();
    /// Detach every loop device whose backing file is `file`, or those of them that begin at `offset_bytes`;
    /// none is not an error. `backing` is the file
    /// that was attached under this name: another one of that name keeps its devices, and the reply says why.
    LoopDetach { file: PathBuf, backing: Option<BackingFile>, offset_bytes: Option<u64> } -> Option<String>;
    /// Discard all of a device that the agent holds and nothing else uses.
    DiscardDevice { device: PathBuf } -> ();
    /// End the virtual disk served from `directory`, killing its server when it does not go, and remove the
    /// folder; one that is gone is not an error.
    EndDisk { directory: PathBuf } -> ();
    /// Take down a layer between drives and a file system, by its name; one that is gone is not an error.
    EndLayer { name: String, device: LayerDevice } -> ();
    /// The same, but what it keeps on the drives stays, so that it can be put together again.
    StopLayer { name: String, device: LayerDevice } -> ();
    /// Have nothing of a device that is held and that nothing else uses in the page cache.
    ForgetCache { device: PathBuf } -> ();
    /// What the virtual disk under `directory` says of itself.
    /// The reply is `None` where there is none.
    DiskStat { directory: PathBuf } -> Option<disk::DiskStat>;
    /// Measure the way from a block device to the server of the virtual disk below it, and have the disk answer by that much
    /// earlier, in nanoseconds, so that delayed replies come in time. The reply is `None` where there is no such disk, or its
    /// replies are not delayed.
    CompensateDelay { device: PathBuf } -> Option<u64>;
    /// Remove a file; a missing one is not an error.
    RemoveFile { file: PathBuf } -> ();
    /// Make a directory of the lab's and its parents, for this user alone.
    MakeDirectory { directory: PathBuf } -> ();
    /// Make a directory to work in; one that is there is not an error.
    MakeFolder { directory: Location } -> ();
    /// Whether anything has this name in a directory; a link is not followed.
    IsTaken { directory: Location, name: String } -> bool;
    /// Remove a file that the lab made, or an empty directory (one that is not empty stays, as does what is
    /// mounted on); a missing one is not an error. What has its name and is another is left and the reply
    /// says why.
    RemoveMade { path: PathBuf, directory: bool, made: Made } -> Option<String>;
    /// What is known about a block device, for the safety rules.
    BlockFacts { device: PathBuf } -> super::BlockFacts;
    /// What the kernel says of a block device's geometry. Nothing is written.
    DeviceHints { device: PathBuf } -> crate::geometry::DeviceHints;
    /// What the disk of a device that is held says of its own wear. Nothing is written. The reply is `None` where it has no
    /// hardware of its own; a disk that does not tell is a reading with the reason.
    WearCounters { device: PathBuf } -> Option<crate::wear::WearReading>;
    /// Write back what is dirty: the file system mounted at `directory`, where there is one, then the caches of the
    /// device, which is held; and wait until nothing was asked of the device for `quiet_ms`, at most 5 s.
    SettleDevice { device: PathBuf, directory: Option<PathBuf>, quiet_ms: u64 } -> crate::fio::Settled;
    /// Time reads around the boundaries of a block device, with `Event::Progress`. Nothing is written. `Stop` ends it
    /// with a failure.
    ReadBoundaries { device: PathBuf, spec: crate::geometry::BoundarySpec } -> crate::geometry::BoundaryTimes;
    /// What is there to be timed by `TimeReads`: a block device, or a file that has all of its blocks. Nothing is written.
    ReadableHints { path: PathBuf } -> crate::timed_read::Readable;
    /// Time reads of a block device or a file, with `Event::Progress`. Nothing is written. `Stop` ends it with a failure.
    TimeReads { path: PathBuf, spec: crate::timed_read::ReadSpec } -> crate::timed_read::ReadTimes;
    /// Time writes to a block device that is held, with `Event::Progress`. What it has is lost. `Stop` ends it with a failure.
    TimeWrites { device: PathBuf, spec: crate::timed_write::WriteSpec } -> crate::timed_write::WriteTimes;
    /// Hold a block device open from now on, if it still is the one of `identity`; loop devices that the
    /// agent attaches are held without it. Only what is held is mounted, written an image to, or has the
    /// settings of its queue changed, and it is compared with what it was before each time.
    HoldDevice { device: PathBuf, identity: DeviceIdentity } -> ();
    /// Give a disk that is held a new partition table, with partitions of these many bytes in this order from
    /// its beginning. What it has is lost; the first 4 MiB and the last of each partition are cleared. The
    /// reply comes when the kernel has the partitions.
    SplitDevice { device: PathBuf, sizes: Vec<u64> } -> super::SplitDisk;
    /// Hold a block device no longer; one that is not held is not an error.
    LetDeviceGo { device: PathBuf } -> ();
    /// Make a mount point, in a folder of the lab's for nothing else that only this user may enter.
    MakeMountPoint { point: PathBuf } -> ();
    /// Unmount a mount of the user's own and mount it again with exactly these options, at the very directory that
    /// it was mounted at. Root is refused where another user could put something else there.
    Remount { device: PathBuf, point: PathBuf, file_system: String, options: Vec<String> } -> ();
    /// Make what another program mounted `nosuid,nodev,noexec`.
    RestrictMount { point: PathBuf } -> ();
    /// Mount a device that is held, always `nosuid,nodev,noexec`, in a folder that only this user may enter;
    /// options as for mount(8) `-o`. `afresh`: the agent may unmount it and mount it once more in the same way
    /// whenever nothing of it is to be in memory.
    Mount {
        device: PathBuf,
        point: PathBuf,
        file_system: String,
        options: Vec<String>,
        #[serde(default)]
        afresh: bool,
    } -> ();
    /// Unmount what this agent mounted there, or whatever is where it mounted nothing, waiting some seconds
    /// while it is busy; not mounted is not an error, something else mounted over it is.
    Unmount { point: PathBuf } -> ();
    /// Wait until nothing has a device mounted, or fail: another mount namespace may keep a copy of a mount.
    AwaitFree { device: PathBuf } -> ();
    /// What a sysfs or procfs setting is now.
    Get { path: PathBuf } -> String;
    /// Write a sysfs or procfs setting; the reply is the old value.
    Set { path: PathBuf, value: String } -> String;
    /// Write `old` back to a setting, but only where it still is `new`; one that is gone is not an error.
    Restore { path: PathBuf, old: String, new: String } -> ();
    /// Kill a process an earlier agent was (and everything that agent started), if `start_ticks` says that
    /// it is still that one, and wait until it is gone; a missing one is not an error.
    EndProcess { pid: u32, start_ticks: u64, timeout_ms: u64 } -> ();
    /// Keep the agent, and all that it starts from now on, on one processor: `to`, or the last that it may use.
    /// The reply is its number.
    Pin {
        #[serde(default)]
        to: Option<u32>,
    } -> u32;
    /// Bring the virtual disk that holds a directory to rest, where there is one in model time.
    DiskRest { directory: PathBuf } -> ();
    /// Write back and drop the page cache, dentries and inodes.
    DropCaches -> ();
    /// Have nothing of the file system that holds `directory` in memory: where it was mounted so that it may be
    /// mounted afresh, that is done, and no other file system notices; elsewhere the caches of the whole host are
    /// dropped.
    Forget { directory: PathBuf } -> ();
    /// `syncfs`.
    Sync { directory: PathBuf } -> ();
    /// `FITRIM` of the whole file system.
    /// The reply is the bytes trimmed.
    Trim { directory: Location } -> u64;
    /// Run a load, with `Event::Tick`, `Event::Probe`, `Event::Progress` and chunks. `mount`: the mount point
    /// that its directory must be below; absent where the directory is the user's own choice.
    Load {
        load: Box<LoadSpec>,
        #[serde(default)]
        mount: Option<PathBuf>,
    } -> LoadResult;
    /// Run the operations of a trace again below a directory.
    Replay {
        trace: PathBuf,
        directory: PathBuf,
        #[serde(default)]
        options: ReplayOptions,
    } -> ReplayResult;
    /// Set a workload up on several volumes: makes the initial directories. One at a time; an earlier one is
    /// forgotten.
    LockstepBegin { lockstep: Box<LockstepSpec> } -> ();
    /// As `LockstepBegin`, on volumes that hold what the runs of `past` left, whose tree had `digest`: makes
    /// nothing on them, and continues from there. A history that leads elsewhere, or that no run on these volumes
    /// can have left, is an error. With `Event::Progress`; the reply is `false` where `Stop` ended it.
    LockstepResume { lockstep: Box<LockstepSpec>, past: Vec<RunHistory>, digest: String } -> bool;
    /// Go on until round `until` is over: with `Event::Progress`. Nothing stays open afterwards. `Stop` ends
    /// it in the middle of a round.
    LockstepRun { until: u64 } -> LockstepResult;
    /// Compare what is on every volume with what the workload made, and forget the workload.
    LockstepEnd -> ();
    /// Make what a load for power cuts begins with, durably; one at a time, an earlier one is forgotten. The reply says
    /// by which operations; none where several threads make theirs.
    CrashPrepare { load: CrashLoadSpec, directory: Location } -> Vec<CrashOperation>;
    /// The same with operations that somebody wrote down; identities of its files come from `seed`.
    CrashPrepareScript { script: CrashScript, seed: u64, directory: Location } -> Vec<CrashOperation>;
    /// Do the load that was prepared, on a virtual disk that keeps a log. The reply says where in it each
    /// operation had returned.
    CrashLoad { directory: Location } -> Vec<LoadStep>;
    /// Mount a crash state of the load, compare it with what was promised, unmount and check it. What is
    /// damaged is a reply, not a failure.
    CrashTry { attempt: Box<AttemptSpec> } -> Attempt;
    /// Make an empty directory, durably, for a program that a power cut is to hit; `used`: on free space that
    /// was in use before.
    CrashMake { directory: Location, used: bool } -> ();
    /// Run that program in it, on a virtual disk that keeps a log, to its end or until it is stopped; all that
    /// it started is ended with it.
    CrashProgram { program: ProgramSpec, directory: Location } -> ProgramRun;
    /// Mount a crash state of that program, run its check, unmount and check the file system. What is damaged
    /// is a reply, not a failure.
    CrashCheck { attempt: Box<AttemptSpec>, check: Box<StateCheck> } -> Attempt;
    /// Commit transactions with SQLite in that directory, on a virtual disk that keeps a log; everything that runs
    /// is ended with it.
    CrashDatabase { database: DatabaseSpec, directory: Location } -> ProgramRun;
    /// Mount a crash state of that database, open it, compare its rows with what was committed, unmount and check
    /// the file system. What is damaged is a reply, not a failure.
    CrashCheckDatabase { attempt: Box<AttemptSpec>, database: DatabaseSpec } -> Attempt;
    /// Write what a device holds to a new file, sparse and readable by its owner only.
    CrashSave { device: PathBuf, file: PathBuf } -> ();
    /// Layout of a directory tree; `threads` 0: one per CPU; `detail`: with the finer distributions.
    Scan {
        directory: Location,
        threads: u32,
        one_file_system: bool,
        #[serde(default)]
        detail: bool,
    } -> Scanned;
    /// Where every file below a directory lies, with chunks that have one JSON line (`PlacedFile`) per file.
    /// `cells`: stretches of equal length that the volume is divided into.
    Places { directory: Location, cells: u64 } -> Placed;
    /// Free space of the file system that holds `directory`.
    FreeSpace { directory: Location } -> layout::FreeSpace;
    /// `statfs` of the file system that holds `directory`.
    Usage { directory: PathBuf } -> super::Usage;
    /// Check every block of self-describing data below a directory, on its own file system only unless
    /// `cross_mounts`.
    Verify {
        directory: Location,
        #[serde(default)]
        cross_mounts: bool,
    } -> VerifyResult;
    /// Attach a file or block device as a loop device that refuses every write, with direct I/O where it can
    /// be.
    LoopAttachReadOnly { file: PathBuf, sector_bytes: u32 } -> PathBuf;
    /// Save a volume as an image: with `Event::Progress` (blocks). `point` is where its file system is
    /// mounted from a read-only loop device over it, or, with `frozen`, itself; without it, or with
    /// `all_blocks`, every block is saved. `level` is zstd's, `threads` 0 takes what suits. It has no name
    /// until it is complete.
    ImageSave {
        device: PathBuf,
        point: Option<PathBuf>,
        frozen: bool,
        all_blocks: bool,
        file: PathBuf,
        level: i32,
        threads: u32,
        facts: BTreeMap<String, String>,
    } -> ImageSummary;
    /// Write an image to a device or file (made when it is not there), which loses what it has, discarded
    /// first with `trim`; with `Event::Progress` (blocks).
    ImageRestore { file: PathBuf, device: PathBuf, trim: bool, threads: u32 } -> ImageSummary;
    /// Check every byte of an image, with `Event::Progress` (blocks).
    ImageVerify { file: PathBuf, threads: u32 } -> ImageSummary;
    /// Write self-describing data into the blocks that the files below a directory have.
    ImageMaterialise { directory: PathBuf } -> ();
    /// What an image is of.
    ImageInfo { file: PathBuf } -> ImageSummary;
    /// Run measures below `directory`: with `Event::Progress`. `device` whose requests are seen: absent, what
    /// `directory` is mounted from. `trace_instance`: name of the trace instance (`fsage-…`) that is made for
    /// it and removed; absent, requests are not inspected. `mark`: what the position in the virtual disk's log is
    /// called where the clock is first started. `extra`: share of the measure's time (above 0, at most 1) that
    /// direct reads at random places of `device` add to it, for a control; absent, none. `Stop` ends it with a failure.
    Measure {
        measure: MeasureSpec,
        directory: Location,
        device: Option<PathBuf>,
        seed: u64,
        trace_instance: Option<String>,
        mark: Option<String>,
        extra: Option<f64>,
    } -> MeasureResult;
    /// Run fio, which reports every `round_ms` (`--status-interval` is added), with `Event::Progress`. With
    /// `steady_from` it is asked to end once its rate is steady and it has read and written at least so many bytes.
    /// `device`: the block device below it, whose counters are read before and after; it must be held. `Stop` ends it
    /// with a failure.
    RunFio {
        argv: Vec<String>,
        timeout_ms: u64,
        round_ms: u64,
        steady_from: Option<u64>,
        device: PathBuf,
        #[serde(default)]
        memory: Option<MemoryGroup>
    } -> crate::fio::FioRun;
    /// Where a control group of this name that limits memory can be made; nothing is made yet.
    MemoryGroupPlace { name: String } -> PathBuf;
    /// Remove a control group that limited memory; one that is gone is not an error.
    RemoveMemoryGroup { path: PathBuf } -> ();
    /// Make the folder of a measure that the lab runs, `fsage-measure` below `directory`, and hold it open
    /// until it is removed. The reply is a path through the descriptor that the agent holds, which nobody can
    /// redirect. One that is there is an error.
    MakeMeasureFolder { directory: Location } -> PathBuf;
    /// Hold the folder `fsage-measure` below `directory` open, which the agent of another host made on a volume that both have.
    /// The reply is as that of `MakeMeasureFolder`.
    HoldMeasureFolder { directory: Location } -> PathBuf;
    /// Let the folder of `HoldMeasureFolder` go, and leave it there.
    LeaveMeasureFolder -> ();
    /// Remove the folder `fsage-measure` below `directory` with what is in it, and sync; a missing one is not
    /// an error.
    RemoveMeasureFolder { directory: Location } -> ();
    /// Copy the logical tree below `from`, in directory order and with one thread, into the empty directory
    /// `to`: with `Event::Progress`. `Stop` ends it with a failure.
    Copy { from: Location, to: Location } -> Copied;
    /// Delete `share` (0..=1) of the files below `directory`, chosen by the seed, each as likely as any other,
    /// and sync: with `Event::Progress`. Directories stay. `Stop` ends it with a failure.
    Free { directory: Location, share: f64, seed: u64 } -> Freed;
    /// What the device under a directory read and wrote since it came up; `None` where the kernel does not
    /// count that.
    DeviceBytes { directory: PathBuf } -> Option<super::DeviceBytes>;
    /// Remove a trace instance of ours; one that is not there is not an error.
    RemoveTraceInstance { name: String } -> ();
    /// Hold the running load at its next operation.
    Pause -> ();
    /// Go on.
    Resume -> ();
    /// End the running load; its reply comes as usual, stopped by `asked`. In `fast` mode the data is written
    /// in place first.
    Stop -> ();
    /// The same without writing the data: the result says `materialised: false`.
    Abandon -> ();
    /// End the agent after its reply.
    Goodbye -> ();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_without_fields_is_its_name_alone() {
        let request = Request::from(DropCaches);
        assert_eq!(serde_json::to_value(&request).unwrap(), json!({"request": "drop-caches"}));
        assert_eq!(serde_json::from_value::<Request>(json!({"request": "drop-caches"})).unwrap(), request);
        assert_eq!(request.name(), "drop-caches");
    }

    #[test]
    fn a_field_that_no_call_has_is_refused() {
        let usage = json!({"request": "usage", "directory": "/"});
        let request = Request::from(Usage { directory: "/".into() });
        assert_eq!(serde_json::from_value::<Request>(usage).unwrap(), request);
        for bad in [
            json!({"request": "usage", "directory": "/", "more": 1}),
            json!({"request": "drop-caches", "more": 1}),
            json!({"request": "usage"}),
            json!({"directory": "/"}),
        ] {
            assert!(serde_json::from_value::<Request>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_reply_is_read_as_that_of_its_call_only() {
        let reply = Pin { to: None }.reply(&3).unwrap();
        assert_eq!(reply.to::<Pin>().unwrap(), 3);
        assert!(reply.to::<DropCaches>().is_err());
        assert_eq!(DropCaches.reply(&()).unwrap(), Reply::done());
        let left = LoopDetach { file: "/a".into(), backing: None, offset_bytes: None };
        assert_eq!(left.reply(&None).unwrap(), Reply::done());
    }
}
