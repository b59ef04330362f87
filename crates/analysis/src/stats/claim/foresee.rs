//! Which claims a study as it is planned cannot judge, and why: said before hours are spent.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::load::tick_operations;
use fsage_model::number::grouped;
use fsage_model::study::{ClaimCheck, ClaimSpec};
use serde_json::Value;

use super::{concerned, given, missing, pairs, split};
use crate::stats::Evidence;
use crate::stats::evidence::SEEDS;

/// Ticks that a trend takes: each quarter of them gives [`crate::stats::evidence::BLOCKS`] blocks of two.
const TREND_TICKS: u64 = 64;

/// The trials of a cell as they are planned, without results. More repeats than a verdict takes change nothing
/// and are left out.
#[must_use]
pub fn planned(factors: &BTreeMap<String, Value>, spec: &Value, repeats: u32) -> Vec<Evidence> {
    let one =
        |repeat| Evidence { factors: factors.clone(), spec: spec.clone(), repeat, ..Evidence::default() };
    (0..repeats.min(u32::try_from(SEEDS).unwrap_or(u32::MAX))).map(one).collect()
}

/// Why the planned trials cannot judge a claim; `None` where they can, and where the study does not test it.
/// `values` are as for [`super::judge`].
#[must_use]
pub fn foresee(claim: &ClaimSpec, values: &[Value], planned: &[Evidence]) -> Option<String> {
    let each = claim.each.as_deref().filter(|_| !values.is_empty());
    claim.clauses().find_map(|check| {
        let parts = split(planned, values, each, check);
        parts.iter().find_map(|(_, trials)| of_clause(claim, check, trials))
    })
}

fn of_clause(claim: &ClaimSpec, check: &ClaimCheck, trials: &[Evidence]) -> Option<String> {
    let concerned = concerned(trials, check);
    let sides: Vec<_> = check.sides().into_iter().map(|(_, cells)| cells).collect();
    let lacking = match check {
        ClaimCheck::Ratio { numerator, denominator, .. } => pairs(trials, numerator, denominator).is_empty(),
        ClaimCheck::Value { .. }
        | ClaimCheck::Trend { .. }
        | ClaimCheck::Never { .. }
        | ClaimCheck::Exists { .. } => concerned.is_empty(),
    };
    if lacking {
        return Some(missing("trial", trials, &sides));
    }
    if let Some(reason) = claim.given.as_ref().and_then(|given| given::unmet_by_plan(given, &concerned)) {
        return Some(reason);
    }
    if check.counts().is_some() {
        // One trial can decide it, or say where it was not seen.
        return None;
    }
    let seeds = concerned.iter().map(|trial| trial.repeat).collect::<BTreeSet<_>>().len();
    if seeds < SEEDS {
        return Some(format!("{seeds} of {SEEDS} repeats needed for a verdict (`repeats`)"));
    }
    match check {
        ClaimCheck::Trend { .. } => concerned.iter().find_map(|trial| too_short(trial)),
        ClaimCheck::Ratio { .. }
        | ClaimCheck::Value { .. }
        | ClaimCheck::Never { .. }
        | ClaimCheck::Exists { .. } => None,
    }
}

/// Why the latency over time of a trial is too short for a trend, where its operations are known.
fn too_short(trial: &Evidence) -> Option<String> {
    let stages = trial.spec.get("stage").and_then(Value::as_array)?;
    let stage = stages.iter().find(|stage| stage.get("kind").and_then(Value::as_str) == Some("age"))?;
    let operations = stage.get("stop")?.get("operations")?.as_u64()?;
    let each = tick_operations(Some(operations));
    let ticks = operations / each;
    (ticks < TREND_TICKS).then(|| {
        let name = stage.get("name").and_then(Value::as_str).unwrap_or("age");
        let least = grouped(TREND_TICKS * each);
        format!("{ticks} ticks of the {TREND_TICKS} that a trend takes (`stage.{name}.stop.operations`, at least {least})")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stats::evidence::BLOCKS;

    fn study(operations: u64, repeats: u32) -> Vec<Evidence> {
        let spec = json!({
            "volume": {"kind": "disk", "medium": "hdd-7200", "size": "1GiB"},
            "stage": [{"kind": "age", "name": "age", "stop": {"operations": operations}}],
        });
        let cell = |kind: &str| {
            planned(&BTreeMap::from([("file_system.kind".to_owned(), json!(kind))]), &spec, repeats)
        };
        [cell("ext4"), cell("xfs")].concat()
    }

    fn claim(check: &Value) -> ClaimSpec {
        ClaimSpec { check: Some(serde_json::from_value(check.clone()).unwrap()), ..ClaimSpec::default() }
    }

    #[test]
    fn what_a_plan_cannot_judge_is_said_beforehand() {
        assert_eq!(usize::try_from(TREND_TICKS).unwrap(), 8 * BLOCKS);
        let trend = claim(&json!({"kind": "trend", "operation": "create", "above": 1.0}));
        // The quick study of before: 60 ticks.
        let said = foresee(&trend, &[], &study(30_000, 3)).unwrap();
        assert_eq!(
            said,
            "60 ticks of the 64 that a trend takes (`stage.age.stop.operations`, at least 32,000)"
        );
        assert_eq!(foresee(&trend, &[], &study(32_000, 3)), None);
        let said = foresee(&trend, &[], &study(32_000, 2)).unwrap();
        assert_eq!(said, "2 of 3 repeats needed for a verdict (`repeats`)");
        let side = |kind: &str| json!({"file_system.kind": kind});
        let ratio = |kind: &str| {
            claim(
                &json!({"kind": "ratio", "metric": "m", "numerator": side(kind), "denominator": side("ext4"), "above": 1.0}),
            )
        };
        assert_eq!(foresee(&ratio("xfs"), &[], &study(1, 5)), None);
        assert_eq!(foresee(&ratio("btrfs"), &[], &study(1, 5)).unwrap(), "no trial has kind = btrfs");
        let never =
            |kind: &str| claim(&json!({"kind": "never", "metric": "m", "of": "all", "where": side(kind)}));
        assert_eq!(foresee(&never("xfs"), &[], &study(1, 1)), None, "one trial is enough");
        assert_eq!(foresee(&never("btrfs"), &[], &study(1, 5)).unwrap(), "no trial has kind = btrfs");
        let given =
            |text: Value| ClaimSpec { given: Some(serde_json::from_value(text).unwrap()), ..ratio("xfs") };
        assert_eq!(
            foresee(&given(json!({"medium": ["hdd-7200", "ssd"], "time": "model"})), &[], &study(1, 3)),
            None
        );
        for (conditions, why) in [
            (json!({"medium": ["hdd-10k"]}), "a condition is not met: the medium is hdd-7200, not hdd-10k"),
            (json!({"time": "wall"}), "a condition is not met: times are of a model, not by wall-clock time"),
            (
                json!({"size": {"at_least": "100GiB"}}),
                "a condition is not met: the volume has 1 GiB, not at least 100 GiB",
            ),
            (
                json!({"settings": {"stage.age.write_mode": ["direct"]}}),
                "a condition is not met: `stage.age.write_mode` is not given, not direct",
            ),
        ] {
            assert_eq!(foresee(&given(conditions), &[], &study(1, 3)).unwrap(), why);
        }
        // What only results tell is not foreseen.
        assert_eq!(foresee(&given(json!({"latency": {"at_least": 1e6}})), &[], &study(1, 3)), None);
        assert_eq!(
            foresee(&ClaimSpec { not_tested: "no".to_owned(), ..ClaimSpec::default() }, &[], &[]),
            None
        );
    }
}
