//! What every block of a volume is used for (`FS_IOC_GETFSMAP`, `linux/fsmap.h`): ext2/3/4 (by the ext4
//! driver) and xfs.

use std::os::fd::BorrowedFd;

use crate::aligned::AlignedBuffer;
use crate::bytes::{Writer, u32_at, u64_at};
use crate::ioctl::Request;
use crate::{Error, Result};

/// Allocated, never written.
pub const PREALLOCATED: u32 = 0x1;
/// Belongs to extended attributes.
pub const ATTRIBUTE_FORK: u32 = 0x2;
/// Holds an extent map.
pub const EXTENT_MAP: u32 = 0x4;
/// Several owners.
pub const SHARED: u32 = 0x8;
/// `owner` is one of the `OWNER_…` codes, not an inode number.
pub const SPECIAL_OWNER: u32 = 0x10;
/// Last record of all.
pub const LAST: u32 = 0x20;

/// Nobody's: free space.
pub const OWNER_FREE: u64 = 1;
/// Somebody's, but the file system keeps no account of whose (ext4; xfs without rmapbt).
pub const OWNER_UNKNOWN: u64 = 2;
/// The file system's own.
pub const OWNER_METADATA: u64 = 3;

/// One stretch of a device with one use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FsmapRecord {
    /// Byte offset on `device`.
    pub physical: u64,
    /// Inode number, or a special code (see [`SPECIAL_OWNER`]).
    pub owner: u64,
    /// Byte offset in the owning file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// [`PREALLOCATED`], …
    pub flags: u32,
    /// Device number in the kernel's coding; an external log or a realtime part is another device.
    pub device: u32,
}

impl FsmapRecord {
    /// Whether this is free space.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.flags & SPECIAL_OWNER != 0 && self.owner == OWNER_FREE
    }
}

/// `struct fsmap`.
#[repr(C)]
struct Record {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` without its records.
#[repr(C)]
struct Header {
    input_flags: u32,
    output_flags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Record; 2],
}

const FS_IOC_GETFSMAP: Request<Header> = Request::read_write("FS_IOC_GETFSMAP", b'X', 59);
const HEADER_BYTES: usize = size_of::<Header>();
const LOW_KEY: usize = 64;
const RECORD_BYTES: usize = size_of::<Record>();
/// 256 KiB of records: larger buffers gain nothing measurable.
const RECORDS: usize = 4096 - HEADER_BYTES.div_ceil(RECORD_BYTES);

/// Calls `each` with every record, in order of device and place.
///
/// # Errors
/// `ENOTTY` or `EOPNOTSUPP` where the file system keeps no such map (btrfs, tmpfs, …).
pub fn visit(fd: BorrowedFd<'_>, mut each: impl FnMut(FsmapRecord)) -> Result<()> {
    let mut buffer = AlignedBuffer::new(HEADER_BYTES + RECORDS * RECORD_BYTES);
    first_request(&mut buffer);
    loop {
        // SAFETY: the buffer starts with a `fsmap_head` and has room for the `count` records that it
        // declares; it is aligned to 4096.
        unsafe { FS_IOC_GETFSMAP.call(fd, buffer.as_mut_ptr().cast()) }?;
        let Some(answer) = decode(&buffer) else {
            return Err(malformed("more records than there is room for"));
        };
        let mut last = None;
        for record in answer {
            each(record);
            last = Some(record);
        }
        match last {
            Some(last) if last.flags & LAST == 0 => continue_request(&mut buffer)?,
            _ => return Ok(()),
        }
    }
}

/// Everything from the lowest to the highest key. Reserved fields must be zero (EINVAL otherwise), and they
/// are: the buffer is new.
fn first_request(buffer: &mut [u8]) {
    let count = u32::try_from(RECORDS).unwrap_or(0);
    Writer::new(buffer).u32(0).u32(0).u32(count);
    let high_key = Writer::new(&mut buffer[LOW_KEY + RECORD_BYTES..HEADER_BYTES]);
    high_key.u32(u32::MAX).u32(u32::MAX).u64(u64::MAX).u64(u64::MAX).u64(u64::MAX);
}

/// The last record becomes the low key: the kernel continues behind it (as `fsmap_advance` of the header
/// does).
fn continue_request(buffer: &mut [u8]) -> Result<()> {
    let entries = u32_at(buffer, 12).and_then(|entries| usize::try_from(entries).ok()).unwrap_or(0);
    let last = HEADER_BYTES + entries.saturating_sub(1) * RECORD_BYTES;
    let low_key = &buffer[LOW_KEY..LOW_KEY + RECORD_BYTES];
    if decode_record(low_key) == decode_record(&buffer[last..last + RECORD_BYTES]) {
        return Err(malformed("records that do not go forward"));
    }
    buffer.copy_within(last..last + RECORD_BYTES, LOW_KEY);
    Ok(())
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { call: FS_IOC_GETFSMAP.name, what }
}

/// The records in an answer: a `struct fsmap_head` followed by `fmh_entries` × `struct fsmap`; `None` when
/// the bytes end before.
#[inline]
#[must_use]
pub fn decode(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = FsmapRecord>> {
    let entries = usize::try_from(u32_at(answer, 12)?).ok()?;
    let records = answer.get(HEADER_BYTES..)?.get(..entries.checked_mul(RECORD_BYTES)?)?;
    Some(records.chunks_exact(RECORD_BYTES).map(decode_record))
}

#[inline]
fn decode_record(bytes: &[u8]) -> FsmapRecord {
    // `bytes` is always whole; zeros stand where the type system cannot see that.
    FsmapRecord {
        device: u32_at(bytes, 0).unwrap_or(0),
        flags: u32_at(bytes, 4).unwrap_or(0),
        physical: u64_at(bytes, 8).unwrap_or(0),
        owner: u64_at(bytes, 16).unwrap_or(0),
        offset: u64_at(bytes, 24).unwrap_or(0),
        length: u64_at(bytes, 32).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = FsmapRecord> {
        any::<(u64, u64, u64, u64, u32, u32)>().prop_map(
            |(physical, owner, offset, length, flags, device)| FsmapRecord {
                physical,
                owner,
                offset,
                length,
                flags,
                device,
            },
        )
    }

    proptest! {
        #[test]
        fn decodes_what_was_encoded(records in proptest::collection::vec(any_record(), 0..20), cut in 0_usize..2000) {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes[12..16].copy_from_slice(&u32::try_from(records.len()).unwrap().to_ne_bytes());
            for record in &records {
                bytes.extend(record.device.to_ne_bytes());
                bytes.extend(record.flags.to_ne_bytes());
                for field in [record.physical, record.owner, record.offset, record.length, 0, 0, 0] {
                    bytes.extend(field.to_ne_bytes());
                }
            }
            prop_assert_eq!(decode(&bytes).unwrap().collect::<Vec<_>>(), records);
            let cut = cut.min(bytes.len());
            bytes.truncate(bytes.len() - cut);
            prop_assert_eq!(decode(&bytes).is_some(), cut == 0);
        }
    }

    #[test]
    fn only_the_special_owner_1_is_free() {
        let record = FsmapRecord { owner: OWNER_FREE, flags: SPECIAL_OWNER, ..FsmapRecord::default() };
        assert!(record.is_free());
        assert!(!FsmapRecord { flags: 0, ..record }.is_free());
        assert!(!FsmapRecord { owner: OWNER_METADATA, ..record }.is_free());
    }

    #[test]
    fn tmpfs_has_no_map() {
        let shm = std::fs::File::open("/dev/shm").unwrap();
        let error = visit(std::os::fd::AsFd::as_fd(&shm), |_| ()).unwrap_err();
        assert_eq!(error.errno(), libc::ENOTTY);
    }
}
