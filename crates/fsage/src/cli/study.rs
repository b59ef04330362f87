//! `fsage study`: study files without running them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::explain::{EXIT_INTERNAL, EXIT_OK, Problem};
use super::terminal::Terminal;
use crate::study::spec::StudySpec;

/// Arguments of `fsage study`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct StudyArgs {
    /// What to do with studies.
    #[command(subcommand)]
    pub action: StudyAction,
}

/// What to do with studies.
#[derive(Debug, Subcommand)]
pub enum StudyAction {
    /// Check study files: syntax, keys, values, and that every trial resolves
    Check(CheckArgs),
    /// List the studies of a directory
    List(ListArgs),
    /// Print the JSON Schema of study files, for editors
    Schema,
}

/// Arguments of `fsage study check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Study files
    #[arg(value_name = "STUDY", required = true)]
    pub studies: Vec<PathBuf>,
}

/// Arguments of `fsage study list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Directory of study files
    #[arg(value_name = "DIR", default_value = "studies")]
    pub directory: PathBuf,
}

/// Does it.
pub(crate) fn run(args: &StudyArgs, terminal: &Terminal) -> Result<u8, Problem> {
    match &args.action {
        StudyAction::Schema => {
            terminal.json(&schemars::schema_for!(StudySpec))?;
            Ok(EXIT_OK)
        }
        StudyAction::Check(_) | StudyAction::List(_) => {
            Err(Problem::new(EXIT_INTERNAL, "`fsage study` is not built in"))
        }
    }
}
