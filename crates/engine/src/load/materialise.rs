//! Writing every live file in place at the end of a load in fast mode, several at a time.
//!
//! The thread of the load opens the files, writers beside it write them: so one file's data is made while
//! another's is on its way to the device. Whole blocks go past the page cache, which would otherwise be
//! filled and written back once more: 1 GiB takes half the processor time (docs/benchmarks.md). The end of a
//! file that is no whole block, small files, and file systems that do not take it go through the cache.
//!
//! Invariant: no block is allocated but where the file system never overwrites in place; only reserved space
//! is written, so that the order of the writers does not change the layout.

use std::sync::atomic::{AtomicI32, Ordering};

use crossbeam_channel::bounded;
use fsage_model::operation::{Action, BLOCK_BYTES, Operation};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::source::Source;
use crate::executor::Executor;
use crate::workload::LiveFile;

/// Bytes made and written at once through the page cache: enough for a device to work on several requests.
const CHUNK_BYTES: usize = 4 << 20;
/// The same past the page cache: what is made is copied and inspected while it is still in a processor's own cache
/// (docs/benchmarks.md, "A large volume aged in fast mode").
const DIRECT_CHUNK_BYTES: usize = 512 << 10;
/// Bytes from which a file is written past the page cache.
const DIRECT_BYTES: u64 = 64 << 10;
/// Most writers of a load.
const WRITERS: usize = 8;

/// How the files are written.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Files at a time.
    pub writers: usize,
    /// Past the page cache.
    pub direct: bool,
}

impl Manner {
    /// As fast as it goes, for one of `threads` threads.
    pub fn fast(threads: usize, in_place: bool) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // A writer waits for the device half of the time.
        Self { writers: (2 * processors / threads.max(1)).clamp(1, WRITERS), direct: in_place }
    }

    /// In the same order and at the same pace every time: on a disk in model time.
    pub const fn deterministic() -> Self {
        Self { writers: 1, direct: false }
    }
}

/// Writes the live files of `source`. `go_on` is asked before and after each part, with the bytes written
/// since, and ends it by its error.
///
/// # Errors
/// The first that opening, writing or `go_on` says.
pub fn write_live<S: Source>(
    source: &S,
    executor: &mut Executor,
    manner: Manner,
    go_on: &(dyn Fn(u64) -> Result<(), Errno> + Sync),
) -> Result<(), Errno> {
    let failed = AtomicI32::new(0);
    let go_on = |bytes| match failed.load(Ordering::Relaxed) {
        0 => go_on(bytes),
        _ => Err(Errno::CANCELED),
    };
    let opened = std::thread::scope(|scope| {
        let (files, inbox) = bounded::<(OwnedFd, Operation)>(2 * manner.writers);
        for _ in 0..manner.writers {
            let inbox = inbox.clone();
            scope.spawn(|| {
                let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
                for (file, operation) in inbox {
                    if let Err(errno) = write(file.as_fd(), &operation, manner.direct, &mut buffer, &go_on) {
                        // The first one is the one to tell.
                        let _ = failed.compare_exchange(
                            0,
                            errno.raw_os_error(),
                            Ordering::AcqRel,
                            Ordering::Acquire,
                        );
                    }
                }
            });
        }
        source.try_for_each_live(|file| {
            go_on(0)?;
            let operation = whole(&file);
            let opened = executor.open_to_write(&operation)?;
            files.send((opened, operation)).map_err(|_| Errno::CANCELED)
        })
    });
    match failed.into_inner() {
        0 => opened,
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

/// Writes a file as it is, from its beginning to its end.
fn whole(file: &LiveFile) -> Operation {
    let LiveFile { file, place, size, version, .. } = *file;
    Operation { action: Action::Overwrite, file, place, size, version }
}

fn write(
    file: BorrowedFd<'_>,
    operation: &Operation,
    direct: bool,
    buffer: &mut AlignedBuffer,
    go_on: &impl Fn(u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let blocks = operation.size - operation.size % BLOCK_BYTES;
    let flags = fcntl_getfl(file)?;
    // What cannot do it says EINVAL here.
    let direct = direct && blocks >= DIRECT_BYTES && fcntl_setfl(file, flags | OFlags::DIRECT).is_ok();
    let mut at = 0;
    if direct {
        let chunk = &mut buffer[..DIRECT_CHUNK_BYTES];
        let written = write_range(file, operation, 0..blocks, chunk, go_on);
        fcntl_setfl(file, flags)?;
        at = match written {
            // Some say it only here, such as devices with larger sectors: then through the cache, from the
            // beginning.
            Err(Errno::INVAL) => 0,
            other => other?,
        };
    }
    write_range(file, operation, at..operation.size, buffer, go_on).map(drop)
}

/// Writes a range by parts of at most the buffer's size; where it ended.
fn write_range(
    file: BorrowedFd<'_>,
    operation: &Operation,
    range: std::ops::Range<u64>,
    buffer: &mut [u8],
    go_on: &impl Fn(u64) -> Result<(), Errno>,
) -> Result<u64, Errno> {
    let mut at = range.start;
    go_on(0)?;
    while at < range.end {
        let length = usize::try_from(range.end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        fsage_content::fill(&mut buffer[..length], operation.file, at, operation.version);
        let mut done = 0;
        while done < length {
            // A short write continues where it ended; none at all means there is no room.
            match retry_on_intr(|| pwrite(file, &buffer[done..length], at + as_u64(done)))? {
                0 => return Err(Errno::NOSPC),
                written => done += written,
            }
        }
        at += as_u64(length);
        go_on(as_u64(length))?;
    }
    Ok(at)
}

/// A buffer length as an offset: `usize` is at most 64 bits on every target of ours.
const fn as_u64(length: usize) -> u64 {
    length as u64
}
