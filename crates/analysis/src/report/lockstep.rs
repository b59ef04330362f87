//! What volumes that were driven in lock-step cost, for the charts: reading by round, writing by round, and
//! free space by round (figures 1 to 4 of Conway et al. 2019).

use std::collections::BTreeSet;

use fsage_model::layout::SizeHistogram;
use fsage_model::metric::over_parts;
use serde::Serialize;

use super::factor;
use super::text::rounded;
use super::view::{Trial, View};
use crate::stats::doubt;
use crate::stats::evidence::level;
use crate::stats::{Estimate, Evidence};

/// A trial's `lockstep` stage.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    pub label: String,
    /// Index in the view's file systems.
    pub file_system: usize,
    /// What else is different between trials, in words: a panel each.
    pub panel: String,
    /// Writing is in model time.
    pub model: bool,
    /// What the volumes are called; the copy, where there is one, is last and in no round.
    pub volumes: Vec<String>,
    pub rounds: Vec<u64>,
    /// By volume and round: seconds for each GiB written.
    pub write: Vec<Vec<Option<f64>>>,
    /// By volume and round: share in use.
    pub used: Vec<Vec<f64>>,
    /// Rounds after which there was a look.
    pub looks: Vec<u64>,
    pub measures: Vec<Measure>,
    /// By volume and look: free space by extent size; nothing where the file system does not tell.
    pub free: Vec<Vec<Option<SizeHistogram>>>,
    /// By volume: what must be known about how its free space was found at the last look; empty when exact.
    pub caveats: Vec<String>,
}

/// A measure's headline.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    pub name: String,
    pub unit: String,
    /// By volume and look.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Every `lockstep` stage of the view, in the order of its trials.
pub fn all(view: &View) -> Vec<Run> {
    view.trials.iter().filter_map(|trial| run(view, trial)).collect()
}

fn run(view: &View, trial: &Trial) -> Option<Run> {
    let stage = trial.lockstep.as_ref()?;
    let (rounds, looks) = (&stage.rounds, &stage.looks);
    let volumes = || 0..stage.volumes.len();
    let first = looks.first().and_then(|look| look.volumes.first());
    let measures = first.map_or_else(Vec::new, |volume| {
        let one = |(position, result): (usize, &fsage_model::measure::MeasureResult)| {
            let headline = result.metrics.first()?;
            let value = |volume: usize, look: &fsage_model::record::Look| {
                look.volumes.get(volume)?.measures.get(position)?.metrics.first().map(|m| rounded(m.value))
            };
            let values = volumes().map(|volume| looks.iter().map(|look| value(volume, look)).collect());
            let unit = headline.unit.clone();
            Some(Measure { name: result.name.clone(), unit, values: values.collect() })
        };
        volume.measures.iter().enumerate().filter_map(one).collect()
    });
    let driven = rounds.first().map_or(0, |round| round.volumes.len());
    let each = |volume: usize| rounds.iter().filter_map(move |round| round.volumes.get(volume));
    let share = |used: u64, total: u64| rounded(fsage_model::quantity::share(used, total));
    Some(Run {
        label: trial.label.clone(),
        file_system: view.file_systems.iter().position(|name| *name == trial.file_system).unwrap_or(0),
        panel: factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM])),
        model: rounds.first().and_then(|round| round.volumes.first()).is_some_and(|volume| volume.model_time),
        volumes: stage.volumes.clone(),
        rounds: rounds.iter().map(|round| round.round).collect(),
        write: (0..driven)
            .map(|volume| each(volume).map(|one| one.write.seconds_per_gib().map(rounded)).collect())
            .collect(),
        used: (0..driven)
            .map(|volume| each(volume).map(|one| share(one.used_bytes, one.total_bytes)).collect())
            .collect(),
        looks: looks.iter().map(|look| look.round).collect(),
        measures,
        free: volumes()
            .map(|volume| {
                let free = |look: &fsage_model::record::Look| {
                    look.volumes.get(volume)?.free_space.as_ref().map(|free| free.histogram.clone())
                };
                looks.iter().map(free).collect()
            })
            .collect(),
        caveats: volumes()
            .map(|volume| {
                let free = looks.last().and_then(|look| look.volumes.get(volume)?.free_space.as_ref());
                free.map_or_else(String::new, |free| super::text::with_sizes(&free.caveat))
            })
            .collect(),
    })
}

/// A ratio between two volumes in the trials of one file system and context.
#[derive(Debug, Clone)]
pub struct Cost {
    pub file_system: String,
    /// Every other factor, in words.
    pub context: String,
    /// The same without the medium.
    pub settings: String,
    /// `grep`, `write`.
    pub what: String,
    /// The volume above the line.
    pub above: String,
    /// The volume below it.
    pub below: String,
    pub estimate: Estimate,
    /// The first trial: its index in [`View::trials`].
    pub trial: usize,
    /// A trial says that its full volume was not full, which this compares.
    pub not_full: bool,
}

/// Every ratio of every kind of trial.
pub fn costs(view: &View) -> Vec<Cost> {
    let context = |trial: &Trial| factor::context(&trial.factors, &BTreeSet::from([factor::FILE_SYSTEM]));
    let mut kinds: Vec<(String, &str, usize)> = Vec::new();
    for (index, trial) in view.trials.iter().enumerate().filter(|(_, trial)| trial.lockstep.is_some()) {
        let (context, file_system) = (context(trial), trial.file_system.as_str());
        if !kinds.iter().any(|kind| (&kind.0, kind.1) == (&context, file_system)) {
            kinds.push((context, file_system, index));
        }
    }
    let mut costs = Vec::new();
    for (where_, file_system, first) in kinds {
        let same = |trial: &Trial| trial.file_system == file_system && context(trial) == where_;
        let both = view.trials.iter().zip(&view.evidence);
        let chosen: Vec<&Evidence> =
            both.filter(|(trial, _)| same(trial)).map(|(_, evidence)| evidence).collect();
        let names: BTreeSet<&String> = chosen.iter().flat_map(|evidence| evidence.metrics.keys()).collect();
        let without = BTreeSet::from([factor::FILE_SYSTEM, factor::MEDIUM]);
        let settings = factor::context(&view.trials[first].factors, &without);
        for name in names {
            let Some((above, below, what)) = over_parts(name) else { continue };
            let Some(estimate) = level(&chosen, name, view.confidence) else { continue };
            costs.push(Cost {
                file_system: file_system.to_owned(),
                context: where_.clone(),
                settings: settings.clone(),
                what: what.to_owned(),
                above: above.to_owned(),
                below: below.to_owned(),
                estimate,
                not_full: chosen.iter().any(|trial| doubt::is_not_full(trial, name)),
                trial: first,
            });
        }
    }
    costs
}
