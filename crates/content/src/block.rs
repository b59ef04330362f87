//! Recognises blocks: with nothing known of them, or against what they should be.

use std::ops::RangeInclusive;

use crate::header::MAGIC;
use crate::stream::{agrees, write_block, write_stream};
use crate::{BLOCK_BYTES, HEADER_BYTES, Header, SECTOR_BYTES};

/// Versions tried for a block that has lost its header, and for a fragment: newest first.
const VERSIONS_TRIED: usize = 64;

/// What a block is, by its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// A block of ours, whole or a prefix followed by zeros.
    Good {
        /// What it is.
        header: Header,
        /// Bytes up to which it agrees; zeros follow. At least 32. See "Tails" in the crate's documentation.
        length: usize,
    },
    /// Nothing but zeros (an empty slice too).
    Zero,
    /// The first bytes of a header followed by zeros or the end: too short to be checked.
    Fragment {
        /// Bytes up to the last that is not 0, under 32.
        length: usize,
    },
    /// Part of a block of ours.
    Torn {
        /// What the block is, where its header can still be determined.
        header: Option<Header>,
        /// Bit i: the 512-byte sector i is not that block's. Zeros at the end are given the benefit of the
        /// doubt: the file may end before them.
        sectors: u8,
    },
    /// Not ours.
    Foreign,
}

/// What a block should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Identity of the file's content.
    pub file: u64,
    /// Byte offset of the block in the file.
    pub offset: u64,
    /// Versions that are right.
    pub versions: RangeInclusive<u32>,
}

/// What a block is, measured against what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockVerdict {
    /// As it should be, every byte.
    Good {
        /// The version found; of a tail under 8 bytes the newest that is right.
        version: u32,
    },
    /// The right place, whole, but of a version that is not right any more (or not yet).
    Stale {
        /// The version found.
        version: u32,
    },
    /// Data of another file or place.
    Misplaced {
        /// What it is.
        found: Header,
    },
    /// Part right, part not.
    Torn {
        /// The version its right part belongs to, where it can be determined.
        version: Option<u32>,
        /// Bit i: the 512-byte sector i is not that version's.
        sectors: u8,
    },
    /// Nothing but zeros.
    Zero,
    /// Not ours.
    Foreign,
}

/// Bytes up to the last that is not 0.
fn trimmed(block: &[u8]) -> usize {
    let (rest, words) = block.as_rchunks::<16>();
    match words.iter().rposition(|word| u128::from_le_bytes(*word) != 0) {
        Some(n) => {
            let last = words[n].iter().rposition(|byte| *byte != 0).unwrap_or(0);
            rest.len() + n * 16 + last + 1
        }
        None => rest.iter().rposition(|byte| *byte != 0).map_or(0, |n| n + 1),
    }
}

/// Bit i: sector i of `block` is not that of `right`; only as far as `block` goes.
fn disagreeing(block: &[u8], right: &[u8; BLOCK_BYTES]) -> u8 {
    let pairs = block.chunks(SECTOR_BYTES).zip(right.chunks(SECTOR_BYTES));
    pairs.enumerate().fold(0, |bits, (n, (is, expected))| bits | (u8::from(*is != expected[..is.len()]) << n))
}

/// Bits of the sectors that `length` bytes touch.
fn touched(length: usize) -> u8 {
    match length.div_ceil(SECTOR_BYTES) {
        n @ 0..8 => (1 << n) - 1,
        _ => u8::MAX,
    }
}

/// Tells what a block is. `block` is the whole block or, at the end of a file, what there is of it; only its
/// first 4096 bytes are inspected. Refusing foreign data takes about 10 ns, recognising a block about as long
/// as making it and comparing it.
#[must_use]
pub fn recognise(block: &[u8]) -> Block {
    let block = &block[..block.len().min(BLOCK_BYTES)];
    let seen = block.len().min(MAGIC.len());
    if block[..seen] != MAGIC[..seen] {
        return without_magic(block);
    }
    let Some(bytes) = block.first_chunk::<HEADER_BYTES>() else {
        return if block.is_empty() { Block::Zero } else { Block::Fragment { length: trimmed(block) } };
    };
    let (header, stored) = Header::decode(bytes);
    if stored != header.check() {
        return with_broken_header(block, header, stored);
    }
    if let Ok(whole) = block.try_into()
        && agrees(whole, stored)
    {
        return Block::Good { header, length: BLOCK_BYTES };
    }
    let mut right = [0; BLOCK_BYTES];
    write_block(&mut right, &header);
    if *block == right[..block.len()] {
        return Block::Good { header, length: block.len() };
    }
    let length = trimmed(block).max(HEADER_BYTES);
    match disagreeing(&block[..length], &right) {
        0 => Block::Good { header, length },
        sectors => Block::Torn { header: Some(header), sectors },
    }
}

fn without_magic(block: &[u8]) -> Block {
    let zero_start = block.iter().take(16).all(|byte| *byte == 0);
    match if zero_start { trimmed(block) } else { block.len() } {
        0 => Block::Zero,
        // A tail of one to three bytes, seen in a larger block.
        length @ 1..4 if block[..length] == MAGIC[..length] => Block::Fragment { length },
        _ => match trimmed_fragment(block) {
            Some(length) => Block::Fragment { length },
            None => Block::Foreign,
        },
    }
}

/// One to three bytes of the magic and nothing but zeros after them.
fn trimmed_fragment(block: &[u8]) -> Option<usize> {
    if block.first() != Some(&MAGIC[0]) {
        return None;
    }
    let length = trimmed(block);
    (length < MAGIC.len() && block[..length] == MAGIC[..length]).then_some(length)
}

/// The magic is there, the check is not right: a fragment, or a block whose first sector suffered.
fn with_broken_header(block: &[u8], header: Header, stored: u64) -> Block {
    let length = trimmed(block);
    if length < HEADER_BYTES {
        return Block::Fragment { length };
    }
    let mut right = [0; BLOCK_BYTES];
    // Either the check or what it vouches for is damaged; the stream follows from the right check.
    for (seed, header) in [(header.check(), Some(header)), (stored, None)] {
        write_stream(&mut right, seed);
        let sectors = disagreeing(&block[..length], &right) | 1;
        if sectors != touched(length) || block[HEADER_BYTES..length] == right[HEADER_BYTES..length] {
            return Block::Torn { header, sectors };
        }
    }
    Block::Foreign
}

/// Tells whether a block is what it should be. `block` is exactly the bytes the file has there: 4096, or
/// fewer at the end of the file, so that zeros where data should be are seen. Costs as [`recognise`]; a block
/// without its header costs up to 64 times as much.
#[must_use]
pub fn verify(block: &[u8], expected: &Expected) -> BlockVerdict {
    let block = &block[..block.len().min(BLOCK_BYTES)];
    let header = match recognise(block) {
        Block::Good { header, .. } | Block::Torn { header: Some(header), .. } => header,
        Block::Zero => return BlockVerdict::Zero,
        Block::Fragment { .. } | Block::Foreign | Block::Torn { header: None, .. } => {
            return without_header(block, expected);
        }
    };
    if (header.file, header.offset) != (expected.file, expected.offset) {
        return BlockVerdict::Misplaced { found: header };
    }
    let version = header.version;
    let mut right = [0; BLOCK_BYTES];
    write_block(&mut right, &header);
    match disagreeing(block, &right) {
        0 if expected.versions.contains(&version) => BlockVerdict::Good { version },
        0 => BlockVerdict::Stale { version },
        sectors => BlockVerdict::Torn { version: Some(version), sectors },
    }
}

/// The block does not say what it is: look whether any part of it is what it should be.
fn without_header(block: &[u8], expected: &Expected) -> BlockVerdict {
    let mut right = [0; BLOCK_BYTES];
    let all = touched(block.len());
    for version in expected.versions.clone().rev().take(VERSIONS_TRIED) {
        write_block(&mut right, &Header { file: expected.file, offset: expected.offset, version });
        let sectors = disagreeing(block, &right);
        if sectors == 0 {
            return BlockVerdict::Good { version };
        }
        let tail = block.len() > HEADER_BYTES && block[HEADER_BYTES..] == right[HEADER_BYTES..block.len()];
        if sectors != all || tail {
            return BlockVerdict::Torn { version: Some(version), sectors };
        }
    }
    BlockVerdict::Foreign
}
