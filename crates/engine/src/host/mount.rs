//! Mounts: what is mounted, mounting and unmounting.
//!
//! /proc/self/mountinfo, as proc_pid_mountinfo(5) has it: id, parent, major:minor, root, mount point,
//! options, optional fields, `-`, type, source, super options; blanks in paths are octal escapes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::filesystem;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{HostError, companion};

/// How long unmounting waits for a busy mount point: udev and desktop indexers look into new mounts.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(5);

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Device number of the file system, `major:minor`.
    pub device_number: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Type (`ext4`).
    pub file_system: String,
    /// What is mounted (`/dev/sda1`).
    pub source: PathBuf,
    /// Which part of it: `/` unless it is a bind mount or a subvolume.
    pub root: PathBuf,
    /// Options of the mount and of the file system, as mount(8) takes them.
    pub options: Vec<String>,
}

/// Number of the mount that an open file is on, where the kernel tells (5.8 and later), otherwise the device
/// number, which also differs between btrfs' subvolumes.
///
/// # Errors
/// What `statx` says.
pub fn number(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    let reported = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if reported.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
        return Ok(reported.stx_mnt_id);
    }
    Ok(u64::from(reported.stx_dev_major) << 32 | u64::from(reported.stx_dev_minor))
}

/// Everything that is mounted in this mount namespace, in order of mounting.
#[must_use]
pub fn table() -> Vec<MountEntry> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<MountEntry> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(2);
    let device_number = front.next()?.to_owned();
    let root = unescape(front.next()?);
    let point = unescape(front.next()?);
    let own = front.next().unwrap_or_default();
    let mut back = back.split(' ');
    let file_system = back.next()?.to_owned();
    let source = unescape(back.next()?);
    let words = own.split(',').chain(back.next().unwrap_or_default().split(','));
    let mut options: Vec<String> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !options.iter().any(|known| known == word) {
            options.push(word.to_owned());
        }
    }
    Some(MountEntry { device_number, point, file_system, source, root, options })
}

/// `\040` and the like back to bytes.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| first == b'\\');
        let byte = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { tail.get(3..).unwrap_or_default() } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Whether something is mounted exactly at `path`.
#[must_use]
pub fn is_mount_point(path: &Path) -> bool {
    let path = resolved(path);
    table().iter().any(|entry| entry.point == path)
}

/// What is mounted last exactly at `path`.
#[must_use]
pub fn top(path: &Path) -> Option<MountEntry> {
    let path = resolved(path);
    table().into_iter().rfind(|entry| entry.point == path)
}

/// The mount that `path`, which must exist, lies in.
#[must_use]
pub fn holding(path: &Path) -> Option<MountEntry> {
    let path = path.canonicalize().ok()?;
    // Of several mounts at the same point the last covers the others, and the last maximum is taken.
    let holders = table().into_iter().filter(|entry| path.starts_with(&entry.point));
    holders.max_by_key(|entry| entry.point.components().count())
}

/// The path as mountinfo has it. Only the folder is resolved, not the last part: asking a mounted file
/// system about itself fails when its device is gone.
fn resolved(path: &Path) -> PathBuf {
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Mounts a device: `nosuid`, `nodev` and `noexec`, at a directory whose parent only this user may enter.
/// What is on a volume may be anybody's, and so may the mode of its root directory.
///
/// # Errors
/// What mount(2) refuses; [`FailureKind::Missing`](fsage_model::protocol::FailureKind) for a file system the
/// kernel does not have; a parent that others may enter, or a link in place of the directory; a superblock
/// that names other devices, or is completed by another device ([`companion`]).
///
/// A file system that refuses a clone of one that is mounted (`EINVAL`) is mounted with the options for clones.
pub fn mount(device: &Path, point: &Path, file_system: &str, options: &[String]) -> Result<(), HostError> {
    let directory = private_point(point)?;
    companion::check(device, file_system, &virtual_disks())?;
    let mount = |options: &[String]| {
        fsage_sys::mount::mount_at(device, directory.as_fd(), point, file_system, options)
    };
    let row = filesystem::by_name(file_system);
    let for_clones = row.map_or(&[][..], |row| row.clone_options);
    let options = &with_own(options, row.map_or(&[][..], |row| row.own_options));
    let mounted = match mount(options) {
        Err(error) if error.errno() == Errno::INVAL.raw_os_error() && !for_clones.is_empty() => {
            let further = for_clones.iter().map(|&option| option.to_owned());
            // Where that is not why it was refused, the first refusal is what counts.
            mount(&options.iter().cloned().chain(further).collect::<Vec<_>>()).map_err(|_| error)
        }
        mounted => mounted,
    };
    mounted.map_err(HostError::kernel(what(device, point, file_system)))?;
    companion::check_mounted(device, point, file_system).inspect_err(|_| {
        // Nothing was asked of it yet.
        let _ = unmount(point);
    })
}

/// Options with those of `own` whose key is not among them.
fn with_own(options: &[String], own: &[&str]) -> Vec<String> {
    let key = |word: &str| word.split('=').next().unwrap_or_default().trim().to_owned();
    let given: Vec<String> = options.iter().flat_map(|option| option.split(',')).map(key).collect();
    let missing = own.iter().filter(|word| !given.contains(&key(word))).map(|&word| word.to_owned());
    options.iter().cloned().chain(missing).collect()
}

/// Mounts with exactly these options: puts a mount of the user's own back as it was, at the open `directory`, which
/// errors call `point`.
///
/// # Errors
/// What mount(2) refuses.
pub fn mount_again(
    device: &Path,
    directory: BorrowedFd<'_>,
    point: &Path,
    file_system: &str,
    options: &[String],
) -> Result<(), HostError> {
    let mounted = fsage_sys::mount::mount_again(device, directory, point, file_system, options);
    mounted.map_err(HostError::kernel(what(device, point, file_system)))
}

/// Where disk servers of fsage show their disks.
fn virtual_disks() -> Vec<PathBuf> {
    let of_server =
        |entry: &MountEntry| entry.file_system == "fuse" && entry.source == Path::new("fsage-disk");
    table().into_iter().filter(of_server).map(|entry| entry.point).collect()
}

fn what(device: &Path, point: &Path, file_system: &str) -> String {
    format!("mount {} at {} as {file_system}", device.display(), point.display())
}

/// Restricts what another program mounted at `point` as [`mount`] restricts its own mounts.
///
/// # Errors
/// It is no mount point.
pub fn restrict(point: &Path) -> Result<(), HostError> {
    fsage_sys::mount::restrict(point)
        .map_err(HostError::kernel(format!("restrict the mount at {}", point.display())))
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes a mount point in a folder that is for nothing else and that only this user may enter.
///
/// # Errors
/// Something else is there, it belongs to somebody else, or no right to.
pub fn make_point(point: &Path) -> Result<(), HostError> {
    let (parent, name) = split(point)?;
    super::file::make_directory(parent)?;
    let error = |errno: Errno| HostError::file("make directory", point)(errno.into());
    let readable = FOLDER.difference(OFlags::PATH);
    let folder = rustix::fs::open(parent, readable, Mode::empty()).map_err(error)?;
    let facts = rustix::fs::fstat(&folder).map_err(error)?;
    if facts.st_uid == geteuid().as_raw() {
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(error)?;
    }
    match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => private_point(point).map(drop),
        Err(errno) => Err(error(errno)),
    }
}

/// Opens a mount point, in a folder that only this user may enter.
fn private_point(point: &Path) -> Result<OwnedFd, HostError> {
    let (parent, name) = split(point)?;
    let error = |errno: Errno| HostError::file("open the mount point", point)(errno.into());
    let folder = rustix::fs::open(parent, FOLDER, Mode::empty()).map_err(error)?;
    let facts = rustix::fs::fstat(&folder).map_err(error)?;
    if facts.st_uid != geteuid().as_raw() || facts.st_mode & 0o077 != 0 {
        return Err(HostError::Exposed { folder: parent.to_owned() });
    }
    point_in(folder.as_fd(), name, point)
}

/// Opens the mount point `name` in a folder, without following a link; errors call it `point`.
///
/// # Errors
/// It is missing, a link, or no directory.
pub(super) fn point_in(folder: BorrowedFd<'_>, name: &OsStr, point: &Path) -> Result<OwnedFd, HostError> {
    rustix::fs::openat(folder, name, FOLDER, Mode::empty())
        .map_err(|errno| HostError::file("open the mount point", point)(errno.into()))
}

fn split(point: &Path) -> Result<(&Path, &OsStr), HostError> {
    let parts = point.parent().zip(point.file_name());
    parts.ok_or_else(|| HostError::Senseless { what: format!("{} is not a mount point", point.display()) })
}

/// Unmounts whatever is mounted at `point`, however often; waits some seconds while it is busy.
///
/// # Errors
/// It stays busy, or unmount(2) refuses.
pub fn unmount(point: &Path) -> Result<(), HostError> {
    let point = resolved(point);
    let started = Instant::now();
    while is_mount_point(&point) {
        let Err(source) = fsage_sys::mount::unmount(&point) else { continue };
        let busy = source.errno() == Errno::BUSY.raw_os_error();
        if busy && started.elapsed() < BUSY_WAIT {
            std::thread::sleep(Duration::from_millis(20));
        } else if busy {
            return Err(HostError::Busy { users: users(&point), point });
        } else if is_mount_point(&point) {
            return Err(HostError::Kernel { what: format!("unmount {}", point.display()), source });
        }
    }
    Ok(())
}

/// Processes with their working directory, root or an open file below `point`: `123 (bash), 456 (vim)`.
fn users(point: &Path) -> String {
    let below = |link: PathBuf| std::fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    let Ok(processes) = std::fs::read_dir("/proc") else { return String::new() };
    let mut found = Vec::new();
    for entry in processes.flatten() {
        let path = entry.path();
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let mut files = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
        if below(path.join("cwd")) || below(path.join("root")) || files.any(|file| below(file.path())) {
            found.push(format!("{pid} ({})", super::read_trimmed(path.join("comm"))));
        }
    }
    if found.is_empty() { String::new() } else { format!("used by {}", found.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_understood() {
        let line =
            "36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let entry = parse(line).unwrap();
        assert_eq!(entry.point, Path::new("/mnt/a b"));
        assert_eq!((entry.device_number.as_str(), entry.file_system.as_str()), ("98:0", "ext3"));
        assert_eq!(entry.source, Path::new("/dev/root"));
        assert_eq!(entry.root, Path::new("/mnt1"));
        assert_eq!(entry.options, ["rw", "noatime", "errors=continue"]);
        assert!(parse("36 35 98:0 /").is_none());
        assert_eq!(unescape("a\\"), Path::new("a\\"));
        assert_eq!(unescape("\\09x"), Path::new("\\09x"));
    }

    #[test]
    fn a_folder_that_others_may_enter_gets_no_mount() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().unwrap();
        let (parent, point) = (folder.path().join("mounts"), folder.path().join("mounts/trial"));
        std::fs::create_dir_all(&point).unwrap();
        let open = |mode| std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = || mount(Path::new("none"), &point, "tmpfs", &[]).unwrap_err();
        for mode in [0o701, 0o710, 0o750, 0o755, 0o1777] {
            open(mode);
            assert!(matches!(refused(), HostError::Exposed { .. }), "{mode:o}");
        }
        make_point(&point).unwrap();
        assert_eq!(parent.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::remove_dir(&point).unwrap();
        symlink(folder.path(), &point).unwrap();
        assert!(matches!(refused(), HostError::File { .. }));
        assert!(make_point(&point).is_err());
        assert!(!is_mount_point(folder.path()));
    }

    #[test]
    fn mount_points_are_told_from_folders() {
        assert!(is_mount_point(Path::new("/proc")));
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_mount_point(folder.path()));
        unmount(folder.path()).unwrap();
        unmount(&folder.path().join("missing")).unwrap();
    }
}
