//! Writing to a store, under its lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use fsage_model::priced::PricedRecord;
use fsage_model::record::{PlacesRecord, STORE_VERSION, StageRecord, TrialRecord, TrialStatus, VolumePlaces};
use fsage_model::study::StudySpec;
use fsage_sys::folder::Folder;
use fsage_sys::input::{self, RECORD_LIMIT};
use fsage_sys::new_file::{PARTIAL, is_temporary};
use rustix::fs::FileType;

use super::file::{self, NewFile, failed};
use super::lock::Lock;
use super::{
    DamagedTrial, FIO, PLACES, PRICED, RECORD, REQUESTS, Store, StoreError, hlog, probes, read_plan,
};
use crate::plan::Plan;
use crate::time::now_rfc3339;

/// What may be in a folder that is to become a store.
const OWN: [&str; 9] = [
    "lock",
    "leases.jsonl",
    "study.toml",
    "trials",
    "volumes",
    "mounts",
    "images",
    "fleet",
    super::take::TAKING,
];

/// A store open for writing; the lock is released when this is dropped.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    _lock: Lock,
}

impl Deref for Writer {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Writer {
    pub(super) fn open(root: &Path, plan: &Plan, study_text: &str) -> Result<Self, StoreError> {
        let path = root.join("plan.json");
        if !path.exists() {
            refuse_foreign(root)?;
        }
        make(root)?;
        file::folder(root, &["trials"])?;
        refuse_links(root)?;
        let lock = Lock::take(root)?;
        if path.exists() {
            match read_plan(&path) {
                Ok(old) => {
                    if let Some(difference) = difference(&old, plan) {
                        return Err(StoreError::OtherStudy { path: root.to_owned(), difference });
                    }
                }
                // Trials are found by their ids, so a plan that cannot be read loses nothing: it is made
                // again.
                Err(StoreError::Damaged { .. }) => {
                    let aside = path.with_extension("json.damaged");
                    std::fs::rename(&path, &aside).map_err(|e| failed("rename", &path, e))?;
                }
                Err(other) => return Err(other),
            }
        }
        file::write(&root.join("study.toml"), study_text.as_bytes())?;
        file::write(&path, &json(&path, plan)?)?;
        Ok(Self { store: Store { root: root.to_owned(), plan: plan.clone() }, _lock: lock })
    }

    /// Writes a plan that has got further trials.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn grow(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let path = self.root().join("plan.json");
        file::write(&path, &json(&path, plan)?)?;
        self.store.plan = plan.clone();
        Ok(())
    }

    /// Moves a record that cannot be read aside (`trial.json.damaged`), so that its trial is done again.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn set_aside(&self, damaged: &DamagedTrial) -> Result<(), StoreError> {
        // A folder that is a link, or of someone else, is refused.
        file::folder(self.root(), &["trials", &damaged.id])?;
        let aside = (0..1000)
            .map(|n| {
                damaged.path.with_extension(if n == 0 {
                    "json.damaged".into()
                } else {
                    format!("json.damaged-{n}")
                })
            })
            .find(|p| !p.exists())
            .unwrap_or_else(|| damaged.path.with_extension("json.damaged"));
        std::fs::rename(&damaged.path, &aside).map_err(|e| failed("rename", &damaged.path, e))
    }

    /// Keeps what the requests of a complete trial would take on other media.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn keep_priced(&self, id: &str, record: &PricedRecord) -> Result<(), StoreError> {
        // A folder that is a link, or of someone else, is refused.
        file::folder(self.root(), &["trials", id])?;
        let path = self.trial_directory(id).join(PRICED);
        file::write(&path, &json(&path, record)?)
    }

    /// Begins a trial: its folder, emptied of what an earlier attempt left.
    ///
    /// # Errors
    /// The folder cannot be made or emptied.
    pub fn begin(&self, id: &str) -> Result<TrialFolder, StoreError> {
        TrialFolder::begin(self.root(), id)
    }
}

impl Writer {
    /// Removes the folder of what was begun and is to be no trial of the store.
    ///
    /// # Errors
    /// Its files cannot be removed.
    pub fn forget(&self, trial: TrialFolder) -> Result<(), StoreError> {
        let TrialFolder { directory, .. } = trial;
        let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = file::folder(self.root(), &["trials", &id])?;
        let names = left_of_a_trial(&directory)?.into_iter().chain([TrialFolder::LOG.to_owned()]);
        for name in names {
            folder.remove(name.as_ref()).map_err(|e| failed("remove", &directory.join(&name), e))?;
        }
        // What is not empty has something that is not of this program.
        let _ = std::fs::remove_dir(&directory);
        Ok(())
    }
}

/// Makes the folder of a store, and those above it, each durable in the one above.
fn make(root: &Path) -> Result<(), StoreError> {
    match Folder::open(root) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        opened => return opened.map(drop).map_err(|e| failed("open", root, e)),
    }
    let (Some(above), Some(name)) = (root.parent(), root.file_name()) else {
        return Err(failed("make", root, std::io::ErrorKind::NotFound.into()));
    };
    make(above)?;
    let above = file::folder(above, &[])?;
    above.enter(name).map(drop).map_err(|e| failed("make", root, e))
}

/// What an earlier attempt may have left in a trial's folder, its log left out.
fn left_of_a_trial(directory: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = [RECORD, "latency.hlog", "probes.parquet", PLACES, PRICED].map(str::to_owned).to_vec();
    for entry in std::fs::read_dir(directory).map_err(|e| failed("read", directory, e))? {
        let entry = entry.map_err(|e| failed("read", directory, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_file_of_a_trial(&name) || is_temporary(name.as_ref()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether a trial itself may write a file of this name into its folder: a trace, or a log of requests.
fn is_file_of_a_trial(name: &str) -> bool {
    let trace = name.starts_with("trace") && name.ends_with(".parquet");
    let requests = name.starts_with(REQUESTS.0) && name.ends_with(REQUESTS.1);
    trace || requests
}

/// A folder with other things in it does not become a store.
fn refuse_foreign(root: &Path) -> Result<(), StoreError> {
    let Ok(entries) = std::fs::read_dir(root) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !OWN.contains(&name.as_str()) && !name.ends_with(PARTIAL) {
            return Err(StoreError::NotEmpty { path: root.to_owned(), found: name });
        }
    }
    Ok(())
}

/// A store has no links: what is made below one would be made elsewhere.
fn refuse_links(root: &Path) -> Result<(), StoreError> {
    let folder = file::folder(root, &[])?;
    for name in OWN {
        let path = root.join(name);
        let found = folder.find(name.as_ref()).map_err(|e| failed("inspect", &path, e))?;
        if found.is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink) {
            let what = std::io::Error::other("it is a link, and a store has none");
            return Err(failed("use", &path, what));
        }
    }
    Ok(())
}

/// A study without what changes none of its search's runs.
fn searched(study: &StudySpec) -> StudySpec {
    let (text, claim, preset) = (String::new(), Vec::new(), BTreeMap::new());
    let (title, question, citation) = (text.clone(), text.clone(), text);
    let mut study =
        StudySpec { title, question, citation, claim, preset, price: Vec::new(), ..study.clone() };
    // Runs can be compared by other metrics at any time.
    if let Some(search) = &mut study.search {
        search.score.clear();
    }
    study
}

/// A store may grow (more repeats, more factor values) but never lose or mix trials. Those of a search follow from its
/// results: where a record was lost, other runs may come next, and the study has to be the same.
fn difference(old: &Plan, new: &Plan) -> Option<String> {
    if old.study.name != new.study.name {
        return Some(format!("it has `{}`, this is `{}`", old.study.name, new.study.name));
    }
    if old.study.search.is_some() || new.study.search.is_some() {
        let same = searched(&old.study) == searched(&new.study);
        return (!same).then(|| "its search, or what the search runs, was another one".to_owned());
    }
    let planned: BTreeSet<&String> = new.trials.iter().map(|t| &t.id).collect();
    let missing = old.trials.iter().filter(|t| !planned.contains(&t.id)).count();
    (missing > 0).then(|| {
        let preset =
            |p: &Plan| p.overrides.preset.clone().map_or("no preset".into(), |p| format!("preset {p}"));
        format!(
            "{missing} of its {} trials are not in this run (it was made with {}, this is {})",
            old.trials.len(),
            preset(old),
            preset(new)
        )
    })
}

fn json<T: serde::Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec(value)
        .map_err(|e| StoreError::Damaged { path: path.to_owned(), reason: e.to_string() })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The folder of a trial that is being done.
#[derive(Debug)]
pub struct TrialFolder {
    directory: PathBuf,
    log: File,
    /// The trace under way and the stage that it is of.
    trace: Option<(String, NewFile)>,
    /// Stages that had a trace before.
    traced: usize,
    /// Where files lay on the volumes that were inspected.
    places: Vec<VolumePlaces>,
}

impl TrialFolder {
    /// The log of a trial, in its folder.
    pub const LOG: &'static str = "log.txt";

    /// Begins a trial below `root`, a store or the folder of a [target](crate::target): its folder, emptied of what an
    /// earlier attempt left.
    ///
    /// # Errors
    /// The folder cannot be made or emptied.
    pub fn begin(root: &Path, id: &str) -> Result<Self, StoreError> {
        let folder = file::folder(root, &["trials", id])?;
        let directory = folder.path().to_owned();
        for name in left_of_a_trial(&directory)? {
            folder.remove(name.as_ref()).map_err(|e| failed("remove", &directory.join(&name), e))?;
        }
        let path = directory.join(Self::LOG);
        let log = folder.open_own(Self::LOG.as_ref(), true, 0o666).map_err(|e| failed("open", &path, e))?;
        Ok(Self { directory, log, trace: None, traced: 0, places: Vec::new() })
    }

    /// Ends the trace, and names the files that the trial has made so far: traces, logs of requests, fio's results and
    /// its own log.
    ///
    /// # Errors
    /// The trace cannot be completed, or the folder not be read.
    pub fn files(&mut self) -> Result<Vec<String>, StoreError> {
        self.end_trace()?;
        Self::files_in(&self.directory)
    }

    /// The same of a trial that is over, in `directory`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn files_in(directory: &Path) -> Result<Vec<String>, StoreError> {
        let names = |directory: &Path| -> Result<Vec<String>, StoreError> {
            let entries = match std::fs::read_dir(directory) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(|e| failed("read", directory, e))?,
            };
            let name = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
            };
            entries.map(name).collect::<Result<_, _>>().map_err(|e| failed("read", directory, e))
        };
        let own = names(directory)?.into_iter().filter(|name| is_file_of_a_trial(name) || name == Self::LOG);
        let fio = names(&directory.join(FIO))?.into_iter().map(|name| format!("{FIO}/{name}"));
        let mut files: Vec<String> = own.chain(fio).collect();
        files.sort();
        Ok(files)
    }

    /// Opens one of its [files](Self::files).
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, name: &str) -> Result<File, StoreError> {
        let path = self.directory.join(name);
        input::open_below(&self.directory, Path::new(name)).map_err(|e| failed("open", &path, e))
    }

    /// Begins a file that a trial made on another host. Names that no trial gives are refused: what comes from there
    /// may be anything.
    ///
    /// # Errors
    /// Such a name; [`StoreError::Full`] when there is no space.
    pub fn receive(&self, name: &str) -> Result<NewFile, StoreError> {
        let of_fio = name.strip_prefix(FIO).and_then(|rest| rest.strip_prefix('/'));
        let plain = |name: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-._+,".contains(c);
            !name.is_empty() && !name.starts_with('.') && name.chars().all(known)
        };
        let right = of_fio.map_or_else(|| is_file_of_a_trial(name) && plain(name), plain);
        if !right {
            let what = std::io::Error::other("no trial makes a file of that name");
            return Err(failed("keep", Path::new(name), what));
        }
        if of_fio.is_some() {
            file::folder(&self.directory, &[FIO])?;
        }
        NewFile::create(&self.directory.join(name))
    }

    /// Adds the log of the same trial on another host.
    pub fn add_log(&mut self, text: &str) {
        for line in text.lines() {
            // A log that cannot be written does not stop a trial.
            drop(writeln!(self.log, "{}", fsage_model::escape::line(line)));
        }
    }

    /// Adds a line with the time to `log.txt`. A log that cannot be written does not stop a trial.
    pub fn log(&mut self, line: &str) {
        drop(writeln!(self.log, "{} {line}", now_rfc3339()));
    }

    /// Adds bytes to the trace of a stage: `trace.parquet` of the first that has one, `trace-STAGE.parquet`
    /// of further ones.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn trace_chunk(&mut self, stage: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if self.trace.as_ref().is_none_or(|(of, _)| of != stage) {
            self.end_trace()?;
            let name =
                if self.traced == 0 { "trace.parquet".to_owned() } else { format!("trace-{stage}.parquet") };
            self.trace = Some((stage.to_owned(), NewFile::create(&self.directory.join(name))?));
        }
        self.trace.as_mut().map_or(Ok(()), |(_, trace)| trace.write(bytes))
    }

    /// Where the request log of one of the trial's volumes is to be written: no file of that name is there.
    /// `volume` is empty for the trial's own volume.
    #[must_use]
    pub fn request_log(&self, volume: &str) -> PathBuf {
        let (begin, end) = REQUESTS;
        let stem = if volume.is_empty() { begin.to_owned() } else { format!("{begin}-{volume}") };
        // A volume that was released and taken again has a log of its own each time.
        let names = (2_u32..).map(|number| format!("{stem}.{number}{end}"));
        let mut names = std::iter::once(format!("{stem}{end}")).chain(names);
        let free = names.find(|name| self.directory.join(name).symlink_metadata().is_err());
        self.directory.join(free.unwrap_or(stem))
    }

    /// Keeps where the files of a volume lie.
    pub fn keep_places(&mut self, places: VolumePlaces) {
        let explanation = places.explanation.coarse();
        self.places.push(VolumePlaces { explanation, ..places });
    }

    /// What was kept so far.
    #[must_use]
    pub fn places(&self) -> &[VolumePlaces] {
        &self.places
    }

    /// Forgets what was kept: the trial continues elsewhere.
    pub fn forget_places(&mut self) {
        self.places.clear();
    }

    /// Keeps a file of fio's below `fio/`.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn keep_fio(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        file::folder(&self.directory, &[FIO])?;
        file::write(&self.directory.join(FIO).join(name), bytes)
    }

    /// A file of fio's that this or an earlier attempt at the trial kept.
    #[must_use]
    pub fn fio_file(&self, name: &str) -> Option<Vec<u8>> {
        input::read_below(&self.directory, &Path::new(FIO).join(name), RECORD_LIMIT).ok()
    }

    /// The file with the complete points of a `fio` stage, which only an attempt at an interrupted trial reads.
    #[must_use]
    pub fn fio_points(stage: &str) -> String {
        format!("{stage}-points.json")
    }

    /// Removes the lists of points of a complete trial, if that can be.
    fn forget_points(&self, record: &TrialRecord) {
        for stage in record.stages.iter().filter(|stage| matches!(stage, StageRecord::Fio(_))) {
            if let Ok(folder) = file::folder(&self.directory, &[FIO]) {
                // What is left is not read again once the trial is complete.
                let _ = folder.remove(Self::fio_points(stage.name()).as_ref());
            }
        }
    }

    fn end_trace(&mut self) -> Result<(), StoreError> {
        let Some((_, trace)) = self.trace.take() else { return Ok(()) };
        self.traced += 1;
        trace.commit()
    }

    /// Writes everything, the record last. A failed trial keeps its latencies and probes, if it has any.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space; then the trial is not complete.
    pub fn finish(mut self, record: &TrialRecord, started_s: u64) -> Result<(), StoreError> {
        self.end_trace()?;
        if !record.stages.is_empty() {
            let hlog = hlog::text(started_s, &record.stages);
            file::write(&self.directory.join("latency.hlog"), hlog.as_bytes())?;
            let path = self.directory.join("probes.parquet");
            let parquet = probes::bytes(record)
                .map_err(|e| StoreError::Damaged { path: path.clone(), reason: e.to_string() })?;
            file::write(&path, &parquet)?;
        }
        if !self.places.is_empty() {
            let path = self.directory.join(PLACES);
            let record = PlacesRecord { version: STORE_VERSION, volumes: std::mem::take(&mut self.places) };
            file::write(&path, &json(&path, &record)?)?;
        }
        let path = self.directory.join(RECORD);
        file::write(&path, &json(&path, record)?)?;
        if record.status == TrialStatus::Complete {
            self.forget_points(record);
        }
        Ok(())
    }
}
