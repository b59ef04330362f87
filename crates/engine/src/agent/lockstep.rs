//! Requests that drive several volumes in lock-step.

use std::sync::PoisonError;

use fsage_model::protocol::{Failure, FailureKind, Reply, Request};

use super::Agent;
use super::sink::EventSink;
use crate::lockstep::{Lockstep, LockstepError};

/// Does one of `LockstepBegin`, `LockstepRun` and `LockstepEnd`; anything else is nothing of ours.
pub(super) fn serve(agent: &Agent, id: u64, request: Request) -> Result<Reply, Failure> {
    let mut kept = agent.lockstep.lock().unwrap_or_else(PoisonError::into_inner);
    // What went wrong is not gone on with: the workload is taken out, and put back when all went well.
    let earlier = kept.take();
    match request {
        Request::LockstepBegin { lockstep } => {
            *kept = Some(Lockstep::begin(*lockstep).map_err(|error| failure(&error))?);
            Ok(Reply::Done)
        }
        Request::LockstepRun { until } => {
            let mut lockstep = earlier.ok_or_else(not_begun)?;
            let mut sink = EventSink::new(agent, id);
            let result = agent
                .with_control(|control| lockstep.run(until, control, &mut sink))
                .map_err(|error| failure(&error))?;
            if !result.stopped {
                *kept = Some(lockstep);
            }
            Ok(Reply::Lockstep { result: Box::new(result) })
        }
        Request::LockstepEnd => {
            earlier.ok_or_else(not_begun)?.check().map_err(|error| failure(&error))?;
            Ok(Reply::Done)
        }
        _ => Ok(Reply::Done),
    }
}

fn failure(error: &LockstepError) -> Failure {
    super::dispatch::failure(error, error.hint(), error.errno(), error.kind())
}

fn not_begun() -> Failure {
    Failure {
        message: "no workload was begun, or the last run of it failed".to_owned(),
        hint: String::new(),
        errno: None,
        kind: FailureKind::Usage,
    }
}
