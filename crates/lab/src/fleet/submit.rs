//! Giving a study to a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::slurm::{self, Submission};
use super::{FOLDER, FleetError, FleetRecord, VERSION, collect, numbers};
use crate::plan::{Plan, PlannedTrial};
use crate::run::{self, Prepared, RunOptions};
use crate::store::{Store, Writer, file};
use crate::study::{Study, identity};
use crate::target::{TargetError, program};
use crate::time;

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
}

/// Gives the trials of a study that are not complete to Slurm. What an earlier submission did is collected first.
///
/// # Errors
/// The study cannot be run so, an earlier submission is not over, Slurm refuses, or the store cannot be used.
pub fn submit(options: &RunOptions, fleet: &FleetOptions) -> Result<Submitted, FleetError> {
    let Prepared { study, plan, root, .. } = run::prepare(options)?;
    let alone = check(&study, fleet.per_task)?;
    if !options.dry_run {
        run::agreed(options, &study, &root)?;
    }
    let number = numbers(&root).into_iter().max().unwrap_or(0) + 1;
    let record = |tasks: Vec<Vec<String>>| FleetRecord {
        version: VERSION,
        program: identity::program(),
        number,
        name: name(&study, &root, number),
        job: None,
        submitted: time::now_rfc3339(),
        study: place_of(&options.study),
        preset: options.overrides().preset,
        set: options.set.clone(),
        erase: options.erase.clone(),
        allow_commands: options.allow_commands,
        on_host: options.on_host,
        alone: alone.clone(),
        tasks,
    };
    if options.dry_run {
        let record = record(tasks(&plan, &BTreeSet::new(), fleet.per_task));
        let submitted = submitted(&study, &plan, &root, &record);
        let command = submission(&record, &record.place(&root), &script(&record, &root), fleet).invocation();
        return Ok(Submitted { command: Some(command.to_string()), ..submitted });
    }
    refuse_queued(&root)?;
    let writer = Store::create(&root, &plan, &study.text).map_err(FleetError::Store)?;
    collect::take_complete(&root, &writer)?;
    let mut record = record(tasks(&plan, &complete(&writer), fleet.per_task));
    let submitted = submitted(&study, &plan, &root, &record);
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
        complete: plan.trials.len() - trials,
        command: None,
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
        alone: record.alone.is_some(),
        partition: fleet.partition.as_deref(),
        options: &fleet.sbatch,
    }
}

/// Why trials of the study must be alone on a node, if they must.
///
/// # Errors
/// It cannot be given to a fleet, or not so.
fn check(study: &Study, per_task: PerTask) -> Result<Option<String>, FleetError> {
    let name = || study.spec.name.clone();
    if study.spec.search.is_some() {
        return Err(FleetError::Search { study: name() });
    }
    if let Some(host) = study.other_hosts().into_iter().next() {
        return Err(FleetError::Elsewhere { study: name(), host });
    }
    let alone = study.cells.iter().find_map(run::wall_clock);
    if per_task == PerTask::Trial {
        let why = |what: &str| format!("{what}, and what is compared with each other has to run on one node");
        let controls = || {
            study.spec.controls.is_some().then(|| "its controls begin with what their trial left".to_owned())
        };
        if let Some(why) = alone.as_deref().map(why).or_else(controls) {
            return Err(FleetError::PerTask { study: name(), why });
        }
    }
    Ok(alone)
}

/// A submission whose tasks are in the queue would do the same trials again.
fn refuse_queued(root: &Path) -> Result<(), FleetError> {
    let Ok(last) = super::last(root) else { return Ok(()) };
    match slurm::queue(&last.name)?.len() {
        0 => Ok(()),
        tasks => Err(FleetError::InQueue { store: root.to_owned(), tasks }),
    }
}

/// Ids of the complete trials of a store.
fn complete(writer: &Writer) -> BTreeSet<String> {
    writer.complete_trials().0.into_iter().map(|trial| trial.id).collect()
}

/// The trials that are not complete, by task.
fn tasks(plan: &Plan, complete: &BTreeSet<String>, per_task: PerTask) -> Vec<Vec<String>> {
    let mut known = complete.clone();
    let pending: Vec<&PlannedTrial> =
        plan.trials.iter().filter(|trial| known.insert(trial.id.clone())).collect();
    match per_task {
        PerTask::Trial => pending.into_iter().map(|trial| vec![trial.id.clone()]).collect(),
        PerTask::Repeat => {
            let mut repeats: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for trial in pending {
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

/// The study as nodes find it: the name of a shipped one stays a name.
fn place_of(study: &Path) -> PathBuf {
    let file = study.exists().then(|| std::path::absolute(study).ok()).flatten();
    file.unwrap_or_else(|| study.to_owned())
}

fn script(record: &FleetRecord, root: &Path) -> PathBuf {
    record.place(root).join("task.sh")
}

/// What Slurm runs on a node.
const SCRIPT: &str = "#!/bin/sh\n# One task of a fleet of fsage; begun in the folder of its submission.\n\
                      exec ./fsage fleet task .\n";

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
    file::write(&path, SCRIPT.as_bytes())?;
    private(&path)?;
    Ok(path)
}

fn programs(error: TargetError) -> FleetError {
    FleetError::Programs(error)
}
