//! Free space that was in use before: what a file system exposes of it differs from zeros.

use fsage_content::fill as fill_blocks;
use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, syncfs, unlinkat};
use rustix::io::{Errno, write};

use crate::location::Anchor;

/// Name of the file that fills it.
const NAME: &str = "fsage-fill";

/// Its identity: no file of a load has it (`Tree::new`).
const IDENTITY: u64 = u64::MAX;

/// Most that is filled: each byte takes the disk's memory.
const MOST_BYTES: u64 = 256 << 20;

/// Bytes of a write.
const PART_BYTES: usize = 1 << 20;

/// Fills three quarters of the free space, at most 256 MiB, with a file, syncs it, removes it and syncs that.
///
/// # Errors
/// What the kernel says; a full volume is none.
pub fn fill(directory: &Anchor) -> Result<(), Errno> {
    let free = fstatvfs(directory)?;
    let bytes = (free.f_bavail * free.f_frsize / 4 * 3).min(MOST_BYTES);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = directory.open(NAME, flags, Mode::RUSR | Mode::WUSR)?;
    let mut part = vec![0; PART_BYTES];
    let written = (0..bytes).step_by(PART_BYTES).try_for_each(|offset| {
        fill_blocks(&mut part, IDENTITY, offset, 1);
        write(&file, &part).map(drop)
    });
    let synced = syncfs(directory);
    drop(file);
    unlinkat(directory, NAME, AtFlags::empty())?;
    match written {
        Ok(()) | Err(Errno::NOSPC) => synced.and_then(|()| syncfs(directory)),
        Err(errno) => Err(errno),
    }
}
