//! Loop devices over files.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::protocol::BackingFile;
use fsage_sys::loopdev::{self, AttachOptions};

use super::HostError;

/// How long a detached device may be kept by someone who inspects it (udev does).
const DETACH_WAIT: Duration = Duration::from_secs(5);

/// Links are not followed: a volume's file is made by us.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// Attaches `file`, made sparse with `size_bytes` when that is given, and gives the device and a descriptor
/// that keeps it the one it is.
///
/// # Errors
/// The file cannot be made, or the kernel refuses (no direct I/O there, for one).
pub fn attach_held(
    file: &Path,
    size_bytes: Option<u64>,
    sector_bytes: u32,
    direct_io: bool,
) -> Result<(PathBuf, OwnedFd), HostError> {
    if let Some(size) = size_bytes {
        let mut options = OpenOptions::new();
        // It will hold what files hold that only their owners may read.
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_FOLLOW);
        let made = options.open(file).map_err(HostError::file("make", file))?;
        made.set_len(size).map_err(HostError::file("set the size of", file))?;
    }
    let options = AttachOptions { file: file.to_owned(), size: 0, sector_bytes, direct_io };
    loopdev::attach_held(&options)
        .map_err(HostError::kernel(format!("attach {} as a loop device", file.display())))
}

/// Attaches `file`, which may be a block device, so that the device refuses every write; with direct I/O
/// where it can be.
///
/// # Errors
/// The kernel refuses.
pub fn attach_read_only(file: &Path, sector_bytes: u32) -> Result<(PathBuf, OwnedFd), HostError> {
    let options = AttachOptions { file: file.to_owned(), size: 0, sector_bytes, direct_io: true };
    let refused = rustix::io::Errno::INVAL.raw_os_error();
    match loopdev::attach_read_only(&options) {
        Err(error) if error.errno() == refused => {
            loopdev::attach_read_only(&AttachOptions { direct_io: false, ..options })
        }
        attached => attached,
    }
    .map_err(HostError::kernel(format!("attach {} as a read-only loop device", file.display())))
}

/// As [`attach_held`], without the descriptor.
///
/// # Errors
/// As there.
pub fn attach(
    file: &Path,
    size_bytes: Option<u64>,
    sector_bytes: u32,
    direct_io: bool,
) -> Result<PathBuf, HostError> {
    attach_held(file, size_bytes, sector_bytes, direct_io).map(|(device, _)| device)
}

/// Detaches every device over `file` (also when the file was removed) and waits until they are free; none is
/// fine.
///
/// # Errors
/// A device stays in use, or the kernel refuses.
pub fn detach(file: &Path) -> Result<(), HostError> {
    // Devices whose file of this name was removed while it was attached: the kernel then adds ` (deleted)`.
    let removed = format!("{} (deleted)", file.display());
    wait(file, || Ok(loopdev::detach_file(file)? + loopdev::detach_named(&removed)?))
}

/// As [`detach`], of the file with these numbers, which was attached as `file`.
///
/// # Errors
/// As there.
pub fn detach_backing(file: &Path, backing: BackingFile) -> Result<(), HostError> {
    wait(file, || loopdev::detach_backing((backing.device, backing.inode)))
}

/// As [`detach`], of the file with these numbers alone, which was attached as `file`; whether another file of
/// that name keeps its devices.
///
/// # Errors
/// As there.
pub fn detach_leased(file: &Path, backing: BackingFile) -> Result<bool, HostError> {
    let mut others = 0;
    wait(file, || {
        let (count, left) = loopdev::detach_leased(file, (backing.device, backing.inode))?;
        others = left;
        Ok(count)
    })?;
    Ok(others > 0)
}

/// What tells a file that is to be attached from a later one of its name.
///
/// # Errors
/// It is not there, or does not answer.
pub fn backing(file: &Path) -> Result<BackingFile, HostError> {
    let metadata = std::fs::metadata(file).map_err(HostError::file("stat", file))?;
    Ok(BackingFile { device: metadata.dev(), inode: metadata.ino() })
}

/// Until `detach` finds no device any more.
fn wait(file: &Path, mut detach: impl FnMut() -> fsage_sys::Result<usize>) -> Result<(), HostError> {
    let started = Instant::now();
    let what = || format!("detach the loop devices of {}", file.display());
    while detach().map_err(HostError::kernel(what()))? > 0 {
        if started.elapsed() > DETACH_WAIT {
            let users = loopdev::by_backing_file(file).unwrap_or_default();
            let users = users.iter().map(|device| device.display().to_string()).collect::<Vec<_>>();
            return Err(HostError::Busy { point: file.to_owned(), users: users.join(", ") });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
