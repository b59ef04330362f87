//! The file, byte by byte. All numbers are little-endian.
//!
//! | part | bytes | what |
//! | --- | --- | --- |
//! | header | 0..8 | magic `fsageIMG` |
//! | | 8..12 | version, u32 |
//! | | 12..16 | length n of the description, u32, at most 64 KiB |
//! | | 16..16+n | description: [`Header`] as JSON |
//! | | 32 bytes | BLAKE3 of everything before; its first 8 bytes are the image's number |
//! | chunk, any number | 0..4 | magic `fsCh` |
//! | | 4..8 | stored bytes s of the payload, u32 |
//! | | 8..12 | plain bytes of the payload, u32 |
//! | | 12..16 | used blocks in it, u32 |
//! | | 16..24 | first block of its stretch of the volume, u64, a multiple of the span |
//! | | 24..32 | the image's number |
//! | | 32..48 | content: first 16 bytes of the BLAKE3 over its used blocks (`super::encode`) |
//! | | 48..64 | check: first 16 bytes of the BLAKE3 of 0..48 and the payload as stored |
//! | | 64..64+s | payload: one zstd frame |
//! | index | 32 a chunk | first block u64, offset in the file u64, length of frame and payload u32, used blocks u32, first 8 bytes of the check |
//! | | n bytes | [`Totals`](fsage_model::image::Totals) as JSON |
//! | footer | 0..8 | magic `fsageEND` |
//! | | 8..16 | offset of the index, u64 |
//! | | 16..24 | chunks, u64 |
//! | | 24..28 | length n of the totals, u32 |
//! | | 28..32 | version, u32 |
//! | | 32..64 | BLAKE3 of the index |
//! | | 64..96 | BLAKE3 of 0..64 and the header's hash |
//!
//! The header comes first so that the file says what it is; the index comes last so that an image is written
//! in one pass; the footer has a fixed length, so that it is found from the end. A chunk stands for a fixed
//! stretch of the volume ([`Header::span_blocks`] blocks); one without used blocks is left out. The parts
//! follow each other without gaps, in order of the volume. So every byte is under a hash, no part can be
//! missing, twice, or of another image.

use fsage_model::image::Header;

use super::as_u64;

/// Version of the format. Changes: 1 first.
pub const VERSION: u32 = 1;

pub(super) const MAGIC: [u8; 8] = *b"fsageIMG";
const CHUNK_MAGIC: [u8; 4] = *b"fsCh";
const END_MAGIC: [u8; 8] = *b"fsageEND";

/// Bytes of the header before its description.
pub(super) const HEADER_START: usize = 16;
/// Longest description and longest totals.
pub(super) const DESCRIPTION_LIMIT: usize = 64 << 10;
/// Bytes of a BLAKE3 hash.
pub(super) const HASH: usize = 32;
/// Bytes of a chunk before its payload.
pub const FRAME_BYTES: usize = 64;
/// Bytes of an entry of the index.
pub(super) const ENTRY_BYTES: usize = 32;
/// Bytes of the footer.
pub(super) const FOOTER_BYTES: usize = 96;

/// The start of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of the payload in the file.
    pub stored_bytes: u32,
    /// Bytes of the payload after decompression.
    pub plain_bytes: u32,
    /// Used blocks in it.
    pub used_blocks: u32,
    /// First block of its stretch.
    pub first_block: u64,
    /// First 8 bytes of the header's hash.
    pub image: [u8; 8],
    /// Hash of its used blocks.
    pub content: [u8; 16],
}

impl Frame {
    /// The frame's bytes; the check is made over them and the payload.
    pub(super) fn encode(&self, payload: &[u8]) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[0..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4..8].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.plain_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.used_blocks.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_block.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.image);
        bytes[32..48].copy_from_slice(&self.content);
        let check = Self::check(&bytes, payload);
        bytes[48..64].copy_from_slice(&check);
        bytes
    }

    fn check(frame: &[u8], payload: &[u8]) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&frame[..48]);
        hasher.update(payload);
        half(hasher.finalize().as_bytes())
    }

    /// Reads a chunk's frame and payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let (start, payload) = bytes.split_at_checked(FRAME_BYTES).ok_or("it is cut short")?;
        let u32_at = |at| le32(start, at).ok_or("it is cut short");
        if start[..4] != CHUNK_MAGIC {
            return Err("it has no chunk header");
        }
        if Self::check(start, payload)[..] != start[48..64] {
            return Err("its checksum does not match");
        }
        let frame = Self {
            stored_bytes: u32_at(4)?,
            plain_bytes: u32_at(8)?,
            used_blocks: u32_at(12)?,
            first_block: le64(start, 16).ok_or("it is cut short")?,
            image: start[24..32].try_into().map_err(|_| "it is cut short")?,
            content: start[32..48].try_into().map_err(|_| "it is cut short")?,
        };
        if u64::from(frame.stored_bytes) != as_u64(payload.len()) {
            return Err("its length does not match");
        }
        Ok((frame, payload))
    }
}

/// What the index says of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// First block of its stretch.
    pub first_block: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes of frame and payload.
    pub length: u32,
    /// Used blocks in it.
    pub used_blocks: u32,
    /// First 8 bytes of its check.
    pub check: [u8; 8],
}

impl Entry {
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        into.extend(self.first_block.to_le_bytes());
        into.extend(self.offset.to_le_bytes());
        into.extend(self.length.to_le_bytes());
        into.extend(self.used_blocks.to_le_bytes());
        into.extend(self.check);
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            first_block: le64(bytes, 0)?,
            offset: le64(bytes, 8)?,
            length: le32(bytes, 16)?,
            used_blocks: le32(bytes, 20)?,
            check: bytes.get(24..32)?.try_into().ok()?,
        })
    }
}

/// The end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Where the index begins.
    pub index_offset: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of the totals.
    pub totals_bytes: u32,
    /// Hash of the index.
    pub index_hash: [u8; HASH],
}

impl Footer {
    pub(super) fn encode(&self, header_hash: &[u8; HASH]) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[0..8].copy_from_slice(&END_MAGIC);
        bytes[8..16].copy_from_slice(&self.index_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.totals_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&VERSION.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.index_hash);
        let hash = Self::check(&bytes, header_hash);
        bytes[64..96].copy_from_slice(&hash);
        bytes
    }

    fn check(bytes: &[u8], header_hash: &[u8; HASH]) -> [u8; HASH] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes[..64]);
        hasher.update(header_hash);
        *hasher.finalize().as_bytes()
    }

    /// Reads the last bytes of a file.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn decode(bytes: &[u8], header_hash: &[u8; HASH]) -> Result<Self, &'static str> {
        const SHORT: &str = "it is cut short";
        if bytes.len() != FOOTER_BYTES {
            return Err(SHORT);
        }
        if bytes[..8] != END_MAGIC {
            return Err("it is missing: the image is truncated or was never finished");
        }
        if Self::check(bytes, header_hash)[..] != bytes[64..96] {
            return Err("its hash does not match");
        }
        Ok(Self {
            index_offset: le64(bytes, 8).ok_or(SHORT)?,
            chunks: le64(bytes, 16).ok_or(SHORT)?,
            totals_bytes: le32(bytes, 24).ok_or(SHORT)?,
            index_hash: bytes[32..64].try_into().map_err(|_| SHORT)?,
        })
    }
}

pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The first half of a hash.
pub(super) fn half(hash: &[u8; HASH]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    first
}
/// A header's bytes and its hash.
pub(super) fn encode_header(header: &Header) -> Option<(Vec<u8>, [u8; HASH])> {
    let json = serde_json::to_vec(header).ok().filter(|json| json.len() <= DESCRIPTION_LIMIT)?;
    let mut bytes = Vec::with_capacity(HEADER_START + json.len() + HASH);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(u32::try_from(json.len()).ok()?.to_le_bytes());
    bytes.extend(json);
    let hash = *blake3::hash(&bytes).as_bytes();
    bytes.extend(hash);
    Some((bytes, hash))
}
