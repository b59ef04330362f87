//! Directories that this process has open on a mount, let go while that is unmounted and mounted again.
//!
//! A mount with an open file on it is busy. [`OpenFolders::let_go`] puts /dev/null, on which nothing can be
//! looked up, made or removed, under the number of every directory that is open there; [`OpenFolders::reopen`]
//! opens each again under its number. The holder of the descriptor notices nothing, except that its position in the
//! directory is the beginning again.
//!
//! Which descriptors are on the mount is read from /proc/self/fdinfo (`mnt_id`, proc_pid_fdinfo(5)).
//!
//! Limit: nothing else of the process may use or open these descriptors meanwhile.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};

/// Ways out of the mount are refused: what is on it may be anybody's.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

/// One directory.
#[derive(Debug)]
struct OpenFolder {
    number: RawFd,
    /// Below the mount point; empty for its root.
    below: PathBuf,
    flags: OFlags,
    inode: u64,
}

/// The directories of a mount that were let go.
#[derive(Debug)]
#[must_use = "what was let go has to be opened again"]
pub struct OpenFolders {
    point: PathBuf,
    folders: Vec<OpenFolder>,
}

impl OpenFolders {
    /// Lets go of every directory that is open on what is mounted last at `point`, a canonical path.
    ///
    /// # Errors
    /// Something else than a directory is open there, or /proc cannot be read; then all are as they were.
    pub fn let_go(point: &Path) -> io::Result<Self> {
        let mount =
            mount_of(&open(point, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)?;
        let mut folders = Vec::new();
        for number in numbers()? {
            let Ok((on, flags)) = facts(number) else { continue };
            if on == mount {
                folders.push(folder(number, flags, point)?);
            }
        }
        let nothing = open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        for folder in &folders {
            replace(folder.number, nothing.as_fd())?;
        }
        Ok(Self { point: point.to_owned(), folders })
    }

    /// Opens them again, on what is mounted at the same point now.
    ///
    /// # Errors
    /// One is not there any more, or is another directory; those after it stay let go.
    pub fn reopen(self) -> io::Result<()> {
        let root = open(&self.point, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for OpenFolder { number, below, flags, inode } in self.folders {
            let below = if below.as_os_str().is_empty() { Path::new(".") } else { &below };
            let again = openat2(&root, below, flags, Mode::empty(), BENEATH)?;
            if fstat(&again)?.st_ino != inode {
                return Err(io::Error::other(format!("{} is another directory now", below.display())));
            }
            replace(number, again.as_fd())?;
        }
        Ok(())
    }
}

/// Numbers of the open files of this process.
fn numbers() -> io::Result<Vec<RawFd>> {
    let names = std::fs::read_dir("/proc/self/fd")?.flatten();
    Ok(names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The number of the mount that an open file is on.
fn mount_of(file: &OwnedFd) -> io::Result<u64> {
    facts(file.as_raw_fd()).map(|(mount, _)| mount)
}

/// The mount of a descriptor, and the flags it was opened with.
fn facts(number: RawFd) -> io::Result<(u64, OFlags)> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let mount = field("mnt_id:").and_then(|id| id.parse().ok());
    let flags = field("flags:").and_then(|flags| u32::from_str_radix(&flags, 8).ok());
    let both = mount.zip(flags.map(OFlags::from_bits_retain));
    both.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/fdinfo tells no mount"))
}

/// What there is to know to open a descriptor again.
fn folder(number: RawFd, flags: OFlags, point: &Path) -> io::Result<OpenFolder> {
    let link = PathBuf::from(format!("/proc/self/fd/{number}"));
    let path = std::fs::read_link(&link)?;
    let held = open(&link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&held)?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let below = path.strip_prefix(point).ok().filter(|_| is_folder);
    let below = below.ok_or_else(|| io::Error::other(format!("{} is open", path.display())))?;
    let flags = flags & OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(OpenFolder { number, below: below.to_owned(), flags, inode: stat.st_ino })
}

/// Has the open file number `place` be what `by` is from now on (dup3(2)).
fn replace(place: RawFd, by: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it touches no memory. The number stays its owner's and open, so that it is closed once.
    let answer = unsafe { libc::dup3(by.as_raw_fd(), place, libc::O_CLOEXEC) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_of_the_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = open(folder.path(), flags, Mode::empty()).unwrap();
        let (mount, found) = facts(held.as_raw_fd()).unwrap();
        assert_eq!(mount, mount_of(&held).unwrap());
        assert!(found.contains(OFlags::DIRECTORY) && !found.contains(OFlags::PATH));
        let elsewhere = open("/proc", flags, Mode::empty()).unwrap();
        assert_ne!(mount_of(&elsewhere).unwrap(), mount);
        assert!(numbers().unwrap().contains(&held.as_raw_fd()));
        let root = folder.path().canonicalize().unwrap();
        let known = super::folder(held.as_raw_fd(), found, root.parent().unwrap()).unwrap();
        assert_eq!(known.below, Path::new(root.file_name().unwrap()));
    }

    #[test]
    fn only_directories_can_be_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = std::fs::File::create(root.join("file")).unwrap();
        let (_, flags) = facts(file.as_raw_fd()).unwrap();
        let error = super::folder(file.as_raw_fd(), flags, &root).unwrap_err();
        assert!(error.to_string().contains("file is open"), "{error}");
    }

    #[test]
    fn a_descriptor_that_is_replaced_is_the_other_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "x").unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let place = open(folder.path(), flags, Mode::empty()).unwrap();
        let nothing = open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        replace(place.as_raw_fd(), nothing.as_fd()).unwrap();
        let looked_up = rustix::fs::statat(&place, "a", rustix::fs::AtFlags::empty());
        assert_eq!(looked_up.unwrap_err(), rustix::io::Errno::NOTDIR);
        let again = open(folder.path(), flags, Mode::empty()).unwrap();
        replace(place.as_raw_fd(), again.as_fd()).unwrap();
        assert!(rustix::fs::statat(&place, "a", rustix::fs::AtFlags::empty()).is_ok());
    }
}
