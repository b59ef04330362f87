//! What a recorded request put on the disk, without its bytes.
//!
//! **The log is the store.** While requests are recorded, nothing is overwritten: each write takes new pages
//! and says, in pieces, what it put where. A piece is 40 bytes, and one is enough for a write of any length
//! whose blocks form one run. A log keeps pieces and no data. Each piece holds a reference to its raw pages
//! until it is given to [`Store::release`](super::Store::release); a copy of a piece that is kept as well has
//! to be announced to [`Store::retain`](super::Store::retain).

use super::arena::Arena;
use super::code::{BLOCK, Cell, Code, Described};
use super::error::StoreError;
use super::map::Pool;
use super::number::{index, narrow};
use super::read;

/// Bytes of the disk and what they were made to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// First byte on the disk.
    pub offset_bytes: u64,
    /// Bytes, at least 1.
    pub length_bytes: u64,
    /// What they hold; its `skip` is the byte of the first block where the piece begins.
    what: Cell,
}

const _: () = assert!(size_of::<Piece>() == 40);

/// What kind of bytes a piece has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Zero,
    /// Bytes that have to be kept.
    Raw,
    /// Self-describing blocks.
    Described(Described),
}

impl Piece {
    /// Zeros: what a discard or a zeroing puts on the disk.
    #[must_use]
    pub const fn zeros(offset_bytes: u64, length_bytes: u64) -> Self {
        Self::new(offset_bytes, length_bytes, Code::Zero, 0)
    }

    /// Bytes that begin `skip` bytes into the first block of a run.
    pub(super) const fn new(offset_bytes: u64, length_bytes: u64, code: Code, skip: u16) -> Self {
        Self { offset_bytes, length_bytes, what: Cell::new(code, skip) }
    }

    /// What its bytes are.
    #[must_use]
    pub const fn content(&self) -> Content {
        match self.what.code() {
            Code::Zero => Content::Zero,
            Code::Raw(_) => Content::Raw,
            Code::Described(run) => Content::Described(run),
        }
    }

    /// The first byte behind it.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }

    pub(super) const fn code(&self) -> Code {
        self.what.code()
    }

    /// The part of it from byte `from` on; `length` must not reach beyond it. It holds no reference of its own:
    /// it is good as long as the piece is.
    #[must_use]
    pub fn part(&self, from: u64, length: u64) -> Self {
        debug_assert!(from + length <= self.length_bytes, "a part beyond a piece");
        let at = u64::from(self.what.skip) + from;
        let code = self.code().skip(at / BLOCK);
        // A part that ends before the run's last block has none of its zeros.
        let ends_before = (at + length).div_ceil(BLOCK) < self.blocks();
        let code = if ends_before { code.cut() } else { code };
        Self::new(self.offset_bytes + from, length, code, Self::within(at))
    }

    /// Blocks that its content takes.
    fn blocks(&self) -> u64 {
        (u64::from(self.what.skip) + self.length_bytes).div_ceil(BLOCK)
    }

    /// Whether it is made of whole blocks of the disk.
    pub(super) const fn is_whole(&self) -> bool {
        self.offset_bytes.is_multiple_of(BLOCK) && self.length_bytes.is_multiple_of(BLOCK)
    }

    /// Copies its bytes from byte `from` on.
    pub(super) fn read(&self, arena: &mut Arena, from: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let at = u64::from(self.what.skip) + from;
        let (block, within) = (at / BLOCK, index(at % BLOCK));
        read::produce(arena, self.code().skip(block), self.blocks() - block, within, buffer)
    }

    pub(super) fn retain(&self, pool: &mut Pool) {
        if let Code::Raw(page) = self.code() {
            pool.arena.retain(page, self.blocks());
        }
    }

    pub(super) fn release(&self, pool: &mut Pool) {
        if let Code::Raw(page) = self.code() {
            pool.arena.release(page, self.blocks());
        }
    }

    /// Bytes in front of the piece in its block.
    pub(super) fn within(offset_bytes: u64) -> u16 {
        narrow(offset_bytes % BLOCK)
    }
}
