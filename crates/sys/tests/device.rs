//! Loop devices, block devices and mounts for real: needs root.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic")]

#[path = "support/skip.rs"]
mod skip;

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use fsage_sys::{block, fitrim, loopdev, mount, syncfs};

const SIZE: u64 = 64 << 20;

struct Loop {
    device: PathBuf,
    file: PathBuf,
    folder: tempfile::TempDir,
}

impl Loop {
    fn new(size: u64, sector_bytes: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("loop devices need root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Longer than what the kernel keeps of the name.
        let file = folder.path().join(format!("volume-{}", "x".repeat(80)));
        File::create(&file).unwrap().set_len(SIZE).unwrap();
        let options =
            loopdev::AttachOptions { file: file.clone(), offset: 0, size, sector_bytes, direct_io: true };
        let device = loopdev::attach(&options).unwrap();
        Some(Self { device, file, folder })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Only what is still ours: once detached, the device may be someone else's.
        for device in loopdev::by_backing_file(&self.file).unwrap_or_default() {
            drop(loopdev::detach(&device));
        }
    }
}

#[test]
fn a_loop_device_has_the_size_and_sectors_asked_for_and_is_found_by_its_file() {
    for (size, sector_bytes, expected) in [(0, 4096, SIZE), (SIZE / 2, 512, SIZE / 2)] {
        let Some(attached) = Loop::new(size, sector_bytes) else { return };
        let device = File::open(&attached.device).unwrap();
        assert_eq!(block::size_bytes(device.as_fd()).unwrap(), expected);
        assert_eq!(block::sector_bytes(device.as_fd()).unwrap(), sector_bytes);
        assert!(block::physical_sector_bytes(device.as_fd()).unwrap() >= sector_bytes);
        block::flush_buffers(device.as_fd()).unwrap();
        let name = attached.device.file_name().unwrap().to_str().unwrap();
        let direct = fs::read_to_string(format!("/sys/block/{name}/loop/dio")).unwrap();
        assert_eq!(direct.trim(), "1");
        // By identity: under another name too.
        let other_name = attached.folder.path().join("other name");
        fs::hard_link(&attached.file, &other_name).unwrap();
        assert_eq!(loopdev::by_backing_file(&other_name).unwrap(), std::slice::from_ref(&attached.device));
        let (file, device_path) = (attached.file.clone(), attached.device.clone());
        drop(device);
        loopdev::detach(&device_path).unwrap();
        assert_eq!(loopdev::by_backing_file(&file).unwrap(), [] as [PathBuf; 0]);
    }
    let missing = loopdev::by_backing_file("/nonexistent/file".as_ref()).unwrap();
    assert!(missing.is_empty());
}

#[test]
fn a_link_is_not_attached_but_the_file_that_is_open_is() {
    let Some(attached) = Loop::new(0, 512) else { return };
    let (file, link) = (attached.folder.path().join("file"), attached.folder.path().join("link"));
    let made = File::options().read(true).write(true).create_new(true).open(&file).unwrap();
    made.set_len(SIZE).unwrap();
    std::os::unix::fs::symlink(&attached.file, &link).unwrap();
    let options =
        loopdev::AttachOptions { file: link.clone(), offset: 0, size: 0, sector_bytes: 512, direct_io: true };
    assert_eq!(loopdev::attach(&options).unwrap_err().errno(), libc::ELOOP);
    // Something else takes the name: what was opened is attached all the same.
    fs::rename(&link, &file).unwrap();
    let options = loopdev::AttachOptions { file: file.clone(), ..options };
    let (device, open) = loopdev::attach_open(made.as_fd(), &options).unwrap();
    let is = made.metadata().unwrap();
    assert_eq!(loopdev::backing_of(open.as_fd()).unwrap(), Some((is.dev(), is.ino())));
    loopdev::detach_open(open, &device).unwrap();
}

#[test]
fn many_threads_get_different_devices() {
    if !rustix::process::geteuid().is_root() {
        skip::skip("loop devices need root");
        return;
    }
    let devices: Vec<PathBuf> = std::thread::scope(|scope| {
        let start = || Loop::new(0, 4096).unwrap();
        let handles: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
        let attached: Vec<Loop> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        for one in &attached {
            assert_eq!(loopdev::by_backing_file(&one.file).unwrap(), std::slice::from_ref(&one.device));
        }
        attached.iter().map(|one| one.device.clone()).collect()
    });
    let different: std::collections::BTreeSet<_> = devices.iter().collect();
    assert_eq!(different.len(), devices.len());
}

#[test]
fn a_mounted_device_cannot_be_opened_exclusively() {
    let Some(attached) = Loop::new(0, 4096) else { return };
    let made =
        Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096"]).arg(&attached.device).status().unwrap();
    assert!(made.success());
    drop(block::open_exclusive(&attached.device).unwrap());
    let point = attached.folder.path().join("mount");
    fs::create_dir(&point).unwrap();
    mount::mount(&attached.device, &point, "ext4", &["noatime".into(), "commit=7".into()]).unwrap();
    let busy = block::open_exclusive(&attached.device).unwrap_err();
    fs::write(point.join("file"), "content").unwrap();
    let directory = File::open(&point).unwrap();
    syncfs(directory.as_fd()).unwrap();
    let trimmed = fitrim::trim(directory.as_fd()).unwrap();
    let in_use = mount::unmount(&point).unwrap_err();
    drop(directory);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(point.to_str().unwrap())).unwrap().to_owned();
    mount::unmount(&point).unwrap();
    assert_eq!(fsage_sys::errno::name(busy.errno()), "EBUSY");
    assert_eq!(fsage_sys::errno::name(in_use.errno()), "EBUSY");
    assert!(trimmed > SIZE / 2, "{trimmed}");
    assert!(line.contains("noatime") && line.contains("commit=7"), "{line}");
    assert_eq!(fsage_sys::errno::name(mount::unmount(&point).unwrap_err().errno()), "EINVAL");
}

#[test]
fn files_are_no_block_devices() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(fsage_sys::errno::name(block::open_exclusive(file.path()).unwrap_err().errno()), "ENOTBLK");
    assert_eq!(
        fsage_sys::errno::name(block::size_bytes(file.as_file().as_fd()).unwrap_err().errno()),
        "ENOTTY"
    );
}
