//! `fsage explain`: why a tree is slow to read, and suggested fixes; of a directory now, or of a store's
//! trials when they ended.

mod measured;
mod store;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use fsage_model::escape;
use fsage_model::explanation::{Explanation, Item};
use fsage_model::medium::MediumSpec;
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::quantity::as_f64;

use super::progress::Progress;
use super::terminal::Terminal;
use super::{report, text, verify};
use fsage_analysis::report::explain::{Map, in_short, page};
use fsage_analysis::report::text::nanoseconds;
use fsage_lab::explain::{DEFAULT_MEDIUM, explain};
use fsage_lab::target::Target;

/// Maps drawn on a terminal.
const MAPS: usize = 1;

/// Arguments of `fsage explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads no data and changes nothing. Times are computed by a device model, for file data only (docs/explain.md).
Your own files need no root; files of others and the map of other used space do.
For a store it prints what its trials recorded at their end, on the medium of their volumes.

Examples:
  sudo fsage explain /srv/mail
  sudo fsage explain / --medium ssd -o why.html
  sudo fsage explain /srv/mail --measured store/remedies
  fsage explain store/fullness --trial 3f")]
pub struct ExplainArgs {
    /// A directory, a mount point, or a study's store, such as store/aging
    #[arg(value_name = "PATH|STORE")]
    pub path: PathBuf,
    /// Device model (`fsage disk media` lists them) [default: hdd-7200; for a store each volume's own]
    #[arg(long, value_name = "MEDIUM")]
    pub medium: Option<String>,
    /// For a store: only trials whose id begins with ID (may be repeated)
    #[arg(long, value_name = "ID")]
    pub trial: Vec<String>,
    /// Report this many of the worst directories and files
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub worst: u32,
    /// A store of a study with a `remedy` stage (studies/remedies.toml): report its measured effect of the
    /// fixes on the file system of PATH
    #[arg(long, value_name = "STORE")]
    pub measured: Option<PathBuf>,
    /// Also write it as one HTML file, with maps
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Explains.
pub(crate) fn run(args: &ExplainArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let directory = verify::existing(&args.path).map_err(|problem| {
        problem.hint("give a directory, or the folder that `fsage run` printed, such as store/aging")
    })?;
    // A trial is asked for: a folder that is no store is a mistake.
    if store::is_store(&directory) || !args.trial.is_empty() {
        return store::run(args, terminal);
    }
    let medium = args.medium.as_deref().unwrap_or(DEFAULT_MEDIUM);
    let medium: MediumSpec = fsage_lab::medium_file::from_flag(medium).map_err(|error| {
        Problem::new(EXIT_USAGE, format!("`{medium}` is not a medium"))
            .because(&error)
            .hint("`fsage disk media` lists them")
    })?;
    // A store that is none is a mistake, whatever is found.
    let remedies = args.measured.as_deref().map(measured::read).transpose()?;
    let mut session = Target::local()?;
    let mut progress = Progress::new(terminal);
    if terminal.live {
        progress.stage(&format!("inspecting {}", args.path.display()));
    }
    // What was just written would have no place yet.
    session.call(call::Sync { directory: directory.clone() })?;
    let worst = usize::try_from(args.worst).unwrap_or(usize::MAX);
    let found = explain(&mut session, &directory.clone().into(), &medium, worst);
    let file_system = session.call(call::Usage { directory })?.file_system;
    progress.finish();
    let found = found?;
    let remedies = remedies.map(|remedies| measured::on(remedies, &file_system));
    if let Some(path) = &args.output {
        save(path, &page(&found, &args.path))?;
    }
    found.notes.iter().for_each(|note| terminal.note(&format!("note: {note}")));
    if terminal.json {
        match &remedies {
            Some(remedies) => terminal.json(&measured::Shown { explanation: &found, measured: remedies })?,
            None => terminal.json(&found)?,
        }
    } else {
        let mut text = show(&found, &args.path.display().to_string(), None, terminal);
        text.extend(remedies.map(|remedies| measured::show(&remedies, &file_system)));
        terminal.result(&text)?;
    }
    Ok(EXIT_OK)
}

fn save(path: &Path, page: &str) -> Result<(), Problem> {
    report::save("page", path, page.as_bytes())
}

/// An explanation of what is called `name`, of which there may be a copy that takes `copy_ns` to read.
fn show(found: &Explanation, name: &str, copy_ns: Option<u64>, terminal: &Terminal) -> String {
    let mut out = format!("{}: {}\n", terminal.bold(&escape::line(name)), in_short(found));
    let remedies = found.tree.remedies(copy_ns);
    out.push_str("\nSuggested fixes\n");
    if remedies.is_empty() {
        out.push_str("  nothing that would save as much as 5 %: it lies about as well as a copy\n");
    }
    for (what, ns) in remedies {
        let share = as_f64(ns) / as_f64(found.tree.now_ns.max(1)) * 100.0;
        let what = escape::line(what);
        let _ = writeln!(out, "  {what}: {} instead of {} ({share:.0} %)", time(ns), time(found.tree.now_ns));
    }
    for (title, items) in [("Worst directories", &found.directories), ("Worst files", &found.files)] {
        if !items.is_empty() {
            let _ = writeln!(out, "\n{title}\n{}", table(items).trim_end());
        }
    }
    for item in found.directories.iter().take(MAPS) {
        let _ = writeln!(out, "\nWhere {} lies on the volume", escape::line(&item.path));
        for row in Map::new(item, &found.used).text(terminal.unicode) {
            let _ = writeln!(out, "  {row}");
        }
        let _ = writeln!(out, "  {}", terminal.dim(Map::legend(terminal.unicode)));
    }
    out
}

fn time(ns: u64) -> String {
    nanoseconds(as_f64(ns))
}

fn table(items: &[Item]) -> String {
    let heading = ["", "extra", "now", "in a copy", "pieces", "files", "size"].map(str::to_owned).to_vec();
    let row = |item: &Item| {
        vec![
            item.path.clone(),
            time(item.extra_ns()),
            time(item.now_ns),
            time(item.copied_ns),
            text::count(item.extents),
            text::count(item.files),
            text::size(item.bytes),
        ]
    };
    let rows = std::iter::once(heading).chain(items.iter().map(row)).collect::<Vec<_>>();
    text::table(&rows, 2)
}
