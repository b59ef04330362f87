//! A part of a device, in bytes.

use serde::{Deserialize, Serialize};

/// A part of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// Its first byte.
    pub start_bytes: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
}

impl Extent {
    /// The first byte behind it; saturates.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.start_bytes.saturating_add(self.size_bytes)
    }

    /// Whether the two have bytes in common.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start_bytes < other.end_bytes() && other.start_bytes < self.end_bytes()
    }
}
