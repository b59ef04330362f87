//! Studies: a TOML file becomes resolved, validated cells.
//!
//! Order: text → preset → `--set` → matrix → one [`Cell`] for each combination of factor values. Every
//! cell is checked before anything is taken from the host.

mod document;
mod drive;
mod error;
mod expand;
pub mod identity;
mod jobs;
mod media;
mod outside;
pub mod path;
mod room;
pub(crate) mod schema;
pub(crate) mod search;
mod source;
pub mod typed;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use document::{TextPosition, parse_value};
pub use error::{Fault, StudyError};
use fsage_model::crash::DriveBehaviour;
pub use fsage_model::nearest::nearest;
use fsage_model::study::{StageSpec, StudySpec, TargetSpec};
use outside::Reach;
pub use outside::{Consent, OUTSIDE_HINT};
pub use schema::schema;
pub use search::{SearchForesight, foresight};
use serde::{Deserialize, Serialize};
pub use source::{StudyEntry, list};
pub use validate::is_path_name;

use crate::filesystem::FileSystem;

/// What the command line changes in a study.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// Preset to apply (`--quick` is `quick`). Stores of before have it as `profile`.
    #[serde(alias = "profile")]
    pub preset: Option<String>,
    /// `path=value` texts, applied after the preset, in order.
    pub set: Vec<String>,
}

/// A study, read, changed by preset and `--set`, expanded and checked.
#[derive(Debug, Clone)]
pub struct Study {
    /// Where it was read from; a shipped study has its file name.
    pub path: PathBuf,
    /// The file as it is.
    pub text: String,
    /// The folder that the file is in, without links.
    home: Option<PathBuf>,
    /// What the command line changed.
    pub overrides: Overrides,
    /// The study with preset and `--set` applied, matrix not expanded.
    pub spec: StudySpec,
    /// One for each combination of factor values, in the order of the matrix.
    pub cells: Vec<Cell>,
    /// Files and folders that its workloads were read from.
    pub sources: BTreeSet<PathBuf>,
}

impl Study {
    /// Its file as an absolute path; `None` for one that is shipped.
    #[must_use]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.home.as_ref().and_then(|_| std::path::absolute(&self.path).ok())
    }

    /// The commands that this study's `[driver]` tables bring, as a shell would be given them: code that runs
    /// as root. None of a study whose text is one of those shipped within the program, even with drivers from
    /// `--set`, which are the user's own words.
    #[must_use]
    pub fn foreign_commands(&self) -> BTreeSet<String> {
        if source::is_shipped(&self.text) {
            return BTreeSet::new();
        }
        let described = self.cells.iter().filter(|cell| cell.file_system.is_described());
        let commands = described.flat_map(|cell| cell.file_system.commands());
        // A host, or a key of one, that the study's author chose, to which we would log in as the user.
        let given = self.given_targets();
        let ssh = |cell: &Cell| match &cell.spec.target {
            TargetSpec::Ssh(ssh) if !given.contains(&cell.spec.target) => Some(format!("ssh {}", ssh.name())),
            _ => None,
        };
        commands.chain(self.cells.iter().filter_map(ssh)).collect()
    }

    /// The targets that the command line gives as a whole.
    fn given_targets(&self) -> Vec<TargetSpec> {
        let values = self.overrides.set.iter().filter_map(|set| {
            let (key, value) = set.split_once('=')?;
            let value = parse_value(value.trim());
            match key.trim() {
                "target" => Some(vec![value]),
                "matrix.target" => value.as_array().cloned(),
                _ => None,
            }
        });
        values.flatten().filter_map(|value| serde_json::from_value(value).ok()).collect()
    }

    /// The other hosts that its trials run on, and guests.
    #[must_use]
    pub fn other_hosts(&self) -> BTreeSet<String> {
        self.cells.iter().filter_map(|cell| cell.spec.target.name()).collect()
    }

    /// What the drives do whose power its trials cut, each once.
    #[must_use]
    pub fn drives_cut(&self) -> Vec<DriveBehaviour> {
        let stages = self.cells.iter().flat_map(|cell| &cell.spec.stage);
        let drives: Vec<DriveBehaviour> = stages
            .filter_map(|stage| if let StageSpec::PowerCuts(cuts) = stage { Some(cuts.drive) } else { None })
            .collect();
        DriveBehaviour::ALL.into_iter().filter(|drive| drives.contains(drive)).collect()
    }
}

/// One combination of factor values.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Dotted path → value, of the matrix' factors.
    pub factors: BTreeMap<String, serde_json::Value>,
    /// The study with these values in place and an empty matrix.
    pub spec: StudySpec,
    /// What its `file_system` says, resolved: nobody resolves it again.
    pub file_system: FileSystem,
}

/// Reads and checks a study. `path` is a file or the name of a shipped study. Of other files that it names only
/// those are opened that `consent` allows.
///
/// # Errors
/// What is wrong, with the line where it can be known.
pub fn load(path: &Path, overrides: &Overrides, consent: Consent<'_>) -> Result<Study, StudyError> {
    let source::Text { file, text, home } = source::read(path)?;
    parse_at(&file, text, home, overrides, consent)
}

/// The same for a text that is already there; `file` is only named in errors.
///
/// # Errors
/// What is wrong, with the line where it can be known.
pub fn parse(
    file: &Path,
    text: String,
    overrides: &Overrides,
    consent: Consent<'_>,
) -> Result<Study, StudyError> {
    let home = outside::resolved(file.parent().unwrap_or(Path::new("")));
    parse_at(file, text, home, overrides, consent)
}

/// The same, of a text whose file is in `home`.
fn parse_at(
    file: &Path,
    text: String,
    home: Option<PathBuf>,
    overrides: &Overrides,
    consent: Consent<'_>,
) -> Result<Study, StudyError> {
    let document = document::Document::parse(file, &text)?;
    let name = document.value.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
    let reach = match consent {
        Consent::Given => Reach::everything(),
        Consent::Below(store) => {
            let store = match store {
                Some(store) => outside::resolved(store),
                // A name that is none would make any folder the study's own.
                None => is_path_name(name).then(|| outside::own_store(name)).flatten(),
            };
            Reach::new(&text, overrides, [home.clone(), store])
        }
    };
    let mut layers = expand::Layers::new(&document, reach)?;
    layers.apply(file, overrides)?;
    let spec = layers.spec()?;
    let mut cells = layers.cells(&spec)?;
    room::fix(&mut cells);
    let sources = layers.sources();
    Ok(Study { path: file.to_owned(), text, home, overrides: overrides.clone(), spec, cells, sources })
}

/// A study's text as a store keeps it: without overrides, presets and what it names in other files.
///
/// # Errors
/// Why it is no study, as text.
pub fn kept(text: &str) -> Result<StudySpec, String> {
    let mut value =
        document::Document::parse(Path::new("study.toml"), text).map_err(|error| error.to_string())?.value;
    drive::imply_kinds(&mut value);
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// What `fsage study check` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyCheck {
    /// Study name.
    pub name: String,
    /// One line.
    pub title: String,
    /// Trials without a preset, and with each; of a search at most so many.
    pub trials: BTreeMap<String, usize>,
    /// Claims that are checked, of how many.
    pub claims: (usize, usize),
    /// Claims that are checked but cannot be judged as the study is planned, and why: by preset, then by id.
    pub unjudged: BTreeMap<String, BTreeMap<String, String>>,
    /// What the budgets of its searches can show, by preset.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub searches: BTreeMap<String, Vec<SearchForesight>>,
    /// Presets (`full`: none) that run only with `--on-host`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub on_host: BTreeSet<String>,
}

/// Says which claims of a study cannot be judged as it is planned, and why, by id.
pub type Foresight<'a> = dyn Fn(&Study) -> BTreeMap<String, String> + 'a;

/// Reads and checks a study with each of its presets; `full` stands for none.
///
/// # Errors
/// As [`load`].
pub fn check(path: &Path, consent: Consent<'_>, foresee: &Foresight<'_>) -> Result<StudyCheck, StudyError> {
    let full = load(path, &Overrides::default(), consent)?;
    let each = |spec: &StudySpec| spec.search.as_ref().map_or(spec.repeats, |search| search.budget);
    let count = |study: &Study| study.cells.len() * usize::try_from(each(&study.spec)).unwrap_or(usize::MAX);
    let mut trials = BTreeMap::from([("full".to_owned(), count(&full))]);
    let mut unjudged = BTreeMap::from([("full".to_owned(), foresee(&full))]);
    let mut searches = BTreeMap::from([("full".to_owned(), foresight(&full))]);
    let mounts_fabricated = |study: &Study| study.drives_cut().into_iter().any(DriveBehaviour::fabricates);
    let mut on_host: BTreeSet<String> =
        mounts_fabricated(&full).then(|| "full".to_owned()).into_iter().collect();
    for preset in full.spec.preset.keys() {
        let study = load(path, &Overrides { preset: Some(preset.clone()), set: Vec::new() }, consent)?;
        trials.insert(preset.clone(), count(&study));
        unjudged.insert(preset.clone(), foresee(&study));
        searches.insert(preset.clone(), foresight(&study));
        on_host.extend(mounts_fabricated(&study).then(|| preset.clone()));
    }
    let claims = (
        full.spec.claim.iter().filter(|claim| claim.clauses().next().is_some()).count(),
        full.spec.claim.len(),
    );
    unjudged.retain(|_, claims| !claims.is_empty());
    searches.retain(|_, searches| !searches.is_empty());
    let (name, title) = (full.spec.name, full.spec.title);
    Ok(StudyCheck { name, title, trials, claims, unjudged, searches, on_host })
}
