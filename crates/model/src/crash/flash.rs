//! What flash may lose at a power cut beyond what the interface of block devices allows (docs/power.md, *Drives with
//! flash faults*).
//!
//! These are states that no kernel wrote: bytes of nobody, or those that were replaced long ago. Mounting them runs the
//! kernel's file system code on hostile input, so they are refused on a host unless the user agrees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one page of a drive's map of logical to physical pages describes: 1,024 blocks of 4 KiB.
pub const MAP_BYTES: u64 = 4 << 20;

/// What a range holds instead of what was written there last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlashFault {
    /// Random bytes: a page that was destroyed while another page of its cells was programmed.
    Destroyed {
        /// Random seed of the bytes.
        seed: u64,
    },
    /// What it held before this request of the log: the mapping of logical to physical pages is that of then.
    Older {
        /// Number of the request.
        before: u64,
    },
    /// Zeros: the mapping is gone, so that the drive takes it for discarded.
    Unmapped,
    /// These bits have the other value.
    Flipped {
        /// Counted from the lowest bit of the first byte; in order.
        bits: Vec<u64>,
    },
}

/// A range of the medium that the flash lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlashLoss {
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes, a multiple of the logical block.
    pub length_bytes: u64,
    /// What it holds.
    pub fault: FlashFault,
}

impl FlashLoss {
    /// Losses of one page, of flash or of the map, have the same: the drive loses all of them or none.
    #[must_use]
    pub const fn page(&self) -> u64 {
        match self.fault {
            FlashFault::Destroyed { seed } => seed,
            FlashFault::Older { .. } | FlashFault::Unmapped => self.offset_bytes / MAP_BYTES,
            FlashFault::Flipped { .. } => self.offset_bytes,
        }
    }

    /// In words, for a list of what was lost.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { offset_bytes, length_bytes, fault } = self;
        let what = match fault {
            FlashFault::Destroyed { .. } => "random bytes (the page was destroyed)".to_owned(),
            FlashFault::Older { before } => format!("what it held before request {before}"),
            FlashFault::Unmapped => "zeros (no longer mapped)".to_owned(),
            FlashFault::Flipped { bits } => {
                let bits: Vec<String> = bits.iter().map(u64::to_string).collect();
                format!("wrong bits: {}", bits.join(" "))
            }
        };
        format!("{length_bytes} bytes at {offset_bytes}: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_said_in_words() {
        let said = |fault| FlashLoss { offset_bytes: 8192, length_bytes: 4096, fault }.words();
        assert_eq!(said(FlashFault::Unmapped), "4096 bytes at 8192: zeros (no longer mapped)");
        assert_eq!(
            said(FlashFault::Older { before: 7 }),
            "4096 bytes at 8192: what it held before request 7"
        );
        assert_eq!(said(FlashFault::Flipped { bits: vec![3, 77] }), "4096 bytes at 8192: wrong bits: 3 77");
        assert!(said(FlashFault::Destroyed { seed: 1 }).contains("destroyed"));
    }
}
