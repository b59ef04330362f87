//! What the labs of root share on this host, wherever each keeps its journals ([`state`]): the settings that they change.
//!
//! Labs with another `$FSAGE_RUNTIME_DIR` or `$FSAGE_STATE_DIR` change the same settings. So one place has the lock that is held
//! while a setting is taken or released, and the list of the directories whose journals may have some: a file each, by
//! the hash of its path, with the path in it. The place lasts as long as this boot, as settings do. Who is not root changes none.
//!
//! Where the place cannot be made, only the labs of one directory know of each other. A lab that does not see the directory of
//! another one (because it has a `/tmp` of its own) takes it off the list; the other one puts it there again with the next
//! setting that it takes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, fstat, unlinkat};
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

/// The place; none where it cannot be made or is not root's alone. Tests of this crate take settings that are not the host's.
///
/// # Errors
/// It cannot be had at this moment.
fn place() -> Result<Option<Trusted>, LeaseError> {
    if !geteuid().is_root() || cfg!(test) {
        return Ok(None);
    }
    match Trusted::make(Path::new(PLACE)) {
        Ok(place) => Ok(Some(place)),
        Err(LeaseError::Distrusted { .. }) => Ok(None),
        Err(LeaseError::Journal { source, .. }) if is_lasting(source.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

const fn is_lasting(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::NotFound
    )
}

/// Holds all settings of the host until it is dropped, for a lab whose journal is in `own`: while this is held no other lab
/// takes or releases one.
///
/// # Errors
/// The lock cannot be had.
pub(super) fn hold(own: &Trusted) -> Result<File, LeaseError> {
    let place = place()?;
    let at = place.as_ref().unwrap_or(own);
    let file = state::open(at, LOCK, true)?;
    let path = at.path().join(LOCK);
    file.lock().map_err(|source| LeaseError::Journal { what: "lock", path, source })?;
    Ok(file)
}

/// Puts a directory on the list, before a setting is leased in it. The lock is held.
///
/// # Errors
/// It cannot be written.
pub(super) fn list(own: &Trusted) -> Result<(), LeaseError> {
    let Some(place) = place()? else { return Ok(()) };
    let path = own.path().as_os_str().as_bytes();
    let hash = blake3::hash(path).to_hex();
    let name = format!("{}{SUFFIX}", hash.as_str().get(..32).unwrap_or_default());
    let mut file = state::open(&place, &name, true)?;
    let written =
        file.metadata().and_then(|metadata| if metadata.len() == 0 { file.write_all(path) } else { Ok(()) });
    written.map_err(|source| LeaseError::Journal { what: "write", path: place.path().join(name), source })
}

/// The other directories on the list. Those that are gone are taken off it.
pub(super) fn others(own: &Trusted) -> Vec<Trusted> {
    let Ok(Some(place)) = place() else { return Vec::new() };
    let names = state::names_with(&place, SUFFIX).unwrap_or_default();
    // By what it is: a directory may have several names.
    let identity = |directory: &Trusted| fstat(directory).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let others = names.iter().filter_map(|name| {
        let mut path = Vec::new();
        state::open(&place, name, false).ok()?.take(LONGEST_PATH).read_to_end(&mut path).ok()?;
        match Trusted::open(Path::new(OsStr::from_bytes(&path))) {
            Ok(other) => Some(other).filter(|other| identity(other) != identity(own)),
            Err(LeaseError::Journal { source, .. })
                if source.kind() == ErrorKind::NotFound && !path.is_empty() =>
            {
                let _ = unlinkat(&place, name.as_str(), AtFlags::empty());
                None
            }
            Err(_) => None,
        }
    });
    others.collect()
}
