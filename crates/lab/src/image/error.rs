//! Why an image could not be saved or restored, as the lab sees it.

use std::path::PathBuf;

use fsage_model::problem::{EXIT_FAILED, EXIT_MISSING, EXIT_USAGE, Explain, exit_code_of};
use fsage_sys::new_file::ForeignFolder;

use crate::filesystem::FileSystemError;
use crate::lease::LeaseError;
use crate::target::TargetError;
use crate::tools::ToolError;
use crate::volume::VolumeError;

/// An image that was not saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A path that cannot be used.
    #[error("cannot use {}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A loop device lies over the volume.
    #[error("{} is behind {}", volume.display(), device.display())]
    Attached {
        /// The volume.
        volume: PathBuf,
        /// The loop device.
        device: PathBuf,
    },
    /// The kernel does not tell whether a loop device lies over the volume.
    #[error("cannot tell whether {} is behind a loop device", volume.display())]
    Loops {
        /// The volume.
        volume: PathBuf,
        /// Why.
        source: fsage_sys::Error,
    },
    /// The file system was not unmounted cleanly.
    #[error("the {file_system} on {} would have to replay its log: it was not unmounted cleanly", volume.display())]
    Dirty {
        /// The volume.
        volume: PathBuf,
        /// Its file system.
        file_system: String,
    },
    /// A file that is there and would be overwritten.
    #[error("{} already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// An image cannot be where it is to be.
    #[error(transparent)]
    Place(#[from] fsage_engine::image::ImageError),
    /// Data cannot be materialised in this file system.
    #[error("data cannot be materialised in {file_system}: {why}")]
    Materialise {
        /// Its name.
        file_system: String,
        /// Why not.
        why: &'static str,
    },
    /// An image and a foreign format do not go together.
    #[error("{what}")]
    Format {
        /// What does not.
        what: String,
    },
    /// A volume could not be had, or must not be written.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The journal could not be written.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file system could not be used.
    #[error(transparent)]
    FileSystem(#[from] FileSystemError),
    /// The agent could not do it.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl ImageError {
    /// Wraps a path that cannot be used; for `map_err`.
    pub fn path(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Path { path: path.into(), source }
    }
}

impl Explain for ImageError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Path { .. }
            | Self::Attached { .. }
            | Self::Exists { .. }
            | Self::Materialise { .. }
            | Self::Format { .. } => EXIT_USAGE,
            Self::Dirty { .. } => EXIT_FAILED,
            Self::Loops { .. } => EXIT_MISSING,
            Self::Volume(error) => error.exit_code(),
            Self::Lease(error) => error.exit_code(),
            Self::Tool(error) => error.exit_code(),
            Self::FileSystem(error) => error.exit_code(),
            Self::Target(error) => exit_code_of(error.kind()),
            Self::Place(error) => exit_code_of(error.kind()),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Path { source, .. } if ForeignFolder::is(source) => Some(ForeignFolder::HINT.to_owned()),
            Self::Path { .. } | Self::Format { .. } => None,
            Self::Attached { device, .. } => Some(format!(
                "name {device} instead, or detach it: `losetup -d {device}`",
                device = device.display()
            )),
            Self::Loops { source, .. } => Some(source.hint().unwrap_or_else(|| "mount sysfs at /sys".to_owned())),
            Self::Dirty { volume, .. } => Some(format!(
                "mount it and unmount it once (`mount {volume} /mnt && umount /mnt`), or save every block as it is \
                 with `--all-blocks`",
                volume = volume.display()
            )),
            Self::Exists { path } => {
                Some(format!("name another file; or, if its contents can be lost, add `--erase {}`", path.display()))
            }
            Self::Place(error) => Some(error.hint()).filter(|hint| !hint.is_empty()),
            Self::Materialise { .. } => Some(
                "import it without `--materialise`: its files then read as errors or zeros, as the metadata image \
                 left them"
                    .to_owned(),
            ),
            Self::Volume(error) => error.hint(),
            Self::Lease(error) => error.hint(),
            Self::Tool(error) => error.hint(),
            Self::FileSystem(error) => error.hint(),
            Self::Target(error) => error.hint(),
        }
    }
}
