//! What can go wrong with logs in files.

use std::fmt;
use std::io;

use super::Geometry;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_USAGE, Explain};

/// Where in a file something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPosition {
    /// What stands before all entries.
    Header,
    /// A line, counted from 1.
    Line(u64),
    /// An entry, counted from 0.
    Entry(u64),
    /// What stands behind all entries.
    Footer,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "header"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Entry(entry) => write!(f, "entry {entry}"),
            Self::Footer => write!(f, "footer"),
        }
    }
}

/// A log that was not read or written. Which file it is says anyone who opened it.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read or written.
    #[error("cannot {what} it")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is of another kind.
    #[error("it is no {format}: {what}")]
    Foreign {
        /// What it should be.
        format: &'static str,
        /// Why it is not.
        what: &'static str,
    },
    /// The file is of another version of its format.
    #[error("it has version {version} of the format of {format}, this program reads version {known}")]
    Version {
        /// The format.
        format: &'static str,
        /// The file's version.
        version: u64,
        /// Ours.
        known: u64,
    },
    /// The file ends too early.
    #[error("it is truncated: {place} is incomplete")]
    Truncated {
        /// What is missing or incomplete.
        place: LogPosition,
    },
    /// Something in the file cannot be right.
    #[error("it is damaged: {place}: {what}")]
    Malformed {
        /// Where.
        place: LogPosition,
        /// What is wrong.
        what: String,
    },
    /// An entry cannot be said in the format asked for.
    #[error("entry {number} cannot be put into a {format}: {what}")]
    Unfit {
        /// The format.
        format: &'static str,
        /// The entry.
        number: u64,
        /// Why not.
        what: String,
    },
    /// The entry's data could not be had.
    #[error("the data of entry {number} cannot be read")]
    Data {
        /// The entry.
        number: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The disk's block size is none.
    #[error("a disk with blocks of {} bytes has no log", geometry.block_bytes)]
    Geometry {
        /// What was asked for.
        geometry: Geometry,
    },
}

impl LogError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } | Self::Geometry { .. } => None,
            Self::Malformed { .. } => Some("save or copy it again from where it was recorded".to_owned()),
            Self::Foreign { .. } => {
                Some("formats are distinguished by name: say which one it is, or convert it first".to_owned())
            }
            Self::Version { .. } => Some("read it with the version of fsage that wrote it".to_owned()),
            Self::Truncated { place: LogPosition::Line(_) } => Some(
                "let the program that writes it end before it is read; every line ends with a line break"
                    .to_owned(),
            ),
            Self::Truncated { .. } => Some("its writer did not finish; write it again".to_owned()),
            Self::Unfit { .. } => {
                Some("leave such entries out with a filter, or choose another format".to_owned())
            }
            Self::Data { .. } => {
                Some("record with data, and save the log before the disk is taken down".to_owned())
            }
        }
    }

    /// An error of a read: the end of the file at `place`, or what the system says.
    pub(super) fn read(source: io::Error, place: LogPosition) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated { place },
            _ => Self::Io { what: "read", source },
        }
    }

    /// An error of a write.
    pub(super) fn write(source: io::Error) -> Self {
        Self::Io { what: "write", source }
    }

    /// Something at `place` that cannot be right.
    pub(super) fn malformed(place: LogPosition, what: impl Into<String>) -> Self {
        Self::Malformed { place, what: what.into() }
    }
}

impl Explain for LogError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Foreign { .. } | Self::Version { .. } | Self::Unfit { .. } | Self::Geometry { .. } => {
                EXIT_USAGE
            }
            Self::Truncated { .. } | Self::Malformed { .. } => EXIT_DAMAGE,
            Self::Io { .. } | Self::Data { .. } => EXIT_FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
