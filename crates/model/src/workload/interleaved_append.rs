//! Parameters of `interleaved-append`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `interleaved-append`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InterleavedAppendSpec {
    /// Files that grow in turn (1..=65536), of each thread: the more, the further apart the blocks of a file
    /// come to lie. With 1 file nothing is interleaved.
    pub set: u64,
    /// Size that a file has when it is done.
    pub file_size: SizeSpec,
    /// What one append adds; the last one adds what is left.
    pub append_size: SizeSpec,
    /// When files are synced.
    pub sync: SyncSpec,
    /// Directories at the start, each below one drawn at random from those before it; over all threads.
    pub directories: u64,
    /// Share of the volume (above 0, at most 1) that is held by deleting the oldest files.
    pub target: f64,
}

/// When a file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncSpec {
    /// Never: a file system that allocates late may lay out a file as if it had been written at once.
    Never,
    /// When it has its size.
    Close,
    /// After every append: each piece is allocated by itself.
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
