//! Runs of a search: which trials come next, from the scores of those that are in the store.
//!
//! The state of a search is the list of its runs. Before the store is opened, and after each block, every decision is
//! made again from the records that are there ([`fsage_model::search`]), so that a search that was interrupted goes on where
//! it was and the report shows the same path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fsage_model::record::{TrialRecord, TrialStatus, Unread};
use fsage_model::search::{Configuration, Path, Purpose, Run, search};
use fsage_model::study::{Done, Measured, SEARCH, ScoreError, ScoreSpec, Space, score, written};
use serde_json::Value;

use super::{RunError, TrialOutcome};
use crate::plan::{PlannedTrial, trial_seed};
use crate::store::{self, Store};
use crate::study::identity::trial_id;
use crate::study::search::{configured, space, words};
use crate::study::{Cell, Study, StudyError};

/// The searches of a study: one for each cell of its matrix.
pub(super) struct Searches {
    root: PathBuf,
    all: Vec<CellSearch>,
    /// Trial → score, of those that are complete.
    scores: BTreeMap<String, Result<Outcome, ScoreError>>,
    /// Trials that failed once in this run and are done again.
    again: BTreeSet<String>,
}

/// What a complete run says.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    score: f64,
    /// What it wrote, where that is known.
    written: Option<f64>,
}

/// The search on one cell.
struct CellSearch {
    /// Index of the cell.
    cell: usize,
    /// The cell in words; empty when there is only one.
    name: String,
    /// Its factors.
    factors: BTreeMap<String, Value>,
    space: Space,
    parts: Vec<ScoreSpec>,
    /// Configuration → index of its cell.
    configured: BTreeMap<Configuration, usize>,
    /// Runs that are known to be done.
    done: usize,
    /// What the next block is for.
    pending: Option<Purpose>,
    /// Which options the host takes is known from earlier runs.
    is_tried: bool,
    /// Why it has no runs, where no option is left to search.
    nothing_left: Option<String>,
    /// The run without which it cannot go on, as it has no score, and why.
    unscored: Option<(PlannedTrial, ScoreError)>,
}

impl Searches {
    /// The searches of a study; none without `[search]`. Where the store has runs, their options are those that the
    /// host took then.
    pub(super) fn new(study: &mut Study, root: PathBuf) -> Self {
        let cells = study.cells.len();
        let store = Store::open(&root).ok();
        let mut all = Vec::new();
        for (index, cell) in study.cells.iter_mut().enumerate() {
            let before = store.as_ref().and_then(|store| options_before(store, cell));
            let is_tried = before.is_some();
            if let (Some(search), Some(only)) = (&mut cell.spec.search, before) {
                // A record may be from elsewhere: only options that there are.
                let known = |name: &String| search.option.contains_key(name);
                search.only = only.into_iter().filter(known).collect();
            }
            let Some(search) = &cell.spec.search else { continue };
            all.push(CellSearch {
                cell: index,
                name: words(cell, cells),
                factors: cell.factors.clone(),
                space: space(search, &cell.spec),
                parts: cell.spec.score(),
                configured: BTreeMap::new(),
                done: 0,
                pending: None,
                is_tried,
                nothing_left: None,
                unscored: None,
            });
        }
        Self { root, all, scores: BTreeMap::new(), again: BTreeSet::new() }
    }

    /// Tries every option by itself, without any stage, and leaves out those that fail; a sentence for each. `attempt` gives
    /// the error of a failed trial, in words. Where the base fails as well, nothing is known of the options.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub(super) fn leave_out(
        &mut self,
        study: &mut Study,
        attempt: &mut Attempt<'_>,
    ) -> Result<Vec<String>, RunError> {
        let mut notes = Vec::new();
        for own in self.all.iter_mut().filter(|own| !own.is_tried) {
            own.is_tried = true;
            let refused = own.refused(&study.cells[own.cell], attempt)?;
            let cell = &mut study.cells[own.cell];
            let Some(search) = cell.spec.search.as_mut().filter(|_| !refused.is_empty()) else { continue };
            let is_kept = |name: &&String| !refused.iter().any(|(other, _)| other == *name);
            let kept: Vec<String> = own.space.options.iter().filter(is_kept).cloned().collect();
            let of = own.of();
            let sentence =
                |(name, why)| format!("search{of}: `{name}` is left out, because it fails here: {why}");
            // What sets nothing is only there to be compared with the others.
            if kept.iter().all(|name| search.option.get(name).is_some_and(BTreeMap::is_empty)) {
                own.nothing_left = Some(format!("search{of} stopped: every option fails here on its own"));
            } else {
                search.only = kept;
                own.space = space(&search.clone(), &cell.spec);
                own.configured.clear();
            }
            notes.extend(refused.into_iter().map(sentence));
        }
        Ok(notes)
    }

    /// The trials of every search, as far as it goes: those that are done and the block that is next. Cells of new
    /// configurations are added to the study.
    ///
    /// # Errors
    /// Options that cannot be set together.
    pub(super) fn trials(&mut self, study: &mut Study) -> Result<Vec<PlannedTrial>, RunError> {
        let mut trials = Vec::new();
        for index in 0..self.all.len() {
            let mut done = Done::default();
            loop {
                let own = &mut self.all[index];
                own.unscored = None;
                if own.nothing_left.is_some() {
                    own.pending = None;
                    break;
                }
                let path = search(&own.space.problem, &mut done);
                own.done = path.runs();
                own.pending = path.pending.as_ref().map(|block| block.purpose);
                if !self.next_block(index, &path, study, &mut done, &mut trials)? {
                    break;
                }
            }
        }
        Ok(trials)
    }

    /// Adds the trials of the pending block; whether it is done already.
    fn next_block(
        &mut self,
        index: usize,
        path: &Path,
        study: &mut Study,
        done: &mut Done,
        trials: &mut Vec<PlannedTrial>,
    ) -> Result<bool, RunError> {
        let Some(block) = &path.pending else { return Ok(false) };
        let mut is_done = true;
        for run in &block.runs {
            let planned = self.all[index].trial(*run, study)?;
            match self.score(index, &planned.id) {
                Some(Ok(Outcome { score, written })) => {
                    done.scores.insert(*run, score);
                    done.written.extend(written.map(|written| (*run, written)));
                }
                Some(Err(why)) => {
                    self.all[index].unscored = Some((planned.clone(), why));
                    is_done = false;
                }
                None => is_done = false,
            }
            trials.push(planned);
        }
        Ok(is_done)
    }

    /// The score of a trial; nothing when it is not complete.
    fn score(&mut self, index: usize, id: &str) -> Option<Result<Outcome, ScoreError>> {
        if let Some(known) = self.scores.get(id) {
            return Some(known.clone());
        }
        // A record that cannot be read is set aside, and its trial done again.
        let read: Option<TrialRecord<Unread>> = store::read_trial(&self.root, id).ok().flatten();
        let record = read.filter(|record| record.status == TrialStatus::Complete)?;
        let measured = |name: &str| {
            let metric = record.metrics.iter().find(|metric| metric.name == name)?;
            let count = f64::from(u32::try_from(metric.samples.len()).ok()?);
            let value = metric.samples.iter().sum::<f64>() / count;
            Some(Measured { value, larger_is_worse: metric.larger_is_worse })
        };
        let found = score(&self.all[index].parts, &measured)
            .map(|score| Outcome { score, written: written(&measured) });
        self.scores.insert(id.to_owned(), found.clone());
        Some(found)
    }

    /// Whether a trial is complete.
    pub(super) fn is_done(&self, id: &str) -> bool {
        self.scores.contains_key(id)
    }

    /// Whether a trial that failed is done once more in this run.
    pub(super) fn again(&mut self, id: &str) -> bool {
        !self.all.is_empty() && self.again.insert(id.to_owned())
    }

    /// What is next, one sentence for each search that is not over.
    pub(super) fn next(&self) -> Vec<String> {
        let sentence = |own: &CellSearch| {
            let purpose = own.pending.filter(|_| own.unscored.is_none())?.name();
            let (name, done, budget) = (own.of(), own.done, own.space.problem.budget);
            Some(format!("search{name}: {purpose} is next, {done} of at most {budget} runs done"))
        };
        self.all.iter().filter_map(sentence).collect()
    }

    /// Why searches ended before their time, one sentence for each.
    pub(super) fn stopped(&self, failed: &[&TrialOutcome]) -> Vec<String> {
        self.all.iter().filter_map(|own| own.stopped(failed)).collect()
    }
}

/// Tries a cell; the error in words where it fails.
pub(super) type Attempt<'a> = dyn FnMut(&PlannedTrial, &Cell) -> Result<Option<String>, RunError> + 'a;

/// The options of the search on this cell as the complete runs of the store have them; `None` without any.
fn options_before(store: &Store, cell: &Cell) -> Option<Vec<String>> {
    let is_of_cell = |planned: &&PlannedTrial| {
        let mut factors = planned.factors.clone();
        factors.remove(SEARCH).is_some() && factors == cell.factors
    };
    let mut of_cell = store.plan().trials.iter().filter(is_of_cell);
    of_cell.find_map(|planned| {
        let record = store.trial_without_stages(&planned.id).ok().flatten()?;
        let only = record.spec.get("search")?.get("only").cloned().unwrap_or_default();
        let complete = record.status == TrialStatus::Complete;
        complete.then(|| serde_json::from_value(only).unwrap_or_default())
    })
}

impl CellSearch {
    /// Options that fail by themselves where the base does not, and why.
    fn refused(&self, cell: &Cell, attempt: &mut Attempt<'_>) -> Result<Vec<(String, String)>, RunError> {
        let mut refused = Vec::new();
        let options = 0..self.space.problem.options;
        let sets = std::iter::once(Configuration::BASE)
            .chain(options.map(|option| Configuration::BASE.with(option)));
        for set in sets {
            let Ok(mut own) = configured(cell, &self.space, set) else { continue };
            // What sets nothing cannot fail.
            if !own.spec.null_options.is_empty() {
                continue;
            }
            own.spec.stage.clear();
            let seed = trial_seed(own.spec.seed, 0);
            let id = trial_id(&own.spec, 0, seed);
            let planned = PlannedTrial { id, cell: self.cell, repeat: 0, seed, factors: own.factors.clone() };
            match attempt(&planned, &own)? {
                Some(_) if set.is_empty() => return Ok(Vec::new()),
                Some(why) => refused.push((self.space.label(set), why)),
                None => {}
            }
        }
        Ok(refused)
    }

    /// Why it ended before its time; `failed` are trials of any search.
    fn stopped(&self, failed: &[&TrialOutcome]) -> Option<String> {
        let of = self.of();
        if self.nothing_left.is_some() {
            return self.nothing_left.clone();
        }
        self.pending?;
        if let Some((trial, why)) = &self.unscored {
            let (id, options) = (&trial.id, set_options(&trial.factors));
            return Some(format!(
                "search{of} stopped: trial {id} ({options}) has no score: {why}. Name metrics in `search.score` that every \
                 run has, above 0 (`fsage export` lists them), and run the study again into the same store"
            ));
        }
        let is_own = |trial: &&&TrialOutcome| {
            let mut factors = trial.factors.clone();
            factors.remove(SEARCH).is_some() && factors == self.factors
        };
        let own: Vec<&&TrialOutcome> = failed.iter().filter(is_own).collect();
        let first = own.first()?;
        let more = if own.len() > 1 { format!(", one of {},", own.len()) } else { String::new() };
        Some(format!(
            "search{of} stopped: a block is not complete. Trial {} ({}){more} failed twice: {}. Run the same \
             command again to retry, or say in `clashes` what fails together and search into another store",
            first.id,
            set_options(&first.factors),
            first.error
        ))
    }

    /// ` on ext4`, or nothing.
    fn of(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" on {}", self.name) }
    }

    /// The trial of a run; its cell is added to the study when it is new.
    fn trial(&mut self, run: Run, study: &mut Study) -> Result<PlannedTrial, RunError> {
        let index = match self.configured.get(&run.configuration) {
            Some(index) => *index,
            None => {
                let own = configured(&study.cells[self.cell], &self.space, run.configuration);
                let cell =
                    own.map_err(|problems| RunError::Study(StudyError::of_search(&study.path, problems)))?;
                study.cells.push(cell);
                self.configured.insert(run.configuration, study.cells.len() - 1);
                study.cells.len() - 1
            }
        };
        let cell = &study.cells[index];
        let seed = trial_seed(cell.spec.seed, run.replicate);
        Ok(PlannedTrial {
            id: trial_id(&cell.spec, run.replicate, seed),
            cell: index,
            repeat: run.replicate,
            seed,
            factors: cell.factors.clone(),
        })
    }
}

/// The options that are set, in words.
fn set_options(factors: &BTreeMap<String, Value>) -> &str {
    factors.get(SEARCH).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a factor is that of a search.
pub(super) fn is_factor(path: &str) -> bool {
    path == SEARCH
}
