//! Calls that measure and copy trees.

use std::sync::{MutexGuard, PoisonError};

use fsage_model::location::Location;

use super::sink::EventSink;
use super::task::{Task, handlers};
use crate::location::{Anchor, Reach as _};
use crate::measure::{HeldFolder, MeasureError};
use crate::{copy, free, measure};

handlers! { task:
    Measure { measure, directory, device, seed, trace_instance, mark } => {
        let mut sink = EventSink::of(task);
        let order = measure::Order { measure, directory, device, seed, trace_instance, mark };
        task.agent.with_control(|control| measure::run(&order, &task.agent.held, control, &mut sink))?
    };
    MakeMeasureFolder { directory } => {
        let folder = HeldFolder::make(open(&directory)?, directory.mount.is_none())?;
        let path = folder.path();
        *held(task) = Some(folder);
        path
    };
    RemoveMeasureFolder { directory } => {
        let folder = held(task).take();
        match folder {
            Some(folder) => folder.remove()?,
            // An agent before this one made it.
            None => measure::remove_folder(&open(&directory)?)?,
        }
    };
    Copy { from, to } => {
        let mut sink = EventSink::of(task);
        let (from, to) = (from.open().map_err(MeasureError::from)?, open(&to)?);
        task.agent.with_control(|control| copy::run_in(&from, &to, &task.agent.held, control, &mut sink))?
    };
    Free { directory, share, seed } => {
        let mut sink = EventSink::of(task);
        let root = open(&directory)?;
        task.agent.with_control(|control| free::run_in(&root, share, seed, control, &mut sink))?
    };
    RemoveTraceInstance { name } => measure::requests::remove_instance(&name)?;
}

fn held<'a>(task: &Task<'a>) -> MutexGuard<'a, Option<HeldFolder>> {
    task.agent.measured.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a directory to change what is in it.
fn open(directory: &Location) -> Result<Anchor, MeasureError> {
    Ok(directory.open_to_change()?)
}
