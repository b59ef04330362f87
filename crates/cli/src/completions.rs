//! `fsage completions`: the completion script of a shell, from the same table as the parser.

use clap::Args;
use clap_complete::Shell;
use fsage_model::problem::{EXIT_OK, Problem};

use super::terminal::Terminal;

/// Arguments of `fsage completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example: fsage completions bash > /etc/bash_completion.d/fsage")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "fsage", &mut script);
    terminal.content(&String::from_utf8_lossy(&script))?;
    Ok(EXIT_OK)
}
