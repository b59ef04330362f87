//! Slurm's commands (22.05 and later).

use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::tools::{Invocation, ToolError};

/// How long a command may take: the controller answers in seconds, or not at all.
const LIMIT: Duration = Duration::from_secs(60);

/// Seconds before its time limit at which a task is asked to end.
const WARNED_S: u32 = 120;

/// Variables of this process that tasks have too.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "SLURM_CONF", "FSAGE_RUNTIME_DIR", "FSAGE_CACHE_DIR"];

/// A task that Slurm knows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuedTask {
    /// Its number.
    pub index: usize,
    /// `PENDING`, `RUNNING`, `COMPLETING`…
    pub state: String,
    /// Where it runs; empty as long as it does not.
    pub node: String,
    /// Why it does not run.
    pub reason: String,
}

/// What is submitted.
pub(super) struct Submission<'a> {
    pub(super) name: &'a str,
    /// Folder of the submission, in which the tasks begin.
    pub(super) place: &'a Path,
    pub(super) script: &'a Path,
    pub(super) tasks: usize,
    /// Whether each has its node to itself.
    pub(super) alone: bool,
    pub(super) partition: Option<&'a str>,
    /// Further options, as sbatch takes them.
    pub(super) options: &'a [String],
}

impl Submission<'_> {
    /// The command.
    pub(super) fn invocation(&self) -> Invocation {
        let mut argv: Vec<String> =
            ["sbatch", "--parsable", "--requeue", "--open-mode=append"].map(str::to_owned).into();
        // The limits of this process, and of what it starts, are not for trials.
        argv.push("--propagate=NONE".to_owned());
        argv.push(format!("--job-name={}", self.name));
        argv.push(format!("--array=0-{}", self.tasks.saturating_sub(1)));
        argv.push(format!("--chdir={}", self.place.display()));
        // Relative, so that nothing in the path is taken for a pattern.
        argv.push("--output=task-%a.log".to_owned());
        argv.push(format!("--export={}", VARIABLES.join(",")));
        argv.push(format!("--signal=B:TERM@{WARNED_S}"));
        argv.extend(self.alone.then(|| "--exclusive".to_owned()));
        argv.extend(self.partition.map(|name| format!("--partition={name}")));
        argv.extend_from_slice(self.options);
        argv.push(self.script.display().to_string());
        command(argv)
    }

    /// Submits it; the job's number.
    pub(super) fn submit(&self) -> Result<String, ToolError> {
        let text = said(&self.invocation())?;
        // `NUMBER;CLUSTER` where there are several clusters.
        Ok(text.trim().split(';').next().unwrap_or_default().to_owned())
    }
}

/// The tasks of the job of this name that are in the queue or run.
pub(super) fn queue(name: &str) -> Result<Vec<QueuedTask>, ToolError> {
    let name = format!("--name={name}");
    let words = ["squeue", "--noheader", "--array", &name, "--format=%K|%T|%N|%r"];
    let text = said(&command(words.map(str::to_owned).into()))?;
    let mut tasks: Vec<QueuedTask> = text.lines().filter_map(task).collect();
    tasks.sort_by_key(|task| task.index);
    Ok(tasks)
}

/// A line of [`queue`].
fn task(line: &str) -> Option<QueuedTask> {
    let mut fields = line.trim().split('|').map(str::to_owned);
    let index = fields.next()?.parse().ok()?;
    let (state, node, reason) = (fields.next()?, fields.next()?, fields.next()?);
    let reason = Some(reason).filter(|reason| reason != "None").unwrap_or_default();
    Some(QueuedTask { index, state, node, reason })
}

/// Ends every task of the job of this name.
pub(super) fn cancel(name: &str) -> Result<(), ToolError> {
    said(&command(vec!["scancel".to_owned(), format!("--name={name}")])).map(drop)
}

/// Whether Slurm has this task (`JOB_INDEX`) as one that runs: it was not cancelled, nor is it being ended.
pub(super) fn runs(task: &str) -> Result<bool, ToolError> {
    let job = format!("--jobs={task}");
    let text = said(&command(["squeue", "--noheader", &job, "--format=%T"].map(str::to_owned).into()))?;
    Ok(text.trim() == "RUNNING")
}

/// Lets this task (`JOB_INDEX`), which runs, begin again later.
pub(super) fn requeue(task: &str) -> Result<(), ToolError> {
    said(&command(["scontrol", "requeue", task].map(str::to_owned).into())).map(drop)
}

fn command(argv: Vec<String>) -> Invocation {
    Invocation::new(argv, "slurm-client".to_owned(), LIMIT)
}

fn said(invocation: &Invocation) -> Result<String, ToolError> {
    let all = |output: &mut dyn BufRead| {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
    };
    let english = |command: &mut std::process::Command| {
        command.env("LC_ALL", "C.UTF-8");
    };
    invocation.stream(english, None, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_queue_is_read() {
        let task = |line| task(line).map(|task| (task.index, task.state, task.node, task.reason));
        let owned = |(index, state, node, reason): (usize, &str, &str, &str)| {
            (index, state.to_owned(), node.to_owned(), reason.to_owned())
        };
        assert_eq!(task("3|RUNNING|n1|None"), Some(owned((3, "RUNNING", "n1", ""))));
        assert_eq!(task("0|PENDING||Resources"), Some(owned((0, "PENDING", "", "Resources"))));
        assert_eq!(task("N/A|RUNNING|n1|None"), None);
        assert_eq!(task("slurm_load_jobs error: Invalid job id specified"), None);
    }

    #[test]
    fn what_must_be_alone_gets_its_node_and_the_users_options_come_last() {
        let options = ["--time=60".to_owned()];
        let submission = Submission {
            name: "fsage-a",
            place: Path::new("/s/fleet/1"),
            script: Path::new("/s/fleet/1/task.sh"),
            tasks: 3,
            alone: true,
            partition: Some("big"),
            options: &options,
        };
        let argv = submission.invocation().argv().to_vec();
        for word in ["--array=0-2", "--exclusive", "--partition=big", "--requeue", "--output=task-%a.log"] {
            assert!(argv.iter().any(|given| given == word), "{word}: {argv:?}");
        }
        assert_eq!(argv[argv.len() - 2..], ["--time=60", "/s/fleet/1/task.sh"]);
        let shared = Submission { alone: false, partition: None, ..submission }.invocation();
        assert!(!shared.argv().iter().any(|word| word == "--exclusive" || word.starts_with("--partition")));
    }
}
