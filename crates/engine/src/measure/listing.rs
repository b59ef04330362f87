//! Walking a tree in the order in which its directories list their names, with one thread.
//!
//! A sub-directory is entered where it is listed, so that what it holds comes before its later siblings, as
//! with `grep -r` and `find`. Names are kept of the directories between the root and the place of the walk
//! (about 30 bytes a name, and one descriptor a level: trees deeper than the limit of open files are not seen
//! whole). Symbolic links are not followed, other file systems are not entered, and `lost+found` below the
//! root is left out: it belongs to the file system, not to the tree.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

use super::MeasureError;
use crate::host::mount;

const ENTRY_BUFFER_BYTES: usize = 32 << 10;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A name that the walk meets.
pub(crate) struct Found<'a> {
    /// What it leads to.
    pub kind: FileType,
    /// The directory it is in.
    pub directory: BorrowedFd<'a>,
    /// The name.
    pub name: &'a CStr,
    /// Its path below the root.
    pub path: &'a [u8],
}

impl Found<'_> {
    /// Opens the file for reading; a link put in its place is not followed.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        openat(self.directory, self.name, flags, Mode::empty())
    }
}

/// What a walk could not see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// How many names.
    pub count: u64,
    /// The first of them and why.
    pub first: String,
}

impl Unseen {
    /// Counts a name, unless it only vanished meanwhile.
    pub fn add(&mut self, path: &[u8], errno: Errno) {
        if matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE) {
            return;
        }
        if self.count == 0 {
            let name = fsage_sys::errno::name(errno.raw_os_error());
            self.first = format!("{}: {name}", String::from_utf8_lossy(path));
        }
        self.count += 1;
    }
}

/// A directory under way.
struct Level {
    fd: OwnedFd,
    /// Names not visited yet, the last first.
    names: Vec<(CString, FileType)>,
    /// Length of the path of its parent.
    path: usize,
}

/// Visits every name below `root`; a directory before what it holds.
///
/// # Errors
/// `root` cannot be read, or what `visit` says. What else cannot be read is counted.
pub(crate) fn walk(
    root: &Path,
    mut visit: impl FnMut(&Found<'_>) -> Result<(), MeasureError>,
) -> Result<Unseen, MeasureError> {
    let mut unseen = Unseen::default();
    let fd = openat(CWD, root, DIRECTORY & !OFlags::NOFOLLOW, Mode::empty())
        .map_err(MeasureError::system("open", root))?;
    let own = mount::number(fd.as_fd()).map_err(MeasureError::system("inspect", root))?;
    let mut names = names_of(&fd).map_err(MeasureError::system("read", root))?;
    names.retain(|(name, _)| name.to_bytes() != b"lost+found");
    let mut path = Vec::new();
    let mut levels = vec![Level { fd, names, path: 0 }];
    while let Some(level) = levels.last_mut() {
        let Some((name, kind)) = level.names.pop() else {
            path.truncate(level.path);
            levels.pop();
            continue;
        };
        let parent = path.len();
        if parent > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let kind = known(&level.fd, &name, kind);
        visit(&Found { kind, directory: level.fd.as_fd(), name: &name, path: &path })?;
        if kind == FileType::Directory {
            match enter(&level.fd, &name, own) {
                Ok(Some((fd, names))) => {
                    levels.push(Level { fd, names, path: parent });
                    continue;
                }
                Ok(None) => {}
                Err(errno) => unseen.add(&path, errno),
            }
        }
        path.truncate(parent);
    }
    Ok(unseen)
}

type Names = Vec<(CString, FileType)>;

/// `None`: another file system is mounted there.
fn enter(parent: &OwnedFd, name: &CStr, own: u64) -> Result<Option<(OwnedFd, Names)>, Errno> {
    let fd = openat(parent, name, DIRECTORY, Mode::empty())?;
    if mount::number(fd.as_fd())? != own {
        return Ok(None);
    }
    let names = names_of(&fd)?;
    Ok(Some((fd, names)))
}

/// The names of a directory in reverse order.
fn names_of(fd: &OwnedFd) -> Result<Names, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); ENTRY_BUFFER_BYTES];
    let mut entries = RawDir::new(fd, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    names.reverse();
    Ok(names)
}

/// The kind of a name, asked for where the directory does not tell.
fn known(directory: &OwnedFd, name: &CStr, reported: FileType) -> FileType {
    if reported != FileType::Unknown {
        return reported;
    }
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// The path of a name below `root`.
pub(crate) fn below(root: &Path, path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    root.join(std::ffi::OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_before_what_it_holds_and_that_before_its_next_sibling() {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["a/b/c", "d", "lost+found", "e/lost+found"] {
            std::fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        for file in ["a/1", "a/b/2", "a/b/c/3", "d/4", "5", "lost+found/6"] {
            std::fs::write(folder.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("/", folder.path().join("d/root")).unwrap();
        let mut met: Vec<String> = Vec::new();
        let unseen = walk(folder.path(), |found| {
            let path = String::from_utf8(found.path.to_vec()).unwrap();
            if let Some((parent, _)) = path.rsplit_once('/') {
                assert!(met.iter().any(|other| other == parent), "{path} before {parent}");
                assert!(met.last().unwrap().starts_with(parent), "{path} after {:?}", met.last());
            }
            met.push(path);
            Ok(())
        });
        assert_eq!(unseen.unwrap(), Unseen::default());
        met.sort();
        let all =
            ["5", "a", "a/1", "a/b", "a/b/2", "a/b/c", "a/b/c/3", "d", "d/4", "d/root", "e", "e/lost+found"];
        assert_eq!(met, all);
    }
}
