//! Why the lease journal could not be used.

use std::path::PathBuf;

use crate::target::TargetError;

/// Why the lease journal could not be used, or something could not be leased.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another process has it open.
    #[error("the store {} is in use by {by}", store.display())]
    Locked {
        /// The store.
        store: PathBuf,
        /// Process id and command, as far as they can be seen.
        by: String,
    },
    /// The folder is not a store (or does not exist).
    #[error("{} is not a folder", store.display())]
    NoStore {
        /// The folder.
        store: PathBuf,
    },
    /// The journal could not be read or written.
    #[error("cannot {what} {}", path.display())]
    Journal {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What is to be taken is there already and not ours: releasing it would take it from its owner.
    #[error("{} is {what} already", path.display())]
    Present {
        /// The file or mount point.
        path: PathBuf,
        /// `there`, `mounted`.
        what: &'static str,
    },
    /// A lease must name absolute paths: a cleaning process has another working directory.
    #[error("{} is not an absolute path", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// No agent could be started to clean with.
    #[error("nothing can be released without an agent")]
    Target(#[from] TargetError),
}

impl LeaseError {
    /// The next step for the user; `None` when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Locked { .. } => Some("wait until it ends, or end it; then try again".to_owned()),
            Self::NoStore { .. } => Some("name the folder that `fsage run` made".to_owned()),
            Self::Present { path, what: "mounted" } => {
                Some(format!("unmount it first (umount {}), or use another store", path.display()))
            }
            Self::Present { path, .. } => Some(format!("move {} away, or use another store", path.display())),
            Self::Target(error) => error.hint(),
            Self::Journal { .. } | Self::Relative { .. } => None,
        }
    }
}

impl crate::cli::explain::Explain for LeaseError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Locked { .. } | Self::NoStore { .. } | Self::Present { .. } => {
                crate::cli::explain::EXIT_USAGE
            }
            Self::Journal { .. } => crate::cli::explain::EXIT_FAILED,
            Self::Relative { .. } => crate::cli::explain::EXIT_INTERNAL,
            Self::Target(error) => crate::cli::explain::exit_code_of(error.kind()),
        }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
