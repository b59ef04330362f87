//! Reading and writing numbers in the kernel's buffers; out of range reads give `None`, never a panic.

/// The `N` bytes at `at`.
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// A number in the machine's byte order, as ioctls have them.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// A number in the machine's byte order, as ioctls have them.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// A number in little-endian order, as btrfs has them on disk.
#[inline]
pub(crate) fn le64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// A number in little-endian order, as btrfs has them on disk.
#[inline]
pub(crate) fn le16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// Puts the fields of a request one after the other at the start of a buffer, zeros in the rest of it.
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Starts at the beginning of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { rest: buffer }
    }

    /// Puts `bytes`, cut where the buffer ends.
    fn put(mut self, bytes: &[u8]) -> Self {
        let (head, rest) = self.rest.split_at_mut(bytes.len().min(self.rest.len()));
        head.copy_from_slice(&bytes[..head.len()]);
        self.rest = rest;
        self
    }

    /// Puts bytes as they are.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.put(bytes)
    }

    /// Puts a number in the machine's byte order.
    pub fn u16(self, value: u16) -> Self {
        self.put(&value.to_ne_bytes())
    }

    /// Puts a number in the machine's byte order.
    pub fn u32(self, value: u32) -> Self {
        self.put(&value.to_ne_bytes())
    }

    /// Puts a number in the machine's byte order.
    pub fn u64(self, value: u64) -> Self {
        self.put(&value.to_ne_bytes())
    }
}
