//! Which stores have open leases, so that `fsage clean` without arguments finds them.
//!
//! One file a store, named by a hash of its path and holding the path, in /run/fsage/stores: it is gone
//! after a reboot, and so is everything but files and directories, which the next run of the store removes.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::LeaseError;

/// `$FSAGE_RUNTIME_DIR/stores`, or /run/fsage/stores; for a user who cannot write there,
/// `$XDG_RUNTIME_DIR/fsage/stores`.
fn folders() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("FSAGE_RUNTIME_DIR") {
        return vec![PathBuf::from(named).join("stores")];
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("fsage/stores"));
    std::iter::once(PathBuf::from("/run/fsage/stores")).chain(own).collect()
}

fn entry(store: &Path) -> String {
    blake3::hash(store.as_os_str().as_bytes()).to_hex().as_str().get(..16).unwrap_or("store").to_owned()
}

/// Adds a store; once more is harmless. Takes out those whose folder was removed.
pub(super) fn add(store: &Path) -> Result<(), LeaseError> {
    for other in stores() {
        forget_missing(&other);
    }
    let mut last = None;
    for folder in folders() {
        let path = folder.join(entry(store));
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&path, store.as_os_str().as_bytes()));
        match written {
            Ok(()) => return Ok(()),
            Err(source) => last = Some(LeaseError::Journal { what: "register the store in", path, source }),
        }
    }
    last.map_or(Ok(()), Err)
}

/// Takes a store out; a missing entry is fine.
pub(super) fn remove(store: &Path) {
    for folder in folders() {
        // A leftover entry costs `fsage clean` one look at a store without leases.
        let _ = std::fs::remove_file(folder.join(entry(store)));
    }
}

/// Every registered store, in no order.
pub(super) fn stores() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders() {
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
