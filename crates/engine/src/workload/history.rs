//! How a tree of files changed from state to state, and trees that follow it.
//!
//! A history is data: it is made or checked once, and then any number of [`Checkout`]s go through it.
//! Directories and paths are numbers of the history, not of the tree on disk. Memory: 24 bytes a change.

mod checkout;
mod synthetic;

pub use checkout::{Checkout, Progress};

use fsage_model::quantity::index;
use fsage_model::workload::{HistorySpec, RecordedHistory};

use fsage_model::workload::WorkloadError;

/// What happens to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub path: u32,
    /// Its new size; nothing when it is removed.
    pub size: Option<u64>,
}

/// States of a tree, as changes from the empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Parent of each directory; the top is its own.
    parents: Vec<u32>,
    /// Directory of each path.
    homes: Vec<u32>,
    changes: Vec<Change>,
    /// For each state the end of its changes, and the files there are.
    states: Vec<(usize, u64)>,
}

impl History {
    /// The history of a description; the same for all threads. `key` is its name in TOML.
    ///
    /// # Errors
    /// A number out of range, or data that contradicts itself.
    pub fn resolve(
        spec: &HistorySpec,
        key: &str,
        seed: u64,
        volume_bytes: u64,
    ) -> Result<Self, WorkloadError> {
        match spec {
            HistorySpec::Synthetic(spec) => synthetic::generate(spec, key, seed, volume_bytes),
            HistorySpec::Recorded(spec) => recorded(spec, key),
        }
    }

    /// States after the first.
    pub fn steps(&self) -> usize {
        self.states.len().saturating_sub(1)
    }

    /// The changes that make state `step`, 0 being the first: a range for [`History::change`].
    pub fn state(&self, step: usize) -> std::ops::Range<usize> {
        let begin = if step == 0 { 0 } else { self.states[step - 1].0 };
        begin..self.states[step].0
    }

    /// Files of state `step`.
    pub fn files(&self, step: usize) -> u64 {
        self.states[step].1
    }

    /// Bytes of the first state. A recorded one was checked not to overflow.
    pub fn first_bytes(&self) -> u64 {
        self.state(0).filter_map(|number| self.change(number).size).sum()
    }

    /// A change.
    pub fn change(&self, number: usize) -> Change {
        self.changes[number]
    }

    /// Directories, the top included.
    pub fn directories(&self) -> usize {
        self.parents.len()
    }

    /// Paths there ever are.
    pub fn paths(&self) -> usize {
        self.homes.len()
    }

    /// The directory that one is in; the top is in itself.
    pub fn parent(&self, directory: u32) -> u32 {
        self.parents[index(directory)]
    }

    /// The directory of a path.
    pub fn home(&self, path: u32) -> u32 {
        self.homes[index(path)]
    }

    /// Ends a state whose changes were pushed: in the order in which git goes about them, what is removed
    /// first, then path by path.
    fn end_state(&mut self, files: u64) {
        let begin = self.states.last().map_or(0, |state| state.0);
        let homes = &self.homes;
        self.changes[begin..]
            .sort_by_key(|change| (change.size.is_some(), homes[index(change.path)], change.path));
        self.states.push((self.changes.len(), files));
    }
}

/// Checks a history that was given.
fn recorded(spec: &RecordedHistory, key: &str) -> Result<History, WorkloadError> {
    if spec.commits.len() < 2 {
        let limit = "at least 2: the first is the initial state";
        return Err(WorkloadError::range(&format!("{key}.commits"), spec.commits.len(), limit));
    }
    let below = |name: String, value: u32, bound: usize, what: &str| {
        if index(value) < bound {
            return Ok(());
        }
        Err(WorkloadError::range(&name, value, &format!("below {bound}, {what}")))
    };
    for (n, parent) in spec.directories.iter().enumerate() {
        below(format!("{key}.directories[{n}]"), *parent, n + 1, "the directory's own number")?;
    }
    let directories = spec.directories.len() + 1;
    for (n, home) in spec.paths.iter().enumerate() {
        below(format!("{key}.paths[{n}]"), *home, directories, "the number of directories with the top")?;
    }
    let mut parents = vec![0];
    parents.extend_from_slice(&spec.directories);
    let mut history = History { parents, homes: spec.paths.clone(), changes: Vec::new(), states: Vec::new() };
    let mut present = vec![false; spec.paths.len()];
    let mut files = 0;
    for (n, commit) in spec.commits.iter().enumerate() {
        let mut written_bytes = 0_u64;
        for (path, size) in &commit.written {
            let name = format!("{key}.commits[{n}].written");
            below(name.clone(), *path, present.len(), "the number of paths")?;
            let sum = written_bytes.checked_add(size.0);
            written_bytes = sum.ok_or_else(|| {
                WorkloadError::range(&name, size.0, "with those before it below 2^64 bytes")
            })?;
            files += u64::from(!std::mem::replace(&mut present[index(*path)], true));
            history.changes.push(Change { path: *path, size: Some(size.0) });
        }
        for path in &commit.removed {
            let name = format!("{key}.commits[{n}].removed");
            below(name.clone(), *path, present.len(), "the number of paths")?;
            if !std::mem::replace(&mut present[index(*path)], false) {
                return Err(WorkloadError::range(&name, path, "a path that is there"));
            }
            files -= 1;
            history.changes.push(Change { path: *path, size: None });
        }
        history.end_state(files);
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::size::Bytes;
    use fsage_model::workload::RecordedCommit;

    fn commit(written: &[(u32, u64)], removed: &[u32]) -> RecordedCommit {
        let written = written.iter().map(|(path, size)| (*path, Bytes(*size))).collect();
        RecordedCommit { written, removed: removed.to_vec() }
    }

    fn spec() -> RecordedHistory {
        RecordedHistory {
            directories: vec![0, 1],
            paths: vec![0, 2, 1],
            commits: vec![commit(&[(0, 10), (1, 0)], &[]), commit(&[(2, 5), (0, 12)], &[1])],
        }
    }

    #[test]
    fn what_is_removed_comes_first_and_the_rest_by_directory() {
        let history = recorded(&spec(), "history").unwrap();
        let state: Vec<Change> = history.state(1).map(|n| history.change(n)).collect();
        let of = |path, size| Change { path, size };
        assert_eq!(state, [of(1, None), of(0, Some(12)), of(2, Some(5))]);
        assert_eq!((history.steps(), history.home(1), history.parent(2)), (1, 2, 1));
        assert_eq!((history.files(0), history.files(1), history.first_bytes()), (2, 2, 10));
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        let refused = |spec: RecordedHistory, key: &str| {
            let error = recorded(&spec, "history").expect_err(key);
            assert_eq!(error.key(), key, "{error}");
        };
        refused(RecordedHistory { commits: vec![commit(&[], &[])], ..spec() }, "history.commits");
        refused(RecordedHistory { directories: vec![0, 2], ..spec() }, "history.directories[1]");
        refused(RecordedHistory { paths: vec![0, 3, 1], ..spec() }, "history.paths[1]");
        let twice = vec![commit(&[(0, 1)], &[]), commit(&[], &[0]), commit(&[], &[0])];
        refused(RecordedHistory { commits: twice, ..spec() }, "history.commits[2].removed");
        let unknown = vec![commit(&[(3, 1)], &[]), commit(&[], &[])];
        refused(RecordedHistory { commits: unknown, ..spec() }, "history.commits[0].written");
        let large = vec![commit(&[(0, u64::MAX), (1, 1)], &[]), commit(&[], &[])];
        refused(RecordedHistory { commits: large, ..spec() }, "history.commits[0].written");
    }
}
