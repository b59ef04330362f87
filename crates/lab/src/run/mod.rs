//! Running: from a study to a store full of trials.
//!
//! Trials run one after the other, each through an agent of its own. What is complete stays complete: a run
//! that ends in any way is resumed by running it again. SIGINT and SIGTERM stop the load, give everything
//! back and leave the trial undone.

mod deterministic;
mod digest;
mod dry;
mod error;
mod interrupt;
mod metric;
mod observer;
mod stage;
mod summary;
mod trial;
mod trial_volume;
mod warning;

use std::path::{Path, PathBuf};
use std::time::Instant;

pub use digest::groups as digest_groups;
pub use error::RunError;
use error::TrialError;
use interrupt::Interrupt;
pub use observer::{Quiet, RunEvent, RunObserver};
pub use summary::{DigestGroup, RunSummary, TrialOutcome, TrialState};
use trial::Lab;

use crate::lease::{Journal, LeaseError};
use crate::plan::{self, Plan, PlannedTrial};
use crate::store::{Store, Writer};
use crate::study::{self, Consent, Overrides, Study};
use crate::target::{Session, Target, TargetError};
use crate::time;
use crate::volume::EraseConsent;

/// What `fsage run` is asked to do.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// A study file or the name of a shipped study.
    pub study: PathBuf,
    /// Same as preset `quick`.
    pub quick: bool,
    /// Preset to apply.
    pub preset: Option<String>,
    /// `path=value`, in order.
    pub set: Vec<String>,
    /// Where results go; absent: `./store/<study name>`.
    pub store: Option<PathBuf>,
    /// Print every command and write, take nothing.
    pub dry_run: bool,
    /// Devices that may be erased, as given with `--erase`: `PATH` or `PATH=IDENTIFIER`.
    pub erase: Vec<String>,
    /// Whether commands that a study brings itself may run, and what it names outside its folder may be used.
    pub allow_commands: bool,
}

impl RunOptions {
    /// The overrides among the options.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        let preset = if self.quick { Some("quick".to_owned()) } else { self.preset.clone() };
        Overrides { preset, set: self.set.clone() }
    }
}

/// Starts agents; tests give one that is scripted.
pub type Starter<'a> = dyn FnMut() -> Result<Session, TargetError> + 'a;

/// Runs a study, or resumes it. A failed trial does not end the run; the summary's exit code tells.
///
/// # Errors
/// The study or the store is not usable, or the host lacks something every trial needs.
pub fn run_study(options: &RunOptions, observer: &mut dyn RunObserver) -> Result<RunSummary, RunError> {
    run_study_with(options, observer, &mut Target::local)
}

/// The same with agents from `start`.
///
/// # Errors
/// As [`run_study`].
pub fn run_study_with(
    options: &RunOptions,
    observer: &mut dyn RunObserver,
    start: &mut Starter<'_>,
) -> Result<RunSummary, RunError> {
    let clock = Instant::now();
    let reading = match options.allow_commands {
        true => Consent::Given,
        false => Consent::Below(options.store.as_deref()),
    };
    let study = study::load(&options.study, &options.overrides(), reading)?;
    let plan = plan::plan(&study);
    let wanted = options.store.clone().unwrap_or_else(|| Path::new("store").join(&study.spec.name));
    let root = std::path::absolute(&wanted).map_err(|source| RunError::Path { path: wanted, source })?;
    let consent = EraseConsent::parse(&options.erase);
    for cell in &study.cells {
        trial::resolve(cell, cell.spec.seed, &consent, &root)?;
    }
    let foreign = study.foreign_commands();
    let outside: Vec<String> = study.outside(&root).iter().map(|path| path.display().to_string()).collect();
    if options.dry_run {
        return dry::run(&study, &plan, &root, &consent, (&foreign, &outside), observer);
    }
    if !outside.is_empty() && !options.allow_commands {
        return Err(RunError::Outside { study: study.path, paths: outside });
    }
    if !foreign.is_empty() && !options.allow_commands {
        return Err(RunError::Commands { study: study.path, commands: foreign.into_iter().collect() });
    }
    let interrupt = Interrupt::listen()?;
    let writer = Store::create(&root, &plan, &study.text)?;
    let journal = Journal::open(&root)?;
    let mut lab = Lab { root: root.clone(), consent, start, journal, interrupt };
    let mut summary = RunSummary::new(&study, &plan, &root);
    for damaged in writer.damaged() {
        writer.set_aside(&damaged)?;
        summary.damaged.push(damaged);
    }
    summary.keep(&writer.trials());
    observer.event(RunEvent::Planned {
        study: study.spec.name.clone(),
        store: root,
        trials: plan.trials.len(),
        complete: summary.kept,
        damaged: summary.damaged.clone(),
    });
    if let Some(ignored) = crate::lease::ignored(&lab.root) {
        let text = format!("{} is ignored: leases are not kept in stores", ignored.display());
        observer.event(RunEvent::Note { text });
    }
    clean_left_over(&mut lab, "an earlier run", observer)?;
    let outcome = every_trial(&mut lab, &writer, &study, &plan, &mut summary, observer);
    // Agents that were lost while they released: once more, before the user has to.
    let outcome = outcome.and_then(|()| clean_left_over(&mut lab, "a failed trial", observer));
    summary.interrupted_by = lab.interrupt.by();
    outcome?;
    summary.digest_groups = digest::groups(&writer.trials());
    summary.elapsed_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(summary)
}

/// Releases what `who` left behind.
fn clean_left_over(lab: &mut Lab<'_>, who: &str, observer: &mut dyn RunObserver) -> Result<(), RunError> {
    if lab.journal.outstanding().is_empty() {
        return Ok(());
    }
    let mut session = (lab.start)()?;
    let own = lab.journal.attach(&session)?;
    let summary = crate::lease::clean(&mut session, &mut lab.journal)?;
    drop(session);
    lab.journal.release(own)?;
    let text = format!("released {} things that {who} left behind", summary.released.len());
    observer.event(RunEvent::Note { text });
    for (lease, why) in summary.left {
        observer.event(RunEvent::Note { text: format!("left {lease:?} alone: {why}") });
    }
    for (lease, why) in summary.failed {
        observer.event(RunEvent::Note { text: format!("could not release {lease:?}: {why}") });
    }
    Ok(())
}

fn every_trial(
    lab: &mut Lab<'_>,
    writer: &Writer,
    study: &Study,
    plan: &Plan,
    summary: &mut RunSummary,
    observer: &mut dyn RunObserver,
) -> Result<(), RunError> {
    let pending: Vec<usize> =
        (0..plan.trials.len()).filter(|n| summary.trials[*n].state == TrialState::Pending).collect();
    for (position, index) in pending.iter().enumerate() {
        if lab.interrupt.by().is_some() {
            break;
        }
        let planned = &plan.trials[*index];
        observer.event(RunEvent::TrialStarted {
            position: position + 1,
            of: pending.len(),
            trial: planned.clone(),
            label: label(planned, study.spec.repeats),
        });
        let mut folder = writer.begin(&planned.id)?;
        let started_s = time::now_seconds();
        let cell = &study.cells[planned.cell];
        let (record, error) = lab.trial(&study.spec.name, planned, cell, &mut folder, observer);
        match error {
            Some(TrialError::Interrupted) => break,
            // A store that cannot be written to cannot keep the next trials either.
            Some(TrialError::Store(error)) => return Err(error.into()),
            Some(TrialError::Lease(error)) if !matches!(error, LeaseError::Target(_)) => {
                return Err(error.into());
            }
            error => {
                folder.finish(&record, started_s)?;
                let code = error.as_ref().map_or(0, TrialError::exit_code);
                summary.finished(*index, &record.error, code);
                observer.event(RunEvent::TrialFinished {
                    id: planned.id.clone(),
                    state: summary.trials[*index].state,
                    elapsed_ns: record.elapsed_ns,
                    error: record.error,
                });
            }
        }
    }
    Ok(())
}

/// `ext4, 0.8, repeat 2`: factor values in words.
#[must_use]
pub fn label(trial: &PlannedTrial, repeats: u32) -> String {
    let mut words: Vec<String> = trial
        .factors
        .iter()
        .map(|(path, value)| {
            let short = path.rsplit('.').next().unwrap_or(path);
            match value {
                serde_json::Value::String(text) if short == "kind" => text.clone(),
                serde_json::Value::String(text) => format!("{short} {text}"),
                other => format!("{short} {other}"),
            }
        })
        .collect();
    if repeats > 1 {
        words.push(format!("repeat {} of {repeats}", trial.repeat + 1));
    }
    words.join(", ")
}
