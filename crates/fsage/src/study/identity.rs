//! What makes a trial the same trial: the canonical text of everything that affects its result.

use serde_json::Value;

use super::spec::StudySpec;
use crate::store::format::STORE_VERSION;

/// Canonical JSON (sorted keys, no spaces) of what affects the result of a cell. Left out: names, texts
/// and claims, the matrix and profiles it came from, and options of other file systems.
#[must_use]
pub fn canonical(cell: &StudySpec) -> String {
    let kind = &cell.file_system.kind;
    let mut text = String::new();
    write(
        &serde_json::json!({
            "store_version": STORE_VERSION,
            "seed": cell.seed,
            "target": cell.target,
            "volume": cell.volume,
            "file_system": kind,
            "options": cell.file_system.options.get(kind).cloned().unwrap_or_default(),
            "driver": cell.driver.get(kind),
            "stage": cell.stage,
        }),
        &mut text,
    );
    text
}

/// Id of a trial: the first 16 hex characters of BLAKE3 over cell, repeat and seed.
#[must_use]
pub fn trial_id(cell: &StudySpec, repeat: u32, seed: u64) -> String {
    let text = format!("{}\n{repeat}\n{seed}", canonical(cell));
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write(&map[key], text);
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for (n, value) in list.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}
