//! What the agent does to devices and mounts, on real ones made for the test.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fsage_engine::host::held::{HeldDevices, await_free};
use fsage_engine::host::{HostError, block, cache, loopback, mount, setting, tool};
use fsage_engine::load::Control;
use fsage_engine::timed_write;
use fsage_model::protocol::{DeviceIdentity, Failure, FailureKind};
use fsage_model::timed_read::BlockRange;
use fsage_model::timed_write::{WriteRun, WriteSpec};

const SIZE: u64 = 48 << 20;
/// How long a device has to be quiet.
const QUIET: Duration = Duration::from_millis(50);

/// A loop device over a file of its own, released when it goes.
struct Disk {
    folder: tempfile::TempDir,
    device: PathBuf,
}

impl Disk {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("needs root");
            return None;
        }
        Some(Self::of(SIZE))
    }

    fn of(size: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = loopback::attach(&folder.path().join("disk"), Some(size), 512, false).unwrap();
        Self { folder, device }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn mount_ext4(&self) -> PathBuf {
        // No thread of the kernel writes to it afterwards.
        let at_once = "lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-E", at_once, "-L", "fsage", &self.device.display().to_string()]);
        let point = self.folder.path().join("mount point");
        mount::make_point(&point).unwrap();
        mount::mount(&self.device, &point, "ext4", &["noatime".to_owned()]).unwrap();
        point
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = mount::unmount(&self.folder.path().join("mount point"));
        let _ = loopback::detach(&self.file());
    }
}

fn run(program: &str, arguments: &[&str]) {
    let words: Vec<String> = [program].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    let output = tool::run(&tool::Children::default(), &words, None).unwrap();
    assert_eq!(output.status, 0, "{words:?}: {}", output.stderr);
}

#[test]
fn an_empty_disk_is_free_to_take() {
    let Some(disk) = Disk::new() else { return };
    let facts = block::facts(&disk.device).unwrap();
    assert_eq!((facts.size_bytes, facts.sector_bytes), (SIZE, 512));
    assert_eq!(facts.path, disk.device);
    assert_eq!(facts.backing_file, Some(disk.file()));
    assert!(facts.exclusive && !facts.swap);
    assert_eq!((facts.signature.as_str(), facts.mounted_at.len(), facts.holders.len()), ("", 0, 0));
    assert!(facts.schedulers.contains(&facts.scheduler), "{facts:?}");
    let link = disk.folder.path().join("by-id");
    std::os::unix::fs::symlink(&disk.device, &link).unwrap();
    assert_eq!(block::facts(&link).unwrap(), facts);
}

#[test]
fn a_mounted_disk_is_seen_as_such() {
    let Some(disk) = Disk::new() else { return };
    let point = disk.mount_ext4();
    let facts = block::facts(&disk.device).unwrap();
    assert_eq!(facts.mounted_at.as_slice(), std::slice::from_ref(&point));
    assert!(!facts.exclusive);
    assert_eq!((facts.signature.as_str(), facts.label.as_str()), ("ext4", "fsage"));
    let usage = cache::usage(&point).unwrap();
    assert_eq!(usage.file_system, "ext4");
    assert!(usage.total_bytes <= SIZE && usage.used_bytes < usage.total_bytes);
    cache::sync(&point).unwrap();
    assert!(cache::trim(&point).unwrap() > 0);
    mount::unmount(&point).unwrap();
    assert!(!mount::is_mount_point(&point));
    assert!(block::facts(&disk.device).unwrap().exclusive);
}

#[test]
fn a_btrfs_is_found_though_its_mount_has_another_number() {
    let Some(disk) = Disk::new() else { return };
    std::fs::File::options().write(true).open(disk.file()).unwrap().set_len(256 << 20).unwrap();
    loopback::detach(&disk.file()).unwrap();
    let device = loopback::attach(&disk.file(), None, 4096, false).unwrap();
    run("mkfs.btrfs", &["-q", &device.display().to_string()]);
    let point = disk.folder.path().join("mount point");
    mount::make_point(&point).unwrap();
    mount::mount(&device, &point, "btrfs", &[]).unwrap();
    let facts = block::facts(&device).unwrap();
    assert_eq!((facts.mounted_at.as_slice(), facts.signature.as_str()), ([point].as_slice(), "btrfs"));
}

#[test]
fn a_busy_mount_says_who_uses_it() {
    let Some(disk) = Disk::new() else { return };
    let point = disk.mount_ext4();
    let mut user =
        Command::new("sleep").arg("600").current_dir(&point).stdout(Stdio::null()).spawn().unwrap();
    let error = mount::unmount(&point).unwrap_err();
    let expected = format!("used by {} (sleep)", user.id());
    assert!(matches!(&error, HostError::Busy { users, .. } if *users == expected), "{error}");
    user.kill().unwrap();
    user.wait().unwrap();
    mount::unmount(&point).unwrap();
}

#[test]
fn a_file_system_that_the_kernel_lacks_is_missing_not_failed() {
    let Some(disk) = Disk::new() else { return };
    let point = disk.folder.path().join("mount point");
    mount::make_point(&point).unwrap();
    let error = mount::mount(&disk.device, &point, "no-such-fs", &[]).unwrap_err();
    assert_eq!(Failure::from(error).kind, FailureKind::Missing);
    let error = mount::mount(&disk.device, &point, "ext4", &[]).unwrap_err();
    let failure = Failure::from(error);
    assert_eq!((failure.kind, failure.errno), (FailureKind::Failed, Some(22)), "{failure:?}");
}

#[test]
fn stacked_mounts_all_go() {
    let Some(disk) = Disk::new() else { return };
    let point = disk.mount_ext4();
    mount::mount(Path::new("tmpfs"), &point, "tmpfs", &["size=1m".to_owned()]).unwrap();
    assert_eq!(cache::usage(&point).unwrap().file_system, "tmpfs");
    mount::unmount(&point).unwrap();
    assert!(!mount::is_mount_point(&point));
}

#[test]
fn a_device_goes_though_its_file_was_removed() {
    let Some(disk) = Disk::new() else { return };
    std::fs::remove_file(disk.file()).unwrap();
    loopback::detach(&disk.file()).unwrap();
    let name = disk.device.file_name().unwrap();
    let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
    let now = std::fs::read_to_string(backing).unwrap_or_default();
    assert!(!now.contains(&disk.file().display().to_string()), "{now}");
}

#[test]
fn a_setting_changed_by_someone_else_stays() {
    let Some(disk) = Disk::new() else { return };
    let name = disk.device.file_name().unwrap().to_string_lossy();
    let path = PathBuf::from(format!("/sys/block/{name}/queue/read_ahead_kb"));
    let now = || std::fs::read_to_string(&path).unwrap().trim().to_owned();
    let old = setting::set(&path, "16").unwrap();
    assert_eq!(now(), "16");
    std::fs::write(&path, "32").unwrap();
    setting::restore(&path, &old, "16").unwrap();
    assert_eq!(now(), "32");
    setting::restore(&path, &old, "32").unwrap();
    assert_eq!(now(), old);
}

/// Mounts afresh until no other namespace keeps what was mounted. Tests beside this one have namespaces for a moment, with copies of all mounts.
fn comes_cold(held: &HeldDevices, point: &Path) -> bool {
    (0..40).any(|_| {
        let is_cold = held.mount_afresh(point).unwrap();
        if !is_cold {
            std::thread::sleep(Duration::from_millis(250));
        }
        is_cold
    })
}

#[test]
fn a_volume_that_cannot_be_mounted_again_leads_nowhere_and_says_so() {
    use std::os::unix::fs::PermissionsExt as _;

    let Some(disk) = Disk::new() else { return };
    run("mkfs.ext4", &["-q", &disk.device.display().to_string()]);
    let point = disk.folder.path().join("mount point");
    mount::make_point(&point).unwrap();
    let held = HeldDevices::default();
    let identity = block::facts(&disk.device).unwrap().identity;
    held.hold(&disk.device, &identity).unwrap();
    held.mount(&disk.device, &point, "ext4", &[], true).unwrap();
    std::fs::write(point.join("kept"), "kept").unwrap();
    let root = std::fs::File::open(&point).unwrap();
    let below = |name: &str| {
        let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        rustix::fs::openat(&root, name, flags, rustix::fs::Mode::RWXU)
    };
    assert!(comes_cold(&held, &point));
    below("after").unwrap();
    // Others may enter the folder of the mount point by now: nothing is mounted there any more.
    std::fs::set_permissions(disk.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = held.mount_afresh(&point).unwrap_err();
    assert!(matches!(&error, HostError::Unmounted { .. }), "{error}");
    assert!(error.to_string().contains("cannot be mounted at"), "{error}");
    for words in [disk.device.to_str().unwrap(), "mount it there again", "chmod 700"] {
        assert!(error.hint().contains(words), "{}", error.hint());
    }
    assert!(!mount::is_mount_point(&point));
    // What was open leads to nothing, above all not to the host's folder below the mount.
    assert_eq!(below("stray").unwrap_err(), rustix::io::Errno::NOTDIR);
    assert_eq!(std::fs::read_dir(&point).unwrap().count(), 0);
    // Nothing was lost.
    std::fs::set_permissions(disk.folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    held.mount(&disk.device, &point, "ext4", &[], false).unwrap();
    assert_eq!(std::fs::read_to_string(point.join("kept")).unwrap(), "kept");
    assert!(point.join("after").exists() && !point.join("stray").exists());
}

/// A process in a mount namespace of its own has copies of all mounts, also of those that are unmounted here.
#[test]
fn a_volume_that_another_namespace_keeps_mounted_is_mounted_again_and_not_called_cold() {
    if !rustix::process::geteuid().is_root() {
        skip::skip("needs root");
        return;
    }
    for kind in ["ext4", "xfs", "btrfs"] {
        let disk = Disk::of(320 << 20);
        run(&format!("mkfs.{kind}"), &["-q", &disk.device.display().to_string()]);
        let point = disk.folder.path().join("mount point");
        mount::make_point(&point).unwrap();
        let held = HeldDevices::default();
        held.hold(&disk.device, &block::facts(&disk.device).unwrap().identity).unwrap();
        held.mount(&disk.device, &point, kind, &[], true).unwrap();
        std::fs::write(point.join("kept"), "kept").unwrap();
        assert!(comes_cold(&held, &point), "{kind}");
        let mut other = Command::new("unshare");
        other.args(["--mount", "--propagation", "private", "sh", "-c", "echo there; exec cat"]);
        // It ends with this test at the latest.
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        assert!(!held.mount_afresh(&point).unwrap(), "{kind}");
        assert_eq!(std::fs::read_to_string(point.join("kept")).unwrap(), "kept");
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(comes_cold(&held, &point), "{kind}");
        held.unmount(&point).unwrap();
    }
}

/// The next mount of the device would get the file system that the other namespace keeps, whatever the device has by then.
#[test]
fn a_device_that_a_sandbox_keeps_mounted_is_not_free() {
    let Some(disk) = Disk::new() else { return };
    let point = disk.mount_ext4();
    // Mounts of other tests are let go at once.
    let script = r#"while read device point rest; do
            case $device in "$0") ;; /dev/loop*) umount -l "$(printf %b "$point")" ;; esac
        done < /proc/mounts; echo there; exec cat"#;
    let mut other = Command::new("unshare");
    other.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&disk.device);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    mount::unmount(&point).unwrap();
    let kept = await_free(&disk.device);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(matches!(kept, Err(HostError::Kept { .. })), "{kept:?}");
    await_free(&disk.device).unwrap();
}

#[test]
fn a_file_is_made_in_steps_where_the_host_cannot_allocate() {
    const HOST: u64 = 256 << 20;
    if !rustix::process::geteuid().is_root() {
        skip::skip("needs root");
        return;
    }
    let disk = Disk::of(HOST);
    // ext2 has no extents, and so no `fallocate`.
    run("mke2fs", &["-q", "-t", "ext2", &disk.device.display().to_string()]);
    let point = disk.folder.path().join("mount point");
    mount::make_point(&point).unwrap();
    mount::mount(&disk.device, &point, "ext2", &[]).unwrap();
    let volume = point.join("volume");
    let size = 160 << 20;
    let stopped =
        loopback::attach_held(&volume, Some(size), 512, false, None, &mut |_, _| false).unwrap_err();
    assert!(matches!(&stopped, HostError::Stopped { .. }), "{stopped}");
    assert!(loopback_devices(&volume).is_empty());
    let mut told = Vec::new();
    let made = loopback::attach_held(&volume, Some(size), 512, false, None, &mut |done, of| {
        told.push((done, of));
        true
    });
    drop(made.unwrap());
    loopback::detach(&volume).unwrap();
    assert_eq!(told, [(64 << 20, size), (128 << 20, size)]);
    assert!(std::os::unix::fs::MetadataExt::blocks(&volume.metadata().unwrap()) * 512 >= size);
}

/// Loop devices over a file.
fn loopback_devices(file: &Path) -> Vec<PathBuf> {
    fsage_sys::loopdev::by_backing_file(file).unwrap()
}

#[test]
fn a_device_at_rest_has_what_was_written_to_it() {
    let Some(disk) = Disk::new() else { return };
    let written = || {
        let counts = fsage_engine::device::Device::of_node(&disk.device).unwrap().counts().unwrap();
        (counts.written_bytes, counts.flushes)
    };
    // Through the device's own page cache, kept open: the last close of a device writes it back.
    let opened = std::fs::File::options().write(true).open(&disk.device).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&opened, &[7; 1 << 20], 8 << 20).unwrap();
    let before = written();
    let settled = fsage_engine::settle::settle(&disk.device, None, QUIET).unwrap();
    let after = written();
    assert!(after.0 >= before.0 + (1 << 20), "{before:?} {after:?}");
    assert!(after.1 > before.1, "its cache was not flushed: {before:?} {after:?}");
    assert!(settled.quiet && settled.elapsed_ns >= 50_000_000, "{settled:?}");
    drop(opened);
    let point = disk.mount_ext4();
    std::fs::write(point.join("file"), [7; 1 << 20]).unwrap();
    let before = written();
    let settled = fsage_engine::settle::settle(&disk.device, Some(&point), QUIET).unwrap();
    let after = written();
    assert!(after.0 >= before.0 + (1 << 20) && settled.sync_ns > 0, "{before:?} {after:?} {settled:?}");
    // Nothing is left to write.
    assert!(fsage_engine::settle::settle(&disk.device, Some(&point), QUIET).unwrap().quiet);
    assert!(written().0 <= after.0 + (64 << 10), "{after:?} {:?}", written());
}

#[test]
fn writes_are_timed_on_a_held_device_that_nobody_uses() {
    let Some(disk) = Disk::new() else { return };
    let point = disk.mount_ext4();
    let held = HeldDevices::default();
    let spec = WriteSpec {
        runs: vec![WriteRun { rest_ns: 1_000_000, writes: vec![BlockRange::new(8 << 20, 65536); 3] }],
        seed: 1,
        clear_ends: true,
    };
    let time = |held: &HeldDevices| {
        held.used::<_, HostError>(&disk.device, |identity| {
            timed_write::time(&disk.device, identity, &spec, &Control::new(), &mut |_, _| {})
        })
    };
    let bytes = || std::fs::read(disk.file()).unwrap();
    assert!(matches!(time(&held), Err(HostError::NotHeld { .. })));
    let identity = block::facts(&disk.device).unwrap().identity;
    held.hold(&disk.device, &identity).unwrap();
    assert!(matches!(time(&held), Err(HostError::Claimed { .. })), "it is mounted");
    mount::unmount(&point).unwrap();
    let before = bytes();
    let other = DeviceIdentity { size_bytes: identity.size_bytes + 1, ..identity };
    let control = Control::new();
    let replaced = timed_write::time(&disk.device, &other, &spec, &control, &mut |_, _| {});
    assert!(matches!(replaced, Err(HostError::Replaced { .. })), "{replaced:?}");
    assert!(bytes() == before, "nothing was written so far");
    let times = time(&held).unwrap();
    assert_eq!((times.written_bytes, times.runs.len()), (3 * 65536, 1));
    let run = &times.runs[0];
    assert!(
        run.times.asked_ns.windows(2).all(|pair| pair[0] < pair[1]) && run.times.asked_ns[0] >= 1_000_000
    );
    assert!(run.flushed_ns >= *run.times.answered_ns.last().unwrap());
    let after = bytes();
    let zeros = |range: std::ops::Range<usize>| after[range].iter().all(|byte| *byte == 0);
    assert!(zeros(0..4 << 20) && zeros(after.len() - (1 << 20)..after.len()), "both ends are cleared");
    let place = 8 << 20..(8 << 20) + 65536;
    let written = &after[place.clone()];
    assert!(written != &before[place] && written[..4096] != written[4096..8192]);
    assert_eq!(block::facts(&disk.device).unwrap().signature, "");
    // A later request does not clear its ends again, and refuses it if they are not clear.
    let later = WriteSpec { clear_ends: false, ..spec.clone() };
    let time_later = || {
        held.used::<_, HostError>(&disk.device, |identity| {
            timed_write::time(&disk.device, identity, &later, &Control::new(), &mut |_, _| {})
        })
    };
    assert!(time_later().is_ok());
    let device = std::fs::File::options().write(true).open(&disk.device).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&device, b"somebody's", 1080).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let refused = time_later();
    assert!(matches!(refused, Err(HostError::Replaced { .. })), "{refused:?}");
    // An end that is asked before is one before anything is written.
    let (stopped, before) = (Control::new(), bytes());
    stopped.stop();
    let ended = held.used::<_, HostError>(&disk.device, |identity| {
        timed_write::time(&disk.device, identity, &spec, &stopped, &mut |_, _| {})
    });
    assert!(matches!(ended, Err(HostError::Ended { .. })) && bytes() == before, "{ended:?}");
    held.let_go(&disk.device);
}
