//! What the rows of a file say of the next one: its first name, its size and the version of its data. The
//! writer leaves out what follows, the reader puts it back; both keep one of these, over all rows in their
//! order.
//!
//! Memory: about 60 bytes a live file.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use fsage_model::operation::{Action, DirectoryEntry, Operation, OperationKind};

/// What can be left out of a row, as bits.
pub const PLACE: u8 = 1;
/// Likewise.
pub const SIZE: u8 = 2;
/// Likewise.
pub const VERSION: u8 = 4;

/// A live file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    place: DirectoryEntry,
    size: u64,
    version: u32,
}

/// Live files by their numbers.
#[derive(Debug, Default)]
pub struct Followed {
    files: HashMap<u64, Known, BuildHasherDefault<Mix>>,
}

/// Numbers are counted up: one multiplication spreads them.
#[derive(Debug, Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Known {
    const fn next_version(&self, kind: OperationKind) -> u32 {
        if kind.writes_again() { self.version.saturating_add(1) } else { self.version }
    }
}

impl Followed {
    /// What of a row follows from the earlier ones.
    pub fn left_out(&self, operation: &Operation) -> u8 {
        let Some(known) = self.known(operation) else { return 0 };
        let mut left_out = 0;
        for (part, follows) in [
            (PLACE, known.place == operation.place),
            (SIZE, known.size == operation.size),
            (VERSION, known.next_version(operation.kind()) == operation.version),
        ] {
            left_out |= if follows { part } else { 0 };
        }
        left_out
    }

    /// Puts back what was left out of a row; whether the earlier rows say it.
    pub fn put_back(&self, operation: &mut Operation, left_out: u8) -> bool {
        if left_out == 0 {
            return true;
        }
        let Some(known) = self.known(operation) else { return false };
        if left_out & PLACE != 0 {
            operation.place = known.place;
        }
        if left_out & SIZE != 0 {
            operation.size = known.size;
        }
        if left_out & VERSION != 0 {
            operation.version = known.next_version(operation.kind());
        }
        true
    }

    fn known(&self, operation: &Operation) -> Option<&Known> {
        match operation.action {
            Action::Create { .. } | Action::Mkdir { .. } | Action::Rmdir { .. } => None,
            _ => self.files.get(&operation.file),
        }
    }

    /// Takes a whole row in. A failed write leaves its version behind: no later one has it (`workload`).
    pub fn take(&mut self, operation: &Operation, errno: i32) {
        let Operation { file, place, version, .. } = *operation;
        if let Action::Create { length: size } = operation.action {
            if errno == 0 {
                self.files.insert(file, Known { place, size, version });
            }
            return;
        }
        let Some(known) = self.files.get_mut(&file) else { return };
        if operation.kind().writes_again() {
            known.version = version;
        }
        if errno != 0 {
            return;
        }
        match operation.action {
            Action::Append { offset, length } => known.size = offset.saturating_add(length),
            Action::Truncate { new_size } => known.size = new_size,
            Action::Rename { target } => known.place = target,
            Action::Delete if known.place == place => {
                self.files.remove(&file);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = (3 << 48) | 7;

    fn operation(action: Action, name: u64, size: u64, version: u32) -> Operation {
        let place = DirectoryEntry { directory: 4, name };
        Operation { action, file: FILE, place, size, version }
    }

    #[test]
    fn what_earlier_rows_say_is_left_out_and_put_back() {
        let target = DirectoryEntry { directory: 9, name: 12 };
        let other = DirectoryEntry { name: 13, ..target };
        let read = Action::Read { length: 0 };
        let write = Action::RandomWrite { offset: 0, length: 4096, accesses: 1 };
        let rows = [
            (operation(Action::Create { length: 5000 }, 11, 0, 1), 0, 0),
            (operation(Action::Append { offset: 4096, length: 2000 }, 11, 5000, 2), 0, 7),
            (operation(read, 11, 6096, 2), 0, 7),
            // One that failed: the size stays, its version is used up.
            (operation(Action::Append { offset: 4096, length: 9000 }, 11, 6096, 3), 28, 7),
            (operation(write, 11, 6096, 4), 0, 7),
            (operation(Action::Link { target }, 11, 6096, 4), 0, 7),
            (operation(Action::Rename { target: other }, 11, 6096, 4), 0, 7),
            // The hard link, then the file under its new name.
            (Operation { place: target, ..operation(Action::Delete, 0, 6096, 4) }, 0, SIZE | VERSION),
            (operation(Action::Truncate { new_size: 10 }, 0, 6096, 4), 0, SIZE | VERSION),
            (Operation { place: other, ..operation(Action::Delete, 0, 10, 4) }, 0, 7),
            (operation(Action::Delete, 13, 10, 4), 2, 0),
            (operation(Action::Mkdir { parent: 0 }, 0, 0, 0), 0, 0),
        ];
        let (mut writer, mut reader) = (Followed::default(), Followed::default());
        for (n, (row, errno, expected)) in rows.into_iter().enumerate() {
            let left_out = writer.left_out(&row);
            assert_eq!(left_out, expected, "row {n}");
            writer.take(&row, errno);
            let mut stored = row;
            if left_out & PLACE != 0 {
                stored.place = DirectoryEntry::default();
            }
            if left_out & SIZE != 0 {
                stored.size = 0;
            }
            if left_out & VERSION != 0 {
                stored.version = 0;
            }
            assert!(reader.put_back(&mut stored, left_out));
            assert_eq!(stored, row, "row {n}");
            reader.take(&stored, errno);
        }
        assert!(writer.files.is_empty() && reader.files.is_empty());
        let mut nobody = operation(read, 1, 1, 1);
        assert!(!reader.put_back(&mut nobody, SIZE), "a file that no row has made");
    }
}
