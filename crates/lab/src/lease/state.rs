//! Where journals are kept: a directory of this user's own, outside of stores, that survives a reboot.
//!
//! `$FSAGE_STATE_DIR` alone, where it is set, else `state` in `$FSAGE_RUNTIME_DIR`; else `/var/lib/fsage` for
//! root. Other users have `$XDG_STATE_HOME/fsage` or `~/.local/state/fsage`, and without a home
//! `fsage-UID/state` in the folder for temporary files. Root believes none of the variables of a session.
//! Whatever it is, it counts only while it is [trusted](super::place).
//!
//! One journal a store, `HASH.jsonl` by the store's path: the list of the journals is the list of stores with
//! open leases.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::geteuid;

use super::error::LeaseError;
use super::journal::{Content, Journal};
use super::place::Trusted;

/// What journals' names end in.
const SUFFIX: &str = ".jsonl";

/// Directories for it, the best first.
fn places() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    if let Some(only) = variable("FSAGE_STATE_DIR") {
        return vec![only];
    }
    if let Some(runtime) = variable("FSAGE_RUNTIME_DIR") {
        return vec![runtime.join("state")];
    }
    let user = geteuid();
    if user.is_root() {
        return vec![PathBuf::from("/var/lib/fsage")];
    }
    let own = |name| variable(name).filter(|path| path.is_absolute());
    let home = own("XDG_STATE_HOME").or_else(|| Some(own("HOME")?.join(".local/state")));
    let temporary = std::env::temp_dir().join(format!("fsage-{}", user.as_raw())).join("state");
    home.map(|home| home.join("fsage")).into_iter().chain([temporary]).collect()
}

/// The first of the directories that can be made.
///
/// # Errors
/// Why the last one cannot.
pub(super) fn make() -> Result<Trusted, LeaseError> {
    let mut last = LeaseError::Journal {
        what: "find a directory for",
        path: PathBuf::from("leases"),
        source: io::ErrorKind::NotFound.into(),
    };
    for place in places() {
        match Trusted::make(&place) {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Those that are there. Of several that are possible one that others can change does not count: nothing is
/// kept in it, nothing in it is believed.
///
/// # Errors
/// The only one is there and cannot be trusted.
pub(super) fn existing() -> Result<Vec<Trusted>, LeaseError> {
    let places = places();
    let mut found = Vec::new();
    for place in &places {
        match Trusted::open(place) {
            Ok(there) => found.push(there),
            Err(LeaseError::Journal { source, .. })
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            Err(LeaseError::Distrusted { .. }) if places.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The name of a store's journal.
pub(super) fn name_of(store: &Path) -> String {
    let hash = blake3::hash(store.as_os_str().as_bytes()).to_hex();
    format!("{}{SUFFIX}", hash.as_str().get(..32).unwrap_or("store"))
}

/// A journal that is there.
#[derive(Debug)]
pub(super) struct Found {
    directory: Trusted,
    name: String,
}

impl Found {
    /// What the journal is of, by itself; `None`: nothing, or it cannot be read.
    pub(super) fn store(&self) -> Option<PathBuf> {
        self.peek().ok()?.opened.map(|opened| opened.store)
    }

    /// The journal's path.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// What it says at this moment, no matter who has it open.
    pub(super) fn peek(&self) -> Result<Content, LeaseError> {
        Journal::peek(&self.directory, &self.name)
    }

    /// Opens and locks it.
    pub(super) fn open(self) -> Result<Journal, LeaseError> {
        Journal::open_in(self.directory, self.name, None)
    }
}

/// Every journal of this user.
///
/// # Errors
/// A directory for them cannot be trusted or read.
pub(super) fn journals() -> Result<Vec<Found>, LeaseError> {
    let mut found = Vec::new();
    for place in existing()? {
        let path = place.path().to_owned();
        let failed = |source| LeaseError::Journal { what: "list", path, source };
        let names = names(&place).map_err(failed)?;
        for name in names {
            found.push(Found { directory: Trusted::open(place.path())?, name });
        }
    }
    Ok(found)
}

/// Names of the journals in a directory, sorted.
pub(super) fn names(directory: &Trusted) -> io::Result<Vec<String>> {
    names_with(directory, SUFFIX)
}

/// Names in a directory that end in `suffix`, sorted.
pub(super) fn names_with(directory: &Trusted, suffix: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        if let Some(name) = OsStr::from_bytes(entry.file_name().to_bytes()).to_str()
            && name.ends_with(suffix)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Opens a file of the directory, never through a link, and checks that it is the user's own.
///
/// # Errors
/// It cannot be opened, or is something else.
pub(super) fn open(directory: &Trusted, name: &str, make: bool) -> Result<File, LeaseError> {
    let path = directory.path().join(name);
    let failed = |source: rustix::io::Errno| LeaseError::Journal {
        what: "open",
        path: path.clone(),
        source: source.into(),
    };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = if make { flags | OFlags::CREATE } else { flags };
    let file = openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    let plain = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
    if !plain || stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o022 != 0 || stat.st_nlink > 1 {
        let why = "it is not a file that only its user may write".to_owned();
        return Err(LeaseError::Distrusted { path, why });
    }
    Ok(File::from(file))
}
