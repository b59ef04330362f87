//! tracefs: finding it, and an instance of our own in it.

use std::fs::{create_dir, read_dir, read_to_string, write};
use std::io::Error;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{mount, remove_kernel_directory};

/// Why requests cannot be seen.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel has no tracefs, or does not let us.
    #[error("no tracefs: {0}")]
    NoTracefs(#[source] Error),
    /// A file of tracefs does not do what it should.
    #[error("cannot {what} `{file}` of tracefs: {source}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file below tracefs.
        file: String,
        /// Why.
        source: Error,
    },
    /// The device is not one whose requests can be seen.
    #[error("{} has no block device: {what}", path.display())]
    Device {
        /// The directory or device.
        path: PathBuf,
        /// Why.
        what: String,
    },
}

/// How long an instance may be kept by a pipe that is just being closed.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// Where tracefs is reached, in words; `None` where the kernel has none, or we may not mount it.
pub fn place() -> Option<String> {
    let tracefs = Tracefs::open().ok()?;
    let mounted = tracefs.mount.is_none();
    Some(if mounted {
        tracefs.path.display().to_string()
    } else {
        "not mounted: fsage reaches it by a mount of its own".to_owned()
    })
}

/// tracefs, wherever it is mounted, or mounted nowhere.
#[derive(Debug)]
struct Tracefs {
    path: PathBuf,
    /// A mount without a place: it goes with the descriptor.
    mount: Option<OwnedFd>,
}

impl Tracefs {
    fn open() -> Result<Self, Error> {
        if let Some(entry) = mount::table().into_iter().find(|entry| entry.file_system == "tracefs") {
            return Ok(Self { path: entry.point, mount: None });
        }
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { path, mount: Some(mount) })
    }

    fn instance(&self, name: &str) -> PathBuf {
        self.path.join("instances").join(name)
    }
}

/// An instance, removed when dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    _tracefs: Tracefs,
}

impl Instance {
    /// Makes it. One that is there already is an earlier agent's: it is removed first.
    pub fn make(name: &str) -> Result<Self, TraceError> {
        let tracefs = Tracefs::open().map_err(TraceError::NoTracefs)?;
        let path = tracefs.instance(name);
        let error = |source| TraceError::File { what: "make", file: format!("instances/{name}"), source };
        remove_at(&path).map_err(error)?;
        create_dir(&path).map_err(error)?;
        Ok(Self { path, _tracefs: tracefs })
    }

    /// The path of a file of it.
    pub fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Writes a setting.
    pub fn write(&self, file: &str, value: &str) -> Result<(), TraceError> {
        write(self.path(file), value).map_err(self.error("write", file))
    }

    /// Wraps a failed use of a file; for `map_err`.
    pub fn error(&self, what: &'static str, file: &str) -> impl FnOnce(Error) -> TraceError {
        let file = file.to_owned();
        move |source| TraceError::File { what, file, source }
    }

    /// Events that did not fit, of all CPUs.
    pub fn lost(&self) -> u64 {
        let Ok(cpus) = read_dir(self.path("per_cpu")) else { return 0 };
        let stats = cpus.flatten().filter_map(|cpu| read_to_string(cpu.path().join("stats")).ok());
        stats.map(|text| lost_in(&text)).sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What cannot be removed now stays leased.
        let _ = remove_at(&self.path);
    }
}

/// Lost events in `per_cpu/cpuN/stats`.
fn lost_in(stats: &str) -> u64 {
    let lost = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name, "overrun" | "commit overrun" | "dropped events").then_some(())?;
        value.trim().parse::<u64>().ok()
    };
    stats.lines().filter_map(lost).sum()
}

/// Removes an instance by its name; none is fine, and so is a kernel without tracefs.
pub fn remove(name: &str) -> Result<(), Error> {
    match Tracefs::open() {
        Ok(tracefs) => remove_at(&tracefs.instance(name)),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
    }
}

fn remove_at(path: &Path) -> Result<(), Error> {
    remove_kernel_directory(path, BUSY_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_are_read() {
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 400\noldest event ts: 1.0\nnow ts: 2.0\n\
                     dropped events: 5\nread events: 77\n";
        assert_eq!(lost_in(stats), 9);
        assert_eq!(lost_in(""), 0);
    }
}
