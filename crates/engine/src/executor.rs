//! Turns operations into system calls, and times them.
//!
//! An operation's latency is the time (`CLOCK_MONOTONIC_RAW`, or the virtual disk's own clock where there is
//! one) from just before its first system call to just after its last one, open and close included; making
//! the data is left out (a first chunk is made before, later ones with the watch held). Nothing is allocated,
//! formatted, locked or dispatched dynamically in between.
//!
//! A create or append that fails half-way is undone, so that the tree model, which changes only on success,
//! stays true. Files are reached by `openat` from a bounded cache of directory descriptors.
//!
//! Write modes: `buffered` uses `pwrite`; `direct` opens with `O_DIRECT` (the workload keeps sizes to whole
//! blocks); `fast` takes the space by `fallocate(2)` mode 0 and writes nothing: overwriting is then a no-op
//! allocation on file systems that write in place, and punch and allocate on those that never do.

mod directory;
mod settle;
mod watch;

use fsage_model::load::WriteMode;
use fsage_model::operation::{BLOCK_BYTES, Operation, OperationKind, Outcome};
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::clock::raw_ns;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::{self, Errno, retry_on_intr};

use crate::disk::Clock;
use crate::tree::{Directory, write_file_name};
use directory::DirectoryTable;
use settle::Settler;
use watch::Watch;

/// Most bytes moved by one system call; larger operations take several.
pub const CHUNK_BYTES: usize = 1 << 20;

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
    /// On a virtual disk in model time.
    settler: Option<Settler>,
}

/// An outcome and when its operation started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    /// How it went.
    pub outcome: Outcome,
    /// `CLOCK_MONOTONIC_RAW` just before its first system call.
    pub start_raw_ns: u64,
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
        Ok(Self {
            options,
            settler: clock.is_model().then(Settler::new),
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

    /// Runs one operation. Never panics; what went wrong is in the outcome.
    pub fn execute(&mut self, operation: &Operation) -> Timed {
        let mut result = self.prepare(operation);
        let mut watch = Watch::start(&self.clock);
        let start_raw_ns = if self.clock.is_model() { raw_ns() } else { watch.started() };
        if result.is_ok() {
            result = self.dispatch(operation, &mut watch);
        }
        let latency_ns = watch.stop();
        if let (Some(settler), Ok(())) = (&mut self.settler, result) {
            settler.note(operation, self.directories.top());
        }
        Timed {
            outcome: Outcome { errno: result.err().map_or(0, Errno::raw_os_error), latency_ns },
            start_raw_ns,
        }
    }

    /// Writes out, one by one, the files that were written since the last time, where that is to be done by
    /// operations and not by timers (see `settle`).
    pub fn write_out(&mut self) {
        let places = self.settler.as_mut().map(Settler::take).unwrap_or_default();
        for place in places {
            if self.directories.ensure(place.directory, None).is_err() {
                continue;
            }
            set_name(&mut self.name, place.name);
            let Ok(directory) = self.directories.get(place.directory) else { continue };
            let flags = OFlags::RDONLY | NO_WAITING;
            let opened = retry_on_intr(|| fs::openat(directory, &self.name[..], flags, FILE_MODE));
            if let (Ok(file), Some(settler)) = (opened, &mut self.settler) {
                settler.write_out(file);
            }
        }
    }

    /// Everything that is not the operation itself: directories, names, first data.
    fn prepare(&mut self, operation: &Operation) -> Result<(), Errno> {
        use OperationKind as K;
        let (place, target) = (operation.place, operation.target);
        match operation.kind {
            K::Rename | K::Link | K::Symlink => {
                self.directories.ensure(place.directory, None)?;
                self.directories.ensure(target.directory, Some(place.directory))?;
                set_name(&mut self.new_name, target.name);
                if operation.kind == K::Symlink {
                    self.text.clear();
                    self.directories.tree().write_symlink_text(&mut self.text, target.directory, place);
                }
            }
            K::Mkdir | K::Rmdir => return self.directories.ensure(parent_of(operation)?, None),
            _ => self.directories.ensure(place.directory, None)?,
        }
        set_name(&mut self.name, place.name);
        let writes = matches!(operation.kind, K::Create | K::Append | K::Overwrite | K::RandomWrite);
        if writes && self.options.write_mode != WriteMode::Fast {
            let length = match operation.kind {
                K::RandomWrite => access_length(operation, operation.offset),
                _ => operation.length,
            };
            fill_first(&mut self.buffer, operation, length);
        }
        Ok(())
    }

    fn dispatch(&mut self, operation: &Operation, watch: &mut Watch) -> Result<(), Errno> {
        use OperationKind as K;
        match operation.kind {
            K::Create => self.create(operation, watch),
            K::Append => self.append(operation, watch),
            K::Overwrite => {
                let file = self.open_file(operation, OFlags::WRONLY)?;
                self.rewrite(file.as_fd(), operation, operation.offset, operation.length, true, watch)
            }
            K::RandomWrite => {
                let file = self.open_file(operation, OFlags::WRONLY)?;
                (0..operation.accesses.max(1)).try_for_each(|access| {
                    let offset = operation.access(access);
                    let length = access_length(operation, offset);
                    self.rewrite(file.as_fd(), operation, offset, length, access == 0, watch)
                })
            }
            K::Truncate => {
                let file = self.open_plain(operation, OFlags::WRONLY)?;
                retry_on_intr(|| fs::ftruncate(&file, operation.offset))
            }
            K::Fallocate => {
                let file = self.open_plain(operation, OFlags::WRONLY)?;
                allocate(file.as_fd(), FallocateFlags::KEEP_SIZE, operation.offset, operation.length)
            }
            K::Read => {
                let file = self.open_file(operation, OFlags::RDONLY)?;
                read_range(file.as_fd(), &mut self.buffer, 0, operation.size)
            }
            K::RandomRead => {
                let file = self.open_file(operation, OFlags::RDONLY)?;
                (0..operation.accesses.max(1)).try_for_each(|access| {
                    let offset = operation.access(access);
                    let length = access_length(operation, offset);
                    read_range(file.as_fd(), &mut self.buffer, offset, length)
                })
            }
            K::Fsync => fs::fsync(self.open_plain(operation, OFlags::RDONLY)?),
            K::Fdatasync => fs::fdatasync(self.open_plain(operation, OFlags::RDONLY)?),
            K::Delete | K::Rename | K::Symlink | K::Link => self.change_name(operation),
            K::Mkdir => self.directories.make(directory_of(operation)?),
            K::Rmdir => self.directories.remove(directory_of(operation)?),
        }
    }

    fn change_name(&self, operation: &Operation) -> Result<(), Errno> {
        use OperationKind as K;
        let directory = self.directories.get(operation.place.directory)?;
        if operation.kind == K::Delete {
            return fs::unlinkat(directory, &self.name[..], AtFlags::empty());
        }
        let new_directory = self.directories.get(operation.target.directory)?;
        let new_name = &self.new_name[..];
        match operation.kind {
            K::Rename => fs::renameat(directory, &self.name[..], new_directory, new_name),
            K::Link => fs::linkat(directory, &self.name[..], new_directory, new_name, AtFlags::empty()),
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

    fn create(&mut self, operation: &Operation, watch: &mut Watch) -> Result<(), Errno> {
        let file = self.open_file(operation, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let result = self.extend(file.as_fd(), operation, watch);
        drop(file);
        if result.is_err() {
            // Of two errors the first is the one to tell.
            let directory = self.directories.get(operation.place.directory)?;
            let _ = fs::unlinkat(directory, &self.name[..], AtFlags::empty());
        }
        result
    }

    fn append(&mut self, operation: &Operation, watch: &mut Watch) -> Result<(), Errno> {
        let file = self.open_file(operation, OFlags::WRONLY)?;
        let result = self.extend(file.as_fd(), operation, watch);
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
        watch: &mut Watch,
    ) -> Result<(), Errno> {
        match self.options.write_mode {
            WriteMode::Fast => allocate(file, FallocateFlags::empty(), operation.offset, operation.length),
            WriteMode::Buffered | WriteMode::Direct => write_range(
                file,
                &mut self.buffer,
                operation,
                operation.offset,
                operation.length,
                true,
                watch,
            ),
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
        watch: &mut Watch,
    ) -> Result<(), Errno> {
        if self.options.write_mode != WriteMode::Fast {
            return write_range(file, &mut self.buffer, operation, offset, length, filled, watch);
        }
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

/// The parent's number that `mkdir` and `rmdir` carry as their offset.
fn parent_of(operation: &Operation) -> Result<u32, Errno> {
    u32::try_from(operation.offset).map_err(|_| Errno::INVAL)
}

/// What `mkdir` makes and `rmdir` removes.
fn directory_of(operation: &Operation) -> Result<Directory, Errno> {
    Ok(Directory { number: operation.place.directory, parent: parent_of(operation)? })
}

fn set_name(name: &mut Vec<u8>, number: u64) {
    name.clear();
    write_file_name(name, number);
}

/// Bytes of an access at `offset`: `length`, cut at the end of the file.
fn access_length(operation: &Operation, offset: u64) -> u64 {
    operation.length.min(operation.size.saturating_sub(offset))
}

/// The next chunk of a transfer of which `left` bytes are left.
fn chunk_of(left: u64) -> usize {
    usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES))
}

fn fill_first(buffer: &mut AlignedBuffer, operation: &Operation, length: u64) {
    let chunk = chunk_of(length);
    fsage_content::fill(&mut buffer[..chunk], operation.file, operation.offset, operation.version);
}

fn write_range(
    file: BorrowedFd<'_>,
    buffer: &mut AlignedBuffer,
    operation: &Operation,
    offset: u64,
    length: u64,
    mut filled: bool,
    watch: &mut Watch,
) -> Result<(), Errno> {
    let end = offset + length;
    let mut at = offset;
    while at < end {
        let chunk = chunk_of(end - at);
        if !filled {
            watch.hold();
            fsage_content::fill(&mut buffer[..chunk], operation.file, at, operation.version);
            watch.go_on();
        }
        filled = false;
        let mut done = 0;
        while done < chunk {
            // A short write continues where it ended; none at all means there is no room.
            match retry_on_intr(|| io::pwrite(file, &buffer[done..chunk], at + as_u64(done)))? {
                0 => return Err(Errno::NOSPC),
                written => done += written,
            }
        }
        at += as_u64(chunk);
    }
    Ok(())
}

/// Reads `length` bytes from `offset` on. A file that ends before is not what the model says: `ENODATA`.
fn read_range(
    file: BorrowedFd<'_>,
    buffer: &mut AlignedBuffer,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    let end = offset + length;
    let mut at = offset;
    while at < end {
        // Whole blocks, as direct I/O needs them; what lies beyond the end of the file is not read.
        let chunk = chunk_of((end - at).next_multiple_of(BLOCK_BYTES));
        match retry_on_intr(|| io::pread(file, &mut buffer[..chunk], at))? {
            0 => return Err(Errno::NODATA),
            read => at += as_u64(read),
        }
    }
    Ok(())
}

fn allocate(file: BorrowedFd<'_>, flags: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    retry_on_intr(|| fs::fallocate(file, flags, offset, length))
}

/// A buffer length as an offset: `usize` is at most 64 bits on every target of ours.
const fn as_u64(length: usize) -> u64 {
    length as u64
}
