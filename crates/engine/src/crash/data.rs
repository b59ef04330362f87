//! The load `data`: random operations on what files hold.

use fsage_model::crash::{CrashLoadSpec, CrashOperation};

use super::generated::{Dice, Generated, MOST_BLOCKS};
use super::tree::{BLOCK, Tree};

/// Names of its files.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Files that it begins with.
const AT_FIRST: usize = 5;

/// The load.
pub fn load(spec: CrashLoadSpec, random: &mut Dice) -> Generated {
    let at_first = NAMES.iter().take(AT_FIRST);
    let mut base: Vec<CrashOperation> = at_first
        .flat_map(|name| {
            let path = (*name).to_owned();
            let write =
                CrashOperation::Write { path: path.clone(), offset_bytes: 0, length_bytes: random.size() };
            [CrashOperation::Create { path }, write]
        })
        .collect();
    base.push(CrashOperation::Sync);
    Generated::random(spec, base, random, next)
}

/// An operation that can be done on this tree; none where what was drawn cannot.
fn next(tree: &Tree, random: &mut Dice) -> Option<CrashOperation> {
    let path = (*random.pick(&NAMES)?).to_owned();
    let other = (*random.pick(&NAMES)?).to_owned();
    let is_two = path != other && tree.file(&other).is_some();
    let Some(size) = tree.contents(&path).map(|contents| contents.size_bytes) else {
        return Some(match random.below(3) {
            0 => CrashOperation::LinkUnnamed { path, length_bytes: random.size() },
            _ => CrashOperation::Create { path },
        });
    };
    match random.below(100) {
        0..14 => written(size, random).map(|(offset_bytes, length_bytes)| CrashOperation::Write {
            path,
            offset_bytes,
            length_bytes,
        }),
        14..24 => {
            let (offset_bytes, blocks) = (random.below(MOST_BLOCKS) * BLOCK, 1 + random.below(3));
            let length_bytes = blocks.min(MOST_BLOCKS - offset_bytes / BLOCK) * BLOCK;
            // A direct write would leave a part of a block that lies between them.
            (offset_bytes <= size).then_some(CrashOperation::DirectWrite { path, offset_bytes, length_bytes })
        }
        24..34 => {
            let offset_bytes = random.below(size.div_ceil(BLOCK)) * BLOCK;
            let length_bytes = ((1 + random.below(3)) * BLOCK).min(size.checked_sub(offset_bytes)?);
            (length_bytes > 0).then_some(CrashOperation::MappedWrite { path, offset_bytes, length_bytes })
        }
        34..50 => Some(CrashOperation::WriteOut { path }),
        50..55 => {
            let offset_bytes = random.below(size / BLOCK) * BLOCK;
            let length_bytes = (1 + random.below(2)) * BLOCK;
            (offset_bytes + length_bytes <= size).then_some(CrashOperation::Punch {
                path,
                offset_bytes,
                length_bytes,
            })
        }
        55..61 => {
            let size_bytes = (1 + random.below(MOST_BLOCKS)) * BLOCK;
            Some(CrashOperation::Allocate { path, size_bytes })
        }
        61..67 => Some(CrashOperation::Truncate { path, size_bytes: random.below(MOST_BLOCKS + 1) * BLOCK }),
        67..72 => is_two.then_some(CrashOperation::Exchange { from: path, to: other }),
        72..76 => is_two.then_some(CrashOperation::Rename { from: path, to: other }),
        76..80 => Some(CrashOperation::Unlink { path }),
        80..91 => Some(CrashOperation::Fsync { path }),
        91..96 => Some(CrashOperation::Fdatasync { path }),
        96..99 => Some(CrashOperation::FsyncDirectory { path: String::new() }),
        _ => Some(CrashOperation::Sync),
    }
}

/// Offset and length of a write within a file or beyond its end, which leaves no block with two versions.
fn written(size: u64, random: &mut Dice) -> Option<(u64, u64)> {
    let offset = random.below(size / BLOCK + 1) * BLOCK;
    let end = (offset + random.size()).min(MOST_BLOCKS * BLOCK);
    let end = if end < size { end / BLOCK * BLOCK } else { end };
    end.checked_sub(offset).filter(|length| *length > 0).map(|length| (offset, length))
}
