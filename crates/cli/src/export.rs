//! `fsage export`: the samples of a store as a table that other programs read.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use fsage_analysis::export::{self, EXPORT_VERSION, Format, Place, Table, Writer};
use fsage_analysis::report::text::counted;
use fsage_lab::store::Store;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::record::{TrialRecord, TrialStatus, Unread};
use fsage_sys::new_file::{NewFile, Readers};
use serde::Serialize;

use super::report::unwritten;
use super::terminal::Terminal;

/// Arguments of `fsage export`.
#[derive(Debug, Args)]
#[command(after_help = "\
One row per trial, metric and sample, of complete trials, in the order of the plan. docs/export.md describes the
columns; `fsage export --schema` prints the JSON Schema of the rows.
Exit codes: 2 no store, no complete trial, or an unknown format; 4 the file cannot be written; 5 a record is
damaged (FILE is not written).

Examples:
  fsage export store/aging --format parquet -o aging.parquet
  fsage export store/aging --format csv | head")]
pub struct ExportArgs {
    /// A study's store, such as store/aging
    #[arg(value_name = "STORE", required_unless_present = "schema")]
    pub store: Option<PathBuf>,
    /// Format of the table
    #[arg(long, value_name = "FORMAT", value_enum, required_unless_present = "schema")]
    pub format: Option<FormatChoice>,
    /// File to write; an existing one is replaced; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Leave out trials whose record is damaged instead of failing
    #[arg(long)]
    pub allow_damaged: bool,
    /// Print the JSON Schema of the rows instead
    #[arg(long, conflicts_with_all = ["store", "format", "allow_damaged"])]
    pub schema: bool,
}

/// A format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// Comma-separated values
    Csv,
    /// Apache Parquet
    Parquet,
    /// An array of objects
    Json,
    /// OpenMetrics 1.0
    #[value(name = "openmetrics")]
    OpenMetrics,
}

impl FormatChoice {
    const fn format(self) -> Format {
        match self {
            Self::Csv => Format::Csv,
            Self::Parquet => Format::Parquet,
            Self::Json => Format::Json,
            Self::OpenMetrics => Format::OpenMetrics,
        }
    }
}

/// What `fsage export --json` prints of a file.
#[derive(Debug, Serialize)]
struct Written<'a> {
    /// Version of the table.
    export_version: u32,
    /// The file.
    export: &'a Path,
    /// Trials in it.
    trials: usize,
    /// Rows in it.
    rows: u64,
}

/// Exports.
pub(crate) fn run(args: &ExportArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let (Some(store), Some(format)) = (&args.store, args.format) else {
        terminal.json(&export::schema())?;
        return Ok(EXIT_OK);
    };
    let to_output = args.output == Path::new("-");
    if to_output && terminal.json {
        return Err(Problem::new(
            EXIT_USAGE,
            "`--json` describes the file that was written, and no file was named",
        )
        .hint("add `-o FILE`, or leave out `--json`: `--format json` alone prints the rows as JSON"));
    }
    if to_output && format == FormatChoice::Parquet && io::stdout().is_terminal() {
        return Err(Problem::new(EXIT_USAGE, "cannot write Parquet to a terminal").hint("add `-o FILE`"));
    }
    let store = Store::open(store)?;
    let mut selected =
        Selected { store: &store, allow_damaged: args.allow_damaged, trials: 0, notes: Vec::new() };
    let rows = if to_output {
        let out = Box::new(BufWriter::new(io::stdout()));
        selected.write(format.format(), out, |error| match error.kind() {
            io::ErrorKind::BrokenPipe => Problem::reader_gone(),
            _ => Problem::new(EXIT_INTERNAL, "cannot write to standard output").because(error),
        })?
    } else {
        let failed = |error: &io::Error| unwritten(EXIT_FAILED, "export", &args.output, error);
        let file = NewFile::create(&args.output, Readers::All).map_err(|error| failed(&error))?;
        let shared = Shared(Arc::new(Mutex::new(file)));
        let rows = selected.write(format.format(), Box::new(BufWriter::new(shared.clone())), failed)?;
        let file =
            Arc::into_inner(shared.0).map(|file| file.into_inner().unwrap_or_else(PoisonError::into_inner));
        let file = file.ok_or_else(|| Problem::new(EXIT_INTERNAL, "the export is still being written"))?;
        file.commit().map_err(|error| failed(&error))?;
        rows
    };
    for note in &selected.notes {
        terminal.warn(note);
    }
    if terminal.json {
        let (export, trials) = (args.output.as_path(), selected.trials);
        terminal.json(&Written { export_version: EXPORT_VERSION, export, trials, rows })?;
    } else if !to_output {
        let of = counted(selected.trials, "trial");
        terminal.note(&format!("{}: {rows} rows of {of}", args.output.display()));
    }
    Ok(EXIT_OK)
}

/// A file that is written through a writer of its own and committed afterwards.
#[derive(Clone)]
struct Shared(Arc<Mutex<NewFile>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// The trials of a store that are exported.
struct Selected<'a> {
    store: &'a Store,
    allow_damaged: bool,
    /// Trials that were written.
    trials: usize,
    /// What was left out.
    notes: Vec<String>,
}

impl Selected<'_> {
    /// Writes all complete trials of the plan, one at a time; gives the number of rows.
    fn write(
        &mut self,
        format: Format,
        out: Box<dyn Write + Send + '_>,
        failed: impl Fn(&io::Error) -> Problem,
    ) -> Result<u64, Problem> {
        let store = self.store;
        let plan = store.plan();
        let table = Table::new(plan.trials.iter().map(|trial| &trial.factors));
        let block_size = plan.block_size();
        let mut seen = std::collections::BTreeSet::new();
        let mut waiting = Some(out);
        let mut writer = None;
        for (position, planned) in plan.trials.iter().enumerate().filter(|(_, trial)| seen.insert(&trial.id))
        {
            let Some(record) = self.complete(&planned.id)? else { continue };
            // Not before there is a trial: an export without one is an error, not a file.
            if let Some(out) = waiting.take() {
                writer = Some(Writer::new(format, &table, out).map_err(|error| failed(&error))?);
            }
            let place = Place { position, block: position / block_size, factors: &planned.factors };
            if let Some(writer) = &mut writer {
                writer.trial(&place, &record).map_err(|error| failed(&error))?;
                self.trials += 1;
            }
        }
        match writer {
            Some(writer) => writer.finish().map_err(|error| failed(&error)),
            None => Err(self.empty()),
        }
    }

    fn complete(&mut self, id: &str) -> Result<Option<TrialRecord<Unread>>, Problem> {
        match self.store.trial_without_stages(id) {
            Ok(Some(record)) if record.status == TrialStatus::Complete => Ok(Some(record)),
            Ok(Some(_)) => {
                self.notes.push(format!("trial {id} failed and is left out"));
                Ok(None)
            }
            Ok(None) => Ok(None),
            Err(reason) if self.allow_damaged => {
                self.notes.push(format!("trial {id} is left out: {reason}"));
                Ok(None)
            }
            Err(reason) => Err(Problem::new(
                EXIT_DAMAGE,
                format!("the record of trial {id} is damaged: {reason}"),
            )
            .hint(
                "run the study again: only what is damaged is repeated; or leave it out with `--allow-damaged`",
            )),
        }
    }

    fn empty(&self) -> Problem {
        let store = self.store.root().display();
        let message = format!("`{store}` has no complete trial to export");
        let why = if self.notes.is_empty() { String::new() } else { format!(": {}", self.notes.join("; ")) };
        Problem::new(EXIT_USAGE, format!("{message}{why}"))
            .hint("run its study until trials are complete: `fsage run STUDY --store STORE`")
    }
}
