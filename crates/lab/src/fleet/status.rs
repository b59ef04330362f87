//! How far a fleet is, and ending it.

use std::fmt;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use fsage_model::cause::in_one_line;
use fsage_model::record::TrialStatus;
use fsage_sys::input;
use serde::Serialize;

use super::collect::status_of;
use super::slurm::{self, QueuedTask};
use super::{CANCELLED, FleetError, FleetRecord, absolute, attempts, last};
use crate::store::{Store, file};

/// Most of a task's log that is read for its last line.
const LOG_BYTES: u64 = 4 << 10;

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// Every trial is complete.
    Complete,
    /// It runs.
    Running,
    /// Slurm will begin it.
    Waiting,
    /// It is over, and some trials are not complete.
    Ended,
    /// Slurm does not answer, so that it is not known.
    Unknown,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "complete",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
            Self::Unknown => "not known",
        })
    }
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskStatus {
    /// Its number.
    pub index: usize,
    /// What it is doing.
    pub state: TaskState,
    /// Trials.
    pub trials: usize,
    /// Of these, complete on any node, or in the store.
    pub complete: usize,
    /// Of these, failed and nowhere complete.
    pub failed: usize,
    /// Nodes that it was begun on.
    pub nodes: Vec<String>,
    /// Why it waits, or the last line of the log of one that ended; may be empty.
    pub detail: String,
}

/// How far a fleet is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetStatus {
    /// Study name.
    pub study: String,
    /// Its store.
    pub store: PathBuf,
    /// Name of the job.
    pub name: String,
    /// Slurm's number of the job.
    pub job: Option<String>,
    /// When it was submitted, RFC 3339 in UTC.
    pub submitted: String,
    /// Trials of the plan.
    pub trials: usize,
    /// Of these, complete in the store.
    pub collected: usize,
    /// The tasks of the last submission.
    pub tasks: Vec<TaskStatus>,
    /// Why Slurm did not say which tasks it has; absent where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<String>,
}

/// How far the last submission of a store is, by what is on disk and what Slurm says.
///
/// # Errors
/// The store was not given to a fleet, or cannot be read.
pub fn status(store: &Path) -> Result<FleetStatus, FleetError> {
    let root = absolute(store)?;
    let record = last(&root)?;
    let store = Store::open(&root)?;
    let (queue, no_answer) = match slurm::queue(&record.name) {
        Ok(tasks) => (Some(tasks), None),
        Err(error) => (None, Some(in_one_line(&error))),
    };
    let tasks = (0..record.tasks.len()).map(|index| one(&record, &root, index, queue.as_deref())).collect();
    Ok(FleetStatus {
        study: store.plan().study.name.clone(),
        trials: store.plan().trials.len(),
        collected: store.complete_trials().0.len(),
        store: root,
        name: record.name,
        job: record.job,
        submitted: record.submitted,
        tasks,
        no_answer,
    })
}

fn one(record: &FleetRecord, root: &Path, index: usize, queue: Option<&[QueuedTask]>) -> TaskStatus {
    let place = record.place(root);
    let ids = &record.tasks[index];
    let began = attempts(&place).into_iter().filter(|attempt| attempt.index == index);
    let (mut nodes, stores): (Vec<String>, Vec<PathBuf>) =
        began.map(|attempt| (attempt.node, attempt.path)).unzip();
    nodes.dedup();
    let known = |id: &String| {
        let everywhere = stores.iter().map(PathBuf::as_path).chain([root]);
        let found: Vec<TrialStatus> = everywhere.filter_map(|store| status_of(store, id)).collect();
        found.iter().find(|status| **status == TrialStatus::Complete).or(found.first()).copied()
    };
    let all: Vec<Option<TrialStatus>> = ids.iter().map(known).collect();
    let count = |wanted: TrialStatus| all.iter().filter(|status| **status == Some(wanted)).count();
    let (complete, failed) = (count(TrialStatus::Complete), count(TrialStatus::Failed));
    let queued = queue.and_then(|tasks| tasks.iter().find(|task| task.index == index));
    let (state, detail) = match queued {
        Some(task) if task.state == "PENDING" => (TaskState::Waiting, task.reason.clone()),
        Some(_) => (TaskState::Running, String::new()),
        None if complete == ids.len() => (TaskState::Complete, String::new()),
        None if queue.is_none() => (TaskState::Unknown, String::new()),
        None => (TaskState::Ended, last_line(&place, index)),
    };
    TaskStatus { index, state, trials: ids.len(), complete, failed, nodes, detail }
}

/// The last line of a task's log.
fn last_line(place: &Path, index: usize) -> String {
    let name = format!("task-{index}.log");
    let mut text = Vec::new();
    // A log that cannot be read says nothing.
    let _ = input::open_below(place, Path::new(&name)).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        file.take(LOG_BYTES).read_to_end(&mut text)
    });
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// Ends the tasks of the last submission; how many Slurm had. What they completed stays, and can be collected.
///
/// # Errors
/// The store was not given to a fleet, or Slurm refuses.
pub fn cancel(store: &Path) -> Result<usize, FleetError> {
    let root = absolute(store)?;
    let record = last(&root)?;
    // First, so that no task comes back because of it.
    file::write(&record.place(&root).join(CANCELLED), b"")?;
    let tasks = slurm::queue(&record.name)?.len();
    if tasks > 0 {
        slurm::cancel(&record.name)?;
    }
    Ok(tasks)
}
