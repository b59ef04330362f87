//! What the rows of a file say of the next one: its first name, its size and the version of its data. The
//! writer leaves out what follows, the reader puts it back; both keep one of these, over all rows in their
//! order.
//!
//! Memory: about 60 bytes a live file.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use fsage_model::operation::{DirectoryEntry, Operation, OperationKind};

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

/// Whether an operation writes data of a new version.
const fn writes(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::Append | OperationKind::RandomWrite | OperationKind::Overwrite)
}

impl Known {
    const fn next_version(&self, kind: OperationKind) -> u32 {
        if writes(kind) { self.version.saturating_add(1) } else { self.version }
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
            (VERSION, known.next_version(operation.kind) == operation.version),
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
            operation.version = known.next_version(operation.kind);
        }
        true
    }

    fn known(&self, operation: &Operation) -> Option<&Known> {
        use OperationKind as K;
        match operation.kind {
            K::Create | K::Mkdir | K::Rmdir => None,
            _ => self.files.get(&operation.file),
        }
    }

    /// Takes a whole row in. A failed write leaves its version behind: no later one has it (`workload`).
    pub fn take(&mut self, operation: &Operation, errno: i32) {
        use OperationKind as K;
        if operation.kind == K::Create {
            if errno == 0 {
                let Operation { file, place, length: size, version, .. } = *operation;
                self.files.insert(file, Known { place, size, version });
            }
            return;
        }
        let Some(known) = self.files.get_mut(&operation.file) else { return };
        if writes(operation.kind) {
            known.version = operation.version;
        }
        if errno != 0 {
            return;
        }
        match operation.kind {
            K::Append => known.size = operation.offset.saturating_add(operation.length),
            K::Truncate => known.size = operation.offset,
            K::Rename => known.place = operation.target,
            K::Delete if known.place == operation.place => {
                self.files.remove(&operation.file);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::column::blank;
    use super::*;

    const FILE: u64 = (3 << 48) | 7;

    fn operation(kind: OperationKind, name: u64, size: u64, version: u32) -> Operation {
        let place = DirectoryEntry { directory: 4, name };
        Operation { file: FILE, place, size, version, ..blank(kind).operation }
    }

    #[test]
    fn what_earlier_rows_say_is_left_out_and_put_back() {
        use OperationKind as K;
        let target = DirectoryEntry { directory: 9, name: 12 };
        let rows = [
            (Operation { length: 5000, ..operation(K::Create, 11, 0, 1) }, 0, 0),
            (Operation { offset: 4096, length: 2000, ..operation(K::Append, 11, 5000, 2) }, 0, 7),
            (operation(K::Read, 11, 6096, 2), 0, 7),
            // One that failed: the size stays, its version is used up.
            (Operation { offset: 4096, length: 9000, ..operation(K::Append, 11, 6096, 3) }, 28, 7),
            (operation(K::RandomWrite, 11, 6096, 4), 0, 7),
            (Operation { target, ..operation(K::Link, 11, 6096, 4) }, 0, 7),
            (
                Operation {
                    target: DirectoryEntry { name: 13, ..target },
                    ..operation(K::Rename, 11, 6096, 4)
                },
                0,
                7,
            ),
            // The hard link, then the file under its new name.
            (Operation { place: target, ..operation(K::Delete, 0, 6096, 4) }, 0, SIZE | VERSION),
            (Operation { offset: 10, ..operation(K::Truncate, 0, 6096, 4) }, 0, SIZE | VERSION),
            (
                Operation { place: DirectoryEntry { name: 13, ..target }, ..operation(K::Delete, 0, 10, 4) },
                0,
                7,
            ),
            (operation(K::Delete, 13, 10, 4), 2, 0),
            (operation(K::Mkdir, 0, 0, 0), 0, 0),
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
        let mut nobody = operation(K::Read, 1, 1, 1);
        assert!(!reader.put_back(&mut nobody, SIZE), "a file that no row has made");
    }
}
