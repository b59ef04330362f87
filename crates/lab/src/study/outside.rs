//! What a study's text names outside its own folder.
//!
//! A study from elsewhere is run as root: without the user's consent it reads nothing that root alone may
//! read, and makes nothing where the user did not say. So each path that it names lies beneath the study's
//! folder or the store, links resolved, or is given on the command line. The texts that come with this
//! program need no consent.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::{Study, parse_value, source};

impl Study {
    /// The paths that this study names outside its folder and the store in `store`, and that no `--set`
    /// names.
    #[must_use]
    pub fn outside(&self, store: &Path) -> BTreeSet<PathBuf> {
        if source::is_shipped(&self.text) {
            return BTreeSet::new();
        }
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let reported = self.reported(folder);
        let mut named = self.sources.clone();
        for cell in &self.cells {
            let spec = serde_json::to_value(&cell.spec).unwrap_or_default();
            places(&spec, &mut named);
        }
        let homes: Vec<PathBuf> = [folder, store].into_iter().filter_map(resolved).collect();
        named.retain(|path| {
            let is_home = resolved(path).is_some_and(|path| homes.iter().any(|home| path.starts_with(home)));
            !is_home && !reported.contains(path)
        });
        named
    }

    /// What the command line names, as it is there and as the study would find it.
    fn reported(&self, folder: &Path) -> BTreeSet<PathBuf> {
        let mut texts = Vec::new();
        for (_, value) in self.overrides.set.iter().filter_map(|set| set.split_once('=')) {
            texts.push(value.to_owned());
            strings(&parse_value(value), &mut texts);
        }
        let absolute = |text: &String| std::path::absolute(folder.join(text)).ok();
        texts.iter().map(PathBuf::from).chain(texts.iter().filter_map(absolute)).collect()
    }
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(table) => table.values().for_each(|item| strings(item, found)),
        _ => {}
    }
}

/// The folders that the volumes in a cell name.
fn places(value: &Value, found: &mut BTreeSet<PathBuf>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| places(item, found)),
        Value::Object(table) => {
            let key = match table.get("kind").and_then(Value::as_str) {
                Some("loop") => "directory",
                _ => "spill",
            };
            found.extend(table.get(key).and_then(Value::as_str).map(PathBuf::from));
            table.values().for_each(|item| places(item, found));
        }
        _ => {}
    }
}

/// The path without links; what is missing at its end stays as it is. Nothing where `..` comes after that, or
/// links lead in a circle.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(if path.as_os_str().is_empty() { Path::new(".") } else { path }).ok()?;
    for above in path.ancestors() {
        let missing = path.strip_prefix(above).ok()?;
        // A link that leads nowhere is there all the same.
        if above.symlink_metadata().is_ok() {
            let is_plain = missing.components().all(|part| matches!(part, Component::Normal(_)));
            let above = above.canonicalize().ok()?;
            return is_plain
                .then(|| if missing.as_os_str().is_empty() { above } else { above.join(missing) });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::study::{Overrides, load};

    #[test]
    fn what_lies_outside_of_study_and_store_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::fs::create_dir(&own).unwrap();
        let (file, store) = (own.join("study.toml"), folder.path().join("store"));
        symlink(folder.path(), own.join("up")).unwrap();
        let shipped = include_str!("../../../../studies/digest.toml");
        let outside = |directory: &Path, set: &[&str]| {
            let text = format!("# not as it came\n{shipped}");
            std::fs::write(&file, text).unwrap();
            let set = set.iter().map(|set| (*set).to_owned()).collect();
            let mut study = load(&file, &Overrides { preset: None, set }).unwrap();
            study.sources.insert(directory.to_owned());
            study.outside(&store)
        };
        let elsewhere = folder.path().join("elsewhere");
        for inside in [own.join("volumes/new"), store.join("volumes"), own.clone()] {
            assert_eq!(outside(&inside, &[]), BTreeSet::new(), "{}", inside.display());
        }
        for path in
            [elsewhere.clone(), own.join("up/elsewhere"), own.join("../elsewhere"), "/etc/shadow".into()]
        {
            assert_eq!(outside(&path, &[]), BTreeSet::from([path.clone()]));
        }
        let set = format!("volume.directory=\"{}\"", elsewhere.display());
        assert_eq!(outside(&elsewhere, &[&set]), BTreeSet::new(), "the user said so");
        assert_eq!(outside(Path::new("/etc/shadow"), &[&set]), BTreeSet::from(["/etc/shadow".into()]));
    }
}
