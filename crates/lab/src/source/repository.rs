//! The history of a repository: one state for each commit of its first-parent line.
//!
//! A file has the size of its blob: as git stores it, before line ends are changed or large files are put in
//! place of their pointers. A symbolic link is a file of its target's length, a submodule is left out. A
//! renamed file is one path removed and another written. A changed mode counts as written, since git replaces
//! that file too.

use std::collections::HashMap;
use std::path::Path;

use fsage_model::size::Bytes;
use fsage_model::workload::RecordedHistory;

use super::SourceError;
use super::recorder::Recorder;
use crate::tools::ToolError;
use crate::tools::git::{Record, Repository};

/// Which commits of a repository.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The last one.
    pub revision: &'a str,
    /// The first one; without it the oldest.
    pub from: Option<&'a str>,
    /// At most so many, counted from the first one.
    pub commits: Option<u64>,
}

const TWO: &str = "a history needs at least two commits: the first is the initial state";

/// Reads the history of the repository at `path`.
///
/// # Errors
/// No git, no repository, no such commit, fewer than two commits, or objects that are missing.
pub fn read(path: &Path, selection: Selection<'_>) -> Result<RecordedHistory, SourceError> {
    if let Some(commits) = selection.commits.filter(|commits| *commits < 2) {
        let message = format!("{commits} is too few: at least 2");
        return Err(SourceError::TooFew { key: "commits", message, hint: TWO });
    }
    let repository = open(path)?;
    let commits = line(path, &repository, selection)?;
    let mut tape = Tape::default();
    tape.take(Record::Commit(&commits[0]));
    repository.files(&commits[0], &mut |record| tape.take(record))?;
    std::mem::replace(&mut tape.fits, Ok(()))?;
    repository.changes(&commits, &mut |record| tape.take(record))?;
    std::mem::replace(&mut tape.fits, Ok(()))?;
    if tape.commits != commits {
        return Err(SourceError::Form {
            message: format!("git listed {} commits instead of {}", tape.commits.len(), commits.len()),
        });
    }
    let partial = || SourceError::Partial { path: path.to_owned() };
    let sizes = match repository.sizes(std::mem::take(&mut tape.blobs)) {
        // git wants to fetch what a partial clone does not have, and is not allowed to.
        Err(ToolError::Status { tail, .. }) if tail.contains("promisor") => {
            return Err(partial());
        }
        sizes => sizes?.into_iter().collect::<Option<Vec<u64>>>().ok_or_else(partial)?,
    };
    Ok(tape.finish(&sizes))
}

fn open(path: &Path) -> Result<Repository, SourceError> {
    let none = |reason: String| SourceError::NoRepository { path: path.to_owned(), reason };
    if !path.is_dir() {
        return Err(none("there is no such folder".to_owned()));
    }
    let repository = Repository::at(path);
    match repository.check() {
        Err(ToolError::Status { tail, .. }) => Err(none(tail)),
        other => Ok(other.map(|()| repository)?),
    }
}

/// The commits in their order, at least two.
fn line(path: &Path, repository: &Repository, selection: Selection<'_>) -> Result<Vec<String>, SourceError> {
    let find = |key, revision: &str| -> Result<String, SourceError> {
        repository.commit(revision)?.ok_or_else(|| SourceError::NoCommit {
            key,
            message: format!("`{revision}` is not a commit of the repository at `{}`", path.display()),
            hint: if revision == "HEAD" {
                "it is empty, or its HEAD names a branch that is not there: name another `revision`"
            } else {
                "name a branch, a tag or a commit that the repository has"
            },
        })
    };
    let tip = find("revision", selection.revision)?;
    let mut commits = repository.line(&tip)?;
    if let Some(from) = selection.from {
        let first = find("from", from)?;
        let Some(position) = commits.iter().position(|commit| *commit == first) else {
            let message = format!("`{from}` is not on the first-parent line to `{}`", selection.revision);
            let hint = "git log --first-parent shows the commits there are";
            return Err(SourceError::NoCommit { key: "from", message, hint });
        };
        commits.drain(..position);
    }
    if let Some(most) = selection.commits {
        commits.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    if commits.len() < 2 {
        let (found, revision) = (commits.len(), selection.revision);
        let message = format!("only {found} commit leads to `{revision}`: at least 2");
        let key = if selection.from.is_some() { "from" } else { "path" };
        return Err(SourceError::TooFew { key, message, hint: TWO });
    }
    Ok(commits)
}

/// What git listed, with numbers of blobs in the place of sizes until those are known.
#[derive(Debug)]
struct Tape {
    commits: Vec<String>,
    recorder: Recorder,
    numbers: HashMap<String, u64>,
    blobs: Vec<String>,
    /// Once it is an error, what comes is no longer taken: git's reader has no other way to be told.
    fits: Result<(), SourceError>,
}

impl Default for Tape {
    fn default() -> Self {
        let (numbers, recorder) = (HashMap::new(), Recorder::default());
        Self { commits: Vec::new(), recorder, numbers, blobs: Vec::new(), fits: Ok(()) }
    }
}

impl Tape {
    fn take(&mut self, record: Record<'_>) {
        if self.fits.is_ok() {
            self.fits = self.put(record);
        }
    }

    fn put(&mut self, record: Record<'_>) -> Result<(), SourceError> {
        match record {
            Record::Commit(commit) => {
                self.commits.push(commit.to_owned());
                self.recorder.begin()
            }
            Record::Removed { path } => self.recorder.removed(path),
            Record::Written { path, blob } => {
                let number = match self.numbers.get(blob) {
                    Some(number) => *number,
                    None => {
                        let number = u64::try_from(self.blobs.len()).unwrap_or(u64::MAX);
                        self.numbers.insert(blob.to_owned(), number);
                        self.blobs.push(blob.to_owned());
                        number
                    }
                };
                self.recorder.written(path, Bytes(number))
            }
        }
    }

    fn finish(self, sizes: &[u64]) -> RecordedHistory {
        let mut history = self.recorder.finish();
        for (_, size) in history.commits.iter_mut().flat_map(|commit| &mut commit.written) {
            let blob = usize::try_from(size.0).ok().and_then(|blob| sizes.get(blob).copied());
            *size = Bytes(blob.unwrap_or(0));
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::super::NAMES_LIMIT;
    use super::*;

    #[test]
    fn nothing_more_is_taken_of_what_does_not_fit() {
        let mut tape = Tape::default();
        tape.take(Record::Commit("first"));
        let name = vec![b'n'; 1 << 20];
        for number in 0..NAMES_LIMIT >> 20 {
            let name = [&number.to_le_bytes()[..], &name].concat();
            tape.take(Record::Removed { path: &name });
        }
        assert!(matches!(tape.fits, Err(SourceError::Names { .. })));
        tape.take(Record::Written { path: b"new", blob: "1" });
        assert!(tape.blobs.is_empty());
    }
}
