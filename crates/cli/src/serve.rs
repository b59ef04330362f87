//! `fsage serve`: does trials for fsage on another host, which started it by SSH.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use clap::Args;
use fsage_model::problem::{EXIT_INTERNAL, EXIT_OK, Problem};

/// Arguments of `fsage serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Folder that it works in, and removes at its end
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
}

/// Serves until the other host has no more trials, or is gone.
pub(crate) fn run(args: &ServeArgs) -> Result<u8, Problem> {
    super::require_root("running trials")?;
    let failed = |error: io::Error| Problem::new(EXIT_INTERNAL, "cannot use the connection").because(&error);
    // Nothing else of this program may write into the frames, or take from them.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    let input = BufReader::with_capacity(256 << 10, input);
    fsage_lab::run::serve(&args.place, input, Box::new(BufWriter::new(output)))?;
    Ok(EXIT_OK)
}
