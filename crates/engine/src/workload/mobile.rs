//! `mobile`: how Ji et al. 2016 ("An Empirical Study of File-System Fragmentation in Mobile Storage Systems",
//! HotStorage '16) age the storage of a telephone.
//!
//! Files of at least 100 MB and of at most 100 kB are made in turn until the volume is full; then 5 % of the
//! bytes are deleted, file by file at random. What is free afterwards are large holes and the small ones
//! between them. With `cycles` the volume is filled again and so on, each deletion beginning a round.
//!
//! What the paper leaves open: the last file before the target is cut to what is missing; after 16 files in a
//! row that did not fit, the filling ends as it is. A deletion ends with the file that passes its share,
//! which may be a large one.

use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::workload::MobileSpec;
use fsage_model::workload::WorkloadError;

use super::population::{PATIENCE, Population, is_shortage, own_directories};
use super::room::Room;
use super::{Feedback, Part, ResolveContext, Workload};
use crate::distribution::{Random, Sizes};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fill,
    /// Deleting; so many bytes are still to go.
    Delete {
        left: u64,
    },
    Finished,
}

/// The workload `mobile` of one thread.
#[derive(Debug)]
pub struct Mobile {
    population: Population,
    random: Random,
    large: Sizes,
    small: Sizes,
    /// The next file is a large one.
    large_next: bool,
    room: Room,
    delete: f64,
    cycles: u64,
    cycle: u64,
    phase: Phase,
    shortages: u32,
}

impl Mobile {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &MobileSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let directories = own_directories("directories", spec.directories, thread, threads)?;
        let mut random = Random::new(seed, thread);
        Ok(Self {
            population: Population::new(thread, directories, context.write_mode, &mut random),
            random,
            large: Sizes::resolve(&spec.large, "large", context.volume_bytes)?,
            small: Sizes::resolve(&spec.small, "small", context.volume_bytes)?,
            large_next: true,
            room: Room::new(WorkloadError::share("target", spec.target)?, threads),
            delete: WorkloadError::share("delete", spec.delete)?,
            cycles: WorkloadError::within("cycles", spec.cycles, 1..=u64::MAX)?,
            cycle: 0,
            phase: Phase::Fill,
            shortages: 0,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    fn fill(&mut self, feedback: &Feedback) -> Option<Operation> {
        let room = self.room.bytes(feedback, self.population.model().block_bytes());
        if room < 1.0 || self.shortages >= PATIENCE {
            self.cycle += 1;
            let share = as_f64(self.population.model().size_bytes()) * self.delete;
            self.phase = Phase::Delete { left: to_u64(share).max(1) };
            return None;
        }
        let sizes = if self.large_next { &self.large } else { &self.small };
        let size = sizes.draw(&mut self.random).min(to_u64(room).max(1));
        let directory = self.population.any_directory(&mut self.random);
        Some(self.population.create(directory, size))
    }

    fn end_deletion(&mut self) {
        self.shortages = 0;
        self.phase = if self.cycle == self.cycles { Phase::Finished } else { Phase::Fill };
    }
}

impl Workload for Mobile {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        match self.phase {
            Phase::Fill => self.fill(feedback),
            Phase::Delete { left: 1.. } => {
                let operation = self.population.delete_any(&mut self.random);
                if operation.is_none() {
                    self.end_deletion();
                }
                operation
            }
            Phase::Delete { left: 0 } => {
                self.end_deletion();
                None
            }
            Phase::Finished => None,
        }
    }

    fn release(&mut self) -> Option<Operation> {
        self.population.delete_any(&mut self.random)
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        if operation.kind() == OperationKind::Create {
            // Also when it failed: a small one may fit where a large one did not.
            self.large_next = !self.large_next;
            self.shortages =
                if outcome.errno == 0 { 0 } else { self.shortages + u32::from(is_shortage(outcome)) };
        } else if let (0, Phase::Delete { left }) = (outcome.errno, &mut self.phase) {
            *left = left.saturating_sub(operation.size);
        }
    }

    fn part(&self) -> Part {
        Part { round: self.cycle, makes_room: matches!(self.phase, Phase::Delete { .. }) }
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
    use fsage_model::size::Bytes;
    use fsage_model::workload::{SizeSpec, WorkloadSpec};

    const VOLUME: u64 = 256 << 20;

    fn spec() -> MobileSpec {
        MobileSpec {
            large: SizeSpec::Uniform { min: Bytes(1 << 20), max: Bytes(2 << 20) },
            target: 0.9,
            cycles: 3,
            ..MobileSpec::default()
        }
    }

    fn workload(spec: &MobileSpec, seed: u64) -> AnyWorkload {
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        resolve(&WorkloadSpec::Mobile(spec.clone()), 0, 1, seed, &context).unwrap()
    }

    #[test]
    fn large_and_small_take_turns_until_it_is_full_and_a_share_is_deleted() {
        let mut workload = workload(&spec(), 1);
        let mut volume = Simulated::new(VOLUME);
        volume.look_every = 16;
        let done = volume.drive(&mut workload);
        let filled: Vec<u64> =
            done.iter().filter(|(part, ..)| part.round == 0).map(|(_, o, _)| o.length()).collect();
        let (last, others) = filled.split_last().unwrap();
        assert!(*last < 2 << 20);
        for pair in others.chunks_exact(2) {
            assert!(pair[0] >= 1 << 20 && pair[1] <= 100_000, "{pair:?}");
        }
        for round in 1..=3 {
            let of = |kind| done.iter().filter(move |(part, o, _)| part.round == round && o.kind() == kind);
            let deleted: u64 = of(OperationKind::Delete).map(|(_, o, _)| o.size).sum();
            let share = as_f64(deleted) / (0.9 * as_f64(VOLUME));
            assert!((0.048..0.06).contains(&share), "round {round} deleted {share}");
            assert_eq!(of(OperationKind::Create).count() > 0, round < 3, "the last deletion is the end");
        }
        assert!((0.83..0.86).contains(&volume.used_share()), "{}", volume.used_share());
    }

    #[test]
    fn it_is_as_full_as_asked_before_it_deletes() {
        let mut volume = Simulated::new(VOLUME);
        volume.look_every = 16;
        let mut workload = workload(&MobileSpec { cycles: 1, ..spec() }, 7);
        let mut fullest = 0.0_f64;
        while !workload.is_finished() {
            volume.drive_for(&mut workload, 1);
            fullest = fullest.max(volume.used_share());
        }
        assert!((fullest - 0.9).abs() < 0.001, "{fullest}");
    }

    #[test]
    fn one_seed_is_one_sequence() {
        let operations = |seed| {
            let done = Simulated::new(VOLUME).drive(&mut workload(&spec(), seed));
            done.into_iter().map(|(_, operation, _)| operation).collect::<Vec<_>>()
        };
        assert_eq!(operations(1), operations(1));
        assert_ne!(operations(1), operations(2));
    }

    #[test]
    fn a_full_volume_is_where_it_turns() {
        let done = Simulated::with_room(VOLUME, VOLUME / 2).drive(&mut workload(&spec(), 1));
        assert_eq!(done.iter().map(|(part, ..)| part.round).max(), Some(3));
        let failed = done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
        assert!((16..400).contains(&failed), "{failed} failed");
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: MobileSpec, key: &str| {
            let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
            let error = resolve(&WorkloadSpec::Mobile(spec), 0, 2, 1, &context).err().expect(key);
            assert_eq!(error.key(), key, "{error}");
        };
        refused(MobileSpec { directories: 1, ..spec() }, "directories");
        refused(MobileSpec { cycles: 0, ..spec() }, "cycles");
        refused(MobileSpec { target: 0.0, ..spec() }, "target");
        refused(MobileSpec { delete: f64::NAN, ..spec() }, "delete");
        refused(MobileSpec { large: SizeSpec::Fixed { size: Bytes(1 << 30) }, ..spec() }, "large.size");
        refused(MobileSpec { small: SizeSpec::Fixed { size: Bytes(0) }, ..spec() }, "small.size");
    }
}
