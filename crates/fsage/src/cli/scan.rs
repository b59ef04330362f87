//! `fsage scan`: how fragmented a mounted file system is, read-only.

use std::path::PathBuf;

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage scan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Own files need no root; the files of others and the free-space map do.

Examples:
  fsage scan ~/src
  sudo fsage scan / --one-file-system")]
pub struct ScanArgs {
    /// A directory, or a mount point
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Threads that walk the tree; 0: one a CPU
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=256))]
    pub threads: u32,
    /// Do not cross into other mounted file systems
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
}

/// Scans.
pub(crate) fn run(_args: &ScanArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage scan` is not built in"))
}
