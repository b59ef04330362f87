//! Reads traces, row group after row group.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fsage_model::load::LoadSpec;
use fsage_model::operation::{ACCESSES_LIMIT, Action, Operation, OperationKind};
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::column::{COLUMNS, Column, KIND, Row};
use super::follow::Followed;
use super::pages;
use super::{Checkpoint, FORMAT_VERSION, Origin, Preamble, Record, TraceError};
use crate::tree::Directory;

/// Largest row group accepted: the writer makes them of 65,536 rows and a little.
const GROUP_LIMIT: usize = 1 << 22;

/// Largest directory number accepted, all threads' added up too (tables are as long as the largest); most
/// levels of directories.
const DIRECTORY_LIMIT: u32 = 1 << 24;
const DEPTH_LIMIT: u32 = 4096;

/// Operations of a trace, in the order of the file. Memory: one row group, and about 60 bytes a live file.
pub struct Reader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    /// The same file, for the headers of pages.
    raw: File,
    preamble: Preamble,
    checkpoints: Vec<Checkpoint>,
    next_group: usize,
    records: std::vec::IntoIter<Record>,
    followed: Followed,
    trees: Trees,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("path", &self.path)
            .field("next_group", &self.next_group)
            .finish_non_exhaustive()
    }
}

/// Longest footer accepted, in bytes; ours hold checkpoints and the places of row groups, some MiB at most.
const LONGEST_FOOTER: u32 = 256 << 20;

/// Opens a trace.
///
/// # Errors
/// A missing, cut off or damaged file; never panics, whatever the file holds.
pub fn read(path: &Path) -> Result<Reader, TraceError> {
    let io = |source| TraceError::Io { path: path.to_owned(), source };
    let mut file = fsage_sys::input::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let (mut ends, mut footer_bytes) = ([[0; 4]; 2], [0; 4]);
    if length >= 12 {
        file.read_exact(&mut ends[0]).map_err(io)?;
        file.seek(SeekFrom::End(-8)).map_err(io)?;
        file.read_exact(&mut footer_bytes).map_err(io)?;
        file.read_exact(&mut ends[1]).map_err(io)?;
    }
    if &ends[0] != b"PAR1" {
        let what = "it has no Parquet header".to_owned();
        return Err(TraceError::Damaged { path: path.to_owned(), what });
    }
    if &ends[1] != b"PAR1" {
        return Err(TraceError::Truncated { path: path.to_owned(), lost_bytes: length });
    }
    // It is read into memory as long as it says it is; a sparse file can be of any length.
    let footer_bytes = u32::from_le_bytes(footer_bytes);
    if footer_bytes > LONGEST_FOOTER {
        let what = format!("its footer claims {footer_bytes} bytes");
        return Err(TraceError::Damaged { path: path.to_owned(), what });
    }
    let raw = file.try_clone().map_err(io)?;
    let file = guard(path, || SerializedFileReader::new(file))?;
    let damaged = |what: String| TraceError::Damaged { path: path.to_owned(), what };
    check_columns(&file).map_err(damaged)?;
    let preamble = preamble(&file).map_err(damaged)?;
    let checkpoints = checkpoints(&file, preamble.directories.len()).map_err(damaged)?;
    let trees = Trees::of(&preamble.directories).map_err(damaged)?;
    Ok(Reader {
        path: path.to_owned(),
        file,
        raw,
        preamble,
        checkpoints,
        next_group: 0,
        records: Vec::new().into_iter(),
        followed: Followed::default(),
        trees,
    })
}

impl Reader {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was recorded, and the directories it began with.
    #[must_use]
    pub const fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// What the threads' trees came to on the way, each thread's in its order; none in traces of the formats
    /// 1 and 2.
    #[must_use]
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// The format that it has ([`FORMAT_VERSION`]).
    #[must_use]
    pub fn format(&self) -> u32 {
        value(&self.file, "fsage.format").and_then(|format| format.parse().ok()).unwrap_or(FORMAT_VERSION)
    }

    /// Operations in the whole trace, as its footer has it.
    #[must_use]
    pub fn operations(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    fn read_group(&mut self) -> Result<(), TraceError> {
        let number = self.next_group;
        self.next_group += 1;
        let (file, raw) = (&self.file, &self.raw);
        let (followed, trees) = (&mut self.followed, &mut self.trees);
        let records = guard(&self.path, || {
            let group = file.get_row_group(number)?;
            pages::check(raw, group.metadata())?;
            read_records(&*group, followed, trees)
        })?;
        self.records = records.into_iter();
        Ok(())
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(Ok(record));
            }
            if self.next_group >= self.file.num_row_groups() {
                return None;
            }
            if let Err(error) = self.read_group() {
                // Nothing behind the damage is given out.
                self.next_group = usize::MAX;
                return Some(Err(error));
            }
        }
    }
}

/// Runs a part of the Parquet library; some damage makes it panic, which is reported as damage.
fn guard<T>(path: &Path, part: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    let damaged = |what: String| TraceError::Damaged { path: path.to_owned(), what };
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(result) => result.map_err(|error| damaged(error.to_string())),
        Err(_) => Err(damaged("its contents contradict its footer".to_owned())),
    }
}

fn check_columns(file: &SerializedFileReader<File>) -> Result<(), String> {
    let schema = file.metadata().file_metadata().schema_descr();
    let names = std::iter::once(KIND).chain(COLUMNS.iter().map(|column| column.name));
    if schema.columns().iter().map(|column| column.name()).eq(names) {
        Ok(())
    } else {
        Err("it has other columns than a trace".to_owned())
    }
}

/// A value of the metadata.
fn value<'a>(file: &'a SerializedFileReader<File>, key: &str) -> Option<&'a str> {
    let pairs = file.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn preamble(file: &SerializedFileReader<File>) -> Result<Preamble, String> {
    let value = |key: &str| value(file, key).ok_or_else(|| format!("its metadata lacks {key}"));
    let format = value("fsage.format")?;
    if !format.parse().is_ok_and(|format: u32| (1..=FORMAT_VERSION).contains(&format)) {
        return Err(format!("its format is {format}, this fsage reads up to {FORMAT_VERSION}"));
    }
    let load: LoadSpec =
        serde_json::from_str(value("fsage.load")?).map_err(|error| format!("fsage.load: {error}"))?;
    let directories: Vec<Vec<[u32; 2]>> = serde_json::from_str(value("fsage.directories")?)
        .map_err(|error| format!("fsage.directories: {error}"))?;
    let directories: Vec<Vec<Directory>> = directories
        .into_iter()
        .map(|thread| thread.into_iter().map(|[number, parent]| Directory { number, parent }).collect())
        .collect();
    check_threads(load.threads, directories.len())?;
    let prelude = match value("fsage.prelude") {
        Ok(text) => text.parse().map_err(|_| format!("fsage.prelude: `{text}` is not a number"))?,
        Err(_) => 0,
    };
    let origin: Option<Origin> = match value("fsage.origin") {
        Ok(text) => Some(serde_json::from_str(text).map_err(|error| format!("fsage.origin: {error}"))?),
        Err(_) => None,
    };
    Ok(Preamble { load, directories, prelude, origin })
}

/// The checkpoints; refuses threads that are none, and those of one thread that do not rise.
fn checkpoints(file: &SerializedFileReader<File>, threads: usize) -> Result<Vec<Checkpoint>, String> {
    let Some(text) = value(file, "fsage.checkpoints") else { return Ok(Vec::new()) };
    let wrong = |what: &str| format!("fsage.checkpoints: {what}");
    let stored: Vec<(u32, u64, String)> =
        serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    let mut last: Vec<Option<u64>> = vec![None; threads];
    stored
        .into_iter()
        .map(|(thread, sequence, digest)| {
            let digest = digest.parse().map_err(|_| wrong("a digest is not one"))?;
            let place = usize::try_from(thread).ok().and_then(|thread| last.get_mut(thread));
            let last = place.ok_or_else(|| wrong("a thread that never began"))?;
            if last.is_some_and(|last| last >= sequence) {
                return Err(wrong("a thread's are not in their order"));
            }
            *last = Some(sequence);
            Ok(Checkpoint { thread, sequence, digest })
        })
        .collect()
}

fn check_threads(threads: u32, trees: usize) -> Result<(), String> {
    if (1..=64).contains(&threads) && usize::try_from(threads) == Ok(trees) {
        return Ok(());
    }
    Err(format!("it says {threads} threads and {trees} trees of directories"))
}

/// The directories of each thread as far as the trace was read: how deep each one lies that is there. Refuses
/// what no load does and what would not end: numbers beyond any tree (tables are as long as the largest), a
/// number that is there already (trees are walked upwards, and it could lie below itself), parents that are
/// not there, trees too deep to be walked.
#[derive(Debug, Default)]
struct Trees {
    there: Vec<HashMap<u32, Known>>,
    largest: Vec<u32>,
    /// The largest numbers of all threads together: each tree has a table of that length.
    sum: u64,
}

/// A directory that is there.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    parent: u32,
    depth: u32,
    children: u32,
}

impl Trees {
    /// The trees that the trace begins with.
    fn of(trees: &[Vec<Directory>]) -> Result<Self, String> {
        let there = vec![HashMap::from([(0, Known::default())]); trees.len()];
        let mut all = Self { there, largest: vec![0; trees.len()], sum: 0 };
        for (thread, tree) in (0_u32..).zip(trees) {
            tree.iter().try_for_each(|directory| all.insert(thread, *directory))?;
        }
        Ok(all)
    }

    fn insert(&mut self, thread: u32, directory: Directory) -> Result<(), String> {
        check_directory(directory)?;
        let Directory { number, parent } = directory;
        let place = usize::try_from(thread).unwrap_or(usize::MAX);
        // A thread that never began has no tree.
        let (Some(there), Some(largest)) = (self.there.get_mut(place), self.largest.get_mut(place)) else {
            return Ok(());
        };
        if there.contains_key(&number) {
            return Err(format!("directory {number} is there twice"));
        }
        let depth = match there.get_mut(&parent) {
            Some(above) if above.depth < DEPTH_LIMIT => {
                above.children += 1;
                above.depth + 1
            }
            Some(_) => return Err(format!("its directories are more than {DEPTH_LIMIT} levels deep")),
            None => return Err(format!("directory {number} comes before its parent")),
        };
        there.insert(number, Known { parent, depth, children: 0 });
        self.sum += u64::from(number.saturating_sub(*largest));
        *largest = number.max(*largest);
        if self.sum > u64::from(DIRECTORY_LIMIT) {
            return Err(format!("its threads number more than {DIRECTORY_LIMIT} directories in all"));
        }
        Ok(())
    }

    fn remove(&mut self, thread: u32, number: u32) -> Result<(), String> {
        let there = usize::try_from(thread).ok().and_then(|thread| self.there.get_mut(thread));
        let Some(there) = there else { return Ok(()) };
        match there.get(&number).copied() {
            Some(Known { children: 0, parent, .. }) => {
                there.remove(&number);
                if let Some(above) = there.get_mut(&parent) {
                    above.children -= 1;
                }
                Ok(())
            }
            Some(_) => Err(format!("directory {number} is removed before those in it")),
            None => Err(format!("directory {number} is removed before it is made")),
        }
    }

    /// Takes a row; one that failed changes nothing.
    fn take(&mut self, record: &Record) -> Result<(), String> {
        let (number, thread) = (record.operation.place.directory, record.thread);
        match record.operation.action {
            Action::Mkdir { parent } | Action::Rmdir { parent } if record.outcome.errno != 0 => {
                check_directory(Directory { number, parent })
            }
            Action::Mkdir { parent } => self.insert(thread, Directory { number, parent }),
            Action::Rmdir { parent } => {
                check_directory(Directory { number, parent })?;
                self.remove(thread, number)
            }
            _ => Ok(()),
        }
    }
}

fn check_directory(Directory { number, parent }: Directory) -> Result<(), String> {
    if number == 0 || number == parent || number > DIRECTORY_LIMIT || parent > DIRECTORY_LIMIT {
        return Err(format!("no load has a directory {number} in {parent}"));
    }
    Ok(())
}

/// Refuses a row that would not end in any reasonable time, and places in files that no file has (`loff_t`).
fn check_row(operation: &Operation) -> Result<(), String> {
    let columns = operation.columns();
    let most = [operation.size, columns.offset, columns.length].into_iter().max().unwrap_or(0);
    if i64::try_from(most).is_err() {
        return Err(format!("no file has {most} bytes"));
    }
    match operation.action {
        Action::RandomRead { accesses, .. } | Action::RandomWrite { accesses, .. }
            if accesses > ACCESSES_LIMIT =>
        {
            Err(format!("no load has an operation of {accesses} accesses"))
        }
        _ => Ok(()),
    }
}

fn read_records(
    group: &dyn RowGroupReader,
    followed: &mut Followed,
    trees: &mut Trees,
) -> Result<Vec<Record>, ParquetError> {
    let wrong = |what: &str| ParquetError::General(what.to_owned());
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
    if rows > GROUP_LIMIT {
        return Err(wrong("a row group is larger than any trace has"));
    }
    let ColumnReader::ByteArrayColumnReader(_) = group.get_column_reader(0)? else {
        return Err(wrong("kind is not text"));
    };
    let Values { there: kinds, .. } = read_column::<ByteArrayType>(group, 0, rows)?;
    let mut filled = Vec::with_capacity(rows);
    for kind in kinds {
        let named = OperationKind::ALL.into_iter().find(|known| known.name().as_bytes() == kind.data());
        filled.push(Row::blank(named.ok_or_else(|| wrong("an operation has an unknown kind"))?));
    }
    if filled.len() != rows {
        return Err(wrong("an operation has no kind"));
    }
    let mut left_out = vec![0; rows];
    for (number, column) in COLUMNS.iter().enumerate() {
        let place = number + 1;
        match group.get_column_reader(place)? {
            ColumnReader::Int32ColumnReader(_) => {
                let values = read_column::<Int32Type>(group, place, rows)?;
                values.fill(&mut filled, &mut left_out, column, |value| u64::from(value.cast_unsigned()))
            }
            ColumnReader::Int64ColumnReader(_) => {
                let values = read_column::<Int64Type>(group, place, rows)?;
                values.fill(&mut filled, &mut left_out, column, i64::cast_unsigned)
            }
            _ => Err("a column that must be of numbers is not"),
        }
        .map_err(wrong)?;
    }
    let mut records = Vec::with_capacity(rows);
    for (row, left_out) in filled.into_iter().zip(left_out) {
        let mut record = row.into_record();
        if !followed.put_back(&mut record.operation, left_out) {
            return Err(wrong("a row leaves out what no earlier row says"));
        }
        followed.take(&record.operation, record.outcome.errno);
        check_row(&record.operation).map_err(ParquetError::General)?;
        trees.take(&record).map_err(ParquetError::General)?;
        records.push(record);
    }
    Ok(records)
}

/// A column of a row group.
struct Values<T> {
    /// The values that are there.
    there: Vec<T>,
    /// For each row whether it has one; empty where every row has.
    present: Vec<i16>,
}

impl<T: Copy> Values<T> {
    /// Puts the values into their rows; rows without one are marked.
    fn fill(
        self,
        rows: &mut [Row],
        left_out: &mut [u8],
        column: &Column,
        number: fn(T) -> u64,
    ) -> Result<(), &'static str> {
        if self.present.is_empty() {
            let values = self.there.into_iter().map(number);
            rows.iter_mut().zip(values).for_each(|(row, value)| (column.set)(row, value));
            return Ok(());
        }
        if column.part == 0 {
            return Err("a column that must have a value in each row may be null");
        }
        let mut values = self.there.into_iter();
        for ((row, left_out), present) in rows.iter_mut().zip(left_out).zip(self.present) {
            if present == 0 {
                *left_out |= column.part;
            } else {
                let value = values.next().ok_or("a column has fewer values than it says")?;
                (column.set)(row, number(value));
            }
        }
        Ok(())
    }
}

fn read_column<T: DataType>(
    group: &dyn RowGroupReader,
    place: usize,
    rows: usize,
) -> Result<Values<T::T>, ParquetError> {
    let optional = group.metadata().column(place).column_descr().max_def_level() > 0;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(place)?);
    let (mut there, mut present) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let levels = optional.then_some(&mut present);
        let (read, _, _) = reader.read_records(rows - done, levels, None, &mut there)?;
        if read == 0 {
            return Err(ParquetError::General("a column has fewer values than rows".to_owned()));
        }
        done += read;
    }
    Ok(Values { there, present })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_trees_must_agree() {
        assert!(check_threads(1, 1).is_ok() && check_threads(64, 64).is_ok());
        for (threads, trees) in [(0, 0), (65, 65), (2, 1), (1, 2)] {
            assert!(check_threads(threads, trees).is_err());
        }
    }

    #[test]
    fn trees_that_no_load_has_are_refused() {
        let tree = |pairs: &[[u32; 2]]| {
            let directories: Vec<Directory> =
                pairs.iter().map(|&[number, parent]| Directory { number, parent }).collect();
            Trees::of(&[directories]).map(drop)
        };
        assert!(tree(&[[1, 0], [26, 1], [2, 26]]).is_ok());
        let wrong: [&[[u32; 2]]; 5] =
            [&[[0, 0]], &[[1, 1]], &[[2, 1], [1, 2]], &[[1, 0], [1, 0]], &[[u32::MAX - 1, 0]]];
        for pairs in wrong {
            assert!(tree(pairs).is_err(), "{pairs:?}");
        }
        let deep: Vec<[u32; 2]> = (0..10_000).map(|number| [number + 1, number]).collect();
        assert!(tree(&deep).is_err());
    }

    #[test]
    fn the_directories_of_all_threads_are_bounded_together() {
        let tree = |number| vec![Directory { number, parent: 0 }];
        assert!(Trees::of(&vec![tree(DIRECTORY_LIMIT / 64); 64]).is_ok());
        let many = Trees::of(&vec![tree(DIRECTORY_LIMIT); 64]).unwrap_err();
        assert!(many.contains("16777216 directories in all"), "{many}");
        let mut trees = Trees::of(&[tree(5), tree(DIRECTORY_LIMIT - 10)]).unwrap();
        let mut make = |thread, number| trees.insert(thread, Directory { number, parent: 0 });
        assert!(make(0, 10).is_ok() && make(0, 3).is_ok() && make(7, 1 << 24).is_ok());
        assert!(make(0, 11).is_err());
    }

    fn row(kind: OperationKind, directory: u32, parent: u64, errno: i32) -> Record {
        let mut row = Row::blank(kind);
        (row.record.operation.place.directory, row.columns.offset) = (directory, parent);
        row.record.outcome.errno = errno;
        row.into_record()
    }

    /// Directories in a circle have no path: following their parents never ends.
    #[test]
    fn directories_stay_a_tree() {
        use OperationKind::{Mkdir, Rmdir};
        let walk = |rows: &[(OperationKind, u32, u64, i32)]| {
            let mut trees = Trees::of(&[Vec::new()]).unwrap();
            rows.iter().try_for_each(|(kind, number, parent, errno)| {
                trees.take(&row(*kind, *number, *parent, *errno))
            })
        };
        let (made, within) = ((Mkdir, 5, 0, 0), (Mkdir, 6, 5, 0));
        walk(&[made, within, (Rmdir, 6, 5, 0), (Rmdir, 5, 0, 0), (Mkdir, 6, 0, 0), (Mkdir, 5, 6, 0)])
            .unwrap();
        walk(&[made, (Mkdir, 5, 0, 17), (Rmdir, 5, 0, 39), within]).unwrap();
        for circle in [
            &[made, within, (Mkdir, 5, 6, 0)][..],
            &[made, within, (Rmdir, 5, 0, 0)],
            &[within],
            &[(Rmdir, 5, 0, 0)],
        ] {
            assert!(walk(circle).is_err(), "{circle:?}");
        }
        let deep: Vec<_> = (0..=DEPTH_LIMIT).map(|n| (Mkdir, n + 1, u64::from(n), 0)).collect();
        assert!(walk(&deep).unwrap_err().contains("levels deep"));
    }

    #[test]
    fn rows_that_no_load_has_are_refused() {
        let mkdir = |directory, parent| {
            Trees::of(&[Vec::new()]).unwrap().take(&row(OperationKind::Mkdir, directory, parent, 17))
        };
        assert!(mkdir(7, 3).is_ok());
        for (directory, parent) in [(7, 7), (0, 3), (1 << 25, 0), (1, 1 << 25), (1, u64::MAX)] {
            assert!(mkdir(directory, parent).is_err());
        }
        for kind in [OperationKind::RandomRead, OperationKind::RandomWrite] {
            let of = |accesses| {
                let mut row = Row::blank(kind);
                row.columns.accesses = accesses;
                check_row(&row.into_record().operation)
            };
            assert!(of(ACCESSES_LIMIT).is_ok() && of(ACCESSES_LIMIT + 1).is_err());
        }
        let most = i64::MAX.cast_unsigned();
        for (number, accepted) in [(most, true), (most + 1, false), (u64::MAX, false)] {
            let read = Operation { size: number, ..Row::blank(OperationKind::Read).into_record().operation };
            let append =
                |offset, length| Operation { action: Action::Append { offset, length }, size: 0, ..read };
            for operation in [read, append(number, 0), append(0, number)] {
                assert_eq!(check_row(&operation).is_ok(), accepted, "{operation:?}");
            }
        }
    }
}
