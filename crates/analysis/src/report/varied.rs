//! The trials as they would have been on a medium with one parameter changed, as far as the study priced them on one
//! (`price` in a study, [`fsage_model::priced`]): what verdicts are judged by again, to find those that hang on a
//! parameter of the model.
//!
//! A variation is a medium that the trial's log was priced on and that differs from the one recorded in one number, by at
//! most `REACH`. The headline of each measure is multiplied by priced ÷ recorded of its part of the log (divided where
//! it is a rate); ratios between the volumes of a `lockstep` stage follow from those of their volumes. Everything else
//! stays as it was measured: what the kernel would have asked otherwise on that medium is not known.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::medium::MediumSpec;
use fsage_model::metric::over_parts;
use fsage_model::priced::PricedLog;
use fsage_model::quantity::as_f64;
use serde_json::Value;

use super::view::View;
use crate::stats::{Evidence, Varied};

/// How far a parameter may be from its value, as a share of it; a little more, because values are whole numbers.
const REACH: f64 = 0.21;

/// Every variation that any trial was priced on, with all trials as they would have been on it.
pub(super) fn all(view: &View) -> Vec<Varied> {
    let logs = || view.trials.iter().flat_map(|trial| &trial.priced);
    let media = |log: &PricedLog| -> Vec<String> {
        let known = log.media.iter().filter_map(|on| change(&log.recorded_on, &on.medium));
        known.collect()
    };
    let changes: BTreeSet<String> = logs().flat_map(media).collect();
    let on = |change: &String| {
        let trials = view.trials.iter().zip(&view.evidence);
        let trials = trials.map(|(trial, evidence)| priced(evidence, &trial.priced, change));
        Varied { what: change.clone(), trials: trials.collect() }
    };
    changes.iter().map(on).collect()
}

/// In which one number a medium differs from another, in words: `rpm = 5760 (hdd-7200: 7200)`; `None` where it is no
/// variation of it.
fn change(of: &str, medium: &str) -> Option<String> {
    let (of, medium): (MediumSpec, MediumSpec) = (of.parse().ok()?, medium.parse().ok()?);
    if of.preset().name != medium.preset().name {
        return None;
    }
    let (own, other) = (of.parameters(), medium.parameters());
    let mut differ = own.iter().zip(&other).filter(|(own, other)| own.value != other.value);
    let (own, other) = (differ.next()?, differ.next());
    let (Ok(before), Ok(after)) = (own.0.value.parse::<u64>(), own.1.value.parse::<u64>()) else {
        return None;
    };
    let near = (as_f64(after) / as_f64(before) - 1.0).abs() <= REACH;
    // Not all that a medium has is a parameter: its place on the drive is none.
    let alone =
        format!("{of},{}={after}", own.0.key).parse::<MediumSpec>().is_ok_and(|alone| alone == medium);
    (other.is_none() && near && alone)
        .then(|| format!("{} = {after} ({}: {before})", own.0.key, of.preset().name))
}

/// A trial with its measures as they were priced under that change; where it was not, as they are.
fn priced(trial: &Evidence, logs: &[PricedLog], wanted: &str) -> Evidence {
    let mut varied = trial.clone();
    let factors = factors(logs, wanted);
    if factors.is_empty() {
        return varied;
    }
    let stages = Stages::of(&trial.spec);
    for (name, series) in &mut varied.metrics {
        let Some(factor) = stages.factor(name, &factors) else { continue };
        // Rates are the inverse of times.
        let factor = if series.larger_is_worse == Some(false) { 1.0 / factor } else { factor };
        series.samples.iter_mut().for_each(|sample| *sample *= factor);
        series.blocks.iter_mut().for_each(|block| block.value *= factor);
    }
    varied
}

/// Priced ÷ recorded by log and mark.
type Factors = BTreeMap<(String, String), f64>;

fn factors(logs: &[PricedLog], wanted: &str) -> Factors {
    let mut sums: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for log in logs {
        let fits = |medium: &str| change(&log.recorded_on, medium).as_deref() == Some(wanted);
        for part in log.media.iter().filter(|on| fits(&on.medium)).flat_map(|on| &on.parts) {
            let sum = sums.entry((log.file.clone(), part.mark.clone())).or_default();
            *sum = (sum.0.saturating_add(part.recorded_ns), sum.1.saturating_add(part.total_ns));
        }
    }
    let ratio = |(key, (recorded, total)): (_, (u64, u64))| {
        (recorded > 0 && total > 0).then(|| (key, as_f64(total) / as_f64(recorded)))
    };
    sums.into_iter().filter_map(ratio).collect()
}

/// What metrics are called after.
struct Stages {
    /// `measure` stages in order.
    measures: Vec<String>,
    /// The `lockstep` stage and its leader.
    lockstep: Option<(String, String)>,
}

impl Stages {
    fn of(spec: &Value) -> Self {
        let stages = spec.get("stage").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let text = |stage: &Value, key: &str| stage.get(key).and_then(Value::as_str).map(str::to_owned);
        let named = |kind: &'static str| {
            stages.iter().filter(move |stage| text(stage, "kind").as_deref() == Some(kind)).map(
                move |stage| {
                    (
                        text(stage, "name").unwrap_or_else(|| kind.to_owned()),
                        text(stage, "leader").unwrap_or_default(),
                    )
                },
            )
        };
        Self {
            measures: named("measure").map(|(name, _)| name).collect(),
            lockstep: named("lockstep").next(),
        }
    }

    /// By how much a metric would have been another.
    fn factor(&self, metric: &str, factors: &Factors) -> Option<f64> {
        if let Some((above, below, measure)) = over_parts(metric) {
            return self.over(above, below, measure, factors);
        }
        let (before, measure) = metric.rsplit_once('.').unwrap_or(("", metric));
        if let Some(volume) = self.volume(before, measure, factors) {
            return Some(volume);
        }
        let first = self.measures.first().filter(|_| before.is_empty());
        let stage = first.or_else(|| self.measures.iter().find(|name| *name == before))?;
        factors.get(&("requests.log".to_owned(), format!("{stage} {measure}"))).copied()
    }

    /// Of a measure on a volume of the `lockstep` stage; the leader's log has no name of its own.
    fn volume(&self, volume: &str, measure: &str, factors: &Factors) -> Option<f64> {
        let (stage, leader) = self.lockstep.as_ref()?;
        let is_of = |file: &str| {
            (volume == leader && file == "requests.log")
                || file.strip_suffix(".log").is_some_and(|name| name.ends_with(&format!("-{volume}")))
        };
        let mark = format!("{stage} {measure}");
        let mut found = factors.iter().filter(|((file, own), _)| is_of(file) && *own == mark);
        found.next().map(|(_, factor)| *factor)
    }

    /// Of a ratio between two volumes, or between two stages of measures.
    fn over(&self, above: &str, below: &str, measure: &str, factors: &Factors) -> Option<f64> {
        let side = |name: &str| {
            let staged = || factors.get(&("requests.log".to_owned(), format!("{name} {measure}"))).copied();
            self.volume(name, measure, factors).or_else(staged)
        };
        Some(side(above)? / side(below)?)
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::priced::{PricedOn, PricedPart};
    use serde_json::json;

    use super::*;
    use crate::stats::Series;

    fn log(file: &str, medium: &str, parts: &[(&str, u64, u64)]) -> PricedLog {
        let part = |(mark, recorded_ns, total_ns): &(&str, u64, u64)| PricedPart {
            mark: (*mark).to_owned(),
            requests: 1,
            recorded_ns: *recorded_ns,
            total_ns: *total_ns,
        };
        let on = PricedOn {
            medium: medium.to_owned(),
            parts: parts.iter().map(part).collect(),
            ..PricedOn::default()
        };
        PricedLog {
            file: file.to_owned(),
            recorded_on: "hdd-7200".to_owned(),
            media: vec![on],
            ..PricedLog::default()
        }
    }

    #[test]
    fn a_variation_differs_in_one_number_by_a_fifth() {
        assert_eq!(change("hdd-7200", "hdd-7200,rpm=5760").as_deref(), Some("rpm = 5760 (hdd-7200: 7200)"));
        for other in
            ["hdd-7200", "hdd-7200,rpm=3600", "hdd-10k", "ssd", "hdd-7200,rpm=5760,at=inner", "no medium"]
        {
            assert_eq!(change("hdd-7200", other), None, "{other}");
        }
    }

    #[test]
    fn measures_are_as_their_part_of_the_log_was_priced() {
        let series = |larger_is_worse, value: f64| Series {
            larger_is_worse: Some(larger_is_worse),
            samples: vec![value],
            ..Series::default()
        };
        let metrics = [
            ("grep", true),
            ("grep.throughput", false),
            ("walk", true),
            ("after.grep", true),
            ("after_over_before.grep", true),
            ("create", false),
        ];
        let trial = Evidence {
            spec: json!({"stage": [
                {"kind": "age"}, {"kind": "measure", "name": "before"}, {"kind": "measure", "name": "after"},
            ]}),
            metrics: metrics.iter().map(|(name, worse)| ((*name).to_owned(), series(*worse, 12.0))).collect(),
            ..Evidence::default()
        };
        let parts =
            [("before grep", 100, 150), ("after grep", 100, 120), ("before create", 100, 200), ("", 5, 50)];
        let logs = [log("requests.log", "hdd-7200,rpm=5760", &parts)];
        let varied = priced(&trial, &logs, "rpm = 5760 (hdd-7200: 7200)");
        let value = |name: &str| varied.metrics[name].samples[0];
        assert!((value("grep") - 18.0).abs() < 1e-9 && (value("after.grep") - 14.4).abs() < 1e-9);
        assert!((value("create") - 6.0).abs() < 1e-9, "a rate");
        assert!((value("after_over_before.grep") - 9.6).abs() < 1e-9);
        // What was not priced, or is no headline, stays.
        assert_eq!(
            (value("walk").to_bits(), value("grep.throughput").to_bits()),
            (12.0_f64.to_bits(), 12.0_f64.to_bits())
        );
        assert_eq!(priced(&trial, &logs, "another"), trial);
    }

    #[test]
    fn ratios_between_volumes_follow_their_volumes() {
        let trial = Evidence {
            spec: json!({"stage": [{"kind": "lockstep", "leader": "full"}]}),
            metrics: ["full.grep", "empty.grep", "full_over_empty.grep"]
                .iter()
                .map(|name| ((*name).to_owned(), Series { samples: vec![1.0], ..Series::default() }))
                .collect(),
            ..Evidence::default()
        };
        let medium = "hdd-7200,rpm=8640";
        // A mark comes back at every look: what was taken in all counts.
        let logs = [
            log("requests.log", medium, &[("lockstep grep", 50, 70), ("lockstep grep", 50, 80)]),
            log("requests-lockstep-empty.log", medium, &[("lockstep grep", 100, 120)]),
        ];
        let varied = priced(&trial, &logs, "rpm = 8640 (hdd-7200: 7200)");
        let value = |name: &str| varied.metrics[name].samples[0];
        assert!((value("full.grep") - 1.5).abs() < 1e-9 && (value("empty.grep") - 1.2).abs() < 1e-9);
        assert!((value("full_over_empty.grep") - 1.25).abs() < 1e-9);
    }
}
