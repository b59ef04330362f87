//! The columns of the table, in one list from which every format, the schema and the table in docs/export.md
//! are made.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::EXPORT_VERSION;

/// What the names of columns of factors begin with.
pub const FACTOR: &str = "factor.";

/// Type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, 64 bits with a sign.
    Integer,
    /// A number, IEEE 754 with 64 bits.
    Number,
    /// True or false.
    Boolean,
    /// Text, UTF-8.
    Text,
}

impl Kind {
    /// As the schema and docs/export.md call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Text => "string",
        }
    }
}

/// What a column's value belongs to; columns stand in this order, factors after the trial's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Which trial it is.
    Trial,
    /// The metric and the sample.
    Sample,
    /// Under which conditions the trial ran.
    Conditions,
}

/// A column that every export has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// Whether a value may be missing.
    pub optional: bool,
    /// What its values belong to.
    pub group: Group,
    /// What it says, with its unit.
    pub meaning: &'static str,
}

const fn column(
    name: &'static str,
    kind: Kind,
    optional: bool,
    group: Group,
    meaning: &'static str,
) -> Column {
    Column { name, kind, optional, group, meaning }
}

/// The columns that every export has, in their order (those of factors stand behind `seed`).
pub static COLUMNS: [Column; 36] = {
    use Group::{Conditions, Sample, Trial};
    use Kind::{Boolean, Integer, Number, Text};
    [
        column("export_version", Integer, false, Trial, "version of this table"),
        column("study", Text, false, Trial, "name of the study"),
        column("trial", Text, false, Trial, "id of the trial: 16 hexadecimal digits"),
        column("position", Integer, false, Trial, "position of the trial in the plan, from 0 (run order)"),
        column("block", Integer, false, Trial, "random block of the trial in the plan, from 0"),
        column("repeat", Integer, false, Trial, "repeat, from 0; every cell of a repeat has the same seed"),
        column("seed", Integer, false, Trial, "random seed of the trial"),
        column(
            "stage",
            Text,
            true,
            Sample,
            "stage that the metric belongs to; missing in records of older versions",
        ),
        column("metric", Text, false, Sample, "name of the metric"),
        column("sample", Integer, false, Sample, "number of the sample within trial and metric, from 0"),
        column("value", Number, false, Sample, "value of the sample"),
        column("unit", Text, false, Sample, "unit of the value"),
        column(
            "time",
            Text,
            true,
            Sample,
            "`model`: by a device model's clock; `wall`: by the host's; missing if the unit has no time",
        ),
        column(
            "larger_is_worse",
            Boolean,
            true,
            Sample,
            "whether a larger value is worse; missing if neither direction is",
        ),
        column(
            "run",
            Text,
            true,
            Sample,
            "run before an image that the sample is from: samples of one run are one measurement, even in several trials",
        ),
        column("warnings", Text, true, Conditions, "kinds of the trial's warnings, sorted, `;`-separated"),
        column(
            "deterministic",
            Boolean,
            false,
            Conditions,
            "whether the study asked for deterministic model time",
        ),
        column(
            "model_time",
            Boolean,
            false,
            Conditions,
            "whether the trial's volume was a virtual disk in model time",
        ),
        column("file_system", Text, true, Conditions, "file system, by the resolved study"),
        column("volume", Text, true, Conditions, "kind of the volume: `disk`, `partition`, `loop`, `device`"),
        column(
            "medium",
            Text,
            true,
            Conditions,
            "device model of a virtual disk; a table of parameters as JSON",
        ),
        column("device", Text, true, Conditions, "path of the block device"),
        column("device_model", Text, true, Conditions, "model of the block device, where known"),
        column("device_bytes", Integer, false, Conditions, "size of the block device in bytes"),
        column("kernel", Text, true, Conditions, "release of the kernel"),
        column("distribution", Text, true, Conditions, "distribution of the host"),
        column("machine", Text, true, Conditions, "machine type of the host"),
        column("virtualisation", Text, true, Conditions, "kind of virtual machine; missing on bare metal"),
        column("cpu_model", Text, true, Conditions, "CPU of the host"),
        column("cpus", Integer, false, Conditions, "CPUs that the agent could use"),
        column("memory_bytes", Integer, false, Conditions, "memory of the host in bytes"),
        column("host", Text, true, Conditions, "identifier of the host, without its name"),
        column("program", Text, true, Conditions, "version of fsage, of its protocol and workloads"),
        column("started", Text, true, Conditions, "start of the trial, RFC 3339 in UTC"),
        column("elapsed_ns", Integer, false, Conditions, "wall time of the whole trial in ns"),
        column("check", Text, true, Conditions, "result of the file system's check after the last unmount"),
    ]
};

/// A factor of the study's matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Dotted path in the study.
    pub path: String,
    /// Type of its values in every trial of the plan; text where they differ in type, or are lists or tables.
    pub kind: Kind,
}

impl Factor {
    /// Name of its column.
    #[must_use]
    pub fn column(&self) -> String {
        format!("{FACTOR}{}", self.path)
    }
}

/// The columns of one study's export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The factors by path.
    pub factors: Vec<Factor>,
}

impl Table {
    /// The table of a study whose trials have these factors.
    pub fn new<'a>(trials: impl IntoIterator<Item = &'a BTreeMap<String, Value>>) -> Self {
        let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (path, value) in trials.into_iter().flatten() {
            kinds.entry(path).or_default().insert(kind(value).name());
        }
        let factor = |(path, kinds): (&str, BTreeSet<&str>)| {
            let kind = match kinds.into_iter().collect::<Vec<_>>()[..] {
                ["integer"] => Kind::Integer,
                ["number"] | ["integer", "number"] => Kind::Number,
                ["boolean"] => Kind::Boolean,
                _ => Kind::Text,
            };
            Factor { path: path.to_owned(), kind }
        };
        Self { factors: kinds.into_iter().map(factor).collect() }
    }

    /// Every column in its order: name, type, whether values may be missing.
    pub(super) fn columns(&self) -> Vec<(String, Kind, bool)> {
        let of = |group: Group| {
            let own = COLUMNS.iter().filter(move |column| column.group == group);
            own.map(|column| (column.name.to_owned(), column.kind, column.optional))
        };
        let factors = self.factors.iter().map(|factor| (factor.column(), factor.kind, true));
        of(Group::Trial).chain(factors).chain(of(Group::Sample)).chain(of(Group::Conditions)).collect()
    }
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Boolean,
        Value::Number(number) if number.is_i64() => Kind::Integer,
        Value::Number(_) => Kind::Number,
        _ => Kind::Text,
    }
}

/// JSON Schema (draft 2020-12) of the JSON export; its rows are those of the other formats.
#[must_use]
pub fn schema() -> Value {
    let property = |column: &Column| {
        let kind =
            if column.optional { json!([column.kind.name(), "null"]) } else { json!(column.kind.name()) };
        (column.name.to_owned(), json!({"type": kind, "description": column.meaning}))
    };
    let mut properties: serde_json::Map<String, Value> = COLUMNS.iter().map(property).collect();
    if let Some(version) = properties.get_mut("export_version") {
        version["const"] = json!(EXPORT_VERSION);
    }
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("fsage export, version {EXPORT_VERSION}"),
        "description": "One object per trial, metric and sample of a store.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": properties,
            "patternProperties": {
                "^factor\\.": {
                    "type": ["integer", "number", "boolean", "string", "null"],
                    "description": "value of a factor of the study's matrix",
                },
            },
            "required": names,
        },
    })
}
