//! A history like that of a project's sources, made from the seed.

use fsage_model::quantity::{as_f64, index, to_u64};
use fsage_model::workload::SyntheticHistory;
use fsage_model::workload::WorkloadError;

use super::{Change, History};
use crate::distribution::{Random, Sizes, exponential, inverse_normal, logarithm};

/// The stream of random numbers: none of a thread's.
const STREAM: u32 = u32::MAX;

/// No file grows beyond this.
const LARGEST: u64 = 1 << 32;

/// Most changes of files that a history may be expected to have: each takes some 30 bytes.
const CHANGES_LIMIT: f64 = 5e7;

/// Most files that one commit changes.
const MOST_CHANGES: u64 = 100_000;

/// The tree at the newest state.
struct Growing<'a> {
    spec: &'a SyntheticHistory,
    sizes: Sizes,
    random: Random,
    history: History,
    /// Paths there are, in no order.
    live: Vec<u32>,
    /// The paths in each directory.
    inside: Vec<Vec<u32>>,
    /// Of each path ever: its position in `live` and in its directory, its size, the state that changed it
    /// last.
    paths: Vec<(usize, usize, u64, usize)>,
}

/// Makes the history of a description.
///
/// # Errors
/// A number out of range.
pub fn generate(
    spec: &SyntheticHistory,
    key: &str,
    seed: u64,
    volume_bytes: u64,
) -> Result<History, WorkloadError> {
    check(spec, key)?;
    let sizes = Sizes::resolve(&spec.file_size, &format!("{key}.file_size"), volume_bytes)?;
    let mut tree = Growing {
        spec,
        sizes,
        random: Random::new(seed, STREAM),
        history: History { parents: vec![0], homes: Vec::new(), changes: Vec::new(), states: Vec::new() },
        live: Vec::new(),
        inside: vec![Vec::new()],
        paths: Vec::new(),
    };
    for _ in 0..spec.directories {
        let parent = tree.any_directory();
        tree.add_directory(parent);
    }
    for _ in 0..spec.files {
        let home = tree.any_directory();
        tree.add_file(home, 0);
    }
    tree.end_state();
    for state in 1..=usize::try_from(spec.commits).unwrap_or(usize::MAX) {
        tree.commit(state);
    }
    Ok(tree.history)
}

fn check(spec: &SyntheticHistory, key: &str) -> Result<(), WorkloadError> {
    let named = |name: &str| format!("{key}.{name}");
    WorkloadError::within(&named("files"), spec.files, 1..=10_000_000)?;
    WorkloadError::within(&named("directories"), spec.directories, 1..=1_000_000)?;
    WorkloadError::within(&named("commits"), spec.commits, 1..=10_000_000)?;
    let limits = [
        ("changes", spec.changes, 1.0, 10_000.0),
        ("added", spec.added, 0.0, 1.0),
        ("removed", spec.removed, 0.0, 1.0 - spec.added),
        ("new_directory", spec.new_directory, 0.0, 1.0),
        ("growth", spec.growth, -1.0, 1.0),
        ("churn", spec.churn, 0.0, 4.0),
        ("locality", spec.locality, 0.0, 1.0),
        ("skew", spec.skew, 1.0, 100.0),
    ];
    for (name, value, least, most) in limits {
        if !(least..=most).contains(&value) {
            return Err(WorkloadError::range(&named(name), value, &format!("in {least}..={most}")));
        }
    }
    let changes = as_f64(spec.files) + as_f64(spec.commits) * spec.changes;
    if changes > CHANGES_LIMIT {
        let limit =
            format!("at most {CHANGES_LIMIT} changes of files in all commits, the first files included");
        return Err(WorkloadError::range(&named("commits"), spec.commits, &limit));
    }
    Ok(())
}

impl Growing<'_> {
    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(count).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    fn any_directory(&mut self) -> u32 {
        let count = self.history.parents.len();
        u32::try_from(self.below(count)).unwrap_or(0)
    }

    fn add_directory(&mut self, parent: u32) -> u32 {
        let number = u32::try_from(self.history.parents.len()).unwrap_or(u32::MAX);
        self.history.parents.push(parent);
        self.inside.push(Vec::new());
        number
    }

    fn add_file(&mut self, home: u32, state: usize) {
        let path = u32::try_from(self.history.homes.len()).unwrap_or(u32::MAX);
        let size = self.sizes.draw(&mut self.random);
        let inside = &mut self.inside[index(home)];
        self.paths.push((self.live.len(), inside.len(), size, state));
        inside.push(path);
        self.live.push(path);
        self.history.homes.push(home);
        self.history.changes.push(Change { path, size: Some(size) });
    }

    fn remove(&mut self, path: u32) {
        let (position, inner, ..) = self.paths[index(path)];
        let inside = &mut self.inside[index(self.history.homes[index(path)])];
        inside.swap_remove(inner);
        if let Some(moved) = inside.get(inner) {
            self.paths[index(*moved)].1 = inner;
        }
        self.live.swap_remove(position);
        if let Some(moved) = self.live.get(position) {
            self.paths[index(*moved)].0 = position;
        }
        self.history.changes.push(Change { path, size: None });
    }

    fn rewrite(&mut self, path: u32) {
        let z = if self.spec.churn > 0.0 { inverse_normal(self.random.unit()) } else { 0.0 };
        let factor = exponential(self.spec.growth + self.spec.churn * z);
        let size = &mut self.paths[index(path)].2;
        *size = to_u64(as_f64(*size) * factor).clamp(1, LARGEST);
        self.history.changes.push(Change { path, size: Some(*size) });
    }

    /// The next file of a commit: near the last one, or any.
    fn pick(&mut self, last: Option<u32>) -> u32 {
        if let Some(last) = last
            && self.random.chance(self.spec.locality)
            && !self.inside[index(last)].is_empty()
        {
            let count = self.inside[index(last)].len();
            let number = self.below(count);
            return self.inside[index(last)][number];
        }
        // u^skew below 1/8 when u is below 1/2, for a skew of 3.
        let share = exponential(self.spec.skew * logarithm(self.random.unit()));
        let count = self.live.len();
        let number = usize::try_from(to_u64(share * as_f64(u64::try_from(count).unwrap_or(0)) - 0.5));
        self.live[number.unwrap_or(0).min(count - 1)]
    }

    fn add(&mut self, last: Option<u32>, state: usize) -> u32 {
        let mut home = match last {
            Some(last) if self.random.chance(self.spec.locality) => last,
            _ => self.any_directory(),
        };
        if self.random.chance(self.spec.new_directory) {
            home = self.add_directory(home);
        }
        self.add_file(home, state);
        home
    }

    fn commit(&mut self, state: usize) {
        let mut last = None;
        for _ in 0..self.draw_changes() {
            let kind = self.random.unit();
            if kind < self.spec.added {
                last = Some(self.add(last, state));
                continue;
            }
            let path = self.pick(last);
            last = Some(self.history.homes[index(path)]);
            if std::mem::replace(&mut self.paths[index(path)].3, state) == state {
                // A commit changes a file once.
                continue;
            }
            if kind < self.spec.added + self.spec.removed && self.live.len() > 1 {
                self.remove(path);
            } else {
                self.rewrite(path);
            }
        }
        self.end_state();
    }

    fn end_state(&mut self) {
        self.history.end_state(u64::try_from(self.live.len()).unwrap_or(u64::MAX));
    }

    /// Geometric, at least 1.
    fn draw_changes(&mut self) -> u64 {
        let more = self.spec.changes - 1.0;
        if more <= 0.0 {
            return 1;
        }
        let step = logarithm(more / self.spec.changes);
        let count = logarithm(self.random.unit()) / step;
        1 + to_u64(count - 0.5).min(MOST_CHANGES)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn spec() -> SyntheticHistory {
        SyntheticHistory { files: 500, directories: 40, commits: 2000, ..SyntheticHistory::default() }
    }

    fn made(spec: &SyntheticHistory, seed: u64) -> History {
        generate(spec, "history", seed, 0).unwrap()
    }

    #[test]
    fn it_has_the_asked_numbers() {
        let history = made(&spec(), 1);
        assert_eq!((history.steps(), history.state(0).len()), (2000, 500));
        let changes = history.changes.len() - 500;
        // Repeated picks of one file within a commit count once.
        assert!((5_000..9_000).contains(&changes), "{changes}");
        let (mut added, mut removed, mut live) = (0, 0, HashMap::new());
        for step in 0..=history.steps() {
            for change in history.state(step).map(|n| history.change(n)) {
                match change.size {
                    Some(size) => added += u32::from(live.insert(change.path, size).is_none()),
                    None => {
                        live.remove(&change.path).expect("it was there");
                        removed += 1;
                    }
                }
            }
        }
        let added = f64::from(added - 500) / as_f64(u64::try_from(changes).unwrap());
        assert!((0.1..0.2).contains(&added), "{added}");
        assert!((200..500).contains(&removed), "{removed}");
        assert!(history.directories() > 41, "some directories are new");
    }

    #[test]
    fn few_files_get_most_changes() {
        let shares = |skew| {
            let history =
                made(&SyntheticHistory { skew, locality: 0.0, added: 0.0, removed: 0.0, ..spec() }, 2);
            let mut counts = vec![0_u32; history.paths()];
            history.changes.iter().skip(500).for_each(|change| counts[index(change.path)] += 1);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            f64::from(counts[..62].iter().sum::<u32>()) / f64::from(counts.iter().sum::<u32>())
        };
        assert!((0.4..0.6).contains(&shares(3.0)), "{}", shares(3.0));
        assert!(shares(1.0) < 0.25, "{}", shares(1.0));
    }

    #[test]
    fn one_seed_is_one_history() {
        assert!(made(&spec(), 1) == made(&spec(), 1));
        assert!(made(&spec(), 1) != made(&spec(), 2));
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: SyntheticHistory, key: &str| {
            let error = generate(&spec, "history", 1, 0).expect_err(key);
            assert_eq!(error.key(), key, "{error}");
        };
        refused(SyntheticHistory { files: 0, ..spec() }, "history.files");
        refused(SyntheticHistory { directories: 0, ..spec() }, "history.directories");
        refused(SyntheticHistory { commits: 0, ..spec() }, "history.commits");
        refused(SyntheticHistory { changes: 0.5, ..spec() }, "history.changes");
        let many = SyntheticHistory { commits: 10_000_000, changes: 10_000.0, ..spec() };
        refused(many, "history.commits");
        refused(SyntheticHistory { added: 0.9, removed: 0.2, ..spec() }, "history.removed");
        refused(SyntheticHistory { churn: f64::NAN, ..spec() }, "history.churn");
        refused(SyntheticHistory { skew: 0.9, ..spec() }, "history.skew");
    }
}
