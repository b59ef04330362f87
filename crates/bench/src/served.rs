//! A virtual disk for one measurement: its server, in release mode, and a loop device on it; gone when
//! dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_disk::server::client;
use fsage_disk::server::{ServerDirectory, Settings};
use fsage_model::disk::Ready;
use fsage_model::disk::ServerStat;
use fsage_sys::{loopdev, mount};

/// Bytes of the sectors that the loop device has.
pub const SECTOR_BYTES: u32 = 4096;

/// A disk that is served, and perhaps an ext4 on it.
#[derive(Debug)]
pub struct Served {
    folder: PathBuf,
    place: ServerDirectory,
    /// What the server said when it was ready.
    pub ready: Ready,
    device: PathBuf,
    point: Option<PathBuf>,
}

impl Served {
    /// Starts a server with a folder of its own, which must not exist yet, and attaches a loop device as
    /// `fsage disk up` does: direct I/O, sectors of 4096 bytes, requests of at most 1 MiB. `fsage-disk` must
    /// lie beside this program. `change` has the last word about the settings.
    ///
    /// # Errors
    /// No root, no FUSE, no loop device.
    pub fn up(folder: &Path, size_bytes: u64, change: impl FnOnce(&mut Settings)) -> io::Result<Self> {
        let mut settings = Settings::new(folder.join("server"), size_bytes, "ram");
        change(&mut settings);
        fs::create_dir(folder)?;
        let program = std::env::current_exe()?.with_file_name("fsage-disk");
        let started = client::up(&program, &settings).map_err(io::Error::other);
        let ready = started.inspect_err(|_| drop(fs::remove_dir_all(folder)))?;
        let place = ServerDirectory::new(&settings.directory);
        let mut served =
            Self { folder: folder.to_owned(), place, ready, device: PathBuf::new(), point: None };
        served.device = attach(&served.ready.file)?;
        Ok(served)
    }

    /// The loop device.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Makes an ext4 on it, nothing of it initialised lazily, mounts it, and returns where.
    ///
    /// # Errors
    /// No `mkfs.ext4`; the mount fails.
    pub fn mount_ext4(&mut self) -> io::Result<PathBuf> {
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&self.device)
            .output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        let point = self.folder.join("mount");
        fs::create_dir(&point)?;
        mount::mount(&self.device, &point, "ext4", &["noatime".to_owned()]).map_err(io::Error::other)?;
        self.point = Some(point.clone());
        Ok(point)
    }

    /// What the server knows about its disk.
    ///
    /// # Errors
    /// It does not answer.
    pub fn stat(&self) -> io::Result<ServerStat> {
        client::stat(&self.place).map_err(io::Error::other)
    }

    /// A line of the server's `/proc/…/status` that is in kB, in bytes: `VmRSS`, `VmHWM`.
    #[must_use]
    pub fn status_bytes(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.ready.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Processor time that the server has used, in seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.ready.pid)).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        // utime and stime, in ticks of which 100 make a second on every Linux that there is.
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
    }
}

/// A loop device on `file`, or on a memory file: with direct I/O where the file system has it.
///
/// # Errors
/// No loop device; direct I/O is refused.
pub fn attach(file: &Path) -> io::Result<PathBuf> {
    let options = loopdev::AttachOptions {
        file: file.to_owned(),
        offset: 0,
        size: 0,
        sector_bytes: SECTOR_BYTES,
        direct_io: true,
    };
    let device = loopdev::attach(&options).map_err(io::Error::other)?;
    let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let queue = PathBuf::from(format!("/sys/block/{name}/queue"));
    // Larger ones the FUSE file system would split.
    fs::write(queue.join("max_sectors_kb"), "1024")?;
    // It throttles by the wall's time; not every kernel has it.
    let _ = fs::write(queue.join("wbt_lat_usec"), "0");
    Ok(device)
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(point) = self.point.take() {
            let _ = mount::unmount(&point).or_else(|_| mount::unmount_lazily(&point));
        }
        if self.device.is_absolute() {
            let _ = loopdev::detach(&self.device);
        }
        // What could not be removed shows as a folder that is still there.
        let _ = client::clean(&self.place);
        let _ = fs::remove_dir_all(&self.folder);
    }
}
