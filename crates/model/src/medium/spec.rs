//! The medium in a study or a flag.
//!
//! Either a preset's name, or a table: `{ preset = "hdd-7200", rpm = 5400 }`; as a flag the same is written
//! `hdd-7200,rpm=5400`. Reading one touches nothing and finds every wrong name and value; `Resolve::resolve` of the disk
//! makes the model for a size.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::at::At;
use super::kind::{Overrides, Parameters};
use super::parameter::{OutOfRange, Parameter};
use super::preset::{self, Preset};
use crate::nearest::nearest;
use crate::problem::{EXIT_USAGE, Explain};

/// Why a medium is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediumError {
    /// No preset has that name.
    #[error("there is no medium `{name}`")]
    UnknownPreset {
        /// What was asked for.
        name: String,
    },
    /// The preset's kind has no such parameter.
    #[error("medium `{preset}` has no parameter `{key}`")]
    UnknownKey {
        /// The preset.
        preset: &'static str,
        /// What was asked for.
        key: String,
        /// The parameters that exist.
        known: &'static [&'static str],
    },
    /// A parameter's value is of the wrong type or not one of its choices.
    #[error("medium `{preset}`, parameter `{key}`: {problem}")]
    BadValue {
        /// The preset.
        preset: &'static str,
        /// The parameter.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A flag's part is not `KEY=VALUE`.
    #[error("`{part}` is not KEY=VALUE")]
    NotAnAssignment {
        /// The part.
        part: String,
    },
    /// Text that begins like JSON but is not valid JSON.
    #[error("no medium in `{text}`: {problem}")]
    Json {
        /// The text.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A table without a preset.
    #[error("`preset` is missing")]
    NoPreset,
    /// A value out of its range.
    #[error("medium `{preset}`: {source}")]
    Range {
        /// The preset.
        preset: &'static str,
        /// Which, and what the range is.
        source: OutOfRange,
    },
    /// The parameters contradict each other or do not suit the size.
    #[error("medium `{preset}`: {problem}")]
    Impossible {
        /// The preset.
        preset: &'static str,
        /// What contradicts what.
        problem: String,
        /// What to change.
        hint: String,
    },
}

impl MediumError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let known = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(", ");
        match self {
            Self::UnknownPreset { name } => {
                let names = || preset::presets().iter().map(|p| p.name);
                Some(nearest(name, names()).map_or_else(
                    || format!("media: {}", known(&mut names())),
                    |near| format!("did you mean `{near}`?"),
                ))
            }
            Self::UnknownKey { key, known: keys, .. } => {
                Some(nearest(key, keys.iter().copied()).map_or_else(
                    || format!("parameters: {}", known(&mut keys.iter().copied())),
                    |near| format!("did you mean `{near}`?"),
                ))
            }
            Self::NotAnAssignment { .. } => Some("write it as hdd-7200,rpm=5400".to_owned()),
            Self::NoPreset => Some("write it as { preset = \"hdd-7200\", rpm = 5400 }".to_owned()),
            Self::Impossible { hint, .. } => Some(hint.clone()),
            Self::BadValue { .. } | Self::Range { .. } | Self::Json { .. } => None,
        }
    }

    /// The error and its hint as one line, for readers that take only text.
    fn line(&self) -> String {
        self.hint().map_or_else(|| self.to_string(), |hint| format!("{self}; {hint}"))
    }
}

/// A medium: a preset and its overrides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumSpec {
    preset: &'static Preset,
    at: At,
    overrides: Overrides,
}

impl MediumSpec {
    /// A preset without overrides.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn named(name: &str) -> Result<Self, MediumError> {
        Self::with(name, Map::new())
    }

    fn with(name: &str, mut overrides: Map<String, Value>) -> Result<Self, MediumError> {
        let preset = preset::presets()
            .iter()
            .copied()
            .find(|p| p.name == name)
            .ok_or_else(|| MediumError::UnknownPreset { name: name.to_owned() })?;
        let at = overrides.remove("at").map_or(Ok(At::Outer), serde_json::from_value).map_err(|error| {
            MediumError::BadValue { preset: preset.name, key: "at".to_owned(), problem: error.to_string() }
        })?;
        let overrides = preset.parameters.overrides(preset.name, overrides)?;
        let spec = Self { preset, at, overrides };
        spec.resolved()?;
        Ok(spec)
    }

    /// The preset it starts from.
    #[must_use]
    pub const fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// The position of the volume on its drive.
    #[must_use]
    pub const fn at(&self) -> At {
        self.at
    }

    /// The same with the volume at this position.
    #[must_use]
    pub fn placed(&self, at: At) -> Self {
        Self { at, ..self.clone() }
    }

    /// The same drive, or one of its kind that holds a volume of that size: a hard disk with more cylinders, a
    /// larger SSD or card.
    ///
    /// # Errors
    /// No drive of this kind is that large.
    pub fn holding(&self, size_bytes: u64) -> Result<Self, MediumError> {
        let parameters = self.resolved()?;
        let Some((key, value)) = parameters.enlarged(size_bytes) else { return Ok(self.clone()) };
        let mut values = self.values();
        values.insert(key.to_owned(), Value::from(value));
        Self::with(self.preset.name, values)
    }

    /// Every parameter with its value, for reports.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        self.resolved().map(|parameters| parameters.list()).unwrap_or_default()
    }

    /// The preset's parameters with the overrides applied.
    ///
    /// # Errors
    /// When a number is out of its range.
    pub fn resolved(&self) -> Result<Parameters, MediumError> {
        let preset = self.preset.name;
        self.preset.parameters.with(&self.overrides).map_err(|source| MediumError::Range { preset, source })
    }

    fn values(&self) -> Map<String, Value> {
        let mut values = match self.overrides.values() {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        };
        if self.at != At::Outer {
            values.insert("at".to_owned(), serde_json::to_value(self.at).unwrap_or_default());
        }
        values
    }
}

/// Reads the overrides one by one, so that an error names its key.
pub(super) fn read<T: de::DeserializeOwned>(
    preset: &'static str,
    known: &'static [&'static str],
    values: Map<String, Value>,
    wrap: impl FnOnce(T) -> Overrides,
) -> Result<Overrides, MediumError> {
    for (key, value) in &values {
        if !known.contains(&key.as_str()) {
            return Err(MediumError::UnknownKey { preset, key: key.clone(), known });
        }
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        serde_json::from_value::<T>(Value::Object(alone)).map_err(|e| MediumError::BadValue {
            preset,
            key: key.clone(),
            problem: e.to_string(),
        })?;
    }
    serde_json::from_value::<T>(Value::Object(values)).map(wrap).map_err(|e| MediumError::BadValue {
        preset,
        key: String::new(),
        problem: e.to_string(),
    })
}

/// As a flag: `hdd-7200` or `hdd-7200,rpm=5400`; or as JSON.
impl FromStr for MediumSpec {
    type Err = MediumError;

    fn from_str(text: &str) -> Result<Self, MediumError> {
        if text.starts_with(['{', '"']) {
            let problem =
                |e: serde_json::Error| MediumError::Json { text: text.to_owned(), problem: e.to_string() };
            return serde_json::from_str(text).map_err(problem);
        }
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let mut overrides = Map::new();
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| MediumError::NotAnAssignment { part: part.to_owned() })?;
            let value = serde_json::from_str::<Value>(value)
                .ok()
                .filter(|v| v.is_number() || v.is_boolean())
                .unwrap_or_else(|| Value::String(value.to_owned()));
            overrides.insert(key.to_owned(), value);
        }
        Self::with(name, overrides)
    }
}

/// In the form of a flag.
impl fmt::Display for MediumSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preset.name)?;
        for (key, value) in self.values() {
            match value.as_str() {
                Some(text) => write!(f, ",{key}={text}")?,
                None => write!(f, ",{key}={value}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for MediumSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.values();
        if values.is_empty() {
            return serializer.serialize_str(self.preset.name);
        }
        let mut map = serializer.serialize_map(Some(values.len() + 1))?;
        map.serialize_entry("preset", self.preset.name)?;
        for (key, value) in &values {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for MediumSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrTable)
    }
}

struct NameOrTable;

impl<'de> Visitor<'de> for NameOrTable {
    type Value = MediumSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a medium, or a table with `preset`")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<MediumSpec, E> {
        MediumSpec::named(name).map_err(|e| E::custom(e.line()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<MediumSpec, A::Error> {
        let mut values = Map::new();
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            values.insert(key, value);
        }
        let error = |e: MediumError| de::Error::custom(e.line());
        match values.remove("preset") {
            Some(Value::String(name)) => MediumSpec::with(&name, values).map_err(error),
            Some(other) => Err(de::Error::custom(format!("`preset` must be a name, not {other}"))),
            None => Err(error(MediumError::NoPreset)),
        }
    }
}

/// A name, or a table with the keys of every kind of medium; which of them apply to the preset is checked
/// when the table is read.
impl JsonSchema for MediumSpec {
    fn schema_name() -> Cow<'static, str> {
        "Medium".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = preset::presets().iter().map(|p| p.name).collect();
        let about: Vec<String> =
            preset::presets().iter().map(|p| format!("{}: {}", p.name, p.summary)).collect();
        let mut properties = Map::new();
        properties.insert("preset".to_owned(), serde_json::json!({ "type": "string", "enum": names }));
        properties.insert("at".to_owned(), generator.subschema_for::<At>().to_value());
        for schema in Overrides::schemas(generator) {
            if let Some(Value::Object(more)) = schema.get("properties") {
                properties.extend(more.clone());
            }
        }
        json_schema!({
            "description": format!("Device model: name of a preset, path of a medium file, or a table with `preset` (name or path) and the parameters to change. Presets: {}.", about.join("; ")),
            "type": ["string", "object"],
            "properties": properties,
            "additionalProperties": false,
            "required": ["preset"],
        })
    }
}

impl Explain for MediumError {
    fn exit_code(&self) -> u8 {
        EXIT_USAGE
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<MediumSpec, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_name_and_a_table_and_a_flag_say_the_same() {
        let named: MediumSpec = json(r#""hdd-7200""#).unwrap();
        assert_eq!(named, json(r#"{ "preset": "hdd-7200" }"#).unwrap());
        assert_eq!(named, "hdd-7200".parse().unwrap());
        assert_eq!(serde_json::to_string(&named).unwrap(), r#""hdd-7200""#);

        let table = json(r#"{ "preset": "hdd-7200", "rpm": 5400, "at": "inner" }"#).unwrap();
        assert_eq!(table, "hdd-7200,rpm=5400,at=inner".parse().unwrap());
        assert_eq!(table, table.to_string().parse().unwrap());
        let written = serde_json::to_string(&table).unwrap();
        assert_eq!(table, json(&written).unwrap());
        assert_eq!(table, written.parse().unwrap());
        let value = |key| table.parameters().into_iter().find(|p| p.key == key).unwrap().value;
        assert_eq!((value("rpm").as_str(), table.at()), ("5400", At::Inner));
        assert_eq!(value("average_seek_ns"), "7500000");
    }

    #[test]
    fn wrong_names_are_answered_with_the_nearest() {
        for (text, expected) in [
            (r#""hdd-720""#, "did you mean `hdd-7200`?"),
            (r#"{ "preset": "ssd-notrimm" }"#, "did you mean `ssd-notrim`?"),
            (r#"{ "preset": "hdd-7200", "rmp": 5400 }"#, "did you mean `rpm`?"),
            (r#"{ "preset": "ssd", "rpm": 5400 }"#, "medium `ssd` has no parameter `rpm`"),
            (r#"{ "preset": "hdd-7200", "rpm": 7 }"#, "rpm = 7 is not between 1000 and 30000"),
            (r#"{ "preset": "hdd-7200", "rpm": "fast" }"#, "parameter `rpm`: invalid type"),
            (r#"{ "preset": "hdd-7200", "at": "middle" }"#, "write `outer`, `inner` or a size"),
            (r#"{ "preset": "ram", "rpm": 5400 }"#, "medium `ram` has no parameter `rpm`"),
            (r#"{ "rpm": 5400 }"#, "`preset` is missing"),
            ("7", "the name of a medium, or a table"),
        ] {
            let error = json(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(
            "hdd-7200,fast".parse::<MediumSpec>().unwrap_err(),
            MediumError::NotAnAssignment { part: "fast".to_owned() }
        );
    }

    #[test]
    fn the_schema_knows_every_key_and_refers_to_nothing() {
        let schema = schemars::schema_for!(MediumSpec).to_value();
        let properties = schema["properties"].as_object().unwrap();
        for preset in preset::presets() {
            for parameter in MediumSpec::named(preset.name).unwrap().parameters() {
                assert!(properties.contains_key(parameter.key), "{}", parameter.key);
            }
        }
        assert!(!schema.to_string().contains("$ref"), "{schema}");
    }
}
