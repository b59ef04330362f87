//! `snapshots`: how Smith & Seltzer 1997 ("File System Aging – Increasing the Relevance of File System
//! Benchmarks", SIGMETRICS '97) age a file system: the differences between consecutive snapshots of a real
//! one, done again.
//!
//! Each listing is a round. What is added, changed and removed from one to the next says nothing about the
//! order, so it is drawn from the seed; a changed file is deleted and made again. What lived and died between
//! two listings is not in them, as the paper says of its own.
//!
//! A file that does not fit is left out until it is next written. Each thread has a tree of its own.

use fsage_model::operation::{Operation, Outcome};
use fsage_model::workload::WorkloadError;
use fsage_model::workload::{ReplaceSpec, SnapshotsSpec};

use super::history::{Checkout, History, Progress};
use super::population::Population;
use super::{Feedback, Part, ResolveContext, Workload};
use crate::distribution::Random;

/// The workload `snapshots` of one thread.
#[derive(Debug)]
pub struct Snapshots {
    population: Population,
    random: Random,
    history: History,
    checkout: Checkout,
    state: usize,
    /// Changes of this state, in the order in which they are done.
    order: Vec<usize>,
    position: usize,
    finished: bool,
}

impl Snapshots {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &SnapshotsSpec,
        thread: u32,
        _threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let history = History::resolve(&spec.history, "history", seed, context.volume_bytes)?;
        Ok(Self {
            population: Population::with(thread, Vec::new(), context.write_mode).without_list(),
            random: Random::new(seed, thread),
            checkout: Checkout::new(&history, 0, ReplaceSpec::Unlink),
            order: history.state(0).collect(),
            history,
            state: 0,
            position: 0,
            finished: false,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    fn begin_state(&mut self) {
        if self.state == self.history.steps() {
            self.finished = true;
            return;
        }
        self.state += 1;
        self.position = 0;
        self.order.clear();
        self.order.extend(self.history.state(self.state));
        // Fisher & Yates.
        for last in (1..self.order.len()).rev() {
            let count = u64::try_from(last + 1).unwrap_or(u64::MAX);
            self.order.swap(last, usize::try_from(self.random.below(count)).unwrap_or(0));
        }
    }
}

impl Workload for Snapshots {
    fn next(&mut self, _: &Feedback) -> Option<Operation> {
        while let Some(change) = self.order.get(self.position) {
            let change = self.history.change(*change);
            let operation = self.checkout.operation(change, &self.history, &mut self.population);
            if operation.is_some() {
                return operation;
            }
            self.position += 1;
        }
        if !self.finished {
            self.begin_state();
        }
        None
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        let Some(change) = self.order.get(self.position) else { return };
        if outcome.errno != 0 {
            self.checkout.abandon();
            self.position += 1;
            return;
        }
        let change = self.history.change(*change);
        if self.checkout.succeeded(operation, change, &self.history) == Progress::Done {
            self.position += 1;
        }
    }

    fn part(&self) -> Part {
        Part { round: u64::try_from(self.state).unwrap_or(u64::MAX), makes_room: false }
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::simulated::Simulated;
    use crate::workload::{AnyWorkload, resolve};
    use fsage_model::load::WriteMode;
    use fsage_model::operation::OperationKind;
    use fsage_model::workload::{HistorySpec, SyntheticHistory, WorkloadSpec};

    const VOLUME: u64 = 256 << 20;

    fn spec() -> SnapshotsSpec {
        let history = SyntheticHistory {
            files: 400,
            directories: 30,
            commits: 50,
            changes: 60.0,
            added: 0.3,
            removed: 0.3,
            ..SyntheticHistory::default()
        };
        SnapshotsSpec { history: HistorySpec::Synthetic(history) }
    }

    fn workload(seed: u64) -> AnyWorkload {
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        resolve(&WorkloadSpec::Snapshots(spec()), 0, 1, seed, &context).unwrap()
    }

    #[test]
    fn the_tree_is_that_of_the_last_listing() {
        let history = History::resolve(&spec().history, "history", 1, VOLUME).unwrap();
        let mut sizes = vec![None; history.paths()];
        for step in 0..=history.steps() {
            for change in history.state(step).map(|number| history.change(number)) {
                sizes[fsage_model::quantity::index(change.path)] = change.size;
            }
        }
        let mut wanted: Vec<u64> = sizes.into_iter().flatten().collect();
        let mut workload = workload(1);
        let done = Simulated::new(VOLUME).drive(&mut workload);
        let mut found: Vec<u64> = workload.live_files().map(|file| file.size).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        assert_eq!(wanted, found);
        assert_eq!(u64::try_from(found.len()).unwrap(), history.files(50));
        assert_eq!(done.last().unwrap().0.round, 50);
        assert!(done.iter().any(|(_, o, _)| o.kind() == OperationKind::Rmdir), "empty directories go");
    }

    #[test]
    fn within_a_round_removing_and_writing_mingle() {
        let done = Simulated::new(VOLUME).drive(&mut workload(1));
        let mingled = (1..=50).filter(|round| {
            let of: Vec<OperationKind> =
                done.iter().filter(|(part, ..)| part.round == *round).map(|(_, o, _)| o.kind()).collect();
            let first = of.iter().position(|kind| *kind == OperationKind::Create);
            // What is deleted and not at once made again.
            let gone = |pair: &[OperationKind]| pair == [OperationKind::Delete, OperationKind::Delete];
            first.is_some_and(|first| of[first..].windows(2).any(gone))
        });
        assert!(mingled.count() > 25);
    }

    #[test]
    fn one_seed_is_one_sequence() {
        let operations = |seed| {
            let done = Simulated::new(VOLUME).drive(&mut workload(seed));
            done.into_iter().map(|(_, operation, _)| operation).collect::<Vec<_>>()
        };
        assert_eq!(operations(1), operations(1));
        assert_ne!(operations(1), operations(2));
    }

    #[test]
    fn a_full_volume_is_survived() {
        let mut volume = Simulated::with_room(VOLUME, 3 << 20);
        let done = volume.drive(&mut workload(1));
        assert!(done.iter().filter(|(.., outcome)| outcome.errno != 0).count() > 100);
        assert_eq!(done.last().unwrap().0.round, 50);
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let history = SyntheticHistory { changes: 0.0, ..SyntheticHistory::default() };
        let spec = SnapshotsSpec { history: HistorySpec::Synthetic(history) };
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        let error = resolve(&WorkloadSpec::Snapshots(spec), 0, 1, 1, &context).err().unwrap();
        assert_eq!(error.key(), "history.changes");
    }
}
