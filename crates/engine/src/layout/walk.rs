//! Walking a tree in parallel and opening each of its regular files once.
//!
//! Every thread goes down its own part depth first, with one open directory and one 32 KiB buffer for each
//! level. As long as other threads lack work it hands over directories and, from large directories, batches
//! of names: the queue between the threads is bounded, and so is memory, however many files or directories
//! there are. (What grows is the set of inodes that have several links, of which not all were met yet.) Below
//! [`MAX_DEPTH`] levels only names are kept, so that descriptors do not run out.
//!
//! Symbolic links are not followed, special files are not opened, access times stay as they are where the
//! kernel permits it, and whatever vanishes or changes its kind during the walk was never there.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, fstat, fstatfs, openat, statat};
use rustix::io::Errno;

use super::{LayoutError, ScanOptions};
use crate::host::mount;

/// Levels that one thread keeps open at a time.
const MAX_DEPTH: u32 = 128;
/// Longest path below the root that is entered, in levels and bytes; what lies deeper counts as failed. Each
/// directory below [`MAX_DEPTH`] is opened name by name from the root, so that depth costs time, and the path of
/// each is held.
const MAX_LEVELS: usize = 4096;
const MAX_PATH_BYTES: usize = 64 << 10;
const ENTRY_BUFFER_BYTES: usize = 32 * 1024;
/// Names handed over together: about 1 ms of work.
const BATCH: usize = 256;
const STACK_BYTES: usize = 4 << 20;

/// What is done with what the walk finds. Each thread has one of its own.
pub(super) trait Visitor: Send {
    /// A directory that could be opened.
    fn directory(&mut self);
    /// A regular file, met for the first time.
    fn file(&mut self, file: &OpenFile<'_>);
    /// A file or directory that cannot be inspected.
    fn failed(&mut self, errno: i32);
    /// A directory whose entries were all listed: names of regular files, and directories below it.
    fn listed(&mut self, _directory: &OpenDir, _files: u64, _subdirectories: u64) {}
}

/// A file to be inspected.
pub(super) struct OpenFile<'a> {
    pub fd: BorrowedFd<'a>,
    pub stat: &'a Stat,
    pub directory: &'a OpenDir,
    name: &'a CStr,
}

impl OpenFile<'_> {
    /// Path below the root of the walk.
    pub fn path(&self) -> String {
        String::from_utf8_lossy(&join(&self.directory.path, self.name)).into_owned()
    }

    pub fn size_bytes(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

/// A directory of the walk.
pub(super) struct OpenDir {
    fd: OwnedFd,
    /// Below the root, without slashes at either end; empty for the root.
    path: Arc<[u8]>,
    depth: u32,
    /// Tells mounts apart; subvolumes of one mount are the same.
    mount: u64,
    /// Block of the file system.
    pub block_bytes: u64,
}

impl OpenDir {
    /// Levels below the root of the walk, which has 0.
    pub fn level(&self) -> usize {
        if self.path.is_empty() { 0 } else { 1 + self.path.iter().filter(|byte| **byte == b'/').count() }
    }
}

/// Walks the tree below `root` with as many threads as asked for, one visitor each, and returns the visitors.
pub(super) fn walk<V: Visitor>(
    root: &Path,
    options: &ScanOptions,
    visitor: impl Fn() -> V,
) -> Result<Vec<V>, LayoutError> {
    walk_only(root, options, None, visitor)
}

/// The same, where of what `root` itself holds `only` these entries are visited, if any are named.
pub(super) fn walk_only<V: Visitor>(
    root: &Path,
    options: &ScanOptions,
    only: Option<&[Vec<u8>]>,
    visitor: impl Fn() -> V,
) -> Result<Vec<V>, LayoutError> {
    let threads = options.threads();
    let root_fd = openat(CWD, root, DIRECTORY & !OFlags::NOFOLLOW, Mode::empty())
        .or_else(|_| openat(CWD, root, DIRECTORY & !(OFlags::NOFOLLOW | OFlags::NOATIME), Mode::empty()));
    let open_error = |errno: Errno| LayoutError::Open { path: root.to_owned(), source: errno.into() };
    let root_fd = root_fd.map_err(open_error)?;
    let mount = mount::number(root_fd.as_fd()).map_err(open_error)?;
    let block_bytes = block_bytes(root_fd.as_fd());
    let root_directory =
        Arc::new(OpenDir { fd: root_fd, path: Arc::default(), depth: 0, mount, block_bytes });
    let shared = Shared::new(Arc::clone(&root_directory), threads, options.one_file_system, only);
    shared.offer(Job::Directory(root_directory));
    run_workers(root, &shared, (0..threads).map(|_| visitor()).collect())
}

/// Runs a single visitor on the calling thread, several on a thread each.
fn run_workers<V: Visitor>(
    root: &Path,
    shared: &Shared<'_>,
    mut visitors: Vec<V>,
) -> Result<Vec<V>, LayoutError> {
    if visitors.len() == 1 {
        return Ok(visitors.drain(..).map(|visitor| Worker::new(shared, visitor).run()).collect());
    }
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (index, visitor) in visitors.into_iter().enumerate() {
            let builder = std::thread::Builder::new().name(format!("scan-{index}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, || Worker::new(shared, visitor).run()) {
                Ok(handle) => handles.push(handle),
                // Those already running finish the walk: one is enough.
                Err(_) if !handles.is_empty() => break,
                Err(source) => return Err(LayoutError::Thread { path: root.to_owned(), source }),
            }
        }
        let finish = |handle: std::thread::ScopedJoinHandle<'_, V>| match handle.join() {
            Ok(visitor) => visitor,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok(handles.into_iter().map(finish).collect())
    })
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOATIME);
/// `NONBLOCK` in case that the file was replaced by a pipe since its name was read.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

enum Job {
    Directory(Arc<OpenDir>),
    /// Names in one directory, each with its NUL.
    Files(Arc<OpenDir>, Vec<u8>),
}

/// What the threads share.
struct Shared<'a> {
    root: Arc<OpenDir>,
    /// Entries of the root that are visited; all where none are named.
    only: Option<&'a [Vec<u8>]>,
    one_file_system: bool,
    /// Jobs to keep in the queue; 0 for a single thread, which needs no queue.
    wanted: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Length of the queue, readable without the lock.
    queued: AtomicUsize,
    /// Links not met yet, by device and inode number.
    links: Mutex<HashMap<(u64, u64), usize>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Shared<'a> {
    fn new(root: Arc<OpenDir>, threads: usize, one_file_system: bool, only: Option<&'a [Vec<u8>]>) -> Self {
        Self {
            root,
            only,
            one_file_system,
            wanted: if threads > 1 { 2 * threads } else { 0 },
            queue: Mutex::default(),
            changed: Condvar::new(),
            queued: AtomicUsize::new(0),
            links: Mutex::default(),
        }
    }

    /// Whether an entry is to be visited.
    fn takes(&self, directory: &OpenDir, name: &CStr) -> bool {
        let only = self.only.filter(|_| directory.path.is_empty());
        only.is_none_or(|only| only.iter().any(|one| one == name.to_bytes()))
    }

    /// Whether a directory is on another file system than `other` and the walk stays on one.
    fn leaves(&self, directory: &OpenDir, other: &OpenDir) -> bool {
        self.one_file_system && directory.mount != other.mount
    }

    /// Whether others could run out of work. Only a hint, hence relaxed.
    fn hungry(&self) -> bool {
        self.queued.load(Ordering::Relaxed) < self.wanted
    }

    fn offer(&self, job: Job) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        self.queued.store(queue.jobs.len(), Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Waits for a job; `None` when all work is done. The caller counts as running until it drops the guard.
    fn next(&self) -> Option<(Job, Running<'_>)> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                self.queued.store(queue.jobs.len(), Ordering::Relaxed);
                queue.running += 1;
                return Some((job, Running(self)));
            }
            if queue.running == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether this is the first link to the inode that the walk meets. An inode is forgotten when all its
    /// links were met.
    fn first_link(&self, stat: &Stat) -> bool {
        let mut links = lock(&self.links);
        match links.entry((stat.st_dev, stat.st_ino)) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                let links = usize::try_from(stat.st_nlink).unwrap_or(usize::MAX);
                entry.insert(links - 1);
                true
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                *entry.get_mut() = entry.get().saturating_sub(1);
                if *entry.get() == 0 {
                    entry.remove();
                }
                false
            }
        }
    }
}

/// A thread that may still offer jobs; a guard, so that a panic does not leave the others waiting.
struct Running<'a>(&'a Shared<'a>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        queue.running -= 1;
        if queue.running == 0 {
            self.0.changed.notify_all();
        }
    }
}

struct Worker<'a, V> {
    shared: &'a Shared<'a>,
    visitor: V,
    /// Buffers of the levels that are not in use.
    buffers: Vec<Vec<MaybeUninit<u8>>>,
    /// Directories too deep to be entered yet: path of the parent, which its entries share, and name.
    deferred: Vec<(Arc<[u8]>, CString)>,
}

impl<'a, V: Visitor> Worker<'a, V> {
    fn new(shared: &'a Shared<'a>, visitor: V) -> Self {
        Self { shared, visitor, buffers: Vec::new(), deferred: Vec::new() }
    }

    fn run(mut self) -> V {
        while let Some((job, running)) = self.shared.next() {
            match job {
                Job::Directory(directory) => self.directory(&directory),
                Job::Files(directory, names) => self.files(&directory, &names),
            }
            while let Some((parent, name)) = self.deferred.pop() {
                match reopen(&self.shared.root, &join(&parent, &name)) {
                    Ok(directory) if self.shared.leaves(&directory, &self.shared.root) => {}
                    Ok(directory) => self.directory(&Arc::new(directory)),
                    Err(errno) => self.failed(errno),
                }
            }
            drop(running);
        }
        self.visitor
    }

    fn failed(&mut self, errno: Errno) {
        if !is_gone(errno) {
            self.visitor.failed(errno.raw_os_error());
        }
    }

    fn directory(&mut self, directory: &Arc<OpenDir>) {
        self.visitor.directory();
        let mut buffer =
            self.buffers.pop().unwrap_or_else(|| vec![MaybeUninit::uninit(); ENTRY_BUFFER_BYTES]);
        let mut batch = Vec::new();
        let mut batched = 0;
        let (mut files, mut subdirectories) = (0, 0);
        let mut entries = RawDir::new(&directory.fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => {
                    self.failed(errno);
                    break;
                }
            };
            let name = entry.file_name();
            if !self.shared.takes(directory, name) {
                continue;
            }
            let kind = kind(directory, name, entry.file_type());
            files += u64::from(kind == FileType::RegularFile);
            match kind {
                FileType::RegularFile if self.shared.hungry() => {
                    batch.extend_from_slice(name.to_bytes_with_nul());
                    batched += 1;
                    if batched == BATCH {
                        let names = std::mem::take(&mut batch);
                        batched = 0;
                        self.shared.offer(Job::Files(Arc::clone(directory), names));
                    }
                }
                FileType::RegularFile => self.file(directory, name),
                FileType::Directory if !matches!(name.to_bytes(), b"." | b"..") => {
                    subdirectories += 1;
                    self.subdirectory(directory, name);
                }
                _ => {}
            }
        }
        self.buffers.push(buffer);
        self.files(directory, &batch);
        self.visitor.listed(directory, files, subdirectories);
    }

    fn subdirectory(&mut self, parent: &Arc<OpenDir>, name: &CStr) {
        if parent.level() >= MAX_LEVELS || parent.path.len() + 1 + name.count_bytes() > MAX_PATH_BYTES {
            return self.failed(Errno::NAMETOOLONG);
        }
        if parent.depth >= MAX_DEPTH {
            self.deferred.push((Arc::clone(&parent.path), name.to_owned()));
            return;
        }
        match open_directory(parent, name, join(&parent.path, name).into(), parent.depth + 1) {
            Ok(directory) if self.shared.leaves(&directory, parent) => {}
            Ok(directory) if self.shared.hungry() => self.shared.offer(Job::Directory(Arc::new(directory))),
            Ok(directory) => self.directory(&Arc::new(directory)),
            Err(errno) => self.failed(errno),
        }
    }

    fn files(&mut self, directory: &OpenDir, names: &[u8]) {
        for name in names.split_inclusive(|byte| *byte == 0) {
            if let Ok(name) = CStr::from_bytes_with_nul(name) {
                self.file(directory, name);
            }
        }
    }

    fn file(&mut self, directory: &OpenDir, name: &CStr) {
        let fd = match openat(&directory.fd, name, FILE, Mode::empty()) {
            Ok(fd) => fd,
            Err(errno) => return self.failed(errno),
        };
        match fstat(&fd) {
            Ok(stat) => {
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                if is_file && (stat.st_nlink <= 1 || self.shared.first_link(&stat)) {
                    self.visitor.file(&OpenFile { fd: fd.as_fd(), stat: &stat, directory, name });
                }
            }
            Err(errno) => self.failed(errno),
        }
        fsage_sys::close(fd);
    }
}

/// Removed, or replaced by something of another kind, since its name was read.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE)
}

/// The kind of an entry, asked for where the directory does not tell.
fn kind(directory: &OpenDir, name: &CStr, reported: FileType) -> FileType {
    if reported != FileType::Unknown {
        return reported;
    }
    statat(&directory.fd, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn join(directory: &[u8], name: &CStr) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.count_bytes());
    path.extend_from_slice(directory);
    if !directory.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    path
}

fn open_directory(parent: &OpenDir, name: &CStr, path: Arc<[u8]>, depth: u32) -> Result<OpenDir, Errno> {
    let fd = match openat(&parent.fd, name, DIRECTORY, Mode::empty()) {
        // Leaving access times alone is the owner's right.
        Err(Errno::PERM) => openat(&parent.fd, name, DIRECTORY & !OFlags::NOATIME, Mode::empty())?,
        opened => opened?,
    };
    let mount = mount::number(fd.as_fd())?;
    let same = mount == parent.mount;
    let block_bytes = if same { parent.block_bytes } else { block_bytes(fd.as_fd()) };
    Ok(OpenDir { fd, path, depth, mount, block_bytes })
}

/// Opens a directory name by name from the root: its path may be longer than the kernel takes at once.
fn reopen(root: &OpenDir, path: &[u8]) -> Result<OpenDir, Errno> {
    let mut current: Option<OpenDir> = None;
    for name in path.split(|byte| *byte == b'/') {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        current = Some(open_directory(current.as_ref().unwrap_or(root), &name, Arc::default(), 0)?);
    }
    current.map(|directory| OpenDir { path: path.into(), ..directory }).ok_or(Errno::NOENT)
}

fn block_bytes(fd: BorrowedFd<'_>) -> u64 {
    const USUAL: u64 = 4096;
    let block = fstatfs(fd).map_or(USUAL, |status| u64::try_from(status.f_bsize).unwrap_or(USUAL));
    if block == 0 { USUAL } else { block }
}
