//! A digest of a set of things that does not depend on the order they come in: each thing gets a 128-bit
//! hash, and the digest is their sum modulo 2^128. So threads digest their own parts and the sum is the
//! whole.
//!
//! It tells accidents apart, not attacks: the hash is two chains of SplitMix64 finalisers (Steele, Lea &
//! Flood 2014), not a cryptographic one. Its values are part of the stored results: they must not change.

use std::fmt;

/// A digest. The default is that of nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest(u128);

const SALTS: [u64; 2] = [0x6673_6167_6520_6469, 0x6765_7374_2031_3238];

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Two chains over the same words.
struct Hash([u64; 2]);

impl Hash {
    fn word(&mut self, word: u64) {
        for chain in &mut self.0 {
            *chain = mix(chain.rotate_left(23) ^ word).wrapping_add(*chain);
        }
    }

    /// Length first, so that what follows cannot be taken for a part of it.
    fn bytes(&mut self, bytes: &[u8]) {
        self.word(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u128 {
        let [low, high] = self.0.map(mix);
        u128::from(low) | (u128::from(high) << 64)
    }
}

impl Digest {
    /// Adds one thing made of numbers.
    pub fn add(&mut self, words: &[u64]) {
        self.add_bytes(words, b"", b"");
    }

    /// Adds one thing made of numbers and two texts.
    pub fn add_bytes(&mut self, words: &[u64], first: &[u8], second: &[u8]) {
        let mut hash = Hash(SALTS);
        for word in words {
            hash.word(*word);
        }
        hash.bytes(first);
        hash.bytes(second);
        self.0 = self.0.wrapping_add(hash.finish());
    }

    /// Adds every thing of another digest.
    pub fn merge(&mut self, other: &Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl std::str::FromStr for Digest {
    type Err = std::num::ParseIntError;

    /// The 32 hex digits that [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl fmt::Display for Digest {
    /// 32 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_parts_do_not_matter_but_things_do() {
        let mut forth = Digest::default();
        forth.add(&[1, 2]);
        forth.add_bytes(&[3], b"name", b"text");
        let mut back = Digest::default();
        back.add_bytes(&[3], b"name", b"text");
        let mut part = Digest::default();
        part.add(&[1, 2]);
        back.merge(&part);
        assert_eq!(forth, back);
        assert_ne!(forth, part);
        let mut split = Digest::default();
        split.add(&[1, 2]);
        split.add_bytes(&[3], b"namet", b"ext");
        assert_ne!(forth, split);
        assert_eq!(Digest::default().to_string(), "0".repeat(32));
        assert_eq!(forth.to_string().parse(), Ok(forth));
        assert!("not hex".parse::<Digest>().is_err());
    }
}
