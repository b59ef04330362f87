//! Devices that are not what their name says, or that become another's: nothing of the other may change.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod volume_rig;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsage_lab::lease::record::Lease;
use fsage_lab::target::TargetError;
use fsage_model::protocol::{Call, call};
use volume_rig::{Disk, Rig, installed, run, skip};

const UUID: &str = "0123abcd-1111-4222-8333-0123456789ab";

/// The exit code of a run whose trial failed.
const REFUSED: i32 = 4;

/// A folder, or `None` and a word why there is none.
fn folder() -> Option<tempfile::TempDir> {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("needs root");
    }
    root.then(|| tempfile::tempdir().unwrap())
}

/// What fsage does with a runtime folder of its own below `folder`.
fn fsage(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fsage"))
        .args(words)
        .current_dir(folder)
        .env("FSAGE_RUNTIME_DIR", folder.join("runtime"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Somebody's ext4 with a file in it on the device.
fn precious(device: &Path) {
    let device = device.to_str().unwrap();
    run(&["mkfs.ext4", "-q", "-F", "-L", "precious", "-U", UUID, device]);
}

/// Runs a study on `path`, allowing `erase`.
fn study(folder: &Path, path: &Path, erase: &str) -> Output {
    let text = include_str!("data/tiny.toml");
    let (head, rest) = text.split_once("[volume]").unwrap();
    let (rest, _) = rest.split_once("\n[").unwrap().1.split_once("[matrix]").unwrap();
    let text = format!("{head}[volume]\nkind = \"device\"\npath = \"{}\"\n[{rest}", path.display());
    std::fs::write(folder.join("study.toml"), text).unwrap();
    // Another device is another study.
    let store = format!("store-{}", path.file_name().unwrap().display());
    fsage(folder, &["run", "study.toml", "--store", &store, "--erase", erase])
}

#[test]
fn a_size_does_not_identify_a_device() {
    let Some(folder) = folder() else { return };
    let disk = Disk::new(folder.path(), "disk", 320);
    precious(&disk.device);
    let before = disk.digest();
    for path in [&disk.device, &disk.link] {
        let output = study(folder.path(), path, &format!("{}={}", path.display(), disk.size_bytes));
        assert_eq!(disk.digest(), before, "it was written to: {}", said(&output));
        assert_eq!(output.status.code(), Some(REFUSED), "{}", said(&output));
        assert!(said(&output).contains(&format!("`--erase {}={UUID}`", path.display())), "{}", said(&output));
    }
    // Nor does it identify one that is empty.
    run(&["wipefs", "-q", "-a", disk.device.to_str().unwrap()]);
    let before = disk.digest();
    let output =
        study(folder.path(), &disk.device, &format!("{}={}", disk.device.display(), disk.size_bytes));
    assert!(output.status.code() == Some(REFUSED) && disk.digest() == before, "{}", said(&output));
}

#[test]
fn the_uuid_of_what_will_be_lost_allows_its_loss_and_another_does_not() {
    let Some(folder) = folder() else { return };
    let disk = Disk::new(folder.path(), "disk", 320);
    precious(&disk.device);
    let before = disk.digest();
    let other = UUID.replace("0123", "9999");
    for wrong in [other.as_str(), "", "0123abcd", "precious", "ext4", "0"] {
        let output = study(folder.path(), &disk.device, &format!("{}={wrong}", disk.device.display()));
        assert!(
            output.status.code() == Some(REFUSED) && disk.digest() == before,
            "{wrong}: {}",
            said(&output)
        );
    }
    let output = study(folder.path(), &disk.device, &format!("{}={UUID}", disk.device.display()));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_ne!(disk.digest(), before);
}

/// One Linux partition of 300 MiB from 1 MiB on, and `signature` as the identifier of the disk.
fn write_mbr(file: &Path, signature: u32) {
    let mut sector = [0_u8; 512];
    sector[440..444].copy_from_slice(&signature.to_le_bytes());
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&(300_u32 << 11).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(&sector, 0).unwrap();
}

/// The superblock of a file system stays where it was when the disk is divided afterwards: its UUID and its label say
/// nothing about the partitions.
#[test]
fn the_label_of_a_file_system_does_not_allow_the_loss_of_a_table_made_over_it() {
    let Some(folder) = folder() else { return };
    let disk = Disk::new(folder.path(), "disk", 320);
    run(&["mkfs.ext4", "-q", "-F", "-L", "fsage", "-U", UUID, disk.device.to_str().unwrap()]);
    write_mbr(&disk.device, 0x1234_5678);
    let before = disk.digest();
    for (path, erase) in [
        (&disk.device, format!("{}={UUID}", disk.device.display())),
        (&disk.device, disk.device.display().to_string()),
        (&disk.link, disk.link.display().to_string()),
    ] {
        let output = study(folder.path(), path, &erase);
        assert_eq!(disk.digest(), before, "{erase}: it was written to: {}", said(&output));
        assert_eq!(output.status.code(), Some(REFUSED), "{erase}: {}", said(&output));
    }
    let output = study(folder.path(), &disk.link, &disk.link.display().to_string());
    assert!(said(&output).contains("ext4 labelled `fsage`, and a table of 1 partition"), "{}", said(&output));
}

#[test]
fn a_partition_is_identified_by_itself_and_not_by_its_disk() {
    let Some(folder) = folder() else { return };
    if !installed("losetup") || !installed("addpart") {
        skip("needs losetup and addpart (util-linux)");
        return;
    }
    let file = folder.path().join("partitioned");
    std::fs::File::create(&file).unwrap().set_len(320 << 20).unwrap();
    write_mbr(&file, 0x1bad_cafe);
    let disk = Disk::over(file, true);
    let partition = PathBuf::from(format!("{}p1", disk.device.display()));
    if !partition.exists() {
        // Not every kernel reads partition tables by itself.
        run(&["addpart", disk.device.to_str().unwrap(), "1", "2048", &(300 << 11).to_string()]);
    }
    precious(&partition);
    let before = disk.digest();
    let facts = fsage_engine::host::block::facts(&partition).unwrap();
    assert_eq!(facts.serial, "", "a partition has no serial number");
    for wrong in [(300_u64 << 20).to_string(), disk.size_bytes.to_string(), "1badcafe".to_owned()] {
        let output = study(folder.path(), &partition, &format!("{}={wrong}", partition.display()));
        assert!(
            output.status.code() == Some(REFUSED) && disk.digest() == before,
            "{wrong}: {}",
            said(&output)
        );
        assert!(said(&output).contains(UUID), "{}", said(&output));
    }
    let output = study(folder.path(), &partition, &format!("{}={UUID}", partition.display()));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// A file of somebody else, for a loop device.
fn foreign_file(folder: &Path) -> PathBuf {
    let file = folder.join("foreign");
    std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    run(&["mkfs.ext4", "-q", "-F", "-L", "precious", file.to_str().unwrap()]);
    file
}

fn digest(file: &Path) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut std::fs::File::open(file).unwrap(), &mut hasher).unwrap();
    hasher.finalize()
}

/// The foreign file on a loop device of this very number; gone when dropped. `None`: the kernel does not give
/// it.
struct Foreign {
    device: PathBuf,
    file: PathBuf,
    before: blake3::Hash,
}

impl Foreign {
    fn on(device: &Path, file: &Path) -> Option<Self> {
        let attach = Command::new("losetup").args([device, file]).output().unwrap();
        let foreign = Self { device: device.to_owned(), file: file.to_owned(), before: digest(file) };
        attach.status.success().then_some(foreign)
    }

    fn is_attached(&self) -> bool {
        fsage_sys::loopdev::by_backing_file(&self.file).unwrap() == std::slice::from_ref(&self.device)
    }

    fn assert_unchanged(&self, said: &str) {
        run(&["sync", self.device.to_str().unwrap()]);
        assert_eq!(digest(&self.file), self.before, "a foreign file was written to: {said}");
        assert!(self.is_attached(), "a foreign loop device was detached: {said}");
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = fsage_engine::host::loopback::detach(&self.file);
    }
}

/// Takes a number behind its owner's back and gives it to another file.
fn reused(device: &Path, file: &Path) -> Option<Foreign> {
    run(&["losetup", "-d", device.to_str().unwrap()]);
    Foreign::on(device, file)
}

#[test]
fn a_replay_does_not_write_to_a_file_that_got_the_disks_number() {
    let Some(folder) = folder() else { return };
    if !Path::new("/dev/fuse").exists() {
        skip("virtual disks need /dev/fuse");
        return;
    }
    let output = fsage(folder.path(), &["disk", "up", "d", "--size", "64MiB", "--log", "--json"]);
    let record: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let device = PathBuf::from(record["device"].as_str().unwrap());
    let of = format!("of={}", device.display());
    run(&["dd", "if=/dev/zero", &of, "bs=64k", "count=16", "oflag=direct", "status=none"]);
    let saved = fsage(folder.path(), &["disk", "log", "save", "d", "log", "--without-data"]);
    let file = foreign_file(folder.path());
    let foreign = reused(&device, &file);
    let replay = fsage(folder.path(), &["disk", "replay", "log", "--onto", "d"]);
    let down = fsage(folder.path(), &["disk", "down", "d"]);
    assert!(saved.status.success() && down.status.success(), "{}{}", said(&saved), said(&down));
    let Some(foreign) = foreign else {
        skip("the number was taken by another");
        return;
    };
    foreign.assert_unchanged(&said(&replay));
    assert_eq!(replay.status.code(), Some(4), "{}", said(&replay));
    assert!(said(&replay).contains("the disk `d` has lost its device"), "{}", said(&replay));
    assert!(said(&replay).contains("was behind it, and now inode"), "{}", said(&replay));
}

/// A file that the agent attached. Detached when it goes, or when the agent does.
struct Ours {
    file: PathBuf,
    device: PathBuf,
}

impl Ours {
    fn attached(rig: &mut Rig) -> Self {
        let file = rig.store.parent().unwrap().join("ours");
        let (size_bytes, sector_bytes) = (Some(64 << 20), 512);
        let attach =
            call::LoopAttach { file: file.clone(), size_bytes, sector_bytes, direct_io: false, part: None };
        let device = rig.call(attach);
        Self { file, device }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = fsage_sys::loopdev::detach_file(&self.file);
        let _ = fsage_sys::loopdev::detach_file(&self.file.with_extension("moved"));
    }
}

/// Unmounts all that is mounted there when it goes.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = fsage_engine::host::mount::unmount(&self.0);
    }
}

fn mkfs(device: &Path) -> call::RunTool {
    let argv = ["mkfs.ext4", "-q", "-F", "-L", "ours", device.to_str().unwrap()].map(str::to_owned).to_vec();
    call::RunTool { argv, timeout_ms: 60_000 }
}

fn refusal<C: Call>(rig: &mut Rig, call: C) -> String {
    match rig.session.call(call) {
        Err(TargetError::Failed { failure, .. }) => failure.message,
        Err(other) => panic!("not refused: {other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn the_number_of_a_device_in_use_does_not_become_anothers() {
    let Some(mut rig) = Rig::new() else { return };
    let folder = rig.store.parent().unwrap().to_owned();
    let Ours { file: ours, device } = &Ours::attached(&mut rig);
    let theirs = foreign_file(&folder);
    let before = digest(&theirs);
    let foreign = reused(device, &theirs);
    rig.call(mkfs(device));
    assert_eq!(digest(&theirs), before, "a foreign file was written to");
    assert!(foreign.is_none(), "the number is still ours");
    let found = fsage_engine::host::signature::of_file(&std::fs::File::open(ours).unwrap(), 64 << 20);
    assert_eq!((found.name.as_str(), found.label.as_str()), ("ext4", "ours"));
    rig.call(call::LoopDetach { file: ours.clone(), backing: None, offset_bytes: None });
    assert!(fsage_sys::loopdev::by_backing_file(ours).unwrap().is_empty());
    // Free now: for anyone.
    drop(Foreign::on(device, &theirs));
}

#[test]
fn what_was_not_taken_or_is_another_by_now_is_not_touched() {
    let Some(mut rig) = Rig::new() else { return };
    let folder = rig.store.parent().unwrap().to_owned();
    let disk = Disk::new(&folder, "disk", 64);
    let identity = fsage_engine::host::block::facts(&disk.device).unwrap().identity;
    let file = foreign_file(&folder);
    let Some(foreign) = reused(&disk.device, &file) else {
        skip("the number was taken by another");
        return;
    };
    let device = disk.device.clone();
    let hold = refusal(&mut rig, call::HoldDevice { device: device.clone(), identity });
    assert!(hold.contains("has changed") && hold.contains("was behind it"), "{hold}");
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    let point = folder.join("point");
    std::fs::create_dir(&point).unwrap();
    let _unmounted = Unmounted(point.clone());
    let setting = PathBuf::from(format!("/sys/block/{name}/queue/read_ahead_kb"));
    let (file_system, options) = ("ext4".to_owned(), Vec::new());
    let mount =
        call::Mount { device: device.clone(), point: point.clone(), file_system, options, afresh: false };
    let restore = call::ImageRestore { file: file.clone(), device: device.clone(), trim: true, threads: 1 };
    for said in [
        refusal(&mut rig, mkfs(&device)),
        refusal(&mut rig, mount),
        refusal(&mut rig, call::Set { path: setting, value: "64".to_owned() }),
        refusal(&mut rig, restore),
    ] {
        assert!(said.contains("is not held for this"), "{said}");
        foreign.assert_unchanged(&said);
    }
    assert!(!fsage_engine::host::mount::is_mount_point(&point));
}

#[test]
fn a_file_that_got_the_name_of_ours_keeps_its_device() {
    let Some(mut rig) = Rig::new() else { return };
    let Ours { file: ours, device } = &Ours::attached(&mut rig);
    std::fs::rename(ours, ours.with_extension("moved")).unwrap();
    std::fs::File::create(ours).unwrap().set_len(1 << 20).unwrap();
    let theirs = PathBuf::from(run(&["losetup", "--find", "--show", ours.to_str().unwrap()]));
    let foreign = Foreign { device: theirs, file: ours.clone(), before: digest(ours) };
    rig.call(call::LoopDetach { file: ours.clone(), backing: None, offset_bytes: None });
    foreign.assert_unchanged("detached by name");
    let left = fsage_sys::loopdev::by_backing_file(&ours.with_extension("moved")).unwrap();
    assert!(!left.contains(device), "ours is still attached");
}

#[test]
fn the_lease_of_a_device_does_not_detach_who_has_its_number_now() {
    let Some(mut rig) = Rig::new() else { return };
    let folder = rig.store.parent().unwrap().to_owned();
    let theirs = foreign_file(&folder);
    let lease = rig
        .journal
        .take(Lease::Loop { file: folder.join("ours"), backing: None, offset_bytes: None })
        .unwrap();
    let Ours { device, .. } = &Ours::attached(&mut rig);
    // Its agent dies, and with it the descriptor that kept the number.
    let pid = rig.session.identity().pid.to_string();
    run(&["kill", "-9", &pid]);
    let _ = rig.session.call(call::DropCaches).expect_err("killed");
    rig.session = fsage_lab::target::Target::local().expect("another agent");
    let Some(foreign) = reused(device, &theirs) else {
        skip("the number was taken by another");
        return;
    };
    let summary = fsage_lab::lease::clean(&mut rig.session, &mut rig.journal).unwrap();
    assert!(summary.failed.is_empty(), "{summary:?}");
    foreign.assert_unchanged("by clean");
    rig.journal.release(lease).unwrap();
}

#[test]
fn a_file_that_has_the_name_of_a_dead_runs_volume_keeps_its_device() {
    let Some(mut rig) = Rig::new() else { return };
    let Ours { file: ours, device } = &Ours::attached(&mut rig);
    let _lease = rig.journal.take(Lease::loop_over(ours)).unwrap();
    run(&["kill", "-9", &rig.session.identity().pid.to_string()]);
    let _ = rig.session.call(call::DropCaches).expect_err("killed");
    rig.session = fsage_lab::target::Target::local().expect("another agent");
    std::fs::remove_file(ours).unwrap();
    std::fs::File::create(ours).unwrap().set_len(1 << 20).unwrap();
    let theirs = PathBuf::from(run(&["losetup", "--find", "--show", ours.to_str().unwrap()]));
    let foreign = Foreign { device: theirs, file: ours.clone(), before: digest(ours) };
    let summary = fsage_lab::lease::clean(&mut rig.session, &mut rig.journal).unwrap();
    foreign.assert_unchanged("by clean");
    assert!(summary.failed.is_empty(), "{summary:?}");
    let why = format!("{:?}", summary.left);
    assert!(why.contains("another name or is another file"), "{why}");
    let name = device.file_name().unwrap().to_str().unwrap();
    // Another test may have the number by now.
    let behind = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
    assert!(!behind.starts_with(ours.to_str().unwrap()), "ours is still attached: {behind}");
}

#[test]
fn what_others_mounted_over_ours_stays() {
    let Some(mut rig) = Rig::new() else { return };
    let Ours { file: ours, device } = &Ours::attached(&mut rig);
    let _unmounted = Unmounted(rig.point.clone());
    rig.call(mkfs(device));
    let leases = rig.lease_mount();
    let (point, file_system) = (rig.point.clone(), "ext4".to_owned());
    let device = device.clone();
    rig.call(call::Mount { device, point: point.clone(), file_system, options: Vec::new(), afresh: false });
    run(&["mount", "-t", "tmpfs", "-o", "size=1m", "theirs", point.to_str().unwrap()]);
    std::fs::write(point.join("precious"), "precious").unwrap();
    let said = refusal(&mut rig, call::Unmount { point: point.clone() });
    assert_eq!(std::fs::read_to_string(point.join("precious")).unwrap(), "precious", "{said}");
    assert!(said.contains("has changed") && said.contains("theirs, tmpfs"), "{said}");
    run(&["umount", point.to_str().unwrap()]);
    rig.release_mount(leases);
    rig.call(call::LoopDetach { file: ours.clone(), backing: None, offset_bytes: None });
    rig.assert_nothing_left();
}
