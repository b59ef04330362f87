//! `fsage trace`: inspect traces, make them of other programs' recordings, write them for other programs.

mod exchange;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fsage_engine::trace::{self, Reader, Record};
use fsage_engine::tree::DirectoryTree;
use fsage_model::digest::Digest;
use fsage_model::escape;
use fsage_model::operation::{Action, OperationKind};
use fsage_model::problem::{EXIT_OK, Problem};
use fsage_model::quantity::as_f64;
use serde_json::json;

use super::terminal::Terminal;
use super::text;

/// Bytes of output that are collected before they are written.
const OUTPUT_BYTES: usize = 1 << 16;

/// What to do with traces.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Summarise a trace: operations by kind, threads, time, failures, digest
    Info(InfoArgs),
    /// Show operations, one per line
    Show(ShowArgs),
    /// Convert a recording of strace or fio, or CSV, to a trace
    Import(exchange::ImportArgs),
    /// Write a trace as an iolog of fio, or as CSV
    Export(exchange::ExportArgs),
}

/// Arguments of `fsage trace info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
}

/// Arguments of `fsage trace show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns: number in the trace, seconds since the load began, thread, kind, path, offset, length, latency, result.

Example:
  fsage trace show run.parquet --kind append,fsync --from 1000 --count 20")]
pub struct ShowArgs {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// First operation to show, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Show at most N operations
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Show only these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    pub kind: Vec<OperationKind>,
}

fn kind(text: &str) -> Result<OperationKind, String> {
    let found = OperationKind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = OperationKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("it is one of {}", names.join(", "))
    })
}

/// Does it.
pub(crate) fn run(command: &TraceCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        TraceCommand::Info(args) => info(args, terminal)?,
        TraceCommand::Show(args) => show(args, terminal)?,
        TraceCommand::Import(args) => exchange::import(args, terminal)?,
        TraceCommand::Export(args) => exchange::export(args, terminal)?,
    }
    Ok(EXIT_OK)
}

/// What a trace holds, from its rows.
#[derive(Debug, Default)]
struct Counts {
    kinds: BTreeMap<OperationKind, (u64, u64)>,
    failed: BTreeMap<String, u64>,
    threads: BTreeMap<u32, u64>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Counts {
    fn add(&mut self, record: &Record, timed: bool) {
        let of_kind = self.kinds.entry(record.operation.kind()).or_default();
        of_kind.0 += 1;
        *self.threads.entry(record.thread).or_default() += 1;
        if record.outcome.errno != 0 {
            of_kind.1 += 1;
            let name = fsage_sys::errno::name(record.outcome.errno).to_owned();
            *self.failed.entry(name).or_default() += 1;
        }
        if timed {
            self.first_ns = Some(self.first_ns.map_or(record.start_ns, |first| first.min(record.start_ns)));
            self.last_ns = self.last_ns.max(record.start_ns.saturating_add(record.outcome.latency_ns));
        }
    }

    fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns))
    }
}

fn info(args: &InfoArgs, terminal: &Terminal) -> Result<(), Problem> {
    let mut reader = trace::read(&args.trace)?;
    let bytes = std::fs::metadata(&args.trace).map_or(0, |facts| facts.len());
    let preamble = reader.preamble().clone();
    let digest = digest(&reader);
    let mut counts = Counts::default();
    for (row, record) in (0_u64..).zip(&mut reader) {
        counts.add(&record?, row >= preamble.prelude);
    }
    let operations: u64 = counts.threads.values().sum();
    let each = as_f64(bytes) / as_f64(operations.max(1));
    if terminal.json {
        return terminal.json(&info_json(&reader, &counts, operations, bytes, digest.as_deref()));
    }
    let mut rows = vec![
        (
            "operations",
            format!(
                "{} in {}",
                text::count(operations),
                text::plural(as_u64(counts.threads.len()), "thread", "threads")
            ),
        ),
        ("span", text::duration(as_f64(counts.span_ns()))),
        ("failed", failures(&counts.failed)),
        ("size", format!("{}, {each:.1} bytes per operation, format {}", text::size(bytes), reader.format())),
        ("checkpoints", text::count(as_u64(reader.checkpoints().len()))),
        ("digest", digest.unwrap_or_else(|| "none: the trace has an older format".to_owned())),
    ];
    if preamble.prelude > 0 {
        rows.push((
            "prelude",
            format!(
                "{} create what existed before the recording",
                text::plural(preamble.prelude, "operation", "operations")
            ),
        ));
    }
    let mut lines = format!("{}\n\n", terminal.bold(&escape::line(&args.trace.display().to_string())));
    for (name, value) in rows {
        let _ = writeln!(lines, "  {name:<12} {}", escape::line(&value));
    }
    if let Some(origin) = &preamble.origin {
        lines.push_str(&exchange::origin_in_words(origin));
    }
    lines.push('\n');
    let mut table = vec![vec!["kind".to_owned(), "operations".to_owned(), "failed".to_owned()]];
    for (kind, (operations, failed)) in &counts.kinds {
        table.push(vec![kind.name().to_owned(), text::count(*operations), text::count(*failed)]);
    }
    lines.push_str(&text::table(&table, 2));
    terminal.result(&lines)
}

/// The same for programs.
fn info_json(
    reader: &Reader,
    counts: &Counts,
    operations: u64,
    bytes: u64,
    digest: Option<&str>,
) -> serde_json::Value {
    let preamble = reader.preamble();
    let kinds: BTreeMap<&str, _> = counts
        .kinds
        .iter()
        .map(|(kind, (operations, failed))| {
            (kind.name(), json!({"operations": operations, "failed": failed}))
        })
        .collect();
    json!({
        "format": reader.format(),
        "operations": operations,
        "threads": counts.threads,
        "kinds": kinds,
        "failed": counts.failed,
        "span_ns": counts.span_ns(),
        "prelude": preamble.prelude,
        "bytes": bytes,
        "bytes_per_operation": as_f64(bytes) / as_f64(operations.max(1)),
        "checkpoints": reader.checkpoints().len(),
        "digest": digest,
        "write_mode": preamble.load.write_mode,
        "origin": preamble.origin,
    })
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn failures(failed: &BTreeMap<String, u64>) -> String {
    if failed.is_empty() {
        return "none".to_owned();
    }
    let parts: Vec<String> = failed.iter().map(|(errno, n)| format!("{} {errno}", text::count(*n))).collect();
    parts.join(", ")
}

/// Digest at the end of the load, as its checkpoints have it.
fn digest(reader: &Reader) -> Option<String> {
    let mut last = vec![None; reader.preamble().directories.len()];
    for checkpoint in reader.checkpoints() {
        *last.get_mut(usize::try_from(checkpoint.thread).ok()?)? = Some(checkpoint.digest);
    }
    let mut whole = Digest::default();
    for digest in last {
        whole.merge(&digest?);
    }
    Some(whole.to_string())
}

/// The directories of each thread on the way through a trace.
struct Paths(Vec<DirectoryTree>);

impl Paths {
    fn new(reader: &Reader) -> Self {
        let trees = (0_u32..).zip(&reader.preamble().directories);
        Self(trees.map(|(thread, initial)| DirectoryTree::new(thread, initial.iter().copied())).collect())
    }

    fn of(&self, record: &Record) -> String {
        let mut path = Vec::new();
        let operation = &record.operation;
        let tree = usize::try_from(record.thread).ok().and_then(|thread| self.0.get(thread));
        if let Some(tree) = tree {
            tree.write_object_path(&mut path, operation);
            if let Action::Rename { target } | Action::Link { target } | Action::Symlink { target } =
                operation.action
            {
                path.extend_from_slice(b" -> ");
                tree.write_path(&mut path, target);
            }
        }
        String::from_utf8_lossy(&path).into_owned()
    }

    fn follow(&mut self, record: &Record) {
        let tree = usize::try_from(record.thread).ok().and_then(|thread| self.0.get_mut(thread));
        if let Some(tree) = tree.filter(|_| record.outcome.errno == 0) {
            tree.follow(&record.operation);
        }
    }
}

fn show(args: &ShowArgs, terminal: &Terminal) -> Result<(), Problem> {
    let reader = trace::read(&args.trace)?;
    let mut paths = Paths::new(&reader);
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut output = String::new();
    for (row, record) in (0_u64..).zip(reader) {
        if left == 0 {
            break;
        }
        let record = record?;
        if row >= args.from && (args.kind.is_empty() || args.kind.contains(&record.operation.kind())) {
            left -= 1;
            output.push_str(&if terminal.json {
                line_json(row, &record, &paths)
            } else {
                line(row, &record, &paths)
            });
            if output.len() >= OUTPUT_BYTES {
                terminal.result(&output)?;
                output.clear();
            }
        }
        paths.follow(&record);
    }
    terminal.result(&output)
}

fn result(record: &Record) -> String {
    match record.outcome.errno {
        0 => "ok".to_owned(),
        errno => fsage_sys::errno::name(errno).to_owned(),
    }
}

fn line(row: u64, record: &Record, paths: &Paths) -> String {
    let operation = &record.operation;
    let columns = operation.columns();
    format!(
        "{row:>8} {:>14.6} {:>3} {:<12} {} {} {} {} {}\n",
        as_f64(record.start_ns) / 1e9,
        record.thread,
        operation.kind().name(),
        paths.of(record),
        columns.offset,
        columns.length,
        text::duration(as_f64(record.outcome.latency_ns)).replace(' ', ""),
        result(record),
    )
}

fn line_json(row: u64, record: &Record, paths: &Paths) -> String {
    let operation = &record.operation;
    let columns = operation.columns();
    let object = json!({
        "operation": row,
        "thread": record.thread,
        "sequence": record.sequence,
        "start_ns": record.start_ns,
        "latency_ns": record.outcome.latency_ns,
        "kind": operation.kind(),
        "path": paths.of(record),
        "file": operation.file,
        "offset": columns.offset,
        "length": columns.length,
        "size": operation.size,
        "version": operation.version,
        "accesses": columns.accesses,
        "result": result(record),
    });
    format!("{object}\n")
}

/// The absolute path of a file that is to be written.
fn output_path(path: &Path) -> Result<PathBuf, Problem> {
    std::path::absolute(path).map_err(|error| {
        Problem::new(fsage_model::problem::EXIT_USAGE, "the output has no path").because(&error)
    })
}
