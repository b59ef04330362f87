//! Parameters of `mobile`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `mobile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MobileSpec {
    /// Size of the large files; the paper has 100 MB, for a small volume use less.
    pub large: SizeSpec,
    /// Size of the small files.
    pub small: SizeSpec,
    /// Number of directories at the start over all threads, each in a randomly chosen earlier one.
    pub directories: u64,
    /// Share of the volume (above 0, at most 1) to fill.
    pub target: f64,
    /// Share of the files' bytes (above 0, at most 1) that each deletion removes.
    pub delete: f64,
    /// Number of deletions (at least 1), between which the volume is filled again; the workload ends after
    /// the last.
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
