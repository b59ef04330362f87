//! Parameters of `fsfb`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `fsfb`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FsfbSpec {
    /// Number of directories at the start over all threads, each in a randomly chosen earlier one.
    pub directories: u64,
    /// Size of a file.
    pub file_size: SizeSpec,
    /// Share of the volume (above 0, at most 1) that is filled, and then held by later rounds.
    pub target: f64,
    /// Share of the files' bytes (above 0, at most 1) that a round deletes and rewrites.
    pub replace: f64,
    /// Number of rounds after the filling (at least 1), after which the workload ends.
    pub rounds: u64,
}

impl Parameters for FsfbSpec {
    fn target(&self) -> Option<f64> {
        Some(self.target)
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.rounds)
    }
}

impl Default for FsfbSpec {
    /// What the paper did.
    fn default() -> Self {
        Self {
            directories: 1000,
            file_size: SizeSpec::Uniform { min: Bytes(1 << 10), max: Bytes(150 << 10) },
            target: 0.95,
            replace: 0.05,
            rounds: 500,
        }
    }
}
