//! Self-describing file data: make it, recognise it, verify it.
//!
//! File data is made of blocks of [`BLOCK_BYTES`] at block-aligned offsets of the file. Each block says
//! what it is in its first 32 bytes; the rest is a pseudo-random stream that follows from them. All
//! numbers are little-endian.
//!
//! | bytes | what | why there |
//! | --- | --- | --- |
//! | 0..4 | magic `fSG1` (no byte is 0) | foreign data is refused after one comparison |
//! | 4..8 | version, u32 | a tail of 8 bytes still tells old data from new |
//! | 8..16 | file, u64 | whose data it is |
//! | 16..24 | offset of the block in the file in bytes, u64, a multiple of 4096 | where it belongs |
//! | 24..32 | check, u64: a chain of bijective mixes over bytes 0..24 | last, so that it vouches for what precedes it |
//! | 32..4096 | bytes 32.. of the stream | |
//!
//! The stream is that of eight xorshift64 generators (Marsaglia 2003, triple 13, 7, 17), generator i
//! seeded with the SplitMix64 finaliser of check + (i + 1) × 0x9e3779b97f4a7c15 (a seed of 0 is replaced
//! by that constant). In each step all eight advance and give 64 bytes, generator 0 first; the first 32
//! bytes of the first step are not used, the header lies there. So the data is incompressible, no two
//! blocks are alike, and anyone who has the header has the block.
//!
//! **Tails.** The last block of a file may be any prefix of its block. From a page or device block, where
//! zeros follow the prefix, the length is known only as "up to the last byte that is not 0": one tail
//! in 256 seems a byte too short, and regenerating that length gives the same block all the same. A prefix
//! shorter than the header cannot be checked: it is a [`Block::Fragment`], which [`verify`] compares with
//! the headers it expects; without an expectation it is only "starts like our data". Under 8 bytes
//! the version cannot be determined, under 4 bytes and without magic nothing can.
//!
//! **What is detected.** Every single-bit flip: each mix is a bijection, so a flipped header bit never
//! leaves the check right, and every byte of the stream is compared. A foreign block passes with
//! a probability of about 2^-96.

#![forbid(unsafe_code)]

mod block;
mod header;
mod stream;

pub use block::{Block, BlockVerdict, Expected, recognise, verify};
pub use header::Header;
pub use stream::fill;

/// Bytes of a block, and alignment of blocks in a file.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes of a block's header.
pub const HEADER_BYTES: usize = 32;

/// Bytes of a sector: the unit in which a torn block is described.
pub const SECTOR_BYTES: usize = 512;
