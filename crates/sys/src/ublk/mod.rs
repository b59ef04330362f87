//! ublk: a block device whose requests a process answers (`linux/ublk_cmd.h`, `Documentation/block/ublk.rst`;
//! kernel 6.0 with `CONFIG_BLK_DEV_UBLK`).
//!
//! [`Control`] makes a device and ends it, by commands to `/dev/ublk-control`; [`Queue`] takes its requests
//! and answers them, by commands to `/dev/ublkcN`. Every command goes through io_uring. What the kernel reads
//! and writes is described here, as bytes.
//!
//! The order of a device's life: [`Control::add`], [`Control::set_parameters`], [`Queue::new`] in the thread
//! that serves, [`Control::start`] (which waits for the queue, and asks it for the partition table, so it
//! needs another thread), then `/dev/ublkbN` is there; [`Control::stop`] (after which the queue says that it
//! has ended), the queue dropped, [`Control::delete`].
//!
//! Known limit: **not tried on a real driver.** The numbers and layouts are those of the header of Linux 6.1,
//! with the numbers of 6.4 (they carry direction and size, as those of ioctls do) where the kernel says that
//! it has them.

mod control;
mod mapping;
mod queue;

pub use control::{CONTROL_PATH, Control};
pub use queue::{Entry, Queue};

use rustix::ioctl::opcode;

use crate::bytes::Writer;

/// Bytes of a sector, whatever the block size.
pub const SECTOR_BYTES: u64 = 512;

/// `UBLK_IO_OP_…`: the low byte of [`Descriptor::op_flags`].
pub mod operation {
    /// Read.
    pub const READ: u32 = 0;
    /// Write.
    pub const WRITE: u32 = 1;
    /// Flush; sectors and start mean nothing.
    pub const FLUSH: u32 = 2;
    /// Discard.
    pub const DISCARD: u32 = 3;
    /// Write the same block everywhere; no kernel asks for it.
    pub const WRITE_SAME: u32 = 4;
    /// Write zeroes.
    pub const WRITE_ZEROES: u32 = 5;
}

/// `UBLK_IO_F_FUA` in [`Descriptor::op_flags`], which it is tested against as it is (not shifted by the
/// operation's byte).
pub const FLAG_FUA: u32 = 1 << 13;
/// `UBLK_IO_F_NOUNMAP`, of a write of zeroes: the range stays allocated.
pub const FLAG_NO_UNMAP: u32 = 1 << 15;

/// `UBLK_ATTR_ROTATIONAL`: the medium turns.
pub const ATTRIBUTE_ROTATIONAL: u32 = 1 << 1;
/// `UBLK_ATTR_VOLATILE_CACHE`: flushes are needed and sent.
pub const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
/// `UBLK_ATTR_FUA`: writes may be forced to the medium.
pub const ATTRIBUTE_FUA: u32 = 1 << 3;

/// What the kernel asks (`struct ublksrv_io_desc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Descriptor {
    /// Operation in the low byte, flags above.
    pub op_flags: u32,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// First sector.
    pub start_sector: u64,
    /// Where the data is in the memory of the process; the queue knows it already.
    pub address: u64,
}

const _: () = assert!(size_of::<Descriptor>() == 24);

/// What the kernel gets to know of a device (`struct ublk_params` with its parts basic and discard).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// `ATTRIBUTE_…`.
    pub attributes: u32,
    /// Smallest unit of a request, as a power of 2 of at least 9.
    pub logical_block_shift: u8,
    /// What transfers should be multiples of, as a power of 2, no smaller than the logical block.
    pub physical_block_shift: u8,
    /// Largest read or write in sectors; no more than the queue's entries have room for.
    pub max_sectors: u32,
    /// The size in sectors.
    pub sectors: u64,
    /// What discards are multiples of, in bytes.
    pub discard_granularity_bytes: u32,
    /// Largest discard in sectors.
    pub max_discard_sectors: u32,
    /// Largest write of zeroes in sectors.
    pub max_write_zeroes_sectors: u32,
}

/// Bytes of [`Parameters`], with the four that the structure is padded by.
pub const PARAMETERS_BYTES: usize = 64;

impl Parameters {
    /// As the kernel reads them.
    #[must_use]
    pub fn encode(&self) -> [u8; PARAMETERS_BYTES] {
        /// `UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD`.
        const TYPES: u32 = 1 | 1 << 1;
        let mut bytes = [0; PARAMETERS_BYTES];
        let length = u32::try_from(PARAMETERS_BYTES).unwrap_or(0);
        let (logical, physical) = (self.logical_block_shift, self.physical_block_shift);
        Writer::new(&mut bytes)
            .u32(length)
            .u32(TYPES)
            .u32(self.attributes)
            // Logical and physical block, best and smallest transfer.
            .bytes(&[logical, physical, physical, physical])
            .u32(self.max_sectors)
            // No chunks, no boundary.
            .u32(0)
            .u64(self.sectors)
            .u64(0)
            // Alignment of discards.
            .u32(0)
            .u32(self.discard_granularity_bytes)
            .u32(self.max_discard_sectors)
            .u32(self.max_write_zeroes_sectors)
            // Segments of a discard: the kernel takes no other number.
            .u16(1);
        bytes
    }
}

/// What a command is called in the kernel's header: its number, and whether it only reads.
#[derive(Debug, Clone, Copy)]
struct Command {
    name: &'static str,
    number: u8,
    only_reads: bool,
}

impl Command {
    const fn new(name: &'static str, number: u8) -> Self {
        Self { name, number, only_reads: false }
    }

    const fn reading(name: &'static str, number: u8) -> Self {
        Self { name, number, only_reads: true }
    }

    /// What the kernel is sent, for an argument of type `T`.
    fn word<T>(self, encoded: bool) -> u32 {
        match (encoded, self.only_reads) {
            (false, _) => u32::from(self.number),
            (true, false) => opcode::read_write::<T>(b'u', self.number),
            (true, true) => opcode::read::<T>(b'u', self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{u32_at, u64_at};

    #[test]
    fn parameters_lie_where_the_header_has_them() {
        let parameters = Parameters {
            attributes: ATTRIBUTE_ROTATIONAL | ATTRIBUTE_FUA,
            logical_block_shift: 9,
            physical_block_shift: 12,
            max_sectors: 2048,
            sectors: 0x1_0000_0001,
            discard_granularity_bytes: 4096,
            max_discard_sectors: 77,
            max_write_zeroes_sectors: 88,
        };
        let bytes = parameters.encode();
        // Offsets of `struct ublk_params`, by the C compiler.
        assert_eq!([u32_at(&bytes, 0), u32_at(&bytes, 4), u32_at(&bytes, 8)], [Some(64), Some(3), Some(10)]);
        assert_eq!(bytes[12..16], [9, 12, 12, 12]);
        assert_eq!([u32_at(&bytes, 16), u32_at(&bytes, 20)], [Some(2048), Some(0)]);
        assert_eq!([u64_at(&bytes, 24), u64_at(&bytes, 32)], [Some(0x1_0000_0001), Some(0)]);
        assert_eq!([u32_at(&bytes, 40), u32_at(&bytes, 44)], [Some(0), Some(4096)]);
        assert_eq!([u32_at(&bytes, 48), u32_at(&bytes, 52)], [Some(77), Some(88)]);
        assert_eq!(bytes[56..60], [1_u16.to_ne_bytes(), [0, 0]].concat());
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        let add = Command::new("UBLK_CMD_ADD_DEV", 4);
        assert_eq!((add.word::<[u8; 32]>(false), add.word::<[u8; 32]>(true)), (4, 0xC020_7504));
        let information = Command::reading("UBLK_CMD_GET_DEV_INFO", 2);
        assert_eq!(information.word::<[u8; 32]>(true), 0x8020_7502);
        let commit = Command::new("UBLK_IO_COMMIT_AND_FETCH_REQ", 0x21);
        assert_eq!(commit.word::<[u8; 16]>(true), 0xC010_7521);
    }
}
