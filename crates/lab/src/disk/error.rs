//! Why a named disk cannot be had.

use std::path::{Path, PathBuf};

use fsage_engine::disk::ControlError;
use fsage_engine::host::HostError;
use fsage_model::nearest::nearest;
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Explain, exit_code_of};

use crate::lease::LeaseError;
use crate::lease::disk::LONGEST_NAME;
use crate::target::TargetError;
use crate::volume::VolumeError;

/// Why a named disk cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// It cannot be called that.
    #[error("`{name}` cannot be the name of a disk")]
    Name {
        /// As given.
        name: String,
    },
    /// There is none.
    #[error("there is no disk `{name}`")]
    Unknown {
        /// As given.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// There is one already.
    #[error("the disk `{name}` already exists: {}", .device.display())]
    Taken {
        /// Its name.
        name: String,
        /// Its device.
        device: PathBuf,
    },
    /// Its server is gone.
    #[error("the disk `{name}` is dead: its server is gone")]
    Dead {
        /// Its name.
        name: String,
    },
    /// Its device is another's by now.
    #[error("the disk `{name}` has lost its device")]
    Lost {
        /// Its name.
        name: String,
        /// What is there now.
        #[source]
        source: HostError,
    },
    /// Something uses it.
    #[error("the disk `{name}` ({}) is in use: {users}", .device.display())]
    InUse {
        /// Its name.
        name: String,
        /// Its device.
        device: PathBuf,
        /// By what.
        users: String,
    },
    /// Something of it could not be released.
    #[error("not everything of the disk `{name}` could be released: {why}")]
    Stuck {
        /// Its name.
        name: String,
        /// The first thing and why.
        why: String,
    },
    /// A file could not be used.
    #[error("cannot {what} {}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its description is invalid, or it does not come up.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Its server does not answer, or refuses.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The journal could not be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// No agent.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl DiskError {
    /// Wraps a failed use of a file; for `map_err`.
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}

impl Explain for DiskError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Name { .. } | Self::Unknown { .. } | Self::Taken { .. } | Self::InUse { .. } => EXIT_USAGE,
            Self::Dead { .. } | Self::Lost { .. } | Self::Stuck { .. } | Self::File { .. } => EXIT_FAILED,
            Self::Volume(error) => error.exit_code(),
            Self::Control(error) => exit_code_of(error.kind()),
            Self::Lease(error) => error.exit_code(),
            Self::Target(error) => error.exit_code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Name { .. } => Some(format!(
                "letters, digits, `-`, `_` and `.`, the first a letter or a digit, at most {LONGEST_NAME}"
            )),
            Self::Unknown { name, known } => Some(match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "no disk exists: `fsage disk up NAME` creates one".to_owned(),
                None => format!("disks: {}", known.join(", ")),
            }),
            Self::Taken { name, .. } => {
                Some(format!("use it, take it down (`fsage disk down {name}`), or choose another name"))
            }
            Self::Dead { name } => Some(format!("`fsage disk down {name}` removes what is left of it")),
            Self::Lost { name, .. } => {
                Some(format!("nothing was written; `fsage disk down {name}` takes the disk down"))
            }
            Self::InUse { device, .. } => Some(format!("unmount it first: `umount {}`", device.display())),
            Self::Stuck { .. } => Some("try `fsage clean` when nothing uses it any more".to_owned()),
            Self::File { .. } => None,
            Self::Volume(error) => error.hint(),
            Self::Control(error) => Some(error.hint()).filter(|hint| !hint.is_empty()),
            Self::Lease(error) => Explain::hint(error),
            Self::Target(error) => Explain::hint(error),
        }
    }
}
