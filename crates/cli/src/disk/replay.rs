//! `fsage disk replay`: the requests of a log once more, on a model or on a virtual disk.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use fsage_disk::log::convert::{self, Opened, Options};
use fsage_disk::log::stream::{Item, Source as _};
use fsage_disk::log::summary::{Collector, Summary};
use fsage_disk::log::{Entry, LogError};
use fsage_disk::media::Resolve as _;
use fsage_disk::media::{Model as _, Partition};
use fsage_disk::request::{Operation, Request};
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Problem};
use fsage_model::size::Bytes;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use serde_json::json;

use crate::terminal::Terminal;
use crate::text;
use fsage_lab::disk::NamedDisk;

/// Bytes moved by one call.
const CHUNK_BYTES: usize = 1 << 20;

/// What a request onto a device is made of.
const BLOCK_BYTES: u64 = 4096;

/// Arguments of `fsage disk replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "\
LOG is a file in any format that `fsage disk log` reads: fsage, dm-log-writes, text of blkparse. Requests that failed when they were
recorded are left out. Self-describing data is written instead of the recorded data; the disk must not be in use.

Examples:
  blkparse -i sda > sda.txt; fsage disk replay sda.txt --model hdd-7200
  fsage disk replay requests.log --model ssd --iodepth 32
  sudo fsage disk replay sda.txt --onto old && sudo fsage disk stat old",
    group(clap::ArgGroup::new("where").required(true).args(["model", "onto"]))
)]
pub struct ReplayArgs {
    /// The log
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// Compute the time that this medium would take, without a device
    #[arg(long, value_name = "MEDIUM")]
    pub model: Option<String>,
    /// Send the requests to this virtual disk (needs root)
    #[arg(long, value_name = "NAME")]
    pub onto: Option<String>,
    /// Size of the modelled disk [default: from the log, or large enough for its requests]
    #[arg(long, value_name = "SIZE", requires = "model")]
    pub size: Option<Bytes>,
    /// Queue depth: requests that the modelled disk has at a time; the next ones come when all of these are done
    #[arg(long, value_name = "N", default_value_t = 1, requires = "model", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub iodepth: u16,
    /// Send requests at their recorded times, by the log's clock, instead of one after the other
    #[arg(long, conflicts_with = "iodepth")]
    pub recorded: bool,
}

/// What a replay left out or changed.
#[derive(Debug, Default, serde::Serialize)]
struct LeftOut {
    /// Requests that failed when recorded.
    failed_left_out: u64,
    /// Requests that lie beyond the end of the disk, at least in part.
    beyond_end: u64,
    /// Requests that were widened to whole blocks.
    widened: u64,
}

/// A log's requests on their way: those that succeeded, as they fit the disk.
struct Requests {
    opened: Opened,
    size_bytes: u64,
    left_out: LeftOut,
    data: Vec<u8>,
}

impl Requests {
    fn next(&mut self) -> Result<Option<Entry>, LogError> {
        while let Some(item) = self.opened.next_item(&mut self.data)? {
            let Item::Entry(mut entry) = item else { continue };
            if entry.result.is_err() {
                self.left_out.failed_left_out += 1;
                continue;
            }
            let within = entry.request.within(self.size_bytes);
            if within.length_bytes < entry.request.length_bytes {
                self.left_out.beyond_end += 1;
                if within.length_bytes == 0 {
                    continue;
                }
            }
            entry.request = within;
            return Ok(Some(entry));
        }
        Ok(None)
    }
}

pub(super) fn run(args: &ReplayArgs, terminal: &Terminal) -> Result<(), Problem> {
    let opened = convert::open(&args.log, &Options::default())?;
    let size_bytes = args.size.map_or_else(|| opened.geometry().size_bytes, |size| size.0);
    let mut requests = Requests { opened, size_bytes, left_out: LeftOut::default(), data: Vec::new() };
    let (summary, what) = match (&args.model, &args.onto) {
        (Some(model), _) => {
            let spec = fsage_lab::medium_file::from_flag(model)?;
            let medium = spec.resolve(size_bytes)?;
            (on_model(args, &mut requests, medium)?, format!("on the model of {spec}"))
        }
        (None, Some(name)) => {
            (on_disk(args, &mut requests, name)?, format!("on disk {name}, by wall-clock time"))
        }
        (None, None) => return Err(Problem::new(EXIT_USAGE, "no target: give `--model` or `--onto`")),
    };
    let left_out = requests.left_out;
    if terminal.json {
        return terminal.json(&json!({"summary": summary, "left_out": left_out, "size_bytes": size_bytes}));
    }
    let mut lines = format!("{} replayed {what}\n{}", args.log.display(), super::log::in_words(&summary));
    for (count, what) in [
        (left_out.failed_left_out, "left out: failed when recorded"),
        (left_out.beyond_end, "beyond the end of the disk: cut"),
        (left_out.widened, "widened to whole blocks"),
    ] {
        if count > 0 {
            lines.push_str(&format!("{} {what}\n", text::plural(count, "request", "requests")));
        }
    }
    terminal.result(&lines)
}

fn on_model(args: &ReplayArgs, requests: &mut Requests, mut medium: Partition) -> Result<Summary, Problem> {
    let mut collector = Collector::default();
    let (mut now_ns, mut first_ns) = (0, None);
    let queue = usize::from(args.iodepth);
    let mut waiting: Vec<Entry> = Vec::with_capacity(queue);
    loop {
        let next = requests.next()?;
        let is_end = next.is_none();
        waiting.extend(next);
        if waiting.is_empty() {
            return Ok(collector.finish());
        }
        if waiting.len() < queue && !is_end {
            continue;
        }
        if args.recorded {
            let issued_ns = waiting[0].issued_ns;
            now_ns = issued_ns.saturating_sub(*first_ns.get_or_insert(issued_ns));
        }
        let batch: Vec<Request> = waiting.iter().map(|entry| entry.request).collect();
        let mut done_ns = vec![0; batch.len()];
        medium.serve(now_ns, &batch, &mut done_ns);
        for (entry, done_ns) in waiting.drain(..).zip(&done_ns) {
            collector.add(&Entry { issued_ns: now_ns, done_ns: *done_ns, ..entry });
        }
        if !args.recorded {
            now_ns = done_ns.into_iter().max().unwrap_or(now_ns);
        }
    }
}

fn on_disk(args: &ReplayArgs, requests: &mut Requests, name: &str) -> Result<Summary, Problem> {
    let disk = NamedDisk::new(name)?;
    crate::require_root("writing to a disk")?;
    let record = disk.find()?;
    if record.partitions.len() > 1 {
        let message = format!("the disk `{name}` has several partitions, and a log is of one disk");
        let hint = "replay it onto a disk without partitions: `fsage disk up NAME --size SIZE`";
        return Err(Problem::new(EXIT_USAGE, message).hint(hint));
    }
    disk.refuse_in_use()?;
    requests.size_bytes = record.size_bytes;
    let mut device = Device::open(&record.device)?;
    disk.check_device(&record, &device.file)?;
    let mut collector = Collector::default();
    let (start, mut first_ns, mut version) = (Instant::now(), None, 0);
    while let Some(entry) = requests.next()? {
        if args.recorded {
            let due_ns = entry.issued_ns.saturating_sub(*first_ns.get_or_insert(entry.issued_ns));
            std::thread::sleep(Duration::from_nanos(due_ns).saturating_sub(start.elapsed()));
        }
        version += 1;
        let (request, widened) = whole_blocks(&entry.request, record.size_bytes);
        requests.left_out.widened += u64::from(widened);
        let issued_ns = elapsed_ns(start);
        device.serve(&request, version).map_err(|error| {
            Problem::new(EXIT_FAILED, format!("request {version} on {}", record.device.display()))
                .because(&error)
        })?;
        let done_ns = elapsed_ns(start);
        collector.add(&Entry { request, issued_ns, done_ns, arrived_ns: issued_ns, ..entry });
    }
    Ok(collector.finish())
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The blocks that a request touches, and whether they are more than it asked for.
fn whole_blocks(request: &Request, size_bytes: u64) -> (Request, bool) {
    if request.operation == Operation::Flush {
        return (*request, false);
    }
    let from = request.offset_bytes - request.offset_bytes % BLOCK_BYTES;
    let end = request.end_bytes().next_multiple_of(BLOCK_BYTES).min(size_bytes);
    let whole = Request { offset_bytes: from, length_bytes: end - from, ..*request };
    (whole, whole != *request)
}

/// A block device, past the page cache.
struct Device {
    file: File,
    buffer: AlignedBuffer,
}

impl Device {
    /// Opens it for itself: the kernel refuses what is mounted.
    fn open(path: &Path) -> Result<Self, Problem> {
        let flags = (OFlags::DIRECT | OFlags::EXCL).bits().cast_signed();
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(|error| {
                Problem::new(EXIT_FAILED, format!("cannot open {}", path.display())).because(&error)
            })?;
        Ok(Self { file, buffer: AlignedBuffer::new(CHUNK_BYTES) })
    }

    fn serve(&mut self, request: &Request, version: u32) -> std::io::Result<()> {
        let (at, length) = (request.offset_bytes, request.length_bytes);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match request.operation {
            Operation::Flush => self.file.sync_data(),
            Operation::Discard => Ok(fallocate(self.file.as_fd(), punch, at, length)?),
            Operation::Zero => {
                let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                Ok(fallocate(self.file.as_fd(), flags, at, length)?)
            }
            Operation::Read => self.pieces(at, length, |file, buffer, at| file.read_exact_at(buffer, at)),
            Operation::Write => {
                self.pieces(at, length, |file, buffer, at| {
                    // The device is one file of ours, whose versions are the requests.
                    fsage_content::fill(buffer, 1, at, version);
                    file.write_all_at(buffer, at)
                })?;
                if request.fua { self.file.sync_data() } else { Ok(()) }
            }
        }
    }

    fn pieces(
        &mut self,
        at: u64,
        length: u64,
        each: impl Fn(&File, &mut [u8], u64) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut done = 0;
        while done < length {
            let piece = usize::try_from(length - done).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            each(&self.file, &mut self.buffer[..piece], at + done)?;
            done += u64::try_from(piece).unwrap_or(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_widened_to_the_blocks_they_touch() {
        let request = Request::new(Operation::Write, 5000, 100);
        assert_eq!(whole_blocks(&request, 1 << 20), (Request::new(Operation::Write, 4096, 4096), true));
        let whole = Request::new(Operation::Read, 8192, 4096);
        assert_eq!(whole_blocks(&whole, 1 << 20), (whole, false));
        let flush = Request::new(Operation::Flush, 0, 0);
        assert_eq!(whole_blocks(&flush, 1 << 20), (flush, false));
    }
}
