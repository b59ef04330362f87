//! Directories that are trusted because only this user and root can change what they hold.
//!
//! A directory is reached through descriptors, one component after the other (`openat` with `O_NOFOLLOW`),
//! and each component is checked on its descriptor: it belongs to root or to the user, and nobody else may
//! write into it, but for directories of root with the sticky bit (/tmp), where nobody can replace what
//! belongs to others. A symbolic link counts only when it belongs to root or to the user; its target is
//! checked in the same way. The last component belongs to the user. What is opened later goes through the
//! descriptor, so that nobody can put another directory in its place.
//!
//! Limit: who writes by an access control list is seen as far as the mode's group bits show it, which is the
//! list's mask.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use fsage_sys::owners::keeper;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::LeaseError;

/// Symbolic links followed at most, as the kernel has it.
const LINKS: usize = 40;

const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A directory that was checked, and stays the one that was checked.
#[derive(Debug)]
pub(crate) struct Trusted {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl AsFd for Trusted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Trusted {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// It is missing, cannot be opened, or others can change it or a directory above it.
    pub(crate) fn open(path: &Path) -> Result<Self, LeaseError> {
        Walk::new(path, false)?.run()
    }

    /// The same; what is missing of it is made, for this user only (mode 0700).
    ///
    /// # Errors
    /// As [`Trusted::open`], or it cannot be made.
    pub(crate) fn make(path: &Path) -> Result<Self, LeaseError> {
        Walk::new(path, true)?.run()
    }

    /// Its path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The way to a directory.
struct Walk {
    wanted: PathBuf,
    make: bool,
    user: u32,
    /// What is still to come.
    names: VecDeque<OsString>,
    /// What was reached, without links.
    reached: PathBuf,
    links: usize,
}

impl Walk {
    fn new(path: &Path, make: bool) -> Result<Self, LeaseError> {
        let failed =
            |source: std::io::Error| LeaseError::Journal { what: "find", path: path.to_owned(), source };
        let wanted = std::path::absolute(path).map_err(failed)?;
        let mut names = VecDeque::new();
        for component in wanted.components().skip(1) {
            let Component::Normal(name) = component else {
                return Err(LeaseError::Distrusted { path: wanted, why: "it has `..` in it".to_owned() });
            };
            names.push_back(name.to_owned());
        }
        let (user, reached) = (geteuid().as_raw(), PathBuf::from("/"));
        Ok(Self { wanted, make, user, names, reached, links: 0 })
    }

    fn run(mut self) -> Result<Trusted, LeaseError> {
        let mut at = self.root()?;
        while let Some(name) = self.names.pop_front() {
            match openat(&at, &name, directory(), Mode::empty()) {
                Ok(next) => {
                    self.reached.push(&name);
                    self.check(&next)?;
                    at = next;
                }
                Err(Errno::NOENT) if self.make => {
                    match mkdirat(&at, &name, Mode::RWXU) {
                        // Somebody else was faster: what is there is checked like any other.
                        Ok(()) | Err(Errno::EXIST) => self.names.push_front(name),
                        Err(error) => return Err(self.failed("make", error)),
                    }
                }
                Err(Errno::NOTDIR | Errno::LOOP) => at = self.follow(at, &name)?,
                Err(error) => return Err(self.failed("open", error)),
            }
        }
        let stat = fstat(&at).map_err(|error| self.failed("inspect", error))?;
        if stat.st_uid != self.user {
            return Err(
                self.distrusted(format!("it is not the user's own, but belongs to user {}", stat.st_uid))
            );
        }
        if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
            return Err(self.distrusted("it is not the user's own: others may write into it".to_owned()));
        }
        Ok(Trusted { path: self.reached, descriptor: at })
    }

    fn root(&self) -> Result<OwnedFd, LeaseError> {
        let root =
            openat(CWD, "/", directory(), Mode::empty()).map_err(|error| self.failed("open", error))?;
        self.check(&root)?;
        Ok(root)
    }

    /// Goes on at the target of a link.
    fn follow(&mut self, at: OwnedFd, name: &OsString) -> Result<OwnedFd, LeaseError> {
        let stat =
            statat(&at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| self.failed("inspect", error))?;
        let link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        self.links += 1;
        if !link || self.links > LINKS {
            return Err(self.failed("open", if link { Errno::LOOP } else { Errno::NOTDIR }));
        }
        if !self.owned(&stat) {
            let link = self.reached.join(name).display().to_string();
            return Err(self.distrusted(format!("the link {link} belongs to user {}", stat.st_uid)));
        }
        let target =
            readlinkat(&at, name, Vec::new()).map_err(|error| self.failed("read the link", error))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let mut whole = self.reached.clone();
        for component in target.components() {
            match component {
                Component::RootDir => whole = PathBuf::from("/"),
                // Right as long as what comes before is no link; what was reached is none.
                Component::ParentDir if whole == self.reached || self.reached.starts_with(&whole) => {
                    whole.pop();
                }
                Component::Normal(name) => whole.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(self.distrusted("a link to it has `..` in its middle".to_owned()));
                }
            }
        }
        for name in whole.components().rev() {
            if let Component::Normal(name) = name {
                self.names.push_front(name.to_owned());
            }
        }
        drop(at);
        self.reached = PathBuf::from("/");
        self.root()
    }

    fn check(&self, directory: &OwnedFd) -> Result<(), LeaseError> {
        let stat = fstat(directory).map_err(|error| self.failed("inspect", error))?;
        let which = || match self.reached.display().to_string() {
            reached if self.reached == self.wanted => format!("{reached}: it"),
            reached => reached,
        };
        let kept = keeper(directory.as_fd()).map_err(|source| LeaseError::Journal {
            what: "inspect",
            path: self.wanted.clone(),
            source,
        })?;
        if self.user == 0 && kept.is_some() {
            let why = format!("{} is on a FUSE or network mount, or on a user's medium", which());
            return Err(self.distrusted(why));
        }
        if !self.owned(&stat) {
            let why = format!("{} is not the user's own, but belongs to user {}", which(), stat.st_uid);
            return Err(self.distrusted(why));
        }
        let sticky = stat.st_mode & STICKY != 0 && stat.st_uid == 0;
        if stat.st_mode & WRITABLE_BY_OTHERS != 0 && !sticky {
            return Err(
                self.distrusted(format!("{} is not the user's own: others may write into it", which()))
            );
        }
        Ok(())
    }

    /// Whether it belongs to root or the user.
    const fn owned(&self, stat: &Stat) -> bool {
        stat.st_uid == 0 || stat.st_uid == self.user
    }

    fn distrusted(&self, why: String) -> LeaseError {
        LeaseError::Distrusted { path: self.wanted.clone(), why }
    }

    fn failed(&self, what: &'static str, error: Errno) -> LeaseError {
        LeaseError::Journal { what, path: self.wanted.clone(), source: error.into() }
    }
}

const fn directory() -> OFlags {
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn refused(path: &Path) -> String {
        match Trusted::make(path) {
            Err(LeaseError::Distrusted { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_missing_is_made_for_the_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("a/b");
        assert!(Trusted::open(&wanted).is_err() && !wanted.exists());
        let made = Trusted::make(&wanted).unwrap();
        assert_eq!(made.path(), folder.path().canonicalize().unwrap().join("a/b"));
        assert_eq!(wanted.metadata().unwrap().mode() & 0o777, 0o700);
        Trusted::open(&wanted).unwrap();
        assert!(matches!(Trusted::open(&folder.path().join("../x")), Err(LeaseError::Distrusted { .. })));
    }

    #[test]
    fn what_others_may_write_into_is_refused_at_every_level() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("a/b");
        Trusted::make(&wanted).unwrap();
        for (path, bits) in [("a/b", 0o777), ("a/b", 0o720), ("a", 0o702)] {
            mode(&folder.path().join(path), bits);
            assert!(refused(&wanted).contains("others may write into it"));
            mode(&folder.path().join(path), 0o700);
        }
        Trusted::make(&wanted).unwrap();
        // The sticky bit makes a directory of root's one to pass through, and nothing to stay in.
        mode(&folder.path().join("a"), 0o1777);
        if geteuid().is_root() {
            Trusted::make(&wanted).unwrap();
        }
        refused(&folder.path().join("a"));
    }

    #[test]
    fn links_of_others_and_folders_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        Trusted::make(&folder.path().join("a/b")).unwrap();
        let link = folder.path().join("link");
        symlink("a/../a/./b", &link).unwrap();
        assert!(refused(&link).contains(".."));
        std::fs::remove_file(&link).unwrap();
        symlink("a", &link).unwrap();
        assert!(Trusted::open(&link.join("b")).unwrap().path().ends_with("a/b"));
        symlink("../a", folder.path().join("a/up")).unwrap();
        assert!(Trusted::open(&folder.path().join("a/up/b")).unwrap().path().ends_with("a/b"));
        symlink("round", folder.path().join("round")).unwrap();
        assert!(Trusted::open(&folder.path().join("round")).is_err());
        if geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
            assert!(refused(&link.join("b")).contains("belongs to user 65534"));
            chown(folder.path().join("a"), Some(65534), None).unwrap();
            assert!(refused(&folder.path().join("a/b")).contains("belongs to user 65534"));
        }
    }
}
