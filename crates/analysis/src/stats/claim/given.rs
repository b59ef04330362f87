//! Conditions of a claim: whether trials are what the sentence was published about.

use fsage_model::medium::MediumSpec;
use fsage_model::number::whole_bytes;
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_model::study::{DeviceClass, GivenSpec, GivenTime, Range, SizeRange};
use fsage_model::{load::WriteMode, metric};
use serde_json::Value;

use super::{in_words, plain};
use crate::stats::Evidence;
use crate::stats::evidence::{MEDIUM, look_up, same};

/// The first condition that a trial does not meet, of those that its specification tells.
pub(super) fn unmet_by_plan(given: &GivenSpec, trials: &[&Evidence]) -> Option<String> {
    trials.iter().find_map(|trial| by_plan(given, trial)).map(said)
}

/// The first condition that a complete trial does not meet; `checked` is the metric that the claim is about.
pub(super) fn unmet(given: &GivenSpec, checked: &str, trials: &[&Evidence]) -> Option<String> {
    let one = |trial: &&Evidence| by_plan(given, trial).or_else(|| by_result(given, checked, trial));
    trials.iter().find_map(one).map(said)
}

fn said(reason: String) -> String {
    format!("a condition is not met: {reason}")
}

fn by_plan(given: &GivenSpec, trial: &Evidence) -> Option<String> {
    let medium = || {
        let have = medium_of(trial);
        let known = given.medium.is_empty() || have.as_ref().is_some_and(|have| given.medium.contains(have));
        let have = have.unwrap_or_else(|| "a device or file of the host".to_owned());
        (!known).then(|| format!("the medium is {have}, not {}", given.medium.join(" or ")))
    };
    // What a real device is only its trial tells.
    let class = || if is_device(trial) { None } else { wrong_class(given, modelled_class(trial)) };
    let time = || {
        if given.time.is_some() && trial.is_virtual() {
            return Some("times are counts of instructions".to_owned());
        }
        let (wanted, have) = (given.time?, if trial.is_model() { GivenTime::Model } else { GivenTime::Wall });
        let words = |time| if time == GivenTime::Model { "of a model" } else { "by wall-clock time" };
        (wanted != have).then(|| format!("times are {}, not {}", words(have), words(wanted)))
    };
    let size = || {
        let range = given.size?;
        let Some(bytes) = size_of(trial) else {
            return Some("the size of the volume is not known".to_owned());
        };
        let small = range.at_least.is_some_and(|least| bytes < least.0);
        let large = range.at_most.is_some_and(|most| bytes > most.0);
        (small || large).then(|| format!("the volume has {}, not {}", whole_bytes(bytes), sizes(range)))
    };
    let settings = || {
        given.settings.iter().find_map(|(path, values)| {
            let have = trial.factor(path);
            let known = have.is_some_and(|have| values.iter().any(|value| same(have, value)));
            let values: Vec<String> = values.iter().map(in_words).collect();
            let have = have.map_or_else(|| "not given".to_owned(), in_words);
            (!known).then(|| format!("`{path}` is {have}, not {}", values.join(" or ")))
        })
    };
    medium().or_else(class).or_else(time).or_else(size).or_else(settings)
}

fn by_result(given: &GivenSpec, checked: &str, trial: &Evidence) -> Option<String> {
    let within = |what: &str, value: Option<f64>, range: Range| match value {
        None => Some(format!("{what} is not known")),
        Some(value) if range.holds(value) => None,
        Some(value) => Some(format!("{what} is {}, not {}", plain(value), numbers(range))),
    };
    let dose = || {
        let written = trial.mean(metric::DEVICE_BYTES).zip(size_of(trial));
        let dose = written.map(|(written, size)| written / as_f64(size));
        within("the number of volume overwrites", dose, given.dose?)
    };
    let cache = || within("memory ÷ size of the volume", cache_of(trial), given.cache?);
    let latency = || within(&format!("`{checked}` in ns"), trial.mean(checked), given.latency?);
    let metrics = || {
        let one = |(name, range): (&String, &Range)| within(&format!("`{name}`"), trial.mean(name), *range);
        given.metrics.iter().find_map(one)
    };
    let class = || if is_device(trial) { wrong_class(given, trial.class) } else { None };
    dose().or_else(class).or_else(cache).or_else(latency).or_else(metrics)
}

fn medium_of(trial: &Evidence) -> Option<String> {
    let medium = trial.factor(MEDIUM)?;
    let name = medium.as_str().or_else(|| medium.get("preset")?.as_str());
    name.map(str::to_owned)
}

fn wrong_class(given: &GivenSpec, have: Option<DeviceClass>) -> Option<String> {
    let known = given.class.is_empty() || have.is_some_and(|have| given.class.contains(&have));
    let have = have.map_or("of no known class", DeviceClass::words);
    let wanted: Vec<&str> = given.class.iter().map(|class| class.words()).collect();
    (!known).then(|| format!("the device is {have}, not {}", wanted.join(" or ")))
}

fn modelled_class(trial: &Evidence) -> Option<DeviceClass> {
    let spec: MediumSpec = serde_json::from_value(trial.factor(MEDIUM)?.clone()).ok()?;
    Some(match spec.preset() {
        preset if preset.is_rotational() => DeviceClass::HardDisk,
        preset if preset.name == "ram" => DeviceClass::Memory,
        _ => DeviceClass::Flash,
    })
}

fn is_device(trial: &Evidence) -> bool {
    trial.factor("volume.kind").and_then(Value::as_str) == Some("device")
}

fn size_of(trial: &Evidence) -> Option<u64> {
    let size: Bytes = serde_json::from_value(trial.factor("volume.size")?.clone()).ok()?;
    Some(size.0)
}

/// Memory that can cache the volume, as a share of it: none where every load uses direct I/O.
fn cache_of(trial: &Evidence) -> Option<f64> {
    let stages = look_up(&trial.spec, "stage").and_then(Value::as_array)?;
    let direct = |stage: &Value| {
        let mode = stage.get("write_mode").cloned().map(serde_json::from_value::<WriteMode>);
        matches!(mode, Some(Ok(WriteMode::Direct)))
    };
    let mut loads = stages.iter().filter(|stage| stage.get("workload").is_some());
    if loads.all(direct) {
        return Some(0.0);
    }
    Some(as_f64(trial.memory_bytes?) / as_f64(size_of(trial)?))
}

fn numbers(range: Range) -> String {
    let end = |words: &str, value: Option<f64>| value.map(|value| format!("{words} {value}"));
    both(end("at least", range.at_least), end("at most", range.at_most))
}

fn sizes(range: SizeRange) -> String {
    let end =
        |words: &str, value: Option<Bytes>| value.map(|value| format!("{words} {}", whole_bytes(value.0)));
    both(end("at least", range.at_least), end("at most", range.at_most))
}

fn both(least: Option<String>, most: Option<String>) -> String {
    [least, most].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
