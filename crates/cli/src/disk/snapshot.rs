//! `fsage disk snapshot` and `fsage disk fault`.

use clap::{Args, Subcommand};
use fsage_disk::fault::Faults;
use fsage_model::disk::call::{self, SnapshotId};
use fsage_model::fault::FaultSpec;
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Problem};

use super::log::{NameArgs, ask};
use crate::terminal::Terminal;
use fsage_lab::disk::NamedDisk;

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Take a snapshot of the contents; prints its number
    Take(NameArgs),
    /// Restore the contents of a snapshot; the disk must not be mounted. A running log ends
    Revert(SnapshotArgs),
    /// Delete a snapshot
    Delete(SnapshotArgs),
}

/// A snapshot of a disk.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// The disk
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The snapshot's number
    #[arg(value_name = "NUMBER")]
    pub number: u32,
}

/// What to do with faults.
#[derive(Debug, Subcommand)]
pub enum FaultCommand {
    /// Inject faults into a disk, replacing those it has
    Set(FaultArgs),
    /// Remove all faults; every byte reads as it was written
    Clear(NameArgs),
}

/// Arguments of `fsage disk fault set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Lists read_error, write_error, ignored_flush, bit_rot, slow_region; each entry has offset_bytes and length_bytes, rate, or requests
(docs/disk.md).

Example:
  sudo fsage disk fault set old '{\"seed\": 7, \"read_error\": [{\"rate\": 0.001}]}'")]
pub struct FaultArgs {
    /// The disk
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The faults, as JSON
    #[arg(value_name = "JSON")]
    pub faults: String,
}

pub(super) fn run(command: &SnapshotCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        SnapshotCommand::Take(args) => take(&args.name, terminal)?,
        SnapshotCommand::Revert(args) => {
            crate::require_root("accessing a disk")?;
            NamedDisk::new(&args.name)?.refuse_in_use()?;
            ask(&args.name, call::Revert { snapshot: SnapshotId(args.number) }, terminal)?;
        }
        SnapshotCommand::Delete(args) => {
            ask(&args.name, call::DeleteSnapshot { snapshot: SnapshotId(args.number) }, terminal)?;
        }
    }
    Ok(EXIT_OK)
}

fn take(name: &str, terminal: &Terminal) -> Result<(), Problem> {
    let disk = NamedDisk::new(name)?;
    crate::require_root("accessing a disk")?;
    let kept = disk.ask(call::Snapshot)?;
    if terminal.json {
        return terminal.json(&kept);
    }
    terminal.result(&format!("{}\n", kept.snapshot.0))
}

pub(super) fn run_fault(command: &FaultCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        FaultCommand::Set(args) => {
            let size_bytes = NamedDisk::new(&args.name)?.find()?.size_bytes;
            let faults = faults(&args.faults, size_bytes)?;
            ask(&args.name, call::SetFaults { faults }, terminal)?;
        }
        FaultCommand::Clear(args) => ask(&args.name, call::ClearFaults, terminal)?,
    }
    Ok(EXIT_OK)
}

/// Faults as a flag says them; those of regions and rates must suit a disk of `size_bytes`.
pub(super) fn faults(text: &str, size_bytes: u64) -> Result<FaultSpec, Problem> {
    let wrong = |error: &dyn std::error::Error, hint: String| {
        Problem::new(EXIT_USAGE, format!("`{text}` is not a list of faults")).because(error).hint(hint)
    };
    let spec: FaultSpec = serde_json::from_str(text).map_err(|error| {
        let hint = "as JSON: {\"read_error\": [{\"rate\": 0.001}]}; docs/disk.md lists all kinds of faults";
        wrong(&error, hint.to_owned())
    })?;
    Faults::new(&spec, size_bytes).map_err(|error| wrong(&error, error.hint()))?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_before_the_disk_is_asked() {
        let text = r#"{"seed": 7, "ignored_flush": [{"rate": 1.0}]}"#;
        let spec = faults(text, 1 << 20).unwrap_or_else(|problem| panic!("{}", problem.render(false)));
        assert_eq!((spec.seed, spec.ignored_flush.len()), (7, 1));
        let beyond = r#"{"bit_rot": [{"offset_bytes": 4194304, "rate": 0.5}]}"#;
        for wrong in ["", "{", r#"{"bitrot": []}"#, r#"{"bit_rot": [{"rate": 7}]}"#, beyond] {
            let reported = faults(wrong, 1 << 20).map_err(|problem| problem.render(false)).unwrap_err();
            assert!(reported.contains("hint:"), "{reported}");
        }
    }
}
