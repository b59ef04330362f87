//! Images of aged volumes: `images/<key>.fsage` and beside it `images/<key>.json`, the record of how it was made.
//!
//! An image is complete when its record is there: the record is written last. The key is the hash of
//! the `basis`, everything that the state of the volume depends on, so trials that age alike share one image and
//! no other trial can take it by mistake. Files are whole or absent and never change, so the folder can be copied by
//! `rsync` from and to other stores.

use std::fs;
use std::path::{Path, PathBuf};

use fsage_engine::protocol::Warning;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;
use super::file::{self, failed};
use super::format::{STORE_VERSION, StageRecord};

/// Folder of the images in a store.
const FOLDER: &str = "images";
/// Hex characters of a key.
const KEY_LENGTH: usize = 16;

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

    fn record_path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    /// The record of a complete image; a record that cannot be read counts as none, so that the image is made anew.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<ImageRecord> {
        let record: ImageRecord = serde_json::from_slice(&fs::read(self.record_path(key)).ok()?).ok()?;
        let size = fs::metadata(self.path(key)).ok()?.len();
        (record.key == key && record.version <= STORE_VERSION && size == record.file_bytes).then_some(record)
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn prepare(&self) -> Result<(), StoreError> {
        fs::create_dir_all(&self.directory).map_err(|e| failed("make", &self.directory, e))
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
        let mut records: Vec<ImageRecord> =
            self.names().iter().filter_map(|name| self.find(name.strip_suffix(".json")?)).collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records
    }

    /// Removes an image, its record first; what is not there is no error.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, key: &str) -> Result<(), StoreError> {
        for path in [self.record_path(key), self.path(key)] {
            remove(&path)?;
        }
        Ok(())
    }

    /// Removes what no complete image needs: files without a record, records without a file, temporaries. Gives the
    /// bytes freed.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn sweep(&self) -> Result<u64, StoreError> {
        let complete: Vec<String> = self.list().into_iter().map(|record| record.key).collect();
        let mut freed = 0;
        for name in self.names() {
            let stem = name.split('.').next().unwrap_or_default();
            let whole = name == format!("{stem}.fsage") || name == format!("{stem}.json");
            if whole && complete.iter().any(|key| key == stem) {
                continue;
            }
            let path = self.directory.join(&name);
            freed += fs::metadata(&path).map_or(0, |m| m.len());
            remove(&path)?;
        }
        Ok(freed)
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path, e)),
        _ => Ok(()),
    }
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
            file_bytes,
            used_bytes: 10,
            volume_bytes: 20,
            stages: Vec::new(),
            warnings: Vec::new(),
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
        fs::write(images.path("aa"), b"12345").unwrap();
        assert_eq!(images.find("aa"), None, "no record yet");
        images.keep(&record("aa", 5)).unwrap();
        assert_eq!(images.find("aa"), Some(record("aa", 5)));
        fs::write(images.path("aa"), b"1234").unwrap();
        assert_eq!(images.find("aa"), None, "cut short");
        fs::write(images.path("aa"), b"12345").unwrap();
        fs::write(images.path("bb"), b"half").unwrap();
        fs::write(images.directory().join("cc.fsage.partial"), b"1").unwrap();
        assert_eq!(images.sweep().unwrap(), 5);
        assert_eq!(images.list(), [record("aa", 5)]);
        images.remove("aa").unwrap();
        images.remove("aa").unwrap();
        assert!(images.list().is_empty());
        assert_eq!(fs::read_dir(images.directory()).unwrap().count(), 0);
    }
}
