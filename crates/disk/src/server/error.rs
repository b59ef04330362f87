//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use super::guard::GuardError;
use super::machine::MachineError;
use crate::export::fuse::FuseError;
use crate::export::nbd;
#[cfg(feature = "ublk")]
use crate::export::ublk::UblkError;

/// Why a server does not start, or ends before it should.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It would not be safe.
    #[error("not safe to serve a disk from here")]
    Guard(#[from] GuardError),
    /// The disk cannot be made.
    #[error("cannot make the disk")]
    Machine(#[from] MachineError),
    /// Mounting or serving failed.
    #[error("FUSE")]
    Fuse(#[from] FuseError),
    /// There is no block device of ublk, or serving it failed.
    #[cfg(feature = "ublk")]
    #[error("ublk")]
    Ublk(#[from] UblkError),
    /// The network block device.
    #[error("NBD")]
    Nbd(#[from] nbd::NbdError),
    /// A kernel call failed.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: fsage_sys::Error,
    },
    /// A file of the server's directory.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The thread that serves.
    #[error("the thread that serves the disk died")]
    Died,
}

impl ServerError {
    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Guard(source) => Some(source.hint()),
            Self::Machine(source) => source.hint(),
            Self::Fuse(source) => source.hint(),
            #[cfg(feature = "ublk")]
            Self::Ublk(source) => source.hint(),
            Self::Nbd(source) => source.hint(),
            Self::System { source, .. } => source.hint(),
            Self::File { .. } | Self::Thread(_) => None,
            Self::Died => {
                Some("log.txt says what happened; `fsage-disk clean` removes what is left".to_owned())
            }
        }
    }

    pub(super) fn file(what: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path, source }
    }

    pub(super) fn system(what: &'static str) -> impl FnOnce(fsage_sys::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
