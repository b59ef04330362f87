//! Parameters of `mail`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parameters, SizeSpec};
use crate::size::Bytes;

/// Parameters of `mail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MailSpec {
    /// Number of mailboxes over all threads: at least 1 per thread, at most 1000000.
    pub boxes: u64,
    /// Skew of the choice of mailboxes (0..=4): mailbox n is chosen with weight 1 / n^`skew` (Zipf); 0:
    /// uniform.
    pub skew: f64,
    /// Size of a message.
    pub message_size: SizeSpec,
    /// Relative frequencies of the actions.
    pub weights: MailWeights,
    /// Sync a message before it appears in its mailbox, as a server must before it acknowledges the message.
    pub fsync: bool,
    /// Share of the volume (above 0, at most 1) to hold: below it, messages are only delivered; above it, the
    /// oldest messages are deleted.
    pub target: f64,
}

/// Relative frequencies of the actions on a mailbox, at least 0; `deliver` must be above 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MailWeights {
    /// Deliver a message: create it in `tmp`, sync, rename it to `new`.
    pub deliver: f64,
    /// Read a whole message.
    pub read: f64,
    /// Mark a new message as seen: rename it from `new` to `cur`.
    pub seen: f64,
    /// Delete a message.
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
