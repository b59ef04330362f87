//! Writing an image.
//!
//! Threads take stretches of the volume in order; each reads the used blocks of one (gaps under 64 KiB are
//! read along), tells self-describing blocks from others, compresses and hashes. The calling thread puts the
//! chunks into the file in order of the volume: two images of the same content are the same but for their
//! descriptions. A thread takes room for its result before it takes a stretch, so that the chunk that is
//! waited for always has its room, and no more than two chunks per thread wait.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use fsage_model::image::BLOCK_BYTES;
use fsage_model::image::ImageSummary;
use fsage_model::image::{Blocks, Header, Totals};
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::new_file::{NewFile, Readers};

use super::disk::Disk;
use super::encode::{self, Run, plain_limit};
use super::format::{Entry, FRAME_BYTES, Footer, Frame, HASH, encode_header};
use super::place::{check_outside, check_place};
use super::used::{self, UsedMap};
use super::{ImageError, Meter, Progress, as_u64, as_usize, elapsed_ns, go_on, threads};
use crate::host::{mount, read_trimmed, signature};
use crate::load::Control;

/// Gaps up to this many blocks are read along: cheaper than another request.
const GAP_BLOCKS: u32 = 16;

/// How to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveOptions {
    /// The volume: a block device, or a file that holds one. Not mounted, unless `frozen`.
    pub device: PathBuf,
    /// Where its file system is mounted read-only from a device that cannot be written, or frozen, to tell
    /// which blocks are in use. Nothing: all are.
    pub point: Option<PathBuf>,
    /// The volume is mounted and frozen: checked before and after.
    pub frozen: bool,
    /// Every block, used or not.
    pub all_blocks: bool,
    /// The image. One that exists is replaced when the new one is complete; anything else that exists is not.
    pub file: PathBuf,
    /// Of zstd, 1 to 19.
    pub level: i32,
    /// 0: see `super::threads`.
    pub threads: u32,
    /// For [`Header::facts`].
    pub facts: BTreeMap<String, String>,
}

/// Saves a volume.
///
/// # Errors
/// See [`ImageError`]; then there is no new image, and an older one of the same name is still there.
pub fn save(
    options: &SaveOptions,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<ImageSummary, ImageError> {
    let started = Instant::now();
    check_mounts(options)?;
    check_place(&options.file, &options.device)?;
    let disk = Disk::read(&options.device, !options.frozen)?;
    let mut header = describe(options, &disk);
    if header.volume_bytes == 0 {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it has no bytes");
        return Err(ImageError::File { what: "save", path: options.device.clone(), source });
    }
    let map = match options.point.as_ref().filter(|_| !options.all_blocks) {
        Some(point) => used::of_mounted(&options.device, point, header.volume_blocks())?,
        None => {
            header.blocks = Blocks::All;
            UsedMap::all(header.volume_blocks())
        }
    };
    // It holds what files hold that only their owners may read.
    let file =
        NewFile::create(&options.file, Readers::Owner).map_err(ImageError::file("write", &options.file))?;
    let job = Job { options, disk: &disk, header: &header, map: &map, control };
    let mut summary = job.run(file.file(), progress)?;
    if options.frozen {
        check_frozen(options)?;
    }
    // It took a while: something else may be there by now.
    check_place(&options.file, &options.device)?;
    file.commit().map_err(ImageError::file("write", &options.file))?;
    summary.header = header;
    summary.elapsed_ns = elapsed_ns(started);
    Ok(summary)
}

/// A volume may be mounted only when frozen; `point` must show this volume and nothing else.
fn check_mounts(options: &SaveOptions) -> Result<(), ImageError> {
    let device = options.device.canonicalize().map_err(ImageError::file("find", &options.device))?;
    let wrong = |point: &Path, what| {
        Err(ImageError::Point { device: options.device.clone(), point: point.to_owned(), what })
    };
    let table = mount::table();
    if options.frozen {
        return check_frozen(options);
    }
    let resolved = match &options.point {
        Some(point) => Some(point.canonicalize().map_err(ImageError::file("find", point))?),
        None => None,
    };
    if let Some(point) = mounted_at(&device, resolved.as_deref()) {
        return Err(ImageError::Mounted { device: options.device.clone(), point });
    }
    let (Some(point), Some(resolved)) = (&options.point, resolved) else { return Ok(()) };
    let Some(entry) = table.iter().rev().find(|entry| entry.point == resolved) else {
        return wrong(point, "nothing is mounted there");
    };
    let source = entry.source.file_name().map(|name| Path::new("/sys/block").join(name));
    let facts = source.filter(|folder| folder.join("loop").exists());
    let Some(folder) = facts else { return wrong(point, "what is mounted there is not a loop device") };
    if read_trimmed(folder.join("loop/backing_file")) != device.display().to_string() {
        wrong(point, "what is mounted there is another volume")
    } else if read_trimmed(folder.join("ro")) != "1" {
        wrong(point, "the loop device mounted there can be written")
    } else {
        Ok(())
    }
}

/// Where a volume is mounted, itself or through a loop device over it, other than at `but`.
pub(super) fn mounted_at(device: &Path, but: Option<&Path>) -> Option<PathBuf> {
    let over = |source: &Path| {
        let folder = source.file_name().map(|name| Path::new("/sys/block").join(name));
        folder.is_some_and(|folder| {
            read_trimmed(folder.join("loop/backing_file")) == device.display().to_string()
        })
    };
    let shows = |entry: &mount::MountEntry| is_source(&entry.source, device) || over(&entry.source);
    let found = mount::table().into_iter().find(|entry| Some(entry.point.as_path()) != but && shows(entry));
    found.map(|entry| entry.point)
}

fn is_source(source: &Path, device: &Path) -> bool {
    source.starts_with("/") && source.canonicalize().is_ok_and(|source| source == device)
}

fn check_frozen(options: &SaveOptions) -> Result<(), ImageError> {
    use std::os::fd::AsFd as _;
    let wrong = |point: &Path, what| {
        Err(ImageError::Point { device: options.device.clone(), point: point.to_owned(), what })
    };
    let device = options.device.canonicalize().map_err(ImageError::file("find", &options.device))?;
    let Some(point) = &options.point else {
        return wrong(&options.device, "it is not mounted, so not frozen");
    };
    check_outside(&options.file, point)?;
    let resolved = point.canonicalize().map_err(ImageError::file("find", point))?;
    let table = mount::table();
    let shown = table.iter().rev().find(|entry| entry.point == resolved);
    if !shown.is_some_and(|entry| is_source(&entry.source, &device)) {
        return wrong(point, "the volume is not mounted there");
    }
    let directory = File::open(point).map_err(ImageError::file("open", point))?;
    match fsage_sys::freeze::is_frozen(directory.as_fd()) {
        Ok(true) => Ok(()),
        Ok(false) => wrong(point, "the file system is not frozen"),
        Err(source) => Err(ImageError::Used { device: options.device.clone(), source }),
    }
}

fn describe(options: &SaveOptions, disk: &Disk) -> Header {
    let volume_bytes = disk.size_bytes();
    let found = signature::of_file(disk.plain(), volume_bytes);
    Header {
        volume_bytes,
        span_blocks: Header::span_for(volume_bytes),
        blocks: Blocks::Used,
        uuid: found.uuid,
        file_system: found.name,
        label: found.label,
        created_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        facts: options.facts.clone(),
    }
}

/// A save under way.
struct Job<'a> {
    options: &'a SaveOptions,
    disk: &'a Disk,
    header: &'a Header,
    map: &'a UsedMap,
    control: &'a Control,
}

/// A chunk on its way to the file.
struct Done {
    first_block: u64,
    /// Frame and payload; nothing when no block of the stretch is in use.
    bytes: Vec<u8>,
    totals: Totals,
    content: [u8; 16],
}

type Answer = Result<Done, ImageError>;

impl Job<'_> {
    fn run(&self, file: &File, progress: &mut dyn Progress) -> Result<ImageSummary, ImageError> {
        let Some((header, hash)) = encode_header(self.header) else {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "the description is too long");
            return Err(ImageError::File { what: "describe", path: self.options.file.clone(), source });
        };
        let threads = threads(self.options.threads);
        let spans = self.header.volume_blocks().div_ceil(u64::from(self.header.span_blocks));
        let next = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let (rooms_to, rooms) = bounded::<Vec<u8>>(threads * 2);
        for _ in 0..threads * 2 {
            // As many as it holds.
            let _ = rooms_to.send(Vec::new());
        }
        let (done_to, done) = unbounded::<Answer>();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (rooms, done_to) = (rooms.clone(), done_to.clone());
                let thread = Thread { job: self, hash: &hash, next: &next, spans, over: &over };
                std::thread::Builder::new()
                    .name("image-save".to_owned())
                    .spawn_scoped(scope, move || thread.work(&rooms, &done_to))
                    .map_err(ImageError::Thread)?;
            }
            drop((done_to, rooms));
            let mut writer = Writer::new(file, &self.options.file, &header, &hash)?;
            let outcome = self.collect(&mut writer, &done, &rooms_to, progress);
            // Threads that wait for room hear it from the channel, the others from this.
            over.store(true, Ordering::Release);
            drop(rooms_to);
            outcome?;
            writer.finish(self.header.volume_bytes)
        })
    }

    fn collect(
        &self,
        writer: &mut Writer<'_>,
        done: &Receiver<Answer>,
        rooms: &Sender<Vec<u8>>,
        progress: &mut dyn Progress,
    ) -> Result<(), ImageError> {
        let blocks = self.header.volume_blocks();
        let span = u64::from(self.header.span_blocks);
        let mut meter = Meter::new(progress, self.map.count(0, blocks));
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        for answer in done {
            let chunk = answer?;
            waiting.insert(chunk.first_block, chunk);
            while let Some(chunk) = waiting.remove(&expected) {
                writer.chunk(&chunk)?;
                meter.add(chunk.totals.used_blocks);
                expected += span;
                // Nobody waits for room any more at the end.
                let _ = rooms.send(chunk.bytes);
            }
            go_on(self.control)?;
        }
        if expected >= blocks { Ok(()) } else { Err(ImageError::Thread(std::io::ErrorKind::Other.into())) }
    }
}

/// What a thread needs.
struct Thread<'a> {
    job: &'a Job<'a>,
    hash: &'a [u8; HASH],
    next: &'a AtomicU64,
    spans: u64,
    over: &'a AtomicBool,
}

/// What a thread uses again for every chunk.
struct Bench {
    stretch: AlignedBuffer,
    plain: Vec<u8>,
    runs: Vec<Run>,
    raw: Vec<Run>,
    compressor: zstd::bulk::Compressor<'static>,
}

impl Thread<'_> {
    fn work(&self, rooms: &Receiver<Vec<u8>>, done: &Sender<Answer>) {
        let header = self.job.header;
        let mut bench = match zstd::bulk::Compressor::new(self.job.options.level) {
            Ok(compressor) => Bench {
                stretch: AlignedBuffer::new(header.span_bytes()),
                plain: Vec::new(),
                runs: Vec::new(),
                raw: Vec::new(),
                compressor,
            },
            Err(source) => return drop(done.send(Err(ImageError::Thread(source)))),
        };
        // Room first: see the module's documentation.
        for room in rooms {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let span = self.next.fetch_add(1, Ordering::Relaxed);
            if span >= self.spans {
                return;
            }
            let answer = self.chunk(span * u64::from(header.span_blocks), room, &mut bench);
            if done.send(answer).is_err() {
                return;
            }
        }
    }

    fn chunk(&self, first_block: u64, mut bytes: Vec<u8>, bench: &mut Bench) -> Answer {
        let job = self.job;
        bytes.clear();
        job.map.runs(first_block, job.header.span_at(first_block), &mut bench.runs);
        if bench.runs.is_empty() {
            return Ok(Done { first_block, bytes, totals: Totals::default(), content: [0; 16] });
        }
        for (first, count) in joined(&bench.runs) {
            let start = as_usize(u64::from(first) * BLOCK_BYTES);
            let end = start + as_usize(u64::from(count) * BLOCK_BYTES);
            let offset = (first_block + u64::from(first)) * BLOCK_BYTES;
            job.disk.read_at(&mut bench.stretch[start..end], offset)?;
        }
        let totals = encode::encode(&bench.stretch, &bench.runs, &mut bench.plain, &mut bench.raw);
        debug_assert!(bench.plain.len() <= plain_limit(bench.stretch.len() / fsage_content::BLOCK_BYTES));
        let content = encode::content(&bench.stretch, first_block, &bench.runs);
        bytes.resize(FRAME_BYTES + zstd::zstd_safe::compress_bound(bench.plain.len()), 0);
        let compressed = bench.compressor.compress_to_buffer(&bench.plain, &mut bytes[FRAME_BYTES..]);
        let stored = compressed.map_err(ImageError::Thread)?;
        bytes.truncate(FRAME_BYTES + stored);
        let mut image = [0; 8];
        image.copy_from_slice(&self.hash[..8]);
        let small = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let frame = Frame {
            stored_bytes: small(stored),
            plain_bytes: small(bench.plain.len()),
            used_blocks: u32::try_from(totals.used_blocks).unwrap_or(u32::MAX),
            first_block,
            image,
            content,
        };
        let start = frame.encode(&bytes[FRAME_BYTES..]);
        bytes[..FRAME_BYTES].copy_from_slice(&start);
        Ok(Done { first_block, bytes, totals, content })
    }
}

/// Runs with small gaps between them as one.
fn joined(runs: &[Run]) -> impl Iterator<Item = Run> + '_ {
    let mut rest = runs.iter().copied().peekable();
    std::iter::from_fn(move || {
        let (first, mut count) = rest.next()?;
        while let Some((next, length)) = rest.next_if(|(next, _)| next - (first + count) <= GAP_BLOCKS) {
            count = next + length - first;
        }
        Some((first, count))
    })
}

/// Puts the parts into the file.
struct Writer<'a> {
    out: BufWriter<&'a File>,
    path: &'a Path,
    offset: u64,
    header_hash: &'a [u8; HASH],
    index: Vec<u8>,
    totals: Totals,
    digest: Digest,
    chunks: u64,
}

impl<'a> Writer<'a> {
    fn new(
        file: &'a File,
        path: &'a Path,
        header: &[u8],
        header_hash: &'a [u8; HASH],
    ) -> Result<Self, ImageError> {
        let mut writer = Self {
            out: BufWriter::with_capacity(1 << 20, file),
            path,
            offset: 0,
            header_hash,
            index: Vec::new(),
            totals: Totals::default(),
            digest: Digest::default(),
            chunks: 0,
        };
        writer.put(header)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        self.offset += as_u64(bytes.len());
        self.out.write_all(bytes).map_err(ImageError::file("write", self.path))
    }

    fn chunk(&mut self, chunk: &Done) -> Result<(), ImageError> {
        if chunk.bytes.is_empty() {
            return Ok(());
        }
        let mut check = [0; 8];
        check.copy_from_slice(&chunk.bytes[48..56]);
        let entry = Entry {
            first_block: chunk.first_block,
            offset: self.offset,
            length: u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX),
            used_blocks: u32::try_from(chunk.totals.used_blocks).unwrap_or(u32::MAX),
            check,
        };
        entry.encode(&mut self.index);
        self.totals.add(&chunk.totals);
        self.digest.add(chunk.first_block, &chunk.content);
        self.chunks += 1;
        self.put(&chunk.bytes)
    }

    fn finish(mut self, volume_bytes: u64) -> Result<ImageSummary, ImageError> {
        let totals = serde_json::to_vec(&self.totals)
            .map_err(|error| ImageError::file("describe", self.path)(error.into()))?;
        let mut index = std::mem::take(&mut self.index);
        index.extend_from_slice(&totals);
        let footer = Footer {
            index_offset: self.offset,
            chunks: self.chunks,
            totals_bytes: u32::try_from(totals.len()).unwrap_or(u32::MAX),
            index_hash: *blake3::hash(&index).as_bytes(),
        };
        self.put(&index)?;
        self.put(&footer.encode(self.header_hash))?;
        self.out.flush().map_err(ImageError::file("write", self.path))?;
        Ok(ImageSummary {
            header: Header::default(),
            totals: self.totals,
            chunks: self.chunks,
            image_bytes: self.offset,
            digest: self.digest.finish(volume_bytes),
            elapsed_ns: 0,
        })
    }
}

/// Identifies the content of an image: BLAKE3 over first block and content hash of every chunk, then the
/// volume's size.
#[derive(Default)]
pub(super) struct Digest {
    hasher: blake3::Hasher,
}

impl Digest {
    pub(super) fn add(&mut self, first_block: u64, content: &[u8; 16]) {
        self.hasher.update(&first_block.to_le_bytes());
        self.hasher.update(content);
    }

    pub(super) fn finish(mut self, volume_bytes: u64) -> String {
        self.hasher.update(&volume_bytes.to_le_bytes());
        self.hasher.finalize().to_hex().to_string()
    }
}
