//! `fsage disk`: virtual disks of any medium, for use with anything.

mod log;
mod media;
mod replay;
mod snapshot;
mod stat;
mod up;

use std::path::Path;

use clap::{Args, Subcommand};
use fsage_model::problem::{EXIT_OK, Problem};
use serde_json::json;

use super::terminal::Terminal;
use super::text;
use fsage_lab::disk::{self, DiskRecord, DiskState, NamedDisk, PartitionRecord};
use fsage_model::medium::PartitionSpec;

/// What to do with virtual disks.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Create a disk; prints its block device (needs root)
    Up(up::UpArgs),
    /// Delete a disk and its contents (needs root)
    Down(DownArgs),
    /// List the disks, their devices and media
    Ls(ListArgs),
    /// Show the counters of a disk: requests, times, seeks, wear (needs root)
    Stat(stat::StatArgs),
    /// Log the requests that reach a disk; show, filter, summarise and convert logs
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Replay the requests of a log on a device model or on a disk
    Replay(replay::ReplayArgs),
    /// Take, restore and delete snapshots of a disk (needs root)
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Inject faults into a disk: failing or wrong reads, writes, flushes (needs root)
    #[command(subcommand)]
    Fault(snapshot::FaultCommand),
    /// List the media, their parameters and the sources of the values
    Media(media::MediaArgs),
}

/// Arguments of `fsage disk down`.
#[derive(Debug, Args)]
#[command(after_help = "A mounted disk is refused; leftovers of a disk whose server died are removed.")]
pub struct DownArgs {
    /// The disks
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
}

/// Arguments of `fsage disk ls`.
#[derive(Debug, Args)]
pub struct ListArgs {}

/// Does it.
pub(crate) fn run(command: &DiskCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        DiskCommand::Up(args) => up::run(args, terminal),
        DiskCommand::Down(args) => down(args, terminal),
        DiskCommand::Ls(ListArgs {}) => list(terminal),
        DiskCommand::Stat(args) => stat::run(args, terminal),
        DiskCommand::Log(command) => log::run(command, terminal),
        DiskCommand::Replay(args) => replay::run(args, terminal).map(|()| EXIT_OK),
        DiskCommand::Snapshot(command) => snapshot::run(command, terminal),
        DiskCommand::Fault(command) => snapshot::run_fault(command, terminal),
        DiskCommand::Media(args) => media::run(args, terminal),
    }
}

fn down(args: &DownArgs, terminal: &Terminal) -> Result<u8, Problem> {
    super::require_root("taking a disk down")?;
    let disks = args.names.iter().map(|name| NamedDisk::new(name)).collect::<Result<Vec<_>, _>>()?;
    for disk in &disks {
        disk.down()?;
    }
    if terminal.json {
        terminal.json(&json!({"down": args.names}))?;
    }
    Ok(EXIT_OK)
}

fn list(terminal: &Terminal) -> Result<u8, Problem> {
    let disks: Vec<(String, DiskState)> = disk::names()
        .into_iter()
        .filter_map(|name| Some((name.clone(), NamedDisk::new(&name).ok()?.state()?)))
        .collect();
    if terminal.json {
        let rows: Vec<_> = disks
            .iter()
            .map(|(name, state)| match state {
                DiskState::Up(record) => json!({"name": name, "state": "up", "disk": record}),
                DiskState::Dead(record) => json!({"name": name, "state": "dead", "disk": record}),
            })
            .collect();
        terminal.json(&rows)?;
        return Ok(EXIT_OK);
    }
    let mut lines = String::new();
    for (name, state) in &disks {
        match state {
            DiskState::Up(record) => lines.push_str(&listed(name, record)),
            DiskState::Dead(_) => {
                lines.push_str(&format!("{name:<12} dead: `fsage disk down {name}` removes what is left\n"));
            }
        }
    }
    if disks.is_empty() {
        lines.push_str("no disk is up\n");
    }
    terminal.result(&lines)?;
    Ok(EXIT_OK)
}

/// A disk that is up: a line, or one for each partition of it.
fn listed(name: &str, record: &DiskRecord) -> String {
    let time = fsage_lab::tools::fsage_disk::time_word(record.time);
    let logged = if record.log { ", logged" } else { "" };
    let line = |device: &Path, size_bytes: u64, at: &str| {
        let (device, size) = (device.display(), text::size(size_bytes));
        format!("{name:<12} {device:<12} {size:>9}  {}, {time} time{logged}{at}\n", record.medium)
    };
    if record.partitions.is_empty() {
        return line(&record.device, record.size_bytes, "");
    }
    let of = |partition: &PartitionRecord| {
        let PartitionSpec { size, at } = partition.partition;
        let at = at.map_or_else(|| ", after the previous one".to_owned(), |at| format!(", at {at}"));
        line(&partition.device, size.0, &at)
    };
    record.partitions.iter().map(of).collect()
}
