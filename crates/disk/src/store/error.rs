//! What can go wrong with the memory of a disk.

use std::io;
use std::path::PathBuf;

use crate::request::IoError;

/// Why the store cannot be made, or cannot keep or release bytes.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The kernel gives no memory.
    #[error("no memory for the disk's contents")]
    Memory(#[source] fsage_sys::Error),
    /// The limit of memory is reached and nothing can be spilled.
    #[error("the disk's contents reached their memory limit")]
    Full,
    /// The spill file does not do what it should.
    #[error("cannot {what} the spill file {path:?}")]
    Spill {
        /// What was tried: make, read, write.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Pages cannot be packed or unpacked.
    #[error("cannot pack the disk's contents")]
    Pack(#[source] io::Error),
    /// A size that no disk has.
    #[error("a disk of {size_bytes} bytes: it must have between 4096 bytes and 16 TiB")]
    Size {
        /// What was asked for.
        size_bytes: u64,
    },
    /// There is no such snapshot.
    #[error("no snapshot {id}")]
    NoSnapshot {
        /// Its number.
        id: u32,
    },
    /// There is no such view.
    #[error("no view {id}")]
    NoView {
        /// Its number.
        id: u32,
    },
}

impl StoreError {
    /// The next step for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Memory(_) | Self::Full => {
                Some("raise the disk's memory limit, or give it a spill file".to_owned())
            }
            Self::Spill { .. } => Some("see whether its file system has space left".to_owned()),
            Self::Pack(_) | Self::Size { .. } | Self::NoSnapshot { .. } | Self::NoView { .. } => None,
        }
    }

    /// What a request that met it is answered.
    #[must_use]
    pub fn io(&self) -> IoError {
        match self {
            Self::Spill { what: "read", .. } | Self::Pack(_) => IoError::Medium,
            Self::Memory(_) | Self::Full | Self::Spill { .. } => IoError::Space,
            Self::Size { .. } | Self::NoSnapshot { .. } | Self::NoView { .. } => IoError::Range,
        }
    }
}
