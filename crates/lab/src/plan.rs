//! The plan: which trials a study consists of and in which order they run.
//!
//! A trial's id is the hash of everything that affects its result, so that a trial is found again whatever
//! the study's title, its claims or the store's place. Order: random blocks, each one repeat of every
//! cell, shuffled by the seed, so that a drift of the host spreads over all factors.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::study::StudySpec;
use serde::{Deserialize, Serialize};

use crate::study::identity::trial_id;
use crate::study::{Overrides, Study};

/// `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the store that holds it.
    pub version: u32,
    /// The study with preset and `--set` applied.
    pub study: StudySpec,
    /// What the command line changed.
    pub overrides: Overrides,
    /// Trials in the order they run.
    pub trials: Vec<PlannedTrial>,
}

impl Plan {
    /// Trials in a random block: one repeat of every cell; at least 1.
    #[must_use]
    pub fn block_size(&self) -> usize {
        let cells: BTreeSet<usize> = self.trials.iter().map(|trial| trial.cell).collect();
        cells.len().max(1)
    }

    /// The plan of a study that has these trials so far.
    #[must_use]
    pub(crate) fn of_trials(study: &Study, trials: Vec<PlannedTrial>) -> Self {
        Self {
            version: fsage_model::record::STORE_VERSION,
            study: study.spec.clone(),
            overrides: study.overrides.clone(),
            trials,
        }
    }

    /// Adds the trials that it does not have; whether there were any.
    pub(crate) fn grow(&mut self, trials: Vec<PlannedTrial>) -> bool {
        let known: BTreeSet<String> = self.trials.iter().map(|trial| trial.id.clone()).collect();
        let before = self.trials.len();
        self.trials.extend(trials.into_iter().filter(|trial| !known.contains(&trial.id)));
        self.trials.len() > before
    }
}

/// One trial to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedTrial {
    /// 16 hex characters.
    pub id: String,
    /// Index of the cell in the matrix' order.
    pub cell: usize,
    /// 0-based repeat.
    pub repeat: u32,
    /// Seed of the trial.
    pub seed: u64,
    /// Dotted path → value, of the matrix' factors.
    pub factors: BTreeMap<String, serde_json::Value>,
}

/// Plans a study: cells × repeats, in random blocks.
#[must_use]
pub fn plan(study: &Study) -> Plan {
    let mut random = SplitMix(study.spec.seed);
    let mut trials = Vec::new();
    for repeat in 0..study.spec.repeats {
        let mut block: Vec<PlannedTrial> = study
            .cells
            .iter()
            .enumerate()
            .map(|(index, cell)| {
                let seed = trial_seed(cell.spec.seed, repeat);
                PlannedTrial {
                    id: trial_id(&cell.spec, repeat, seed),
                    cell: index,
                    repeat,
                    seed,
                    factors: cell.factors.clone(),
                }
            })
            .collect();
        shuffle(&mut block, &mut random);
        trials.append(&mut block);
    }
    Plan::of_trials(study, trials)
}

/// Seed of a repeat: the same in every cell, so that cells do the same operations; below 2^53 so that every
/// JSON reader has it exactly.
#[must_use]
pub fn trial_seed(seed: u64, repeat: u32) -> u64 {
    SplitMix(seed ^ (u64::from(repeat) << 32)).next() >> 11
}

/// SplitMix64 (Steele, Lea & Flood 2014).
struct SplitMix(u64);

impl SplitMix {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Fisher–Yates; the bias of the remainder is below 2^-40 for any block there can be.
fn shuffle<T>(items: &mut [T], random: &mut SplitMix) {
    for last in (1..items.len()).rev() {
        let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
        let pick = usize::try_from(random.next() % bound).unwrap_or(0);
        items.swap(last, pick);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::study::load;

    fn aging(set: &[&str]) -> Plan {
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        plan(
            &load(
                Path::new("aging"),
                &Overrides { preset: Some("quick".into()), set },
                crate::study::Consent::Given,
            )
            .unwrap(),
        )
    }

    fn ids(plan: &Plan) -> BTreeSet<String> {
        plan.trials.iter().map(|t| t.id.clone()).collect()
    }

    #[test]
    fn each_block_holds_one_repeat_of_every_cell() {
        let plan = aging(&["repeats=4"]);
        assert_eq!((plan.trials.len(), plan.block_size()), (60, 15));
        assert_eq!(ids(&plan).len(), 60);
        let orders: BTreeSet<Vec<usize>> = plan
            .trials
            .chunks(15)
            .enumerate()
            .map(|(n, block)| {
                assert!(block.iter().all(|t| usize::try_from(t.repeat).unwrap() == n));
                let cells: Vec<usize> = block.iter().map(|t| t.cell).collect();
                let mut sorted = cells.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..15).collect::<Vec<_>>());
                cells
            })
            .collect();
        assert!(orders.len() > 1, "blocks are shuffled: {orders:?}");
        assert_eq!(plan, aging(&["repeats=4"]), "the same seed gives the same order");
    }

    #[test]
    fn ids_depend_on_what_affects_the_result_and_on_nothing_else() {
        let base = ids(&aging(&["repeats=1"]));
        assert_eq!(
            base,
            ids(&aging(&[
                "repeats=1",
                "title=other",
                "claim=[]",
                "matrix.file_system.kind=[\"btrfs\", \"xfs\", \"ext4\"]"
            ]))
        );
        assert!(base.is_subset(&ids(&aging(&["repeats=2"]))));
        assert!(base.is_disjoint(&ids(&aging(&["volume.size=2GiB"]))));
        assert!(base.is_disjoint(&ids(&aging(&["seed=1"]))));
        let ext4_only = ids(&aging(&["repeats=1", "file_system.options.ext4.mount=[\"noatime\"]"]));
        assert_eq!(base.intersection(&ext4_only).count(), 10, "other file systems keep their trials");
    }

    #[test]
    fn every_cell_of_a_repeat_has_the_same_seed() {
        let plan = aging(&["repeats=2"]);
        let seeds: BTreeSet<(u32, u64)> = plan.trials.iter().map(|t| (t.repeat, t.seed)).collect();
        assert_eq!(seeds.len(), 2);
        assert!(seeds.iter().all(|(_, s)| *s < 1 << 53));
    }
}
