//! Dotted paths: what `[matrix]`, `[preset.*]`, claims and `--set` name things by.
//!
//! `stage.<name>.x` names a stage by its `name`. `matrix.<path>` names the matrix' entry for that path,
//! dots and all.

use serde_json::{Map, Value};

use super::document::Segments;

/// Why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Not a dotted path at all.
    #[error("`{0}` is not a dotted path")]
    NotAPath(String),
    /// There is no such stage.
    #[error("there is no stage `{name}` (there is {known})")]
    NoStage {
        /// Asked for.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// Something on the way is not a table.
    #[error("`{0}` is a plain value: nothing can be set below it")]
    NotATable(String),
}

/// Splits a path into segments of `root`; a stage's name becomes its index.
///
/// # Errors
/// Not a path, or no such stage.
pub fn resolve(root: &Value, path: &str) -> Result<Segments, PathError> {
    let keys = toml_edit::Key::parse(path).map_err(|_| PathError::NotAPath(path.to_owned()))?;
    let mut segments: Segments = keys.iter().map(|k| k.get().to_owned()).collect();
    if segments.first().is_some_and(|s| s == "matrix") && segments.len() > 2 {
        segments = vec!["matrix".to_owned(), segments[1..].join(".")];
    }
    if segments.first().is_some_and(|s| s == "stage") && segments.len() > 1 {
        let names = stage_names(root);
        let index = names.iter().position(|n| *n == segments[1]).ok_or_else(|| PathError::NoStage {
            name: segments[1].clone(),
            known: names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
        })?;
        segments[1] = index.to_string();
    }
    Ok(segments)
}

/// Names of the stages in order; a stage without a name has its kind's.
#[must_use]
pub fn stage_names(root: &Value) -> Vec<String> {
    let text = |stage: &Value, key: &str| stage.get(key).and_then(Value::as_str).map(str::to_owned);
    root.get("stage")
        .and_then(Value::as_array)
        .map(|stages| {
            stages.iter().map(|s| text(s, "name").or_else(|| text(s, "kind")).unwrap_or_default()).collect()
        })
        .unwrap_or_default()
}

/// Puts `value` at `path`, making tables on the way.
///
/// # Errors
/// Something on the way is not a table.
pub fn set(root: &mut Value, path: &[String], value: Value) -> Result<(), PathError> {
    let Some((last, way)) = path.split_last() else { return Ok(()) };
    let mut at = root;
    for (n, segment) in way.iter().enumerate() {
        let not_a_table = || PathError::NotATable(path[..=n].join("."));
        at = match at {
            Value::Object(map) => map.entry(segment.clone()).or_insert_with(|| Value::Object(Map::new())),
            Value::Array(list) => {
                segment.parse().ok().and_then(|i: usize| list.get_mut(i)).ok_or_else(not_a_table)?
            }
            _ => return Err(not_a_table()),
        };
    }
    match at {
        Value::Object(map) => {
            map.insert(last.clone(), value);
            Ok(())
        }
        Value::Array(list) => match last.parse().ok().and_then(|i: usize| list.get_mut(i)) {
            Some(slot) => {
                *slot = value;
                Ok(())
            }
            None => Err(PathError::NotATable(way.join("."))),
        },
        _ => Err(PathError::NotATable(way.join("."))),
    }
}

/// The value at `path`.
#[must_use]
pub fn get<'a>(root: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(root, |at, segment| match at {
        Value::Object(map) => map.get(segment),
        Value::Array(list) => segment.parse().ok().and_then(|i: usize| list.get(i)),
        _ => None,
    })
}

/// A path as users write it: a stage by its name.
#[must_use]
pub fn display(root: &Value, path: &[String]) -> String {
    let mut shown = path.to_vec();
    if let [first, index, ..] = path
        && first == "stage"
        && let Some(name) = index.parse().ok().and_then(|i: usize| stage_names(root).into_iter().nth(i))
        && !name.is_empty()
    {
        shown[1] = name;
    }
    shown.join(".")
}
