//! Exports under test, each with the way in which a user reaches it.
//!
//! A new export is a [`Client`] and a line in [`STARTS`].

#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

mod nbd;
#[path = "../../../sys/tests/support/skip.rs"]
pub mod skip;
#[cfg(feature = "ublk")]
mod ublk;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use fsage_disk::export::fuse::{Choice, FuseError, Heartbeat, Session};
use fsage_disk::export::{Backend, Gate};
use fsage_disk::request::{Data, Operation, Request, Transfer};
use fsage_model::disk::{DiskTime, Transport};
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::{loopdev, mount};

pub const BLOCK: usize = 4096;

/// A plain disk that remembers what it was asked.
pub struct Ram {
    size_bytes: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
    pub seen: Vec<Request>,
    /// What each request takes on its clock.
    pub request_ns: u64,
    clock_ns: u64,
}

impl Ram {
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, blocks: BTreeMap::new(), seen: Vec::new(), request_ns: 0, clock_ns: 0 }
    }

    pub fn seen(&self, operation: Operation) -> usize {
        self.seen.iter().filter(|request| request.operation == operation).count()
    }

    fn serve(&mut self, transfer: &mut Transfer<'_>) {
        let first = transfer.request.offset_bytes / BLOCK as u64;
        match (transfer.request.operation, &mut transfer.data) {
            (Operation::Read, Data::In(data)) => {
                for (block, number) in data.chunks_mut(BLOCK).zip(first..) {
                    match self.blocks.get(&number) {
                        Some(held) => block.copy_from_slice(&**held),
                        None => block.fill(0),
                    }
                }
            }
            (Operation::Write, Data::Out(data)) => {
                for (block, number) in data.chunks(BLOCK).zip(first..) {
                    self.blocks.insert(number, Box::new(block.try_into().unwrap()));
                }
            }
            (Operation::Discard | Operation::Zero, Data::None) => {
                let end = transfer.request.end_bytes() / BLOCK as u64;
                self.blocks.retain(|number, _| *number < first || *number >= end);
            }
            (Operation::Flush, Data::None) => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Backend for Ram {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        4096
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            self.seen.push(transfer.request);
            self.serve(transfer);
            self.clock_ns += self.request_ns;
            transfer.done_ns = self.clock_ns;
        }
    }
}

/// A user of an exported disk. Offsets and lengths are multiples of a block.
pub trait Client: Send + Sync {
    fn read(&self, offset: u64, data: &mut [u8]);
    fn write(&self, offset: u64, data: &[u8]);
    fn flush(&self);
    fn discard(&self, offset: u64, length: u64);
    fn zero(&self, offset: u64, length: u64);
    /// The block device, where it is one.
    fn device(&self) -> Option<&Path> {
        None
    }
}

/// A disk that is exported, and its user.
pub struct Exported {
    pub name: &'static str,
    pub gate: Arc<Gate<Ram>>,
    // The user goes before what it uses.
    pub client: Box<dyn Client>,
    _server: Box<dyn std::any::Any>,
}

/// Exports a disk; nothing where this cannot be done here.
type Start = fn(Arc<Gate<Ram>>) -> Option<Exported>;

const STARTS: &[Start] = &[
    fuse_by_device,
    fuse_by_ring,
    nbd::start,
    #[cfg(feature = "ublk")]
    ublk::start,
];

/// Runs `test` on each export there is here.
pub fn start_each(size_bytes: u64, time: DiskTime, test: impl Fn(&Exported)) {
    for start in STARTS {
        let gate = Arc::new(Gate::new(Ram::new(size_bytes), time));
        if let Some(exported) = start(gate) {
            test(&exported);
        }
    }
}

/// Serves two drives of this size as halves of one file, by each way of FUSE, and runs `test` on their block devices.
pub fn two_drives_each(size_bytes: u64, test: impl Fn(&Gate<Ram>, &[LoopDevice; 2])) {
    if !rustix::process::geteuid().is_root() {
        skip::skip("mounting needs root");
        return;
    }
    for choice in [Choice::Device, Choice::Automatic] {
        let gate = Arc::new(Gate::new(Ram::new(2 * size_bytes), DiskTime::Model).of_drives(0));
        let Some(server) = FuseServer::start(Arc::clone(&gate), choice) else { continue };
        let file = server.session.file();
        let drives = [0, size_bytes].map(|offset| LoopDevice::attach_part(&file, offset, size_bytes));
        test(&gate, &drives);
    }
}

fn fuse_by_device(gate: Arc<Gate<Ram>>) -> Option<Exported> {
    fuse("FUSE", gate, Choice::Device, Transport::Device)
}

fn fuse_by_ring(gate: Arc<Gate<Ram>>) -> Option<Exported> {
    fuse("FUSE over io_uring", gate, Choice::Automatic, Transport::IoUring)
}

fn fuse(name: &'static str, gate: Arc<Gate<Ram>>, choice: Choice, wanted: Transport) -> Option<Exported> {
    if !rustix::process::geteuid().is_root() {
        skip::skip("mounting needs root");
        return None;
    }
    let server = FuseServer::start(Arc::clone(&gate), choice)?;
    if server.session.transport() != wanted {
        skip::skip(format!("this kernel has no {name}"));
        return None;
    }
    let client = Box::new(LoopDevice::attach(&server.session.file()));
    Some(Exported { name, gate, client, _server: Box::new(server) })
}

/// A mounted disk, served by a thread of ours. Unmounted when dropped.
struct FuseServer {
    session: Arc<Session>,
    serving: Option<JoinHandle<Result<(), FuseError>>>,
    folder: tempfile::TempDir,
}

impl FuseServer {
    fn start(gate: Arc<Gate<Ram>>, choice: Choice) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("mount");
        std::fs::create_dir(&point).unwrap();
        let session = match Session::mount(&point, choice, &folder.path().join("record")) {
            Ok(session) => Arc::new(session),
            Err(FuseError::Open(error)) => {
                skip::skip(error);
                return None;
            }
            Err(error) => panic!("{error:?}"),
        };
        let served = Arc::clone(&session);
        let serving = std::thread::spawn(move || served.serve(&gate, &Heartbeat::default()));
        Some(Self { session, serving: Some(serving), folder })
    }
}

impl Drop for FuseServer {
    fn drop(&mut self) {
        let point = self.folder.path().join("mount");
        let abort = self.session.abort_handle();
        let _ = unmount(&point);
        // Nothing happens when it is unmounted, as it should be.
        if let Ok(abort) = abort {
            let _ = abort.abort();
        }
        let _ = mount::unmount_lazily(&point);
        let served = self.serving.take().unwrap().join();
        if !std::thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

/// Unmounts, with patience: a program that another test is just starting has copies of our open files for a
/// moment.
pub fn unmount(point: &Path) -> fsage_sys::Result<()> {
    for _ in 0..200 {
        if mount::unmount(point).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    mount::unmount(point)
}

/// A loop device on a file, with direct I/O. Detached when dropped.
pub struct LoopDevice {
    pub path: PathBuf,
    file: Option<File>,
}

impl LoopDevice {
    pub fn attach(file: &Path) -> Self {
        Self::attach_part(file, 0, 0)
    }

    /// So many bytes of the file, from `offset` on; 0 takes the rest.
    pub fn attach_part(file: &Path, offset: u64, size: u64) -> Self {
        let file = file.to_owned();
        let options = loopdev::AttachOptions { file, offset, size, sector_bytes: 4096, direct_io: true };
        let path = loopdev::attach(&options).unwrap();
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = File::options().read(true).write(true).custom_flags(direct).open(&path).unwrap();
        Self { path, file: Some(file) }
    }

    fn file(&self) -> &File {
        self.file.as_ref().unwrap()
    }

    fn blkdiscard(&self, more: &[&str], offset: u64, length: u64) {
        let mut command = Command::new("blkdiscard");
        command
            .arg("-f")
            .args(more)
            .args(["-o", &offset.to_string(), "-l", &length.to_string()])
            .arg(&self.path);
        // It warns that the device is mounted, where it is.
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(self.file.take());
        let _ = loopdev::detach(&self.path);
    }
}

impl Client for LoopDevice {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let mut aligned = AlignedBuffer::new(data.len());
        self.file().read_exact_at(&mut aligned, offset).unwrap();
        data.copy_from_slice(&aligned);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut aligned = AlignedBuffer::new(data.len());
        aligned.copy_from_slice(data);
        self.file().write_all_at(&aligned, offset).unwrap();
    }

    fn flush(&self) {
        self.file().sync_all().unwrap();
    }

    fn discard(&self, offset: u64, length: u64) {
        self.blkdiscard(&[], offset, length);
    }

    fn zero(&self, offset: u64, length: u64) {
        self.blkdiscard(&["-z"], offset, length);
    }

    fn device(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// Numbers that look like chance (xorshift64*, Vigna 2016), the same for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn fill(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(8) {
            let bytes = self.next().to_ne_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
