//! Giving a study to a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::study::VolumeSpec;
use fsage_sys::new_file;
use serde::Serialize;

use super::collect::{self, Taken};
use super::slurm::{self, Submission};
use super::{FOLDER, FleetError, FleetRecord, VERSION, numbers};
use crate::plan::{Plan, PlannedTrial};
use crate::run::{self, Prepared, RunOptions};
use crate::store::{Store, file};
use crate::study::{Cell, Study, identity};
use crate::target::{TargetError, program};
use crate::time;
use crate::tools::Invocation;

/// What a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PerTask {
    /// One repeat of every cell, so that what is compared with each other ran on one node.
    #[default]
    Repeat,
    /// One trial: only where nothing goes by wall-clock time.
    Trial,
}

/// How a study is given to a fleet.
#[derive(Debug, Clone, Default)]
pub struct FleetOptions {
    /// What a task is.
    pub per_task: PerTask,
    /// Slurm's partition.
    pub partition: Option<String>,
    /// Further options for sbatch.
    pub sbatch: Vec<String>,
}

/// What was given to a fleet.
#[derive(Debug, Clone, Serialize)]
pub struct Submitted {
    /// Study name.
    pub study: String,
    /// Its store.
    pub store: PathBuf,
    /// Slurm's number of the job; absent where nothing is left to be done, or in a dry run.
    pub job: Option<String>,
    /// Name of the job.
    pub name: String,
    /// Tasks.
    pub tasks: usize,
    /// Trials in them.
    pub trials: usize,
    /// Trials that the store has already.
    pub complete: usize,
    /// The command, in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What is to be reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Gives the trials of a study that are not complete to Slurm. What an earlier submission did is collected first.
///
/// # Errors
/// The study cannot be run so, an earlier submission is not over, Slurm refuses, or the store cannot be used.
pub fn submit(options: &RunOptions, fleet: &FleetOptions) -> Result<Submitted, FleetError> {
    let Prepared { study, plan, root, .. } = run::prepare(options)?;
    let alone = check(&study, fleet, &root)?;
    let record = |tasks: Vec<Vec<String>>, number: u32| FleetRecord {
        version: VERSION,
        program: identity::program(),
        number,
        name: name(&study, &root, number),
        job: None,
        submitted: time::now_rfc3339(),
        // The name of a shipped one stays a name.
        study: study.file().unwrap_or_else(|| options.study.clone()),
        preset: options.overrides().preset,
        set: options.set.clone(),
        erase: options.erase.clone(),
        allow_commands: options.allow_commands,
        on_host: options.on_host,
        allow_foreign_owner: new_file::is_foreign_allowed(),
        alone: alone.clone(),
        tasks,
    };
    let next = || numbers(&root).into_iter().max().unwrap_or(0) + 1;
    if options.dry_run {
        let known = Store::open(&root).map(|store| complete(&store)).unwrap_or_default();
        let record = record(tasks(&plan, &known, fleet.per_task, alone.is_some()), next());
        let submitted = submitted(&study, &plan, &root, &record);
        let command = submission(&record, &record.place(&root), &script(&record, &root), fleet).invocation();
        return Ok(Submitted { command: Some(command.to_string()), ..submitted });
    }
    run::agreed(options, &study, &root)?;
    // Locked: of two submissions at the same time the second sees the tasks of the first.
    let writer = Store::create(&root, &plan, &study.text).map_err(FleetError::Store)?;
    refuse_queued(&root)?;
    let Taken { notes, .. } = collect::take_complete(&root, &writer)?;
    let mut record = record(tasks(&plan, &complete(&writer), fleet.per_task, alone.is_some()), next());
    let submitted = Submitted { notes, ..submitted(&study, &plan, &root, &record) };
    if record.tasks.is_empty() {
        return Ok(submitted);
    }
    let script = prepare(&record, &root)?;
    // Before Slurm has it: a task that begins at once finds its trials.
    record.write(&root)?;
    let job = submission(&record, &record.place(&root), &script, fleet).submit()?;
    record.job = Some(job.clone());
    record.write(&root)?;
    Ok(Submitted { job: Some(job), ..submitted })
}

fn submitted(study: &Study, plan: &Plan, root: &Path, record: &FleetRecord) -> Submitted {
    let trials = record.tasks.iter().map(Vec::len).sum();
    Submitted {
        study: study.spec.name.clone(),
        store: root.to_owned(),
        job: None,
        name: record.name.clone(),
        tasks: record.tasks.len(),
        trials,
        complete: plan.trials.len().saturating_sub(trials),
        command: None,
        notes: Vec::new(),
    }
}

fn submission<'a>(
    record: &'a FleetRecord,
    place: &'a Path,
    script: &'a Path,
    fleet: &'a FleetOptions,
) -> Submission<'a> {
    Submission {
        name: &record.name,
        place,
        script,
        tasks: record.tasks.len(),
        partition: fleet.partition.as_deref(),
        options: &fleet.sbatch,
    }
}

/// What of the study goes by wall-clock time, if anything does.
///
/// # Errors
/// It cannot be given to a fleet, or not so.
fn check(study: &Study, fleet: &FleetOptions, root: &Path) -> Result<Option<String>, FleetError> {
    let name = || study.spec.name.clone();
    if study.spec.search.is_some() {
        return Err(FleetError::Search { study: name() });
    }
    if let Some(host) = study.other_hosts().into_iter().next() {
        return Err(FleetError::Elsewhere { study: name(), host });
    }
    if let Some(option) = fleet.sbatch.iter().find(|option| slurm::is_own(option)) {
        return Err(FleetError::Option { option: option.clone() });
    }
    if root.to_string_lossy().contains(|c: char| "%\\".contains(c) || c.is_control()) {
        return Err(FleetError::Path { path: root.to_owned() });
    }
    let shared = |cell: &Cell| matches!(&cell.spec.volume, VolumeSpec::Loop { directory: None, .. });
    if study.cells.iter().any(shared) {
        return Err(FleetError::SharedVolume { study: name() });
    }
    let alone = study.cells.iter().find_map(run::wall_clock);
    if fleet.per_task == PerTask::Trial {
        let why = |what: &str| format!("{what}, and trials that are compared have to run on one node");
        let controls = || {
            study
                .spec
                .controls
                .is_some()
                .then(|| "its controls continue from the state that their trial left".to_owned())
        };
        if let Some(why) = alone.as_deref().map(why).or_else(controls) {
            return Err(FleetError::PerTask { study: name(), why });
        }
    }
    Ok(alone)
}

/// A submission whose tasks are in the queue would do the same trials again.
fn refuse_queued(root: &Path) -> Result<(), FleetError> {
    let last = match super::last(root) {
        Err(FleetError::NoFleet { .. }) => return Ok(()),
        other => other?,
    };
    match slurm::queue(&last.name)?.len() {
        0 => Ok(()),
        tasks => Err(FleetError::InQueue { store: root.to_owned(), tasks }),
    }
}

/// Ids of the complete trials of a store.
fn complete(store: &Store) -> BTreeSet<String> {
    store.complete_trials().0.into_iter().map(|trial| trial.id).collect()
}

/// The trials that are not complete, by task. A repeat that goes by wall-clock time is done again as a whole, on one node.
fn tasks(plan: &Plan, complete: &BTreeSet<String>, per_task: PerTask, alone: bool) -> Vec<Vec<String>> {
    let mut known = BTreeSet::new();
    let all: Vec<&PlannedTrial> =
        plan.trials.iter().filter(|trial| known.insert(trial.id.as_str())).collect();
    let is_pending = |trial: &PlannedTrial| !complete.contains(&trial.id);
    match per_task {
        PerTask::Trial => {
            all.into_iter().filter(|trial| is_pending(trial)).map(|trial| vec![trial.id.clone()]).collect()
        }
        PerTask::Repeat => {
            let open: BTreeSet<u32> =
                all.iter().filter(|trial| is_pending(trial)).map(|trial| trial.repeat).collect();
            let mut repeats: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for trial in all.iter().filter(|trial| is_pending(trial) || alone && open.contains(&trial.repeat))
            {
                repeats.entry(trial.repeat).or_default().push(trial.id.clone());
            }
            repeats.into_values().collect()
        }
    }
}

/// A name for the job that tells the store.
fn name(study: &Study, root: &Path, number: u32) -> String {
    let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    format!("fsage-{}-{}-{number}", study.spec.name, &hash[..8])
}

fn script(record: &FleetRecord, root: &Path) -> PathBuf {
    record.place(root).join("task.sh")
}

/// What Slurm runs on a node.
fn text_of(record: &FleetRecord, place: &Path) -> String {
    let folder = place.display().to_string();
    let mut argv = vec![place.join("fsage").display().to_string()];
    argv.extend(record.allow_foreign_owner.then(|| "--allow-foreign-owner".to_owned()));
    argv.extend(["fleet".to_owned(), "task".to_owned(), folder]);
    let command = Invocation::new(argv, String::new(), Duration::ZERO);
    format!("#!/bin/sh\n# One task of a fleet of fsage.\nexec {command}\n")
}

/// Makes the folder of a submission, with our programs and the script in it.
fn prepare(record: &FleetRecord, root: &Path) -> Result<PathBuf, FleetError> {
    let place = record.place(root);
    file::folder(root, &[FOLDER, &record.number.to_string()])?;
    let private = |path: &Path| {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(|error| FleetError::Store(file::failed("use", path, error)))
    };
    let machine = std::env::consts::ARCH;
    for name in ["fsage"].into_iter().chain(program::OTHERS) {
        let bytes = program::for_machine(name, machine).map_err(programs)?;
        let path = place.join(name);
        file::write(&path, &bytes)?;
        private(&path)?;
    }
    let path = script(record, root);
    file::write(&path, text_of(record, &place).as_bytes())?;
    private(&path)?;
    Ok(path)
}

fn programs(error: TargetError) -> FleetError {
    FleetError::Programs(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(id: u32, repeat: u32) -> PlannedTrial {
        PlannedTrial { id: format!("{id:016x}"), cell: 0, repeat, seed: 0, factors: BTreeMap::new() }
    }

    fn planned() -> Plan {
        let study = crate::study::load(
            Path::new("aging"),
            &crate::study::Overrides::default(),
            crate::study::Consent::Given,
        );
        Plan::of_trials(&study.unwrap(), vec![trial(1, 0), trial(2, 0), trial(3, 1), trial(4, 1)])
    }

    #[test]
    fn a_repeat_by_wall_clock_time_is_done_again_as_a_whole() {
        let (plan, complete) = (planned(), BTreeSet::from([format!("{:016x}", 1)]));
        let sizes = |per_task, alone| {
            tasks(&plan, &complete, per_task, alone).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(PerTask::Repeat, true), [2, 2]);
        assert_eq!(sizes(PerTask::Repeat, false), [1, 2]);
        assert_eq!(sizes(PerTask::Trial, false), [1, 1, 1]);
        let all = plan.trials.iter().map(|trial| trial.id.clone()).collect();
        assert!(tasks(&plan, &all, PerTask::Repeat, true).is_empty());
    }
}
