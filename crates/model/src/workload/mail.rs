//! Parameters of `mail`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `mail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MailSpec {
    /// Boxes over all threads, at least 1 a thread and at most 1000000.
    pub boxes: u64,
    /// How unequal the boxes are (0..=4): box number n is chosen with a weight of 1 / n^`skew` (Zipf). 0: all
    /// alike.
    pub skew: f64,
    /// How large a message is.
    pub message_size: SizeSpec,
    /// Relative frequency of each action.
    pub weights: MailWeights,
    /// Whether a message is synced before it appears in its box, as a server must that acknowledges it.
    pub fsync: bool,
    /// Share of the volume (above 0, at most 1) that is held: below it messages are only delivered, above it
    /// the oldest of all boxes are deleted.
    pub target: f64,
}

/// Relative weights of what is done to a box. None below 0; that of `deliver` above 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MailWeights {
    /// A message is delivered: created in `tmp`, synced, renamed into `new`.
    pub deliver: f64,
    /// A message is read, from its beginning to its end.
    pub read: f64,
    /// A new message is seen: renamed from `new` to `cur`.
    pub seen: f64,
    /// A message is deleted.
    pub delete: f64,
}

impl Parameters for MailSpec {
    fn target(&self) -> Option<f64> {
        Some(self.target)
    }
}

impl Default for MailSpec {
    /// Numbers of our own: messages of 8 KiB in the middle, 5 in 100 beyond 80 KiB.
    fn default() -> Self {
        Self {
            boxes: 100,
            skew: 1.0,
            message_size: SizeSpec::Lognormal { mu: 9.0, sigma: 1.4, min: Bytes(400), max: Bytes(16 << 20) },
            weights: MailWeights::default(),
            fsync: true,
            target: 0.8,
        }
    }
}

impl Default for MailWeights {
    fn default() -> Self {
        Self { deliver: 4.0, read: 6.0, seen: 3.5, delete: 3.0 }
    }
}
