//! Checking every byte and every block of an image, without a volume.

use std::path::Path;
use std::time::Instant;

use fsage_model::image::ImageSummary;
use fsage_model::image::Totals;

use super::reader::Image;
use super::save::Digest;
use super::{ImageError, Meter, Progress, elapsed_ns, threads};
use crate::load::Control;

/// Reads an image, makes every block of it and compares all hashes.
///
/// # Errors
/// [`ImageError::Damaged`] with the part that is not as it was written.
pub fn verify(
    file: &Path,
    threads_asked: u32,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<ImageSummary, ImageError> {
    let started = Instant::now();
    let image = Image::open(file)?;
    let mut meter = Meter::new(progress, image.totals.used_blocks);
    let mut totals = Totals::default();
    let mut content = vec![[0; 16]; image.entries.len()];
    image.each(
        threads(threads_asked),
        control,
        |number, entry, room| {
            let frame = image.load(entry, room)?;
            image.decode(entry, &frame, room)?;
            Ok((number, room.chunk.totals, frame.content))
        },
        |(number, part, hash)| {
            totals.add(&part);
            content[number] = hash;
            meter.add(part.used_blocks);
            Ok(())
        },
    )?;
    image.check_totals(&totals)?;
    let mut digest = Digest::default();
    for (entry, hash) in image.entries.iter().zip(&content) {
        digest.add(entry.first_block, hash);
    }
    Ok(image.summary(digest, elapsed_ns(started)))
}
