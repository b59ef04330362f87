//! Files that are read: ordinary ones only, and no more of a small one than its limit.
//!
//! A path can lead to a FIFO, which is waited for without end, or to a device such as `/dev/zero`, which has
//! no end. So a file is opened without waiting, asked what it is, and read up to a limit, whatever length it
//! claims.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::mount::descriptor_path;
use crate::owners::{has_listed_writers, is_trusted, is_trusted_group, keeper};

/// Largest study, workload, profile or job file; real ones have some KiB.
pub const TEXT_LIMIT: u64 = 1 << 20;

/// Largest record of a store; real ones have some MiB at most.
pub const RECORD_LIMIT: u64 = 256 << 20;

/// What is no file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is no ordinary file.
    #[error("it is {0}, not an ordinary file")]
    Kind(&'static str),
    /// It is larger than any such file.
    #[error("it is larger than {0} bytes, more than any such file has")]
    Large(u64),
    /// Its contents would be believed, but others may have written them.
    #[error(
        "it is another user's or a server's, others may write to it, or it has several names: its contents are not \
         believed"
    )]
    Foreign,
    /// A link stands where a store has none.
    #[error("it is a symbolic link or behind one, which is not followed here")]
    Link,
}

impl Unfit {
    /// The next step for the user where an error is, or came from, one of these.
    #[must_use]
    pub fn hint(error: &io::Error) -> Option<&'static str> {
        match error.get_ref()?.downcast_ref::<Self>()? {
            Self::Kind(_) => Some("name an ordinary file; copy what a pipe or device gives into one first"),
            Self::Large(_) => Some("name another file: this is not one of the kind"),
            Self::Foreign => Some("make sure who wrote it; remove it if it was not you"),
            Self::Link => Some("put the file itself in the place of the link, or remove the link"),
        }
    }
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        let kind = match unfit {
            Unfit::Large(_) => io::ErrorKind::FileTooLarge,
            Unfit::Kind(_) | Unfit::Link => io::ErrorKind::InvalidInput,
            Unfit::Foreign => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, unfit)
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens an ordinary file to read it; links are followed. What is there is asked before it is opened: opening alone
/// does something to some devices.
///
/// # Errors
/// [`Unfit::Kind`] for anything else; or what opening says.
pub fn open(path: &Path) -> io::Result<File> {
    open_in(CWD, path)
}

/// As [`open`]; a relative path begins at a folder that is open.
///
/// # Errors
/// As there.
pub fn open_in(folder: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let found = ordinary(fs::openat(folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    Ok(File::from(fs::openat(CWD, descriptor_path(found.as_fd()), READ, Mode::empty())?))
}

/// Opens an ordinary file or a pipe, which is waited for, to read it once; links are followed. What is there
/// is asked before it is opened: opening alone does something to some devices.
///
/// # Errors
/// [`Unfit::Kind`] for anything else; or what opening says.
pub fn open_or_pipe(path: &Path) -> io::Result<File> {
    let found = fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match FileType::from_raw_mode(fs::fstat(&found)?.st_mode) {
        FileType::RegularFile | FileType::Fifo => File::open(descriptor_path(found.as_fd())),
        _ => ordinary(found),
    }
}

/// Reads a whole file of at most `limit` bytes; links are followed.
///
/// # Errors
/// [`Unfit`] for what is no ordinary file or larger; or what opening and reading say.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, limit)
}

/// As [`read`], of text.
///
/// # Errors
/// As [`read`]; `ErrorKind::InvalidData` when it is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text_of(open(path)?, limit)
}

/// The whole text of an ordinary file that is open.
///
/// # Errors
/// As [`read_text`].
pub fn text_of(file: File, limit: u64) -> io::Result<String> {
    let text = whole(file, limit)?;
    String::from_utf8(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// As [`read`], of what is `below` a folder: no link leads to it, and nothing out of the folder.
///
/// # Errors
/// As [`read`]; [`Unfit::Link`] for a link on the way, `EXDEV` for a way out.
pub fn read_below(folder: &Path, below: &Path, limit: u64) -> io::Result<Vec<u8>> {
    whole(open_below(folder, below)?, limit)
}

/// As [`open`], of what is `below` a folder: no link leads to it, and nothing out of the folder.
///
/// # Errors
/// As [`open`]; [`Unfit::Link`] for a link on the way, `EXDEV` for a way out.
pub fn open_below(folder: &Path, below: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = fs::openat(CWD, folder, flags, Mode::empty())?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match fs::openat2(folder, below, READ, Mode::empty(), within) {
        Ok(file) => ordinary(file),
        Err(Errno::LOOP) => Err(Unfit::Link.into()),
        Err(error) => Err(error.into()),
    }
}

/// Opens an ordinary file whose contents are believed: it belongs to a trusted user ([`is_trusted`]), nobody
/// else may write to it, it has one name, and no link at the end of the path leads to it.
///
/// # Errors
/// [`Unfit`], or what opening says.
pub fn open_trusted(path: &Path) -> io::Result<File> {
    trusted(CWD, path, READ)
}

/// As [`open_trusted`]; a relative path begins at a folder that is open.
///
/// # Errors
/// As there.
pub fn open_trusted_in(folder: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    trusted(folder, path, READ)
}

/// The same, to read and to write.
///
/// # Errors
/// As [`open_trusted`].
pub fn open_trusted_to_change(path: &Path) -> io::Result<File> {
    trusted(CWD, path, READ | OFlags::RDWR)
}

fn trusted(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<File> {
    let file = match fs::openat(folder, path, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(file) => ordinary(file)?,
        Err(Errno::LOOP) => return Err(Unfit::Link.into()),
        Err(error) => return Err(error.into()),
    };
    let found = fs::fstat(&file)?;
    let by_group = found.st_mode & 0o020 != 0;
    let others = found.st_mode & 0o002 != 0
        || by_group && (!is_trusted_group(found.st_gid) || has_listed_writers(file.as_fd())?);
    // Of FUSE and network mounts it is a server that says so.
    let kept = geteuid().is_root() && keeper(file.as_fd())?.is_some();
    // A second name: a file that was not meant to be this one, such as a record of another disk.
    if kept || others || !is_trusted(found.st_uid) || found.st_nlink != 1 {
        return Err(Unfit::Foreign.into());
    }
    Ok(file)
}

/// Reads a whole file of at most `limit` bytes whose contents are believed, as [`open_trusted`] opens it.
///
/// # Errors
/// As [`open_trusted`]; [`Unfit::Large`]; or what reading says.
pub fn read_trusted(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    whole(open_trusted(path)?, limit)
}

fn ordinary(file: OwnedFd) -> io::Result<File> {
    let kind = match FileType::from_raw_mode(fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => return Ok(File::from(file)),
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        _ => "something else",
    };
    Err(Unfit::Kind(kind).into())
}

fn whole(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read <= limit) {
        Ok(bytes)
    } else {
        Err(Unfit::Large(limit).into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn unfit(error: &io::Error) -> Option<Unfit> {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Unfit>()).copied()
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(unfit(&read(&path, 4).unwrap_err()), Some(Unfit::Large(4)));
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(unfit(&read(&path, 100).unwrap_err()), Some(Unfit::Large(100)));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_text(&folder.path().join("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_read_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for (path, kind) in
            [(pipe.as_path(), "a pipe"), (Path::new("/dev/zero"), "a device"), (folder.path(), "a directory")]
        {
            let error = read(path, 9).unwrap_err();
            assert_eq!(unfit(&error), Some(Unfit::Kind(kind)), "{error}");
            assert!(Unfit::hint(&error).unwrap().starts_with("name an ordinary file"));
        }
        assert!(read(&folder.path().join("socket"), 9).is_err());
        assert!(open_or_pipe(Path::new("/dev/zero")).is_err() && open_or_pipe(folder.path()).is_err());
        std::fs::write(folder.path().join("file"), "1").unwrap();
        assert!(open_or_pipe(&folder.path().join("file")).is_ok());
    }

    #[test]
    fn below_a_folder_no_link_is_followed_and_nothing_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("store/trials/a")).unwrap();
        std::fs::create_dir(path("outside")).unwrap();
        for name in ["store/trials/a/file", "outside/file"] {
            std::fs::write(path(name), "1").unwrap();
        }
        symlink("../../outside", path("store/trials/b")).unwrap();
        symlink("/dev/zero", path("store/trials/a/zero")).unwrap();
        let below = |name: &str| read_below(&path("store"), Path::new(name), 9);
        assert_eq!(below("trials/a/file").unwrap(), b"1");
        for name in ["trials/b/file", "trials/a/zero"] {
            assert_eq!(unfit(&below(name).unwrap_err()), Some(Unfit::Link), "{name}");
        }
        assert!(below("trials/../../outside/file").is_err());
        assert_eq!(below("trials/c/file").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
