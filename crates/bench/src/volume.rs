//! A volume for one measurement: ext4 on a sparse loop file with direct I/O, mounted; gone when dropped.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_sys::{loopdev, mount};

/// A mounted ext4.
#[derive(Debug)]
pub struct Ext4 {
    folder: PathBuf,
    device: PathBuf,
    point: PathBuf,
}

impl Ext4 {
    /// Makes one of `bytes` below `folder`, which must not exist yet. Nothing is initialised lazily, so that
    /// no late write is taken for the measurement's.
    ///
    /// # Errors
    /// No root, no loop device, no `mkfs.ext4`, no space.
    pub fn new(folder: &Path, bytes: u64) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let file = folder.join("volume");
        File::create(&file)?.set_len(bytes)?;
        let attach = loopdev::AttachOptions { file, offset: 0, size: 0, sector_bytes: 4096, direct_io: true };
        let device = loopdev::attach(&attach).map_err(io::Error::other)?;
        let volume = Self { folder: folder.to_owned(), device, point: folder.join("mount") };
        fs::create_dir(&volume.point)?;
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&volume.device)
            .output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        mount::mount(&volume.device, &volume.point, "ext4", &["noatime".to_owned()])
            .map_err(io::Error::other)?;
        fs::create_dir(volume.directory())?;
        Ok(volume)
    }

    /// An empty directory on it.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.point.join("load")
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // What could not be undone shows as a loop device with a backing file in the folder.
        let _ = mount::unmount(&self.point).or_else(|_| mount::unmount_lazily(&self.point));
        let _ = loopdev::detach(&self.device);
        let _ = fs::remove_dir_all(&self.folder);
    }
}
