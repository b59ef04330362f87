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

/// Variables of this process that tasks have too. Who called `sudo` is trusted there as here.
const VARIABLES: [&str; 7] =
    ["PATH", "HOME", "SLURM_CONF", "FSAGE_RUNTIME_DIR", "FSAGE_CACHE_DIR", "SUDO_UID", "SUDO_GID"];

/// Options of sbatch that are set here, or after which it submits nothing, or not as this user.
const OWN: [&str; 24] = [
    "--array",
    "--job-name",
    "--chdir",
    "--output",
    "--export",
    "--export-file",
    "--clusters",
    "--wrap",
    "--requeue",
    "--no-requeue",
    "--parsable",
    "--wait",
    "--test-only",
    "--help",
    "--usage",
    "--version",
    "--uid",
    "--gid",
    "--oversubscribe",
    "--exclusive",
    "--mem",
    "--propagate",
    "--signal",
    "--open-mode",
];

/// The same by their letters.
const LETTERS: &str = "aJDoMWhVs";

/// Whether an option of the user's would change what tasks are found by, or how they run.
pub(super) fn is_own(option: &str) -> bool {
    let plain = option.len() > 1 && option.starts_with('-') && !option.contains(char::is_control);
    let name = option.split('=').next().unwrap_or(option);
    // Slurm takes the beginning of a long name for it.
    let long = name.starts_with("--") && OWN.iter().any(|own| own.starts_with(name));
    let short = !name.starts_with("--") && name[1.min(name.len())..].starts_with(|c| LETTERS.contains(c));
    !plain || long || short
}

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
    /// Folder of the submission.
    pub(super) place: &'a Path,
    pub(super) script: &'a Path,
    pub(super) tasks: usize,
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
        // Where a folder is not there, Slurm goes to /tmp, in which others may have put something.
        argv.push("--chdir=/".to_owned());
        argv.push(format!("--output={}/task-%a.log", self.place.display()));
        argv.push(format!("--export={}", VARIABLES.join(",")));
        argv.push(format!("--signal=B:TERM@{WARNED_S}"));
        // The node and its memory: a trial is measured, or holds a virtual disk, and sets timers that all share.
        argv.extend(["--exclusive", "--mem=0"].map(str::to_owned));
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
    let (name, user) = of(name);
    let words = ["squeue", "--noheader", "--array", &name, &user, "--format=%K|%T|%N|%r"];
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
    let (name, user) = of(name);
    said(&command(vec!["scancel".to_owned(), name, user])).map(drop)
}

/// Options that name a job of ours.
fn of(name: &str) -> (String, String) {
    (format!("--name={name}"), format!("--user={}", rustix::process::geteuid().as_raw()))
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
    fn a_task_gets_its_node_and_the_users_options_come_last() {
        let options = ["--time=60".to_owned()];
        let submission = Submission {
            name: "fsage-a",
            place: Path::new("/s/fleet/1"),
            script: Path::new("/s/fleet/1/task.sh"),
            tasks: 3,
            partition: Some("big"),
            options: &options,
        };
        let argv = submission.invocation().argv().to_vec();
        for word in
            ["--array=0-2", "--exclusive", "--partition=big", "--requeue", "--output=/s/fleet/1/task-%a.log"]
        {
            assert!(argv.iter().any(|given| given == word), "{word}: {argv:?}");
        }
        assert_eq!(argv[argv.len() - 2..], ["--time=60", "/s/fleet/1/task.sh"]);
    }

    #[test]
    fn options_that_tasks_are_found_by_are_not_the_users() {
        for own in [
            "--array=0-9",
            "-a0-9",
            "-J",
            "-Jname",
            "--job-name=x",
            "-D/tmp",
            "--wrap=x",
            "script.sh",
            "--x=a\nb",
        ] {
            assert!(is_own(own), "{own}");
        }
        for free in
            ["--time=60", "-t60", "--constraint=nvme", "-p", "--nodelist=n1", "--array-x", "--mem-per-cpu=1"]
        {
            assert!(!is_own(free), "{free}");
        }
    }
}
