//! Fleets: the trials of a study as tasks of a Slurm cluster, whose nodes see the store by the same path.
//!
//! A task is one repeat of every cell, so that what is compared ran on one node, or one trial. It works in a store of its
//! own for each node, `fleet/NUMBER/TASK-NODE` in the store of the study, with leases of that node. Slurm may start a task
//! twice at once (a killed slurmd leaves its task running while it is requeued elsewhere), and again and again: no two
//! write to one place, and [`collect`](collect::collect) takes one result of each trial.

mod collect;
mod error;
mod slurm;
mod status;
mod submit;
mod task;

use std::path::{Path, PathBuf};

pub use collect::{Collected, collect};
pub use error::FleetError;
use fsage_sys::input::{self, RECORD_LIMIT};
use serde::{Deserialize, Serialize};
pub use slurm::QueuedTask;
pub use status::{FleetStatus, TaskState, TaskStatus, cancel, status};
pub use submit::{FleetOptions, PerTask, Submitted, submit};
pub use task::{TaskEnd, TaskPlace, task};

use crate::run::RunOptions;
use crate::store::{StoreError, file};

/// Version of [`FleetRecord`].
const VERSION: u32 = 1;

/// Folder of fleets in a store.
const FOLDER: &str = "fleet";

/// The record of a submission, in its folder.
const RECORD: &str = "fleet.json";

/// Says that the user cancelled it: its tasks do not come back by themselves.
const CANCELLED: &str = "cancelled";

/// One submission: `fleet/NUMBER/fleet.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FleetRecord {
    /// [`VERSION`] of the writer.
    version: u32,
    /// What wrote it.
    program: String,
    /// Which submission of the store it is, from 1.
    number: u32,
    /// Name of the job, which no other store's has.
    name: String,
    /// Slurm's number of the job; absent until it was submitted.
    job: Option<String>,
    /// When, RFC 3339 in UTC.
    submitted: String,
    /// The study: an absolute path, or the name of a shipped one.
    study: PathBuf,
    /// Preset.
    preset: Option<String>,
    /// `path=value`, in order.
    set: Vec<String>,
    /// As `--erase` names devices.
    erase: Vec<String>,
    /// Whether commands of the study may run.
    allow_commands: bool,
    /// Whether states that no kernel wrote may be mounted on nodes.
    on_host: bool,
    /// Whether folders that others may change are written to, such as those on a network file system.
    allow_foreign_owner: bool,
    /// Why trials must be alone on a node, if they must.
    alone: Option<String>,
    /// Ids of trials, by task.
    tasks: Vec<Vec<String>>,
}

impl FleetRecord {
    /// The run that a task is.
    fn options(&self, index: usize, store: PathBuf) -> RunOptions {
        RunOptions {
            study: self.study.clone(),
            preset: self.preset.clone(),
            set: self.set.clone(),
            store: Some(store),
            erase: self.erase.clone(),
            allow_commands: self.allow_commands,
            on_host: self.on_host,
            only: self.tasks.get(index).map(|ids| ids.iter().cloned().collect()),
            ..RunOptions::default()
        }
    }

    fn place(&self, root: &Path) -> PathBuf {
        root.join(FOLDER).join(self.number.to_string())
    }

    fn write(&self, root: &Path) -> Result<(), StoreError> {
        let path = self.place(root).join(RECORD);
        let bytes = serde_json::to_vec(self)
            .map_err(|error| StoreError::Damaged { path: path.clone(), reason: error.to_string() })?;
        file::write(&path, &bytes)
    }
}

/// The submission in `place`, a folder below that of fleets.
fn read(place: &Path) -> Result<FleetRecord, FleetError> {
    let path = place.join(RECORD);
    // A folder of another user's is not believed.
    file::folder(place, &[])?;
    let bytes = input::read_below(place, Path::new(RECORD), RECORD_LIMIT)
        .map_err(|e| file::failed("read", &path, e))?;
    let damaged = |reason: String| FleetError::Store(StoreError::Damaged { path: path.clone(), reason });
    let record: FleetRecord = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if record.version != VERSION {
        return Err(damaged(format!("it has version {}, this fsage has {VERSION}", record.version)));
    }
    let named = record.tasks.iter().flatten().all(|id| crate::store::is_trial_id(id));
    let numbered = place.file_name().is_some_and(|name| *name == *record.number.to_string());
    if !named || !numbered {
        return Err(damaged("it belongs to another folder, or does not name trials".to_owned()));
    }
    Ok(record)
}

/// The numbers of the submissions of a store, the last one last.
fn numbers(root: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The folders of the submissions of a store, the last one last.
fn places(root: &Path) -> Vec<PathBuf> {
    numbers(root).into_iter().map(|number| root.join(FOLDER).join(number.to_string())).collect()
}

/// The last submission of a store.
fn last(root: &Path) -> Result<FleetRecord, FleetError> {
    let place = places(root).into_iter().rev().find(|place| place.join(RECORD).exists());
    read(&place.ok_or_else(|| FleetError::NoFleet { store: root.to_owned() })?)
}

/// The store of a task on one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    /// Number of the task.
    index: usize,
    /// The node.
    node: String,
    path: PathBuf,
}

impl Attempt {
    /// The `again`th of a task on a node, from 0: further ones where somebody holds the lock of the earlier.
    fn new(place: &Path, index: usize, node: &str, again: u32) -> Self {
        let name = match again {
            0 => format!("{index}-{node}"),
            again => format!("{index}-{node}{AGAIN}{again}"),
        };
        Self { index, node: node.to_owned(), path: place.join(name) }
    }

    /// A file that is there while the task may have something of the node.
    fn mark(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!("at-work-{name}"))
    }
}

/// Between a node's name and which of several stores on it.
const AGAIN: char = '+';

/// The stores of the tasks of one submission. Names that no task gives are left out.
fn attempts(place: &Path) -> Vec<Attempt> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let attempt = |name: String| {
        let (index, node) = name.split_once('-')?;
        let node = node.split(AGAIN).next().unwrap_or(node).to_owned();
        Some(Attempt { index: index.parse().ok()?, node, path: place.join(&name) })
    };
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<Attempt> = names.filter_map(attempt).collect();
    found.sort();
    found
}

/// An absolute path of a store.
fn absolute(store: &Path) -> Result<PathBuf, FleetError> {
    std::path::absolute(store).map_err(|source| FleetError::Store(file::failed("find", store, source)))
}
