//! `fsage verify`: is the data below a directory what fsage wrote?

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use fsage_model::escape;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::verify::VerifyResult;

use super::terminal::Terminal;
use super::{session, text};

/// Findings shown on a terminal; JSON has up to 100.
const SHOWN: usize = 10;

/// What unwritten blocks mean.
const UNWRITTEN: &str = "unwritten: `fsage age --write-mode fast` was stopped or killed before it wrote the data; nothing was lost. \
                         Age again, and let it finish";

/// Arguments of `fsage verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 5 when a block differs from what was written. Files that fsage did not write \
                        are counted, not checked."
)]
pub struct VerifyArgs {
    /// A directory that `fsage age` or `fsage replay` worked in
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Also check other file systems mounted below DIR
    #[arg(long)]
    pub cross_mounts: bool,
}

/// Verifies.
pub(crate) fn run(args: &VerifyArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let directory = existing(&args.directory)?;
    let verify = call::Verify { directory: directory.into(), cross_mounts: args.cross_mounts };
    let result = session::ask(verify)?;
    if terminal.json {
        terminal.json(&result)?;
    } else {
        terminal.result(&show(&result, &args.directory, terminal))?;
    }
    Ok(if bad(&result) == 0 { EXIT_OK } else { EXIT_DAMAGE })
}

/// The absolute path of a directory that is there.
///
/// # Errors
/// Exit code 2 when there is none.
pub(crate) fn existing(path: &Path) -> Result<PathBuf, Problem> {
    let problem = || Problem::new(EXIT_USAGE, format!("cannot inspect `{}`", path.display()));
    let found = path.canonicalize().map_err(|error| problem().because(&error))?;
    if found.is_dir() {
        return Ok(found);
    }
    Err(Problem::new(EXIT_USAGE, format!("`{}` is not a directory", path.display())))
}

/// As [`existing`], with the links in it: anyone who changes what is below has to see whose they are.
pub(crate) fn existing_as_named(path: &Path) -> Result<PathBuf, Problem> {
    existing(path)?;
    std::path::absolute(path)
        .map_err(|error| Problem::new(EXIT_USAGE, "the directory has no absolute path").because(&error))
}

fn bad(result: &VerifyResult) -> u64 {
    result.bad_blocks.values().sum()
}

fn show(result: &VerifyResult, directory: &Path, terminal: &Terminal) -> String {
    let verdict = if bad(result) > 0 {
        terminal.paint("1;31", "damaged")
    } else if result.good_blocks == 0 {
        terminal.paint("1;33", "no fsage data found")
    } else {
        terminal.paint("1;32", "every block is correct")
    };
    let mut text =
        format!("{} {verdict}\n\n", terminal.bold(&escape::line(&format!("{}:", directory.display()))));
    let _ = writeln!(
        text,
        "  read         {}, {}",
        text::plural(result.files, "file", "files"),
        text::size(result.bytes)
    );
    let _ = writeln!(text, "  right        {}", text::plural(result.good_blocks, "block", "blocks"));
    for (what, blocks) in &result.bad_blocks {
        let _ = writeln!(text, "  {what:<12} {}", text::plural(*blocks, "block", "blocks"));
    }
    if result.foreign_files > 0 {
        let _ = writeln!(text, "  not ours     {}", text::plural(result.foreign_files, "file", "files"));
    }
    if !result.findings.is_empty() {
        text.push('\n');
    }
    for finding in result.findings.iter().take(SHOWN) {
        let line = format!("{} at {}: {}", finding.path, finding.offset, finding.what);
        let _ = writeln!(text, "  {}", escape::line(&line));
    }
    if result.bad_blocks.contains_key("unwritten") {
        let _ = writeln!(text, "\n  {}", terminal.dim(UNWRITTEN));
    }
    text
}
