//! `fsage run`: a study, trial by trial, with progress.

use std::path::PathBuf;

use clap::Args;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Running again resumes: complete trials are kept, the others are tried again.

Examples:
  sudo fsage run studies/aging.toml --quick
  sudo fsage run studies/aging.toml --set file_system.kind=xfs --set repeats=5
  fsage run studies/aging.toml --quick --dry-run")]
pub struct RunArgs {
    /// The study's TOML file
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// Use the study's `quick` profile: minutes instead of hours
    #[arg(long, conflicts_with = "profile")]
    pub quick: bool,
    /// Use this profile of the study
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Change the study: a dotted path and a TOML value, such as `stage.age.threads=2`; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Where trials are stored [default: store/NAME of the study]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Print every command and write that would be made, and make none
    #[arg(long)]
    pub dry_run: bool,
    /// Allow this block device, named by the study, to be erased; `PATH=SERIAL` even if it carries a
    /// foreign signature; may be repeated
    #[arg(long, value_name = "PATH[=SERIAL]")]
    pub erase: Vec<String>,
}

/// Runs the study.
pub(crate) fn run(args: &RunArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    if !args.dry_run {
        super::require_root("running a study")?;
    }
    Err(Problem::new(EXIT_INTERNAL, "`fsage run` is not built in"))
}
