//! Controls: what the study's own numbers say where the answer is known ([`fsage_model::study::ControlsSpec`]).
//!
//! - The A/A pair: a state measured twice. Every number with a direction is compared as any two states are; a p below
//!   1 − confidence is a false alarm, before and after the correction for the number of comparisons (Benjamini &
//!   Hochberg 1995). One that is left after it fails the control. Where nothing differs that happens in one study of
//!   twenty by chance, at a confidence of 95 %.
//! - The known slowdown: the disk took so many times as long for each request of a measure. How much that added says the
//!   disk's own counter, which no measure has a part in (`real`); where it is not known, the factor that was asked
//!   for. The slowdown has to be found, and its interval has to meet the real one within `NEAR`.
//!
//! Where a control fails, no claim is judged. Fewer than three repeats ([`SEEDS`]) tell nothing.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::measure::{MODEL_TIME, registry};
use fsage_model::study::CONTROL;
use serde::Serialize;
use serde_json::Value;

use super::factor;
use super::text::{counted, ratio as times};
use crate::stats::benjamini_hochberg::adjusted;
use crate::stats::evidence::{Basis, SEEDS, look_up, ratio};
use crate::stats::{ClaimVerdict, Estimate, Evidence, Judgement};

/// How far the measured size of the known slowdown may lie from the real one, as a ratio.
pub const NEAR: f64 = 1.1;
/// A slowdown below this, because a measure hardly asked the disk for anything, is none to be found.
const LEAST: f64 = 1.05;
/// Share of findings that may be false.
const FALSE_DISCOVERIES: f64 = 0.05;
/// The disk's counter of the time that its faults added.
const ADDED: &str = "disk_fault_slow_ns";

/// Which control a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The A/A pair.
    Same,
    /// The known slowdown.
    Slow,
}

/// One number of a control against the cell that it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Of which control.
    pub kind: Kind,
    /// Metric name.
    pub metric: String,
    /// Every factor of the cell, in words.
    pub context: String,
    /// Control ÷ cell; of a known slowdown turned so that above 1 is slower.
    pub estimate: Estimate,
    /// The slowdown that the disk added; 1 of an A/A pair.
    pub real: f64,
    /// Whether it differs by its own p.
    pub differs: bool,
    /// Whether it still does when so many are compared.
    pub survives: bool,
}

impl Row {
    /// Whether there are enough repeats to tell.
    pub fn is_told(&self) -> bool {
        self.estimate.units >= SEEDS && self.estimate.p.is_some()
    }

    /// Whether the measured slowdown is as large as the real one.
    pub fn is_sized(&self) -> bool {
        let alone = crate::stats::Interval { low: self.estimate.value, high: self.estimate.value };
        let interval = self.estimate.interval.unwrap_or(alone);
        interval.low <= self.real * NEAR && interval.high >= self.real / NEAR
    }

    /// Whether it is as it has to be.
    pub fn passes(&self) -> bool {
        match self.kind {
            Kind::Same => !self.survives,
            Kind::Slow => self.survives && self.estimate.value > 1.0 && self.is_sized(),
        }
    }

    /// The outcome in words.
    pub fn words(&self) -> &'static str {
        match (self.kind, self.differs, self.survives) {
            _ if !self.is_told() => "too few repeats",
            (Kind::Same, false, _) => "no difference",
            (Kind::Same, true, false) => "false alarm, not after correction",
            (Kind::Same, true, true) => "false alarm",
            (Kind::Slow, ..) if self.passes() => "found",
            (Kind::Slow, _, true) if self.estimate.value > 1.0 => "found, with the wrong size",
            (Kind::Slow, ..) => "not found",
        }
    }
}

/// What became of the controls, counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// `passed`, `failed` or `cannot tell`.
    pub verdict: &'static str,
    /// Numbers that an A/A pair was compared by.
    pub same: usize,
    /// Of these, how many differ before correction.
    pub alarms: usize,
    /// Of these, how many differ after it.
    pub alarms_corrected: usize,
    /// Measures that the known slowdown was measured by.
    pub slow: usize,
    /// Of these, in how many it was found.
    pub found: usize,
    /// Of these, in how many it has the real size.
    pub sized: usize,
    /// The smallest and the largest measured slowdown.
    pub measured: Option<(f64, f64)>,
    /// The smallest and the largest real one.
    pub real: Option<(f64, f64)>,
}

/// The rows of all controls, the A/A pairs first.
pub fn rows(controls: &[Evidence], trials: &[Evidence], confidence: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, name) in [(Kind::Same, "same"), (Kind::Slow, "slow")] {
        let of_kind = controls.iter().filter(|trial| trial.factors.get(CONTROL) == Some(&Value::from(name)));
        let mut contexts: BTreeMap<String, Vec<(&Evidence, &Evidence)>> = BTreeMap::new();
        for control in of_kind {
            let Some(partner) = trials.iter().find(|trial| is_of(control, trial)) else { continue };
            let context = factor::context(&control.factors, &BTreeSet::from([CONTROL]));
            contexts.entry(context).or_default().push((control, partner));
        }
        let mut own: Vec<Row> = Vec::new();
        for (context, pairs) in &contexts {
            let names: BTreeSet<&String> = pairs.iter().flat_map(|(trial, _)| trial.metrics.keys()).collect();
            own.extend(names.into_iter().filter_map(|metric| row(kind, metric, context, pairs, confidence)));
        }
        correct(&mut own, confidence);
        rows.extend(own);
    }
    rows
}

/// Whether a control is of this trial: the same cell and repeat.
fn is_of(control: &Evidence, trial: &Evidence) -> bool {
    let own = control.factors.iter().filter(|(path, _)| *path != CONTROL);
    control.repeat == trial.repeat && own.eq(trial.factors.iter())
}

fn row(
    kind: Kind,
    metric: &str,
    context: &str,
    pairs: &[(&Evidence, &Evidence)],
    confidence: f64,
) -> Option<Row> {
    let series = pairs.iter().find_map(|(trial, _)| trial.metrics.get(metric))?;
    let worse = series.larger_is_worse?;
    if kind == Kind::Slow && (!is_measure(metric) || series.unit == "ratio") {
        return None;
    }
    let turned: Vec<(&Evidence, &Evidence)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    let pairs_of = if kind == Kind::Slow && !worse { &turned } else { pairs };
    let estimate = ratio(pairs_of, metric, confidence)?;
    let real = match kind {
        Kind::Same => 1.0,
        Kind::Slow => real(metric, pairs)?,
    };
    let row = |real| Row {
        kind,
        metric: metric.to_owned(),
        context: context.to_owned(),
        estimate,
        real,
        differs: false,
        survives: false,
    };
    (kind == Kind::Same || real >= LEAST).then(|| row(real))
}

/// Whether it is the headline of a measure, of whichever stage or volume.
fn is_measure(metric: &str) -> bool {
    let last = metric.rsplit('.').next().unwrap_or(metric);
    registry().iter().any(|line| line.name == last)
}

/// How many times as long the measure took as without what the disk's faults added, by the disk's counters: the geometric
/// mean over the trials. The factor that was asked for where the counters are not known.
fn real(metric: &str, pairs: &[(&Evidence, &Evidence)]) -> Option<f64> {
    let counted = |trial: &Evidence| {
        let whole = trial.mean(&format!("{metric}.{MODEL_TIME}"))?;
        let added = trial.mean(&format!("{metric}.{ADDED}")).unwrap_or(0.0);
        (whole > 0.0 && added < whole).then(|| whole / (whole - added))
    };
    let asked = |trial: &Evidence| look_up(&trial.spec, "control.factor").and_then(Value::as_f64);
    let logs: Option<Vec<f64>> =
        pairs.iter().map(|(trial, _)| counted(trial).or_else(|| asked(trial)).map(f64::ln)).collect();
    crate::stats::quantile::mean(&logs?).map(f64::exp)
}

/// Says of each row whether it differs, alone and among all of its kind.
fn correct(rows: &mut [Row], confidence: f64) {
    let p: Vec<f64> = rows.iter().map(|row| row.estimate.p.unwrap_or(f64::NAN)).collect();
    for (row, (own, adjusted)) in rows.iter_mut().zip(p.iter().zip(adjusted(&p))) {
        row.differs = row.is_told() && *own <= 1.0 - confidence;
        row.survives = row.differs && adjusted <= FALSE_DISCOVERIES;
        // A slowdown that is the same to the last digit in every repeat needs no test, and three cannot pass one.
        let exact = row.estimate.basis == Basis::Equal && row.estimate.value >= LEAST;
        if row.kind == Kind::Slow && row.is_told() && exact {
            (row.differs, row.survives) = (true, true);
        }
    }
}

/// What became of these; `None` without any.
pub fn summary(rows: &[Row]) -> Option<Summary> {
    if rows.is_empty() {
        return None;
    }
    let of = |kind: Kind| rows.iter().filter(move |row| row.kind == kind && row.is_told());
    let ends = |values: Vec<f64>| {
        let low = values.iter().copied().reduce(f64::min)?;
        Some((low, values.iter().copied().reduce(f64::max)?))
    };
    let verdict = match (rows.iter().any(Row::is_told), rows.iter().all(|row| !row.is_told() || row.passes()))
    {
        (false, _) => "cannot tell",
        (true, true) => "passed",
        (true, false) => "failed",
    };
    let found = |row: &&Row| row.survives && row.estimate.value > 1.0;
    Some(Summary {
        verdict,
        same: of(Kind::Same).count(),
        alarms: of(Kind::Same).filter(|row| row.differs).count(),
        alarms_corrected: of(Kind::Same).filter(|row| row.survives).count(),
        slow: of(Kind::Slow).count(),
        found: of(Kind::Slow).filter(found).count(),
        sized: of(Kind::Slow).filter(found).filter(|row| row.is_sized()).count(),
        measured: ends(of(Kind::Slow).map(|row| row.estimate.value).collect()),
        real: ends(of(Kind::Slow).map(|row| row.real).collect()),
    })
}

impl Summary {
    /// Whether claims may not be judged.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.verdict == "failed"
    }

    /// One line.
    #[must_use]
    pub fn line(&self) -> String {
        let head = match self.verdict {
            "failed" => "Controls failed",
            "passed" => "Controls passed",
            _ => return format!("Controls cannot tell: they take {SEEDS} repeats (`repeats`)."),
        };
        let mut parts = Vec::new();
        if self.same > 0 {
            parts.push(format!(
                "of {} of one state measured twice {} before correction and {} after",
                counted(self.same, "number"),
                if self.alarms == 1 { "1 differs".to_owned() } else { format!("{} differ", self.alarms) },
                self.alarms_corrected
            ));
        }
        if self.slow > 0 {
            let range = |ends: Option<(f64, f64)>| match ends.map(|(low, high)| (times(low), times(high))) {
                Some((low, high)) if low == high => low,
                Some((low, high)) => format!("{low} to {high}"),
                None => "nothing".to_owned(),
            };
            parts.push(format!(
                "the known slowdown of {} was found in {} of {} and measured as {}",
                range(self.real),
                self.found,
                counted(self.slow, "measure"),
                range(self.measured)
            ));
            if self.sized < self.found {
                parts.push(format!("with the wrong size in {}", self.found - self.sized));
            }
        }
        format!("{head}: {}.", parts.join("; "))
    }
}

/// Takes back what claims were judged to be, where controls failed.
pub fn bind(judgements: &mut [Judgement], summary: Option<&Summary>) {
    let Some(summary) = summary.filter(|summary| summary.is_failed()) else { return };
    let reason = format!("controls failed: {}", summary.line().trim_start_matches("Controls failed: "));
    for judgement in judgements {
        let verdicts = judgement.each.iter_mut().map(|part| &mut part.verdict);
        for verdict in std::iter::once(&mut judgement.verdict).chain(verdicts) {
            if !matches!(verdict, ClaimVerdict::NotComparable { .. }) {
                *verdict = ClaimVerdict::NotComparable { reason: reason.clone() };
            }
        }
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
