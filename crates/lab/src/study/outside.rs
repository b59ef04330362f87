//! What a study's text names outside its own folder.
//!
//! A study from elsewhere is run as root: without the user's consent it reads nothing that root alone may
//! read, and makes nothing where the user did not say. So each path that it names lies beneath the study's
//! folder or the store, links resolved, or is given on the command line. The texts that come with this
//! program need no consent.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Component, Path, PathBuf};

use fsage_sys::input;
use fsage_sys::mount::descriptor_path;
use serde_json::Value;

use super::schema::Problem;
use super::{Overrides, Study, parse_value, source};
use crate::measure::preset;

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
    /// The `homes`, the study's folder and its store, without links, and what `overrides` name.
    pub(super) fn new(text: &str, overrides: &Overrides, homes: [Option<PathBuf>; 2]) -> Self {
        Self {
            everything: source::is_shipped(text),
            homes: homes.into_iter().flatten().collect(),
            given: given(overrides),
        }
    }

    /// Every place.
    pub(super) const fn everything() -> Self {
        Self { everything: true, homes: Vec::new(), given: BTreeSet::new() }
    }

    pub(super) fn allows(&self, path: &Path) -> bool {
        let is_home =
            || resolved(path).is_some_and(|path| self.homes.iter().any(|home| path.starts_with(home)));
        self.is_named(path) || is_home()
    }

    /// Whether the user named it, or agreed to everything.
    pub(super) fn is_named(&self, path: &Path) -> bool {
        self.everything || self.given.contains(path)
    }

    /// Reads a text file of at most `limit` bytes. Its place is checked again when it is open: a link may have
    /// been put there after [`Reach::allows`] was asked.
    ///
    /// # Errors
    /// As [`input::read_text`]; it is not where the study may read (`ErrorKind::PermissionDenied`).
    pub(super) fn read_text(&self, path: &Path, limit: u64) -> io::Result<String> {
        let file = input::open(path)?;
        if !self.is_named(path) {
            let is = std::fs::read_link(descriptor_path(file.as_fd()))?;
            if !self.homes.iter().any(|home| is.starts_with(home)) {
                let what = "it is a link that leads out of the study's folder";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
            }
        }
        input::text_of(file, limit)
    }
}

/// What a path is refused with that is none of the places of a study.
pub(super) fn out_of_reach(path: &[String], file: &Path) -> Problem {
    let message = format!("`{}` is neither below the study's own folder nor below the store", file.display());
    Problem { hint: Some(OUTSIDE_HINT.to_owned()), ..Problem::new(path, message) }
}

impl Study {
    /// The paths that this study names outside its folder and the store in `store`, and that no `--set`
    /// names.
    #[must_use]
    pub fn outside(&self, store: &Path) -> BTreeSet<PathBuf> {
        let reach = Reach::new(&self.text, &self.overrides, [self.home.clone(), resolved(store)]);
        let mut named = self.sources.clone();
        for cell in &self.cells {
            let spec = serde_json::to_value(&cell.spec).unwrap_or_default();
            places(&spec, &mut named);
        }
        named.retain(|path| !reach.allows(path));
        named
    }
}

/// Keys whose values are paths, in a study and its workloads, volumes and measures.
const PATH_KEYS: [&str; 13] = [
    "directory",
    "kernel",
    "spill",
    "job",
    "like",
    "path",
    "paths",
    "history",
    "sizes",
    "depths",
    "ages",
    "medium",
    "preset",
];

/// The paths that the command line names, from where the command line is. Other values are none, whatever the
/// study calls its files.
fn given(overrides: &Overrides) -> BTreeSet<PathBuf> {
    let mut texts = Vec::new();
    for (key, value) in overrides.set.iter().filter_map(|set| set.split_once('=')) {
        let key = key.trim().rsplit('.').next().unwrap_or_default().trim_matches(['"', '\'']);
        if PATH_KEYS.contains(&key) {
            texts.push(value.to_owned());
        }
        strings(key, &parse_value(value.trim()), &mut texts);
    }
    let there = |text: &String| std::path::absolute(text).ok();
    let named = |text| [Some(PathBuf::from(text)), there(text)];
    texts.iter().flat_map(named).flatten().collect()
}

/// The store of a study that says of none, `store/NAME`, if no link leads to another folder.
pub(super) fn own_store(name: &str) -> Option<PathBuf> {
    let wanted = resolved(Path::new(""))?.join("store").join(name);
    resolved(&wanted).filter(|is| *is == wanted)
}

/// The texts at keys of paths.
fn strings(key: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if PATH_KEYS.contains(&key) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(key, item, found)),
        Value::Object(table) => table.iter().for_each(|(key, item)| strings(key, item, found)),
        _ => {}
    }
}

/// The folders that the volumes in a cell name, kernels of guests, and job files of its measures that were not read with the study.
fn places(value: &Value, found: &mut BTreeSet<PathBuf>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| places(item, found)),
        Value::Object(table) => {
            let key = match table.get("kind").and_then(Value::as_str) {
                Some("loop") => "directory",
                // A version is no path.
                Some("guest") => "kernel",
                Some("fio") if table.get("text").is_none_or(Value::is_null) => "job",
                _ => "spill",
            };
            let named = table.get(key).and_then(Value::as_str);
            let is_preset = |name: &str| match key {
                "job" => preset(name).is_some(),
                "kernel" => !name.starts_with('/'),
                _ => false,
            };
            found.extend(named.filter(|name| !is_preset(name)).map(PathBuf::from));
            table.values().for_each(|item| places(item, found));
        }
        _ => {}
    }
}

/// The path without links; what is missing at its end stays as it is. Nothing where `..` comes after that, or
/// links lead in a circle.
pub(super) fn resolved(path: &Path) -> Option<PathBuf> {
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
        // A value that is no path agrees to no path, whatever the study calls its links.
        symlink("/etc/shadow", own.join("5")).unwrap();
        let link = own.join("5");
        assert_eq!(outside(&link, &["repeats=5"]), BTreeSet::from([link.clone()]));
    }

    #[test]
    fn a_link_put_in_place_of_a_file_that_was_allowed_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::fs::create_dir(&own).unwrap();
        let (file, secret) = (own.join("file"), folder.path().join("secret"));
        std::fs::write(&secret, "secret").unwrap();
        std::fs::write(&file, "own").unwrap();
        let set = |set: &[String]| Overrides { preset: None, set: set.to_vec() };
        let reach = |set| Reach::new("", &set, [resolved(&own), None]);
        assert_eq!(reach(set(&[])).read_text(&file, 9).unwrap(), "own");
        std::fs::remove_file(&file).unwrap();
        symlink(&secret, &file).unwrap();
        let error = reach(set(&[])).read_text(&file, 9).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let named = set(&[format!("stage.read.job={}", file.display())]);
        assert_eq!(reach(named).read_text(&file, 9).unwrap(), "secret", "the user said so");
    }
}
