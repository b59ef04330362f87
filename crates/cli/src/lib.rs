//! The command line: one file a command. [`Cli`] is the one table that the parser, `--help`, the man pages
//! and the completions come from.
//!
//! Commands parse, call the room that does the work, and show what came back; they decide nothing about
//! file systems. Results go to standard output, everything else to standard error.

pub mod age;
pub mod bisect;
pub mod boot;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod crash;
pub mod device;
mod digest;
pub mod disk;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod fleet;
mod foresight;
pub mod histogram;
pub mod image;
pub mod images;
pub mod kernel;
pub mod load;
pub mod measure;
pub mod power_cycle;
pub mod price;
pub mod profile;
pub mod progress;
pub mod replay;
pub mod report;
pub mod run;
pub mod scan;
pub mod serve;
pub mod session;
pub mod study;
pub mod terminal;
pub mod text;
pub mod trace;
pub mod verdict;
pub mod verify;
pub mod volume;
mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use fsage_model::problem;

pub use fsage_model::problem::{Explain, Problem};
use terminal::{ColorChoice, Terminal};

const AFTER_HELP: &str = "\
Exit codes: 0 ok, 1 internal error, 2 usage, 3 missing prerequisite, 4 a trial failed,
5 damage was found, 6 a gate given with --fail-if fired, 7 such a gate is inconclusive.
Start with `fsage doctor`, then `sudo fsage run studies/aging.toml --quick`.";

/// A laboratory for Linux file systems: measure how much ageing slows them down on a given device.
#[derive(Debug, Parser)]
#[command(name = "fsage", version, about, long_about = None, after_help = AFTER_HELP)]
#[command(max_term_width = 100, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What applies to every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct Global {
    /// Print the result as JSON on standard output, and an error as a JSON object on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only errors on standard error
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// When to use colours; `auto` also honours NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// As root, also write into folders that another user owns, or that everyone may write to
    #[arg(long, global = true, help_heading = "Safety")]
    pub allow_foreign_owner: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a study: every trial that is not complete yet, in random order (needs root)
    Run(run::RunArgs),
    /// Check, list or describe study files
    Study(study::StudyArgs),
    /// Age a directory of a mounted file system with a workload
    Age(age::AgeArgs),
    /// Report the fragmentation of a mounted file system or a directory; changes nothing
    Scan(scan::ScanArgs),
    /// List files and directories that are slow to read due to their layout; suggest fixes
    Explain(explain::ExplainArgs),
    /// Describe a tree without names, to age another volume like it
    Profile(profile::ProfileArgs),
    /// Run a measure on a mounted file system (`list` prints the measures)
    Measure(measure::MeasureArgs),
    /// Check every block of data that fsage wrote below a directory
    Verify(verify::VerifyArgs),
    /// Replay the operations of a recorded trace in a directory
    Replay(replay::ReplayArgs),
    /// Inspect traces, import them from strace, fio and CSV, export them
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Save a volume as an image, restore it, inspect images
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Create and manage virtual disks: any medium, in memory, as a block device
    #[command(subcommand)]
    Disk(disk::DiskCommand),
    /// Probe the geometry of a device, or fit a device model to it
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Split a real disk into partitions that studies can name
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Fetch and list kernels for guests
    #[command(subcommand)]
    Kernel(kernel::KernelCommand),
    /// Find the kernel or kernel commit that made a study slower (needs root)
    Bisect(bisect::BisectArgs),
    /// Manage a study submitted to a Slurm cluster (`fsage run STUDY --fleet slurm`)
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Test what survives a power cut: crash states of a load on a virtual disk (needs root)
    Crash(crash::CrashArgs),
    /// Cut the power of a real board repeatedly; count what survives
    PowerCycle(power_cycle::PowerCycleArgs),
    /// Compute how long the requests of a recorded log would take on other media
    Price(price::PriceArgs),
    /// Write the report of a store as one HTML file
    Report(report::ReportArgs),
    /// Compare two stores or two selections of trials; can be a gate in CI
    Compare(compare::CompareArgs),
    /// Write the samples of a store as a table: CSV, Parquet, JSON, OpenMetrics
    Export(export::ExportArgs),
    /// Release leftovers of an interrupted run, such as mounts and loop devices (needs root)
    Clean(clean::CleanArgs),
    /// Check this host for missing prerequisites; print the command that installs them
    Doctor(doctor::DoctorArgs),
    /// Run as the first process of a guest
    #[command(hide = true)]
    Boot(boot::BootArgs),
    /// Run trials for fsage on another host, which starts it
    #[command(hide = true)]
    Serve(serve::ServeArgs),
    /// Print the completion script of a shell
    #[command(hide = true)]
    Completions(completions::CompletionsArgs),
}

/// Runs the program with these arguments, the first being its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    fsage_sys::memory_limit::limit();
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(parse_failed(&with_new_name(error), &args)),
    };
    let terminal = Terminal::new(cli.global.json, cli.global.quiet, cli.global.color);
    if cli.global.allow_foreign_owner {
        fsage_sys::new_file::allow_foreign();
    }
    tell_left_over(&cli.command, &terminal);
    match dispatch(cli.command, &terminal) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            terminal.error(&problem);
            ExitCode::from(problem.exit_code)
        }
    }
}

/// Says what killed runs left, before a command that does not deal with it.
fn tell_left_over(command: &Command, terminal: &Terminal) {
    if matches!(command, Command::Clean(_) | Command::Completions(_) | Command::Serve(_) | Command::Boot(_)) {
        return;
    }
    let left = fsage_lab::lease::left_over();
    // What reads errors as JSON reads nothing else there.
    for left in left.into_iter().filter(|_| !terminal.json) {
        let store = left.store.display();
        for lease in &left.restored {
            terminal.warn(&format!("an interrupted run of {store} left a {}: restored", clean::name(lease)));
        }
        if left.outstanding > 0 {
            let leases = text::plural(u64::try_from(left.outstanding).unwrap_or(u64::MAX), "lease", "leases");
            terminal.warn(&format!(
                "an interrupted run of {store} left {leases}: `fsage clean` or its next run releases them"
            ));
        }
    }
}

fn dispatch(command: Command, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        Command::Run(args) => run::run(&args, terminal),
        Command::Study(args) => study::run(&args, terminal),
        Command::Age(args) => age::run(&args, terminal),
        Command::Scan(args) => scan::run(&args, terminal),
        Command::Explain(args) => explain::run(&args, terminal),
        Command::Profile(args) => profile::run(&args, terminal),
        Command::Measure(args) => measure::run(&args, terminal),
        Command::Verify(args) => verify::run(&args, terminal),
        Command::Replay(args) => replay::run(&args, terminal),
        Command::Trace(command) => trace::run(&command, terminal),
        Command::Image(command) => image::run(&command, terminal),
        Command::Disk(command) => disk::run(&command, terminal),
        Command::Device(command) => device::run(&command, terminal),
        Command::Volume(command) => volume::run(&command, terminal),
        Command::Crash(args) => crash::run(&args, terminal),
        Command::PowerCycle(args) => power_cycle::run(&args, terminal),
        Command::Price(args) => price::run(&args, terminal),
        Command::Report(args) => report::run(&args, terminal),
        Command::Compare(args) => compare::run(&args, terminal),
        Command::Export(args) => export::run(&args, terminal),
        Command::Clean(args) => clean::run(&args, terminal),
        Command::Doctor(args) => doctor::run(&args, terminal),
        Command::Kernel(command) => kernel::run(&command, terminal),
        Command::Bisect(args) => bisect::run(&args, terminal),
        Command::Fleet(command) => fleet::run(&command, terminal),
        Command::Boot(_) => boot::run(terminal),
        Command::Serve(args) => serve::run(&args),
        Command::Completions(args) => completions::run(&args, terminal),
    }
}

/// Options that had another name once, and what to say of each.
const RENAMED: [(&str, &str); 4] = [
    ("--profile", "a study's presets are chosen with '--preset'"),
    ("--queue", "the queue depth of `fsage disk replay` is given with '--iodepth'"),
    ("--every", "the interval of `fsage disk stat` is given with '--interval'"),
    ("--below", "the directory that `fsage trace import` imports is given with '--root'"),
];

/// Adds the name that a renamed option has now.
fn with_new_name(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    if let Some((_, tip)) = RENAMED.iter().find(|(old, _)| old == given) {
        // Not an option that only looks alike, such as `--quiet` for `--queue`.
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*tip).to_owned().into()]));
    }
    error
}

/// Shows help, the version, or what is wrong with the arguments (exit code 2).
fn parse_failed(error: &clap::Error, args: &[OsString]) -> u8 {
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if help || !args.iter().any(|arg| arg == "--json") {
        let _ = error.print();
    } else {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let hint = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        let mut problem = Problem::new(problem::EXIT_USAGE, message);
        problem.hint = Some(hint.unwrap_or("see `fsage --help`").to_owned());
        Terminal::new(true, false, ColorChoice::Never).error(&problem);
    }
    if help && error.exit_code() == 0 { problem::EXIT_OK } else { problem::EXIT_USAGE }
}

/// The command as clap knows it, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Root is needed and not there.
///
/// # Errors
/// Exit code 3 when the effective user is not root.
pub(crate) fn require_root(what: &str) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let line: Vec<String> = std::env::args().collect();
    Err(Problem::new(problem::EXIT_MISSING, format!("{what} needs root"))
        .hint(format!("run `sudo {}`", line.join(" "))))
}
