//! The bytes of answers (`struct fuse_…_out`).

use super::request::Init;
use crate::bytes::Writer;

/// Reads of a file by asynchronous direct I/O may be sent at once.
pub const ASYNC_READ: u64 = 1;
/// Writes of more than a page.
pub const BIG_WRITES: u64 = 1 << 5;
/// Asynchronous direct I/O: without it one request is under way at a time.
pub const ASYNC_DIO: u64 = 1 << 15;
/// [`InitReply::max_pages`] counts.
pub const MAX_PAGES: u64 = 1 << 22;
/// There is a second word of flags.
pub const INIT_EXT: u64 = 1 << 30;
/// Requests by io_uring.
pub const OVER_IO_URING: u64 = 1 << 41;
/// The kernel ends a connection that leaves a request without answer for too long.
pub const REQUEST_TIMEOUT: u64 = 1 << 42;

/// Reads and writes of the opened file go round the page cache.
pub const OPEN_DIRECT_IO: u32 = 1;
/// Closing the file sends no `FLUSH`.
pub const OPEN_NO_FLUSH: u32 = 1 << 5;
/// Direct writes that do not extend the file may run side by side.
pub const OPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// The header of an answer.
#[inline]
#[must_use]
pub fn header(length: u32, errno: i32, unique: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    Writer::new(&mut bytes).u32(length).u32(errno.wrapping_neg().cast_unsigned()).u64(unique);
    bytes
}

/// The answer to [`super::request::Request::Init`].
#[derive(Debug, Clone, Copy)]
pub struct InitReply {
    /// What the kernel offered.
    pub offered: Init,
    /// Of this what we want.
    pub flags: u64,
    /// Requests that may wait for us without a process waiting for them.
    pub max_background: u16,
    /// Largest write in bytes.
    pub max_write: u32,
    /// Largest request in pages.
    pub max_pages: u16,
    /// Seconds after which an unanswered request ends the connection, where the kernel can do that.
    pub request_timeout_s: u16,
}

impl InitReply {
    /// What both sides agree on.
    #[must_use]
    pub const fn agreed(&self) -> u64 {
        self.flags & self.offered.flags
    }

    /// The body.
    #[must_use]
    pub fn encode(&self) -> [u8; 64] {
        let agreed = self.agreed();
        let [low, high] = halves(agreed);
        let timeout = if agreed & REQUEST_TIMEOUT == 0 { 0 } else { self.request_timeout_s };
        let mut bytes = [0; 64];
        Writer::new(&mut bytes)
            .u32(7)
            .u32(self.offered.minor.min(NEWEST_MINOR))
            .u32(self.offered.max_readahead)
            .u32(low)
            .u16(self.max_background)
            // Congestion at three quarters, as the kernel's own default has it.
            .u16(self.max_background / 4 * 3)
            .u32(self.max_write)
            .u32(1)
            .u16(self.max_pages)
            .u16(0)
            .u32(high)
            .u32(0)
            .u16(timeout);
        bytes
    }
}

/// The newest protocol whose structures are used here.
const NEWEST_MINOR: u32 = 43;

fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Attributes of a file or directory that belongs to root and never changes.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    /// Number.
    pub node: u64,
    /// Bytes.
    pub size: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Names it has.
    pub links: u32,
    /// What transfers should be multiples of.
    pub block_bytes: u32,
}

/// How long the kernel may keep what does not change, in seconds.
const VALID_S: u64 = 1 << 20;

impl Attributes {
    /// `struct fuse_attr` behind what `writer` holds.
    fn put(self, writer: Writer<'_>) {
        writer
            .u64(self.node)
            .u64(self.size)
            .u64(self.size.div_ceil(512))
            .u64(0)
            .u64(0)
            .u64(0)
            .u32(0)
            .u32(0)
            .u32(0)
            .u32(self.mode)
            .u32(self.links)
            .u32(0)
            .u32(0)
            .u32(0)
            .u32(self.block_bytes);
    }

    /// The answer to [`super::request::Request::GetAttr`].
    #[must_use]
    pub fn encode(self) -> [u8; 104] {
        let mut bytes = [0; 104];
        self.put(Writer::new(&mut bytes).u64(VALID_S).u64(0));
        bytes
    }

    /// The answer to [`super::request::Request::Lookup`].
    #[must_use]
    pub fn encode_entry(self) -> [u8; 128] {
        let mut bytes = [0; 128];
        self.put(Writer::new(&mut bytes).u64(self.node).u64(0).u64(VALID_S).u64(VALID_S).u64(0));
        bytes
    }
}

/// The answer to an open.
#[must_use]
pub fn open(handle: u64, flags: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    Writer::new(&mut bytes).u64(handle).u32(flags);
    bytes
}

/// The answer to a write: bytes written.
#[inline]
#[must_use]
pub fn write(bytes_written: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    Writer::new(&mut bytes).u32(bytes_written);
    bytes
}

/// The answer to [`super::request::Request::StatFs`] for a file system that is full.
#[must_use]
pub fn statfs(size_bytes: u64, block_bytes: u32) -> [u8; 80] {
    let mut bytes = [0; 80];
    Writer::new(&mut bytes)
        .u64(size_bytes / u64::from(block_bytes.max(1)))
        .u64(0)
        .u64(0)
        .u64(2)
        .u64(0)
        .u32(block_bytes)
        .u32(255)
        .u32(block_bytes);
    bytes
}

/// Bytes of a directory entry with its padding.
#[must_use]
pub const fn directory_entry_bytes(name: &[u8]) -> usize {
    (24 + name.len()).next_multiple_of(8)
}

/// Puts a directory entry at the start of `bytes`, which has room for [`directory_entry_bytes`]. `next` is
/// the offset that a listing continues from; `kind` is `DT_…`.
pub fn directory_entry(bytes: &mut [u8], node: u64, next: u64, kind: u32, name: &[u8]) {
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
    Writer::new(bytes).u64(node).u64(next).u32(length).u32(kind).bytes(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{u32_at, u64_at};

    #[test]
    fn headers_carry_the_error_negated() {
        let bytes = header(16, 5, 77);
        assert_eq!(u32_at(&bytes, 0), Some(16));
        assert_eq!(u32_at(&bytes, 4).map(u32::cast_signed), Some(-5));
        assert_eq!(u64_at(&bytes, 8), Some(77));
    }

    #[test]
    fn init_agrees_only_on_what_is_offered() {
        let offered = Init { major: 7, minor: 99, max_readahead: 4096, flags: ASYNC_DIO | INIT_EXT };
        let wanted = ASYNC_DIO | MAX_PAGES | INIT_EXT | OVER_IO_URING | REQUEST_TIMEOUT;
        let mut reply = InitReply {
            offered,
            flags: wanted,
            max_background: 512,
            max_write: 1 << 20,
            max_pages: 256,
            request_timeout_s: 60,
        };
        assert_eq!(reply.agreed(), ASYNC_DIO | INIT_EXT);
        let bytes = reply.encode();
        assert_eq!([u32_at(&bytes, 0), u32_at(&bytes, 4)], [Some(7), Some(NEWEST_MINOR)]);
        assert_eq!([u32_at(&bytes, 20), u32_at(&bytes, 32)], [Some(1 << 20), Some(0)]);
        assert_eq!(bytes[40..42], [0, 0]);
        reply.offered.flags = u64::MAX;
        let bytes = reply.encode();
        assert_eq!(u32_at(&bytes, 32), Some(1 << 9 | 1 << 10));
        assert_eq!(bytes[40..42], 60_u16.to_ne_bytes());
        assert_eq!(bytes[28..30], 256_u16.to_ne_bytes());
    }

    #[test]
    fn entries_are_padded_to_eight() {
        assert_eq!(directory_entry_bytes(b"disk"), 32);
        assert_eq!(directory_entry_bytes(b"12345678"), 32);
        assert_eq!(directory_entry_bytes(b"123456789"), 40);
        let mut bytes = [0; 32];
        directory_entry(&mut bytes, 2, 3, 8, b"disk");
        assert_eq!(u32_at(&bytes, 16), Some(4));
        assert_eq!(&bytes[24..], b"disk\0\0\0\0");
    }

    #[test]
    fn attributes_end_where_their_structures_do() {
        let file = Attributes { node: 2, size: 8192, mode: 0o100_600, links: 1, block_bytes: 4096 };
        let (plain, entry) = (file.encode(), file.encode_entry());
        assert_eq!(u64_at(&plain, 24), Some(8192));
        assert_eq!(plain[16..], entry[40..]);
        assert_eq!(u32_at(&plain, 16 + 60), Some(0o100_600));
        assert_eq!(u32_at(&plain, 16 + 80), Some(4096));
    }
}
