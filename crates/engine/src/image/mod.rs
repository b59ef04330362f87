//! Images: the complete state of a volume in one file.
//!
//! Every block in use is in the image: blocks of self-describing data as what they say of themselves, all
//! others as they are, compressed. What is not in use is left out. [`save`] writes an image, [`restore`]
//! writes its blocks to a volume, [`verify`] checks every byte and every block of it, [`info`] says what it
//! holds. [`format`](mod@format) is the file, byte by byte; docs/image.md tells users the same.
//!
//! - An image comes about whole or not at all ([`fsage_sys::new_file`]), for its owner alone to read. It
//!   replaces an older image, and nothing else.
//! - A damaged image is refused before the first write to a volume, naming the part that is damaged.
//! - A volume that is being restored does not look like a file system: its first 128 KiB, where all that are
//!   known have their superblock, are wiped first and written last. Meanwhile its first block says that it is
//!   ours and unfinished.
//! - Memory: about three chunks per thread (12 MiB with the smallest), a bit for each block of the volume (at
//!   most 64 MiB) and 32 bytes a chunk; below 256 MB up to 64 TiB in use.

mod disk;
mod encode;
mod error;
pub mod format;
mod info;
mod materialise;
mod place;
mod reader;
mod restore;
mod save;
mod used;
mod verify;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use encode::{Chunk, decode};
pub use error::ImageError;
pub use info::{VolumeRun, info, used_runs};
pub use materialise::materialise;
pub use place::{check_outside, check_place};
pub use restore::{RestoreOptions, restore};
pub use save::{SaveOptions, save};
pub(crate) use used::shares as used_shares;
pub use verify::verify;

use crate::load::Control;

/// Hears how far the work is: blocks done, of how many.
pub trait Progress {
    /// Called from the calling thread, at least four times per second while it continues.
    fn progress(&mut self, done_blocks: u64, blocks: u64, elapsed: Duration);
}

impl<F: FnMut(u64, u64, Duration)> Progress for F {
    fn progress(&mut self, done_blocks: u64, blocks: u64, elapsed: Duration) {
        self(done_blocks, blocks, elapsed);
    }
}

/// Threads to use when `asked` is 0: two for each CPU, because half of them wait for the device, and at most
/// eight.
fn threads(asked: u32) -> usize {
    match usize::try_from(asked).unwrap_or(0) {
        0 => std::thread::available_parallelism().map_or(2, usize::from).saturating_mul(2).clamp(2, 8),
        asked => asked.min(64),
    }
}

/// Counts what is done and tells it a few times per second.
struct Meter<'a> {
    progress: &'a mut dyn Progress,
    started: Instant,
    reported: Instant,
    done: u64,
    blocks: u64,
}

impl<'a> Meter<'a> {
    fn new(progress: &'a mut dyn Progress, blocks: u64) -> Self {
        let started = Instant::now();
        progress.progress(0, blocks, Duration::ZERO);
        Self { progress, started, reported: started, done: 0, blocks }
    }

    fn add(&mut self, blocks: u64) {
        self.done += blocks;
        if self.reported.elapsed() > Duration::from_millis(200) || self.done == self.blocks {
            self.reported = Instant::now();
            self.progress.progress(self.done, self.blocks, self.started.elapsed());
        }
    }
}

/// Waits while a pause is asked.
///
/// # Errors
/// [`ImageError::Stopped`] when the end is asked.
fn go_on(control: &Control) -> Result<(), ImageError> {
    if !control.is_asked() || control.wait(&|| false) { Ok(()) } else { Err(ImageError::Stopped) }
}

/// A length or count as 64 bits.
const fn as_u64(length: usize) -> u64 {
    length as u64
}

/// An offset within a chunk, which is far below 4 GiB, as an index.
fn as_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn elapsed_ns(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
