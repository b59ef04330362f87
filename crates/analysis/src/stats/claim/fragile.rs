//! Verdicts that hang on one repeat, or on one parameter of the medium: the claim is judged again without each repeat,
//! and with the trials as they would have been on each medium with another parameter ([`Varied`]).
//!
//! With four repeats or more a verdict is fragile where leaving one out makes it another. With three, two are left, whose
//! interval is too wide to say anything: then it is fragile where the measured value alone moves to another side of a bound.

use std::collections::BTreeSet;

use fsage_model::study::{ClaimCheck, ClaimSpec};
use serde_json::Value;

use super::{ClaimVerdict, Judgement, Part, concerned, in_words, judge, measure, verdict};
use crate::stats::evidence::{Estimate, Evidence, SEEDS};

/// Why a verdict hangs on one repeat; `None` where it does not.
pub(super) fn of(
    claim: &ClaimSpec,
    check: &ClaimCheck,
    trials: &[Evidence],
    confidence: f64,
    judged: &ClaimVerdict,
) -> Option<String> {
    // One that was seen was seen.
    if !is_clear(judged) || check.counts().is_some() {
        return None;
    }
    let seeds: BTreeSet<u32> = concerned(trials, check).into_iter().map(|trial| trial.repeat).collect();
    let (above, below) = check.bounds();
    let without = |seed: u32| {
        let rest: Vec<Evidence> = trials.iter().filter(|trial| trial.repeat != seed).cloned().collect();
        let (estimate, _) = measure(claim, check, &rest, confidence).ok()?;
        let found = if seeds.len() > SEEDS {
            verdict(&estimate, above, below)
        } else {
            by_value(&estimate, above, below)
        };
        (found != *judged)
            .then(|| format!("fragile: without repeat {} of {} the verdict differs", seed + 1, seeds.len()))
    };
    seeds.iter().find_map(|seed| without(*seed))
}

/// All trials as they would have been on a medium with one parameter changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Varied {
    /// The change, in words.
    pub what: String,
    /// The trials; those of other media as they were measured.
    pub trials: Vec<Evidence>,
}

/// Marks the judgement, and each of its parts, as fragile where the verdict is clear and another under a changed
/// parameter of the medium. `claim`, `values` and `confidence` are those that it was judged with.
#[must_use]
pub fn by_media(
    mut found: Judgement,
    claim: &ClaimSpec,
    values: &[Value],
    varied: &[Varied],
    confidence: f64,
) -> Judgement {
    if varied.is_empty() {
        return found;
    }
    let others: Vec<(&str, Judgement)> = varied
        .iter()
        .map(|varied| (varied.what.as_str(), judge(claim, values, &varied.trials, confidence)))
        .collect();
    let whole: Vec<_> = others.iter().map(|(what, other)| (*what, &other.verdict)).collect();
    turned(&found.verdict, &mut found.fragile, &whole);
    for (index, part) in found.each.iter_mut().enumerate() {
        let own: Vec<_> = others
            .iter()
            .filter_map(|(what, other)| Some((*what, &other.each.get(index)?.verdict)))
            .collect();
        turned(&part.verdict, &mut part.fragile, &own);
    }
    found
}

/// Says which changes give a clear verdict another.
fn turned(verdict: &ClaimVerdict, fragile: &mut Option<String>, others: &[(&str, &ClaimVerdict)]) {
    if !is_clear(verdict) {
        return;
    }
    let other: Vec<&(&str, &ClaimVerdict)> = others.iter().filter(|(_, other)| *other != verdict).collect();
    let Some((what, first)) = other.first() else { return };
    let why = format!(
        "{} of {} changed parameters of the medium give another verdict, first {what}: {}",
        other.len(),
        others.len(),
        first.words()
    );
    *fragile = Some(match fragile.take() {
        Some(known) => format!("{known}; {why}"),
        None => format!("fragile: {why}"),
    });
}

/// What the value alone says.
fn by_value(estimate: &Estimate, above: Option<f64>, below: Option<f64>) -> ClaimVerdict {
    let value = estimate.value;
    let inside = above.is_none_or(|bound| value > bound) && below.is_none_or(|bound| value < bound);
    if inside { ClaimVerdict::Holds } else { ClaimVerdict::Contradicted }
}

fn is_clear(verdict: &ClaimVerdict) -> bool {
    matches!(verdict, ClaimVerdict::Holds | ClaimVerdict::Contradicted)
}

/// Of a claim with several parts: it is fragile where a part is on which its verdict rests.
pub(super) fn of_all(parts: &[Part]) -> Option<String> {
    let contradicted = |part: &&Part| part.verdict == ClaimVerdict::Contradicted;
    let mut against: Vec<&Part> = parts.iter().filter(contradicted).collect();
    // One sound contradiction is enough; to hold, every part has to.
    if against.iter().any(|part| part.fragile.is_none()) {
        return None;
    }
    if against.is_empty() {
        against = parts.iter().collect();
    }
    let part = against.into_iter().find(|part| part.fragile.is_some())?;
    Some(format!("{} ({})", part.fragile.as_deref()?, in_words(&part.value)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::judge;
    use super::*;
    use crate::stats::evidence::Series;

    /// Whether the claim that the metric is above 1 holds, and why that hangs on one repeat.
    fn judged(values: &[f64]) -> (ClaimVerdict, Option<String>) {
        let check =
            json!({"kind": "value", "metric": "m", "where": {"file_system.kind": "xfs"}, "above": 1.0});
        let claim = ClaimSpec { check: Some(serde_json::from_value(check).unwrap()), ..ClaimSpec::default() };
        let trial = |(repeat, value): (u32, &f64)| Evidence {
            factors: BTreeMap::from([("file_system.kind".to_owned(), json!("xfs"))]),
            repeat,
            metrics: BTreeMap::from([(
                "m".to_owned(),
                Series { unit: "ns".to_owned(), samples: vec![*value], ..Series::default() },
            )]),
            ..Evidence::default()
        };
        let trials: Vec<Evidence> = (0..).zip(values).map(trial).collect();
        let found = judge(&claim, &[], &trials, 0.95);
        (found.verdict, found.fragile)
    }

    #[test]
    fn a_verdict_that_a_parameter_of_the_medium_turns_is_fragile() {
        let check = json!({"kind": "value", "metric": "m", "where": {}, "above": 1.0});
        let claim = ClaimSpec { check: Some(serde_json::from_value(check).unwrap()), ..ClaimSpec::default() };
        let trials = |factor: f64| -> Vec<Evidence> {
            let one = |(repeat, value): (u32, f64)| Evidence {
                repeat,
                metrics: BTreeMap::from([(
                    "m".to_owned(),
                    Series { unit: "ns".to_owned(), samples: vec![value * factor], ..Series::default() },
                )]),
                ..Evidence::default()
            };
            (0..).zip([1.10, 1.11, 1.12, 1.10]).map(one).collect()
        };
        let varied = |what: &str, factor| Varied { what: what.to_owned(), trials: trials(factor) };
        let found = || judge(&claim, &[], &trials(1.0), 0.95);
        assert_eq!((found().verdict, found().fragile), (ClaimVerdict::Holds, None));
        let same = [varied("rpm = 5760", 1.2), varied("rpm = 8640", 0.95)];
        assert_eq!(by_media(found(), &claim, &[], &same, 0.95), found(), "no change turns it");
        let turns = [varied("rpm = 5760", 1.2), varied("rpm = 8640", 0.8)];
        let judged = by_media(found(), &claim, &[], &turns, 0.95);
        assert_eq!(judged.verdict, ClaimVerdict::Holds, "it is marked, not changed");
        let said = judged.fragile.unwrap();
        assert!(
            said.contains("1 of 2 changed parameters") && said.ends_with("rpm = 8640: contradicted"),
            "{said}"
        );
        // What is no verdict cannot turn.
        let open = judge(&claim, &[], &trials(1.0 / 1.1), 0.95);
        assert_eq!(by_media(open.clone(), &claim, &[], &turns, 0.95), open);
    }

    #[test]
    fn a_verdict_that_one_repeat_carries_is_fragile() {
        assert_eq!(judged(&[2.0, 2.1, 1.9, 2.05, 2.0]), (ClaimVerdict::Holds, None));
        let (verdict, fragile) = judged(&[1.10, 1.12, 1.09, 1.11, 1.02]);
        assert_eq!((verdict, fragile), (ClaimVerdict::Holds, None));
        // Without a repeat that lies high the interval of the rest holds 1.
        let (verdict, fragile) = judged(&[1.20, 1.02, 1.30, 1.28]);
        assert_eq!(verdict, ClaimVerdict::Holds);
        let said = fragile.unwrap();
        assert!(said.starts_with("fragile: without repeat ") && said.contains(" of 4 "), "{said}");
        // Of three, two lie where all do.
        assert_eq!(judged(&[1.5, 1.52, 1.49]), (ClaimVerdict::Holds, None));
        // What is no verdict cannot flip.
        assert_eq!(judged(&[1.5, 0.5, 1.4, 1.6]).1, None);
        assert_eq!(judged(&[1.5, 1.4]).1, None);
    }
}
