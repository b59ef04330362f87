//! Real devices behind the safety rules, and loop volumes, through a real agent. A loop device over a file
//! stands in for a disk: after every refusal the file must be what it was.

mod volume_rig;

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fsage_lab::filesystem::{FileSystem, Registry};
use fsage_lab::lease::clean;
use fsage_lab::volume::{Acquired, EraseConsent, Refusal, Volume, VolumeError, resolve};
use fsage_model::problem::Explain;
use fsage_model::protocol::call;
use fsage_model::size::Bytes;
use fsage_model::study::{FileSystemOptions, FileSystemSpec, QueueSpec, VolumeSpec};
use volume_rig::{Disk, Rig, installed, loop_volume, loops_below, run};

fn device_volume(path: &Path) -> VolumeSpec {
    VolumeSpec::Device { path: path.to_owned(), scheduler: None, queue: QueueSpec::default() }
}

/// Acquires the device at `path` with one `--erase` flag.
fn acquire(rig: &mut Rig, path: &Path, flag: &str) -> Result<(Volume, Acquired), VolumeError> {
    let consent = EraseConsent::parse(&[flag.to_owned()]);
    let volume = resolve(&device_volume(path), &consent, &rig.store)?;
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "device")?;
    Ok((volume, acquired))
}

fn release(rig: &mut Rig, (volume, acquired): (Volume, Acquired)) {
    volume.release(acquired, &mut rig.session, &mut rig.journal).expect("released");
}

/// Refused by `path` alone and, `anyhow`, with an identifier too; nothing written, nothing leased.
fn assert_refused(rig: &mut Rig, disk: &Disk, anyhow: bool, expected: impl Fn(&Refusal) -> bool) -> String {
    let before = disk.digest();
    let alone = disk.link.display().to_string();
    let flags = if anyhow { vec![alone.clone(), format!("{alone}={UUID}")] } else { vec![alone] };
    let mut hint = String::new();
    for flag in flags {
        let error = acquire(rig, &disk.link, &flag).expect_err("refused");
        let VolumeError::Refused { refusal, .. } = &error else { panic!("{error}") };
        assert!(expected(refusal), "{flag}: {refusal}");
        assert_eq!(error.exit_code(), 2);
        hint = error.hint().expect("a way out");
    }
    assert_eq!(disk.digest(), before, "something was written");
    rig.assert_nothing_left();
    hint
}

/// What somebody gave a file system.
const UUID: &str = "0123abcd-1111-4222-8333-0123456789ab";

fn ext4(label: Option<&str>) -> FileSystem {
    let mkfs = label.map(|label| ("label".to_owned(), label.into())).into_iter().collect();
    let options = BTreeMap::from([("ext4".to_owned(), FileSystemOptions { mkfs, mount: vec![] })]);
    Registry::new(&BTreeMap::new()).resolve(&FileSystemSpec { kind: "ext4".into(), options }).expect("fine")
}

fn disk(rig: &Rig) -> Disk {
    Disk::new(rig.store.parent().expect("a folder"), "disk", 64)
}

#[test]
fn an_empty_device_is_taken_and_recognised_as_ours_later() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let flag = disk.link.display().to_string();
    let before = disk.digest();
    let taken = acquire(&mut rig, &disk.link, &flag).expect("empty");
    assert_eq!(taken.1.device, disk.device, "canonical");
    assert_eq!(taken.1.facts.size_bytes, 64 << 20);
    assert_eq!(disk.digest(), before, "taking it writes nothing");
    ext4(None).make(&mut rig.session, &taken.1.device).expect("made");
    release(&mut rig, taken);
    let taken = acquire(&mut rig, &disk.link, &flag).expect("labelled fsage");
    ext4(Some("family")).make(&mut rig.session, &taken.1.device).expect("made");
    release(&mut rig, taken);
    let is_foreign = |refusal: &Refusal| matches!(refusal, Refusal::Signature { signature, .. } if signature == "ext4 labelled `family`");
    let hint = assert_refused(&mut rig, &disk, false, is_foreign);
    let uuid = fsage_engine::host::block::facts(&disk.device).expect("facts").uuid;
    assert!(uuid.len() == 36 && hint.ends_with(&format!("`--erase {flag}={uuid}`")), "{hint}");
    let taken = acquire(&mut rig, &disk.link, &format!("{flag}={uuid}")).expect("its UUID was given");
    release(&mut rig, taken);
    rig.assert_nothing_left();
}

#[test]
fn a_kernel_name_needs_what_identifies_the_device() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let flag = disk.device.display().to_string();
    let error = acquire(&mut rig, &disk.device, &flag).expect_err("not stable");
    assert!(matches!(error, VolumeError::Refused { refusal: Refusal::Unstable { .. }, .. }), "{error}");
    for wrong in ["12345".to_owned(), disk.size_bytes.to_string(), UUID.to_owned()] {
        let error = acquire(&mut rig, &disk.device, &format!("{flag}={wrong}")).expect_err("not identified");
        assert!(
            matches!(error, VolumeError::Refused { refusal: Refusal::OtherDevice { .. }, .. }),
            "{error}"
        );
    }
    run(&["mkfs.ext4", "-q", "-F", "-U", UUID, &flag]);
    let taken = acquire(&mut rig, &disk.device, &format!("{flag}={UUID}")).expect("identified");
    release(&mut rig, taken);
}

#[test]
fn a_device_that_the_command_line_does_not_name_is_refused_at_once() {
    let consent = EraseConsent::parse(&["/dev/disk/by-id/other".into()]);
    let volume = device_volume(Path::new("/dev/disk/by-id/this"));
    let error = resolve(&volume, &consent, Path::new("/tmp")).expect_err("refused");
    assert_eq!(error.to_string(), "/dev/disk/by-id/this is not erased");
    assert!(error.hint().is_some_and(|hint| hint.contains("`--erase /dev/disk/by-id/this`")));
    let file = resolve(
        &device_volume(Path::new("/etc/passwd")),
        &EraseConsent::parse(&["/etc/passwd".into()]),
        Path::new("/tmp"),
    );
    assert!(matches!(file, Err(VolumeError::Spec { key: "path", .. })));
}

#[test]
fn what_is_no_device_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    for path in ["/dev/null", "/dev/disk/by-id/fsage-is-not-here"] {
        let error = acquire(&mut rig, Path::new(path), &format!("{path}=0")).expect_err("refused");
        assert!(matches!(error, VolumeError::Target(_)), "{error}");
    }
    rig.assert_nothing_left();
}

#[test]
fn a_mounted_device_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    rig.make(&ext4(None), &disk.device);
    let leases = rig.lease_mount();
    let point = rig.point.clone();
    rig.mount(&ext4(None), &disk.device);
    for flag in [disk.link.display().to_string(), format!("{}={UUID}", disk.link.display())] {
        let error = acquire(&mut rig, &disk.link, &flag).expect_err("mounted");
        let VolumeError::Refused { refusal, .. } = &error else { panic!("{error}") };
        assert_eq!(*refusal, Refusal::Mounted { points: vec![point.clone()] });
        assert!(error.hint().is_some_and(|hint| hint.contains(&format!("umount {}", point.display()))));
    }
    rig.release_mount(leases);
    let taken =
        acquire(&mut rig, &disk.link, &disk.link.display().to_string()).expect("not mounted any more");
    release(&mut rig, taken);
}

#[test]
fn the_disk_that_carries_the_store_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    rig.make(&ext4(None), &disk.device);
    let leases = rig.lease_mount();
    let point = rig.point.clone();
    rig.mount(&ext4(None), &disk.device);
    let inner = point.join("stores/aging");
    std::fs::create_dir_all(&inner).expect("a store");
    let flag = format!("{}={UUID}", disk.link.display());
    let volume = resolve(&device_volume(&disk.link), &EraseConsent::parse(&[flag]), &inner).expect("allowed");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "x").expect_err("its own store");
    assert!(matches!(error, VolumeError::Refused { refusal: Refusal::Store, .. }), "{error}");
    rig.release_mount(leases);
}

#[test]
fn swap_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let device = disk.device.to_str().expect("plain").to_owned();
    run(&["mkswap", &device]);
    assert_refused(
        &mut rig,
        &disk,
        false,
        |refusal| matches!(refusal, Refusal::Signature { signature, .. } if signature == "swap"),
    );
    if std::process::Command::new("swapon").arg(&device).status().is_ok_and(|status| status.success()) {
        struct Off(String);
        impl Drop for Off {
            fn drop(&mut self) {
                let _ = std::process::Command::new("swapoff").arg(&self.0).status();
            }
        }
        let _off = Off(device);
        assert_refused(&mut rig, &disk, true, |refusal| matches!(refusal, Refusal::Swap));
    } else {
        volume_rig::skip("swapon is not possible here");
    }
}

#[test]
fn a_partitioned_device_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let folder = rig.store.parent().expect("a folder").to_owned();
    let file = folder.join("partitioned");
    std::fs::File::create(&file).expect("a file").set_len(64 << 20).expect("its size");
    write_mbr(&file);
    {
        let disk = Disk::over(file.clone(), false);
        assert_refused(
            &mut rig,
            &disk,
            false,
            |refusal| matches!(refusal, Refusal::Signature { signature, .. } if signature == "mbr"),
        );
    }
    if !installed("losetup") || !installed("addpart") {
        volume_rig::skip("needs losetup and addpart (util-linux)");
        return;
    }
    let disk = Disk::over(file, true);
    // Not every kernel reads partition tables by itself.
    if !Path::new(&format!("{}p1", disk.device.display())).exists() {
        run(&["addpart", disk.device.to_str().expect("plain"), "1", "2048", "65536"]);
    }
    let hint = assert_refused(
        &mut rig,
        &disk,
        true,
        |refusal| matches!(refusal, Refusal::Partitioned { partitions } if partitions.len() == 1),
    );
    assert!(hint.contains("name one of its partitions"));
    let partition = PathBuf::from(format!("{}p1", disk.device.display()));
    run(&["mkfs.ext4", "-q", "-F", "-U", UUID, partition.to_str().expect("plain")]);
    let flag = format!("{}={UUID}", partition.display());
    let taken = acquire(&mut rig, &partition, &flag).expect("a partition may be named");
    release(&mut rig, taken);
    // The queue is that of the whole disk, on which other things may be in use.
    let queue = QueueSpec { nomerges: Some(2), ..QueueSpec::default() };
    let spec = VolumeSpec::Device { path: partition, scheduler: None, queue };
    let volume = resolve(&spec, &EraseConsent::parse(&[flag]), &rig.store).expect("a volume");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "p").expect_err("not of a partition");
    assert!(matches!(&error, VolumeError::Spec { key: "queue", .. }), "{error}");
    let nomerges =
        Path::new("/sys/block").join(disk.device.file_name().expect("a name")).join("queue/nomerges");
    assert_eq!(std::fs::read_to_string(nomerges).expect("readable").trim(), "0");
    rig.assert_nothing_left();
}

/// One Linux partition of 32 MiB from 1 MiB on.
fn write_mbr(file: &Path) {
    use std::os::unix::fs::FileExt;
    let mut sector = [0_u8; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&65_536_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    let file = std::fs::OpenOptions::new().write(true).open(file).expect("open");
    file.write_all_at(&sector, 0).and_then(|()| file.sync_all()).expect("written");
}

#[test]
fn foreign_signatures_are_refused_and_left_alone() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = Disk::new(rig.store.parent().expect("a folder"), "disk", 320);
    let device = disk.device.to_str().expect("plain").to_owned();
    for (argv, found) in [
        (vec!["mkfs.xfs", "-q", "-f", "-L", "data", &device], "xfs labelled `data`"),
        (vec!["mkfs.btrfs", "-q", "-f", &device], "btrfs"),
        (vec!["mke2fs", "-q", "-F", "-t", "ext2", &device], "ext2"),
    ] {
        run(&argv);
        assert_refused(
            &mut rig,
            &disk,
            false,
            |refusal| matches!(refusal, Refusal::Signature { signature, .. } if signature == found),
        );
    }
}

#[test]
fn data_in_no_known_format_is_refused_and_left_alone() {
    use std::os::unix::fs::FileExt;
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let unknown = |refusal: &Refusal| matches!(refusal, Refusal::Signature { signature, .. } if signature == "unknown data");
    let file = std::fs::File::options().write(true).open(&disk.file).expect("opened");
    for at in [0, (4 << 20) - 1, disk.size_bytes - 1] {
        file.write_all_at(b"x", at).expect("written");
        let hint = assert_refused(&mut rig, &disk, false, unknown);
        assert!(hint.contains("clear it first: `blkdiscard --zeroout"), "{hint}");
        file.write_all_at(&[0], at).expect("written");
    }
    let taken = acquire(&mut rig, &disk.link, &disk.link.display().to_string()).expect("blank again");
    release(&mut rig, taken);
}

#[test]
fn a_dry_run_says_which_rule_would_refuse_a_device() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let consent = EraseConsent::parse(&[disk.link.display().to_string()]);
    let volume = resolve(&device_volume(&disk.link), &consent, &rig.store).expect("consented");
    assert!(volume.look().is_ok());
    rig.make(&ext4(Some("family")), &disk.device);
    let before = disk.digest();
    let study = rig.store.join("../dry.toml");
    let text = include_str!("data/tiny.toml");
    let (head, rest) = text.split_once("[volume]").expect("a volume");
    let rest = rest.split_once("\n[").expect("another table").1;
    let path = disk.link.display();
    std::fs::write(&study, format!("{head}[volume]\nkind = \"device\"\npath = \"{path}\"\n[{rest}"))
        .expect("written");
    let mut dry = std::process::Command::new(env!("CARGO_BIN_EXE_fsage"));
    dry.arg("run").arg(&study).args(["--dry-run", "--erase"]).arg(&disk.link);
    let output = dry.arg("--store").arg(rig.store.join("../dry-store")).output().expect("run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let refused = format!(
        "# refused: {path} is not erased: it carries a signature that is not fsage's: ext4 labelled `family`"
    );
    assert_eq!(said.matches(&refused).count(), 1, "{said}");
    let uuid = fsage_engine::host::block::facts(&disk.device).expect("facts").uuid;
    assert!(said.contains(&format!("--erase {path}={uuid}")), "{said}");
    assert_eq!(disk.digest(), before, "something was written");
    std::fs::remove_file(&study).expect("removed");
}

#[test]
fn a_device_that_is_held_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let devices = std::fs::read_to_string("/proc/devices").expect("readable");
    if !installed("dmsetup") || !devices.contains("device-mapper") {
        volume_rig::skip("needs dmsetup (apt-get install dmsetup) and a kernel with device-mapper");
        return;
    }
    struct Mapping(String);
    impl Drop for Mapping {
        fn drop(&mut self) {
            let _ = std::process::Command::new("dmsetup").args(["remove", &self.0]).status();
        }
    }
    let disk = disk(&rig);
    let name = format!("fsage-test-{}", std::process::id());
    let table = format!("0 1024 linear {} 0", disk.device.display());
    run(&["dmsetup", "create", &name, "--noudevsync", "--table", &table]);
    let _mapping = Mapping(name);
    assert_refused(&mut rig, &disk, true, |refusal| matches!(refusal, Refusal::Held { .. }));
}

#[test]
fn a_device_opened_exclusively_by_others_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let _theirs = fsage_sys::block::open_exclusive(&disk.device).expect("opened");
    assert_refused(&mut rig, &disk, false, |refusal| matches!(refusal, Refusal::InUse));
}

#[test]
fn an_unplugged_device_is_refused() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    std::fs::OpenOptions::new().write(true).open(&disk.file).expect("open").set_len(0).expect("truncated");
    run(&["losetup", "--set-capacity", disk.device.to_str().expect("plain")]);
    assert_refused(&mut rig, &disk, false, |refusal| matches!(refusal, Refusal::Gone));
}

#[test]
fn the_scheduler_is_set_and_put_back() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let queue =
        PathBuf::from("/sys/block").join(disk.device.file_name().expect("a name")).join("queue/scheduler");
    let known = std::fs::read_to_string(&queue).expect("readable");
    let other = known.split_whitespace().find(|name| !name.starts_with('['));
    let consent = EraseConsent::parse(&[disk.link.display().to_string()]);
    let spec = |scheduler: &str| VolumeSpec::Device {
        path: disk.link.clone(),
        scheduler: Some(scheduler.into()),
        queue: QueueSpec::default(),
    };
    if let Some(other) = other {
        let volume = resolve(&spec(other), &consent, &rig.store).expect("a volume");
        let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "s").expect("acquired");
        assert_eq!(acquired.facts.scheduler, other);
        assert!(std::fs::read_to_string(&queue).expect("readable").contains(&format!("[{other}]")));
        assert!(acquired.commands[0].starts_with(&format!("echo {other} >")));
        release(&mut rig, (volume, acquired));
        assert_eq!(std::fs::read_to_string(&queue).expect("readable"), known);
    } else {
        volume_rig::skip("the kernel has one scheduler only");
    }
    let volume = resolve(&spec("cfq"), &consent, &rig.store).expect("a volume");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "s").expect_err("no such scheduler");
    assert_eq!(error.exit_code(), 3);
    assert!(error.hint().is_some_and(|hint| hint.starts_with("it has ")));
    rig.assert_nothing_left();
}

#[test]
fn settings_of_the_queue_are_set_behind_the_scheduler_and_put_back() {
    let Some(mut rig) = Rig::new() else { return };
    let disk = disk(&rig);
    let folder = PathBuf::from("/sys/block").join(disk.device.file_name().expect("a name")).join("queue");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("readable").trim().to_owned();
    let names = ["scheduler", "nr_requests", "read_ahead_kb", "nomerges"];
    let before = names.map(read);
    if !before[0].contains("mq-deadline") || !before[0].contains("none") {
        volume_rig::skip("the kernel has no mq-deadline");
        return;
    }
    let consent = EraseConsent::parse(&[disk.link.display().to_string()]);
    let spec = |scheduler: &str, queue: QueueSpec| VolumeSpec::Device {
        path: disk.link.clone(),
        scheduler: Some(scheduler.to_owned()),
        queue,
    };
    let iosched = |value| BTreeMap::from([("fifo_batch".to_owned(), value)]);
    let queue =
        QueueSpec { read_ahead_kb: Some(12), nomerges: Some(2), iosched: iosched(3), ..QueueSpec::default() };
    let volume = resolve(&spec("mq-deadline", queue), &consent, &rig.store).expect("a volume");
    assert!(volume.describe("q").last().expect("lines").ends_with("/queue/iosched/fifo_batch"));
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "q").expect("acquired");
    assert!(read("scheduler").contains("[mq-deadline]"));
    assert_eq!(["read_ahead_kb", "nomerges", "iosched/fifo_batch"].map(read), ["12", "2", "3"]);
    assert!(
        acquired.commands.iter().any(|command| command.starts_with("echo 3 >")),
        "{:?}",
        acquired.commands
    );
    release(&mut rig, (volume, acquired));
    assert_eq!(names.map(read), before);
    // Another scheduler has no such parameter: that is known beforehand, or by the kernel, and nothing stays changed.
    let wrong = QueueSpec { read_ahead_kb: Some(12), iosched: iosched(3), ..QueueSpec::default() };
    let error = resolve(&spec("none", wrong.clone()), &consent, &rig.store).expect_err("not with `none`");
    assert!(error.to_string().contains("`none` has no parameter `fifo_batch`"), "{error}");
    let own = VolumeSpec::Device { path: disk.link.clone(), scheduler: None, queue: wrong };
    let volume = resolve(&own, &consent, &rig.store).expect("a volume");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "q").expect_err("no such parameter");
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("volume.scheduler")), "{error}");
    assert_eq!(names.map(read), before);
    // The number of requests may be that of all disks of an adapter.
    let wrong = QueueSpec { nr_requests: Some(64), ..QueueSpec::default() };
    let volume = resolve(&spec("mq-deadline", wrong), &consent, &rig.store).expect("a volume");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "q").expect_err("of an adapter");
    assert!(matches!(&error, VolumeError::Spec { key: "queue", .. }), "{error}");
    assert_eq!(names.map(read), before);
    rig.assert_nothing_left();
}

#[test]
fn a_loop_file_has_as_many_requests_as_asked_for_and_what_the_kernel_refuses_changes_nothing() {
    let Some(mut rig) = Rig::new() else { return };
    let spec = |queue| VolumeSpec::Loop {
        size: Bytes(64 << 20),
        directory: None,
        direct_io: false,
        sector_bytes: 512,
        scheduler: None,
        queue,
    };
    let nr_requests =
        |number| QueueSpec { nr_requests: Some(number), nomerges: Some(1), ..QueueSpec::default() };
    let volume = resolve(&spec(nr_requests(77)), &EraseConsent::default(), &rig.store).expect("a volume");
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "q").expect("acquired");
    let folder = PathBuf::from("/sys/block").join(acquired.device.file_name().expect("a name")).join("queue");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("readable").trim().to_owned();
    assert_eq!((read("nr_requests").as_str(), read("nomerges").as_str()), ("77", "1"));
    release(&mut rig, (volume, acquired));
    assert_ne!(read("nr_requests"), "77");
    assert_eq!(read("nomerges"), "0");
    let volume =
        resolve(&spec(nr_requests(999_999)), &EraseConsent::default(), &rig.store).expect("a volume");
    let error =
        volume.acquire(&mut rig.session, &mut rig.journal, "q").expect_err("more than the kernel takes");
    assert!(error.hint().is_some_and(|hint| hint.contains("refuses the value")), "{error}");
    rig.assert_nothing_left();
    // A name that is a path is no setting, whatever volume has it.
    let path =
        QueueSpec { iosched: BTreeMap::from([("../scheduler".to_owned(), 0)]), ..QueueSpec::default() };
    let error = resolve(&spec(path), &EraseConsent::default(), &rig.store).expect_err("no setting");
    assert!(matches!(&error, VolumeError::Spec { key: "queue", .. }), "{error}");
}

#[test]
fn a_loop_volume_needs_its_room() {
    let Some(mut rig) = Rig::new() else { return };
    let huge = VolumeSpec::Loop {
        size: Bytes(1 << 44),
        directory: None,
        direct_io: true,
        sector_bytes: 512,
        scheduler: None,
        queue: QueueSpec::default(),
    };
    let volume = resolve(&huge, &EraseConsent::default(), &rig.store).expect("a volume");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "huge").expect_err("no room");
    assert!(matches!(error, VolumeError::Space { .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("volume.directory")));
    rig.assert_nothing_left();
}

#[test]
fn loop_volumes_that_make_no_sense_are_refused() {
    let spec = |size, sector_bytes| VolumeSpec::Loop {
        size: Bytes(size),
        directory: None,
        direct_io: true,
        sector_bytes,
        scheduler: None,
        queue: QueueSpec::default(),
    };
    for (spec, key) in [
        (spec(0, 4096), "size"),
        (spec(4097 << 10, 1024), "sector_bytes"),
        (spec((1 << 20) + 1, 512), "size"),
        (spec(u64::MAX, 512), "size"),
    ] {
        let error = resolve(&spec, &EraseConsent::default(), Path::new("/tmp")).expect_err("refused");
        assert!(matches!(&error, VolumeError::Spec { key: found, .. } if *found == key), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_loop_volume_in_a_given_directory_leaves_that_alone() {
    let Some(mut rig) = Rig::new() else { return };
    let elsewhere = rig.store.parent().expect("a folder").join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    std::fs::write(elsewhere.join("theirs"), "x").expect("a file");
    let spec = VolumeSpec::Loop {
        size: Bytes(8 << 20),
        directory: Some(elsewhere.clone()),
        direct_io: false,
        sector_bytes: 512,
        scheduler: None,
        queue: QueueSpec::default(),
    };
    let volume = resolve(&spec, &EraseConsent::default(), &rig.store).expect("a volume");
    assert_eq!(volume.describe("t")[0], format!("fallocate -l 8388608 {}/t.volume", elsewhere.display()));
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "t").expect("acquired");
    assert_eq!(acquired.facts.sector_bytes, 512);
    assert_eq!(acquired.facts.backing_file, Some(elsewhere.join("t.volume")));
    assert_eq!(acquired.commands, volume.describe("t"));
    // The file has its blocks, and what a discard takes away it has again.
    let blocks = || std::fs::metadata(elsewhere.join("t.volume")).expect("the file").blocks();
    assert!(blocks() * 512 >= 8 << 20, "{}", blocks());
    let device = std::fs::OpenOptions::new().write(true).open(&acquired.device).expect("the device");
    fsage_sys::block::discard(device.as_fd(), 0, 4 << 20).expect("discarded");
    drop(device);
    assert!(blocks() * 512 < 8 << 20, "{}", blocks());
    volume.allocate("t", &mut rig.session).expect("allocated");
    assert!(blocks() * 512 >= 8 << 20, "{}", blocks());
    volume.release(acquired, &mut rig.session, &mut rig.journal).expect("released");
    let left: Vec<_> =
        std::fs::read_dir(&elsewhere).expect("readable").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["theirs"]);
    rig.assert_nothing_left();
}

#[test]
fn a_volume_file_of_others_is_not_taken() {
    let Some(mut rig) = Rig::new() else { return };
    std::fs::create_dir(rig.store.join("volumes")).expect("a folder");
    let theirs = rig.store.join("volumes/t.volume");
    std::fs::write(&theirs, "precious").expect("a file");
    let volume = resolve(&loop_volume(16), &EraseConsent::default(), &rig.store).expect("a volume");
    let error = volume.acquire(&mut rig.session, &mut rig.journal, "t").expect_err("it is there already");
    assert!(matches!(error, VolumeError::Lease(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&theirs).expect("still there"), "precious");
    assert_eq!(loops_below(&rig.store), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_agent_leaves_what_clean_releases() {
    let Some(mut rig) = Rig::new() else { return };
    let volume = resolve(&loop_volume(64), &EraseConsent::default(), &rig.store).expect("a volume");
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "t").expect("acquired");
    ext4(None).make(&mut rig.session, &acquired.device).expect("made");
    let _leases = rig.lease_mount();
    let point = rig.point.clone();
    ext4(None).mount(&mut rig.session, &acquired.device, &point).expect("mounted");
    let pid = rig.session.identity().pid.to_string();
    run(&["kill", "-9", &pid]);
    rig.session.call(call::DropCaches).expect_err("killed");
    assert!(rig.session.is_lost());
    assert_eq!(loops_below(&rig.store).len(), 1);
    rig.session = fsage_lab::target::Target::local().expect("another agent");
    clean(&mut rig.session, &mut rig.journal).expect("cleaned");
    assert_eq!(rig.journal.outstanding(), []);
    assert_eq!(loops_below(&rig.store), Vec::<PathBuf>::new());
    assert!(!fsage_engine::host::mount::is_mount_point(&point));
    assert!(!rig.store.join("volumes").exists());
}
