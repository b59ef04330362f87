//! Traces: every operation of a load with its outcome, as columns of a Parquet file.
//!
//! One row an operation. Rows of a thread are in its order; threads are interleaved in batches. Row groups
//! have 65,536 rows, columns are zstd-compressed ([`column`] has the encodings). 300,000 operations of the
//! benches' mix take 10.7 bytes a row; 15.7 if what earlier rows say of a file were repeated. `kind` is text,
//! every other column an unsigned number (`errno` signed), so that pandas, DuckDB and R read the file as it
//! is. File metadata (key → value): `fsage.format` → [`FORMAT_VERSION`], `fsage.load` → the load's
//! specification in JSON, `fsage.directories` → for each thread the `[number, parent]` pairs of the
//! directories it began with; `fsage.checkpoints` → `[thread, sequence, digest]` of each [`Checkpoint`],
//! `fsage.prelude` → [`Preamble::prelude`], `fsage.origin` → [`Origin`] of an imported trace.
//!
//! A Parquet file is unreadable without its footer, which is written last: the trace of a load that did not
//! end is lost, and [`read`] says so.

mod column;
mod follow;
mod pages;
mod reader;
mod writer;

pub use reader::{Reader, read};
pub use writer::TraceWriter;
pub(crate) use writer::{Batches, Feed};

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsage_model::digest::Digest;
use fsage_model::load::LoadSpec;
use fsage_model::operation::{Operation, Outcome};
use fsage_model::problem::{EXIT_USAGE, Explain, exit_code_of};
use fsage_model::protocol::FailureKind;
use fsage_sys::input::Unfit;
use serde::{Deserialize, Serialize};

use crate::tree::Directory;

/// Version of the columns and metadata. 1: first. 2: `directory`, `name`, `size` and `version` are null where
/// they follow. 3: checkpoints, prelude and origin in the metadata (all may be absent); the columns are those
/// of 2.
pub const FORMAT_VERSION: u32 = 3;

/// Fewest operations of a thread between two of its checkpoints. A tree of many files has them farther apart
/// ([`checkpoint_after`]), for its digest is a walk over all of them.
pub const CHECKPOINT_OPERATIONS: u64 = 1 << 16;

/// Operations of a thread with so many live files until its next checkpoint: the digest costs the less an
/// operation, the more there are.
#[must_use]
pub const fn checkpoint_after(files: u64) -> u64 {
    let wide = files.saturating_mul(2);
    if wide > CHECKPOINT_OPERATIONS { wide } else { CHECKPOINT_OPERATIONS }
}

/// What a thread's tree came to at a place of its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The thread.
    pub thread: u32,
    /// Records of the thread before it.
    pub sequence: u64,
    /// Digest of the thread's logical tree then.
    pub digest: Digest,
}

/// Where the operations of an imported trace come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The program that recorded them: `strace`, `fio`, `csv`.
    pub program: String,
    /// What was read and is in no row, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// What is in a row, but not quite as it was, by what was changed.
    pub changed: BTreeMap<String, u64>,
}

/// What a trace says beside its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Preamble {
    /// The load that was recorded.
    pub load: LoadSpec,
    /// The directories each thread began with, parents first, without its top directory.
    pub directories: Vec<Vec<Directory>>,
    /// Rows at the beginning that only make what was there before the recording: they belong to no time.
    pub prelude: u64,
    /// Where the rows come from when no load of ours made them.
    pub origin: Option<Origin>,
}

impl Preamble {
    /// Of a load that begins with these directories.
    #[must_use]
    pub const fn of_load(load: LoadSpec, directories: Vec<Vec<Directory>>) -> Self {
        Self { load, directories, prelude: 0, origin: None }
    }
}

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
    #[error("trace {} is truncated: its last {lost_bytes} bytes cannot be read, so none of its operations can be read", path.display())]
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
            Self::Truncated { .. } => "run the load again to its end to get a complete trace".to_owned(),
            Self::Io { source, .. } => Unfit::hint(source).unwrap_or_default().to_owned(),
            Self::Damaged { .. } => String::new(),
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

impl Explain for TraceError {
    fn exit_code(&self) -> u8 {
        match self {
            // A name that nothing has is a mistake of the command line.
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => EXIT_USAGE,
            _ => exit_code_of(self.kind()),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(Self::hint(self)).filter(|hint| !hint.is_empty())
    }
}

#[cfg(test)]
mod tests;
