//! What a load says, on its way to the lab.

use std::time::{Duration, Instant};

use fsage_model::load::{Probe, Tick};
use fsage_model::protocol::Event;
use fsage_model::warning::Warning;

use super::task::{Agent, Task};
use crate::load::LoadSink;

/// Least time between two progress events; the load calls at least twice a second.
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);

/// Sends everything as events and chunks of one request.
pub(super) struct EventSink<'a> {
    agent: &'a Agent,
    id: u64,
    last_progress: Option<Instant>,
}

impl<'a> EventSink<'a> {
    pub(super) const fn of(task: &Task<'a>) -> Self {
        Self { agent: task.agent, id: task.id, last_progress: None }
    }
}

impl LoadSink for EventSink<'_> {
    fn tick(&mut self, tick: Tick) {
        self.agent.send_event(self.id, &Event::Tick { tick });
    }

    fn probe(&mut self, probe: Probe) {
        self.agent.send_event(self.id, &Event::Probe { probe: Box::new(probe) });
    }

    fn progress(&mut self, operations: u64, elapsed_ns: u64, share: Option<f64>, note: &str) {
        if self.last_progress.is_some_and(|last| last.elapsed() < PROGRESS_PAUSE) {
            return;
        }
        self.last_progress = Some(Instant::now());
        let note = note.to_owned();
        self.agent.send_event(self.id, &Event::Progress { operations, elapsed_ns, share, note });
    }

    fn warning(&mut self, warning: Warning) {
        self.agent.send_event(self.id, &Event::Warning { warning });
    }

    fn trace_chunk(&mut self, chunk: &[u8]) {
        self.agent.send_chunk(self.id, chunk);
    }
}
