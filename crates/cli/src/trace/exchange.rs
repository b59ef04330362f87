//! `fsage trace import` and `export`.

use std::fmt::Write as _;
use std::io::BufWriter;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fsage_engine::export::{Format, export as write_trace};
use fsage_engine::import::{ImportOptions, ImportReport, Program, import as read_recording};
use fsage_engine::trace::{self, Origin};
use fsage_model::escape;
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Problem};
use fsage_model::quantity::as_f64;
use fsage_sys::new_file::{NewFile, Readers};

use super::output_path;
use crate::report::unwritten;
use crate::terminal::Terminal;
use crate::text;

/// Arguments of `fsage trace import`.
#[derive(Debug, Args)]
#[command(after_help = "\
How to record:
  strace -f -ttt -y -T -e trace=%file,%desc,%process -o FILE COMMAND
  fio --write_iolog=FILE JOB
  CSV: a first line `time_s,kind,path,offset,length,target` (docs/traces.md)

Names are not kept: files and directories become numbers. Files that existed before the recording are created by the trace's
first operations, as large as the recording needs them. What a trace cannot represent is counted, by reason.

Example:
  fsage trace import --from strace make.txt -o make.parquet --root /home/me/project")]
pub struct ImportArgs {
    /// The program that made the recording
    #[arg(long, value_name = "PROGRAM", value_enum)]
    pub from: ProgramChoice,
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The trace to write; one of that name is replaced
    #[arg(long, short, value_name = "TRACE")]
    pub output: PathBuf,
    /// Import only what is below this absolute path, which becomes the top of the trace's tree
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Working directory of strace, for relative paths (needed for recordings without -y)
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Ignore a truncated last line instead of refusing the file
    #[arg(long)]
    pub allow_truncated: bool,
}

/// A program that records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgramChoice {
    /// System calls
    Strace,
    /// Iologs, versions 2 and 3
    Fio,
    /// A line per operation
    Csv,
    /// Requests to a block device: not for a directory, but for a disk
    Blkparse,
}

/// Arguments of `fsage trace export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: FormatChoice,
    /// The file to write; one of that name is replaced
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Prefix of all paths
    #[arg(long, value_name = "DIR", default_value = "")]
    pub prefix: String,
}

/// A format for other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// An iolog, version 3: reads, writes and syncs
    Fio,
    /// A line per operation
    Csv,
}

pub fn import(args: &ImportArgs, terminal: &Terminal) -> Result<(), Problem> {
    let program = match args.from {
        ProgramChoice::Strace => Program::Strace,
        ProgramChoice::Fio => Program::Fio,
        ProgramChoice::Csv => Program::Csv,
        ProgramChoice::Blkparse => {
            return Err(Problem::new(EXIT_USAGE, "blkparse shows requests to a device, which name no files")
                .hint(format!(
                    "`fsage disk replay {} --model hdd-7200` or `--onto DISK` replays them",
                    args.file.display()
                )));
        }
    };
    for (flag, path) in [("--root", &args.root), ("--cwd", &args.cwd)] {
        if path.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(Problem::new(EXIT_USAGE, format!("{flag} is not an absolute path")));
        }
    }
    let options = ImportOptions {
        below: args.root.clone(),
        cwd: args.cwd.clone(),
        allow_truncated: args.allow_truncated,
    };
    let output = output_path(&args.output)?;
    let report = read_recording(program, &args.file, &output, &options)?;
    if terminal.json { terminal.json(&report) } else { terminal.result(&in_words(&report)) }
}

fn in_words(report: &ImportReport) -> String {
    let mut lines = format!(
        "{} from {} over {}\n",
        text::plural(report.operations, "operation", "operations"),
        text::plural(report.lines, "line", "lines"),
        text::duration(as_f64(report.span_ns)),
    );
    if report.prelude > 0 || report.directories > 0 {
        let _ = writeln!(
            lines,
            "existed before: {} with {}, {}",
            text::plural(report.prelude, "file", "files"),
            text::size(report.prelude_bytes),
            text::plural(report.directories, "directory", "directories"),
        );
    }
    lines.push_str(&origin_in_words(&report.origin));
    lines
}

/// What an import left out and changed, a line a reason.
pub fn origin_in_words(origin: &Origin) -> String {
    let mut lines = format!("recorded by {}; names were not kept\n", escape::line(&origin.program));
    for (what, counts) in [("left out", &origin.left_out), ("changed", &origin.changed)] {
        for (reason, count) in counts {
            let reason = escape::line(reason);
            let _ = writeln!(lines, "  {what:<9} {:>9}  {reason}", text::count(*count));
        }
    }
    lines
}

pub fn export(args: &ExportArgs, terminal: &Terminal) -> Result<(), Problem> {
    let reader = trace::read(&args.trace)?;
    let output = output_path(&args.output)?;
    let failed = |error| unwritten(EXIT_FAILED, "export", &output, &error);
    let file = NewFile::create(&output, Readers::All).map_err(failed)?;
    let format = match args.to {
        FormatChoice::Fio => Format::Fio,
        FormatChoice::Csv => Format::Csv,
    };
    let report = write_trace(reader, format, &args.prefix, &mut BufWriter::new(file.file()), &output)?;
    file.commit().map_err(failed)?;
    if terminal.json {
        return terminal.json(&report);
    }
    let mut lines = format!(
        "{} of {} written\n",
        text::plural(report.lines, "line", "lines"),
        text::plural(report.operations, "operation", "operations"),
    );
    for (reason, count) in &report.left_out {
        let _ = writeln!(lines, "  left out {:>9}  {reason}", text::count(*count));
    }
    terminal.result(&lines)
}
