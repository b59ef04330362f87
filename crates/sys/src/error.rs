//! The one error of this crate: which call failed, on what, and the kernel's number.

use std::io;
use std::path::PathBuf;

/// What every function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A call to the kernel that did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call on an open file.
    #[error("{call} refused")]
    Call {
        /// System call or ioctl, as the kernel's headers name it.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A call on a path.
    #[error("{call} of {path:?} refused")]
    Path {
        /// System call or ioctl, as the kernel's headers name it.
        call: &'static str,
        /// What it was called on.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's answer is invalid.
    #[error("answer of {call} is invalid: {what}")]
    Malformed {
        /// Whose answer.
        call: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Every loop device that the kernel offered was taken by someone else before us.
    #[error("no loop device for {path:?} after {tries} tries")]
    NoLoopDevice {
        /// The file to attach.
        path: PathBuf,
        /// Devices tried.
        tries: u32,
    },
    /// An argument that the kernel has no way to take.
    #[error("{what}: {path:?}")]
    Argument {
        /// What is wrong.
        what: &'static str,
        /// With which argument.
        path: PathBuf,
    },
}

impl Error {
    /// The kernel's error number; `EPROTO` for senseless answers, `EBUSY` for taken devices, `EINVAL` for
    /// arguments.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Call { source, .. } | Self::Path { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            Self::Malformed { .. } => libc::EPROTO,
            Self::NoLoopDevice { .. } => libc::EBUSY,
            Self::Argument { .. } => libc::EINVAL,
        }
    }

    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self.errno() {
            libc::EPERM | libc::EACCES => Some("run it as root".to_owned()),
            libc::ENODEV => {
                Some("the kernel has no such file system or device: see `fsage doctor`".to_owned())
            }
            _ => None,
        }
    }

    /// Wraps the failure of `call`; for use with `map_err`.
    pub(crate) fn call<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Call { call, source: source.into() }
    }

    /// Wraps the failure of `call` on `path`; for use with `map_err`.
    pub(crate) fn path<E: Into<io::Error>>(
        call: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Path { call, path: path.into(), source: source.into() }
    }
}
