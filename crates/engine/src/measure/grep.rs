//! `grep`: the time to read every byte of every file, cold, directory by directory in the order in which they
//! are listed, with one thread (the grep test of Conway et al. 2017 and 2019).
//!
//! Divided by what `du` shows (allocated bytes), so that trees of different size compare. Files are opened,
//! read to their end with large reads and closed again; finding them is part of the time. A file with several
//! names is read once for each, as grep does.

use fsage_model::measure::{GrepSpec, MeasureMetric};
use fsage_model::quantity::as_f64;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::AsFd as _;
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, read, retry_on_intr};

use super::context::{Context, per_second, seconds, seconds_per_gib};
use super::listing::{Found, Unseen, walk};
use super::{Measure, MeasureError};

impl Measure for GrepSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        let length =
            usize::try_from(self.read_size.0).ok().filter(|length| (4096..=16 << 20).contains(length));
        let length = length.ok_or_else(|| MeasureError::Range {
            measure: "grep",
            key: "read_size",
            value: self.read_size.to_string(),
            limit: "4KiB to 16MiB",
        })?;
        let mut buffer = AlignedBuffer::new(length);
        let (mut allocated, mut failed) = (0, Unseen::default());
        context.drop_caches()?;
        context.start();
        let unseen = walk(&context.anchor.held(), |found| {
            if found.kind != FileType::RegularFile {
                return Ok(());
            }
            match read_file(found, &mut buffer, context) {
                Ok(bytes) => allocated += bytes,
                Err(errno) => failed.add(found.path, errno),
            }
            context.step(None, "reading")
        })?;
        context.stop();
        context.warn_unseen(&unseen);
        context.warn_unseen(&failed);
        if context.count.files == 0 {
            return Err(MeasureError::Nothing {
                path: context.directory.to_owned(),
                what: "there are no files",
            });
        }
        let (ns, bytes) = (context.elapsed_ns(), context.count.bytes);
        Ok(vec![
            MeasureMetric::cost("time_per_du_gib", "s/GiB", seconds_per_gib(ns, allocated)),
            MeasureMetric::cost("time", "s", seconds(ns)),
            MeasureMetric::cost("time_per_read_gib", "s/GiB", seconds_per_gib(ns, bytes)),
            MeasureMetric::gain("throughput", "B/s", per_second(bytes, ns)),
            MeasureMetric::cost("allocated", "B", as_f64(allocated)),
        ])
    }
}

/// Reads a file to its end; returns the bytes it takes on the volume.
fn read_file(found: &Found<'_>, buffer: &mut [u8], context: &mut Context<'_>) -> Result<u64, Errno> {
    let file = found.open()?;
    // The inode is in memory now: asking for its blocks costs no request.
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::NXIO);
    }
    context.count.files += 1;
    loop {
        let count = retry_on_intr(|| read(file.as_fd(), &mut *buffer))?;
        context.count.operations += 1;
        if count == 0 {
            break;
        }
        context.count.bytes += count as u64;
    }
    Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
}
