//! Why crash states could not be tried.

use std::io::ErrorKind;
use std::path::PathBuf;

use fsage_disk::log::convert::FileError;
use fsage_engine::disk::ControlError;
use fsage_model::crash::DriveBehaviour;
use fsage_model::problem::{EXIT_FAILED, EXIT_INTERNAL, EXIT_USAGE, Explain, exit_code_of};

use crate::filesystem::FileSystemError;
use crate::lease::LeaseError;
use crate::target::TargetError;
use crate::volume::VolumeError;

/// Where a failing state can be kept.
const NEW_FOLDER: &str = "name a folder that does not exist, in one that does";

/// Why crash states could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// More than mount(2) is needed to mount it.
    #[error("the states of {kind} cannot be mounted: it needs more than mount(2)")]
    Mount {
        /// The file system.
        kind: String,
    },
    /// States that no kernel wrote, and nobody agreed that they are mounted here.
    #[error("the states of a drive with {} are fabricated corruption, which this host would mount", drive.name())]
    OnHost {
        /// What the drive does.
        drive: DriveBehaviour,
    },
    /// The user's check does not accept what the load made, without any power cut.
    #[error("the check `{argv}` fails on the finished volume, before any power cut: {reason}")]
    Check {
        /// Its command line.
        argv: String,
        /// What it says.
        reason: String,
    },
    /// The user's check does not end on what the load made.
    #[error("the check `{argv}` did not end within {seconds} s on the finished volume, before any power cut")]
    Slow {
        /// Its command line.
        argv: String,
        /// The limit.
        seconds: u64,
    },
    /// What recovery, the load's check or the file system's own program wrote to a state did not fit.
    #[error("the disk's memory was full while a crash state was tested, so writes to it failed")]
    NoRoom,
    /// What the load left, without any power cut, cannot be put together.
    #[error("after the last crash state the volume is not there any more: {said}")]
    Layers {
        /// What a layer says.
        said: String,
    },
    /// The folder for a failing state is there.
    #[error("{} exists", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A failing state cannot be kept.
    #[error("cannot write {}", path.display())]
    Keep {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The log of the disk cannot be read back.
    #[error(transparent)]
    Log(#[from] FileError),
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
            Self::Mount { .. } | Self::OnHost { .. } | Self::Exists { .. } => EXIT_USAGE,
            Self::Keep { source, .. } if source.kind() == ErrorKind::NotFound => EXIT_USAGE,
            Self::Check { .. }
            | Self::Slow { .. }
            | Self::Keep { .. }
            | Self::NoRoom
            | Self::Layers { .. } => EXIT_FAILED,
            Self::Log(_) => EXIT_INTERNAL,
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
            Self::OnHost { .. } => Some(
                "a kernel bug may crash the host or corrupt its memory: run it in a virtual machine, with --on-host there"
                    .to_owned(),
            ),
            Self::Check { .. } => Some(
                "it must accept what the load leaves when nothing goes wrong; it finds the directory in \
                 $FSAGE_DIRECTORY and what was acknowledged in the file $FSAGE_ACKNOWLEDGED"
                    .to_owned(),
            ),
            Self::Slow { .. } => Some("give it more time with --check-timeout".to_owned()),
            Self::NoRoom => Some(
                "give it more with `--memory`, or `--spill` a folder; in a study `volume.memory` or `volume.spill`".to_owned(),
            ),
            Self::Exists { .. } => Some(NEW_FOLDER.to_owned()),
            Self::Keep { source, .. } if source.kind() == ErrorKind::NotFound => Some(NEW_FOLDER.to_owned()),
            Self::Layers { .. } => Some("the kernel's log says why: `dmesg`".to_owned()),
            Self::Keep { .. } | Self::Log(_) => None,
            Self::FileSystem(error) => Explain::hint(error),
            Self::Volume(error) => Explain::hint(error),
            Self::Disk(error) => Some(error.hint()).filter(|hint| !hint.is_empty()),
            Self::Lease(error) => Explain::hint(error),
            Self::Target(error) => Explain::hint(error),
        }
    }
}
