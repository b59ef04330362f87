//! Writing an image to a volume.
//!
//! 1. Everything that can be refused is refused before the first write: the image's header, index and footer,
//!    the check of every chunk, the size of the volume; a device is opened alone, so that it is not mounted,
//!    swap or part of something.
//! 2. The first 128 KiB are wiped, with the mark of an unfinished restore ([`signature::UNFINISHED`]) in
//!    their first block, and synced: from here on the volume does not look like a file system, and says whose
//!    it is.
//! 3. Everything behind them is discarded where it can be (a file gets a hole), so that a flash device knows
//!    what is free.
//! 4. Chunks are decoded, checked against their content hash and written, in parallel. Blocks of data are
//!    made again and written like all others: zeros too. Blocks that the image does not have are not written.
//! 5. After a sync the first 128 KiB are written all but the first block, and synced; last the first block,
//!    in the mark's place (zeros where the image has none), and synced.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_model::image::BLOCK_BYTES;
use fsage_model::image::ImageSummary;
use fsage_model::image::Totals;
use fsage_model::protocol::DeviceIdentity;
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::mount::descriptor_path;
use fsage_sys::new_file::{NewFile, Readers, open_existing};

use super::disk::Disk;
use super::encode::{Run, bytes_of};
use super::reader::Image;
use super::save::{Digest, mounted_at};
use super::{ImageError, Meter, Progress, as_u64, as_usize, elapsed_ns, go_on, threads};
use crate::host::{HostError, signature};
use crate::load::Control;

/// Blocks written last: ext* has its superblock at 1 KiB, xfs at 0, btrfs and reiserfs at 64 KiB.
const HEAD_BLOCKS: u32 = 32;
const HEAD_BYTES: usize = 32 * FIRST_BYTES;
/// The block that has the mark.
const FIRST_BYTES: usize = signature::UNFINISHED_BYTES;

/// How to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The image.
    pub file: PathBuf,
    /// The volume: a block device, or a file, which is made when it is not there. What it has is lost.
    pub device: PathBuf,
    /// Which block device that is; a file has none, and without one no block device is written to.
    pub identity: Option<DeviceIdentity>,
    /// Discard the volume first.
    pub trim: bool,
    /// 0: see `super::threads`.
    pub threads: u32,
}

/// Restores a volume.
///
/// # Errors
/// See [`ImageError`]. Before the first write nothing has changed; after it the volume has the mark of an
/// unfinished restore.
pub fn restore(
    options: &RestoreOptions,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<ImageSummary, ImageError> {
    let started = Instant::now();
    let image = Image::open(&options.file)?;
    check_chunks(&image, options.threads, control)?;
    let target = Target::open(options, image.header.volume_bytes)?;
    let outcome = write(&image, &target.disk, options, control, progress);
    if outcome.is_err() {
        target.undo(&options.device);
    }
    Ok(image.summary(outcome?, elapsed_ns(started)))
}

/// What was there before.
enum Before {
    /// Nothing: nobody had the file before.
    Nothing,
    /// An empty file, such as one that the lab has made so that it can be distinguished from every other.
    Empty(File),
    /// A volume.
    Volume,
}

/// What is written to, held open from the first check to the last write.
struct Target {
    disk: Disk,
    before: Before,
}

impl Target {
    /// Opens what is there, or makes the file. A file that is refused is as it was.
    fn open(options: &RestoreOptions, needed: u64) -> Result<Self, ImageError> {
        let path = &options.device;
        if let Some(identity) = &options.identity {
            return Ok(Self { disk: device(path, identity, needed)?, before: Before::Volume });
        }
        let error = || ImageError::file("open", path);
        if path.symlink_metadata().is_ok_and(|found| found.file_type().is_block_device()) {
            return Err(ImageError::Device(HostError::NotHeld { device: path.clone() }));
        }
        let Some(file) = open_existing(path).map_err(error())? else {
            let disk = Disk::of_file(make(path, needed)?, path)?;
            return Ok(Self { disk, before: Before::Nothing });
        };
        let have = file.metadata().map_err(error())?.len();
        if have > 0 {
            check_unmounted(path, &descriptor_path(file.as_fd()))?;
            check_size(path, have, needed)?;
            return Ok(Self { disk: Disk::of_file(file, path)?, before: Before::Volume });
        }
        let empty = file.try_clone().map_err(error())?;
        file.set_len(needed).map_err(ImageError::file("make", path))?;
        let disk = Disk::of_file(file, path).inspect_err(|_| shrink(&empty))?;
        Ok(Self { disk, before: Before::Empty(empty) })
    }

    /// Takes back what a restore that failed has made or made larger.
    fn undo(&self, path: &Path) {
        match &self.before {
            Before::Nothing => {
                let _ = std::fs::remove_file(path);
            }
            Before::Empty(file) => shrink(file),
            Before::Volume => {}
        }
    }
}

/// Makes a file empty again, as far as that goes: the error before it is the one to tell.
fn shrink(file: &File) {
    let _ = file.set_len(0);
}

/// Makes the file where there is nothing.
fn make(path: &Path, bytes: u64) -> Result<File, ImageError> {
    let error = || ImageError::file("make", path);
    if path.starts_with("/dev") {
        return Err(error()(ErrorKind::NotFound.into()));
    }
    // With this length and nothing in it, before anyone can see it; and for its owner alone, as the image is.
    let file = NewFile::create(path, Readers::Owner).map_err(error())?;
    file.file().set_len(bytes).map_err(error())?;
    file.commit_new().map_err(error())
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
    let mut wiped = AlignedBuffer::new(HEAD_BYTES);
    wiped[..FIRST_BYTES].copy_from_slice(&signature::unfinished_mark());
    disk.write_at(&wiped, 0, end)?;
    disk.sync()?;
    if options.trim {
        // Not the head: what a discarded device reads as is its own affair, and the mark has to stay.
        let _ = disk.discard_from(as_u64(HEAD_BYTES));
    }
    let mut meter = Meter::new(progress, image.totals.used_blocks);
    let mut content = vec![[0; 16]; image.entries.len()];
    let (mut head, mut totals) = (None, Totals::default());
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
            Ok((number, frame, room.chunk.totals, held))
        },
        |(number, frame, part, held)| {
            head = held.or_else(|| head.take());
            totals.add(&part);
            content[number] = frame.content;
            meter.add(u64::from(frame.used_blocks));
            Ok(())
        },
    )?;
    disk.sync()?;
    go_on(control)?;
    image.check_totals(&totals)?;
    head.unwrap_or_default().write(disk, end)?;
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

/// Opens the block device that was taken for this.
fn device(path: &Path, identity: &DeviceIdentity, needed: u64) -> Result<Disk, ImageError> {
    check_unmounted(path, path)?;
    let disk = Disk::write(&path.canonicalize().map_err(ImageError::file("find", path))?)?;
    // Of the descriptor that is written through, which nobody can exchange.
    disk.check(identity)?;
    check_size(path, disk.size_bytes(), needed)?;
    Ok(disk)
}

/// Refuses a volume, found by `way`, that is mounted.
fn check_unmounted(device: &Path, way: &Path) -> Result<(), ImageError> {
    let found = way.canonicalize().map_err(ImageError::file("find", device))?;
    match mounted_at(&found, None) {
        Some(point) => Err(ImageError::Mounted { device: device.to_owned(), point }),
        None => Ok(()),
    }
}

fn check_size(device: &Path, have: u64, needed: u64) -> Result<(), ImageError> {
    if have < needed {
        return Err(ImageError::TooSmall { device: device.to_owned(), have, needed });
    }
    Ok(())
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
    bytes: AlignedBuffer,
    runs: Vec<Run>,
}

impl Default for Head {
    /// One without a used block.
    fn default() -> Self {
        debug_assert!(as_u64(HEAD_BYTES) == u64::from(HEAD_BLOCKS) * BLOCK_BYTES);
        Self { bytes: AlignedBuffer::new(HEAD_BYTES), runs: Vec::new() }
    }
}

impl Head {
    fn of(stretch: &[u8], runs: &[Run]) -> Self {
        let mut bytes = AlignedBuffer::new(HEAD_BYTES);
        let within = |(start, count): &Run| {
            let end = (start + count).min(HEAD_BLOCKS);
            Some((*start, end.checked_sub(*start).filter(|count| *count > 0)?))
        };
        let runs: Vec<Run> = runs.iter().filter_map(within).collect();
        // Blocks that are not in use are zeros here, whatever the stretch has there.
        for run in &runs {
            let start = as_usize(u64::from(run.0) * BLOCK_BYTES);
            let used = bytes_of(stretch, *run);
            bytes[start..start + used.len()].copy_from_slice(used);
        }
        Self { bytes, runs }
    }

    /// Writes them so that the mark is there until everything else is on the medium.
    fn write(&self, disk: &Disk, end: u64) -> Result<(), ImageError> {
        for (start, count) in &self.runs {
            let from = (*start).max(1);
            if let Some(count) = (start + count).checked_sub(from).filter(|count| *count > 0) {
                disk.write_at(bytes_of(&self.bytes, (from, count)), u64::from(from) * BLOCK_BYTES, end)?;
            }
        }
        disk.sync()?;
        disk.write_at(&self.bytes[..FIRST_BYTES], 0, end)?;
        disk.sync()
    }
}
