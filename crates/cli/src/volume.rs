//! `fsage volume`: partitions of a real disk, to be volumes of studies.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fsage_model::problem::{EXIT_OK, Problem};
use fsage_model::protocol::{DiskPartition, SplitDisk};
use fsage_model::size::Bytes;
use serde_json::json;

use super::terminal::Terminal;
use super::text;
use fsage_lab::target::Target;
use fsage_lab::volume::{self, EraseConsent, ListedPartition, Split};

/// What to do with volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Give a real disk a new partition table with partitions of these sizes (needs root)
    Split(SplitArgs),
    /// List the partitions of a disk, their contents, and their paths for studies (needs root)
    List(ListArgs),
}

/// Arguments of `fsage volume list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// A whole disk
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
}

/// Arguments of `fsage volume split`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything on DEVICE is lost. Partitions follow in the order of SIZE,… from the beginning of the disk, which is the outer edge
of a hard disk, aligned to 1 MiB. A disk that has partitions is refused. See docs/volumes.md.

Example:
  sudo fsage volume split /dev/disk/by-id/ata-… --sizes 5GiB,50GiB,50GiB --erase /dev/disk/by-id/ata-…")]
pub struct SplitArgs {
    /// A whole disk
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// Sizes of the partitions, multiples of 1MiB
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', required = true)]
    pub sizes: Vec<Bytes>,
    /// Allow the contents of DEVICE to be erased; PATH repeats DEVICE, and `PATH=UUID` also allows erasing
    /// the file system or partition table of that UUID on it
    #[arg(long, value_name = "PATH[=UUID]")]
    pub erase: Vec<String>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Does it.
pub(crate) fn run(command: &VolumeCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        VolumeCommand::Split(args) => split(args, terminal),
        VolumeCommand::List(args) => list(args, terminal),
    }
}

fn split(args: &SplitArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let split = Split::new(&args.device, &args.sizes, &EraseConsent::parse(&args.erase))?;
    super::require_root("splitting a disk")?;
    if args.dry_run {
        return dry_run(args, &split, terminal);
    }
    let disk = split.split(&mut Target::local()?)?;
    if terminal.json {
        terminal.json(&disk)?;
    } else {
        terminal.result(&words(&disk, terminal))?;
    }
    // The JSON says it.
    if !disk.lasting && !terminal.json {
        terminal.warn(&format!(
            "this kernel does not read GUID partition tables: after a reboot `partx --add {}` brings the partitions back",
            disk.device.display()
        ));
    }
    Ok(EXIT_OK)
}

fn dry_run(args: &SplitArgs, split: &Split, terminal: &Terminal) -> Result<u8, Problem> {
    let extents = split.look()?;
    if terminal.json {
        let partition = |(number, extent): (u32, &fsage_engine::host::gpt::Extent)| json!({"number": number, "start_bytes": extent.start_bytes, "size_bytes": extent.size_bytes});
        let partitions: Vec<_> = (1..).zip(&extents).map(partition).collect();
        terminal.json(&json!({"dry_run": true, "device": args.device, "partitions": partitions}))?;
        return Ok(EXIT_OK);
    }
    let device = args.device.display();
    let mut lines = format!("# everything on {device} is lost\nwrite a GUID partition table to {device}\n");
    for (number, extent) in (1..).zip(&extents) {
        let (from, size) = (Bytes(extent.start_bytes), Bytes(extent.size_bytes));
        let _ = writeln!(lines, "partition {number}: {size} from {from} on");
    }
    lines.push_str("clear the first 4MiB and the last 1MiB of each partition\n");
    terminal.result(&lines)?;
    Ok(EXIT_OK)
}

fn list(args: &ListArgs, terminal: &Terminal) -> Result<u8, Problem> {
    super::require_root("inspecting a disk")?;
    let listed = volume::split::list(&args.device, &mut Target::local()?)?;
    if terminal.json {
        terminal.json(&listed)?;
        return Ok(EXIT_OK);
    }
    if listed.is_empty() {
        terminal.result("no partitions\n")?;
        return Ok(EXIT_OK);
    }
    let row = |one: &ListedPartition| {
        let carries = match (one.signature.as_str(), one.label.as_str()) {
            ("", _) => "nothing".to_owned(),
            (signature, "") => signature.to_owned(),
            (signature, label) => format!("{signature} `{label}`"),
        };
        let mounted = one.mounted_at.first().map(|point| format!("mounted at {}", point.display()));
        let path = one.link.as_deref().unwrap_or(&one.device).display().to_string();
        let (from, size) = (Bytes(one.start_bytes).to_string(), Bytes(one.size_bytes).to_string());
        vec![
            path,
            one.part_uuid.clone(),
            size,
            format!("from {from} on"),
            carries,
            mounted.unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    terminal.result(&text::table(&rows, 2))?;
    Ok(EXIT_OK)
}

/// The path that a study names a partition by.
fn path(partition: &DiskPartition) -> &std::path::Path {
    partition.link.as_deref().unwrap_or(&partition.device)
}

/// What the command line of a run repeats.
fn erase(partition: &DiskPartition) -> String {
    let path = path(partition).display();
    match partition.link {
        Some(_) => path.to_string(),
        None => format!("{path}={}", partition.part_uuid),
    }
}

fn words(disk: &SplitDisk, terminal: &Terminal) -> String {
    let count = text::plural(disk.partitions.len() as u64, "partition", "partitions");
    let head = terminal.bold(&disk.device.display().to_string());
    let mut words = format!("{head}: {count}, partition table {}\n\n", disk.uuid);
    let row = |one: &DiskPartition| {
        let (from, size) = (Bytes(one.start_bytes).to_string(), Bytes(one.size_bytes).to_string());
        vec![one.number.to_string(), size, format!("from {from} on"), one.device.display().to_string()]
    };
    let rows: Vec<Vec<String>> = disk.partitions.iter().map(row).collect();
    words.push_str(&text::table(&rows, 2));
    words.push_str("\nAs volumes of a study, one line each:\n");
    for one in &disk.partitions {
        let (path, number) = (path(one).display(), one.number);
        let _ = writeln!(words, "  volume = {{ kind = \"device\", path = \"{path}\" }} # partition {number}");
    }
    words.push_str("\nand on the command line of `fsage run`, for those that it uses:\n");
    for one in &disk.partitions {
        let _ = writeln!(words, "  --erase {}", erase(one));
    }
    if disk.partitions.iter().any(|one| one.link.is_none()) {
        words.push_str(
            "\nThere are no stable paths without udev: after a reboot the names above may be those of other partitions;\nthe identifiers after them tell which are meant.\n",
        );
    }
    words
}
