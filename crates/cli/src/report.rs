//! `fsage report`: the page that shows a store.

use std::path::{Path, PathBuf};

use clap::Args;
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_sys::new_file::{self, ForeignFolder, Readers};
use serde::Serialize;

use super::terminal::Terminal;
use super::text;
use fsage_analysis::report::findings::{Findings, findings};
use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::store::Reader;

/// Arguments of `fsage report`.
#[derive(Debug, Args)]
#[command(after_help = "The page is one file: it needs no network and no other file.")]
pub struct ReportArgs {
    /// A study's store, such as store/aging
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// File to write [default: STORE/report.html]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What `fsage report --json` prints.
#[derive(Debug, Serialize)]
struct Written<'a> {
    /// What the tables of the page say, unrounded.
    findings: Findings,
    /// The page.
    report: &'a Path,
    /// Its size.
    bytes: usize,
}

/// Writes the report.
pub(crate) fn run(args: &ReportArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let (records, options) = (Reader::open(&args.store)?, ReportOptions::default());
    let page = render(&records, &options)?;
    let path = args.output.clone().unwrap_or_else(|| args.store.join("report.html"));
    save("report", &path, page.as_bytes())?;
    if terminal.json {
        let findings = findings(&records, &options)?;
        terminal.json(&Written { findings, report: &path, bytes: page.len() })?;
    } else {
        terminal.result(&format!("{}\n", path.display()))?;
        let bytes = u64::try_from(page.len()).unwrap_or(u64::MAX);
        terminal.note(&format!("{}, one file: open it in a browser", text::size(bytes)));
    }
    Ok(EXIT_OK)
}

/// Writes a page, whole or not at all.
///
/// # Errors
/// What the user sees, with the `what` of the page (`report`, `map`).
pub(super) fn save(what: &str, path: &Path, page: &[u8]) -> Result<(), Problem> {
    new_file::write(path, page, Readers::All).map_err(|error| unwritten(EXIT_FAILED, what, path, &error))
}

/// What says that a file named by the user was not written.
pub(super) fn unwritten(exit_code: u8, what: &str, path: &Path, error: &std::io::Error) -> Problem {
    let foreign = ForeignFolder::is(error);
    let exit_code = if foreign { EXIT_USAGE } else { exit_code };
    let problem = Problem::new(exit_code, format!("cannot write the {what} `{}`", path.display()));
    let problem = problem.because(error);
    if foreign { problem.hint(ForeignFolder::HINT) } else { problem }
}
