//! Parameters of `mobile`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `mobile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MobileSpec {
    /// How large every other file is: on a small volume less than the 100 MB of the paper.
    pub large: SizeSpec,
    /// How large the files between them are.
    pub small: SizeSpec,
    /// Directories at the start, each below one drawn at random from those before it; over all threads.
    pub directories: u64,
    /// Share of the volume (above 0, at most 1) that is filled.
    pub target: f64,
    /// Share of the files' bytes (above 0, at most 1) that is deleted then.
    pub delete: f64,
    /// Deletions in all, at least 1. Between two of them the volume is filled again; after the last it ends.
    pub cycles: u64,
}

impl Parameters for MobileSpec {
    fn target(&self) -> Option<f64> {
        Some(self.target)
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.cycles)
    }
}

impl Default for MobileSpec {
    /// The paper's sizes and share; it does not say how large beyond 100 MB, nor in how many directories.
    fn default() -> Self {
        Self {
            large: SizeSpec::Fixed { size: Bytes(100_000_000) },
            small: SizeSpec::Uniform { min: Bytes(1 << 10), max: Bytes(100_000) },
            directories: 100,
            target: 1.0,
            delete: 0.05,
            cycles: 1,
        }
    }
}
