//! `fsage disk`: virtual disks of any medium, for use with anything.

mod log;
mod media;
mod replay;
mod snapshot;
mod stat;
mod up;

use clap::{Args, Subcommand};
use fsage_model::problem::{EXIT_OK, Problem};
use serde_json::json;

use super::terminal::Terminal;
use super::text;
use fsage_lab::disk::{self, DiskState, NamedDisk};

/// What to do with virtual disks.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Bring a disk up; prints the block device (needs root)
    Up(up::UpArgs),
    /// Take a disk down, with all that it holds (needs root)
    Down(DownArgs),
    /// List the disks, their devices and media
    Ls(ListArgs),
    /// Show what a disk counted: requests, times, seeks, wear (needs root)
    Stat(stat::StatArgs),
    /// The requests that reached a disk: keep, show, filter, sum up, convert
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Do the requests of a log again, on a medium's model or on a disk
    Replay(replay::ReplayArgs),
    /// Keep the contents of a disk, and go back to them (needs root)
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Let a disk read, write or flush wrongly, and end that (needs root)
    #[command(subcommand)]
    Fault(snapshot::FaultCommand),
    /// List the media, with their parameters and where those come from
    Media(media::MediaArgs),
}

/// Arguments of `fsage disk down`.
#[derive(Debug, Args)]
#[command(
    after_help = "A disk that something is mounted from is refused; one whose server died is cleaned away."
)]
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
            DiskState::Up(record) => lines.push_str(&format!(
                "{name:<12} {:<12} {:>9}  {}, {} time{}\n",
                record.device.display(),
                text::size(record.size_bytes),
                record.medium,
                fsage_lab::tools::fsage_disk::time_word(record.time),
                if record.log { ", logged" } else { "" },
            )),
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
