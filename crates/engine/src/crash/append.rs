//! The load `append`: logs that grow record by record, as programs write them, and are rotated.
//!
//! One log for each way to make a record durable. A record has a few blocks and mostly a part of one. The part of a block
//! at the end is written again with the next record, because a block of a file has one version at a time
//! ([`CrashOperation::Write`]); a program that writes only what is new leaves the same blocks to the file system.

use fsage_model::crash::{CrashLoadSpec, CrashOperation};

use super::generated::{Dice, Generated, MOST_BLOCKS};
use super::tree::{BLOCK, Tree};

/// Bytes from which a log is rotated.
const LONGEST: u64 = 12 * BLOCK;

/// A log, by what is done after each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// Nothing: it is written out when the kernel does so.
    Unsynced,
    /// `fsync`.
    Fsync,
    /// `fdatasync`, which has to bring the new size too.
    Fdatasync,
    /// As before, into space that was allocated first, so that the size does not change.
    Allocated,
    /// Written past the page cache in whole blocks, then `fdatasync`.
    Direct,
}

impl Log {
    const ALL: [Self; 5] = [Self::Unsynced, Self::Fsync, Self::Fdatasync, Self::Allocated, Self::Direct];

    const fn path(self) -> &'static str {
        match self {
            Self::Unsynced => "unsynced.log",
            Self::Fsync => "fsync.log",
            Self::Fdatasync => "fdatasync.log",
            Self::Allocated => "allocated.log",
            Self::Direct => "direct.log",
        }
    }
}

/// The load.
pub fn load(spec: CrashLoadSpec, random: &mut Dice) -> Generated {
    let create = |log: &Log| CrashOperation::Create { path: log.path().to_owned() };
    let base = Log::ALL.iter().map(create).chain([CrashOperation::Sync]).collect();
    let mut generated =
        Generated { root: String::new(), seed: spec.seed, base, operations: Vec::new(), updates: Vec::new() };
    let mut tree = generated.tree();
    // Bytes of records in the log that is longer than they are.
    let mut filled = 0;
    for _ in 0..spec.size {
        let Some(log) = random.pick(&Log::ALL).copied() else { continue };
        let operations = match log {
            Log::Allocated => allocated(&tree, &mut filled, random),
            _ => append(log, &tree, random),
        };
        for operation in operations {
            tree.apply(&operation);
            generated.operations.push(operation);
        }
    }
    generated
}

/// A record at the end of a log, or a new log in its place.
fn append(log: Log, tree: &Tree, random: &mut Dice) -> Vec<CrashOperation> {
    let path = log.path().to_owned();
    let size = tree.contents(&path).map_or(0, |contents| contents.size_bytes);
    if size >= LONGEST {
        return rotate(log, random);
    }
    let offset_bytes = size / BLOCK * BLOCK;
    let length_bytes = size - offset_bytes + random.size();
    let record = match log {
        Log::Direct => {
            let length_bytes = length_bytes.div_ceil(BLOCK) * BLOCK;
            CrashOperation::DirectWrite { path: path.clone(), offset_bytes, length_bytes }
        }
        _ => CrashOperation::Write { path: path.clone(), offset_bytes, length_bytes },
    };
    let synced = match log {
        Log::Unsynced => None,
        Log::Fsync => Some(CrashOperation::Fsync { path }),
        Log::Fdatasync | Log::Allocated | Log::Direct => Some(CrashOperation::Fdatasync { path }),
    };
    [record].into_iter().chain(synced).collect()
}

/// A record within what was allocated; where there is no room, more is allocated first, or the log is rotated.
fn allocated(tree: &Tree, filled: &mut u64, random: &mut Dice) -> Vec<CrashOperation> {
    let path = Log::Allocated.path().to_owned();
    let size = tree.contents(&path).map_or(0, |contents| contents.size_bytes);
    let length_bytes = (1 + random.below(MOST_BLOCKS / 2)) * BLOCK;
    if *filled + length_bytes > size && size >= LONGEST {
        *filled = 0;
        return rotate(Log::Allocated, random);
    }
    let offset_bytes = *filled;
    *filled += length_bytes;
    let more = (*filled > size).then(|| CrashOperation::Allocate {
        path: path.clone(),
        size_bytes: size.max(*filled) + (1 + random.below(MOST_BLOCKS)) * BLOCK,
    });
    let record = CrashOperation::Write { path: path.clone(), offset_bytes, length_bytes };
    more.into_iter().chain([record, CrashOperation::Fdatasync { path }]).collect()
}

/// The log gets an old name, replacing the one before, and a new one begins; of two rotations one is made durable.
fn rotate(log: Log, random: &mut Dice) -> Vec<CrashOperation> {
    let path = log.path().to_owned();
    let rename = CrashOperation::Rename { from: path.clone(), to: format!("{path}.1") };
    let durable = CrashOperation::FsyncDirectory { path: String::new() };
    let durable = (random.below(2) == 0).then_some(durable);
    [rename, CrashOperation::Create { path }].into_iter().chain(durable).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fsage_model::crash::CrashLoad;

    use super::*;

    #[test]
    fn logs_grow_at_their_end_and_are_rotated() {
        let spec = CrashLoadSpec { load: CrashLoad::Append, size: 400, seed: 5, threads: 1 };
        let generated = load(spec, &mut Dice::new(5));
        let mut tree = generated.tree();
        let (mut rotated, mut allocated) = (BTreeSet::new(), 0);
        for operation in &generated.operations {
            let size = |path: &str| tree.contents(path).unwrap().size_bytes;
            match operation {
                CrashOperation::Write { path, offset_bytes, length_bytes } if path == "allocated.log" => {
                    assert!(offset_bytes + length_bytes <= size(path), "within what is allocated");
                    allocated += 1;
                }
                CrashOperation::Write { path, offset_bytes, length_bytes }
                | CrashOperation::DirectWrite { path, offset_bytes, length_bytes } => {
                    assert_eq!(*offset_bytes, size(path) / BLOCK * BLOCK, "{path}");
                    assert!(offset_bytes + length_bytes > size(path), "{path}");
                }
                CrashOperation::Rename { from, to } => {
                    assert!(size(from) >= LONGEST && *to == format!("{from}.1"));
                    rotated.insert(from.clone());
                }
                _ => {}
            }
            tree.apply(operation);
        }
        assert_eq!(rotated.len(), Log::ALL.len(), "{rotated:?}");
        assert!(allocated > 20);
        let synced = |path: &str| {
            let syncs = |operation: &&CrashOperation| matches!(operation, CrashOperation::Fsync { path: other } | CrashOperation::Fdatasync { path: other } if other == path);
            generated.operations.iter().filter(syncs).count()
        };
        assert_eq!(synced("unsynced.log"), 0);
        assert!(synced("fsync.log") > 30 && synced("direct.log") > 30);
    }
}
