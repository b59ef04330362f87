//! `fsage kernel`: kernels for guests.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use fsage_lab::guest::kernel;
use fsage_model::escape;
use fsage_model::problem::{EXIT_OK, Problem};
use serde_json::json;

use super::terminal::Terminal;

/// What to do with kernels.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// List the kernels that were fetched
    List(ListArgs),
    /// Download a kernel with the distribution's package manager and unpack it; nothing is installed (needs root)
    Fetch(FetchArgs),
}

/// Arguments of `fsage kernel list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Also ask the distribution which kernels it has (needs root)
    #[arg(long)]
    pub available: bool,
}

/// Arguments of `fsage kernel fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Version, such as 6.1; `debian`: the newest that the distribution has
    #[arg(value_name = "VERSION", default_value = "debian")]
    pub kernel: String,
}

/// Lists or fetches.
pub(crate) fn run(command: &KernelCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        KernelCommand::List(args) => list(args, terminal)?,
        KernelCommand::Fetch(args) => {
            super::require_root("fetching kernels")?;
            let kernel = kernel::fetch(&args.kernel)?;
            if terminal.json {
                terminal.json(&json!({"release": kernel.release, "image": kernel.image}))?;
            } else {
                terminal.result(&format!("{} is ready for guests\n", escape::line(&kernel.release)))?;
            }
        }
    }
    Ok(EXIT_OK)
}

fn list(args: &ListArgs, terminal: &Terminal) -> Result<(), Problem> {
    let fetched: Vec<String> = kernel::list()?.into_iter().map(|kernel| kernel.release).collect();
    let available = match args.available {
        true => {
            super::require_root("asking the package manager")?;
            kernel::available()?
        }
        false => Vec::new(),
    };
    if terminal.json {
        return terminal.json(&json!({"fetched": fetched, "available": available}));
    }
    let mut text = String::new();
    for release in &fetched {
        let _ = writeln!(text, "{}", escape::line(release));
    }
    for release in available.iter().filter(|release| !fetched.contains(release)) {
        let _ = writeln!(text, "{}  not fetched", escape::line(release));
    }
    if text.is_empty() {
        text = "no kernel is fetched: run `fsage kernel fetch`\n".to_owned();
    }
    terminal.result(&text)
}
