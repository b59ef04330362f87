//! Calls about power cuts.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use fsage_model::crash::{Attempt, AttemptSpec};
use fsage_model::protocol::Failure;

use super::task::{Task, handlers};
use crate::crash::{CrashError, CrashTest, attempt};
use crate::host::{HostError, tool};
use crate::location::Reach as _;

handlers! { task:
    CrashPrepare { load, directory } => {
        let prepared = CrashTest::prepare(load, &directory.make()?)?;
        *kept(task) = Some(prepared);
    };
    CrashLoad { directory } => {
        let mut test = kept(task);
        let test = test.as_mut().ok_or(CrashError::Order { what: "prepared" })?;
        test.run(&directory.open_to_change()?)?
    };
    CrashTry { attempt } => try_state(task, &attempt)?;
}

fn kept<'a>(task: &Task<'a>) -> MutexGuard<'a, Option<CrashTest>> {
    task.agent.crash.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_state(task: &Task<'_>, spec: &AttemptSpec) -> Result<Attempt, Failure> {
    let test = kept(task);
    let history = test.as_ref().ok_or(CrashError::Order { what: "prepared" })?.history()?;
    let limit = Some(Duration::from_millis(spec.check_timeout_ms));
    let held = &task.agent.held;
    let check = |argv: &[String]| {
        held.used::<_, HostError>(&spec.device, |_| tool::run(&task.agent.children, argv, limit))
    };
    Ok(attempt(spec, history, held, &check)?)
}
