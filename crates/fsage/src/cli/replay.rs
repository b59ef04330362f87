//! `fsage replay`: a recorded trace once more, on another file system.

use std::path::PathBuf;

use clap::Args;

use fsage_engine::protocol::{Reply, Request};

use super::explain::{EXIT_OK, EXIT_USAGE, Problem};
use super::progress::Progress;
use super::terminal::Terminal;
use super::{age, session, verify};
use crate::target::Incoming;

/// Arguments of `fsage replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory should be empty. Every replay of a trace ends in the same digest, whatever the file system,
unless an operation fails that did not fail when it was recorded. It is a digest of names and sizes as they
are on disk, and so not the one that `fsage age` prints.

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
pub(crate) fn run(args: &ReplayArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let trace = args.trace.canonicalize().map_err(|error| {
        Problem::new(EXIT_USAGE, format!("cannot read trace `{}`", args.trace.display())).because(&error)
    })?;
    let directory = verify::existing(&args.directory)?;
    let mut progress = Progress::new(terminal);
    progress.stage(&format!("replaying {} in {}", args.trace.display(), args.directory.display()));
    let reply = session::ask_interruptible(Request::Replay { trace, directory }, terminal, &mut |incoming| {
        if let Incoming::Event(event) = incoming {
            progress.event(&event);
        }
    });
    progress.finish();
    let reply = reply?;
    let Reply::Load { result } = reply else { return Err(session::unexpected(&reply)) };
    age::show(&result, &args.directory, "replayed in", terminal)?;
    Ok(EXIT_OK)
}
