//! `append`: the time to append to old files, synced.
//!
//! The files are chosen by the seed and the names alone. Files of ours stay verifiable: the append begins at
//! their last block boundary and rewrites the partial block there, as a load's does; any other file grows at
//! its end. Finding the files and reading what their data says of itself comes before the clock and is
//! dropped from the caches.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use fsage_content::{Block, Header, recognise};
use fsage_model::measure::{AppendSpec, MeasureMetric};
use fsage_model::operation::BLOCK_BYTES;
use fsage_model::quantity::share;
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::errno::is_out_of_space;
use rustix::fs::{OFlags, fsync};
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::context::{Context, per_second, seconds, seconds_per_gib};
use super::create::{CHUNK_BYTES, FIRST_FILE};
use super::listing::Unseen;
use super::old::{OldFile, OldFiles};
use super::{Measure, MeasureError, check_share, part_of};

/// A file and what is written to it.
struct Append<'a> {
    file: &'a OldFile,
    /// Identity and version of what is written; `None` for a file that is not ours.
    ours: Option<(u64, u32)>,
    /// Where the file is written: its end, or for our data the block boundary before.
    start: u64,
    end: u64,
}

impl Measure for AppendSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        check_share("append", "file_share", self.file_share, 1.0, "above 0 and at most 1")?;
        if self.size.0 == 0 || self.size.0 > 1 << 30 {
            let (value, limit) = (self.size.to_string(), "1 byte to 1GiB");
            return Err(MeasureError::Range { measure: "append", key: "size", value, limit });
        }
        let old = OldFiles::find(context.anchor)?;
        context.warn_unseen(&old.unseen);
        if old.files.is_empty() {
            return Err(MeasureError::Nothing {
                path: context.directory.to_owned(),
                what: "there are no files",
            });
        }
        let by_share = part_of(old.files.len() as u64, self.file_share).clamp(1, self.max_files.max(1));
        let wanted = self.files.unwrap_or(by_share);
        if wanted == 0 {
            let (value, limit) = (wanted.to_string(), "at least 1");
            return Err(MeasureError::Range { measure: "append", key: "files", value, limit });
        }
        let chosen = old.choose(usize::try_from(wanted).unwrap_or(usize::MAX), &mut context.random(3));
        let appends: Vec<Append<'_>> =
            chosen.into_iter().map(|file| prepare(file, self.size.0, context)).collect();
        let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
        let mut failed = Unseen::default();
        context.drop_caches()?;
        context.start();
        for (n, append) in (0_u64..).zip(&appends) {
            match append.run(self.fsync, &mut buffer, context) {
                Ok(()) => {
                    context.count.files += 1;
                    context.count.operations += 1;
                    context.count.bytes += self.size.0;
                }
                Err(errno) if is_out_of_space(errno.raw_os_error()) => {
                    let path = context.below(&append.file.path);
                    return Err(MeasureError::system("append to", &path)(errno));
                }
                Err(errno) => failed.add(&append.file.path, errno),
            }
            context.step(Some(share(n, appends.len() as u64)), "appending")?;
        }
        context.sync()?;
        context.stop();
        context.warn_unseen(&failed);
        let (ns, bytes, files) = (context.elapsed_ns(), context.count.bytes, context.count.files);
        Ok(vec![
            MeasureMetric::cost("time_per_append", "ns", share(ns, files)),
            MeasureMetric::cost("time_per_gib", "s/GiB", seconds_per_gib(ns, bytes)),
            MeasureMetric::cost("time", "s", seconds(ns)),
            MeasureMetric::gain("throughput", "B/s", per_second(bytes, ns)),
        ])
    }
}

/// Settles what is appended: data of the file's own identity where its last block is ours.
fn prepare<'a>(file: &'a OldFile, size: u64, context: &Context<'_>) -> Append<'a> {
    let end = file.size + size;
    let boundary = file.size / BLOCK_BYTES * BLOCK_BYTES;
    match last_block(file, context) {
        Some(Block::Good { header: Header { file: identity, version, .. }, .. }) => {
            Append { file, ours: Some((identity, version.saturating_add(1))), start: boundary, end }
        }
        // Nothing in it tells whose it is, and all of it is rewritten: it becomes a file of ours.
        Some(Block::Fragment { .. }) => Append { file, ours: Some((FIRST_FILE, 1)), start: 0, end },
        None if file.size == 0 => Append { file, ours: Some((FIRST_FILE, 1)), start: 0, end },
        _ => Append { file, ours: None, start: file.size, end },
    }
}

/// What the last block of a file is, or, where it is too short to tell, the one before.
fn last_block(file: &OldFile, context: &Context<'_>) -> Option<Block> {
    let data = File::from(context.open(&file.path, OFlags::RDONLY).ok()?);
    let last = file.size.saturating_sub(1) / BLOCK_BYTES;
    let block = |number: u64| {
        let mut buffer = [0; 4096];
        let count = data.read_at(&mut buffer, number * BLOCK_BYTES).ok()?;
        (count > 0).then(|| recognise(&buffer[..count]))
    };
    match block(last) {
        Some(Block::Fragment { .. }) if last > 0 => block(last - 1),
        found => found,
    }
}

impl Append<'_> {
    fn run(&self, sync: bool, buffer: &mut [u8], context: &Context<'_>) -> Result<(), Errno> {
        let file = context.open(&self.file.path, OFlags::WRONLY)?;
        let mut at = self.start;
        while at < self.end {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            let chunk = left.min(buffer.len());
            self.fill(&mut buffer[..chunk], at);
            let mut done = 0;
            while done < chunk {
                match retry_on_intr(|| pwrite(&file, &buffer[done..chunk], at + done as u64))? {
                    0 => return Err(Errno::NOSPC),
                    count => done += count,
                }
            }
            at += chunk as u64;
        }
        if sync { fsync(&file) } else { Ok(()) }
    }

    /// The data for byte `at` of the file on. In a file that is not ours no block may look like ours.
    fn fill(&self, buffer: &mut [u8], at: u64) {
        if let Some((identity, version)) = self.ours {
            return fsage_content::fill(buffer, identity, at, version);
        }
        fsage_content::fill(buffer, FIRST_FILE, at - self.start, 1);
        for block in buffer.chunks_mut(4096) {
            block[0] = 0;
        }
    }
}
