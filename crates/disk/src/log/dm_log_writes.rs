//! Logs of the kernel's dm-log-writes, which QEMU's blklogwrites writes too: for xfstests' and Josef Bacik's
//! `replay-log`.
//!
//! Format (drivers/md/dm-log-writes.c; all numbers little-endian; s is the sector size, 512 to 65,536, a
//! power of two):
//!
//! | part | bytes | what |
//! | --- | --- | --- |
//! | super | 0..8 | magic 0x006a736677736872 |
//! | | 8..16 | version 1 |
//! | | 16..24 | entries, u64 |
//! | | 24..28 | s, u32; zeros up to s follow |
//! | entry | 0..8 | first sector, u64, in units of s |
//! | | 8..16 | sectors n, u64 |
//! | | 16..24 | flags: flush 1, FUA 2, discard 4, mark 8, metadata 16 |
//! | | 24..32 | bytes of data in the entry itself: of a mark its name, which follows here |
//! | | s..s + n s | the data; a discard has none |
//!
//! An entry with the flush flag stands behind what it flushed; with sectors it is a flush and then a write.
//! Reads and times are not in it, and neither is the size of the disk: the least that fits is taken. It
//! cannot say that a request failed or a flush was ignored: such requests are left out, because they changed
//! nothing and ordered nothing, and are counted. Zeroing becomes writes of zeros (holes in the file). The
//! mark `dm-log-writes-end`, the kernel's last, is written at the end, and left out when read there.

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

/// The format's name in messages.
const FORMAT: &str = "log of dm-log-writes";

pub(super) const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
const METADATA: u64 = 1 << 4;

/// Bytes of an entry before its name.
const ENTRY_BYTES: usize = 32;
const SECTORS: std::ops::RangeInclusive<u32> = 512..=65_536;

/// The mark with which the kernel ends a log.
const END: &str = "dm-log-writes-end";
