//! A side of a comparison: a store, or the trials of one that have certain values.
//!
//! Records are read without their stages, so that long runs take little memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsage_model::nearest::nearest;
use fsage_model::record::{Metric, TrialRecord, Unread};
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use serde_json::Value;

use super::CompareError;
use crate::stats::{Evidence, Series};

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
    pub fn side(self, records: Vec<TrialRecord<Unread>>, notes: Vec<String>) -> Result<Side, CompareError> {
        let Self { text, path, wanted } = self;
        let mut side = Side { label: text.to_owned(), notes, ..Side::default() };
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
        for (trial, warnings) in trials.into_iter().filter(|(trial, _)| trial.matches(&wanted)) {
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

fn evidence(record: TrialRecord<Unread>) -> (Evidence, Vec<Warning>) {
    let metrics = record.metrics.into_iter().map(|metric| {
        let Metric { name, unit, samples, larger_is_worse, run } = metric;
        (name, Series { unit, larger_is_worse, samples, run, ..Series::default() })
    });
    let evidence = Evidence {
        factors: record.factors,
        spec: record.spec,
        repeat: record.repeat,
        metrics: metrics.collect(),
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
