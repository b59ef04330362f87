//! Why a measure, a copy or a trace of requests did not work.

use std::path::{Path, PathBuf};

use fsage_model::protocol::{Failure, FailureKind};
use fsage_model::workload::WorkloadError;
use fsage_sys::errno::is_out_of_space;
use rustix::io::Errno;

use crate::disk::ControlError;
use crate::host::HostError;
use crate::location::LocationError;

/// Why a measure or a copy did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A system call failed.
    #[error("cannot {what} {}: {}", path.display(), std::io::Error::from_raw_os_error(errno.raw_os_error()))]
    System {
        /// What was tried (`read`, `make`).
        what: &'static str,
        /// Its object.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// A parameter is out of its range.
    #[error("{measure}: `{key}` = {value}: must be {limit}")]
    Range {
        /// The measure.
        measure: &'static str,
        /// The parameter.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        limit: &'static str,
    },
    /// A distribution of sizes is invalid.
    #[error(transparent)]
    Size(#[from] WorkloadError),
    /// There is nothing to measure.
    #[error("nothing to measure below {}: {what}", path.display())]
    Nothing {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// Something of this name is there already.
    #[error("{} already exists", path.display())]
    Leftover {
        /// The path.
        path: PathBuf,
    },
    /// Another user put something in the place of a folder that was just made.
    #[error("{} is not the folder that was made there: somebody else put it in its place", path.display())]
    Exchanged {
        /// The folder.
        path: PathBuf,
    },
    /// Requests are to be added, and nobody says to which device.
    #[error("requests are to be added to the measure's, and no block device is named")]
    NoDevice,
    /// The host does not let us.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The directory cannot be worked in.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The virtual disk cannot be asked for its time.
    #[error(transparent)]
    Disk(#[from] ControlError),
    /// Block requests cannot be traced for a reason that is a mistake of the caller.
    #[error("`{name}` is not the name of a trace instance of ours")]
    InstanceName {
        /// The name.
        name: String,
    },
    /// The copy is not what was copied.
    #[error("the copy {} is not what was copied: digest {found} for {wanted}", path.display())]
    Differs {
        /// The copy.
        path: PathBuf,
        /// Digest of what was copied.
        wanted: String,
        /// Digest of the copy as read back.
        found: String,
    },
    /// The lab asked for the end.
    #[error("stopped before its end")]
    Stopped,
    /// fio is run by the lab.
    #[error("fio is an external program: the lab runs it, not a measure request")]
    NotHere,
}

impl MeasureError {
    /// Wraps a failed system call; for `map_err`.
    pub(crate) fn system(what: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::System { what, path: path.to_owned(), errno }
    }

    /// What a measure that finds no space fails with: the same as when writing finds none.
    pub(crate) fn no_room(what: &'static str, path: &Path) -> Self {
        Self::System { what, path: path.to_owned(), errno: Errno::NOSPC }
    }

    /// The same for errors of the standard library.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System { what, path: path.to_owned(), errno: errno_of(&error) }
    }

    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::System { errno, .. } if is_out_of_space(errno.raw_os_error()) => {
                "free some space, or ask for less (smaller `files`, `size` or `free_share`)".to_owned()
            }
            Self::System { errno: Errno::ACCESS | Errno::PERM, .. } => "run it as root".to_owned(),
            Self::Leftover { .. } => {
                "an earlier measure was killed: remove it, or take another directory".to_owned()
            }
            Self::Exchanged { .. } => {
                "measure in a directory that other users cannot change; nothing was written".to_owned()
            }
            Self::Differs { .. } => {
                "run `fsage verify` on both, and check dmesg for errors of the device".to_owned()
            }
            Self::Host(error) => error.hint(),
            Self::Location(error) => error.hint(),
            Self::Disk(error) => error.hint(),
            _ => String::new(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Range { .. }
            | Self::Size(_)
            | Self::InstanceName { .. }
            | Self::NotHere
            | Self::NoDevice
            | Self::Leftover { .. }
            | Self::Nothing { .. } => FailureKind::Usage,
            Self::Differs { .. } => FailureKind::Damage,
            Self::Disk(error) => error.kind(),
            Self::Location(error) => error.kind(),
            Self::System { .. } | Self::Exchanged { .. } | Self::Host(_) | Self::Stopped => {
                FailureKind::Failed
            }
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System { errno, .. } => Some(errno.raw_os_error()),
            Self::Host(error) => error.errno(),
            Self::Location(error) => error.errno(),
            _ => None,
        }
    }
}

/// The errno of an error of the standard library; `EIO` where it has none.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        if let MeasureError::Host(error) = error {
            return error.into();
        }
        let (hint, errno, kind) = (error.hint(), error.errno(), error.kind());
        Self { message: crate::host::chain(&error), hint, errno, kind }
    }
}
