//! The JSON Schema of a study, made from the types, and the check of a tree of values against it.
//!
//! serde alone would say only that a table is wrong; walking the schema tells the path, so that the line
//! can be shown and the nearest right key be named.

use std::sync::OnceLock;

use fsage_model::medium::MediumSpec;
use fsage_model::nearest::nearest;
use fsage_model::operation::OperationKind;
use fsage_model::remedy::Remedy;
use fsage_model::size::Bytes;
use fsage_model::study::StudySpec;
use serde_json::{Map, Value, json};

use super::document::Segments;
use crate::source;

/// Something wrong at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: Segments,
    /// What, as a sentence fragment.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    #[must_use]
    pub fn new(path: &[String], message: impl Into<String>) -> Self {
        Self { path: path.to_vec(), message: message.into(), hint: None }
    }
}

/// JSON Schema of a study file, for editors: also the drivers' parameters, which `check` leaves to the
/// drivers because they say more about a wrong value than a schema can.
#[must_use]
pub fn schema() -> Value {
    let mut schema = derived();
    if let Some(options) = schema.pointer_mut("/$defs/FileSystemSpec/properties/options") {
        *options = crate::filesystem::reference::options_schema();
    }
    // In the file it is a path; what is checked has the profile in its place.
    if let Some(workloads) = schema.pointer_mut("/$defs/WorkloadSpec/oneOf").and_then(Value::as_array_mut) {
        for like in workloads.iter_mut().filter_map(|w| w.pointer_mut("/properties/like")) {
            *like =
                json!({ "type": "string", "description": "Path of a profile that `fsage profile` wrote" });
        }
    }
    schema
}

fn derived() -> Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(make).clone()
}

fn make() -> Value {
    let mut schema = schemars::schema_for!(StudySpec).to_value();
    let names: Vec<&str> = OperationKind::ALL.iter().map(|k| k.name()).collect();
    // A map keyed by an enum loses its names in the derived schema.
    if let Some(workloads) = schema.pointer_mut("/$defs/WorkloadSpec/oneOf").and_then(Value::as_array_mut) {
        for weights in workloads.iter_mut().filter_map(|w| w.pointer_mut("/properties/weights")) {
            weights["propertyNames"] = json!({ "enum": names });
        }
    }
    add_sources(&mut schema);
    schema
}

/// Adds what stands in a study only: a path in the place of a history or histogram.
fn add_sources(schema: &mut Value) {
    if let Some(kinds) = schema.pointer_mut("/$defs/HistorySpec/oneOf").and_then(Value::as_array_mut) {
        kinds.extend(source::history_kinds());
    }
    let types = schema.get_mut("$defs").and_then(Value::as_object_mut);
    let kinds =
        types.into_iter().flat_map(Map::values_mut).filter_map(|it| it.get_mut("oneOf")?.as_array_mut());
    for kind in kinds.flatten() {
        if kind.pointer("/properties/kind/const") == Some(&json!("geriatrix")) {
            source::add_path(kind);
        }
    }
}

/// Everything in `value` that does not fit the schema, in document order.
#[must_use]
pub fn check(value: &Value) -> Vec<Problem> {
    check_by(value, &derived())
}

/// The same, of another kind of file, by its schema.
#[must_use]
pub fn check_by(value: &Value, root: &Value) -> Vec<Problem> {
    let mut walk = Walk { root, path: Vec::new(), problems: Vec::new() };
    walk.value(value, root);
    walk.problems
}

struct Walk<'a> {
    root: &'a Value,
    path: Segments,
    problems: Vec<Problem>,
}

impl Walk<'_> {
    fn problem(&mut self, message: impl Into<String>, hint: Option<String>) {
        self.problems.push(Problem { path: self.path.clone(), message: message.into(), hint });
    }

    fn below(&mut self, segment: &str, value: &Value, schema: &Value) {
        self.path.push(segment.to_owned());
        self.value(value, schema);
        self.path.pop();
    }

    fn value(&mut self, value: &Value, schema: &Value) {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            if name.ends_with("/Bytes") {
                return self.size(value);
            }
            if name.ends_with("/Medium") {
                return self.medium(value);
            }
            if name.ends_with("/Remedy") {
                return self.remedy(value);
            }
            let root = self.root;
            if let Some(target) = name.strip_prefix('#').and_then(|p| root.pointer(p)) {
                self.value(value, target);
            }
            return;
        }
        if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
            // A value, or a list of such values.
            let is_list = |o: &&Value| o.get("type") == Some(&json!("array"));
            let mut options = options.iter().filter(|o| o.get("type") != Some(&json!("null")));
            let first = options.clone().next();
            let option = options.find(|o| is_list(o) == value.is_array()).or(first);
            if let Some(option) = option.filter(|_| !value.is_null()) {
                self.value(value, option);
            }
            return;
        }
        if let Some(options) = schema.get("oneOf").and_then(Value::as_array) {
            return self.one_of(value, options);
        }
        if !self.kind(value, schema) {
            return;
        }
        match value {
            Value::Object(map) => self.object(map, schema),
            Value::Array(list) => self.array(list, schema),
            _ => {}
        }
    }

    fn remedy(&mut self, value: &Value) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Err(error) = text.parse::<Remedy>() {
            self.problem(error, None);
        }
    }

    fn size(&mut self, value: &Value) {
        match value {
            Value::Number(n) if n.is_u64() => {}
            Value::Number(_) => self.problem(
                format!("{value} is not a size: it must be a whole number of bytes, 0 or more"),
                None,
            ),
            Value::String(text) => {
                if let Err(error) = text.parse::<Bytes>() {
                    self.problem(error.to_string(), None);
                }
            }
            other => self.problem(
                format!("a size is expected, not {}", describe(other)),
                Some("write it as \"64KiB\"".into()),
            ),
        }
    }

    /// A medium knows best what is wrong with its name and parameters.
    fn medium(&mut self, value: &Value) {
        if !(value.is_string() || value.is_object()) {
            let hint = Some("write \"hdd-7200\", or { preset = \"hdd-7200\", rpm = 5400 }".to_owned());
            return self.problem(
                format!("the name of a medium or a table is expected, not {}", describe(value)),
                hint,
            );
        }
        if let Err(error) = serde_json::from_value::<MediumSpec>(value.clone()) {
            let text = error.to_string();
            let (message, hint) =
                text.split_once("; ").map_or((&*text, None), |(m, h)| (m, Some(h.to_owned())));
            self.problem(message, hint);
        }
    }

    /// An enumeration of words, or of tables distinguished by `kind`.
    fn one_of(&mut self, value: &Value, options: &[Value]) {
        let words: Vec<&str> = options.iter().filter_map(|o| o.get("const")?.as_str()).collect();
        if words.len() == options.len() {
            return self.word(value, &words);
        }
        let kind_of =
            |o: &Value| o.pointer("/properties/kind/const").and_then(Value::as_str).map(str::to_owned);
        let kinds: Vec<String> = options.iter().filter_map(kind_of).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let Value::Object(map) = value else {
            return self.problem(format!("a table is expected, not {}", describe(value)), None);
        };
        match map.get("kind") {
            None => self.problem(format!("`kind` is missing: one of {}", quoted(&kinds)), None),
            Some(kind) => match options.iter().find(|o| kind_of(o).as_deref() == kind.as_str()) {
                Some(option) => self.value(value, option),
                None => {
                    self.path.push("kind".to_owned());
                    self.word(kind, &kinds);
                    self.path.pop();
                }
            },
        }
    }

    fn word(&mut self, value: &Value, words: &[&str]) {
        match value.as_str() {
            Some(text) if words.contains(&text) => {}
            Some(text) => {
                let hint = nearest(text, words.iter().copied()).map(|w| format!("did you mean `{w}`?"));
                self.problem(format!("`{text}` is not one of {}", quoted(words)), hint);
            }
            None => {
                self.problem(format!("one of {} is expected, not {}", quoted(words), describe(value)), None)
            }
        }
    }

    /// Whether the value is of the right type; says so when not.
    fn kind(&mut self, value: &Value, schema: &Value) -> bool {
        let names: Vec<&str> = match schema.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        let fits = names.iter().any(|name| match *name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "number" => value.is_number(),
            "integer" => value.is_u64() || (value.is_i64() && schema.get("minimum").is_none()),
            _ => true,
        });
        if !fits {
            let expected = match names[0] {
                "boolean" => "true or false",
                "string" => "text in quotes",
                "array" => "a list",
                "object" => "a table",
                "number" => "a number",
                _ => "a whole number, 0 or more,",
            };
            self.problem(format!("{expected} is expected, not {}", describe(value)), None);
        }
        let limit =
            if schema.get("format") == Some(&json!("uint32")) { u64::from(u32::MAX) } else { u64::MAX };
        if value.as_u64().is_some_and(|v| v > limit) {
            self.problem(format!("{value} is larger than {limit}"), None);
            return false;
        }
        fits
    }

    fn object(&mut self, map: &Map<String, Value>, schema: &Value) {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let names = schema.pointer("/propertyNames/enum").and_then(Value::as_array);
        for (key, value) in map {
            let allowed = names.is_none_or(|n| n.iter().any(|n| n == key));
            match (properties.get(key), schema.get("additionalProperties")) {
                (Some(inner), _) => self.below(key, value, inner),
                (None, Some(Value::Bool(false))) => {
                    self.unknown_key(key, properties.keys().map(String::as_str))
                }
                _ if !allowed => {
                    self.unknown_key(key, names.into_iter().flatten().filter_map(Value::as_str));
                }
                (None, Some(inner @ Value::Object(_))) => self.below(key, value, inner),
                _ => {}
            }
        }
        for key in
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            if !map.contains_key(key) {
                self.problem(format!("`{key}` is missing"), None);
            }
        }
    }

    fn unknown_key<'a>(&mut self, key: &str, known: impl Iterator<Item = &'a str>) {
        let known: Vec<&str> = known.collect();
        let hint = match nearest(key, known.iter().copied()) {
            _ if self.path.is_empty() && key == "profile" => {
                "presets of a study are written `[preset.NAME]`".to_owned()
            }
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", quoted(&known)),
        };
        self.path.push(key.to_owned());
        self.problem("there is no such key", Some(hint));
        self.path.pop();
    }

    fn array(&mut self, list: &[Value], schema: &Value) {
        let prefix = schema.get("prefixItems").and_then(Value::as_array);
        if let Some(prefix) = prefix
            && prefix.len() != list.len()
        {
            return self.problem(format!("{} values are expected, not {}", prefix.len(), list.len()), None);
        }
        for (index, value) in list.iter().enumerate() {
            let inner = prefix.and_then(|p| p.get(index)).or_else(|| schema.get("items"));
            if let Some(inner) = inner {
                self.below(&index.to_string(), value, inner);
            }
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(b) => format!("{b}"),
        Value::Number(n) => format!("{n}"),
        Value::String(s) => format!("the text \"{s}\""),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a table".into(),
    }
}
