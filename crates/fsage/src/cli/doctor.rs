//! `fsage doctor`: shows what [`crate::doctor`] found.

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exits with 0 when everything that `fsage run` needs is there, else with 3.")]
pub struct DoctorArgs {}

/// Examines the host.
pub(crate) fn run(_args: &DoctorArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage doctor` is not built in"))
}
