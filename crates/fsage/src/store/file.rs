//! Files that appear whole or not at all: temporary name, fsync, rename, fsync of the folder.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Ending of names of files being written; readers ignore them.
const PARTIAL: &str = "partial";

/// A file being written; without [`NewFile::commit`] it never appears and its temporary is removed.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<File>,
}

impl NewFile {
    /// Begins a file that will be `path`.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let mut name = path.file_name().map(ToOwned::to_owned).unwrap_or_default();
        name.push(format!(".{PARTIAL}"));
        let partial = path.with_file_name(name);
        let file = File::create(&partial).map_err(|e| failed("create", &partial, e))?;
        Ok(Self { path: path.to_owned(), partial, file: Some(file) })
    }

    /// Writes more.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|e| failed("write", &self.partial, e)),
            None => Ok(()),
        }
    }

    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn commit(mut self) -> Result<(), StoreError> {
        if let Some(file) = &self.file {
            file.sync_all().map_err(|e| failed("sync", &self.partial, e))?;
        }
        std::fs::rename(&self.partial, &self.path).map_err(|e| failed("rename", &self.partial, e))?;
        self.file = None;
        sync_directory(self.path.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nothing hangs on it: a left-over temporary is ignored and overwritten.
            drop(std::fs::remove_file(&self.partial));
        }
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

/// Makes names in a folder durable.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| failed("sync", path, e))
}

/// The error for a failed file operation; lack of space is told apart.
pub fn failed(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full { path: path.to_owned() },
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
        let mut full = NewFile {
            path: "/nowhere/x".into(),
            partial: "/nowhere/x.partial".into(),
            file: Some(File::options().write(true).open("/dev/full").unwrap()),
        };
        assert!(matches!(full.write(b"x"), Err(StoreError::Full { .. })));
    }
}
