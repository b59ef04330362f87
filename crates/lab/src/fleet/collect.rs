//! Taking the results of tasks into the store of the study.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fsage_engine::host::mount;
use fsage_model::cause::in_one_line;
use fsage_model::record::{TrialRecord, TrialStatus, Unread};
use fsage_sys::input::{self, RECORD_LIMIT};
use serde::Serialize;

use super::{Attempt, FOLDER, FleetError, FleetRecord, absolute, attempts, last, places, read, slurm};
use crate::price::price_trials;
use crate::run::{DigestGroup, digest_groups};
use crate::store::{Lock, Store, StoreError, Writer, file, read_trial, take};

/// How the name of a folder begins that is being removed.
const REMOVING: &str = "removing-";

/// What was collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Study name.
    pub study: String,
    /// Its store.
    pub store: PathBuf,
    /// Trials of the plan.
    pub trials: usize,
    /// Of these, complete in the store now.
    pub complete: usize,
    /// Taken over now.
    pub taken: usize,
    /// Failed, with why.
    pub failed: BTreeMap<String, String>,
    /// Whether logical trees agree across file systems, where they must.
    pub digest_groups: Vec<DigestGroup>,
    /// Tasks that Slurm still has; absent where it does not say.
    pub queued: Option<usize>,
    /// Whether what tasks left was removed: every trial is complete, and no task is left.
    pub removed: bool,
    /// What is to be reported.
    pub notes: Vec<String>,
}

/// What is to be said of a store whose fleet is over and removed.
fn collected_before(root: PathBuf) -> Result<Collected, FleetError> {
    let none = |root: &Path| FleetError::NoFleet { store: root.to_owned() };
    let store = Store::open(&root).map_err(|_| none(&root))?;
    let (trials, complete) = (store.plan().trials.len(), store.complete_trials().0.len());
    if complete < trials {
        return Err(none(&root));
    }
    let study = store.plan().study.name.clone();
    let (failed, digest_groups, notes) = (BTreeMap::new(), digest_groups(&store.trials()), Vec::new());
    let (queued, removed) = (None, true);
    Ok(Collected {
        study,
        store: root,
        trials,
        complete,
        taken: 0,
        failed,
        digest_groups,
        queued,
        removed,
        notes,
    })
}

/// What was taken over.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) trials: usize,
    pub(super) notes: Vec<String>,
}

/// Takes what tasks have completed so far into the store; it may be done at any time, again and again.
///
/// # Errors
/// The store was not given to a fleet, is in use, or cannot be written to.
pub fn collect(store: &Path) -> Result<Collected, FleetError> {
    let root = absolute(store)?;
    let record = match last(&root) {
        Err(FleetError::NoFleet { .. }) => return collected_before(root),
        other => other?,
    };
    let plan = Store::open(&root)?.plan().clone();
    let path = root.join("study.toml");
    let text = input::read_below(&root, Path::new("study.toml"), RECORD_LIMIT)
        .map_err(|error| FleetError::Store(file::failed("read", &path, error)))?;
    let writer = Store::create(&root, &plan, &String::from_utf8_lossy(&text))?;
    let Taken { trials: taken, mut notes } = take_complete(&root, &writer)?;
    price_trials(&writer, &plan.study.price, &|| true, &mut |text| notes.push(text))?;
    let trials = writer.trials();
    let planned: BTreeSet<&String> = plan.trials.iter().map(|trial| &trial.id).collect();
    let complete = trials.iter().filter(|trial| trial.status == TrialStatus::Complete).count();
    let failed = trials
        .iter()
        .filter(|trial| trial.status == TrialStatus::Failed)
        .map(|trial| (trial.id.clone(), trial.error.clone()))
        .collect();
    let queued = match slurm::queue(&record.name) {
        Ok(tasks) => Some(tasks.len()),
        Err(error) => {
            notes.push(format!("Slurm did not list its tasks: {}", in_one_line(&error)));
            None
        }
    };
    let removed = complete == planned.len() && queued == Some(0) && remove(&root, &mut notes);
    Ok(Collected {
        study: plan.study.name.clone(),
        store: root,
        trials: planned.len(),
        complete,
        taken,
        failed,
        digest_groups: digest_groups(&trials),
        queued,
        removed,
        notes,
    })
}

/// Takes over what all submissions have completed and the store has not. Of a trial that only failed, the record of that.
pub(super) fn take_complete(root: &Path, writer: &Writer) -> Result<Taken, FleetError> {
    let mut taken = Taken::default();
    for damaged in writer.damaged() {
        taken.notes.push(format!("{}: {}", damaged.path.display(), damaged.reason));
        writer.set_aside(&damaged)?;
    }
    let planned: BTreeSet<&String> = writer.plan().trials.iter().map(|trial| &trial.id).collect();
    for place in places(root) {
        let record = match read(&place) {
            Ok(record) => record,
            Err(error) => {
                taken.notes.push(format!("{} was skipped: {}", place.display(), in_one_line(&error)));
                continue;
            }
        };
        for (index, ids) in record.tasks.iter().enumerate() {
            let ids: Vec<&String> = ids.iter().filter(|id| planned.contains(id)).collect();
            let sources = sources(&place, index, &ids, root);
            take_task(&record, &ids, &sources, root, &mut taken)?;
        }
    }
    Ok(taken)
}

/// Takes over what one task has completed.
fn take_task(
    record: &FleetRecord,
    ids: &[&String],
    sources: &[PathBuf],
    root: &Path,
    taken: &mut Taken,
) -> Result<(), FleetError> {
    // More of a repeat on one host than the store has from any: all of it, so that it can be compared.
    let whole = record.alone.as_ref().and(sources.first()).filter(|best| {
        let count = |store: &Path| *by_host(store, ids).values().max().unwrap_or(&0);
        count(best) > count(root)
    });
    for id in ids {
        let has = status_of(root, id);
        let from_best = whole.filter(|best| status_of(best, id) == Some(TrialStatus::Complete));
        if from_best.is_none() && has == Some(TrialStatus::Complete) {
            continue;
        }
        // The best is the first of them.
        let complete = |store: &&PathBuf| status_of(store, id) == Some(TrialStatus::Complete);
        let candidates: Vec<&PathBuf> = sources.iter().filter(complete).collect();
        if take_first(&candidates, id, root, taken)? {
            taken.trials += 1;
            continue;
        }
        let began = |store: &Path| record_of(store, id).map(|record| record.started);
        let failed = |store: &&PathBuf| status_of(store, id) == Some(TrialStatus::Failed);
        let newest = sources.iter().filter(failed).max_by_key(|store| began(store));
        if has != Some(TrialStatus::Complete)
            && let Some(from) = newest.filter(|from| began(from) > began(root))
        {
            take_first(&[from], id, root, taken)?;
        }
    }
    Ok(())
}

/// Takes a trial over from the first store in which it can be read; whether there was one.
fn take_first(candidates: &[&PathBuf], id: &str, root: &Path, taken: &mut Taken) -> Result<bool, FleetError> {
    for from in candidates {
        match take(from, id, root) {
            Ok(()) => return Ok(true),
            Err(error @ StoreError::Full { .. }) => return Err(error.into()),
            Err(error) => taken.notes.push(format!("trial {id}: {}", in_one_line(&error))),
        }
    }
    Ok(false)
}

fn record_of(store: &Path, id: &str) -> Option<TrialRecord<Unread>> {
    read_trial::<Unread>(store, id).ok().flatten()
}

/// What became of a trial in a store; `None` where nothing that can be read is there.
pub(super) fn status_of(store: &Path, id: &str) -> Option<TrialStatus> {
    record_of(store, id).map(|record| record.status)
}

/// How many of these trials are complete in a store, by host.
fn by_host(store: &Path, ids: &[&String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let known = ids.iter().filter_map(|id| record_of(store, id));
    for record in known.filter(|record| record.status == TrialStatus::Complete) {
        *counts.entry(record.host.identity).or_default() += 1;
    }
    counts
}

/// The stores of a task other than `own`: those first that have most of the trials `ids` complete, and of these the one that
/// was begun last.
pub(super) fn sources(place: &Path, index: usize, ids: &[&String], own: &Path) -> Vec<PathBuf> {
    let began = |path: &Path| {
        path.join("plan.json").metadata().and_then(|plan| plan.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let complete =
        |path: &Path| ids.iter().filter(|id| status_of(path, id) == Some(TrialStatus::Complete)).count();
    let of_task = |attempt: &Attempt| attempt.index == index && attempt.path != own;
    let stores = attempts(place).into_iter().filter(of_task).map(|attempt| attempt.path);
    let mut stores: Vec<(usize, SystemTime, PathBuf)> =
        stores.map(|path| (complete(&path), began(&path), path)).collect();
    stores.sort_by(|one, other| other.cmp(one));
    stores.into_iter().map(|(.., path)| path).collect()
}

/// Removes what tasks left, if none works there or left something on its node; whether everything went.
fn remove(root: &Path, notes: &mut Vec<String>) -> bool {
    let folder = root.join(FOLDER);
    let mut gone = true;
    for place in places(root) {
        if let Err(why) = set_aside(&place) {
            notes.push(format!("{} was not removed: {why}", place.display()));
            gone = false;
        }
    }
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(REMOVING)) {
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            notes.push(format!("{} was not removed: {error}", entry.path().display()));
            gone = false;
        }
    }
    // What is not empty has something that is not of this program.
    let _ = std::fs::remove_dir(&folder);
    gone
}

/// Gives a submission that is over the name of what is to be removed: files that are open, such as locks, stay as long as
/// that on some network file systems.
fn set_aside(place: &Path) -> Result<(), String> {
    // A folder of someone else, or of another version, is left.
    read(place).map_err(|error| in_one_line(&error))?;
    for attempt in attempts(place) {
        if attempt.mark().exists() {
            let (node, mark) = (&attempt.node, attempt.mark());
            let what = "a task ended there without releasing everything";
            return Err(format!(
                "{what}: run `fsage clean` on {node}, remove {}, and collect again",
                mark.display()
            ));
        }
        Lock::take(&attempt.path).map_err(|error| in_one_line(&error))?;
    }
    if let Some(mounted) = mount::table().into_iter().find(|entry| entry.point.starts_with(place)) {
        return Err(format!("{} is still mounted", mounted.point.display()));
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    std::fs::rename(place, place.with_file_name(format!("{REMOVING}{name}")))
        .map_err(|error| error.to_string())
}
