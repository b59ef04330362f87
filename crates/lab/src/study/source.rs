//! Where studies come from: files, and the ones shipped within the program.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use fsage_sys::input;
use fsage_sys::mount::descriptor_path;
use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use serde::Serialize;

use super::{Consent, Overrides, StudyError, parse_at};

/// Name and text of each shipped study.
const SHIPPED: [(&str, &str); 12] = [
    ("aging", include_str!("../../../../studies/aging.toml")),
    ("like", include_str!("../../../../studies/like.toml")),
    ("fullness", include_str!("../../../../studies/fullness.toml")),
    ("fullness-git", include_str!("../../../../studies/fullness-git.toml")),
    ("power", include_str!("../../../../studies/power.toml")),
    ("remedies", include_str!("../../../../studies/remedies.toml")),
    ("overhead", include_str!("../../../../studies/overhead.toml")),
    ("scaling", include_str!("../../../../studies/scaling.toml")),
    ("tuning", include_str!("../../../../studies/tuning.toml")),
    ("cluster", include_str!("../../../../studies/cluster.toml")),
    ("wear", include_str!("../../../../studies/wear.toml")),
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

/// A study's text.
pub(super) struct Text {
    /// Where it was read from; of a shipped study its file name.
    pub file: PathBuf,
    pub text: String,
    /// The folder that its file is in, without links; none of a shipped study.
    pub home: Option<PathBuf>,
}

/// Reads a study's text. What is not there as a file is looked for among the shipped ones, by its name or
/// as `studies/NAME.toml`.
///
/// # Errors
/// Not readable, or neither.
pub(super) fn read(path: &Path) -> Result<Text, StudyError> {
    // Where others can make files, one that has the mere name of a shipped study is none that the user chose.
    let is_chosen =
        || path.components().count() > 1 || !geteuid().is_root() || input::open_trusted(path).is_ok();
    if let Some(text) = shipped(path).filter(|_| !is_chosen()) {
        return Ok(text.into());
    }
    match from_file(path) {
        Ok(text) => Ok(text),
        // A folder that happens to have a study's name does not hide it.
        Err(error) if error.kind() == io::ErrorKind::NotFound || path.is_dir() => match shipped(path) {
            Some(text) => Ok(text.into()),
            None => Err(StudyError::NotFound { path: path.to_owned(), hint: not_found_hint(path) }),
        },
        Err(source) => Err(StudyError::Read { path: path.to_owned(), source }),
    }
}

impl From<(&str, &str)> for Text {
    fn from((name, text): (&str, &str)) -> Self {
        Self { file: PathBuf::from(format!("studies/{name}.toml")), text: text.to_owned(), home: None }
    }
}

/// As [`read`], of a file that nobody named: no link leads to it.
fn found(directory: &Path, name: &OsStr) -> Result<Text, StudyError> {
    let file = directory.join(name);
    let opened = input::open_below(directory, Path::new(name));
    let text = opened.and_then(|opened| input::text_of(opened, input::TEXT_LIMIT));
    let text = text.map_err(|source| StudyError::Read { path: file.clone(), source })?;
    Ok(Text { file, text, home: super::outside::resolved(directory) })
}

/// Reads the text and tells the folder through one descriptor: who exchanges the folder meanwhile does not make
/// another the study's own.
fn from_file(path: &Path) -> io::Result<Text> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let text = input::text_of(input::open_in(folder.as_fd(), Path::new(name))?, input::TEXT_LIMIT)?;
    let home = std::fs::read_link(descriptor_path(folder.as_fd()))?;
    Ok(Text { file: path.to_owned(), text, home: Some(home) })
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
    let own = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default();
        entry(file, Some(file.clone()), found(directory, name))
    };
    let mut entries: Vec<StudyEntry> = files.iter().map(own).collect();
    for (name, text) in SHIPPED {
        if !files.iter().any(|f| f.file_stem().is_some_and(|s| s == name)) {
            entries.push(entry(Path::new(name), None, Ok((name, text).into())));
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn entry(path: &Path, file: Option<PathBuf>, text: Result<Text, StudyError>) -> StudyEntry {
    let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let consent = Consent::Below(None);
    let load = |Text { file, text, home }| parse_at(&file, text, home, &Overrides::default(), consent);
    match text.and_then(load) {
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

#[cfg(test)]
mod tests {
    use fsage_model::study::{ClaimCheck, ClaimSpec, StudySpec};

    use super::*;
    use crate::study::load;

    /// The claims of a shipped study, and those that its presets have in their place.
    fn claims(name: &str) -> Vec<ClaimSpec> {
        let text = SHIPPED.iter().find(|(known, _)| *known == name).unwrap().1;
        let study: toml::Value = toml::from_str(text).unwrap();
        let presets =
            study.get("preset").and_then(toml::Value::as_table).into_iter().flat_map(|all| all.values());
        let lists = std::iter::once(&study).chain(presets).filter_map(|table| table.get("claim")?.as_array());
        lists.flatten().map(|claim| claim.clone().try_into().unwrap()).collect()
    }

    #[test]
    fn claims_about_full_volumes_under_git_ask_for_a_full_volume() {
        let claims = claims("fullness-git");
        assert!(claims.len() >= 14, "{}", claims.len());
        let mut full = 0;
        for claim in &claims {
            let names_full = |check: &ClaimCheck| matches!(check, ClaimCheck::Value { metric, .. } if metric.contains("full"));
            if claim.clauses().any(names_full) {
                // No room ten times, and not for lack of inodes.
                for (metric, least) in [("full.no_space", 10.0), ("full.use_share", 0.8)] {
                    let given = claim.given.as_ref().and_then(|given| given.metrics.get(metric));
                    assert!(
                        given.is_some_and(|range| range.at_least >= Some(least)),
                        "{}: {metric}",
                        claim.id
                    );
                }
                full += 1;
            }
        }
        assert!(full >= 12, "{full}");
    }

    #[test]
    fn latencies_of_disks_are_judged_in_their_regime_only() {
        let mut judged = 0;
        for claim in claims("aging").iter().filter(|claim| claim.source.contains("table 7.1")) {
            let latencies = claim.clauses().any(
                |check| matches!(check, ClaimCheck::Ratio { metric, .. } if metric.starts_with("latency.")),
            );
            if latencies {
                let least = claim.given.as_ref().and_then(|given| given.latency.as_ref()?.at_least);
                // A page cache answers within microseconds.
                assert!(least >= Some(50_000.0), "{}: {least:?}", claim.id);
                judged += 1;
            }
        }
        assert!(judged >= 3, "{judged}");
    }

    #[test]
    fn a_study_of_trends_runs_long_enough_for_them() {
        let is_trend =
            |claim: &ClaimSpec| claim.clauses().any(|check| matches!(check, ClaimCheck::Trend { .. }));
        assert!(claims("aging").iter().any(is_trend));
        let mut overrides = vec![Overrides::default()];
        overrides.extend(
            ["quick", "hdd", "media", "tables"]
                .map(|preset| Overrides { preset: Some(preset.to_owned()), ..Overrides::default() }),
        );
        for overrides in overrides {
            let name = overrides.preset.clone();
            let study = load(Path::new("aging"), &overrides, Consent::Given).unwrap();
            let spec: &StudySpec = &study.spec;
            for stage in &spec.stage {
                if let fsage_model::study::StageSpec::Age(age) = stage {
                    let operations = age.stop.operations.unwrap_or(u64::MAX);
                    assert!(
                        operations >= 32_000,
                        "{name:?}: {operations} operations are fewer than 64 ticks"
                    );
                }
            }
        }
    }
}
