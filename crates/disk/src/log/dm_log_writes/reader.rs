//! Reads logs of dm-log-writes.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};

use super::{DISCARD, END, ENTRY_BYTES, FLUSH, FORMAT, FUA, MAGIC, MARK, METADATA, SECTORS, VERSION};
use crate::log::stream::{DATA_LIMIT_BYTES, Item, Source};
use crate::log::{Entry, Geometry, LENGTH_LIMIT, LogError, Mark, error::LogPosition};
use crate::request::{Operation, Request};

/// A log of dm-log-writes, from its beginning. Its structure is checked as a whole before the first item
/// comes.
pub struct Reader<R> {
    file: R,
    geometry: Geometry,
    entries: u64,
    /// The next entry of the file, and where it begins.
    next: u64,
    at: u64,
    /// Entries given.
    given: u64,
    /// What the last entry of the file still has to give.
    pending: VecDeque<Pending>,
}

/// An item that comes next.
enum Pending {
    Item(Item),
    /// A write whose data the file has next.
    Write(Request),
}

/// An entry as it stands in the file, checked.
struct Raw {
    flags: u64,
    offset_bytes: u64,
    length_bytes: u64,
    name: String,
    /// Where the next one begins.
    end: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// Checks the whole structure; the data are not read.
    ///
    /// # Errors
    /// It is no such log, or damaged, or cut off, or cannot be read.
    pub fn new(mut file: R) -> Result<Self, LogError> {
        let length = file.seek(SeekFrom::End(0)).and_then(|length| file.rewind().map(|()| length));
        let length = length.map_err(|source| LogError::Io { what: "seek in", source })?;
        let (entries, sector_bytes) = super_block(&mut file)?;
        let mut reader = Self {
            file,
            geometry: Geometry { size_bytes: 0, block_bytes: sector_bytes },
            entries,
            next: 0,
            at: u64::from(sector_bytes),
            given: 0,
            pending: VecDeque::new(),
        };
        while reader.next < entries {
            let raw = reader.raw()?;
            if raw.end > length {
                return Err(LogError::Truncated { place: LogPosition::Entry(reader.next) });
            }
            let end = raw.offset_bytes + raw.length_bytes;
            reader.geometry.size_bytes = reader.geometry.size_bytes.max(end);
            (reader.next, reader.at) = (reader.next + 1, raw.end);
        }
        (reader.next, reader.at) = (0, u64::from(sector_bytes));
        Ok(reader)
    }

    /// Reads the entry at the present place.
    fn raw(&mut self) -> Result<Raw, LogError> {
        let place = LogPosition::Entry(self.next);
        let sector = u64::from(self.geometry.block_bytes);
        let mut bytes = vec![0; usize::try_from(sector).unwrap_or(ENTRY_BYTES)];
        self.file.seek(SeekFrom::Start(self.at)).map_err(|source| LogError::read(source, place))?;
        self.file.read_exact(&mut bytes).map_err(|source| LogError::read(source, place))?;
        let (head, name) = bytes.split_at(ENTRY_BYTES);
        let word = |n: usize| head.chunks_exact(8).nth(n).map_or(0, little_endian);
        let (flags, sectors) = (word(2), word(1));
        let malformed = |what: &str| LogError::malformed(place, what);
        if flags & !(FLUSH | FUA | DISCARD | MARK | METADATA) != 0 {
            return Err(malformed("it has flags that are not known"));
        }
        let bytes_of = |sectors: u64| sectors.checked_mul(sector).filter(|bytes| *bytes <= LENGTH_LIMIT);
        let beyond = || malformed("it lies beyond any disk");
        let offset_bytes = bytes_of(word(0)).ok_or_else(beyond)?;
        let length_bytes = bytes_of(sectors).ok_or_else(beyond)?;
        let name = match usize::try_from(word(3)) {
            _ if flags & MARK == 0 => "",
            Ok(length) if length <= name.len() && sectors == 0 => {
                std::str::from_utf8(&name[..length]).map_err(|_| malformed("its name is not text"))?
            }
            _ => return Err(malformed("a mark is longer than its sector")),
        };
        if sectors == 0 && flags & (FLUSH | MARK) == 0 {
            return Err(malformed("it does nothing"));
        }
        let stored = if flags & DISCARD == 0 { length_bytes } else { 0 };
        let end = self.at.checked_add(sector).and_then(|at| at.checked_add(stored)).ok_or_else(beyond)?;
        Ok(Raw { flags, offset_bytes, length_bytes, name: name.trim_end_matches('\0').to_owned(), end })
    }

    /// Takes the next entry of the file apart.
    fn queue(&mut self) -> Result<(), LogError> {
        let raw = self.raw()?;
        let entry = |operation, offset, length| {
            Pending::Item(Item::Entry(Entry::new(Request::new(operation, offset, length))))
        };
        let last = self.next + 1 == self.entries;
        if raw.flags & MARK != 0 && !(last && raw.name == END) {
            // The position is said when it is given.
            let mark = Mark { position: 0, set_ns: 0, name: raw.name.replace(['\n', '\r', '\0'], " ") };
            self.pending.push_back(Pending::Item(Item::Mark(mark)));
        }
        if raw.flags & FLUSH != 0 {
            self.pending.push_back(entry(Operation::Flush, 0, 0));
        }
        if raw.flags & DISCARD != 0 {
            self.pending.push_back(entry(Operation::Discard, raw.offset_bytes, raw.length_bytes));
        } else {
            self.queue_writes(&raw);
        }
        (self.next, self.at) = (self.next + 1, raw.end);
        Ok(())
    }

    /// Queues the write of an entry; one longer than what a stream carries comes in pieces.
    fn queue_writes(&mut self, raw: &Raw) {
        let piece_bytes = crate::log::as_u64(DATA_LIMIT_BYTES);
        let (mut offset_bytes, mut left) = (raw.offset_bytes, raw.length_bytes);
        while left > 0 {
            let length_bytes = left.min(piece_bytes);
            let fua = raw.flags & FUA != 0;
            let request = Request { fua, ..Request::new(Operation::Write, offset_bytes, length_bytes) };
            self.pending.push_back(Pending::Write(request));
            (offset_bytes, left) = (offset_bytes + length_bytes, left - length_bytes);
        }
    }
}

impl<R: Read + Seek> Source for Reader<R> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError> {
        data.clear();
        while self.pending.is_empty() && self.next < self.entries {
            self.queue()?;
        }
        let item = match self.pending.pop_front() {
            None => return Ok(None),
            Some(Pending::Item(Item::Mark(mark))) => {
                return Ok(Some(Item::Mark(Mark { position: self.given, ..mark })));
            }
            Some(Pending::Item(item)) => item,
            Some(Pending::Write(request)) => {
                data.resize(usize::try_from(request.length_bytes).unwrap_or(0), 0);
                // The entry's own sector was read last, so its data come next.
                let place = LogPosition::Entry(self.next - 1);
                self.file.read_exact(data).map_err(|source| LogError::read(source, place))?;
                Item::Entry(Entry::new(request))
            }
        };
        self.given += 1;
        Ok(Some(item))
    }
}

/// Entries and sector size.
fn super_block(file: &mut impl Read) -> Result<(u64, u32), LogError> {
    let mut bytes = [0; 32];
    file.read_exact(&mut bytes).map_err(|source| LogError::read(source, LogPosition::Header))?;
    let word = |n: usize| bytes.chunks_exact(8).nth(n).map_or(0, little_endian);
    if word(0) != MAGIC {
        return Err(LogError::Foreign { format: FORMAT, what: "it does not begin like one" });
    }
    if word(1) != VERSION {
        return Err(LogError::Version { format: FORMAT, version: word(1), known: VERSION });
    }
    let sector_bytes = u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
    if !SECTORS.contains(&sector_bytes) || !sector_bytes.is_power_of_two() {
        let what = format!("there are no sectors of {sector_bytes} bytes");
        return Err(LogError::malformed(LogPosition::Header, what));
    }
    Ok((word(2), sector_bytes))
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
