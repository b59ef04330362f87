//! `fsage fleet`: a study whose trials are tasks of a Slurm cluster (`fsage run STUDY --fleet slurm`).

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fsage_lab::fleet::{
    self, Collected, FleetOptions, FleetStatus, PerTask, Submitted, TaskPlace, TaskState, TaskStatus,
};
use fsage_lab::run::{RunEvent, RunObserver, RunOptions, TrialState};
use fsage_model::escape;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use serde_json::json;

use super::digest::digests;
use super::terminal::Terminal;
use super::text;

/// Where tasks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fleet {
    /// Slurm, by its commands on this host
    Slurm,
}

/// What a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// One repeat of every cell, so that compared trials run on one node
    Repeat,
    /// One trial; only for studies whose volumes are all virtual disks in model time
    Trial,
}

/// Options of `fsage run` for fleets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub struct FleetArgs {
    /// Submit the trials to a cluster and return; the store and the study must have the same paths on all
    /// nodes
    #[arg(long, value_name = "KIND", value_enum, conflicts_with = "jobs")]
    pub fleet: Option<Fleet>,
    /// Partition of the cluster
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub partition: Option<String>,
    /// Amount of work per task
    #[arg(long, value_name = "UNIT", value_enum, default_value = "repeat", requires = "fleet")]
    pub per_task: Unit,
    /// Additional option for sbatch, such as `--sbatch=--time=120`; may be repeated
    #[arg(long, value_name = "OPTION", requires = "fleet", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
}

impl FleetArgs {
    fn options(&self) -> FleetOptions {
        let per_task = match self.per_task {
            Unit::Repeat => PerTask::Repeat,
            Unit::Trial => PerTask::Trial,
        };
        FleetOptions { per_task, partition: self.partition.clone(), sbatch: self.sbatch.clone() }
    }
}

/// What to do with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Show the progress of the tasks of a store
    Status(StoreArgs),
    /// Cancel the tasks of a store; completed trials are kept
    Cancel(StoreArgs),
    /// Collect the trials completed so far into the store
    Collect(StoreArgs),
    /// Run one task on a node
    #[command(hide = true)]
    Task(TaskArgs),
}

/// Arguments of `fsage fleet status`, `cancel` and `collect`.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// The store of a study submitted to a fleet
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
}

/// Arguments of `fsage fleet task`, which Slurm starts.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// Folder of the submission
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
}

/// Does it.
pub(crate) fn run(command: &FleetCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        FleetCommand::Status(args) => {
            let status = fleet::status(&args.store)?;
            if terminal.json {
                terminal.json(&status)?;
            } else {
                terminal.result(&show_status(&status, terminal))?;
            }
            Ok(EXIT_OK)
        }
        FleetCommand::Cancel(args) => {
            let tasks = fleet::cancel(&args.store)?;
            if terminal.json {
                terminal.json(&json!({"cancelled": tasks}))?;
            } else {
                let tasks = text::plural(u64::try_from(tasks).unwrap_or(u64::MAX), "task", "tasks");
                let store = args.store.display();
                terminal.result(&format!("{tasks} cancelled\nNext: fsage fleet collect {store}\n"))?;
            }
            Ok(EXIT_OK)
        }
        FleetCommand::Collect(args) => {
            let collected = fleet::collect(&args.store)?;
            if terminal.json {
                terminal.json(&collected)?;
            } else {
                terminal.result(&show_collected(&collected, terminal))?;
            }
            let differ = collected.digest_groups.iter().any(|group| !group.agree);
            Ok(match (differ, collected.failed.is_empty()) {
                (true, _) => EXIT_DAMAGE,
                (false, true) => EXIT_OK,
                (false, false) => EXIT_FAILED,
            })
        }
        FleetCommand::Task(args) => task(args, terminal),
    }
}

/// Gives a study to a fleet.
pub(crate) fn submit(options: &RunOptions, args: &FleetArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let submitted = fleet::submit(options, &args.options())?;
    if terminal.json {
        terminal.json(&submitted)?;
    } else {
        terminal.result(&show_submitted(&submitted))?;
    }
    Ok(EXIT_OK)
}

fn show_submitted(submitted: &Submitted) -> String {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let store = submitted.store.display().to_string();
    let store = escape::line(&store);
    let tasks = text::plural(number(submitted.tasks), "task", "tasks");
    let trials = text::plural(number(submitted.trials), "trial", "trials");
    let complete = match submitted.complete {
        0 => String::new(),
        complete => format!(", {complete} already complete"),
    };
    if let Some(command) = &submitted.command {
        return format!("{}\n{tasks} with {trials}\n", escape::line(command));
    }
    let study = escape::line(&submitted.study);
    let notes: String = submitted.notes.iter().map(|note| format!("{}\n", escape::line(note))).collect();
    notes
        + &match &submitted.job {
            Some(job) => format!(
                "study {study}: {trials} in {tasks}, job {}{complete}\nNext: fsage fleet status {store}\n",
                escape::line(job)
            ),
            None => format!("study {study}: every trial is complete\nNext: fsage report {store}\n"),
        }
}

fn show_status(status: &FleetStatus, terminal: &Terminal) -> String {
    let job = status.job.as_deref().map_or_else(String::new, |job| format!(" (job {job})"));
    let head = format!("study {} as {}{job}", status.study, status.name);
    let mut text = format!(
        "{}\n{} of {} trials are in the store\n\n",
        terminal.bold(&escape::line(&head)),
        status.collected,
        status.trials
    );
    let mut rows = vec![["task", "state", "trials", "nodes", ""].map(str::to_owned).to_vec()];
    rows.extend(status.tasks.iter().map(row));
    text.push_str(&text::table(&rows, 2));
    if let Some(why) = &status.no_answer {
        let _ = writeln!(text, "\nSlurm did not list its tasks: {}", escape::line(why));
    }
    let store = status.store.display().to_string();
    let store = escape::line(&store);
    let ended = status.tasks.iter().any(|task| task.state == TaskState::Ended);
    let complete: usize = status.tasks.iter().map(|task| task.complete).sum();
    let next = match (complete, ended) {
        (0, true) => "run the command that submitted it again: it submits what is not complete".to_owned(),
        (0, false) => format!("fsage fleet status {store}"),
        _ => format!("fsage fleet collect {store}"),
    };
    let _ = writeln!(text, "\nNext: {next}");
    text
}

fn row(task: &TaskStatus) -> Vec<String> {
    let failed = match task.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let trials = format!("{} of {}{failed}", task.complete, task.trials);
    let (nodes, detail) = (task.nodes.join(" "), escape::line(&task.detail).into_owned());
    vec![task.index.to_string(), task.state.to_string(), trials, escape::line(&nodes).into_owned(), detail]
}

fn show_collected(collected: &Collected, terminal: &Terminal) -> String {
    let mut text = format!(
        "study {}: {} collected, {} of {} trials complete\n",
        escape::line(&collected.study),
        collected.taken,
        collected.complete,
        collected.trials
    );
    for (id, error) in &collected.failed {
        let _ = writeln!(text, "  {id}: {}", escape::line(error));
    }
    for note in &collected.notes {
        let _ = writeln!(text, "  {}", escape::line(note));
    }
    text.push_str(&digests(&collected.digest_groups, terminal));
    let store = collected.store.display().to_string();
    let store = escape::line(&store);
    let next = match (collected.complete, collected.queued) {
        (complete, _) if complete == collected.trials => format!("fsage report {store}"),
        (_, Some(0)) => "run the command that submitted it again: it submits what is not complete".to_owned(),
        _ => format!("fsage fleet status {store}"),
    };
    let _ = writeln!(text, "Next: {next}");
    text
}

/// One task. What it says goes to the task's log.
fn task(args: &TaskArgs, terminal: &Terminal) -> Result<u8, Problem> {
    super::require_root("running trials")?;
    let index = variable("SLURM_ARRAY_TASK_ID").and_then(|number| number.parse().ok()).ok_or_else(|| {
        Problem::new(EXIT_USAGE, "not run as a Slurm task: SLURM_ARRAY_TASK_ID is not set")
            .hint("`fsage run STUDY --fleet slurm` submits tasks")
    })?;
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let place = TaskPlace {
        place: args.place.clone(),
        index,
        node: variable("SLURMD_NODENAME").unwrap_or_else(own),
        task: variable("SLURM_ARRAY_JOB_ID").map(|job| format!("{job}_{index}")).unwrap_or_default(),
        restarts: variable("SLURM_RESTART_COUNT").and_then(|number| number.parse().ok()).unwrap_or(0),
    };
    let mut log = Log { terminal, label: String::new() };
    log.line(&format!("task {index} on {}", place.node));
    let end = fleet::task(&place, &mut log)?;
    let Some(summary) = &end.summary else {
        log.line("told to stop before it started");
        return Ok(if end.requeued { EXIT_OK } else { EXIT_FAILED });
    };
    log.line(&format!(
        "{} complete, {} already complete, {} failed, {} not done",
        summary.complete, summary.kept, summary.failed, summary.pending
    ));
    Ok(if end.requeued { EXIT_OK } else { summary.exit_code() })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Writes a line for each trial.
struct Log<'a> {
    terminal: &'a Terminal,
    label: String,
}

impl Log<'_> {
    fn line(&self, text: &str) {
        // Nobody reads it when it cannot be written.
        let _ = self.terminal.result(&format!("{} {}\n", fsage_lab::time::now_rfc3339(), escape::line(text)));
    }
}

impl RunObserver for Log<'_> {
    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::TrialStarted { position, of, label, .. } => {
                self.label = format!("{position}/{of} {label}");
            }
            RunEvent::TrialFinished { id, state, error, .. } => {
                let end = match state {
                    TrialState::Complete | TrialState::Kept => "complete".to_owned(),
                    TrialState::Failed => format!("failed: {error}"),
                    TrialState::Pending => "not completed".to_owned(),
                };
                self.line(&format!("trial {id} {} {end}", self.label));
            }
            RunEvent::Note { text } => self.line(&text),
            RunEvent::Planned { .. }
            | RunEvent::Step { .. }
            | RunEvent::Progress { .. }
            | RunEvent::Warning { .. }
            | RunEvent::DryRun { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ColorChoice;

    fn status(complete: usize, state: TaskState) -> FleetStatus {
        let task = TaskStatus {
            index: 0,
            state,
            trials: 4,
            complete,
            failed: 1,
            nodes: vec!["n1".to_owned()],
            detail: "why\u{1b}[31m".to_owned(),
        };
        FleetStatus {
            study: "s".to_owned(),
            store: PathBuf::from("/st"),
            name: "fsage-s-1".to_owned(),
            job: Some("7".to_owned()),
            submitted: String::new(),
            trials: 4,
            collected: 0,
            tasks: vec![task],
            no_answer: None,
        }
    }

    #[test]
    fn the_next_step_follows_from_what_tasks_did() {
        let terminal = Terminal::new(false, true, ColorChoice::Never);
        let text = show_status(&status(0, TaskState::Ended), &terminal);
        assert!(text.contains("0 of 4, 1 failed") && text.contains("again: it submits"), "{text}");
        assert!(!text.contains('\u{1b}'), "what a log says is escaped");
        assert!(
            show_status(&status(0, TaskState::Running), &terminal)
                .ends_with("Next: fsage fleet status /st\n")
        );
        assert!(
            show_status(&status(2, TaskState::Ended), &terminal).ends_with("Next: fsage fleet collect /st\n")
        );
    }
}
