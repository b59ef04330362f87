//! Calls that measure and copy trees.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use fsage_model::location::Location;
use fsage_model::protocol::Event;

use super::sink::EventSink;
use super::task::{Task, handlers};
use crate::location::{Anchor, Reach as _};
use crate::measure::{HeldFolder, MeasureError};
use crate::{copy, fio, free, measure};

handlers! { task:
    Measure { measure, directory, device, seed, trace_instance, mark, extra } => {
        let mut sink = EventSink::of(task);
        let order = measure::Order { measure, directory, device, seed, trace_instance, mark, extra };
        task.agent.with_control(|control| measure::run(&order, &task.agent.held, control, &mut sink))?
    };
    RunFio { argv, timeout_ms, round_ms, steady_from, device, memory } => {
        let mut progress = |event: Event| task.agent.send_event(task.id, &event);
        let limit = Duration::from_millis(timeout_ms);
        let order = fio::Order { argv, limit, round_ms, steady_from, device, memory };
        let children = &task.agent.children;
        task.agent.with_control(|control| {
            task.agent.held.used(&order.device, |_| fio::run(&order, children, control, &mut progress))
        })?
    };
    MakeMeasureFolder { directory } => {
        let folder = HeldFolder::make(open(&directory)?, directory.mount.is_none())?;
        let path = folder.path();
        *held(task) = Some(folder);
        path
    };
    HoldMeasureFolder { directory } => {
        let folder = HeldFolder::of_another_host(open(&directory)?)?;
        let path = folder.path();
        *held(task) = Some(folder);
        path
    };
    LeaveMeasureFolder => drop(held(task).take());
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
