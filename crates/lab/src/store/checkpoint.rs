//! The checkpoint of a trial: what its `lockstep` stage continues from after an interruption.
//!
//! `checkpoints/<trial>/` has `checkpoint.json`, the record, and the images of the volumes that it names. The
//! record is written when its images are there, and what it does not name is removed after that: whenever a
//! run is killed there is one whole checkpoint, or none yet. It is removed when the stage is over. One that no
//! run continues from (its trial was planned again, or is complete in a store that was copied together) stays
//! until [`Checkpoint::sweep`].

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fsage_model::lockstep::{Round, RunHistory};
use fsage_model::record::{Look, STORE_VERSION};
use fsage_model::warning::Warning;
use fsage_sys::folder::Folder;
use fsage_sys::input::{self, RECORD_LIMIT};
use fsage_sys::new_file::is_temporary;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;
use super::file::{self, failed};
use super::images::{Swept, begins_as_image};
use crate::study::identity::TRIAL_ID_LENGTH;

/// Folder of the checkpoints in a store.
const FOLDER: &str = "checkpoints";
/// The record of one.
const RECORD: &str = "checkpoint.json";

/// A stage as it was after a look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// [`STORE_VERSION`] of the writer.
    pub version: u32,
    /// Everything that the state depends on: what is not the same is not continued from.
    pub basis: Value,
    /// The round after which the look was.
    pub round: u64,
    /// Image of each volume, the leader's first: its file in the checkpoint's folder, and that file's bytes.
    pub images: Vec<(String, u64)>,
    /// Rounds that are over.
    pub rounds: Vec<Round>,
    /// Looks that are over.
    pub looks: Vec<Look>,
    /// Digest of the tree.
    pub digest: String,
    /// Operations that failed, by errno name.
    pub failed: BTreeMap<String, u64>,
    /// What the workload learnt, run by run.
    pub past: Vec<RunHistory>,
    /// Rounds after which the stage was continued from a checkpoint before.
    pub resumed_after: Vec<u64>,
    /// Warnings that were given so far.
    pub warnings: Vec<Warning>,
}

/// The checkpoints of a store.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Them, by trial.
    pub checkpoints: Vec<Checkpoint>,
    /// What lies among them and is none.
    pub strange: Vec<String>,
}

/// The checkpoint of one trial of a store.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    root: PathBuf,
    trial: String,
}

impl Checkpoint {
    /// That of the trial with this id in the store in `root`; there need not be one.
    #[must_use]
    pub fn of(root: &Path, trial: &str) -> Self {
        Self { root: root.to_owned(), trial: trial.to_owned() }
    }

    /// All that the store in `root` has.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(root: &Path) -> Result<Kept, StoreError> {
        let mut kept = Kept::default();
        let directory = root.join(FOLDER);
        if is_missing(&directory) {
            return Ok(kept);
        }
        // No link.
        file::folder(root, &[FOLDER])?;
        let mut names = names(&directory)?;
        names.sort();
        for name in names {
            let found = directory.join(&name).symlink_metadata();
            if found.is_ok_and(|found| found.is_dir()) && is_id(&name) {
                kept.checkpoints.push(Self::of(root, &name));
            } else {
                kept.strange.push(format!("{FOLDER}/{name}"));
            }
        }
        Ok(kept)
    }

    /// Its trial.
    #[must_use]
    pub fn trial(&self) -> &str {
        &self.trial
    }

    /// Bytes of its files.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let folder = self.folder()?;
        Ok(names(&self.directory())?.iter().map(|name| size_of(&folder, name)).sum())
    }

    /// Removes it, its record first, and tells how many bytes that freed. What has no name or beginning that
    /// fsage gives the files of a checkpoint stays and is reported.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn sweep(&self) -> Result<Swept, StoreError> {
        let folder = self.folder()?;
        let mut swept = Swept::default();
        let mut names = names(&self.directory())?;
        names.sort_by_key(|name| name != RECORD);
        for name in names {
            if self.is_own(&name) {
                swept.freed_bytes += size_of(&folder, &name);
                self.remove_file(&folder, &name)?;
            } else {
                swept.strange.push(format!("{FOLDER}/{}/{name}", self.trial));
            }
        }
        self.remove_folders()?;
        Ok(swept)
    }

    /// Whether a file of the folder is one that fsage wrote.
    fn is_own(&self, name: &str) -> bool {
        let below = Path::new(FOLDER).join(&self.trial).join(name);
        let is_image = || input::open_below(&self.root, &below).is_ok_and(begins_as_image);
        has_own_name(name) && (is_record_name(name) || is_image())
    }

    fn directory(&self) -> PathBuf {
        self.root.join(FOLDER).join(&self.trial)
    }

    /// A file of it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// What the image of a volume is called after a round.
    #[must_use]
    pub fn image_name(round: u64, volume: usize) -> String {
        format!("round-{round}-volume-{volume}.fsage")
    }

    /// The record, if it is of this version and of this basis, and its images are there.
    #[must_use]
    pub fn find(&self, basis: &Value) -> Option<CheckpointRecord> {
        let below = Path::new(FOLDER).join(&self.trial);
        let text = input::read_below(&self.root, &below.join(RECORD), RECORD_LIMIT).ok()?;
        let record: CheckpointRecord = serde_json::from_slice(&text).ok()?;
        let whole = |(index, (name, bytes)): (usize, &(String, u64))| {
            *name == Self::image_name(record.round, index)
                && input::open_below(&self.root, &below.join(name))
                    .and_then(|file| file.metadata())
                    .is_ok_and(|found| found.len() == *bytes)
        };
        let same = record.version == STORE_VERSION && record.basis == *basis;
        (same && record.images.iter().enumerate().all(whole)).then_some(record)
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn prepare(&self) -> Result<(), StoreError> {
        self.folder().map(drop)
    }

    fn folder(&self) -> Result<Folder, StoreError> {
        file::folder(&self.root, &[FOLDER, &self.trial])
    }

    /// Makes it the checkpoint; its images have to be there. Those of an earlier one are removed.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn keep(&self, record: &CheckpointRecord) -> Result<(), StoreError> {
        let path = self.path(RECORD);
        let text = serde_json::to_vec(record)
            .map_err(|error| StoreError::Damaged { path: path.clone(), reason: error.to_string() })?;
        file::write(&path, &text)?;
        let named = |name: &str| name == RECORD || record.images.iter().any(|(image, _)| image == name);
        self.clear(&named)
    }

    /// Removes the images of a round that could not be kept, as far as it can. Those of the record stay.
    pub fn remove_of(&self, round: u64) {
        let of_round = Self::image_name(round, 0).replace("0.fsage", "");
        let _ = self.clear(&|name| !name.starts_with(&of_round));
    }

    /// Removes it, its record first; none is no error.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self) -> Result<(), StoreError> {
        let directory = self.directory();
        if directory.symlink_metadata().is_err() {
            return Ok(());
        }
        self.remove_file(&self.folder()?, RECORD)?;
        self.clear(&|_| false)?;
        self.remove_folders()
    }

    /// Removes its folder and that of all checkpoints, if nothing is in them.
    fn remove_folders(&self) -> Result<(), StoreError> {
        let directory = self.directory();
        for folder in [directory, self.root.join(FOLDER)] {
            match fs::remove_dir(&folder) {
                // Other trials may have theirs.
                Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                    return Err(failed("remove", &folder, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what has a name that fsage gives here and is not `kept`.
    fn clear(&self, kept: &dyn Fn(&str) -> bool) -> Result<(), StoreError> {
        let folder = self.folder()?;
        let names = names(&self.directory())?;
        names
            .iter()
            .filter(|name| has_own_name(name) && !kept(name))
            .try_for_each(|name| self.remove_file(&folder, name))
    }

    fn remove_file(&self, folder: &Folder, name: &str) -> Result<(), StoreError> {
        folder.remove(name.as_ref()).map_err(|error| failed("remove", &self.path(name), error))
    }
}

/// Whether fsage gives files of a checkpoint such a name, while it writes them or afterwards.
fn has_own_name(name: &str) -> bool {
    let whole = name.strip_prefix('.').filter(|_| is_temporary(name.as_ref()));
    is_record_name(name) || is_image_name(whole.unwrap_or(name), whole.is_some())
}

fn is_record_name(name: &str) -> bool {
    let whole = name.strip_prefix('.').filter(|_| is_temporary(name.as_ref()));
    name == RECORD || whole.is_some_and(|whole| whole.starts_with(RECORD))
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Names in a folder.
fn names(directory: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |error| failed("read", directory, error);
    let entries = fs::read_dir(directory).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())).collect()
}

/// Bytes of a file of a folder; 0 of what is not there.
fn size_of(folder: &Folder, name: &str) -> u64 {
    let found = folder.find(name.as_ref()).ok().flatten();
    found.and_then(|found| u64::try_from(found.st_size).ok()).unwrap_or(0)
}

/// Whether a name is that of a trial.
fn is_id(name: &str) -> bool {
    name.len() == TRIAL_ID_LENGTH && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is [`Checkpoint::image_name`]'s, or begins as one while the image is written.
fn is_image_name(name: &str, unfinished: bool) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.strip_prefix("round-").and_then(|name| name.split_once("-volume-"));
    let Some((round, rest)) = parts else { return false };
    let Some((volume, ending)) = rest.split_once('.') else { return false };
    let ends = ending == "fsage" || unfinished && ending.starts_with("fsage.");
    number(round) && number(volume) && ends
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(round: u64, images: &[u64]) -> CheckpointRecord {
        let images = images.iter().enumerate();
        CheckpointRecord {
            version: STORE_VERSION,
            basis: json!({ "seed": 1 }),
            round,
            images: images.map(|(index, bytes)| (Checkpoint::image_name(round, index), *bytes)).collect(),
            rounds: Vec::new(),
            looks: Vec::new(),
            digest: "abc".to_owned(),
            failed: BTreeMap::new(),
            past: Vec::new(),
            resumed_after: vec![2],
            warnings: Vec::new(),
        }
    }

    fn written(checkpoint: &Checkpoint, record: &CheckpointRecord) {
        for (name, bytes) in &record.images {
            fs::write(checkpoint.path(name), vec![b'i'; usize::try_from(*bytes).unwrap()]).unwrap();
        }
    }

    #[test]
    fn the_newest_is_there_with_its_images_and_nothing_else() {
        let store = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::of(store.path(), "0123456789abcdef");
        let basis = json!({ "seed": 1 });
        assert_eq!(checkpoint.find(&basis), None);
        checkpoint.prepare().unwrap();
        let (first, second) = (record(0, &[3, 4]), record(50, &[5, 6]));
        written(&checkpoint, &first);
        assert_eq!(checkpoint.find(&basis), None, "without a record there is none");
        checkpoint.keep(&first).unwrap();
        assert_eq!(checkpoint.find(&basis), Some(first.clone()));
        // Killed while the next one is written: the first still counts.
        written(&checkpoint, &second);
        assert_eq!(checkpoint.find(&basis), Some(first));
        checkpoint.keep(&second).unwrap();
        assert_eq!(checkpoint.find(&basis), Some(second.clone()));
        // A third one finds no room, and leaves nothing.
        written(&checkpoint, &record(100, &[7]));
        checkpoint.remove_of(100);
        assert_eq!(checkpoint.find(&basis), Some(second));
        assert_eq!(fs::read_dir(checkpoint.directory()).unwrap().count(), 3);
        checkpoint.remove().unwrap();
        checkpoint.remove().unwrap();
        assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_checkpoint_is_swept_and_nothing_beside_it() {
        let store = tempfile::tempdir().unwrap();
        assert!(Checkpoint::all(store.path()).unwrap().checkpoints.is_empty());
        assert!(!store.path().join(FOLDER).exists(), "looking makes nothing");
        let checkpoint = Checkpoint::of(store.path(), "0123456789abcdef");
        checkpoint.prepare().unwrap();
        let kept = record(50, &[5, 6]);
        for (name, _) in &kept.images {
            fs::write(checkpoint.path(name), "fsageIMG").unwrap();
        }
        checkpoint.keep(&kept).unwrap();
        for name in [
            ".round-100-volume-0.fsage.0123456789abcdef.partial",
            ".checkpoint.json.0123456789abcdef.partial",
        ] {
            fs::write(checkpoint.path(name), "fsage").unwrap();
        }
        let strange =
            ["diary.txt", "round-1-volume-0.fsage", "round-x-volume-0.fsage", "checkpoint.json.bak"];
        for name in strange {
            fs::write(checkpoint.path(name), "my own").unwrap();
        }
        fs::create_dir(store.path().join(FOLDER).join("photos")).unwrap();
        std::os::unix::fs::symlink("/", store.path().join(FOLDER).join("fedcba9876543210")).unwrap();
        let found = Checkpoint::all(store.path()).unwrap();
        assert_eq!(found.strange, ["checkpoints/fedcba9876543210", "checkpoints/photos"]);
        let [one] = &found.checkpoints[..] else { panic!("{found:?}") };
        assert_eq!(one.trial(), "0123456789abcdef");
        let own = fs::metadata(checkpoint.path(RECORD)).unwrap().len() + 8 + 8 + 5 + 5;
        assert_eq!(one.bytes().unwrap(), own + 4 * 6);
        let mut swept = one.sweep().unwrap();
        swept.strange.sort();
        let mut expected = strange.map(|name| format!("checkpoints/0123456789abcdef/{name}"));
        expected.sort();
        assert_eq!((swept.freed_bytes, swept.strange.as_slice()), (own, expected.as_slice()));
        assert_eq!(fs::read_dir(checkpoint.directory()).unwrap().count(), strange.len());
    }

    #[test]
    fn what_is_of_another_basis_or_incomplete_is_not_continued_from() {
        let store = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::of(store.path(), "0123456789abcdef");
        checkpoint.prepare().unwrap();
        let kept = record(50, &[5, 6]);
        written(&checkpoint, &kept);
        checkpoint.keep(&kept).unwrap();
        assert_eq!(checkpoint.find(&json!({ "seed": 2 })), None);
        let basis = json!({ "seed": 1 });
        assert!(checkpoint.find(&basis).is_some());
        fs::write(checkpoint.path(&Checkpoint::image_name(50, 1)), "short").unwrap();
        assert_eq!(checkpoint.find(&basis), None);
        // A record that names files elsewhere is none.
        let mut elsewhere = record(50, &[5]);
        elsewhere.images[0].0 = "../../plan.json".to_owned();
        fs::write(checkpoint.path(RECORD), serde_json::to_vec(&elsewhere).unwrap()).unwrap();
        assert_eq!(checkpoint.find(&basis), None);
        // Another trial's stays when one is removed.
        let other = Checkpoint::of(store.path(), "fedcba9876543210");
        other.prepare().unwrap();
        checkpoint.remove().unwrap();
        assert!(other.directory().is_dir() && !checkpoint.directory().exists());
    }
}
