//! The items of a chunk as columns: what is alike lies together, which makes it small.
//!
//! The payload is nine columns, each with its length (u32) before it: kinds, offsets, lengths, times issued,
//! times done, times arrived, marks, pieces, data. Every item has one byte of kinds:
//!
//! | bits | what |
//! | --- | --- |
//! | 0..3 | operation: read 0, write 1, flush 2, discard 3, zero 4; 7 is a mark (the other bits are 0) |
//! | 3 | fua |
//! | 4 | flush ignored |
//! | 5..7 | outcome: done 0, medium 1, space 2, range 3 |
//! | 7 | the data are there (a write only) |
//!
//! Numbers are LEB128; differences are modulo 2^64 and zigzag-coded, so that any numbers come back. An offset
//! is the difference from the end of the entry before; issued and arrived are differences from the entry
//! before; done is a difference from issued; the first entry of a chunk follows one of zeros. A mark is its
//! time (a difference from the last arrival or mark), the length of its name, and the name.
//!
//! Data are cut into pieces at the disk's multiples of 4096 bytes. Each piece has one byte of pieces: 0
//! zeros, 1 as it is (in data), 2 a block of self-describing data, whole or a prefix and then zeros: in data
//! are its version (u32), file (u64), offset (u64) and length (u16). So a log with the data of an aged file
//! system is little larger than one without.

use fsage_content::{BLOCK_BYTES, Block, HEADER_BYTES};

use crate::log::record::{operation_code, operation_of, outcome_code, outcome_of};
use crate::log::stream::{DATA_LIMIT_BYTES, Item};
use crate::log::{Entry, LENGTH_LIMIT, Mark, Payload};
use crate::request::{Operation, Request};

const MARK: u8 = 7;
const FUA: u8 = 1 << 3;
const IGNORED: u8 = 1 << 4;
const OUTCOME: u32 = 5;
const KEPT: u8 = 1 << 7;

const ZEROS: u8 = 0;
const PLAIN: u8 = 1;
const OURS: u8 = 2;
/// Bytes that say which block of ours a piece is.
const OURS_BYTES: usize = 22;

/// Longest name of a mark.
const NAME_LIMIT: usize = 4096;

const COLUMNS: usize = 9;
const KINDS: usize = 0;
const OFFSETS: usize = 1;
const LENGTHS: usize = 2;
const ISSUED: usize = 3;
const DONE: usize = 4;
const ARRIVED: usize = 5;
const MARKS: usize = 6;
const PIECES: usize = 7;
const DATA: usize = 8;

/// What the differences are from.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    end: u64,
    issued: u64,
    arrived: u64,
}

/// Gathers items.
#[derive(Debug, Default)]
pub(super) struct Columns {
    columns: [Vec<u8>; COLUMNS],
    last: Last,
    items: u32,
}

impl Columns {
    /// Items gathered.
    pub(super) const fn items(&self) -> u32 {
        self.items
    }

    /// Plain bytes gathered.
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.len() + 4).sum()
    }

    /// Begins again.
    pub(super) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
        (self.last, self.items) = (Last::default(), 0);
    }

    /// Adds an item, or says why it does not fit the format.
    pub(super) fn add(&mut self, item: &Item, data: &[u8]) -> Result<(), &'static str> {
        match item {
            Item::Entry(entry) => self.add_entry(entry, data)?,
            Item::Mark(mark) => self.add_mark(mark)?,
        }
        self.items += 1;
        Ok(())
    }

    fn add_mark(&mut self, mark: &Mark) -> Result<(), &'static str> {
        if mark.name.len() > NAME_LIMIT {
            return Err("its name is too long");
        }
        self.columns[KINDS].push(MARK);
        let column = &mut self.columns[MARKS];
        put_difference(column, self.last.arrived, mark.set_ns);
        self.last.arrived = mark.set_ns;
        put(column, crate::log::as_u64(mark.name.len()));
        column.extend_from_slice(mark.name.as_bytes());
        Ok(())
    }

    fn add_entry(&mut self, entry: &Entry, data: &[u8]) -> Result<(), &'static str> {
        let Request { operation, offset_bytes, length_bytes, fua } = entry.request;
        let kept = !data.is_empty();
        if length_bytes > LENGTH_LIMIT {
            return Err("it is too long");
        }
        if kept && (operation != Operation::Write || crate::log::as_u64(data.len()) != length_bytes) {
            return Err("it does not have as many bytes of data as it says");
        }
        if data.len() > DATA_LIMIT_BYTES {
            return Err("it has more than 32 MiB of data");
        }
        let flags = if fua { FUA } else { 0 }
            | if entry.flush_ignored { IGNORED } else { 0 }
            | if kept { KEPT } else { 0 };
        let codes = operation_code(operation) | outcome_code(entry.result) << OUTCOME;
        self.columns[KINDS].push(flags | u8::try_from(codes).unwrap_or(MARK));
        put_difference(&mut self.columns[OFFSETS], self.last.end, offset_bytes);
        put(&mut self.columns[LENGTHS], length_bytes);
        put_difference(&mut self.columns[ISSUED], self.last.issued, entry.issued_ns);
        put_difference(&mut self.columns[DONE], entry.issued_ns, entry.done_ns);
        put_difference(&mut self.columns[ARRIVED], self.last.arrived, entry.arrived_ns);
        self.last = Last::behind(entry);
        self.add_data(offset_bytes, data);
        Ok(())
    }

    fn add_data(&mut self, offset_bytes: u64, mut data: &[u8]) {
        let mut room = first_piece(offset_bytes);
        while !data.is_empty() {
            let (piece, rest) = data.split_at(room.min(data.len()));
            let [pieces, bytes] = &mut self.columns[PIECES..] else { return };
            add_piece(pieces, bytes, piece);
            (data, room) = (rest, BLOCK_BYTES);
        }
    }

    /// Appends the payload to `plain`.
    pub(super) fn encode(&self, plain: &mut Vec<u8>) {
        for column in &self.columns {
            // The writer ends a chunk long before 4 GiB.
            plain.extend_from_slice(&u32::try_from(column.len()).unwrap_or(u32::MAX).to_le_bytes());
            plain.extend_from_slice(column);
        }
    }
}

impl Last {
    const fn behind(entry: &Entry) -> Self {
        let end = entry.request.offset_bytes.wrapping_add(entry.request.length_bytes);
        Self { end, issued: entry.issued_ns, arrived: entry.arrived_ns }
    }
}

/// Bytes from an offset to the next multiple of 4096.
fn first_piece(offset_bytes: u64) -> usize {
    const BLOCK: u64 = 4096;
    usize::try_from(BLOCK - offset_bytes % BLOCK).unwrap_or(BLOCK_BYTES)
}

fn add_piece(pieces: &mut Vec<u8>, bytes: &mut Vec<u8>, piece: &[u8]) {
    match fsage_content::recognise(piece) {
        Block::Zero => pieces.push(ZEROS),
        Block::Good { header, length } if header.offset % 4096 == 0 && length >= HEADER_BYTES => {
            pieces.push(OURS);
            bytes.extend_from_slice(&header.version.to_le_bytes());
            bytes.extend_from_slice(&header.file.to_le_bytes());
            bytes.extend_from_slice(&header.offset.to_le_bytes());
            bytes.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
        }
        _ => {
            pieces.push(PLAIN);
            bytes.extend_from_slice(piece);
        }
    }
}

fn put(column: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        column.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    column.push(u8::try_from(number).unwrap_or(0));
}

fn put_difference(column: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from);
    // Zigzag: the sign goes to the lowest bit.
    let sign = if difference >> 63 == 1 { u64::MAX } else { 0 };
    put(column, difference << 1 ^ sign);
}

/// Takes the items of a payload out again.
#[derive(Debug, Default)]
pub(super) struct Items {
    plain: Vec<u8>,
    /// Of each column: what is left of it.
    left: [std::ops::Range<usize>; COLUMNS],
    last: Last,
    items: u32,
}

/// Why a column cannot be read.
const SHORT: &str = "a column is shorter than its items";

impl Items {
    /// Items that are left.
    pub(super) const fn left(&self) -> u32 {
        self.items
    }

    /// The items of `plain`; its memory is used again. What is wrong with it, if it cannot be.
    pub(super) fn decode(mut self, plain: Vec<u8>, items: u32) -> Result<Self, &'static str> {
        let mut at = 0_usize;
        for left in &mut self.left {
            let length = plain.get(at..).and_then(<[u8]>::first_chunk::<4>).ok_or("a column is missing")?;
            let begin = at + 4;
            let end = usize::try_from(u32::from_le_bytes(*length)).ok().and_then(|n| begin.checked_add(n));
            at = end.filter(|end| *end <= plain.len()).ok_or("a column is incomplete")?;
            *left = begin..at;
        }
        if at != plain.len() {
            return Err("something follows its columns");
        }
        (self.plain, self.items, self.last) = (plain, items, Last::default());
        Ok(self)
    }

    /// The buffer, to be used again.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.plain
    }

    /// The next item; `entries` is how many entries there were before.
    pub(super) fn next(&mut self, entries: u64, data: &mut Vec<u8>) -> Result<Item, &'static str> {
        self.items = self.items.checked_sub(1).ok_or("it has no more items")?;
        let kind = self.take(KINDS, 1)?[0];
        let item = if kind == MARK { self.mark(entries)? } else { Item::Entry(self.entry(kind, data)?) };
        if self.items == 0 && self.left.iter().any(|left| !left.is_empty()) {
            return Err("a column is longer than its items");
        }
        Ok(item)
    }

    fn mark(&mut self, position: u64) -> Result<Item, &'static str> {
        let set_ns = self.difference(MARKS, self.last.arrived)?;
        self.last.arrived = set_ns;
        let length = usize::try_from(self.number(MARKS)?).unwrap_or(usize::MAX);
        if length > NAME_LIMIT {
            return Err("the name of a mark is too long");
        }
        let name =
            std::str::from_utf8(self.take(MARKS, length)?).map_err(|_| "the name of a mark is not text")?;
        Ok(Item::Mark(Mark { position, set_ns, name: name.to_owned() }))
    }

    fn entry(&mut self, kind: u8, data: &mut Vec<u8>) -> Result<Entry, &'static str> {
        let operation = operation_of(u64::from(kind & 7)).ok_or("there is no such operation")?;
        let offset_bytes = self.difference(OFFSETS, self.last.end)?;
        let length_bytes = self.number(LENGTHS)?;
        if length_bytes > LENGTH_LIMIT {
            return Err("an entry is too long");
        }
        let issued_ns = self.difference(ISSUED, self.last.issued)?;
        let done_ns = self.difference(DONE, issued_ns)?;
        let arrived_ns = self.difference(ARRIVED, self.last.arrived)?;
        let request = Request { operation, offset_bytes, length_bytes, fua: kind & FUA != 0 };
        let entry = Entry {
            request,
            result: outcome_of(u64::from(kind) >> OUTCOME),
            flush_ignored: kind & IGNORED != 0,
            issued_ns,
            done_ns,
            arrived_ns,
            payload: Payload::NONE,
        };
        self.last = Last::behind(&entry);
        if kind & KEPT != 0 {
            self.data(&request, data)?;
        }
        Ok(entry)
    }

    fn data(&mut self, request: &Request, data: &mut Vec<u8>) -> Result<(), &'static str> {
        let length = usize::try_from(request.length_bytes).unwrap_or(usize::MAX);
        if request.operation != Operation::Write || length == 0 || length > DATA_LIMIT_BYTES {
            return Err("there is data where none can be");
        }
        let (mut left, mut room) = (length, first_piece(request.offset_bytes));
        while left > 0 {
            let piece = room.min(left);
            self.piece(piece, data)?;
            (left, room) = (left - piece, BLOCK_BYTES);
        }
        Ok(())
    }

    fn piece(&mut self, length: usize, data: &mut Vec<u8>) -> Result<(), &'static str> {
        let begin = data.len();
        match self.take(PIECES, 1)?[0] {
            ZEROS => data.resize(begin + length, 0),
            PLAIN => data.extend_from_slice(self.take(DATA, length)?),
            OURS => {
                let mut header = [0; OURS_BYTES];
                header.copy_from_slice(self.take(DATA, OURS_BYTES)?);
                let (file, offset, version, kept) = ours(&header);
                if offset % 4096 != 0 || !(HEADER_BYTES..=length).contains(&kept) {
                    return Err("a piece is not a block that fsage makes");
                }
                data.resize(begin + length, 0);
                fsage_content::fill(&mut data[begin..begin + kept], file, offset, version);
            }
            _ => return Err("there is no such piece"),
        }
        Ok(())
    }

    fn take(&mut self, column: usize, length: usize) -> Result<&[u8], &'static str> {
        let left = &mut self.left[column];
        if left.len() < length {
            return Err(SHORT);
        }
        let begin = left.start;
        left.start += length;
        Ok(&self.plain[begin..begin + length])
    }

    fn number(&mut self, column: usize) -> Result<u64, &'static str> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(column, 1)?[0];
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }

    fn difference(&mut self, column: usize, from: u64) -> Result<u64, &'static str> {
        let zigzag = self.number(column)?;
        let sign = if zigzag & 1 == 1 { u64::MAX } else { 0 };
        Ok(from.wrapping_add(zigzag >> 1 ^ sign))
    }
}

/// Takes the items of an unpacked payload out, one after the other, each with the number of entries before it
/// and its data. This is what stands behind the hashes of a file.
///
/// # Errors
/// What is wrong with the payload.
pub fn decode(
    plain: Vec<u8>,
    items: u32,
    mut each: impl FnMut(u64, &Item, &[u8]),
) -> Result<(), &'static str> {
    let mut left = Items::default().decode(plain, items)?;
    let (mut entries, mut data) = (0, Vec::new());
    while left.left() > 0 {
        data.clear();
        let item = left.next(entries, &mut data)?;
        each(entries, &item, &data);
        entries += u64::from(matches!(item, Item::Entry(_)));
    }
    Ok(())
}

/// File, offset, version and length of a block of ours.
fn ours(bytes: &[u8; OURS_BYTES]) -> (u64, u64, u32, usize) {
    let word = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(word)
    };
    let version = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (word(4), word(12), version, usize::from(u16::from_le_bytes([bytes[20], bytes[21]])))
}
