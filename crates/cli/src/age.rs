//! `fsage age`: a workload in a directory of any mounted file system.

use std::io::{BufWriter, IntoInnerError, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use fsage_model::load::{AgeTarget, LoadResult, LoadSpec, StopSpec, WriteMode};
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::size::Bytes;
use fsage_sys::new_file::{NewFile, Readers};

use super::progress::Progress;
use super::report::unwritten;
use super::terminal::Terminal;
use super::{load, session, text, workload};
use fsage_lab::target::Incoming;

/// Operations between two probes when a measured age is waited for and nothing else is said.
const AGE_PROBE: u64 = 20_000;
/// Most of a run that such probes may take.
const PROBE_SHARE: f64 = 0.05;

/// Arguments of `fsage age`.
#[derive(Debug, Args)]
#[command(
    override_usage = "fsage age [OPTIONS] <DIR> [--operations N|--bytes SIZE|--seconds S|--until-full|--until AGE=VALUE]"
)]
#[command(after_help = "\
Files are created below DIR, in one directory per thread (t00, t01, …); remove these to undo it.
SIGINT (Ctrl-C) and SIGTERM stop cleanly with a result; SIGUSR1 pauses, SIGUSR2 resumes.
In fast mode the data is written in place first; a second signal leaves it unwritten.

Examples:
  fsage age /mnt/test --operations 100000
  fsage age /mnt/test --seconds 60 --set slots=2000 --set file_size.kind=uniform \\
      --set file_size.min=4KiB --set file_size.max=64KiB
  fsage age /mnt/test --write-mode fast --set utilisation.kind=hold --set utilisation.target=0.75 \\
      --until extents_per_file=2.0 --until fragmented_share=0.5
  fsage age /mnt/test --workload fsfb --set target=0.9 --set rounds=20")]
pub struct AgeArgs {
    /// An existing directory of a mounted file system
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The workload's name, or its file.
    #[arg(help = workload::help(), long, value_name = "NAME|FILE", default_value = "drift", help_heading = "Workload")]
    pub workload: String,
    /// Change the workload: a dotted path and a TOML value, such as `weights.create=10`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Workload")]
    pub set: Vec<String>,
    /// Threads; each owns its part of the tree
    #[arg(long, value_name = "T", default_value_t = 1, help_heading = "Workload",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Random seed: the same seed gives the same operations
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = "Workload")]
    pub seed: u64,
    /// How data reaches the volume: buffered, direct (O_DIRECT), or fast (space is reserved by
    /// fallocate while ageing, and every live file is written in place at the end)
    #[arg(long, value_name = "MODE", default_value = "buffered", help_heading = "Workload",
          value_parser = ["buffered", "direct", "fast"])]
    pub write_mode: String,
    /// On a virtual disk in model time, write back by number of operations and in their order, so that two
    /// runs make the same requests
    #[arg(long, help_heading = "Workload")]
    pub deterministic: bool,

    /// Stop after this many operations over all threads
    #[arg(long, value_name = "N", help_heading = "Stop conditions (the first that is met; at least one, unless the workload ends by itself)",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Stop after this much data was written, such as 10GiB
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Stop conditions (the first that is met; at least one, unless the workload ends by itself)"
    )]
    pub bytes: Option<Bytes>,
    /// Stop after this many seconds of load
    #[arg(
        long,
        value_name = "S",
        help_heading = "Stop conditions (the first that is met; at least one, unless the workload ends by itself)"
    )]
    pub seconds: Option<f64>,
    /// Stop when the volume has no space for an operation: no free block, or no free inode
    #[arg(
        long,
        help_heading = "Stop conditions (the first that is met; at least one, unless the workload ends by itself)"
    )]
    pub until_full: bool,
    /// Stop at a measured age; may be repeated, then all must be met: extents_per_file=N,
    /// fragmented_share=0..1, free_extent_median=SIZE, volume_overwrites=N, converged=0..1, near=true (to the
    /// profile that the workload is `like`)
    #[arg(
        long,
        value_name = "AGE=VALUE",
        help_heading = "Stop conditions (the first that is met; at least one, unless the workload ends by itself)"
    )]
    pub until: Vec<String>,

    /// Probe free space and latencies every N operations, while the load is stopped; 0: only at the end
    /// [default: 0; 20,000 with an --until that needs the layout or the free space, less often if probes take
    /// more than 5 % of the run]
    #[arg(long, value_name = "N", help_heading = "Recording")]
    pub probe_every: Option<u64>,
    /// Record every operation with its result and latency as Parquet
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub trace: Option<PathBuf>,
    /// Run fstrim at every probe
    #[arg(long, help_heading = "Recording")]
    pub trim: bool,
}

/// Ages the directory.
pub(crate) fn run(args: &AgeArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let spec = load_spec(args)?;
    let mut trace = args.trace.as_deref().map(TraceFile::create).transpose()?;
    let mut progress = Progress::new(terminal);
    progress.stage(&format!("ageing {}", args.directory.display()));
    let fast = spec.write_mode == WriteMode::Fast;
    let load = call::Load { load: Box::new(spec), mount: None };
    let result = session::ask_interruptible(load, fast, terminal, &mut |incoming| match incoming {
        Incoming::Event(event) => progress.event(&event),
        Incoming::Chunk(bytes) => {
            if let Some(trace) = &mut trace {
                trace.write(&bytes);
            }
        }
    });
    progress.finish();
    let result = result?;
    if let Some(trace) = trace {
        trace.finish()?;
    }
    show(&result, &args.directory, "aged", terminal)?;
    Ok(EXIT_OK)
}

/// Prints what a load left.
pub(crate) fn show(
    result: &LoadResult,
    directory: &Path,
    verb: &str,
    terminal: &Terminal,
) -> Result<(), Problem> {
    if terminal.json {
        return terminal.json(result);
    }
    terminal.result(&load::summary(result, directory, verb, terminal))
}

fn load_spec(args: &AgeArgs) -> Result<LoadSpec, Problem> {
    let directory = std::path::absolute(&args.directory)
        .map_err(|error| Problem::new(EXIT_USAGE, "the directory has no absolute path").because(&error))?;
    if !directory.is_dir() {
        return Err(Problem::new(EXIT_USAGE, format!("`{}` is not a directory", args.directory.display()))
            .hint("create it first, on the file system to age"));
    }
    if args.seconds.is_some_and(|s| !s.is_finite() || s <= 0.0) {
        return Err(Problem::new(EXIT_USAGE, "--seconds must be a number above 0"));
    }
    let age = age_target(&args.until)?;
    let workload = workload::from_arguments(&args.workload, &args.set)?;
    let steered = workload.drift().is_some_and(|drift| drift.like.is_some());
    let probes = age.as_ref().is_some_and(|age| age.needs_probes() || steered);
    let probe_every = args.probe_every.unwrap_or(if probes { AGE_PROBE } else { 0 });
    if probe_every == 0 && age.as_ref().is_some_and(AgeTarget::needs_probes) {
        let what = "this --until is checked by probes, and --probe-every 0 disables them";
        return Err(Problem::new(EXIT_USAGE, what)
            .hint(format!("omit --probe-every (default here: {AGE_PROBE}) or give a number above 0")));
    }
    let stops = args.operations.is_some() || args.bytes.is_some() || args.seconds.is_some();
    if !stops && !args.until_full && age.is_none() && !workload.ends() {
        return Err(Problem::new(
            EXIT_USAGE,
            "no stop condition is given, and this workload does not end by itself",
        )
        .hint(
            "give --operations, --bytes, --seconds, --until-full or --until; the first that is met stops it",
        ));
    }
    Ok(LoadSpec {
        workload,
        directory,
        threads: args.threads,
        seed: args.seed,
        stop: StopSpec {
            operations: args.operations,
            bytes: args.bytes,
            seconds: args.seconds,
            full: args.until_full,
            age: age.clone(),
        },
        write_mode: match args.write_mode.as_str() {
            "direct" => WriteMode::Direct,
            "fast" => WriteMode::Fast,
            _ => WriteMode::Buffered,
        },
        probe_every,
        // Only what the user asked for may take as long as it does.
        probe_share: args.probe_every.is_none().then_some(PROBE_SHARE),
        probe_layout: age.as_ref().is_some_and(AgeTarget::needs_layout),
        trim: args.trim,
        trace: args.trace.is_some(),
        deterministic: args.deterministic,
        pace: None,
        continues: false,
    })
}

/// `extents_per_file=2.0` and its sisters as one target.
fn age_target(until: &[String]) -> Result<Option<AgeTarget>, Problem> {
    if until.is_empty() {
        return Ok(None);
    }
    let mut table = serde_json::Map::new();
    for text in until {
        let (key, value) = workload::split(text, "--until")?;
        table.insert(key.to_owned(), workload::value(value));
    }
    serde_json::from_value(serde_json::Value::Object(table)).map(Some).map_err(|error| {
        Problem::new(EXIT_USAGE, "--until does not name a measured age").because(&error).hint(
            "it is one of extents_per_file, fragmented_share, free_extent_median, volume_overwrites, converged, near",
        )
    })
}

/// The trace as it arrives. The first error is kept until the end: the load's result is worth more.
#[derive(Debug)]
struct TraceFile {
    path: PathBuf,
    file: BufWriter<NewFile>,
    bytes: u64,
    error: Option<std::io::Error>,
}

impl TraceFile {
    fn create(path: &Path) -> Result<Self, Problem> {
        let file = NewFile::create(path, Readers::All)
            .map_err(|error| unwritten(EXIT_USAGE, "trace", path, &error))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), bytes: 0, error: None })
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.error = self.file.write_all(bytes).err();
        }
    }

    fn finish(mut self) -> Result<(), Problem> {
        let kept = match self.error.take() {
            Some(error) => Err(error),
            None => self.file.into_inner().map_err(IntoInnerError::into_error).and_then(NewFile::commit),
        };
        kept.map(drop).map_err(|error| {
            let written = text::size(self.bytes);
            let what = format!(
                "cannot write the trace `{}`: stopped after {written} and discarded",
                self.path.display()
            );
            Problem::new(EXIT_FAILED, what).because(&error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_age_is_read_from_its_flags() {
        let until = ["extents_per_file=2.0".to_owned(), "free_extent_median=64KiB".to_owned()];
        let age = age_target(&until).unwrap().unwrap();
        assert_eq!(age.extents_per_file, Some(2.0));
        assert_eq!(age.free_extent_median, Some(Bytes(65_536)));
        assert_eq!(age_target(&["extents=2".to_owned()]).unwrap_err().exit_code, EXIT_USAGE);
        assert!(age_target(&["extents_per_file".to_owned()]).is_err());
        assert_eq!(age_target(&[]).unwrap(), None);
    }
}
