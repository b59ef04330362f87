//! What made something slower: every comparison that an answer is chosen from, as a slowdown.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::metric::{self, is_headline};
use fsage_model::study::UNAGED;

use super::device;
use crate::report::age_cost::AgeCost;
use crate::report::difference::{Finding, finding};
use crate::report::view::{Trial, View};
use crate::report::{age_cost, factor, lockstep, remedy};
use crate::stats::benjamini_hochberg::adjusted;
use crate::stats::evidence::{SEEDS, trend};
use crate::stats::{Estimate, Evidence, Interval};

/// What volumes are called where a stage has the three states of Conway et al. 2019.
const FULL: &str = "full";
const EMPTY: &str = "empty";
/// Share of findings that may be false.
const FALSE_DISCOVERIES: f64 = 0.05;

/// What differs between the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// An aged volume against an unaged copy of its files.
    Ageing,
    /// A nearly empty volume after use against a fresh copy.
    Use,
    /// A full volume against a nearly empty one after the same use.
    Fullness,
    /// Another pair of volumes of a `lockstep` stage.
    Volumes {
        /// The one above the line.
        above: String,
        /// The one below.
        below: String,
    },
    /// A volume after a remedy (`settings` has its method) against the untreated one.
    Remedy,
    /// The last quarter of a run against its second.
    Running,
}

impl Cause {
    /// What it compares; empty where the sentence says it.
    pub const fn explained(&self) -> &'static str {
        match self {
            Self::Ageing => "Ageing: the aged volume against an unaged copy of its files",
            Self::Use => "Use: the nearly empty volume against a fresh copy of its files",
            Self::Fullness => "fullness: the full volume against the nearly empty one after the same use",
            Self::Remedy => "Remedies: the treated volume against the untreated one after the same ageing",
            Self::Running => "While ageing: the last quarter of the run against the second quarter",
            Self::Volumes { .. } => "",
        }
    }
}

/// One comparison.
#[derive(Debug, Clone)]
pub struct Effect {
    pub file_system: String,
    /// In words.
    pub device: String,
    /// Times are those of a model.
    pub model: bool,
    /// Every other factor that is not compared, in words; may be empty.
    pub settings: String,
    pub cause: Cause,
    /// A measure, `write`, or an operation.
    pub what: String,
    /// How many times as long it takes; above 1 is slower.
    pub estimate: Estimate,
    /// Corrected for the comparisons made.
    pub finding: Finding,
    /// Only the correction keeps it from being a finding.
    pub corrected: bool,
}

impl Effect {
    /// Whether a sentence may be about it.
    pub fn is_answer(&self) -> bool {
        !matches!(self.cause, Cause::Volumes { .. }) || self.what != metric::WRITE
    }

    /// Whether it is about more than this run.
    pub fn is_general(&self) -> bool {
        self.estimate.units >= SEEDS && self.estimate.interval.is_some()
    }

    /// The end of the interval that is nearer to no difference, of a slowdown; the value where there is none.
    pub fn at_least(&self) -> f64 {
        self.estimate.interval.map_or(self.estimate.value, |interval| interval.low)
    }
}

/// Every comparison, of the kind that the study was made for: states of a matrix, volumes in lock-step, or
/// else remedies, or else how operations changed while it ran.
pub fn all(view: &View) -> Vec<Effect> {
    let mut effects = ages(view);
    effects.extend(volumes(view));
    if effects.is_empty() {
        effects = remedies(view);
    }
    if effects.is_empty() {
        effects = trends(view);
    }
    effects
}

/// Headlines after each remedy against those of the untreated volume.
fn remedies(view: &View) -> Vec<Effect> {
    let mut effects = Vec::new();
    for one in remedy::all(view) {
        let medium = |trial: &Trial| {
            trial
                .factors
                .get(factor::MEDIUM)
                .map_or_else(String::new, |value| factor::value(factor::MEDIUM, value))
        };
        let is_its = |trial: &&Trial| trial.file_system == one.file_system && medium(trial) == one.medium;
        let Some(trial) = view.trials.iter().find(is_its) else { continue };
        effects.extend(one.measures.iter().filter_map(|measure| {
            let (larger_is_worse, against) = (measure.larger_is_worse?, measure.against_control?);
            let estimate = if larger_is_worse { against } else { inverse(&against) };
            let plain = new(trial, Cause::Remedy, &measure.measure, estimate);
            let corrected = plain.finding != Finding::NoEvidence && measure.finding == Finding::NoEvidence;
            Some(Effect { settings: one.method.clone(), finding: measure.finding, corrected, ..plain })
        }));
    }
    effects
}

fn new(trial: &Trial, cause: Cause, what: &str, estimate: Estimate) -> Effect {
    Effect {
        file_system: trial.file_system.clone(),
        device: device::words(trial),
        model: trial.medium.is_some(),
        settings: String::new(),
        cause,
        what: what.to_owned(),
        finding: finding(&estimate, Some(true)),
        corrected: false,
        estimate,
    }
}

/// Aged against unaged, headlines of measures.
fn candidates(view: &View) -> impl Iterator<Item = AgeCost> {
    let fair = |cost: &AgeCost| {
        cost.against == UNAGED && is_headline(&cost.metric) && cost.larger_is_worse.is_some()
    };
    age_cost::all(view).into_iter().filter(fair)
}

/// Comparisons of states whose sides did not do the same work.
pub fn unequal(view: &View) -> usize {
    candidates(view).filter(|cost| !cost.same_work).count()
}

/// Aged against unaged; what did not do the same work is no ratio.
fn ages(view: &View) -> Vec<Effect> {
    let effect = |cost: AgeCost| {
        let estimate = match cost.larger_is_worse {
            Some(false) => inverse(&cost.estimate),
            _ => cost.estimate,
        };
        let plain = new(view.trials.get(cost.trial)?, Cause::Ageing, &cost.measure, estimate);
        Some(Effect { settings: cost.settings, finding: cost.finding, corrected: cost.corrected, ..plain })
    };
    candidates(view).filter(|cost| cost.same_work).filter_map(effect).collect()
}

/// The same ratio with its sides exchanged.
fn inverse(estimate: &Estimate) -> Estimate {
    let turned = |interval: Interval| Interval { low: interval.high.recip(), high: interval.low.recip() };
    Estimate { value: estimate.value.recip(), interval: estimate.interval.map(turned), ..*estimate }
}

/// Headlines of volumes in lock-step.
fn costs(view: &View) -> impl Iterator<Item = lockstep::Cost> {
    lockstep::costs(view).into_iter().filter(|cost| is_headline(&cost.what))
}

/// Comparisons with a full volume that was not full.
pub fn not_full(view: &View) -> usize {
    costs(view).filter(|cost| cost.not_full).count()
}

/// Volumes in lock-step: headlines of measures, and writing; what a full volume that was not full is compared with is no answer.
fn volumes(view: &View) -> Vec<Effect> {
    let effect = |cost: lockstep::Cost| {
        let cause = match (cost.above.as_str(), cost.below.as_str()) {
            (EMPTY, UNAGED) => Cause::Use,
            (FULL, EMPTY) => Cause::Fullness,
            // The product of the other two.
            (FULL, UNAGED) => return None,
            _ => Cause::Volumes { above: cost.above, below: cost.below },
        };
        let plain = new(view.trials.get(cost.trial)?, cause, &cost.what, cost.estimate);
        Some(Effect { settings: cost.settings, ..plain })
    };
    costs(view).filter(|cost| !cost.not_full).filter_map(effect).collect()
}

/// How operations changed while volumes were aged, each file system, device and setting apart.
fn trends(view: &View) -> Vec<Effect> {
    let mut cells: BTreeMap<(usize, String, String, String), Vec<usize>> = BTreeMap::new();
    for (index, trial) in view.trials.iter().enumerate() {
        let place = view.file_systems.iter().position(|name| *name == trial.file_system).unwrap_or(0);
        let medium = BTreeSet::from([factor::FILE_SYSTEM, factor::MEDIUM]);
        let settings = factor::context(&trial.factors, &medium);
        cells
            .entry((place, trial.file_system.clone(), device::words(trial), settings))
            .or_default()
            .push(index);
    }
    let mut effects = Vec::new();
    for ((.., settings), trials) in cells {
        let chosen: Vec<&Evidence> = trials.iter().map(|index| &view.evidence[*index]).collect();
        let operations: BTreeSet<&String> = chosen.iter().flat_map(|trial| trial.trend.keys()).collect();
        for operation in operations {
            let Some(estimate) = trend(&chosen, operation, view.confidence) else { continue };
            let plain = new(&view.trials[trials[0]], Cause::Running, operation, estimate);
            effects.push(Effect { settings: settings.clone(), ..plain });
        }
    }
    correct(&mut effects);
    effects
}

/// Takes back findings that do not survive the number of comparisons made.
fn correct(effects: &mut [Effect]) {
    let p: Vec<f64> = effects.iter().map(|effect| effect.estimate.p.unwrap_or(1.0)).collect();
    for (effect, adjusted) in effects.iter_mut().zip(adjusted(&p)) {
        if adjusted > FALSE_DISCOVERIES && effect.finding != Finding::OneRun {
            effect.corrected = effect.finding != Finding::NoEvidence;
            effect.finding = Finding::NoEvidence;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::evidence::Basis;

    #[test]
    fn a_gain_that_fell_is_a_slowdown() {
        let throughput = Estimate {
            value: 0.25,
            interval: Some(Interval { low: 0.2, high: 0.5 }),
            n: 3,
            units: 3,
            contexts: 1,
            range: None,
            zeros: 0,
            p: Some(0.01),
            basis: Basis::Seeds,
            detectable: None,
            more: None,
        };
        let slowdown = inverse(&throughput);
        let interval = slowdown.interval.unwrap();
        assert!((slowdown.value, interval.low, interval.high) == (4.0, 2.0, 5.0));
        assert!((slowdown.p, slowdown.n) == (Some(0.01), 3));
    }
}
