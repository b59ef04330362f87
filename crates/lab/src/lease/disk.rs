//! Virtual disks with a name, as far as leases are concerned: where their folders are, and whether a journal
//! is that of one which is up.

use std::path::{Path, PathBuf};

use fsage_engine::host::disk::servers;
use fsage_sys::input::{self, TEXT_LIMIT};
use serde::Deserialize;

use super::runtime::shared;

/// The folder of disks with a name, in that for this boot.
pub(crate) const FOLDER: &str = "disks";

/// Where the disks with a name have their folders.
#[must_use]
pub fn folder() -> PathBuf {
    shared().join(FOLDER)
}

/// What is kept of a disk that is up, within its folder.
pub(crate) const RECORD: &str = "disk.json";

/// Folder within a disk's own that its server works in.
pub(crate) const SERVED: &str = "served";

/// Longest name: the path of a socket holds 107 bytes.
pub const LONGEST_NAME: usize = 32;

/// Whether a disk can have this name: letters, digits, `-`, `_` and `.`, the first a letter or digit, at most
/// [`LONGEST_NAME`].
#[must_use]
pub fn is_name(name: &str) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    first && name.len() <= LONGEST_NAME && name.chars().all(right)
}

/// As much of a disk's record as is needed here.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// The disk that a journal is of, in words, when it is up: then its leases are no rest of a killed run.
pub(crate) fn holds(journal_folder: &Path) -> Option<String> {
    let record = input::read(&journal_folder.join(RECORD), TEXT_LIMIT).ok()?;
    let Named { name } = serde_json::from_slice(&record).ok()?;
    let alive = !servers(&journal_folder.join(SERVED)).is_empty();
    alive.then(|| format!("the disk `{name}`, which is up; `fsage disk down {name}` takes it down"))
}

/// Removes what is left of a disk when everything that its journal has was released; other journals' folders
/// stay.
pub(crate) fn forget(journal_folder: &Path) {
    if journal_folder.parent().is_some_and(|parent| folder().canonicalize().is_ok_and(|own| own == parent)) {
        // What is left is found empty by the next.
        let _ = std::fs::remove_dir_all(journal_folder);
    }
}
