//! `fsage device fit`: the device model of a drive, from the times of its reads.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fsage_analysis::device_fit::held_out::{HeldOut, Priced, errors};
use fsage_analysis::device_fit::plan::{self, Plan, Subject};
use fsage_analysis::device_fit::writes::{self, WritePlan};
use fsage_analysis::device_fit::{Fit, FitError, hdd, ssd};
use fsage_disk::media::Resolve as _;
use fsage_disk::price::serial_reads;
use fsage_engine::host::signature::{HEAD_BYTES, TAIL_BYTES};
use fsage_lab::target::Incoming;
use fsage_lab::volume::Volume;
use fsage_model::medium::{MediumError, MediumSpec, Parameters};
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Explain as _, Problem};
use fsage_model::protocol::call;
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_model::timed_read::{ReadTimes, Readable};
use fsage_sys::new_file::{NewFile, Readers};
use serde::Serialize;

use super::logged::{self, Logged, LoggedError};
use super::{erased, fitted, unreadable};
use crate::progress::Progress;
use crate::report::unwritten;
use crate::session;
use crate::terminal::Terminal;

/// Arguments of `fsage device fit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Times reads that bypass the page cache (sequential by place, random by distance and queue depth, repeated from the drive's
buffer), in random order, and fits the model of the device's class: hard disk, or SSD and card. Parameters that reads do not
show, such as everything about writes, are the preset's; the file states where each parameter comes from. Then other reads are
timed and compared with the model. Nothing is written to the device, except with --writes: everything on DEVICE is lost then.
See docs/fit.md.

Examples:
  sudo fsage device fit /dev/sda -o sda.toml
  sudo fsage device fit /dev/sda -o sda.toml --log requests.log
  sudo fsage device fit /dev/mmcblk0 -o card.toml --preset sd-a2
  sudo fsage device fit /dev/disk/by-id/mmc-… -o card.toml --writes --erase /dev/disk/by-id/mmc-…
  sudo fsage disk up mine --size 8GiB --medium sda.toml")]
pub struct FitArgs {
    /// Block device, preferably a whole disk, or a file without holes
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// Medium file to write; must not exist
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Class of the device [default: as reported by the kernel]
    #[arg(long, value_name = "CLASS", value_enum)]
    pub class: Option<Class>,
    /// Preset for the parameters that reads do not show [default: hdd-7200, ssd-consumer, emmc or sd-a2, by class]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Approximate number of random reads
    #[arg(long, value_name = "N", default_value_t = 800)]
    pub reads: u32,
    /// Random seed of places and order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Also compare the model with the reads of this request log, timed one after the other on DEVICE at their
    /// offsets (the first 2,000, or 1 GiB); a log of `fsage disk log save` or text of blkparse
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Then also time writes, SIZE of them (1GiB if not given) in long sequences; needs --erase
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "1GiB")]
    pub writes: Option<Bytes>,
    /// Allow the contents of DEVICE to be erased; PATH repeats DEVICE, and `PATH=UUID` also allows erasing
    /// the file system or partition table of that UUID on it
    #[arg(long, value_name = "PATH[=UUID]", requires = "writes")]
    pub erase: Vec<String>,
}

/// Classes of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Hard disk
    Hdd,
    /// Solid state drive
    Ssd,
    /// Memory card or eMMC
    Card,
}

/// What `fsage device fit --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct FitReport {
    /// The device.
    pub device: PathBuf,
    /// What the kernel says of it.
    pub readable: Readable,
    /// Its class.
    pub class: Class,
    /// The preset that gives the rest.
    pub preset: &'static str,
    /// Random seed.
    pub seed: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written; null where writes failed: some may have been.
    pub written_bytes: Option<u64>,
    /// Whether the model has what writes showed.
    pub is_of_writes: bool,
    /// The fitted model.
    #[serde(flatten)]
    pub fit: Fit,
    /// The model against reads that were not used.
    pub held_out: HeldOut,
    /// The model against the reads of a log; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LoggedError>,
    /// The medium as a flag names it.
    pub medium: String,
    /// The file.
    pub output: PathBuf,
}

/// Does it.
pub(super) fn run(args: &FitArgs, terminal: &Terminal) -> Result<u8, Problem> {
    // What may not be erased is known before anything is read.
    let volume = args.writes.map(|_| erased::volume(&args.device, &args.erase)).transpose()?;
    let file = output(&args.output)?;
    let hints = session::ask(call::ReadableHints { path: args.device.clone() });
    let readable = hints.map_err(|problem| unreadable(&args.device, problem))?;
    let class = args.class.unwrap_or_else(|| class(&readable));
    let preset = preset(args.preset.as_deref(), class, &readable)?;
    let refused = |error: FitError| refused(&args.device, &error);
    let subject = Subject {
        size_bytes: readable.hints.size_bytes,
        sector_bytes: readable.hints.sector_bytes,
        reads: args.reads,
        // A virtual disk serves what waits together as one batch: no rate of its depths is that of a queue.
        depths: !readable.is_virtual,
        seed: args.seed,
    };
    let plan = if class == Class::Hdd { plan::hdd(subject) } else { plan::ssd(subject) }.map_err(refused)?;
    let held_out = plan::held_out(subject).map_err(refused)?;
    let logged = args.log.as_deref().map(|log| logged::reads(log, &args.device, &subject)).transpose()?;
    for note in fitted::cautions(&readable) {
        terminal.warn(note);
    }
    let writes = write_plan(args, &subject).map_err(refused)?;
    let times = time(&args.device, &plan, "timing reads", terminal)?;
    let mut fit = estimate(&subject, &plan, &times, &preset).map_err(refused)?;
    model(&fit, &preset, &subject, &args.device)?;
    let held_times = time(&args.device, &held_out, "timing other reads", terminal)?;
    let of_log = |logged: &Logged| time(&args.device, &logged.plan, "timing the reads of the log", terminal);
    let logged_times = logged.as_ref().map(of_log).transpose()?;
    // Last: what is written may make later reads slower.
    let (mut written, mut failed) = (TimedWrites::default(), None);
    if let (Some(volume), Some(writes)) = (&volume, &writes) {
        match refine(&mut fit, volume, args, (&subject, writes), &preset, terminal) {
            Ok(found) => written = found,
            Err(problem) => {
                // What the reads showed is not lost by that.
                fit.notes.push(format!("writes were not timed: {}", problem.line()));
                failed = Some(problem);
            }
        }
    }
    let medium = model(&fit, &preset, &subject, &args.device)?;
    let held_out = compare(&medium, &subject, &held_out, &held_times)?;
    let mut read_bytes = times.read_bytes + held_times.read_bytes;
    let mut log = None;
    if let Some((Logged { log: file, plan, left_out }, times)) = logged.zip(logged_times) {
        log = Some(LoggedError { log: file, left_out, error: compare(&medium, &subject, &plan, &times)? });
        read_bytes += times.read_bytes;
    }
    let report = FitReport {
        device: args.device.clone(),
        readable,
        class,
        preset: preset.preset().name,
        seed: args.seed,
        read_bytes,
        written_bytes: failed.is_none().then_some(written.bytes),
        is_of_writes: written.is_used,
        fit,
        held_out,
        log,
        medium: medium.to_string(),
        output: args.output.clone(),
    };
    write(file, &fitted::file(&report, &preset), &args.output)?;
    print(&report, terminal)?;
    failed.map_or(Ok(EXIT_OK), Err)
}

fn print(report: &FitReport, terminal: &Terminal) -> Result<(), Problem> {
    if terminal.json { terminal.json(report) } else { terminal.result(&fitted::words(report, terminal)) }
}

/// The file, begun before anything is measured: what could not be written later is known now.
fn output(path: &Path) -> Result<NewFile, Problem> {
    if path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    if !fsage_lab::medium_file::is_file(&path.to_string_lossy()) {
        let message = format!("`{}` is not the name of a medium file", path.display());
        return Err(Problem::new(EXIT_USAGE, message).hint("give it a name that ends in `.toml`"));
    }
    NewFile::create(path, Readers::All).map_err(|error| {
        let problem = unwritten(EXIT_USAGE, "medium", path, &error);
        let next = "give a file in a folder that exists with `--output`";
        if problem.hint.is_some() { problem } else { problem.hint(next) }
    })
}

fn exists(path: &Path) -> Problem {
    Problem::new(EXIT_USAGE, format!("`{}` already exists", path.display()))
        .hint("give another name with `--output`, or remove the file")
}

fn write(file: NewFile, text: &str, path: &Path) -> Result<(), Problem> {
    let failed = |error: &std::io::Error| unwritten(EXIT_FAILED, "medium", path, error);
    file.file().write_all(text.as_bytes()).map_err(|error| failed(&error))?;
    file.commit_new().map(drop).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => failed(&error),
    })
}

fn class(readable: &Readable) -> Class {
    match (readable.hints.rotational, &readable.hints.card) {
        (true, _) => Class::Hdd,
        (false, Some(_)) => Class::Card,
        (false, None) => Class::Ssd,
    }
}

fn preset(named: Option<&str>, class: Class, readable: &Readable) -> Result<MediumSpec, Problem> {
    let usual = match class {
        Class::Hdd => "hdd-7200",
        Class::Ssd => "ssd-consumer",
        Class::Card if readable.hints.card.as_deref() == Some("SD") => "sd-a2",
        Class::Card => "emmc",
    };
    let spec = MediumSpec::named(named.unwrap_or(usual))?;
    match (class, spec.resolved()?) {
        (Class::Hdd, Parameters::Hdd(_)) | (Class::Ssd | Class::Card, Parameters::Ssd(_)) => Ok(spec),
        _ => {
            let (kind, like) =
                if class == Class::Hdd { ("a hard disk", usual) } else { ("an SSD, eMMC or A2 card", usual) };
            let message = format!("the preset `{}` is not that of {kind}", spec.preset().name);
            Err(Problem::new(EXIT_USAGE, message)
                .hint(format!("give one such as `{like}`, or another `--class`")))
        }
    }
}

fn refused(device: &Path, error: &FitError) -> Problem {
    let problem = Problem::new(error.exit_code(), format!("{} cannot be fitted", device.display()));
    let problem = problem.because(error);
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn time(device: &Path, plan: &Plan, stage: &str, terminal: &Terminal) -> Result<ReadTimes, Problem> {
    let mut progress = Progress::new(terminal);
    if terminal.live {
        progress.stage(&format!("{stage} of {}", device.display()));
    }
    let call = call::TimeReads { path: device.to_path_buf(), spec: plan.spec() };
    let times = session::ask_interruptible(call, false, terminal, &mut |incoming| {
        if let Incoming::Event(event) = incoming {
            progress.event(&event);
        }
    });
    progress.finish();
    times
}

fn estimate(subject: &Subject, plan: &Plan, times: &ReadTimes, preset: &MediumSpec) -> Result<Fit, FitError> {
    let runs = plan.with(times)?;
    match preset.resolved() {
        Ok(Parameters::Hdd(parameters)) => hdd::fit(subject, &runs, &parameters),
        Ok(Parameters::Ssd(parameters)) => ssd::fit(subject, &runs, &parameters),
        // No other preset comes here.
        _ => Err(FitError::Unlike { kind: "a drive", why: "its preset is of another kind" }),
    }
}

/// Which writes are timed, if any: nothing where the safety rules look for somebody's data.
fn write_plan(args: &FitArgs, subject: &Subject) -> Result<Option<WritePlan>, FitError> {
    let Some(Bytes(bytes)) = args.writes else { return Ok(None) };
    if !writes::BYTES.contains(&bytes) {
        return Err(FitError::Written { bytes });
    }
    writes::plan(*subject, bytes, (HEAD_BYTES as u64, TAIL_BYTES as u64)).map(Some)
}

/// Writes that were timed.
#[derive(Debug, Clone, Copy, Default)]
struct TimedWrites {
    bytes: u64,
    /// They are in the model.
    is_used: bool,
}

/// Times the writes and adds to the fit what they show, if there is a model with that: what the reads showed is not lost.
fn refine(
    fit: &mut Fit,
    volume: &Volume,
    args: &FitArgs,
    (subject, plan): (&Subject, &WritePlan),
    preset: &MediumSpec,
    terminal: &Terminal,
) -> Result<TimedWrites, Problem> {
    let parameters = preset.resolved()?;
    let is_flash = matches!(parameters, Parameters::Ssd(_));
    let (times, bytes) = erased::held(volume, (&args.device, args.seed), terminal, |writer| {
        if is_flash && !writer.discard()? {
            fit.notes.push(
                "the device discards nothing: what it held may be garbage-collected during the writes, which makes its drain slower"
                    .to_owned(),
            );
        }
        Ok((writer.time(plan.runs())?, writer.written_bytes))
    })?;
    let mut refined = fit.clone();
    let why_not = match writes::refine(&mut refined, subject, plan, &times, &parameters) {
        Err(error) => Some(error.to_string()),
        Ok(()) => model(&refined, preset, subject, &args.device).err().map(|problem| problem.line()),
    };
    match &why_not {
        Some(why) => fit.notes.push(format!("what writes show is not used: {why}")),
        None => *fit = refined,
    }
    Ok(TimedWrites { bytes, is_used: why_not.is_none() })
}

/// The medium, of which there is a model that holds the device.
fn model(fit: &Fit, preset: &MediumSpec, subject: &Subject, device: &Path) -> Result<MediumSpec, Problem> {
    let medium = || -> Result<MediumSpec, MediumError> {
        let medium = fit.medium(preset.preset().name)?;
        medium.resolve(subject.size_bytes)?;
        Ok(medium)
    };
    medium().map_err(|error| {
        Problem::new(EXIT_FAILED, format!("no device model fits the times of {}", device.display()))
            .because(&error)
            .hint("try again with more `--reads`, or another `--preset`")
    })
}

fn compare(
    medium: &MediumSpec,
    subject: &Subject,
    plan: &Plan,
    times: &ReadTimes,
) -> Result<HeldOut, Problem> {
    let runs = plan.with(times)?;
    let none = FitError::Runs { found: 0, planned: plan.runs.len() };
    let run = runs.first().ok_or_else(|| none.clone())?;
    let priced = serial_reads(medium, subject.size_bytes, run.reads)?;
    let priced: Vec<Priced> = priced
        .iter()
        .map(|read| Priced { taken_ns: as_f64(read.taken_ns), expected_ns: as_f64(read.expected_ns) })
        .collect();
    Ok(errors(&run.taken(), &priced).ok_or(none)?)
}
