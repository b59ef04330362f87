//! `fsage run`: a study, trial by trial, with progress.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use fsage_model::escape;
use fsage_model::problem::Problem;
use fsage_model::quantity::as_f64;
use serde::Serialize;

use super::digest::digests;
use super::fleet::{self, FleetArgs};
use super::foresight;
use super::progress::Progress;
use super::terminal::Terminal;
use super::text;
use fsage_analysis::report::answer::Answer;
use fsage_analysis::report::{ReportOptions, answer};
use fsage_lab::run::{RunEvent, RunObserver, RunOptions, RunSummary, TrialState, run_study};
use fsage_lab::store::Reader;
use fsage_lab::study::Study;

/// Arguments of `fsage run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Running again resumes: complete trials are kept, the others run again.
Treat a study from someone else like a script: commands under its [driver] run as root, once allowed.

Examples:
  sudo fsage run studies/aging.toml --quick
  sudo fsage run studies/aging.toml --set file_system.kind=xfs --set repeats=5
  fsage run studies/aging.toml --quick --dry-run
  sudo fsage run fullness --quick --jobs 2")]
pub struct RunArgs {
    /// The study's TOML file, or the name of a study that comes with fsage (`fsage study list`)
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// Use the study's `quick` preset: minutes instead of hours
    #[arg(long, conflicts_with = "preset")]
    pub quick: bool,
    /// Use this preset of the study
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Change the study: a dotted path and a TOML value, such as `stage.age.threads=2`; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Where trials are stored [default: store/NAME of the study]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Print every command and write without executing any, and as root the safety rule that would refuse a
    /// device; the exit code stays 0
    #[arg(long)]
    pub dry_run: bool,
    /// Run the commands that the study contains (`[driver]`), as root, and use the files and folders that it
    /// names outside its own folder; only if you trust its author
    #[arg(long)]
    pub allow_commands: bool,
    /// Mount crash states that no kernel wrote (drives with flash faults) on this host, which they may crash
    #[arg(long)]
    pub on_host: bool,
    /// Run this many trials at a time, each on a processor of its own; more than 1 only for studies whose
    /// volumes are all virtual disks in model time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: u32,
    /// Allow this block device, named by the study, to be erased; `PATH=UUID` also the file system of that
    /// UUID on it; may be repeated
    #[arg(long, value_name = "PATH[=UUID]")]
    pub erase: Vec<String>,
    /// Fleets.
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// Runs the study.
pub(crate) fn run(args: &RunArgs, terminal: &Terminal) -> Result<u8, Problem> {
    if !args.dry_run {
        super::require_root("running a study")?;
    }
    let options = RunOptions {
        study: args.study.clone(),
        quick: args.quick,
        preset: args.preset.clone(),
        set: args.set.clone(),
        store: args.store.clone(),
        dry_run: args.dry_run,
        erase: args.erase.clone(),
        allow_commands: args.allow_commands,
        on_host: args.on_host,
        jobs: args.jobs,
        only: None,
    };
    if args.fleet.fleet.is_some() {
        return fleet::submit(&options, &args.fleet, terminal);
    }
    let mut screen = Screen::new(terminal, args.jobs);
    let summary = run_study(&options, &mut screen);
    let commands = screen.end();
    let summary = summary?;
    match (terminal.json, args.dry_run) {
        (true, true) => terminal.json(&serde_json::json!({"commands": commands, "summary": summary}))?,
        (true, false) => {
            let answer = found(&summary, terminal);
            terminal.json(&Answered { summary: &summary, answer: answer.as_ref() })?;
        }
        (false, true) => terminal.result(&one_a_line(&commands))?,
        (false, false) => {
            let answer = found(&summary, terminal);
            terminal.result(&show(&summary, answer.as_ref(), terminal))?;
        }
    }
    Ok(summary.exit_code())
}

/// What `fsage run --json` prints: the summary's fields, and the answer.
#[derive(Debug, Serialize)]
struct Answered<'a> {
    #[serde(flatten)]
    summary: &'a RunSummary,
    /// Absent as long as no trial is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a Answer>,
}

/// The answer of the store, as its report begins with it. A store that cannot be read is no reason to fail: the
/// trials are complete.
fn found(summary: &RunSummary, terminal: &Terminal) -> Option<Answer> {
    if summary.complete + summary.kept == 0 {
        return None;
    }
    let read = Reader::open(&summary.store)
        .map_err(|error| error.to_string())
        .and_then(|reader| answer(&reader, &ReportOptions::default()).map_err(|error| error.to_string()));
    read.map_err(|error| terminal.warn(&format!("no answer: {error}"))).ok()
}

/// Each command of a dry run in a line of its own, whatever it holds.
#[must_use]
pub fn one_a_line(commands: &[String]) -> String {
    commands.iter().map(|command| format!("{}\n", escape::line(command))).collect()
}

/// Shows events as they come: a bar on a terminal, and for each trial one line, when it is over. Warnings are
/// stored with their trials; here they are counted.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal,
    progress: Progress,
    commands: Vec<String>,
    /// Trials that run, by position: without `--jobs` one, at 0.
    running: BTreeMap<usize, Running>,
}

/// A trial that runs.
#[derive(Debug, Default)]
struct Running {
    /// `3/45`.
    number: String,
    /// `ext4, utilisation max 80 %`.
    label: String,
    warnings: u64,
}

impl Screen {
    /// With several trials at a time there is no bar, which can show only one.
    pub(super) fn new(terminal: &Terminal, jobs: u32) -> Self {
        let terminal = Terminal { live: terminal.live && jobs <= 1, ..*terminal };
        let (commands, running) = (Vec::new(), BTreeMap::new());
        Self { terminal, progress: Progress::new(&terminal), commands, running }
    }

    /// Takes the bar away; gives the commands of a dry run.
    pub(super) fn end(self) -> Vec<String> {
        self.progress.finish();
        self.commands
    }

    fn planned(&self, event: &RunEvent) {
        let RunEvent::Planned { study, store, trials, complete, damaged } = event else { return };
        for trial in damaged {
            self.terminal.warn(&format!("{}: {}; its trial runs again", trial.path.display(), trial.reason));
        }
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut line = format!(
            "study {study}: {} in {}",
            text::plural(number(*trials), "trial", "trials"),
            store.display()
        );
        if *complete > 0 {
            let _ = write!(line, ", {complete} already complete");
        }
        self.progress.line(&line);
    }
}

impl RunObserver for Screen {
    fn study(&mut self, study: &Study) {
        for search in fsage_lab::study::foresight(study) {
            self.progress.line(&escape::line(&search.text()));
        }
        let unjudged = foresight::unjudged(study);
        if !unjudged.is_empty() {
            let (few, all) = (unjudged.len(), study.spec.claim.len());
            self.progress.line(&format!(
                "{few} of {all} claims cannot be judged as this run is planned (`fsage study check` names them):"
            ));
            foresight::short_lines(&unjudged)
                .iter()
                .for_each(|line| self.progress.line(&format!("  {}", escape::line(line))));
        }
    }

    fn event(&mut self, event: RunEvent) {
        self.event_of(0, event);
    }

    fn event_of(&mut self, position: usize, event: RunEvent) {
        match event {
            RunEvent::Planned { .. } => self.planned(&event),
            RunEvent::TrialStarted { position: number, of, label, .. } => {
                let number = format!("{number}/{of}");
                self.running.insert(position, Running { number, label, warnings: 0 });
            }
            // Where there is no bar, steps are in the trial's log only.
            RunEvent::Step { name, .. } => {
                let number = self.running.get(&position).map_or("", |trial| trial.number.as_str());
                if self.terminal.live {
                    self.progress.stage(&format!("[{number}] {name}"));
                }
            }
            RunEvent::Progress { operations, share, rate, eta_s, note, .. } => {
                if self.terminal.live {
                    self.progress.update(operations, share, rate, eta_s, &note);
                }
            }
            RunEvent::Warning { warning } => match self.running.get_mut(&position) {
                Some(trial) => trial.warnings += 1,
                None => self.progress.warning(&warning),
            },
            RunEvent::TrialFinished { state, elapsed_ns, error, .. } => {
                let trial = self.running.remove(&position).unwrap_or_default();
                self.progress.line(&over(&trial, &finished(state, elapsed_ns, &error)));
            }
            RunEvent::DryRun { line } => self.commands.push(line),
            RunEvent::Note { text } => self.progress.line(&text),
        }
    }
}

/// The line of a trial that is over.
fn over(trial: &Running, end: &str) -> String {
    let warnings = match trial.warnings {
        0 => String::new(),
        number => format!(", {}", text::plural(number, "warning", "warnings")),
    };
    format!("trial {}  {}  {end}{warnings}", trial.number, trial.label)
}

/// How a trial ended.
fn finished(state: TrialState, elapsed_ns: u64, error: &str) -> String {
    let time = text::duration(as_f64(elapsed_ns));
    match state {
        TrialState::Complete => format!("complete in {time}"),
        TrialState::Failed => format!("failed after {time}: {error}"),
        TrialState::Kept => "complete from an earlier run".to_owned(),
        TrialState::Pending => "not completed".to_owned(),
    }
}

fn show(summary: &RunSummary, answer: Option<&Answer>, terminal: &Terminal) -> String {
    let mut text = format!(
        "{} {}\n\n",
        terminal.bold(&escape::line(&format!("study {}", summary.study))),
        terminal.dim(&format!("in {}", text::duration(as_f64(summary.elapsed_ns))))
    );
    let counts = [
        (summary.complete, "complete", "1;32"),
        (summary.kept, "complete from earlier runs", "32"),
        (summary.failed, "failed", "1;31"),
        (summary.pending, "not done yet", "33"),
    ];
    for (count, what, style) in counts {
        if count > 0 {
            let _ = writeln!(text, "  {count:>4} {}", terminal.paint(style, what));
        }
    }
    for trial in summary.trials.iter().filter(|t| t.state == TrialState::Failed) {
        let factors: Vec<String> = trial.factors.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let line = format!("{} ({}): {}", trial.id, factors.join(", "), trial.error);
        let _ = writeln!(text, "       {}", escape::line(&line));
    }
    text.push_str(&digests(&summary.digest_groups, terminal));
    let _ = match summary.interrupted_by {
        Some(_) => writeln!(text, "\nInterrupted. Run the same command again to resume."),
        None if summary.failed > 0 => writeln!(text, "\nRun the same command again to retry what failed."),
        None => Ok(()),
    };
    if let Some(answer) = answer {
        text.push_str(&answered(answer, terminal));
    }
    if summary.complete + summary.kept > 0 {
        let _ = writeln!(text, "\nNext: fsage report {}", summary.store.display());
    }
    text
}

/// The answer, in the words of the report, and the warnings that it stands under.
fn answered(answer: &Answer, terminal: &Terminal) -> String {
    let mut text = String::new();
    let lines = answer.lines();
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{}", terminal.bold("Answer"));
    }
    for line in lines {
        let _ = writeln!(text, "  {}", escape::line(&line));
    }
    if let Some(line) = answer.warning_line() {
        let _ = writeln!(text, "\n{}", escape::line(&line));
    }
    text
}

#[cfg(test)]
mod tests {
    use fsage_analysis::report::answer::{VerdictCount, WarningCount};
    use fsage_lab::run::DigestGroup;

    use super::*;
    use crate::terminal::ColorChoice;

    #[test]
    fn the_summary_names_failures_digests_and_the_next_step() {
        let terminal = Terminal::new(false, true, ColorChoice::Never);
        let digests =
            BTreeMap::from([("ext4".to_owned(), "aa".to_owned()), ("xfs".to_owned(), "bb".to_owned())]);
        let summary = RunSummary {
            study: "s".to_owned(),
            store: PathBuf::from("store/s"),
            trials: Vec::new(),
            complete: 2,
            failed: 0,
            kept: 0,
            pending: 1,
            damaged: Vec::new(),
            digest_groups: vec![DigestGroup {
                cell: String::new(),
                stage: "age".to_owned(),
                digests,
                agree: false,
            }],
            stopped: Vec::new(),
            interrupted_by: Some(2),
            elapsed_ns: 1_500_000_000,
        };
        let text = show(&summary, None, &terminal);
        assert!(text.starts_with("study s in 1.50 s\n"));
        assert!(text.contains("DIFFERENT  age: ext4, xfs") && text.contains("xfs      bb"));
        assert!(text.contains("again to resume") && text.ends_with("Next: fsage report store/s\n"));
        let answer = Answer {
            verdicts: vec![VerdictCount { verdict: "holds", count: 1 }],
            warnings: vec![WarningCount { kind: "clock".to_owned(), warnings: 4, trials: 2 }],
            trials: 3,
            ..Answer::default()
        };
        let text = show(&summary, Some(&answer), &terminal);
        let end = "\nAnswer\n  1 published finding: 1 holds.\n\nWarnings: clock in 2 of 3 trials.\n\nNext: fsage report store/s\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_trial_is_one_line_however_much_happens_in_it() {
        let trial = Running { number: "3/45".to_owned(), label: "ext4, repeat 1".to_owned(), warnings: 2 };
        let line = over(&trial, &finished(TrialState::Complete, 3_400_000_000, ""));
        assert_eq!(line, "trial 3/45  ext4, repeat 1  complete in 3.40 s, 2 warnings");
    }
}
