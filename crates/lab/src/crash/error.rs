//! Why crash states could not be tried.

use fsage_engine::disk::ControlError;
use fsage_model::problem::{EXIT_USAGE, Explain, exit_code_of};

use crate::filesystem::FileSystemError;
use crate::lease::LeaseError;
use crate::target::TargetError;
use crate::volume::VolumeError;

/// Why crash states could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// More than mount(2) is needed to mount it.
    #[error("the states of {kind} cannot be mounted: it takes more than mount(2)")]
    Mount {
        /// The file system.
        kind: String,
    },
    /// The file system cannot be made or mounted.
    #[error(transparent)]
    FileSystem(#[from] FileSystemError),
    /// The disk cannot be had.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The disk does not answer, or refuses.
    #[error(transparent)]
    Disk(#[from] ControlError),
    /// The journal could not be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The agent could not do it.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Explain for CrashError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Mount { .. } => EXIT_USAGE,
            Self::FileSystem(error) => error.exit_code(),
            Self::Volume(error) => error.exit_code(),
            Self::Disk(error) => exit_code_of(error.kind()),
            Self::Lease(error) => error.exit_code(),
            Self::Target(error) => error.exit_code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Mount { .. } => Some("choose ext2, ext3, ext4, xfs or btrfs".to_owned()),
            Self::FileSystem(error) => Explain::hint(error),
            Self::Volume(error) => Explain::hint(error),
            Self::Disk(error) => Some(error.hint()).filter(|hint| !hint.is_empty()),
            Self::Lease(error) => Explain::hint(error),
            Self::Target(error) => Explain::hint(error),
        }
    }
}
