//! Traces for other programs: iologs of `fio`, plain CSV.
//!
//! Operations that failed when recorded are left out, and so is what the format has no word for; both are
//! counted. Random accesses become one line each.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::PathBuf;

use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation, OperationKind as K};
use fsage_model::problem::{EXIT_FAILED, Explain};
use serde::{Deserialize, Serialize};

use crate::csv::{HEADING, quoted};
use crate::trace::{Reader, Record, TraceError};
use crate::tree::DirectoryTree;

/// A format that traces can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An iolog, version 3. It knows data only: names that come and go are left out.
    Fio,
    /// [`HEADING`] and a line per operation; [`crate::import`] reads it back.
    Csv,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportReport {
    /// Operations of the trace.
    pub operations: u64,
    /// Lines written, without the heading.
    pub lines: u64,
    /// Operations that are in no line, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// Why a trace could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes every operation of `trace` to `out`, which is the file `path`. Paths begin with `prefix`.
///
/// # Errors
/// A trace that cannot be read on, a file that cannot be written.
pub fn export(
    trace: Reader,
    format: Format,
    prefix: &str,
    out: &mut dyn Write,
    path: &std::path::Path,
) -> Result<ExportReport, ExportError> {
    let write = |source| ExportError::Write { path: path.to_owned(), source };
    let trees = &trace.preamble().directories;
    let trees =
        (0_u32..).zip(trees).map(|(thread, initial)| DirectoryTree::new(thread, initial.iter().copied()));
    let mut exporter = Exporter {
        format,
        prefix: prefix.trim_end_matches('/').as_bytes().to_vec(),
        trees: trees.collect(),
        report: ExportReport::default(),
        added: HashSet::new(),
    };
    let heading = if format == Format::Csv { HEADING } else { "fio version 3 iolog" };
    writeln!(out, "{heading}").map_err(write)?;
    for record in trace {
        exporter.row(&record?, out).map_err(write)?;
    }
    out.flush().map_err(write)?;
    Ok(exporter.report)
}

struct Exporter {
    format: Format,
    prefix: Vec<u8>,
    trees: Vec<DirectoryTree>,
    report: ExportReport,
    /// Names that an iolog has opened, by thread; only live ones.
    added: HashSet<(u32, DirectoryEntry)>,
}

impl Exporter {
    fn row(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        self.report.operations += 1;
        if record.outcome.errno != 0 {
            self.left_out("failed when recorded");
            return Ok(());
        }
        match self.format {
            Format::Csv => self.csv(record, out)?,
            Format::Fio => self.fio(record, out)?,
        }
        let operation = &record.operation;
        let Some(tree) = usize::try_from(record.thread).ok().and_then(|thread| self.trees.get_mut(thread))
        else {
            return Ok(());
        };
        tree.follow(operation);
        Ok(())
    }

    fn left_out(&mut self, reason: &str) {
        *self.report.left_out.entry(reason.to_owned()).or_default() += 1;
    }

    /// A path in a thread's tree.
    fn path(&self, thread: u32, write: impl FnOnce(&DirectoryTree, &mut Vec<u8>)) -> String {
        let mut path = self.prefix.clone();
        path.push(b'/');
        if let Some(tree) = usize::try_from(thread).ok().and_then(|thread| self.trees.get(thread)) {
            write(tree, &mut path);
        }
        String::from_utf8_lossy(&path).into_owned()
    }

    /// Path of an operation's object.
    fn object(&self, record: &Record) -> String {
        self.path(record.thread, |tree, path| tree.write_object_path(path, &record.operation))
    }

    fn csv(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let path = quoted(&self.object(record));
        let operation = &record.operation;
        let target = match operation.action {
            Action::Rename { target } | Action::Link { target } | Action::Symlink { target } => {
                quoted(&self.path(record.thread, |tree, path| tree.write_path(path, target)))
            }
            _ => String::new(),
        };
        let (seconds, ns) = (record.start_ns / 1_000_000_000, record.start_ns % 1_000_000_000);
        let lines = &mut self.report.lines;
        let mut line = |name: &str, offset: Option<u64>, length: Option<u64>| {
            let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            *lines += 1;
            let (offset, length) = (text(offset), text(length));
            writeln!(out, "{seconds}.{ns:09},{name},{path},{offset},{length},{target}")
        };
        let name = operation.kind().name();
        match operation.action {
            Action::Create { length } => line(name, None, Some(length)),
            Action::Append { offset, length } => {
                let (offset, length) = appended(operation.size, offset, length);
                line("write", Some(offset), Some(length))
            }
            Action::RandomWrite { .. } | Action::RandomRead { .. } => {
                let name = if operation.kind() == K::RandomWrite { "write" } else { "read" };
                accesses(operation).try_for_each(|(offset, length)| line(name, Some(offset), Some(length)))
            }
            Action::Truncate { new_size } => line(name, None, Some(new_size)),
            Action::Fallocate { offset, length } => line(name, Some(offset), Some(length)),
            Action::Rename { .. }
            | Action::Link { .. }
            | Action::Symlink { .. }
            | Action::Read { .. }
            | Action::Overwrite
            | Action::Delete
            | Action::Mkdir { .. }
            | Action::Rmdir { .. }
            | Action::Fsync
            | Action::Fdatasync => line(name, None, None),
        }
    }

    fn fio(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let operation = &record.operation;
        let file = (record.thread, operation.place);
        let at = record.start_ns / 1000;
        let (action, ranges): (&str, Vec<(u64, u64)>) = match operation.action {
            Action::Create { length } => ("write", vec![(0, length)]),
            Action::Overwrite => ("write", vec![(0, operation.size)]),
            Action::Append { offset, length } => ("write", vec![appended(operation.size, offset, length)]),
            Action::RandomWrite { .. } => ("write", accesses(operation).collect()),
            Action::Read { .. } => ("read", vec![(0, operation.size)]),
            Action::RandomRead { .. } => ("read", accesses(operation).collect()),
            Action::Fsync => ("sync", vec![(0, 0)]),
            Action::Fdatasync => ("datasync", vec![(0, 0)]),
            Action::Delete | Action::Rename { .. } => {
                if self.added.remove(&file) {
                    self.report.lines += 1;
                    writeln!(out, "{at} {} close", self.object(record))?;
                }
                self.left_out("an iolog knows no names that come and go");
                return Ok(());
            }
            Action::Truncate { .. } | Action::Fallocate { .. } => {
                self.left_out("an iolog knows no sizes");
                return Ok(());
            }
            Action::Mkdir { .. } | Action::Rmdir { .. } | Action::Symlink { .. } | Action::Link { .. } => {
                self.left_out("an iolog knows no names that come and go");
                return Ok(());
            }
        };
        let path = self.object(record);
        if self.added.insert(file) {
            self.report.lines += 2;
            writeln!(out, "{at} {path} add\n{at} {path} open")?;
        }
        for (offset, length) in ranges {
            let syncs = action.ends_with("sync");
            if length > 0 || syncs {
                self.report.lines += 1;
                writeln!(out, "{at} {path} {action} {offset} {length}")?;
            }
        }
        Ok(())
    }
}

/// Bytes that an append adds: from the old end on, unless it begins before the last block.
fn appended(size: u64, offset: u64, length: u64) -> (u64, u64) {
    let end = offset.saturating_add(length);
    let boundary = size & !(BLOCK_BYTES - 1);
    let from = if offset == boundary { size } else { offset };
    (from, end.saturating_sub(from))
}

/// Offset and length of each access of a random read or write that touches a byte.
fn accesses(operation: &Operation) -> impl Iterator<Item = (u64, u64)> {
    operation.accesses().filter(|(_, length)| *length > 0)
}

impl Explain for ExportError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Trace(error) => error.exit_code(),
            Self::Write { .. } => EXIT_FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Trace(error) => Explain::hint(error),
            Self::Write { .. } => None,
        }
    }
}
