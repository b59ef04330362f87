//! What can go wrong while inspecting a layout.

use std::io;
use std::path::PathBuf;

/// A scan or free-space map that did not come about. Single files that cannot be inspected are no error: they
/// are counted in [`failed`](fsage_model::layout::LayoutSummary::failed).
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The directory to start from cannot be opened.
    #[error("cannot open directory {path:?}")]
    Open {
        /// Which directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread of the scan could not be started.
    #[error("cannot start a thread to scan {path:?}")]
    Thread {
        /// What was to be scanned.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel did not give the map.
    #[error("cannot map {path:?}")]
    Map {
        /// Any directory of the file system.
        path: PathBuf,
        /// Why.
        source: fsage_sys::Error,
    },
}

impl LayoutError {
    /// The kernel's error number.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Open { source, .. } | Self::Thread { source, .. } => source.raw_os_error().unwrap_or(0),
            Self::Map { source, .. } => source.errno(),
        }
    }

    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("run it as root, or scan a directory that you may read".to_owned())
            }
            Self::Open { .. } | Self::Thread { .. } => None,
            Self::Map { source, .. } => source.hint(),
        }
    }
}
