//! Writing an image to a volume.
//!
//! 1. Everything that can be refused is refused before the first write: the image's header, index and footer, the check of every
//!    chunk, the size of the volume; a device is opened alone, so that it is not mounted, swap or part of something.
//! 2. The first 128 KiB are wiped, and synced: from here on the volume does not look like a file system.
//! 3. The whole volume is discarded where it can be (a file gets a hole), so that a flash device knows what is free.
//! 4. Chunks are decoded, checked against their content hash and written, in parallel. Blocks of data are made again and written like
//!    all others: zeros too. Blocks that the image does not have are not written.
//! 5. After a sync the first 128 KiB are written, and synced.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::disk::Disk;
use super::encode::{Run, bytes_of};
use super::reader::Image;
use super::save::{Digest, mounted_at};
use super::{
    BLOCK_BYTES, ImageError, ImageSummary, Meter, Progress, as_u64, as_usize, elapsed_ns, go_on, threads,
};
use crate::load::Control;

/// Blocks written last: ext* has its superblock at 1 KiB, xfs at 0, btrfs and reiserfs at 64 KiB.
const HEAD_BLOCKS: u32 = 32;

/// How to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The image.
    pub file: PathBuf,
    /// The volume: a block device, or a file, which is made when it is not there. What it has is lost.
    pub device: PathBuf,
    /// Discard the volume first.
    pub trim: bool,
    /// 0: see `super::threads`.
    pub threads: u32,
}

/// Restores a volume.
///
/// # Errors
/// See [`ImageError`]. Before the first write nothing has changed; after it the volume does not look like a file system.
pub fn restore(
    options: &RestoreOptions,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<ImageSummary, ImageError> {
    let started = Instant::now();
    let image = Image::open(&options.file)?;
    check_chunks(&image, options.threads, control)?;
    let made = make(&options.device, image.header.volume_bytes)?;
    let outcome = open(&options.device, image.header.volume_bytes)
        .and_then(|disk| write(&image, &disk, options, control, progress));
    if outcome.is_err() && made {
        // Nobody had it before.
        let _ = std::fs::remove_file(&options.device);
    }
    Ok(image.summary(outcome?, elapsed_ns(started)))
}

/// Makes the file where there is nothing; whether it was so.
fn make(path: &Path, bytes: u64) -> Result<bool, ImageError> {
    if path.starts_with("/dev") || path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let error = || ImageError::file("make", path);
    let file = File::create_new(path).map_err(error())?;
    file.set_len(bytes).map_err(error())?;
    Ok(true)
}

/// Steps 2 to 5.
fn write(
    image: &Image,
    disk: &Disk,
    options: &RestoreOptions,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<Digest, ImageError> {
    let end = image.header.volume_bytes;
    let head_bytes = as_usize((u64::from(HEAD_BLOCKS) * BLOCK_BYTES).min(end));
    let zeros = fsage_sys::aligned::AlignedBuffer::new(as_usize(u64::from(HEAD_BLOCKS) * BLOCK_BYTES));
    disk.write_at(&zeros[..head_bytes], 0, end)?;
    disk.sync()?;
    if options.trim {
        let _ = disk.discard();
        // What a discarded device reads as is its own affair: zeros in the head must be zeros.
        disk.write_at(&zeros[..head_bytes], 0, end)?;
    }
    let mut meter = Meter::new(progress, image.totals.used_blocks);
    let mut content = vec![[0; 16]; image.entries.len()];
    let mut head = None;
    image.each(
        threads(options.threads),
        control,
        |number, entry, room| {
            let frame = image.load(entry, room)?;
            image.decode(entry, &frame, room)?;
            let first = entry.first_block;
            let held = if first == 0 { Some(Head::of(&room.chunk.stretch, &room.chunk.runs)) } else { None };
            for (start, count) in behind_head(first, &room.chunk.runs) {
                go_on(control)?;
                let offset = (first + u64::from(start)) * BLOCK_BYTES;
                disk.write_at(bytes_of(&room.chunk.stretch, (start, count)), offset, end)?;
            }
            Ok((number, frame, held))
        },
        |(number, frame, held)| {
            head = held.or_else(|| head.take());
            content[number] = frame.content;
            meter.add(u64::from(frame.used_blocks));
            Ok(())
        },
    )?;
    disk.sync()?;
    go_on(control)?;
    if let Some(head) = head {
        head.write(disk, end)?;
        disk.sync()?;
    }
    let mut digest = Digest::default();
    for (entry, hash) in image.entries.iter().zip(&content) {
        digest.add(entry.first_block, hash);
    }
    Ok(digest)
}

/// The check of every chunk as it is stored: cheap, and before anything is written.
fn check_chunks(image: &Image, threads_asked: u32, control: &Control) -> Result<(), ImageError> {
    image.each(
        threads(threads_asked),
        control,
        |_, entry, room| image.load(entry, room).map(drop),
        |()| Ok(()),
    )
}

fn open(device: &Path, needed: u64) -> Result<Disk, ImageError> {
    let path = device.canonicalize().map_err(ImageError::file("find", device))?;
    if let Some(point) = mounted_at(&path, None) {
        return Err(ImageError::Mounted { device: device.to_owned(), point });
    }
    let disk = Disk::write(&path)?;
    let have = disk.size_bytes();
    if have < needed {
        return Err(ImageError::TooSmall { device: device.to_owned(), have, needed });
    }
    Ok(disk)
}

/// What of the runs is not written last.
fn behind_head(first_block: u64, runs: &[Run]) -> impl Iterator<Item = Run> + '_ {
    let head = if first_block == 0 { HEAD_BLOCKS } else { 0 };
    runs.iter().filter_map(move |(start, count)| {
        let from = (*start).max(head);
        let count = (start + count).checked_sub(from).filter(|count| *count > 0)?;
        Some((from, count))
    })
}

/// The used blocks of the head, kept until everything else is written.
struct Head {
    bytes: fsage_sys::aligned::AlignedBuffer,
    runs: Vec<Run>,
}

impl Head {
    fn of(stretch: &[u8], runs: &[Run]) -> Self {
        let room = as_usize(u64::from(HEAD_BLOCKS) * BLOCK_BYTES);
        let mut bytes = fsage_sys::aligned::AlignedBuffer::new(room);
        let held = room.min(stretch.len());
        bytes[..held].copy_from_slice(&stretch[..held]);
        let within = |(start, count): &Run| {
            let end = (start + count).min(HEAD_BLOCKS);
            Some((*start, end.checked_sub(*start).filter(|count| *count > 0)?))
        };
        Self { bytes, runs: runs.iter().filter_map(within).collect() }
    }

    fn write(&self, disk: &Disk, end: u64) -> Result<(), ImageError> {
        debug_assert!(as_u64(self.bytes.len()) == u64::from(HEAD_BLOCKS) * BLOCK_BYTES);
        // The very first block last: it, or what it leads to, makes a file system of it.
        self.runs.iter().rev().try_for_each(|run| {
            disk.write_at(bytes_of(&self.bytes, *run), u64::from(run.0) * BLOCK_BYTES, end)
        })
    }
}
