//! `fsage crash`: what survives a power cut.

mod database;
mod program;

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fsage_disk::media::Resolve as _;
use fsage_model::crash::{
    CACHE_BYTES, CrashLoad, CrashLoadSpec, CrashReport, CrashScript, CrashScriptError, CrashSpec,
    DriveBehaviour, Failing, MOST_THREADS, TimeSummary, UpdateOutcome, at_most,
};
use fsage_model::disk::{DiskCpu, DiskTime};
use fsage_model::escape;
use fsage_model::medium::MediumSpec;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_model::study::{DiskOptions, FileSystemOptions, FileSystemSpec, QueueSpec};
use fsage_sys::input::{self, Unfit};
use fsage_sys::signal::{Flags, Signal};

use super::terminal::Terminal;
use super::text;
use fsage_lab::crash::{CrashRun, CrashWork, Keep, Watch, allow};
use fsage_lab::filesystem::Registry;

/// Longest script that is read: ten thousand operations with long names.
const LONGEST_SCRIPT_BYTES: u64 = 4 << 20;

/// Arguments of `fsage crash`.
#[derive(Debug, Args)]
#[command(after_help = "\
A load runs on a virtual disk that logs every request. Then the disk shows what it may hold after a power cut, one state
after the other; each is mounted and compared with what fsync, sync and rename had promised. See docs/power.md.

With a command after `--` the load is your own program: it runs in a directory of the volume ($FSAGE_DIRECTORY) and prints a
line `ack TEXT` for everything that has to survive from then on. The program of --check runs in the same directory after every
power cut, finds these lines in the file $FSAGE_ACKNOWLEDGED and on its standard input, and exits with 0 if everything is
there. See docs/crash-your-program.md.

Exit code 0: every tested state kept what was promised; 5: damage was found, whether or not a promise was broken; 4: ended
before any was found, or the check timed out.

Examples:
  sudo fsage crash --fs ext4
  sudo fsage crash --fs ext4 --drive lying --states 100
  sudo fsage crash --fs ext4 --mount data=writeback --load metadata
  sudo fsage crash --fs ext4 --mkfs journal=false
  sudo fsage crash --fs btrfs --script docs/examples/crash/known/btrfs-renamed-file-has-both-names
  sudo fsage crash --fs ext4 --load database --journal-mode wal --synchronous normal
  sudo fsage crash --fs xfs --check ./check.sh --keep failing -- ./load.sh")]
pub struct CrashArgs {
    /// File system: ext2, ext3, ext4, xfs, btrfs
    #[arg(long = "fs", value_name = "NAME", default_value = "ext4")]
    pub file_system: String,
    /// Mount option, as for `mount -o`; repeatable
    #[arg(long, value_name = "OPTION")]
    pub mount: Vec<String>,
    /// Parameter of mkfs (docs/file-systems.md lists them); repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub mkfs: Vec<String>,
    /// Medium of the disk (`fsage disk media` lists them)
    #[arg(long, value_name = "MEDIUM", default_value = "ram")]
    pub medium: String,
    /// Behaviour of the drive at the power cut
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub drive: DriveChoice,
    /// Mount states that no kernel wrote (drives with flash faults) on this host, which they may crash
    #[arg(long)]
    pub on_host: bool,
    /// Atomic write unit of the drive, a multiple of 4KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub atomic: Bytes,
    /// Size of the volatile cache of a lying drive
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(CACHE_BYTES))]
    pub cache: Bytes,
    /// Maximum number of crash states
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub states: u64,
    /// Random seed of the load and of the states
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Load to run before the power cut
    #[arg(long, value_name = "LOAD", value_enum, default_value_t, conflicts_with = "program")]
    pub load: LoadChoice,
    /// Length of the load: rounds of `update` [default: 4], operations of `metadata` and `data` (200), how many `sequences` (100), records of `append` (100), transactions of `database` (40)
    #[arg(long, value_name = "N", conflicts_with = "program", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub length: Option<u32>,
    /// Threads that share the operations of `metadata`, each in a directory of its own
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["script", "program"], value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    pub threads: u32,
    /// Journal mode of SQLite, for `--load database` [default: delete]
    #[arg(long, value_name = "MODE", value_enum, conflicts_with_all = ["script", "program"])]
    pub journal_mode: Option<database::JournalChoice>,
    /// When SQLite syncs, for `--load database` [default: full]
    #[arg(long, value_name = "LEVEL", value_enum, conflicts_with_all = ["script", "program"])]
    pub synchronous: Option<database::SynchronousChoice>,
    /// Run the operations of this file as the load, one per line as reports print them; those before a line `---` are done and synced first
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load", "length", "program"])]
    pub script: Option<PathBuf>,
    /// Size of the volume
    #[arg(long, value_name = "SIZE", default_value = "320MiB")]
    pub size: Bytes,
    /// Memory limit of the disk, including what the load overwrites; the load stops when it is reached [default: three quarters of the available memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Folder for a temporary file that takes what the disk holds beyond `--memory`
    #[arg(long, value_name = "FOLDER")]
    pub spill: Option<PathBuf>,
    /// Check one state in N with the file system's own checker and write to it; 0: none
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub check_every: u64,
    /// Program that judges a state, with blank-separated arguments; exit status 0: everything acknowledged is there
    #[arg(long, value_name = "COMMAND", requires = "program")]
    pub check: Option<String>,
    /// Time limit for the check of one state, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "program", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub check_timeout: u32,
    /// Time limit for your program, in seconds; being ended at it is not a failure
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "program", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub load_timeout: u32,
    /// Save the failing state as a disk image with its log and the commands that show the damage, in a new folder
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
    /// Your own program as the load, with its arguments
    #[arg(last = true, value_name = "PROGRAM", requires = "check")]
    pub program: Vec<String>,
}

/// What a drive does.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum DriveChoice {
    /// Volatile cache, flushes are honoured
    #[default]
    Honest,
    /// As honest, but one flush before the cut is dropped
    DropsFlush,
    /// Flushes are acknowledged but not done
    Lying,
    /// No volatile cache, or one protected against power loss
    Protected,
    /// As honest, but a part of the map of flash is older than the last flush, or gone (needs --on-host)
    LostMapping,
    /// As honest, but some bits that were written are wrong (needs --on-host)
    BitErrors,
    /// As protected, but a page of flash destroys another one at the cut (needs --on-host)
    PairedPages,
}

/// What is done before the cut.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum LoadChoice {
    /// The ways in which applications replace a file
    #[default]
    Update,
    /// Random operations on names and files
    Metadata,
    /// All short sequences of operations, with any sync between them
    Sequences,
    /// Random operations on what files hold: direct, mapped, holes, exchanged, from unnamed files
    Data,
    /// Records at the end of logs, made durable in five ways, and rotated
    Append,
    /// Transactions of SQLite (the program sqlite3)
    Database,
}

impl From<DriveChoice> for DriveBehaviour {
    fn from(choice: DriveChoice) -> Self {
        match choice {
            DriveChoice::Honest => Self::Honest,
            DriveChoice::DropsFlush => Self::DropsFlush,
            DriveChoice::Lying => Self::Lying,
            DriveChoice::Protected => Self::Protected,
            DriveChoice::LostMapping => Self::LostMapping,
            DriveChoice::BitErrors => Self::BitErrors,
            DriveChoice::PairedPages => Self::PairedPages,
        }
    }
}

/// Does it.
pub(crate) fn run(args: &CrashArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let run = resolve(args)?;
    allow(run.states.drive, args.on_host)?;
    super::require_root("trying crash states")?;
    let flags = Flags::install(&[Signal::Interrupt, Signal::Terminate])
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot listen to signals").because(&error))?;
    let mut watch = Progress { terminal: *terminal, flags, said: Instant::now() };
    let report = run.run(&mut watch)?;
    if terminal.json {
        terminal.json(&report)?;
    } else {
        terminal.result(&words(&report))?;
    }
    Ok(match report.damaged() {
        0 if report.interrupted || report.no_room || report.undecided() > 0 => EXIT_FAILED,
        0 => EXIT_OK,
        _ => EXIT_DAMAGE,
    })
}

fn resolve(args: &CrashArgs) -> Result<CrashRun, Problem> {
    let medium: MediumSpec = fsage_lab::medium_file::from_flag(&args.medium)?;
    medium.resolve(args.size.0)?;
    let mut mkfs = BTreeMap::new();
    for parameter in &args.mkfs {
        let (key, value) = parameter.split_once('=').ok_or_else(|| {
            Problem::new(EXIT_USAGE, format!("`--mkfs {parameter}` is invalid")).hint("write it as KEY=VALUE")
        })?;
        // `false` and `4` are what they are in TOML; anything else is a word.
        let value = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::from(value));
        mkfs.insert(key.to_owned(), value);
    }
    let options = FileSystemOptions { mkfs, mount: args.mount.clone() };
    let spec = FileSystemSpec {
        kind: args.file_system.clone(),
        options: BTreeMap::from([(args.file_system.clone(), options)]),
    };
    let keep = args.keep.as_ref().map(std::path::absolute).transpose();
    let keep = keep.map_err(|error| Problem::new(EXIT_USAGE, "`--keep` names no folder").because(&error))?;
    let keep = keep.map(|folder| Keep { folder, command: again(args) });
    let spill = args.spill.as_ref().map(std::path::absolute).transpose();
    let spill =
        spill.map_err(|error| Problem::new(EXIT_USAGE, "`--spill` names no folder").because(&error))?;
    let file_system = Registry::new(&BTreeMap::new()).resolve(&spec)?;
    if file_system.is_bare() {
        let problem =
            Problem::new(EXIT_USAGE, "the bare device has no file system that a power cut could damage");
        return Err(problem.hint("name a file system: ext2, ext3, ext4, xfs or btrfs"));
    }
    Ok(CrashRun {
        file_system,
        options: args.mount.iter().chain(&args.mkfs).cloned().collect(),
        disk: DiskOptions {
            drives: 1,
            fast: None,
            stack: Vec::new(),
            size: args.size,
            partitions: Vec::new(),
            medium: medium.to_string(),
            rotational: medium.preset().is_rotational(),
            block_bytes: 4096,
            time: DiskTime::Model,
            cpu: DiskCpu::Ignored,
            log: false,
            memory: args.memory,
            spill,
            nbd: false,
            faults: None,
            scheduler: None,
            queue: QueueSpec::default(),
        },
        work: work(args)?,
        states: CrashSpec {
            drive: args.drive.into(),
            atomic_bytes: args.atomic.0,
            cache_bytes: args.cache.0,
            states: args.states,
            seed: args.seed,
        },
        check_every: args.check_every,
        keep,
        on_host: args.on_host,
    })
}

/// The words that try the same states of another load.
fn again(args: &CrashArgs) -> Vec<String> {
    let drive = DriveBehaviour::from(args.drive);
    let each = |flag: &'static str, values: &[String]| -> Vec<String> {
        values.iter().flat_map(|value| [flag.to_owned(), value.clone()]).collect()
    };
    let one = |flag: &str, value: &dyn Display| [flag.to_owned(), value.to_string()];
    [
        vec!["fsage".to_owned(), "crash".to_owned()],
        each("--fs", std::slice::from_ref(&args.file_system)),
        each("--mount", &args.mount),
        each("--mkfs", &args.mkfs),
        [
            one("--medium", &args.medium),
            one("--drive", &drive.name()),
            one("--atomic", &args.atomic),
            one("--cache", &args.cache),
            one("--size", &args.size),
            one("--states", &args.states),
            one("--seed", &args.seed),
            one("--check-every", &args.check_every),
        ]
        .concat(),
    ]
    .concat()
}

/// What is done before the cut.
fn work(args: &CrashArgs) -> Result<CrashWork, Problem> {
    if let Some(program) = program::resolve(args)? {
        return Ok(CrashWork::Program(Box::new(program)));
    }
    if let Some(path) = &args.script {
        return Ok(CrashWork::Script(Box::new(script(path)?)));
    }
    let load = match args.load {
        LoadChoice::Update => CrashLoad::Update,
        LoadChoice::Metadata => CrashLoad::Metadata,
        LoadChoice::Sequences => CrashLoad::Sequences,
        LoadChoice::Data => CrashLoad::Data,
        LoadChoice::Append => CrashLoad::Append,
        LoadChoice::Database => CrashLoad::Database,
    };
    let modes = database::modes(args, load)?;
    let threads = args.threads;
    if threads > 1 && load != CrashLoad::Metadata {
        let what = format!("the load `{}` has one thread: `--threads {threads}` does not apply", load.name());
        return Err(Problem::new(EXIT_USAGE, what).hint("give it with `--load metadata`"));
    }
    let size = args.length.unwrap_or_else(|| load.default_size());
    Ok(CrashWork::of(CrashLoadSpec { load, size, seed: args.seed, threads }, modes))
}

/// The operations of a file.
fn script(path: &Path) -> Result<CrashScript, Problem> {
    let said = || format!("`--script {}` cannot be used", path.display());
    let hint = "write one operation per line, such as `create a` (docs/power.md)";
    let text = input::read_text(path, LONGEST_SCRIPT_BYTES);
    let text = text.map_err(|error| {
        let next = Unfit::hint(&error).unwrap_or("name a file that can be read");
        Problem::new(EXIT_USAGE, said()).because(&error).hint(next)
    })?;
    text.parse()
        .map_err(|error: CrashScriptError| Problem::new(EXIT_USAGE, said()).because(&error).hint(hint))
}

/// Says how far it is every few seconds, and ends at a signal.
struct Progress {
    terminal: Terminal,
    flags: Flags,
    said: Instant,
}

impl Watch for Progress {
    fn working(&mut self, acknowledged: u64) {
        if self.said.elapsed() >= Duration::from_secs(5) {
            self.said = Instant::now();
            self.terminal.note(&format!("the load is running, {acknowledged} acknowledgements so far"));
        }
    }

    fn tried(&mut self, tried: u64, planned: u64, damaged: u64) {
        if self.said.elapsed() >= Duration::from_secs(5) {
            self.said = Instant::now();
            self.terminal.note(&format!("{tried} of {planned} states tried, {damaged} with damage"));
        }
    }

    fn is_over(&self) -> bool {
        self.flags.is_set(Signal::Interrupt) || self.flags.is_set(Signal::Terminate)
    }
}

fn words(report: &CrashReport) -> String {
    let mut words = String::new();
    let options =
        if report.options.is_empty() { String::new() } else { format!(" ({})", report.options.join(", ")) };
    let _ = writeln!(
        words,
        "{}{options}, {} drive: {} of {} crash states kept what was {}\n  {} of those kept {} checked and written to",
        report.file_system,
        report.spec.drive.name(),
        report.ok,
        report.tried,
        if report.program.is_some() { "acknowledged" } else { "promised" },
        report.kept_inspected,
        if report.kept_inspected == 1 { "was" } else { "were" }
    );
    words.push_str(&survival(report));
    words.push_str(&coverage(report));
    words.push_str(&ways(report));
    words.push_str(&times(report));
    if let Some(failing) = &report.failing {
        words.push_str(&failed(failing));
    }
    for problem in &report.problems {
        let _ = writeln!(words, "  problem: {}", escape::line(problem));
    }
    words
}

fn survival(report: &CrashReport) -> String {
    let mut words = String::new();
    if report.damaged() == 0 && report.undecided() == 0 {
        let _ = writeln!(
            words,
            "  damage in none of {}: in at most {:.3} % of states drawn like these (95 %)",
            report.tried,
            100.0 * at_most(report.tried)
        );
    } else if report.damaged() > 0 {
        let _ = writeln!(
            words,
            "  {} broke a promise, {} have damage that no promise covers",
            report.broken, report.documented
        );
        for (finding, states) in &report.findings {
            let _ = writeln!(words, "  known finding in {states}: {} (docs/power.md)", finding.words());
        }
        let kinds: Vec<String> =
            report.damage.iter().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
        let _ = writeln!(words, "  states by damage: {}", kinds.join(", "));
        if report.damaged_inspected > 0 {
            let _ = writeln!(
                words,
                "  of {} damaged states that were checked, {} were silent: wrong names or contents, and no error",
                report.damaged_inspected, report.silent
            );
        }
    }
    if let Some(program) = &report.program {
        words.push_str(&program::notes(program));
    }
    if let Some(modes) = report.database {
        words.push_str(&database::promised(modes));
    }
    if report.oops {
        words.push_str(
            "  the kernel reported a bug of its own and the run ended there: reboot before anything else\n",
        );
    }
    if report.interrupted {
        let _ = writeln!(words, "  ended after {} of {} states", report.tried, report.coverage.planned);
    }
    words + &memory(report)
}

/// What the disk had no memory for.
fn memory(report: &CrashReport) -> String {
    let mut words = String::new();
    if report.log_full {
        words.push_str(
            "  the disk's memory was full: the load was stopped, and only states up to that point were tried\n",
        );
        if report.program.is_some() {
            words.push_str("  so the check was not tried on a volume without a power cut\n");
        }
    }
    if report.no_room {
        let _ = writeln!(
            words,
            "  ended after {} of {} states: the disk's memory had no room for what was written to the next one, which is not judged",
            report.tried, report.coverage.planned
        );
    }
    if report.log_full || report.no_room {
        words.push_str("  for more: `--memory`, `--spill` or a shorter load\n");
    }
    words
}

fn coverage(report: &CrashReport) -> String {
    let coverage = &report.coverage;
    let load = report.load.map_or("script", |load| load.load.name());
    let mut words = report.program.as_ref().map_or_else(
        || format!("\nload {load}{}: {} operations, ", threads(report), report.operations),
        |program| {
            format!(
                "\n{}, ",
                program::what(program, report.database.map(|modes| format!("{load} ({modes})")))
            )
        },
    );
    let _ = writeln!(
        words,
        "{} changes and {} flushes in the log, at most {} changes pending",
        coverage.changes, coverage.flushes, coverage.most_pending
    );
    let _ = writeln!(
        words,
        "states: 2^{:.1} possible, {} considered, {} distinct, {} tried, {} of them checked; seed {}",
        coverage.possible_log2,
        coverage.considered,
        coverage.distinct,
        report.tried,
        report.checked,
        report.spec.seed
    );
    words
}

/// How many threads did the load, where it was several.
fn threads(report: &CrashReport) -> String {
    let several = report.load.filter(|load| load.threads > 1);
    several.map_or_else(String::new, |load| format!(" ({} threads)", load.threads))
}

fn ways(report: &CrashReport) -> String {
    if report.updates.is_empty() {
        return String::new();
    }
    let mut rows = vec![vec!["way to replace a file".to_owned()]];
    if let Some(head) = rows.first_mut() {
        head.extend(UpdateOutcome::ALL.map(|outcome| outcome.name().to_owned()));
    }
    for way in &report.updates {
        let count = |wanted: UpdateOutcome| {
            let found = way.outcomes.iter().find(|(outcome, _)| *outcome == wanted);
            found.map_or_else(|| "-".to_owned(), |(_, count)| count.to_string())
        };
        rows.push(std::iter::once(way.way.name().to_owned()).chain(UpdateOutcome::ALL.map(count)).collect());
    }
    format!("\n{}", text::table(&rows, 0))
}

fn times(report: &CrashReport) -> String {
    let ms = |time_ns: u64| format!("{:.3}", as_f64(time_ns) / 1e6);
    let mut rows = vec![["ms", "n", "min", "median", "mean", "max"].map(str::to_owned).to_vec()];
    rows.extend(report.times.iter().map(|time: &TimeSummary| {
        let figures = [time.min_ns, time.median_ns, time.mean_ns, time.max_ns].map(ms);
        [time.step.clone(), time.count.to_string()].into_iter().chain(figures).collect()
    }));
    let seconds = as_f64(report.elapsed_ns) / 1e9;
    let rate = if seconds > 0.0 { as_f64(report.tried) / seconds } else { 0.0 };
    format!("\n{}{rate:.1} states per second\n", text::table(&rows, 0))
}

fn failed(failing: &Failing) -> String {
    let state = &failing.state;
    let mut words = format!(
        "\nsmallest state found with damage ({}): power lost after {} requests, {} of {} pending changes missing",
        failing.class.name(),
        state.cut,
        state.lost.len(),
        state.pending
    );
    if failing.lost_when_found > u64::try_from(state.lost.len()).unwrap_or(u64::MAX) {
        let _ = write!(words, " ({} when it was found)", failing.lost_when_found);
    }
    words.push('\n');
    let numbers: Vec<String> = state.lost.iter().take(20).map(u64::to_string).collect();
    if !numbers.is_empty() {
        let _ = writeln!(words, "  missing requests: {}", numbers.join(" "));
    }
    if let Some(torn) = &state.torn {
        let kept: Vec<String> = torn.kept.iter().take(20).map(u64::to_string).collect();
        let _ = writeln!(words, "  torn request: {}, units that are there: {}", torn.entry, kept.join(" "));
    }
    for loss in state.flash.iter().take(8) {
        let _ = writeln!(words, "  lost by the flash: {}", loss.words());
    }
    if state.flash.len() > 8 {
        let _ = writeln!(words, "  lost by the flash: {} more", state.flash.len() - 8);
    }
    for damage in failing.damage.iter().take(8) {
        let path = if damage.path.is_empty() { String::new() } else { format!("{} ", damage.path) };
        let _ = writeln!(
            words,
            "  {}: {}{}",
            damage.kind.name(),
            escape::line(&path),
            escape::line(&damage.what)
        );
    }
    for line in failing.drives() {
        let _ = writeln!(words, "  {line}");
    }
    for line in failing.kernel.iter().take(4) {
        let _ = writeln!(words, "  kernel: {line}");
    }
    for step in &failing.before {
        let _ = writeln!(words, "  {:>8}  {}", step.position, step.operation);
    }
    for line in failing.timeline() {
        let _ = writeln!(words, "  {line}");
    }
    let _ = writeln!(words, "  {:>8}  power lost", state.cut);
    if let Some(step) = &failing.under_way {
        let _ = writeln!(words, "  {:>8}  ({}: perhaps begun)", "", step.operation);
    }
    words
}
