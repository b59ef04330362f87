//! From bytes to what a map holds.
//!
//! Whole blocks are inspected one by one: zeros and self-describing blocks become codes, the rest goes to
//! pages, in place where nobody else refers to the page and nothing is recorded, else to new ones. Parts of
//! blocks are merged with what was there, and the whole is inspected again.

use super::code::{BLOCK, BLOCK_BYTES, Code, Page};
use super::error::StoreError;
use super::map::{Map, Pool};
use super::number::{index, wide};
use super::piece::{Content, Piece};
use super::read;

/// A block of zeros.
const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Writes to a map.
pub(super) struct Pen<'a> {
    /// What is written to.
    pub map: &'a mut Map,
    /// Where raw pages come from.
    pub pool: &'a mut Pool,
    /// Gets what was written.
    pub record: Option<&'a mut Vec<Piece>>,
}

impl Pen<'_> {
    /// Writes bytes. After an error some of them are written: what was recorded says which.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let (mut at, mut rest) = (offset, data);
        let within = index(at % BLOCK);
        if within > 0 || rest.len() < BLOCK_BYTES {
            let (head, tail) = rest.split_at(rest.len().min(BLOCK_BYTES - within));
            self.write_part(at, head)?;
            at += wide(head.len());
            rest = tail;
        }
        let (blocks, tail) = rest.as_chunks::<BLOCK_BYTES>();
        self.write_blocks(at / BLOCK, blocks)?;
        at += wide(blocks.as_flattened().len());
        if tail.is_empty() { Ok(()) } else { self.write_part(at, tail) }
    }

    fn write_blocks(&mut self, block: u64, blocks: &[[u8; BLOCK_BYTES]]) -> Result<(), StoreError> {
        let mut at = 0;
        let mut next = blocks.first().map(|block| Code::of(block));
        while let Some(mut code) = next.take() {
            let first = at;
            at += 1;
            while let Some(block) = blocks.get(at) {
                let seen = Code::of(block);
                let joined = match (code, seen) {
                    (None, None) => Some(None),
                    (Some(run), Some(more)) => run.join(wide(at - first), more).map(Some),
                    _ => None,
                };
                let Some(both) = joined else {
                    next = Some(seen);
                    break;
                };
                code = both;
                at += 1;
            }
            let start = block + wide(first);
            match code {
                Some(code) => self.put(start, wide(at - first), code),
                None => self.write_raw(start, blocks[first..at].as_flattened())?,
            }
        }
        Ok(())
    }

    /// Notes and records a run.
    fn put(&mut self, block: u64, blocks: u64, code: Code) {
        self.map.set(self.pool, block, blocks, code);
        if let Some(record) = &mut self.record {
            let piece = Piece::new(block * BLOCK, blocks * BLOCK, code, 0);
            piece.retain(self.pool);
            record.push(piece);
        }
    }

    fn write_raw(&mut self, block: u64, data: &[u8]) -> Result<(), StoreError> {
        let (mut block, mut rest) = (block, data);
        while !rest.is_empty() {
            let blocks = wide(rest.len()) / BLOCK;
            let done = if let Some((page, pages)) = self.pages_in_place(block, blocks) {
                let bytes = self.pool.arena.bytes_mut(page, index(pages));
                let (now, later) = rest.split_at(bytes.len());
                bytes.copy_from_slice(now);
                rest = later;
                pages
            } else {
                // While nothing is recorded what follows this run may be writable in place.
                let recording = self.record.is_some();
                let stretch = if recording { blocks } else { self.map.run_at(block, blocks).1 };
                let (page, pages) = self.append(&rest[..index(stretch * BLOCK)])?;
                self.put(block, pages, Code::Raw(page));
                rest = &rest[index(pages * BLOCK)..];
                pages
            };
            block += done;
        }
        Ok(())
    }

    /// The pages that a block and those behind it may be written to as they are.
    fn pages_in_place(&mut self, block: u64, blocks: u64) -> Option<(Page, u64)> {
        if self.record.is_some() {
            return None;
        }
        let (page, pages) = self.map.own_pages(block, blocks)?;
        let pages = self.pool.arena.writable(page, pages);
        (pages > 0).then_some((page, pages))
    }

    /// Puts as many whole blocks as possible into new consecutive pages.
    fn append(&mut self, data: &[u8]) -> Result<(Page, u64), StoreError> {
        let (page, pages) = self.pool.arena.allocate(data.len() / BLOCK_BYTES)?;
        let bytes = self.pool.arena.bytes_mut(page, pages);
        bytes.copy_from_slice(&data[..bytes.len()]);
        Ok((page, wide(pages)))
    }

    /// Writes within one block.
    fn write_part(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let piece = if self.record.is_some() { Some(self.keep_part(offset, data)?) } else { None };
        let merged = self.merge(offset, data);
        if let Some(piece) = piece {
            match (&merged, &mut self.record) {
                (Ok(()), Some(record)) => record.push(piece),
                _ => piece.release(self.pool),
            }
        }
        merged
    }

    /// Part of a block as a piece, in a page of its own: what the rest of the block held is no business of
    /// the log.
    fn keep_part(&mut self, offset: u64, data: &[u8]) -> Result<Piece, StoreError> {
        let (skip, length) = (Piece::within(offset), wide(data.len()));
        if data == &ZEROS[..data.len()] {
            return Ok(Piece::new(offset, length, Code::Zero, 0));
        }
        let (page, _) = self.pool.arena.allocate(1)?;
        let within = usize::from(skip);
        self.pool.arena.bytes_mut(page, 1)[within..within + data.len()].copy_from_slice(data);
        Ok(Piece::new(offset, length, Code::Raw(page), skip))
    }

    /// Merges bytes into the block in which they lie.
    fn merge(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if data.is_empty() {
            return Ok(());
        }
        let (block, within) = (offset / BLOCK, index(offset % BLOCK));
        let range = within..within + data.len();
        if let Some((page, _)) = self.pages_in_place(block, 1) {
            let bytes = self.pool.arena.bytes_mut(page, 1);
            bytes[range].copy_from_slice(data);
            if let Some(code) = Code::of(bytes) {
                self.map.set(self.pool, block, 1, code);
            }
            return Ok(());
        }
        let mut bytes = [0; BLOCK_BYTES];
        let (code, _) = self.map.run_at(block, 1);
        read::produce(&mut self.pool.arena, code, 1, 0, &mut bytes)?;
        bytes[range].copy_from_slice(data);
        let code = match Code::of(&bytes) {
            Some(code) => code,
            None => Code::Raw(self.append(&bytes)?.0),
        };
        self.map.set(self.pool, block, 1, code);
        Ok(())
    }

    /// Makes a range read as zeros. After an error some of it does: what was recorded says which.
    pub fn zero(&mut self, offset: u64, length: u64) -> Result<(), StoreError> {
        let end = offset + length;
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first > last {
            return self.zero_part(offset, length);
        }
        self.zero_part(offset, first * BLOCK - offset)?;
        self.map.set(self.pool, first, last - first, Code::Zero);
        self.note_zeros(first * BLOCK, (last - first) * BLOCK);
        self.zero_part(last * BLOCK, end - last * BLOCK)
    }

    /// Makes a part of one block read as zeros.
    fn zero_part(&mut self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.merge(offset, &ZEROS[..index(length)])?;
        self.note_zeros(offset, length);
        Ok(())
    }

    /// Records zeros, in one piece with those before.
    fn note_zeros(&mut self, offset: u64, length: u64) {
        let Some(record) = &mut self.record else { return };
        match record.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.content() == Content::Zero && last.end_bytes() == offset => {
                last.length_bytes += length;
            }
            _ => record.push(Piece::zeros(offset, length)),
        }
    }

    /// Puts what was recorded, here or on another map of the store, on this map.
    pub fn apply(&mut self, piece: &Piece) -> Result<(), StoreError> {
        let Piece { offset_bytes, length_bytes, .. } = *piece;
        match piece.code() {
            Code::Zero => self.zero(offset_bytes, length_bytes),
            code if piece.is_whole() => {
                piece.retain(self.pool);
                self.map.set(self.pool, offset_bytes / BLOCK, length_bytes / BLOCK, code);
                Ok(())
            }
            _ => {
                let mut bytes = [0; BLOCK_BYTES];
                let part = &mut bytes[..index(length_bytes)];
                piece.read(&mut self.pool.arena, 0, part)?;
                self.merge(offset_bytes, part)
            }
        }
    }
}
