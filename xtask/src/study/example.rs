//! An example of every key, taken from studies that the program accepts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{referred, tables};
use crate::structure;

/// Examples longer than this name the table instead of showing it.
const LONGEST: usize = 80;

/// Definition, kind and key.
type Key = (String, String, String);

/// Shortest value found for each key.
pub(super) struct Examples {
    found: BTreeMap<Key, Value>,
    missing: Vec<String>,
    /// Only keys that have no example yet get one.
    is_full: bool,
}

impl Examples {
    /// Reads the studies.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        let mut examples = Self { found: BTreeMap::new(), missing: Vec::new(), is_full: false };
        let mut all = Vec::new();
        for file in files()? {
            let text =
                std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let study: Value =
                toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            examples.walk("StudySpec", schema, &study, schema);
            all.push(study);
        }
        // Keys that stand in no study but in its matrix or a preset.
        examples.is_full = true;
        for changed in all.iter().flat_map(changed) {
            examples.walk("StudySpec", schema, &changed, schema);
        }
        examples.is_full = false;
        for preset in fsage_model::medium::presets() {
            let spec =
                fsage_model::medium::MediumSpec::named(preset.name).map_err(|error| error.to_string())?;
            for parameter in spec.parameters() {
                let value = parameter
                    .value
                    .parse::<u64>()
                    .map_or_else(|_| json!(parameter.value), |number| json!(number));
                examples.note("Medium", "", parameter.key, &value);
            }
        }
        Ok(examples)
    }

    fn note(&mut self, definition: &str, kind: &str, key: &str, value: &Value) {
        let shortest = self
            .found
            .entry((definition.to_owned(), kind.to_owned(), key.to_owned()))
            .or_insert_with(|| value.clone());
        // A code span ends at a backtick.
        let length = |value| (inline(value).contains('`'), inline(value).len());
        if !self.is_full && length(value) < length(shortest) {
            *shortest = value.clone();
        }
    }

    /// Notes every key of `value`, which `schema` describes.
    fn walk(&mut self, definition: &str, schema: &Value, value: &Value, root: &Value) {
        if let (Value::Array(list), Some(items)) = (value, schema.get("items")) {
            list.iter().for_each(|inner| self.walk(definition, items, inner, root));
            return;
        }
        let Value::Object(table) = value else { return };
        if let Some(name) =
            schema.get("$ref").or_else(|| schema.pointer("/anyOf/0/$ref")).and_then(Value::as_str)
        {
            let name = name.rsplit('/').next().unwrap_or_default();
            return self.walk(name, &root["$defs"][name], value, root);
        }
        let known = tables(schema);
        // A volume with a drive or a medium need not have a kind.
        let implied = match (table.contains_key("drive"), table.contains_key("medium")) {
            (true, _) => "partition",
            (false, true) => "disk",
            (false, false) => "",
        };
        let kind = table.get("kind").and_then(Value::as_str).unwrap_or(implied);
        match known.iter().find(|(name, _)| name.is_empty() || name == kind) {
            Some((name, properties)) => self.keys(definition, name, properties, table, root),
            None if referred(schema).is_some() => {
                table
                    .values()
                    .for_each(|inner| self.walk(definition, &schema["additionalProperties"], inner, root));
            }
            None => {}
        }
    }

    fn keys(
        &mut self,
        definition: &str,
        kind: &str,
        properties: &Map<String, Value>,
        table: &Map<String, Value>,
        root: &Value,
    ) {
        for (key, value) in table {
            if let Some(schema) = properties.get(key) {
                self.note(definition, kind, key, value);
                self.walk(definition, schema, value, root);
            }
        }
    }

    /// The example of a key, as TOML.
    pub(super) fn of(&mut self, definition: &str, kind: &str, key: &str, schema: &Value) -> String {
        let found = self.found.get(&(definition.to_owned(), kind.to_owned(), key.to_owned()));
        let Some(value) = found.or_else(|| schema.get("const")) else {
            self.missing.push(format!("{definition}{}{kind}.{key}", if kind.is_empty() { "" } else { " " }));
            return String::new();
        };
        let text = format!("{} = {}", bare(key), inline(value));
        match value {
            _ if text.len() <= LONGEST => text,
            Value::Array(list) if list.first().is_some_and(Value::is_object) => format!("[[{key}]]"),
            Value::Object(_) => format!("[{key}]"),
            _ => text,
        }
    }

    /// Keys that no study uses.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }
}

/// The study with each value of its matrix and of its presets in its place.
fn changed(study: &Value) -> Vec<Value> {
    let tables = study.get("preset").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let presets = tables.filter_map(Value::as_object).flatten();
    let matrix = study.get("matrix").and_then(Value::as_object).into_iter().flatten();
    let mut values: Vec<(&str, &Value)> = Vec::new();
    let of_matrix = matrix.map(|(path, list)| (path.as_str(), list, true));
    for (path, value, is_list) in of_matrix.chain(presets.map(|(path, value)| (path.as_str(), value, false)))
    {
        let factor = path.strip_prefix("matrix.");
        match value {
            Value::Array(list) if is_list || factor.is_some() => {
                values.extend(list.iter().map(|value| (factor.unwrap_or(path), value)));
            }
            value => values.push((path, value)),
        }
    }
    values.into_iter().filter_map(|(path, value)| put(study.clone(), path, value)).collect()
}

/// A study with a value at a path of tables; nothing where the path leads through a list, as those of stages do.
fn put(mut study: Value, path: &str, value: &Value) -> Option<Value> {
    let (tables, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = &mut study;
    for name in tables.split('.').filter(|name| !name.is_empty()) {
        place = place.as_object_mut()?.entry(name).or_insert_with(|| json!({}));
    }
    place.as_object_mut()?.insert(key.to_owned(), value.clone());
    Some(study)
}

fn files() -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for folder in ["studies", "docs/examples"] {
        let folder: &Path = &structure::root().join(folder);
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
        files.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "toml")));
    }
    files.sort();
    Ok(files)
}

fn bare(key: &str) -> String {
    if key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
        key.to_owned()
    } else {
        format!("\"{key}\"")
    }
}

/// A value in one line of TOML.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::Object(table) if table.is_empty() => "{}".to_owned(),
        Value::Object(table) => {
            let keys: Vec<String> =
                table.iter().map(|(key, value)| format!("{} = {}", bare(key), inline(value))).collect();
            format!("{{ {} }}", keys.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fsage_lab::study::{Consent, Overrides, load};

    #[test]
    fn every_study_is_accepted() {
        for file in super::files().unwrap() {
            // An archive of the source has no history to read.
            if file.ends_with("repository.toml") && !crate::structure::root().join(".git").exists() {
                continue;
            }
            load(&file, &Overrides::default(), Consent::Given)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }
}
