//! Which numbers of a trial its warnings make unfit for a verdict.
//!
//! A warning of a measure, a point of fio or of a cluster concerns its numbers; one of a load or a stage concerns everything that is
//! no measure's. What of these it invalidates is the warning's own ([`WarningKind::invalidates`]).

use fsage_model::measure::registry;
use fsage_model::metric;
use fsage_model::record::StageRecord;
use fsage_model::warning::{Invalidates, Warning, WarningKind};

use super::Evidence;

/// Part of the names of latencies.
const LATENCY: &str = "latency";

/// A reason to doubt numbers of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// What was seen.
    pub kind: WarningKind,
    /// The measure or the point that it was seen in; `None`: a load, a stage, or the trial as a whole.
    pub measure: Option<String>,
}

/// The doubts of a trial, of those that invalidate something.
#[must_use]
pub fn of_trial(stages: &[StageRecord], warnings: &[Warning]) -> Vec<Doubt> {
    let results: Vec<_> = stages
        .iter()
        .flat_map(|stage| match stage {
            StageRecord::Measure { results, .. } => results.iter().collect::<Vec<_>>(),
            StageRecord::Lockstep { looks, .. } => {
                looks.iter().flat_map(|look| &look.volumes).flat_map(|volume| &volume.measures).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let points: Vec<_> = stages
        .iter()
        .flat_map(|stage| match stage {
            StageRecord::Fio(fio) => fio.warned(),
            StageRecord::Cluster(cluster) => cluster.warned(),
            _ => Vec::new(),
        })
        .collect();
    // A trial repeats what its measures warned of, in lock-step with the volume before it.
    let of_measure = |warning: &Warning| {
        let same = |own: &Warning| own.kind == warning.kind && warning.message.ends_with(&own.message);
        results.iter().any(|result| result.warnings.iter().any(same))
            || points.iter().any(|(_, warnings)| warnings.iter().any(same))
    };
    let own = warnings.iter().filter(|warning| !of_measure(warning));
    let own = own.map(|warning| Doubt { kind: warning.kind.clone(), measure: None });
    let measured = results.iter().flat_map(|result| {
        let one =
            |warning: &Warning| Doubt { kind: warning.kind.clone(), measure: Some(result.name.clone()) };
        result.warnings.iter().map(one)
    });
    let at_points = points.iter().flat_map(|(point, warnings)| {
        let one = |warning: &Warning| Doubt { kind: warning.kind.clone(), measure: Some(point.clone()) };
        warnings.iter().map(one)
    });
    let mut doubts: Vec<Doubt> = Vec::new();
    for doubt in
        own.chain(measured).chain(at_points).filter(|doubt| doubt.kind.invalidates() != Invalidates::Nothing)
    {
        if !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }
    doubts
}

/// Why a metric of these trials is unfit for a verdict, in a sentence.
#[must_use]
pub fn invalidated(trials: &[&Evidence], metric: &str) -> Option<String> {
    let first = trials.iter().find_map(|trial| kind_against(trial, metric))?;
    let count = trials.iter().filter(|trial| kind_against(trial, metric).is_some()).count();
    Some(format!("`{first}` invalidates `{metric}` in {count} of {} trials", trials.len()))
}

/// Whether a trial says that its full volume was not full, which a metric compares.
#[must_use]
pub fn is_not_full(trial: &Evidence, metric: &str) -> bool {
    let is_of = |doubt: &&Doubt| doubt.kind.invalidates() == Invalidates::Fullness;
    trial.doubts.iter().filter(is_of).any(|doubt| doubt.covers(trial, metric))
}

/// What makes a metric of a trial unfit.
fn kind_against<'a>(trial: &'a Evidence, metric: &str) -> Option<&'a WarningKind> {
    trial.doubts.iter().find(|doubt| doubt.covers(trial, metric)).map(|doubt| &doubt.kind)
}

impl Doubt {
    fn covers(&self, trial: &Evidence, metric: &str) -> bool {
        // Latencies are of operations, some of which are called as measures are.
        let parts: Vec<&str> = metric.split('.').collect();
        let begins = |name: &str| metric.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let named = |name: &str| !parts.contains(&LATENCY) && (parts.contains(&name) || begins(name));
        let invalidates = self.kind.invalidates();
        let concerns = match &self.measure {
            Some(measure) => named(measure) || is_ratio_to(measure, trial, metric),
            None => {
                matches!(invalidates, Invalidates::Everything | Invalidates::Fullness)
                    || !registry().iter().any(|line| named(line.name))
            }
        };
        concerns && is_of(invalidates, trial, metric)
    }
}

/// Whether a number of a point is its ratio to the point with this name.
fn is_ratio_to(other: &str, trial: &Evidence, name: &str) -> bool {
    let Some((stage, point, number)) = metric::point_parts(name) else { return false };
    let largest = || {
        let points = trial.metrics.keys().filter_map(|name| metric::point_parts(name));
        let blocks = points.filter(|(own, ..)| *own == stage).map(|(_, one, _)| one.bs);
        blocks.max().unwrap_or(point.bs)
    };
    metric::divisor(number, &point, largest).is_some_and(|base| base.to_string() == other)
}

/// Whether a metric is of what is invalidated.
fn is_of(invalidates: Invalidates, trial: &Evidence, name: &str) -> bool {
    const TIMES: [&str; 6] = ["ns", "s", "s/GiB", "bytes/s", "1/s", "B/s"];
    const REQUESTS: [&str; 3] = ["_requests", "layout_score", "sequential_read_share"];
    let unit = trial.metrics.get(name).map_or("", |series| series.unit.as_str());
    // Ratios between volumes are those of times.
    let ratio = unit == "ratio";
    match invalidates {
        Invalidates::Nothing => false,
        Invalidates::WallTimes => TIMES.contains(&unit) || (ratio && !trial.is_model()),
        Invalidates::Times => TIMES.contains(&unit) || unit.contains("model ") || ratio,
        Invalidates::Tails => [metric::P999_NS, metric::MAX_NS].iter().any(|tail| name.ends_with(tail)),
        Invalidates::FreeSpace => name.split('.').any(|part| part == "free"),
        Invalidates::Requests => REQUESTS.iter().any(|end| name.ends_with(end)),
        Invalidates::Fullness => is_of_fullness(trial, name),
        Invalidates::Everything => true,
    }
}

/// Whether a metric compares the leader of the trial's lock-step with another volume.
fn is_of_fullness(trial: &Evidence, name: &str) -> bool {
    let stages = trial.spec.get("stage").and_then(serde_json::Value::as_array);
    let leader = stages
        .into_iter()
        .flatten()
        .find(|stage| stage.get("kind").is_some_and(|kind| kind == "lockstep"))
        .and_then(|stage| stage.get("leader")?.as_str())
        .unwrap_or("full");
    match metric::over_parts(name) {
        Some((above, ..)) => above == leader,
        None => name.starts_with(&metric::use_over_fullness("")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::*;
    use serde_json::json;

    fn trial(doubt: Doubt, model: bool) -> Evidence {
        let mut trial = Evidence { doubts: vec![doubt], ..Evidence::default() };
        let unit = |unit: &str| if model { format!("model {unit}") } else { unit.to_owned() };
        for (name, unit) in [
            ("latency.create.mean_ns", unit("ns")),
            ("latency.create.p999_ns", unit("ns")),
            ("grep", unit("s/GiB")),
            ("grep.read_requests", "count".to_owned()),
            ("full_over_empty.grep", "ratio".to_owned()),
            ("full_over_empty.write", "ratio".to_owned()),
            ("free.extents", "count".to_owned()),
            ("layout.score", "share".to_owned()),
        ] {
            trial.metrics.insert(name.to_owned(), Series { unit, ..Series::default() });
        }
        if model {
            trial.spec = json!({"volume": {"kind": "disk", "time": "model"}});
        }
        trial
    }

    fn covered(kind: WarningKind, measure: Option<&str>, model: bool) -> Vec<String> {
        let trial = trial(Doubt { kind, measure: measure.map(str::to_owned) }, model);
        trial.metrics.keys().filter(|name| invalidated(&[&trial], name).is_some()).cloned().collect()
    }

    #[test]
    fn a_warning_invalidates_what_it_is_about_and_nothing_else() {
        use WarningKind::{CacheTooLarge, CpuBound, FragmentationEstimate, NotInPlace, TooFewSamples};
        let load = ["full_over_empty.write", "latency.create.mean_ns", "latency.create.p999_ns"];
        assert_eq!(covered(CpuBound, None, false), load);
        assert_eq!(covered(CpuBound, Some("grep"), false), ["full_over_empty.grep", "grep"]);
        assert_eq!(covered(CpuBound, Some("walk"), false), [""; 0]);
        assert_eq!(covered(CpuBound, None, true), [""; 0]);
        assert_eq!(covered(CacheTooLarge, None, true), load);
        assert_eq!(covered(TooFewSamples, None, false), ["latency.create.p999_ns"]);
        assert_eq!(covered(FragmentationEstimate, None, false), ["free.extents"]);
        assert_eq!(covered(NotInPlace, None, true).len(), 8);
        assert_eq!(
            covered(WarningKind::NotFull, None, true),
            ["full_over_empty.grep", "full_over_empty.write"]
        );
        let two = trial(Doubt { kind: CpuBound, measure: None }, false);
        let fine = Evidence { doubts: Vec::new(), ..two.clone() };
        let said = invalidated(&[&fine, &two], "latency.create.mean_ns").unwrap();
        assert_eq!(said, "`cpu-bound` invalidates `latency.create.mean_ns` in 1 of 2 trials");
    }

    #[test]
    fn a_warning_of_a_point_is_one_of_what_is_divided_by_it() {
        let doubt = |point: &str| Doubt { kind: WarningKind::ShortPoint, measure: Some(point.to_owned()) };
        let unfit = |point: &str| {
            let mut trial = Evidence { doubts: vec![doubt(point)], ..Evidence::default() };
            for (name, unit) in [
                ("read-4k-libaio-d8-j1-f1.iops", "1/s"),
                ("read-4k-libaio-d8-j1-f1.over_depth_1", "ratio"),
                ("read-4k-libaio-d1-j1-f1.iops", "1/s"),
                ("read-4k-libaio-d1-j1-f1.over_largest_block", "ratio"),
                ("read-4m-libaio-d1-j1-f1.iops", "1/s"),
                ("later.read-4k-libaio-d1-j1-f9.over_files_1", "ratio"),
            ] {
                trial.metrics.insert(name.to_owned(), Series { unit: unit.to_owned(), ..Series::default() });
            }
            let all = trial.metrics.keys();
            all.filter(|name| invalidated(&[&trial], name).is_some()).cloned().collect::<Vec<_>>()
        };
        assert_eq!(unfit("read-4k-libaio-d8-j1-f1").len(), 2);
        assert_eq!(
            unfit("read-4k-libaio-d1-j1-f1"),
            [
                "later.read-4k-libaio-d1-j1-f9.over_files_1",
                "read-4k-libaio-d1-j1-f1.iops",
                "read-4k-libaio-d1-j1-f1.over_largest_block",
                "read-4k-libaio-d8-j1-f1.over_depth_1"
            ]
        );
        assert_eq!(
            unfit("read-4m-libaio-d1-j1-f1"),
            ["read-4k-libaio-d1-j1-f1.over_largest_block", "read-4m-libaio-d1-j1-f1.iops"]
        );
    }

    #[test]
    fn what_a_measure_warned_of_is_the_measures() {
        let warning = |kind: WarningKind, message: &str| Warning { kind, message: message.to_owned() };
        let own = warning(WarningKind::CpuBound, "the thread was busy");
        let result = fsage_model::measure::MeasureResult {
            name: "walk".to_owned(),
            warnings: vec![own.clone()],
            ..Default::default()
        };
        let stage = StageRecord::Measure {
            name: "measure".to_owned(),
            results: vec![result],
            left_out: Vec::new(),
            before: Box::default(),
            free_before: None,
            after: Box::default(),
            free_after: None,
        };
        let noted = [
            own,
            warning(WarningKind::CpuBound, "the load was busy"),
            warning(WarningKind::Fsck, "no checker"),
        ];
        let doubts = of_trial(&[stage], &noted);
        let of = |measure: Option<&str>| Doubt {
            kind: WarningKind::CpuBound,
            measure: measure.map(str::to_owned),
        };
        assert_eq!(doubts, [of(None), of(Some("walk"))]);
    }
}
