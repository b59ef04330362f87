//! Judging a study's claims.
//!
//! A claim holds or is contradicted only when the whole interval lies on one side of its bound, and only with
//! three seeds or more ([`SEEDS`]); with fewer, what was measured is true of this run. An interval on both
//! sides is compatible with both. File systems and media are never taken together: each is judged, and a
//! claim that spans several holds if it holds for each of them. Every clause of a sentence is a test of its own,
//! and the sentence holds if all of them do.
//!
//! Claims about counts (`count`) are decided by one that was seen, and by none are not.
//!
//! Where a condition under which the sentence was published is not met (`given`), where a warning makes a number
//! unfit ([`super::doubt`]) or the sides did different work ([`super::work`]), there is no verdict.

mod count;
mod foresee;
mod fragile;
mod given;

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::study::{ClaimCheck, ClaimSpec};
use fsage_model::{metric, number};
use serde_json::Value;

use super::evidence::{Basis, Estimate, Evidence, SEEDS, level, place, ratio, same, trend, zeros};
use super::interval::Interval;
use super::quantile;
use super::shared::same_run;
use super::{doubt, work};

pub use foresee::{foresee, planned};
pub use fragile::{Varied, by_media};

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The whole interval lies where the claim says.
    Holds,
    /// The whole interval lies elsewhere.
    Contradicted,
    /// The interval lies on both sides of a bound.
    Compatible {
        /// Why it is no more, in a sentence.
        reason: String,
    },
    /// Too few seeds for more than what was seen in this run.
    InThisRun {
        /// What was seen, in a sentence.
        reason: String,
    },
    /// Of counts: none was seen, which proves nothing.
    NotSeen {
        /// Where, and how often it may be there all the same, in a sentence.
        reason: String,
    },
    /// Nothing to judge by: a condition of the claim is not met.
    NotComparable {
        /// Why, in a sentence.
        reason: String,
    },
}

impl ClaimVerdict {
    /// The verdict in a word or three.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Contradicted => "contradicted",
            Self::Compatible { .. } => "compatible with both",
            Self::InThisRun { .. } => "in this run",
            Self::NotSeen { .. } => "not seen",
            Self::NotComparable { .. } => "not comparable",
        }
    }

    /// Why it is not more than it is.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Compatible { reason }
            | Self::InThisRun { reason }
            | Self::NotSeen { reason }
            | Self::NotComparable { reason } => Some(reason),
            Self::Holds | Self::Contradicted => None,
        }
    }
}

/// A claim with what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// What was measured, where anything was.
    pub measured: Option<Estimate>,
    /// What `measured` is, in words: `latency.create.mean_ns: 0.99 over 0.8`.
    pub quantity: String,
    /// Unit of `measured`; empty for ratios.
    pub unit: String,
    /// Where it must lie for the claim to hold: `above 1`.
    pub condition: String,
    /// Why the verdict hangs on one repeat, in a sentence; `None` where it does not, or there is none to hang.
    pub fragile: Option<String>,
    /// What each clause gave, and each value of the factor, of a claim that has several or has to hold for each of
    /// them ([`ClaimSpec::all`], [`ClaimSpec::each`]); `measured` is empty then.
    pub each: Vec<Part>,
}

/// What one clause gave, or one value of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The value, or the clause with it in words.
    pub value: Value,
    /// Unit of `measured`; empty for ratios.
    pub unit: String,
    /// Where `measured` must lie.
    pub condition: String,
    /// The verdict of the trials that have it.
    pub verdict: ClaimVerdict,
    /// What they measured.
    pub measured: Option<Estimate>,
    /// Why the verdict hangs on one repeat ([`Judgement::fragile`]).
    pub fragile: Option<String>,
}

type Cells = BTreeMap<String, Value>;

/// Judges one claim by the complete trials. `values` are those that the run's matrix gives to the factor for
/// each of whose values it has to hold; without any it is judged by all trials together.
#[must_use]
pub fn judge(claim: &ClaimSpec, values: &[Value], trials: &[Evidence], confidence: f64) -> Judgement {
    let clauses: Vec<&ClaimCheck> = claim.clauses().collect();
    let each = claim.each.as_deref().filter(|_| !values.is_empty());
    let (mut parts, mut measured_by) = (Vec::new(), Vec::new());
    for check in &clauses {
        let condition = condition(check);
        for (value, trials) in split(trials, values, each, check) {
            let (verdict, measured, unit) = match measure(claim, check, &trials, confidence) {
                Err(reason) => (ClaimVerdict::NotComparable { reason }, None, String::new()),
                Ok((estimate, unit)) => {
                    (verdict_of(check, &trials, &estimate, confidence), Some(estimate), unit)
                }
            };
            let value = if clauses.len() > 1 { in_clause(check, &value) } else { value };
            let (condition, fragile) = (condition.clone(), None);
            parts.push(Part { value, unit, condition, verdict, measured, fragile });
            measured_by.push((*check, trials));
        }
    }
    correct(claim, &mut parts, &measured_by, confidence);
    for (part, (check, trials)) in parts.iter_mut().zip(&measured_by) {
        part.fragile = fragile::of(claim, check, trials, confidence, &part.verdict);
    }
    match clauses[..] {
        [] => {
            let reason = &claim.not_tested;
            untested(if reason.is_empty() { "the study has no check for it" } else { reason })
        }
        [check] => of_one(check, each, parts),
        _ => Judgement {
            verdict: of_all(&parts),
            quantity: format!("{} clauses", clauses.len()),
            fragile: fragile::of_all(&parts),
            each: parts,
            ..untested("")
        },
    }
}

/// One contradicted part contradicts the whole, so of many parts one would by chance: their contradictions are tested
/// step by step as Holm (1979) does, each with the interval that its step asks for. To hold, every part has to: that
/// needs no correction.
fn correct(
    claim: &ClaimSpec,
    parts: &mut [Part],
    measured_by: &[(&ClaimCheck, Vec<Evidence>)],
    confidence: f64,
) {
    let mut open: Vec<usize> =
        (0..parts.len()).filter(|&i| parts[i].verdict == ClaimVerdict::Contradicted).collect();
    let tested = parts.iter().filter(|part| part.measured.is_some()).count();
    let mut left = tested;
    while left > 1 {
        let level = 1.0 - (1.0 - confidence) / quantile::count(left);
        let survives = |&i: &usize| {
            let (check, trials) = &measured_by[i];
            measure(claim, check, trials, level).is_ok_and(|(estimate, _)| {
                verdict_of(check, trials, &estimate, level) == ClaimVerdict::Contradicted
            })
        };
        let Some(place) = open.iter().position(survives) else { break };
        open.remove(place);
        left -= 1;
    }
    // The last step is at the confidence itself.
    if left > 1 {
        for i in open {
            let reason = format!("contradicted alone, not after the correction for {tested} parts");
            parts[i].verdict = ClaimVerdict::Compatible { reason };
        }
    }
}

/// The judgement of a claim with one clause.
fn of_one(check: &ClaimCheck, each: Option<&str>, parts: Vec<Part>) -> Judgement {
    let unit = parts.iter().rev().map(|part| &part.unit).find(|unit| !unit.is_empty()).cloned();
    let mut judgement = Judgement {
        quantity: quantity(check),
        condition: condition(check),
        unit: unit.unwrap_or_default(),
        ..untested("")
    };
    if let (None, [only]) = (each, parts.as_slice()) {
        (judgement.verdict, judgement.measured) = (only.verdict.clone(), only.measured);
        judgement.fragile.clone_from(&only.fragile);
        return judgement;
    }
    let over = each.map_or("file system and medium", last);
    judgement.quantity.push_str(&format!(", for each {over}"));
    judgement.verdict = of_all(&parts);
    judgement.fragile = fragile::of_all(&parts);
    judgement.each = parts;
    judgement
}

/// A clause in words, with the value that it was judged for.
fn in_clause(check: &ClaimCheck, value: &Value) -> Value {
    let of = if value.is_null() { String::new() } else { format!(", {}", in_words(value)) };
    Value::String(format!("{}{of}", quantity(check)))
}

/// The trials of each value that the claim has to hold for, and of each file system and medium that its sides
/// do not name.
fn split(
    trials: &[Evidence],
    values: &[Value],
    each: Option<&str>,
    check: &ClaimCheck,
) -> Vec<(Value, Vec<Evidence>)> {
    let has = |trial: &Evidence, path: &str, value: &Value| {
        !trial.applies(path) || trial.factor(path).is_some_and(|have| same(have, value))
    };
    let by_value: Vec<(Option<&Value>, Vec<&Evidence>)> = match each {
        None => vec![(None, trials.iter().collect())],
        Some(path) => values
            .iter()
            .map(|value| (Some(value), trials.iter().filter(|trial| has(trial, path, value)).collect()))
            .collect(),
    };
    let sides = sides(check);
    let named: Vec<&str> =
        sides.iter().flat_map(|side| side.keys().map(String::as_str)).chain(each).collect();
    let mut parts = Vec::new();
    for (value, trials) in by_value {
        let mut places: BTreeMap<String, Vec<Evidence>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| sides.iter().any(|side| trial.matches(side))) {
            places.entry(place(trial, |path| named.contains(&path))).or_default().push((*trial).clone());
        }
        if places.len() < 2 {
            let all = trials.into_iter().cloned().collect();
            parts.push((value.cloned().unwrap_or(Value::Null), all));
            continue;
        }
        for (place, trials) in places {
            let name = value.map_or(place.clone(), |value| format!("{}, {place}", in_words(value)));
            parts.push((Value::String(name), trials));
        }
    }
    parts
}

/// The factor values that a check names.
fn sides(check: &ClaimCheck) -> Vec<&Cells> {
    check.sides().into_iter().map(|(_, cells)| cells).collect()
}

/// The metric that a check is about.
fn metric_of(check: &ClaimCheck) -> String {
    match check {
        ClaimCheck::Ratio { metric, .. }
        | ClaimCheck::Value { metric, .. }
        | ClaimCheck::Never { metric, .. }
        | ClaimCheck::Exists { metric, .. } => metric.clone(),
        ClaimCheck::Trend { operation, .. } => metric::latency_of(operation, metric::MEAN_NS),
    }
}

/// The trials that a check is about.
fn concerned<'a>(trials: &'a [Evidence], check: &ClaimCheck) -> Vec<&'a Evidence> {
    let sides = sides(check);
    trials.iter().filter(|trial| sides.iter().any(|side| trial.matches(side))).collect()
}

fn untested(reason: &str) -> Judgement {
    Judgement {
        verdict: ClaimVerdict::NotComparable { reason: reason.to_owned() },
        measured: None,
        quantity: String::new(),
        unit: String::new(),
        condition: String::new(),
        fragile: None,
        each: Vec::new(),
    }
}

/// A claim about every value or clause holds if it does for each, is contradicted if it is for one, and cannot be
/// judged where one of them cannot.
fn of_all(parts: &[Part]) -> ClaimVerdict {
    let named = |wanted: fn(&ClaimVerdict) -> bool| {
        let named: Vec<_> =
            parts.iter().filter(|part| wanted(&part.verdict)).map(|part| in_words(&part.value)).collect();
        named.join(", ")
    };
    if parts.iter().any(|part| part.verdict == ClaimVerdict::Contradicted) {
        return ClaimVerdict::Contradicted;
    }
    // Where all parts say the same for the same reason, so does the whole.
    if let Some(first) = parts.first().filter(|first| parts.iter().all(|part| part.verdict == first.verdict))
    {
        return first.verdict.clone();
    }
    let open = named(|verdict| matches!(verdict, ClaimVerdict::Compatible { .. }));
    let few = named(|verdict| matches!(verdict, ClaimVerdict::InThisRun { .. }));
    let missing = named(|verdict| matches!(verdict, ClaimVerdict::NotComparable { .. }));
    let unseen = named(|verdict| matches!(verdict, ClaimVerdict::NotSeen { .. }));
    let all = [
        ("undecided for", &open),
        ("too few repeats for", &few),
        ("not comparable for", &missing),
        ("not seen for", &unseen),
    ];
    let reason: Vec<String> = all
        .into_iter()
        .filter(|(_, which)| !which.is_empty())
        .map(|(why, which)| format!("{why} {which}"))
        .collect();
    let reason = reason.join("; ");
    match (open.is_empty(), few.is_empty(), missing.is_empty(), unseen.is_empty()) {
        (true, true, true, true) => ClaimVerdict::Holds,
        (true, true, true, false) => ClaimVerdict::NotSeen { reason },
        (true, true, false, _) => ClaimVerdict::NotComparable { reason },
        (true, false, _, _) => ClaimVerdict::InThisRun { reason },
        _ => ClaimVerdict::Compatible { reason },
    }
}

/// What an estimate says about a check: of counts, one that was seen or none; else where its interval lies.
fn verdict_of(check: &ClaimCheck, trials: &[Evidence], estimate: &Estimate, confidence: f64) -> ClaimVerdict {
    let (above, below) = check.bounds();
    count::of(check, &concerned(trials, check))
        .map_or_else(|| verdict(estimate, above, below), |counted| counted.verdict(confidence))
}

fn verdict(estimate: &Estimate, above: Option<f64>, below: Option<f64>) -> ClaimVerdict {
    let alone = Interval { low: estimate.value, high: estimate.value };
    let Interval { low, high } = estimate.interval.unwrap_or(alone);
    let inside = above.is_none_or(|bound| low > bound) && below.is_none_or(|bound| high < bound);
    let outside = above.is_some_and(|bound| high <= bound) || below.is_some_and(|bound| low >= bound);
    if estimate.units < SEEDS || estimate.interval.is_none() {
        let seen = match (inside, outside) {
            (true, _) => "agrees with the finding",
            (_, true) => "disagrees with the finding",
            _ => "the interval lies on both sides of the bound",
        };
        let repeats =
            if estimate.units == 1 { "1 repeat".to_owned() } else { format!("{} repeats", estimate.units) };
        let why = match estimate.basis {
            Basis::Zeros => "no interval, because a trial has a 0, which has no logarithm".to_owned(),
            _ if estimate.units < SEEDS => {
                format!("{} of {SEEDS} repeats needed for a verdict (`repeats`)", estimate.units)
            }
            _ => format!(
                "no interval, because the {repeats} are equal and too few to prove anything (`repeats`)"
            ),
        };
        return ClaimVerdict::InThisRun { reason: format!("{seen}; {why}") };
    }
    match (inside, outside) {
        (true, _) => ClaimVerdict::Holds,
        (_, true) => ClaimVerdict::Contradicted,
        _ => ClaimVerdict::Compatible { reason: "the interval lies on both sides of the bound".to_owned() },
    }
}

fn measure(
    claim: &ClaimSpec,
    check: &ClaimCheck,
    trials: &[Evidence],
    confidence: f64,
) -> Result<(Estimate, String), String> {
    if trials.is_empty() {
        return Err("no trial is complete".to_owned());
    }
    let (concerned, metric) = (concerned(trials, check), metric_of(check));
    if let Some(reason) = claim.given.as_ref().and_then(|given| given::unmet(given, &metric, &concerned)) {
        return Err(reason);
    }
    if let Some(reason) = doubt::invalidated(&concerned, &metric) {
        return Err(reason);
    }
    estimate(check, trials, confidence)
}

/// What was measured, with its unit.
fn estimate(check: &ClaimCheck, trials: &[Evidence], confidence: f64) -> Result<(Estimate, String), String> {
    match check {
        ClaimCheck::Ratio { metric, numerator, denominator, .. } => {
            let pairs = pairs(trials, numerator, denominator);
            if pairs.is_empty() {
                return Err(missing("complete trial", trials, &[numerator, denominator]));
            }
            if let Some(how) = work::different(&pairs, metric) {
                return Err(work::refusal(&how));
            }
            ratio(&pairs, metric, confidence).map(|estimate| (estimate, String::new())).ok_or_else(|| {
                match zeros(&pairs, metric) {
                    0 if pairs.iter().any(|(a, b)| same_run(a, b, metric)) => {
                        format!("both sides have `{metric}` from the same run, before the image they share")
                    }
                    0 => format!("no pair of trials measured `{metric}`"),
                    zeros => {
                        format!("`{metric}` was 0 on a side of each of {zeros} pairs, which has no ratio")
                    }
                }
            })
        }
        ClaimCheck::Value { metric, cells, .. } => {
            let chosen = chosen(trials, cells)?;
            let unit = chosen
                .iter()
                .find_map(|trial| trial.metrics.get(metric))
                .map_or_else(String::new, |series| series.unit.clone());
            // A ratio is written as one (×1.4), without a unit.
            let unit = if unit == "ratio" { String::new() } else { unit };
            level(&chosen, metric, confidence)
                .map(|estimate| (estimate, unit))
                .ok_or_else(|| format!("no trial measured `{metric}`"))
        }
        ClaimCheck::Trend { operation, cells, .. } => {
            let chosen = chosen(trials, cells)?;
            trend(&chosen, operation, confidence)
                .map(|estimate| (estimate, String::new()))
                .ok_or_else(|| format!("no trial has enough `{operation}` over time"))
        }
        ClaimCheck::Never { metric, of, cells } | ClaimCheck::Exists { metric, of, cells } => {
            count::of(check, &chosen(trials, cells)?)
                .map(|counted| (counted.estimate(), "count".to_owned()))
                .ok_or_else(|| format!("no trial counted `{metric}` of `{of}`"))
        }
    }
}

fn chosen<'a>(trials: &'a [Evidence], cells: &Cells) -> Result<Vec<&'a Evidence>, String> {
    let chosen: Vec<_> = trials.iter().filter(|trial| trial.matches(cells)).collect();
    if chosen.is_empty() { Err(missing("complete trial", trials, &[cells])) } else { Ok(chosen) }
}

/// Pairs of trials that agree in repeat and in every factor that neither side names and that makes a
/// difference to both; of trials that go by wall-clock time, those that ran on one host.
#[must_use]
pub fn pairs<'a>(
    trials: &'a [Evidence],
    numerator: &Cells,
    denominator: &Cells,
) -> Vec<(&'a Evidence, &'a Evidence)> {
    let named: BTreeSet<&String> = numerator.keys().chain(denominator.keys()).collect();
    let agree = |a: &Evidence, b: &Evidence| {
        a.repeat == b.repeat
            && !a.is_of_other_host(b)
            && a.factors.iter().filter(|(path, _)| !named.contains(path)).all(|(path, value)| {
                b.factors.get(path) == Some(value) || !a.applies(path) || !b.applies(path)
            })
    };
    let mut pairs = Vec::new();
    for a in trials.iter().filter(|trial| trial.matches(numerator)) {
        for b in trials.iter().filter(|trial| trial.matches(denominator)) {
            if agree(a, b) {
                pairs.push((a, b));
            }
        }
    }
    pairs
}

/// Says which side or value no complete trial has.
fn missing(what: &str, trials: &[Evidence], sides: &[&Cells]) -> String {
    for cells in sides {
        if !trials.iter().any(|trial| trial.matches(cells)) {
            return format!("no {what} has {}", describe(cells));
        }
    }
    let sides =
        sides.iter().map(|cells| trials.iter().filter(|trial| trial.matches(cells)).collect::<Vec<_>>());
    if let [a, b] = &sides.collect::<Vec<_>>()[..]
        && a.iter().any(|a| b.iter().any(|b| a.repeat == b.repeat && a.is_of_other_host(b)))
    {
        return format!("no two {what}s that differ in just these factors ran on one host");
    }
    format!("no two {what}s differ in just these factors")
}

fn describe(cells: &Cells) -> String {
    if cells.is_empty() {
        return "all trials".to_owned();
    }
    let parts: Vec<String> =
        cells.iter().map(|(path, value)| format!("{} = {}", last(path), in_words(value))).collect();
    parts.join(", ")
}

/// The last part of a dotted path.
fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quantity(check: &ClaimCheck) -> String {
    match check {
        ClaimCheck::Ratio { metric, numerator, denominator, .. } => {
            format!("{metric}: ({}) ÷ ({})", describe(numerator), describe(denominator))
        }
        ClaimCheck::Value { metric, cells, .. } => format!("{metric}: {}", describe(cells)),
        ClaimCheck::Never { metric, of, cells } | ClaimCheck::Exists { metric, of, cells } => {
            format!("{metric} of {of}: {}", describe(cells))
        }
        ClaimCheck::Trend { operation, cells, .. } => {
            format!("latency of {operation}: last quarter ÷ second quarter ({})", describe(cells))
        }
    }
}

/// A number as one would write it: whole ones without decimals.
fn plain(value: f64) -> String {
    let rounded = (value * 1e9).round() / 1e9;
    if rounded.fract() == 0.0 { format!("{rounded:.0}") } else { number::significant(value) }
}

fn condition(check: &ClaimCheck) -> String {
    match check {
        ClaimCheck::Never { .. } => return "none".to_owned(),
        ClaimCheck::Exists { .. } => return "at least one".to_owned(),
        ClaimCheck::Ratio { .. } | ClaimCheck::Value { .. } | ClaimCheck::Trend { .. } => {}
    }
    if let Some(margin) = check.margin() {
        return format!("within {} % either way", plain(margin * 100.0));
    }
    match check.bounds() {
        (Some(above), Some(below)) => format!("between {above} and {below}"),
        (Some(above), None) => format!("above {above}"),
        (None, Some(below)) => format!("below {below}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests;
