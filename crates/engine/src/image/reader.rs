//! Reading an image: what it says of itself first, then chunk by chunk, in parallel.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::bounded;
use fsage_model::image::BLOCK_BYTES;
use fsage_model::image::{Header, Totals};

use super::encode::{self, Chunk, plain_limit};
use super::format::{
    DESCRIPTION_LIMIT, ENTRY_BYTES, Entry, FOOTER_BYTES, FRAME_BYTES, Footer, Frame, HASH, HEADER_START,
    MAGIC, VERSION, le32,
};
use super::{ImageError, as_u64, as_usize, go_on};
use crate::load::Control;

/// Entries of the index that are read at once. Each piece is checked before the next is read: memory grows
/// with what the file really holds, not with a length that a sparse file only claims.
const PIECE_ENTRIES: u64 = 1 << 15;

/// An image whose header, index and footer are right.
#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    file: File,
    pub(super) header: Header,
    header_hash: [u8; HASH],
    pub(super) totals: Totals,
    pub(super) entries: Vec<Entry>,
    pub(super) bytes: u64,
}

/// Room for reading chunks, used again for the next.
pub(super) struct Room {
    stored: Vec<u8>,
    plain: Vec<u8>,
    decompressor: zstd::bulk::Decompressor<'static>,
    pub(super) chunk: Chunk,
}

impl Image {
    /// Opens an image and checks everything but its chunks.
    pub(super) fn open(path: &Path) -> Result<Self, ImageError> {
        let error = || ImageError::file("read", path);
        let file = fsage_sys::input::open(path).map_err(ImageError::file("open", path))?;
        let bytes = file.metadata().map_err(error())?.len();
        let (header, header_hash, header_bytes) = read_header(path, &file, bytes)?;
        let damaged = |part: &str, what| damaged(path, part, what);
        let short = || damaged("footer", "it is missing: the image is truncated or was never finished");
        let footer_at = bytes.checked_sub(as_u64(FOOTER_BYTES)).filter(|at| *at >= header_bytes);
        let footer_at = footer_at.ok_or_else(short)?;
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, footer_at).map_err(error())?;
        let footer = Footer::decode(&footer, &header_hash).map_err(|what| damaged("footer", what))?;
        let totals_bytes = as_usize(u64::from(footer.totals_bytes));
        let index_bytes = footer_at.checked_sub(footer.index_offset);
        let entries_bytes = footer.chunks.checked_mul(as_u64(ENTRY_BYTES));
        let fits = entries_bytes.and_then(|entries| entries.checked_add(u64::from(footer.totals_bytes)));
        if index_bytes.is_none() || index_bytes != fits || totals_bytes > DESCRIPTION_LIMIT {
            return Err(damaged("footer", "it names an index of another length"));
        }
        if footer.chunks > header.volume_blocks().div_ceil(u64::from(header.span_blocks)) {
            return Err(damaged("footer", "it names more chunks than the volume has places for"));
        }
        let mut hasher = blake3::Hasher::new();
        let mut check = IndexCheck { header: &header, offset: header_bytes, block: 0, entries: Vec::new() };
        let mut at = footer.index_offset;
        let mut piece = Vec::new();
        let mut left = footer.chunks;
        while left > 0 {
            let count = left.min(PIECE_ENTRIES);
            piece.resize(as_usize(count) * ENTRY_BYTES, 0);
            file.read_exact_at(&mut piece, at).map_err(error())?;
            hasher.update(&piece);
            check.take(&piece).map_err(|what| damaged("index", what))?;
            (at, left) = (at + as_u64(piece.len()), left - count);
        }
        let entries = check.end(footer.index_offset).map_err(|what| damaged("index", what))?;
        let mut totals = vec![0; totals_bytes];
        file.read_exact_at(&mut totals, at).map_err(error())?;
        hasher.update(&totals);
        if hasher.finalize().as_bytes() != &footer.index_hash {
            return Err(damaged("index", "its hash does not match"));
        }
        let totals: Totals =
            serde_json::from_slice(&totals).map_err(|_| damaged("index", "its totals are invalid"))?;
        if totals.used_blocks > header.volume_blocks() || !totals.add_up() {
            return Err(damaged("index", "its totals do not fit a volume of its size"));
        }
        Ok(Self { path: path.to_owned(), file, header, header_hash, totals, entries, bytes })
    }

    pub(super) fn room(&self) -> Result<Room, ImageError> {
        Ok(Room {
            stored: Vec::new(),
            plain: Vec::new(),
            decompressor: zstd::bulk::Decompressor::new().map_err(ImageError::Thread)?,
            chunk: Chunk::new(self.header.span_bytes()),
        })
    }

    /// Whether the totals of its chunks are those that it names.
    pub(super) fn check_totals(&self, found: &Totals) -> Result<(), ImageError> {
        if *found == self.totals {
            return Ok(());
        }
        Err(damaged(&self.path, "index", "its totals are not those of its chunks"))
    }

    fn damaged(&self, entry: &Entry, what: &'static str) -> ImageError {
        let number = self.entries.iter().position(|one| one.offset == entry.offset).unwrap_or(0);
        let place = entry.first_block * BLOCK_BYTES;
        damaged(&self.path, &format!("chunk {number} (from byte {place} of the volume)"), what)
    }

    /// Reads a chunk as it is stored and checks it; the result is for [`Image::decode`].
    pub(super) fn load(&self, entry: &Entry, room: &mut Room) -> Result<Frame, ImageError> {
        room.stored.resize(as_usize(u64::from(entry.length)), 0);
        self.file
            .read_exact_at(&mut room.stored, entry.offset)
            .map_err(ImageError::file("read", &self.path))?;
        let (frame, _) = Frame::decode(&room.stored).map_err(|what| self.damaged(entry, what))?;
        let blocks = as_usize(u64::from(self.header.span_blocks));
        let what = if frame.image[..] != self.header_hash[..8] {
            "it is of another image"
        } else if room.stored[48..56] != entry.check
            || (frame.first_block, frame.used_blocks) != (entry.first_block, entry.used_blocks)
        {
            "it is not the one that the index names"
        } else if as_usize(u64::from(frame.plain_bytes)) > plain_limit(blocks) {
            "it is too long"
        } else {
            return Ok(frame);
        };
        Err(self.damaged(entry, what))
    }

    /// The content hash that a chunk's frame names, which is not checked.
    pub(super) fn content_of(&self, entry: &Entry) -> Result<[u8; 16], ImageError> {
        let mut hash = [0; 16];
        self.file
            .read_exact_at(&mut hash, entry.offset + 32)
            .map_err(ImageError::file("read", &self.path))?;
        Ok(hash)
    }

    /// Makes the blocks of a chunk that was loaded into the same room, and checks them.
    pub(super) fn decode(&self, entry: &Entry, frame: &Frame, room: &mut Room) -> Result<(), ImageError> {
        let damaged = |what| self.damaged(entry, what);
        room.plain.resize(as_usize(u64::from(frame.plain_bytes)), 0);
        let got = room.decompressor.decompress_to_buffer(&room.stored[FRAME_BYTES..], &mut room.plain[..]);
        if got.ok() != Some(room.plain.len()) {
            return Err(damaged("it does not decompress"));
        }
        let blocks = as_usize(self.header.span_at(frame.first_block));
        encode::decode(&room.plain, blocks, &mut room.chunk).map_err(damaged)?;
        if room.chunk.totals.used_blocks != u64::from(frame.used_blocks) {
            return Err(damaged("it has another number of blocks than it says"));
        }
        if encode::content(&room.chunk.stretch, frame.first_block, &room.chunk.runs) != frame.content {
            return Err(damaged("its blocks do not match their hash"));
        }
        Ok(())
    }

    /// Does `each` for every chunk, on `threads` threads; what it returns goes to `collect` on the calling
    /// thread, in no order. Ends at the first error.
    pub(super) fn each<T: Send>(
        &self,
        threads: usize,
        control: &Control,
        each: impl Fn(usize, &Entry, &mut Room) -> Result<T, ImageError> + Sync,
        mut collect: impl FnMut(T) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let next = AtomicUsize::new(0);
        let over = AtomicBool::new(false);
        let (done_to, done) = bounded(threads * 2);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(self.entries.len()) {
                let done_to = done_to.clone();
                let (next, over, each) = (&next, &over, &each);
                let work = move || {
                    let mut room = match self.room() {
                        Ok(room) => room,
                        Err(error) => return drop(done_to.send(Err(error))),
                    };
                    while !over.load(Ordering::Acquire) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(entry) = self.entries.get(number) else { return };
                        let answer = go_on(control).and_then(|()| each(number, entry, &mut room));
                        if done_to.send(answer).is_err() {
                            return;
                        }
                    }
                };
                let started = std::thread::Builder::new().name("image".to_owned()).spawn_scoped(scope, work);
                started.map_err(ImageError::Thread)?;
            }
            drop(done_to);
            let mut count = 0;
            let outcome = (|| {
                for answer in &done {
                    collect(answer?)?;
                    count += 1;
                }
                Ok(())
            })();
            over.store(true, Ordering::Release);
            drop(done);
            outcome?;
            // A thread that panicked takes the scope with it; this is for the rest.
            if count == self.entries.len() {
                Ok(())
            } else {
                Err(ImageError::Thread(std::io::ErrorKind::Other.into()))
            }
        })
    }
}

fn damaged(path: &Path, part: &str, what: &'static str) -> ImageError {
    ImageError::Damaged { path: path.to_owned(), part: part.to_owned(), what }
}

fn read_header(path: &Path, file: &File, bytes: u64) -> Result<(Header, [u8; HASH], u64), ImageError> {
    let error = || ImageError::file("read", path);
    let not = |what| ImageError::NotAnImage { path: path.to_owned(), what };
    let least = as_u64(HEADER_START + HASH);
    if bytes < least {
        return Err(not("it is too short"));
    }
    let mut start = [0; HEADER_START];
    file.read_exact_at(&mut start, 0).map_err(error())?;
    let version = le32(&start, 8).unwrap_or(0);
    let length = as_usize(u64::from(le32(&start, 12).unwrap_or(0)));
    if start[..8] != MAGIC {
        return Err(not("it does not begin like one"));
    }
    if length > DESCRIPTION_LIMIT || least + as_u64(length) > bytes {
        return Err(damaged(path, "header", "its length is invalid"));
    }
    let mut all = vec![0; HEADER_START + length + HASH];
    file.read_exact_at(&mut all, 0).map_err(error())?;
    let (said, stored) = all.split_at(HEADER_START + length);
    let hash = *blake3::hash(said).as_bytes();
    if hash[..] != *stored {
        return Err(damaged(path, "header", "its hash does not match"));
    }
    // After the hash, so that a flipped bit is not taken for another version.
    if version != VERSION {
        return Err(ImageError::Version { path: path.to_owned(), version, known: VERSION });
    }
    let header: Header = serde_json::from_slice(&said[HEADER_START..])
        .map_err(|_| damaged(path, "header", "its description is invalid"))?;
    match header.fault() {
        Some(what) => Err(damaged(path, "header", what)),
        None => Ok((header, hash, as_u64(all.len()))),
    }
}

/// Chunks follow each other without gaps, in order of the volume.
struct IndexCheck<'a> {
    header: &'a Header,
    /// Where the next chunk must be in the image.
    offset: u64,
    /// The first block that the next chunk may have.
    block: u64,
    entries: Vec<Entry>,
}

impl IndexCheck<'_> {
    /// Takes whole entries in.
    fn take(&mut self, piece: &[u8]) -> Result<(), &'static str> {
        for entry in piece.chunks_exact(ENTRY_BYTES).filter_map(Entry::decode) {
            let length = as_usize(u64::from(entry.length));
            if entry.offset != self.offset || length < FRAME_BYTES {
                return Err("its chunks do not follow each other");
            }
            // A chunk is read whole: a sparse file has room for any length.
            let plain = plain_limit(as_usize(u64::from(self.header.span_blocks)));
            if length > FRAME_BYTES + zstd::zstd_safe::compress_bound(plain) {
                return Err("its chunks are longer than what they stand for");
            }
            let next = self.offset.checked_add(u64::from(entry.length));
            self.offset = next.ok_or("its chunks do not follow each other")?;
            let span = u64::from(self.header.span_blocks);
            let aligned = entry.first_block.is_multiple_of(span);
            if entry.first_block < self.block || !aligned || entry.first_block >= self.header.volume_blocks()
            {
                return Err("its chunks are not in order of the volume");
            }
            self.block = entry.first_block + span;
            self.entries.push(entry);
        }
        Ok(())
    }

    fn end(self, end: u64) -> Result<Vec<Entry>, &'static str> {
        if self.offset == end { Ok(self.entries) } else { Err("its chunks do not fill the image") }
    }
}
