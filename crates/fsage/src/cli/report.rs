//! `fsage report`: the page that shows a store.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use serde::Serialize;

use super::explain::{EXIT_FAILED, EXIT_OK, Problem};
use super::terminal::Terminal;
use super::text;
use crate::report::{ReportOptions, render};

/// Arguments of `fsage report`.
#[derive(Debug, Args)]
#[command(after_help = "The page is one file: it needs no network and no other file.")]
pub struct ReportArgs {
    /// A study's store, such as store/aging
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Where the page goes [default: STORE/report.html]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What `fsage report --json` prints.
#[derive(Debug, Serialize)]
struct Written<'a> {
    /// The page.
    report: &'a Path,
    /// Its size.
    bytes: usize,
}

/// Writes the report.
pub(crate) fn run(args: &ReportArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let page = render(&args.store, &ReportOptions::default())?;
    let path = args.output.clone().unwrap_or_else(|| args.store.join("report.html"));
    save(&path, page.as_bytes()).map_err(|error| {
        Problem::new(EXIT_FAILED, format!("cannot write the report `{}`", path.display())).because(&error)
    })?;
    if terminal.json {
        terminal.json(&Written { report: &path, bytes: page.len() })?;
    } else {
        terminal.result(&format!("{}\n", path.display()))?;
        let bytes = u64::try_from(page.len()).unwrap_or(u64::MAX);
        terminal.note(&format!("{}, one file: open it in a browser", text::size(bytes)));
    }
    Ok(EXIT_OK)
}

/// Writes beside the goal and renames, so that a page is never half there.
pub(super) fn save(path: &Path, page: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".report").suffix(".html.tmp").tempfile_in(folder)?;
    file.write_all(page)?;
    file.as_file().sync_all()?;
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(permissions)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
