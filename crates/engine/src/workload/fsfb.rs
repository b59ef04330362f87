//! `fsfb`: the free-space fragmentation benchmark of Conway et al. 2019 (§5).
//!
//! Small files are put into random directories until the volume is as full as asked: they are made out of
//! directory order, so the layout is aged before the first round. Then, round by round, a share of the bytes
//! is deleted, file by file at random, and as many bytes are written as new files into one new directory at a
//! random place.
//!
//! What the paper leaves open: how full the volume is, is what `statfs` says, its own trees included; each
//! round writes what it deleted, more or less by what the volume is off its target, at most by half. A file
//! that does not fit is not made, and after 16 of them in a row the filling, or the round, ends as it is.

use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::workload::FsfbSpec;
use fsage_model::workload::WorkloadError;

use super::population::{PATIENCE, Population, is_shortage, own_directories};
use super::{Feedback, Part, ResolveContext, Workload};
use crate::distribution::{Random, Sizes};

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fill,
    /// Deleting; so many bytes are still to go.
    Delete {
        left: u64,
    },
    /// Making the new directory.
    Make,
    /// Writing into it; so many bytes are still to come.
    Write {
        left: u64,
    },
    Finished,
}

/// The workload `fsfb` of one thread.
#[derive(Debug)]
pub struct Fsfb {
    population: Population,
    random: Random,
    sizes: Sizes,
    target: f64,
    replace: f64,
    rounds: u64,
    threads: u32,
    round: u64,
    phase: Phase,
    /// Bytes that this round deleted.
    deleted: u64,
    shortages: u32,
}

impl Fsfb {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &FsfbSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let directories = own_directories("directories", spec.directories, thread, threads)?;
        WorkloadError::within("rounds", spec.rounds, 1..=u64::MAX)?;
        WorkloadError::share("target", spec.target)?;
        WorkloadError::share("replace", spec.replace)?;
        let mut random = Random::new(seed, thread);
        let sizes = Sizes::resolve(&spec.file_size, "file_size", context.volume_bytes)?;
        let population = Population::new(thread, directories, context.write_mode, &mut random);
        Ok(Self {
            population,
            random,
            sizes,
            target: spec.target,
            replace: spec.replace,
            rounds: spec.rounds,
            threads,
            round: 0,
            phase: Phase::Fill,
            deleted: 0,
            shortages: 0,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    /// Begins the next round, or ends.
    fn begin_round(&mut self) {
        self.shortages = 0;
        self.deleted = 0;
        if self.round == self.rounds {
            self.phase = Phase::Finished;
            return;
        }
        self.round += 1;
        let share = as_f64(self.population.model().size_bytes()) * self.replace;
        self.phase = Phase::Delete { left: to_u64(share).max(1) };
    }

    /// What a round has to write: what it deleted, and its thread's part of what the volume is off its
    /// target.
    fn due(&self, feedback: &Feedback) -> u64 {
        let deleted = as_f64(self.deleted);
        // The volume is as much emptier as this round deleted: not what it is off.
        let off =
            (self.target - feedback.used_share) * as_f64(feedback.total_bytes) / f64::from(self.threads);
        to_u64(off.clamp(deleted / 2.0, deleted * 1.5))
    }

    fn write(&mut self, left: u64) -> Option<Operation> {
        if left == 0 || self.shortages >= PATIENCE {
            self.begin_round();
            return None;
        }
        let size = self.sizes.draw(&mut self.random).min(left);
        Some(self.population.create(self.population.newest_directory(), size))
    }
}

impl Workload for Fsfb {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        match self.phase {
            Phase::Fill if feedback.used_share >= self.target || self.shortages >= PATIENCE => {
                self.begin_round();
                None
            }
            Phase::Fill => {
                let directory = self.population.any_directory(&mut self.random);
                let size = self.sizes.draw(&mut self.random);
                Some(self.population.create(directory, size))
            }
            Phase::Delete { left: 1.. } => {
                let operation = self.population.delete_any(&mut self.random);
                if operation.is_none() {
                    self.phase = Phase::Make;
                }
                operation
            }
            Phase::Delete { left: 0 } => {
                self.phase = Phase::Make;
                None
            }
            Phase::Make => {
                let due = self.due(feedback);
                self.phase = Phase::Write { left: due };
                let parent = self.population.any_directory(&mut self.random);
                Some(self.population.make_directory(parent))
            }
            Phase::Write { left } => self.write(left),
            Phase::Finished => None,
        }
    }

    fn release(&mut self) -> Option<Operation> {
        self.population.delete_any(&mut self.random)
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        if is_shortage(outcome) {
            self.shortages += 1;
        }
        if outcome.errno != 0 {
            return;
        }
        match (operation.kind(), &mut self.phase) {
            (OperationKind::Create, Phase::Write { left }) => *left = left.saturating_sub(operation.length()),
            (OperationKind::Delete, Phase::Delete { left }) => {
                *left = left.saturating_sub(operation.size);
                self.deleted += operation.size;
            }
            _ => {}
        }
        if operation.kind() == OperationKind::Create {
            self.shortages = 0;
        }
    }

    fn part(&self) -> Part {
        Part { round: self.round, makes_room: matches!(self.phase, Phase::Delete { .. }) }
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workload::simulated::Simulated;
    use crate::workload::{AnyWorkload, resolve};
    use fsage_model::load::WriteMode;
    use fsage_model::workload::WorkloadSpec;

    const VOLUME: u64 = 64 << 20;

    fn spec(rounds: u64) -> FsfbSpec {
        FsfbSpec { directories: 50, rounds, ..FsfbSpec::default() }
    }

    fn workload(spec: &FsfbSpec, seed: u64) -> AnyWorkload {
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        resolve(&WorkloadSpec::Fsfb(spec.clone()), 0, 1, seed, &context).unwrap()
    }

    #[test]
    fn rounds_replace_their_share_in_one_new_directory_and_keep_the_volume_full() {
        let mut workload = workload(&spec(40), 3);
        let done = Simulated::new(VOLUME).drive(&mut workload);
        let filled = done.iter().filter(|(part, ..)| part.round == 0);
        let homes: BTreeSet<u32> =
            filled.clone().map(|(_, operation, _)| operation.place.directory).collect();
        assert!(homes.len() > 40, "files are all over the tree: {}", homes.len());
        assert!(filled.clone().all(|(_, o, _)| (1 << 10..=150 << 10).contains(&o.length())));
        for round in 1..=40 {
            let of = |kind| {
                done.iter()
                    .filter(move |(part, o, _)| part.round == round && o.kind() == kind)
                    .map(|(_, o, _)| o)
            };
            let made: Vec<u32> = of(OperationKind::Mkdir).map(|o| o.place.directory).collect();
            assert_eq!(made.len(), 1, "round {round}");
            assert!(of(OperationKind::Create).all(|o| o.place.directory == made[0]), "round {round}");
            let deleted: u64 = of(OperationKind::Delete).map(|o| o.size).sum();
            let written: u64 = of(OperationKind::Create).map(|o| o.length()).sum();
            let share = as_f64(deleted) / (0.95 * as_f64(VOLUME));
            assert!((0.04..0.06).contains(&share), "round {round} deleted {share}");
            assert!((0.8..1.2).contains(&(as_f64(written) / as_f64(deleted))), "round {round}");
        }
        let used = as_f64(workload.live_bytes()) / as_f64(VOLUME);
        assert!((used - 0.95).abs() < 0.01, "{used}");
        assert_eq!(workload.files(), u64::try_from(workload.live_files().count()).unwrap());
    }

    #[test]
    fn one_seed_is_one_sequence() {
        let operations = |seed| {
            let done = Simulated::new(VOLUME).drive(&mut workload(&spec(3), seed));
            done.into_iter().map(|(_, operation, _)| operation).collect::<Vec<_>>()
        };
        assert_eq!(operations(1), operations(1));
        assert_ne!(operations(1), operations(2));
    }

    #[test]
    fn a_volume_with_less_room_than_asked_still_has_its_rounds() {
        let mut workload = workload(&spec(5), 1);
        let done = Simulated::with_room(VOLUME, VOLUME / 2).drive(&mut workload);
        assert_eq!(done.iter().map(|(part, ..)| part.round).max(), Some(5));
        let failed = done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
        assert!((16..200).contains(&failed), "{failed} failed");
        assert!(workload.live_bytes() <= VOLUME / 2);
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: FsfbSpec, key: &str| {
            let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
            let error = resolve(&WorkloadSpec::Fsfb(spec), 0, 2, 1, &context).err().expect(key);
            assert!(error.to_string().contains(key), "{error}");
        };
        refused(FsfbSpec { directories: 1, ..spec(1) }, "directories");
        refused(spec(0), "rounds");
        refused(FsfbSpec { target: f64::NAN, ..spec(1) }, "target");
        refused(FsfbSpec { replace: 1.5, ..spec(1) }, "replace");
    }
}
