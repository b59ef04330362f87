//! What can go wrong with a store.

use std::path::PathBuf;

use fsage_model::problem::Explain;

/// What went wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no plan in the folder.
    #[error("{} is not a store", path.display())]
    NotAStore {
        /// Folder.
        path: PathBuf,
    },
    /// The folder holds other things.
    #[error("{} is not empty and not a store: it has `{found}`", path.display())]
    NotEmpty {
        /// Folder.
        path: PathBuf,
        /// Something in it.
        found: String,
    },
    /// Another run holds it.
    #[error("store {} is locked by {holder}", path.display())]
    Locked {
        /// Folder.
        path: PathBuf,
        /// `pid 123 on host since 2026-01-01T00:00:00Z`.
        holder: String,
    },
    /// The store was made by a version of fsage that this one does not know.
    #[error("{} has store version {found}, this fsage reads up to {known}", path.display())]
    Version {
        /// Folder.
        path: PathBuf,
        /// In the store.
        found: u32,
        /// Known here.
        known: u32,
    },
    /// It holds another study.
    #[error("store {} holds another study: {difference}", path.display())]
    OtherStudy {
        /// Folder.
        path: PathBuf,
        /// In words.
        difference: String,
    },
    /// No space is left on the file system that holds the store.
    #[error("no space left for {}; complete trials are kept", path.display())]
    Full {
        /// File.
        path: PathBuf,
    },
    /// Root would write where an untrusted user could change what it writes.
    #[error("cannot {action} {}", path.display())]
    Foreign {
        /// `create`, `write`…
        action: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Whose it is.
        source: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// `read`, `write`, `rename`…
        action: &'static str,
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it must be.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Explain for StoreError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotAStore { .. }
            | Self::NotEmpty { .. }
            | Self::OtherStudy { .. }
            | Self::Foreign { .. }
            | Self::Version { .. } => 2,
            Self::Locked { .. } | Self::Full { .. } => 3,
            Self::Io { .. } => 1,
            Self::Damaged { .. } => 5,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotAStore { .. } => {
                Some("give the folder that `fsage run` printed, such as store/aging".into())
            }
            Self::Locked { .. } => Some("wait for that run to end, or give another --store".into()),
            Self::Version { .. } => {
                Some("use the fsage that made it, or run the study into a new --store".into())
            }
            Self::OtherStudy { .. } | Self::NotEmpty { .. } => {
                Some("give another folder with --store".into())
            }
            Self::Full { .. } => Some("free some space, then run the same command again: it resumes".into()),
            Self::Damaged { .. } => Some("run the study again: only what is damaged is repeated".into()),
            Self::Foreign { .. } => Some(fsage_sys::new_file::ForeignFolder::HINT.into()),
            Self::Io { source, .. } => fsage_sys::input::Unfit::hint(source).map(str::to_owned),
        }
    }
}
