//! What the driver's words mean: its descriptors as requests, our results as its numbers, a disk as its
//! parameters.

use fsage_sys::ublk::{
    ATTRIBUTE_FUA, ATTRIBUTE_ROTATIONAL, ATTRIBUTE_VOLATILE_CACHE, Descriptor, FLAG_FUA, FLAG_NO_UNMAP,
    Parameters, SECTOR_BYTES, operation,
};
use rustix::io::Errno;

use super::{MAX_DISCARD_BYTES, MAX_TRANSFER_BYTES};
use crate::export::errno;
use crate::request::{IoError, Operation, Request};

/// The request of a descriptor. Whether the disk has its range is the gate's to say.
///
/// # Errors
/// `EOPNOTSUPP` for an operation that there is not, `EINVAL` for nothing to read, write, discard or zero, and
/// for a start that no disk has.
pub fn decode(descriptor: &Descriptor) -> Result<Request, Errno> {
    let flags = descriptor.op_flags;
    let operation = match flags & 0xFF {
        operation::READ => Operation::Read,
        operation::WRITE => Operation::Write,
        // The kernel leaves any start in it.
        operation::FLUSH => return Ok(Request::new(Operation::Flush, 0, 0)),
        operation::WRITE_ZEROES if flags & FLAG_NO_UNMAP != 0 => Operation::Zero,
        operation::DISCARD | operation::WRITE_ZEROES => Operation::Discard,
        _ => return Err(Errno::OPNOTSUPP),
    };
    let offset_bytes = descriptor.start_sector.checked_mul(SECTOR_BYTES).ok_or(Errno::INVAL)?;
    if descriptor.sectors == 0 {
        return Err(Errno::INVAL);
    }
    let mut request = Request::new(operation, offset_bytes, u64::from(descriptor.sectors) * SECTOR_BYTES);
    request.fua = operation == Operation::Write && flags & FLAG_FUA != 0;
    Ok(request)
}

/// What the driver gets to know of a request that was served: the bytes of a read or write, 0 of everything else,
/// or a negative error number.
#[must_use]
pub fn result(request: &Request, result: Result<(), IoError>) -> i32 {
    match (result, request.operation) {
        // At most `MAX_TRANSFER_BYTES`: the slots have no room for more.
        (Ok(()), Operation::Read | Operation::Write) => {
            i32::try_from(request.length_bytes).unwrap_or(i32::MAX)
        }
        (Ok(()), Operation::Flush | Operation::Discard | Operation::Zero) => 0,
        (Err(error), _) => -errno(error).raw_os_error(),
    }
}

/// What the driver gets to know of a disk of `size_bytes` in blocks of `block_bytes`, a power of 2 of at
/// least 512.
#[must_use]
pub fn parameters(size_bytes: u64, block_bytes: u32, is_rotational: bool) -> Parameters {
    let shift = u8::try_from(block_bytes.trailing_zeros()).unwrap_or(u8::MAX);
    let turns = if is_rotational { ATTRIBUTE_ROTATIONAL } else { 0 };
    let sectors = |bytes: u32| bytes >> SECTOR_BYTES.trailing_zeros();
    Parameters {
        attributes: ATTRIBUTE_VOLATILE_CACHE | ATTRIBUTE_FUA | turns,
        logical_block_shift: shift,
        physical_block_shift: shift,
        max_sectors: sectors(MAX_TRANSFER_BYTES),
        sectors: size_bytes / SECTOR_BYTES,
        discard_granularity_bytes: block_bytes,
        max_discard_sectors: sectors(MAX_DISCARD_BYTES),
        max_write_zeroes_sectors: sectors(MAX_DISCARD_BYTES),
    }
}
