//! One workload on several volumes in lock-step.
//!
//! The workload runs on the first volume, the leader; what succeeds there is done on the others, operation
//! for operation and in its order, and what fails there is left out, as in Conway et al. 2019 (§4: full and
//! empty disk). So all volumes go through the same logical states. An operation that ends differently on a
//! follower is a divergence: the first one is reported with its number, and nothing continues.
//!
//! A run ends between two rounds, with everything written out and nothing kept open, so that the volumes can
//! be unmounted, inspected and measured before the next run continues from there. The state of the workload
//! stays in a [`Lockstep`].
//!
//! Each part of a round ends with a `syncfs`, which is part of its cost. On disks in model time followers
//! work at the same time as the leader, because their time is the disks' own; on one drive and anywhere else they
//! take turns, and a part costs what its operations and its syncs took. A turn is what lies between two syncs: a part, or
//! less where the leader syncs to see how full it is. It ends with the volume's device at rest, which nobody
//! is charged for, so that no write-back and no background work of one volume runs in the turn of another.
//! Memory: batches of [`BATCH`] operations, by turns at most [`TURN`], and the model of the tree.

mod past;
mod place;

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsage_model::lockstep::LockstepResult;
use fsage_model::lockstep::LockstepSpec;
use fsage_model::lockstep::Round;
use fsage_model::lockstep::RunHistory;
use fsage_model::lockstep::VolumeRound;
use fsage_model::operation::{Action, Operation};
use fsage_model::protocol::FailureKind;

use crate::load::{Control, LoadError, LoadSink, TestDirectory};
use crate::tree::{Directory, ShapeError, walk};
use crate::workload::{AnyWorkload, Part, ResolveContext, Workload as _, resolve};
use past::Past;
use place::{Follower, Lead, Leader, Post, VolumeWork, settle_turns};

/// Operations handed to a follower at once.
pub const BATCH: usize = 4096;

/// Operations of a turn at most: some 25 MB.
pub const TURN: usize = 1 << 18;

/// Why volumes could not be driven in lock-step.
#[derive(Debug, thiserror::Error)]
pub enum LockstepError {
    /// The specification is invalid, a directory cannot be worked in, a device stopped working.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A follower went another way.
    #[error("{}", .0.text())]
    Diverged(Box<Divergence>),
    /// A history that the workload does not follow.
    #[error("the workload deviates from its history: {what}")]
    Past {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A tree could not be inspected.
    #[error("cannot check {}", path.display())]
    Walk {
        /// Its directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: ShapeError,
    },
    /// A tree is not what the workload made.
    #[error("{} has {found} names and {found_bytes} bytes instead of {wanted} and {wanted_bytes}", path.display())]
    Different {
        /// Its directory.
        path: PathBuf,
        /// File names found.
        found: u64,
        /// Bytes found.
        found_bytes: u64,
        /// File names that there must be.
        wanted: u64,
        /// Bytes that there must be.
        wanted_bytes: u64,
    },
}

/// The first operation that ended differently on a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The follower's directory.
    pub directory: PathBuf,
    /// Which of the operations done on it, 0-based.
    pub operation: u64,
    /// What was to be done, and succeeded on the leader.
    pub what: Operation,
    /// How it failed.
    pub errno: i32,
}

impl Divergence {
    fn text(&self) -> String {
        format!(
            "{} diverged at operation {}: {} of file {:x} in directory {} failed with {} there and not on the first volume",
            self.directory.display(),
            self.operation,
            self.what.kind().name(),
            self.what.file,
            self.what.place.directory,
            fsage_sys::errno::name(self.errno)
        )
    }
}

impl LockstepError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Load(error) => error.hint(),
            Self::Diverged(_) => "followers must have at least as much room as the first volume".to_owned(),
            Self::Walk { .. } => String::new(),
            Self::Past { .. } => {
                "another version of fsage may have written it; without it the workload begins again"
                    .to_owned()
            }
            Self::Different { .. } => "nothing else may work below that directory meanwhile".to_owned(),
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Load(error) => error.errno(),
            Self::Diverged(divergence) => Some(divergence.errno),
            Self::Past { .. } | Self::Walk { .. } | Self::Different { .. } => None,
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Load(error) => error.kind(),
            Self::Diverged(_) | Self::Walk { .. } => FailureKind::Failed,
            Self::Different { .. } | Self::Past { .. } => FailureKind::Damage,
        }
    }
}

/// A workload between two runs.
pub struct Lockstep {
    spec: LockstepSpec,
    workload: AnyWorkload,
    /// Size of the leader's file system.
    volume_bytes: u64,
    operations: u64,
    part: Part,
    failed: BTreeMap<String, u64>,
    /// The round under way: its parts that are over.
    round: Vec<VolumeRound>,
}

impl Lockstep {
    /// Makes the initial directories on every volume; nothing is timed.
    ///
    /// # Errors
    /// A specification that is invalid, a directory that is missing, read-only or used.
    pub fn begin(spec: LockstepSpec) -> Result<Self, LockstepError> {
        let lockstep = Self::resolved(spec)?;
        let initial = lockstep.workload.initial_directories();
        for directory in &lockstep.spec.directories {
            let test_directory = TestDirectory::open(directory)?;
            test_directory.make_tops(1)?;
            VolumeWork::open(&test_directory, &lockstep.spec, [])?.make(&test_directory, &initial)?;
            test_directory.sync()?;
        }
        Ok(lockstep)
    }

    /// Continues where the runs of `past` ended, on volumes that hold what they left: a tree with this
    /// digest. Nothing is done on the volumes. `None` when its end was asked meanwhile.
    ///
    /// # Errors
    /// As [`Lockstep::begin`], and [`LockstepError::Past`] for a history that leads elsewhere, or that no run
    /// on these volumes can have left.
    pub fn resume(
        spec: LockstepSpec,
        past: &[RunHistory],
        digest: &str,
        control: &Control,
        sink: &mut dyn LoadSink,
    ) -> Result<Option<Self>, LockstepError> {
        let mut lockstep = Self::resolved(spec)?;
        if !lockstep.retrace(past, control, sink)? {
            return Ok(None);
        }
        let found = lockstep.workload.digest().to_string();
        if found == digest { Ok(Some(lockstep)) } else { Err(past::refused("its tree is another one")) }
    }

    /// Brings the workload to where the runs of `past` ended; whether it was not stopped on the way.
    fn retrace(
        &mut self,
        past: &[RunHistory],
        control: &Control,
        sink: &mut dyn LoadSink,
    ) -> Result<bool, LockstepError> {
        for run in past {
            let mut leader = Past::new(run, self.workload.live_bytes(), self.volume_bytes)?;
            let result = std::thread::scope(|scope| {
                let mut post = Post::open(scope, Vec::new(), false);
                self.drive(run.until, &mut leader, &mut post, control, sink)
            })?;
            if result.stopped {
                return Ok(false);
            }
            if !leader.is_over() {
                return Err(past::refused("it has more than the workload's rounds"));
            }
        }
        Ok(true)
    }

    /// The workload before its first operation.
    fn resolved(spec: LockstepSpec) -> Result<Self, LockstepError> {
        let Some(first) = spec.directories.first() else {
            return Err(LoadError::Spec { what: "no directory is given".to_owned() }.into());
        };
        if !spec.workload.ends() && spec.round_operations.is_none_or(|operations| operations == 0) {
            let what = "round_operations must be given, at least 1: the workload has no rounds of its own";
            return Err(LoadError::Spec { what: what.to_owned() }.into());
        }
        let volume_bytes = TestDirectory::open(first)?.usage()?.total_bytes;
        let context = ResolveContext { volume_bytes, write_mode: spec.write_mode };
        let workload = resolve(&spec.workload, 0, 1, spec.seed, &context)
            .map_err(|error| LoadError::Workload { what: error.to_string(), hint: error.hint() })?;
        let round = vec![VolumeRound::default(); spec.directories.len()];
        let part = workload.part();
        Ok(Self { spec, workload, volume_bytes, operations: 0, part, failed: BTreeMap::new(), round })
    }

    /// Goes on until round `until` is over, or nothing is left to do.
    ///
    /// # Errors
    /// A divergence, a device that stopped working.
    pub fn run(
        &mut self,
        until: u64,
        control: &Control,
        sink: &mut dyn LoadSink,
    ) -> Result<LockstepResult, LockstepError> {
        let grounds: Vec<TestDirectory> =
            self.spec.directories.iter().map(TestDirectory::open).collect::<Result<_, _>>()?;
        let known: Vec<Directory> = self.workload.directories().collect();
        let open = |test_directory: &TestDirectory| {
            VolumeWork::open(test_directory, &self.spec, known.iter().copied())
        };
        let mut works: Vec<VolumeWork> = grounds.iter().map(open).collect::<Result<_, _>>()?;
        let by_turns = settle_turns(&mut works);
        let mut works = works.into_iter();
        let (Some((first, others)), Some(work)) = (grounds.split_first(), works.next()) else {
            return Err(LoadError::Spec { what: "no directory is given".to_owned() }.into());
        };
        // Followers did what succeeded.
        let done = self.operations - self.failed.values().sum::<u64>();
        let mut leader = Leader::new(work, first, self.workload.live_bytes())?;
        let followers: Vec<Follower<'_>> =
            works.zip(others).map(|(work, other)| Follower::new(work, other, done)).collect();
        std::thread::scope(|scope| {
            let mut post = Post::open(scope, followers, by_turns);
            let result = self.drive(until, &mut leader, &mut post, control, sink);
            // A follower's own words come before what its silence led to.
            post.close()?;
            result.map(|result| LockstepResult { history: leader.history(until), ..result })
        })
    }

    /// Compares what is on every volume with the model.
    ///
    /// # Errors
    /// A tree differs or cannot be walked.
    pub fn check(&self) -> Result<(), LockstepError> {
        let wanted = self.workload.shape();
        for location in &self.spec.directories {
            let (test_directory, path) = (TestDirectory::open(location)?, &location.path);
            let found = walk(&test_directory.held())
                .map_err(|source| LockstepError::Walk { path: path.clone(), source })?;
            if found != wanted {
                return Err(LockstepError::Different {
                    path: path.clone(),
                    found: found.file_names,
                    found_bytes: found.bytes,
                    wanted: wanted.file_names,
                    wanted_bytes: wanted.bytes,
                });
            }
        }
        Ok(())
    }

    fn drive(
        &mut self,
        until: u64,
        leader: &mut impl Lead,
        post: &mut Post<'_>,
        control: &Control,
        sink: &mut dyn LoadSink,
    ) -> Result<LockstepResult, LockstepError> {
        let mut rounds = Vec::new();
        let mut feedback = leader.feedback();
        let mut stopped = false;
        loop {
            if control.is_asked() && !control.wait(&|| false) {
                stopped = true;
                break;
            }
            match self.workload.next(&feedback) {
                Some(operation) => {
                    self.step(&operation, leader, post)?;
                    if leader.is_due() || post.ends_turn() {
                        leader.look()?;
                        post.sync()?;
                    }
                    feedback = leader.feedback();
                    if self.operations.is_multiple_of(1024) {
                        sink.progress(self.operations, 0, None, &format!("round {}", self.part.round));
                    }
                }
                None if self.workload.is_stuck() => {
                    let what = "nothing to do: no operation that has a weight finds an object".to_owned();
                    return Err(LoadError::Workload { what, hint: String::new() }.into());
                }
                None => {}
            }
            let (part, finished) = (self.part_now(), self.workload.is_finished());
            if part == self.part && !finished {
                continue;
            }
            self.end_part(leader, post)?;
            feedback = leader.feedback();
            let over = std::mem::replace(&mut self.part, part);
            if over.round != part.round || finished {
                rounds.push(self.end_round(over.round));
                if finished || over.round >= until {
                    break;
                }
            }
        }
        Ok(LockstepResult {
            rounds,
            finished: self.workload.is_finished(),
            stopped,
            digest: self.workload.digest().to_string(),
            failed: self.failed.clone(),
            history: RunHistory::default(),
        })
    }

    /// The part that the next operation belongs to.
    fn part_now(&self) -> Part {
        match self.spec.round_operations {
            Some(operations) if !self.spec.workload.ends() => {
                Part { round: self.operations / operations, makes_room: false }
            }
            _ => self.workload.part(),
        }
    }

    fn step(
        &mut self,
        operation: &Operation,
        leader: &mut impl Lead,
        post: &mut Post<'_>,
    ) -> Result<(), LockstepError> {
        let before = self.workload.live_bytes();
        let outcome = leader.execute(operation)?;
        self.workload.completed(operation, &outcome);
        leader.took(before, self.workload.live_bytes(), self.workload.files())?;
        self.operations += 1;
        if outcome.errno == 0 {
            return post.send(operation);
        }
        *self.failed.entry(fsage_sys::errno::name(outcome.errno).to_owned()).or_default() += 1;
        Ok(())
    }

    fn end_part(&mut self, leader: &mut impl Lead, post: &mut Post<'_>) -> Result<(), LockstepError> {
        let mut ended = vec![leader.end_part()?];
        ended.extend(post.end_part()?);
        for (volume, end) in self.round.iter_mut().zip(ended) {
            let cost = if self.part.makes_room { &mut volume.room } else { &mut volume.write };
            *cost = end.cost;
            (volume.used_bytes, volume.total_bytes) = (end.usage.used_bytes, end.usage.total_bytes);
            volume.most_used_bytes = volume.most_used_bytes.max(end.usage.used_bytes);
            volume.model_time = end.model_time;
            volume.still_busy |= end.still_busy;
        }
        Ok(())
    }

    fn end_round(&mut self, round: u64) -> Round {
        let fresh = vec![VolumeRound::default(); self.round.len()];
        Round {
            round,
            operations: self.operations,
            files: self.workload.files(),
            live_bytes: self.workload.size_bytes(),
            volumes: std::mem::replace(&mut self.round, fresh),
        }
    }
}

/// Bytes that a successful operation takes away from files.
fn bytes_deleted(operation: &Operation) -> u64 {
    match operation.action {
        Action::Delete => operation.size,
        Action::Truncate { new_size } => operation.size.saturating_sub(new_size),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::load::NoSink;
    use fsage_model::load::WriteMode;
    use fsage_model::lockstep::SeenUsage;
    use fsage_model::size::Bytes;
    use fsage_model::workload::WorkloadSpec;
    use fsage_model::workload::{DriftSpec, FsfbSpec, SizeSpec};

    /// A folder for each of so many volumes, in memory.
    fn volumes(count: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..count).map(|n| folder.path().join(n.to_string())).collect();
        paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        (folder, paths)
    }

    fn spec(directories: &[PathBuf]) -> LockstepSpec {
        let drift = DriftSpec {
            slots: 200,
            file_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(20_000) },
            io_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(9_000) },
            ..DriftSpec::default()
        };
        LockstepSpec {
            workload: WorkloadSpec::Drift(drift),
            directories: directories.iter().map(|path| path.as_path().into()).collect(),
            seed: 5,
            write_mode: WriteMode::Buffered,
            round_operations: Some(1000),
            deterministic: false,
        }
    }

    fn run(lockstep: &mut Lockstep, until: u64) -> LockstepResult {
        lockstep.run(until, &Control::new(), &mut NoSink).unwrap()
    }

    #[test]
    fn every_volume_gets_the_same_tree_and_runs_go_on_where_they_ended() {
        let (_folder, paths) = volumes(3);
        let mut lockstep = Lockstep::begin(spec(&paths)).unwrap();
        let first = run(&mut lockstep, 2);
        assert_eq!(first.rounds.iter().map(|round| round.round).collect::<Vec<_>>(), [0, 1, 2]);
        let second = run(&mut lockstep, 9);
        assert_eq!(second.rounds.len(), 7);
        assert!(!second.finished && !second.stopped);
        let last = second.rounds.last().unwrap();
        assert_eq!(last.operations, 10_000);
        for volume in &last.volumes {
            assert_eq!(volume.write.bytes_written, last.volumes[0].write.bytes_written);
            assert!(volume.write.elapsed_ns > 0 && volume.total_bytes > 0);
            assert_eq!(volume.write.operations, 1000);
        }
        lockstep.check().unwrap();
        // In one go, and on one volume: the same.
        let (_other, alone) = volumes(1);
        let mut one = Lockstep::begin(spec(&alone)).unwrap();
        assert_eq!(run(&mut one, 9).digest, second.digest);
    }

    #[test]
    fn a_follower_that_goes_another_way_is_told_with_the_operation() {
        let (_folder, paths) = volumes(2);
        let mut lockstep = Lockstep::begin(spec(&paths)).unwrap();
        let first = run(&mut lockstep, 0);
        let done = first.rounds[0].operations - first.failed.values().sum::<u64>();
        // Something else took the follower's files away.
        std::fs::remove_dir_all(paths[1].join("t00")).unwrap();
        std::fs::create_dir(paths[1].join("t00")).unwrap();
        let error = lockstep.run(5, &Control::new(), &mut NoSink).unwrap_err();
        let LockstepError::Diverged(divergence) = &error else { panic!("{error}") };
        assert_eq!((divergence.errno, divergence.operation), (2, done), "{error}");
        assert!(error.to_string().contains("ENOENT"), "{error}");
        assert_eq!(error.kind(), FailureKind::Failed);
    }

    /// Files below a directory.
    fn files(directory: &Path) -> u64 {
        walk(directory).unwrap().file_names
    }

    #[test]
    fn by_turns_a_follower_begins_when_the_leaders_turn_is_over() {
        let (_folder, paths) = volumes(2);
        let mut lockstep = Lockstep::begin(spec(&paths)).unwrap();
        let grounds: Vec<TestDirectory> =
            lockstep.spec.directories.iter().map(|location| TestDirectory::open(location).unwrap()).collect();
        let known: Vec<Directory> = lockstep.workload.directories().collect();
        let open = |ground| VolumeWork::open(ground, &spec(&paths), known.iter().copied()).unwrap();
        let mut leader = Leader::new(open(&grounds[0]), &grounds[0], 0).unwrap();
        let follower = Follower::new(open(&grounds[1]), &grounds[1], 0);
        std::thread::scope(|scope| {
            let mut post = Post::open(scope, vec![follower], true);
            // More than a batch.
            while lockstep.operations < 2 * BATCH as u64 {
                if let Some(operation) = lockstep.workload.next(&leader.feedback()) {
                    lockstep.step(&operation, &mut leader, &mut post).unwrap();
                }
            }
            assert!(files(&paths[0]) > 0);
            assert_eq!(files(&paths[1]), 0);
            assert!(!post.ends_turn());
            post.sync().unwrap();
            assert_eq!(files(&paths[1]), files(&paths[0]));
            post.close().unwrap();
        });
        lockstep.check().unwrap();
    }

    #[test]
    fn volumes_on_one_device_are_not_waited_for() {
        let (_folder, paths) = volumes(2);
        let open = |path: &PathBuf| {
            let ground = TestDirectory::open(&path.as_path().into()).unwrap();
            ground.make_tops(1).unwrap();
            VolumeWork::open(&ground, &spec(&paths), []).unwrap()
        };
        let mut works: Vec<VolumeWork> = paths.iter().map(open).collect();
        settle_turns(&mut works);
        let has_device = crate::device::Device::under(&paths[0]).is_some();
        assert_eq!(works.iter().map(VolumeWork::drains).collect::<Vec<_>>(), [!has_device; 2]);
        let mut alone = works.split_off(1);
        settle_turns(&mut alone);
        assert!(!alone[0].drains());
    }

    /// Continues, with nobody who asks for an end.
    fn resumed(
        paths: &[PathBuf],
        past: &[RunHistory],
        digest: &str,
    ) -> Result<Option<Lockstep>, LockstepError> {
        Lockstep::resume(spec(paths), past, digest, &Control::new(), &mut NoSink)
    }

    /// Copies what is in a folder.
    fn copied(from: &Path, to: &Path) {
        let done = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
        assert!(done.success());
    }

    #[test]
    fn a_workload_continues_from_its_history_on_copies_of_its_volumes() {
        let (_folder, paths) = volumes(2);
        let mut whole = Lockstep::begin(spec(&paths)).unwrap();
        let past: Vec<LockstepResult> = [1, 4].map(|until| run(&mut whole, until)).into();
        let (_other, copies) = volumes(2);
        paths.iter().zip(&copies).for_each(|(from, to)| copied(from, to));
        let wanted = run(&mut whole, 7);
        let history: Vec<RunHistory> = past.iter().map(|run| run.history.clone()).collect();
        assert_eq!(history[1].parts.len(), 3);
        let mut resumed = resumed(&copies, &history, &past[1].digest).unwrap().unwrap();
        let found = run(&mut resumed, 7);
        assert_eq!((&found.digest, &found.failed), (&wanted.digest, &wanted.failed));
        let counts = |round: &Round| {
            let costs = round.volumes.iter().map(|one| (one.write.operations, one.write.bytes_written));
            (round.round, round.operations, round.files, round.live_bytes, costs.collect::<Vec<_>>())
        };
        assert_eq!(
            found.rounds.iter().map(counts).collect::<Vec<_>>(),
            wanted.rounds.iter().map(counts).collect::<Vec<_>>()
        );
        assert_eq!(found.rounds[0].round, 5);
        resumed.check().unwrap();
    }

    /// A volume on which some operations fail.
    struct Failing {
        history: RunHistory,
        fullness: crate::load::Fullness,
        operations: u64,
        since_look: u64,
    }

    impl Lead for Failing {
        fn feedback(&self) -> crate::workload::Feedback {
            place::feedback(&self.fullness)
        }

        fn execute(
            &mut self,
            operation: &Operation,
        ) -> Result<fsage_model::operation::Outcome, LockstepError> {
            self.operations += 1;
            self.since_look += crate::load::bytes_moved(operation).0;
            let errno = if self.operations.is_multiple_of(7) { 28 } else { 0 };
            if errno != 0 {
                self.history.failures.push((self.operations, errno));
            }
            Ok(fsage_model::operation::Outcome { errno, latency_ns: 1 })
        }

        fn took(&mut self, before: u64, now: u64, _files: u64) -> Result<(), LockstepError> {
            self.fullness.add(now.cast_signed() - before.cast_signed());
            Ok(())
        }

        /// Where a run looks, and at the ends of some turns.
        fn is_due(&self) -> bool {
            self.since_look >= self.fullness.due_bytes() || self.operations.is_multiple_of(500)
        }

        fn look(&mut self) -> Result<(), LockstepError> {
            self.since_look = 0;
            self.history.looks.push((self.operations, place::seen(self.usage())));
            self.fullness.correct(self.usage());
            Ok(())
        }

        fn end_part(&mut self) -> Result<place::Ended, LockstepError> {
            self.history.parts.push(place::seen(self.usage()));
            self.since_look = 0;
            self.fullness.correct(self.usage());
            Ok(place::Ended::of(self.usage()))
        }
    }

    impl Failing {
        /// It fills as it goes.
        fn usage(&self) -> crate::load::Usage {
            crate::load::Usage { used_bytes: self.operations * 1000, total_bytes: 1 << 26 }
        }
    }

    #[test]
    fn failures_and_fullness_are_part_of_a_history() {
        let (_folder, paths) = volumes(1);
        let usage = crate::load::Usage { used_bytes: 0, total_bytes: 1 << 26 };
        let mut leader = Failing {
            history: RunHistory { until: 3, begun: place::seen(usage), ..RunHistory::default() },
            fullness: place::estimate(usage, 0),
            operations: 0,
            since_look: 0,
        };
        let mut lockstep = Lockstep::begin(spec(&paths)).unwrap();
        let done = std::thread::scope(|scope| {
            let mut post = Post::open(scope, Vec::new(), false);
            lockstep.drive(3, &mut leader, &mut post, &Control::new(), &mut NoSink).unwrap()
        });
        assert!(leader.history.failures.len() > 500 && leader.history.looks.len() > 5);
        let text = serde_json::to_string(&leader.history).unwrap();
        let history: RunHistory = serde_json::from_str(&text).unwrap();
        let again = resumed(&paths, std::slice::from_ref(&history), &done.digest).unwrap().unwrap();
        assert_eq!((again.operations, &again.failed), (4000, &done.failed));
        // A history that leads elsewhere is found out.
        let mut other = history.clone();
        other.failures.remove(9);
        let mut short = history.clone();
        short.parts.pop();
        let mut long = history.clone();
        long.parts.push(long.begun);
        let mut blind = history.clone();
        blind.looks.clear();
        let mut larger = history;
        larger.parts[0] = SeenUsage(0, 1 << 60);
        for wrong in [other, short, long, blind, larger] {
            let refused = resumed(&paths, &[wrong], &done.digest).err().unwrap();
            assert!(matches!(refused, LockstepError::Past { .. }), "{refused}");
        }
    }

    /// A history in which a volume never fills, followed by a workload that fills it.
    fn endless(volume_bytes: u64, control: &Control, sink: &mut dyn LoadSink) -> Result<bool, LockstepError> {
        let (_folder, paths) = volumes(1);
        let size = SizeSpec::Uniform { min: Bytes(1), max: Bytes(200) };
        let fill = FsfbSpec { rounds: 1, file_size: size, ..FsfbSpec::default() };
        let workload = WorkloadSpec::Fsfb(fill);
        let mut lockstep =
            Lockstep::resolved(LockstepSpec { workload, round_operations: None, ..spec(&paths) }).unwrap();
        lockstep.volume_bytes = volume_bytes;
        let seen = SeenUsage(0, volume_bytes);
        // A look after each operation, as if each ended a turn: none is missed.
        let looks = (1..1 << 20).map(|number| (number, seen)).collect();
        let past = RunHistory { until: 1, begun: seen, looks, ..RunHistory::default() };
        lockstep.retrace(&[past], control, sink)
    }

    #[test]
    fn a_history_leads_to_no_more_files_than_there_is_room_for() {
        let refused = endless(32 << 20, &Control::new(), &mut NoSink).unwrap_err();
        assert!(refused.to_string().contains("more files than the volume has room for"), "{refused}");
    }

    /// Asks for the end as soon as it hears of operations.
    struct Impatient<'a>(&'a Control);

    impl LoadSink for Impatient<'_> {
        fn tick(&mut self, _: fsage_model::load::Tick) {}
        fn probe(&mut self, _: fsage_model::load::Probe) {}
        fn progress(&mut self, operations: u64, _elapsed_ns: u64, _share: Option<f64>, _note: &str) {
            assert!(operations <= 1024, "it was not heard");
            self.0.stop();
        }
        fn warning(&mut self, _: fsage_model::warning::Warning) {}
        fn trace_chunk(&mut self, _: &[u8]) {}
    }

    #[test]
    fn a_history_that_is_followed_ends_when_that_is_asked() {
        let control = Control::new();
        assert!(!endless(1 << 40, &control, &mut Impatient(&control)).unwrap());
    }

    #[test]
    fn a_tree_that_was_changed_is_no_longer_what_was_made() {
        let (_folder, paths) = volumes(2);
        let mut lockstep = Lockstep::begin(spec(&paths)).unwrap();
        run(&mut lockstep, 1);
        lockstep.check().unwrap();
        std::fs::write(paths[1].join("t00/stray"), "x").unwrap();
        let error = lockstep.check().unwrap_err();
        assert!(matches!(error, LockstepError::Different { .. }), "{error}");
        assert_eq!(error.kind(), FailureKind::Damage);
    }

    #[test]
    fn rounds_must_come_from_somewhere() {
        let (_folder, paths) = volumes(1);
        let refused = |spec: LockstepSpec| Lockstep::begin(spec).err().unwrap().to_string();
        let none = LockstepSpec { round_operations: None, ..spec(&paths) };
        assert!(refused(none).contains("round_operations"));
        assert!(refused(LockstepSpec { directories: Vec::new(), ..spec(&paths) }).contains("directory"));
        let own = LockstepSpec {
            workload: WorkloadSpec::Fsfb(FsfbSpec { rounds: 0, ..FsfbSpec::default() }),
            ..spec(&paths)
        };
        assert!(refused(own).contains("rounds"));
    }

    #[test]
    fn a_stop_is_heeded_and_told() {
        let (_folder, paths) = volumes(2);
        let mut lockstep = Lockstep::begin(spec(&paths)).unwrap();
        let control = Control::new();
        control.stop();
        let result = lockstep.run(5, &control, &mut NoSink).unwrap();
        assert!(result.stopped && result.rounds.is_empty());
    }
}
