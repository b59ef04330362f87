//! Where the data of a file lies (`FS_IOC_FIEMAP`, `linux/fiemap.h`).
//!
//! By default without `FIEMAP_FLAG_SYNC`: dirty data that has no place yet shows as [`DELALLOC`] extents, and
//! looking changes nothing.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::aligned::AlignedBuffer;
use crate::bytes::{Writer, u32_at, u64_at};
use crate::ioctl::Request;
use crate::{Error, Result};

/// Last extent of the file.
pub const LAST: u32 = 0x1;
/// The place is not known (yet): `physical` means nothing.
pub const UNKNOWN: u32 = 0x2;
/// Still only in the page cache; implies [`UNKNOWN`].
pub const DELALLOC: u32 = 0x4;
/// The data on the volume is compressed or otherwise coded; lengths are those of the file.
pub const ENCODED: u32 = 0x8;
/// Encrypted; implies [`ENCODED`].
pub const DATA_ENCRYPTED: u32 = 0x80;
/// Not aligned to blocks, may share one with something else.
pub const NOT_ALIGNED: u32 = 0x100;
/// In the inode or a tree node; implies [`NOT_ALIGNED`].
pub const DATA_INLINE: u32 = 0x200;
/// Packed with the tails of other files; implies [`NOT_ALIGNED`].
pub const DATA_TAIL: u32 = 0x400;
/// Allocated, never written: reads as zeros.
pub const UNWRITTEN: u32 = 0x800;
/// Put together by the kernel from single blocks, which the file system keeps (ext2, ext3).
pub const MERGED: u32 = 0x1000;
/// Other files use the same space.
pub const SHARED: u32 = 0x2000;

/// One piece of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileExtent {
    /// Byte offset in the file.
    pub logical: u64,
    /// Byte offset on the volume (on btrfs: in its logical address space).
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// [`LAST`], [`UNWRITTEN`], …
    pub flags: u32,
}

/// `struct fiemap` without its extents.
#[repr(C)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

const FS_IOC_FIEMAP: Request<Header> = Request::read_write("FS_IOC_FIEMAP", b'f', 11);
const FIEMAP_FLAG_SYNC: u32 = 1;
const HEADER_BYTES: usize = size_of::<Header>();
const EXTENT_BYTES: usize = 56;
/// As many as fit into four pages: most files need one call, and the kernel touches only what it fills.
const EXTENTS: usize = (4 * 4096 - HEADER_BYTES) / EXTENT_BYTES;

/// Asks for the extents of one file after another with one buffer.
#[derive(Debug)]
pub struct Reader {
    buffer: AlignedBuffer,
    flags: u32,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader that looks without writing anything out.
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: AlignedBuffer::new(HEADER_BYTES + EXTENTS * EXTENT_BYTES), flags: 0 }
    }

    /// A reader that has each file's dirty data written out first, so that everything has a place.
    #[must_use]
    pub fn synced() -> Self {
        Self { flags: FIEMAP_FLAG_SYNC, ..Self::new() }
    }

    /// Calls `each` with every extent in file order. One ioctl per 292 extents.
    ///
    /// # Errors
    /// `EOPNOTSUPP` and `ENOTTY` where the file system or the kind of file has no such map; others as the
    /// kernel gives them.
    pub fn visit(&mut self, fd: BorrowedFd<'_>, each: impl FnMut(FileExtent)) -> Result<()> {
        self.visit_range(fd, 0..u64::MAX, each)
    }

    /// The same for the extents that touch `range` (bytes of the file). A range that ends with the data is
    /// answered faster than one without end, for which most file systems look for a further extent. [`LAST`]
    /// then means the last of the range.
    ///
    /// # Errors
    /// As [`Reader::visit`].
    pub fn visit_range(
        &mut self,
        fd: BorrowedFd<'_>,
        range: Range<u64>,
        mut each: impl FnMut(FileExtent),
    ) -> Result<()> {
        let mut start = range.start;
        while start < range.end {
            self.request(fd, start, range.end - start)?;
            let answer = decode(&self.buffer).ok_or(malformed("more extents than there is room for"))?;
            let mut last = None;
            for extent in answer {
                each(extent);
                last = Some(extent);
            }
            let Some(last) = last else { return Ok(()) };
            if last.flags & LAST != 0 {
                return Ok(());
            }
            let next = last.logical.checked_add(last.length).ok_or(malformed("extent beyond 2^64"))?;
            if next <= start {
                return Err(malformed("extents that do not go forward"));
            }
            start = next;
        }
        Ok(())
    }

    fn request(&mut self, fd: BorrowedFd<'_>, start: u64, length: u64) -> Result<()> {
        let count = u32::try_from(EXTENTS).unwrap_or(0);
        Writer::new(&mut self.buffer).u64(start).u64(length).u32(self.flags).u32(0).u32(count).u32(0);
        // SAFETY: the buffer starts with a `struct fiemap` that was just filled in and has room for the
        // `count` extents that it declares; it is aligned to 4096.
        unsafe { FS_IOC_FIEMAP.call(fd, self.buffer.as_mut_ptr().cast()) }.map(drop)
    }
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { call: FS_IOC_FIEMAP.name, what }
}

/// The extents in an answer: a `struct fiemap` followed by `fm_mapped_extents` × `struct fiemap_extent`;
/// `None` when the bytes end before.
#[inline]
#[must_use]
pub fn decode(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = FileExtent>> {
    let mapped = usize::try_from(u32_at(answer, 20)?).ok()?;
    let extents = answer.get(HEADER_BYTES..)?.get(..mapped.checked_mul(EXTENT_BYTES)?)?;
    Some(extents.chunks_exact(EXTENT_BYTES).map(decode_extent))
}

#[inline]
fn decode_extent(bytes: &[u8]) -> FileExtent {
    // `bytes` is always whole; zeros stand where the type system cannot see that.
    FileExtent {
        logical: u64_at(bytes, 0).unwrap_or(0),
        physical: u64_at(bytes, 8).unwrap_or(0),
        length: u64_at(bytes, 16).unwrap_or(0),
        flags: u32_at(bytes, 40).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer as the kernel lays it out.
    fn encode(extents: &[FileExtent], declared: u32) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[20..24].copy_from_slice(&declared.to_ne_bytes());
        for extent in extents {
            for field in [extent.logical, extent.physical, extent.length, 0, 0] {
                bytes.extend(field.to_ne_bytes());
            }
            bytes.extend(extent.flags.to_ne_bytes());
            bytes.extend([0; 12]);
        }
        bytes
    }

    fn any_extent() -> impl Strategy<Value = FileExtent> {
        any::<(u64, u64, u64, u32)>().prop_map(|(logical, physical, length, flags)| FileExtent {
            logical,
            physical,
            length,
            flags,
        })
    }

    proptest! {
        #[test]
        fn decodes_what_was_encoded(extents in proptest::collection::vec(any_extent(), 0..20), cut in 0_usize..2000) {
            let declared = u32::try_from(extents.len()).unwrap();
            let mut bytes = encode(&extents, declared);
            prop_assert_eq!(decode(&bytes).unwrap().collect::<Vec<_>>(), extents.clone());
            let cut = cut.min(bytes.len());
            bytes.truncate(bytes.len() - cut);
            prop_assert_eq!(decode(&bytes).is_some(), cut == 0);
            prop_assert!(decode(&encode(&extents, declared + 1)).is_none());
        }
    }

    #[test]
    fn a_file_without_data_has_no_extents_and_a_pipe_has_no_map() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let mut reader = Reader::new();
        let mut count = 0;
        reader.visit(std::os::fd::AsFd::as_fd(&file), |_| count += 1).unwrap();
        assert_eq!(count, 0);
        let (read_end, _write_end) = std::io::pipe().unwrap();
        let error = reader.visit(std::os::fd::AsFd::as_fd(&read_end), |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "FS_IOC_FIEMAP refused");
        assert!([libc::ENOTTY, libc::EOPNOTSUPP].contains(&error.errno()));
    }

    #[test]
    fn more_extents_than_the_buffer_holds_come_in_order_and_once() {
        use std::os::unix::fs::FileExt as _;
        let file = tempfile::tempfile().unwrap();
        for index in 0..1000 {
            file.write_all_at(b"x", index * 8192).unwrap();
        }
        let mut places = Vec::new();
        Reader::synced()
            .visit(std::os::fd::AsFd::as_fd(&file), |extent| places.push((extent.logical, extent.length)))
            .unwrap();
        assert_eq!(places, (0..1000).map(|index| (index * 8192, 4096)).collect::<Vec<_>>());
    }

    #[test]
    fn a_range_has_the_extents_that_touch_it() {
        use std::os::unix::fs::FileExt as _;
        let file = tempfile::tempfile().unwrap();
        for index in 0..10 {
            file.write_all_at(b"x", index * 8192).unwrap();
        }
        let mut places = Vec::new();
        let range = 8192..4 * 8192;
        let fd = std::os::fd::AsFd::as_fd(&file);
        Reader::synced().visit_range(fd, range, |extent| places.push(extent.logical)).unwrap();
        assert_eq!(places, [8192, 16_384, 24_576]);
        Reader::new().visit_range(fd, 5..5, |_| panic!("an empty range has no extents")).unwrap();
    }
}
