//! Folders held by descriptor, opened without being led astray.
//!
//! A name is looked up once, part by part from the root, and what is done afterwards goes through the
//! descriptor: anyone who renames or replaces a part of the path later changes nothing. For root two more
//! things hold, because others may have prepared the path: a symbolic link is followed only when a trusted
//! user made it, on a file system whose owners are the kernel's word, and [`Folder::foreign`] names the first
//! folder on the way that somebody else owns, that others may rename things in, or that is on a file system whose
//! contents others decide ([`crate::owners::keeper`]). Trusted are root and, below `sudo`, the user who called it (`SUDO_UID`), and
//! the groups of both (`SUDO_GID`). For other users the kernel's own checks decide: they cannot write more
//! than is theirs.
//!
//! The sticky rule of `/tmp` is the kernel's: in a folder that others may write to and that has the sticky
//! bit nobody can replace what is another's, so such a folder is not foreign when root owns it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::owners::{Keeper, has_listed_writers, has_trusted_owners, is_trusted, is_trusted_group, keeper};

/// Links that a path may lead through; the kernel's own limit.
const MOST_LINKS: u32 = 40;

/// A folder that an untrusted user could change on the way to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The folder, as the path led to it.
    pub path: PathBuf,
    /// Its owner.
    pub owner: u32,
    /// It says that a trusted user owns it, but these may change what is in it.
    pub open_to: Option<Writers>,
}

/// Others than the owner who may change what is in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// Everyone.
    All,
    /// The members of a group that is not root's and not that of who called `sudo`.
    Group(u32),
    /// Users or groups on its access control list.
    Listed,
    /// Who keeps the file system that it is on.
    Keeper(Keeper),
}

/// A folder, open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    foreign: Option<Foreign>,
}

impl Writers {
    fn of(folder: BorrowedFd<'_>, found: &Stat) -> io::Result<Option<Self>> {
        let may = |bits| found.st_mode & bits != 0;
        Ok(match () {
            () if may(0o1000) => None,
            () if may(0o002) => Some(Self::All),
            () if may(0o020) && !is_trusted_group(found.st_gid) => Some(Self::Group(found.st_gid)),
            () if may(0o020) && has_listed_writers(folder)? => Some(Self::Listed),
            () => None,
        })
    }
}

impl Folder {
    /// Opens the folder at `path`; a relative one begins at the working directory.
    ///
    /// # Errors
    /// It is not there, is no folder, or (for root) a symbolic link of an untrusted user is on the way
    /// (`ErrorKind::PermissionDenied`).
    pub fn open(path: &Path) -> io::Result<Self> {
        let whole = std::path::absolute(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut walk = Walk {
            fd: fs::open("/", flags, Mode::empty())?,
            at: PathBuf::from("/"),
            left: parts(whole.as_os_str()),
            links: 0,
            foreign: None,
        };
        walk.judge(&fs::fstat(&walk.fd)?)?;
        while let Some(part) = walk.left.pop_front() {
            walk.step(&part)?;
        }
        Ok(Self { fd: walk.fd, path: path.to_owned(), foreign: walk.foreign })
    }

    /// Opens the folder that the file at `path` is or will be in, and says how the file is called there.
    ///
    /// # Errors
    /// As [`Folder::open`]; or the path ends in no name.
    pub fn of(path: &Path) -> io::Result<(Self, OsString)> {
        let unnamed = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
        let name = name.ok_or_else(unnamed)?.to_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((Self::open(folder.unwrap_or(Path::new(".")))?, name))
    }

    /// Opens the folder `name` in this one, which is made (0755 and the umask) where it is missing; no link
    /// is followed. A folder that was made is durable when this returns.
    ///
    /// # Errors
    /// Something else has the name (`ENOTDIR`, also for a link), or it cannot be made.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        self.enter_made(name, 0o777)
    }

    /// As [`Folder::enter`]; where it is missing it is made with `mode` and the umask.
    ///
    /// # Errors
    /// As [`Folder::enter`].
    pub fn enter_made(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        if name.as_bytes().contains(&b'/') || matches!(name.as_bytes(), b"" | b"." | b"..") {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "that is not the name of a folder"));
        }
        match fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut walk = Walk {
            fd: fs::openat(&self.fd, name, flags, Mode::empty())?,
            at: self.path.join(name),
            left: VecDeque::new(),
            links: 0,
            foreign: self.foreign.clone(),
        };
        walk.judge(&fs::fstat(&walk.fd)?)?;
        Ok(Self { fd: walk.fd, path: walk.at, foreign: walk.foreign })
    }

    /// A folder that is open, judged by itself alone; `path` is only named in errors.
    ///
    /// # Errors
    /// It cannot be inspected.
    pub fn held(fd: OwnedFd, path: &Path) -> io::Result<Self> {
        let mut walk = Walk { fd, at: path.to_owned(), left: VecDeque::new(), links: 0, foreign: None };
        walk.judge(&fs::fstat(&walk.fd)?)?;
        Ok(Self { fd: walk.fd, path: walk.at, foreign: walk.foreign })
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first folder on the way here, this one included, that an untrusted user could change. Nothing for
    /// users other than root.
    #[must_use]
    pub const fn foreign(&self) -> Option<&Foreign> {
        self.foreign.as_ref()
    }

    /// What has a name here; nothing when nothing has. No link is followed.
    ///
    /// # Errors
    /// The folder cannot be searched.
    pub fn find(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file of ours here that grows or holds a lock, made (with `mode` and the umask) where there is
    /// none: an ordinary file with one name, not reached through a link.
    ///
    /// # Errors
    /// Something else has the name, or it cannot be opened.
    pub fn open_own(&self, name: &OsStr, append: bool, mode: u32) -> io::Result<File> {
        let ways = if append { OFlags::WRONLY | OFlags::APPEND } else { OFlags::RDWR };
        // Without O_NONBLOCK a FIFO that somebody put there would be waited for.
        let flags = ways | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, name, flags, Mode::from_raw_mode(mode))
            .map_err(|error| if error == Errno::LOOP { not_ordinary() } else { error.into() })?;
        let found = fs::fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink != 1 {
            return Err(not_ordinary());
        }
        Ok(File::from(file))
    }

    /// Removes the name of a file, or of a link; what is not there is no error.
    ///
    /// # Errors
    /// It is a folder, or cannot be removed.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the names in it durable. File systems that cannot sync folders count as if they had.
    ///
    /// # Errors
    /// The folder's device failed.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match fs::openat(&self.fd, ".", flags, Mode::empty()).and_then(fs::fsync) {
            Ok(()) | Err(Errno::INVAL | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What says that a name is taken by something that is not written to.
pub(crate) fn not_ordinary() -> io::Error {
    let what = "a link, folder, device or file with several names is there, which is not written to";
    io::Error::new(io::ErrorKind::AlreadyExists, what)
}

fn parts(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

/// A path on its way.
struct Walk {
    fd: OwnedFd,
    at: PathBuf,
    left: VecDeque<OsString>,
    links: u32,
    foreign: Option<Foreign>,
}

impl Walk {
    fn step(&mut self, part: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = fs::openat(&self.fd, part, flags, Mode::empty())?;
        let found = fs::fstat(&next)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                if part == ".." {
                    self.at.pop();
                } else if part != "." {
                    self.at.push(part);
                }
                self.fd = next;
                self.judge(&found)
            }
            FileType::Symlink => self.follow(part, &next, &found),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn follow(&mut self, part: &OsStr, link: &OwnedFd, found: &Stat) -> io::Result<()> {
        if geteuid().is_root() && !is_trusted(found.st_uid) {
            let path = self.at.join(part);
            let what =
                format!("{} is a link that user {} made, and is not followed", path.display(), found.st_uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if geteuid().is_root() && !has_trusted_owners(link.as_fd())? {
            let path = self.at.join(part);
            let what = format!(
                "{} is a link on a file system that others may have made (mounted nosuid, FUSE or network), and is not \
                 followed; name the folder that it leads to",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = OsString::from_vec(fs::readlinkat(link, "", Vec::new())?.into_bytes());
        if target.as_bytes().starts_with(b"/") {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.fd = fs::open("/", flags, Mode::empty())?;
            self.at = PathBuf::from("/");
        }
        for part in parts(&target).into_iter().rev() {
            self.left.push_front(part);
        }
        Ok(())
    }

    /// Keeps the first folder that an untrusted user could change.
    fn judge(&mut self, found: &Stat) -> io::Result<()> {
        if self.foreign.is_some() || !geteuid().is_root() {
            return Ok(());
        }
        let keeper = keeper(self.fd.as_fd())?.map(Writers::Keeper);
        let trusted = is_trusted(found.st_uid);
        let writers = match keeper {
            None if trusted => Writers::of(self.fd.as_fd(), found)?,
            keeper => keeper,
        };
        if !trusted || writers.is_some() {
            self.foreign = Some(Foreign { path: self.at.clone(), owner: found.st_uid, open_to: writers });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_path_is_opened_part_by_part() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink("a", folder.path().join("relative")).unwrap();
        symlink(folder.path().join("a/b"), folder.path().join("absolute")).unwrap();
        symlink("loop", folder.path().join("loop")).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let number = |folder: &Folder| fs::fstat(folder).unwrap().st_ino;
        let b = number(&Folder::open(&folder.path().join("a/b")).unwrap());
        for way in ["relative/b", "absolute", "a/../relative/./b", "absolute/../b/"] {
            assert_eq!(number(&Folder::open(&folder.path().join(way)).unwrap()), b, "{way}");
        }
        for (way, errno) in [("loop", Errno::LOOP), ("file", Errno::NOTDIR), ("none", Errno::NOENT)] {
            let error = Folder::open(&folder.path().join(way)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{way}");
        }
        assert!(Folder::of(&folder.path().join("a/..")).is_err() && Folder::of(Path::new("/")).is_err());
    }

    #[test]
    fn what_all_may_change_is_foreign_to_root_unless_it_is_sticky() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert_eq!(Folder::open(&below).unwrap().foreign(), None);
        let mode =
            |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o1777);
        assert_eq!(Folder::open(&below).unwrap().foreign(), None);
        mode(0o777);
        let found = Folder::open(&below).unwrap();
        let foreign = found.foreign().unwrap();
        assert_eq!((foreign.path.as_path(), foreign.open_to), (folder.path(), Some(Writers::All)));
        // A group's folder is as open as the group is: root's own may be, others' not, and the sticky bit
        // counts here too.
        for (group, bits, expected) in [
            (0, 0o2775, None),
            (65_534, 0o2775, Some(Writers::Group(65_534))),
            (65_534, 0o3775, None),
            (65_534, 0o2755, None),
        ] {
            std::os::unix::fs::chown(folder.path(), None, Some(group)).unwrap();
            mode(bits);
            let found = Folder::open(&below).unwrap();
            assert_eq!(found.foreign().and_then(|foreign| foreign.open_to), expected, "{group} {bits:o}");
            assert_eq!(found.foreign().is_some(), expected.is_some(), "{group} {bits:o}");
        }
    }

    #[test]
    fn folders_and_files_of_ours_are_not_reached_through_links() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (file, own) = (outside.path().join("file"), Folder::open(folder.path()).unwrap());
        std::fs::write(&file, "kept").unwrap();
        symlink(outside.path(), folder.path().join("in")).unwrap();
        symlink(&file, folder.path().join("log")).unwrap();
        std::fs::hard_link(&file, folder.path().join("other")).unwrap();
        assert_eq!(own.enter("in".as_ref()).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        for name in ["..", "in/x", ""] {
            assert_eq!(own.enter(name.as_ref()).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        for name in ["log", "other"] {
            let error = own.open_own(name.as_ref(), true, 0o644).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        own.enter("new".as_ref()).unwrap().open_own("log".as_ref(), true, 0o644).unwrap();
        assert!(folder.path().join("new/log").is_file());
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }
}
