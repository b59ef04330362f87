//! Images of volumes: what they say of themselves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a block of an image, whatever the file system's are.
pub const BLOCK_BYTES: u64 = 4096;

/// Smallest and largest number of blocks that a chunk stands for.
pub const SPANS: std::ops::RangeInclusive<u32> = 1..=8192;

/// What an image holds, and what was done with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImageSummary {
    /// What the image is of.
    pub header: Header,
    /// Its blocks.
    pub totals: Totals,
    /// Chunks.
    pub chunks: u64,
    /// Length of the image.
    pub image_bytes: u64,
    /// Identifies the content: the same for two images whose volumes agree in which blocks are in use and in
    /// every byte of them. 64 hexadecimal digits.
    pub digest: String,
    /// Time it took.
    pub elapsed_ns: u64,
}

/// What an image is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Blocks of 4096 bytes that a chunk stands for.
    pub span_blocks: u32,
    /// `used`: only blocks in use; `all`: every block.
    pub blocks: Blocks,
    /// Signature of the volume (`ext4`, `xfs`, `btrfs`, …); empty when none is known.
    pub file_system: String,
    /// The file system's own identity, where it has one.
    pub uuid: String,
    /// Label, empty when there is none.
    pub label: String,
    /// Seconds since 1970 when it was begun.
    pub created_s: u64,
    /// Version of fsage that wrote it.
    pub program: String,
    /// What the creator wanted to say: resolved spec, seed, kernel, …
    pub facts: BTreeMap<String, String>,
}

/// Which blocks of the volume are in an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Blocks {
    /// Those that the file system says are in use.
    #[default]
    Used,
    /// Every one.
    All,
}

/// Blocks of an image by how they are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Blocks in use: the sum of the others.
    pub used_blocks: u64,
    /// Self-describing data: kept as what it says of itself.
    pub described_blocks: u64,
    /// Zeros.
    pub zero_blocks: u64,
    /// Kept as they are.
    pub raw_blocks: u64,
    /// Runs of self-describing data that follow each other.
    pub runs: u64,
}

impl Totals {
    /// Whether the blocks in use are the sum of the others.
    #[must_use]
    pub fn add_up(&self) -> bool {
        let sum = self.described_blocks.checked_add(self.zero_blocks);
        sum.and_then(|sum| sum.checked_add(self.raw_blocks)) == Some(self.used_blocks)
    }

    /// Adds the blocks of another part of the image.
    pub fn add(&mut self, other: &Self) {
        self.used_blocks += other.used_blocks;
        self.described_blocks += other.described_blocks;
        self.zero_blocks += other.zero_blocks;
        self.raw_blocks += other.raw_blocks;
        self.runs += other.runs;
    }
}

impl Header {
    /// Blocks of the volume; the last may be cut by its end.
    #[must_use]
    pub fn volume_blocks(&self) -> u64 {
        self.volume_bytes.div_ceil(BLOCK_BYTES)
    }

    /// Blocks per chunk for a volume: 4 MiB, and more on large ones so that the index stays small (at most 32
    /// MiB).
    pub fn span_for(volume_bytes: u64) -> u32 {
        match volume_bytes >> 40 {
            0..2 => 1024,
            2..8 => 2048,
            8..32 => 4096,
            _ => 8192,
        }
    }

    /// Bytes of the volume that a chunk stands for.
    pub fn span_bytes(&self) -> usize {
        usize::try_from(u64::from(self.span_blocks) * BLOCK_BYTES).unwrap_or(usize::MAX)
    }

    /// Blocks of the stretch that begins with block `first`.
    pub fn span_at(&self, first: u64) -> u64 {
        self.volume_blocks().saturating_sub(first).min(u64::from(self.span_blocks))
    }

    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        if !SPANS.contains(&self.span_blocks) {
            Some("its chunks are too large or empty")
        } else if self.volume_bytes == 0 || i64::try_from(self.volume_bytes).is_err() {
            Some("its volume has no sensible size")
        } else {
            None
        }
    }
}
