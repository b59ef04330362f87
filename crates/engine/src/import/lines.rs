//! Lines of a text file of any length, one at a time, by their numbers.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use fsage_sys::input;

use super::ImportError;

/// Longest line accepted: paths have 4 KiB at most, and `strace` shows little of the data.
const LINE_BYTES: u64 = 1 << 20;

/// The lines of a file.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    allow_truncated: bool,
}

impl Lines {
    /// Opens a file. With `allow_truncated` a last line without an end is given out as what it is, else it is
    /// an error.
    pub fn open(path: &Path, allow_truncated: bool) -> Result<Self, ImportError> {
        let file = input::open_or_pipe(path)
            .map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
        let file = BufReader::with_capacity(1 << 20, file);
        Ok(Self { path: path.to_owned(), file, line: Vec::new(), number: 0, allow_truncated })
    }

    /// Number of the line last given out, from 1.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end, and whether it had one.
    pub fn next(&mut self) -> Result<Option<(&str, bool)>, ImportError> {
        self.line.clear();
        let read = self.file.by_ref().take(LINE_BYTES).read_until(b'\n', &mut self.line);
        read.map_err(|source| ImportError::Read { path: self.path.clone(), source })?;
        if self.line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let whole = self.line.pop_if(|last| *last == b'\n').is_some();
        if !whole && u64::try_from(self.line.len()).unwrap_or(u64::MAX) >= LINE_BYTES {
            return Err(self.malformed(format!("longer than {LINE_BYTES} bytes")));
        }
        if !whole && !self.allow_truncated {
            return Err(ImportError::CutOff { path: self.path.clone(), line: self.number });
        }
        self.line.pop_if(|last| *last == b'\r');
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some((line, whole))),
            // What was cut in the middle of a character is still a line that was cut.
            Err(_) if !whole => Ok(Some(("\u{fffd}", false))),
            Err(_) => Err(ImportError::Malformed {
                path: self.path.clone(),
                line: self.number,
                what: "not UTF-8".to_owned(),
            }),
        }
    }

    /// Says what is wrong with the line last given out.
    pub fn malformed(&self, what: String) -> ImportError {
        ImportError::Malformed { path: self.path.clone(), line: self.number.max(1), what }
    }
}
