//! `create`: the time to make new files in the free space that age left, `syncfs` at the end included, per
//! byte (what Conway et al. 2019 call write ageing).
//!
//! The files go into one new directory, which is removed afterwards, outside the clock. They hold
//! self-describing data. With the same seed and `files` the same files are made everywhere. When the space
//! ends before the files do, the measure says so and counts what was written.

use std::os::fd::OwnedFd;

use fsage_model::measure::{CreateSpec, MeasureMetric};
use fsage_model::quantity::share;
use fsage_model::warning::WarningKind;
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::errno::is_out_of_space;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr, write};

use super::context::{Context, TestDirectory, per_second, seconds, seconds_per_gib};
use super::{Measure, MeasureError, check_share, part_of};
use crate::distribution::{Random, Sizes};
use crate::tree::write_file_name;

/// Bytes of one write.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Bytes that may be asked for.
const MOST_BYTES: u64 = 16 << 40;

/// Identities of the files of measures begin here: loads put the number of their thread into the top 16 bits,
/// which is far below.
pub(super) const FIRST_FILE: u64 = 0xffff << 48;

impl Measure for CreateSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        let sizes = Sizes::resolve(&self.file_size, "file_size", 0)?;
        check_share("create", "free_share", self.free_share, 0.9, "above 0 and at most 0.9")?;
        let mut random = context.random(1);
        let plan = plan(self, &sizes, &mut random, context)?;
        let test_directory = TestDirectory::make(context.anchor)?;
        let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
        context.drop_caches()?;
        context.start();
        let full = make_all(&plan, &mut buffer, context, &test_directory)?;
        context.sync()?;
        context.stop();
        test_directory.remove()?;
        if full {
            let (made, wanted) = (context.count.files, plan.len());
            context
                .warn(WarningKind::VolumeFull, format!("the volume was full after {made} of {wanted} files"));
        }
        let (ns, bytes, files) = (context.elapsed_ns(), context.count.bytes, context.count.files);
        Ok(vec![
            MeasureMetric::cost("time_per_gib", "s/GiB", seconds_per_gib(ns, bytes)),
            MeasureMetric::cost("time", "s", seconds(ns)),
            MeasureMetric::cost("time_per_file", "ns", share(ns, files)),
            MeasureMetric::gain("throughput", "B/s", per_second(bytes, ns)),
        ])
    }
}

/// The sizes of the files.
fn plan(
    spec: &CreateSpec,
    sizes: &Sizes,
    random: &mut Random,
    context: &Context<'_>,
) -> Result<Vec<u64>, MeasureError> {
    if let Some(files) = spec.files {
        if files == 0 || files > 100_000_000 {
            let (value, limit) = (files.to_string(), "1 to 100000000");
            return Err(MeasureError::Range { measure: "create", key: "files", value, limit });
        }
        return Ok((0..files).map(|_| sizes.draw(random)).collect());
    }
    if let Some(bytes) = spec.bytes {
        return exactly(bytes.0, sizes, random);
    }
    let most = part_of(context.free_bytes()?, spec.free_share).min(spec.max_bytes.0);
    let (mut plan, mut total) = (Vec::new(), 0_u64);
    loop {
        let size = sizes.draw(random);
        total += size.next_multiple_of(4096);
        if total > most {
            break;
        }
        plan.push(size);
    }
    if plan.is_empty() {
        return Err(MeasureError::no_room("make a file in", context.directory));
    }
    Ok(plan)
}

/// Sizes that come to just so many bytes: the same work, whatever the seed.
fn exactly(bytes: u64, sizes: &Sizes, random: &mut Random) -> Result<Vec<u64>, MeasureError> {
    if bytes == 0 || bytes > MOST_BYTES {
        let (value, limit) = (bytes.to_string(), "1 byte to 16TiB");
        return Err(MeasureError::Range { measure: "create", key: "bytes", value, limit });
    }
    let (mut plan, mut left) = (Vec::new(), bytes);
    while left > 0 {
        // A file without bytes would never fill it.
        let size = sizes.draw(random).clamp(1, left);
        plan.push(size);
        left -= size;
    }
    Ok(plan)
}

/// Makes the files; whether the volume was full before their end.
fn make_all(
    plan: &[u64],
    buffer: &mut [u8],
    context: &mut Context<'_>,
    test_directory: &TestDirectory<'_>,
) -> Result<bool, MeasureError> {
    let mut name = Vec::with_capacity(32);
    for (n, &size) in (0_u64..).zip(plan) {
        name.clear();
        write_file_name(&mut name, n);
        let made = openat(test_directory.folder(), &name[..], NEW, Mode::from_raw_mode(0o644))
            .and_then(|file| fill_file(&file, FIRST_FILE + n, size, buffer));
        match made {
            Ok(()) => {}
            Err(errno) if is_out_of_space(errno.raw_os_error()) && context.count.files > 0 => {
                return Ok(true);
            }
            Err(errno) => return Err(MeasureError::system("make a file in", &test_directory.path())(errno)),
        }
        context.count.files += 1;
        context.count.operations += 1;
        context.count.bytes += size;
        context.step(Some(share(n, plan.len() as u64)), "creating")?;
    }
    Ok(false)
}

const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// Opens a new file of a test_directory.
pub(super) fn new_file(test_directory: &TestDirectory<'_>, name: &str) -> Result<OwnedFd, MeasureError> {
    openat(test_directory.folder(), name, NEW, Mode::from_raw_mode(0o644))
        .map_err(MeasureError::system("make", &test_directory.path().join(name)))
}

/// Writes `size` bytes of self-describing data.
fn fill_file(file: &OwnedFd, identity: u64, size: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let mut at = 0;
    while at < size {
        at += fill_chunk(file, identity, at, size - at, buffer)?;
    }
    Ok(())
}

/// Writes the next chunk at the file's position, of which `left` bytes are left; returns how much it was.
pub(super) fn fill_chunk(
    file: &OwnedFd,
    identity: u64,
    at: u64,
    left: u64,
    buffer: &mut [u8],
) -> Result<u64, Errno> {
    let chunk = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
    let data = &mut buffer[..chunk];
    fsage_content::fill(data, identity, at, 1);
    let mut done = 0;
    while done < chunk {
        match retry_on_intr(|| write(file, &data[done..]))? {
            0 => return Err(Errno::NOSPC),
            count => done += count,
        }
    }
    Ok(chunk as u64)
}
