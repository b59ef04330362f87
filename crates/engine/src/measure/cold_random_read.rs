//! `cold-random-read`: the time of 4 KiB reads at random places of old files, cold, through the page cache.
//!
//! Every whole or partial 4 KiB block of the old files is as likely as any other, so large files are read
//! more often, as their share of the volume says. A file is opened for each read and closed after it: opening
//! (names and inodes, cold too until they were met once) and reading are timed apart. Blocks are drawn with
//! repetition; one that was read before comes from memory, which happens with about reads ÷ (2 × blocks) of
//! them.

use fsage_model::measure::{ColdRandomReadSpec, MeasureMetric};
use fsage_model::operation::BLOCK_BYTES;
use fsage_model::quantity::{as_f64, share};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{Errno, pread, retry_on_intr};

use super::context::{Context, per_second, seconds};
use super::listing::Unseen;
use super::old::{OldFile, OldFiles};
use super::{Measure, MeasureError};

impl Measure for ColdRandomReadSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        if self.reads == 0 || self.reads > 100_000_000 {
            let (value, limit) = (self.reads.to_string(), "1 to 100000000");
            return Err(MeasureError::Range { measure: "cold-random-read", key: "reads", value, limit });
        }
        let old = OldFiles::find(context.anchor)?;
        context.warn_unseen(&old.unseen);
        let places = Places::of(&old.files);
        if places.blocks() == 0 {
            let path = context.directory.to_owned();
            return Err(MeasureError::Nothing { path, what: "there are no files with data" });
        }
        let mut random = context.random(2);
        let mut timing = Timing::default();
        let mut failed = Unseen::default();
        let mut buffer = AlignedBuffer::new(4096);
        context.drop_caches()?;
        context.start();
        for n in 0..self.reads {
            let (file, offset) = places.place(random.below(places.blocks()));
            match read_block(file, offset, self.readahead, context, &mut buffer, &mut timing) {
                Ok(bytes) => context.count.bytes += bytes,
                Err(errno) => failed.add(&file.path, errno),
            }
            context.count.operations += 1;
            context.step(Some(share(n, self.reads)), "reading")?;
        }
        context.stop();
        context.warn_unseen(&failed);
        context.count.files = places.files.len() as u64;
        let (ns, reads) = (context.elapsed_ns(), context.count.operations);
        timing.reads.sort_unstable();
        Ok(vec![
            MeasureMetric::cost("time_per_read", "ns", share(ns, reads)),
            MeasureMetric::cost("time", "s", seconds(ns)),
            MeasureMetric::cost("mean_open", "ns", share(timing.open_ns, reads)),
            MeasureMetric::cost("mean_read", "ns", share(timing.reads.iter().sum(), reads)),
            MeasureMetric::cost("median_read", "ns", as_f64(timing.quantile(50))),
            MeasureMetric::cost("p99_read", "ns", as_f64(timing.quantile(99))),
            MeasureMetric::gain("reads_per_second", "1/s", per_second(reads, ns)),
        ])
    }
}

/// Latencies in nanoseconds. Memory: 8 bytes a read.
#[derive(Default)]
struct Timing {
    open_ns: u64,
    reads: Vec<u64>,
}

impl Timing {
    /// Of sorted latencies, the smallest that `percent` % of them do not exceed.
    fn quantile(&self, percent: usize) -> u64 {
        let rank = (self.reads.len() * percent).div_ceil(100).max(1) - 1;
        self.reads.get(rank).copied().unwrap_or(0)
    }
}

fn read_block(
    file: &OldFile,
    offset: u64,
    readahead: bool,
    context: &Context<'_>,
    buffer: &mut [u8],
    timing: &mut Timing,
) -> Result<u64, Errno> {
    let clock = context.clock();
    let before = clock.now_ns();
    let fd = context.open(&file.path, OFlags::RDONLY)?;
    if !readahead {
        fadvise(&fd, 0, None, Advice::Random)?;
    }
    let opened = clock.now_ns();
    let count = retry_on_intr(|| pread(&fd, &mut *buffer, offset))?;
    timing.open_ns += opened - before;
    timing.reads.push(clock.now_ns() - opened);
    Ok(count as u64)
}

/// Old files that have data, and how many blocks come before each.
struct Places<'a> {
    files: Vec<&'a OldFile>,
    /// Blocks up to the end of each file.
    ends: Vec<u64>,
}

impl<'a> Places<'a> {
    fn of(old: &'a [OldFile]) -> Self {
        let files: Vec<_> = old.iter().filter(|file| file.size > 0).collect();
        let mut sum = 0;
        let ends = files.iter().map(|file| {
            sum += file.size.div_ceil(BLOCK_BYTES);
            sum
        });
        Self { ends: ends.collect(), files }
    }

    fn blocks(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The file and byte offset of a block.
    fn place(&self, block: u64) -> (&'a OldFile, u64) {
        let n = self.ends.partition_point(|end| *end <= block);
        let before = if n == 0 { 0 } else { self.ends[n - 1] };
        (self.files[n], (block - before) * BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_its_place() {
        let old: Vec<OldFile> = [0, 1, 4096, 0, 4097, 12_288]
            .iter()
            .map(|&size| OldFile { path: size.to_string().into_bytes(), size })
            .collect();
        let places = Places::of(&old);
        assert_eq!(places.blocks(), 1 + 1 + 2 + 3);
        let all: Vec<_> = (0..7).map(|n| places.place(n)).map(|(file, at)| (file.size, at)).collect();
        let wanted =
            [(1, 0), (4096, 0), (4097, 0), (4097, 4096), (12_288, 0), (12_288, 4096), (12_288, 8192)];
        assert_eq!(all, wanted);
    }

    #[test]
    fn quantiles_are_samples() {
        let timing = Timing { open_ns: 0, reads: (1..=200).collect() };
        assert_eq!((timing.quantile(50), timing.quantile(99)), (100, 198));
        assert_eq!(Timing::default().quantile(50), 0);
    }
}
