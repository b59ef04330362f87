//! The volume, read and written past the page cache where the kernel allows it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fsage_model::image::BLOCK_BYTES;
use fsage_model::protocol::DeviceIdentity;
use fsage_sys::mount::descriptor_path;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use super::{ImageError, as_u64};
use crate::host::{block, held};

/// A block device, or a file that holds a volume.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// Offsets, lengths and addresses of what goes through it are multiples of 4096.
    direct: File,
    /// For what is not.
    plain: File,
    size_bytes: u64,
    is_device: bool,
}

fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// What file systems without direct I/O say (older tmpfs).
fn is_invalid(refused: &io::Error) -> bool {
    refused.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

impl Disk {
    /// Opens it for reading, alone when `exclusive` (which only devices can be).
    pub(super) fn read(path: &Path, exclusive: bool) -> Result<Self, ImageError> {
        Self::open(path, false, exclusive)
    }

    /// Opens a device for writing, alone: not mounted, not swap, not part of something.
    pub(super) fn write(path: &Path) -> Result<Self, ImageError> {
        Self::open(path, true, true)
    }

    /// A file that is open for reading and writing: this very file, whatever has its name now.
    pub(super) fn of_file(plain: File, path: &Path) -> Result<Self, ImageError> {
        let error = || ImageError::file("open", path);
        let again = descriptor_path(plain.as_fd());
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let direct = match options.custom_flags(flags(OFlags::DIRECT)).open(&again) {
            Err(refused) if is_invalid(&refused) => plain.try_clone(),
            opened => opened,
        };
        let (direct, size_bytes) = (direct.map_err(error())?, plain.metadata().map_err(error())?.len());
        Ok(Self { path: path.to_owned(), direct, plain, size_bytes, is_device: false })
    }

    fn open(path: &Path, write: bool, exclusive: bool) -> Result<Self, ImageError> {
        let error = || ImageError::file("open", path);
        let kind = path.metadata().map_err(error())?.file_type();
        let is_device = kind.is_block_device();
        if !is_device && !kind.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "neither a block device nor a file");
            return Err(error()(source));
        }
        let exclusively = if exclusive && is_device { OFlags::EXCL } else { OFlags::empty() };
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        let direct = match options.custom_flags(flags(exclusively | OFlags::DIRECT)).open(path) {
            Ok(file) => file,
            Err(refused) if is_invalid(&refused) => {
                options.custom_flags(flags(exclusively)).open(path).map_err(error())?
            }
            Err(refused) => return Err(error()(refused)),
        };
        // The same file, whatever the path leads to now. Two descriptors cannot both be exclusive; one is
        // enough.
        let again = descriptor_path(direct.as_fd());
        let plain = OpenOptions::new().read(true).write(write).open(again).map_err(error())?;
        let size_bytes = if is_device {
            fsage_sys::block::size_bytes(direct.as_fd())
                .map_err(|source| error()(io::Error::from_raw_os_error(source.errno())))?
        } else {
            direct.metadata().map_err(error())?.len()
        };
        Ok(Self { path: path.to_owned(), direct, plain, size_bytes, is_device })
    }

    /// Refuses all but the block device that `expected` is of.
    pub(super) fn check(&self, expected: &DeviceIdentity) -> Result<(), ImageError> {
        block::identity(&self.direct, &self.path)
            .and_then(|found| held::same(&self.path, expected, &found))
            .map_err(ImageError::Device)
    }

    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What its first and last bytes say.
    pub(super) const fn plain(&self) -> &File {
        &self.plain
    }

    /// Reads whole blocks; what lies beyond the end of the volume is zeros.
    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let error = || ImageError::file("read", &self.path);
        let within = usize::try_from(self.size_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (bytes, beyond) = bytes.split_at_mut(within.min(bytes.len()));
        beyond.fill(0);
        let whole = bytes.len() - bytes.len() % BLOCK;
        let (bytes, cut) = bytes.split_at_mut(whole);
        self.direct.read_exact_at(bytes, offset).map_err(error())?;
        self.plain.read_exact_at(cut, offset + as_u64(whole)).map_err(error())
    }

    /// Writes blocks; what lies beyond `end` (the end of the saved volume) is left out.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64, end: u64) -> Result<(), ImageError> {
        let error = || ImageError::file("write", &self.path);
        let within = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = &bytes[..within.min(bytes.len())];
        let (bytes, cut) = bytes.split_at(bytes.len() - bytes.len() % BLOCK);
        self.direct.write_all_at(bytes, offset).map_err(error())?;
        self.plain.write_all_at(cut, offset + as_u64(bytes.len())).map_err(error())
    }

    pub(super) fn sync(&self) -> Result<(), ImageError> {
        self.plain.sync_all().map_err(ImageError::file("sync", &self.path))
    }

    /// Tells the device that nothing from `start` on is needed (a file gets a hole). Whether it could.
    pub(super) fn discard_from(&self, start: u64) -> bool {
        let whole = self.size_bytes - self.size_bytes % BLOCK_BYTES;
        let Some(length) = whole.checked_sub(start).filter(|length| *length > 0) else { return true };
        if self.is_device {
            return fsage_sys::block::discard(self.direct.as_fd(), start, length).is_ok();
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.plain, hole, start, length).is_ok()
    }
}

const BLOCK: usize = fsage_content::BLOCK_BYTES;
