//! Taking the results of tasks into the store of the study.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsage_engine::host::mount;
use fsage_model::record::{TrialStatus, Unread};
use fsage_sys::input::{self, RECORD_LIMIT};
use serde::Serialize;

use super::{FOLDER, FleetError, absolute, attempts, last, numbers, read, slurm};
use crate::price::price_trials;
use crate::store::{Lock, Store, StoreError, Writer, file, read_trial, take};

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
    /// Whether what tasks left was removed: every trial is complete, and no task is left.
    pub removed: bool,
    /// What is to be told.
    pub notes: Vec<String>,
}

/// Takes what tasks have completed so far into the store; it may be done at any time, again and again.
///
/// # Errors
/// The store was not given to a fleet, is in use, or cannot be written to.
pub fn collect(store: &Path) -> Result<Collected, FleetError> {
    let root = absolute(store)?;
    let record = last(&root)?;
    let plan = Store::open(&root)?.plan().clone();
    let path = root.join("study.toml");
    let text = input::read_below(&root, Path::new("study.toml"), RECORD_LIMIT)
        .map_err(|error| FleetError::Store(file::failed("read", &path, error)))?;
    let writer = Store::create(&root, &plan, &String::from_utf8_lossy(&text))?;
    let taken = take_complete(&root, &writer)?;
    let mut notes = Vec::new();
    price_trials(&writer, &plan.study.price, &|| true, &mut |text| notes.push(text))?;
    let (trials, damaged) = writer.read_trials();
    notes.extend(damaged.into_iter().map(|trial| format!("{}: {}", trial.path.display(), trial.reason)));
    let planned: BTreeSet<&String> = plan.trials.iter().map(|trial| &trial.id).collect();
    let complete = trials.iter().filter(|trial| trial.status == TrialStatus::Complete).count();
    let failed = trials
        .iter()
        .filter(|trial| trial.status == TrialStatus::Failed)
        .map(|trial| (trial.id.clone(), trial.error.clone()))
        .collect();
    let is_over = complete == planned.len() && slurm::queue(&record.name).is_ok_and(|tasks| tasks.is_empty());
    let removed = is_over && remove(&root, &mut notes);
    Ok(Collected {
        study: plan.study.name.clone(),
        store: root,
        trials: planned.len(),
        complete,
        taken,
        failed,
        removed,
        notes,
    })
}

/// Takes over what all submissions have completed and the store has not; how many. Of a trial that only failed, the
/// record of that.
pub(super) fn take_complete(root: &Path, writer: &Writer) -> Result<usize, FleetError> {
    let planned: BTreeSet<&String> = writer.plan().trials.iter().map(|trial| &trial.id).collect();
    let mut taken = 0;
    for number in numbers(root) {
        let place = root.join(FOLDER).join(number.to_string());
        // One that was begun and never submitted.
        let Ok(record) = read(&place) else { continue };
        for (index, ids) in record.tasks.iter().enumerate() {
            let wanted: Vec<String> = ids
                .iter()
                .filter(|id| planned.contains(id) && complete_in(root, id) != Some(TrialStatus::Complete))
                .cloned()
                .collect();
            let found = siblings(&place, index, &wanted, root);
            taken += found.len();
            for (from, id) in &found {
                take(from, id, root)?;
            }
            for id in wanted.iter().filter(|id| found.iter().all(|(_, taken)| taken != *id)) {
                let stores = attempts(&place).into_iter().filter(|(of, ..)| *of == index);
                let failed = stores.map(|(.., path)| path).find(|path| complete_in(path, id).is_some());
                if let Some(from) = failed.filter(|_| complete_in(root, id).is_none()) {
                    take(&from, id, root)?;
                }
            }
        }
    }
    Ok(taken)
}

/// What became of a trial in a store; `None` where nothing that can be read is there.
pub(super) fn complete_in(store: &Path, id: &str) -> Option<TrialStatus> {
    read_trial::<Unread>(store, id).ok().flatten().map(|record| record.status)
}

/// Where the trials `ids` of a task are complete, each once, outside of the store `own`: as many as possible from one
/// node, since what is compared has to be from one.
pub(super) fn siblings(place: &Path, index: usize, ids: &[String], own: &Path) -> Vec<(PathBuf, String)> {
    let stores = attempts(place).into_iter().filter(|(of, _, path)| *of == index && path != own);
    let mut stores: Vec<(PathBuf, Vec<&String>)> = stores
        .map(|(.., path)| {
            let complete = ids.iter().filter(|id| complete_in(&path, id) == Some(TrialStatus::Complete));
            let complete = complete.collect();
            (path, complete)
        })
        .collect();
    stores.sort_by_key(|(_, complete)| std::cmp::Reverse(complete.len()));
    let mut known = BTreeSet::new();
    let all = stores.iter().flat_map(|(path, complete)| complete.iter().map(move |id| (path, *id)));
    all.filter(|(_, id)| known.insert(*id)).map(|(path, id)| (path.clone(), id.clone())).collect()
}

/// Removes what tasks left, if no task works there; whether everything went.
fn remove(root: &Path, notes: &mut Vec<String>) -> bool {
    let mut gone = true;
    for number in numbers(root) {
        let place = root.join(FOLDER).join(number.to_string());
        if let Err(why) = remove_one(&place) {
            notes.push(format!("{} was left: {why}", place.display()));
            gone = false;
        }
    }
    // What is not empty has something that is not of this program.
    let _ = std::fs::remove_dir(root.join(FOLDER));
    gone
}

fn remove_one(place: &Path) -> Result<(), String> {
    let text = |error: StoreError| error.to_string();
    // A folder of someone else is refused.
    file::folder(place, &[]).map_err(text)?;
    // Held until the folder is gone.
    let locks: Result<Vec<Lock>, StoreError> =
        attempts(place).iter().map(|(.., store)| Lock::take(store)).collect();
    let _locks = locks.map_err(text)?;
    if let Some(mounted) = mount::table().into_iter().find(|entry| entry.point.starts_with(place)) {
        return Err(format!("{} is still mounted", mounted.point.display()));
    }
    std::fs::remove_dir_all(place).map_err(|error| error.to_string())
}
