//! How much a row group's pages unpack to, read from their headers before the Parquet library unpacks any:
//! it reserves whatever a page's header claims and keeps the pages of a text column, so that a file of a
//! megabyte could take all memory.
//!
//! A page header is a Thrift struct in the compact protocol (`PageHeader` of Apache Parquet's `parquet.thrift`,
//! field 2 its size unpacked, 3 packed); the page follows it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

/// Most bytes that the pages of one column of a row group may unpack to. Ours unpack to 2 MiB at most.
pub const COLUMN_LIMIT: u64 = 128 << 20;

/// Longest page header read: it may quote the smallest and the largest value of its page.
const HEADER_LIMIT: usize = 64 << 10;

/// Structs within a page header: its own, that of the kind of page, statistics.
const DEPTH: u32 = 4;

/// Refuses a row group in which a column's pages unpack to more than [`COLUMN_LIMIT`] bytes.
///
/// # Errors
/// Such a column, a header that is none, a file that cannot be read.
pub fn check(file: &File, group: &RowGroupMetaData) -> Result<(), ParquetError> {
    group.columns().iter().try_for_each(|column| check_column(file, column.byte_range()))
}

fn check_column(file: &File, (start, length): (u64, u64)) -> Result<(), ParquetError> {
    let wrong = |what: &str| ParquetError::General(what.to_owned());
    let end = start.checked_add(length).ok_or_else(|| wrong("a column ends beyond any file"))?;
    let (mut place, mut unpacked) = (start, 0_u64);
    let mut buffer = vec![0; HEADER_LIMIT];
    while place < end {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], place + u64::try_from(filled)?)? {
                0 => break,
                read => filled += read,
            }
        }
        let header = Header::read(&buffer[..filled]).ok_or_else(|| wrong("a page has no header"))?;
        unpacked = unpacked.saturating_add(header.unpacked_bytes);
        if unpacked > COLUMN_LIMIT {
            return Err(wrong("the pages of a column unpack to more than any trace has"));
        }
        place = place.saturating_add(header.bytes).saturating_add(header.packed_bytes);
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    /// Bytes of the header itself.
    bytes: u64,
    unpacked_bytes: u64,
    packed_bytes: u64,
}

impl Header {
    /// The header that `bytes` begin with; `None` for what no page has: a size that is negative, missing or
    /// there twice, a list or a map.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut thrift = Thrift { bytes, place: 0 };
        let mut sizes = [None; 2];
        let mut field = 0_i64;
        while let Some(kind) = thrift.field(&mut field)? {
            match field {
                2 | 3 if kind == I32 => {
                    let size = u64::try_from(thrift.number()?).ok()?;
                    if sizes[usize::from(field == 3)].replace(size).is_some() {
                        return None;
                    }
                }
                _ => thrift.skip(kind, DEPTH)?,
            }
        }
        let [unpacked_bytes, packed_bytes] = sizes;
        Some(Self {
            bytes: u64::try_from(thrift.place).ok()?,
            unpacked_bytes: unpacked_bytes?,
            packed_bytes: packed_bytes?,
        })
    }
}

/// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

struct Thrift<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.place)?;
        self.place += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The type of the next field, whose number takes the place of the last one's; `Some(None)` at the end of
    /// the struct.
    fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *number = match byte >> 4 {
            0 => self.number()?,
            more => number.checked_add(i64::from(more))?,
        };
        Some(Some(byte & 0xf))
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            TRUE | FALSE => {}
            BYTE => self.place += 1,
            I16 | I32 | I64 => {
                self.varint()?;
            }
            DOUBLE => self.place += 8,
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.place = self.place.checked_add(length).filter(|place| *place <= self.bytes.len())?;
            }
            STRUCT if depth > 0 => {
                let mut field = 0;
                while let Some(kind) = self.field(&mut field)? {
                    self.skip(kind, depth - 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// type 0, unpacked 300, packed 20, field 5 a struct with an i32 and a binary.
    const PAGE: [u8; 15] =
        [0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x28, 0x2c, 0x15, 0x02, 0x18, 0x01, b'x', 0x00, 0x00];

    #[test]
    fn headers_are_read_to_their_end() {
        let mut bytes = PAGE.to_vec();
        bytes.extend([9; 20]);
        assert_eq!(Header::read(&bytes), Some(Header { bytes: 15, unpacked_bytes: 300, packed_bytes: 20 }));
        for end in 0..PAGE.len() {
            assert_eq!(Header::read(&PAGE[..end]), None, "{end}");
        }
    }

    #[test]
    fn headers_that_no_page_has_are_refused() {
        let negative = [0x15, 0x00, 0x15, 0x01, 0x15, 0x28, 0x00];
        let twice = [0x25, 0x00, 0x15, 0x28, 0x05, 0x04, 0x02, 0x00];
        let list = [0x25, 0x00, 0x15, 0x28, 0x19, 0x15, 0x00, 0x00];
        let lacking = [0x25, 0x00, 0x00];
        let deep = [0x25, 0x00, 0x15, 0x28, 0x2c, 0x1c, 0x1c, 0x1c, 0x1c, 0x1c, 0, 0, 0, 0, 0, 0, 0];
        for bytes in [&negative[..], &twice, &list, &lacking, &deep, &[0xff; 40]] {
            assert_eq!(Header::read(bytes), None, "{bytes:?}");
        }
    }
}
