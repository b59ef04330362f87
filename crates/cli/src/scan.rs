//! `fsage scan`: how fragmented a mounted file system is, read-only.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use fsage_model::escape;
use fsage_model::layout::{FreeSpace, FreeSpaceMethod, LayoutSummary, SizeHistogram};
use fsage_model::problem::{EXIT_INTERNAL, EXIT_OK, Problem};
use fsage_model::protocol::{Scanned, Usage, call};
use fsage_model::quantity::{as_f64, share};
use serde::Serialize;

use super::progress::Progress;
use super::terminal::Terminal;
use super::verdict::{LayoutVerdict, judge};
use super::{histogram, load, text, verify};
use fsage_lab::target::{Session, Target, TargetError};

/// Worst files shown on a terminal; JSON has up to 20.
const WORST: usize = 8;

/// Arguments of `fsage scan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Your own files need no root; files of others and the free-space map do.
The thresholds of the grades are in docs/scan.md.

Examples:
  fsage scan ~/src
  sudo fsage scan /")]
pub struct ScanArgs {
    /// A directory, or a mount point
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Threads that walk the tree; 0: one per CPU
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=256))]
    pub threads: u32,
    /// Also scan other file systems mounted below PATH
    #[arg(long)]
    pub cross_mounts: bool,
    /// Stay on the file system of PATH (the default)
    #[arg(long, short = 'x', conflicts_with = "cross_mounts")]
    pub one_file_system: bool,
}

/// What `fsage scan --json` prints.
#[derive(Debug, Serialize)]
struct ScanReport {
    /// What was scanned.
    path: PathBuf,
    /// Type of the file system that holds it.
    file_system: String,
    /// Bytes of it in use.
    used_bytes: u64,
    /// Its size in bytes.
    total_bytes: u64,
    /// Time of the walk.
    elapsed_ns: u64,
    /// Files and their extents.
    layout: LayoutSummary,
    /// Free space; null when it cannot be known.
    free_space: Option<FreeSpace>,
    /// Why it cannot be known; empty otherwise.
    free_space_unknown: String,
    /// In words.
    verdict: LayoutVerdict,
}

/// Scans.
pub(crate) fn run(args: &ScanArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let directory = verify::existing(&args.path)?;
    let mut session = Target::local()?;
    let mut progress = Progress::new(terminal);
    if terminal.live {
        progress.stage(&format!("scanning {}", args.path.display()));
    }
    let report = scan(&mut session, &directory, args);
    progress.finish();
    let report = report?;
    if !report.free_space_unknown.is_empty() {
        terminal.note(&format!("note: the free space is not shown: {}", report.free_space_unknown));
    }
    if terminal.json {
        terminal.json(&with_bounds(&report)?)?;
    } else {
        terminal.result(&show(&report, &args.path, terminal))?;
    }
    Ok(EXIT_OK)
}

/// The report as JSON, with the bounds of each histogram's buckets beside what they hold: sizes from
/// `from_bytes` to below `below_bytes`.
fn with_bounds(report: &ScanReport) -> Result<serde_json::Value, Problem> {
    let mut json = serde_json::to_value(report)
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot write the result as JSON").because(&error))?;
    for histogram in ["/layout/extent_histogram", "/layout/file_histogram", "/free_space/histogram"] {
        let Some(histogram) = json.pointer_mut(histogram) else { continue };
        let buckets = histogram.get("count").and_then(serde_json::Value::as_array).map_or(0, Vec::len);
        let (from, below): (Vec<u64>, Vec<u64>) = (0..buckets).map(SizeHistogram::bounds).unzip();
        histogram["from_bytes"] = from.into();
        histogram["below_bytes"] = below.into();
    }
    Ok(json)
}

fn scan(session: &mut Session, directory: &Path, args: &ScanArgs) -> Result<ScanReport, Problem> {
    let Usage { used_bytes, total_bytes, file_system, .. } =
        session.call(call::Usage { directory: directory.to_owned() })?;
    let Scanned { layout, elapsed_ns } = session.call(call::Scan {
        directory: directory.into(),
        threads: args.threads,
        one_file_system: !args.cross_mounts,
        detail: false,
    })?;
    let (free_space, free_space_unknown) = match session.call(call::FreeSpace { directory: directory.into() })
    {
        Ok(free_space) => (Some(free_space), String::new()),
        Err(TargetError::Failed { failure, .. }) => (None, unknown(&failure.message)),
        Err(error) => return Err(error.into()),
    };
    let verdict = judge(&layout, free_space.as_ref());
    Ok(ScanReport {
        path: directory.to_owned(),
        file_system,
        used_bytes,
        total_bytes,
        elapsed_ns,
        layout,
        free_space,
        free_space_unknown,
        verdict,
    })
}

fn unknown(message: &str) -> String {
    if rustix::process::geteuid().is_root() {
        message.to_owned()
    } else {
        format!("{message} (it needs root: try again with sudo)")
    }
}

fn show(report: &ScanReport, path: &Path, terminal: &Terminal) -> String {
    let layout = &report.layout;
    let mut text = format!(
        "{} {}\n\n",
        terminal.bold(&escape::line(&path.display().to_string())),
        terminal.dim(&format!(
            "{}, {} of {} in use ({}), scanned in {}",
            report.file_system,
            text::size(report.used_bytes),
            text::size(report.total_bytes),
            text::percent(share(report.used_bytes, report.total_bytes)),
            text::duration(as_f64(report.elapsed_ns))
        ))
    );
    for sentence in verdict(report, terminal) {
        let _ = writeln!(text, "  {sentence}");
    }
    text.push('\n');
    for (name, value) in facts(layout) {
        let _ = writeln!(text, "  {name:<12} {value}");
    }
    if let Some(free) = &report.free_space {
        let _ = writeln!(text, "  {:<12} {}", "free space", load::free_space(free));
        if !free.caveat.is_empty() {
            let _ = writeln!(text, "  {:<12} {}", "", terminal.dim(&free.caveat));
        }
    }
    let mut section = |title: &str, rows: &str| {
        let _ = write!(text, "\n  {}\n{rows}", terminal.bold(title));
    };
    section("Used extents by size", &histogram::rows(&layout.extent_histogram, "extents", terminal.unicode));
    if let Some(free) = &report.free_space {
        let title = format!("Free extents by size{}", method(free.method));
        section(&title, &histogram::rows(&free.histogram, "extents", terminal.unicode));
    }
    section("Files by size", &histogram::rows(&layout.file_histogram, "files", terminal.unicode));
    let worst = worst(layout);
    if !worst.is_empty() {
        section("Most fragmented files", &worst);
    }
    text
}

const fn method(method: FreeSpaceMethod) -> &'static str {
    match method {
        FreeSpaceMethod::Getfsmap => " (GETFSMAP)",
        FreeSpaceMethod::BtrfsTree => " (btrfs trees)",
        FreeSpaceMethod::FiemapComplement => " (estimate: what no file covers)",
    }
}

/// The sentences, the grade in its colour.
fn verdict(report: &ScanReport, terminal: &Terminal) -> Vec<String> {
    let grades = [report.verdict.files, report.verdict.free_space];
    let paint = |(sentence, grade): (&String, Option<super::verdict::Grade>)| match grade {
        Some(grade) => {
            let words = format!("{} fragmented", grade.name());
            sentence.replacen(&words, &terminal.paint(grade.style(), &words), 1)
        }
        None => sentence.clone(),
    };
    report.verdict.sentences.iter().zip(grades).map(paint).collect()
}

fn facts(layout: &LayoutSummary) -> Vec<(&'static str, String)> {
    let mut files = format!(
        "{} in {}, {}",
        text::plural(layout.files, "file", "files"),
        text::plural(layout.directories, "directory", "directories"),
        text::size(layout.size_bytes)
    );
    if layout.inline_files > 0 {
        let _ = write!(files, "; {} inline", text::count(layout.inline_files));
    }
    let mut facts = vec![("files", files), ("layout", load::layout(layout))];
    let mut extents = format!(
        "{}, {} mapped",
        text::plural(layout.extents, "extent", "extents"),
        text::size(layout.mapped_bytes)
    );
    if layout.unwritten_bytes > 0 {
        let _ = write!(extents, ", {} of it never written", text::size(layout.unwritten_bytes));
    }
    facts.push(("extents", extents));
    if let Some(score) = layout.inter_file_score.filter(|_| layout.mapped_files > 1) {
        facts.push((
            "inter-file",
            format!("{} of the files begin where the previous one ends", text::percent(score)),
        ));
    }
    if layout.directories > 0 {
        facts.push(("directories", format!("{:.1} files each", share(layout.files, layout.directories))));
    }
    if !layout.failed.is_empty() {
        let parts: Vec<String> =
            layout.failed.iter().map(|(errno, n)| format!("{} {errno}", text::count(*n))).collect();
        facts.push(("not seen", parts.join(", ")));
    }
    facts
}

fn worst(layout: &LayoutSummary) -> String {
    let mut text = String::new();
    for file in layout.worst.iter().filter(|f| f.extents > 1).take(WORST) {
        let _ = writeln!(
            text,
            "    {:>7} extents  {:>9}  {}",
            text::count(file.extents),
            text::size(file.bytes),
            escape::line(&file.path)
        );
    }
    text
}
