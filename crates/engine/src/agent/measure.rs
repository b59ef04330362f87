//! Requests that measure and copy trees.

use std::sync::{MutexGuard, PoisonError};

use fsage_model::location::Location;
use fsage_model::protocol::{Failure, Reply, Request};

use super::Agent;
use super::sink::EventSink;
use crate::location::{Anchor, Reach as _};
use crate::measure::{HeldFolder, MeasureError};
use crate::{copy, measure};

/// Does one of `Measure`, its folder, `Copy` and `RemoveTraceInstance`; anything else is nothing of ours.
pub(super) fn serve(agent: &Agent, id: u64, request: Request) -> Result<Reply, Failure> {
    let mut sink = EventSink::new(agent, id);
    match request {
        Request::Measure { measure, directory, device, seed, trace_instance } => {
            let order = measure::Order { measure, directory, device, seed, trace_instance };
            let result = agent.with_control(|control| measure::run(&order, control, &mut sink))?;
            Ok(Reply::Measured { result: Box::new(result) })
        }
        Request::MakeMeasureFolder { directory } => {
            let folder = HeldFolder::make(open(&directory)?, directory.mount.is_none())?;
            let path = folder.path();
            *held(agent) = Some(folder);
            Ok(Reply::MeasureFolder { path })
        }
        Request::RemoveMeasureFolder { directory } => {
            let folder = held(agent).take();
            match folder {
                Some(folder) => folder.remove()?,
                // An agent before this one made it.
                None => measure::remove_folder(&open(&directory)?)?,
            }
            Ok(Reply::Done)
        }
        Request::Copy { from, to } => {
            let (from, to) = (from.open().map_err(MeasureError::from)?, open(&to)?);
            let copied = agent.with_control(|control| copy::run_in(&from, &to, control, &mut sink))?;
            let copy::Copied { files, bytes, directories, digest_from, digest_to, elapsed_ns } = copied;
            Ok(Reply::Copied { files, bytes, directories, digest_from, digest_to, elapsed_ns })
        }
        Request::RemoveTraceInstance { name } => {
            measure::requests::remove_instance(&name)?;
            Ok(Reply::Done)
        }
        _ => Ok(Reply::Done),
    }
}

fn held(agent: &Agent) -> MutexGuard<'_, Option<HeldFolder>> {
    agent.measured.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a directory to change what is in it.
fn open(directory: &Location) -> Result<Anchor, MeasureError> {
    Ok(directory.open_to_change()?)
}
