//! `fsage clean`: gives back what killed runs left behind.

use std::path::PathBuf;

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage clean`.
#[derive(Debug, Args)]
#[command(
    after_help = "Only what a lease journal names is touched. Stores that a run is using are left alone."
)]
pub struct CleanArgs {
    /// Stores to clean [default: every store with something left]
    #[arg(value_name = "STORE")]
    pub stores: Vec<PathBuf>,
}

/// Cleans.
pub(crate) fn run(_args: &CleanArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage clean` is not built in"))
}
