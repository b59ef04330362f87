//! Why a load could not be run.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use fsage_model::protocol::FailureKind;

use super::fullness::lacks_inodes;
use crate::disk::ControlError;
use crate::location::LocationError;

/// Why a load could not be run, or could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory is missing, is no directory, or cannot be written.
    #[error("cannot work in directory {}: {}", path.display(), std::io::Error::from_raw_os_error(*errno))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        errno: i32,
    },
    /// It is not on its volume.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// A thread's directory is there already and holds something.
    #[error("{} is left from an earlier load and is not empty", path.display())]
    Leftover {
        /// The thread's directory.
        path: PathBuf,
    },
    /// What is to be continued with is not there, or is not a load's.
    #[error("{} {what}", path.display())]
    Left {
        /// What was found.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something else has the name of a thread's directory.
    #[error("{} exists and is not a directory but a file or a symbolic link", path.display())]
    Taken {
        /// The thread's directory.
        path: PathBuf,
    },
    /// The specification is invalid.
    #[error("{what}")]
    Spec {
        /// What is invalid, with the key and the value.
        what: String,
    },
    /// The workload could not be resolved.
    #[error("workload: {what}")]
    Workload {
        /// Why.
        what: String,
        /// The next step; may be empty.
        hint: String,
    },
    /// A system call outside the operations failed.
    #[error("{call} on {}: {}", path.display(), std::io::Error::from_raw_os_error(*errno))]
    System {
        /// Which call.
        call: &'static str,
        /// Its object.
        path: PathBuf,
        /// Why.
        errno: i32,
    },
    /// The device or file system stopped answering: operation after operation failed alike.
    #[error("{} stopped working: {consecutive} operations in a row failed with {}", path.display(), std::io::Error::from_raw_os_error(*errno))]
    DeviceFailed {
        /// The directory of the load.
        path: PathBuf,
        /// With what they failed.
        errno: i32,
        /// How many.
        consecutive: u32,
    },
    /// Operation after operation failed, though not as a device that is gone makes them fail.
    #[error("nothing works in {}: {consecutive} operations in a row failed, the last with {}", path.display(), fsage_sys::errno::name(*errno))]
    Futile {
        /// The directory of the load.
        path: PathBuf,
        /// With what the last one failed.
        errno: i32,
        /// How many.
        consecutive: u32,
    },
    /// The layout of the files or of the free space could not be found out.
    #[error("layout of {}: {what}", path.display())]
    Layout {
        /// The directory.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The trace could not be written.
    #[error("trace: {what}")]
    Trace {
        /// Why.
        what: String,
    },
    /// The virtual disk cannot be asked for its time.
    #[error(transparent)]
    Disk(#[from] ControlError),
    /// A thread of the load ended by a panic: a bug.
    #[error("a thread of the load panicked")]
    Panicked,
}

/// What helps where a volume has no room: blocks and inodes run out apart.
fn room_hint(path: &Path) -> String {
    // What could not be made is not there to be asked.
    let asked =
        [Some(path), path.parent()].into_iter().flatten().find_map(|path| std::fs::File::open(path).ok());
    if asked.is_some_and(|directory| lacks_inodes(directory.as_fd(), 0)) {
        "the volume has free blocks but no free inode: remove files, or make the file system with more inodes (mkfs.ext4 -i or -N)"
            .to_owned()
    } else {
        "the volume has no free block: remove something, or use a larger volume".to_owned()
    }
}

impl LoadError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Directory { path, errno } => match rustix::io::Errno::from_raw_os_error(*errno) {
                rustix::io::Errno::NOENT => format!("make it first: mkdir -p {}", path.display()),
                rustix::io::Errno::ROFS => {
                    "the file system is mounted read-only; remount it: mount -o remount,rw".to_owned()
                }
                rustix::io::Errno::NOSPC => room_hint(path),
                rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => {
                    "run as a user who may write there, or as root".to_owned()
                }
                _ => String::new(),
            },
            Self::Leftover { path } | Self::Taken { path } => {
                format!("remove it (rm -r {}) or name another directory", path.display())
            }
            Self::Workload { hint, .. } => hint.clone(),
            Self::Left { .. } => {
                "continue a load that made no links, with as many threads, on a tree that nothing else changed"
                    .to_owned()
            }
            Self::DeviceFailed { .. } => "check dmesg: the device may be gone or full underneath".to_owned(),
            Self::Futile { .. } => {
                "the file system may lack what the workload's operations need; change its weights".to_owned()
            }
            Self::System { path, errno, .. } if *errno == rustix::io::Errno::NOSPC.raw_os_error() => {
                room_hint(path)
            }
            Self::Disk(error) => error.hint(),
            Self::Location(error) => error.hint(),
            _ => String::new(),
        }
    }

    /// What kind of failure this is, which settles the exit code.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Spec { .. }
            | Self::Workload { .. }
            | Self::Leftover { .. }
            | Self::Left { .. }
            | Self::Taken { .. } => FailureKind::Usage,
            Self::Panicked => FailureKind::Internal,
            Self::Disk(error) => error.kind(),
            Self::Location(error) => error.kind(),
            Self::Directory { .. }
            | Self::System { .. }
            | Self::DeviceFailed { .. }
            | Self::Futile { .. }
            | Self::Layout { .. }
            | Self::Trace { .. } => FailureKind::Failed,
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Directory { errno, .. }
            | Self::System { errno, .. }
            | Self::DeviceFailed { errno, .. }
            | Self::Futile { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}
