//! `fsage replay`: a recorded trace once more, on another file system.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use fsage_engine::trace;
use fsage_model::load::{StopReason, WriteMode};
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::quantity::as_f64;
use fsage_model::replay::{ReplayOptions, ReplayReport, ReplayResult, Speed};

use super::progress::Progress;
use super::terminal::Terminal;
use super::{load, session, text, verify};
use fsage_lab::target::Incoming;

/// Name of the file that keeps how far a replay is, in the directory it works in.
const STATE_FILE: &str = ".fsage-replay";

/// Arguments of `fsage replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory should be empty. Every replay of a trace ends in the same digest, whatever the file system,
unless an operation fails that did not fail when it was recorded; it equals the one that `fsage age` printed.
Operations that failed when they were recorded are left out.

DIR/.fsage-replay records the progress and is removed at the end. After Ctrl-C or kill -9 the same command with
--resume continues at the next operation; after a crash of the host it starts over, and removes only what a replay created.

With --verify the exit code is 5 if an operation, the digest of a checkpoint or a byte differs from the recording.

Examples:
  fsage age /mnt/a --operations 50000 --trace run.parquet && fsage replay run.parquet /mnt/b --verify
  fsage replay run.parquet /mnt/b --speed x2 --resume")]
pub struct ReplayArgs {
    /// A trace that `fsage age --trace` or `fsage trace import` wrote
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// An existing directory of a mounted file system
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// `max`: one operation after the other; `recorded`: each at its time; `xN`: at N times the recorded
    /// speed
    #[arg(long, value_name = "SPEED", default_value = "max", value_parser = speed)]
    pub speed: Speed,
    /// Compare digests at the trace's checkpoints, and check every byte at the end
    #[arg(long)]
    pub verify: bool,
    /// Resume an interrupted replay of this trace in DIR, or start one
    #[arg(long)]
    pub resume: bool,
    /// Record the progress in this file instead of in DIR
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
}

fn speed(text: &str) -> Result<Speed, String> {
    text.parse()
}

/// Replays.
pub(crate) fn run(args: &ReplayArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let trace = args.trace.canonicalize().map_err(|error| {
        Problem::new(EXIT_USAGE, format!("cannot read trace `{}`", args.trace.display())).because(&error)
    })?;
    let directory = verify::existing_as_named(&args.directory)?;
    let state = match &args.state {
        Some(state) => std::path::absolute(state)
            .map_err(|error| Problem::new(EXIT_USAGE, "the state file has no path").because(&error))?,
        None => directory.join(STATE_FILE),
    };
    let (speed, verify, resume) = (args.speed, args.verify, args.resume);
    let options = ReplayOptions { speed, verify, resume, state: Some(state) };
    let mut progress = Progress::new(terminal);
    progress.stage(&format!("replaying {} in {}", args.trace.display(), args.directory.display()));
    // What is wrong with the trace says who replays it.
    let writes_at_end =
        trace::read(&trace).is_ok_and(|reader| reader.preamble().load.write_mode == WriteMode::Fast);
    let replay = call::Replay { trace, directory, options };
    let result = session::ask_interruptible(replay, writes_at_end, terminal, &mut |incoming| {
        if let Incoming::Event(event) = incoming {
            progress.event(&event);
        }
    });
    progress.finish();
    let result = result?;
    show(&result, args, terminal)?;
    Ok(if args.verify && result.replay.differs() { EXIT_DAMAGE } else { EXIT_OK })
}

fn show(result: &ReplayResult, args: &ReplayArgs, terminal: &Terminal) -> Result<(), Problem> {
    if terminal.json {
        return terminal.json(&whole(result)?);
    }
    let mut lines = load::summary(&result.load, &args.directory, "replayed in", terminal);
    lines.push('\n');
    for (name, value) in reported(&result.replay) {
        let _ = writeln!(lines, "  {name:<11} {value}");
    }
    if result.load.stopped_by == StopReason::Asked {
        let _ = writeln!(lines, "  {:<11} `fsage replay` with --resume continues here", "interrupted");
    }
    terminal.result(&lines)
}

/// The result of the load with what only a replay has as one more key.
fn whole(result: &ReplayResult) -> Result<serde_json::Value, Problem> {
    let error = |error| Problem::new(EXIT_FAILED, "cannot write the result as JSON").because(&error);
    let mut value = serde_json::to_value(&result.load).map_err(error)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("replay".to_owned(), serde_json::to_value(&result.replay).map_err(error)?);
    }
    Ok(value)
}

/// What only a replay has, in lines.
fn reported(replay: &ReplayReport) -> Vec<(&'static str, String)> {
    let mut rows = vec![(
        "trace",
        format!(
            "{}, {} left out because they failed when recorded",
            text::plural(replay.recorded, "operation", "operations"),
            text::count(replay.skipped)
        ),
    )];
    if replay.prelude > 0 {
        let made = "of these operations only create what existed before the recording";
        rows.push(("prelude", format!("{} {made}", text::count(replay.prelude))));
    }
    if replay.resumed_after > 0 {
        rows.push((
            "resumed",
            format!("after {}", text::plural(replay.resumed_after, "operation", "operations")),
        ));
    }
    if let Some(why) = &replay.started_over {
        rows.push(("started over", why.clone()));
    }
    if let Some(late) = &replay.lateness {
        let ns = |value: u64| text::duration(as_f64(value));
        rows.push((
            "lateness",
            format!("median {}, p99 {}, max {}", ns(late.p50_ns), ns(late.p99_ns), ns(late.max_ns)),
        ));
    }
    match &replay.recorded_digest {
        Some(digest) => rows.push(("recorded", format!("digest {digest}"))),
        None => rows.push(("recorded", "no digest: the trace has an older format".to_owned())),
    }
    if replay.verified.is_some() && replay.recorded_digest.is_some() {
        let matched = text::plural(replay.checkpoints_matched, "checkpoint", "checkpoints");
        rows.push(("checkpoints", format!("{matched} had the recorded digest")));
    }
    rows.extend(differences(replay));
    rows
}

/// What is not as it was recorded, and what was inspected for that.
fn differences(replay: &ReplayReport) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(one) = &replay.checkpoint_differs {
        rows.push((
            "differs",
            format!(
                "after {} of thread {} the digest is {} and not {}",
                text::plural(one.sequence, "operation", "operations"),
                one.thread,
                one.found,
                one.expected
            ),
        ));
    }
    if let Some(one) = &replay.divergence {
        rows.push((
            "diverged",
            format!(
                "at operation {} (thread {}, its {}th): {} of {} gave {}, recorded was {}",
                text::count(one.operation),
                one.thread,
                text::count(one.sequence),
                one.kind.name(),
                one.path,
                one.found,
                one.expected
            ),
        ));
    }
    if let Some(verified) = &replay.verified {
        let bad = verified.bad_blocks.values().sum();
        rows.push((
            "verified",
            format!(
                "{} in {}, {} wrong",
                text::plural(verified.good_blocks, "block", "blocks"),
                text::plural(verified.files.saturating_sub(verified.foreign_files), "file", "files"),
                text::count(bad)
            ),
        ));
        rows.extend(
            verified
                .findings
                .iter()
                .take(5)
                .map(|one| ("", format!("{} at {}: {}", one.path, one.offset, one.what))),
        );
    }
    rows
}
