//! Memory aligned for direct I/O and for the kernel's structures.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every [`AlignedBuffer`]: as much as any block device asks for.
pub const ALIGNMENT: usize = 4096;

/// Zeroed bytes at an address that is a multiple of [`ALIGNMENT`].
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the buffer owns its memory as a `Box<[u8]>` does.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `length` zero bytes.
    ///
    /// # Panics
    /// Where a `Vec` would: memory exhausted or more than `isize::MAX` bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let layout = Self::layout(length);
        // SAFETY: the layout's size is at least one byte (see `layout`).
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, length }
    }

    /// The layout for `length` bytes, never of size zero.
    fn layout(length: usize) -> Layout {
        match Layout::from_size_align(length.max(1), ALIGNMENT) {
            Ok(layout) => layout,
            Err(_) => panic!("buffer of {length} bytes is larger than the address space"),
        }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this same layout and never freed before.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.length)) };
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length` initialised bytes of our own start there, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zeroed_and_writable() {
        for length in [0, 1, 4095, 4096, 1 << 20] {
            let mut buffer = AlignedBuffer::new(length);
            assert_eq!(buffer.as_ptr().addr() % ALIGNMENT, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            assert_eq!(buffer.len(), length);
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
    }
}
