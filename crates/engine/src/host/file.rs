//! Files and directories that the lab makes beside the file system under test.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use super::HostError;

fn missing_is_fine(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes a file; a missing one is fine.
///
/// # Errors
/// It is a directory, or no right to.
pub fn remove(file: &Path) -> std::result::Result<(), HostError> {
    missing_is_fine(std::fs::remove_file(file)).map_err(HostError::file("remove", file))
}

/// Makes a directory and its parents, for this user alone: what is kept or mounted in them is nobody else's business.
///
/// # Errors
/// Something else is there, or no right to.
pub fn make_directory(directory: &Path) -> std::result::Result<(), HostError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(HostError::file("make directory", directory))
}

/// Removes an empty directory; a missing one is fine, and so is one that holds something or that something is
/// mounted on: it is not ours alone any more.
///
/// # Errors
/// It is no directory, or no right to.
pub fn remove_directory(directory: &Path) -> std::result::Result<(), HostError> {
    match missing_is_fine(std::fs::remove_dir(directory)) {
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy) => {
            Ok(())
        }
        other => other.map_err(HostError::file("remove directory", directory)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_is_harmless_twice() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, file) = (folder.path().join("a/b"), folder.path().join("a/b/c"));
        make_directory(&directory).unwrap();
        std::fs::write(&file, "x").unwrap();
        remove_directory(&directory).unwrap();
        assert!(file.exists());
        remove(&file).unwrap();
        remove(&file).unwrap();
        remove_directory(&directory).unwrap();
        remove_directory(&directory).unwrap();
        assert!(matches!(remove(folder.path()), Err(HostError::File { .. })));
    }
}
