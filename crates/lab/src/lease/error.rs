//! Why the lease journal could not be used.

use std::path::PathBuf;

use fsage_sys::new_file::ForeignFolder;

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
    #[error("{} is already {what}", path.display())]
    Present {
        /// The file or mount point.
        path: PathBuf,
        /// `there`, `mounted`.
        what: &'static str,
    },
    /// A file or directory could not be made.
    #[error("cannot make {}", path.display())]
    Make {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not something that fsage takes.
    #[error("this cannot be leased: {what}")]
    NotOurs {
        /// What and why.
        what: String,
    },
    /// Others can change the directory, or something in it: what is there decides what is removed and ended.
    #[error("cannot trust {}: {why}", path.display())]
    Distrusted {
        /// The directory or file.
        path: PathBuf,
        /// Who can change it.
        why: String,
    },
    /// The journal is of another store.
    #[error("the journal {} is of {}", path.display(), store.display())]
    OtherStore {
        /// The journal.
        path: PathBuf,
        /// The store that it names.
        store: PathBuf,
    },
    /// No agent could be started to clean with.
    #[error("cannot release anything without an agent")]
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
            Self::Distrusted { .. } => Some(
                "let it and every directory above it belong to the user or to root and be writable by nobody else (chown, \
                 chmod go-w), or name another directory with FSAGE_STATE_DIR or FSAGE_RUNTIME_DIR"
                    .to_owned(),
            ),
            Self::OtherStore { path, .. } => Some(format!("inspect {}, then move it away", path.display())),
            Self::Target(error) => error.hint(),
            Self::Make { source, .. } if ForeignFolder::is(source) => Some(ForeignFolder::HINT.to_owned()),
            Self::Journal { .. } | Self::Make { .. } | Self::NotOurs { .. } => None,
        }
    }
}

impl fsage_model::problem::Explain for LeaseError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Locked { .. }
            | Self::NoStore { .. }
            | Self::Present { .. }
            | Self::Distrusted { .. }
            | Self::OtherStore { .. } => fsage_model::problem::EXIT_USAGE,
            Self::Make { source, .. } if ForeignFolder::is(source) => fsage_model::problem::EXIT_USAGE,
            Self::Journal { .. } | Self::Make { .. } => fsage_model::problem::EXIT_FAILED,
            Self::NotOurs { .. } => fsage_model::problem::EXIT_INTERNAL,
            Self::Target(error) => fsage_model::problem::exit_code_of(error.kind()),
        }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
