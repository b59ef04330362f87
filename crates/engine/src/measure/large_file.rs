//! `large-file`: the time to write one large file into the free space that age left (`fsync` included), and
//! to read it back cold.
//!
//! What the allocator finds for it shows twice: in the write, and in the read of the pieces it was put into.
//! The file is removed afterwards, outside the clock.

use fsage_model::measure::{LargeFileSpec, MeasureMetric};
use fsage_model::quantity::{as_f64, share};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fsync, openat};
use rustix::io::{read, retry_on_intr};

use super::context::{Context, TestDirectory, per_second, seconds, seconds_per_gib};
use super::create::{CHUNK_BYTES, FIRST_FILE, fill_chunk, new_file};
use super::{Measure, MeasureError, check_share, part_of};

/// Name of the file.
const NAME: &str = "large";

impl Measure for LargeFileSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        check_share("large-file", "free_share", self.free_share, 0.9, "above 0 and at most 0.9")?;
        let size = match self.size {
            Some(size) => size.0,
            None => part_of(context.free_bytes()?, self.free_share).min(self.max_bytes.0) / 4096 * 4096,
        };
        if size == 0 {
            return Err(MeasureError::no_room("make a large file in", context.directory));
        }
        let test_directory = TestDirectory::make(context.anchor)?;
        let path = test_directory.path().join(NAME);
        let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
        context.count.files = 1;
        context.drop_caches()?;
        context.start();
        write_file(&new_file(&test_directory, NAME)?, size, &mut buffer, context)
            .map_err(|error| at(error, &path))?;
        context.stop();
        let write_ns = context.elapsed_ns();
        let extents = extents(&test_directory);
        context.drop_caches()?;
        context.start();
        let file = openat(
            test_directory.folder(),
            NAME,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(MeasureError::system("open", &path))?;
        read_file(&file, size, &mut buffer, context).map_err(|error| at(error, &path))?;
        context.stop();
        drop(file);
        test_directory.remove()?;
        let read_ns = context.elapsed_ns() - write_ns;
        let mut metrics = vec![
            MeasureMetric::cost("write_time_per_gib", "s/GiB", seconds_per_gib(write_ns, size)),
            MeasureMetric::cost("read_time_per_gib", "s/GiB", seconds_per_gib(read_ns, size)),
            MeasureMetric::cost("time", "s", seconds(write_ns + read_ns)),
            MeasureMetric::gain("write_throughput", "B/s", per_second(size, write_ns)),
            MeasureMetric::gain("read_throughput", "B/s", per_second(size, read_ns)),
            MeasureMetric::cost("size", "B", as_f64(size)),
        ];
        metrics.extend(extents.map(|extents| MeasureMetric::cost("extents", "1", as_f64(extents))));
        Ok(metrics)
    }
}

/// Names the file in an error of a call that knows only its descriptor.
fn at(error: MeasureError, file: &std::path::Path) -> MeasureError {
    match error {
        MeasureError::System { what, errno, .. } => {
            MeasureError::System { what, path: file.to_owned(), errno }
        }
        other => other,
    }
}

fn write_file(
    file: &OwnedFd,
    size: u64,
    buffer: &mut [u8],
    context: &mut Context<'_>,
) -> Result<(), MeasureError> {
    let path = context.directory;
    let mut done = 0;
    while done < size {
        done += fill_chunk(file, FIRST_FILE, done, size - done, buffer)
            .map_err(MeasureError::system("write", path))?;
        context.count.operations += 1;
        context.step(Some(share(done, 2 * size)), "writing")?;
    }
    context.count.bytes += size;
    fsync(file).map_err(MeasureError::system("sync", path))
}

fn read_file(
    file: &OwnedFd,
    size: u64,
    buffer: &mut [u8],
    context: &mut Context<'_>,
) -> Result<(), MeasureError> {
    let path = context.directory;
    let mut done = 0;
    loop {
        let count = retry_on_intr(|| read(file, &mut *buffer)).map_err(MeasureError::system("read", path))?;
        if count == 0 {
            break;
        }
        done += count as u64;
        context.count.operations += 1;
        context.step(Some(share(size + done, 2 * size)), "reading back")?;
    }
    context.count.bytes += done;
    Ok(())
}

/// Extents of the file, where the file system tells.
fn extents(test_directory: &TestDirectory<'_>) -> Option<u64> {
    let options = crate::layout::ScanOptions { threads: 1, one_file_system: true };
    let held = fsage_sys::mount::descriptor_path(test_directory.folder());
    crate::layout::scan(&held, &options).ok().map(|layout| layout.extents).filter(|&n| n > 0)
}
