//! The page cache and the space of mounted file systems.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::held::HeldDevices;
use super::{HostError, mount};
use fsage_model::protocol::Usage;

/// Writes everything back, then drops page cache, dentries and inodes of the whole host.
///
/// # Errors
/// No right to.
pub fn drop_caches() -> Result<(), HostError> {
    rustix::fs::sync();
    let path = "/proc/sys/vm/drop_caches";
    std::fs::write(path, "3").map_err(HostError::file("write", path))
}

/// Has nothing of the file system that holds `directory` in memory: mounts it afresh where `held` can, which
/// no other file system notices, and drops the caches of the whole host elsewhere.
///
/// # Errors
/// As [`HeldDevices::mount_afresh`] and [`drop_caches`].
pub fn forget(directory: &Path, held: &HeldDevices) -> Result<(), HostError> {
    if held.mount_afresh(directory)? { Ok(()) } else { drop_caches() }
}

/// A directory, and nothing else that has come to its place: opening alone does something to some devices.
fn open(directory: &Path) -> Result<OwnedFd, HostError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
        .map_err(|errno| HostError::file("open", directory)(errno.into()))
}

/// Writes back the file system that holds `directory`.
///
/// # Errors
/// The directory cannot be opened, or a write failed.
pub fn sync(directory: &Path) -> Result<(), HostError> {
    let file = open(directory)?;
    fsage_sys::syncfs(file.as_fd()).map_err(HostError::kernel(format!("sync {}", directory.display())))
}

/// Trims the free space of the file system that holds `directory`; returns the bytes trimmed.
///
/// # Errors
/// File system or device cannot.
pub fn trim(directory: &Path) -> Result<u64, HostError> {
    let file = open(directory)?;
    fsage_sys::fitrim::trim(file.as_fd()).map_err(HostError::kernel(format!("trim {}", directory.display())))
}

/// Space of the file system that holds `directory`.
///
/// # Errors
/// The directory cannot be inspected.
pub fn usage(directory: &Path) -> Result<Usage, HostError> {
    let failed = |what| move |error: std::io::Error| HostError::file(what, directory)(error);
    let space = rustix::fs::statvfs(directory).map_err(|error| failed("statfs")(error.into()))?;
    Ok(Usage {
        used_bytes: space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize,
        total_bytes: space.f_blocks * space.f_frsize,
        available_bytes: space.f_bavail * space.f_frsize,
        file_system: mount::holding(directory).map(|entry| entry.file_system).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up() {
        let usage = usage(Path::new("/")).unwrap();
        assert!(usage.total_bytes > 0 && usage.used_bytes <= usage.total_bytes);
        assert!(usage.available_bytes <= usage.total_bytes - usage.used_bytes);
        assert!(!usage.file_system.is_empty());
        assert_eq!(super::usage(Path::new("/proc")).unwrap().file_system, "proc");
    }
}
