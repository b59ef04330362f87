//! `fsage verify`: is the data below a directory what fsage wrote?

use std::path::PathBuf;

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage verify`.
#[derive(Debug, Args)]
#[command(after_help = "Exits with 5 when a block is not what it must be. Files that fsage did not write \
                        are counted, not judged.")]
pub struct VerifyArgs {
    /// A directory that `fsage age` or `fsage replay` worked in
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Verifies.
pub(crate) fn run(_args: &VerifyArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage verify` is not built in"))
}
