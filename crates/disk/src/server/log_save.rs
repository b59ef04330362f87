//! Writing the log to a file while the disk serves: a little at a time, so that no request waits for long.

use std::collections::VecDeque;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use fsage_model::disk::call::Converted;
use fsage_sys::new_file::{ForeignFolder, NewFile, Readers};

use crate::disk::{Disk, DiskError};
use crate::export::Gate;
use crate::log::convert::salt;
use crate::log::stream::{Item, Source, copy};
use crate::log::{Geometry, LogError, file};
use crate::request::Operation;

/// Why a log cannot be saved.
#[derive(Debug, thiserror::Error)]
pub(super) enum SaveError {
    /// No log is kept.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file cannot be made.
    #[error("cannot make {}", path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The log cannot be written.
    #[error("cannot save the log to {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: LogError,
    },
}

impl SaveError {
    /// The next step for the user, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Disk(source) => source.hint(),
            Self::Make { source, .. } if ForeignFolder::is(source) => Some(ForeignFolder::HINT.to_owned()),
            Self::Make { .. } => Some("name a file that does not exist, in a directory that does".to_owned()),
            Self::Write { source, .. } => source.hint(),
        }
    }
}

/// Writes the log as it is now to a new file, which is removed again when that fails.
pub(super) fn save(gate: &Gate<Disk>, path: &Path, with_data: bool) -> Result<Converted, SaveError> {
    let mut source = Pieces::new(gate, with_data)?;
    let make = |source| SaveError::Make { path: path.to_owned(), source };
    if path.symlink_metadata().is_ok() {
        return Err(make(std::io::ErrorKind::AlreadyExists.into()));
    }
    let made = NewFile::create(path, Readers::Owner).map_err(make)?;
    let saved = file::Writer::new(BufWriter::new(made.file()), source.geometry, salt())
        .and_then(|writer| copy(&mut source, writer));
    let saved = saved.and_then(|converted| {
        made.commit_new().map_err(|source| LogError::Io { what: "write", source })?;
        Ok(converted)
    });
    saved.map_err(|source| SaveError::Write { path: path.to_owned(), source })
}

/// Entries that are taken under one lock, and bytes after which there are no more.
const PIECE_ENTRIES: u64 = 64;
const PIECE_BYTES: usize = 4 << 20;

/// The log, piece by piece.
struct Pieces<'a> {
    gate: &'a Gate<Disk>,
    with_data: bool,
    geometry: Geometry,
    next: u64,
    next_mark: usize,
    end: u64,
    taken: VecDeque<(Item, Vec<u8>)>,
}

impl<'a> Pieces<'a> {
    fn new(gate: &'a Gate<Disk>, with_data: bool) -> Result<Self, DiskError> {
        let (geometry, end) = gate.with(|disk| {
            let log = disk.log().ok_or(DiskError::NoLog)?;
            Ok::<_, DiskError>((log.geometry(), log.len()))
        })?;
        Ok(Self { gate, with_data, geometry, next: 0, next_mark: 0, end, taken: VecDeque::new() })
    }

    /// Takes some more; nothing at the end.
    fn take(&mut self) -> Result<(), LogError> {
        let gate = self.gate;
        let taken = gate.with(|disk| self.take_from(disk));
        taken.map_err(|error| LogError::Data { number: self.next, source: std::io::Error::other(error) })
    }

    fn take_from(&mut self, disk: &mut Disk) -> Result<(), DiskError> {
        let (mut entries, mut bytes) = (0, 0);
        while entries < PIECE_ENTRIES && bytes < PIECE_BYTES {
            // One that was started again meanwhile is another log: it ends earlier, or holds nothing yet.
            let log = disk.log().ok_or(DiskError::NoLog)?;
            if let Some(mark) = log.marks().get(self.next_mark)
                && mark.position <= self.next
            {
                self.taken.push_back((Item::Mark(mark.clone()), Vec::new()));
                self.next_mark += 1;
                entries += 1;
                continue;
            }
            if self.next == self.end {
                break;
            }
            let position = DiskError::Position { position: self.next, entries: log.len() };
            let entry = log.get(self.next).ok_or(position)?;
            let mut data = Vec::new();
            if self.with_data && entry.request.operation == Operation::Write {
                disk.read_entry(&entry, &mut data)?;
            }
            bytes += data.len();
            self.taken.push_back((Item::Entry(entry), data));
            self.next += 1;
            entries += 1;
        }
        Ok(())
    }
}

impl Source for Pieces<'_> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError> {
        data.clear();
        if self.taken.is_empty() {
            self.take()?;
        }
        let Some((item, bytes)) = self.taken.pop_front() else { return Ok(None) };
        *data = bytes;
        Ok(Some(item))
    }
}
