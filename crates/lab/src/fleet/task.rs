//! One task, on a node.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::record::TrialStatus;
use fsage_sys::signal::{Flags, Signal};

use super::collect::{sources, status_of};
use super::{Attempt, CANCELLED, FleetError, absolute, attempts, places, read, slurm};
use crate::lease::{clean_stores, runtime};
use crate::run::{RunError, RunEvent, RunObserver, RunSummary, run_study};
use crate::store::{Lock, StoreError, file, take};

/// How often a lock is tried that another task has.
const LOOK: Duration = Duration::from_secs(1);

/// How long the lock of an earlier start on this node is waited for: the file server may not know that its holder died.
const LOCKED: Duration = Duration::from_secs(600);

/// A task that waited for longer may have had too little time left.
const WAITED: Duration = Duration::from_secs(60);

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
    /// What it did; absent where it was asked to end before it began.
    pub summary: Option<RunSummary>,
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
    let node = node(&at.node);
    // From now on a signal is heard at the next look.
    let signals = Flags::install(&Signal::ALL).map_err(|error| RunError::Signal(error.to_string()))?;
    let begun = Instant::now();
    let mut waiting = Waiting { signals, observer };
    // What another task measures on this node, such as one that outlived its slurmd, is not disturbed.
    let Some(_alone) = waiting.lock(&runtime::make(Path::new("fleet"))?, None)? else {
        return waiting.ended(at, &place);
    };
    let mut again = 0;
    let (attempt, lock) = loop {
        let attempt = Attempt::new(&place, at.index, &node, again);
        let name = attempt.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        file::folder(&place, &[&name])?;
        match waiting.lock(&attempt.path, Some(LOCKED)) {
            Ok(Some(lock)) => break (attempt, lock),
            Ok(None) => return waiting.ended(at, &place),
            Err(FleetError::Store(StoreError::Locked { .. })) => again += 1,
            Err(error) => return Err(error),
        }
    };
    let (observer, waited) = (waiting.observer, begun.elapsed());
    release(&place, &node, observer)?;
    if record.alone.is_none() {
        take_over(&place, &attempt, ids, observer)?;
    }
    file::write(&attempt.mark(), b"")?;
    drop(lock);
    let outcome = run_study(&record.options(at.index, attempt.path.clone()), observer);
    unmark(&attempt, observer)?;
    let summary = outcome?;
    // Time that it only waited says nothing of Slurm's limit.
    let did = (waited < WAITED).then_some(&summary);
    let requeued = summary.interrupted_by.is_some() && comes_back(at, &place, did, observer)?;
    Ok(TaskEnd { summary: Some(summary), requeued })
}

/// Waits for what others hold.
struct Waiting<'a> {
    signals: Flags,
    observer: &'a mut dyn RunObserver,
}

impl Waiting<'_> {
    /// The lock of a folder; `None`: asked to end meanwhile.
    fn lock(&mut self, folder: &Path, longest: Option<Duration>) -> Result<Option<Lock>, FleetError> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            match Lock::take(folder) {
                Ok(lock) => return Ok(Some(lock)),
                Err(error @ StoreError::Locked { .. }) if longest.is_some_and(|it| begun.elapsed() > it) => {
                    return Err(error.into());
                }
                Err(error @ StoreError::Locked { .. }) => {
                    if !told {
                        self.observer.event(RunEvent::Note { text: format!("waiting: {error}") });
                        told = true;
                    }
                }
                Err(error) => return Err(error.into()),
            }
            if self.signals.take(Signal::Terminate) || self.signals.take(Signal::Interrupt) {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The end of a task that was asked to end before it began.
    fn ended(self, at: &TaskPlace, place: &Path) -> Result<TaskEnd, FleetError> {
        let requeued = comes_back(at, place, None, self.observer)?;
        Ok(TaskEnd { summary: None, requeued })
    }
}

/// Takes over the trials that other nodes have completed. What cannot be read there is done here.
fn take_over(
    place: &Path,
    attempt: &Attempt,
    ids: &[String],
    observer: &mut dyn RunObserver,
) -> Result<(), FleetError> {
    let is_complete = |store: &Path, id: &String| status_of(store, id) == Some(TrialStatus::Complete);
    let ids: Vec<&String> = ids.iter().filter(|id| !is_complete(&attempt.path, id)).collect();
    for from in sources(place, attempt.index, &ids, &attempt.path) {
        for id in ids.iter().filter(|id| is_complete(&from, id)) {
            if is_complete(&attempt.path, id) {
                continue;
            }
            match take(&from, id, &attempt.path) {
                Err(error @ StoreError::Full { .. }) => return Err(error.into()),
                Err(error) => observer.event(RunEvent::Note { text: format!("trial {id}: {error}") }),
                Ok(()) => {}
            }
        }
    }
    Ok(())
}

/// Releases what killed tasks of this study left on this node.
fn release(place: &Path, node: &str, observer: &mut dyn RunObserver) -> Result<(), FleetError> {
    // The folder of fleets, and the store that it is in.
    let Some(root) = place.parent().and_then(Path::parent) else { return Ok(()) };
    for left in places(root).iter().flat_map(|place| attempts(place)).filter(|it| it.node == node) {
        // One that works has it; this task's own is released by its run.
        let Ok(_lock) = Lock::take(&left.path) else { continue };
        unmark(&left, observer)?;
    }
    Ok(())
}

/// Releases what a task has left of this node, and says that it has nothing there any more.
fn unmark(attempt: &Attempt, observer: &mut dyn RunObserver) -> Result<(), FleetError> {
    if clean_stores(std::slice::from_ref(&attempt.path))?.is_clean() {
        // It is not there when a task ended before it had anything.
        let _ = std::fs::remove_file(attempt.mark());
    } else {
        let (path, node) = (attempt.path.display(), &attempt.node);
        let text = format!("{path} has leases that cannot be released: run `fsage clean {path}` on {node}");
        observer.event(RunEvent::Note { text });
    }
    Ok(())
}

/// A node's name as a part of a folder's.
fn node(name: &str) -> String {
    let known = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
    name.chars().take(64).map(known).collect()
}

/// Lets Slurm begin a task again that was asked to end, unless it does so by itself: at the time limit. One that
/// ran and has completed nothing would not do better the next time.
fn comes_back(
    at: &TaskPlace,
    place: &Path,
    summary: Option<&RunSummary>,
    observer: &mut dyn RunObserver,
) -> Result<bool, FleetError> {
    let mut say = |text: &str| observer.event(RunEvent::Note { text: text.to_owned() });
    if place.join(CANCELLED).exists() || at.task.is_empty() || !slurm::runs(&at.task)? {
        return Ok(false);
    }
    if summary.is_some_and(|summary| summary.complete == 0) {
        say(
            "no trial was completed within Slurm's time limit: give the tasks more time (`--sbatch=--time=…`)",
        );
        return Ok(false);
    }
    if at.restarts >= RESTARTS {
        say("it was requeued too often: submit the study again");
        return Ok(false);
    }
    slurm::requeue(&at.task)?;
    say("told to stop; Slurm requeues it");
    Ok(true)
}
