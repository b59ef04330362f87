//! `fsage report`: the page that shows a store.

use std::path::PathBuf;

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage report`.
#[derive(Debug, Args)]
#[command(after_help = "The page is one file: it needs no network and no other file.")]
pub struct ReportArgs {
    /// A study's store, such as store/aging
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Where the page goes [default: STORE/report.html]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Writes the report.
pub(crate) fn run(_args: &ReportArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage report` is not built in"))
}
