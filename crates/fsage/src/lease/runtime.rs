//! Folders for what must be found again while this boot lasts: the list of stores with open leases, and journals of work without a store.
//!
//! `$FSAGE_RUNTIME_DIR` alone, where it is set; else `/run/fsage`, and for a user who cannot write there
//! `$XDG_RUNTIME_DIR/fsage` or, without a session of their own, `fsage-UID` in the folder for temporary files. Anybody may make
//! something of that last name, and what is in it decides which files are removed: it counts only while it belongs to the
//! user and nobody else may write into it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

/// One of the folders.
struct Place {
    folder: PathBuf,
    /// In a folder that anybody may write into.
    exposed: bool,
}

fn places() -> Vec<Place> {
    let named = |folder: PathBuf| Place { folder, exposed: false };
    if let Some(only) = std::env::var_os("FSAGE_RUNTIME_DIR") {
        return vec![named(only.into())];
    }
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("fsage"));
    let user = geteuid();
    let own = std::env::temp_dir().join(format!("fsage-{}", user.as_raw()));
    let own = (!user.is_root()).then_some(Place { folder: own, exposed: true });
    std::iter::once(named("/run/fsage".into())).chain(session.map(named)).chain(own).collect()
}

/// Whether a folder is the user's own and nobody else may write into it.
fn is_private(folder: &Path) -> bool {
    let own = geteuid().as_raw();
    folder
        .symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0)
}

impl Place {
    fn make(&self, name: &Path) -> io::Result<PathBuf> {
        if self.exposed {
            match DirBuilder::new().mode(0o700).create(&self.folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ if is_private(&self.folder) => {}
                _ => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not the user's own")),
            }
        }
        let made = self.folder.join(name);
        std::fs::create_dir_all(&made)?;
        access(&made, Access::WRITE_OK | Access::EXEC_OK)?;
        Ok(made)
    }
}

/// The folder `name` in the first place where this user can make it and write into it.
///
/// # Errors
/// The last place tried, and why not there.
pub(crate) fn make(name: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    let mut last = (name.to_owned(), io::Error::from(io::ErrorKind::NotFound));
    for place in places() {
        match place.make(name) {
            Ok(made) => return Ok(made),
            Err(error) => last = (place.folder.join(name), error),
        }
    }
    Err(last)
}

/// Every folder `name` that [`make`] could have given, in no order; not all need be there.
pub(super) fn all(name: &str) -> Vec<PathBuf> {
    let trusted = places().into_iter().filter(|place| !place.exposed || is_private(&place.folder));
    trusted.map(|place| place.folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_exposed_place_counts_only_while_it_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { folder: folder.path().join("fsage-7"), exposed: true };
        let made = place.make(Path::new("image/1")).unwrap();
        assert!(made.is_dir() && is_private(&place.folder));
        assert_eq!(place.folder.metadata().unwrap().mode() & 0o777, 0o700);
        // Once more is harmless.
        place.make(Path::new("image/1")).unwrap();
        std::fs::set_permissions(&place.folder, PermissionsExt::from_mode(0o777)).unwrap();
        let refused = place.make(Path::new("image/2")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(!place.folder.join("image/2").exists());
        // A link to a folder that would do.
        std::fs::set_permissions(&place.folder, PermissionsExt::from_mode(0o700)).unwrap();
        let link = Place { folder: folder.path().join("link"), exposed: true };
        symlink(&place.folder, &link.folder).unwrap();
        assert!(link.make(Path::new("image/3")).is_err() && !is_private(&link.folder));
    }
}
