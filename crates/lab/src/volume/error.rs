//! Why a volume cannot be had, with exit code and hint.

use std::path::PathBuf;

use fsage_model::problem::{EXIT_INTERNAL, EXIT_USAGE, Explain, exit_code_of};
use fsage_model::protocol::FailureKind;
use fsage_model::size::Bytes;

use super::Refusal;
use crate::lease::LeaseError;
use crate::target::TargetError;
use crate::tools::ToolError;

/// Why a volume cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Its description is invalid.
    #[error("volume.{key} {what}")]
    Spec {
        /// Key in the study.
        key: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A device that must not be written to.
    #[error("{} is not erased", .path.display())]
    Refused {
        /// Path in the study.
        path: PathBuf,
        /// Rule that it breaks.
        #[source]
        refusal: Refusal,
    },
    /// A guest that its host serves no disk to.
    #[error("there is no disk that the host of this guest serves")]
    NoServedDisk,
    /// A device that a dry run cannot inspect.
    #[error("the device cannot be inspected")]
    Look(#[source] fsage_engine::host::HostError),
    /// The loop file might not fit.
    #[error(
        "{} has {} free, a volume of {} needs {}",
        .directory.display(), Bytes(*.available_bytes), Bytes(*.size_bytes), Bytes(*.needed_bytes)
    )]
    Space {
        /// Where the file would be.
        directory: PathBuf,
        /// Free there.
        available_bytes: u64,
        /// Size of the volume.
        size_bytes: u64,
        /// Size and margin.
        needed_bytes: u64,
    },
    /// The loop files of a trial do not fit together.
    #[error(
        "{} has {} free, {volumes} volumes at once need {}",
        .directory.display(), Bytes(*.available_bytes), Bytes(*.needed_bytes)
    )]
    Room {
        /// Where the files would be.
        directory: PathBuf,
        /// Free there.
        available_bytes: u64,
        /// How many there are at once.
        volumes: usize,
        /// Their sizes and margins.
        needed_bytes: u64,
    },
    /// The server of a virtual disk was started and did not say where it is.
    #[error("`{command}` did not say where the disk is: {said}")]
    NotServed {
        /// The command.
        command: String,
        /// What it said instead.
        said: String,
    },
    /// A virtual disk could not be started.
    #[error("the virtual disk is not up")]
    Disk(#[from] ToolError),
    /// A layer between the drives and the file system could not be made.
    #[error("the layer `{layer}` cannot be made")]
    Layer {
        /// As the study names it.
        layer: &'static str,
        /// Why.
        source: Box<ToolError>,
    },
    /// A layer was put together again as another device.
    #[error("a layer that was {} is {} now", was.display(), path.display())]
    Moved {
        /// What it was.
        was: PathBuf,
        /// What it is.
        path: PathBuf,
    },
    /// The requests of a virtual disk could not be kept.
    #[error("the log of the virtual disk cannot be kept")]
    Log(#[source] ToolError),
    /// The scheduler is not one the device can have.
    #[error("{} has no I/O scheduler `{scheduler}`", .device.display())]
    Scheduler {
        /// The device.
        device: PathBuf,
        /// Scheduler asked for.
        scheduler: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// A setting of the queue is not one the device can have.
    #[error("{} cannot be set to {value}", .path.display())]
    Setting {
        /// The setting.
        path: PathBuf,
        /// Value asked for.
        value: i64,
        /// Whether the device has it.
        is_there: bool,
    },
    /// The journal could not be written.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The agent could not do it.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Explain for VolumeError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Spec { .. } | Self::Refused { .. } => EXIT_USAGE,
            Self::Look(_)
            | Self::Space { .. }
            | Self::Room { .. }
            | Self::Scheduler { .. }
            | Self::Moved { .. }
            | Self::Setting { .. } => exit_code_of(FailureKind::Missing),
            Self::NotServed { .. } | Self::NoServedDisk => EXIT_INTERNAL,
            Self::Disk(error) | Self::Log(error) => error.exit_code(),
            Self::Layer { source, .. } => source.exit_code(),
            Self::Lease(error) => error.exit_code(),
            Self::Target(error) => exit_code_of(error.kind()),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Spec { .. } | Self::NoServedDisk => None,
            Self::NotServed { .. } => {
                Some("fsage, fsage-agent and fsage-disk must be of the same version".to_owned())
            }
            Self::Disk(ToolError::Missing { .. }) => {
                Some("fsage-disk must lie beside fsage-agent: build it with `make build`".to_owned())
            }
            Self::Layer { source, .. } if matches!(**source, ToolError::Status { .. }) => Some(
                "the kernel may lack the driver: `target = { kind = \"guest\" }` runs the trial where it is (docs/stacks.md)"
                    .to_owned(),
            ),
            Self::Disk(error) | Self::Log(error) => error.hint(),
            Self::Layer { source, .. } => source.hint(),
            Self::Moved { .. } => Some("make and remove no devices meanwhile".to_owned()),
            Self::Refused { path, refusal } => Some(refusal.hint(path)),
            Self::Look(_) => Some("plug it in, or run as root to see it".to_owned()),
            Self::Space { .. } | Self::Room { .. } => {
                Some("set volume.size to less, or volume.directory to where there is more room".to_owned())
            }
            Self::Scheduler { known, .. } if known.is_empty() => {
                Some("leave volume.scheduler out: this device has none to choose from".to_owned())
            }
            Self::Scheduler { known, .. } => Some(format!("it has {}", known.join(", "))),
            Self::Setting { is_there, .. } => Some(if *is_there {
                "the device refuses the value: give another in `volume.queue`, or leave it out".to_owned()
            } else {
                "this kernel does not have it, or another scheduler is set: leave it out of `volume.queue`, \
                 or set `volume.scheduler`"
                    .to_owned()
            }),
            Self::Lease(error) => error.hint(),
            Self::Target(error) => error.hint(),
        }
    }
}
