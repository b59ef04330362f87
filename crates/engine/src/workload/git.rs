//! `git`: clones of a repository that are updated commit by commit, on a volume that fills (Conway et
//! al. 2019, §5, after the git benchmark of Conway et al. 2017).
//!
//! The volume is filled to a share with clones of the first commit. Then the clones take turns: each step
//! pulls one more commit into one of them. A pull that finds no room ends its step, and that clone is
//! deleted; the step's [`Part::makes_room`]. A step is a round. A number of clones deleted may be the end.
//!
//! What a pull does was seen with `strace` on git 2.39: the new objects come first, each made under a name of
//! its own in one of 256 directories and renamed; then the files of the work tree, each deleted and made
//! again; then the index and the reference, written beside the old ones and renamed over them. Left out: that
//! a rename replaces the old one at once (here it is deleted right after), the log of the reference, and
//! `fsync`, which git does not do for loose objects. Every `gc_every` commits a clone's objects become one
//! pack, of the size of all that went into it.

mod repository;

use std::collections::VecDeque;

use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::size::Bytes;
use fsage_model::workload::GitSpec;
use fsage_model::workload::WorkloadError;

use self::repository::{Repository, Role, Slot};
use super::history::{Change, History, Progress};
use super::population::{Population, is_shortage};
use super::room::Room;
use super::{Feedback, Part, ResolveContext, Workload};
use crate::distribution::Random;

/// Bytes of an index for each file: 62 of fixed fields and a short path, padded (gitformat-index).
const INDEX_ENTRY: u64 = 72;
/// Bytes of a tree object for each entry: a hash of 20, which does not compress, mode and name.
const TREE_ENTRY: u64 = 35;
/// Bytes of a commit object, and the least that any object has.
const COMMIT_OBJECT: u64 = 200;
const SMALLEST_OBJECT: u64 = 30;
/// Bytes of a reference: a hash in hex and a newline.
const REFERENCE: u64 = 41;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Making clones of the first commit.
    Fill,
    /// Pulling a commit into a clone.
    Pull,
    /// Deleting a clone.
    Remove,
    Finished,
}

/// A piece of what is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Makes a directory of the clone.
    Directory(Slot),
    /// Makes a file of the repository and puts it in its place.
    File(Role, u64),
    /// A change of the history.
    Change(usize),
    /// Deletes a file.
    Delete(u64),
    /// Removes a directory, below its parent.
    RemoveDirectory(u32, u32),
}

/// The workload `git` of one thread.
#[derive(Debug)]
pub struct Git {
    population: Population,
    random: Random,
    history: History,
    spec: GitSpec,
    room: Room,
    clones: Vec<Repository>,
    /// Bytes of the first clone when it was made.
    clone_bytes: u64,
    /// The clone that is worked on.
    current: usize,
    /// Whose turn it is next.
    turn: usize,
    plan: VecDeque<Task>,
    phase: Phase,
    step: u64,
    /// Clones that were deleted because a pull found no room.
    deletions: u64,
    /// The last operation found no room.
    shortage: bool,
    /// The step that last had a directory's tree object written, by directory of the history.
    marks: Vec<u64>,
}

impl Git {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &GitSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        WorkloadError::within("steps", spec.steps, 1..=u64::MAX)?;
        WorkloadError::share("compression", spec.compression)?;
        let fill = WorkloadError::share("fill", spec.fill)?;
        let history = History::resolve(&spec.history, "history", seed, context.volume_bytes)?;
        let (bytes, volume) = (history.first_bytes(), context.volume_bytes);
        if volume != 0 && bytes > volume {
            let (value, volume) = (Bytes(bytes), Bytes(volume));
            return Err(WorkloadError::LargerThanVolume { key: "history".to_owned(), value, volume });
        }
        Ok(Self {
            population: Population::with(thread, Vec::new(), context.write_mode).without_list(),
            random: Random::new(seed, thread),
            marks: vec![0; history.directories()],
            history,
            // Without the history, which may be large.
            spec: GitSpec { history: fsage_model::workload::HistorySpec::default(), ..spec.clone() },
            room: Room::new(fill, threads),
            clones: Vec::new(),
            clone_bytes: 0,
            current: 0,
            turn: 0,
            plan: VecDeque::new(),
            phase: Phase::Fill,
            step: 0,
            deletions: 0,
            shortage: false,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    fn object_bytes(&self, size: u64) -> u64 {
        to_u64(as_f64(size) * self.spec.compression).max(SMALLEST_OBJECT)
    }

    fn plan_object(&mut self, bytes: u64) {
        let fan = u8::try_from(self.random.below(256)).unwrap_or(0);
        self.plan.push_back(Task::File(Role::Object(fan), bytes));
    }

    /// Plans one more clone, if it fits below the share to be filled.
    fn begin_clone(&mut self, feedback: &Feedback) -> bool {
        let live = self.population.model().block_bytes();
        if self.clones.len() == 1 {
            self.clone_bytes = live;
        }
        let room = self.room.bytes(feedback, live);
        if room < as_f64(self.clone_bytes).max(1.0) {
            return false;
        }
        self.current = self.clones.len();
        self.clones.push(Repository::new(&self.history, self.spec.replace));
        self.plan.extend([Slot::Top, Slot::Git, Slot::Objects, Slot::Packs].map(Task::Directory));
        let pack = self.object_bytes(self.history.first_bytes());
        self.plan.push_back(Task::File(Role::Pack, pack));
        self.plan.extend(self.history.state(0).map(Task::Change));
        self.plan_end(0);
        true
    }

    /// Plans what ends a checkout of state `state`.
    fn plan_end(&mut self, state: usize) {
        let index = INDEX_ENTRY * self.history.files(state).max(1);
        self.plan.extend([Task::File(Role::Index, index), Task::File(Role::Reference, REFERENCE)]);
    }

    /// Begins the next step, or ends.
    fn begin_step(&mut self) {
        let count = self.clones.len();
        let next = (0..count)
            .map(|ahead| (self.turn + ahead) % count)
            .find(|clone| self.clones[*clone].state < self.history.steps());
        let goes_on =
            self.step < self.spec.steps && (self.spec.deletions == 0 || self.deletions < self.spec.deletions);
        let Some(clone) = next.filter(|_| goes_on) else {
            self.phase = Phase::Finished;
            return;
        };
        self.phase = Phase::Pull;
        self.step += 1;
        (self.current, self.turn) = (clone, clone + 1);
        let repository = &mut self.clones[clone];
        repository.state += 1;
        let state = repository.state;
        for number in self.history.state(state) {
            self.plan_change(self.history.change(number));
        }
        self.plan_object(COMMIT_OBJECT);
        self.plan.extend(self.history.state(state).map(Task::Change));
        self.plan_end(state);
        if self.spec.gc_every > 0 && u64::try_from(state).is_ok_and(|n| n.is_multiple_of(self.spec.gc_every))
        {
            // Its size follows when it is made.
            self.plan.push_back(Task::File(Role::Pack, 0));
        }
    }

    /// Plans the objects that a change brings: the file's, and a tree for each directory above it.
    fn plan_change(&mut self, change: Change) {
        if let Some(size) = change.size {
            self.plan_object(self.object_bytes(size));
        }
        let mut directory = self.history.home(change.path);
        while std::mem::replace(&mut self.marks[fsage_model::quantity::index(directory)], self.step)
            != self.step
        {
            let entries = self.clones[self.current].checkout.entries(directory);
            self.plan_object(TREE_ENTRY * u64::from(entries + 1));
            directory = self.history.parent(directory);
        }
    }

    /// Plans the removal of the clone that found no room.
    fn begin_removal(&mut self) {
        self.phase = Phase::Remove;
        // Objects that were packed and are to go anyway.
        self.plan.retain(|task| matches!(task, Task::Delete(_)));
        if self.current < self.clones.len() {
            let gone = self.clones.remove(self.current);
            self.deletions += 1;
            self.turn = self.current;
            self.plan.extend(gone.files().map(Task::Delete));
            let directories = gone.directories(&self.history);
            self.plan.extend(directories.map(|(number, parent)| Task::RemoveDirectory(number, parent)));
        }
    }

    /// The next operation of the plan; nothing when it is through.
    fn work(&mut self) -> Option<Operation> {
        while let Some(task) = self.plan.front().copied() {
            let (population, history) = (&mut self.population, &self.history);
            let operation = match (task, self.clones.get_mut(self.current)) {
                (Task::Delete(file), _) => population.delete(file),
                (Task::RemoveDirectory(number, parent), _) => {
                    Some(population.remove_directory(number, parent))
                }
                (Task::Directory(slot), Some(clone)) => {
                    Some(population.make_directory(clone.parent_of(slot)))
                }
                (Task::File(role, bytes), Some(clone)) => clone.operation(role, bytes, population),
                (Task::Change(number), Some(clone)) => {
                    clone.checkout.operation(history.change(number), history, population)
                }
                (_, None) => None,
            };
            if operation.is_some() {
                return operation;
            }
            self.plan.pop_front();
        }
        None
    }

    fn succeeded(&mut self, task: Task, operation: &Operation) {
        let progress = match (task, self.clones.get_mut(self.current)) {
            (Task::Directory(slot), Some(clone)) => {
                clone.made_directory(slot, operation.place.directory);
                Progress::Done
            }
            (Task::File(role, _), Some(clone)) => {
                let progress = clone.succeeded(role, operation);
                if role == Role::Pack && progress == Progress::Done {
                    self.plan.extend(clone.packed().map(Task::Delete));
                }
                progress
            }
            (Task::Change(number), Some(clone)) => {
                clone.checkout.succeeded(operation, self.history.change(number), &self.history)
            }
            _ => Progress::Done,
        };
        if progress == Progress::Done {
            self.plan.pop_front();
        }
    }
}

impl Workload for Git {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        if std::mem::take(&mut self.shortage) {
            self.begin_removal();
            return None;
        }
        loop {
            let operation = self.work();
            if operation.is_some() {
                return operation;
            }
            if self.phase == Phase::Fill && self.begin_clone(feedback) {
                continue;
            }
            if self.phase != Phase::Finished {
                self.begin_step();
            }
            return None;
        }
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        let Some(task) = self.plan.front().copied() else { return };
        if outcome.errno == 0 {
            self.succeeded(task, operation);
        } else if is_shortage(outcome)
            && self.phase != Phase::Remove
            && operation.kind() != OperationKind::Delete
        {
            self.shortage = true;
        } else {
            if let Some(clone) = self.clones.get_mut(self.current) {
                clone.abandon();
            }
            self.plan.pop_front();
        }
    }

    fn part(&self) -> Part {
        Part { round: self.step, makes_room: self.phase == Phase::Remove }
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::simulated::Simulated;
    use crate::workload::{AnyWorkload, resolve};
    use fsage_model::load::WriteMode;
    use fsage_model::workload::{HistorySpec, ReplaceSpec, SyntheticHistory, WorkloadSpec};

    const VOLUME: u64 = 64 << 20;

    fn spec(steps: u64) -> GitSpec {
        let history = SyntheticHistory {
            files: 150,
            directories: 20,
            commits: 1000,
            added: 0.3,
            removed: 0.1,
            ..SyntheticHistory::default()
        };
        GitSpec { history: HistorySpec::Synthetic(history), steps, gc_every: 40, ..GitSpec::default() }
    }

    fn workload(spec: &GitSpec, seed: u64) -> AnyWorkload {
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        resolve(&WorkloadSpec::Git(spec.clone()), 0, 1, seed, &context).unwrap()
    }

    fn tops(workload: &AnyWorkload) -> Vec<u32> {
        workload.directories().filter(|it| it.parent == 0).map(|it| it.number).collect()
    }

    #[test]
    fn the_volume_is_filled_with_equal_clones() {
        let (mut workload, mut volume) = (workload(&spec(1), 1), Simulated::new(VOLUME));
        volume.look_every = 16;
        let done = volume.drive(&mut workload);
        let clones = tops(&workload).len();
        assert!((10..60).contains(&clones), "{clones}");
        let used = volume.used_share();
        let one = 0.75 / as_f64(u64::try_from(clones).unwrap());
        assert!(used < 0.76 && used > 0.75 - 1.2 * one, "{used} with clones of {one}");
        let sizes: Vec<u64> = done
            .iter()
            .filter(|(part, o, _)| part.round == 0 && o.kind() == OperationKind::Create)
            .map(|(_, o, _)| o.length())
            .collect();
        // The pack, the files, the index and the reference of each.
        assert_eq!(sizes.len(), clones * 153);
        assert_eq!(sizes[..153], sizes[153..306]);
    }

    #[test]
    fn a_step_brings_objects_then_files_then_index_and_reference() {
        let mut workload = workload(&spec(30), 1);
        let done = Simulated::new(VOLUME).drive(&mut workload);
        for step in 1..=30 {
            let of: Vec<&Operation> =
                done.iter().filter(|(part, ..)| part.round == step).map(|(_, o, _)| o).collect();
            let made = of.iter().filter(|o| o.kind() == OperationKind::Create).count();
            let renamed = of.iter().filter(|o| o.kind() == OperationKind::Rename).count();
            assert!(renamed >= 4 && made >= renamed, "step {step}: {made} made, {renamed} renamed");
            let [.., create, rename, delete] = of[..] else { unreachable!() };
            assert_eq!(
                (create.length(), create.file, rename.kind()),
                (41, rename.file, OperationKind::Rename)
            );
            assert_eq!((delete.kind(), delete.size), (OperationKind::Delete, 41), "the old reference");
        }
    }

    #[test]
    fn the_clone_that_found_no_room_is_deleted_and_the_others_go_on() {
        let (mut workload, mut volume) = (workload(&spec(2500), 1), Simulated::new(VOLUME));
        let mut clones = Vec::new();
        let mut removals = 0;
        while !workload.is_finished() {
            let done = volume.drive_for(&mut workload, 500);
            removals += done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
            clones.push(tops(&workload).len());
        }
        let most = clones.iter().max().copied().unwrap();
        assert!(removals > 1, "the volume was full");
        assert_eq!(most - tops(&workload).len(), removals, "one clone for each failure");
        assert_eq!(workload.part().round, 2500);
    }

    #[test]
    fn it_ends_when_as_many_clones_as_asked_found_no_room() {
        for deletions in [1, 4] {
            let mut workload = workload(&GitSpec { deletions, ..spec(100_000) }, 1);
            let done = Simulated::new(VOLUME).drive(&mut workload);
            let failures = done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
            assert_eq!(u64::try_from(failures), Ok(deletions));
            assert!(done.last().unwrap().0.makes_room, "the clone that found no room is gone");
            assert!(workload.is_finished() && workload.part().round < 100_000);
        }
    }

    #[test]
    fn packs_take_the_place_of_loose_objects() {
        let files = |gc_every| {
            let mut workload = workload(&GitSpec { gc_every, fill: 0.1, ..spec(300) }, 1);
            Simulated::new(VOLUME).drive(&mut workload);
            workload.files()
        };
        assert!(files(40) < files(0) / 2, "{} and {}", files(40), files(0));
    }

    #[test]
    fn the_work_tree_is_that_of_the_history_however_files_are_replaced() {
        let sizes = |replace| {
            let mut workload = workload(&GitSpec { replace, fill: 0.02, ..spec(200) }, 1);
            let done = Simulated::new(VOLUME).drive(&mut workload);
            assert_eq!(tops(&workload).len(), 1);
            assert_eq!(done.last().unwrap().0.round, 200);
            let mut sizes: Vec<u64> = workload.live_files().map(|file| file.size).collect();
            sizes.sort_unstable();
            sizes
        };
        assert_eq!(sizes(ReplaceSpec::Unlink), sizes(ReplaceSpec::Rename));
    }

    #[test]
    fn it_ends_with_the_history_and_without_clones() {
        let short = SyntheticHistory { commits: 3, files: 150, ..SyntheticHistory::default() };
        let spec = GitSpec { history: HistorySpec::Synthetic(short), fill: 0.5, ..spec(1_000_000) };
        let mut workload = workload(&spec, 1);
        Simulated::new(VOLUME).drive(&mut workload);
        assert_eq!(workload.part().round, 3 * u64::try_from(tops(&workload).len()).unwrap());
        let mut workload = self::workload(&spec, 1);
        Simulated::with_room(VOLUME, 1 << 20).drive(&mut workload);
        assert_eq!((workload.files(), tops(&workload).len()), (0, 0), "not even one fits");
    }

    #[test]
    fn one_seed_is_one_sequence() {
        let operations = |seed| {
            let done = Simulated::new(VOLUME).drive(&mut workload(&spec(50), seed));
            done.into_iter().map(|(_, operation, _)| operation).collect::<Vec<_>>()
        };
        assert_eq!(operations(1), operations(1));
        assert_ne!(operations(1), operations(2));
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: GitSpec, key: &str| {
            let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
            let error = resolve(&WorkloadSpec::Git(spec), 0, 1, 1, &context).err().expect(key);
            assert_eq!(error.key(), key, "{error}");
        };
        refused(spec(0), "steps");
        refused(GitSpec { fill: 0.0, ..spec(1) }, "fill");
        refused(GitSpec { compression: 1.5, ..spec(1) }, "compression");
        let large = SyntheticHistory { files: 100_000, ..SyntheticHistory::default() };
        refused(GitSpec { history: HistorySpec::Synthetic(large), ..spec(1) }, "history");
    }
}
