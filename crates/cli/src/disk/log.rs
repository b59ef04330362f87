//! `fsage disk log`: the requests that reached a disk, and logs in files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use fsage_disk::log::convert::{self, Format, HeatSize, Opened, Options};
use fsage_disk::log::heat::{Axis, HeatMap};
use fsage_disk::log::show::{HEADING, Line, Row};
use fsage_disk::log::stream::Source as _;
use fsage_disk::log::summary::{Summary, Transfers};
use fsage_disk::log::{Filter, LogError};
use fsage_disk::request::Operation;
use fsage_model::disk::call::{self, Call, Converted};
use fsage_model::escape;
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_sys::new_file;
use serde_json::json;

use crate::terminal::Terminal;
use crate::text;
use fsage_lab::disk::NamedDisk;

/// Rows and columns of a heat map on a terminal.
const TERMINAL_HEAT: HeatSize = HeatSize { rows: 16, columns: 64, axis: Axis::Model };

/// Shades of a heat map, from nothing on.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// What to do with a log.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Start logging every request of a disk; an earlier log is dropped (needs root)
    Start(NameArgs),
    /// Stop logging and drop the log (needs root)
    Stop(NameArgs),
    /// Name the current position of the log (needs root)
    Mark(MarkArgs),
    /// Write the log of a disk to a file, while requests continue (needs root)
    Save(SaveArgs),
    /// Show requests, one per line
    Show(ShowArgs),
    /// Summarise requests: sizes, seeks, sequential share, layout score, heat map
    Summary(SummaryArgs),
    /// Convert a log to another format: fsage, dm-log-writes, or text of blkparse
    Convert(ConvertArgs),
}

/// A disk.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// The disk
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Arguments of `fsage disk log mark`.
#[derive(Debug, Args)]
pub struct MarkArgs {
    /// The disk
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Name of the position, one line
    #[arg(value_name = "TEXT")]
    pub text: String,
}

/// Arguments of `fsage disk log save`.
#[derive(Debug, Args)]
pub struct SaveArgs {
    /// The disk
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The file to write; must not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Leave out the data that was written
    #[arg(long)]
    pub without_data: bool,
}

/// Which requests are meant.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only these operations
    #[arg(long, value_name = "OPERATION", value_enum, value_delimiter = ',')]
    pub operation: Vec<OperationChoice>,
    /// Only requests that touch these bytes, such as 1GiB..2GiB
    #[arg(long, value_name = "FROM..TO")]
    pub bytes: Option<String>,
    /// Only these numbers, such as 100..200
    #[arg(long, value_name = "FROM..TO")]
    pub numbers: Option<String>,
    /// Only requests that started at these times, in seconds of the disk's clock, such as 1.5..2
    #[arg(long, value_name = "FROM..TO")]
    pub seconds: Option<String>,
    /// Only requests that failed
    #[arg(long)]
    pub failed: bool,
}

/// An operation of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OperationChoice {
    /// Read data
    Read,
    /// Write data
    Write,
    /// Flush the write buffer
    Flush,
    /// Discard (trim) blocks
    Discard,
    /// Write zeros
    Zero,
}

/// Arguments of `fsage disk log show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of a disk, or a log file in any format; write ./FILE if a disk has the same name
    #[arg(value_name = "LOG")]
    pub log: String,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Show at most N requests
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

/// Arguments of `fsage disk log summary`.
#[derive(Debug, Args)]
pub struct SummaryArgs {
    /// Name of a disk, or a log file in any format; write ./FILE if a disk has the same name
    #[arg(value_name = "LOG")]
    pub log: String,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// What the columns of the heat map show
    #[arg(long, value_name = "AXIS", value_enum, default_value_t)]
    pub axis: AxisChoice,
}

/// What the columns of a heat map follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AxisChoice {
    /// The disk's clock
    #[default]
    Model,
    /// The wall clock
    Real,
    /// The requests' numbers
    Number,
}

/// Arguments of `fsage disk log convert`.
#[derive(Debug, Args)]
#[command(after_help = "\
The first bytes of a file identify its format. dm-log-writes has no reads and no failed requests: they are left out and
counted. Text of blkparse has no data.

Example:
  fsage disk log convert requests.log requests.txt --to blkparse")]
pub struct ConvertArgs {
    /// The log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file to write; an existing one is replaced
    #[arg(value_name = "OUTPUT")]
    pub output: PathBuf,
    /// Its format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: FormatChoice,
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// A format of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// Everything, with data if it was logged
    Fsage,
    /// That of the kernel's dm-log-writes and QEMU's blklogwrites
    DmLogWrites,
    /// Text of blkparse
    Blkparse,
}

pub(super) fn run(command: &LogCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        LogCommand::Start(args) => ask(&args.name, call::StartLog { for_states: false }, terminal)?,
        LogCommand::Stop(args) => ask(&args.name, call::EndLog, terminal)?,
        LogCommand::Mark(args) => mark(args, terminal)?,
        LogCommand::Save(args) => save(args, terminal)?,
        LogCommand::Show(args) => show(args, terminal)?,
        LogCommand::Summary(args) => summary(args, terminal)?,
        LogCommand::Convert(args) => convert(args, terminal)?,
    }
    Ok(EXIT_OK)
}

/// Asks a disk something that has no answer but that it was done.
pub(super) fn ask(name: &str, call: impl Call<Reply = ()>, terminal: &Terminal) -> Result<(), Problem> {
    let disk = NamedDisk::new(name)?;
    crate::require_root("accessing a disk")?;
    disk.ask(call)?;
    if terminal.json { terminal.json(&()) } else { Ok(()) }
}

fn mark(args: &MarkArgs, terminal: &Terminal) -> Result<(), Problem> {
    let disk = NamedDisk::new(&args.name)?;
    crate::require_root("accessing a disk")?;
    let marked = disk.ask(call::Mark { name: args.text.clone() })?;
    if terminal.json { terminal.json(&marked) } else { Ok(()) }
}

fn save(args: &SaveArgs, terminal: &Terminal) -> Result<(), Problem> {
    let disk = NamedDisk::new(&args.name)?;
    crate::require_root("accessing a disk")?;
    let saved = save_to(&disk, &args.file, args.without_data)?;
    if terminal.json { terminal.json(&saved) } else { terminal.result(&reported(&saved)) }
}

fn save_to(disk: &NamedDisk, file: &Path, without_data: bool) -> Result<Converted, Problem> {
    let file = std::path::absolute(file)
        .map_err(|error| Problem::new(EXIT_USAGE, "the file has no path").because(&error))?;
    Ok(disk.ask(call::SaveLog { file, without_data })?)
}

fn reported(converted: &Converted) -> String {
    let mut line = format!(
        "{}, {} written",
        text::plural(converted.entries, "request", "requests"),
        text::plural(converted.marks, "mark", "marks")
    );
    for (count, what) in [
        (converted.reads_left_out, "reads left out: the format has none"),
        (converted.failed_left_out, "failed requests left out: the format has none"),
        (converted.ignored_flushes_left_out, "ignored flushes left out: they ordered nothing"),
        (converted.zeroes_as_writes, "zeroings written as writes"),
    ] {
        if count > 0 {
            line.push_str(&format!("; {} {what}", text::count(count)));
        }
    }
    line.push('\n');
    line
}

/// A log that is read: a file, or a copy of a disk's own that goes when this does.
struct Log {
    opened: Opened,
    _copy: Option<tempfile::TempDir>,
}

/// The log in a file of the working directory that has no disk's name. Who means a disk that is not there is
/// not to read what another user has put in its place.
fn of_no_disk(path: &Path) -> Result<Log, Problem> {
    let file = new_file::open_unnamed(path).map_err(|error| {
        let name = path.display();
        Problem::new(
            EXIT_FAILED,
            format!("there is no disk {name}, and the file of that name may belong to another user"),
        )
        .because(&error)
        .hint(format!("`fsage disk ls` shows the disks; the file is ./{name}"))
    })?;
    Ok(Log { opened: convert::of_file(file, path, &Options::default())?, _copy: None })
}

/// What has a slash is a file. Everything else is the disk of that name, and where there is none a file of the
/// working directory.
fn open(log: &str, terminal: &Terminal) -> Result<Log, Problem> {
    let path = Path::new(log);
    if log.contains('/') {
        return Ok(Log { opened: convert::open(path, &Options::default())?, _copy: None });
    }
    let is_file = path.is_file();
    let disk = match NamedDisk::new(log) {
        Ok(disk) if !is_file || disk.state().is_some() => disk,
        Err(problem) if !is_file => return Err(problem.into()),
        _ => return of_no_disk(path),
    };
    if is_file {
        terminal.note(&format!("note: this is the log of disk {log}; the file is ./{log}"));
    }
    crate::require_root("accessing a disk")?;
    let folder = tempfile::tempdir()
        .map_err(|error| Problem::new(EXIT_FAILED, "no folder for the log").because(&error))?;
    let file = folder.path().join("log");
    save_to(&disk, &file, true)?;
    Ok(Log { opened: convert::open(&file, &Options::default())?, _copy: Some(folder) })
}

fn show(args: &ShowArgs, terminal: &Terminal) -> Result<(), Problem> {
    let filter = filter(&args.filter)?;
    let mut log = open(&args.log, terminal)?;
    let first = log.opened.skip_to(filter.numbers.as_ref().map_or(0, |range| range.start))?;
    if !terminal.json {
        terminal.result(&format!("{HEADING}\n"))?;
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    convert::visit(&mut log.opened, first, &filter, |number, item, _| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        let shown = if terminal.json {
            terminal.json_line(&json!(Row::new(number, item)))
        } else {
            let line = Line { number, item }.to_string();
            terminal.result(&format!("{}\n", escape::line(&line)))
        };
        shown.map_err(Shown::Problem)?;
        Ok(left > 0)
    })
    .map_err(|error| match error {
        Shown::Problem(problem) => problem,
        Shown::Log(error) => error.into(),
    })
}

/// Why showing ended.
enum Shown {
    Problem(Problem),
    Log(LogError),
}

impl From<LogError> for Shown {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

fn summary(args: &SummaryArgs, terminal: &Terminal) -> Result<(), Problem> {
    let filter = filter(&args.filter)?;
    let mut log = open(&args.log, terminal)?;
    let axis = match args.axis {
        AxisChoice::Model => Axis::Model,
        AxisChoice::Real => Axis::Real,
        AxisChoice::Number => Axis::Number,
    };
    let size = HeatSize { axis, ..TERMINAL_HEAT };
    let size_bytes = log.opened.geometry().size_bytes;
    let (summary, heat) = convert::summarise(&mut log.opened, 0, &filter, size)?;
    if terminal.json {
        return terminal.json(&json!({"size_bytes": size_bytes, "summary": summary, "heat": heat}));
    }
    terminal.result(&(in_words(&summary) + &drawn(&heat)))
}

/// What the requests come to, in lines.
pub(super) fn in_words(summary: &Summary) -> String {
    let mut rows = vec![
        ["", "requests", "bytes", "mean", "sequential", "layout score", "mean time"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let share = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), text::percent);
    let mut add = |name: &str, of: &Transfers| {
        rows.push(vec![
            name.to_owned(),
            text::count(of.requests),
            text::size(of.bytes),
            text::size(fsage_model::quantity::to_u64(of.mean_bytes)),
            share(of.sequential_share),
            of.layout_score.map_or_else(|| "–".to_owned(), |score| format!("{score:.3}")),
            text::duration(of.mean_service_ns),
        ]);
    };
    add("reads", &summary.reads);
    add("writes", &summary.writes);
    let mut lines = text::table(&rows, 0);
    lines.push_str(&format!(
        "{} ({} ignored), {} forced writes, {} of {}, {} of {}, {} failed\n",
        text::plural(summary.flushes, "flush", "flushes"),
        text::count(summary.ignored_flushes),
        text::count(summary.fua_writes),
        text::plural(summary.discards, "discard", "discards"),
        text::size(summary.discard_bytes),
        text::plural(summary.zeroes, "zeroing", "zeroings"),
        text::size(summary.zero_bytes),
        text::count(summary.failed),
    ));
    lines.push_str(&format!(
        "{} by the disk's clock, {} by the wall clock\n",
        text::duration(as_f64(summary.model_ns)),
        text::duration(as_f64(summary.real_ns))
    ));
    lines
}

/// A heat map in shades: rows are ranges of the disk, columns are times.
fn drawn(heat: &HeatMap) -> String {
    let mut lines = String::new();
    for (what, rows) in [("read", &heat.read_bytes), ("written", &heat.write_bytes)] {
        let most = rows.iter().flatten().copied().max().unwrap_or(0);
        if most == 0 {
            continue;
        }
        lines.push_str(&format!("\n{what}, by place (rows of {}) and time\n", text::size(heat.row_bytes)));
        for (number, row) in rows.iter().enumerate() {
            let at = as_f64(number as u64 * heat.row_bytes);
            let cells: String = row.iter().map(|bytes| shade(*bytes, most)).collect();
            let at = text::size(fsage_model::quantity::to_u64(at));
            lines.push_str(&format!("{at:>10} │{}\n", cells.trim_end()));
        }
    }
    lines
}

/// Dark for much; anything at all is seen.
fn shade(bytes: u64, most: u64) -> char {
    if bytes == 0 {
        return SHADES[0];
    }
    let share = (as_f64(bytes) / as_f64(most)).sqrt();
    let levels = [0.25, 0.5, 0.75].iter().filter(|level| share > **level).count();
    SHADES[1 + levels]
}

fn convert(args: &ConvertArgs, terminal: &Terminal) -> Result<(), Problem> {
    let filter = filter(&args.filter)?;
    let options = Options::default();
    let mut opened = convert::open(&args.file, &options)?;
    let format = match args.to {
        FormatChoice::Fsage => Format::Fsage,
        FormatChoice::DmLogWrites => Format::DmLogWrites,
        FormatChoice::Blkparse => Format::Blkparse,
    };
    let converted = convert::save(&mut opened, &filter, &args.output, format, &options)?;
    if terminal.json { terminal.json(&converted) } else { terminal.result(&reported(&converted)) }
}

fn filter(args: &FilterArgs) -> Result<Filter, Problem> {
    let bytes = |text: &str| text.parse::<Bytes>().ok().map(|bytes| bytes.0);
    let number = |text: &str| text.parse::<u64>().ok();
    let seconds = |text: &str| {
        let value = text.parse::<f64>().ok().filter(|value| (0.0..1e9).contains(value))?;
        Some(fsage_model::quantity::to_u64(value * 1e9))
    };
    let operations = args.operation.iter().map(|choice| match choice {
        OperationChoice::Read => Operation::Read,
        OperationChoice::Write => Operation::Write,
        OperationChoice::Flush => Operation::Flush,
        OperationChoice::Discard => Operation::Discard,
        OperationChoice::Zero => Operation::Zero,
    });
    Ok(Filter {
        operations: operations.collect(),
        bytes: range("--bytes", args.bytes.as_deref(), bytes)?,
        numbers: range("--numbers", args.numbers.as_deref(), number)?,
        issued_ns: range("--seconds", args.seconds.as_deref(), seconds)?,
        arrived_ns: None,
        failed: args.failed,
    })
}

/// `FROM..TO`, each end of which may be left out.
fn range(
    flag: &str,
    text: Option<&str>,
    read: impl Fn(&str) -> Option<u64>,
) -> Result<Option<Range<u64>>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || {
        Problem::new(EXIT_USAGE, format!("`{flag} {text}` is not a range"))
            .hint("write it as FROM..TO; an end may be left out")
    };
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let end = |text: &str, none| if text.is_empty() { Some(none) } else { read(text) };
    match (end(from, 0), end(to, u64::MAX)) {
        (Some(from), Some(to)) if from < to => Ok(Some(from..to)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_ends_that_may_be_left_out() {
        let number = |text: &str| text.parse::<u64>().ok();
        let of = |text| range("--numbers", Some(text), number).map_err(|problem| problem.render(false));
        assert_eq!(of("3..9"), Ok(Some(3..9)));
        assert_eq!(of("..9"), Ok(Some(0..9)));
        assert_eq!(of("3.."), Ok(Some(3..u64::MAX)));
        for wrong in ["3", "9..3", "3..3", "a..b", ""] {
            assert!(of(wrong).unwrap_err().contains("is not a range"), "{wrong}");
        }
        assert_eq!(range("--numbers", None, number).map_err(|_| ()), Ok(None));
    }

    #[test]
    fn filters_say_what_was_asked() {
        let args = FilterArgs {
            operation: vec![OperationChoice::Write, OperationChoice::Flush],
            bytes: Some("1MiB..2MiB".to_owned()),
            numbers: None,
            seconds: Some("0.5..".to_owned()),
            failed: true,
        };
        let found = filter(&args).unwrap_or_else(|problem| panic!("{}", problem.render(false)));
        assert_eq!(found.operations, [Operation::Write, Operation::Flush]);
        assert_eq!((found.bytes, found.issued_ns), (Some(1 << 20..2 << 20), Some(500_000_000..u64::MAX)));
        assert!(found.failed);
    }

    #[test]
    fn shades_show_the_least() {
        assert_eq!([0, 1, 100, 400, 1000].map(|bytes| shade(bytes, 1000)), [' ', '░', '▒', '▓', '█']);
        let heat = HeatMap {
            axis: Axis::Model,
            row_bytes: 1 << 20,
            column_width: 1,
            start: 0,
            read_bytes: vec![vec![]],
            write_bytes: vec![vec![0, 10], vec![]],
        };
        let text = drawn(&heat);
        assert!(text.contains("written") && !text.contains("\nread"), "{text}");
        assert!(text.contains("│ █"), "{text}");
    }

    #[test]
    fn what_was_left_out_is_told() {
        let converted = Converted { entries: 1, reads_left_out: 1200, ..Converted::default() };
        assert_eq!(
            reported(&converted),
            "1 request, 0 marks written; 1,200 reads left out: the format has none\n"
        );
    }
}
