//! Searching a tree (`BTRFS_IOC_TREE_SEARCH_V2`): a stretch of keys in one request, item by item out of the
//! answer.

use std::os::fd::BorrowedFd;

use super::malformed;
use crate::Result;
use crate::aligned::AlignedBuffer;
use crate::bytes::{Writer, le64_at, u32_at, u64_at};
use crate::ioctl::Request;

/// `struct btrfs_ioctl_search_key` and the buffer's size: `struct btrfs_ioctl_search_args_v2` without its
/// buffer.
#[repr(C)]
struct Header {
    key: [u64; 13],
    buffer_bytes: u64,
}

const BTRFS_IOC_TREE_SEARCH_V2: Request<Header> = Request::read_write("BTRFS_IOC_TREE_SEARCH_V2", 0x94, 17);
const HEADER_BYTES: usize = size_of::<Header>();
const ITEM_HEADER_BYTES: usize = 32;
const BUFFER_BYTES: usize = 256 * 1024;

/// Key of an item. Keys are ordered by object, kind, offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub object: u64,
    pub kind: u32,
    pub offset: u64,
}

impl Key {
    /// The key right after this one; `None` after the last of all.
    fn next(self) -> Option<Self> {
        if let Some(offset) = self.offset.checked_add(1) {
            return Some(Self { offset, ..self });
        }
        if self.kind < u32::from(u8::MAX) {
            return Some(Self { kind: self.kind + 1, offset: 0, ..self });
        }
        self.object.checked_add(1).map(|object| Self { object, kind: 0, offset: 0 })
    }
}

/// One item of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// First part of the key.
    pub object: u64,
    /// Second part of the key.
    pub kind: u32,
    /// Third part of the key.
    pub offset: u64,
    /// What the tree holds under the key.
    pub body: &'a [u8],
}

impl Item<'_> {
    /// The little-endian number at `at` of the body.
    #[must_use]
    pub fn le64(&self, at: usize) -> Option<u64> {
        le64_at(self.body, at)
    }
}

/// Searches trees with one buffer.
pub(super) struct Search<'a> {
    fd: BorrowedFd<'a>,
    buffer: AlignedBuffer,
}

impl<'a> Search<'a> {
    pub fn new(fd: BorrowedFd<'a>) -> Self {
        Self { fd, buffer: AlignedBuffer::new(HEADER_BYTES + BUFFER_BYTES) }
    }

    /// Calls `each` with every item from `first` to `last`, both included.
    pub fn visit(
        &mut self,
        tree: u64,
        first: Key,
        last: Key,
        mut each: impl FnMut(Item<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut from = first;
        while from <= last {
            self.request(tree, from, last)?;
            let mut reached = None;
            for item in decode(&self.buffer) {
                let item = item.ok_or(malformed("item beyond the end"))?;
                reached = Some(Key { object: item.object, kind: item.kind, offset: item.offset });
                each(item)?;
            }
            match reached {
                None => return Ok(()),
                Some(key) if key < from => return Err(malformed("items that do not go forward")),
                Some(key) => match key.next() {
                    Some(next) => from = next,
                    None => return Ok(()),
                },
            }
        }
        Ok(())
    }

    fn request(&mut self, tree: u64, first: Key, last: Key) -> Result<()> {
        let writer = Writer::new(&mut self.buffer).u64(tree).u64(first.object).u64(last.object);
        // Between the offsets: any transaction.
        let writer = writer.u64(first.offset).u64(last.offset).u64(0).u64(u64::MAX);
        let writer = writer.u32(first.kind).u32(last.kind).u32(u32::MAX).u32(0);
        writer.u64(0).u64(0).u64(0).u64(0).u64(u64::try_from(BUFFER_BYTES).unwrap_or(0));
        // SAFETY: the buffer starts with a `btrfs_ioctl_search_args_v2` that was just filled in and has room
        // for the bytes that it declares; it is aligned to 4096.
        unsafe { BTRFS_IOC_TREE_SEARCH_V2.call(self.fd, self.buffer.as_mut_ptr().cast()) }.map(drop)
    }
}

/// The items in an answer: a `struct btrfs_ioctl_search_args_v2` whose buffer holds `nr_items` headers, each
/// followed by its body. A `None` ends the iteration where the bytes end too early.
pub fn decode(answer: &[u8]) -> impl Iterator<Item = Option<Item<'_>>> {
    let mut left = u32_at(answer, 64).unwrap_or(0);
    let mut rest = answer.get(HEADER_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let decoded = decode_item(rest);
        match decoded {
            Some((_, behind)) => rest = behind,
            None => left = 0,
        }
        Some(decoded.map(|(item, _)| item))
    })
}

/// One item, and the bytes behind it.
fn decode_item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (object, offset) = (u64_at(bytes, 8)?, u64_at(bytes, 16)?);
    let (kind, length) = (u32_at(bytes, 24)?, u32_at(bytes, 28)?);
    let (body, behind) = bytes.get(ITEM_HEADER_BYTES..)?.split_at_checked(usize::try_from(length).ok()?)?;
    Some((Item { object, kind, offset, body }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Fields = (u64, u32, u64, Vec<u8>);

    fn encode(items: &[Fields]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[64..68].copy_from_slice(&u32::try_from(items.len()).unwrap().to_ne_bytes());
        for (object, kind, offset, body) in items {
            for field in [7, *object, *offset] {
                bytes.extend(u64::to_ne_bytes(field));
            }
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(u32::try_from(body.len()).unwrap().to_ne_bytes());
            bytes.extend(body);
        }
        bytes
    }

    proptest! {
        #[test]
        fn decodes_what_was_encoded(
            items in proptest::collection::vec((any::<u64>(), 0_u32..256, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..12),
            cut in 1_usize..900,
        ) {
            let mut bytes = encode(&items);
            let decoded: Vec<Fields> = decode(&bytes)
                .map(|item| item.map(|item| (item.object, item.kind, item.offset, item.body.to_vec())))
                .collect::<Option<_>>()
                .unwrap();
            prop_assert_eq!(&decoded, &items);
            // Cut short, the whole items come first and then one `None`.
            bytes.truncate(bytes.len().saturating_sub(cut).max(HEADER_BYTES));
            let whole: Vec<_> = decode(&bytes).take_while(Option::is_some).collect();
            prop_assert!(items.is_empty() || whole.len() < items.len());
            prop_assert_eq!(decode(&bytes).count(), whole.len() + usize::from(!items.is_empty()));
        }

        #[test]
        fn the_next_key_is_the_smallest_greater_one(object in any::<u64>(), kind in 0_u32..256, offset in any::<u64>()) {
            for key in [Key { object, kind, offset }, Key { object, kind, offset: u64::MAX }, Key { object, kind: 255, offset: u64::MAX }] {
                match key.next() {
                    Some(next) => prop_assert!(next > key && (next.offset == 0 || next.offset == key.offset + 1)),
                    None => prop_assert_eq!(key, Key { object: u64::MAX, kind: 255, offset: u64::MAX }),
                }
            }
        }
    }
}
