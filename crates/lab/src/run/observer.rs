//! What a run tells while it continues; `cli` renders it.

use crate::study::Study;
use std::path::PathBuf;

use fsage_model::warning::Warning;

use crate::plan::PlannedTrial;
use crate::run::TrialState;
use crate::store::DamagedTrial;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The study is planned and the store is open.
    Planned {
        /// Study name.
        study: String,
        /// Store folder.
        store: PathBuf,
        /// Trials of the plan.
        trials: usize,
        /// Of these, complete from an earlier run.
        complete: usize,
        /// Records that could not be read; their trials are done again.
        damaged: Vec<DamagedTrial>,
    },
    /// A trial begins.
    TrialStarted {
        /// 1-based position among the trials that this run does.
        position: usize,
        /// Trials that this run does.
        of: usize,
        /// Which.
        trial: PlannedTrial,
        /// `ext4, 80 %`: factor values in words.
        label: String,
    },
    /// A step of a trial begins: `mkfs`, `mount`, `age`, `verify`, `unmount`, `check`.
    Step {
        /// Name.
        name: String,
        /// The command or other details; may be empty.
        detail: String,
    },
    /// How far the running stage is, at least twice a second while it moves.
    Progress {
        /// Stage.
        stage: String,
        /// Operations so far.
        operations: u64,
        /// Nanoseconds of load so far.
        elapsed_ns: u64,
        /// 0..=1 where the end is known.
        share: Option<f64>,
        /// Operations a second, over the last few seconds.
        rate: f64,
        /// Seconds to the end of the stage where known.
        eta_s: Option<f64>,
        /// What is special now (`probe`, `materialise`, …); may be empty.
        note: String,
    },
    /// Something the user should know; stored with the trial.
    Warning {
        /// What.
        warning: Warning,
    },
    /// A trial ended.
    TrialFinished {
        /// Id.
        id: String,
        /// How.
        state: TrialState,
        /// Wall time.
        elapsed_ns: u64,
        /// Why it failed; empty otherwise.
        error: String,
    },
    /// One command or write of a dry run, as a shell would read it.
    DryRun {
        /// Line.
        line: String,
    },
    /// Something to tell once (leases released at the start, …).
    Note {
        /// Sentence.
        text: String,
    },
}

/// Who gets events.
pub trait RunObserver {
    /// Called from the thread that runs the study.
    fn event(&mut self, event: RunEvent);

    /// As [`RunObserver::event`], where several trials run side by side, for an event of one of them: `position` is that of its
    /// [`RunEvent::TrialStarted`].
    fn event_of(&mut self, position: usize, event: RunEvent) {
        let _ = position;
        self.event(event);
    }

    /// Called once, with the study that is about to be run.
    fn study(&mut self, study: &Study) {
        let _ = study;
    }
}

/// Tells nobody.
#[derive(Debug, Default, Clone, Copy)]
pub struct Quiet;

impl RunObserver for Quiet {
    fn event(&mut self, _event: RunEvent) {}
}
