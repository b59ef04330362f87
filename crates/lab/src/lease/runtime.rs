//! Folders for what lasts as long as this boot: places for mounts of work without a store, and virtual disks.
//!
//! `$FSAGE_RUNTIME_DIR` alone, where it is set; else `/run/fsage` for root, and for other users
//! `$XDG_RUNTIME_DIR/fsage` or, without a session of their own, `fsage-UID` in the folder for temporary
//! files. Anybody may make something of that last name: each counts only while it is [trusted](super::place).
//! Root believes no variable of a session.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::error::LeaseError;
use super::place::Trusted;

/// The folders, the best first.
fn places() -> Vec<PathBuf> {
    if let Some(only) = std::env::var_os("FSAGE_RUNTIME_DIR") {
        return vec![only.into()];
    }
    let user = geteuid();
    if user.is_root() {
        return vec![PathBuf::from("/run/fsage")];
    }
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("fsage"));
    let own = std::env::temp_dir().join(format!("fsage-{}", user.as_raw()));
    session.into_iter().chain([own]).collect()
}

/// The folder `name` in the first place where this user can make it.
///
/// # Errors
/// Why not in the last place.
pub(crate) fn make(name: &Path) -> Result<PathBuf, LeaseError> {
    let mut last = LeaseError::Journal {
        what: "find a folder for",
        path: name.to_owned(),
        source: io::ErrorKind::NotFound.into(),
    };
    for place in places() {
        match Trusted::make(&place.join(name)) {
            Ok(made) => return Ok(made.path().to_owned()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// `$FSAGE_RUNTIME_DIR` or /run/fsage, which every user sees, without links in its path.
pub(crate) fn shared() -> PathBuf {
    let folder =
        std::env::var_os("FSAGE_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run/fsage"), PathBuf::from);
    real(&folder)
}

/// A path without links, also where its end is not there yet: servers, mounts and loop devices are known by
/// the kernel's spelling.
pub(crate) fn real(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(parent), Some(name)) => real(parent).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}
