//! Loop devices over files.
//!
//! A file that is made here has all of its blocks before it is attached. The host's file system would else
//! look for room whenever a load writes somewhere for the first time, and that would be timed with the load.
//! `fallocate` does it where the host's file system has it; elsewhere zeros are written. What `fallocate` has
//! set aside is marked as unwritten: the first write of a block still changes that mark, in the host's
//! metadata.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::extent::Extent;
use fsage_model::protocol::BackingFile;
use fsage_sys::loopdev::{self, AttachOptions};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::HostError;

/// How long a detached device may be kept by someone who inspects it (udev does).
const DETACH_WAIT: Duration = Duration::from_secs(5);

/// Zeros that are written at once where `fallocate` cannot.
const PIECE: usize = 1 << 20;

/// Bytes of zeros that are made durable before anyone is asked whether to continue: a second of a slow disk.
const STEP: u64 = 64 << 20;

/// Gets how many bytes of how many are made where that takes long, and says whether to continue.
pub type Making<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Links are not followed: a volume's file is made by us.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// A pipe is not waited for.
const NO_WAITING: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Attaches `file`, made with `size_bytes` and all of its blocks when that is given, and gives the device and
/// a descriptor that keeps it the one it is; of `part` that part alone.
///
/// # Errors
/// The file cannot be made or has no room ([`HostError::NoRoom`]), or `making` was not to continue
/// ([`HostError::Stopped`]), or the kernel refuses (no direct I/O there, for one).
pub fn attach_held(
    file: &Path,
    size_bytes: Option<u64>,
    sector_bytes: u32,
    direct_io: bool,
    part: Option<Extent>,
    making: Making<'_>,
) -> Result<(PathBuf, OwnedFd), HostError> {
    let made = size_bytes.map(|size_bytes| make(file, size_bytes, making)).transpose()?;
    let (offset, size) = part.map_or((0, 0), |part| (part.start_bytes, part.size_bytes));
    let options = AttachOptions { file: file.to_owned(), offset, size, sector_bytes, direct_io };
    // By its descriptor: what has the name by now may be something else.
    made.map_or_else(|| loopdev::attach_held(&options), |made| loopdev::attach_open(made.as_fd(), &options))
        .map_err(HostError::kernel(format!("attach {} as a loop device", file.display())))
}

/// Makes the file of a volume.
fn make(file: &Path, size_bytes: u64, making: Making<'_>) -> Result<File, HostError> {
    let mut options = OpenOptions::new();
    // It will hold what files hold that only their owners may read.
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_FOLLOW);
    let made = options.open(file).map_err(HostError::file("make", file))?;
    made.set_len(size_bytes).map_err(HostError::file("set the size of", file))?;
    match allocate(&made, size_bytes, making) {
        Ok(true) => Ok(made),
        Ok(false) => Err(HostError::Stopped { path: file.to_owned() }),
        Err(error) => Err(HostError::no_room(file, size_bytes)(error)),
    }
}

/// Gives a volume's file back what blocks it lost to discards. Where the host cannot allocate it cannot make
/// holes either, and nothing is to be done.
///
/// # Errors
/// The file is not there or has no room ([`HostError::NoRoom`]).
pub fn allocate_again(file: &Path) -> Result<(), HostError> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).custom_flags(NO_FOLLOW | NO_WAITING).open(file);
    let opened = opened.map_err(HostError::file("open", file))?;
    let found = opened.metadata().map_err(HostError::file("stat", file))?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        let what = "a volume of fsage's is a file of the user's own".to_owned();
        return Err(HostError::Replaced { device: file.to_owned(), what });
    }
    let size_bytes = found.len();
    match retry_on_intr(|| fallocate(&opened, FallocateFlags::empty(), 0, size_bytes)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(HostError::no_room(file, size_bytes)(errno.into())),
    }
}

/// Gives the file all of its blocks; whether it was not stopped before.
fn allocate(file: &File, size_bytes: u64, making: Making<'_>) -> io::Result<bool> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size_bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, size_bytes, making),
        Err(errno) => Err(errno.into()),
        Ok(()) => Ok(true),
    }
}

/// Writes zeros over the whole file; whether it was not stopped before.
fn write_zeros(file: &File, size_bytes: u64, making: Making<'_>) -> io::Result<bool> {
    let zeros = vec![0; PIECE];
    let mut offset = 0;
    while offset < size_bytes {
        let length = usize::try_from(size_bytes - offset).unwrap_or(PIECE).min(PIECE);
        file.write_all_at(&zeros[..length], offset)?;
        offset += length as u64;
        if offset.is_multiple_of(STEP) {
            // What is written is on the disk before more is: the end is no long wait.
            file.sync_data()?;
            if !making(offset, size_bytes) {
                return Ok(false);
            }
        }
    }
    file.sync_all()?;
    Ok(true)
}

/// Attaches `file`, which may be a block device, so that the device refuses every write; with direct I/O
/// where it can be.
///
/// # Errors
/// The kernel refuses.
pub fn attach_read_only(file: &Path, sector_bytes: u32) -> Result<(PathBuf, OwnedFd), HostError> {
    let options = AttachOptions { file: file.to_owned(), offset: 0, size: 0, sector_bytes, direct_io: true };
    let refused = Errno::INVAL.raw_os_error();
    match loopdev::attach_read_only(&options) {
        Err(error) if error.errno() == refused => {
            loopdev::attach_read_only(&AttachOptions { direct_io: false, ..options })
        }
        attached => attached,
    }
    .map_err(HostError::kernel(format!("attach {} as a read-only loop device", file.display())))
}

/// As [`attach_held`], without the descriptor.
///
/// # Errors
/// As there.
pub fn attach(
    file: &Path,
    size_bytes: Option<u64>,
    sector_bytes: u32,
    direct_io: bool,
) -> Result<PathBuf, HostError> {
    attach_held(file, size_bytes, sector_bytes, direct_io, None, &mut |_, _| true).map(|(device, _)| device)
}

/// Detaches every device over `file` (also when the file was removed) and waits until they are free; none is
/// fine.
///
/// # Errors
/// A device stays in use, or the kernel refuses.
pub fn detach(file: &Path) -> Result<(), HostError> {
    // Devices whose file of this name was removed while it was attached: the kernel then adds ` (deleted)`.
    let removed = format!("{} (deleted)", file.display());
    wait(file, || Ok(loopdev::detach_file(file)? + loopdev::detach_named(&removed)?))
}

/// As [`detach`], of the file with these numbers, which was attached as `file`, and only of the devices that
/// begin at `offset_bytes`, where one is given.
///
/// # Errors
/// As there.
pub fn detach_backing(file: &Path, backing: BackingFile, offset_bytes: Option<u64>) -> Result<(), HostError> {
    wait(file, || loopdev::detach_backing((backing.device, backing.inode), offset_bytes))
}

/// As [`detach`], of the file with these numbers alone, which was attached as `file`; whether another file of
/// that name keeps its devices. With `offset_bytes` it is about the devices that begin there alone.
///
/// # Errors
/// As there.
pub fn detach_leased(
    file: &Path,
    backing: BackingFile,
    offset_bytes: Option<u64>,
) -> Result<bool, HostError> {
    let mut others = 0;
    wait(file, || {
        let (count, left) = loopdev::detach_leased(file, (backing.device, backing.inode), offset_bytes)?;
        others = left;
        Ok(count)
    })?;
    Ok(others > 0)
}

/// What tells a file that is to be attached from a later one of its name.
///
/// # Errors
/// It is not there, or does not answer.
pub fn backing(file: &Path) -> Result<BackingFile, HostError> {
    let metadata = std::fs::metadata(file).map_err(HostError::file("stat", file))?;
    Ok(BackingFile { device: metadata.dev(), inode: metadata.ino() })
}

/// Until `detach` finds no device any more.
fn wait(file: &Path, mut detach: impl FnMut() -> fsage_sys::Result<usize>) -> Result<(), HostError> {
    let started = Instant::now();
    let what = || format!("detach the loop devices of {}", file.display());
    while detach().map_err(HostError::kernel(what()))? > 0 {
        if started.elapsed() > DETACH_WAIT {
            let users = loopdev::by_backing_file(file).unwrap_or_default();
            let users = users.iter().map(|device| device.display().to_string()).collect::<Vec<_>>();
            return Err(HostError::Busy { point: file.to_owned(), users: users.join(", ") });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the host keeps for the file.
    fn held(file: &File) -> u64 {
        file.metadata().unwrap().blocks() * 512
    }

    #[test]
    fn a_volumes_file_has_all_of_its_blocks() {
        const SIZE: u64 = (5 << 20) + 4096;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        make(&path, SIZE, &mut |_, _| true).unwrap();
        let made = File::open(&path).unwrap();
        assert_eq!(made.metadata().unwrap().len(), SIZE);
        assert!(held(&made) >= SIZE, "{} of {SIZE}", held(&made));
        // Also after a discard, and what it holds stays.
        let written = OpenOptions::new().write(true).open(&path).unwrap();
        written.write_all_at(b"kept", 0).unwrap();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&written, hole, 1 << 20, 2 << 20).unwrap();
        assert!(held(&made) < SIZE, "{} of {SIZE}", held(&made));
        allocate_again(&path).unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        assert!(allocate_again(&pipe).is_err());
        assert!(held(&made) >= SIZE, "{} of {SIZE}", held(&made));
        let mut start = [0; 4];
        made.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"kept");
    }

    #[test]
    fn zeros_are_written_where_the_host_cannot_allocate() {
        const SIZE: u64 = 2 * (PIECE as u64) + 4096;
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        assert!(write_zeros(&file, SIZE, &mut |_, _| true).unwrap());
        assert!(held(&file) >= SIZE, "{} of {SIZE}", held(&file));
        let mut found = Vec::new();
        io::Read::read_to_end(&mut file, &mut found).unwrap();
        assert!(found.len() as u64 == SIZE && found.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn zeros_are_told_of_and_end_when_that_is_asked() {
        const SIZE: u64 = 3 * STEP + PIECE as u64;
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        let mut told = Vec::new();
        let ended = write_zeros(&file, SIZE, &mut |done, of| {
            told.push((done, of));
            told.len() < 2
        });
        assert!(!ended.unwrap());
        assert_eq!(told, [(STEP, SIZE), (2 * STEP, SIZE)]);
        assert!((2 * STEP..SIZE).contains(&held(&file)), "{}", held(&file));
    }

    #[test]
    fn no_room_is_a_missing_prerequisite_and_says_how_much() {
        let full = io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
        let error = HostError::no_room(Path::new("/store/t.volume"), 5 << 30)(full);
        assert_eq!(error.kind(), fsage_model::protocol::FailureKind::Missing);
        assert_eq!(error.to_string(), "cannot allocate all of /store/t.volume (5GiB)");
        assert!(error.hint().contains("volume.size"), "{}", error.hint());
        // What is no lack of room is not called one.
        let broken = io::Error::from_raw_os_error(Errno::IO.raw_os_error());
        let error = HostError::no_room(Path::new("/store/t.volume"), 5 << 30)(broken);
        assert_eq!(error.kind(), fsage_model::protocol::FailureKind::Failed);
    }
}
