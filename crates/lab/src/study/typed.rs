//! Files of other kinds than studies, read as studies are: a wrong key names the nearest right one and its line.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::Document;
use super::schema::{Problem, check_by};
use super::{Fault, StudyError};

/// Reads a text whose values must fit `schema`, and for which `check` finds no problem.
///
/// # Errors
/// It is not TOML, or what is wrong with it, with its line.
pub fn parse<T: DeserializeOwned>(
    file: &Path,
    text: &str,
    schema: &Value,
    check: impl FnOnce(&T) -> Vec<Problem>,
) -> Result<T, StudyError> {
    let document = Document::parse(file, text)?;
    let refuse = |problems: Vec<Problem>| {
        let fault = |problem: Problem| Fault {
            place: document.place(&problem.path),
            origin: String::new(),
            path: problem.path.join("."),
            message: problem.message,
            hint: problem.hint,
        };
        StudyError::Invalid { faults: problems.into_iter().map(fault).collect() }
    };
    let problems = check_by(&document.value, schema);
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let value: T = serde_json::from_value(document.value.clone())
        .map_err(|error| refuse(vec![Problem::new(&[], error.to_string())]))?;
    match check(&value) {
        problems if problems.is_empty() => Ok(value),
        problems => Err(refuse(problems)),
    }
}
