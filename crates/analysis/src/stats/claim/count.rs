//! Claims about counts: what never is, and what there is.
//!
//! One is enough: it contradicts *never* and shows *exists*, whatever the number of repeats. Where none was seen nothing
//! is proved, and what is said is where it was not seen and how often it may be there all the same. The units of
//! that are logs (a load with its seed on a configuration), not the states of a log, which resemble each other:
//! with none in *k* logs it is in at most 1 − (1 − confidence)^(1/k) of logs like these, one-sided; at 95 % some 3/k,
//! the rule of three (Hanley and Lippman-Hand, JAMA 249, 1983).

use std::collections::BTreeMap;

use fsage_model::number::{grouped, plural};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::study::ClaimCheck;
use serde_json::Value;

use super::{Cells, ClaimVerdict, plain};
use crate::stats::evidence::{Basis, Estimate, Evidence};
use crate::stats::quantile::count;

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    /// How many of it were seen.
    seen: u64,
    /// Of so many that were inspected.
    inspected: u64,
    /// What these are: the last word of their metric.
    noun: String,
    /// Logs that they are of.
    logs: usize,
    wants_one: bool,
}

/// What a check of counts is about, in the trials that have both; `None` for other checks, and where nothing was
/// inspected.
pub(super) fn of(check: &ClaimCheck, trials: &[&Evidence]) -> Option<Counted> {
    let (metric, of) = check.counts()?;
    // Trials with the same load on the same configuration are one log, more or less: the fuller one counts.
    let mut logs: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for trial in trials {
        let (Some(seen), Some(inspected)) = (trial.mean(metric), trial.mean(of)) else { continue };
        let log = logs.entry((cell(&trial.factors), seed(trial, metric))).or_default();
        *log = (log.0.max(to_u64(seen)), log.1.max(to_u64(inspected)));
    }
    let inspected = logs.values().map(|(_, inspected)| inspected).sum();
    (inspected > 0).then(|| Counted {
        seen: logs.values().map(|(seen, _)| seen).sum(),
        inspected,
        noun: of.rsplit(['.', '_']).next().unwrap_or(of).to_owned(),
        logs: logs.values().filter(|(_, inspected)| *inspected > 0).count(),
        wants_one: matches!(check, ClaimCheck::Exists { .. }),
    })
}

fn cell(factors: &Cells) -> String {
    serde_json::to_string(factors).unwrap_or_default()
}

/// What tells loads of a configuration apart: the seed that the stage has of its own, else the repeat.
fn seed(trial: &Evidence, metric: &str) -> String {
    let stage = metric.split('.').next().unwrap_or_default();
    let own = trial.factor(&format!("stage.{stage}.seed")).filter(|seed| !seed.is_null());
    own.map_or_else(|| trial.repeat.to_string(), |seed: &Value| format!("seed {seed}"))
}

impl Counted {
    /// The count as what was measured: its units are logs, and it has no interval.
    pub fn estimate(&self) -> Estimate {
        Estimate {
            value: as_f64(self.seen),
            interval: None,
            range: None,
            n: self.logs,
            units: self.logs,
            contexts: 1,
            zeros: 0,
            p: None,
            basis: Basis::Counted,
            detectable: None,
            more: None,
        }
    }

    pub fn verdict(&self, confidence: f64) -> ClaimVerdict {
        match (self.seen > 0, self.wants_one) {
            (true, true) => ClaimVerdict::Holds,
            (true, false) => ClaimVerdict::Contradicted,
            (false, _) => ClaimVerdict::NotSeen { reason: self.not_seen(confidence) },
        }
    }

    fn not_seen(&self, confidence: f64) -> String {
        let most = 1.0 - (1.0 - confidence).powf(1.0 / count(self.logs));
        format!(
            "not seen in {} distinct {} of {}: in at most {} % of logs like these ({} %, one-sided)",
            grouped(self.inspected),
            self.noun,
            plural(u64::try_from(self.logs).unwrap_or(u64::MAX), "log", "logs"),
            plain(100.0 * most),
            plain(100.0 * confidence),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Judgement, judge};
    use super::*;
    use crate::stats::evidence::Series;
    use fsage_model::study::ClaimSpec;

    /// A trial of xfs or ext4 with so many states, of which some are broken.
    fn trial(kind: &str, repeat: u32, (states, broken): (u32, u32)) -> Evidence {
        let series = |value: u32| Series {
            unit: "count".to_owned(),
            samples: vec![f64::from(value)],
            ..Series::default()
        };
        let metrics = [("power.states", states), ("power.broken_states", broken)];
        Evidence {
            factors: BTreeMap::from([("file_system.kind".to_owned(), json!(kind))]),
            spec: json!({"stage": [{"kind": "power-cuts", "name": "power", "seed": null}]}),
            repeat,
            metrics: metrics.map(|(name, value)| (name.to_owned(), series(value))).into(),
            ..Evidence::default()
        }
    }

    fn claim(kind: &str) -> ClaimSpec {
        let check = json!({"kind": kind, "metric": "power.broken_states", "of": "power.states"});
        ClaimSpec { check: Some(serde_json::from_value(check).unwrap()), ..ClaimSpec::default() }
    }

    fn judged(kind: &str, trials: &[Evidence]) -> Judgement {
        judge(&claim(kind), &[], trials, 0.95)
    }

    #[test]
    fn one_state_contradicts_never_and_shows_exists_whatever_the_repeats() {
        for trials in [vec![(500, 1)], vec![(500, 0), (500, 1), (500, 0), (500, 0)]] {
            let trials: Vec<Evidence> =
                (0..).zip(&trials).map(|(repeat, counts)| trial("xfs", repeat, *counts)).collect();
            let never = judged("never", &trials);
            assert_eq!((never.verdict, never.fragile.as_deref()), (ClaimVerdict::Contradicted, None));
            assert_eq!((never.condition.as_str(), never.unit.as_str()), ("none", "count"));
            assert_eq!(never.quantity, "power.broken_states of power.states: all trials");
            let measured = never.measured.unwrap();
            assert_eq!((measured.value, measured.n, measured.interval), (1.0, trials.len(), None));
            let exists = judged("exists", &trials);
            assert_eq!((exists.verdict, exists.condition.as_str()), (ClaimVerdict::Holds, "at least one"));
        }
    }

    #[test]
    fn what_was_not_seen_is_neither_and_says_in_how_many_logs_and_how_often_it_may_be() {
        let trials: Vec<Evidence> = (0..6).map(|repeat| trial("xfs", repeat, (200, 0))).collect();
        for kind in ["never", "exists"] {
            let found = judged(kind, &trials);
            assert_eq!(found.verdict.words(), "not seen");
            // 1 − 0.05^(1/6); the rule of three says 50 %.
            let said = "not seen in 1,200 distinct states of 6 logs: in at most 39.3 % of logs like these (95 %, one-sided)";
            assert_eq!(found.verdict.reason(), Some(said));
        }
        let one = judged("never", &trials[..1]);
        assert!(one.verdict.reason().unwrap().contains("of 1 log: in at most 95 % of logs"), "{one:?}");
    }

    #[test]
    fn states_of_one_log_are_not_independent_and_the_same_load_again_is_no_other_log() {
        let mut trials: Vec<Evidence> = (0..6).map(|repeat| trial("xfs", repeat, (200, 0))).collect();
        for trial in &mut trials {
            trial.spec["stage"][0]["seed"] = json!(7);
        }
        let found = judged("never", &trials);
        assert!(found.verdict.reason().unwrap().starts_with("not seen in 200 distinct states of 1 log:"));
        // Where it was seen in one of them it was seen.
        trials[3].metrics.get_mut("power.broken_states").unwrap().samples = vec![2.0];
        assert_eq!(judged("never", &trials).verdict, ClaimVerdict::Contradicted);
    }

    #[test]
    fn each_file_system_is_counted_by_itself_and_one_contradiction_needs_no_correction() {
        let mut trials: Vec<Evidence> = (0..3).map(|repeat| trial("xfs", repeat, (200, 0))).collect();
        trials.extend((0..3).map(|repeat| trial("ext4", repeat, (100, 0))));
        let found = judged("never", &trials);
        assert_eq!(found.each.len(), 2);
        assert_eq!(found.verdict.reason(), Some("not seen for ext4, xfs"));
        assert!(found.each.iter().all(|part| part.verdict.words() == "not seen"));
        trials.push(trial("ext4", 3, (100, 1)));
        let found = judged("never", &trials);
        let verdicts: Vec<&str> = found.each.iter().map(|part| part.verdict.words()).collect();
        assert_eq!((found.verdict, verdicts), (ClaimVerdict::Contradicted, vec!["contradicted", "not seen"]));
    }

    #[test]
    fn a_sentence_of_both_kinds_says_what_was_seen_and_what_not() {
        let clause = |kind: &str, metric: &str| {
            let check = json!({"kind": kind, "metric": metric, "of": "power.states"});
            serde_json::from_value(check).unwrap()
        };
        let all = vec![clause("exists", "power.states_2"), clause("never", "power.broken_states")];
        let claim = ClaimSpec { check: None, all, ..claim("never") };
        let mut trials: Vec<Evidence> = (0..3).map(|repeat| trial("ext2", repeat, (200, 0))).collect();
        for trial in &mut trials {
            trial.metrics.insert("power.states_2".to_owned(), trial.metrics["power.states"].clone());
        }
        let found = judge(&claim, &[], &trials, 0.95);
        let reason = "not seen for power.broken_states of power.states: all trials";
        assert_eq!(found.verdict, ClaimVerdict::NotSeen { reason: reason.to_owned() });
        assert_eq!(found.each[0].verdict, ClaimVerdict::Holds);
    }

    #[test]
    fn without_states_or_the_metric_there_is_nothing_to_say() {
        for trials in [
            vec![trial("xfs", 0, (0, 0))],
            vec![Evidence { metrics: BTreeMap::new(), ..trial("xfs", 0, (1, 0)) }],
        ] {
            let found = judged("never", &trials);
            let reason = "no trial counted `power.broken_states` of `power.states`";
            assert_eq!(found.verdict, ClaimVerdict::NotComparable { reason: reason.to_owned() });
        }
    }
}
