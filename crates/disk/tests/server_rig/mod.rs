//! A server of a disk in a process of its own, and what stands on its disk.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fsage_disk::server::client;
use fsage_disk::server::{ServerDirectory, Settings, is_alive};
use fsage_model::disk::{ProcessRecord, Ready};
use fsage_sys::mount;
use rustix::process::{Pid, Signal, kill_process};

use crate::export_rig::{LoopDevice, skip};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_fsage-disk");
pub const MIB: u64 = 1 << 20;
/// Nothing that must not hang takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip::skip("mounting needs root");
    }
    root
}

/// A server in a temporary directory, and what stands on its disk. All of it goes when dropped, however the
/// test ended.
pub struct Disk {
    pub ready: Ready,
    pub place: ServerDirectory,
    pub mounted: Option<PathBuf>,
    // Before the folder, so that it is detached first.
    pub device: Option<LoopDevice>,
    pub folder: tempfile::TempDir,
}

impl Disk {
    pub fn up(size_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::new(folder.path().join("server"), size_bytes, "ram");
        let ready = client::up(Path::new(PROGRAM), &settings).unwrap();
        let place = ServerDirectory::new(&settings.directory);
        Self { ready, place, mounted: None, device: None, folder }
    }

    pub fn attach(&mut self) -> PathBuf {
        let device = LoopDevice::attach(&self.ready.file);
        let path = device.path.clone();
        self.device = Some(device);
        path
    }

    /// With an ext4 on it.
    pub fn with_ext4(size_bytes: u64) -> (Self, PathBuf) {
        let mut disk = Self::up(size_bytes);
        let device = disk.attach();
        let options = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        assert!(Command::new("mkfs.ext4").args(options).arg(&device).status().unwrap().success());
        let point = disk.folder.path().join("ext4");
        fs::create_dir(&point).unwrap();
        mount::mount(&device, &point, "ext4", &[]).unwrap();
        disk.mounted = Some(point.clone());
        (disk, point)
    }

    pub fn kill(&self, signal: Signal) {
        let pid = Pid::from_raw(self.ready.pid.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Whether each of the server's threads is stopped (`proc_pid_stat(5)`: state `T`).
    pub fn stands_still(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.ready.pid)).unwrap();
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    pub fn is_alive(&self) -> bool {
        is_alive(&ProcessRecord { pid: self.ready.pid, start_ticks: self.ready.start_ticks })
    }

    pub fn wait_for_end(&self) {
        within("the server ends", || !self.is_alive());
    }

    pub fn unmount(&mut self) {
        let point = self.mounted.take().unwrap();
        within("unmounting", || mount::unmount(&point).is_ok());
    }

    /// That nothing of it is left.
    pub fn assert_gone(&self) {
        let left: Vec<_> = fs::read_dir(self.place.directory()).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.place.is_mounted());
        assert!(!self.is_alive());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(point) = self.mounted.take() {
            let _ = mount::unmount(&point).or_else(|_| mount::unmount_lazily(&point));
        }
        drop(self.device.take());
        let cleaned = client::clean(&self.place);
        if !std::thread::panicking() {
            cleaned.unwrap();
        }
    }
}

pub fn within(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{what} took more than {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn fsage_disk(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
