//! What a chunk holds, and how: the used blocks of one stretch of the volume.
//!
//! Plain payload: `length of the table: u32 LE`, the table, then the raw blocks one after the other. The
//! table is records that cover the stretch from its beginning; what it does not reach is not in use. A record
//! begins with a number (7 bits a byte, least significant first, the top bit says that more follows):
//! `(count − 1) × 8 + kind`, count in blocks.
//!
//! | kind | blocks | followed by |
//! | --- | --- | --- |
//! | 0 | not in use | |
//! | 1 | raw | |
//! | 2 | zeros | |
//! | 3 | data of a file from a block of it on | file (8 bytes), version (number), block of the file (number) |
//! | 4 | data of the same file and version as the last record of kind 3 to 6 | block of the file |
//! | 5, 6 | as 3 and 4, but one block that ends early | …, its length in bytes less 1 (number) |
//!
//! Content hash: BLAKE3 over, for each run of used blocks, the number of its first block in the volume (u64),
//! its blocks (u64) and its bytes. It does not depend on how blocks are kept.

use fsage_content::{Block, recognise};
use fsage_model::image::BLOCK_BYTES;
use fsage_model::image::Totals;

use super::format::{half, le32};
use super::{as_u64, as_usize};

const BLOCK: usize = fsage_content::BLOCK_BYTES;
const _: () = assert!(BLOCK as u64 == BLOCK_BYTES);

const FREE: u64 = 0;
const RAW: u64 = 1;
const ZERO: u64 = 2;
const DATA: u64 = 3;
const SAME: u64 = 4;
const TAIL: u64 = 5;
const SAME_TAIL: u64 = 6;

/// Bytes that a record and what follows it can take at most.
const RECORD_BYTES: usize = 10 + 8 + 5 + 10 + 2;

/// A run of used blocks: first, counted from the chunk's beginning, and number.
pub type Run = (u32, u32);

/// Most plain bytes that a chunk of `blocks` blocks can have.
pub(super) const fn plain_limit(blocks: usize) -> usize {
    4 + blocks * (BLOCK + RECORD_BYTES)
}

/// What a block is to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Raw,
    Zero,
    Data { file: u64, version: u32, block: u64, length: usize },
}

impl BlockKind {
    fn of(bytes: &[u8]) -> Self {
        match recognise(bytes) {
            Block::Zero => Self::Zero,
            Block::Good { header, length } if header.offset.is_multiple_of(BLOCK_BYTES) => {
                let block = header.offset / BLOCK_BYTES;
                Self::Data { file: header.file, version: header.version, block, length }
            }
            _ => Self::Raw,
        }
    }

    /// Whether `next`, `count` blocks further on, goes into the same record.
    fn goes_on(self, count: u64, next: Self) -> bool {
        match (self, next) {
            (
                Self::Data { file, version, block, length: BLOCK },
                Self::Data { file: its, version: of, block: at, length: BLOCK },
            ) => (file, version) == (its, of) && block.checked_add(count) == Some(at),
            (Self::Data { .. }, _) => false,
            _ => self == next,
        }
    }
}

/// Builds the table.
struct Table<'a> {
    out: &'a mut Vec<u8>,
    totals: Totals,
    last: Option<(u64, u32)>,
}

impl Table<'_> {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push((value & 0x7f) as u8);
    }

    fn record(&mut self, kind: u64, count: u64) {
        self.number(((count - 1) << 3) | kind);
    }

    fn blocks(&mut self, kind: BlockKind, count: u64) {
        self.totals.used_blocks += count;
        match kind {
            BlockKind::Raw => {
                self.totals.raw_blocks += count;
                self.record(RAW, count);
            }
            BlockKind::Zero => {
                self.totals.zero_blocks += count;
                self.record(ZERO, count);
            }
            BlockKind::Data { file, version, block, length } => {
                self.totals.described_blocks += count;
                self.totals.runs += 1;
                let whole = length == BLOCK;
                if self.last == Some((file, version)) {
                    self.record(if whole { SAME } else { SAME_TAIL }, count);
                } else {
                    self.last = Some((file, version));
                    self.record(if whole { DATA } else { TAIL }, count);
                    self.out.extend(file.to_le_bytes());
                    self.number(u64::from(version));
                }
                self.number(block);
                if !whole {
                    self.number(as_u64(length - 1));
                }
            }
        }
    }
}

/// Writes the plain payload for the used `runs` (in order, not empty, not touching) of `stretch` into
/// `plain`, which is cleared. Costs about one making and one comparing of every block of our data. No
/// allocation once `plain` has grown.
pub fn encode(stretch: &[u8], runs: &[Run], plain: &mut Vec<u8>, raw: &mut Vec<Run>) -> Totals {
    plain.clear();
    raw.clear();
    plain.extend([0; 4]);
    let mut table = Table { out: plain, totals: Totals::default(), last: None };
    let mut reached = 0;
    for (first, count) in runs {
        let gap = first - reached;
        if gap > 0 {
            table.record(FREE, u64::from(gap));
        }
        encode_run(stretch, (*first, *count), &mut table, raw);
        reached = first + count;
    }
    let totals = table.totals;
    let length = u32::try_from(plain.len() - 4).unwrap_or(u32::MAX);
    plain[..4].copy_from_slice(&length.to_le_bytes());
    for run in raw.iter() {
        plain.extend_from_slice(bytes_of(stretch, *run));
    }
    totals
}

fn encode_run(stretch: &[u8], (first, count): Run, table: &mut Table<'_>, raw: &mut Vec<Run>) {
    let mut open: Option<(BlockKind, u64)> = None;
    for block in first..first + count {
        let kind = BlockKind::of(bytes_of(stretch, (block, 1)));
        if kind == BlockKind::Raw {
            match raw.last_mut() {
                Some((start, length)) if *start + *length == block => *length += 1,
                _ => raw.push((block, 1)),
            }
        }
        open = match open {
            Some((so_far, count)) if so_far.goes_on(count, kind) => Some((so_far, count + 1)),
            Some((so_far, count)) => {
                table.blocks(so_far, count);
                Some((kind, 1))
            }
            None => Some((kind, 1)),
        };
    }
    if let Some((kind, count)) = open {
        table.blocks(kind, count);
    }
}

/// The bytes of a run.
pub(super) fn bytes_of(stretch: &[u8], (first, count): Run) -> &[u8] {
    let start = as_usize(u64::from(first) * BLOCK_BYTES);
    &stretch[start..start + as_usize(u64::from(count) * BLOCK_BYTES)]
}

/// The content hash of a chunk.
pub(super) fn content(stretch: &[u8], first_block: u64, runs: &[Run]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for run in runs {
        hasher.update(&(first_block + u64::from(run.0)).to_le_bytes());
        hasher.update(&u64::from(run.1).to_le_bytes());
        hasher.update(bytes_of(stretch, *run));
    }
    half(hasher.finalize().as_bytes())
}

/// A decoded chunk, to be used again for the next.
#[derive(Debug)]
pub struct Chunk {
    /// The stretch; what is not in use keeps what it had before.
    pub stretch: fsage_sys::aligned::AlignedBuffer,
    /// Runs of used blocks, in order, not touching.
    pub runs: Vec<Run>,
    /// What they are.
    pub totals: Totals,
}

impl Chunk {
    /// Room for a stretch of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            stretch: fsage_sys::aligned::AlignedBuffer::new(bytes),
            runs: Vec::new(),
            totals: Totals::default(),
        }
    }
}

/// Takes numbers off a table.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if bits.checked_shl(shift)? >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*word))
    }
}

/// Makes the blocks of a chunk again from its plain payload, `blocks` at most.
///
/// # Errors
/// What is wrong with the payload. Then some of the chunk may have been overwritten.
pub fn decode(plain: &[u8], blocks: usize, chunk: &mut Chunk) -> Result<(), &'static str> {
    chunk.runs.clear();
    chunk.totals = Totals::default();
    let length = le32(plain, 0).and_then(|length| usize::try_from(length).ok()).ok_or("it has no table")?;
    let (table, mut raw) = plain[4..].split_at_checked(length).ok_or("its table is cut short")?;
    let mut cursor = Cursor { rest: table };
    let blocks = blocks.min(chunk.stretch.len() / BLOCK);
    let (mut reached, mut last) = (0_usize, None);
    while !cursor.rest.is_empty() {
        let lead = cursor.number().ok_or("its table breaks off")?;
        let count = usize::try_from(lead >> 3).ok().and_then(|less| less.checked_add(1));
        let end = count.and_then(|count| reached.checked_add(count)).filter(|end| *end <= blocks);
        let end = end.ok_or("its table goes beyond its stretch")?;
        let room = &mut chunk.stretch[reached * BLOCK..end * BLOCK];
        let count = as_u64(end - reached);
        match lead & 7 {
            FREE => {}
            RAW => {
                let (bytes, rest) = raw.split_at_checked(room.len()).ok_or("blocks are missing")?;
                room.copy_from_slice(bytes);
                raw = rest;
                chunk.totals.raw_blocks += count;
            }
            ZERO => {
                room.fill(0);
                chunk.totals.zero_blocks += count;
            }
            kind @ DATA..=SAME_TAIL => {
                decode_data(kind, &mut cursor, &mut last, room)?;
                chunk.totals.described_blocks += count;
                chunk.totals.runs += 1;
            }
            _ => return Err("its table has an unknown record"),
        }
        if lead & 7 != FREE {
            chunk.totals.used_blocks += count;
            add_run(&mut chunk.runs, reached, end);
        }
        reached = end;
    }
    if raw.is_empty() { Ok(()) } else { Err("it has more blocks than its table") }
}

fn decode_data(
    kind: u64,
    cursor: &mut Cursor<'_>,
    last: &mut Option<(u64, u32)>,
    room: &mut [u8],
) -> Result<(), &'static str> {
    const BREAKS: &str = "its table breaks off";
    if matches!(kind, DATA | TAIL) {
        let file = cursor.word().ok_or(BREAKS)?;
        let version = cursor.number().and_then(|version| u32::try_from(version).ok()).ok_or(BREAKS)?;
        *last = Some((file, version));
    }
    let (file, version) = last.ok_or("its table continues with a file that it did not name")?;
    let block = cursor.number().ok_or(BREAKS)?;
    let offset = block.checked_mul(BLOCK_BYTES).ok_or("its table names a place beyond any file")?;
    let length = if matches!(kind, TAIL | SAME_TAIL) {
        let less = cursor.number().and_then(|less| usize::try_from(less).ok()).ok_or(BREAKS)?;
        if room.len() != BLOCK || less >= BLOCK {
            return Err("its table has a tail of impossible length");
        }
        less + 1
    } else {
        room.len()
    };
    let (data, zeros) = room.split_at_mut(length);
    fsage_content::fill(data, file, offset, version);
    zeros.fill(0);
    Ok(())
}

fn add_run(runs: &mut Vec<Run>, first: usize, end: usize) {
    // A chunk has far fewer than 2^32 blocks.
    let [first, count] = [first, end - first].map(|value| u32::try_from(value).unwrap_or(u32::MAX));
    match runs.last_mut() {
        Some((start, length)) if *start + *length == first => *length += count,
        _ => runs.push((first, count)),
    }
}
