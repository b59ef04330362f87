//! Parameters of `interleaved-append`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `interleaved-append`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InterleavedAppendSpec {
    /// Number of files per thread that grow in turn (1..=65536): the more files, the further apart the blocks
    /// of each; 1: no interleaving.
    pub set: u64,
    /// Final size of a file.
    pub file_size: SizeSpec,
    /// Size of one append; the last one is the rest of the file.
    pub append_size: SizeSpec,
    /// When a file is synced: `never`, `close` (when it is complete) or `append` (after each append).
    pub sync: SyncSpec,
    /// Number of directories at the start over all threads, each in a randomly chosen earlier one.
    pub directories: u64,
    /// Share of the volume (above 0, at most 1) to hold by deleting the oldest files.
    pub target: f64,
}

/// When a file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncSpec {
    /// Never: with delayed allocation, a file may be laid out as if it had been written at once.
    Never,
    /// When it is complete.
    Close,
    /// After every append, so that each piece is allocated separately.
    Append,
}

impl Parameters for InterleavedAppendSpec {
    fn target(&self) -> Option<f64> {
        Some(self.target)
    }
}

impl Default for InterleavedAppendSpec {
    /// Numbers of our own: TBBT leaves them to anyone who ages a file system.
    fn default() -> Self {
        Self {
            set: 8,
            file_size: SizeSpec::Uniform { min: Bytes(64 << 10), max: Bytes(1 << 20) },
            append_size: SizeSpec::Fixed { size: Bytes(16 << 10) },
            sync: SyncSpec::Append,
            directories: 100,
            target: 0.8,
        }
    }
}
