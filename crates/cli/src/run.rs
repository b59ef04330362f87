//! `fsage run`: a study, trial by trial, with progress.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use fsage_model::escape;
use fsage_model::problem::Problem;
use fsage_model::quantity::as_f64;

use super::progress::Progress;
use super::terminal::Terminal;
use super::text;
use fsage_lab::run::{DigestGroup, RunEvent, RunObserver, RunOptions, RunSummary, TrialState, run_study};

/// Arguments of `fsage run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Running again resumes: complete trials are kept, the others are tried again.
A study of someone else is like a script: commands under its [driver] run as root, once allowed.

Examples:
  sudo fsage run studies/aging.toml --quick
  sudo fsage run studies/aging.toml --set file_system.kind=xfs --set repeats=5
  fsage run studies/aging.toml --quick --dry-run")]
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
    /// Print every command and write that would be made, and make none; says which safety rule would refuse a
    /// device (as root; the exit code stays 0)
    #[arg(long)]
    pub dry_run: bool,
    /// Run the commands that the study brings itself (`[driver]`), as root, and use the files and folders
    /// that it names outside its own folder: only of an author you trust
    #[arg(long)]
    pub allow_commands: bool,
    /// Allow this block device, named by the study, to be erased; `PATH=UUID` also the file system of that
    /// UUID on it; may be repeated
    #[arg(long, value_name = "PATH[=UUID]")]
    pub erase: Vec<String>,
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
    };
    let mut screen = Screen::new(terminal);
    let summary = run_study(&options, &mut screen);
    let commands = screen.end();
    let summary = summary?;
    match (terminal.json, args.dry_run) {
        (true, true) => terminal.json(&serde_json::json!({"commands": commands, "summary": summary}))?,
        (true, false) => terminal.json(&summary)?,
        (false, true) => terminal.result(&one_a_line(&commands))?,
        (false, false) => terminal.result(&show(&summary, terminal))?,
    }
    Ok(summary.exit_code())
}

/// Each command of a dry run in a line of its own, whatever it holds.
#[must_use]
pub fn one_a_line(commands: &[String]) -> String {
    commands.iter().map(|command| format!("{}\n", escape::line(command))).collect()
}

/// Shows events as they come.
#[derive(Debug)]
struct Screen {
    terminal: Terminal,
    progress: Progress,
    trial: String,
    commands: Vec<String>,
}

impl Screen {
    fn new(terminal: &Terminal) -> Self {
        let progress = Progress::new(terminal);
        Self { terminal: *terminal, progress, trial: String::new(), commands: Vec::new() }
    }

    /// Takes the bar away; gives the commands of a dry run.
    fn end(self) -> Vec<String> {
        self.progress.finish();
        self.commands
    }

    fn step(&mut self, name: &str, detail: &str) {
        if self.terminal.live {
            self.progress.stage(&format!("[{}] {name}", self.trial));
        } else if detail.is_empty() {
            self.progress.stage(&format!("  {name}"));
        } else {
            self.progress.stage(&format!("  {name:<9} {detail}"));
        }
    }

    fn planned(&self, event: &RunEvent) {
        let RunEvent::Planned { study, store, trials, complete, damaged } = event else { return };
        for trial in damaged {
            self.terminal.warn(&format!(
                "{}: {}; its trial is done again",
                trial.path.display(),
                trial.reason
            ));
        }
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut line = format!(
            "study {study}: {} in {}",
            text::plural(number(*trials), "trial", "trials"),
            store.display()
        );
        if *complete > 0 {
            let _ = write!(line, ", {complete} complete already");
        }
        self.progress.line(&line);
    }
}

impl RunObserver for Screen {
    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::Planned { .. } => self.planned(&event),
            RunEvent::TrialStarted { position, of, trial, label } => {
                self.trial = format!("{position}/{of}");
                self.progress.line(&format!("trial {position}/{of}  {label}  ({})", trial.id));
            }
            RunEvent::Step { name, detail } => self.step(&name, &detail),
            RunEvent::Progress { operations, share, rate, eta_s, note, .. } => {
                self.progress.update(operations, share, rate, eta_s, &note);
            }
            RunEvent::Warning { warning } => self.progress.warning(&warning),
            RunEvent::TrialFinished { state, elapsed_ns, error, .. } => {
                let time = text::duration(as_f64(elapsed_ns));
                let line = match state {
                    TrialState::Complete => format!("  complete in {time}"),
                    TrialState::Failed => format!("  failed after {time}: {error}"),
                    TrialState::Kept => "  complete from an earlier run".to_owned(),
                    TrialState::Pending => "  given up".to_owned(),
                };
                self.progress.line(&line);
            }
            RunEvent::DryRun { line } => self.commands.push(line),
            RunEvent::Note { text } => self.progress.line(&text),
        }
    }
}

fn show(summary: &RunSummary, terminal: &Terminal) -> String {
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
    if summary.complete + summary.kept > 0 {
        let _ = writeln!(text, "\nNext: fsage report {}", summary.store.display());
    }
    text
}

/// Whether the same seed left the same logical tree on every file system.
fn digests(groups: &[DigestGroup], terminal: &Terminal) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let agreeing = groups.iter().filter(|g| g.agree).count();
    let mut text =
        format!("\n  Same operations, same logical tree: {agreeing} of {} groups agree.\n", groups.len());
    for group in groups {
        let mark =
            if group.agree { terminal.paint("32", "same") } else { terminal.paint("1;31", "DIFFERENT") };
        let cell = if group.cell.is_empty() { String::new() } else { format!("{}, ", group.cell) };
        let names: Vec<&str> = group.digests.keys().map(String::as_str).collect();
        let line = format!("{cell}{}: {}", group.stage, names.join(", "));
        let _ = writeln!(text, "    {mark}  {}", escape::line(&line));
        if group.agree {
            continue;
        }
        for (file_system, digest) in &group.digests {
            let _ = writeln!(text, "          {:<8} {}", escape::line(file_system), escape::line(digest));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ColorChoice;
    use std::collections::BTreeMap;

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
            interrupted_by: Some(2),
            elapsed_ns: 1_500_000_000,
        };
        let text = show(&summary, &terminal);
        assert!(text.starts_with("study s in 1.50 s\n"));
        assert!(text.contains("DIFFERENT  age: ext4, xfs") && text.contains("xfs      bb"));
        assert!(text.contains("again to resume") && text.ends_with("Next: fsage report store/s\n"));
    }
}
