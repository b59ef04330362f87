//! Running: from a study to a store full of trials.
//!
//! Trials run one after the other, or several at a time where they are in model time ([`RunOptions::jobs`]), each
//! through an agent of its own. What is complete stays complete: a run that ends in any way is resumed by
//! running it again. SIGINT and SIGTERM stop the load, give everything back and leave the trial undone.

mod beside;
mod deterministic;
mod device;
mod digest;
mod drives;
mod dry;
mod error;
mod fio;
mod interrupt;
mod making;
mod metric;
mod observer;
mod queue;
mod search;
mod stage;
mod summary;
mod there;
mod trial;
mod trial_volume;
mod warning;
mod wear;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use beside::Processors;
pub(crate) use beside::wall_clock;
use fsage_model::protocol::call;
use fsage_model::study::is_option_of_another;

pub use digest::groups as digest_groups;
pub use error::RunError;
use interrupt::Interrupt;
pub use observer::{Quiet, RunEvent, RunObserver};
use queue::Queue;
use search::Searches;
pub use summary::{DigestGroup, RunSummary, TrialOutcome, TrialState};
use there::{Begin, Others};
pub use there::{Failed, serve};
pub(crate) use there::{batch, serve_after};
use trial::Lab;

use crate::lease::Journal;
use crate::plan::{self, Plan, PlannedTrial};
use crate::price::price_trials;
use crate::store::{Store, Writer};
use crate::study::{self, Cell, Consent, Overrides, Study};
use crate::target::{Session, Target, TargetError};
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
    /// Whether states that no kernel wrote may be mounted here ([`crate::crash::allow`]).
    pub on_host: bool,
    /// Trials that run at the same time, each on a processor of its own: only trials in model time may be more
    /// than one. 0 is 1.
    pub jobs: u32,
    /// Do only these trials of the plan, by id; absent: all.
    pub only: Option<BTreeSet<String>>,
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
pub type Starter<'a> = dyn FnMut() -> Result<Session, TargetError> + Send + 'a;

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
    let Prepared { mut study, mut plan, root, searches, consent } = prepare(options)?;
    if options.dry_run {
        let (foreign, outside) = brought(&study, &root);
        return dry::run(&study, &plan, &root, &consent, (&foreign, &outside), observer);
    }
    agreed(options, &study, &root)?;
    let others = elsewhere(&study, &plan, &root, options)?;
    let interrupt = Interrupt::listen()?;
    let mut writer = Store::create(&root, &plan, &study.text)?;
    let journal = Journal::open(&root)?;
    let start = Mutex::new(start);
    let start = || (start.lock().unwrap_or_else(PoisonError::into_inner))();
    let mut lab = Lab::new(root.clone(), consent, &start, journal, interrupt);
    lab.on_host = options.on_host;
    lab.others = Some(others.clone());
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
    observer.study(&study);
    note_ignored(&lab.root, observer);
    clean_left_over(&mut lab, "an earlier run", observer)?;
    compare_devices(&mut lab, &study)?;
    let mut progress =
        Progress { study: &mut study, plan: &mut plan, searches, writer: &mut writer, summary: &mut summary };
    let outcome = progress.every_block(&mut lab, options.jobs, observer);
    others.close();
    // Agents that were lost while they released: once more, before the user has to.
    let outcome = outcome.and_then(|()| clean_left_over(&mut lab, "a failed trial", observer));
    summary.interrupted_by = lab.interrupt.by();
    outcome?;
    price(&lab, &writer, &study, observer)?;
    summary.digest_groups = digest::groups(&writer.trials());
    summary.elapsed_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(summary)
}

/// What a run does, before anything is taken.
pub(crate) struct Prepared {
    pub(crate) study: Study,
    pub(crate) plan: Plan,
    /// Absolute.
    pub(crate) root: PathBuf,
    searches: Searches,
    consent: EraseConsent,
}

/// Reads, checks and plans a study.
///
/// # Errors
/// It cannot be run.
pub(crate) fn prepare(options: &RunOptions) -> Result<Prepared, RunError> {
    let reading = match options.allow_commands {
        true => Consent::Given,
        false => Consent::Below(options.store.as_deref()),
    };
    let mut study = study::load(&options.study, &options.overrides(), reading)?;
    crate::guest::settle(&mut study).map_err(RunError::Guest)?;
    let wanted = options.store.clone().unwrap_or_else(|| Path::new("store").join(&study.spec.name));
    let root = std::path::absolute(&wanted).map_err(|source| RunError::Path { path: wanted, source })?;
    let consent = EraseConsent::parse(&options.erase);
    if Processors::of(options.jobs)?.len() > 1 {
        beside::check(&study)?;
    }
    for cell in &study.cells {
        trial::resolve(cell, cell.spec.seed, &consent, &root)?;
    }
    let mut searches = Searches::new(&mut study, root.clone());
    let mut plan = planned(&mut study, &mut searches)?;
    if let Some(only) = &options.only {
        plan.trials.retain(|trial| only.contains(&trial.id));
        let known: BTreeSet<&String> = plan.trials.iter().map(|trial| &trial.id).collect();
        if let Some(id) = only.iter().find(|id| !known.contains(id)) {
            return Err(RunError::NotPlanned { study: study.path, id: id.clone() });
        }
    }
    Ok(Prepared { study, plan, root, searches, consent })
}

/// The commands that a study brings, and what it names outside of its folder and the store.
fn brought(study: &Study, root: &Path) -> (BTreeSet<String>, Vec<String>) {
    let outside = study.outside(root).iter().map(|path| path.display().to_string()).collect();
    (study.foreign_commands(), outside)
}

/// Whether the user agreed to what the study brings, names outside its folder, and mounts.
pub(crate) fn agreed(options: &RunOptions, study: &Study, root: &Path) -> Result<(), RunError> {
    let (foreign, outside) = brought(study, root);
    let path = study.path.clone();
    if !outside.is_empty() && !options.allow_commands {
        return Err(RunError::Outside { study: path, paths: outside });
    }
    if !foreign.is_empty() && !options.allow_commands {
        return Err(RunError::Commands { study: path, commands: foreign.into_iter().collect() });
    }
    let mut drives = study.drives_cut().into_iter();
    drives.try_for_each(|drive| crate::crash::allow(drive, options.on_host)).map_err(RunError::OnHost)
}

/// Connects to the other hosts of a study that have something to do.
fn elsewhere(study: &Study, plan: &Plan, root: &Path, options: &RunOptions) -> Result<Others, RunError> {
    let others = Others::new(study, Begin { erase: options.erase.clone(), on_host: options.on_host });
    if let Some(host) = study.other_hosts().into_iter().next()
        && !study.sources.is_empty()
    {
        let paths = study.sources.iter().map(|path| path.display().to_string()).collect();
        return Err(RunError::Sources { study: study.path.clone(), host, paths });
    }
    let targets: BTreeSet<_> = study.cells.iter().map(|cell| cell.spec.target.name()).collect();
    if targets.len() > 1 && !options.erase.is_empty() {
        return Err(RunError::EraseWhere { study: study.spec.name.clone() });
    }
    let complete: BTreeSet<String> = match root.join("plan.json").exists() {
        true => Store::open(root)?.complete_trials().0.into_iter().map(|trial| trial.id).collect(),
        false => BTreeSet::new(),
    };
    let pending = plan.trials.iter().filter(|trial| !complete.contains(&trial.id));
    let wanted: BTreeSet<String> =
        pending.filter_map(|trial| study.cells[trial.cell].spec.target.name()).collect();
    others.connect(|name| wanted.contains(name))?;
    others.check(study)?;
    Ok(others)
}

/// Says when a store has leases, which are kept elsewhere.
fn note_ignored(root: &Path, observer: &mut dyn RunObserver) {
    if let Some(ignored) = crate::lease::ignored(root) {
        let text = format!("{} is ignored: leases are not kept in stores", ignored.display());
        observer.event(RunEvent::Note { text });
    }
}

/// The trials of a study; of a search those that are done and the block that is next.
fn planned(study: &mut Study, searches: &mut Searches) -> Result<Plan, RunError> {
    if study.spec.search.is_none() {
        return Ok(plan::plan(study));
    }
    let trials = searches.trials(study)?;
    Ok(Plan::of_trials(study, trials))
}

/// A run whose plan may grow.
struct Progress<'a> {
    study: &'a mut Study,
    plan: &'a mut Plan,
    searches: Searches,
    writer: &'a mut Writer,
    summary: &'a mut RunSummary,
}

impl Progress<'_> {
    /// Does every trial of the plan, and of a search those that follow from their results.
    fn every_block(
        &mut self,
        lab: &mut Lab<'_>,
        jobs: u32,
        observer: &mut dyn RunObserver,
    ) -> Result<(), RunError> {
        self.leave_out(lab, observer)?;
        loop {
            let queue = Queue::new(self.study, self.plan, self.writer, self.summary);
            let outcome = every_trial(lab, jobs, &queue, observer);
            drop(queue);
            outcome?;
            if lab.interrupt.by().is_some() || !self.goes_on(observer)? {
                return Ok(());
            }
        }
    }

    /// Leaves out the options of searches that this host does not take.
    fn leave_out(&mut self, lab: &mut Lab<'_>, observer: &mut dyn RunObserver) -> Result<(), RunError> {
        let mut lane = lab.lane(0, &Processors::default());
        let (writer, name) = (&*self.writer, self.study.spec.name.clone());
        let mut attempt = |planned: &PlannedTrial, cell: &Cell| {
            if lane.interrupt.by().is_some() {
                return Ok(None);
            }
            let mut folder = writer.begin(&planned.id)?;
            let (_, error) = lane.trial(&name, planned, cell, &mut folder, &mut Quiet);
            writer.forget(folder)?;
            Ok(error.map(|error| error.refusal(&planned.id)).transpose()?.flatten())
        };
        let notes = self.searches.leave_out(self.study, &mut attempt);
        lab.journal.join(lane.journal);
        let notes = notes?;
        if notes.is_empty() {
            return Ok(());
        }
        notes.into_iter().for_each(|text| observer.event(RunEvent::Note { text }));
        *self.plan = planned(self.study, &mut self.searches)?;
        self.writer.grow(self.plan)?;
        let damaged = std::mem::take(&mut self.summary.damaged);
        *self.summary = RunSummary { damaged, ..RunSummary::new(self.study, self.plan, &lab.root) };
        self.summary.keep(&self.writer.trials());
        Ok(())
    }

    /// Whether there are trials to do now: those of a search that failed for the first time, or its next blocks.
    fn goes_on(&mut self, observer: &mut dyn RunObserver) -> Result<bool, RunError> {
        let mut say = |text: String| observer.event(RunEvent::Note { text });
        let searches = &mut self.searches;
        let retried = self.summary.retry(|id| searches.again(id));
        if retried > 0 {
            say(format!("{retried} failed and will be run again: a search needs every run of a block"));
            return Ok(true);
        }
        let trials = searches.trials(self.study)?;
        if !self.plan.grow(trials) {
            let stopped = searches.stopped(&self.summary.failures());
            stopped.iter().cloned().for_each(say);
            self.summary.stopped = stopped;
            return Ok(false);
        }
        searches.next().into_iter().for_each(say);
        self.writer.grow(self.plan)?;
        let searches = &self.searches;
        self.summary.grow(self.plan, |id| searches.is_done(id));
        Ok(true)
    }
}

/// Prices what the trials kept logs of on the media of the study, unless a signal asks to end.
fn price(
    lab: &Lab<'_>,
    writer: &Writer,
    study: &Study,
    observer: &mut dyn RunObserver,
) -> Result<(), RunError> {
    let goes_on = || lab.interrupt.by().is_none();
    let mut says = |text| observer.event(RunEvent::Note { text });
    Ok(price_trials(writer, &study.spec.price, &goes_on, &mut says)?)
}

/// Refuses devices of the study that overlap.
fn compare_devices(lab: &mut Lab<'_>, study: &Study) -> Result<(), RunError> {
    let named = device::named(study);
    // What another host's devices share is not known here.
    if named.len() < 2 || !study.other_hosts().is_empty() {
        return Ok(());
    }
    let mut session = (lab.start)()?;
    let own = lab.journal.attach(&session)?;
    let ask = |path: &Path| session.call(call::BlockFacts { device: path.to_owned() }).ok();
    let checked = device::check(&named, ask);
    drop(session);
    lab.journal.release(own)?;
    checked
}

/// Releases the leftovers of `who`.
fn clean_left_over(lab: &mut Lab<'_>, who: &str, observer: &mut dyn RunObserver) -> Result<(), RunError> {
    if lab.journal.outstanding().is_empty() {
        return Ok(());
    }
    let mut session = (lab.start)()?;
    let own = lab.journal.attach(&session)?;
    let summary = crate::lease::clean(&mut session, &mut lab.journal)?;
    drop(session);
    lab.journal.release(own)?;
    let text = format!("released {} leases of {who}", summary.released.len());
    observer.event(RunEvent::Note { text });
    for (lease, why) in summary.left {
        observer.event(RunEvent::Note { text: format!("left {lease:?} alone: {why}") });
    }
    for (lease, why) in summary.failed {
        observer.event(RunEvent::Note { text: format!("could not release {lease:?}: {why}") });
    }
    Ok(())
}

/// Does every trial that is still to be done, so many at a time.
fn every_trial(
    lab: &mut Lab<'_>,
    jobs: u32,
    queue: &Queue<'_>,
    observer: &mut dyn RunObserver,
) -> Result<(), RunError> {
    // A processor without a trial is nobody's.
    let lanes = Processors::of(jobs.min(queue.len()))?;
    let mut labs: Vec<Lab<'_>> =
        lanes.iter().enumerate().map(|(number, processors)| lab.lane(number, processors)).collect();
    let outcome = queue.run(&mut labs, observer);
    labs.into_iter().for_each(|lane| lab.journal.join(lane.journal));
    outcome
}

/// `ext4, 0.8, repeat 2`: factor values in words.
#[must_use]
pub fn label(trial: &PlannedTrial, repeats: u32) -> String {
    let kind = trial.factors.get("file_system.kind").and_then(serde_json::Value::as_str);
    let mut words: Vec<String> = trial
        .factors
        .iter()
        .filter(|(path, _)| kind.is_none_or(|kind| !is_option_of_another(path, kind)))
        .map(|(path, value)| {
            let short = path.rsplit('.').next().unwrap_or(path);
            match value {
                serde_json::Value::String(text) if short == "kind" || search::is_factor(path) => text.clone(),
                serde_json::Value::String(text) => format!("{short} {text}"),
                other => format!("{short} {other}"),
            }
        })
        .collect();
    if trial.factors.keys().any(|path| search::is_factor(path)) {
        words.push(format!("block {}", trial.repeat + 1));
    }
    if repeats > 1 {
        words.push(format!("repeat {} of {repeats}", trial.repeat + 1));
    }
    words.join(", ")
}
