//! Write-back by operations: on a virtual disk in model time, what is written when must not depend on how
//! fast the processor is.
//!
//! An executor there remembers which files it wrote since it last wrote them out. When the load is held to be
//! inspected, they are written out one by one in the order in which they were written first, each to its end:
//! what a file system does when a write has ended (extents become valid, sizes and trees change) is done then
//! before the next file gets its place. Left to `syncfs`, both happen at once on whatever processor is free.
//! xfs frees unlinked inodes in the background: it is waited for after each delete.

use std::collections::HashMap;

use fsage_model::operation::{Action, DirectoryEntry, Operation};
use fsage_sys::{fiemap, xfs};
use rustix::fd::{AsFd, BorrowedFd};

/// What is to be settled of one thread's operations.
#[derive(Debug, Default)]
pub(super) struct Settler {
    /// File → its turn and its place.
    written: HashMap<u64, (u64, DirectoryEntry)>,
    turns: u64,
    reader: fiemap::Reader,
    /// The file system does not free in the background what is deleted, or not so that it could be waited
    /// for.
    frees_at_once: bool,
}

impl Settler {
    pub(super) fn new() -> Self {
        Self { reader: fiemap::Reader::synced(), ..Self::default() }
    }

    /// Takes note of an operation that was done.
    pub(super) fn note(&mut self, operation: &Operation, top: BorrowedFd<'_>) {
        match operation.action {
            Action::Create { .. }
            | Action::Append { .. }
            | Action::Overwrite
            | Action::RandomWrite { .. }
            | Action::Truncate { .. }
            | Action::Fallocate { .. } => {
                self.turns += 1;
                let turn = self.turns;
                self.written.entry(operation.file).or_insert((turn, operation.place)).1 = operation.place;
            }
            Action::Rename { target } => {
                if let Some(written) = self.written.get_mut(&operation.file) {
                    written.1 = target;
                }
            }
            Action::Delete => {
                self.written.remove(&operation.file);
                self.frees_at_once = self.frees_at_once || xfs::free_unlinked(top).is_err();
            }
            _ => {}
        }
    }

    /// The files to be written out, in order; they are forgotten.
    pub(super) fn take(&mut self) -> Vec<DirectoryEntry> {
        let mut written: Vec<(u64, DirectoryEntry)> =
            self.written.drain().map(|(_, written)| written).collect();
        written.sort_unstable_by_key(|(turn, _)| *turn);
        written.into_iter().map(|(_, place)| place).collect()
    }

    /// Writes a file out and waits for it. What fails is found by the sync that follows.
    pub(super) fn write_out(&mut self, file: impl AsFd) {
        let _ = self.reader.visit(file.as_fd(), |_| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_out_in_the_order_of_their_first_write() {
        let folder = std::fs::File::open("/proc").unwrap();
        let mut settler = Settler::new();
        let target = DirectoryEntry { directory: 0, name: 99 };
        for (action, file, name) in [
            (Action::Create { length: 1 }, 7, 1),
            (Action::Append { offset: 0, length: 1 }, 3, 2),
            (Action::Read { length: 1 }, 4, 3),
            (Action::RandomWrite { offset: 0, length: 1, accesses: 1 }, 7, 1),
            (Action::Create { length: 1 }, 5, 4),
            (Action::Rename { target }, 3, 2),
            (Action::Delete, 5, 4),
        ] {
            let place = DirectoryEntry { directory: 0, name };
            settler.note(&Operation { action, file, place, size: 0, version: 1 }, folder.as_fd());
        }
        assert!(settler.frees_at_once);
        let names: Vec<_> = settler.take().iter().map(|place| place.name).collect();
        assert_eq!(names, [1, 99]);
        assert!(settler.take().is_empty());
    }
}
