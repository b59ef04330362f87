//! `interleaved-append`: how TBBT (Zhu, Chen & Chiueh 2005, "TBBT: Scalable and Accurate Trace Replay for
//! File Server Evaluation", FAST '05) ages a file system before it replays a trace.
//!
//! The files of a set grow in turn, an append each, until each has its size; so their blocks lie between
//! those of the others, and the size of the set says how finely. Then the next set begins. The oldest files
//! that are done are deleted to hold the volume's use, one at a time and only as many as the next append
//! needs.
//!
//! A file is made by its first append. An append that finds no room although the target says there is,
//! deletes the oldest file; where nothing is left to delete, the file stays as it is. Cost: about a hash
//! look-up and an insertion an operation; memory of a file as in the population.

use std::collections::VecDeque;

use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::quantity::as_f64;
use fsage_model::workload::WorkloadError;
use fsage_model::workload::{InterleavedAppendSpec, SyncSpec};

use super::population::{Population, is_shortage, own_directories};
use super::room::Room;
use super::{Feedback, ResolveContext, Workload};
use crate::distribution::{Random, Sizes};

/// Most files of a set: so many are open to growth at once.
const MAX_SET: u64 = 1 << 16;

/// A file of the set that grows.
#[derive(Debug, Clone, Copy)]
struct Growing {
    /// Its identity; nothing before its first append.
    file: Option<u64>,
    /// Bytes that it still lacks.
    left: u64,
}

/// The workload `interleaved-append` of one thread.
#[derive(Debug)]
pub struct InterleavedAppend {
    population: Population,
    random: Random,
    file_size: Sizes,
    append_size: Sizes,
    sync: SyncSpec,
    set_size: u64,
    room: Room,
    /// The set, in the order of their turns.
    set: Vec<Growing>,
    /// Whose turn it is.
    turn: usize,
    /// Bytes that the next append adds; 0: not drawn yet.
    append: u64,
    /// Files that are done, oldest first.
    done: VecDeque<u64>,
    /// The file to sync next.
    sync_due: Option<u64>,
    /// The last append found no room.
    shortage: bool,
    upkeep: bool,
}

impl InterleavedAppend {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &InterleavedAppendSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let directories = own_directories("directories", spec.directories, thread, threads)?;
        let mut random = Random::new(seed, thread);
        Ok(Self {
            population: Population::new(thread, directories, context.write_mode, &mut random).without_list(),
            random,
            file_size: Sizes::resolve(&spec.file_size, "file_size", context.volume_bytes)?,
            append_size: Sizes::resolve(&spec.append_size, "append_size", context.volume_bytes)?,
            sync: spec.sync,
            set_size: WorkloadError::within("set", spec.set, 1..=MAX_SET)?,
            room: Room::new(WorkloadError::share("target", spec.target)?, threads),
            set: Vec::new(),
            turn: 0,
            append: 0,
            done: VecDeque::new(),
            sync_due: None,
            shortage: false,
            upkeep: false,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    /// The file whose turn it is; the next set begins when none is left.
    fn growing(&mut self) -> Growing {
        if self.set.is_empty() {
            for _ in 0..self.set_size {
                self.set.push(Growing { file: None, left: self.file_size.draw(&mut self.random) });
            }
        }
        if self.turn >= self.set.len() {
            self.turn = 0;
        }
        self.set[self.turn]
    }

    /// Takes the file whose turn it was out of the set.
    fn finish(&mut self) {
        if let Some(file) = self.set.remove(self.turn).file {
            self.done.push_back(file);
        }
    }

    fn appended(&mut self, operation: &Operation) {
        let append = std::mem::take(&mut self.append);
        let Some(growing) = self.set.get_mut(self.turn) else { return };
        growing.file = Some(operation.file);
        growing.left = growing.left.saturating_sub(append);
        let is_done = growing.left == 0;
        if self.sync == SyncSpec::Append || (self.sync == SyncSpec::Close && is_done) {
            self.sync_due = Some(operation.file);
        }
        if is_done {
            self.finish();
        } else {
            self.turn += 1;
        }
    }
}

impl Workload for InterleavedAppend {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        self.upkeep = false;
        if let Some(sync) = self.sync_due.take().and_then(|file| self.population.fsync(file)) {
            return Some(sync);
        }
        let growing = self.growing();
        if self.append == 0 {
            self.append = self.append_size.draw(&mut self.random).min(growing.left);
        }
        let room = self.room.bytes(feedback, self.population.model().block_bytes());
        if self.shortage || room < as_f64(self.append) {
            if let Some(delete) = self.done.front().and_then(|oldest| self.population.delete(*oldest)) {
                self.upkeep = true;
                return Some(delete);
            }
            if std::mem::take(&mut self.shortage) {
                self.append = 0;
                self.finish();
                return self.next(feedback);
            }
        }
        match growing.file {
            Some(file) => self.population.append(file, self.append),
            None => {
                let directory = self.population.any_directory(&mut self.random);
                Some(self.population.create(directory, self.append))
            }
        }
    }

    fn release(&mut self) -> Option<Operation> {
        self.sync_due = None;
        let oldest =
            self.done.front().copied().or_else(|| self.set.iter().find_map(|growing| growing.file))?;
        self.upkeep = true;
        self.population.delete(oldest)
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        match operation.kind() {
            OperationKind::Create | OperationKind::Append if outcome.errno == 0 => self.appended(operation),
            OperationKind::Create | OperationKind::Append => self.shortage = is_shortage(outcome),
            OperationKind::Delete if outcome.errno == 0 => {
                self.shortage = false;
                if self.done.front() == Some(&operation.file) {
                    self.done.pop_front();
                } else {
                    self.set.retain(|growing| growing.file != Some(operation.file));
                }
            }
            _ => {}
        }
    }

    fn is_upkeep(&self) -> bool {
        self.upkeep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::simulated::Simulated;
    use crate::workload::{AnyWorkload, resolve};
    use fsage_model::load::WriteMode;
    use fsage_model::size::Bytes;
    use fsage_model::workload::{SizeSpec, WorkloadSpec};

    const VOLUME: u64 = 64 << 20;

    fn spec() -> InterleavedAppendSpec {
        InterleavedAppendSpec {
            file_size: SizeSpec::Uniform { min: Bytes(30 << 10), max: Bytes(300 << 10) },
            ..InterleavedAppendSpec::default()
        }
    }

    fn workload(spec: &InterleavedAppendSpec, seed: u64) -> AnyWorkload {
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        resolve(&WorkloadSpec::InterleavedAppend(spec.clone()), 0, 1, seed, &context).unwrap()
    }

    fn operations(spec: &InterleavedAppendSpec, seed: u64, count: u64) -> Vec<Operation> {
        let done = Simulated::new(VOLUME).drive_for(&mut workload(spec, seed), count);
        done.into_iter().map(|(_, operation, _)| operation).collect()
    }

    #[test]
    fn the_files_of_a_set_take_turns() {
        let spec = InterleavedAppendSpec { sync: SyncSpec::Never, ..spec() };
        let turns: Vec<u64> = operations(&spec, 1, 16).iter().map(|o| o.file).collect();
        assert_eq!(turns[..8], turns[8..], "every file of the set, in the same order again");
        let alone = InterleavedAppendSpec { set: 1, ..spec };
        let files: Vec<u64> = operations(&alone, 1, 500).iter().map(|o| o.file).collect();
        assert!(files.is_sorted(), "a set of one is written file by file");
    }

    #[test]
    fn files_are_synced_when_asked() {
        let syncs = |sync| {
            let done = operations(&InterleavedAppendSpec { sync, ..spec() }, 1, 2000);
            let count = |kind| done.iter().filter(|o| o.kind() == kind).count();
            (count(OperationKind::Fsync), count(OperationKind::Create), count(OperationKind::Append))
        };
        assert_eq!(syncs(SyncSpec::Never).0, 0);
        let (closed, made, _) = syncs(SyncSpec::Close);
        assert!(closed <= made && closed + 8 >= made, "{closed} of {made}");
        let (each, made, grown) = syncs(SyncSpec::Append);
        assert!(each + 1 >= made + grown, "{each} of {}", made + grown);
    }

    #[test]
    fn use_is_held_by_deleting_the_oldest() {
        let (mut workload, mut volume) = (workload(&spec(), 5), Simulated::new(VOLUME));
        volume.look_every = 16;
        volume.drive_for(&mut workload, 8_000);
        let mut deleted = Vec::new();
        for _ in 0..200 {
            let done = volume.drive_for(&mut workload, 50);
            deleted.extend(
                done.iter().filter(|(_, o, _)| o.kind() == OperationKind::Delete).map(|it| it.1.file),
            );
            assert!((volume.used_share() - 0.8).abs() < 0.01, "{}", volume.used_share());
        }
        assert!(deleted.len() > 100);
        // Within a set files end in another order than they began.
        assert!(deleted.windows(16).all(|some| some[0] < some[15]), "not the oldest");
    }

    #[test]
    fn one_seed_is_one_sequence() {
        assert_eq!(operations(&spec(), 1, 3000), operations(&spec(), 1, 3000));
        assert_ne!(operations(&spec(), 1, 3000), operations(&spec(), 2, 3000));
    }

    #[test]
    fn a_full_volume_is_survived() {
        let (mut workload, mut volume) = (workload(&spec(), 1), Simulated::with_room(VOLUME, VOLUME / 4));
        let done = volume.drive_for(&mut workload, 20_000);
        let failed = done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
        assert!((100..10_000).contains(&failed), "{failed} failed");
        assert!(volume.used_share() > 0.24);
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: InterleavedAppendSpec, key: &str| {
            let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
            let error = resolve(&WorkloadSpec::InterleavedAppend(spec), 0, 2, 1, &context).err().expect(key);
            assert_eq!(error.key(), key, "{error}");
        };
        refused(InterleavedAppendSpec { set: 0, ..spec() }, "set");
        refused(InterleavedAppendSpec { set: 1 << 17, ..spec() }, "set");
        refused(InterleavedAppendSpec { directories: 0, ..spec() }, "directories");
        refused(InterleavedAppendSpec { target: 1.01, ..spec() }, "target");
        let nothing = SizeSpec::Fixed { size: Bytes(0) };
        refused(InterleavedAppendSpec { file_size: nothing.clone(), ..spec() }, "file_size.size");
        refused(InterleavedAppendSpec { append_size: nothing, ..spec() }, "append_size.size");
    }
}
