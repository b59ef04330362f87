//! `fsage disk up`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fsage_disk::media::Resolve as _;
use fsage_model::disk::{DiskCpu, DiskTime};
use fsage_model::medium::PartitionSpec;
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::size::Bytes;
use fsage_model::study::{DiskOptions, QueueSpec};

use crate::terminal::Terminal;
use fsage_lab::disk::NamedDisk;
use fsage_lab::medium_file;

/// Arguments of `fsage disk up`.
#[derive(Debug, Args)]
#[command(after_help = "\
The disk is empty and in memory: only written data takes memory, and data that fsage wrote almost none. It exists until
`fsage disk down NAME` or the next boot.

In model time requests are answered at once and the time of the medium is only counted (`fsage disk stat`); in real time each
reply is delayed by the time of the medium.

Examples:
  sudo fsage disk up old --size 400GiB --medium hdd-7200
  sudo mkfs.ext4 $(sudo fsage disk up worn --size 64GiB --medium ssd --json | jq -r .device)
  sudo fsage disk up shared --medium hdd-7200 --partition 5GiB --partition 50GiB --partition 1GiB@inner
  sudo fsage disk up slow --size 8GiB --medium hdd-5400,rpm=4200 --time real --log")]
pub struct UpArgs {
    /// Name: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Size, up to 16TiB
    #[arg(long, value_name = "SIZE", required_unless_present = "partition")]
    pub size: Option<String>,
    /// Partition of the drive, instead of --size; at `outer`, `inner` or an offset, else after the previous one; may be repeated
    #[arg(long, value_name = "SIZE[@AT]", conflicts_with = "size")]
    pub partition: Vec<String>,
    /// Medium: a preset (`fsage disk media` lists them) or a medium file (`fsage device fit`), and changed parameters
    #[arg(long, value_name = "MEDIUM", default_value = "ram")]
    pub medium: String,
    /// Clock of the disk
    #[arg(long, value_name = "TIME", value_enum, default_value_t)]
    pub time: TimeChoice,
    /// In model time, whether CPU time of `fsage age` and `fsage measure` passes on the disk's clock
    #[arg(long, value_name = "CPU", value_enum, default_value_t)]
    pub cpu: CpuChoice,
    /// Log every request for `fsage disk log`
    #[arg(long)]
    pub log: bool,
    /// Memory limit for data that is not self-describing; data beyond it goes to the spill file, or writes fail
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Folder for a temporary file that takes the data beyond `--memory`
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Logical block size
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    pub block_bytes: u32,
    /// Also serve NBD on a Unix socket
    #[arg(long)]
    pub nbd: bool,
    /// Faults, as JSON (`fsage disk fault set --help`)
    #[arg(long, value_name = "JSON")]
    pub faults: Option<String>,
    /// I/O scheduler of the device [default: not changed]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
}

/// How a disk keeps time.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum TimeChoice {
    /// The time of the medium is only counted
    #[default]
    Model,
    /// Each reply is delayed by the time of the medium
    Real,
}

/// What CPU time is on the disk's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CpuChoice {
    /// CPU time does not pass on the disk's clock
    #[default]
    Ignored,
    /// CPU time passes on the disk's clock; the disk is idle meanwhile
    Serial,
}

pub(super) fn run(args: &UpArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let disk = NamedDisk::new(&args.name)?;
    let options = options(args)?;
    crate::require_root("bringing a disk up")?;
    let record = disk.up(options)?;
    if terminal.json {
        terminal.json(&record)?;
    } else {
        let others = record.partitions.iter().skip(1).map(|partition| &partition.device);
        for device in std::iter::once(&record.device).chain(others) {
            terminal.result(&format!("{}\n", device.display()))?;
        }
    }
    Ok(EXIT_OK)
}

fn options(args: &UpArgs) -> Result<DiskOptions, Problem> {
    let usage = |flag: &str, error: &dyn std::error::Error| {
        Problem::new(EXIT_USAGE, format!("`{flag}` is invalid")).because(error)
    };
    let partitions = partitions(args)?;
    let size = match &args.size {
        Some(size) => size
            .parse()
            .map_err(|error| usage(&format!("--size {size}"), &error).hint("write it as 500GiB"))?,
        None => Bytes(partitions.iter().fold(0, |sum, part: &PartitionSpec| sum.saturating_add(part.size.0))),
    };
    let memory = args.memory.as_deref().map(str::parse).transpose();
    let memory = memory.map_err(|error| usage("--memory", &error).hint("write it as 4GiB"))?;
    let medium = medium_file::from_flag(&args.medium)?;
    if partitions.is_empty() {
        medium.resolve(size.0)?
    } else {
        medium.partitioned(&partitions)?
    };
    if let Some(faults) = &args.faults {
        super::snapshot::faults(faults, size.0)?;
    }
    if matches!((args.time, args.cpu), (TimeChoice::Real, CpuChoice::Serial)) {
        return Err(Problem::new(
            EXIT_USAGE,
            "`--cpu serial` counts CPU time in model time alone: in real time it passes anyway",
        )
        .hint("leave `--cpu` out, or give `--time model`"));
    }
    let spill = args.spill.as_ref().map(std::path::absolute).transpose();
    Ok(DiskOptions {
        drives: 1,
        fast: None,
        stack: Vec::new(),
        size,
        partitions,
        medium: medium.to_string(),
        rotational: medium.preset().is_rotational(),
        block_bytes: args.block_bytes,
        time: match args.time {
            TimeChoice::Model => DiskTime::Model,
            TimeChoice::Real => DiskTime::Real,
        },
        cpu: match args.cpu {
            CpuChoice::Ignored => DiskCpu::Ignored,
            CpuChoice::Serial => DiskCpu::Serial,
        },
        log: args.log,
        memory,
        spill: spill.map_err(|error| usage("--spill", &error))?,
        nbd: args.nbd,
        faults: args.faults.clone(),
        scheduler: args.scheduler.clone(),
        queue: QueueSpec::default(),
    })
}

fn partitions(args: &UpArgs) -> Result<Vec<PartitionSpec>, Problem> {
    let parse = |text: &String| {
        text.parse().map_err(|error: String| {
            Problem::new(EXIT_USAGE, format!("`--partition {text}` is invalid: {error}"))
                .hint("write it as 5GiB, 5GiB@inner or 5GiB@100GiB")
        })
    };
    args.partition.iter().map(parse).collect()
}
