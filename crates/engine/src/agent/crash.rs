//! Calls about power cuts.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsage_model::crash::{Acknowledgement, Attempt, AttemptSpec, DatabaseSpec, ProgramRun, StateCheck};
use fsage_model::protocol::Failure;
use rustix::fs::syncfs;

use super::sink::EventSink;
use super::task::{Task, handlers};
use crate::crash::{
    CrashError, CrashTest, DatabaseJudge, IsOver, Judge, ProgramJudge, attempt, run_database, run_load, save,
    use_free_space,
};
use crate::host::{HostError, tool};
use crate::load::LoadSink as _;
use crate::location::Reach as _;

handlers! { task:
    CrashPrepare { load, directory } => {
        let prepared = CrashTest::prepare(load, &directory.make()?)?;
        kept(task).insert(prepared).base()
    };
    CrashPrepareScript { script, seed, directory } => {
        let prepared = CrashTest::prepare_script(&script, seed, &directory.make()?)?;
        kept(task).insert(prepared).base()
    };
    CrashLoad { directory } => {
        let mut test = kept(task);
        let test = test.as_mut().ok_or(CrashError::Order { what: "prepared" })?;
        test.run(&directory.open_to_change()?)?
    };
    CrashTry { attempt } => try_state(task, &attempt)?;
    CrashMake { directory, used } => {
        let made = directory.make()?;
        if used {
            use_free_space(&made)?;
        }
        syncfs(&made).map_err(|errno| HostError::file("sync", made.path())(errno.into()))?;
    };
    CrashProgram { program, directory } => {
        let directory = directory.open_to_change()?;
        run_program(task, |is_over| run_load(&program, &directory, &task.agent.children, is_over))?
    };
    CrashCheck { attempt, check } => check_state(task, &attempt, &check)?;
    CrashDatabase { database, directory } => {
        let directory = directory.open_to_change()?;
        run_program(task, |is_over| run_database(&database, &directory, &task.agent.children, is_over))?
    };
    CrashCheckDatabase { attempt, database } => check_database(task, &attempt, database)?;
    CrashSave { device, file } => {
        task.agent.held.forget_cache(&device)?;
        task.agent.held.used::<_, HostError>(&device, |_| save(&device, &file))?;
    };
}

fn kept<'a>(task: &Task<'a>) -> MutexGuard<'a, Option<CrashTest>> {
    task.agent.crash.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_state(task: &Task<'_>, spec: &AttemptSpec) -> Result<Attempt, Failure> {
    let test = kept(task);
    let histories = test.as_ref().ok_or(CrashError::Order { what: "prepared" })?.histories()?;
    judged(task, spec, histories)
}

fn judged(task: &Task<'_>, spec: &AttemptSpec, judge: &dyn Judge) -> Result<Attempt, Failure> {
    let limit = Some(Duration::from_millis(spec.check_timeout_ms));
    let held = &task.agent.held;
    let check = |argv: &[String]| {
        held.used::<_, HostError>(&spec.device, |_| tool::run(&task.agent.children, argv, limit))
    };
    Ok(attempt(spec, judge, held, &check)?)
}

fn acknowledged<'a>(task: &Task<'a>) -> MutexGuard<'a, Vec<Acknowledgement>> {
    task.agent.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a load that is another program, and keeps what it acknowledged for the checks.
fn run_program(
    task: &Task<'_>,
    run: impl FnOnce(IsOver<'_>) -> Result<ProgramRun, CrashError>,
) -> Result<ProgramRun, Failure> {
    let (started, mut sink) = (Instant::now(), EventSink::of(task));
    let run = task.agent.with_control(|control| {
        let mut is_over = |acknowledged| {
            let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            sink.progress(acknowledged, elapsed_ns, None, "load");
            control.is_stopped()
        };
        run(&mut is_over)
    })?;
    acknowledged(task).clone_from(&run.acknowledged);
    Ok(run)
}

fn check_state(task: &Task<'_>, spec: &AttemptSpec, check: &StateCheck) -> Result<Attempt, Failure> {
    let acknowledged = acknowledged(task);
    let judge = ProgramJudge { check, acknowledged: &acknowledged, children: &task.agent.children };
    judged(task, spec, &judge)
}

fn check_database(task: &Task<'_>, spec: &AttemptSpec, database: DatabaseSpec) -> Result<Attempt, Failure> {
    let acknowledged = acknowledged(task);
    let judge = DatabaseJudge { database, committed: &acknowledged, children: &task.agent.children };
    judged(task, spec, &judge)
}
