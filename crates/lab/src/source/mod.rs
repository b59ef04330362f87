//! What a workload names by its path: histories of repositories and trees, and Geriatrix's files.
//!
//! Before a workload is checked and sent, each is read here and its content put in the place of the path, so
//! that the record of a run and the agent have all of it. Twice the same commits, trees or text give the same
//! workload. First a relative path is made absolute ([`anchor`]), as soon as it is known what it is relative
//! to; the content comes last ([`Contents::embed`]), when profiles, `--set` and matrix have had their say.

mod error;
pub mod listing;
mod recorder;
mod repository;
pub mod tar;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

pub use error::SourceError;
use fsage_model::protocol::FRAME_LIMIT;
use fsage_model::workload::RecordedHistory;
use fsage_sys::input;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Keys of a workload's table whose value may name something by its path.
const KEYS: [&str; 4] = ["history", "sizes", "depths", "ages"];

/// Most bytes of a history as JSON: what a message to the agent holds, with room for the rest of it.
const HISTORY_LIMIT: u64 = FRAME_LIMIT as u64 - (1 << 20);

/// Most bytes of the names that are held while a history is read: no message has them, so this bounds only
/// memory.
const NAMES_LIMIT: u64 = 256 << 20;

/// Largest file that is read as one of Geriatrix's; real ones have some KiB.
const GERIATRIX_LIMIT: u64 = 16 << 20;

/// A history that is named by its path, distinguished by `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum HistorySource {
    /// The commits of a git repository, along first parents.
    Repository {
        /// Folder of the repository, a clone or a bare one.
        path: PathBuf,
        /// Last commit; absent: `HEAD`.
        #[serde(default = "head")]
        revision: String,
        /// First commit; absent: the oldest.
        #[serde(default)]
        from: Option<String>,
        /// Maximum number of commits, counted from the first (at least 2).
        #[serde(default)]
        commits: Option<u64>,
    },
    /// The differences between consecutive states of a tree.
    Listings {
        /// Directories and tar files (plain, `.gz` or `.zst`), oldest first; at least 2.
        paths: Vec<PathBuf>,
    },
}

fn head() -> String {
    "HEAD".to_owned()
}

/// A histogram in a file, or its text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum HistogramSource {
    /// A profile file of Geriatrix.
    Geriatrix {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Schemas of the histories that are named by paths.
#[must_use]
pub fn history_kinds() -> Vec<Value> {
    let schema = schemars::schema_for!(HistorySource).to_value();
    schema.get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Adds the path of a file to the schema of a histogram that is given as text.
pub fn add_path(geriatrix: &mut Value) {
    let schema = schemars::schema_for!(HistogramSource).to_value();
    let path = schema.pointer("/oneOf/0/properties/path").cloned().unwrap_or_default();
    geriatrix["properties"]["path"] = path;
    geriatrix["required"] = json!(["kind"]);
}

/// Whether the value of a workload's key names something by its path.
fn is_source(value: &Value) -> bool {
    match value.get("kind").and_then(Value::as_str) {
        Some("repository" | "listings") => true,
        Some("geriatrix") => value.get("text").is_none() || value.get("path").is_some(),
        _ => false,
    }
}

/// The paths that a workload's table names, each with the key that it stands in.
pub fn named(workload: &Value) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let source = move |key| workload.get(key).filter(|value| is_source(value)).map(|value| (key, value));
    KEYS.into_iter().filter_map(source).flat_map(|(key, value)| paths(value).map(move |path| (key, path)))
}

/// Takes out of a workload's table what names something by its path.
pub fn take(workload: &mut Value) -> Vec<(&'static str, Value)> {
    let Some(table) = workload.as_object_mut() else { return Vec::new() };
    let named: Vec<&str> = KEYS.into_iter().filter(|key| table.get(*key).is_some_and(is_source)).collect();
    named.into_iter().filter_map(|key| Some((key, table.remove(key)?))).collect()
}

/// Makes the paths that a workload's table names absolute: relative ones are below `base`.
pub fn anchor(base: &Path, workload: &mut Value) {
    let absolute = |path: &mut Value| {
        let there = path.as_str().and_then(|text| std::path::absolute(base.join(text)).ok());
        // JSON has no other paths than text; one that is not stays relative.
        if let Some(text) = there.as_deref().and_then(Path::to_str) {
            *path = json!(text);
        }
    };
    for key in KEYS {
        let Some(source) = workload.get_mut(key).filter(|value| is_source(value)) else { continue };
        source.get_mut("path").into_iter().for_each(absolute);
        let paths = source.get_mut("paths").and_then(Value::as_array_mut);
        paths.into_iter().flatten().for_each(absolute);
    }
}

/// What of a workload's table cannot be taken.
#[derive(Debug)]
pub struct Refusal {
    /// The keys to it, from the table inwards.
    pub keys: Vec<&'static str>,
    /// Why.
    pub error: Box<SourceError>,
}

/// Contents that were read, so that what several cells or stages name is read once.
#[derive(Debug, Default)]
pub struct Contents {
    read: BTreeMap<String, Value>,
    paths: BTreeSet<PathBuf>,
}

impl Contents {
    /// The paths that were read.
    #[must_use]
    pub fn into_paths(self) -> BTreeSet<PathBuf> {
        self.paths
    }

    /// Puts contents in the place of the paths that a workload's table names.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn embed(&mut self, workload: &mut Value) -> Result<(), Refusal> {
        for key in KEYS {
            let Some(value) = workload.get_mut(key).filter(|value| is_source(value)) else { continue };
            let name = format!("{key} {value}");
            self.paths.extend(paths(value));
            let content = match self.read.get(&name) {
                Some(content) => content.clone(),
                None => {
                    let blame = |error: SourceError| Refusal {
                        keys: [Some(key), error.key()].into_iter().flatten().collect(),
                        error: Box::new(error),
                    };
                    let content = if key == "history" { history(value) } else { geriatrix(value) };
                    let content = content.map_err(blame)?;
                    self.read.insert(name, content.clone());
                    content
                }
            };
            *value = content;
        }
        Ok(())
    }
}

/// The paths in what names something by its path.
fn paths(source: &Value) -> impl Iterator<Item = PathBuf> {
    let several = source.get("paths").and_then(Value::as_array).into_iter().flatten();
    several.chain(source.get("path")).filter_map(Value::as_str).map(PathBuf::from)
}

fn history(value: &Value) -> Result<Value, SourceError> {
    let history = match form(value)? {
        HistorySource::Repository { path, revision, from, commits } => {
            let selection = repository::Selection { revision: &revision, from: from.as_deref(), commits };
            repository::read(&path, selection)?
        }
        HistorySource::Listings { paths } => {
            paths.iter().try_for_each(|path| no_pipe(path))?;
            listing::read(&paths)?
        }
    };
    fits(&history)?;
    let RecordedHistory { directories, paths, commits } = history;
    Ok(json!({ "kind": "recorded", "directories": directories, "paths": paths, "commits": commits }))
}

/// Refuses what would be waited for: who runs a study does not know what it names.
fn no_pipe(path: &Path) -> Result<(), SourceError> {
    match path.metadata() {
        Ok(found) if found.file_type().is_fifo() => {
            Err(SourceError::Read { path: path.to_owned(), source: input::Unfit::Kind("a pipe").into() })
        }
        _ => Ok(()),
    }
}

fn geriatrix(value: &Value) -> Result<Value, SourceError> {
    if value.get("text").is_some() {
        return Err(SourceError::Form {
            message: "`path` and `text` are both given: give one of them".to_owned(),
        });
    }
    let HistogramSource::Geriatrix { path } = form(value)?;
    let failed = |source| SourceError::Read { path: path.clone(), source };
    let text = input::read_text(&path, GERIATRIX_LIMIT).map_err(failed)?;
    Ok(json!({ "kind": "geriatrix", "text": text }))
}

fn form<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, SourceError> {
    T::deserialize(value).map_err(|error| SourceError::Form { message: error.to_string() })
}

/// Refuses what no message to an agent holds.
fn fits(history: &RecordedHistory) -> Result<(), SourceError> {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, history)
        .map_err(|error| SourceError::Form { message: error.to_string() })?;
    if count.0 > HISTORY_LIMIT {
        return Err(SourceError::TooLarge { bytes: count.0, limit: HISTORY_LIMIT });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_is_named_as_a_listing_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let error = history(&json!({ "kind": "listings", "paths": [pipe, pipe] })).unwrap_err();
        assert!(error.to_string().contains("a pipe"), "{error}");
    }

    #[test]
    fn a_profile_file_without_an_end_is_refused() {
        let error = geriatrix(&json!({ "kind": "geriatrix", "path": "/dev/zero" })).unwrap_err();
        assert!(error.to_string().contains("a device, not an ordinary file"), "{error}");
    }
}
