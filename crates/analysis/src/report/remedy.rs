//! Remedies: each measure after a remedy against the same measure before it, against the untreated volume,
//! against a fresh copy, and after further use.
//!
//! Trials that differ in the remedy alone began with the same image, seed by seed, so they are pairs. A measure
//! that did other work after the remedy than before it (files were deleted) has no ratio.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::metric;
use fsage_model::reading::Records;
use serde_json::{Value, json};

use super::difference::{FALSE_DISCOVERIES, Finding, finding};
use super::view::{self, View};
use super::{ReportError, ReportOptions, factor};
use crate::stats::benjamini_hochberg::adjusted;
use crate::stats::claim::pairs;
use crate::stats::evidence::{level, ratio};
use crate::stats::{Estimate, Evidence, Interval, work};

/// The control.
const CONTROL: &str = "none";
/// The remedy that leaves no age.
const COPY: &str = "copy";

/// A remedy in one place: on a file system, a medium, with one setting of the other factors.
#[derive(Debug, Clone)]
pub struct Remedied {
    /// File system, medium and other factors in words.
    pub place: String,
    /// Name of the file system.
    pub file_system: String,
    /// The medium, where it is a factor; else empty.
    pub medium: String,
    /// The method, as a study has it.
    pub method: String,
    /// Complete trials.
    pub trials: usize,
    /// What it did to each measure.
    pub measures: Vec<Helped>,
    /// What it took.
    pub cost: Cost,
}

/// What a remedy did to a measure. Ratios of the measure's headline; mostly times, of which less is better.
#[derive(Debug, Clone)]
pub struct Helped {
    /// The measure.
    pub measure: String,
    /// Whether a larger ratio is worse.
    pub larger_is_worse: Option<bool>,
    /// After the remedy ÷ before it; nothing where the work was not the same.
    pub gain: Option<Estimate>,
    /// After it ÷ after the control.
    pub against_control: Option<Estimate>,
    /// After it ÷ after a copy to a fresh volume.
    pub against_copy: Option<Estimate>,
    /// After further use ÷ the control after the same use.
    pub later: Option<Estimate>,
    /// What the interval of `against_control` says, corrected for the number of comparisons (Benjamini &
    /// Hochberg 1995).
    pub finding: Finding,
}

/// What a remedy took: means over trials (geometric ones, as of all that is above 0).
#[derive(Debug, Clone, Default)]
pub struct Cost {
    /// Time by the device's clock.
    pub elapsed: Option<(f64, String)>,
    /// Bytes read from the device.
    pub read_bytes: Option<f64>,
    /// Bytes written to the device.
    pub written_bytes: Option<f64>,
    /// Bytes written to flash, where the medium counts them.
    pub flash_bytes: Option<f64>,
    /// Blocks of flash that were erased, where the medium counts them.
    pub erases: Option<f64>,
}

/// Names of a trial's stages around its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Around {
    /// The `remedy` stage.
    remedy: String,
    /// The `measure` stage before it.
    before: String,
    /// The first one after it.
    after: String,
    /// The second one after it.
    later: Option<String>,
}

impl Around {
    /// Of a trial that has a remedy between two measurements.
    fn of(trial: &Evidence) -> Option<Self> {
        let stages = trial.spec.get("stage")?.as_array()?;
        let of = |stage: &Value, key: &str| stage.get(key).and_then(Value::as_str).map(str::to_owned);
        let named = stages.iter().filter_map(|stage| {
            let kind = of(stage, "kind")?;
            let name = of(stage, "name").unwrap_or_else(|| kind.clone());
            trial.applies(&format!("stage.{name}.kind")).then_some((kind, name))
        });
        let named: Vec<(String, String)> = named.collect();
        let at = named.iter().position(|(kind, _)| kind == "remedy")?;
        let measure = |(kind, name): &(String, String)| (kind == "measure").then(|| name.clone());
        let mut after = named[at..].iter().filter_map(measure);
        Some(Self {
            remedy: named[at].1.clone(),
            before: named[..at].iter().rev().find_map(measure)?,
            after: after.next()?,
            later: after.next(),
        })
    }

    /// The factor that tells the remedies apart.
    fn path(&self) -> String {
        format!("stage.{}.method", self.remedy)
    }
}

/// Every remedy of every place, as the study's records have it.
///
/// # Errors
/// As [`super::render`].
pub fn measured(records: &dyn Records, options: &ReportOptions) -> Result<Vec<Remedied>, ReportError> {
    Ok(all(&view::load(records, options)?))
}

/// Every remedy of every place.
pub(super) fn all(view: &View) -> Vec<Remedied> {
    of(&view.evidence, view.confidence)
}

fn of(evidence: &[Evidence], confidence: f64) -> Vec<Remedied> {
    let Some(around) = evidence.iter().find_map(Around::of) else { return Vec::new() };
    let path = around.path();
    let mut places: BTreeMap<String, BTreeMap<String, Vec<&Evidence>>> = BTreeMap::new();
    for trial in evidence.iter().filter(|trial| Around::of(trial).as_ref() == Some(&around)) {
        let Some(method) = trial.factor(&path).and_then(Value::as_str) else { continue };
        let place = place(trial, &path);
        places.entry(place).or_default().entry(method.to_owned()).or_default().push(trial);
    }
    let mut found = Vec::new();
    for (place, methods) in &places {
        for (method, trials) in methods {
            let Some(first) = trials.first() else { continue };
            let measures = measures(trials, &around);
            let side = |method: &str| methods.get(method).map_or(&[][..], Vec::as_slice);
            let compared = |measure| helped(measure, method, trials, &side, &around, confidence);
            let text =
                |path: &str| first.factor(path).map(|value| factor::value(path, value)).unwrap_or_default();
            found.push(Remedied {
                place: place.clone(),
                file_system: text(factor::FILE_SYSTEM),
                medium: first.factors.get(factor::MEDIUM).map(|_| text(factor::MEDIUM)).unwrap_or_default(),
                method: method.clone(),
                trials: trials.len(),
                measures: measures.into_iter().map(compared).collect(),
                cost: cost(trials, &around.remedy, confidence),
            });
        }
    }
    correct(&mut found);
    found.sort_by_key(|one| (one.place.clone(), order(&one.method), one.method.clone()));
    found
}

/// The control first.
fn order(method: &str) -> usize {
    ["none", "defragment", "balance", "fstrim"].iter().position(|known| *known == method).unwrap_or(4)
}

fn place(trial: &Evidence, path: &str) -> String {
    let without = BTreeSet::from([path, factor::FILE_SYSTEM]);
    let file_system = trial.factor(factor::FILE_SYSTEM).and_then(Value::as_str).unwrap_or_default();
    let rest = factor::context(&trial.factors, &without);
    if rest.is_empty() { file_system.to_owned() } else { format!("{file_system}, {rest}") }
}

/// Measures that were taken after the remedy, the first ones of the study first.
fn measures(trials: &[&Evidence], around: &Around) -> Vec<String> {
    let prefix = format!("{}.", around.after);
    let names = trials.iter().flat_map(|trial| trial.metrics.keys());
    let headlines =
        names.filter_map(|name| name.strip_prefix(&prefix)).filter(|name| metric::is_headline(name));
    headlines.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

fn helped<'a>(
    measure: String,
    method: &str,
    trials: &[&Evidence],
    side: &dyn Fn(&str) -> &'a [&'a Evidence],
    around: &Around,
    confidence: f64,
) -> Helped {
    let gain_name = metric::over(&around.after, &around.before, &measure);
    let gain = level(trials, &gain_name, confidence);
    let against = |other: &str, stage: &str| {
        // What deletes files leaves other work than what does not.
        if other == method || gain.is_none() {
            return None;
        }
        let name = format!("{stage}.{measure}");
        let others = side(other);
        let all: Vec<Evidence> = trials.iter().chain(others).map(|trial| (*trial).clone()).collect();
        let cells = |method: &str| BTreeMap::from([(around.path(), json!(method))]);
        let pairs = pairs(&all, &cells(method), &cells(other));
        let same = pairs.iter().all(|(a, b)| work::same(a, b, &name));
        if same { ratio(&pairs, &name, confidence) } else { None }
    };
    let against_control = against(CONTROL, &around.after);
    let larger_is_worse = trials.iter().find_map(|trial| trial.metrics.get(&gain_name)?.larger_is_worse);
    Helped {
        finding: against_control.as_ref().map_or(Finding::NoEvidence, |one| finding(one, larger_is_worse)),
        against_copy: against(COPY, &around.after),
        later: around.later.as_ref().and_then(|later| against(CONTROL, later)),
        against_control,
        larger_is_worse,
        gain,
        measure,
    }
}

/// Takes back findings that do not survive the number of comparisons made.
fn correct(found: &mut [Remedied]) {
    let measures: Vec<&mut Helped> = found.iter_mut().flat_map(|one| &mut one.measures).collect();
    let p: Vec<f64> = measures
        .iter()
        .filter_map(|one| one.against_control.as_ref())
        .map(|estimate| estimate.p.unwrap_or(1.0))
        .collect();
    let adjusted = adjusted(&p);
    for (one, p) in measures.into_iter().filter(|one| one.against_control.is_some()).zip(adjusted) {
        if p > FALSE_DISCOVERIES && one.finding != Finding::OneRun {
            one.finding = Finding::NoEvidence;
        }
    }
}

fn cost(trials: &[&Evidence], remedy: &str, confidence: f64) -> Cost {
    let name = |what: &str| format!("{remedy}.{what}");
    let mean = |what: &str| level(trials, &name(what), confidence).map(|estimate| estimate.value);
    let unit = || trials.iter().find_map(|trial| trial.metrics.get(&name(metric::REMEDY_ELAPSED_S)));
    Cost {
        elapsed: mean(metric::REMEDY_ELAPSED_S).zip(unit().map(|series| series.unit.clone())),
        read_bytes: mean(metric::REMEDY_READ_BYTES),
        written_bytes: mean(metric::REMEDY_WRITTEN_BYTES),
        flash_bytes: mean("disk_flash_write_bytes"),
        erases: mean("disk_erases"),
    }
}

/// A ratio with its interval: `×0.62 [0.58, 0.66]`; `×0.62 (no interval)` where there is none.
#[must_use]
pub fn in_words(estimate: &Estimate) -> String {
    use super::text::{ratio, significant};
    match estimate.interval {
        Some(Interval { low, high }) => {
            format!("{} [{}, {}]", ratio(estimate.value), significant(low), significant(high))
        }
        None => format!("{} (no interval)", ratio(estimate.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Series;

    /// A trial of a seed in which `grep` took 100 before and so much after the remedy and after further use.
    fn trial(method: &str, seed: u32, after: f64, later: f64) -> Evidence {
        let stage = |kind: &str, name: &str| json!({"kind": kind, "name": name});
        let spec = json!({
            "file_system": {"kind": "ext4"},
            "stage": [stage("age", "age"), stage("measure", "before"), {"kind": "remedy", "name": "remedy", "method": method},
                stage("measure", "after"), stage("measure", "later")],
        });
        // Seeds differ, and a little more with a remedy than without.
        let noise = 1.0 + if method == "none" { 0.01 } else { 0.012 } * f64::from(seed);
        let series = |value: f64, unit: &str| Series {
            unit: unit.to_owned(),
            larger_is_worse: Some(true),
            samples: vec![value],
            ..Series::default()
        };
        let mut metrics = BTreeMap::from([
            ("grep".to_owned(), series(100.0 * noise, "s")),
            ("after.grep".to_owned(), series(after * noise, "s")),
            (
                "after.grep.allocated".to_owned(),
                series(if method == "free-20" { 80.0 } else { 100.0 }, "bytes"),
            ),
            ("later.grep".to_owned(), series(later * noise, "s")),
            ("remedy.elapsed_s".to_owned(), series(7.0, "model s")),
            ("remedy.written_bytes".to_owned(), series(4096.0, "bytes")),
        ]);
        // As a run has it: none where the work was other work.
        if method != "free-20" {
            metrics.insert("after_over_before.grep".to_owned(), series(after / 100.0 * noise, "ratio"));
        }
        let factors = BTreeMap::from([("stage.remedy.method".to_owned(), json!(method))]);
        Evidence { factors, spec, repeat: seed, metrics, ..Evidence::default() }
    }

    fn trials() -> Vec<Evidence> {
        let each = [
            ("none", 100.0, 120.0),
            ("defragment", 50.0, 90.0),
            ("copy", 25.0, 60.0),
            ("free-20", 80.0, 90.0),
        ];
        each.iter()
            .flat_map(|(method, after, later)| (0..4).map(|seed| trial(method, seed, *after, *later)))
            .collect()
    }

    fn near(estimate: Option<Estimate>, value: f64) -> bool {
        estimate.is_some_and(|estimate| (estimate.value / value - 1.0).abs() < 0.01)
    }

    #[test]
    fn gains_are_against_the_control_and_the_copy_seed_by_seed() {
        let found = of(&trials(), 0.95);
        let methods: Vec<&str> = found.iter().map(|one| one.method.as_str()).collect();
        assert_eq!(methods, ["none", "defragment", "copy", "free-20"]);
        let [none, defragmented, copied, freed] = &found[..] else { panic!("{found:?}") };
        assert_eq!((none.place.as_str(), none.trials), ("ext4", 4));
        let grep = |one: &Remedied| one.measures[0].clone();
        assert!(near(grep(defragmented).against_control, 0.5) && near(grep(defragmented).against_copy, 2.0));
        assert!(near(grep(defragmented).later, 0.75));
        assert!(near(grep(copied).against_control, 0.25) && grep(copied).against_copy.is_none());
        assert!(grep(none).against_control.is_none() && grep(none).finding == Finding::NoEvidence);
        assert_eq!(grep(defragmented).finding, Finding::Better);
        assert!(grep(defragmented).gain.is_some_and(|gain| (0.5..0.52).contains(&gain.value)));
        // Less to read is no gain.
        assert!(
            grep(freed).gain.is_none()
                && grep(freed).against_control.is_none()
                && grep(freed).later.is_none()
        );
        let cost = &defragmented.cost;
        assert_eq!(cost.elapsed.as_ref().map(|(_, unit)| unit.as_str()), Some("model s"));
        assert!(cost.written_bytes.is_some_and(|bytes| (bytes - 4096.0).abs() < 1e-6));
        assert_eq!((cost.read_bytes, cost.erases), (None, None));
    }

    #[test]
    fn other_work_has_no_ratio_to_the_control() {
        let mut trials = trials();
        for trial in trials.iter_mut().filter(|trial| trial.factors["stage.remedy.method"] == json!("copy")) {
            if let Some(series) = trial.metrics.get_mut("after.grep.allocated") {
                series.samples = vec![98.0];
            }
        }
        let found = of(&trials, 0.95);
        let copied = &found[2].measures[0];
        assert!(copied.against_control.is_none() && copied.gain.is_some());
    }

    #[test]
    fn without_a_remedy_there_is_nothing_to_tell() {
        assert!(of(&[], 0.95).is_empty());
        let mut trials = trials();
        trials
            .iter_mut()
            .for_each(|trial| trial.spec = json!({"stage": [{"kind": "measure", "name": "after"}]}));
        assert!(of(&trials, 0.95).is_empty());
    }

    #[test]
    fn a_ratio_is_told_with_its_interval() {
        let estimate = level(&[&trial("none", 1, 5.0, 5.0)], "after.grep", 0.95).unwrap();
        assert_eq!(in_words(&estimate), "×5.05 (no interval)");
        let found = of(&trials(), 0.95);
        let gain = found[1].measures[0].gain.unwrap();
        assert!(
            in_words(&gain).starts_with("×0.50") || in_words(&gain).starts_with("×0.51"),
            "{}",
            in_words(&gain)
        );
        assert!(in_words(&gain).contains(" ["), "{}", in_words(&gain));
    }
}
