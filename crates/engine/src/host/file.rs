//! Files and directories that the lab makes beside the file system under test.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{ErrorKind, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use fsage_model::protocol::{FileIdentity, Made};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, openat, statx, unlinkat};
use rustix::io::Errno;

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

/// Makes a directory and its parents, for this user alone: what is kept or mounted in them is nobody else's
/// business.
///
/// # Errors
/// Something else is there, or no right to.
pub fn make_directory(directory: &Path) -> std::result::Result<(), HostError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(HostError::file("make directory", directory))
}

/// What a file or directory is, whatever its name.
///
/// # Errors
/// statx(2) fails.
pub fn identity(open: impl AsFd) -> Result<FileIdentity> {
    known(&statx(open, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?)
}

/// What has a name in a directory; links are not followed. `None`: nothing.
///
/// # Errors
/// statx(2) fails.
pub fn identity_at(directory: impl AsFd, name: &OsStr) -> Result<Option<FileIdentity>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match statx(directory, name, flags, StatxFlags::INO | StatxFlags::BTIME) {
        Ok(found) => known(&found).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn known(found: &Statx) -> Result<FileIdentity> {
    let born = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(FileIdentity {
        device: Some(rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor)),
        inode: found.stx_ino,
        born: born.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
    })
}

/// Removes a file, or an empty directory, that was made as `made` says, whichever of its two names it has. A
/// directory that holds something or that something is mounted on stays: it is not ours alone any more.
///
/// Returns why something that has the name was left: it is another one.
///
/// # Errors
/// No right to.
pub fn remove_made(
    path: &Path,
    directory: bool,
    made: &Made,
) -> std::result::Result<Option<String>, HostError> {
    let error = || HostError::file(if directory { "remove directory" } else { "remove" }, path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(HostError::Senseless { what: format!("{} has no name", path.display()) });
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match openat(CWD, parent, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(failed) => return Err(error()(failed.into())),
    };
    let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let remove = |name: &OsStr| match unlinkat(&folder, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) if directory => Ok(()),
        Err(failed) => Err(error()(failed.into())),
    };
    let staged = OsStr::new(&made.staged);
    if let Some(found) = identity_at(&folder, staged).map_err(error())?
        && made.identity.is_none_or(|own| own.is_same(&found))
    {
        remove(staged)?;
    }
    let Some(found) = identity_at(&folder, name).map_err(error())? else { return Ok(None) };
    let what = if directory { "directory" } else { "file" };
    match made.identity {
        Some(own) if own.is_same(&found) => remove(name).map(|()| None),
        Some(_) => Ok(Some(format!("another {what} has that name by now"))),
        None => Ok(Some(format!("it was there before the {what} got that name"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_is_harmless_twice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/c");
        make_directory(&folder.path().join("a/b")).unwrap();
        std::fs::write(&file, "x").unwrap();
        remove(&file).unwrap();
        remove(&file).unwrap();
        assert!(matches!(remove(folder.path()), Err(HostError::File { .. })));
    }

    /// The file or directory at `path`, as its lease has it.
    fn made(path: &Path) -> Made {
        let open = std::fs::File::open(path).unwrap();
        Made { staged: ".fsage-0".to_owned(), identity: Some(identity(open).unwrap()) }
    }

    #[test]
    fn only_what_was_made_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, directory) = (folder.path().join("file"), folder.path().join("directory"));
        std::fs::write(&file, "ours").unwrap();
        std::fs::create_dir(&directory).unwrap();
        let (own_file, own_directory) = (made(&file), made(&directory));
        // Both names are others' by now: a later file, and a directory over ours.
        std::fs::rename(&file, folder.path().join("kept")).unwrap();
        std::fs::rename(&directory, folder.path().join("kept too")).unwrap();
        std::fs::write(&file, "the user's").unwrap();
        std::fs::create_dir(&directory).unwrap();
        assert!(remove_made(&file, false, &own_file).unwrap().unwrap().contains("another file"));
        assert!(
            remove_made(&directory, true, &own_directory).unwrap().unwrap().contains("another directory")
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "the user's");
        std::fs::rename(folder.path().join("kept"), &file).unwrap();
        std::fs::remove_dir(&directory).unwrap();
        std::fs::rename(folder.path().join("kept too"), &directory).unwrap();
        std::fs::write(directory.join("the user's"), "").unwrap();
        assert_eq!(remove_made(&file, false, &own_file).unwrap(), None);
        assert_eq!(remove_made(&directory, true, &own_directory).unwrap(), None);
        assert!(!file.exists() && directory.exists(), "a directory that holds something stays");
        std::fs::remove_file(directory.join("the user's")).unwrap();
        for _ in 0..2 {
            assert_eq!(remove_made(&directory, true, &own_directory).unwrap(), None);
        }
        assert!(!directory.exists());
        assert_eq!(remove_made(Path::new("/nowhere/at/all"), false, &own_file).unwrap(), None);
    }

    #[test]
    fn what_was_cut_off_while_it_was_made_goes_by_its_first_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (file, staged) = (folder.path().join("file"), folder.path().join(".fsage-0"));
        let unknown = Made { staged: ".fsage-0".to_owned(), identity: None };
        std::fs::write(&staged, "").unwrap();
        assert_eq!(remove_made(&file, false, &unknown).unwrap(), None);
        assert!(!staged.exists());
        // The user's, made meanwhile.
        std::fs::write(&file, "the user's").unwrap();
        assert!(remove_made(&file, false, &unknown).unwrap().is_some());
        assert!(file.exists());
        // Known, but not renamed yet.
        std::fs::write(&staged, "").unwrap();
        let known = made(&staged);
        assert!(remove_made(&file, false, &known).unwrap().is_some());
        assert!(file.exists() && !staged.exists());
    }

    #[test]
    fn an_identity_of_an_earlier_boot_goes_without_device_numbers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = identity(file.as_file()).unwrap();
        let other = FileIdentity { device: own.device.map(|device| device + 1), ..own };
        assert!(own.is_same(&own) && !own.is_same(&other));
        assert_eq!(own.of_earlier_boot().is_same(&other), own.born.is_some());
        assert!(!own.is_same(&FileIdentity { inode: own.inode + 1, ..own }));
        assert!(!own.is_same(&FileIdentity { born: None, ..own }) || own.born.is_none());
    }
}
