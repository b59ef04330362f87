//! A workload from `--workload` and `--set`: defaults, changed by dotted paths.

use std::path::Path;

use fsage_model::problem::{EXIT_USAGE, Problem};
use fsage_model::workload::{DerivedKey, DriftSpec, WorkloadSpec};
use fsage_sys::input::{self, TEXT_LIMIT, Unfit};
use serde_json::Value;

use fsage_lab::profile;
use fsage_lab::source::{self, Contents, Refusal};

/// The help of `--workload`.
#[must_use]
pub fn help() -> String {
    let known = WorkloadSpec::NAMES.join("`, `");
    format!("The workload: `{known}`, or a TOML file with the keys of a study's `workload` table")
}

/// The workload that the flags describe.
///
/// # Errors
/// Exit code 2: an unknown workload, an unreadable file, a wrong key or value.
pub fn from_arguments(name: &str, set: &[String]) -> Result<WorkloadSpec, Problem> {
    let (spec, sources) = match WorkloadSpec::named(name) {
        Some(spec) => plain(spec),
        None if Path::new(name).extension().is_some_and(|e| e == "toml") => from_file(Path::new(name))?,
        None => {
            let known = WorkloadSpec::NAMES.join("`, `");
            return Err(Problem::new(EXIT_USAGE, format!("there is no workload `{name}`")).hint(format!(
                "it is `{known}`, or the path of a TOML file with the keys of a study's workload table"
            )));
        }
    };
    if set.is_empty() && sources.is_empty() {
        return Ok(spec);
    }
    let mut given: Vec<String> = match &spec {
        WorkloadSpec::Drift(DriftSpec { like: Some(like), .. }) => {
            let names = DerivedKey::ALL.iter().filter(|(key, _)| like.given.contains(key));
            names.map(|(_, name)| (*name).to_owned()).collect()
        }
        _ => Vec::new(),
    };
    let tree = serde_json::to_value(&spec)
        .map_err(|error| Problem::new(EXIT_USAGE, "the workload cannot be changed").because(&error))?;
    let mut tree = with_sources(tree, sources);
    tree = changed(tree, set)?;
    for text in set {
        let (path, _) = split(text, "--set")?;
        given.extend(path.split('.').next().map(str::to_owned));
    }
    embed(Path::new(""), &mut tree, &given)?;
    contents(&mut tree)?;
    serde_json::from_value(tree).map_err(|error| {
        Problem::new(EXIT_USAGE, format!("--set {} does not fit the workload", set.join(" --set ")))
            .because(&error)
            .hint("docs/workload.md lists every key; sizes are written as 4096, 64KiB or 1GiB")
    })
}

/// A description with `--set` put into it.
///
/// # Errors
/// Exit code 2: one of them is not of the form key=value.
pub fn changed(mut tree: Value, set: &[String]) -> Result<Value, Problem> {
    for text in set {
        let (path, new) = split(text, "--set")?;
        put(&mut tree, path, value(new));
    }
    Ok(tree)
}

/// What a workload's table names by paths, by its keys.
type Sources = Vec<(&'static str, Value)>;

const fn plain(spec: WorkloadSpec) -> (WorkloadSpec, Sources) {
    (spec, Vec::new())
}

/// The table with what was taken out of it; it stands for the default that took its place.
fn with_sources(mut tree: Value, sources: Sources) -> Value {
    for (key, source) in sources {
        tree[key] = source;
    }
    tree
}

/// The workload of a file, without what it names by paths.
fn from_file(path: &Path) -> Result<(WorkloadSpec, Sources), Problem> {
    let problem = || Problem::new(EXIT_USAGE, format!("cannot read workload `{}`", path.display()));
    let text = input::read_text(path, TEXT_LIMIT).map_err(|error| match Unfit::hint(&error) {
        Some(hint) => problem().because(&error).hint(hint),
        None => problem().because(&error),
    })?;
    let mut tree: Value = toml::from_str(&text).map_err(|error| problem().because(&error))?;
    let base = path.parent().unwrap_or(Path::new(""));
    source::anchor(base, &mut tree);
    let sources = source::take(&mut tree);
    let named = tree.as_object().is_some_and(|table| table.contains_key("like"));
    if !named && sources.is_empty() {
        // Straight from the text, so that an error has its line.
        return toml::from_str(&text).map(plain).map_err(|error| problem().because(&error));
    }
    let given: Vec<String> =
        tree.as_object().map(|table| table.keys().cloned().collect()).unwrap_or_default();
    embed(base, &mut tree, &given)?;
    let spec = serde_json::from_value(tree).map_err(|error| problem().because(&error))?;
    Ok((spec, sources))
}

/// Reads what the table names by paths.
fn contents(tree: &mut Value) -> Result<(), Problem> {
    source::anchor(Path::new(""), tree);
    Contents::default().embed(tree).map_err(|Refusal { keys, error }| {
        let problem = Problem::new(EXIT_USAGE, format!("cannot use `{}`", keys.join("."))).because(&*error);
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })
}

fn embed(base: &Path, tree: &mut Value, given: &[String]) -> Result<(), Problem> {
    let named = profile::named(base, tree, false);
    profile::embed(named.as_ref(), tree, given).map_err(|error| {
        let problem = Problem::new(EXIT_USAGE, "cannot use the workload's profile").because(&error);
        if error.hint().is_empty() { problem } else { problem.hint(error.hint()) }
    })
}

/// `key=value` in two.
///
/// # Errors
/// Exit code 2 when there is no `=` or nothing before it.
pub fn split<'a>(text: &'a str, flag: &str) -> Result<(&'a str, &'a str), Problem> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim(), value.trim())),
        _ => Err(Problem::new(EXIT_USAGE, format!("`{flag} {text}` is not of the form key=value"))),
    }
}

/// A TOML value, or the text itself where it is none (`4KiB`, `uniform`).
#[must_use]
pub fn value(text: &str) -> Value {
    format!("v = {text}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("v"))
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Sets a dotted path. A table with a `kind` starts again when another kind is put into it, since the keys
/// of the old kind mean nothing to the new one.
fn put(tree: &mut Value, path: &str, new: Value) {
    let mut at = tree;
    let mut keys = path.split('.').peekable();
    while let Some(key) = keys.next() {
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        let Some(table) = at.as_object_mut() else { return };
        if keys.peek().is_none() {
            if key == "kind" && table.get(key) != Some(&new) {
                table.clear();
            }
            table.insert(key.to_owned(), new);
            return;
        }
        at = table.entry(key).or_insert(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::size::Bytes;
    use fsage_model::workload::{SizeSpec, SnapshotsSpec};

    fn set(text: &[&str]) -> Result<WorkloadSpec, Problem> {
        from_arguments("drift", &text.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn dotted_paths_reach_tables_and_change_their_kind() {
        let spec = set(&[
            "slots=20",
            "weights.create=3.5",
            "file_size.kind=uniform",
            "file_size.min=4KiB",
            "file_size.max=65536",
        ]);
        let WorkloadSpec::Drift(drift) = spec.unwrap() else { unreachable!("drift was asked for") };
        assert_eq!(drift.slots, 20);
        assert_eq!(drift.file_size, SizeSpec::Uniform { min: Bytes(4096), max: Bytes(65_536) });
        assert!(drift.weights.len() > 1, "other weights stay");
    }

    #[test]
    fn a_utilisation_can_be_given_where_there_was_none() {
        let spec = set(&["utilisation.kind=hold", "utilisation.target=0.8"]).unwrap();
        let drift = spec.drift().unwrap();
        assert!(drift.utilisation.is_some());
    }

    #[test]
    fn wrong_keys_values_and_names_are_usage_errors() {
        for wrong in [&["slotz=20"][..], &["slots=many"], &["slots"], &["=3"], &["file_size.kind=odd"]] {
            assert_eq!(set(wrong).unwrap_err().exit_code, EXIT_USAGE, "{wrong:?}");
        }
        assert_eq!(from_arguments("drfit", &[]).unwrap_err().exit_code, EXIT_USAGE);
        assert_eq!(from_arguments("/nonexistent.toml", &[]).unwrap_err().exit_code, EXIT_USAGE);
    }

    #[test]
    fn what_a_file_names_is_below_it_and_what_a_flag_names_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for (day, size) in [("one", 1), ("two", 2), ("three", 3)] {
            std::fs::create_dir(path(day)).unwrap();
            std::fs::write(path(day) + "/file", "x".repeat(size)).unwrap();
        }
        let file = path("workload.toml");
        let text =
            "kind = \"snapshots\"\n[history]\nkind = \"listings\"\npaths = [\"one\", \"two\", \"three\"]\n";
        std::fs::write(&file, text).unwrap();
        let states = |set: &[String]| match from_arguments(&file, set).unwrap() {
            WorkloadSpec::Snapshots(SnapshotsSpec { history }) => history.steps() + 1,
            _ => 0,
        };
        assert_eq!(states(&[]), 3);
        assert_eq!(states(&[format!("history.paths=[{:?}, {:?}]", path("two"), path("one"))]), 2);
        let relative = from_arguments(&file, &["history.paths=[\"one\", \"two\"]".to_owned()]).unwrap_err();
        assert_eq!(relative.exit_code, EXIT_USAGE);
        let wrong = text.replace("paths", "path");
        std::fs::write(&file, wrong).unwrap();
        assert_eq!(from_arguments(&file, &[]).unwrap_err().exit_code, EXIT_USAGE);
    }
}
