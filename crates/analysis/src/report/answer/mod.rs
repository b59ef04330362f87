//! The answer of a study: what became slower, by how much, on which file system and device, in one sentence
//! each. `fsage run` ends with it and the page begins with it, in the same words.
//!
//! - A sentence has the worst measure of one file system on one device: of those that are significantly
//!   slower that with the largest lower end of its interval, so that a wide interval does not win by its
//!   middle.
//! - With fewer than three seeds ([`SEEDS`]) it begins with "In this run".
//! - A number of a device model names the model beside it.
//! - Manipulation checks are no findings: that an aged volume is fragmented says that ageing worked.
//!
//! Every number is of the one estimator ([`crate::stats::estimator`]); nothing is computed here but the
//! choice.

mod chart;
mod device;
mod effect;
mod search;
mod sentence;
mod survival;

use std::collections::BTreeMap;

use serde::Serialize;

pub use chart::Chart;
pub use device::words as device_words;
pub use search::{Confirmed, OptionGain, Tuned, signed};
pub use sentence::Sentence;
pub use survival::{OnDrive, Survived};

use super::control;
use super::text::{counted, percent};
use super::view::View;
use crate::stats::Judgement;
use crate::stats::evidence::{Basis, SEEDS};
use effect::Effect;

/// Lines that an answer has on a terminal at most.
pub const LINES: usize = 10;

/// What a study found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answer {
    /// One for each file system on each device, device by device.
    pub sentences: Vec<Sentence>,
    /// What survived power cuts: one for each configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub survival: Vec<Survived>,
    /// What searches for options found: one for each cell of the matrix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
    /// What the numbers of the sentences are; empty without any.
    pub method: String,
    /// How many published findings got which verdict, the clear ones first; empty without any.
    pub verdicts: Vec<VerdictCount>,
    /// What controls say of these numbers; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controls: Option<control::Summary>,
    /// Warnings of the complete trials by kind, by name.
    pub warnings: Vec<WarningCount>,
    /// Comparisons left out because their sides did not do the same work.
    pub unequal: usize,
    /// Complete trials.
    pub trials: usize,
    /// The same numbers for the chart.
    #[serde(skip)]
    pub chart: Chart,
}

/// How many findings got a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictCount {
    /// `holds`, `contradicted`, ….
    pub verdict: &'static str,
    /// Findings.
    pub count: usize,
}

/// How often a kind of warning was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningCount {
    /// Its name in records.
    pub kind: String,
    /// Warnings.
    pub warnings: usize,
    /// Trials that have one or more.
    pub trials: usize,
}

/// Verdicts in the order they are listed; others come last.
const VERDICTS: [&str; 5] =
    ["holds", "contradicted", "compatible with both", "in this run", "not comparable"];

impl Answer {
    /// As text, at most [`LINES`] lines: the sentences, what their numbers are, and the verdicts.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let verdicts = self.verdict_line();
        let controls = self.controls.as_ref().map(control::Summary::line);
        let rest = usize::from(!self.method.is_empty())
            + usize::from(verdicts.is_some())
            + usize::from(controls.is_some());
        let room = LINES - rest;
        let survived = self.survival.iter().map(Survived::text);
        let tuned = self.tuned.iter().map(Tuned::text);
        let gains = self.tuned.iter().map(Tuned::gains);
        let sentences = self.sentences.iter().map(Sentence::text);
        let mut lines: Vec<String> = tuned.chain(gains).chain(survived).chain(sentences).collect();
        if lines.len() > room {
            let more = lines.len() + 1 - room;
            lines.truncate(room - 1);
            lines.push(format!("{more} more in the report."));
        }
        lines.extend((!self.method.is_empty()).then(|| self.method.clone()));
        lines.extend(verdicts);
        lines.extend(controls);
        lines
    }

    /// `27 published findings: 3 hold, 1 contradicted, 23 not comparable.`; `None` without any.
    #[must_use]
    pub fn verdict_line(&self) -> Option<String> {
        let all: usize = self.verdicts.iter().map(|verdict| verdict.count).sum();
        let each: Vec<String> = self
            .verdicts
            .iter()
            .map(|verdict| match (verdict.verdict, verdict.count) {
                ("holds", count) if count != 1 => format!("{count} hold"),
                (words, count) => format!("{count} {words}"),
            })
            .collect();
        (all > 0).then(|| format!("{}: {}.", counted(all, "published finding"), each.join(", ")))
    }

    /// `Warnings: cpu-bound in 12 of 45 trials, …`; `None` without any.
    #[must_use]
    pub fn warning_line(&self) -> Option<String> {
        let mut kinds: Vec<&WarningCount> = self.warnings.iter().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.trials));
        let each: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| match index {
                0 => format!("{} in {} of {}", kind.kind, kind.trials, counted(self.trials, "trial")),
                _ => format!("{} in {}", kind.kind, kind.trials),
            })
            .collect();
        (!each.is_empty()).then(|| format!("Warnings: {}.", each.join(", ")))
    }
}

/// The answer of a view.
pub(super) fn of(view: &View, judgements: &[Judgement], controls: Option<control::Summary>) -> Answer {
    let effects = effect::all(view);
    let sentences = sentence::all(view, &effects);
    let mut method = if sentences.is_empty() { String::new() } else { method(view, &effects) };
    let (unequal, not_full) = (effect::unequal(view), effect::not_full(view));
    let reasons = [
        (unequal, "the sides did not do the same work"),
        (not_full, "the full volume was not full (`not-full`)"),
    ];
    for (count, why) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        let gap = if method.is_empty() { "" } else { " " };
        method.push_str(&format!("{gap}Left out, because {why}: {}.", counted(count, "comparison")));
    }
    let chart = Chart::new(view, &effects);
    Answer {
        sentences,
        survival: survival::all(view),
        tuned: super::search::all(view).iter().map(Tuned::new).collect(),
        method,
        verdicts: verdicts(judgements),
        controls,
        warnings: warnings(view),
        unequal,
        trials: view.trials.len(),
        chart,
    }
}

fn verdicts(judgements: &[Judgement]) -> Vec<VerdictCount> {
    let mut counts: Vec<VerdictCount> =
        VERDICTS.into_iter().map(|verdict| VerdictCount { verdict, count: 0 }).collect();
    for found in judgements {
        let verdict = found.verdict.words();
        match counts.iter_mut().find(|known| known.verdict == verdict) {
            Some(known) => known.count += 1,
            None => counts.push(VerdictCount { verdict, count: 1 }),
        }
    }
    counts.retain(|verdict| verdict.count > 0);
    counts
}

fn warnings(view: &View) -> Vec<WarningCount> {
    let mut kinds: BTreeMap<&str, WarningCount> = BTreeMap::new();
    for trial in &view.trials {
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        for warning in &trial.warnings {
            *own.entry(warning.kind.as_str()).or_default() += 1;
        }
        for (kind, warnings) in own {
            let new = || WarningCount { kind: kind.to_owned(), warnings: 0, trials: 0 };
            let all = kinds.entry(kind).or_insert_with(new);
            all.warnings += warnings;
            all.trials += 1;
        }
    }
    kinds.into_values().collect()
}

/// What "slower" compares, and where the intervals come from.
fn method(view: &View, effects: &[Effect]) -> String {
    let mut causes: Vec<&'static str> = Vec::new();
    for effect in effects.iter().filter(|effect| effect.is_answer()) {
        if !causes.contains(&effect.cause.explained()) {
            causes.push(effect.cause.explained());
        }
    }
    let causes: Vec<&str> = causes.into_iter().filter(|text| !text.is_empty()).collect();
    let intervals = intervals(effects, view.confidence);
    let causes = if causes.is_empty() { String::new() } else { format!("{}. ", causes.join("; ")) };
    format!("{causes}{intervals}")
}

/// Which intervals stand in brackets.
fn intervals(effects: &[Effect], confidence: f64) -> String {
    let confidence = percent(confidence);
    let of_seeds = effects.iter().filter(|effect| effect.estimate.basis == Basis::Seeds);
    let units: Vec<usize> = of_seeds.map(|effect| effect.estimate.units).collect();
    let (Some(fewest), Some(most)) = (units.iter().min(), units.iter().max()) else {
        return format!("One run of each: no interval; three repeats or more give one (`repeats`, {SEEDS}).");
    };
    let repeats = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
    format!("In brackets {confidence} intervals: Student's t on logs over {repeats} repeats.")
}

#[cfg(test)]
mod tests;
