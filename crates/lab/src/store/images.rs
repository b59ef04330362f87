//! Images of aged volumes: `images/<key>.fsage` and beside it `images/<key>.json`, the record of how it was
//! made.
//!
//! An image is complete when its record is there: the record is written last. The key is the hash of the
//! `basis`, everything that the state of the volume depends on, so trials that age alike share one image and
//! no other trial can take it by mistake. Files are whole or absent and never change, so the folder can be
//! copied by `rsync` from and to other stores.
//!
//! So other versions of fsage may have written there. What belongs to a record that this version cannot judge
//! (one of a newer version, or one that cannot be read) is somebody's: it is never used here, and only
//! removed by name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use fsage_model::record::{STORE_VERSION, StageRecord, VolumePlaces};
use fsage_model::warning::Warning;
use fsage_sys::folder::Folder;
use fsage_sys::input::{self, RECORD_LIMIT};
use fsage_sys::new_file::is_temporary;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;
use super::file::{self, failed};

/// Folder of the images in a store.
const FOLDER: &str = "images";
/// Hex characters of a key.
const KEY_LENGTH: usize = 16;

/// First bytes of an image.
const MAGIC: &[u8] = b"fsageIMG";

/// How an image was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// [`STORE_VERSION`] of the writer.
    pub version: u32,
    /// Name of the file, without its ending.
    pub key: String,
    /// What the key is the hash of.
    pub basis: Value,
    /// When, RFC 3339 in UTC.
    pub made: String,
    /// Digest of what it holds; empty in records from before this was kept.
    #[serde(default)]
    pub digest: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Bytes of the volume that it holds.
    pub used_bytes: u64,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// The stages that led to it.
    pub stages: Vec<StageRecord>,
    /// Their warnings.
    pub warnings: Vec<Warning>,
    /// Where the files lay that they left; empty in records from before this was kept.
    #[serde(default)]
    pub places: Vec<VolumePlaces>,
}

impl ImageRecord {
    /// Names the one run of the stages that led to this image. The key does not: the same key made again,
    /// here or in another store, is another run, while a copy of the image is the same. What an image holds
    /// (identities and times of a file system, too) is the same in no two runs.
    #[must_use]
    pub fn run(&self) -> String {
        let own = if self.digest.is_empty() { &self.made } else { &self.digest };
        format!("{}-{}", self.key, own.get(..KEY_LENGTH).unwrap_or(own))
    }
}

/// An image that this version cannot judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownImage {
    /// Name of its files, without their endings.
    pub key: String,
    /// Why not.
    pub why: String,
}

/// What the files of a key are.
enum State {
    /// A whole image with its record.
    Complete(Box<ImageRecord>),
    /// A part of one: of no use to anybody.
    Incomplete,
    /// Not for this version to say, and why.
    Unknown(String),
}

/// The images of a store.
#[derive(Debug, Clone)]
pub struct Images {
    directory: PathBuf,
}

/// Key of a basis: the first 16 hex characters of BLAKE3 over its canonical text.
#[must_use]
pub fn key(basis: &Value) -> String {
    let text = crate::study::identity::canonical_text(basis);
    blake3::hash(text.as_bytes()).to_hex()[..KEY_LENGTH].to_owned()
}

impl Images {
    /// Those of the store in `root`, which need not be there yet.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self { directory: root.join(FOLDER) }
    }

    /// Where they are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The image's file.
    #[must_use]
    pub fn path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.fsage"))
    }

    /// Opens a file there, led by no link out of the store.
    fn open(&self, name: &str) -> io::Result<fs::File> {
        input::open_below(self.root(), &Path::new(FOLDER).join(name))
    }

    fn root(&self) -> &Path {
        self.directory.parent().unwrap_or(Path::new("."))
    }

    fn record_path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    /// The record of a complete image; one that this version cannot judge counts as none, so that the image
    /// is made again.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<ImageRecord> {
        match self.state(key) {
            State::Complete(record) => Some(*record),
            State::Incomplete | State::Unknown(_) => None,
        }
    }

    /// What the files of a key are.
    fn state(&self, key: &str) -> State {
        let text = match input::read_below(
            self.root(),
            &Path::new(FOLDER).join(format!("{key}.json")),
            RECORD_LIMIT,
        ) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return State::Incomplete,
            Err(error) => return State::Unknown(format!("its record cannot be read: {error}")),
        };
        let Ok(value) = serde_json::from_slice::<Value>(&text) else {
            return State::Unknown("its record is damaged or has an unknown format".to_owned());
        };
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version <= u64::from(STORE_VERSION) => {}
            Some(version) => {
                return State::Unknown(format!(
                    "a newer fsage wrote it: it has store version {version}, this one reads up to {STORE_VERSION}"
                ));
            }
            None => return State::Unknown("its record has no version".to_owned()),
        }
        let Ok(record) = serde_json::from_value::<ImageRecord>(value) else { return State::Incomplete };
        match self.open(&format!("{key}.fsage")).and_then(|file| file.metadata()) {
            Ok(file) if record.key == key && file.len() == record.file_bytes => {
                State::Complete(Box::new(record))
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                State::Unknown(format!("its file cannot be inspected: {error}"))
            }
            _ => State::Incomplete,
        }
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn prepare(&self) -> Result<(), StoreError> {
        file::folder(self.root(), &[FOLDER]).map(drop)
    }

    /// Makes an image complete; its file has to be there.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn keep(&self, record: &ImageRecord) -> Result<(), StoreError> {
        let path = self.record_path(&record.key);
        let text = serde_json::to_vec(record)
            .map_err(|e| StoreError::Damaged { path: path.clone(), reason: e.to_string() })?;
        file::write(&path, &text)
    }

    /// Complete images, by key.
    #[must_use]
    pub fn list(&self) -> Vec<ImageRecord> {
        let complete = |key: &String| self.find(key);
        self.keys().unwrap_or_default().iter().filter_map(complete).collect()
    }

    /// Images that this version cannot judge, by key.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn unknown(&self) -> Result<Vec<UnknownImage>, StoreError> {
        let unknown = |key: String| match self.state(&key) {
            State::Unknown(why) => Some(UnknownImage { key, why }),
            State::Complete(_) | State::Incomplete => None,
        };
        Ok(self.keys()?.into_iter().filter_map(unknown).collect())
    }

    /// Removes an image, its record first; what is not there is no error. False where something else has the
    /// image's name: then nothing is removed.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, key: &str) -> Result<bool, StoreError> {
        let (record, image) = (format!("{key}.json"), format!("{key}.fsage"));
        let Some(folder) = self.folder()? else { return Ok(true) };
        let there = folder.find(image.as_ref()).map_err(|e| failed("find", &self.path(key), e))?.is_some();
        if there && !self.begins_as_image(&image) {
            return Ok(false);
        }
        for name in [record, image] {
            remove(&folder, &name)?;
        }
        Ok(true)
    }

    /// The folder, open; nothing when it is not there.
    fn folder(&self) -> Result<Option<Folder>, StoreError> {
        match self.directory.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            _ => file::folder(self.root(), &[FOLDER]).map(Some),
        }
    }

    /// Removes what no complete image needs: images without a record, records without an image, temporaries
    /// of both. Everything of an image that this version cannot judge stays, and so does what has no name or
    /// beginning that fsage gives its files: that may be anybody's, and is reported.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn sweep(&self) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        let Some(folder) = self.folder()? else { return Ok(swept) };
        for name in self.names()? {
            let Some(found) = Found::of(&name) else {
                swept.strange.push(name);
                continue;
            };
            let kept = match self.state(found.key()) {
                State::Complete(_) => !matches!(found, Found::Temporary(_)),
                State::Unknown(_) => true,
                State::Incomplete => false,
            };
            if kept {
                continue;
            }
            if matches!(found, Found::Image(_)) && !self.begins_as_image(&name) {
                swept.strange.push(name);
                continue;
            }
            let size = folder.find(name.as_ref()).ok().flatten();
            swept.freed_bytes += size.and_then(|found| u64::try_from(found.st_size).ok()).unwrap_or(0);
            remove(&folder, &name)?;
        }
        Ok(swept)
    }

    /// Whether a file is an image as far as it goes: a killed writer of old left less than the magic.
    fn begins_as_image(&self, name: &str) -> bool {
        self.open(name).is_ok_and(begins_as_image)
    }

    fn keys(&self) -> Result<BTreeSet<String>, StoreError> {
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| Found::of(name)).map(|found| found.key().to_owned()).collect())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let failed = |error| failed("read", &self.directory, error);
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let name = |entry: io::Result<fs::DirEntry>| match entry {
            Ok(entry) => Ok(entry.file_name().to_string_lossy().into_owned()),
            Err(error) => Err(failed(error)),
        };
        entries.map(name).collect()
    }
}

/// Whether a file is an image as far as it goes.
pub(super) fn begins_as_image(file: fs::File) -> bool {
    let mut start = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut start).is_ok() && MAGIC.starts_with(&start)
}

/// What [`Images::sweep`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Bytes of the files that were removed.
    pub freed_bytes: u64,
    /// Names of files that are none of fsage's, and were left.
    pub strange: Vec<String>,
}

/// A file of an image, by its name, with the key.
enum Found<'a> {
    /// `KEY.fsage`.
    Image(&'a str),
    /// `KEY.json`.
    Record(&'a str),
    /// One of the two while it was written: `.KEY.json.16HEX.partial`, and `KEY.fsage.partial` of before.
    Temporary(&'a str),
}

impl<'a> Found<'a> {
    /// Nothing when no fsage gives that name.
    fn of(name: &'a str) -> Option<Self> {
        let hidden = name.strip_prefix('.').filter(|_| is_temporary(name.as_ref()));
        let (key, ending) = hidden.unwrap_or(name).split_at_checked(KEY_LENGTH)?;
        let is_key = key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match ending {
            _ if !is_key => None,
            _ if hidden.is_some() => {
                let of_ours = ending.starts_with(".fsage.") || ending.starts_with(".json.");
                of_ours.then_some(Self::Temporary(key))
            }
            ".fsage" => Some(Self::Image(key)),
            ".json" => Some(Self::Record(key)),
            ".fsage.partial" | ".json.partial" => Some(Self::Temporary(key)),
            _ => None,
        }
    }

    const fn key(&self) -> &'a str {
        match self {
            Self::Image(key) | Self::Record(key) | Self::Temporary(key) => key,
        }
    }
}

fn remove(folder: &Folder, name: &str) -> Result<(), StoreError> {
    folder.remove(name.as_ref()).map_err(|e| failed("remove", &folder.path().join(name), e))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(key: &str, file_bytes: u64) -> ImageRecord {
        ImageRecord {
            version: STORE_VERSION,
            key: key.to_owned(),
            basis: json!({"seed": 1}),
            made: "2026-01-01T00:00:00Z".to_owned(),
            digest: String::new(),
            file_bytes,
            used_bytes: 10,
            volume_bytes: 20,
            stages: Vec::new(),
            warnings: Vec::new(),
            places: Vec::new(),
        }
    }

    #[test]
    fn keys_depend_on_values_and_not_on_their_order() {
        let one = key(&json!({"a": 1, "b": {"c": 2, "d": [3]}}));
        assert_eq!(one, key(&json!({"b": {"d": [3], "c": 2}, "a": 1})));
        assert_ne!(one, key(&json!({"b": {"d": [3], "c": 3}, "a": 1})));
        assert_eq!(one.len(), KEY_LENGTH);
    }

    #[test]
    fn an_image_is_complete_with_its_record_and_its_whole_file() {
        let root = tempfile::tempdir().unwrap();
        let images = Images::of(root.path());
        assert!(images.list().is_empty());
        images.prepare().unwrap();
        let (aa, bb, cc) = (&"aa".repeat(8), &"bb".repeat(8), "cc".repeat(8));
        fs::write(images.path(aa), b"fsage").unwrap();
        assert_eq!(images.find(aa), None, "no record yet");
        images.keep(&record(aa, 5)).unwrap();
        assert_eq!(images.find(aa), Some(record(aa, 5)));
        fs::write(images.path(aa), b"fsag").unwrap();
        assert_eq!(images.find(aa), None, "cut short");
        fs::write(images.path(aa), b"fsage").unwrap();
        fs::write(images.path(bb), b"fsag").unwrap();
        fs::write(images.directory().join(format!("{cc}.fsage.partial")), b"1").unwrap();
        fs::write(images.directory().join(format!(".{cc}.json.0123456789abcdef.partial")), b"1").unwrap();
        assert_eq!(images.sweep().unwrap(), Swept { freed_bytes: 6, strange: Vec::new() });
        assert_eq!(images.list(), [record(aa, 5)]);
        fs::write(images.path(aa), b"diary").unwrap();
        assert!(!images.remove(aa).unwrap() && images.list().len() == 1, "it is none of ours");
        fs::write(images.path(aa), b"fsage").unwrap();
        assert!(images.remove(aa).unwrap() && images.remove(aa).unwrap());
        assert!(images.list().is_empty());
        assert_eq!(fs::read_dir(images.directory()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_none_of_ours_is_left_and_named() {
        let root = tempfile::tempdir().unwrap();
        let images = Images::of(root.path());
        images.prepare().unwrap();
        let key = "0123456789abcdef";
        let strange = [
            "photo.json".to_owned(),
            format!(".{key}.0123456789abcdef.partial"),
            format!("{key}.txt"),
            format!("{}.json", key.to_uppercase()),
            "f00dfeed00000000.fsage".to_owned(),
        ];
        for name in &strange {
            fs::write(images.directory().join(name), "somebody's own").unwrap();
        }
        let mut swept = images.sweep().unwrap();
        swept.strange.sort();
        let mut expected = strange.to_vec();
        expected.sort();
        assert_eq!(swept, Swept { freed_bytes: 0, strange: expected });
        assert_eq!(fs::read_dir(images.directory()).unwrap().count(), strange.len());
    }

    #[test]
    fn no_link_in_a_store_leads_to_an_image() {
        use std::os::unix::fs::symlink;

        let root = tempfile::tempdir().unwrap();
        let images = Images::of(root.path());
        images.prepare().unwrap();
        let key = "0123456789abcdef";
        fs::write(root.path().join("private"), b"fsage").unwrap();
        images.keep(&record(key, 5)).unwrap();
        symlink("../private", images.path(key)).unwrap();
        assert_eq!(images.find(key), None);
        images.sweep().unwrap();
        assert!(images.path(key).symlink_metadata().is_ok() && root.path().join("private").exists());
        fs::remove_file(images.path(key)).unwrap();
        fs::rename(root.path().join("private"), images.path(key)).unwrap();
        assert!(images.find(key).is_some());
        let away = root.path().join("away");
        fs::rename(images.directory(), &away).unwrap();
        symlink(&away, images.directory()).unwrap();
        assert_eq!(images.find(key), None);
    }

    #[test]
    fn what_this_version_cannot_judge_is_neither_used_nor_swept() {
        let root = tempfile::tempdir().unwrap();
        let images = Images::of(root.path());
        images.prepare().unwrap();
        let newer = serde_json::to_value(record("aaaaaaaaaaaaaaaa", 5)).unwrap();
        let versions = [
            ("aaaaaaaaaaaaaaaa", json!({"version": STORE_VERSION + 1, "something": "else"}).to_string()),
            (
                "bbbbbbbbbbbbbbbb",
                newer.to_string().replace(&format!("\"version\":{STORE_VERSION}"), "\"version\":9000000000"),
            ),
            ("cccccccccccccccc", json!({"no": "version"}).to_string()),
            ("dddddddddddddddd", "\u{1f}not JSON".to_owned()),
        ];
        for (key, text) in &versions {
            fs::write(images.path(key), b"fsage").unwrap();
            fs::write(images.record_path(key), text).unwrap();
        }
        // Readable by nobody: a folder where the record would be.
        fs::write(images.path("eeeeeeeeeeeeeeee"), b"fsage").unwrap();
        fs::create_dir(images.record_path("eeeeeeeeeeeeeeee")).unwrap();
        // An older writer's record that is not one, and a half image: of no use to anybody.
        fs::write(images.record_path("ffffffffffffffff"), json!({"version": 1}).to_string()).unwrap();
        fs::write(images.path("ffffffffffffffff"), b"fsage").unwrap();
        fs::write(images.path("0000000000000000"), b"fsa").unwrap();
        assert_eq!(images.sweep().unwrap(), Swept { freed_bytes: 5 + 13 + 3, strange: Vec::new() });
        assert!(images.list().is_empty());
        let unknown = images.unknown().unwrap();
        assert_eq!(
            unknown.iter().map(|image| image.key.as_str()).collect::<Vec<_>>(),
            [
                "aaaaaaaaaaaaaaaa",
                "bbbbbbbbbbbbbbbb",
                "cccccccccccccccc",
                "dddddddddddddddd",
                "eeeeeeeeeeeeeeee"
            ]
        );
        assert!(unknown[0].why.contains(&format!("store version {}", STORE_VERSION + 1)), "{unknown:?}");
        for key in [
            "aaaaaaaaaaaaaaaa",
            "bbbbbbbbbbbbbbbb",
            "cccccccccccccccc",
            "dddddddddddddddd",
            "eeeeeeeeeeeeeeee",
        ] {
            assert!(images.path(key).exists() && images.record_path(key).exists(), "{key}");
        }
        assert_eq!(fs::read_dir(images.directory()).unwrap().count(), 10);
        assert!(images.remove("aaaaaaaaaaaaaaaa").unwrap());
        assert_eq!(images.unknown().unwrap().len(), 4);
    }
}
