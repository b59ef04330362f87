//! Controls: what the study's own numbers say where the answer is known ([`fsage_model::study::ControlsSpec`]).
//!
//! - The A/A pair: a state measured twice. Every number with a direction is compared as any two states are; a p below
//!   1 − confidence is a false alarm, before and after the correction for the number of comparisons (Benjamini &
//!   Hochberg 1995). One that is left after it fails the control. Where nothing differs that happens in one study of
//!   twenty by chance, at a confidence of 95 %. No difference found is no equality shown: each measure has to be equal
//!   within the study's margin, its whole interval between 1 ÷ (1 + margin) and 1 + margin (two one-sided tests,
//!   Schuirmann 1987, at half the usual error). One whose interval is wider tells nothing, and one beyond it fails. What surely
//!   differs by less than a thousandth does not differ.
//! - The known slowdown: the disk took so many times as long for each request of a measure. How much that added says the
//!   disk's own counter, which no measure has a part in (`real`); where it is not known, the factor that was asked
//!   for. Its interval has to meet the real one within `NEAR`, and the slowdown has to be found.
//! - Added requests: a small slowdown by requests beside the load's own, which the disk cannot tell from them. How long
//!   they took the measure's clock says (`extra_factor`). Its interval has to meet the real one within `CLOSE`.
//! - Either slowdown tells nothing where its interval has room for the real size and it is too noisy to be found: that measure
//!   is too noisy for such differences, which the intervals of claims say too.
//!
//! Where a control fails, no claim is judged. Fewer than three repeats ([`SEEDS`]) tell nothing, and neither does an A/A pair of
//! which no measure could be compared.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::measure::{EXTRA_FACTOR, MODEL_TIME, registry};
use fsage_model::study::{CONTROL, ControlsSpec};
use serde::Serialize;
use serde_json::Value;

use super::factor;
use super::text::{counted, percent, ratio as times};
use crate::stats::benjamini_hochberg::adjusted;
use crate::stats::evidence::{Basis, SEEDS, look_up, ratio};
use crate::stats::{ClaimVerdict, Estimate, Evidence, Interval, Judgement};

/// How far the measured size of the known slowdown may lie from the real one, as a ratio.
pub const NEAR: f64 = 1.1;
/// The same for added requests, which add less.
pub const CLOSE: f64 = 1.03;
/// Numbers of an A/A pair whose ratio surely lies within this and its inverse do not differ.
pub const NEGLIGIBLE: f64 = 1.001;
/// Added requests below this are none to be found.
const LEAST_EXTRA: f64 = 1.03;
/// A slowdown below this, because a measure hardly asked the disk for anything, is none to be found.
const LEAST: f64 = 1.05;
/// How far from 1 the ratio of identical values may lie by rounding.
const EXACT: f64 = 1e-9;
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
    /// Requests added to the load.
    Extra,
}

/// What a row of a control says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it has to be.
    Passes,
    /// It is not.
    Fails,
    /// Too few repeats, or too noisy.
    Untold,
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
    /// The margin within which a measure of an A/A pair has to be equal; `None` of other numbers and controls.
    pub margin: Option<f64>,
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

    /// The interval, or the value where there is none.
    fn reach(&self) -> Interval {
        let alone = Interval { low: self.estimate.value, high: self.estimate.value };
        self.estimate.interval.unwrap_or(alone)
    }

    /// Whether the measured slowdown is as large as the real one.
    pub fn is_sized(&self) -> bool {
        let near = if self.kind == Kind::Extra { CLOSE } else { NEAR };
        let reach = self.reach();
        reach.low <= self.real * near && reach.high >= self.real / near
    }

    /// How far apart the halves of an A/A pair can be at most by the interval, as a share (0.02 is 2 %).
    pub fn bound(&self) -> f64 {
        let reach = self.reach();
        reach.high.max(1.0 / reach.low) - 1.0
    }

    /// Whether a measure of an A/A pair was shown to be equal within its margin.
    pub fn is_equal(&self) -> bool {
        self.margin.is_some_and(|margin| self.bound() <= margin)
    }

    /// Whether both halves of every pair are the same to the last digit, which shows that the run repeats itself and
    /// nothing of noise.
    pub fn is_identical(&self) -> bool {
        self.kind == Kind::Same
            && self.estimate.basis == Basis::Equal
            && (self.estimate.value - 1.0).abs() < EXACT
    }

    /// What it says.
    pub fn outcome(&self) -> Outcome {
        if !self.is_told() {
            return Outcome::Untold;
        }
        let found = self.survives && self.estimate.value > 1.0;
        match self.kind {
            Kind::Same if self.survives || self.is_beyond() => Outcome::Fails,
            Kind::Same if self.margin.is_some() && !self.is_equal() => Outcome::Untold,
            Kind::Same => Outcome::Passes,
            Kind::Slow | Kind::Extra if !self.is_sized() => Outcome::Fails,
            Kind::Slow | Kind::Extra if found => Outcome::Passes,
            Kind::Slow | Kind::Extra => Outcome::Untold,
        }
    }

    /// Whether what differs in an A/A pair is less than anything that is said of ratios, whose three digits end at a thousandth. In
    /// model time the same requests take whole steps of the medium's time, of which one more or less in each of three repeats
    /// has no spread and seems proven.
    fn is_negligible(&self) -> bool {
        let Interval { low, high } = self.reach();
        self.kind == Kind::Same && high <= NEGLIGIBLE && low >= 1.0 / NEGLIGIBLE
    }

    /// Whether the whole interval of an A/A pair lies beyond the margin.
    fn is_beyond(&self) -> bool {
        let Interval { low, high } = self.reach();
        self.margin.is_some_and(|margin| low > 1.0 + margin || high < 1.0 / (1.0 + margin))
    }

    /// Whether it is as it has to be.
    pub fn passes(&self) -> bool {
        self.outcome() == Outcome::Passes
    }

    /// The outcome in words.
    pub fn words(&self) -> String {
        let within = || percent((self.bound() * 1000.0).ceil() / 1000.0);
        let words = match (self.kind, self.outcome()) {
            _ if !self.is_told() => "too few repeats",
            (Kind::Same, Outcome::Fails) => "false alarm",
            (Kind::Same, _) if self.is_identical() => "identical in every repeat",
            (Kind::Same, Outcome::Untold) => {
                return format!("not shown to be equal: within {} at best", within());
            }
            (Kind::Same, _) if self.is_equal() => return format!("equal within {}", within()),
            (Kind::Same, _) if self.differs => "false alarm, not after correction",
            (Kind::Same, _) => "no difference",
            (_, Outcome::Passes) => "found",
            (_, Outcome::Untold) => "too noisy to be found",
            (_, Outcome::Fails) if self.survives && self.estimate.value > 1.0 => "found, with the wrong size",
            (_, Outcome::Fails) => "not found",
        };
        words.to_owned()
    }
}

/// A known slowdown, counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Found {
    /// Measures that it was measured by.
    pub measures: usize,
    /// Of these, in how many it was found.
    pub found: usize,
    /// Of these, in how many it has the real size.
    pub sized: usize,
    /// The smallest and the largest measured slowdown.
    pub measured: Option<(f64, f64)>,
    /// The smallest and the largest real one.
    pub real: Option<(f64, f64)>,
}

/// What became of the controls, counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// `passed`, `failed` or `inconclusive`.
    pub verdict: &'static str,
    /// Numbers that an A/A pair was compared by.
    pub same: usize,
    /// Of these, how many differ before correction.
    pub alarms: usize,
    /// Of these, how many differ after it.
    pub alarms_corrected: usize,
    /// The margin within which measures of an A/A pair have to be equal.
    pub margin: Option<f64>,
    /// Measures that an A/A pair was compared by.
    pub measures: usize,
    /// Of these, how many were shown to be equal within the margin.
    pub equal: usize,
    /// Of these, how many were the same to the last digit, which shows that the run repeats itself and nothing of noise.
    pub identical: usize,
    /// The known slowdown that the disk made.
    pub slow: Found,
    /// The known slowdown by added requests.
    pub extra: Found,
}

/// The rows of all controls, the A/A pairs first.
pub fn rows(controls: &[Evidence], trials: &[Evidence], confidence: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, name) in [(Kind::Same, "same"), (Kind::Slow, "slow"), (Kind::Extra, "extra")] {
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

/// Whether a control is of this trial: the same cell and repeat, on the same host where that matters.
fn is_of(control: &Evidence, trial: &Evidence) -> bool {
    let own = control.factors.iter().filter(|(path, _)| *path != CONTROL);
    control.repeat == trial.repeat && own.eq(trial.factors.iter()) && !control.is_of_other_host(trial)
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
    let measure = is_measure(metric) && series.unit != "ratio";
    if kind != Kind::Same && !measure {
        return None;
    }
    let turned: Vec<(&Evidence, &Evidence)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    let pairs_of = if kind != Kind::Same && !worse { &turned } else { pairs };
    let estimate = ratio(pairs_of, metric, confidence)?;
    let (real, least) = match kind {
        Kind::Same => (1.0, 1.0),
        Kind::Slow => (real(metric, pairs)?, LEAST),
        Kind::Extra => (added(metric, pairs)?, LEAST_EXTRA),
    };
    let margin = (kind == Kind::Same && measure).then(|| margin(pairs));
    let row = Row {
        kind,
        metric: metric.to_owned(),
        context: context.to_owned(),
        estimate,
        real,
        margin,
        differs: false,
        survives: false,
    };
    (real >= least).then_some(row)
}

/// The study's margin of equality.
fn margin(pairs: &[(&Evidence, &Evidence)]) -> f64 {
    let of = |trial: &Evidence| look_up(&trial.spec, "controls.margin").and_then(Value::as_f64);
    pairs.iter().find_map(|(trial, _)| of(trial)).unwrap_or_else(|| ControlsSpec::default().margin)
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
    over(pairs, |trial| counted(trial).or_else(|| asked(trial)))
}

/// How many times as long the measure took for the requests that were added, by its own clock.
fn added(metric: &str, pairs: &[(&Evidence, &Evidence)]) -> Option<f64> {
    over(pairs, |trial| trial.mean(&format!("{metric}.{EXTRA_FACTOR}")))
}

/// The geometric mean over the trials of controls, where each has it.
fn over(pairs: &[(&Evidence, &Evidence)], of: impl Fn(&Evidence) -> Option<f64>) -> Option<f64> {
    let logs: Option<Vec<f64>> = pairs.iter().map(|(trial, _)| of(trial).map(f64::ln)).collect();
    crate::stats::quantile::mean(&logs?).map(f64::exp)
}

/// Says of each row whether it differs, alone and among all of its kind.
fn correct(rows: &mut [Row], confidence: f64) {
    let p: Vec<f64> = rows.iter().map(|row| row.estimate.p.unwrap_or(f64::NAN)).collect();
    for (row, (own, adjusted)) in rows.iter_mut().zip(p.iter().zip(adjusted(&p))) {
        row.differs = row.is_told() && *own <= 1.0 - confidence && !row.is_negligible();
        row.survives = row.differs && adjusted <= FALSE_DISCOVERIES;
        // A slowdown that is the same to the last digit in every repeat needs no test, and three cannot pass one.
        let exact = row.estimate.basis == Basis::Equal && row.estimate.value >= LEAST_EXTRA;
        if row.kind != Kind::Same && row.is_told() && exact {
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
    let measures = || of(Kind::Same).filter(|row| row.margin.is_some());
    let outcomes = || rows.iter().map(Row::outcome);
    // Counts that agree say nothing of the times that the answer is about.
    let is_without_measure = of(Kind::Same).next().is_some() && measures().next().is_none();
    let verdict = if outcomes().any(|outcome| outcome == Outcome::Fails) {
        "failed"
    } else if is_without_measure {
        "inconclusive"
    } else if rows.iter().any(Row::is_told) && !rows.iter().any(|row| row.is_told() && !row.passes()) {
        "passed"
    } else {
        "inconclusive"
    };
    Some(Summary {
        verdict,
        same: of(Kind::Same).count(),
        alarms: of(Kind::Same).filter(|row| row.differs).count(),
        alarms_corrected: of(Kind::Same).filter(|row| row.survives).count(),
        margin: measures().find_map(|row| row.margin),
        measures: measures().count(),
        equal: measures().filter(|row| row.is_equal()).count(),
        identical: measures().filter(|row| row.is_identical()).count(),
        slow: found(&of(Kind::Slow).collect::<Vec<_>>()),
        extra: found(&of(Kind::Extra).collect::<Vec<_>>()),
    })
}

/// Counts the rows of a known slowdown.
fn found(rows: &[&Row]) -> Found {
    let ends = |pick: fn(&Row) -> f64| {
        let values = || rows.iter().map(|row| pick(row));
        Some((values().reduce(f64::min)?, values().reduce(f64::max)?))
    };
    let found = || rows.iter().filter(|row| row.survives && row.estimate.value > 1.0);
    Found {
        measures: rows.len(),
        found: found().count(),
        sized: found().filter(|row| row.is_sized()).count(),
        measured: ends(|row| row.estimate.value),
        real: ends(|row| row.real),
    }
}

impl Found {
    /// In a sentence's part; nothing where it was not measured.
    fn words(&self, what: &str) -> Option<String> {
        let range = |ends: Option<(f64, f64)>| match ends.map(|(low, high)| (times(low), times(high))) {
            Some((low, high)) if low == high => low,
            Some((low, high)) => format!("{low} to {high}"),
            None => "nothing".to_owned(),
        };
        let size = match self.found - self.sized {
            0 => String::new(),
            wrong => format!(", with the wrong size in {wrong}"),
        };
        (self.measures > 0).then(|| {
            format!(
                "{what} of {} was found in {} of {} and measured as {}{size}",
                range(self.real),
                self.found,
                counted(self.measures, "measure"),
                range(self.measured)
            )
        })
    }
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
            _ if self.same + self.slow.measures + self.extra.measures == 0 => {
                return format!("Controls inconclusive: they take {SEEDS} repeats (`repeats`).");
            }
            _ => "Controls inconclusive",
        };
        let mut parts = Vec::new();
        if self.same > 0 {
            parts.push(format!(
                "of {} of one state measured twice {} before correction and {} after{}",
                counted(self.same, "number"),
                if self.alarms == 1 { "1 differs".to_owned() } else { format!("{} differ", self.alarms) },
                self.alarms_corrected,
                self.equality().unwrap_or_else(|| ", and none of them is a measure's".to_owned())
            ));
        }
        parts.extend(self.slow.words("the known slowdown"));
        parts.extend(self.extra.words("the slowdown by added requests"));
        format!("{head}: {}.", parts.join("; "))
    }

    /// How many measures were shown to be equal, and how many of them only repeat themselves.
    fn equality(&self) -> Option<String> {
        let margin = percent(self.margin.filter(|_| self.measures > 0)?);
        let identical = match self.identical {
            0 => String::new(),
            all if all == self.measures => " (to the last digit: the run is repeatable)".to_owned(),
            some => format!(" ({some} to the last digit)"),
        };
        Some(format!(
            ", {} of {} equal within {margin}{identical}",
            self.equal,
            counted(self.measures, "measure")
        ))
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
