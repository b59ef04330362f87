//! Calls that run operations: a load, a replay, a workload on several volumes in lock-step.

use std::sync::{MutexGuard, PoisonError};

use fsage_model::location::Location;
use fsage_model::lockstep::LockstepResult;
use fsage_model::protocol::{Failure, FailureKind};

use super::sink::EventSink;
use super::task::{Task, handlers};
use crate::lockstep::Lockstep;
use crate::{load, replay};

handlers! { task:
    Load { load, mount } => {
        let mut sink = EventSink::of(task);
        let location = Location { path: load.directory.clone(), mount };
        task.agent.with_control(|control| load::run_in(&location, &load, control, &mut sink))?
    };
    Replay { trace, directory, options } => {
        let mut sink = EventSink::of(task);
        task.agent.with_control(|control| replay::run_with(&trace, &directory, &options, control, &mut sink))?
    };
    LockstepBegin { lockstep } => {
        // An earlier one is forgotten first.
        drop(kept(task).take());
        *kept(task) = Some(Lockstep::begin(*lockstep)?);
    };
    LockstepResume { lockstep, past, digest } => {
        drop(kept(task).take());
        let mut sink = EventSink::of(task);
        let resumed = task.agent.with_control(|control| {
            Lockstep::resume(*lockstep, &past, &digest, control, &mut sink)
        })?;
        let continues = resumed.is_some();
        *kept(task) = resumed;
        continues
    };
    LockstepRun { until } => lockstep_run(task, until)?;
    LockstepEnd => begun(task)?.check()?;
}

fn kept<'a>(task: &Task<'a>) -> MutexGuard<'a, Option<Lockstep>> {
    task.agent.lockstep.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the workload out. What failed is not resumed: it is put back only when all went well.
fn begun(task: &Task<'_>) -> Result<Lockstep, Failure> {
    kept(task).take().ok_or_else(|| Failure {
        message: "no workload was begun, or the last run of it failed".to_owned(),
        hint: String::new(),
        errno: None,
        kind: FailureKind::Usage,
    })
}

fn lockstep_run(task: &Task<'_>, until: u64) -> Result<LockstepResult, Failure> {
    let mut lockstep = begun(task)?;
    let mut sink = EventSink::of(task);
    let result = task.agent.with_control(|control| lockstep.run(until, control, &mut sink))?;
    if !result.stopped {
        *kept(task) = Some(lockstep);
    }
    Ok(result)
}
