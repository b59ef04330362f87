//! `fsage device`: what a drive is, found out from outside.

mod erased;
mod fit;
mod fitted;
mod logged;
mod open_units;
mod probe;

use std::path::Path;

use clap::Subcommand;
use fsage_model::problem::Problem;

use super::terminal::Terminal;

pub use fit::FitArgs;
pub use probe::ProbeArgs;

/// What to do with devices.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// Measure at which alignments reads cost more: flash pages and erase blocks; changes nothing unless --open-units is given (needs root)
    Probe(ProbeArgs),
    /// Fit a device model to the read times of a drive and write it as a medium file; the drive is only read unless --writes is given (needs root)
    Fit(FitArgs),
}

/// Does it.
pub(crate) fn run(command: &DeviceCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        DeviceCommand::Probe(args) => probe::run(args, terminal),
        DeviceCommand::Fit(args) => fit::run(args, terminal),
    }
}

/// Why a device cannot be read, as the user asked for it, with a next step.
fn unreadable(device: &Path, problem: Problem) -> Problem {
    let next = "name a block device (`lsblk` lists them); reading one needs root";
    // A call that failed says why in its causes; an agent that cannot be asked says it itself.
    if !problem.message.ends_with(" failed") {
        return problem;
    }
    let hint = problem.hint.or_else(|| Some(next.to_owned()));
    Problem { message: format!("cannot read {}", device.display()), hint, ..problem }
}
