//! Why something could not be done on this host.

use std::io::ErrorKind;
use std::path::PathBuf;

use fsage_model::protocol::{Failure, FailureKind};
use fsage_model::size::Bytes;
use fsage_sys::errno::is_out_of_space;
use fsage_sys::new_file::ForeignFolder;

use super::program::package_of;

/// What to do where memory cannot be limited.
const NO_MEMORY_GROUP: &str = "mount control groups with the memory controller, as systemd does; in a container, let it have \
    the controller (version 2: `echo +memory >cgroup.subtree_control` in the group named); or leave out `memory`";

/// Why something could not be done on this host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The kernel refused.
    #[error("cannot {what}")]
    Kernel {
        /// What was tried, with its object.
        what: String,
        /// Why.
        source: fsage_sys::Error,
    },
    /// A file could not be used.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of a volume cannot have all of its blocks.
    #[error("cannot allocate all of {} ({})", path.display(), Bytes(*size_bytes))]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// Why not.
        source: std::io::Error,
    },
    /// A program is not installed.
    #[error("the program {program} is not installed")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// A program could not be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program did not end in time and was killed.
    #[error("{argv} did not end within {seconds:.1} s and was killed{}", after(stderr))]
    TimedOut {
        /// Its command line.
        argv: String,
        /// The limit.
        seconds: f64,
        /// The end of what it said.
        stderr: String,
    },
    /// A program ended with an error.
    #[error("`{argv}` ended with status {status}{}", after(stderr))]
    Failed {
        /// Its command line.
        argv: String,
        /// Its exit status.
        status: i32,
        /// The end of what it said.
        stderr: String,
    },
    /// A device that somebody else has claimed since it was taken.
    #[error("{} was claimed by something else on this host", device.display())]
    Claimed {
        /// The device.
        device: PathBuf,
    },
    /// A mount point stayed busy.
    #[error("{} is busy{}", point.display(), after(users))]
    Busy {
        /// The mount point.
        point: PathBuf,
        /// Who uses it.
        users: String,
    },
    /// Others could reach what is about to be mounted.
    #[error("refusing to mount in {}: others may enter it, or it is not this user's", folder.display())]
    Exposed {
        /// The folder of the mount point.
        folder: PathBuf,
    },
    /// A superblock asks for devices that nobody named.
    #[error("the file system on {} is not mounted: its superblock names {what}", device.display())]
    Companion {
        /// The device.
        device: PathBuf,
        /// What it names.
        what: &'static str,
    },
    /// The kernel would make one file system of it and a device that nobody named.
    #[error(
        "the file system on {} is not mounted: {} says that it is another device of the same file system",
        device.display(), other.display()
    )]
    Joined {
        /// The device.
        device: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// Something is not what was taken under this name.
    #[error("{} has changed: {what}", device.display())]
    Replaced {
        /// The device or mount point.
        device: PathBuf,
        /// What is different.
        what: String,
    },
    /// A device that is written to without having been taken.
    #[error("{} is not held for this", device.display())]
    NotHeld {
        /// The device.
        device: PathBuf,
    },
    /// A device that can have no partitions.
    #[error("the kernel creates no partitions on {}", device.display())]
    NoPartitions {
        /// The device.
        device: PathBuf,
        /// It is a loop device, which can when it is attached so.
        is_loop: bool,
    },
    /// A disk whose table has partitions, though the kernel shows none.
    #[error("{} has a table with {partitions} partitions, which the kernel does not show", device.display())]
    Partitioned {
        /// The disk.
        device: PathBuf,
        /// How many.
        partitions: usize,
    },
    /// Partitions that were made and are not there.
    #[error("{} has a new partition table, and the kernel does not show its partitions", device.display())]
    NotShown {
        /// The disk.
        device: PathBuf,
    },
    /// A killed process did not end.
    #[error("process {pid} was killed but is still there after {seconds:.1} s")]
    Unkillable {
        /// The process.
        pid: u32,
        /// How long it was waited for.
        seconds: f64,
    },
    /// What is asked is invalid here.
    #[error("{what}")]
    Senseless {
        /// What and why.
        what: String,
    },
    /// A volume's file was not made whole, because that was asked.
    #[error("making {} was stopped", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// Something was ended before it was through, because that was asked.
    #[error("{what} was stopped")]
    Ended {
        /// What.
        what: &'static str,
    },
    /// A device that was unmounted is still mounted elsewhere.
    #[error("another mount namespace keeps {} mounted", device.display())]
    Kept {
        /// The device.
        device: PathBuf,
    },
    /// A file system that was unmounted for a moment could not be mounted again.
    #[error("{} was unmounted to drop its caches, and cannot be mounted at {} again", device.display(), point.display())]
    Unmounted {
        /// The device, which has all that was written.
        device: PathBuf,
        /// Where it was mounted: nothing is now.
        point: PathBuf,
        /// Why not.
        source: Box<Self>,
    },
    /// No control group can limit memory here.
    #[error("memory cannot be limited here: {why}")]
    NoMemoryGroup {
        /// Why not.
        why: String,
    },
    /// The agent is ending and starts nothing any more.
    #[error("the agent is ending")]
    Ending,
}

fn after(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl HostError {
    /// Wraps a failed use of a file; for `map_err`.
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { what, path: path.into(), source }
    }

    /// Wraps a refusal of the kernel; for `map_err`.
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(fsage_sys::Error) -> Self {
        move |source| Self::Kernel { what: what.into(), source }
    }

    /// Wraps a failure to give a volume's file its blocks; for `map_err`.
    pub(crate) fn no_room(path: impl Into<PathBuf>, size_bytes: u64) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::NoRoom { path: path.into(), size_bytes, source }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Kernel { source, .. } => Some(source.errno()),
            Self::File { source, .. } | Self::Start { source, .. } | Self::NoRoom { source, .. } => {
                source.raw_os_error()
            }
            Self::Unmounted { source, .. } => source.errno(),
            Self::Busy { .. } => Some(rustix::io::Errno::BUSY.raw_os_error()),
            _ => None,
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        let denied = |source: &std::io::Error| source.kind() == ErrorKind::PermissionDenied;
        match self {
            Self::NoProgram { .. } | Self::NoMemoryGroup { .. } => FailureKind::Missing,
            Self::File { source, .. } if ForeignFolder::is(source) => FailureKind::Usage,
            Self::File { source, .. } | Self::Start { source, .. } if denied(source) => FailureKind::Missing,
            Self::Kernel { source, .. } => match rustix::io::Errno::from_raw_os_error(source.errno()) {
                rustix::io::Errno::PERM | rustix::io::Errno::ACCESS | rustix::io::Errno::NODEV => {
                    FailureKind::Missing
                }
                _ => FailureKind::Failed,
            },
            Self::NoRoom { source, .. } if source.raw_os_error().is_some_and(is_out_of_space) => {
                FailureKind::Missing
            }
            Self::Unmounted { source, .. } => source.kind(),
            Self::Senseless { .. } | Self::NoPartitions { .. } | Self::Partitioned { .. } => {
                FailureKind::Usage
            }
            _ => FailureKind::Failed,
        }
    }

    /// The next step; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoRoom { .. } => {
                "a loop volume takes its whole size on the host: set volume.size to less, or volume.directory to \
                 where there is more room"
                    .to_owned()
            }
            Self::NoProgram { program } => package_of(program).map_or_else(
                || "`fsage doctor` names the package that has it".to_owned(),
                |package| format!("install the package {package} (`fsage doctor` lists all useful packages)"),
            ),
            Self::Kernel { source, .. } => source.hint().unwrap_or_default(),
            Self::File { source, .. } if ForeignFolder::is(source) => ForeignFolder::HINT.to_owned(),
            Self::File { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                "run it as root".to_owned()
            }
            Self::Claimed { device } => {
                format!("`lsblk {}` and `swapon` show what uses it; nothing more was written", device.display())
            }
            Self::Busy { .. } => "close what uses it, then run `fsage clean`".to_owned(),
            Self::Kept { .. } => {
                "a program that made a mount namespace of its own (a container, a sandbox, `unshare`) has a copy of the \
                 mount: end it, then start again"
                    .to_owned()
            }
            Self::Exposed { folder } => {
                format!("remove `{}`, or make it yours and private: chmod 700", folder.display())
            }
            Self::Joined { .. } => {
                "the kernel would write to both; use a volume or image that is whole on one device, or remove the other one"
                    .to_owned()
            }
            Self::Companion { .. } => {
                "the kernel would write to a device that nobody named; use a volume or image that is whole on one device"
                    .to_owned()
            }
            Self::Replaced { .. } | Self::NotHeld { .. } => {
                "nothing was written; see what uses it (`losetup --list`, `findmnt`), then start again"
                    .to_owned()
            }
            Self::NoPartitions { is_loop: true, .. } => {
                "attach its file again with `losetup --partscan --find --show FILE`".to_owned()
            }
            Self::NoPartitions { .. } => {
                "name a whole disk; a device of device-mapper has no partitions".to_owned()
            }
            Self::Partitioned { device, .. } => {
                format!("nothing was written; `wipefs -a {}` removes the table, if its contents can be lost", device.display())
            }
            Self::NotShown { device } => {
                format!("run `partx --update {}` or reboot, so that the kernel reads them", device.display())
            }
            Self::Unmounted { device, point, source } => {
                let cause = source.hint();
                let cause = if cause.is_empty() { cause } else { format!("; {cause}") };
                format!(
                    "its data is on {} and nothing was written to {} since; see `dmesg`, mount it there again or \
                     start again{cause}",
                    device.display(),
                    point.display()
                )
            }
            Self::NoMemoryGroup { .. } => NO_MEMORY_GROUP.to_owned(),
            Self::Unkillable { .. } => "check dmesg: a device may not answer".to_owned(),
            _ => String::new(),
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let (hint, errno, kind) = (error.hint(), error.errno(), error.kind());
        Self { message: chain(&error), hint, errno, kind }
    }
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
