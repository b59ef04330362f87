//! Why something that a workload names by its path cannot be taken.

use std::path::PathBuf;

use crate::tools::ToolError;

/// Why it cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A key is missing, unknown or of the wrong type.
    #[error("{message}")]
    Form {
        /// What is wrong.
        message: String,
    },
    /// A number or list that is too small for a history.
    #[error("{message}")]
    TooFew {
        /// Key that says so.
        key: &'static str,
        /// What is wrong.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// git says that there is no repository.
    #[error("`{}` is not a repository: {reason}", path.display())]
    NoRepository {
        /// Folder.
        path: PathBuf,
        /// git's words, or that the folder is not there.
        reason: String,
    },
    /// The repository has no such commit.
    #[error("{message}")]
    NoCommit {
        /// Key that names it.
        key: &'static str,
        /// What is missing.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// Objects that the history needs are not there.
    #[error("the repository at `{}` lacks some contents of its files", path.display())]
    Partial {
        /// Folder.
        path: PathBuf,
    },
    /// git failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file or directory cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A tar file is not as one has to be.
    #[error("`{}` is not a complete tar file: at byte {offset}{}: {message}", path.display(), if *.packed { " of what it unpacks to" } else { "" })]
    Tar {
        /// Which.
        path: PathBuf,
        /// Where in the tar file.
        offset: u64,
        /// Whether the file is compressed: then the offset is that in the tar file within.
        packed: bool,
        /// What is wrong.
        message: String,
        /// What to do, may be empty.
        hint: &'static str,
    },
    /// More than an agent takes.
    #[error("the history has at least {bytes} bytes as text: more than the {limit} that fit")]
    TooLarge {
        /// Its length as far as it was read.
        bytes: u64,
        /// The most.
        limit: u64,
    },
    /// More than is held while it is read.
    #[error("the names of the history's files have more than {limit} bytes")]
    Names {
        /// The most.
        limit: u64,
    },
}

impl SourceError {
    /// Key of the table that is to blame.
    #[must_use]
    pub const fn key(&self) -> Option<&'static str> {
        match self {
            Self::TooFew { key, .. } | Self::NoCommit { key, .. } => Some(key),
            Self::NoRepository { .. } | Self::Partial { .. } => Some("path"),
            _ => None,
        }
    }

    /// The next step.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Form { .. } => "docs/workload.md lists the keys",
            Self::TooFew { hint, .. } | Self::NoCommit { hint, .. } => hint,
            Self::NoRepository { .. } => {
                "name the top folder of a clone, or a bare repository; a study's paths are relative to its file"
            }
            Self::Partial { .. } => {
                "it is a partial clone, and nothing is fetched: clone it without --filter and name that clone"
            }
            Self::Tool(error) => return error.hint(),
            Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "a study's paths are relative to its file, those of a flag to where it is given"
            }
            Self::Read { .. } => return None,
            Self::Tar { hint, .. } => hint,
            Self::TooLarge { .. } | Self::Names { .. } => {
                "use less of it: reduce `commits`, or for listings the number of `paths`"
            }
        };
        Some(hint.to_owned()).filter(|hint| !hint.is_empty())
    }
}
