//! What a study's text names outside its own folder.
//!
//! A study from elsewhere is run as root: without the user's consent it reads nothing that root alone may
//! read, and makes nothing where the user did not say. So each path that it names lies beneath the study's
//! folder or the store, links resolved, or is given on the command line. The texts that come with this
//! program need no consent.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::{Overrides, Study, parse_value, source};
use crate::measure::PRESETS;

/// What to do where a study names something out of its reach.
pub const OUTSIDE_HINT: &str =
    "name it with --set; or, if you trust the study's author, run it again with --allow-commands";

/// Whether the user agrees to what a study's text names outside its own folder.
#[derive(Debug, Clone, Copy)]
pub enum Consent<'a> {
    /// To everything (`--allow-commands`).
    Given,
    /// To what lies below the store; absent: below `store/NAME`.
    Below(Option<&'a Path>),
}

/// The places that a study may read and make files in.
#[derive(Debug)]
pub(super) struct Reach {
    everything: bool,
    homes: Vec<PathBuf>,
    given: BTreeSet<PathBuf>,
}

impl Reach {
    /// The folder of the study in `file` with `text`, the store, and what `overrides` name.
    pub(super) fn new(file: &Path, text: &str, overrides: &Overrides, store: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new(""));
        Self {
            everything: source::is_shipped(text),
            homes: [folder, store].into_iter().filter_map(resolved).collect(),
            given: given(overrides, folder),
        }
    }

    /// Every place.
    pub(super) const fn everything() -> Self {
        Self { everything: true, homes: Vec::new(), given: BTreeSet::new() }
    }

    pub(super) fn allows(&self, path: &Path) -> bool {
        let is_home =
            || resolved(path).is_some_and(|path| self.homes.iter().any(|home| path.starts_with(home)));
        self.everything || self.given.contains(path) || is_home()
    }
}

impl Study {
    /// The paths that this study names outside its folder and the store in `store`, and that no `--set`
    /// names.
    #[must_use]
    pub fn outside(&self, store: &Path) -> BTreeSet<PathBuf> {
        let reach = Reach::new(&self.path, &self.text, &self.overrides, store);
        let mut named = self.sources.clone();
        for cell in &self.cells {
            let spec = serde_json::to_value(&cell.spec).unwrap_or_default();
            places(&spec, &mut named);
        }
        named.retain(|path| !reach.allows(path));
        named
    }
}

/// What the command line names, as it is there and as the study would find it.
fn given(overrides: &Overrides, folder: &Path) -> BTreeSet<PathBuf> {
    let mut texts = Vec::new();
    for (_, value) in overrides.set.iter().filter_map(|set| set.split_once('=')) {
        texts.push(value.to_owned());
        strings(&parse_value(value), &mut texts);
    }
    let there = |text: &String| std::path::absolute(text).ok();
    let below = |text: &String| std::path::absolute(folder.join(text)).ok();
    let named = |text| [Some(PathBuf::from(text)), there(text), below(text)];
    texts.iter().flat_map(named).flatten().collect()
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(table) => table.values().for_each(|item| strings(item, found)),
        _ => {}
    }
}

/// The folders that the volumes in a cell name, and the job files of its measures: lines of one that is
/// refused are quoted.
fn places(value: &Value, found: &mut BTreeSet<PathBuf>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| places(item, found)),
        Value::Object(table) => {
            let key = match table.get("kind").and_then(Value::as_str) {
                Some("loop") => "directory",
                Some("fio") => "job",
                _ => "spill",
            };
            let named = table.get(key).and_then(Value::as_str);
            let is_preset = |name: &str| key == "job" && PRESETS.iter().any(|(preset, _)| *preset == name);
            found.extend(named.filter(|name| !is_preset(name)).map(PathBuf::from));
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
            let mut study = load(&file, &Overrides { preset: None, set }, Consent::Below(None)).unwrap();
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
