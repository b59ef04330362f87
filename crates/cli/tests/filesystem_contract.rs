//! What every file system must do, built-in or described: be made, mounted, written, synced, mounted again,
//! read back, checked, agree with `statfs` about its free space, be unmounted, and leave nothing. A new
//! driver is one more test here.

#![allow(clippy::print_stdout, reason = "a test may say why it is skipped")]

mod volume_rig;

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use fsage_lab::filesystem::{FileSystem, Registry, StatfsField};
use fsage_lab::volume::{EraseConsent, resolve};
use fsage_model::problem::Explain;
use fsage_model::protocol::{Usage, call};
use fsage_model::study::{DriverSpec, FileSystemOptions, FileSystemSpec, VolumeSpec};
use serde_json::json;
use volume_rig::{Rig, installed, loop_volume};

type Drivers = BTreeMap<String, DriverSpec>;

fn built_in(kind: &str, mkfs: serde_json::Value, mount: &[&str]) -> FileSystem {
    file_system(&Drivers::new(), kind, mkfs, mount)
}

fn file_system(drivers: &Drivers, kind: &str, mkfs: serde_json::Value, mount: &[&str]) -> FileSystem {
    let mkfs = serde_json::from_value(mkfs).expect("a table");
    let options = FileSystemOptions { mkfs, mount: mount.iter().map(|o| (*o).to_owned()).collect() };
    let options = BTreeMap::from([(kind.to_owned(), options)]);
    let spec = FileSystemSpec { kind: kind.to_owned(), options };
    Registry::new(drivers).resolve(&spec).expect("resolved")
}

fn described(text: &str) -> Drivers {
    toml::from_str(text).expect("a driver table")
}

/// The whole contract, on a loop volume of so many MiB.
fn contract(file_system: &FileSystem, mebibytes: u64) {
    contract_on(file_system, &loop_volume(mebibytes));
}

/// The whole contract, on a virtual disk of each medium.
fn contract_on_every_medium(file_system: &FileSystem, mebibytes: u64) {
    if !Path::new("/dev/fuse").exists() {
        volume_rig::skip("virtual disks need /dev/fuse");
        return;
    }
    for preset in fsage_model::medium::presets() {
        let size = format!("{mebibytes}MiB");
        let disk = json!({"kind": "disk", "medium": preset.name, "size": size, "log": true});
        println!("{} on {}", file_system.kind(), preset.name);
        contract_on(file_system, &serde_json::from_value(disk).expect("a volume"));
    }
}

fn contract_on(file_system: &FileSystem, volume: &VolumeSpec) {
    let Some(mut rig) = Rig::new() else { return };
    let volume = resolve(volume, &EraseConsent::default(), &rig.store).expect("a volume");
    file_system.fits(volume.size_bytes().expect("known")).expect("large enough");
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "contract").expect("acquired");
    assert_eq!(acquired.facts.signature, "");
    assert_eq!(acquired.facts.sector_bytes, 4096);
    file_system.make(&mut rig.session, &acquired.device).expect("made");
    let leases = rig.lease_mount();
    let mounts = |rig: &mut Rig| {
        let point = rig.point.clone();
        file_system.mount(&mut rig.session, &acquired.device, &point).expect("mounted");
    };
    mounts(&mut rig);
    let written = write_tree(&rig.point);
    rig.call(call::Sync { directory: rig.point.clone() });
    let point = rig.point.clone();
    file_system.unmount(&mut rig.session, &point).expect("unmounted");
    assert!(!point.join("tree").exists(), "still mounted");
    mounts(&mut rig);
    read_back(&rig.point, &written);
    let on_fuse = file_system.mount_line(&acquired.device, &rig.point).starts_with("ntfs-3g");
    free_space_agrees(&mut rig, file_system, on_fuse);
    rig.release_mount(leases);
    let check = file_system.check(&mut rig.session, &acquired.device).expect("checked");
    assert_eq!((check.clean, check.summary.as_str()), (Some(true), "clean"));
    damage_is_noticed(&mut rig, file_system, &acquired.device);
    volume.release(acquired, &mut rig.session, &mut rig.journal).expect("released");
    rig.assert_nothing_left();
}

/// Files of awkward sizes, some removed, renamed, truncated and overwritten; the result by path.
fn write_tree(point: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let top = point.join("tree");
    for (number, size) in [0, 1, 4095, 4096, 4097, 65_536, 1_000_003, 3 << 20].into_iter().enumerate() {
        let folder = format!("tree/d{}", number % 3);
        std::fs::create_dir_all(point.join(&folder)).expect("a folder");
        let name = format!("{folder}/f{number}");
        let data: Vec<u8> = (0..size).map(|at: usize| (at * 31 + number).to_le_bytes()[0]).collect();
        std::fs::write(point.join(&name), &data).expect("written");
        files.insert(name, data);
    }
    for number in 0..200 {
        std::fs::write(top.join(format!("gone{number}")), vec![7; 20_000]).expect("written");
    }
    for number in (0..200).step_by(2) {
        std::fs::remove_file(top.join(format!("gone{number}"))).expect("removed");
    }
    for number in (1..200).step_by(2) {
        files.insert(format!("tree/gone{number}"), vec![7; 20_000]);
    }
    std::fs::rename(point.join("tree/d0/f0"), point.join("tree/renamed")).expect("renamed");
    let moved = files.remove("tree/d0/f0").expect("there");
    files.insert("tree/renamed".into(), moved);
    let name = "tree/d1/f7";
    let mut file = std::fs::OpenOptions::new().write(true).open(point.join(name)).expect("open");
    file.seek(SeekFrom::Start(10_000)).and_then(|_| file.write_all(&[9; 50_000])).expect("overwritten");
    file.set_len(2 << 20).expect("truncated");
    let data = files.get_mut(name).expect("there");
    data[10_000..60_000].fill(9);
    data.truncate(2 << 20);
    files
}

fn read_back(point: &Path, written: &BTreeMap<String, Vec<u8>>) {
    for (name, data) in written {
        let found = std::fs::read(point.join(name)).expect("readable");
        assert!(found == *data, "{name} is not what was written");
    }
    let left = std::fs::read_dir(point.join("tree")).expect("readable").count();
    assert_eq!(left, 3 + 1 + 100);
}

/// `may_lack_map`: neither GETFSMAP nor FIEMAP is there (FUSE passes neither on).
fn free_space_agrees(rig: &mut Rig, file_system: &FileSystem, may_lack_map: bool) {
    rig.call(call::Sync { directory: rig.point.clone() });
    let free_space = match rig.session.call(call::FreeSpace { directory: rig.point.clone().into() }) {
        Ok(free_space) => free_space,
        Err(error) if may_lack_map => {
            volume_rig::skip(format!("free-space map of {}: {error}", file_system.kind()));
            return;
        }
        Err(error) => panic!("no free-space map: {error:?}"),
    };
    let Usage { used_bytes, total_bytes, available_bytes, .. } =
        rig.call(call::Usage { directory: rig.point.clone() });
    let tolerance = file_system.free_space_tolerance();
    let statfs = match tolerance.against {
        StatfsField::Free => total_bytes - used_bytes,
        StatfsField::Available => available_bytes,
    };
    let difference = free_space.bytes.abs_diff(statfs);
    let allowed = tolerance.bytes
        + fsage_model::quantity::to_u64(fsage_model::quantity::as_f64(total_bytes) * tolerance.share);
    println!(
        "{}: map {} statfs {statfs} difference {difference} allowed {allowed} ({:?})",
        file_system.kind(),
        free_space.bytes,
        free_space.method
    );
    assert!(difference <= allowed, "{difference} bytes apart; {}", tolerance.reason);
    assert!(free_space.largest_bytes <= free_space.bytes && free_space.extents > 0);
    assert_eq!(free_space.histogram.bytes.iter().sum::<u64>(), free_space.bytes);
}

/// A volume whose first MiB is overwritten is not clean.
fn damage_is_noticed(rig: &mut Rig, file_system: &FileSystem, device: &Path) {
    let mut file = std::fs::OpenOptions::new().write(true).open(device).expect("open");
    file.write_all(&vec![0x5a; 1 << 20]).and_then(|()| file.sync_all()).expect("damaged");
    drop(file);
    let check = file_system.check(&mut rig.session, device).expect("checked");
    assert_eq!(check.clean, Some(false), "{}", check.summary);
    assert!(check.summary.contains("status"), "{}", check.summary);
}

#[test]
fn ext2() {
    contract(&built_in("ext2", json!({}), &["noatime"]), 256);
}

#[test]
fn ext3() {
    contract(&built_in("ext3", json!({"journal_size": "16MiB"}), &["data=ordered"]), 256);
}

#[test]
fn ext4() {
    contract(&built_in("ext4", json!({}), &[]), 256);
}

#[test]
fn ext4_with_every_parameter() {
    let mkfs = json!({
        "block_size": "4KiB", "cluster_size": 65536, "inode_size": 512, "inode_ratio": "32KiB", "journal": true,
        "journal_size": "8MiB", "lazy_init": true, "stride": 4, "stripe_width": 16, "discard": false,
        "reserved_percent": 1, "flex_bg_size": 8, "features": ["^resize_inode", "metadata_csum"], "label": "aged",
        "uuid": "0e1d2c3b-0000-4000-8000-000000000001",
    });
    contract(&built_in("ext4", mkfs, &["noatime", "data=writeback", "barrier=0"]), 256);
}

#[test]
fn ext4_without_a_journal() {
    contract(&built_in("ext4", json!({"journal": false}), &["lazytime"]), 128);
}

#[test]
fn xfs() {
    contract(&built_in("xfs", json!({}), &["noatime"]), 512);
}

#[test]
fn xfs_with_every_parameter() {
    let mkfs = json!({
        "block_size": "4KiB", "sector_size": 4096, "agcount": 3, "su": "64KiB", "sw": 2, "inode_size": 1024,
        "maxpct": 20, "sparse_inodes": true, "crc": true, "finobt": true, "rmapbt": true, "reflink": true,
        "bigtime": true, "log_size": "64MiB", "log_su": "32KiB", "directory_block_size": "8KiB", "discard": false,
        "label": "aged", "uuid": "0e1d2c3b-0000-4000-8000-000000000002",
    });
    contract(&built_in("xfs", mkfs, &["logbsize=64k"]), 512);
}

#[test]
fn btrfs() {
    contract(&built_in("btrfs", json!({}), &["noatime"]), 512);
}

#[test]
fn btrfs_with_every_parameter() {
    let mkfs = json!({
        "nodesize": "16KiB", "sectorsize": 4096, "data_profile": "single", "metadata_profile": "single",
        "mixed": false, "checksum": "xxhash", "features": ["no-holes", "^extref"], "runtime_features": ["free-space-tree"], "discard": false,
        "label": "aged", "uuid": "0e1d2c3b-0000-4000-8000-000000000003",
    });
    contract(&built_in("btrfs", mkfs, &["max_inline=0"]), 512);
}

#[test]
fn btrfs_mixed() {
    contract(&built_in("btrfs", json!({"mixed": true}), &[]), 256);
}

#[test]
fn ext4_on_every_medium() {
    contract_on_every_medium(&built_in("ext4", json!({}), &["noatime"]), 256);
}

#[test]
fn xfs_on_every_medium() {
    contract_on_every_medium(&built_in("xfs", json!({}), &["noatime"]), 512);
}

#[test]
fn btrfs_on_every_medium() {
    contract_on_every_medium(&built_in("btrfs", json!({}), &["noatime"]), 512);
}

/// ext4 by another name, from TOML alone: parameters, optional words, a check, a command after the mount.
#[test]
fn described_by_commands() {
    let drivers = described(
        r#"
        [plainext]
        mount_type = "ext4"
        mkfs = ["mke2fs", "-q", "-F", "-b", "{block}", "-O", "{features}", "{extra}", "{device}"]
        fsck = ["e2fsck", "-f", "-n", "{device}"]
        mount = ["noatime"]
        after_mount = [["tune2fs", "-e", "continue", "{device}"], ["touch", "{point}/lost+found"]]
        package = "e2fsprogs"
        minimum_size = "8MiB"
        parameter = { block = 4096, features = "extent,^has_journal", extra = "" }
        "#,
    );
    contract(&file_system(&drivers, "plainext", json!({"features": "extent,flex_bg"}), &["lazytime"]), 128);
}

/// A file system that the kernel has (fuseblk) and that we have no driver for, with a mount program of its
/// own.
#[test]
fn described_with_a_mount_program() {
    if !installed("mkntfs") || !installed("ntfs-3g") || !Path::new("/dev/fuse").exists() {
        volume_rig::skip("needs mkntfs, ntfs-3g (apt-get install ntfs-3g) and /dev/fuse");
        return;
    }
    let drivers = described(
        r#"
        [ntfs]
        mkfs = ["mkntfs", "--quick", "--force", "--cluster-size", "{cluster_size}", "{device}"]
        mount_command = ["ntfs-3g", "{device}", "{point}"]
        fsck = ["ntfsfix", "--no-action", "{device}"]
        package = "ntfs-3g"
        parameter = { cluster_size = 4096 }
        "#,
    );
    contract(&file_system(&drivers, "ntfs", json!({}), &["noatime", "big_writes"]), 128);
}

#[test]
fn a_driver_without_a_check_says_so() {
    let Some(mut rig) = Rig::new() else { return };
    let drivers = described("[plain]\nmount_type = \"ext2\"\nmkfs = [\"mke2fs\", \"-F\", \"{device}\"]\n");
    let plain = file_system(&drivers, "plain", json!({}), &[]);
    let check = plain.check(&mut rig.session, Path::new("/dev/null")).expect("no check");
    assert_eq!((check.clean, check.summary.as_str()), (None, "not checked: plain has no check command"));
}

#[test]
fn smallest_volumes_are_what_the_programs_say() {
    let Some(mut rig) = Rig::new() else { return };
    let cases = [
        built_in("ext2", json!({}), &[]),
        built_in("ext4", json!({}), &[]),
        built_in("xfs", json!({}), &[]),
        built_in("btrfs", json!({}), &[]),
        built_in("btrfs", json!({"data_profile": "dup"}), &[]),
        built_in("btrfs", json!({"mixed": true}), &[]),
        built_in("btrfs", json!({"mixed": true, "data_profile": "dup", "metadata_profile": "dup"}), &[]),
    ];
    for (number, file_system) in cases.into_iter().enumerate() {
        let file = rig.store.join(format!("smallest{number}"));
        let sized = |bytes| std::fs::File::create(&file).and_then(|f| f.set_len(bytes)).expect("a file");
        sized(file_system.minimum_bytes());
        let made = file_system.make(&mut rig.session, &file);
        assert!(made.is_ok(), "{number} {}: {:?}", file_system.kind(), made.map_err(|e| e.to_string()));
        let below = file_system.minimum_bytes() - 4096;
        let error = file_system.fits(below).expect_err("too small");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_file_system_that_the_kernel_lacks_is_named() {
    let Some(mut rig) = Rig::new() else { return };
    let drivers = described("[befs]\nmkfs = [\"true\", \"{device}\"]\nfsck = [\"true\", \"{device}\"]\n");
    let befs = file_system(&drivers, "befs", json!({}), &[]);
    let volume = resolve(&loop_volume(16), &EraseConsent::default(), &rig.store).expect("a volume");
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "lacking").expect("acquired");
    let leases = rig.lease_mount();
    let point = rig.point.clone();
    let error = befs.mount(&mut rig.session, &acquired.device, &point).expect_err("no such file system");
    assert_eq!(error.to_string(), "the kernel has no file system `befs`");
    assert_eq!(error.exit_code(), 3);
    assert!(error.hint().is_some_and(|hint| hint.contains("modprobe befs")));
    rig.release_mount(leases);
    volume.release(acquired, &mut rig.session, &mut rig.journal).expect("released");
    rig.assert_nothing_left();
}

#[test]
fn a_program_that_is_missing_names_its_package() {
    let Some(mut rig) = Rig::new() else { return };
    let drivers = described("[odd]\nmkfs = [\"mkfs.odd-one\", \"{device}\"]\npackage = \"odd-progs\"\n");
    let odd = file_system(&drivers, "odd", json!({}), &[]);
    let error = odd.make(&mut rig.session, Path::new("/dev/null")).expect_err("not installed");
    assert_eq!(error.to_string(), "`mkfs.odd-one` is not installed");
    assert_eq!(
        (error.exit_code(), error.hint().as_deref()),
        (3, Some("install it with `apt-get install odd-progs`"))
    );
}
