//! Parameters of `git` and `snapshots`, and the histories that both follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// History of a tree of files, distinguished by `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HistorySpec {
    /// Generated from the random seed.
    Synthetic(SyntheticHistory),
    /// A recorded history as data, to which `repository` and `listings` are converted.
    Recorded(RecordedHistory),
}

/// A history like that of a project's sources. The numbers are our own, not fitted to a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SyntheticHistory {
    /// Number of files at the start (1..=10000000).
    pub files: u64,
    /// Number of directories at the start (1..=1000000), each in a randomly chosen earlier one or in the top
    /// directory.
    pub directories: u64,
    /// Size of a new file.
    pub file_size: SizeSpec,
    /// Number of commits after the first state (1..=10000000).
    pub commits: u64,
    /// Mean number of files that a commit changes (1..=10000), geometrically distributed.
    pub changes: f64,
    /// Share of the changes that add a file (0..=1).
    pub added: f64,
    /// Share of the changes that remove a file (0..=1, with `added` at most 1); other changes rewrite a file.
    pub removed: f64,
    /// Probability (0..=1) that an added file is in a new directory.
    pub new_directory: f64,
    /// Growth of a file per change: mean of ln(new size / old size) (-1..=1).
    pub growth: f64,
    /// Standard deviation of ln(new size / old size) (0..=4).
    pub churn: f64,
    /// Probability (0..=1) that the next file of a commit is in the directory of the previous one.
    pub locality: f64,
    /// Skew of the choice of changed files (1..=100): 1 is uniform; with 3, an eighth of the files gets half
    /// of the changes.
    pub skew: f64,
}

/// A history as data, in which paths and directories are numbers.
///
/// That of a repository or of listings is made where `fsage` runs: each path gets a number when it first
/// appears, a renamed file is one path removed and another written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedHistory {
    /// Parent of each directory, beginning with directory 1; 0 is the top. A parent has a lower number.
    pub directories: Vec<u32>,
    /// Directory of each path, beginning with path 0.
    pub paths: Vec<u32>,
    /// States in order, at least 2; the first is the initial tree.
    pub commits: Vec<RecordedCommit>,
}

/// The difference between two states.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordedCommit {
    /// `[path, size]` of each file that was added or changed; an empty file is created with one byte.
    pub written: Vec<(u32, Bytes)>,
    /// Paths that were removed.
    pub removed: Vec<u32>,
}

/// Parameters of `git`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GitSpec {
    /// The history that every clone follows.
    pub history: HistorySpec,
    /// Share of the volume (above 0, at most 1) to fill with clones of the first commit, as many as fit.
    pub fill: f64,
    /// Total number of commits to pull, by the clones in turn (at least 1). The workload ends earlier if
    /// every clone has the whole history, or if no clone is left.
    pub steps: u64,
    /// Number of clones per thread, deleted because a pull found no space, after which the workload ends;
    /// absent or 0: no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub deletions: u64,
    /// Commits per clone between two garbage collections, which pack its objects; 0: never.
    pub gc_every: u64,
    /// Size of a git object as a share of the file's size (above 0, at most 1).
    pub compression: f64,
    /// How a file of the work tree is replaced: `unlink` (deleted, then created, as git does) or `rename`
    /// (created beside it and renamed, then the old file deleted, as most editors do).
    pub replace: ReplaceSpec,
}

/// How a file is replaced by a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplaceSpec {
    /// The old file is deleted, then the new one made: what git does.
    Unlink,
    /// The new one is made beside the old one and renamed, then the old one deleted: what most editors do.
    Rename,
}

/// Parameters of `snapshots`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotsSpec {
    /// History of the tree; each thread replays it on a tree of its own.
    pub history: HistorySpec,
}

impl Default for SyntheticHistory {
    fn default() -> Self {
        Self {
            files: 2000,
            directories: 150,
            file_size: SizeSpec::Lognormal { mu: 8.5, sigma: 1.3, min: Bytes(1), max: Bytes(1 << 20) },
            commits: 10_000,
            changes: 4.0,
            added: 0.12,
            removed: 0.05,
            new_directory: 0.05,
            growth: 0.005,
            churn: 0.1,
            locality: 0.6,
            skew: 3.0,
        }
    }
}

impl Default for HistorySpec {
    fn default() -> Self {
        Self::Synthetic(SyntheticHistory::default())
    }
}

/// What stands for "no limit" is left out, so that trials without one keep their identity.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Parameters for GitSpec {
    fn rounds(&self) -> Option<u64> {
        Some(self.steps)
    }
}

impl Default for GitSpec {
    /// Fill and steps of Conway et al. 2019, §5.
    fn default() -> Self {
        Self {
            history: HistorySpec::default(),
            fill: 0.75,
            steps: 10_000,
            deletions: 0,
            gc_every: 200,
            compression: 0.35,
            replace: ReplaceSpec::Unlink,
        }
    }
}

impl Parameters for SnapshotsSpec {
    fn is_steered(&self) -> bool {
        false
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.history.steps())
    }
}

impl Default for SnapshotsSpec {
    /// A tree in which much changes from one state to the next, as from day to day.
    fn default() -> Self {
        let days = SyntheticHistory {
            commits: 300,
            changes: 100.0,
            added: 0.4,
            removed: 0.3,
            skew: 1.5,
            ..SyntheticHistory::default()
        };
        Self { history: HistorySpec::Synthetic(days) }
    }
}

impl HistorySpec {
    /// States after the first.
    #[must_use]
    pub fn steps(&self) -> u64 {
        match self {
            Self::Synthetic(history) => history.commits,
            Self::Recorded(history) => {
                u64::try_from(history.commits.len()).unwrap_or(u64::MAX).saturating_sub(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkloadSpec;

    #[test]
    fn a_recorded_history_is_plain_data() {
        let text = r#"{ "kind": "git", "steps": 7, "history": { "kind": "recorded", "directories": [0], "paths": [1],
            "commits": [{ "written": [[0, "4KiB"]] }, { "removed": [0] }] } }"#;
        let spec: WorkloadSpec = serde_json::from_str(text).unwrap();
        let commits = vec![
            RecordedCommit { written: vec![(0, Bytes(4096))], removed: Vec::new() },
            RecordedCommit { written: Vec::new(), removed: vec![0] },
        ];
        let history = RecordedHistory { directories: vec![0], paths: vec![1], commits };
        let history = HistorySpec::Recorded(history);
        assert_eq!(history.steps(), 1);
        assert_eq!(spec, WorkloadSpec::Git(GitSpec { steps: 7, history, ..GitSpec::default() }));
        let wrong = text.replace("removed", "deleted");
        assert!(serde_json::from_str::<WorkloadSpec>(&wrong).is_err());
    }

    #[test]
    fn a_part_of_a_synthetic_history_may_be_given() {
        let text = r#"{ "kind": "snapshots", "history": { "kind": "synthetic", "commits": 9 } }"#;
        let spec: WorkloadSpec = serde_json::from_str(text).unwrap();
        assert_eq!((spec.rounds(), spec.is_steered()), (Some(9), false));
    }
}
