//! The 32 bytes a block begins with; their layout and its reasons are in the crate's documentation.

use crate::HEADER_BYTES;

/// First bytes of every block.
pub(crate) const MAGIC: [u8; 4] = *b"fSG1";

/// Increment of SplitMix64 (Steele, Lea & Flood 2014): 2^64 / golden ratio, odd.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a block says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Header {
    /// Identity of the file's content.
    pub file: u64,
    /// Byte offset of the block in the file, a multiple of 4096.
    pub offset: u64,
    /// Which writing of this block it is.
    pub version: u32,
}

/// Finaliser of SplitMix64: a bijection of 64-bit numbers that takes 0 to 0.
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Header {
    /// The number that vouches for the header and seeds the stream.
    #[inline]
    pub(crate) fn check(&self) -> u64 {
        let [a, b, c, d] = MAGIC;
        let [e, f, g, h] = self.version.to_le_bytes();
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let check = mix(GOLDEN ^ first);
        let check = mix(check ^ self.file);
        mix(check ^ self.offset)
    }

    /// The header as it lies in the block.
    #[inline]
    pub(crate) fn encode(&self, check: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.file.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Header and stored check of bytes that need not be right; the magic is not inspected.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> (Self, u64) {
        let mut version = [0; 4];
        version.copy_from_slice(&bytes[4..8]);
        let word = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(word)
        };
        (Self { file: word(8), offset: word(16), version: u32::from_le_bytes(version) }, word(24))
    }
}
