//! Which stores have open leases, so that `fsage clean` without arguments finds them.
//!
//! One file a store, named by a hash of its path and holding the path, in /run/fsage/stores ([`runtime`] for users who
//! cannot write there): it is gone after a reboot, and so is everything but files and directories, which the next run of the store
//! removes.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::LeaseError;
use super::runtime;

/// The folder's name in each place of [`runtime`].
const FOLDER: &str = "stores";

fn entry(store: &Path) -> String {
    blake3::hash(store.as_os_str().as_bytes()).to_hex().as_str().get(..16).unwrap_or("store").to_owned()
}

/// Adds a store; once more is harmless. Takes out those whose folder was removed.
pub(super) fn add(store: &Path) -> Result<(), LeaseError> {
    for other in stores() {
        forget_missing(&other);
    }
    let failed = |(path, source)| LeaseError::Journal { what: "register the store in", path, source };
    let path = runtime::make(Path::new(FOLDER)).map_err(failed)?.join(entry(store));
    std::fs::write(&path, store.as_os_str().as_bytes()).map_err(|source| failed((path, source)))
}

/// Takes a store out; a missing entry is fine.
pub(super) fn remove(store: &Path) {
    for folder in runtime::all(FOLDER) {
        // A leftover entry costs `fsage clean` one look at a store without leases.
        let _ = std::fs::remove_file(folder.join(entry(store)));
    }
}

/// Every registered store, in no order.
pub(super) fn stores() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in runtime::all(FOLDER) {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            if let Ok(path) = std::fs::read(entry.path())
                && !path.is_empty()
            {
                found.push(PathBuf::from(std::ffi::OsString::from_vec(path)));
            }
        }
    }
    found
}

/// Takes a store out whose folder is not there any more; whether it was so. What it held cannot be known.
pub(super) fn forget_missing(store: &Path) -> bool {
    let missing = matches!(store.try_exists(), Ok(false));
    if missing {
        remove(store);
    }
    missing && store.as_os_str() != OsStr::new("")
}
