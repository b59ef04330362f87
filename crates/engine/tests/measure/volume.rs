//! A small real volume with a tree of self-describing files.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_sys::{loopdev, mount};

use crate::skip;

pub const KINDS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// A mounted file system on a sparse file with direct I/O; gone when dropped, also by a panic.
pub struct Volume {
    pub device: PathBuf,
    pub point: PathBuf,
    kind: String,
    /// Last: removed when all else is undone.
    _folder: tempfile::TempDir,
}

impl Volume {
    pub fn new(kind: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("mounting needs root");
            return None;
        }
        // tmpfs has no direct I/O.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = folder.path().join("volume");
        File::create(&file).unwrap().set_len(512 << 20).unwrap();
        let point = folder.path().join("mount");
        fs::create_dir(&point).unwrap();
        let options =
            loopdev::AttachOptions { file, offset: 0, size: 0, sector_bytes: 4096, direct_io: true };
        let device = loopdev::attach(&options).unwrap();
        let volume = Self { device, point, kind: kind.to_owned(), _folder: folder };
        let mut mkfs = Command::new(format!("mkfs.{kind}"));
        if kind == "ext4" {
            mkfs.args(["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
        }
        let output = mkfs.arg(&volume.device).output().unwrap();
        assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        volume.mount();
        Some(volume)
    }

    fn mount(&self) {
        mount::mount(&self.device, &self.point, &self.kind, &["noatime".to_owned()]).unwrap();
    }

    /// Unmounts and mounts again.
    pub fn remount(&self) {
        fsage_engine::host::mount::unmount(&self.point).unwrap();
        self.mount();
    }

    /// A folder below the mount point.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.point.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Waits while a child of another test, not yet its program, has a file open there.
        let unmounted = fsage_engine::host::mount::unmount(&self.point);
        let detached = loopdev::detach(&self.device);
        if !std::thread::panicking() {
            unmounted.unwrap();
            detached.unwrap();
        }
    }
}

/// 300 files of 1 byte to 100 KB in 30 directories, 4 levels deep, named as a load names them.
pub fn plant(root: &Path) {
    let mut data = vec![0; 100_000];
    for number in 0..300_u64 {
        let depth = number % 3;
        let mut folder = root.join("t00");
        for level in 0..=depth {
            folder.push(format!("d{:04x}", (number % 10 + 1) << (4 * level)));
        }
        fs::create_dir_all(&folder).unwrap();
        let size = usize::try_from(1 + number * 7919 % 100_000).unwrap();
        fsage_content::fill(&mut data[..size], number + 1, 0, 1);
        fs::write(folder.join(format!("f{number:08x}")), &data[..size]).unwrap();
    }
    fsage_sys::syncfs(File::open(root).unwrap().as_fd()).unwrap();
}
