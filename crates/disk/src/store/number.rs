//! Places on the disk as places in memory and back.

/// A number of bytes or blocks as an index. Machines that run this have 64-bit addresses; elsewhere a number
/// that does not fit is beyond any slice.
#[inline]
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A length in memory as a number of bytes or blocks.
#[inline]
pub(crate) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A number below 65536 that was counted as a larger kind.
#[inline]
pub(crate) fn narrow(number: u64) -> u16 {
    debug_assert!(number <= u64::from(u16::MAX), "{number} blocks in a chunk");
    u16::try_from(number).unwrap_or(u16::MAX)
}
