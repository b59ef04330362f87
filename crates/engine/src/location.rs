//! Directories to work in: where they are, and holding on to them.
//!
//! What is on a volume may be anybody's: an image from elsewhere can hold a symbolic link in the place of any
//! directory. So a directory is reached once, by [`Location::open`], and everything below it is reached from
//! its descriptor by [`Anchor::open`]: `openat2(2)` with `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS` and
//! `RESOLVE_NO_XDEV`, which follows no link, leaves the directory by no `..` and enters no other mount.
//! Interfaces that take only paths get [`Anchor::held`], which names the descriptor. Needs Linux 5.6.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, mkdirat, openat, openat2, statat,
    statx,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;

use fsage_model::location::Location;
use fsage_model::protocol::FailureKind;
use fsage_sys::folder::Folder;
use fsage_sys::new_file::{ForeignFolder, check_owner, make_folder};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

/// Permissions of directories made here, before the umask.
const FOLDER_MODE: u32 = 0o755;

/// Why a directory cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// It is missing, is no directory, or may not be read.
    #[error("cannot open directory {}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing is mounted where its volume should be.
    #[error("nothing is mounted at {}", path.display())]
    NotMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// The way to it leaves the volume.
    #[error("{} leaves the volume mounted at {}: there is {what} in its path", path.display(), mount.display())]
    Leaves {
        /// The directory.
        path: PathBuf,
        /// The mount point.
        mount: PathBuf,
        /// What leads away.
        what: &'static str,
    },
}

impl LocationError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Leaves { .. } => {
                "nothing outside was touched; inspect what is on the volume before using it again".to_owned()
            }
            Self::Open { source, .. } if source.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
                "fsage needs openat2: Linux 5.6 or newer".to_owned()
            }
            Self::Open { source, .. } if ForeignFolder::is(source) => ForeignFolder::HINT.to_owned(),
            Self::Open { .. } | Self::NotMounted { .. } => String::new(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Open { source, .. } if ForeignFolder::is(source) => FailureKind::Usage,
            _ => FailureKind::Failed,
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Open { source, .. } => source.raw_os_error(),
            Self::NotMounted { .. } | Self::Leaves { .. } => None,
        }
    }
}

/// Reaching the directory that a location names.
pub trait Reach {
    /// Opens it.
    ///
    /// # Errors
    /// It is missing; its mount point is none; the way to it leaves the volume.
    fn open(&self) -> Result<Anchor, LocationError>;

    /// Opens it to change what is below. A directory of the user's own choice must be one that root may write
    /// in: it is reached without following links of other users, and root refuses one that belongs to another
    /// user unless `--allow-foreign-owner` was given.
    ///
    /// # Errors
    /// As [`Reach::open`]; for root a link or directory of another user.
    fn open_to_change(&self) -> Result<Anchor, LocationError>;

    /// Makes it, where it is not there yet, and opens it. The directories above it must be there on a volume;
    /// else they are made too.
    ///
    /// # Errors
    /// As [`Reach::open`]; something else has its name, or no right to.
    fn make(&self) -> Result<Anchor, LocationError>;
}

impl Reach for Location {
    fn open(&self) -> Result<Anchor, LocationError> {
        match &self.mount {
            None => Anchor::at(&self.path).map_err(|errno| failed(self, errno)),
            Some(mount) => below(self, mount, |volume, rest| volume.open(rest, DIRECTORY, Mode::empty())),
        }
    }

    fn open_to_change(&self) -> Result<Anchor, LocationError> {
        if self.mount.is_some() || !geteuid().is_root() {
            return self.open();
        }
        Folder::open(&self.path).and_then(|folder| own(self, &folder)).map_err(|source| refused(self, source))
    }

    fn make(&self) -> Result<Anchor, LocationError> {
        let Some(mount) = &self.mount else {
            let made = make_folder(&self.path, FOLDER_MODE).and_then(|folder| own(self, &folder));
            return made.map_err(|source| refused(self, source));
        };
        below(self, mount, |volume, rest| {
            let (parent, name) = volume.parent(rest)?;
            match mkdirat(&parent, name, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) | Err(Errno::EXIST) => volume.open(rest, DIRECTORY, Mode::empty()),
                Err(errno) => Err(errno),
            }
        })
    }
}

/// The anchor of a folder that root may write in.
fn own(location: &Location, folder: &Folder) -> io::Result<Anchor> {
    check_owner(folder)?;
    let fd = openat(folder, ".", DIRECTORY, Mode::empty())?;
    Ok(Anchor { fd: Arc::new(fd), path: location.path.clone() })
}

fn below(
    location: &Location,
    mount: &Path,
    open: impl FnOnce(&Anchor, &Path) -> Result<OwnedFd, Errno>,
) -> Result<Anchor, LocationError> {
    let volume = Anchor::at(mount).map_err(|errno| failed(location, errno))?;
    if !is_mounted(volume.fd()).map_err(|errno| failed(location, errno))? {
        return Err(LocationError::NotMounted { path: mount.to_owned() });
    }
    let leaves = |what| LocationError::Leaves { path: location.path.clone(), mount: mount.to_owned(), what };
    let rest = location.path.strip_prefix(mount).map_err(|_| leaves("another directory"))?;
    if rest.as_os_str().is_empty() {
        return Ok(volume);
    }
    if !rest.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(leaves("`..`"));
    }
    match open(&volume, rest) {
        Ok(fd) => Ok(Anchor { fd: Arc::new(fd), path: location.path.clone() }),
        Err(Errno::LOOP) => Err(leaves("a symbolic link")),
        Err(Errno::XDEV) => Err(leaves("another mount")),
        Err(errno) => Err(failed(location, errno)),
    }
}

fn failed(location: &Location, errno: Errno) -> LocationError {
    refused(location, errno.into())
}

fn refused(location: &Location, source: io::Error) -> LocationError {
    LocationError::Open { path: location.path.clone(), source }
}

/// Whether a directory is the root of a mount; taken for one where the kernel does not tell (before 5.8).
fn is_mounted(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let facts = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    let reported = facts.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    Ok(!reported || facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// An open directory, which everything below it is reached from. Clones share the descriptor.
#[derive(Debug, Clone)]
pub struct Anchor {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl AsFd for Anchor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Anchor {
    /// A directory of the user's own choice, to be read: links in its path are followed. What is changed goes
    /// through [`Location::open_to_change`].
    ///
    /// # Errors
    /// What opening says.
    pub fn at(path: &Path) -> Result<Self, Errno> {
        let fd = openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Self { fd: Arc::new(fd), path: path.to_owned() })
    }

    /// What people call it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor, open for reading.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A path of the descriptor, for interfaces that take no descriptors; it is this directory's while the
    /// anchor is held, in this process.
    #[must_use]
    pub fn held(&self) -> PathBuf {
        fsage_sys::mount::descriptor_path(self.fd())
    }

    /// Whether anything has this name in it; a link is not followed.
    ///
    /// # Errors
    /// It is no name, or the directory cannot be searched.
    pub fn is_taken(&self, name: &str) -> Result<bool, LocationError> {
        let path = self.path.join(name);
        let found = match name {
            "" | "." | ".." => Err(Errno::INVAL),
            name if name.contains('/') => Err(Errno::INVAL),
            name => statat(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW),
        };
        match found {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(LocationError::Open { path, source: errno.into() }),
        }
    }

    /// Opens what is below: without following links, without leaving the directory, on its mount.
    ///
    /// # Errors
    /// `ELOOP` for a symbolic link in the path, `EXDEV` for a way out or another mount, else what opening
    /// says.
    pub fn open(&self, below: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        open_beneath(self.fd(), below, flags, mode)
    }

    /// As [`Anchor::open`], also on other mounts below.
    ///
    /// # Errors
    /// `ELOOP` for a symbolic link in the path, `EXDEV` for a way out, else what opening says.
    pub fn open_across(&self, below: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        openat2(self.fd(), below, flags | OFlags::CLOEXEC, mode, BENEATH.difference(ResolveFlags::NO_XDEV))
    }

    /// The open directory (`O_PATH`) that holds the last name of a path below, and that name.
    ///
    /// # Errors
    /// As [`Anchor::open`]; `EINVAL` for a path without a name.
    pub fn parent<'p>(&self, below: &'p Path) -> Result<(OwnedFd, &'p std::ffi::OsStr), Errno> {
        let name = below.file_name().ok_or(Errno::INVAL)?;
        let parent = match below.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok((self.open(parent, flags, Mode::empty())?, name))
    }
}

/// Opens `path` below `directory` as [`Anchor::open`] does.
///
/// # Errors
/// See there.
pub fn open_beneath(
    directory: impl AsFd,
    path: impl Arg,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    // The kernel refuses a mode where nothing is made, which open(2) ignores.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    openat2(directory, path, flags | OFlags::CLOEXEC, mode, BENEATH)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_below_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("inside/deep")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/file"), "x").unwrap();
        symlink("../outside", folder.path().join("inside/link")).unwrap();
        symlink("deep", folder.path().join("inside/near")).unwrap();
        let anchor = Anchor::at(&folder.path().join("inside")).unwrap();
        let open = |path: &str| anchor.open(path, OFlags::RDONLY, Mode::empty()).map(drop);
        assert_eq!(open("deep"), Ok(()));
        for (path, errno) in [
            ("link/file", Errno::LOOP),
            ("link", Errno::LOOP),
            ("near", Errno::LOOP),
            ("../outside/file", Errno::XDEV),
            ("deep/../../outside", Errno::XDEV),
            ("/etc/passwd", Errno::XDEV),
        ] {
            assert_eq!(open(path), Err(errno), "{path}");
            assert!(anchor.parent(&Path::new(path).join("x")).is_err(), "{path}");
        }
        let made = anchor.open("link/new", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR);
        assert_eq!(made.unwrap_err(), Errno::LOOP);
        let anchor = Anchor::at(Path::new("/")).unwrap();
        assert_eq!(anchor.open("proc/self", OFlags::RDONLY, Mode::empty()).unwrap_err(), Errno::XDEV);
    }

    #[test]
    fn a_location_on_a_volume_is_on_that_volume() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing is mounted: what is meant for a volume would land on the host's own file system.
        let missing = Location::on(folder.path(), "age").make().unwrap_err();
        assert!(matches!(missing, LocationError::NotMounted { .. }), "{missing}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for (path, what) in [
            ("/proc/../etc", "there is `..`"),
            ("/etc", "there is another directory"),
            ("/proc/self", "there is a symbolic link"),
        ] {
            let location = Location { path: path.into(), mount: Some("/proc".into()) };
            for refused in [location.open().unwrap_err(), location.make().unwrap_err()] {
                assert!(refused.to_string().contains(what) && !refused.hint().is_empty(), "{refused}");
            }
        }
        assert_eq!(Location::on(Path::new("/proc"), "sys").open().unwrap().path(), Path::new("/proc/sys"));
        let own = Location::from(folder.path().join("a/b"));
        assert!(own.open().is_err());
        let anchor = own.make().unwrap();
        fs::write(anchor.held().join("file"), "x").unwrap();
        assert!(folder.path().join("a/b/file").exists());
    }
}
