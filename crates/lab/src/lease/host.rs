//! What the labs of root share on this host, wherever each keeps its journals ([`state`]): the settings that they change.
//!
//! Labs with another `$FSAGE_RUNTIME_DIR` or `$FSAGE_STATE_DIR` change the same settings. So one place has the lock that is held
//! while a setting is taken or released, and the list of the directories whose journals may have some: a file each, by
//! the hash of its path, with the path in it. The place lasts as long as this boot, as settings do. Who is not root changes none.
//!
//! Where the place cannot be made, only the labs of one directory know of each other; so it is for a lab that does not see
//! the directory of another (its own `/tmp`), which lists it again with the next setting that it takes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};
use rustix::process::geteuid;

use super::error::LeaseError;
use super::place::Trusted;
use super::state;

/// The place.
const PLACE: &str = "/run/fsage/settings";

/// The lock.
const LOCK: &str = "settings.lock";

/// What the names of directories' files end in.
const SUFFIX: &str = ".directory";

/// Longest path that is believed.
const LONGEST_PATH: u64 = 4096;

/// The place, where there is one. Tests of this crate take settings that are not the host's.
fn place() -> Option<Trusted> {
    let is_shared = geteuid().is_root() && !cfg!(test);
    is_shared.then(|| Trusted::make(Path::new(PLACE)).ok()).flatten()
}

/// Holds all settings of the host until it is dropped, for a lab whose journal is in `own`: while this is held no other lab
/// takes or releases one.
///
/// # Errors
/// The lock cannot be had.
pub(super) fn hold(own: &Trusted) -> Result<File, LeaseError> {
    let place = place();
    let at = place.as_ref().unwrap_or(own);
    let file = state::open(at, LOCK, true)?;
    let path = at.path().join(LOCK);
    file.lock().map_err(|source| LeaseError::Journal { what: "lock", path, source })?;
    place.as_ref().map_or(Ok(()), |place| list(place, own))?;
    Ok(file)
}

/// Puts a directory on the list. The lock is held.
fn list(place: &Trusted, own: &Trusted) -> Result<(), LeaseError> {
    let path = own.path().as_os_str().as_bytes();
    let hash = blake3::hash(path).to_hex();
    let name = format!("{}{SUFFIX}", hash.as_str().get(..32).unwrap_or_default());
    let mut file = state::open(place, &name, true)?;
    let written =
        file.metadata().and_then(|metadata| if metadata.len() == 0 { file.write_all(path) } else { Ok(()) });
    written.map_err(|source| LeaseError::Journal { what: "write", path: place.path().join(name), source })
}

/// The other directories on the list. Those that are gone are taken off it. The lock is held.
pub(super) fn others(own: &Trusted) -> Vec<Trusted> {
    let Some(place) = place() else { return Vec::new() };
    let names = state::names_with(&place, SUFFIX).unwrap_or_default();
    let others = names.iter().filter_map(|name| {
        let mut path = Vec::new();
        state::open(&place, name, false).ok()?.take(LONGEST_PATH).read_to_end(&mut path).ok()?;
        let path = Path::new(OsStr::from_bytes(&path));
        if path == own.path() {
            return None;
        }
        if !path.is_dir() {
            let _ = unlinkat(&place, name.as_str(), AtFlags::empty());
            return None;
        }
        Trusted::open(path).ok()
    });
    others.collect()
}
