//! `fsage replay`: a recorded trace once more, on another file system.

use std::path::PathBuf;

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory should be empty. The same trace ends in the same digest on every file system, unless an
operation fails that did not fail when it was recorded.

Example:
  fsage age /mnt/a --operations 50000 --trace run.parquet && fsage replay run.parquet /mnt/b")]
pub struct ReplayArgs {
    /// A trace that `fsage age --trace` wrote
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// An existing directory of a mounted file system
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Replays.
pub(crate) fn run(_args: &ReplayArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage replay` is not built in"))
}
