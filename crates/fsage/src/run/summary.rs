//! What a run leaves to say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::store::DamagedTrial;

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
    /// Signal that ended the run early (2 or 15).
    pub interrupted_by: Option<i32>,
    /// Wall time of this run.
    pub elapsed_ns: u64,
}

impl RunSummary {
    /// Exit code of the command: 130 or 143 when interrupted; 5 when digests that must agree do not; else
    /// 4 when a trial failed (3 when every failure was the host lacking something); else 0.
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
            [] => 0,
            all if all.iter().all(|c| *c == 3) => 3,
            all if all.contains(&5) => 5,
            _ => 4,
        }
    }
}
