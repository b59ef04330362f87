//! Turns operations into system calls, and times them.
//!
//! An operation's latency is the time (`CLOCK_MONOTONIC_RAW`, or the virtual disk's own clock where there is
//! one) from just before its first system call to just after its last one, open and close included; making
//! the data is left out (a first chunk is made before, later ones with the watch held). Nothing is allocated,
//! formatted, locked or dispatched dynamically in between. The one exception: an operation of more than 1 MiB, or of
//! several accesses, asks between its system calls whether to go on, since a file of a foreign trace may have holes of many
//! terabytes.
//!
//! A create or append that fails half-way is undone, so that the tree model, which changes only on success,
//! stays true. Files are reached by `openat` from a bounded cache of directory descriptors.
//!
//! Write modes: `buffered` uses `pwrite`; `direct` opens with `O_DIRECT` (the workload keeps sizes to whole
//! blocks); `fast` takes the space by `fallocate(2)` mode 0 and writes nothing: overwriting is then a no-op
//! allocation on file systems that write in place, and punch and allocate on those that never do.

mod directory;
mod pause;
mod settle;
mod timers;
mod transfer;
mod watch;

use std::path::Path;
use std::time::Duration;

use fsage_model::load::WriteMode;
use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation, Outcome};
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::clock::raw_ns;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::disk::Clock;
use crate::tree::{Directory, write_file_name};
use directory::DirectoryTable;
use pause::MetadataWriter;
use settle::Settler;
pub use timers::KernelTimers;
use timers::Timers;
pub use transfer::{CHUNK_BYTES, Interrupt};
use transfer::{UnderWay, Uninterrupted, allocate, chunk_of, read_range, write_range};

/// Permissions of new files and directories, before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// For every file that is opened: no link is followed, and a FIFO in a file's place is not waited for.
/// Ordinary files ignore the last.
const NO_WAITING: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// How an executor works; the same for every thread of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutorOptions {
    /// How data reaches the volume.
    pub write_mode: WriteMode,
    /// Whether the file system overwrites blocks where they are (all but btrfs and its like).
    pub in_place: bool,
    /// Directory descriptors kept open (at least 2).
    pub open_directories: usize,
    /// When what was written is written back.
    pub write_back: WriteBack,
    /// How long the disk is idle before each operation ([`Executor::pause`]); zero: not at all.
    pub pause: Duration,
    /// Operations for each pause (at least 1).
    pub burst: u32,
}

/// When what was written to the page cache reaches the volume, beside what the kernel does by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WriteBack {
    /// As the kernel does it.
    #[default]
    Kernel,
    /// Also when a disk's clock says that it is time.
    Clock(KernelTimers),
    /// By operations and in their order.
    Operations,
}

impl WriteBack {
    /// What is to be done below `directory`, where `clock` is the clock.
    #[must_use]
    pub fn under(directory: &Path, clock: &Clock, deterministic: bool) -> Self {
        match (clock.is_model(), deterministic) {
            (false, _) => Self::Kernel,
            (true, true) => Self::Operations,
            (true, false) => Self::Clock(KernelTimers::under(directory)),
        }
    }
}

/// What one thread remembers for that.
#[derive(Debug)]
enum Keeper {
    Kernel,
    Clock(Timers),
    Operations(Settler),
}

/// Runs the operations of one thread below its own top directory.
#[derive(Debug)]
pub struct Executor {
    options: ExecutorOptions,
    clock: Clock,
    directories: DirectoryTable,
    buffer: AlignedBuffer,
    /// Name of the operation's object; made before the watch starts, as are the next two.
    name: Vec<u8>,
    /// New name of rename and links.
    new_name: Vec<u8>,
    /// What a symbolic link says.
    text: Vec<u8>,
    keeper: Keeper,
    /// What writes metadata in pauses; absent without pauses.
    metadata: Option<MetadataWriter>,
    /// By the clock, when the next operation after a pause is to begin.
    due_ns: Option<u64>,
    /// Operations up to the next pause.
    left_of_burst: u32,
}

/// An outcome and when its operation started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    /// How it went.
    pub outcome: Outcome,
    /// `CLOCK_MONOTONIC_RAW` just before its first system call.
    pub start_raw_ns: u64,
    /// It was ended early ([`Interrupt`]), and its errno is `ECANCELED`. A create or append was undone; an overwrite or
    /// random write may have left blocks of its version.
    pub interrupted: bool,
}

impl Executor {
    /// An executor of `thread` below `directory`, the load's open one, where the thread's top directory must
    /// exist; operations are timed by `clock`.
    ///
    /// # Errors
    /// The top directory cannot be opened.
    pub fn open(
        directory: BorrowedFd<'_>,
        thread: u32,
        options: ExecutorOptions,
        clock: Clock,
    ) -> Result<Self, Errno> {
        let metadata = match clock.is_model() && !options.pause.is_zero() {
            true => Some(MetadataWriter::under(directory)?),
            false => None,
        };
        Ok(Self {
            options,
            keeper: match options.write_back {
                WriteBack::Kernel => Keeper::Kernel,
                WriteBack::Clock(limits) => {
                    let timers = Timers::new(limits, thread == 0, clock.now_ns());
                    Keeper::Clock(match &metadata {
                        Some(metadata) => timers.with_pauses(metadata.by()),
                        None => timers,
                    })
                }
                WriteBack::Operations => Keeper::Operations(Settler::new()),
            },
            metadata,
            due_ns: None,
            left_of_burst: 0,
            clock,
            directories: DirectoryTable::open(directory, thread, options.open_directories)?,
            buffer: AlignedBuffer::new(CHUNK_BYTES),
            name: Vec::with_capacity(64),
            new_name: Vec::with_capacity(64),
            text: Vec::with_capacity(4096),
        })
    }

    /// Makes a directory without timing it: for the tree a load starts with.
    ///
    /// # Errors
    /// What `mkdirat` says.
    pub fn make_directory(&mut self, directory: Directory) -> Result<(), Errno> {
        self.directories.make(directory)
    }

    /// Takes in a directory that is there already.
    pub fn know_directory(&mut self, directory: Directory) {
        self.directories.know(directory);
    }

    /// A descriptor of the thread's top directory.
    #[must_use]
    pub fn top(&self) -> BorrowedFd<'_> {
        self.directories.top()
    }

    /// Whether the file system overwrites blocks where they are.
    #[must_use]
    pub const fn writes_in_place(&self) -> bool {
        self.options.in_place
    }

    /// Runs one operation to its end. Never panics; what went wrong is in the outcome.
    pub fn execute(&mut self, operation: &Operation) -> Timed {
        self.execute_until(operation, &Uninterrupted)
    }

    /// As [`Executor::execute`], until `interrupt` ends it.
    pub fn execute_until(&mut self, operation: &Operation, interrupt: &dyn Interrupt) -> Timed {
        let before_ns = self.keep_timers();
        let mut result = self.prepare(operation);
        let mut under_way = UnderWay::start(&self.clock, interrupt);
        let start_raw_ns = if self.clock.is_model() { raw_ns() } else { under_way.watch.started() };
        if result.is_ok() {
            result = self.dispatch(operation, &mut under_way);
        }
        let latency_ns = under_way.watch.stop() + before_ns;
        match (&mut self.keeper, result) {
            (Keeper::Operations(settler), Ok(())) => settler.note(operation, self.directories.top()),
            (Keeper::Clock(timers), Ok(())) => {
                let through_cache = self.options.write_mode == WriteMode::Buffered;
                timers.note(operation, self.clock.now_ns(), through_cache);
            }
            _ => {}
        }
        Timed {
            outcome: Outcome { errno: result.err().map_or(0, Errno::raw_os_error), latency_ns },
            start_raw_ns,
            interrupted: under_way.is_interrupted(),
        }
    }

    /// Writes out, one by one, the files that were written since the last time, where that is to be done by
    /// operations and not by timers (see `settle`).
    pub fn write_out(&mut self) {
        let Keeper::Operations(settler) = &mut self.keeper else { return };
        for place in settler.take() {
            let opened = self.open_again(place);
            if let (Some(file), Keeper::Operations(settler)) = (opened, &mut self.keeper) {
                settler.write_out(file);
            }
        }
    }

    /// Does what the kernel would have done by now if its timers went by this clock; how long that took by
    /// it, in nanoseconds.
    #[inline]
    fn keep_timers(&mut self) -> u64 {
        match &self.keeper {
            Keeper::Clock(timers) if timers.is_due(self.clock.now_ns()) => self.write_what_is_due(),
            _ => 0,
        }
    }

    #[cold]
    fn write_what_is_due(&mut self) -> u64 {
        let Keeper::Clock(timers) = &mut self.keeper else { return 0 };
        self.clock.count_cpu();
        let start_ns = self.clock.now_ns();
        let due = timers.take(start_ns);
        for place in due.files {
            if let Some(file) = self.open_again(place) {
                // What fails is found by the next sync.
                let _ = match &self.metadata {
                    // Over long before the load goes on.
                    Some(_) => fsage_sys::write_back(file.as_fd()),
                    None => fsage_sys::start_write_back(file.as_fd()),
                };
            }
        }
        if due.metadata
            && let Some(metadata) = &self.metadata
        {
            metadata.write();
        }
        if let (true, Keeper::Clock(timers)) = (due.commit, &self.keeper) {
            timers.commit(self.directories.top());
        }
        let now_ns = self.clock.now_ns();
        self.clock.hold_cpu();
        now_ns.saturating_sub(start_ns)
    }

    /// Opens a file that an earlier operation wrote, if it is still there.
    fn open_again(&mut self, place: DirectoryEntry) -> Option<OwnedFd> {
        self.directories.ensure(place.directory, None).ok()?;
        set_name(&mut self.name, place.name);
        let directory = self.directories.get(place.directory).ok()?;
        let flags = OFlags::RDONLY | NO_WAITING;
        retry_on_intr(|| fs::openat(directory, &self.name[..], flags, FILE_MODE)).ok()
    }

    /// Everything that is not the operation itself: directories, names, first data.
    fn prepare(&mut self, operation: &Operation) -> Result<(), Errno> {
        let place = operation.place;
        match operation.action {
            Action::Rename { target } | Action::Link { target } | Action::Symlink { target } => {
                self.directories.ensure(place.directory, None)?;
                self.directories.ensure(target.directory, Some(place.directory))?;
                set_name(&mut self.new_name, target.name);
                if matches!(operation.action, Action::Symlink { .. }) {
                    self.text.clear();
                    self.directories.tree().write_symlink_text(&mut self.text, target.directory, place);
                }
            }
            Action::Mkdir { parent } | Action::Rmdir { parent } => {
                return self.directories.ensure(parent, None);
            }
            _ => self.directories.ensure(place.directory, None)?,
        }
        set_name(&mut self.name, place.name);
        if self.options.write_mode != WriteMode::Fast
            && let Some((offset, length)) = first_write(operation)
        {
            let chunk = chunk_of(length);
            fsage_content::fill(&mut self.buffer[..chunk], operation.file, offset, operation.version);
        }
        Ok(())
    }

    fn dispatch(&mut self, operation: &Operation, under_way: &mut UnderWay<'_>) -> Result<(), Errno> {
        let directory = |parent| Directory { number: operation.place.directory, parent };
        match operation.action {
            Action::Create { length } => self.create(operation, length, under_way),
            Action::Append { offset, length } => self.append(operation, offset, length, under_way),
            Action::Overwrite => {
                let file = self.open_file(operation, OFlags::WRONLY)?;
                self.rewrite(file.as_fd(), operation, 0, operation.size, true, under_way)
            }
            Action::RandomWrite { .. } => {
                let file = self.open_file(operation, OFlags::WRONLY)?;
                operation.accesses().enumerate().try_for_each(|(access, (offset, length))| {
                    self.rewrite(file.as_fd(), operation, offset, length, access == 0, under_way)
                })
            }
            Action::Truncate { new_size } => {
                let file = self.open_plain(operation, OFlags::WRONLY)?;
                retry_on_intr(|| fs::ftruncate(&file, new_size))
            }
            Action::Fallocate { offset, length } => {
                let file = self.open_plain(operation, OFlags::WRONLY)?;
                allocate(file.as_fd(), FallocateFlags::KEEP_SIZE, offset, length)
            }
            Action::Read { .. } => {
                let file = self.open_file(operation, OFlags::RDONLY)?;
                read_range(file.as_fd(), &mut self.buffer, 0, operation.size, under_way)
            }
            Action::RandomRead { .. } => {
                let file = self.open_file(operation, OFlags::RDONLY)?;
                operation.accesses().try_for_each(|(offset, length)| {
                    read_range(file.as_fd(), &mut self.buffer, offset, length, under_way)
                })
            }
            Action::Fsync => fs::fsync(self.open_plain(operation, OFlags::RDONLY)?),
            Action::Fdatasync => fs::fdatasync(self.open_plain(operation, OFlags::RDONLY)?),
            Action::Delete => {
                let directory = self.directories.get(operation.place.directory)?;
                fs::unlinkat(directory, &self.name[..], AtFlags::empty())
            }
            Action::Rename { target } | Action::Symlink { target } | Action::Link { target } => {
                self.give_name(operation, target.directory)
            }
            Action::Mkdir { parent } => self.directories.make(directory(parent)),
            Action::Rmdir { parent } => self.directories.remove(directory(parent)),
        }
    }

    fn give_name(&self, operation: &Operation, new_directory: u32) -> Result<(), Errno> {
        let directory = self.directories.get(operation.place.directory)?;
        let new_directory = self.directories.get(new_directory)?;
        let (name, new_name) = (&self.name[..], &self.new_name[..]);
        match operation.action {
            Action::Rename { .. } => fs::renameat(directory, name, new_directory, new_name),
            Action::Link { .. } => fs::linkat(directory, name, new_directory, new_name, AtFlags::empty()),
            _ => fs::symlinkat(&self.text[..], new_directory, new_name),
        }
    }

    /// Opens the operation's file for data, past the page cache where the mode says so.
    fn open_file(&self, operation: &Operation, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.open_plain(operation, flags | self.data_flags())
    }

    const fn data_flags(&self) -> OFlags {
        match self.options.write_mode {
            WriteMode::Direct => OFlags::DIRECT,
            WriteMode::Buffered | WriteMode::Fast => OFlags::empty(),
        }
    }

    fn open_plain(&self, operation: &Operation, flags: OFlags) -> Result<OwnedFd, Errno> {
        let directory = self.directories.get(operation.place.directory)?;
        let flags = flags | NO_WAITING;
        retry_on_intr(|| fs::openat(directory, &self.name[..], flags, FILE_MODE))
    }

    fn create(
        &mut self,
        operation: &Operation,
        length: u64,
        under_way: &mut UnderWay<'_>,
    ) -> Result<(), Errno> {
        let file = self.open_file(operation, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let result = self.extend(file.as_fd(), operation, 0, length, under_way);
        drop(file);
        if result.is_err() {
            // Of two errors the first is the one to tell.
            let directory = self.directories.get(operation.place.directory)?;
            let _ = fs::unlinkat(directory, &self.name[..], AtFlags::empty());
        }
        result
    }

    fn append(
        &mut self,
        operation: &Operation,
        offset: u64,
        length: u64,
        under_way: &mut UnderWay<'_>,
    ) -> Result<(), Errno> {
        let file = self.open_file(operation, OFlags::WRONLY)?;
        let result = self.extend(file.as_fd(), operation, offset, length, under_way);
        if result.is_err() {
            let _ = fs::ftruncate(&file, operation.size);
        }
        result
    }

    /// Writes or allocates `length` bytes from `offset` on, making the file larger.
    fn extend(
        &mut self,
        file: BorrowedFd<'_>,
        operation: &Operation,
        offset: u64,
        length: u64,
        under_way: &mut UnderWay<'_>,
    ) -> Result<(), Errno> {
        match self.options.write_mode {
            WriteMode::Fast => allocate(file, FallocateFlags::empty(), offset, length),
            WriteMode::Buffered | WriteMode::Direct => {
                write_range(file, &mut self.buffer, operation, offset, length, true, under_way)
            }
        }
    }

    /// Writes a range that is inside the file already. `filled`: its first chunk is in the buffer.
    fn rewrite(
        &mut self,
        file: BorrowedFd<'_>,
        operation: &Operation,
        offset: u64,
        length: u64,
        filled: bool,
        under_way: &mut UnderWay<'_>,
    ) -> Result<(), Errno> {
        if self.options.write_mode != WriteMode::Fast {
            return write_range(file, &mut self.buffer, operation, offset, length, filled, under_way);
        }
        under_way.write_on()?;
        if !self.options.in_place {
            let whole = length.next_multiple_of(BLOCK_BYTES);
            allocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, whole)?;
        }
        allocate(file, FallocateFlags::empty(), offset, length)
    }

    /// Opens a live file to write its data.
    ///
    /// # Errors
    /// What opening says.
    pub fn open_to_write(&mut self, operation: &Operation) -> Result<OwnedFd, Errno> {
        self.directories.ensure(operation.place.directory, None)?;
        set_name(&mut self.name, operation.place.name);
        self.open_plain(operation, OFlags::WRONLY)
    }
}

/// Offset and length of the first range that an operation writes.
fn first_write(operation: &Operation) -> Option<(u64, u64)> {
    match operation.action {
        Action::Create { length } => Some((0, length)),
        Action::Append { offset, length } => Some((offset, length)),
        Action::Overwrite => Some((0, operation.size)),
        Action::RandomWrite { .. } => operation.accesses().next(),
        _ => None,
    }
}

fn set_name(name: &mut Vec<u8>, number: u64) {
    name.clear();
    write_file_name(name, number);
}
