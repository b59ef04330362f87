//! Writes logs of dm-log-writes.

use std::io::{Seek, SeekFrom, Write};

use fsage_model::disk::call::Converted;

use super::{DISCARD, END, ENTRY_BYTES, FLUSH, FORMAT, FUA, MAGIC, MARK, SECTORS, VERSION};
use crate::log::stream::{Item, Sink};
use crate::log::{Entry, Geometry, LogError};
use crate::request::{Operation, Request};

/// Most bytes of zeros in one entry: readers take an entry's data into memory.
const ZEROS_BYTES: u64 = 1 << 20;

/// Writes a log of dm-log-writes into an empty file.
pub struct Writer<W> {
    file: W,
    sector_bytes: u32,
    /// Entries in the file, which may be more than were given.
    entries: u64,
    given: u64,
    converted: Converted,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a log; the disk's logical block is its sector.
    ///
    /// # Errors
    /// The format has no such sectors, or the file cannot be written.
    pub fn new(file: W, geometry: Geometry) -> Result<Self, LogError> {
        let sector_bytes = geometry.block_bytes;
        if !SECTORS.contains(&sector_bytes) || !sector_bytes.is_power_of_two() {
            return Err(LogError::Geometry { geometry });
        }
        let mut writer = Self { file, sector_bytes, entries: 0, given: 0, converted: Converted::default() };
        // Without entries until it is whole.
        writer.super_block(0)?;
        Ok(writer)
    }

    fn super_block(&mut self, entries: u64) -> Result<(), LogError> {
        let words = [MAGIC, VERSION, entries, u64::from(self.sector_bytes)];
        self.sector(words, &[])
    }

    /// Writes four words, a name, and zeros to the end of the sector.
    fn sector(&mut self, words: [u64; 4], name: &[u8]) -> Result<(), LogError> {
        let mut sector = vec![0; usize::try_from(self.sector_bytes).unwrap_or(ENTRY_BYTES)];
        for (room, word) in sector.chunks_exact_mut(8).zip(words) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        // The kernel, too, cuts names, and ends them within the sector.
        let room = &mut sector[ENTRY_BYTES..];
        let length = name.len().min(room.len() - 1);
        room[..length].copy_from_slice(&name[..length]);
        self.file.write_all(&sector).map_err(LogError::write)
    }

    fn entry(&mut self, request: &Request, flags: u64) -> Result<(), LogError> {
        let sector_bytes = u64::from(self.sector_bytes);
        let [offset, length] = [request.offset_bytes, request.length_bytes];
        if offset % sector_bytes != 0 || length % sector_bytes != 0 || length == 0 {
            let what = format!("bytes {offset} to {} are not whole sectors", request.end_bytes());
            return Err(self.unfit(what));
        }
        self.entries += 1;
        self.sector([offset / sector_bytes, length / sector_bytes, flags, 0], &[])
    }

    fn unfit(&self, what: String) -> LogError {
        LogError::Unfit { format: FORMAT, number: self.given, what }
    }

    fn mark(&mut self, name: &str) -> Result<(), LogError> {
        let room = usize::try_from(self.sector_bytes).unwrap_or(ENTRY_BYTES) - ENTRY_BYTES - 1;
        let name = &name[..name.floor_char_boundary(room)];
        self.entries += 1;
        self.sector([0, 0, MARK, crate::log::as_u64(name.len())], name.as_bytes())
    }

    fn put_entry(&mut self, entry: &Entry, data: &[u8]) -> Result<(), LogError> {
        let Entry { request, flush_ignored, .. } = *entry;
        if request.operation == Operation::Read {
            self.converted.reads_left_out += 1;
            return Ok(());
        }
        if entry.result.is_err() {
            self.converted.failed_left_out += 1;
            return Ok(());
        }
        match request.operation {
            Operation::Flush if flush_ignored => {
                self.converted.ignored_flushes_left_out += 1;
                return Ok(());
            }
            Operation::Flush => {
                self.entries += 1;
                self.sector([0, 0, FLUSH, 0], &[])?;
            }
            Operation::Discard => self.entry(&request, DISCARD)?,
            Operation::Zero => self.zeros(&request)?,
            Operation::Write if crate::log::as_u64(data.len()) != request.length_bytes => {
                return Err(self.unfit("its data were not kept".to_owned()));
            }
            Operation::Write => {
                let flags = if request.fua && !flush_ignored { FUA } else { 0 };
                self.entry(&request, flags)?;
                self.file.write_all(data).map_err(LogError::write)?;
            }
            Operation::Read => {}
        }
        self.converted.entries += 1;
        Ok(())
    }

    fn zeros(&mut self, request: &Request) -> Result<(), LogError> {
        let Request { mut offset_bytes, .. } = *request;
        let end = request.end_bytes();
        while offset_bytes < end {
            let length_bytes = (end - offset_bytes).min(ZEROS_BYTES);
            self.entry(&Request::new(Operation::Write, offset_bytes, length_bytes), 0)?;
            // A hole; the mark at the end gives the file its length.
            let ahead = i64::try_from(length_bytes).unwrap_or(0);
            self.file.seek(SeekFrom::Current(ahead)).map_err(LogError::write)?;
            offset_bytes += length_bytes;
        }
        self.converted.zeroes_as_writes += 1;
        Ok(())
    }
}

impl<W: Write + Seek> Sink for Writer<W> {
    fn put(&mut self, item: &Item, data: &[u8]) -> Result<(), LogError> {
        match item {
            Item::Entry(entry) => {
                self.put_entry(entry, data)?;
                self.given += 1;
            }
            Item::Mark(mark) => {
                self.mark(&mark.name)?;
                self.converted.marks += 1;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Converted, LogError> {
        self.mark(END)?;
        self.file.rewind().map_err(LogError::write)?;
        self.super_block(self.entries)?;
        self.file.flush().map_err(LogError::write)?;
        Ok(self.converted)
    }
}
