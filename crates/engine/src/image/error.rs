//! What can go wrong with images.

use std::io;
use std::path::PathBuf;

use fsage_model::protocol::{Failure, FailureKind};
use fsage_sys::input::Unfit;
use fsage_sys::new_file::ForeignFolder;

use crate::host::HostError;

/// An image that was not saved, restored or read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file or device could not be used.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The image would come into the file system that is frozen for it.
    #[error("{} is in the file system at {}, which is frozen: writing it would block forever", path.display(), point.display())]
    Inside {
        /// The image.
        path: PathBuf,
        /// Where the frozen file system is mounted.
        point: PathBuf,
    },
    /// Something that is no image is where the image would come.
    #[error("{} exists and would be lost: {what}", path.display())]
    Place {
        /// What is there.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The file is no image.
    #[error("{} is not an image: {what}", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: &'static str,
    },
    /// An image of another version of the format.
    #[error("{} has version {version} of the image format, this program reads version {known}", path.display())]
    Version {
        /// The image.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// Ours.
        known: u32,
    },
    /// Some bytes of an image are not what was written.
    #[error("{} is damaged: {part}: {what}", path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// Which part: `header`, `chunk 17 (bytes 71303168 on of the volume)`, `index`, `footer`.
        part: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The volume is mounted.
    #[error("{} is mounted at {}", device.display(), point.display())]
    Mounted {
        /// The volume.
        device: PathBuf,
        /// Where.
        point: PathBuf,
    },
    /// What is mounted is not the volume, or not as it must be.
    #[error("{} cannot tell which blocks of {} are in use: {what}", point.display(), device.display())]
    Point {
        /// The volume.
        device: PathBuf,
        /// Where its file system is mounted.
        point: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The kernel does not tell which blocks are in use.
    #[error("cannot tell which blocks of {} are in use", device.display())]
    Used {
        /// The volume.
        device: PathBuf,
        /// Why.
        source: fsage_sys::Error,
    },
    /// The volume to restore on is smaller than the one saved.
    #[error("{} has {have} bytes, the image is of a volume of {needed}", device.display())]
    TooSmall {
        /// The volume.
        device: PathBuf,
        /// Its size.
        have: u64,
        /// What it must have.
        needed: u64,
    },
    /// The volume is not the device that was taken for this.
    #[error(transparent)]
    Device(HostError),
    /// Pause, resume and stop: it was asked to end.
    #[error("it was stopped")]
    Stopped,
    /// A thread could not be started, or panicked.
    #[error("cannot run a thread")]
    Thread(#[source] io::Error),
}

impl ImageError {
    /// Wraps a failed use of a file; for `map_err`.
    pub(super) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path: path.into(), source }
    }

    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File { source, .. } if ForeignFolder::is(source) => ForeignFolder::HINT.to_owned(),
            Self::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "name an ordinary file itself, not a link to it; it must not have a second hard link"
                    .to_owned()
            }
            Self::File { source, .. } if Unfit::hint(source).is_some() => {
                Unfit::hint(source).unwrap_or_default().to_owned()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run it as root".to_owned()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                "something uses it: see `lsblk` and `fuser -v`".to_owned()
            }
            Self::Inside { .. } => "name a file in another file system".to_owned(),
            Self::Place { path, .. } => format!(
                "the image comes last (`fsage image save VOLUME FILE`): name another, or remove {} yourself",
                path.display()
            ),
            Self::Version { .. } => {
                "use the version of fsage that wrote it, or save the volume again".to_owned()
            }
            Self::Damaged { .. } => {
                "none of it can be trusted: use another copy, or save the volume again".to_owned()
            }
            Self::Mounted { point, .. } => format!(
                "unmount it (`umount {point}`), or freeze it (`fsfreeze -f {point}`) and save with `--frozen {point}`",
                point = point.display()
            ),
            Self::Point { what, .. } if what.contains("frozen") => {
                "freeze it with `fsfreeze -f` and leave it frozen until the image is saved".to_owned()
            }
            Self::Used { .. } => "`--all-blocks` saves every block, used or not".to_owned(),
            Self::Device(error) => error.hint(),
            Self::TooSmall { .. } => "restore on a volume of at least that size".to_owned(),
            _ => String::new(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::File { source, .. }
                if ForeignFolder::is(source) || source.kind() == io::ErrorKind::AlreadyExists =>
            {
                FailureKind::Usage
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                FailureKind::Missing
            }
            Self::Place { .. }
            | Self::Inside { .. }
            | Self::NotAnImage { .. }
            | Self::Version { .. }
            | Self::Mounted { .. }
            | Self::Point { .. }
            | Self::TooSmall { .. } => FailureKind::Usage,
            Self::Damaged { .. } => FailureKind::Damage,
            Self::Thread(_) => FailureKind::Internal,
            Self::Device(error) => error.kind(),
            Self::File { .. } | Self::Used { .. } | Self::Stopped => FailureKind::Failed,
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } | Self::Thread(source) => source.raw_os_error(),
            Self::Used { source, .. } => Some(source.errno()),
            Self::Device(error) => error.errno(),
            _ => None,
        }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        let (hint, errno, kind) = (error.hint(), error.errno(), error.kind());
        Self { message: crate::host::chain(&error), hint, errno, kind }
    }
}
