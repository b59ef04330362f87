//! Where studies come from: files, and the ones shipped within the program.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Consent, Overrides, StudyError, load};

/// Name and text of each shipped study.
const SHIPPED: [(&str, &str); 9] = [
    ("aging", include_str!("../../../../studies/aging.toml")),
    ("like", include_str!("../../../../studies/like.toml")),
    ("fullness", include_str!("../../../../studies/fullness.toml")),
    ("fullness-git", include_str!("../../../../studies/fullness-git.toml")),
    ("power", include_str!("../../../../studies/power.toml")),
    ("remedies", include_str!("../../../../studies/remedies.toml")),
    ("overhead", include_str!("../../../../studies/overhead.toml")),
    ("scaling", include_str!("../../../../studies/scaling.toml")),
    ("digest", include_str!("../../../../studies/digest.toml")),
];

/// A study that can be run by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StudyEntry {
    /// What to give to `fsage run`.
    pub name: String,
    /// One line.
    pub title: String,
    /// Presets that it has.
    pub presets: Vec<String>,
    /// File; absent for a study shipped within the program.
    pub path: Option<PathBuf>,
    /// Why it cannot be run; empty when it can.
    pub error: String,
}

/// Reads a study's text. What is not there as a file is looked for among the shipped ones, by its name or
/// as `studies/NAME.toml`.
///
/// # Errors
/// Not readable, or neither.
pub fn read(path: &Path) -> Result<(PathBuf, String), StudyError> {
    match fsage_sys::input::read_text(path, fsage_sys::input::TEXT_LIMIT) {
        Ok(text) => Ok((path.to_owned(), text)),
        // A folder that happens to have a study's name does not hide it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound || path.is_dir() => match shipped(path) {
            Some((name, text)) => Ok((PathBuf::from(format!("studies/{name}.toml")), text.to_owned())),
            None => Err(StudyError::NotFound { path: path.to_owned(), hint: not_found_hint(path) }),
        },
        Err(source) => Err(StudyError::Read { path: path.to_owned(), source }),
    }
}

fn shipped(path: &Path) -> Option<(&'static str, &'static str)> {
    SHIPPED
        .into_iter()
        .find(|(name, _)| path == Path::new(name) || path == Path::new(&format!("studies/{name}.toml")))
}

/// Whether a study's text is one that comes with this program, unchanged.
pub fn is_shipped(text: &str) -> bool {
    SHIPPED.iter().any(|(_, shipped)| *shipped == text)
}

fn not_found_hint(path: &Path) -> String {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    fsage_model::nearest::nearest(&stem, SHIPPED.iter().map(|(name, _)| *name)).map_or_else(
        || "`fsage study list` shows the studies there are".to_owned(),
        |name| format!("did you mean `{name}`? `fsage study list` shows the studies there are"),
    )
}

/// The studies shipped with fsage and those in `directory` (`./studies`), by name. A file hides the shipped
/// study of its name.
#[must_use]
pub fn list(directory: &Path) -> Vec<StudyEntry> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .map(|entries| entries.filter_map(|e| e.ok().map(|e| e.path())).collect())
        .unwrap_or_default();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut entries: Vec<StudyEntry> = files.iter().map(|f| entry(f, Some(f.clone()))).collect();
    for (name, _) in SHIPPED {
        if !files.iter().any(|f| f.file_stem().is_some_and(|s| s == name)) {
            entries.push(entry(Path::new(name), None));
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn entry(path: &Path, file: Option<PathBuf>) -> StudyEntry {
    let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    match load(path, &Overrides::default(), Consent::Below(None)) {
        Ok(study) => StudyEntry {
            name,
            title: study.spec.title,
            presets: study.spec.preset.into_keys().collect(),
            path: file,
            error: String::new(),
        },
        Err(error) => StudyEntry {
            name,
            title: String::new(),
            presets: Vec::new(),
            path: file,
            error: error.to_string(),
        },
    }
}
