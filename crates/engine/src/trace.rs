//! Traces: every operation of a load with its outcome, as columns of a Parquet file.

use std::path::{Path, PathBuf};

use crate::operation::{Operation, Outcome};
use crate::protocol::FailureKind;

/// One line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Thread that did it.
    pub thread: u32,
    /// Its place in that thread's sequence, from 0.
    pub sequence: u64,
    /// What was done.
    pub operation: Operation,
    /// How it went.
    pub outcome: Outcome,
    /// When it started: nanoseconds since the load began.
    pub start_ns: u64,
}

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("cannot read trace {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file ends before its footer: the load that wrote it did not end.
    #[error("trace {} is cut off: its last {lost_bytes} bytes cannot be read, so none of its operations can", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that are there without a footer that explains them.
        lost_bytes: u64,
    },
    /// The file is not a trace, or is damaged.
    #[error("trace {} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl TraceError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Truncated { .. } => "run the load again to its end to get a whole trace".to_owned(),
            _ => String::new(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Io { .. } => FailureKind::Failed,
            Self::Truncated { .. } | Self::Damaged { .. } => FailureKind::Damage,
        }
    }
}

/// Operations of a trace, in the order of the file.
#[derive(Debug)]
pub struct Reader {}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}

/// Opens a trace.
///
/// # Errors
/// A missing, cut off or damaged file; never panics, whatever the file holds.
pub fn read(path: &Path) -> Result<Reader, TraceError> {
    Err(TraceError::Damaged { path: path.to_owned(), what: "traces cannot be read yet".to_owned() })
}
