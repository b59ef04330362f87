//! Files of a store appear whole or not at all ([`fsage_sys::new_file`]); its errors as the store's.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use fsage_sys::folder::Folder;
use fsage_sys::new_file::{self, ForeignFolder, Readers};

use super::StoreError;

/// A file being written; without [`NewFile::commit`] it never appears.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    file: new_file::NewFile,
}

impl NewFile {
    /// Begins a file that will be `path`, for everyone to read whom the umask lets.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let file = new_file::NewFile::create(path, Readers::All).map_err(|e| failed("create", path, e))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes more.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(|e| failed("write", &self.path, e))
    }

    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn commit(self) -> Result<(), StoreError> {
        let Self { path, file } = self;
        file.commit().map(drop).map_err(|e| failed("write", &path, e))
    }
}

/// Writes a whole file.
///
/// # Errors
/// [`StoreError::Full`] when there is no space.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = NewFile::create(path)?;
    file.write(bytes)?;
    file.commit()
}

/// Opens the folder `parts` below `root`, each part made where it is missing and durable then. Links are
/// followed only on the way to `root`: in a store there are none.
///
/// # Errors
/// Something else has the name, it cannot be made, or root may not write there ([`StoreError::Foreign`]).
pub fn folder(root: &Path, parts: &[&str]) -> Result<Folder, StoreError> {
    let checked = |folder: Folder| {
        new_file::check_owner(&folder).map_err(|e| failed("write to", folder.path(), e))?;
        Ok(folder)
    };
    // Before anything is made in it.
    let mut folder = checked(Folder::open(root).map_err(|e| failed("open", root, e))?)?;
    for part in parts {
        let path = folder.path().join(part);
        folder = checked(folder.enter(part.as_ref()).map_err(|e| failed("make", &path, e))?)?;
    }
    Ok(folder)
}

/// The error for a failed file operation; lack of space, and folders that root refuses, are distinguished.
pub fn failed(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full { path: path.to_owned() },
        _ if ForeignFolder::is(&source) => StoreError::Foreign { action, path: path.to_owned(), source },
        _ => StoreError::Io { action, path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_only_when_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        let mut file = NewFile::create(&path).unwrap();
        file.write(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        write(&path, b"whole").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_file_system_is_told_apart() {
        let full = std::io::Error::from(ErrorKind::StorageFull);
        assert!(matches!(failed("write", Path::new("x"), full), StoreError::Full { .. }));
    }
}
