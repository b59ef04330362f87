//! What a run leaves to say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsage_model::record::{TrialRecord, TrialStatus};
use serde::Serialize;

use crate::plan::{Plan, PlannedTrial};
use crate::store::DamagedTrial;
use crate::study::Study;

/// What became of a trial in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// Complete from an earlier run.
    Kept,
    /// Done now.
    Complete,
    /// Tried now and failed.
    Failed,
    /// Not reached, or given up when the run was interrupted.
    Pending,
}

/// One trial of the plan.
#[derive(Debug, Clone, Serialize)]
pub struct TrialOutcome {
    /// Id.
    pub id: String,
    /// Dotted path → value, of the matrix' factors.
    pub factors: BTreeMap<String, serde_json::Value>,
    /// 0-based repeat.
    pub repeat: u32,
    /// What became of it.
    pub state: TrialState,
    /// Why it failed; empty otherwise.
    pub error: String,
    /// Exit code that the failure stands for (3 the host lacks something, 4 failed, 5 damage).
    pub exit_code: u8,
}

impl TrialOutcome {
    /// A planned trial of which nothing is done yet.
    fn pending(planned: &PlannedTrial) -> Self {
        Self {
            id: planned.id.clone(),
            factors: planned.factors.clone(),
            repeat: planned.repeat,
            state: TrialState::Pending,
            error: String::new(),
            exit_code: 0,
        }
    }
}

/// Trials that differ in the file system alone and whose logical trees must be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DigestGroup {
    /// The other factors and the repeat, in words; may be empty.
    pub cell: String,
    /// Stage.
    pub stage: String,
    /// File system → digest.
    pub digests: BTreeMap<String, String>,
    /// All the same.
    pub agree: bool,
}

/// What `fsage run --json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Study name.
    pub study: String,
    /// Store folder.
    pub store: PathBuf,
    /// Trials of the plan.
    pub trials: Vec<TrialOutcome>,
    /// Done now.
    pub complete: usize,
    /// Failed now.
    pub failed: usize,
    /// Complete from an earlier run.
    pub kept: usize,
    /// Not done.
    pub pending: usize,
    /// Records that could not be read and were set aside.
    pub damaged: Vec<DamagedTrial>,
    /// Whether logical trees agree across file systems, where they must.
    pub digest_groups: Vec<DigestGroup>,
    /// Why searches ended before their time, a sentence for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<String>,
    /// Signal that ended the run early (2 or 15).
    pub interrupted_by: Option<i32>,
    /// Wall time of this run.
    pub elapsed_ns: u64,
}

impl RunSummary {
    /// A summary in which nothing is done yet.
    pub(super) fn new(study: &Study, plan: &Plan, store: &Path) -> Self {
        let trials: Vec<TrialOutcome> = plan.trials.iter().map(TrialOutcome::pending).collect();
        Self {
            study: study.spec.name.clone(),
            store: store.to_owned(),
            complete: 0,
            failed: 0,
            kept: 0,
            pending: trials.len(),
            trials,
            damaged: Vec::new(),
            digest_groups: Vec::new(),
            stopped: Vec::new(),
            interrupted_by: None,
            elapsed_ns: 0,
        }
    }

    /// Takes over what is complete in the store.
    pub(super) fn keep(&mut self, records: &[TrialRecord]) {
        for record in records.iter().filter(|r| r.status == TrialStatus::Complete) {
            for trial in self.trials.iter_mut().filter(|t| t.id == record.id) {
                trial.state = TrialState::Kept;
                self.kept += 1;
                self.pending -= 1;
            }
        }
    }

    /// Adds the trials that a plan has got since; those that `is_complete` names are so from an earlier run.
    pub(super) fn grow(&mut self, plan: &Plan, is_complete: impl Fn(&str) -> bool) {
        for planned in plan.trials.iter().skip(self.trials.len()) {
            let mut trial = TrialOutcome::pending(planned);
            if is_complete(&trial.id) {
                trial.state = TrialState::Kept;
                self.kept += 1;
            } else {
                self.pending += 1;
            }
            self.trials.push(trial);
        }
    }

    /// Makes failed trials that `again` names pending once more; how many.
    pub(super) fn retry(&mut self, mut again: impl FnMut(&str) -> bool) -> usize {
        let failed = self.trials.iter_mut().filter(|trial| trial.state == TrialState::Failed);
        let mut retried = 0;
        for trial in failed.filter(|trial| again(&trial.id)) {
            trial.state = TrialState::Pending;
            retried += 1;
        }
        self.failed -= retried;
        self.pending += retried;
        retried
    }

    /// The trials that failed.
    pub(super) fn failures(&self) -> Vec<&TrialOutcome> {
        let failed = self.trials.iter().filter(|trial| trial.state == TrialState::Failed);
        failed.collect()
    }

    /// Enters a trial that was done now; an empty `error` is success.
    pub(super) fn finished(&mut self, index: usize, error: &str, exit_code: u8) {
        let trial = &mut self.trials[index];
        trial.error = error.to_owned();
        trial.exit_code = exit_code;
        self.pending -= 1;
        if exit_code == 0 {
            trial.state = TrialState::Complete;
            self.complete += 1;
        } else {
            trial.state = TrialState::Failed;
            self.failed += 1;
        }
    }

    /// Exit code of the command: 130 or 143 when interrupted; 5 when digests that must agree do not; else
    /// 4 when a trial failed (3 when every failure was the host lacking something) or a search was stopped; else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.interrupted_by {
            Some(15) => return 143,
            Some(_) => return 130,
            None => {}
        }
        if self.digest_groups.iter().any(|g| !g.agree) {
            return 5;
        }
        let failed: Vec<u8> =
            self.trials.iter().filter(|t| t.state == TrialState::Failed).map(|t| t.exit_code).collect();
        match failed.as_slice() {
            [] if self.stopped.is_empty() => 0,
            [] => 4,
            all if all.iter().all(|c| *c == 3) => 3,
            all if all.contains(&5) => 5,
            _ => 4,
        }
    }
}
