//! A history as it is read: names in, numbers out.
//!
//! A path has one number for ever, also when it is gone in between, and so has a directory. Both are numbered
//! as they first appear, so the same states give the same numbers. Memory: the names, each once, and 16 bytes
//! a change; what would not fit into a message, or has too many names, is refused as it comes.

use std::collections::HashMap;

use fsage_model::size::Bytes;
use fsage_model::workload::{RecordedCommit, RecordedHistory};

use super::{HISTORY_LIMIT, NAMES_LIMIT, SourceError};

/// Numbers of a history's paths and directories. What is in it goes by its name's bytes, parts separated by
/// `/`.
#[derive(Debug, Default)]
pub struct Recorder {
    directories: HashMap<Vec<u8>, u32>,
    paths: HashMap<Vec<u8>, u32>,
    history: RecordedHistory,
    /// At least so many bytes the history has as JSON.
    text_bytes: u64,
    /// Bytes of all names.
    name_bytes: u64,
}

/// Least bytes of a state, `{"written":[],"removed":[]}` and a comma, less those that the last of each list
/// does not have.
const STATE_TEXT: u64 = 26;
/// Least bytes of a file written, `[0,0]` and a comma.
const WRITTEN_TEXT: u64 = 6;
/// Least bytes of a number and its comma.
const NUMBER_TEXT: u64 = 2;

impl Recorder {
    /// Begins the next state.
    ///
    /// # Errors
    /// Of this and what follows: more than an agent takes.
    pub fn begin(&mut self) -> Result<(), SourceError> {
        self.history.commits.push(RecordedCommit::default());
        self.count(STATE_TEXT)
    }

    /// A file that is new or changed in this state.
    pub fn written(&mut self, path: &[u8], size: Bytes) -> Result<(), SourceError> {
        let path = self.path(path)?;
        if let Some(state) = self.history.commits.last_mut() {
            state.written.push((path, size));
        }
        self.count(WRITTEN_TEXT)
    }

    /// A file that is gone in this state.
    pub fn removed(&mut self, path: &[u8]) -> Result<(), SourceError> {
        let path = self.path(path)?;
        if let Some(state) = self.history.commits.last_mut() {
            state.removed.push(path);
        }
        self.count(NUMBER_TEXT)
    }

    /// The whole.
    pub fn finish(self) -> RecordedHistory {
        self.history
    }

    fn count(&mut self, text_bytes: u64) -> Result<(), SourceError> {
        self.text_bytes = self.text_bytes.saturating_add(text_bytes);
        if self.text_bytes > HISTORY_LIMIT {
            return Err(SourceError::TooLarge { bytes: self.text_bytes, limit: HISTORY_LIMIT });
        }
        Ok(())
    }

    /// Counts a path or directory that is new.
    fn count_name(&mut self, name: &[u8]) -> Result<(), SourceError> {
        let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
        self.name_bytes = self.name_bytes.saturating_add(length);
        if self.name_bytes > NAMES_LIMIT {
            return Err(SourceError::Names { limit: NAMES_LIMIT });
        }
        self.count(NUMBER_TEXT)
    }

    /// Number of a path. There are fewer than 2^32: that many would not fit into the memory of names.
    fn path(&mut self, name: &[u8]) -> Result<u32, SourceError> {
        if let Some(number) = self.paths.get(name) {
            return Ok(*number);
        }
        self.count_name(name)?;
        let home = match name.iter().rposition(|byte| *byte == b'/') {
            Some(end) => self.directory(&name[..end])?,
            None => 0,
        };
        let number = u32::try_from(self.history.paths.len()).unwrap_or(u32::MAX);
        self.history.paths.push(home);
        self.paths.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Number of a directory, after those above it.
    fn directory(&mut self, name: &[u8]) -> Result<u32, SourceError> {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let mut above = 0;
        for end in ends.chain([name.len()]) {
            let name = &name[..end];
            above = match self.directories.get(name) {
                Some(number) => *number,
                None => {
                    self.count_name(name)?;
                    self.history.directories.push(above);
                    let number = u32::try_from(self.history.directories.len()).unwrap_or(u32::MAX);
                    self.directories.insert(name.to_owned(), number);
                    number
                }
            };
        }
        Ok(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers_in_the_order_in_which_they_come() {
        let mut recorder = Recorder::default();
        recorder.begin().unwrap();
        recorder.written(b"a/b/c", Bytes(1)).unwrap();
        recorder.written(b"top", Bytes(2)).unwrap();
        recorder.written(b"a/x", Bytes(3)).unwrap();
        recorder.begin().unwrap();
        recorder.removed(b"top").unwrap();
        recorder.written(b"a/b/c", Bytes(4)).unwrap();
        recorder.begin().unwrap();
        recorder.written(b"top", Bytes(5)).unwrap();
        recorder.written(b"top/now a directory", Bytes(6)).unwrap();
        let history = recorder.finish();
        assert_eq!(history.directories, [0, 1, 0], "a, a/b, top");
        assert_eq!(history.paths, [2, 0, 1, 3]);
        assert_eq!(history.commits[1].written, [(0, Bytes(4))]);
        assert_eq!(history.commits[1].removed, [1]);
        assert_eq!(history.commits[2].written, [(1, Bytes(5)), (3, Bytes(6))]);
    }

    #[test]
    fn what_is_too_much_is_refused_as_it_comes() {
        let mut recorder = Recorder { text_bytes: HISTORY_LIMIT - 39, ..Recorder::default() };
        recorder.begin().unwrap();
        recorder.written(b"a", Bytes(1)).unwrap();
        recorder.removed(b"a").unwrap();
        recorder.removed(b"a").unwrap();
        let error = recorder.removed(b"a").unwrap_err();
        assert!(matches!(error, SourceError::TooLarge { bytes, limit } if bytes == limit + 1), "{error}");
        let mut recorder = Recorder { name_bytes: NAMES_LIMIT - 4, ..Recorder::default() };
        recorder.begin().unwrap();
        recorder.written(b"d/a", Bytes(1)).unwrap();
        assert!(matches!(recorder.written(b"b", Bytes(1)), Err(SourceError::Names { .. })));
    }

    /// What is counted is never more than there is, or what fits would be refused.
    #[test]
    fn what_is_counted_is_at_most_the_text() {
        let mut recorder = Recorder::default();
        for _ in 0..100 {
            recorder.begin().unwrap();
            recorder.written(b"d/a", Bytes(1)).unwrap();
            recorder.written(b"b", Bytes(1)).unwrap();
            recorder.removed(b"d/a").unwrap();
        }
        let counted = recorder.text_bytes;
        let text = serde_json::to_string(&recorder.finish()).unwrap();
        assert!(counted <= u64::try_from(text.len()).unwrap(), "{counted} of {}", text.len());
    }

    /// One real history, so the check of what was given must take it.
    #[test]
    fn what_it_makes_is_a_history() {
        use fsage_engine::workload::{ResolveContext, resolve};
        use fsage_model::load::WriteMode;
        use fsage_model::workload::{HistorySpec, SnapshotsSpec, WorkloadSpec};
        let mut recorder = Recorder::default();
        for size in 0..5 {
            recorder.begin().unwrap();
            recorder.written(format!("d{size}/e/f").as_bytes(), Bytes(size)).unwrap();
            recorder.written(b"same", Bytes(size)).unwrap();
        }
        let history = HistorySpec::Recorded(recorder.finish());
        let context = ResolveContext { volume_bytes: 1 << 20, write_mode: WriteMode::Buffered };
        let spec = WorkloadSpec::Snapshots(SnapshotsSpec { history });
        assert!(resolve(&spec, 0, 1, 1, &context).is_ok());
    }
}
