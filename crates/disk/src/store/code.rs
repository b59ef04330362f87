//! What a run of blocks holds, in a few bytes.

use fsage_content::{Block, HEADER_BYTES, Header, fill, recognise};

/// Bytes of a block of the store, and of a page of its arena.
pub const BLOCK_BYTES: usize = 4096;

/// The same, where numbers are places on a disk.
pub(crate) const BLOCK: u64 = 4096;

/// Number of a page in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Page(pub(crate) u64);

impl Page {
    /// The page so many pages behind.
    pub(crate) const fn behind(self, pages: u64) -> Self {
        Self(self.0 + pages)
    }
}

/// A run of self-describing blocks: consecutive blocks of one file and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// Identity of the file's content.
    pub file: u64,
    /// Which writing of the blocks it is.
    pub version: u32,
    /// Number of the run's first block in its file: offset ÷ 4096, below 2^52.
    pub first: u64,
    /// Bytes of the run's last block, from 1 to 4096; zeros follow in it. All blocks before are whole.
    pub tail_bytes: u16,
}

/// What a run of blocks holds: for `n` blocks the first code says it all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Zeros.
    Zero,
    /// Bytes as they are, in consecutive pages of the arena.
    Raw(Page),
    /// Blocks that can be made again from what they say they are.
    Described(Described),
}

/// A block of which all bytes are its own.
const WHOLE: u16 = 4096;

/// One more than the largest block number of a file.
const FILE_BLOCKS: u64 = 1 << 52;

impl Code {
    /// What a block of 4096 bytes is; `None`: it has to be kept as it is. Refuses foreign bytes within about
    /// 10 ns.
    #[inline]
    pub(crate) fn of(block: &[u8]) -> Option<Self> {
        match recognise(block) {
            Block::Zero => Some(Self::Zero),
            Block::Good { header: Header { file, offset, version }, length }
                if offset.is_multiple_of(BLOCK) =>
            {
                let tail_bytes = u16::try_from(length).unwrap_or(WHOLE);
                Some(Self::Described(Described { file, version, first: offset / BLOCK, tail_bytes }))
            }
            Block::Fragment { length } => Self::of_fragment(block, length),
            _ => None,
        }
    }

    /// The code of a tail that is shorter than a header: what is missing of the header is taken to be zeros.
    #[cold]
    fn of_fragment(block: &[u8], length: usize) -> Option<Self> {
        let mut header = [0; HEADER_BYTES];
        header[..length].copy_from_slice(&block[..length]);
        let word = |from: usize| header[from..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let (version, file, offset) = (header[4..].first_chunk()?, word(8)?, word(16)?);
        let version = u32::from_le_bytes(*version);
        let mut again = [0; HEADER_BYTES];
        fill(&mut again[..length], file, offset / BLOCK * BLOCK, version);
        let tail_bytes = u16::try_from(length).unwrap_or(WHOLE);
        (again[..length] == block[..length]).then_some(Self::Described(Described {
            file,
            version,
            first: offset / BLOCK,
            tail_bytes,
        }))
    }

    /// The code of the blocks from the `n`th of this run on.
    #[inline]
    pub(crate) const fn skip(self, n: u64) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::Raw(page) => Self::Raw(page.behind(n)),
            Self::Described(run) => Self::Described(Described { first: run.first + n, ..run }),
        }
    }

    /// The code of the first blocks of this run where the last ones are cut off.
    #[inline]
    pub(crate) const fn cut(self) -> Self {
        match self {
            Self::Described(run) => Self::Described(Described { tail_bytes: WHOLE, ..run }),
            other => other,
        }
    }

    /// The code of this run of `n` blocks and one of `next` behind it together, if one code can say both.
    #[inline]
    pub(crate) fn join(self, n: u64, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Zero, Self::Zero) => Some(self),
            (Self::Raw(page), Self::Raw(other)) => (page.behind(n) == other).then_some(self),
            (Self::Described(run), Self::Described(other)) => {
                let follows = (run.file, run.version, run.first + n)
                    == (other.file, other.version, other.first)
                    && run.tail_bytes == WHOLE
                    && other.first < FILE_BLOCKS;
                follows.then_some(Self::Described(Described { tail_bytes: other.tail_bytes, ..run }))
            }
            _ => None,
        }
    }
}

/// A code as it lies in memory, 24 bytes, with room for a small number beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The file; of raw blocks the page.
    what: u64,
    /// `first` × 4096 + `tail_bytes` − 1.
    place: u64,
    version: u32,
    /// Where in its first block it begins, for anyone who needs that.
    pub skip: u16,
    kind: CodeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum CodeKind {
    Zero,
    Raw,
    Described,
}

const _: () = assert!(size_of::<Cell>() == 24);

impl Cell {
    /// A code.
    #[inline]
    pub const fn new(code: Code, skip: u16) -> Self {
        match code {
            Code::Zero => Self { what: 0, place: 0, version: 0, skip, kind: CodeKind::Zero },
            Code::Raw(page) => Self { what: page.0, place: 0, version: 0, skip, kind: CodeKind::Raw },
            Code::Described(Described { file, version, first, tail_bytes }) => {
                let place = first * BLOCK + tail(tail_bytes);
                Self { what: file, place, version, skip, kind: CodeKind::Described }
            }
        }
    }

    /// What it holds.
    #[inline]
    pub const fn code(&self) -> Code {
        match self.kind {
            CodeKind::Zero => Code::Zero,
            CodeKind::Raw => Code::Raw(Page(self.what)),
            CodeKind::Described => {
                let (file, version, first) = (self.what, self.version, self.place / BLOCK);
                Code::Described(Described { file, version, first, tail_bytes: tail_of(self.place) })
            }
        }
    }
}

/// A tail as the low bits of a place.
const fn tail(bytes: u16) -> u64 {
    (bytes - 1) as u64
}

/// The tail that the low bits of a place stand for.
const fn tail_of(place: u64) -> u16 {
    (place % BLOCK) as u16 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, tail_bytes: u16) -> Code {
        Code::Described(Described { file: 9, version: 4, first, tail_bytes })
    }

    #[test]
    fn cells_keep_what_they_are_given() {
        for code in [Code::Zero, Code::Raw(Page(1 << 40)), run(FILE_BLOCKS - 1, WHOLE), run(3, 32)] {
            let cell = Cell::new(code, 4095);
            assert_eq!((cell.code(), cell.skip), (code, 4095));
        }
    }

    #[test]
    fn runs_join_only_where_one_code_says_both() {
        assert_eq!(run(3, WHOLE).join(2, run(5, 77)), Some(run(3, 77)));
        assert_eq!(run(3, 4095).join(2, run(5, WHOLE)), None);
        assert_eq!(run(3, WHOLE).join(2, run(6, WHOLE)), None);
        assert_eq!(run(FILE_BLOCKS - 1, WHOLE).join(1, run(FILE_BLOCKS, WHOLE)), None);
        assert_eq!(Code::Raw(Page(7)).join(2, Code::Raw(Page(9))), Some(Code::Raw(Page(7))));
        assert_eq!(Code::Raw(Page(7)).join(2, Code::Raw(Page(8))), None);
        assert_eq!(Code::Zero.join(2, Code::Raw(Page(0))), None);
        assert_eq!(run(3, 77).skip(2), run(5, 77));
        assert_eq!(run(3, 77).cut(), run(3, WHOLE));
    }

    #[test]
    fn only_blocks_that_can_be_made_again_have_a_code() {
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(Code::of(&block), Some(Code::Zero));
        fill(&mut block, 9, 3 * 4096, 4);
        assert_eq!(Code::of(&block), Some(run(3, WHOLE)));
        block[2048..].fill(0);
        assert_eq!(Code::of(&block), Some(run(3, 2048)));
        block[2040] ^= 1;
        assert_eq!(Code::of(&block), None);
        block.fill(1);
        assert_eq!(Code::of(&block), None);
        for length in 1..HEADER_BYTES {
            block.fill(0);
            fill(&mut block[..length], 0x0102_0304_0506_0708, 0x7777_0000, 4);
            let Some(Code::Described(described)) = Code::of(&block) else {
                panic!("a tail of {length} bytes")
            };
            let mut again = [0; BLOCK_BYTES];
            let tail = usize::from(described.tail_bytes);
            fill(&mut again[..tail], described.file, described.first * BLOCK, described.version);
            assert_eq!(again, block);
        }
        block[HEADER_BYTES - 2] ^= 1;
        assert_eq!(Code::of(&block), None);
    }
}
