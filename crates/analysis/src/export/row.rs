//! Rows: a trial's values once, a sample's for each of its samples.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use fsage_model::record::{Metric, TrialRecord, Unread};
use serde_json::Value as Json;

use super::EXPORT_VERSION;
use super::column::{Factor, Kind, Table};
use crate::report::text::plain_unit;
use crate::stats::evidence::look_up;

/// A value in a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// There is none.
    Missing,
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Text.
    Text(Cow<'a, str>),
}

/// Where the plan has a trial.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// From 0, in the order of running.
    pub position: usize,
    /// The random block, from 0.
    pub block: usize,
    /// Dotted path → value.
    pub factors: &'a BTreeMap<String, Json>,
}

/// What all rows of a trial have in common.
pub(super) struct Trial<'a> {
    pub(super) own: Vec<Value<'a>>,
    pub(super) factors: Vec<Value<'a>>,
    pub(super) conditions: Vec<Value<'a>>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(table: &Table, place: &Place<'a>, record: &'a TrialRecord<Unread>) -> Self {
        let own = vec![
            Value::Integer(EXPORT_VERSION.into()),
            text(&record.study),
            text(&record.id),
            Value::Integer(i64::try_from(place.position).unwrap_or(i64::MAX)),
            Value::Integer(i64::try_from(place.block).unwrap_or(i64::MAX)),
            Value::Integer(record.repeat.into()),
            whole(record.seed),
        ];
        let factors = table.factors.iter().map(|factor| of_factor(factor, place.factors.get(&factor.path)));
        Self { own, factors: factors.collect(), conditions: conditions(record) }
    }

    /// A whole row, in the order of [`Table::columns`].
    pub(super) fn with<'b>(&'b self, sample: &'b [Value<'b>]) -> impl Iterator<Item = &'b Value<'b>> {
        self.own.iter().chain(&self.factors).chain(sample).chain(&self.conditions)
    }
}

/// A sample's own values.
pub(super) fn sample(metric: &Metric, number: i64, value: f64) -> [Value<'_>; 8] {
    [
        metric.stage.as_deref().map_or(Value::Missing, some),
        text(&metric.name),
        Value::Integer(number),
        Value::Number(value),
        text(&metric.unit),
        time(&metric.unit).map_or(Value::Missing, some),
        metric.larger_is_worse.map_or(Value::Missing, Value::Boolean),
        metric.run.as_deref().map_or(Value::Missing, some),
    ]
}

/// Whose clock a unit is by.
fn time(unit: &str) -> Option<&'static str> {
    if plain_unit(unit).is_some() {
        return Some("model");
    }
    unit.split(['/', ' ']).any(|part| matches!(part, "ns" | "s")).then_some("wall")
}

fn conditions(record: &TrialRecord<Unread>) -> Vec<Value<'_>> {
    let TrialRecord { spec, host, device, .. } = record;
    let kinds: BTreeSet<&str> = record.warnings.iter().map(|warning| warning.kind.as_str()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(";");
    let of_spec = |path: &str| look_up(spec, path).map_or(Value::Missing, |value| of_json(value, Kind::Text));
    let is_model = look_up(spec, "volume.time").and_then(Json::as_str) == Some("model");
    vec![
        if kinds.is_empty() { Value::Missing } else { Value::Text(kinds.into()) },
        Value::Boolean(look_up(spec, "deterministic").and_then(Json::as_bool).unwrap_or(false)),
        Value::Boolean(is_model),
        of_spec("file_system.kind"),
        of_spec("volume.kind"),
        of_spec("volume.medium"),
        filled(device.path.to_string_lossy()),
        some(&device.model),
        whole(device.size_bytes),
        some(&host.kernel),
        some(&host.distribution),
        some(&host.machine),
        some(&host.virtualisation),
        some(&host.cpu_model),
        Value::Integer(host.cpus.into()),
        whole(host.memory_bytes),
        some(&host.identity),
        some(&record.program),
        some(&record.started),
        whole(record.elapsed_ns),
        some(&record.check),
    ]
}

fn text(text: &str) -> Value<'_> {
    Value::Text(text.into())
}

/// Text that says nothing when it is empty.
fn some(text: &str) -> Value<'_> {
    filled(text.into())
}

fn filled(text: Cow<'_, str>) -> Value<'_> {
    if text.is_empty() { Value::Missing } else { Value::Text(text) }
}

/// Integers have a sign; no size or time here comes near the limit, nor does a seed, which is below 2^53.
fn whole<'a>(value: u64) -> Value<'a> {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn of_factor<'a>(factor: &Factor, value: Option<&'a Json>) -> Value<'a> {
    value.map_or(Value::Missing, |value| of_json(value, factor.kind))
}

/// A value as one of a type: text where it is of another.
fn of_json(value: &Json, kind: Kind) -> Value<'_> {
    let typed = match kind {
        _ if value.is_null() => None,
        Kind::Integer => value.as_i64().map(Value::Integer),
        Kind::Number => value.as_f64().map(Value::Number),
        Kind::Boolean => value.as_bool().map(Value::Boolean),
        Kind::Text => return value.as_str().map_or_else(|| Value::Text(value.to_string().into()), text),
    };
    typed.unwrap_or(Value::Missing)
}
