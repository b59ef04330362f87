//! Logs in files of our own, with or without the data of the writes. All numbers are little-endian.
//!
//! | part | bytes | what |
//! | --- | --- | --- |
//! | header | 0..8 | magic `fsageLOG` |
//! | | 8..12 | version, u32 |
//! | | 12..16 | the disk's logical block in bytes, u32 |
//! | | 16..24 | the disk's size in bytes, u64 |
//! | | 24..40 | drawn at random, so that chunks of another log are recognised |
//! | | 40..72 | BLAKE3 of everything before; its first 8 bytes are the log's number |
//! | chunk, any number | 0..4 | magic `fsLc` |
//! | | 4..8 | stored bytes s of the payload, u32 |
//! | | 8..12 | plain bytes of the payload, u32 |
//! | | 12..16 | items (entries and marks) in it, u32, at least 1 |
//! | | 16..24 | number of its first entry, u64 |
//! | | 24..32 | the log's number |
//! | | 32..64 | BLAKE3 of 0..32 and the payload as stored |
//! | | 64..64+s | payload: one zstd frame of the columns ([`chunk`]) |
//! | footer | 0..4 | magic `fsLe` |
//! | | 4..8 | 0 |
//! | | 8..16 | entries, u64 |
//! | | 16..24 | marks, u64 |
//! | | 24..32 | the log's number |
//! | | 32..64 | BLAKE3 of 0..32 |
//!
//! A log is written in one pass while the disk works, hence the totals at the end; the header says what the
//! file is before anything must be believed. A chunk's head has its length and first entry, so that a reader
//! which wants entry n steps over chunks without unpacking them, and a chunk stands alone: a damaged one
//! costs no other. Magic, length and numbers precede the check because the check covers them. Every byte is
//! under a hash, no chunk can be missing, twice, out of order or of another log, and a file without footer is
//! cut off.

pub mod chunk;
mod reader;

pub use reader::Reader;

use std::io::Write;

use fsage_model::disk::call::Converted;

use super::stream::{Item, Sink};
use super::{Geometry, LogError};
use chunk::Columns;

/// Version of the format. Changes: 1 first.
pub const VERSION: u32 = 1;

/// The format's name in messages.
const FORMAT: &str = "log of fsage";

pub(super) const MAGIC: [u8; 8] = *b"fsageLOG";
const CHUNK_MAGIC: [u8; 4] = *b"fsLc";
const END_MAGIC: [u8; 4] = *b"fsLe";

const HEADER_BYTES: usize = 72;
/// Bytes of a chunk before its payload, and of the footer.
const HEAD_BYTES: usize = 64;
/// Bytes of a head that its hash covers.
const HEAD_PLAIN: usize = 32;

/// Entries after which a chunk ends.
const CHUNK_ITEMS: u32 = 1 << 13;
/// Plain bytes after which a chunk ends.
const CHUNK_BYTES: usize = 4 << 20;
/// Most plain bytes of a chunk: it ends at the first item that goes beyond [`CHUNK_BYTES`].
const PLAIN_LIMIT: usize = CHUNK_BYTES + super::stream::DATA_LIMIT_BYTES + (1 << 20);

/// Compression: more costs several times the time for a few per cent.
const LEVEL: i32 = 3;

/// Writes a log into a file.
pub struct Writer<W> {
    file: W,
    number: [u8; 8],
    compressor: zstd::bulk::Compressor<'static>,
    columns: Columns,
    plain: Vec<u8>,
    stored: Vec<u8>,
    converted: Converted,
    first: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a log. `salt` is drawn at random; the same items with the same salt make the same bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(mut file: W, geometry: Geometry, salt: u128) -> Result<Self, LogError> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&geometry.block_bytes.to_le_bytes());
        header.extend_from_slice(&geometry.size_bytes.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        let hash = blake3::hash(&header);
        header.extend_from_slice(hash.as_bytes());
        file.write_all(&header).map_err(LogError::write)?;
        Ok(Self {
            file,
            number: first_8(hash.as_bytes()),
            compressor: zstd::bulk::Compressor::new(LEVEL).map_err(LogError::write)?,
            columns: Columns::default(),
            plain: Vec::new(),
            stored: Vec::new(),
            converted: Converted::default(),
            first: 0,
        })
    }

    /// Writes what was gathered.
    fn end_chunk(&mut self) -> Result<(), LogError> {
        if self.columns.items() == 0 {
            return Ok(());
        }
        self.plain.clear();
        self.columns.encode(&mut self.plain);
        self.stored.resize(zstd::zstd_safe::compress_bound(self.plain.len()), 0);
        let length = self.compressor.compress_to_buffer(&self.plain, &mut self.stored);
        let length = length.map_err(LogError::write)?;
        let sizes = [length, self.plain.len()].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let words = [sizes[0], sizes[1], self.columns.items()];
        let head = head(CHUNK_MAGIC, words, self.first, self.number, &self.stored[..length]);
        self.file.write_all(&head).map_err(LogError::write)?;
        self.file.write_all(&self.stored[..length]).map_err(LogError::write)?;
        self.columns.clear();
        self.first = self.converted.entries;
        Ok(())
    }
}

impl<W: Write> Sink for Writer<W> {
    fn put(&mut self, item: &Item, data: &[u8]) -> Result<(), LogError> {
        let number = self.converted.entries;
        self.columns.add(item, data).map_err(|what| LogError::Unfit {
            format: FORMAT,
            number,
            what: what.to_owned(),
        })?;
        match item {
            Item::Entry(_) => self.converted.entries += 1,
            Item::Mark(_) => self.converted.marks += 1,
        }
        if self.columns.items() >= CHUNK_ITEMS || self.columns.bytes() >= CHUNK_BYTES {
            self.end_chunk()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Converted, LogError> {
        self.end_chunk()?;
        let mut footer = Vec::with_capacity(HEAD_BYTES);
        footer.extend_from_slice(&END_MAGIC);
        footer.extend_from_slice(&[0; 4]);
        footer.extend_from_slice(&self.converted.entries.to_le_bytes());
        footer.extend_from_slice(&self.converted.marks.to_le_bytes());
        footer.extend_from_slice(&self.number);
        let hash = blake3::hash(&footer);
        footer.extend_from_slice(hash.as_bytes());
        self.file.write_all(&footer).map_err(LogError::write)?;
        self.file.flush().map_err(LogError::write)?;
        Ok(self.converted)
    }
}

/// The head of a chunk.
fn head(magic: [u8; 4], words: [u32; 3], first: u64, number: [u8; 8], payload: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&magic);
    for (room, word) in head[4..16].chunks_exact_mut(4).zip(words) {
        room.copy_from_slice(&word.to_le_bytes());
    }
    head[16..24].copy_from_slice(&first.to_le_bytes());
    head[24..32].copy_from_slice(&number);
    let hash = hash_of(&head, payload);
    head[HEAD_PLAIN..].copy_from_slice(&hash);
    head
}

/// The hash of a head and what follows it.
fn hash_of(head: &[u8; HEAD_BYTES], payload: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(&head[..HEAD_PLAIN]).update(payload).finalize().as_bytes()
}

fn first_8(hash: &[u8; 32]) -> [u8; 8] {
    let mut number = [0; 8];
    number.copy_from_slice(&hash[..8]);
    number
}
