//! From a document to cells: preset, `--set` and matrix, each value traced back to what put it there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsage_model::cause::in_one_line;
use fsage_model::number::{grouped, whole_bytes};
use fsage_model::study::{CONTROL, Control, StageSpec, StudySpec};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::document::{Document, Segments, parse_value};
use super::error::Fault;
use super::jobs::{self, Jobs};
use super::outside::{Reach, out_of_reach};
use super::schema::{self, Problem};
use super::{Cell, Overrides, StudyError, drive, identity, media, path, search, validate};
use crate::filesystem::FileSystem;
use crate::profile::Named;
use crate::source::{self, Contents, Refusal};

/// Key of a preset that names the one whose values it begins with.
const INHERITS: &str = "inherits";

/// Cells of a study, at most; more is taken for a mistake.
const CELL_LIMIT: usize = 10_000;

/// Bytes of all cells as text, at most: each cell holds the whole study, with the contents of files that its
/// workloads name.
const CELLS_BYTES: usize = 1 << 30;

/// Trials of a study, at most: its plan is held in memory and written as one file.
const TRIAL_LIMIT: usize = 1_000_000;

/// A study's values and what put them there.
pub(super) struct Layers<'a> {
    document: &'a Document,
    value: Value,
    origins: Vec<Origin>,
    contents: Contents,
    jobs: Jobs,
    /// Profiles and media that were read.
    read: BTreeSet<PathBuf>,
    reach: Reach,
    /// Profiles out of reach, by stage, that nothing has taken the place of.
    unread: BTreeMap<usize, PathBuf>,
}

struct Origin {
    path: Segments,
    /// `preset quick`, `--set a=b`, or empty for the matrix of the study itself.
    name: String,
    /// Where it is in the document.
    written: Segments,
}

impl<'a> Layers<'a> {
    /// The study as it is in its file; what it names is read as far as `reach` goes.
    pub(super) fn new(document: &'a Document, reach: Reach) -> Result<Self, StudyError> {
        let mut layers = Self {
            document,
            value: document.value.clone(),
            origins: Vec::new(),
            contents: Contents::default(),
            jobs: Jobs::default(),
            read: BTreeSet::new(),
            reach,
            unread: BTreeMap::new(),
        };
        layers.embed_profiles(document.folder(), false)?;
        layers.reject(schema::check(&layers.value))?;
        Ok(layers)
    }

    /// Applies the preset, then each `--set`.
    pub(super) fn apply(&mut self, file: &Path, overrides: &Overrides) -> Result<(), StudyError> {
        if let Some(name) = &overrides.preset {
            self.apply_preset(file, name)?;
        }
        self.embed_profiles(self.document.folder(), false)?;
        for text in &overrides.set {
            let (path, value) =
                text.split_once('=').ok_or_else(|| StudyError::NotAnAssignment { text: text.clone() })?;
            self.set(path.trim(), parse_value(value.trim()), format!("--set {text}"), Vec::new())?;
        }
        // What the command line names is where the command line is.
        self.embed_profiles(Path::new(""), true)?;
        self.reject(schema::check(&self.value))
    }

    /// Applies a preset, after the one that it inherits from.
    fn apply_preset(&mut self, file: &Path, name: &str) -> Result<(), StudyError> {
        let presets = self.value.get("preset").and_then(Value::as_object).cloned().unwrap_or_default();
        let table = |name: &str| presets.get(name).and_then(Value::as_object);
        for (name, values) in &presets {
            if values.get(INHERITS).is_some_and(|parent| !parent.is_string()) {
                let path = ["preset".to_owned(), name.clone(), INHERITS.to_owned()];
                return self.reject(vec![Problem::new(&path, "the name of one preset is expected")]);
            }
        }
        let mut order = vec![name.to_owned()];
        while let Some(parent) = order.last().and_then(|name| table(name)?.get(INHERITS)?.as_str()) {
            if order.iter().any(|known| known == parent) {
                let path = ["preset".to_owned(), order[order.len() - 1].clone(), INHERITS.to_owned()];
                let problem = Problem::new(&path, format!("`{parent}` inherits from this preset"));
                return self.reject(vec![problem]);
            }
            order.push(parent.to_owned());
        }
        for name in order.iter().rev() {
            let values = table(name).ok_or_else(|| no_preset(file, name, &presets))?;
            for (path, value) in values.iter().filter(|(path, _)| *path != INHERITS) {
                let written = vec!["preset".to_owned(), name.clone(), path.clone()];
                self.set(path, value.clone(), format!("preset {name}"), written)?;
            }
        }
        Ok(())
    }

    /// Puts the media that volumes name by files, and the profiles that workloads name, in the place of their paths,
    /// and notes which keys stand beside these. Other paths only become absolute: what is read there comes last, so
    /// that its keys can still be changed. A volume with a medium is a disk, one with a drive a partition. A profile
    /// out of reach is an error if that is the last word (`final_word`).
    fn embed_profiles(&mut self, base: &Path, final_word: bool) -> Result<(), StudyError> {
        drive::imply_kinds(&mut self.value);
        jobs::anchor(base, &mut self.value);
        let mut problems = media::embed(base, &mut self.value, &self.reach, &mut self.read);
        problems.extend(drive::misplaced(&self.value));
        // What the command line names is meant.
        let is_shipped = base == self.document.folder() && super::source::is_shipped(self.document.text());
        let stages = self.value.get_mut("stage").and_then(Value::as_array_mut);
        for (index, stage) in stages.into_iter().flatten().enumerate() {
            let Some(workload) = stage.get_mut("workload") else { continue };
            source::anchor(base, workload);
            let named = crate::profile::named(base, workload, is_shipped);
            let file = match &named {
                Some(Named::File(file)) => Some(file.clone()),
                _ => None,
            };
            let path = ["stage".to_owned(), index.to_string(), "workload".to_owned(), "like".to_owned()];
            match file.as_ref().filter(|file| !self.reach.allows(file)) {
                Some(file) if final_word => {
                    problems.push(out_of_reach(&path, file));
                    continue;
                }
                Some(file) => {
                    self.unread.insert(index, file.clone());
                    workload.as_object_mut().map(|table| table.remove("like"));
                    continue;
                }
                None => {}
            }
            if workload.get("like").is_some() {
                self.unread.remove(&index);
            }
            if let Some(file) = self.unread.get(&index).filter(|_| final_word) {
                problems.push(out_of_reach(&path, file));
                continue;
            }
            self.read.extend(file);
            let given: Vec<String> =
                workload.as_object().map(|table| table.keys().cloned().collect()).unwrap_or_default();
            if let Err(error) = crate::profile::embed(named.as_ref(), workload, &given) {
                let hint = Some(error.hint()).filter(|hint| !hint.is_empty());
                problems.push(Problem { hint, ..Problem::new(&path, error.to_string()) });
            }
        }
        self.reject(problems)
    }

    /// Puts a value at a dotted path. An empty list takes a factor out of the matrix.
    fn set(&mut self, dotted: &str, value: Value, name: String, written: Segments) -> Result<(), StudyError> {
        let takes_out = value.as_array().is_some_and(Vec::is_empty);
        let at = path::resolve(&self.value, dotted)
            .and_then(|segments| path::set(&mut self.value, &segments, value).map(|()| segments));
        match at {
            Ok(path) => {
                if let (true, [first, factor]) = (takes_out, &path[..])
                    && first == "matrix"
                    && let Some(matrix) = self.value.get_mut("matrix").and_then(Value::as_object_mut)
                {
                    matrix.remove(factor);
                }
                self.origins.push(Origin { path, name, written });
                Ok(())
            }
            Err(error) => Err(StudyError::Invalid {
                faults: vec![Fault {
                    place: self.document.place(&written),
                    origin: name,
                    path: dotted.to_owned(),
                    message: error.to_string(),
                    hint: None,
                }],
            }),
        }
    }

    /// The values with what workloads name by paths in the place of these.
    fn embedded(&mut self) -> Result<Value, StudyError> {
        let mut value = self.value.clone();
        let mut problems = Vec::new();
        let stages = value.get_mut("stage").and_then(Value::as_array_mut);
        for (index, stage) in stages.into_iter().flatten().enumerate() {
            let Some(workload) = stage.get_mut("workload") else { continue };
            let index = index.to_string();
            if let Some((key, file)) = source::named(workload).find(|(_, file)| !self.reach.allows(file)) {
                let path = ["stage", &index, "workload", key].map(str::to_owned);
                problems.push(out_of_reach(&path, &file));
                continue;
            }
            if let Err(Refusal { keys, error }) = self.contents.embed(workload) {
                let path = [&["stage", &index, "workload"], &keys[..]].concat();
                let path: Segments = path.into_iter().map(str::to_owned).collect();
                problems.push(Problem { hint: error.hint(), ..Problem::new(&path, in_one_line(&*error)) });
            }
        }
        problems.extend(self.jobs.embed(&mut value, &self.reach));
        self.reject(problems).map(|()| value)
    }

    /// The files and folders that were read.
    pub(super) fn sources(self) -> BTreeSet<PathBuf> {
        let of_workloads = self.read.into_iter().chain(self.contents.into_paths());
        of_workloads.chain(self.jobs.into_paths()).collect()
    }

    /// The study with everything applied.
    pub(super) fn spec(&mut self) -> Result<StudySpec, StudyError> {
        let value = self.embedded()?;
        let spec = self.deserialize(&value)?;
        self.reject(validate::study(&spec, &self.document.value))?;
        Ok(spec)
    }

    fn deserialize(&self, value: &Value) -> Result<StudySpec, StudyError> {
        StudySpec::deserialize(value).map_err(|e| StudyError::Invalid {
            faults: vec![Fault {
                place: None,
                origin: self.document.file().display().to_string(),
                path: String::new(),
                message: e.to_string(),
                hint: None,
            }],
        })
    }

    /// The cross product of the matrix, each cell checked; cells that are the same are kept once.
    pub(super) fn cells(&mut self, spec: &StudySpec) -> Result<Vec<Cell>, StudyError> {
        let mut combinations: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new()];
        let each = self.value.to_string().len();
        for (path, values) in &spec.matrix {
            let cells = combinations.len().saturating_mul(values.len());
            if cells > CELL_LIMIT || cells.saturating_mul(each) > CELLS_BYTES {
                let what = match cells {
                    0..=CELL_LIMIT => too_large(cells),
                    _ => format!("more than {} cells", grouped(whole(CELL_LIMIT))),
                };
                let written = ["matrix".to_owned(), path.clone()];
                return self.reject(vec![Problem::new(&written, what)]).map(|()| Vec::new());
            }
            combinations = combinations
                .iter()
                .flat_map(|c| {
                    values.iter().map(|v| {
                        let mut c = c.clone();
                        c.insert(path.clone(), v.clone());
                        c
                    })
                })
                .collect();
        }
        combinations.retain(|factors| !spec.excludes(factors));
        if combinations.is_empty() {
            let what = "every combination of the matrix is left out";
            return self.reject(vec![Problem::new(&["exclude".to_owned()], what)]).map(|()| Vec::new());
        }
        self.reject(too_many(combinations.len(), spec.repeats))?;
        let mut cells: Vec<Cell> = Vec::new();
        let mut seen = BTreeSet::new();
        let (count, mut bytes) = (combinations.len(), 0_usize);
        for factors in combinations {
            let (cell, cell_bytes) = self.cell(factors)?;
            bytes = bytes.saturating_add(cell_bytes);
            if bytes > CELLS_BYTES {
                self.reject(vec![Problem::new(&["matrix".to_owned()], too_large(count))])?;
            }
            if seen.insert(identity::canonical(&cell.spec)) {
                cells.push(cell);
            }
        }
        cells.extend(controls(spec, &cells));
        self.reject(too_many(cells.len(), spec.repeats))?;
        self.reject(idle_factors(spec, &cells))?;
        self.reject(validate::devices(&cells))?;
        self.reject(validate::prices(&cells))?;
        self.reject(search::check_cells(spec, &cells))?;
        Ok(cells)
    }

    /// A cell, and how many bytes it has as text.
    fn cell(&mut self, factors: BTreeMap<String, Value>) -> Result<(Cell, usize), StudyError> {
        let base = self.value.clone();
        let known = self.origins.len();
        self.value["matrix"] = Value::Object(Map::new());
        let result = self.fill(&factors);
        self.value = base;
        self.origins.truncate(known);
        result.map(|(spec, file_system, bytes)| (Cell { factors, spec, file_system }, bytes))
    }

    fn fill(
        &mut self,
        factors: &BTreeMap<String, Value>,
    ) -> Result<(StudySpec, FileSystem, usize), StudyError> {
        for (path, value) in factors {
            let written = vec!["matrix".to_owned(), path.clone()];
            self.set(path, value.clone(), String::new(), written)?;
        }
        self.embed_profiles(self.document.folder(), true)?;
        self.reject(schema::check(&self.value))?;
        let value = self.embedded()?;
        let mut spec = self.deserialize(&value)?;
        self.reject(drive::divide(&mut spec))?;
        let file_system = validate::cell(&spec).map_err(|problems| self.invalid(problems))?;
        Ok((spec, file_system, value.to_string().len()))
    }

    fn reject(&self, problems: Vec<Problem>) -> Result<(), StudyError> {
        if problems.is_empty() { Ok(()) } else { Err(self.invalid(problems)) }
    }

    /// Turns problems into faults: the place is that of the override which put the value there, if any.
    fn invalid(&self, problems: Vec<Problem>) -> StudyError {
        let faults = problems
            .into_iter()
            .map(|problem| {
                let origin = self
                    .origins
                    .iter()
                    .rev()
                    .find(|o| problem.path.starts_with(&o.path) || o.path.starts_with(&problem.path));
                let written = origin.map_or(&problem.path, |o| &o.written);
                Fault {
                    place: self.document.place(written),
                    origin: origin.map(|o| o.name.clone()).unwrap_or_default(),
                    path: path::display(&self.value, &problem.path),
                    message: problem.message,
                    hint: problem.hint,
                }
            })
            .collect();
        StudyError::Invalid { faults }
    }
}

fn no_preset(file: &Path, name: &str, presets: &Map<String, Value>) -> StudyError {
    let names: Vec<String> = presets.keys().map(|name| format!("`{name}`")).collect();
    StudyError::NoPreset {
        preset: name.to_owned(),
        path: file.to_owned(),
        hint: if names.is_empty() {
            "the study has no preset: leave it out".to_owned()
        } else {
            format!("it has {}", names.join(", "))
        },
    }
}

/// A count for people; one that does not fit is beyond any study.
fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn too_large(cells: usize) -> String {
    let (cells, limit) = (grouped(whole(cells)), whole_bytes(whole(CELLS_BYTES)));
    format!("{cells} cells of this study, with the files that it names, take more than {limit}")
}

/// Says when cells times repeats are more trials than a study can have.
fn too_many(cells: usize, repeats: u32) -> Vec<Problem> {
    let trials = usize::try_from(repeats).map_or(usize::MAX, |repeats| cells.saturating_mul(repeats));
    let problem = || Problem {
        path: vec!["repeats".to_owned()],
        message: format!(
            "{} cells of {} repeats are {} trials: at most {}",
            grouped(whole(cells)),
            grouped(u64::from(repeats)),
            grouped(whole(trials)),
            grouped(whole(TRIAL_LIMIT))
        ),
        hint: Some("repeat less often, or take values out of the matrix".to_owned()),
    };
    if trials > TRIAL_LIMIT { vec![problem()] } else { Vec::new() }
}

/// The cells of the study's controls: each is one of the matrix, measured again.
fn controls(spec: &StudySpec, cells: &[Cell]) -> Vec<Cell> {
    let Some(controls) = &spec.controls else { return Vec::new() };
    let of = |cell: &Cell| -> Vec<Cell> {
        let one = |control: Control| {
            let mut own = cell.clone();
            own.spec.control = Some(control);
            own.factors.insert(CONTROL.to_owned(), Value::from(control.name()));
            own
        };
        controls.of_cell(&cell.factors, &cell.spec).into_iter().map(one).collect()
    };
    cells.iter().filter(|cell| measures(&cell.spec)).flat_map(of).collect()
}

/// Whether anything is measured that a control could be compared by.
fn measures(spec: &StudySpec) -> bool {
    spec.stages().any(|stage| matches!(stage, StageSpec::Measure(_) | StageSpec::Lockstep(_)))
}

/// Factors whose values make no difference to any cell.
fn idle_factors(spec: &StudySpec, cells: &[Cell]) -> Vec<Problem> {
    let varied = |path: &String| {
        let values: BTreeSet<String> =
            cells.iter().filter_map(|c| c.factors.get(path)).map(Value::to_string).collect();
        values.len() > 1
    };
    spec.matrix
        .iter()
        .filter(|(path, values)| values.len() > 1 && !varied(path))
        .map(|(path, _)| Problem {
            path: vec!["matrix".to_owned(), path.clone()],
            message: "its values change nothing in any trial".to_owned(),
            hint: Some("vary something of the volume, the file system or a stage".to_owned()),
        })
        .collect()
}
