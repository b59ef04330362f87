//! What an image is of, from its header, index and frames: nothing is decompressed.

use std::path::Path;
use std::time::Instant;

use fsage_model::image::ImageSummary;

use super::reader::Image;
use super::save::Digest;
use super::{ImageError, elapsed_ns};

impl Image {
    pub(super) fn summary(&self, digest: Digest, elapsed_ns: u64) -> ImageSummary {
        ImageSummary {
            header: self.header.clone(),
            totals: self.totals,
            chunks: super::as_u64(self.entries.len()),
            image_bytes: self.bytes,
            digest: digest.finish(self.header.volume_bytes),
            elapsed_ns,
        }
    }
}

/// Reads what an image says of itself. Chunks are not checked, only their first 64 bytes are read.
///
/// # Errors
/// It is no image, or its header, index or footer is damaged.
pub fn info(file: &Path) -> Result<ImageSummary, ImageError> {
    let started = Instant::now();
    let image = Image::open(file)?;
    let mut digest = Digest::default();
    for entry in &image.entries {
        digest.add(entry.first_block, &image.content_of(entry)?);
    }
    Ok(image.summary(digest, elapsed_ns(started)))
}

/// A run of blocks of the volume: first, and number.
pub type VolumeRun = (u64, u64);

/// The runs of blocks that an image has, in order of the volume: for tools that compare with reading or
/// writing just those. Every chunk is decoded and checked, one after the other.
///
/// # Errors
/// It is no image, or damaged.
pub fn used_runs(file: &Path) -> Result<Vec<VolumeRun>, ImageError> {
    let image = Image::open(file)?;
    let mut room = image.room()?;
    let mut runs: Vec<VolumeRun> = Vec::new();
    for entry in &image.entries {
        let frame = image.load(entry, &mut room)?;
        image.decode(entry, &frame, &mut room)?;
        for (first, count) in &room.chunk.runs {
            let (first, count) = (entry.first_block + u64::from(*first), u64::from(*count));
            match runs.last_mut() {
                Some((start, length)) if *start + *length == first => *length += count,
                _ => runs.push((first, count)),
            }
        }
    }
    Ok(runs)
}
