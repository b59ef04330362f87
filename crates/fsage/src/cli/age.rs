//! `fsage age`: a workload in a directory of any mounted file system.

use std::path::PathBuf;

use clap::Args;
use fsage_engine::size::Bytes;

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;

/// Arguments of `fsage age`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything is made below DIR, in one directory a thread (t00, t01, …); remove those to undo it.
SIGINT (Ctrl-C) and SIGTERM stop cleanly with a result; SIGUSR1 pauses, SIGUSR2 resumes.

Examples:
  fsage age /mnt/test --operations 100000
  fsage age /mnt/test --seconds 60 --set slots=2000 --set file_size.kind=uniform \\
      --set file_size.min=4KiB --set file_size.max=64KiB
  fsage age /mnt/test --write-mode fast --set utilisation.kind=hold --set utilisation.target=0.75 \\
      --until extents_per_file=2.0 --until fragmented_share=0.5")]
#[command(group(clap::ArgGroup::new("stop").required(true).multiple(true)
    .args(["operations", "bytes", "seconds", "until_full", "until"])))]
pub struct AgeArgs {
    /// An existing directory of a mounted file system
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The workload: `drift`, or a TOML file with the keys of a study's `workload` table
    #[arg(long, value_name = "NAME|FILE", default_value = "drift", help_heading = "Workload")]
    pub workload: String,
    /// Change the workload: a dotted path and a TOML value, such as `weights.create=10`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Workload")]
    pub set: Vec<String>,
    /// Threads; each owns its part of the tree
    #[arg(long, value_name = "T", default_value_t = 1, help_heading = "Workload",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Seed of every random choice: the same seed does the same operations
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = "Workload")]
    pub seed: u64,
    /// How data reaches the volume: buffered, direct (O_DIRECT), or fast (space is taken by fallocate
    /// while ageing and every live file is written in place at the end)
    #[arg(long, value_name = "MODE", default_value = "buffered", help_heading = "Workload",
          value_parser = ["buffered", "direct", "fast"])]
    pub write_mode: String,

    /// Stop after this many operations over all threads
    #[arg(long, value_name = "N", help_heading = "When to stop (the first that is met; at least one)",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Stop after this much data was written, such as 10GiB
    #[arg(long, value_name = "SIZE", help_heading = "When to stop (the first that is met; at least one)")]
    pub bytes: Option<Bytes>,
    /// Stop after this many seconds of load
    #[arg(long, value_name = "S", help_heading = "When to stop (the first that is met; at least one)")]
    pub seconds: Option<f64>,
    /// Stop when the volume has no space for an operation
    #[arg(long, help_heading = "When to stop (the first that is met; at least one)")]
    pub until_full: bool,
    /// Stop at a measured age; may be repeated, then all must be met: extents_per_file=N,
    /// fragmented_share=0..1, free_extent_median=SIZE, volume_overwrites=N, converged=0..1
    #[arg(
        long,
        value_name = "AGE=VALUE",
        help_heading = "When to stop (the first that is met; at least one)"
    )]
    pub until: Vec<String>,

    /// Stop the load every N operations and look at free space and latencies; 0: only at the end
    /// [default: 0, with --until 20000]
    #[arg(long, value_name = "N", help_heading = "What to record")]
    pub probe_every: Option<u64>,
    /// Record every operation with its result and latency as Parquet
    #[arg(long, value_name = "FILE", help_heading = "What to record")]
    pub trace: Option<PathBuf>,
    /// Run fstrim at every probe
    #[arg(long, help_heading = "What to record")]
    pub trim: bool,
}

/// Ages the directory.
pub(crate) fn run(_args: &AgeArgs, _terminal: &Terminal) -> Result<u8, Problem> {
    Err(Problem::new(EXIT_INTERNAL, "`fsage age` is not built in"))
}
