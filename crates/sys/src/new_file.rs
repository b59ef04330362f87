//! Files that appear whole or not at all, where nobody can put something in the way.
//!
//! The file has no name while it is written (`O_TMPFILE`), so that a process that is killed leaves nothing.
//! [`NewFile::commit`] syncs it, links it under its name, or where an older file has that under a random one
//! that it renames over the target, and syncs the folder. Where the file system has no files without a name,
//! it is made with `O_EXCL` under a random name from the start, and the next writer of the same target removes
//! what one left that was killed. One that is killed between its link and its rename leaves its random name.
//!
//! A target that is a link, a folder, a device or anything but an ordinary file is refused, not replaced and
//! not followed.
//!
//! Who may write where: root refuses a folder that an untrusted user could change ([`Folder::foreign`])
//! unless [`allow_foreign`] was called.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::folder::{Folder, Foreign, Writers, not_ordinary};
use crate::input;
use crate::owners::{Keeper, is_trusted};

/// Ending of the names of unfinished files.
pub const PARTIAL: &str = ".partial";

/// Set in the environment of programs that this one starts, so that they hold it likewise.
const FOREIGN_VARIABLE: &str = "FSAGE_ALLOW_FOREIGN_OWNER";

static FOREIGN_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Lets root write into folders of other users from now on, in this process.
pub fn allow_foreign() {
    FOREIGN_ALLOWED.store(true, Ordering::Relaxed);
}

/// Whether root may write into folders of other users: [`allow_foreign`] was called here or by the program
/// that started this one.
#[must_use]
pub fn is_foreign_allowed() -> bool {
    FOREIGN_ALLOWED.load(Ordering::Relaxed) || std::env::var_os(FOREIGN_VARIABLE).is_some_and(|it| it == "1")
}

/// Tells a program that is about to be started whether root may write into folders of other users.
pub fn hand_over(command: &mut Command) {
    if is_foreign_allowed() {
        command.env(FOREIGN_VARIABLE, "1");
    }
}

/// Root would write where an untrusted user could change what it writes; inside the `io::Error` of
/// [`NewFile::create`].
#[derive(Debug, thiserror::Error)]
#[error("{} {}", found.path.display(), in_words(found))]
pub struct ForeignFolder {
    /// The folder, or the file in it.
    pub found: Foreign,
}

fn in_words(found: &Foreign) -> String {
    let why = match found.open_to {
        Some(Writers::All) => "may be written to by all users".to_owned(),
        Some(Writers::Group(group)) => format!("may be written to by group {group}"),
        Some(Writers::Listed) => "may be written to by others on its access control list".to_owned(),
        Some(Writers::Keeper(Keeper::Server)) => {
            "is on a FUSE or network mount, whose server decides what is there".to_owned()
        }
        Some(Writers::Keeper(Keeper::Medium)) => {
            "is on a medium that a user had mounted, who may exchange it".to_owned()
        }
        None => format!("belongs to user {}", found.owner),
    };
    format!("{why}, and root would write there")
}

impl ForeignFolder {
    /// The next step for the user.
    pub const HINT: &str = "name a folder that belongs to root or to you, or add --allow-foreign-owner if you trust that user or server";

    /// Whether an error, or what it came from, is this one.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Refuses a folder that an untrusted user could change, unless that was allowed.
///
/// # Errors
/// [`ForeignFolder`], as `ErrorKind::PermissionDenied`.
pub fn check_owner(folder: &Folder) -> io::Result<()> {
    match folder.foreign() {
        Some(found) if !is_foreign_allowed() => Err(foreign(found.clone())),
        _ => Ok(()),
    }
}

/// Opens an ordinary file that nobody named, for root: nobody else could have put it there, in a folder that
/// no other user can change, on a way without links of others. For other users any file will do.
///
/// # Errors
/// [`ForeignFolder`], as [`Folder::of`] and [`input::open_trusted`].
pub fn open_unnamed(path: &Path) -> io::Result<File> {
    if !geteuid().is_root() {
        return input::open(path);
    }
    let (folder, name) = Folder::of(path)?;
    if let Some(found) = folder.foreign() {
        return Err(foreign(found.clone()));
    }
    input::open_trusted_in(folder.as_fd(), Path::new(&name))
}

/// Opens the folder at `path`. What is missing of it is made, with `mode` and the umask, part by part and
/// through descriptors; the folder that the first part is made in is checked as [`check_owner`] does, one
/// that is there already is not.
///
/// # Errors
/// As [`Folder::open`], [`check_owner`] and [`Folder::enter`].
pub fn make_folder(path: &Path, mode: u32) -> io::Result<Folder> {
    let path = std::path::absolute(path)?;
    let missing = match Folder::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        opened => return opened,
    };
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Err(missing) };
    let above = make_folder(above, mode)?;
    check_owner(&above)?;
    above.enter_made(name, mode)
}

fn foreign(found: Foreign) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, ForeignFolder { found })
}

/// Opens a file that is there, to be written over; nothing when nothing has that name. It is an ordinary file
/// with one name, not reached through a link at the end of the path, and for root it belongs to a trusted
/// user, as each folder on the way does.
///
/// # Errors
/// Something else is there (`ErrorKind::AlreadyExists`), it is another user's ([`ForeignFolder`]), or it
/// cannot be opened.
pub fn open_existing(path: &Path) -> io::Result<Option<File>> {
    let (folder, name) = Folder::of(path)?;
    check_owner(&folder)?;
    // Devices are not even opened: that alone does something to some of them.
    check_target(&folder, &name)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match fs::openat(&folder, &name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(not_ordinary()),
        Err(error) => return Err(error.into()),
    };
    let found = fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink != 1 {
        return Err(not_ordinary());
    }
    if geteuid().is_root() && !is_trusted(found.st_uid) && !is_foreign_allowed() {
        return Err(foreign(Foreign { path: path.to_owned(), owner: found.st_uid, open_to: None }));
    }
    Ok(Some(File::from(file)))
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// The owner alone (0600): it holds data of files, or of a whole volume.
    Owner,
    /// Whom the umask lets.
    All,
}

/// A file being written. It never appears unless it is committed.
#[derive(Debug)]
pub struct NewFile {
    folder: Folder,
    name: OsString,
    path: PathBuf,
    file: File,
    /// Its random name, where it needs one; nothing: it has none.
    temporary: Option<OsString>,
}

impl NewFile {
    /// Begins a file that will be `path`.
    ///
    /// # Errors
    /// The folder cannot be opened or written to, or is refused ([`ForeignFolder`]); the target is no
    /// ordinary file.
    pub fn create(path: &Path, readers: Readers) -> io::Result<Self> {
        let (folder, name) = Folder::of(path)?;
        Self::create_in(folder, &name, readers)
    }

    /// The same in a folder that is open.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn create_in(folder: Folder, name: &OsStr, readers: Readers) -> io::Result<Self> {
        check_owner(&folder)?;
        check_target(&folder, name)?;
        let mode = Mode::from_raw_mode(if readers == Readers::Owner { 0o600 } else { 0o666 });
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, temporary) = match fs::openat(&folder, ".", flags, mode) {
            Ok(file) => (file, None),
            // ISDIR: a kernel without the flag; NOENT: some network file systems.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let (file, temporary) = named(&folder, name, mode)?;
                (file, Some(temporary))
            }
            Err(error) => return Err(error.into()),
        };
        let path = folder.path().join(name);
        Ok(Self { folder, name: name.to_owned(), path, file: File::from(file), temporary })
    }

    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Makes it durable and gives it its name, in place of an older file of that name. Gives the file, still
    /// open.
    ///
    /// # Errors
    /// It cannot be synced or named; then an older file is still there. Something else took the name
    /// meanwhile.
    pub fn commit(mut self) -> io::Result<File> {
        self.file.sync_all()?;
        check_target(&self.folder, &self.name)?;
        if self.temporary.is_none() {
            // Nothing has the name, mostly: then there is no other name that a killed process could leave.
            match self.link(&self.name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.temporary = Some(self.link_unused()?);
                }
                done => done?,
            }
        }
        if let Some(temporary) = &self.temporary {
            fs::renameat(&self.folder, temporary, &self.folder, &self.name)?;
        }
        self.temporary = None;
        self.folder.sync()?;
        self.file.try_clone()
    }

    /// The same, but an older file of that name is kept.
    ///
    /// # Errors
    /// As [`NewFile::commit`]; something has that name (`ErrorKind::AlreadyExists`).
    pub fn commit_new(mut self) -> io::Result<File> {
        self.file.sync_all()?;
        match &self.temporary {
            None => self.link(&self.name)?,
            Some(temporary) => {
                rename_new(&self.folder, temporary, &self.name)?;
            }
        }
        self.temporary = None;
        self.folder.sync()?;
        self.file.try_clone()
    }

    fn link(&self, name: &OsStr) -> io::Result<()> {
        // `AT_EMPTY_PATH` would need a capability; this way is that of open(2).
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(fs::linkat(CWD, own, &self.folder, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn link_unused(&self) -> io::Result<OsString> {
        for _ in 0..100 {
            let name = temporary_name(&self.name);
            match self.link(&name) {
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST.into())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // The next writer of the same target removes what cannot be removed now.
            let _ = fs::unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for NewFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a whole file.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::commit`].
pub fn write(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut file = NewFile::create(path, readers)?;
    file.write_all(bytes)?;
    file.commit().map(drop)
}

/// Gives a file another name in its folder, unless something has that name.
///
/// # Errors
/// `EEXIST`; the file system can do it in no way.
pub fn rename_new(folder: &Folder, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    match fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // NFS and many on FUSE cannot: a link replaces nothing either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            fs::unlinkat(folder, from, AtFlags::empty())
        }
        other => other,
    }
}

/// A target may be missing or an ordinary file.
fn check_target(folder: &Folder, name: &OsStr) -> io::Result<()> {
    match folder.find(name)? {
        Some(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => Err(not_ordinary()),
        _ => Ok(()),
    }
}

/// Makes the file under a random name, held locked while it is written.
fn named(folder: &Folder, name: &OsStr, mode: Mode) -> io::Result<(rustix::fd::OwnedFd, OsString)> {
    sweep(folder, name);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..100 {
        let temporary = temporary_name(name);
        match fs::openat(folder, &temporary, flags, mode) {
            Ok(file) => {
                // Not possible everywhere; then nothing tells this file from one that was left, but for its
                // owner.
                let _ = fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
                return Ok((file, temporary));
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Removes what killed writers of the same target left: ordinary files of this user that nobody holds locked.
fn sweep(folder: &Folder, name: &OsStr) {
    // The folder's own descriptor is for looking names up, not for reading.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(entries) = fs::openat(folder, ".", flags, Mode::empty()).and_then(Dir::new) else { return };
    let prefix = prefix(name);
    for entry in entries.flatten() {
        let found = OsStr::from_bytes(entry.file_name().to_bytes());
        let ours = found.as_bytes().starts_with(prefix.as_bytes()) && is_temporary(found);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some(file) = ours.then(|| fs::openat(folder, found, flags, Mode::empty()).ok()).flatten() else {
            continue;
        };
        let plain = fs::fstat(&file).is_ok_and(|stat| {
            let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            regular && stat.st_nlink == 1 && stat.st_uid == geteuid().as_raw()
        });
        if plain && fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::unlinkat(folder, found, AtFlags::empty());
        }
    }
}

/// Whether a name is that of an unfinished file: `.NAME.16HEX.partial`.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let Some(stem) = bytes.strip_suffix(PARTIAL.as_bytes()).filter(|stem| stem.starts_with(b".")) else {
        return false;
    };
    let (rest, random) = stem.split_at(stem.len().saturating_sub(16));
    rest.ends_with(b".") && random.len() == 16 && random.iter().all(u8::is_ascii_hexdigit)
}

/// `.NAME.`, cut so that the whole name fits.
fn prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(&bytes[..bytes.len().min(200)]));
    prefix.push(".");
    prefix
}

/// A name for an unfinished or short-lived file that nobody can know before: `.NAME.16HEX.partial`.
#[must_use]
pub fn temporary_name(name: &OsStr) -> OsString {
    // Each state is keyed with random bytes of the kernel.
    let random = RandomState::new().build_hasher().finish();
    let mut temporary = prefix(name);
    temporary.push(format!("{random:016x}{PARTIAL}"));
    temporary
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// As on a file system without nameless files.
    fn with_a_name(path: &Path) -> NewFile {
        let (folder, name) = Folder::of(path).unwrap();
        let (file, temporary) = named(&folder, &name, Mode::from_raw_mode(0o600)).unwrap();
        NewFile { folder, path: path.to_owned(), name, file: File::from(file), temporary: Some(temporary) }
    }

    #[test]
    fn a_file_appears_only_when_committed_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        for begin in [|path: &Path| NewFile::create(path, Readers::Owner).unwrap(), with_a_name] {
            let mut file = begin(&path);
            file.write_all(b"half").unwrap();
            assert!(!path.exists());
            drop(file);
            assert_eq!(names(folder.path()), [""; 0]);
            let mut file = begin(&path);
            file.write_all(b"whole").unwrap();
            file.commit().unwrap();
            assert_eq!(names(folder.path()), ["x.json"]);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let kept = begin(&path).commit_new().unwrap_err();
            assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((std::fs::read(&path).unwrap(), names(folder.path()).len()), (b"whole".to_vec(), 1));
            begin(&path).commit().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"");
            std::fs::remove_file(&path).unwrap();
            begin(&path).commit_new().unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn nothing_but_an_ordinary_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        symlink(&victim, folder.path().join("link")).unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        for target in [folder.path().join("link"), folder.path().join("folder"), "/dev/null".into()] {
            let error = NewFile::create(&target, Readers::All).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{}", target.display());
        }
        // One that is put there while the file is written.
        let late = folder.path().join("late");
        let file = NewFile::create(&late, Readers::All).unwrap();
        symlink(&victim, &late).unwrap();
        assert_eq!(file.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
        assert_eq!(names(folder.path()), ["folder", "late", "link", "victim"]);
    }

    #[test]
    fn what_killed_writers_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let left = ".image.0123456789abcdef.partial";
        let kept = [".image.0123456789abcdef.other", ".image.123.partial", ".other.0123456789abcdef.partial"];
        for name in kept.iter().chain([&left]) {
            std::fs::write(path(name), "").unwrap();
        }
        let written = with_a_name(&path("image"));
        let second = with_a_name(&path("image"));
        second.commit().unwrap();
        written.commit().unwrap();
        let mut expected = kept.map(str::to_owned).to_vec();
        expected.push("image".to_owned());
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        assert!(is_temporary(left.as_ref()) && !is_temporary(kept[1].as_ref()));
    }

    #[test]
    fn a_long_name_has_room_for_its_temporary() {
        let folder = tempfile::tempdir().unwrap();
        with_a_name(&folder.path().join("n".repeat(255))).commit().unwrap();
        assert_eq!(names(folder.path()), ["n".repeat(255)]);
    }
}
