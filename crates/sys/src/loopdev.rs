//! Loop devices by ioctl (`linux/loop.h`), without losetup.
//!
//! Devices are identified by the device and inode number of the file behind them, never by its name: names
//! are cut, reused and differ between mount namespaces. Numbers of devices are reused too: while a descriptor
//! of one is open the kernel gives its number to no other file, so what is asked and done through one
//! descriptor is of one device. Who detaches a device that others have open only marks it
//! (`LO_FLAGS_AUTOCLEAR`): it goes when the last of them closes it.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};

use crate::ioctl::Request;
use crate::mount::descriptor_path;
use crate::{Error, Result};

/// How to attach a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachOptions {
    /// The file. It must exist, with a length that is a multiple of `sector_bytes`.
    pub file: PathBuf,
    /// First byte of the file that the device has, a multiple of 512.
    pub offset: u64,
    /// Size of the device in bytes, from `offset` on; 0 takes the rest of the file.
    pub size: u64,
    /// Logical sector of the device: 512, 1024, 2048 or 4096.
    pub sector_bytes: u32,
    /// Whether to go round the page cache of the file system that holds the file. Where that one cannot
    /// (tmpfs), attaching fails rather than measuring a cache.
    pub direct_io: bool,
}

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const LOOP_CTL_GET_FREE: Request<()> = Request::historic("LOOP_CTL_GET_FREE", 0x4C82);
const LOOP_CONFIGURE: Request<LoopConfig> = Request::historic("LOOP_CONFIGURE", 0x4C0A);
const LOOP_CLR_FD: Request<()> = Request::historic("LOOP_CLR_FD", 0x4C01);
const LOOP_GET_STATUS64: Request<LoopInfo> = Request::historic("LOOP_GET_STATUS64", 0x4C05);
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Where the kernel shows its block devices.
const SYSFS: &str = "/sys/block";
/// Between asking for a free device and taking it anyone may take it; each try asks again.
const TRIES: u32 = 64;

const EMPTY_INFO: LoopInfo = LoopInfo {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// Attaches a file to a free loop device and returns the device's path. No partition scan, no autoclear.
///
/// # Errors
/// [`Error::NoLoopDevice`] when all tries lost their race; `EINVAL` when direct I/O or the sector size does
/// not fit the file; `EPERM`/`EACCES` without root.
pub fn attach(options: &AttachOptions) -> Result<PathBuf> {
    attach_held(options).map(|(path, _)| path)
}

/// As [`attach`], and keeps the device open, for reading: its number stays this file's until that is closed.
///
/// # Errors
/// As [`attach`].
pub fn attach_held(options: &AttachOptions) -> Result<(PathBuf, OwnedFd)> {
    attach_as(options, OFlags::RDWR)
}

/// As [`attach_held`], but the device refuses every write: a file system on it that would have to replay its
/// log does not mount. The file may be a block device, a loop device too.
///
/// # Errors
/// As [`attach`].
pub fn attach_read_only(options: &AttachOptions) -> Result<(PathBuf, OwnedFd)> {
    attach_as(options, OFlags::RDONLY)
}

/// As [`attach_held`], of a file that is open, whatever has its name by now.
///
/// # Errors
/// As [`attach`].
pub fn attach_open(file: BorrowedFd<'_>, options: &AttachOptions) -> Result<(PathBuf, OwnedFd)> {
    let named = AttachOptions { file: descriptor_path(file), ..options.clone() };
    attach_file(&open_backing(&named, OFlags::RDWR)?, options, OFlags::RDWR)
}

fn attach_as(options: &AttachOptions, access: OFlags) -> Result<(PathBuf, OwnedFd)> {
    // What is written to is named itself; what is read may be named by a link (/dev/disk/by-id).
    let follow = if access == OFlags::RDWR { OFlags::NOFOLLOW } else { OFlags::empty() };
    attach_file(&open_backing(options, access | follow)?, options, access)
}

fn open_backing(options: &AttachOptions, access: OFlags) -> Result<OwnedFd> {
    let mut flags = access | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, options.direct_io);
    open(&options.file, flags, Mode::empty()).map_err(Error::path("open", &options.file))
}

fn attach_file(file: &OwnedFd, options: &AttachOptions, access: OFlags) -> Result<(PathBuf, OwnedFd)> {
    let control_path = Path::new("/dev/loop-control");
    let control = open(control_path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::path("open", control_path))?;
    for attempt in 0..TRIES {
        // SAFETY: LOOP_CTL_GET_FREE takes no argument.
        let number = unsafe { LOOP_CTL_GET_FREE.call_value(control.as_fd(), 0) }?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        match configure(&path, file.as_fd(), options, access == OFlags::RDONLY) {
            Ok(device) => return Ok((path, device)),
            // EBUSY: taken by another; ENXIO, ENOENT: removed again, or its node is not there yet.
            Err(error) if matches!(error.errno(), libc::EBUSY | libc::ENXIO | libc::ENOENT) => {
                std::thread::sleep(Duration::from_millis(u64::from(attempt.min(20))));
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::NoLoopDevice { path: options.file.clone(), tries: TRIES })
}

fn configure(
    device: &Path,
    file: BorrowedFd<'_>,
    options: &AttachOptions,
    read_only: bool,
) -> Result<OwnedFd> {
    let fd =
        open(device, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(Error::path("open", device))?;
    let mut info = LoopInfo { offset: options.offset, size_limit: options.size, ..EMPTY_INFO };
    if options.direct_io {
        info.flags |= LO_FLAGS_DIRECT_IO;
    }
    if read_only {
        info.flags |= LO_FLAGS_READ_ONLY;
    }
    // The name is for people who list the devices; the last byte stays NUL.
    let name = options.file.as_os_str().as_encoded_bytes();
    let kept = name.len().min(info.file_name.len() - 1);
    info.file_name[..kept].copy_from_slice(&name[..kept]);
    let mut config = LoopConfig {
        fd: file.as_raw_fd().cast_unsigned(),
        block_size: options.sector_bytes,
        info,
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads exactly one `loop_config`, which this is; the file is open while the call
    // lasts.
    unsafe { LOOP_CONFIGURE.call(fd.as_fd(), &raw mut config) }?;
    // While the first is open, so that it is the same device; one that is open for writing would keep it from
    // being mounted where the kernel protects mounted devices.
    open(device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(Error::path("open", device))
}

/// Longest wait for others to close a device that is being detached.
const DETACH_WAIT: Duration = Duration::from_secs(1);

/// Detaches the device from its file. While anyone has the device open, if only to ask what it is, the kernel
/// detaches it at their close: that is waited for, up to a second. If something still uses it then, the
/// kernel detaches it when that ends.
///
/// By its name alone, which may be another file's by now: [`detach_open`] is of one device.
///
/// # Errors
/// `ENXIO` when nothing was attached.
pub fn detach(device: &Path) -> Result<()> {
    detach_open(open_device(device)?, device)
}

/// Opens a device for asking and detaching, for reading: closing one that was open for writing makes udev
/// inspect it again.
///
/// # Errors
/// It cannot be opened.
pub fn open_device(device: &Path) -> Result<OwnedFd> {
    open(device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(Error::path("open", device))
}

/// As [`detach`], of the device that is open; `device` is its path, by which the kernel is asked whether it
/// is done.
///
/// # Errors
/// `ENXIO` when nothing was attached.
pub fn detach_open(open: OwnedFd, device: &Path) -> Result<()> {
    let before = backing_name(device);
    // SAFETY: LOOP_CLR_FD takes no argument.
    unsafe { LOOP_CLR_FD.call_value(open.as_fd(), 0) }?;
    drop(open);
    let start = Instant::now();
    // Another file's name: detached, and taken again by someone else.
    while before.is_some() && backing_name(device) == before && start.elapsed() < DETACH_WAIT {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Device and inode number of the file behind an open loop device; `None` when there is none.
///
/// # Errors
/// `ENOTCONN` and the like when the file is on FUSE and its server died; `ENOTTY` when it is no loop device.
pub fn backing_of(device: BorrowedFd<'_>) -> Result<Option<(u64, u64)>> {
    let mut info = EMPTY_INFO;
    // SAFETY: LOOP_GET_STATUS64 writes exactly one `loop_info64`, which this is.
    match unsafe { LOOP_GET_STATUS64.call(device, &raw mut info) } {
        Ok(_) => Ok(Some((info.device, info.inode))),
        Err(error) if error.errno() == libc::ENXIO => Ok(None),
        Err(error) => Err(error),
    }
}

/// Detaches every device that `file` is behind, each only after it was asked through the descriptor that
/// detaches it; how many there were. A file on FUSE whose server died is known by its name, as the kernel
/// writes it.
///
/// # Errors
/// As [`by_backing_file`], and what the kernel refuses.
pub fn detach_file(file: &Path) -> Result<usize> {
    let wanted = file_identity(file)?;
    let is_same = |device: BorrowedFd<'_>, path: &Path| match wanted {
        FileIdentity::Known(wanted) => backing_of(device).is_ok_and(|found| found == Some(wanted)),
        FileIdentity::Unserved => has_name(path, &file.display().to_string()),
        FileIdentity::Missing => false,
    };
    detach_each(by_backing_file(file)?, is_same)
}

/// As [`detach_file`], of a file by its device and inode number, whatever its name; with `offset` only the
/// devices that begin there.
///
/// # Errors
/// As there.
pub fn detach_backing(wanted: (u64, u64), offset: Option<u64>) -> Result<usize> {
    let is_same = |device: BorrowedFd<'_>, path: &Path| {
        begins_at(path, offset) && backing_of(device).is_ok_and(|found| found == Some(wanted))
    };
    detach_each(over(wanted)?, is_same)
}

/// First byte of the file behind a device; nothing when there is none.
#[must_use]
pub fn offset_of(device: &Path) -> Option<u64> {
    let name = device.file_name()?.to_str()?;
    // Not by the device itself: one over a file on FUSE does not answer once the file's server died.
    fs::read_to_string(format!("{SYSFS}/{name}/loop/offset")).ok()?.trim().parse().ok()
}

/// Whether the device begins at this byte of its file, where one is meant.
fn begins_at(device: &Path, offset: Option<u64>) -> bool {
    offset.is_none_or(|offset| offset_of(device) == Some(offset))
}

/// As [`detach_file`], of the file that was attached as `file` with this device and inode number: whatever
/// else has the name by now keeps its devices. The name counts too, because numbers of file systems that are
/// gone (FUSE) are given again. Also how many were left. With `offset` it is about the devices that begin there
/// alone.
///
/// # Errors
/// As there.
pub fn detach_leased(file: &Path, wanted: (u64, u64), offset: Option<u64>) -> Result<(usize, usize)> {
    // The kernel knows no links.
    let parent = file.parent().and_then(|parent| parent.canonicalize().ok());
    let name =
        parent.zip(file.file_name()).map_or_else(|| file.to_owned(), |(parent, name)| parent.join(name));
    let (mut count, mut left) = (0, 0);
    for name in [name.display().to_string(), format!("{} (deleted)", name.display())] {
        let mut devices = by_backing_name(&name)?;
        devices.retain(|device| begins_at(device, offset));
        let named = devices.len();
        let is_ours = |device: BorrowedFd<'_>, path: &Path| {
            has_name(path, &name)
                && begins_at(path, offset)
                && match backing_of(device) {
                    Ok(found) => found == Some(wanted),
                    Err(error) => UNSERVED.contains(&error.errno()),
                }
        };
        let detached = detach_each(devices, is_ours)?;
        count += detached;
        left += named - detached;
    }
    if count == 0 {
        // Under another name it may be ours, or another's with a number that was given again.
        left += over(wanted)?.iter().filter(|device| begins_at(device, offset)).count();
    }
    Ok((count, left))
}

/// As [`detach_file`], of the devices whose file the kernel knows by `name` ([`by_backing_name`]).
///
/// # Errors
/// As there.
pub fn detach_named(name: &str) -> Result<usize> {
    detach_each(by_backing_name(name)?, |_, path| has_name(path, name))
}

fn has_name(device: &Path, name: &str) -> bool {
    backing_name(device).is_some_and(|found| found.strip_suffix('\n').unwrap_or(&found) == name)
}

fn detach_each(devices: Vec<PathBuf>, is_same: impl Fn(BorrowedFd<'_>, &Path) -> bool) -> Result<usize> {
    let mut count = 0;
    for path in devices {
        let gone = |error: &Error| matches!(error.errno(), libc::ENXIO | libc::ENOENT);
        let device = match open_device(&path) {
            Ok(device) => device,
            Err(error) if gone(&error) => continue,
            Err(error) => return Err(error),
        };
        if !is_same(device.as_fd(), &path) {
            continue;
        }
        count += 1;
        match detach_open(device, &path) {
            Err(error) if !gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(count)
}

/// What is known of a file that may be behind a device.
#[derive(Clone, Copy)]
enum FileIdentity {
    /// Device and inode number.
    Known((u64, u64)),
    /// On FUSE, and nobody serves it any more: the kernel still knows the name.
    Unserved,
    /// There is none.
    Missing,
}

fn file_identity(file: &Path) -> Result<FileIdentity> {
    match fs::metadata(file) {
        Ok(metadata) => Ok(FileIdentity::Known((metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileIdentity::Missing),
        Err(error) if error.raw_os_error().is_some_and(|errno| UNSERVED.contains(&errno)) => {
            Ok(FileIdentity::Unserved)
        }
        Err(error) => Err(Error::path("stat", file)(error)),
    }
}

/// The name that the kernel knows of the file behind a device; nothing when there is none.
fn backing_name(device: &Path) -> Option<String> {
    let name = device.file_name()?.to_str()?;
    fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
}

/// What the kernel says of a file on FUSE whose server died: before it was asked, while it was, or while it
/// was over io_uring.
const UNSERVED: [i32; 3] = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];

/// The loop devices that `file` is behind, in order of their number; empty if it does not exist. One on FUSE
/// whose server died is known by its name, as the kernel writes it.
///
/// Without the right to open the devices they are known by the name of their file, so one that was removed,
/// or that the caller cannot reach by the kernel's name of it, is not found.
///
/// # Errors
/// `/sys/block`, a device in it or the file cannot be asked: then nothing is known, which is not the same as
/// none.
pub fn by_backing_file(file: &Path) -> Result<Vec<PathBuf>> {
    let wanted = match file_identity(file)? {
        FileIdentity::Known(wanted) => wanted,
        FileIdentity::Missing => return Ok(Vec::new()),
        FileIdentity::Unserved => return by_backing_name(&file.display().to_string()),
    };
    over(wanted)
}

/// The loop devices over a file, by its device and inode number, in order of their number.
fn over(wanted: (u64, u64)) -> Result<Vec<PathBuf>> {
    let mut numbers = Vec::new();
    for number in attached(Path::new(SYSFS))? {
        if identity(number)? == Some(wanted) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(device_path).collect())
}

/// The loop devices whose file the kernel knows by `name`, as it writes it in `loop/backing_file`: with
/// ` (deleted)` when it was removed.
///
/// # Errors
/// `/sys/block` or a device in it cannot be asked.
pub fn by_backing_name(name: &str) -> Result<Vec<PathBuf>> {
    let folder = Path::new(SYSFS);
    let mut found = Vec::new();
    for number in attached(folder)? {
        if name_of_backing(folder, number)?.as_deref() == Some(name) {
            found.push(device_path(number));
        }
    }
    Ok(found)
}

fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Numbers of all loop devices that have a file; `folder` is /sys/block.
fn attached(folder: &Path) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::path("readdir", folder))? {
        let entry = entry.map_err(Error::path("readdir", folder))?;
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("loop")).and_then(|number| number.parse().ok());
        let Some(number) = number else { continue };
        let backing = entry.path().join("loop/backing_file");
        if backing.try_exists().map_err(Error::path("stat", &backing))? {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// The kernel's name of the file behind a device; `None` when it was detached meanwhile.
fn name_of_backing(folder: &Path, number: u32) -> Result<Option<String>> {
    let path = folder.join(format!("loop{number}/loop/backing_file"));
    match fs::read_to_string(&path) {
        Ok(name) => Ok(Some(name.strip_suffix('\n').unwrap_or(&name).to_owned())),
        // The folder goes with the file; while it goes, the kernel has no name to give.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::EINVAL)) =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::path("read", path)(error)),
    }
}

/// Device and inode number of the file behind a device; `None` when it was detached meanwhile.
fn identity(number: u32) -> Result<Option<(u64, u64)>> {
    let path = device_path(number);
    let Ok(device) = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        // Without the right to open it, or without its node: the name that the kernel knows leads to the
        // file, if it has one yet.
        let Some(name) = name_of_backing(Path::new(SYSFS), number)? else { return Ok(None) };
        return Ok(fs::metadata(name).ok().map(|metadata| (metadata.dev(), metadata.ino())));
    };
    match backing_of(device.as_fd()) {
        // Over a file that nobody serves any more, which none is that can be asked for.
        Err(error) if UNSERVED.contains(&error.errno()) => Ok(None),
        Err(error) => {
            Err(Error::path("LOOP_GET_STATUS64", path)(io::Error::from_raw_os_error(error.errno())))
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_read_is_not_one_without_devices() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(attached(folder.path()).unwrap(), [] as [u32; 0]);
        let missing = folder.path().join("block");
        let error = attached(&missing).unwrap_err();
        assert!(matches!(&error, Error::Path { path, .. } if *path == missing), "{error}");
        // A device whose folder cannot be looked into: a link to itself.
        let device = folder.path().join("loop7");
        std::os::unix::fs::symlink(&device, &device).unwrap();
        let error = attached(folder.path()).unwrap_err();
        assert!(matches!(&error, Error::Path { path, .. } if path.starts_with(&device)), "{error}");
        let error = name_of_backing(folder.path(), 7).unwrap_err();
        assert!(matches!(&error, Error::Path { path, .. } if path.starts_with(&device)), "{error}");
        assert_eq!(name_of_backing(folder.path(), 8).unwrap(), None, "detached meanwhile");
    }
}
