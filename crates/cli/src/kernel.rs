//! `fsage kernel`: kernels for guests.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use fsage_lab::guest::{kernel, program};
use fsage_model::escape;
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::study::Architecture;
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
    /// Architecture of the kernels that are asked for: `x86_64` or `aarch64` [default: this host's]
    #[arg(long, value_name = "NAME", value_parser = architecture, requires = "available")]
    pub architecture: Option<Architecture>,
}

/// Arguments of `fsage kernel fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Version, such as 6.1; `debian`: the newest that the distribution has
    #[arg(value_name = "VERSION", default_value = "debian")]
    pub kernel: String,
    /// Architecture of the guests, `x86_64` or `aarch64` [default: this host's]; for another one than this host's, the programs of
    /// file systems are fetched, too
    #[arg(long, value_name = "NAME", value_parser = architecture)]
    pub architecture: Option<Architecture>,
    /// Also fetch the programs of this package, with all it needs (for another architecture)
    #[arg(long = "package", value_name = "PACKAGE", requires = "architecture")]
    pub packages: Vec<String>,
}

fn architecture(name: &str) -> Result<Architecture, String> {
    let known = Architecture::ALL.map(Architecture::name).join(", ");
    Architecture::named(name).ok_or_else(|| format!("known architectures: {known}"))
}

/// Lists or fetches.
pub(crate) fn run(command: &KernelCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        KernelCommand::List(args) => list(args, terminal)?,
        KernelCommand::Fetch(args) => {
            super::require_root("fetching kernels")?;
            fetch(args, terminal)?;
        }
    }
    Ok(EXIT_OK)
}

fn fetch(args: &FetchArgs, terminal: &Terminal) -> Result<(), Problem> {
    let own = args.architecture.is_none_or(|architecture| architecture.name() == std::env::consts::ARCH);
    if own && !args.packages.is_empty() {
        let hint = Some("install the package here".to_owned());
        let message = "guests of this host's architecture have its own programs";
        return Err(Problem { hint, ..Problem::new(EXIT_USAGE, message.to_owned()) });
    }
    program::check(&args.packages)?;
    let kernel = kernel::fetch(&args.kernel, args.architecture)?;
    let packages = match args.architecture {
        Some(architecture) => program::fetch(architecture, &args.packages)?,
        None => Vec::new(),
    };
    if terminal.json {
        let found = json!({"release": kernel.release, "image": kernel.image, "packages": packages});
        return terminal.json(&found);
    }
    let mut text = format!("{} is ready for guests", escape::line(&kernel.release));
    if !packages.is_empty() {
        let _ = write!(text, ", with programs of {}", packages.join(", "));
    }
    terminal.result(&(text + "\n"))
}

fn list(args: &ListArgs, terminal: &Terminal) -> Result<(), Problem> {
    let fetched: Vec<String> = kernel::list()?.into_iter().map(|kernel| kernel.release).collect();
    let available = match args.available {
        true => {
            super::require_root("asking the package manager")?;
            kernel::available(args.architecture)?
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
