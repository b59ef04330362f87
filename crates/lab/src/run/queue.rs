//! The trials that are still to be done, taken in the order of the plan by one or several that do them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use super::error::TrialError;
use super::observer::{RunEvent, RunObserver};
use super::trial::Lab;
use super::{RunError, RunSummary, TrialState, label};
use crate::plan::Plan;
use crate::store::Writer;
use crate::study::Study;
use crate::time;

/// What is done, and what is not yet.
pub(super) struct Queue<'a> {
    study: &'a Study,
    plan: &'a Plan,
    writer: &'a Writer,
    /// Trials that this run does.
    of: usize,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    /// Positions, from 1, and the trials' places in the plan.
    pending: VecDeque<(usize, usize)>,
    /// Ids of trials that are being done.
    running: Vec<String>,
    summary: &'a mut RunSummary,
    /// Something ended the whole run.
    over: bool,
}

/// Who gets the events of the trial at a position.
type Sink<'a> = dyn FnMut(usize, RunEvent) + 'a;

/// An observer of one trial.
struct Of<'a, 'b> {
    position: usize,
    sink: &'a mut Sink<'b>,
}

impl RunObserver for Of<'_, '_> {
    fn event(&mut self, event: RunEvent) {
        (self.sink)(self.position, event);
    }
}

impl<'a> Queue<'a> {
    /// Everything of the plan that the summary has as pending.
    pub(super) fn new(
        study: &'a Study,
        plan: &'a Plan,
        writer: &'a Writer,
        summary: &'a mut RunSummary,
    ) -> Self {
        let pending: VecDeque<(usize, usize)> = (0..plan.trials.len())
            .filter(|n| summary.trials[*n].state == TrialState::Pending)
            .enumerate()
            .map(|(position, index)| (position + 1, index))
            .collect();
        let of = pending.len();
        let state = State { pending, running: Vec::new(), summary, over: false };
        Self { study, plan, writer, of, state: Mutex::new(state) }
    }

    /// Trials that this run does.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.of).unwrap_or(u32::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next trial. One of an id that another lab is doing is left to that lab.
    fn next(&self) -> Option<(usize, usize)> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        let id = |index: usize| &self.plan.trials[index].id;
        let free = state.pending.iter().position(|(_, index)| !state.running.contains(id(*index)))?;
        let (position, index) = state.pending.remove(free)?;
        state.running.push(id(index).clone());
        Some((position, index))
    }

    fn end(&self, index: usize) {
        let id = &self.plan.trials[index].id;
        self.state().running.retain(|running| running != id);
    }

    /// Does trials until there are none, a signal came, or something ends the run.
    fn work(&self, lab: &mut Lab<'_>, sink: &mut Sink<'_>) -> Result<(), RunError> {
        while lab.interrupt.by().is_none()
            && let Some((position, index)) = self.next()
        {
            let done = self.one(index, lab, &mut Of { position, sink: &mut *sink });
            self.end(index);
            match done {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.state().over = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// One trial; whether another may follow.
    fn one(&self, index: usize, lab: &mut Lab<'_>, observer: &mut Of<'_, '_>) -> Result<bool, RunError> {
        let planned = &self.plan.trials[index];
        observer.event(RunEvent::TrialStarted {
            position: observer.position,
            of: self.of,
            trial: planned.clone(),
            label: label(planned, self.study.spec.repeats),
        });
        let mut folder = self.writer.begin(&planned.id)?;
        let started_s = time::now_seconds();
        let cell = &self.study.cells[planned.cell];
        let (record, error) = lab.trial(&self.study.spec.name, planned, cell, &mut folder, observer);
        match error.map(TrialError::of_a_trial).transpose()? {
            Some(TrialError::Interrupted) => return Ok(false),
            error => {
                folder.finish(&record, started_s)?;
                if matches!(error, Some(TrialError::Kernel { .. })) {
                    return Err(RunError::Kernel { id: planned.id.clone() });
                }
                let code = error.as_ref().map_or(0, TrialError::exit_code);
                let mut state = self.state();
                state.summary.finished(index, &record.error, code);
                let outcome = state.summary.trials[index].state;
                drop(state);
                observer.event(RunEvent::TrialFinished {
                    id: planned.id.clone(),
                    state: outcome,
                    elapsed_ns: record.elapsed_ns,
                    error: record.error,
                });
            }
        }
        Ok(true)
    }

    /// Does everything with one lab, or with several side by side; events come on this thread.
    ///
    /// # Errors
    /// What ends the run. The other labs end the trial that they are at.
    pub(super) fn run(&self, labs: &mut [Lab<'_>], observer: &mut dyn RunObserver) -> Result<(), RunError> {
        if let [lab] = labs {
            return self.work(lab, &mut |_, event| observer.event(event));
        }
        let (to, events) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for lab in labs {
                let to = to.clone();
                let work = move || {
                    let mut sink = |position, event| {
                        // Who listens does so until every worker has ended.
                        let _ = to.send((position, event));
                    };
                    self.work(lab, &mut sink)
                };
                workers.push(std::thread::Builder::new().name("trial".to_owned()).spawn_scoped(scope, work));
            }
            drop(to);
            for (position, event) in events {
                observer.event_of(position, event);
            }
            let ended = workers.into_iter().map(|worker| match worker.map(|worker| worker.join()) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(source) => Err(RunError::Thread(source)),
            });
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }
}
