//! One task, on a node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::collect::siblings;
use super::{CANCELLED, FleetError, FleetRecord, absolute, attempts, read, slurm};
use crate::lease::{clean_stores, runtime};
use crate::run::{RunError, RunEvent, RunObserver, RunSummary, run_study};
use crate::store::{Lock, StoreError, file, take};

/// How often a lock is tried that another task has.
const LOOK: Duration = Duration::from_secs(1);

/// How often a task that reaches its time limit is begun again.
const RESTARTS: u32 = 100;

/// Where a task runs, as Slurm says.
#[derive(Debug, Clone)]
pub struct TaskPlace {
    /// Folder of the submission.
    pub place: PathBuf,
    /// Number of the task.
    pub index: usize,
    /// The node's name.
    pub node: String,
    /// `JOB_INDEX`, by which Slurm knows it.
    pub task: String,
    /// How often it was begun again.
    pub restarts: u32,
}

/// How a task ended.
#[derive(Debug)]
pub struct TaskEnd {
    /// What it did.
    pub summary: RunSummary,
    /// Whether it was asked to end, and Slurm begins it again.
    pub requeued: bool,
}

/// Does the trials of a task that are not complete. Where nothing goes by wall-clock time, those are kept that another
/// node has completed.
///
/// # Errors
/// The submission cannot be read, or what ends a run.
pub fn task(at: &TaskPlace, observer: &mut dyn RunObserver) -> Result<TaskEnd, FleetError> {
    let place = absolute(&at.place)?;
    let record = read(&place)?;
    let Some(ids) = record.tasks.get(at.index) else {
        return Err(FleetError::NoTask { place, index: at.index });
    };
    let name = format!("{}-{}", at.index, node(&at.node));
    file::folder(&place, &[&name])?;
    let store = place.join(&name);
    release(&place, &at.node, &store, observer)?;
    // What another task measures on this node, such as one that outlived its slurmd, is not disturbed.
    let alone = match &record.alone {
        Some(_) => Some(wait(&runtime::make(Path::new("fleet"))?, observer)?),
        None => None,
    };
    let lock = wait(&store, observer)?;
    if record.alone.is_none() {
        for (from, id) in siblings(&place, at.index, ids, &store) {
            take(&from, &id, &store)?;
        }
    }
    drop(lock);
    let summary = run(&record, at.index, &store, observer)?;
    drop(alone);
    let requeued = summary.interrupted_by.is_some() && comes_back(at, &place, &summary, observer)?;
    Ok(TaskEnd { summary, requeued })
}

/// The run; another start of this task on this node, which is not over, is waited for.
fn run(
    record: &FleetRecord,
    index: usize,
    store: &Path,
    observer: &mut dyn RunObserver,
) -> Result<RunSummary, FleetError> {
    loop {
        match run_study(&record.options(index, store.to_owned()), observer) {
            Err(RunError::Store(StoreError::Locked { .. })) => std::thread::sleep(LOOK),
            other => return Ok(other?),
        }
    }
}

/// Waits for the lock of a folder.
fn wait(folder: &Path, observer: &mut dyn RunObserver) -> Result<Lock, FleetError> {
    let mut told = false;
    loop {
        match Lock::take(folder) {
            Err(error @ StoreError::Locked { .. }) => {
                if !told {
                    observer.event(RunEvent::Note { text: format!("waiting: {error}") });
                    told = true;
                }
                std::thread::sleep(LOOK);
            }
            other => return Ok(other?),
        }
    }
}

/// Releases what killed tasks left on this node.
fn release(
    place: &Path,
    node_name: &str,
    own: &Path,
    observer: &mut dyn RunObserver,
) -> Result<(), FleetError> {
    let here = node(node_name);
    for (_, _, left) in attempts(place).into_iter().filter(|(_, on, path)| *on == here && path != own) {
        // One that works has it.
        let Ok(_lock) = Lock::take(&left) else { continue };
        let report = clean_stores(std::slice::from_ref(&left))?;
        if !report.is_clean() {
            let text =
                format!("{0} left what cannot be released: run `fsage clean {0}` on {here}", left.display());
            observer.event(RunEvent::Note { text });
        }
    }
    Ok(())
}

/// A node's name as a part of a folder's.
fn node(name: &str) -> String {
    let known = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
    name.chars().take(64).map(known).collect()
}

/// Lets Slurm begin a task again that was asked to end, unless it does so by itself: at the time limit. One that
/// has completed nothing would not do better the next time.
fn comes_back(
    at: &TaskPlace,
    place: &Path,
    summary: &RunSummary,
    observer: &mut dyn RunObserver,
) -> Result<bool, FleetError> {
    let mut say = |text: &str| observer.event(RunEvent::Note { text: text.to_owned() });
    if place.join(CANCELLED).exists() || at.task.is_empty() || !slurm::runs(&at.task)? {
        return Ok(false);
    }
    if summary.complete == 0 || at.restarts >= RESTARTS {
        say(
            "no trial was completed within Slurm's time limit: give the tasks more time (`--sbatch=--time=…`)",
        );
        return Ok(false);
    }
    slurm::requeue(&at.task)?;
    say("asked to end; Slurm begins it again");
    Ok(true)
}
