//! Reads logs of our own from files.

use std::io::{Read, Seek, SeekFrom};

use super::chunk::Items;
use super::{
    CHUNK_ITEMS, CHUNK_MAGIC, END_MAGIC, FORMAT, HEAD_BYTES, HEADER_BYTES, MAGIC, PLAIN_LIMIT, VERSION,
    first_8, hash_of,
};
use crate::log::stream::{Item, Source};
use crate::log::{Geometry, LogError, error::LogPosition};

/// A log in a file, from its beginning. Memory: one chunk, at most 80 MiB for the largest write.
pub struct Reader<R> {
    file: R,
    geometry: Geometry,
    number: [u8; 8],
    decompressor: zstd::bulk::Decompressor<'static>,
    items: Items,
    stored: Vec<u8>,
    entries: u64,
    marks: u64,
    /// Marks in chunks that were stepped over are not counted.
    skipped: bool,
    ended: bool,
}

/// A chunk's head.
struct Head {
    bytes: [u8; HEAD_BYTES],
    stored: usize,
    plain: usize,
    items: u32,
    first: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The file is no log, of another version, damaged or cannot be read.
    pub fn new(mut file: R) -> Result<Self, LogError> {
        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header).map_err(|source| LogError::read(source, LogPosition::Header))?;
        if header[..8] != MAGIC {
            return Err(LogError::Foreign { format: FORMAT, what: "it does not begin like one" });
        }
        let version = u32_at(&header, 8);
        if version != VERSION {
            let (version, known) = (u64::from(version), u64::from(VERSION));
            return Err(LogError::Version { format: FORMAT, version, known });
        }
        let hash = blake3::hash(&header[..40]);
        if header[40..] != *hash.as_bytes() {
            return Err(LogError::malformed(LogPosition::Header, "its checksum is wrong"));
        }
        Ok(Self {
            file,
            geometry: Geometry { size_bytes: u64_at(&header, 16), block_bytes: u32_at(&header, 12) },
            number: first_8(hash.as_bytes()),
            decompressor: zstd::bulk::Decompressor::new()
                .map_err(|source| LogError::Io { what: "unpack", source })?,
            items: Items::default(),
            stored: Vec::new(),
            entries: 0,
            marks: 0,
            skipped: false,
            ended: false,
        })
    }

    /// The number of the entry that comes next.
    pub const fn next_entry(&self) -> u64 {
        self.entries
    }

    fn malformed(&self, what: &str) -> LogError {
        LogError::malformed(LogPosition::Entry(self.entries), what)
    }

    /// The next chunk's head; none behind the footer, which is checked.
    fn head(&mut self) -> Result<Option<Head>, LogError> {
        let mut bytes = [0; HEAD_BYTES];
        let place = LogPosition::Entry(self.entries);
        self.file.read_exact(&mut bytes).map_err(|source| LogError::read(source, place))?;
        if bytes[24..32] != self.number {
            return Err(self.malformed("what is there is not of this log"));
        }
        if bytes[..4] == END_MAGIC {
            self.footer(&bytes)?;
            return Ok(None);
        }
        if bytes[..4] != CHUNK_MAGIC {
            return Err(self.malformed("no chunk begins there"));
        }
        let size = |at| usize::try_from(u32_at(&bytes, at)).unwrap_or(usize::MAX);
        let (stored, plain) = (size(4), size(8));
        let (items, first) = (u32_at(&bytes, 12), u64_at(&bytes, 16));
        let possible = 1..=CHUNK_ITEMS;
        if plain > PLAIN_LIMIT
            || stored > zstd::zstd_safe::compress_bound(PLAIN_LIMIT)
            || !possible.contains(&items)
        {
            return Err(self.malformed("a chunk has an impossible size"));
        }
        Ok(Some(Head { bytes, stored, plain, items, first }))
    }

    fn footer(&mut self, bytes: &[u8; HEAD_BYTES]) -> Result<(), LogError> {
        let malformed = |what: &str| LogError::malformed(LogPosition::Footer, what);
        if bytes[32..] != hash_of(bytes, &[]) {
            return Err(malformed("its checksum is wrong"));
        }
        if u64_at(bytes, 8) != self.entries || (!self.skipped && u64_at(bytes, 16) != self.marks) {
            return Err(malformed("it counts other entries than there are"));
        }
        if self.file.read(&mut [0]).map_err(|source| LogError::read(source, LogPosition::Footer))? != 0 {
            return Err(malformed("something follows it"));
        }
        self.ended = true;
        Ok(())
    }

    /// Unpacks the payload behind a head.
    fn unpack(&mut self, head: &Head) -> Result<(), LogError> {
        if head.first != self.entries {
            return Err(self.malformed("a chunk is missing before it"));
        }
        // Grows with what is there, not with what the head claims.
        self.stored.clear();
        let wanted = crate::log::as_u64(head.stored);
        let got = self.file.by_ref().take(wanted).read_to_end(&mut self.stored);
        let place = LogPosition::Entry(self.entries);
        if got.map_err(|source| LogError::read(source, place))? != head.stored {
            return Err(LogError::Truncated { place });
        }
        if head.bytes[32..] != hash_of(&head.bytes, &self.stored) {
            return Err(self.malformed("its chunk's checksum is wrong"));
        }
        let mut plain = std::mem::take(&mut self.items).into_buffer();
        plain.clear();
        plain.reserve(head.plain);
        let unpacked = self.decompressor.decompress_to_buffer(&self.stored, &mut plain);
        if unpacked.ok() != Some(head.plain) {
            return Err(self.malformed("its chunk cannot be unpacked"));
        }
        self.items = Items::default().decode(plain, head.items).map_err(|what| self.malformed(what))?;
        Ok(())
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Steps over chunks that end before entry `number`; entries before it may still come. Their checks are
    /// not inspected. Only at the beginning of a chunk, best before anything is read.
    ///
    /// # Errors
    /// What is in between is damaged, cut off or cannot be read.
    pub fn skip_to(&mut self, number: u64) -> Result<(), LogError> {
        let io = |source| LogError::Io { what: "seek in", source };
        let mut behind: Option<(u64, u64)> = None;
        while self.items.left() == 0 && !self.ended {
            let at = self.file.stream_position().map_err(io)?;
            let found = self.peek()?;
            // A chunk ends where the next one, or the footer, says that it begins.
            match (found, behind) {
                (Some((first, _)), Some((before, entries))) if first > number => {
                    self.file.seek(SeekFrom::Start(before)).map_err(io)?;
                    self.entries = entries;
                    return Ok(());
                }
                (Some((first, length)), _) => {
                    (behind, self.entries) = (Some((at, first)), first);
                    self.skipped |= first > 0;
                    let next = at.checked_add(length).ok_or_else(|| self.malformed("it is too long"))?;
                    self.file.seek(SeekFrom::Start(next)).map_err(io)?;
                }
                (None, Some((before, entries))) => {
                    self.file.seek(SeekFrom::Start(before)).map_err(io)?;
                    self.entries = entries;
                    return Ok(());
                }
                (None, None) => {
                    self.file.seek(SeekFrom::Start(at)).map_err(io)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// First entry and length of the chunk that begins here; none at the footer.
    fn peek(&mut self) -> Result<Option<(u64, u64)>, LogError> {
        let mut bytes = [0; HEAD_BYTES];
        let place = LogPosition::Entry(self.entries);
        self.file.read_exact(&mut bytes).map_err(|source| LogError::read(source, place))?;
        if bytes[..4] == CHUNK_MAGIC && bytes[24..32] == self.number {
            let length = u64::from(u32_at(&bytes, 4)) + crate::log::as_u64(HEAD_BYTES);
            return Ok(Some((u64_at(&bytes, 16), length)));
        }
        if bytes[..4] == END_MAGIC {
            return Ok(None);
        }
        Err(self.malformed("no chunk begins there"))
    }
}

impl<R: Read> Source for Reader<R> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError> {
        data.clear();
        if self.ended {
            return Ok(None);
        }
        if self.items.left() == 0 {
            let Some(head) = self.head()? else { return Ok(None) };
            self.unpack(&head)?;
        }
        let item = self.items.next(self.entries, data).map_err(|what| self.malformed(what))?;
        match &item {
            Item::Entry(_) => self.entries += 1,
            Item::Mark(_) => self.marks += 1,
        }
        Ok(Some(item))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
