//! What the tables of the report say, as data: verdicts of claims with what they rest on, differences, ratios between
//! volumes in lock-step, remedies and controls. `fsage report --json` prints it, and `scripts/recompute.py` computes it
//! again from the exported samples.

use fsage_model::fio::FioPoint;
use fsage_model::reading::Records;
use fsage_model::study::ClaimSpec;
use serde::Serialize;
use serde_json::Value;

use super::answer::Tuned;
use super::control::{self, Kind};
use super::view::{self, View};
use super::{ReportError, ReportOptions, difference, lockstep, remedy, scaling, search};
use crate::stats::scaling::usl::{Coefficient, Law, Value as Fitted};
use crate::stats::{ClaimVerdict, Estimate, Interval, Judgement};

/// Version of [`Findings`]. 1: first; 2: controls that are `inconclusive` are called so.
pub const FINDINGS_VERSION: u32 = 2;

/// What the tables of a report say.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// [`FINDINGS_VERSION`].
    pub version: u32,
    /// Confidence of all intervals.
    pub confidence: f64,
    /// What controls came to; absent without any.
    pub controls: Option<control::Summary>,
    /// Each number of each control.
    pub control_rows: Vec<Controlled>,
    /// One for each claim of the study, in its order.
    pub claims: Vec<Judged>,
    /// Each comparison of the table of differences.
    pub differences: Vec<Differed>,
    /// Comparisons that the table left out, because a page holds only so many.
    pub differences_left_out: usize,
    /// Each ratio between volumes of `lockstep` stages.
    pub lockstep: Vec<Between>,
    /// Each measure of each remedy.
    pub remedies: Vec<Remedied>,
    /// What searches for options found; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<Tuned>,
    /// How the rates of fio's points depend on load; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaled>,
}

/// An estimate, unrounded.
#[derive(Debug, Clone, Serialize)]
pub struct Number {
    /// The value: a ratio, or a level in its unit.
    pub value: f64,
    /// Lower end of the interval, where there is one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Two-sided p, of ratios over several seeds.
    pub p: Option<f64>,
    /// Trials or pairs behind it.
    pub n: usize,
    /// Repeats in the context that has the fewest.
    pub units: usize,
    /// Trials or pairs of 0, left out.
    pub zeros: usize,
}

/// A claim with its verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// As the study has it.
    pub claim: ClaimSpec,
    /// `holds`, `contradicted`, ….
    pub verdict: &'static str,
    /// Why it is no more than that.
    pub reason: Option<String>,
    /// Why the verdict is fragile; absent where it is not.
    pub fragile: Option<String>,
    /// What was measured, of a claim with one part.
    pub measured: Option<Number>,
    /// Its parts, of a claim with several.
    pub parts: Vec<JudgedPart>,
}

/// A part of a claim: a clause, a value of a factor, a file system or medium.
#[derive(Debug, Clone, Serialize)]
pub struct JudgedPart {
    /// Which, in words or as the factor's value.
    pub value: Value,
    /// Its verdict.
    pub verdict: &'static str,
    /// Why it is no more than that.
    pub reason: Option<String>,
    /// What was measured.
    pub measured: Option<Number>,
}

/// A row of the table of differences.
#[derive(Debug, Clone, Serialize)]
pub struct Differed {
    /// Metric name.
    pub metric: String,
    /// Dotted path of the factor.
    pub factor: String,
    /// Which value ÷ which, in words.
    pub sides: String,
    /// What was held equal, in words.
    pub context: String,
    /// The ratio.
    pub measured: Number,
    /// Whether it survives the correction for the number of comparisons.
    pub survives: bool,
}

/// A ratio between two volumes.
#[derive(Debug, Clone, Serialize)]
pub struct Between {
    /// File system.
    pub file_system: String,
    /// Every other factor, in words.
    pub context: String,
    /// Metric name.
    pub metric: String,
    /// The ratio.
    pub measured: Number,
}

/// A measure of a remedy.
#[derive(Debug, Clone, Serialize)]
pub struct Remedied {
    /// File system, medium and other factors, in words.
    pub place: String,
    /// The method.
    pub method: String,
    /// The measure.
    pub measure: String,
    /// After ÷ before.
    pub gain: Option<Number>,
    /// ÷ the control.
    pub against_control: Option<Number>,
    /// ÷ the copy.
    pub against_copy: Option<Number>,
    /// After further use ÷ the control.
    pub later: Option<Number>,
}

/// How a rate depends on load.
#[derive(Debug, Clone, Serialize)]
pub struct Scaled {
    /// File system.
    pub file_system: String,
    /// Every other factor, in words.
    pub context: String,
    /// How the names of its metrics begin: with the name of its stage, if it is not the first.
    pub prefix: String,
    /// The point at the smallest load.
    pub point: FioPoint,
    /// What differs along the curve: `depth`, `jobs`, `files` or `block size`.
    pub over: &'static str,
    /// Its values, in rising order; bytes of block sizes.
    pub loads: Vec<u64>,
    /// Repeats that have a rate at each of them.
    pub repeats: usize,
    /// The smallest load whose rate is within 5 % of the largest; the largest load where no other is.
    pub saturated_at: u64,
    /// The smallest and the largest load that it may be, with several repeats.
    pub saturated_range: Option<(u64, u64)>,
    /// The Universal Scalability Law; absent where there is none.
    pub law: Option<FittedLaw>,
    /// Why there is none.
    pub no_law: Option<String>,
}

/// A Universal Scalability Law, its coefficients as they were fitted, without bounds.
#[derive(Debug, Clone, Serialize)]
pub struct FittedLaw {
    /// Rate at load 1 in operations per second.
    pub lambda: Ranged,
    /// Contention.
    pub sigma: Ranged,
    /// Coherency.
    pub kappa: Ranged,
    /// Load of the largest rate, where kappa's interval is above 0 and the measured rate rises to it and falls beyond it.
    pub peak: Option<Ranged>,
    /// Largest deviation of the rates from the law, as a share of it.
    pub deviation: f64,
    /// p of the test of lack of fit.
    pub lack_of_fit_p: Option<f64>,
}

/// A fitted number.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ranged {
    /// The value.
    pub value: f64,
    /// Lower end of the interval over repeats, where there is one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The bound that the value lies beyond within noise: the coefficient is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
}

/// A number of a control.
#[derive(Debug, Clone, Serialize)]
pub struct Controlled {
    /// Which control.
    pub kind: Kind,
    /// Metric name.
    pub metric: String,
    /// The cell, in words.
    pub context: String,
    /// Control ÷ cell.
    pub measured: Number,
    /// The real slowdown; 1 of an A/A pair.
    pub real: f64,
    /// The outcome in words.
    pub outcome: String,
}

/// What the tables of the report of these records say.
///
/// # Errors
/// When the records cannot be read; never because of what is in a trial.
pub fn findings(records: &dyn Records, options: &ReportOptions) -> Result<Findings, ReportError> {
    Ok(of(&view::load(records, options)?))
}

fn of(view: &View) -> Findings {
    let rows = control::rows(&view.controls, &view.evidence, view.confidence);
    let controls = control::summary(&rows);
    let judgements = super::judgements(view, controls.as_ref());
    let claims = view.study.spec.as_ref().map_or(&[][..], |spec| &spec.claim);
    let differences = difference::all(view);
    Findings {
        version: FINDINGS_VERSION,
        confidence: view.confidence,
        control_rows: rows.into_iter().map(controlled).collect(),
        controls,
        claims: claims.iter().zip(judgements).map(|(claim, found)| judged(claim, found)).collect(),
        differences_left_out: differences.left_out,
        differences: differences.made.into_iter().map(differed).collect(),
        lockstep: lockstep::costs(view).into_iter().map(between).collect(),
        remedies: remedy::all(view).iter().flat_map(remedied).collect(),
        searches: search::all(view).iter().map(Tuned::new).collect(),
        scaling: scaling::all(view).into_iter().map(|one| scaled(view, one)).collect(),
    }
}

fn scaled(view: &View, one: scaling::Scaled) -> Scaled {
    Scaled {
        file_system: view.file_systems.get(one.file_system).cloned().unwrap_or_default(),
        context: one.context,
        prefix: one.prefix,
        over: one.over.name(),
        point: one.point,
        loads: one.loads,
        repeats: one.repeats,
        saturated_at: one.saturation.load,
        saturated_range: one.saturation.range,
        no_law: one.law.as_ref().err().map(ToString::to_string),
        law: one.law.ok().map(fitted),
    }
}

fn fitted(law: Law) -> FittedLaw {
    let ranged = |value: f64, interval: Option<Interval>, bound: Option<f64>| Ranged {
        value,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        bound,
    };
    let plain = |of: Fitted| ranged(of.value, of.interval, None);
    let coefficient = |of: Coefficient| ranged(of.value, of.interval, of.bound);
    FittedLaw {
        lambda: plain(law.lambda),
        sigma: coefficient(law.sigma),
        kappa: coefficient(law.kappa),
        peak: law.peak.map(plain),
        deviation: law.deviation,
        lack_of_fit_p: law.p,
    }
}

impl From<&Estimate> for Number {
    fn from(estimate: &Estimate) -> Self {
        Self {
            value: estimate.value,
            low: estimate.interval.map(|interval| interval.low),
            high: estimate.interval.map(|interval| interval.high),
            p: estimate.p,
            n: estimate.n,
            units: estimate.units,
            zeros: estimate.zeros,
        }
    }
}

fn number(estimate: Option<&Estimate>) -> Option<Number> {
    estimate.map(Number::from)
}

fn controlled(row: control::Row) -> Controlled {
    Controlled {
        kind: row.kind,
        measured: Number::from(&row.estimate),
        real: row.real,
        outcome: row.words(),
        metric: row.metric,
        context: row.context,
    }
}

fn judged(claim: &ClaimSpec, found: Judgement) -> Judged {
    let reason = |verdict: &ClaimVerdict| verdict.reason().map(str::to_owned);
    let parts = found.each.iter().map(|part| JudgedPart {
        value: part.value.clone(),
        verdict: part.verdict.words(),
        reason: reason(&part.verdict),
        measured: number(part.measured.as_ref()),
    });
    Judged {
        claim: claim.clone(),
        verdict: found.verdict.words(),
        reason: reason(&found.verdict),
        measured: number(found.measured.as_ref()),
        parts: parts.collect(),
        fragile: found.fragile,
    }
}

fn differed(row: difference::Difference) -> Differed {
    Differed {
        measured: Number::from(&row.estimate),
        survives: row.survives,
        metric: row.metric,
        factor: row.factor,
        sides: row.sides,
        context: row.context,
    }
}

fn between(cost: lockstep::Cost) -> Between {
    Between {
        measured: Number::from(&cost.estimate),
        metric: fsage_model::metric::over(&cost.above, &cost.below, &cost.what),
        file_system: cost.file_system,
        context: cost.context,
    }
}

fn remedied(one: &remedy::Remedied) -> Vec<Remedied> {
    let of = |measure: &remedy::Helped| Remedied {
        place: one.place.clone(),
        method: one.method.clone(),
        measure: measure.measure.clone(),
        gain: number(measure.gain.as_ref()),
        against_control: number(measure.against_control.as_ref()),
        against_copy: number(measure.against_copy.as_ref()),
        later: number(measure.later.as_ref()),
    };
    one.measures.iter().map(of).collect()
}
