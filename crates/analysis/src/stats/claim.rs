//! Judging a study's claims. A claim holds or does not only when the whole interval lies on one side;
//! everything else is "no evidence", which is not the same as "no effect".

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::study::{ClaimCheck, ClaimSpec};
use serde_json::Value;

use super::bootstrap::{Bootstrap, Interval};
use super::evidence::{Basis, Estimate, Evidence, level, ratio, same, trend, zeros};
use super::shared::same_run;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The whole interval lies where the claim says.
    Holds,
    /// The whole interval lies elsewhere.
    DoesNot,
    /// The interval lies on both sides of a bound, or there is none.
    NoEvidence {
        /// Why, in a sentence.
        reason: String,
    },
    /// Nothing to judge by.
    NotTested {
        /// Why, in a sentence.
        reason: String,
    },
}

impl ClaimVerdict {
    /// Why nothing could be said.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NoEvidence { reason } | Self::NotTested { reason } => Some(reason),
            Self::Holds | Self::DoesNot => None,
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
    /// What each value of the factor gave, of a claim that has to hold for each of them
    /// ([`ClaimSpec::each`]); `measured` is empty then.
    pub each: Vec<Part>,
}

/// What one value of a factor gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The value.
    pub value: Value,
    /// The verdict of the trials that have it.
    pub verdict: ClaimVerdict,
    /// What they measured.
    pub measured: Option<Estimate>,
}

type Cells = BTreeMap<String, Value>;

/// Judges one claim by the complete trials. `values` are those that the run's matrix gives to the factor for
/// each of whose values it has to hold; without any it is judged by all trials together.
#[must_use]
pub fn judge(claim: &ClaimSpec, values: &[Value], trials: &[Evidence], bootstrap: &Bootstrap) -> Judgement {
    let Some(check) = &claim.check else {
        let reason =
            if claim.not_tested.is_empty() { "the study has no check for it" } else { &claim.not_tested };
        return untested(reason);
    };
    let (above, below) = bounds(check);
    let mut judgement = Judgement {
        quantity: quantity(check),
        condition: condition(above, below),
        ..untested("the check gives no bound")
    };
    if above.is_none() && below.is_none() {
        return judgement;
    }
    let mut one = |trials: &[Evidence]| match measure(check, trials, bootstrap) {
        Err(reason) => (ClaimVerdict::NotTested { reason }, None),
        Ok((estimate, unit)) => {
            judgement.unit = unit;
            (verdict(&estimate, above, below), Some(estimate))
        }
    };
    let path = match &claim.each {
        Some(path) if !values.is_empty() => path,
        _ => {
            (judgement.verdict, judgement.measured) = one(trials);
            return judgement;
        }
    };
    let has = |trial: &Evidence, value: &Value| {
        !trial.applies(path) || trial.factor(path).is_some_and(|have| same(have, value))
    };
    let parts = values.iter().map(|value| {
        let trials: Vec<_> = trials.iter().filter(|trial| has(trial, value)).cloned().collect();
        let (verdict, measured) = one(&trials);
        Part { value: value.clone(), verdict, measured }
    });
    let parts: Vec<_> = parts.collect();
    judgement.quantity.push_str(&format!(", for each {}", last(path)));
    judgement.verdict = of_all(&parts);
    judgement.each = parts;
    judgement
}

fn untested(reason: &str) -> Judgement {
    Judgement {
        verdict: ClaimVerdict::NotTested { reason: reason.to_owned() },
        measured: None,
        quantity: String::new(),
        unit: String::new(),
        condition: String::new(),
        each: Vec::new(),
    }
}

/// A claim about every value holds if it does for each, and does not if it does not for one.
fn of_all(parts: &[Part]) -> ClaimVerdict {
    let named = |wanted: fn(&ClaimVerdict) -> bool| {
        let named: Vec<_> =
            parts.iter().filter(|part| wanted(&part.verdict)).map(|part| in_words(&part.value)).collect();
        named.join(", ")
    };
    if parts.iter().any(|part| part.verdict == ClaimVerdict::DoesNot) {
        return ClaimVerdict::DoesNot;
    }
    let open = named(|verdict| matches!(verdict, ClaimVerdict::NoEvidence { .. }));
    let untested = named(|verdict| matches!(verdict, ClaimVerdict::NotTested { .. }));
    match (open.as_str(), untested.as_str()) {
        ("", "") => ClaimVerdict::Holds,
        (open, "") => ClaimVerdict::NoEvidence { reason: format!("none for {open}") },
        ("", untested) if parts.iter().any(|part| part.verdict == ClaimVerdict::Holds) => {
            ClaimVerdict::NoEvidence { reason: format!("not tested for {untested}") }
        }
        ("", untested) => ClaimVerdict::NotTested {
            reason: parts
                .first()
                .filter(|first| parts.iter().all(|part| part.verdict == first.verdict))
                .and_then(|first| first.verdict.reason())
                .map_or_else(|| format!("nothing was measured for {untested}"), str::to_owned),
        },
        (open, untested) => {
            ClaimVerdict::NoEvidence { reason: format!("none for {open}, and not tested for {untested}") }
        }
    }
}

const fn bounds(check: &ClaimCheck) -> (Option<f64>, Option<f64>) {
    match check {
        ClaimCheck::Ratio { above, below, .. }
        | ClaimCheck::Value { above, below, .. }
        | ClaimCheck::Trend { above, below, .. } => (*above, *below),
    }
}

fn verdict(estimate: &Estimate, above: Option<f64>, below: Option<f64>) -> ClaimVerdict {
    let Some(Interval { low, high }) = estimate.interval else {
        let reason = match estimate.basis {
            Basis::Single => "a single value has no interval; repeat the study (`repeats`) to get one",
            Basis::FewContexts => {
                "two contexts that are not each repeated have no interval; repeat the study (`repeats`) to get one"
            }
            _ => "no interval could be computed",
        };
        return ClaimVerdict::NoEvidence { reason: reason.to_owned() };
    };
    let inside = above.is_none_or(|bound| low > bound) && below.is_none_or(|bound| high < bound);
    let outside = above.is_some_and(|bound| high <= bound) || below.is_some_and(|bound| low >= bound);
    match (inside, outside) {
        (true, _) => ClaimVerdict::Holds,
        (_, true) => ClaimVerdict::DoesNot,
        _ => ClaimVerdict::NoEvidence { reason: "the interval lies on both sides of the bound".to_owned() },
    }
}

fn measure(
    check: &ClaimCheck,
    trials: &[Evidence],
    bootstrap: &Bootstrap,
) -> Result<(Estimate, String), String> {
    if trials.is_empty() {
        return Err("no trial is complete".to_owned());
    }
    match check {
        ClaimCheck::Ratio { metric, numerator, denominator, .. } => {
            let pairs = pairs(trials, numerator, denominator);
            if pairs.is_empty() {
                return Err(missing(trials, &[numerator, denominator]));
            }
            ratio(&pairs, metric, bootstrap).map(|estimate| (estimate, String::new())).ok_or_else(|| {
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
            level(&chosen, metric, bootstrap)
                .map(|estimate| (estimate, unit))
                .ok_or_else(|| format!("no trial measured `{metric}`"))
        }
        ClaimCheck::Trend { operation, cells, .. } => {
            let chosen = chosen(trials, cells)?;
            trend(&chosen, operation, bootstrap)
                .map(|estimate| (estimate, String::new()))
                .ok_or_else(|| format!("no trial has enough `{operation}` over time"))
        }
    }
}

fn chosen<'a>(trials: &'a [Evidence], cells: &Cells) -> Result<Vec<&'a Evidence>, String> {
    let chosen: Vec<_> = trials.iter().filter(|trial| trial.matches(cells)).collect();
    if chosen.is_empty() { Err(missing(trials, &[cells])) } else { Ok(chosen) }
}

/// Pairs of trials that agree in repeat and in every factor that neither side names and that makes a
/// difference to both.
#[must_use]
pub fn pairs<'a>(
    trials: &'a [Evidence],
    numerator: &Cells,
    denominator: &Cells,
) -> Vec<(&'a Evidence, &'a Evidence)> {
    let named: BTreeSet<&String> = numerator.keys().chain(denominator.keys()).collect();
    let agree = |a: &Evidence, b: &Evidence| {
        a.repeat == b.repeat
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
fn missing(trials: &[Evidence], sides: &[&Cells]) -> String {
    for cells in sides {
        if !trials.iter().any(|trial| trial.matches(cells)) {
            return format!("no complete trial has {}", describe(cells));
        }
    }
    "no two complete trials differ in just these factors".to_owned()
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
        ClaimCheck::Trend { operation, cells, .. } => {
            format!("latency of {operation}: last quarter ÷ second quarter ({})", describe(cells))
        }
    }
}

fn condition(above: Option<f64>, below: Option<f64>) -> String {
    match (above, below) {
        (Some(above), Some(below)) => format!("between {above} and {below}"),
        (Some(above), None) => format!("above {above}"),
        (None, Some(below)) => format!("below {below}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::evidence::tests::trial;
    use serde_json::json;

    fn claim(above: Option<f64>, below: Option<f64>) -> ClaimSpec {
        let side = |kind: &str| BTreeMap::from([("file_system.kind".to_owned(), json!(kind))]);
        ClaimSpec {
            id: "c".to_owned(),
            source: "Someone 2000".to_owned(),
            statement: "xfs is slower".to_owned(),
            published: String::new(),
            check: Some(ClaimCheck::Ratio {
                metric: "m".to_owned(),
                numerator: side("xfs"),
                denominator: side("ext4"),
                above,
                below,
            }),
            each: None,
            not_tested: String::new(),
        }
    }

    fn verdict_of(claim: &ClaimSpec, xfs: f64, wave: Option<f64>) -> ClaimVerdict {
        let trials = [trial("xfs", 0, "m", xfs, wave), trial("ext4", 0, "m", 10.0, wave)];
        judge(claim, &[], &trials, &Bootstrap::default()).verdict
    }

    #[test]
    fn a_claim_holds_only_with_its_whole_interval() {
        let slower = claim(Some(1.0), None);
        assert_eq!(verdict_of(&slower, 20.0, Some(0.2)), ClaimVerdict::Holds);
        assert_eq!(verdict_of(&slower, 5.0, Some(0.2)), ClaimVerdict::DoesNot);
        assert!(matches!(verdict_of(&slower, 10.05, Some(0.8)), ClaimVerdict::NoEvidence { .. }));
        let between = claim(Some(1.5), Some(2.5));
        assert_eq!(verdict_of(&between, 20.0, Some(0.2)), ClaimVerdict::Holds);
        assert_eq!(verdict_of(&between, 40.0, Some(0.2)), ClaimVerdict::DoesNot);
    }

    #[test]
    fn a_single_value_is_no_evidence() {
        assert!(matches!(verdict_of(&claim(Some(1.0), None), 20.0, None), ClaimVerdict::NoEvidence { .. }));
    }

    #[test]
    fn what_cannot_be_judged_says_why() {
        let only = [trial("xfs", 0, "m", 1.0, None)];
        let judgement = judge(&claim(Some(1.0), None), &[], &only, &Bootstrap::default());
        assert_eq!(
            judgement.verdict,
            ClaimVerdict::NotTested { reason: "no complete trial has kind = ext4".to_owned() }
        );
        assert_eq!(judgement.quantity, "m: (kind = xfs) ÷ (kind = ext4)");
        let mut unchecked = claim(None, None);
        unchecked.check = None;
        unchecked.not_tested = "needs a hard disk".to_owned();
        let judgement = judge(&unchecked, &[], &only, &Bootstrap::default());
        assert_eq!(judgement.verdict, ClaimVerdict::NotTested { reason: "needs a hard disk".to_owned() });
        let empty = judge(&claim(Some(1.0), None), &[], &[], &Bootstrap::default());
        assert_eq!(empty.verdict, ClaimVerdict::NotTested { reason: "no trial is complete".to_owned() });
    }

    /// A claim about `m` on each of these file systems, and what trials of some say.
    fn of_each(systems: &[&str], values: &[(&str, f64, Option<f64>)]) -> Judgement {
        let mut each = claim(None, None);
        each.check = Some(ClaimCheck::Value {
            metric: "m".to_owned(),
            cells: Cells::new(),
            above: Some(1.0),
            below: None,
        });
        each.each = Some("file_system.kind".to_owned());
        let systems: Vec<Value> = systems.iter().map(|system| json!(system)).collect();
        let trials: Vec<_> =
            values.iter().map(|&(kind, value, wave)| trial(kind, 0, "m", value, wave)).collect();
        judge(&each, &systems, &trials, &Bootstrap::default())
    }

    #[test]
    fn a_claim_about_every_value_is_judged_value_by_value() {
        let xfs = ("xfs", 5.0, Some(0.1));
        let both = of_each(&["xfs", "btrfs"], &[xfs, ("btrfs", 0.5, Some(0.1))]);
        assert_eq!(both.verdict, ClaimVerdict::DoesNot);
        assert!(both.measured.is_none());
        assert_eq!(both.quantity, "m: all trials, for each kind");
        let parts: Vec<_> = both.each.iter().map(|part| (part.value.clone(), &part.verdict)).collect();
        assert_eq!(parts, [(json!("xfs"), &ClaimVerdict::Holds), (json!("btrfs"), &ClaimVerdict::DoesNot)]);
        let holds = of_each(&["xfs", "ext4"], &[xfs, ("ext4", 3.0, Some(0.1))]);
        assert_eq!(holds.verdict, ClaimVerdict::Holds);
        let open = of_each(&["xfs", "ext4"], &[xfs, ("ext4", 3.0, None)]);
        assert_eq!(open.verdict, ClaimVerdict::NoEvidence { reason: "none for ext4".to_owned() });
        let one_sided = of_each(&["xfs", "ext4"], &[xfs]);
        assert_eq!(one_sided.verdict, ClaimVerdict::NoEvidence { reason: "not tested for ext4".to_owned() });
        let none = of_each(&["xfs", "ext4"], &[]);
        assert_eq!(none.verdict, ClaimVerdict::NotTested { reason: "no trial is complete".to_owned() });
        // A run whose matrix does not have the factor has one value of it.
        let whole = of_each(&[], &[xfs]);
        assert_eq!((whole.verdict, whole.each.len()), (ClaimVerdict::Holds, 0));
    }

    #[test]
    fn trials_that_a_factor_does_not_reach_belong_to_each_of_its_values() {
        const USE: &str = "stage.age.use";
        let of = |state: &str, used: f64, value: f64| {
            let mut one = trial("xfs", 0, "m", value, Some(0.1));
            one.factors = Cells::from([("state".to_owned(), json!(state)), (USE.to_owned(), json!(used))]);
            one.spec = json!({"state": state, "stage": [{"kind": "age", "name": "age", "when": ["aged"]}]});
            one
        };
        // What is fresh is so at any use; its trial has one all the same.
        let trials = [of("aged", 0.8, 20.0), of("aged", 0.9, 40.0), of("fresh", 0.8, 10.0)];
        let mut slower = claim(Some(1.0), None);
        let side = |state: &str| Cells::from([("state".to_owned(), json!(state))]);
        slower.check = Some(ClaimCheck::Ratio {
            metric: "m".to_owned(),
            numerator: side("aged"),
            denominator: side("fresh"),
            above: Some(1.0),
            below: None,
        });
        slower.each = Some(USE.to_owned());
        let found = judge(&slower, &[json!(0.8), json!(0.9)], &trials, &Bootstrap::default());
        assert_eq!(found.verdict, ClaimVerdict::Holds, "{:?}", found.each);
    }

    #[test]
    fn a_value_that_measured_nothing_proves_nothing() {
        let part = |value: &str, verdict| Part { value: json!(value), verdict, measured: None };
        let untested = || ClaimVerdict::NotTested { reason: "why".to_owned() };
        let other = || ClaimVerdict::NotTested { reason: "another why".to_owned() };
        let open = || ClaimVerdict::NoEvidence { reason: String::new() };
        let reason = |parts: &[Part]| of_all(parts).reason().unwrap().to_owned();
        assert_eq!(reason(&[part("a", ClaimVerdict::Holds), part("b", untested())]), "not tested for b");
        assert_eq!(reason(&[part("a", untested()), part("b", untested())]), "why");
        assert_eq!(reason(&[part("a", untested()), part("b", other())]), "nothing was measured for a, b");
        assert_eq!(reason(&[part("a", open()), part("b", untested())]), "none for a, and not tested for b");
        assert_eq!(of_all(&[part("a", ClaimVerdict::DoesNot), part("b", untested())]), ClaimVerdict::DoesNot);
    }

    #[test]
    fn zeros_are_told_apart_from_what_was_not_measured() {
        let both = [trial("xfs", 0, "m", 0.0, None), trial("ext4", 0, "m", 1.0, None)];
        let ClaimVerdict::NotTested { reason } =
            judge(&claim(Some(1.0), None), &[], &both, &Bootstrap::default()).verdict
        else {
            unreachable!()
        };
        assert_eq!(reason, "`m` was 0 on a side of each of 1 pairs, which has no ratio");
    }

    #[test]
    fn pairs_agree_in_what_is_not_named() {
        let mut trials = Vec::new();
        for repeat in 0..2 {
            for use_share in [0.8, 0.9] {
                for kind in ["xfs", "ext4"] {
                    let mut one = trial(kind, repeat, "m", 1.0, None);
                    one.factors.insert("use".to_owned(), json!(use_share));
                    trials.push(one);
                }
            }
        }
        let ClaimCheck::Ratio { numerator, denominator, .. } = claim(None, None).check.unwrap() else {
            unreachable!()
        };
        let pairs = pairs(&trials, &numerator, &denominator);
        assert_eq!(pairs.len(), 4);
        assert!(pairs.iter().all(|(a, b)| a.factors["use"] == b.factors["use"] && a.repeat == b.repeat));
    }
}
