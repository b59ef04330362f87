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
//! work at the same time as the leader, because their time is the disks' own; anywhere else they take turns
//! by batches, and a part costs what its operations and its syncs took. Memory: batches of [`BATCH`]
//! operations, and the model of the tree.

mod place;

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsage_model::lockstep::LockstepResult;
use fsage_model::lockstep::LockstepSpec;
use fsage_model::lockstep::Round;
use fsage_model::lockstep::VolumeRound;
use fsage_model::operation::{Action, Operation};
use fsage_model::protocol::FailureKind;

use crate::disk::Clock;
use crate::load::{Control, LoadError, LoadSink, TestDirectory};
use crate::tree::{Directory, ShapeError, walk};
use crate::workload::{AnyWorkload, Part, ResolveContext, Workload as _, resolve};
use place::{Follower, Leader, Post, VolumeWork};

/// Operations handed to a follower at once.
pub const BATCH: usize = 4096;

/// Why volumes could not be driven in lock-step.
#[derive(Debug, thiserror::Error)]
pub enum LockstepError {
    /// The specification is invalid, a directory cannot be worked in, a device stopped working.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A follower went another way.
    #[error("{}", .0.text())]
    Diverged(Box<Divergence>),
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
            "{} went another way at operation {}: {} of file {:x} in directory {} failed with {} there and not on the first volume",
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
            Self::Different { .. } => "nothing else may work below that directory meanwhile".to_owned(),
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Load(error) => error.errno(),
            Self::Diverged(divergence) => Some(divergence.errno),
            Self::Walk { .. } | Self::Different { .. } => None,
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Load(error) => error.kind(),
            Self::Diverged(_) | Self::Walk { .. } => FailureKind::Failed,
            Self::Different { .. } => FailureKind::Damage,
        }
    }
}

/// A workload between two runs.
pub struct Lockstep {
    spec: LockstepSpec,
    workload: AnyWorkload,
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
        let initial = workload.initial_directories();
        for directory in &spec.directories {
            let test_directory = TestDirectory::open(directory)?;
            test_directory.make_tops(1)?;
            VolumeWork::open(&test_directory, spec.write_mode, [])?.make(&test_directory, &initial)?;
            test_directory.sync()?;
        }
        let round = vec![VolumeRound::default(); spec.directories.len()];
        let part = workload.part();
        Ok(Self { spec, workload, operations: 0, part, failed: BTreeMap::new(), round })
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
            VolumeWork::open(test_directory, self.spec.write_mode, known.iter().copied())
        };
        let Some((first, others)) = grounds.split_first() else {
            return Err(LoadError::Spec { what: "no directory is given".to_owned() }.into());
        };
        let clock = Clock::under(&first.held()).map_err(LoadError::from)?;
        // Followers did what succeeded.
        let done = self.operations - self.failed.values().sum::<u64>();
        let mut leader = Leader::new(open(first)?, first, self.workload.live_bytes())?;
        let followers: Vec<Follower<'_>> = others
            .iter()
            .map(|test_directory| Ok(Follower::new(open(test_directory)?, test_directory, done)))
            .collect::<Result<_, LoadError>>()?;
        std::thread::scope(|scope| {
            let mut post = Post::open(scope, followers, !clock.is_model());
            let result = self.drive(until, &mut leader, &mut post, control, sink);
            // A follower's own words come before what its silence led to.
            post.close()?;
            result
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
        leader: &mut Leader<'_>,
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
                    if leader.is_due() {
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
        leader: &mut Leader<'_>,
        post: &mut Post<'_>,
    ) -> Result<(), LockstepError> {
        let before = self.workload.live_bytes();
        let outcome = leader.execute(operation)?;
        self.workload.completed(operation, &outcome);
        leader.took(before, self.workload.live_bytes());
        self.operations += 1;
        if outcome.errno == 0 {
            return post.send(operation);
        }
        *self.failed.entry(fsage_sys::errno::name(outcome.errno).to_owned()).or_default() += 1;
        Ok(())
    }

    fn end_part(&mut self, leader: &mut Leader<'_>, post: &mut Post<'_>) -> Result<(), LockstepError> {
        let mut ended = vec![leader.end_part()?];
        ended.extend(post.end_part()?);
        for (volume, end) in self.round.iter_mut().zip(ended) {
            let cost = if self.part.makes_room { &mut volume.room } else { &mut volume.write };
            *cost = end.cost;
            (volume.used_bytes, volume.total_bytes) = (end.usage.used_bytes, end.usage.total_bytes);
            volume.model_time = end.model_time;
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
    use super::*;
    use crate::load::NoSink;
    use fsage_model::load::WriteMode;
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
