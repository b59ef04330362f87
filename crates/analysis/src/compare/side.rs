//! A side of a comparison: a store, or the trials of one that have certain values.
//!
//! Of a record's stages only the digest of the tree is read, so that long runs take little memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsage_model::nearest::nearest;
use fsage_model::number::whole_bytes;
use fsage_model::record::{Metric, StageTree, TrialRecord};
use fsage_model::study::CONTROL;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use serde_json::Value;

use super::CompareError;
use crate::stats::evidence::look_up;
use crate::stats::{Evidence, Series, tree};

/// One side.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// As given.
    pub label: String,
    /// Complete trials that are selected.
    pub trials: Vec<Evidence>,
    /// Their warnings by kind.
    pub warnings: BTreeMap<WarningKind, usize>,
    /// What could not be read.
    pub notes: Vec<String>,
    /// Keys that the selection names.
    pub named: BTreeSet<String>,
    /// Where its trials ran, and by what: what it is (`kernel`, `mkfs.ext4`), and each value that occurs.
    pub ran: Ran,
}

/// What trials ran on and by, by what it is.
pub type Ran = BTreeMap<String, BTreeSet<String>>;

/// In what two sides differ beside what they are compared by, one sentence each.
#[must_use]
pub fn differences(a: &Side, b: &Side) -> Vec<String> {
    let words = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let one = |(what, of_a): (&String, &BTreeSet<String>)| {
        let of_b = b.ran.get(what)?;
        (of_a != of_b).then(|| format!("the sides differ in {what}: {} against {}", words(of_a), words(of_b)))
    };
    a.ran.iter().filter_map(one).collect()
}

/// What a trial ran on and by; a virtual disk's medium is among its factors and settings.
fn ran(record: &TrialRecord<StageTree>) -> Vec<(String, String)> {
    let host = &record.host;
    let mut facts = vec![
        ("host".to_owned(), host.identity.clone()),
        ("kernel".to_owned(), host.kernel.clone()),
        ("guest build".to_owned(), host.features.get("guest").cloned().unwrap_or_default()),
        ("clock".to_owned(), clock(&record.spec).to_owned()),
        ("CPU".to_owned(), host.cpu_model.clone()),
        ("CPUs".to_owned(), if host.cpus > 0 { host.cpus.to_string() } else { String::new() }),
        (
            "memory".to_owned(),
            if host.memory_bytes > 0 { whole_bytes(host.memory_bytes) } else { String::new() },
        ),
        ("device".to_owned(), record.device.model.clone()),
        ("serial number of the device".to_owned(), record.device.serial.clone()),
        ("partition".to_owned(), record.device.part_uuid.clone()),
        ("preconditioning of the device".to_owned(), preconditioning(record).to_owned()),
        ("version of fsage".to_owned(), record.program.clone()),
    ];
    // Of the host's programs only those that make or measure something.
    let tool = |name: &&String| name.starts_with("mkfs") || *name == "mke2fs" || *name == "fio";
    let tools = host.tools.iter().filter(|(name, _)| tool(name));
    facts.extend(tools.map(|(name, version)| (name.clone(), version.clone())));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Whether the clock was a guest's that counts instructions.
fn clock(spec: &Value) -> &'static str {
    let time = look_up(spec, "target.time").and_then(Value::as_str);
    if time == Some("virtual") { "virtual" } else { "real" }
}

/// Whether the device was preconditioned, and came to its steady state.
fn preconditioning(record: &TrialRecord<StageTree>) -> &'static str {
    if !record.stages.iter().any(StageTree::is_precondition) {
        return "none";
    }
    let unsteady = record.warnings.iter().any(|warning| warning.kind == WarningKind::NotSteady);
    if unsteady { "not steady" } else { "steady" }
}

/// What a side selects: a store, or the trials of one that have certain values.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// As given.
    pub text: &'a str,
    /// The store.
    pub path: &'a Path,
    /// Dotted path → value.
    wanted: BTreeMap<String, Value>,
}

impl<'a> Selection<'a> {
    /// Reads `STORE` or `STORE:key=value,key=value`.
    ///
    /// # Errors
    /// What follows the store is no list of `key=value`.
    pub fn parse(text: &'a str) -> Result<Self, CompareError> {
        let (path, wanted) = split(text)?;
        Ok(Self { text, path: Path::new(path), wanted })
    }

    /// The side, of all complete trials of the store.
    ///
    /// # Errors
    /// A key is none of the store's, or nothing is selected.
    pub fn side(
        self,
        records: Vec<TrialRecord<StageTree>>,
        notes: Vec<String>,
    ) -> Result<Side, CompareError> {
        let Self { text, path, wanted } = self;
        let mut side = Side { label: text.to_owned(), notes, ..Side::default() };
        let ran: Vec<Vec<(String, String)>> = records.iter().map(ran).collect();
        let trials: Vec<(Evidence, Vec<Warning>)> = records.into_iter().map(evidence).collect();
        for key in wanted.keys() {
            if !trials.is_empty() && !trials.iter().any(|(trial, _)| trial.factor(key).is_some()) {
                let known: BTreeSet<String> = trials.iter().flat_map(|(trial, _)| keys(trial)).collect();
                let nearest = nearest(key, known.iter().map(String::as_str)).map(str::to_owned);
                let store = path.display().to_string();
                return Err(CompareError::UnknownKey { store, key: key.clone(), nearest });
            }
        }
        let values = values(&trials, &wanted);
        // Controls are trials of their own: only who names them compares them.
        let of_control = |trial: &Evidence| trial.factors.contains_key(CONTROL);
        let selected = trials.into_iter().zip(ran).filter(|((trial, _), _)| {
            trial.matches(&wanted) && (wanted.contains_key(CONTROL) || !of_control(trial))
        });
        for ((trial, warnings), ran) in selected {
            for (what, value) in ran {
                side.ran.entry(what).or_default().insert(value);
            }
            for warning in warnings {
                *side.warnings.entry(warning.kind).or_default() += 1;
            }
            side.trials.push(trial);
        }
        if side.trials.is_empty() {
            return Err(CompareError::Empty { selection: text.to_owned(), values });
        }
        side.named = wanted.into_keys().collect();
        Ok(side)
    }
}

/// The store's path and what is wanted of it.
fn split(text: &str) -> Result<(&str, BTreeMap<String, Value>), CompareError> {
    let selection = text.match_indices(':').find(|(at, _)| text[at + 1..].contains('='));
    let Some((at, _)) = selection.filter(|_| !Path::new(text).exists()) else {
        return Ok((text, BTreeMap::new()));
    };
    let wanted = text[at + 1..].split(',').map(|pair| {
        let (key, value) = pair.split_once('=').filter(|(key, _)| !key.trim().is_empty())?;
        let value = value.trim();
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Some((key.trim().to_owned(), value))
    });
    let wanted = wanted.collect::<Option<_>>();
    wanted
        .map(|wanted| (&text[..at], wanted))
        .ok_or_else(|| CompareError::Selection { text: text.to_owned() })
}

fn evidence(record: TrialRecord<StageTree>) -> (Evidence, Vec<Warning>) {
    let metrics = record.metrics.into_iter().map(|metric| {
        let Metric { name, unit, samples, larger_is_worse, run, work, stage: _ } = metric;
        (name, Series { unit, larger_is_worse, samples, run, work, ..Series::default() })
    });
    let evidence = Evidence {
        factors: record.factors,
        spec: record.spec,
        repeat: record.repeat,
        metrics: metrics.collect(),
        tree: tree::measured(record.stages.iter().map(StageTree::tree)),
        ..Evidence::default()
    };
    (evidence, record.warnings)
}

/// Values that the wanted keys have: `file_system.kind = ext4, xfs`.
fn values(trials: &[(Evidence, Vec<Warning>)], wanted: &BTreeMap<String, Value>) -> String {
    let of = |key: &String| -> String {
        let known: BTreeSet<String> = trials
            .iter()
            .filter_map(|(trial, _)| trial.factor(key))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        format!("{key} = {}", known.into_iter().collect::<Vec<_>>().join(", "))
    };
    wanted.keys().map(of).collect::<Vec<_>>().join("; ")
}

/// Dotted paths of everything a trial can be selected by.
fn keys(trial: &Evidence) -> Vec<String> {
    let mut keys: Vec<String> = trial.factors.keys().cloned().collect();
    walk("", &trial.spec, &mut keys);
    keys
}

fn walk(path: &str, value: &Value, keys: &mut Vec<String>) {
    let below = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| walk(&below(key), value, keys)),
        Value::Array(items) => {
            for item in items {
                let name = item.get("name").or_else(|| item.get("kind")).and_then(Value::as_str);
                if let Some(name) = name {
                    walk(&below(name), item, keys);
                }
            }
        }
        _ => keys.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(fields: Value) -> TrialRecord<StageTree> {
        let mut whole = json!({"version": 5, "id": "x", "status": "complete"});
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn a_device_is_told_of_by_its_serial_number_and_what_was_done_to_it() {
        let fact = |record: &TrialRecord<StageTree>, wanted: &str| {
            ran(record).into_iter().find(|(what, _)| what == wanted).map(|(_, value)| value)
        };
        let preconditioning = |fields: Value| fact(&record(fields), "preconditioning of the device").unwrap();
        let stages = json!([{"kind": "precondition"}, {"kind": "fio"}]);
        let warnings = json!([{"kind": "not-steady", "message": "m"}]);
        assert_eq!(preconditioning(json!({})), "none");
        assert_eq!(preconditioning(json!({"stages": [{"kind": "fio"}]})), "none");
        assert_eq!(preconditioning(json!({"stages": stages})), "steady");
        assert_eq!(preconditioning(json!({"stages": stages, "warnings": warnings})), "not steady");
        let known = record(json!({"device": {"path": "/dev/sdx", "serial": "S1"}}));
        assert_eq!(fact(&known, "serial number of the device").as_deref(), Some("S1"));
        assert_eq!(fact(&record(json!({})), "serial number of the device"), None);
    }
}
