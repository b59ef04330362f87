//! `fsage clean`: releases the leftovers of interrupted runs.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use fsage_model::escape;
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, Problem};
use serde_json::json;

use super::terminal::Terminal;
use super::text;
use fsage_lab::lease::record::Lease;
use fsage_lab::lease::{CleanReport, CleanSummary, StoreOutcome, StoreReport, clean_stores};

/// Arguments of `fsage clean`.
#[derive(Debug, Args)]
#[command(
    after_help = "Only what a lease journal names is released. Stores that a run is using are skipped."
)]
pub struct CleanArgs {
    /// Stores to clean [default: every store with leftovers]
    #[arg(value_name = "STORE")]
    pub stores: Vec<PathBuf>,
}

/// Cleans.
pub(crate) fn run(args: &CleanArgs, terminal: &Terminal) -> Result<u8, Problem> {
    if !fsage_lab::lease::are_own(&args.stores)? {
        super::require_root("releasing mounts and devices")?;
    }
    let report = clean_stores(&args.stores)?;
    if terminal.json {
        terminal.json(&as_json(&report))?;
    } else {
        terminal.result(&show(&report))?;
    }
    Ok(if report.is_clean() { EXIT_OK } else { EXIT_FAILED })
}

fn show(report: &CleanReport) -> String {
    if report.stores.is_empty() {
        return "nothing to clean\n".to_owned();
    }
    let lines: Vec<String> = report.stores.iter().flat_map(lines).collect();
    // Paths, command lines and errors are others' words.
    lines.iter().map(|line| format!("{}\n", escape::line(line))).collect()
}

/// What happened to one store's leases.
fn lines(store: &StoreReport) -> Vec<String> {
    let path = store.store.display();
    let summary = match &store.outcome {
        StoreOutcome::Cleaned(summary) => summary,
        StoreOutcome::InUse(by) => return vec![format!("{path}: in use by {by}, skipped")],
        StoreOutcome::Failed(why) => return vec![format!("{path}: {why}")],
    };
    let mut lines = vec![format!("{path}: {}", words(summary))];
    if let Some(damage) = &summary.damaged {
        let count = text::plural(u64::try_from(damage.lines).unwrap_or(u64::MAX), "line", "lines");
        let journal = damage.journal.display();
        lines.push(format!("  {count} of {journal} cannot be read: inspect it, then remove it"));
    }
    if let Some(ignored) = &summary.ignored {
        lines.push(format!("  {} is ignored: leases are not kept in stores", ignored.display()));
    }
    lines.extend(summary.released.iter().map(|lease| format!("  released {}", name(lease))));
    lines.extend(summary.left.iter().map(|(lease, why)| format!("  left {} alone: {why}", name(lease))));
    let failed = |(lease, why): &(Lease, String)| format!("  could not release {}: {why}", name(lease));
    lines.extend(summary.failed.iter().map(failed));
    lines
}

fn words(summary: &CleanSummary) -> String {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    if summary.released.is_empty() && summary.failed.is_empty() && summary.left.is_empty() {
        return match number(summary.expired.len()) {
            0 => "nothing left to release".to_owned(),
            n => format!("{} expired at a reboot", text::plural(n, "lease", "leases")),
        };
    }
    let mut text = format!("{} released", text::plural(number(summary.released.len()), "lease", "leases"));
    if !summary.failed.is_empty() {
        let _ = write!(text, ", {} not", text::count(number(summary.failed.len())));
    }
    text
}

pub(super) fn name(lease: &Lease) -> String {
    match lease {
        Lease::File { path } => format!("file {}", path.display()),
        Lease::Directory { path } => format!("directory {}", path.display()),
        Lease::Loop { file, offset_bytes: Some(offset), .. } => {
            format!("loop device over {} from byte {offset} on", file.display())
        }
        Lease::Loop { file, .. } => format!("loop device over {}", file.display()),
        Lease::Mount { point } => format!("mount {}", point.display()),
        Lease::Setting { path, old, .. } => format!("setting {} = {old}", path.display()),
        Lease::Process { pid, .. } => format!("process {pid}"),
        Lease::Layer { name, .. } => format!("layer {name}"),
        Lease::MemoryGroup { path } => format!("control group {}", path.display()),
        Lease::TraceInstance { name } => format!("trace instance {name}"),
        Lease::Disk { directory } => format!("virtual disk {}", directory.display()),
    }
}

fn as_json(report: &CleanReport) -> serde_json::Value {
    let stores: Vec<serde_json::Value> = report
        .stores
        .iter()
        .map(|store| match &store.outcome {
            StoreOutcome::Cleaned(summary) => {
                let failed: Vec<serde_json::Value> =
                    summary.failed.iter().map(|(lease, why)| json!({"lease": lease, "why": why})).collect();
                let left: Vec<serde_json::Value> =
                    summary.left.iter().map(|(lease, why)| json!({"lease": lease, "why": why})).collect();
                json!({
                    "store": store.store, "outcome": "cleaned", "released": summary.released,
                    "expired": summary.expired, "left": left, "failed": failed, "damaged_lines": summary.damaged.as_ref().map_or(0, |damage| damage.lines), "ignored": summary.ignored,
                })
            }
            StoreOutcome::InUse(by) => json!({"store": store.store, "outcome": "in-use", "by": by}),
            StoreOutcome::Failed(why) => json!({"store": store.store, "outcome": "failed", "why": why}),
        })
        .collect();
    json!({"stores": stores, "clean": report.is_clean()})
}
