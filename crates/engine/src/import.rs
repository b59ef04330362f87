//! Traces of other programs' recordings: output of `strace`, iologs of `fio`, plain CSV.
//!
//! What was recorded names files by paths; a trace of ours names them by numbers ([`crate::tree`]), so names
//! are not kept. Operations of several processes are put into one order, that of their ends, and into one
//! thread: who waited for whom cannot be distinguished from such a log. Data is made of whole blocks and has no holes:
//! accesses are widened to the blocks they touch, gaps are filled; each such change is counted, and so is
//! everything that cannot be said in our operations ([`Origin`]).
//!
//! What was there before the recording is made by a prelude, as large as the recording needs it. To know
//! that, the file is read twice: once for the needs, once for the rows. Memory: live files and directories,
//! and 40 bytes for each file that was there before; not the length of the recording.
//!
//! Operations that failed when recorded are counted and left out.

mod csv;
mod error;
mod fio;
mod lines;
mod map;
mod path;
mod strace;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use fsage_model::load::{LoadSpec, StopSpec, WriteMode};
use fsage_model::workload::{DriftSpec, WorkloadSpec};
use fsage_sys::new_file::{NewFile, Readers};
use serde::{Deserialize, Serialize};

use crate::trace::{Checkpoint, Origin, Preamble, Record, TraceWriter, checkpoint_after};
use crate::workload::Model;
pub use error::ImportError;
use lines::Lines;
use map::{Mapper, Need};

/// Programs whose recordings can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `strace -f -ttt [-y] [-T] -e trace=%file,%desc,%process -o FILE`.
    Strace,
    /// `fio --write_iolog=FILE`, versions 2 and 3.
    Fio,
    /// [`HEADING`](crate::csv::HEADING) and lines of such columns.
    Csv,
}

impl Program {
    /// The name used in flags and in [`Origin`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Fio => "fio",
            Self::Csv => "csv",
        }
    }
}

/// What to import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Only what lies below this absolute path, which becomes the top of the tree.
    pub below: Option<PathBuf>,
    /// Where the first process of a recording was, for its relative paths.
    pub cwd: Option<PathBuf>,
    /// A last line that was cut off is left out, not refused.
    pub allow_truncated: bool,
}

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Rows of the trace.
    pub operations: u64,
    /// Of these, the prelude's: files that were there before.
    pub prelude: u64,
    /// Bytes that the prelude writes.
    pub prelude_bytes: u64,
    /// Directories that were there before.
    pub directories: u64,
    /// Nanoseconds from the first to the last row's start.
    pub span_ns: u64,
    /// Lines read.
    pub lines: u64,
    /// What was left out or changed.
    pub origin: Origin,
}

/// Reads what `program` recorded in `input` and writes it as a trace.
///
/// # Errors
/// A file that cannot be read or written; a line that is not what the program writes, or is cut off, by its
/// number.
pub fn import(
    program: Program,
    input: &Path,
    output: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    let mut first = Mapper::new(options.below.as_deref(), None);
    read(program, input, options, &mut first, &mut |_| Ok(()))?;
    let Survey { needs, directories, .. } = survey(first);
    let mut mapper = Mapper::new(options.below.as_deref(), Some(&needs));
    let prelude = mapper.prelude();
    let prelude_bytes = prelude.iter().map(|record| record.operation.length()).sum();
    let mut origin = Origin { program: program.name().to_owned(), ..Origin::default() };
    let preamble = Preamble {
        load: load(),
        directories: vec![directories.clone()],
        prelude: u64::try_from(prelude.len()).unwrap_or(u64::MAX),
        origin: Some(origin.clone()),
    };
    let io = |source| ImportError::Write { path: output.to_owned(), what: source };
    let file = NewFile::create(output, Readers::All).map_err(|error| io(error.to_string()))?;
    let written = file.file().try_clone().map_err(|error| io(error.to_string()))?;
    let writer =
        TraceWriter::new(BufWriter::new(written), &preamble).map_err(|error| io(error.to_string()))?;
    let mut rows = Rows {
        writer,
        model: Model::new(0, &directories),
        last_ns: 0,
        written: 0,
        next: 0,
        checkpoints: Vec::new(),
    };
    rows.next = checkpoint_after(0);
    rows.take(prelude).map_err(io)?;
    let lines = read(program, input, options, &mut mapper, &mut |batch| rows.take(batch).map_err(io))?;
    let (left_out, changed) = mapper.counts();
    (origin.left_out, origin.changed) = (left_out, changed);
    let (operations, span_ns) = (rows.written, rows.last_ns);
    rows.finish(&origin).map_err(io)?;
    file.commit().map_err(|error| io(error.to_string()))?;
    Ok(ImportReport {
        operations,
        prelude: preamble.prelude,
        prelude_bytes,
        directories: u64::try_from(directories.len()).unwrap_or(u64::MAX),
        span_ns,
        lines,
        origin,
    })
}

/// What the first reading finds.
struct Survey {
    needs: Vec<Need>,
    directories: Vec<crate::tree::Directory>,
}

fn survey(mapper: Mapper<'_>) -> Survey {
    let (needs, directories) = mapper.into_needs();
    Survey { needs, directories }
}

/// Rows on their way into the trace.
struct Rows {
    writer: TraceWriter<BufWriter<File>>,
    model: Model,
    last_ns: u64,
    written: u64,
    /// Row at which the next checkpoint is made.
    next: u64,
    checkpoints: Vec<Checkpoint>,
}

impl Rows {
    fn take(&mut self, mut batch: Vec<Record>) -> Result<(), String> {
        for record in &mut batch {
            record.sequence = self.written;
            self.written += 1;
            self.last_ns = self.last_ns.max(record.start_ns);
            self.model.apply(&record.operation);
            if self.written >= self.next {
                self.checkpoint();
                self.next = self.written + checkpoint_after(self.model.files());
            }
        }
        self.writer.extend(&batch).map_err(|error| error.to_string())
    }

    fn checkpoint(&mut self) {
        let digest = self.model.digest();
        self.checkpoints.push(Checkpoint { thread: 0, sequence: self.written, digest });
    }

    fn finish(mut self, origin: &Origin) -> Result<(), String> {
        self.checkpoint();
        self.writer.set_origin(origin.clone());
        self.writer.finish(&self.checkpoints).map_err(|error| error.to_string())
    }
}

/// Reads the whole recording once; the rows that come of it are handed over in batches.
fn read(
    program: Program,
    input: &Path,
    options: &ImportOptions,
    mapper: &mut Mapper<'_>,
    take: &mut dyn FnMut(Vec<Record>) -> Result<(), ImportError>,
) -> Result<u64, ImportError> {
    let mut lines = Lines::open(input, options.allow_truncated)?;
    let mut parser = match program {
        Program::Strace => Parser::Strace(Box::new(strace::Strace::new(options.cwd.as_deref()))),
        Program::Fio => Parser::Fio(fio::Iolog::default()),
        Program::Csv => Parser::Csv(csv::Csv::default()),
    };
    while let Some((line, whole)) = lines.next()? {
        let taken = match &mut parser {
            Parser::Strace(parser) => parser.line(line, mapper),
            Parser::Fio(parser) => parser.line(line, mapper),
            Parser::Csv(parser) => parser.line(line, mapper),
        };
        match taken {
            Ok(()) => {}
            Err(_) if !whole => mapper.left_out("last line, cut off"),
            Err(what) => return Err(lines.malformed(what)),
        }
        if mapper.ready() {
            take(mapper.drain())?;
        }
    }
    match &mut parser {
        Parser::Strace(parser) => parser.end(mapper),
        Parser::Fio(parser) => parser.end().map_err(|what| lines.malformed(what))?,
        Parser::Csv(parser) => parser.end().map_err(|what| lines.malformed(what))?,
    }
    take(mapper.drain())?;
    Ok(lines.number())
}

/// One program's way of writing.
enum Parser {
    Strace(Box<strace::Strace>),
    Fio(fio::Iolog),
    Csv(csv::Csv),
}

/// A trace needs a load; nothing of it but the way of writing is used by a replay.
fn load() -> LoadSpec {
    LoadSpec {
        workload: WorkloadSpec::Drift(DriftSpec::default()),
        directory: PathBuf::from("/"),
        threads: 1,
        seed: 0,
        stop: StopSpec::default(),
        write_mode: WriteMode::Buffered,
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: true,
        deterministic: false,
        pace: None,
        continues: false,
    }
}

#[cfg(test)]
mod tests;
