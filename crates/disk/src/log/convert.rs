//! Logs in files of any format: open, select, sum up, write in another format. What `fsage disk log` does.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use fsage_model::disk::call::Converted;
use fsage_model::problem::{EXIT_FAILED, Explain};
use fsage_sys::new_file::{NewFile, Readers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blkparse::{self, Clock, Issue};
use super::error::LogPosition;
use super::heat::{Axis, Heat, HeatMap};
use super::stream::{Item, LogSource, NoContents, Position, Sink, Source};
use super::summary::{Collector, Summary};
use super::{Filter, Geometry, Log, LogError, dm_log_writes, file};
use crate::request::Operation;

/// A format of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Ours: everything, with the data if they were kept.
    #[default]
    Fsage,
    /// That of the kernel's dm-log-writes and QEMU's blklogwrites: what changes the disk, with its data.
    DmLogWrites,
    /// Text of blkparse: requests and their times.
    Blkparse,
}

/// How files are understood and written, where their formats leave a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Of text that is read: when a request takes its place in the order.
    pub issue: Issue,
    /// Of text that is read: the device that is meant (major, minor).
    pub device: Option<(u32, u32)>,
    /// Of text that is written: which times.
    pub clock: Clock,
}

/// A file that was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is in it.
    #[error("cannot read the log {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LogError,
    },
    /// What is to be in it.
    #[error("cannot write the log {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LogError,
    },
}

impl FileError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => Some("check the path, and that its folder exists".to_owned()),
                io::ErrorKind::PermissionDenied => {
                    Some("run it as a user who may use that file and its folder".to_owned())
                }
                _ => None,
            },
            Self::Read { source, .. } | Self::Write { source, .. } => source.hint(),
        }
    }
}

/// A log in a file, from its beginning.
pub struct Opened {
    format: Format,
    inner: Inner,
    /// The number of the entry that comes next.
    next: u64,
}

/// Longest read or write: the kernel counts a request's bytes in 32 bits (`struct blk_io_trace` in
/// `linux/blktrace_api.h`). A short file must not say that a whole volume was written.
const LONGEST_TRANSFER: u64 = u32::MAX as u64;

enum Inner {
    Fsage(Box<file::Reader<BufReader<File>>>),
    DmLogWrites(dm_log_writes::Reader<BufReader<File>>),
    /// Text is taken into memory as a whole: a request's end stands far behind its begin.
    Blkparse {
        log: Box<Log>,
        position: Position,
    },
}

impl Opened {
    /// The file's format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Goes to entry `number`, or somewhat before where the format has no faster way. Only before anything is
    /// read.
    ///
    /// # Errors
    /// What is in between is damaged or cut off.
    pub fn skip_to(&mut self, number: u64) -> Result<u64, LogError> {
        match &mut self.inner {
            Inner::Fsage(reader) => {
                reader.skip_to(number)?;
                self.next = reader.next_entry();
            }
            Inner::DmLogWrites(_) | Inner::Blkparse { .. } => {}
        }
        Ok(self.next)
    }

    /// Counts an entry, and refuses one that no kernel can have asked for.
    fn counted(&mut self, item: Option<Item>) -> Result<Option<Item>, LogError> {
        let Some(Item::Entry(entry)) = &item else { return Ok(item) };
        let transfers = matches!(entry.request.operation, Operation::Read | Operation::Write);
        if transfers && entry.request.length_bytes > LONGEST_TRANSFER {
            let what = format!("{} bytes in one request", entry.request.length_bytes);
            return Err(LogError::malformed(LogPosition::Entry(self.next), what));
        }
        self.next += 1;
        Ok(item)
    }
}

impl Source for Opened {
    fn geometry(&self) -> Geometry {
        match &self.inner {
            Inner::Fsage(reader) => reader.geometry(),
            Inner::DmLogWrites(reader) => reader.geometry(),
            Inner::Blkparse { log, .. } => log.geometry(),
        }
    }

    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError> {
        let item = match &mut self.inner {
            Inner::Fsage(reader) => reader.next_item(data),
            Inner::DmLogWrites(reader) => reader.next_item(data),
            Inner::Blkparse { log, position } => {
                let mut source = LogSource::at(log, NoContents, *position);
                let item = source.next_item(data);
                *position = source.position();
                item
            }
        }?;
        self.counted(item)
    }
}

/// Opens a log; its first bytes say which format it has.
///
/// # Errors
/// The file cannot be read, or is none of these, or is damaged.
pub fn open(path: &Path, options: &Options) -> Result<Opened, FileError> {
    let opened = fsage_sys::input::open(path);
    let file = opened.map_err(|source| FileError::Io { what: "open", path: path.to_owned(), source })?;
    of_file(file, path, options)
}

/// As [`open`], of a log that is open; errors name its `path`.
///
/// # Errors
/// As there.
pub fn of_file(mut file: File, path: &Path, options: &Options) -> Result<Opened, FileError> {
    let io = |what| move |source| FileError::Io { what, path: path.to_owned(), source };
    let read = |source| FileError::Read { path: path.to_owned(), source };
    let mut magic = Vec::new();
    (&mut file).take(8).read_to_end(&mut magic).map_err(io("read"))?;
    file.rewind().map_err(io("read"))?;
    let file = BufReader::new(file);
    let (format, inner) = if magic == file::MAGIC {
        (Format::Fsage, Inner::Fsage(Box::new(file::Reader::new(file).map_err(read)?)))
    } else if magic == dm_log_writes::MAGIC.to_le_bytes() {
        (Format::DmLogWrites, Inner::DmLogWrites(dm_log_writes::Reader::new(file).map_err(read)?))
    } else {
        let log = blkparse::read(file, options.issue, options.device).map_err(read)?;
        (Format::Blkparse, Inner::Blkparse { log: Box::new(log), position: Position::default() })
    };
    Ok(Opened { format, inner, next: 0 })
}

/// Gives each item that `filter` means to `each`, with its number (a mark has that of the entry behind it)
/// and data, until that says `false`. `first` is the number of the source's first entry.
///
/// # Errors
/// Those of the source, and those of `each`.
pub fn visit<E: From<LogError>>(
    source: &mut dyn Source,
    first: u64,
    filter: &Filter,
    mut each: impl FnMut(u64, &Item, &[u8]) -> Result<bool, E>,
) -> Result<(), E> {
    let (mut number, mut data) = (first, Vec::new());
    while number < filter.end()
        && let Some(item) = source.next_item(&mut data)?
    {
        let meant = match &item {
            Item::Entry(entry) => filter.matches(number, entry),
            Item::Mark(mark) => filter.matches_mark(number, mark),
        };
        if meant && !each(number, &item, &data)? {
            return Ok(());
        }
        number += u64::from(matches!(item, Item::Entry(_)));
    }
    Ok(())
}

/// How large a heat map is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeatSize {
    /// Most rows (ranges of the disk).
    pub rows: usize,
    /// Most columns (times).
    pub columns: usize,
    /// What the columns follow.
    pub axis: Axis,
}

/// Sums up what `filter` means, with a heat map of it.
///
/// # Errors
/// Those of the source.
pub fn summarise(
    source: &mut dyn Source,
    first: u64,
    filter: &Filter,
    size: HeatSize,
) -> Result<(Summary, HeatMap), LogError> {
    let mut heat = Heat::new(source.geometry().size_bytes, size.rows, size.columns, size.axis);
    let mut collector = Collector::default();
    visit(source, first, filter, |number, item, _| {
        if let Item::Entry(entry) = item {
            collector.add(entry);
            heat.add(number, entry);
        }
        Ok::<_, LogError>(true)
    })?;
    Ok((collector.finish(), heat.finish()))
}

/// Writes what `filter` means into a new file, which is there as a whole or not at all; one of that name is
/// replaced.
///
/// # Errors
/// Those of the source; the format cannot say it; the file cannot be written.
pub fn save(
    source: &mut dyn Source,
    filter: &Filter,
    path: &Path,
    format: Format,
    options: &Options,
) -> Result<Converted, FileError> {
    let io = |what| move |source| FileError::Io { what, path: path.to_owned(), source };
    // It may hold what was written to the disk.
    let file = NewFile::create(path, Readers::Owner).map_err(io("make"))?;
    let converted = write(source, filter, file.file(), format, options)
        .map_err(|source| FileError::Write { path: path.to_owned(), source })?;
    file.commit().map_err(io("write"))?;
    Ok(converted)
}

fn write(
    source: &mut dyn Source,
    filter: &Filter,
    file: &File,
    format: Format,
    options: &Options,
) -> Result<Converted, LogError> {
    let (geometry, file) = (source.geometry(), BufWriter::with_capacity(1 << 20, file));
    match format {
        Format::Fsage => put_all(source, filter, file::Writer::new(file, geometry, salt())?),
        Format::DmLogWrites => put_all(source, filter, dm_log_writes::Writer::new(file, geometry)?),
        Format::Blkparse => put_all(source, filter, blkparse::Writer::new(file, options.clock)),
    }
}

fn put_all<S: Sink>(source: &mut dyn Source, filter: &Filter, mut sink: S) -> Result<Converted, LogError> {
    visit(source, 0, filter, |_, item, data| sink.put(item, data).map(|()| true))?;
    sink.finish()
}

/// A number that no other log has. The standard library's hash keys are drawn at random.
pub(crate) fn salt() -> u128 {
    let draw = || u128::from(RandomState::new().build_hasher().finish());
    draw() << 64 | draw()
}

impl Explain for FileError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => EXIT_FAILED,
            Self::Read { source, .. } | Self::Write { source, .. } => source.exit_code(),
        }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::log::Entry;
    use crate::request::{Operation, Request};

    const GEOMETRY: Geometry = Geometry { size_bytes: 1 << 20, block_bytes: 512 };

    /// Ten requests, a millisecond apart, and a mark in the middle.
    fn log() -> Log {
        let mut log = Log::new(GEOMETRY);
        for n in 0..10 {
            if n == 5 {
                log.mark("half", 5_000_000);
            }
            let operation = if n % 2 == 0 { Operation::Read } else { Operation::Discard };
            let times = (n * 1_000_000, n * 1_000_000 + 500_000);
            let entry = Entry::new(Request::new(operation, n * 8192, 4096));
            log.push(&Entry { issued_ns: times.0, done_ns: times.1, arrived_ns: times.0, ..entry });
        }
        log
    }

    #[test]
    fn each_format_is_known_by_its_first_bytes_and_selected_from() {
        let (folder, log, options) = (tempfile::tempdir().unwrap(), log(), Options::default());
        let meant = Filter { numbers: Some(3..9), operations: vec![Operation::Discard], ..Filter::default() };
        for (format, entries) in [(Format::Fsage, 10), (Format::Blkparse, 10), (Format::DmLogWrites, 5)] {
            let path = folder.path().join("log");
            let mut source = LogSource::new(&log, NoContents);
            let converted = save(&mut source, &Filter::default(), &path, format, &options).unwrap();
            assert_eq!((converted.entries, converted.marks), (entries, 1));
            assert_eq!(converted.reads_left_out, 10 - entries);
            let mut opened = open(&path, &options).unwrap();
            assert_eq!(opened.format(), format);
            let first = opened.skip_to(3).unwrap();
            let mut found = Vec::new();
            visit(&mut opened, first, &meant, |number, item, _| {
                found.push((number, item.clone()));
                Ok::<_, LogError>(found.len() < 2)
            })
            .unwrap();
            let numbers: Vec<_> = found.iter().map(|(number, _)| *number).collect();
            // Without reads the discards have other numbers.
            assert_eq!(numbers, if format == Format::DmLogWrites { [3, 4] } else { [3, 5] }, "{format:?}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
        }
    }

    #[test]
    fn marks_are_meant_by_place_and_time_only() {
        let log = log();
        let marks = |filter: &Filter| {
            let mut count = 0;
            visit(&mut LogSource::new(&log, NoContents), 0, filter, |_, item, _| {
                count += usize::from(matches!(item, Item::Mark(_)));
                Ok::<_, LogError>(true)
            })
            .unwrap();
            count
        };
        assert_eq!(marks(&Filter::default()), 1);
        assert_eq!(marks(&Filter { numbers: Some(5..6), ..Filter::default() }), 1);
        assert_eq!(marks(&Filter { numbers: Some(6..9), ..Filter::default() }), 0);
        assert_eq!(marks(&Filter { arrived_ns: Some(0..6_000_000), ..Filter::default() }), 1);
        assert_eq!(marks(&Filter { operations: vec![Operation::Read], ..Filter::default() }), 0);
    }

    #[test]
    fn a_selection_is_summed_up() {
        let size = HeatSize { rows: 4, columns: 4, axis: Axis::Number };
        let filter = Filter { bytes: Some(0..40_000), ..Filter::default() };
        let log = log();
        let (summary, map) = summarise(&mut LogSource::new(&log, NoContents), 0, &filter, size).unwrap();
        assert_eq!((summary.reads.requests, summary.discards), (3, 2));
        assert_eq!(map.read_bytes.iter().flatten().sum::<u64>(), 3 * 4096);
    }

    #[test]
    fn a_file_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = log();
        log.push(&Entry::new(Request::new(Operation::Write, 0, 512)));
        let mut source = LogSource::new(&log, NoContents);
        let options = Options::default();
        let error = save(&mut source, &Filter::default(), &path, Format::DmLogWrites, &options).unwrap_err();
        assert!(error.hint().is_some() && error.to_string().contains(path.to_str().unwrap()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let Err(missing) = open(&path, &options) else { panic!("nothing is there") };
        assert!(matches!(missing, FileError::Io { .. }) && missing.hint().is_some());
        fs::write(&path, [0; 4096]).unwrap();
        assert!(matches!(open(&path, &options), Err(FileError::Read { .. })));
    }
}
