//! A device that is open past the page cache: everything is asked of its descriptor.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fsage_model::geometry::DeviceHints;
use rustix::fs::{Mode, OFlags};

use super::hint;
use crate::disk::{Clock, VirtualDisk};
use crate::host::HostError;

/// What is assumed of the sectors below a file: no file system asks for larger ones.
const FILE_SECTOR_BYTES: u32 = 4096;

/// Unit of a file's blocks (`stat(2)`).
const BLOCK_BYTES: u64 = 512;

/// A block device, or where allowed a file to be read, that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub path: PathBuf,
    pub file: File,
    pub is_file: bool,
    /// Number of the device, or of the one below the file.
    number: u64,
}

impl Opened {
    /// Opens a block device.
    pub fn new(device: &Path, flags: OFlags) -> Result<Self, HostError> {
        let opened = Self::any(device, flags)?;
        if opened.is_file {
            return Err(opened.senseless("is not a block device"));
        }
        Ok(opened)
    }

    /// Opens a block device for writing, past the page cache, so that nobody mounts or claims it meanwhile.
    ///
    /// # Errors
    /// Somebody does ([`HostError::Claimed`]); it is no block device, or cannot be opened.
    pub fn to_write(device: &Path) -> Result<Self, HostError> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::EXCL;
        let opened = Self::with(device, flags).map_err(|error| match error {
            HostError::File { source, .. } if source.kind() == ErrorKind::ResourceBusy => {
                HostError::Claimed { device: device.to_owned() }
            }
            error => error,
        })?;
        if opened.is_file {
            return Err(opened.senseless("is not a block device"));
        }
        Ok(opened)
    }

    /// Opens a block device, or a file that has all of its blocks: holes are not read from any device.
    pub fn any(path: &Path, flags: OFlags) -> Result<Self, HostError> {
        Self::with(path, OFlags::RDONLY | flags)
    }

    fn with(path: &Path, flags: OFlags) -> Result<Self, HostError> {
        let path = path.canonicalize().map_err(HostError::file("find device", path))?;
        // Not blocking: a name may be that of a pipe.
        let flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | flags;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        let file = File::from(opened.map_err(|errno| HostError::file("open", &path)(errno.into()))?);
        let metadata: Metadata = file.metadata().map_err(HostError::file("inspect", &path))?;
        let (is_file, is_device) = (metadata.is_file(), metadata.file_type().is_block_device());
        let number = if is_file { metadata.dev() } else { metadata.rdev() };
        let opened = Self { path, file, is_file, number };
        if !is_file && !is_device {
            return Err(opened.senseless("is not a block device"));
        }
        if is_file && metadata.blocks().saturating_mul(BLOCK_BYTES) < metadata.len() {
            return Err(opened.senseless("is a file with holes, which are read from no device"));
        }
        Ok(opened)
    }

    pub fn hints(&self) -> Result<DeviceHints, HostError> {
        let what = || format!("ask {} about itself", self.path.display());
        if self.is_file {
            let size_bytes = self.file.metadata().map_err(HostError::file("inspect", &self.path))?.len();
            let below = hint::of(self.number);
            return Ok(DeviceHints { size_bytes, sector_bytes: FILE_SECTOR_BYTES, start_bytes: 0, ..below });
        }
        let size_bytes =
            fsage_sys::block::size_bytes(self.file.as_fd()).map_err(HostError::kernel(what()))?;
        let sector_bytes =
            fsage_sys::block::sector_bytes(self.file.as_fd()).map_err(HostError::kernel(what()))?;
        Ok(DeviceHints { size_bytes, sector_bytes, ..hint::of(self.number) })
    }

    /// The clock that its times are taken from: its own, where it is a virtual disk in model time.
    pub fn clock(&self) -> Result<Clock, HostError> {
        VirtualDisk::of_device(&self.path)
            .map_or(Ok(Clock::Host), |disk| Clock::of(&disk))
            .map_err(|error| self.senseless(&format!("cannot tell its time: {error}")))
    }

    /// It is not what it has to be.
    pub fn senseless(&self, what: &str) -> HostError {
        HostError::Senseless { what: format!("{} {what}", self.path.display()) }
    }
}
