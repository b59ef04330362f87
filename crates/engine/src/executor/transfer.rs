//! Data between memory and files: system call by system call, so that what takes long can be ended early.

use fsage_model::operation::{BLOCK_BYTES, Operation};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::BorrowedFd;
use rustix::fs::{self, FallocateFlags};
use rustix::io::{self, Errno, retry_on_intr};

use super::watch::Watch;
use crate::disk::Clock;

/// Most bytes moved by one system call; larger operations take several.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Asked between the system calls of a long operation, one of more than [`CHUNK_BYTES`] or of several accesses: whether it
/// goes on.
pub trait Interrupt: std::fmt::Debug {
    /// Whether reading goes on.
    fn goes_on_reading(&self) -> bool;
    /// Whether writing goes on.
    fn goes_on_writing(&self) -> bool;
}

/// Every operation comes to its end.
#[derive(Debug)]
pub struct Uninterrupted;

impl Interrupt for Uninterrupted {
    fn goes_on_reading(&self) -> bool {
        true
    }

    fn goes_on_writing(&self) -> bool {
        true
    }
}

/// What an operation under way needs: its watch, and what may end it early.
#[derive(Debug)]
pub struct UnderWay<'a> {
    pub watch: Watch,
    interrupt: &'a dyn Interrupt,
    /// It moves data: from its second part on it is asked whether to go on.
    moves: bool,
    interrupted: bool,
}

impl<'a> UnderWay<'a> {
    /// Starts the watch.
    #[inline]
    pub fn start(clock: &Clock, interrupt: &'a dyn Interrupt) -> Self {
        Self { watch: Watch::start(clock), interrupt, moves: false, interrupted: false }
    }

    /// Whether it was ended early.
    pub const fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Asked before each part that is read; `ECANCELED` ends it.
    #[inline]
    fn read_on(&mut self) -> Result<(), Errno> {
        self.go_on(|interrupt| interrupt.goes_on_reading())
    }

    /// The same before each part that is written.
    #[inline]
    pub fn write_on(&mut self) -> Result<(), Errno> {
        self.go_on(|interrupt| interrupt.goes_on_writing())
    }

    #[inline]
    fn go_on(&mut self, goes_on: fn(&'a dyn Interrupt) -> bool) -> Result<(), Errno> {
        self.interrupted = std::mem::replace(&mut self.moves, true) && !goes_on(self.interrupt);
        if self.interrupted { Err(Errno::CANCELED) } else { Ok(()) }
    }
}

/// The next chunk of a transfer of which `left` bytes are left.
pub fn chunk_of(left: u64) -> usize {
    usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES))
}

pub fn write_range(
    file: BorrowedFd<'_>,
    buffer: &mut AlignedBuffer,
    operation: &Operation,
    offset: u64,
    length: u64,
    mut filled: bool,
    under_way: &mut UnderWay<'_>,
) -> Result<(), Errno> {
    let end = offset + length;
    let mut at = offset;
    while at < end {
        let chunk = chunk_of(end - at);
        under_way.write_on()?;
        if !filled {
            under_way.watch.hold();
            fsage_content::fill(&mut buffer[..chunk], operation.file, at, operation.version);
            under_way.watch.go_on();
        }
        filled = false;
        let mut done = 0;
        while done < chunk {
            // A short write continues where it ended; none at all means there is no room.
            match retry_on_intr(|| io::pwrite(file, &buffer[done..chunk], at + as_u64(done)))? {
                0 => return Err(Errno::NOSPC),
                written => done += written,
            }
        }
        at += as_u64(chunk);
    }
    Ok(())
}

/// Reads `length` bytes from `offset` on. A file that ends before is not what the model says: `ENODATA`.
pub fn read_range(
    file: BorrowedFd<'_>,
    buffer: &mut AlignedBuffer,
    offset: u64,
    length: u64,
    under_way: &mut UnderWay<'_>,
) -> Result<(), Errno> {
    let end = offset + length;
    let mut at = offset;
    while at < end {
        under_way.read_on()?;
        // Whole blocks, as direct I/O needs them; what lies beyond the end of the file is not read.
        let chunk = chunk_of((end - at).next_multiple_of(BLOCK_BYTES));
        match retry_on_intr(|| io::pread(file, &mut buffer[..chunk], at))? {
            0 => return Err(Errno::NODATA),
            read => at += as_u64(read),
        }
    }
    Ok(())
}

pub fn allocate(file: BorrowedFd<'_>, flags: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    retry_on_intr(|| fs::fallocate(file, flags, offset, length))
}

/// A buffer length as an offset: `usize` is at most 64 bits on every target of ours.
const fn as_u64(length: usize) -> u64 {
    length as u64
}
