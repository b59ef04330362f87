//! `docs/study.md`: every key of a study file, from the schema that `fsage study schema` prints. Examples
//! come from the studies that are shipped or in `docs/examples`, media's from their presets, so that each one
//! is read by the program as it stands.

mod example;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use example::Examples;

const HEAD: &str = "# Study files: every key

Written by `cargo run -p xtask -- study` from the schema (`fsage study schema` prints it for editors); a test compares the two. A key \
without a default must be given, unless its default is *none*: then it may be left out. Sizes are whole numbers of bytes or text such as \
`\"64KiB\"`, `\"1.5GiB\"`. [A first study](first-study.md) shows how the parts work together.

In `[matrix]` and `[preset.NAME]`, and after `--set`, a key is named by its dotted path; a stage is named by its `name`: \
`stage.age.workload.slots`. `inherits = \"quick\"` in a preset takes that preset's values first. An unknown key is refused with its line and \
the nearest known key.
";

/// Keys whose tables have pages of their own.
const ELSEWHERE: [(&str, &str); 1] =
    [("options", "table per file system: [parameters of mkfs and mount](file-systems.md)")];

/// The page.
///
/// # Errors
/// A key has no example, or a study is not TOML.
pub fn page() -> Result<String, String> {
    let schema = fsage_lab::study::schema();
    let mut page = Page {
        root: &schema,
        examples: Examples::new(&schema)?,
        titles: BTreeMap::new(),
        text: HEAD.to_owned(),
    };
    page.titles.insert("StudySpec".to_owned(), "study".to_owned());
    page.section("StudySpec", &schema);
    let missing = page.examples.missing();
    if missing.is_empty() {
        Ok(page.text)
    } else {
        Err(format!("keys without an example: {}", missing.join(", ")))
    }
}

/// The definition that a schema refers to, directly, in a list, or as the values of a table.
fn referred(schema: &Value) -> Option<&str> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return name.rsplit('/').next();
    }
    let inner = |key: &str| schema.get(key).filter(|inner| inner.is_object()).and_then(referred);
    let of_options = || schema.get("anyOf")?.as_array()?.iter().find_map(referred);
    inner("items").or_else(|| inner("additionalProperties")).or_else(of_options)
}

/// Tables that a definition has: its own, or one per kind.
fn tables(schema: &Value) -> Vec<(String, &Map<String, Value>)> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        return vec![(String::new(), properties)];
    }
    let kinds = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    kinds
        .filter_map(|kind| {
            let name = kind.pointer("/properties/kind/const")?.as_str()?;
            Some((name.to_owned(), kind.get("properties")?.as_object()?))
        })
        .collect()
}

struct Page<'a> {
    root: &'a Value,
    examples: Examples,
    /// Definition → heading.
    titles: BTreeMap<String, String>,
    text: String,
}

impl<'a> Page<'a> {
    fn definition(&self, name: &str) -> &'a Value {
        self.root.get("$defs").and_then(|all| all.get(name)).unwrap_or(&Value::Null)
    }

    /// A definition's tables, then those of what it refers to for the first time.
    fn section(&mut self, name: &str, schema: &'a Value) {
        let title = self.titles[name].clone();
        let mut next = Vec::new();
        let _ = write!(self.text, "\n## {title}\n\n{}\n", sentence(schema));
        let kinds = schema.get("oneOf").and_then(Value::as_array);
        for (number, (kind, properties)) in tables(schema).into_iter().enumerate() {
            if let Some(kinds) = kinds {
                let _ = write!(self.text, "\n### {title}: {kind}\n\n{}\n", sentence(&kinds[number]));
            }
            for (key, schema) in properties {
                let Some(inner) =
                    referred(schema).filter(|_| ELSEWHERE.iter().all(|(known, _)| known != key))
                else {
                    continue;
                };
                let found = self.definition(inner);
                if !tables(found).is_empty() && !self.titles.contains_key(inner) {
                    let taken = self.titles.values().any(|known| known == key);
                    let heading = if taken { format!("{title}.{key}") } else { key.clone() };
                    self.titles.insert(inner.to_owned(), heading);
                    next.push((inner.to_owned(), found));
                }
            }
            let required = if kinds.is_some() {
                &kinds.map_or(&Value::Null, |kinds| &kinds[number])["required"]
            } else {
                &schema["required"]
            };
            self.table(name, &kind, properties, required);
        }
        for (name, schema) in next {
            self.section(&name, schema);
        }
    }

    fn table(&mut self, name: &str, kind: &str, properties: &Map<String, Value>, required: &Value) {
        self.text
            .push_str("\n| key | type | default | what it is | example |\n| --- | --- | --- | --- | --- |\n");
        let required: Vec<&str> =
            required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // The kind and what must be given come first.
        let mut keys: Vec<(&String, &Value)> = properties.iter().collect();
        keys.sort_by_key(|(key, _)| (*key != "kind", !required.contains(&key.as_str())));
        for (key, schema) in keys {
            let default = match schema.get("default") {
                Some(Value::Null) => "*none*".to_owned(),
                Some(default) if default.as_str() == Some("") => "*none*".to_owned(),
                Some(default) => format!("`{}`", example::inline(default)),
                None if required.contains(&key.as_str()) => String::new(),
                None => "*none*".to_owned(),
            };
            let what = if key == "kind" && schema.get("const").is_some() {
                "This kind.".to_owned()
            } else {
                sentence(schema)
            };
            let example = self.examples.of(name, kind, key, schema);
            let cells =
                [format!("`{key}`"), self.kind_of(key, schema), default, what, format!("`{example}`")];
            let cells: Vec<String> =
                cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            let _ = writeln!(self.text, "| {} |", cells.join(" | "));
        }
    }

    /// Type and range of a key.
    fn kind_of(&self, key: &str, schema: &Value) -> String {
        if let Some((_, text)) = ELSEWHERE.iter().find(|(known, _)| *known == key) {
            return (*text).to_owned();
        }
        if let Some(word) = schema.get("const").and_then(Value::as_str) {
            return format!("`\"{word}\"`");
        }
        if let Some(name) =
            schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next())
        {
            return self.kind_of_definition(name);
        }
        if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
            let mut options = options.iter().filter(|option| option["type"] != "null");
            let (inner, list) = (options.next(), options.next().filter(|other| other["type"] == "array"));
            if let (Some(one), Some(_)) = (inner, list) {
                return format!("{}, or a list of these", self.kind_of(key, one));
            }
            return inner.map_or_else(String::new, |inner| self.kind_of(key, inner));
        }
        if schema.get("oneOf").is_some() || schema.get("enum").is_some() {
            return words(schema).join(", ");
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::Array(types) => {
                types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
            }
            name => name.as_str().into_iter().collect(),
        };
        match types.first().copied() {
            Some("boolean") => "`true` or `false`".to_owned(),
            Some("string") => "text".to_owned(),
            Some("integer") => range("whole number", schema),
            Some("number") => range("number", schema),
            Some("array") => match schema.get("prefixItems").and_then(Value::as_array) {
                Some(items) => format!(
                    "list of {}",
                    items.iter().map(|item| self.kind_of(key, item)).collect::<Vec<_>>().join(" and ")
                ),
                None => format!("list of {}", self.kind_of(key, &schema["items"])),
            },
            Some("object") => match schema.get("additionalProperties").filter(|inner| inner.is_object()) {
                Some(inner) => format!("table of {}", self.kind_of(key, inner)),
                None => "table".to_owned(),
            },
            _ => "value".to_owned(),
        }
    }

    fn kind_of_definition(&self, name: &str) -> String {
        let definition = self.definition(name);
        match self.titles.get(name) {
            _ if name == "Bytes" => "size".to_owned(),
            _ if name == "Remedy" => "text".to_owned(),
            Some(title) if name == "Medium" => {
                format!("name of a medium, or table [{title}](#{})", anchor(title))
            }
            Some(title) => format!("table [{title}](#{})", anchor(title)),
            None => words(definition).join(", "),
        }
    }
}

/// The words of an enumeration.
fn words(schema: &Value) -> Vec<String> {
    let of = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let constants = of("oneOf").filter_map(|word| word.get("const")).chain(of("enum"));
    constants.filter_map(Value::as_str).map(|word| format!("`\"{word}\"`")).collect()
}

/// A whole number with commas.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|part| std::str::from_utf8(part).ok()).collect();
    groups.join(",")
}

fn range(name: &str, schema: &Value) -> String {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let largest = match schema["format"].as_str() {
        Some("uint16") => Some(u64::from(u16::MAX)),
        Some("uint32") => Some(u64::from(u32::MAX)),
        _ => None,
    };
    match (limit("minimum"), limit("maximum").or(largest)) {
        (Some(low), Some(high)) => format!("{name}, {} to {}", grouped(low), grouped(high)),
        (Some(low), None) => format!("{name}, {} or more", grouped(low)),
        _ => name.to_owned(),
    }
}

/// Words that GitHub and mdBook both link a heading by.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn sentence(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
    if text.is_empty() || text.ends_with(['.', ':', ';']) { text } else { format!("{text}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_current() {
        let file = crate::structure::root().join("docs/study.md");
        let page = page().unwrap();
        assert!(
            std::fs::read_to_string(&file).unwrap_or_default() == page,
            "run `cargo run -p xtask -- study`"
        );
    }

    #[test]
    fn every_example_is_toml() {
        let page = page().unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert!(rows.len() > 200, "{} keys", rows.len());
        for row in rows {
            let row = row.replace("\\|", "|");
            let example = row.trim_end_matches("` |").rsplit_once("| `").unwrap().1;
            example.parse::<toml::Table>().unwrap_or_else(|error| panic!("{row}: {error}"));
        }
    }
}
