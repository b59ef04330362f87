//! A store, an agent and volumes for tests of file systems and volumes; cleans up also when a test panics.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../sys/tests/support/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use skip::skip;

use fsage_lab::filesystem::FileSystem;
use fsage_lab::lease::record::Lease;
use fsage_lab::lease::{Journal, LeaseId};
use fsage_lab::target::{Session, Target};
use fsage_model::protocol::{Call, call};
use fsage_model::size::Bytes;
use fsage_model::study::{QueueSpec, VolumeSpec};
use fsage_sys::loopdev::{self, AttachOptions};

/// Everything a trial has around it.
pub struct Rig {
    pub session: Session,
    pub journal: Journal,
    pub agent_lease: LeaseId,
    pub store: PathBuf,
    pub point: PathBuf,
    // Last, so that it goes last.
    _folder: tempfile::TempDir,
}

impl Rig {
    /// `None`, and a word why, when this is not root.
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().canonicalize().expect("a path").join("store");
        std::fs::create_dir(&store).expect("a store");
        let session = Target::local().expect("an agent (build it: cargo build -p fsage-engine)");
        let mut journal = Journal::open(&store).expect("a journal");
        let agent_lease = journal.attach(&session).expect("a lease of the agent");
        let point = store.join("mount");
        Some(Self { session, journal, agent_lease, store, point, _folder: folder })
    }

    pub fn call<C: Call>(&mut self, call: C) -> C::Reply {
        self.session.call(call).expect("a reply")
    }

    /// Has the agent hold a device that was not acquired.
    pub fn hold(&mut self, device: &Path) {
        let identity = fsage_engine::host::block::facts(device).expect("facts").identity;
        self.call(call::HoldDevice { device: device.to_owned(), identity });
    }

    /// Makes a file system on a device that was not acquired.
    pub fn make(&mut self, file_system: &FileSystem, device: &Path) {
        self.hold(device);
        file_system.make(&mut self.session, device).expect("made");
        self.call(call::LetDeviceGo { device: device.to_owned() });
    }

    /// Mounts a device that was not acquired at the point.
    pub fn mount(&mut self, file_system: &FileSystem, device: &Path) {
        self.hold(device);
        let point = self.point.clone();
        file_system.mount(&mut self.session, device, &point).expect("mounted");
        self.call(call::LetDeviceGo { device: device.to_owned() });
    }

    /// Makes the mount point and leases the mount.
    pub fn lease_mount(&mut self) -> [LeaseId; 2] {
        let folder = self.journal.make(Lease::Directory { path: self.point.clone() });
        let folder = folder.expect("a lease").expect("a directory that is not there yet");
        self.call(call::MakeMountPoint { point: self.point.clone() });
        [folder, self.journal.take(Lease::Mount { point: self.point.clone() }).expect("a lease")]
    }

    /// Releases what [`Rig::lease_mount`] took.
    pub fn release_mount(&mut self, leases: [LeaseId; 2]) {
        for lease in leases.into_iter().rev() {
            fsage_lab::lease::release(&mut self.session, &mut self.journal, lease).expect("released");
        }
    }

    /// Nothing is leased but the agent, nothing mounted or attached below the store, no volume file left.
    pub fn assert_nothing_left(&self) {
        assert_eq!(self.journal.outstanding().len(), 1, "{:?}", self.journal.outstanding());
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("readable");
        let store = self.store.to_str().expect("plain path");
        assert!(!mounts.contains(store), "still mounted");
        assert_eq!(loops_below(&self.store), Vec::<PathBuf>::new());
        assert_eq!(std::fs::read_dir(&self.store).expect("readable").count(), 0);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if fsage_engine::host::mount::is_mount_point(&self.point) {
            let _ = fsage_sys::mount::unmount_lazily(&self.point);
        }
        for device in loops_below(&self.store) {
            let _ = loopdev::detach(&device);
        }
        // It names the agent still, and whatever a failed test had taken.
        let _ = std::fs::remove_file(self.journal.path());
    }
}

/// Loop devices whose backing file is below `folder`.
pub fn loops_below(folder: &Path) -> Vec<PathBuf> {
    let devices = std::fs::read_dir("/sys/block").expect("readable").flatten();
    let below = |name: &std::ffi::OsStr| {
        let path = Path::new("/sys/block").join(name).join("loop/backing_file");
        std::fs::read_to_string(path).is_ok_and(|file| Path::new(file.trim()).starts_with(folder))
    };
    devices
        .map(|entry| entry.file_name())
        .filter(|name| below(name))
        .map(|name| Path::new("/dev").join(name))
        .collect()
}

/// A loop volume of the usual kind.
pub fn loop_volume(mebibytes: u64) -> VolumeSpec {
    VolumeSpec::Loop {
        size: Bytes(mebibytes << 20),
        directory: None,
        direct_io: true,
        sector_bytes: 4096,
        scheduler: None,
        queue: QueueSpec::default(),
    }
}

/// Whether a program is there.
pub fn installed(program: &str) -> bool {
    fsage_engine::host::tool::look_up(program).is_some()
}

/// Runs a program that must succeed.
pub fn run(argv: &[&str]) -> String {
    let path = fsage_engine::host::tool::look_up(argv[0]).expect("installed");
    let output = Command::new(path).args(&argv[1..]).output().expect("started");
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop device that stands in for a disk, with a link that is a stable path. Detached when dropped.
pub struct Disk {
    pub file: PathBuf,
    pub device: PathBuf,
    pub link: PathBuf,
    pub size_bytes: u64,
}

impl Disk {
    pub fn new(folder: &Path, name: &str, mebibytes: u64) -> Self {
        let file = folder.join(name);
        std::fs::File::create(&file).expect("a file").set_len(mebibytes << 20).expect("its size");
        Self::over(file, false)
    }

    /// Over a file that is there; `scan` lets the kernel look for partitions.
    pub fn over(file: PathBuf, scan: bool) -> Self {
        let size_bytes = file.metadata().expect("the file").len();
        let device = if scan {
            PathBuf::from(run(&["losetup", "--find", "--show", "--partscan", file.to_str().expect("plain")]))
        } else {
            let options =
                AttachOptions { file: file.clone(), offset: 0, size: 0, sector_bytes: 512, direct_io: false };
            loopdev::attach(&options).expect("a loop device")
        };
        let links = Path::new("/dev/disk/by-id");
        std::fs::create_dir_all(links).expect("a folder of links");
        let number = device.file_name().expect("a name").to_string_lossy().into_owned();
        let link = links.join(format!("fsage-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&device, &link).expect("a link");
        Self { file, device, link, size_bytes }
    }

    /// What the file holds, in short.
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let mut file = std::fs::File::open(&self.file).expect("readable");
        std::io::copy(&mut file, &mut hasher).expect("read");
        hasher.finalize()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
        // By its file: the number may be another one's by now.
        let _ = loopdev::detach_file(&self.file);
    }
}
