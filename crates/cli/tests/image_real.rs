//! Images of real file systems: every used block comes back, whatever the file system.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod image_rig;

use std::io::{BufRead as _, Read as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use cli_support::{Run, root};
use image_rig::Rig;

/// Name, size, mkfs, check, mount options of a copy beside its original.
type Case = (&'static str, &'static str, &'static [&'static str], &'static [&'static str], &'static str);

const CASES: [Case; 6] = [
    ("ext2", "160M", &["mkfs.ext2", "-q", "-b", "4096"], &["e2fsck", "-fn"], ""),
    ("ext3", "160M", &["mkfs.ext3", "-q", "-b", "4096"], &["e2fsck", "-fn"], ""),
    ("ext4", "160M", &["mkfs.ext4", "-q", "-b", "4096", "-L", "fsage"], &["e2fsck", "-fn"], ""),
    // Blocks smaller than the image's, and lazily initialised tables.
    ("ext4-1k", "100M", &["mkfs.ext4", "-q", "-b", "1024"], &["e2fsck", "-fn"], ""),
    ("xfs", "320M", &["mkfs.xfs", "-q"], &["xfs_repair", "-n"], ",nouuid"),
    ("btrfs", "320M", &["mkfs.btrfs", "-q"], &["btrfs", "check", "--check-data-csum"], ""),
];

/// Blocks of `copy` that are neither those of `original` nor zeros: none may be.
fn foreign_blocks(rig: &Rig, original: &str, copy: &str) -> u64 {
    let [original, copy] = [original, copy].map(|name| std::fs::read(rig.path(name)).unwrap());
    assert_eq!(original.len(), copy.len());
    let pairs = original.chunks(4096).zip(copy.chunks(4096));
    let foreign = pairs.filter(|(is, of)| is != of && of.iter().any(|byte| *byte != 0));
    u64::try_from(foreign.count()).unwrap()
}

fn round_trip(case: &Case) {
    let (name, size, mkfs, check, options) = case;
    let rig = Rig::new();
    rig.make("volume", size, mkfs);
    rig.age("volume", "2500");
    let good = rig.verified("volume", "");
    assert!(good > 1000, "{name}: {good} good blocks");
    let before = std::fs::read(rig.path("volume")).unwrap();
    let saved = rig.save("volume", "image");
    rig.assert_nothing_left();
    assert!(std::fs::read(rig.path("volume")).unwrap() == before, "{name}: saving changed the volume");
    assert_eq!(saved["header"]["blocks"], "used", "{name}");
    assert_eq!(
        saved["header"]["file_system"].as_str().unwrap(),
        &name[..name.find('-').unwrap_or(name.len())]
    );
    let totals = &saved["totals"];
    let number = |key: &str| totals[key].as_u64().unwrap();
    assert_eq!(
        number("used_blocks"),
        number("described_blocks") + number("zero_blocks") + number("raw_blocks")
    );
    // Tails under 32 bytes cannot tell what they are, and btrfs keeps small files among its metadata.
    if *name != "ext4-1k" {
        assert!(number("described_blocks") * 100 >= good * 98, "{name}: {totals} for {good} blocks of data");
    }
    rig.restore("image", "copy");
    rig.assert_nothing_left();
    assert_eq!(foreign_blocks(&rig, "volume", "copy"), 0, "{name}");
    // Saving the copy asks its own file system what is in use: the digest covers where and what.
    let again = rig.save("copy", "second");
    assert_eq!((&again["digest"], &again["totals"]), (&saved["digest"], totals), "{name}");
    rig.run(&[*check, &[rig.text("copy").as_str()]].concat());
    assert_eq!(rig.verified("copy", options), good, "{name}");
    let verified = rig.fsage(&["image", "verify", &rig.text("image"), "--json"]).result();
    assert_eq!(verified["digest"], saved["digest"]);
    rig.assert_nothing_left();
}

#[test]
fn every_used_block_of_every_driver_comes_back() {
    if root() {
        CASES.iter().for_each(round_trip);
    }
}

#[test]
fn a_file_system_of_which_nothing_is_known_is_saved_whole() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "20M", &["mkfs.minix"]);
    let mut noise = vec![0; 1 << 20];
    std::fs::File::open("/dev/urandom").unwrap().read_exact_at(&mut noise, 0).unwrap();
    let volume = std::fs::OpenOptions::new().write(true).open(rig.path("volume")).unwrap();
    volume.write_all_at(&noise, 15 << 20).unwrap();
    let run = rig.fsage(&["image", "save", &rig.text("volume"), &rig.text("image")]);
    assert!(run.stderr.contains("every block was saved"), "{run:?}");
    rig.restore("image", "copy");
    let [volume, copy] = ["volume", "copy"].map(|name| std::fs::read(rig.path(name)).unwrap());
    assert!(volume == copy, "the copy differs");
    rig.run(&["fsck.minix", "-f", &rig.text("copy")]);
    rig.assert_nothing_left();
}

#[test]
fn what_is_mounted_dirty_or_attached_is_refused_with_the_way_out() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "64M", &["mkfs.ext4", "-q"]);
    let save = |more: &[&str]| {
        rig.fsage(&[&["image", "save", &rig.text("volume"), &rig.text("image")], more].concat())
    };
    let point = rig.text("point");
    rig.mounted("volume", "", |folder| {
        let run = save(&[]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains("is behind /dev/loop"), "{run:?}");
        let device = rig.run(&["findmnt", "-no", "SOURCE", &point]).stdout.trim().to_owned();
        let mounted = rig.fsage(&["image", "save", &device, &rig.text("image"), "--all-blocks"]);
        assert_eq!(mounted.code, 2, "{mounted:?}");
        assert!(mounted.stderr.contains("is mounted at") && mounted.stderr.contains("umount"), "{mounted:?}");
        let thawed = rig.fsage(&["image", "save", &device, &rig.text("image"), "--frozen", &point]);
        assert!(thawed.code == 2 && thawed.stderr.contains("is not frozen"), "{thawed:?}");
        std::fs::write(folder.join("late"), b"late").unwrap();
        rig.run(&["fsfreeze", "-f", &point]);
        let frozen = rig.fsage(&["image", "save", &device, &rig.text("image"), "--frozen", &point]);
        let inside = folder.join("inside").to_str().unwrap().to_owned();
        let inside = rig.fsage(&["image", "save", &device, &inside, "--frozen", &point]);
        let whole =
            ["image", "save", &device, &rig.text("whole"), "--frozen", &point, "--all-blocks", "--json"];
        let whole = rig.fsage(&whole);
        rig.run(&["fsfreeze", "-u", &point]);
        assert_eq!(frozen.code, 0, "{frozen:?}");
        assert!(inside.code == 2 && inside.stderr.contains("another file system"), "{inside:?}");
        assert_eq!(whole.result()["totals"]["used_blocks"], 64 << 20 >> 12);
        let over = rig.fsage(&["image", "restore", &rig.text("image"), &device, "--erase", &device]);
        assert!(over.code == 2 && over.stderr.contains("is mounted at"), "{over:?}");
        let over = rig.text("volume");
        let over = rig.fsage(&["image", "restore", &rig.text("image"), &over, "--erase", &over]);
        assert!(over.code == 2 && over.stderr.contains("is behind /dev/loop"), "{over:?}");
        // A copy taken now was never unmounted.
        std::fs::write(folder.join("later"), b"later").unwrap();
        rig.run(&["sync", "-f", &point]);
        rig.run(&["cp", "--sparse=always", &rig.text("volume"), &rig.text("dirty")]);
    });
    rig.restore("image", "copy");
    rig.mounted("copy", "", |folder| assert_eq!(std::fs::read(folder.join("late")).unwrap(), b"late"));
    let dirty = rig.fsage(&["image", "save", &rig.text("dirty"), &rig.text("other")]);
    assert_eq!(dirty.code, 4, "{dirty:?}");
    assert!(
        dirty.stderr.contains("not unmounted cleanly") && dirty.stderr.contains("--all-blocks"),
        "{dirty:?}"
    );
    rig.fsage(&["image", "save", &rig.text("dirty"), &rig.text("other"), "--all-blocks", "--json"]).result();
    rig.assert_nothing_left();
}

#[test]
fn a_kernel_that_cannot_be_asked_for_loop_devices_is_no_free_pass() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "64M", &["mkfs.ext4", "-q"]);
    rig.save("volume", "image");
    let before = std::fs::read(rig.path("volume")).unwrap();
    // Without sysfs, in a mount namespace of its own.
    let hidden = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", "umount -R /sys && exec \"$@\"", "sh", cli_support::FSAGE]);
        Run::of(command.args(arguments).env("FSAGE_RUNTIME_DIR", rig.path("run")))
    };
    let (volume, image, second) = (rig.text("volume"), rig.text("image"), rig.text("second"));
    for arguments in
        [&["image", "restore", &image, &volume, "--erase", &volume][..], &["image", "save", &volume, &second]]
    {
        let run = hidden(arguments);
        assert_eq!(run.code, 3, "{run:?}");
        for part in ["cannot tell whether", &volume, "/sys/block", "hint: "] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
    }
    assert!(std::fs::read(rig.path("volume")).unwrap() == before && !rig.path("second").exists());
    rig.assert_nothing_left();
}

#[test]
fn nothing_is_restored_on_what_is_protected_or_too_small() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "64M", &["mkfs.ext4", "-q"]);
    rig.save("volume", "image");
    for (size, erase, says) in
        [("64M", false, "already exists"), ("63M", true, "bytes, the image is of a volume")]
    {
        rig.run(&["truncate", "-s", size, &rig.text("target")]);
        let target = rig.text("target");
        let erase = if erase { vec!["--erase", &target] } else { Vec::new() };
        let run = rig.fsage(&[&["image", "restore", &rig.text("image"), &target], &erase[..]].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{run:?}");
        assert!(std::fs::read(&target).unwrap().iter().all(|byte| *byte == 0));
        std::fs::remove_file(&target).unwrap();
    }
    let damaged = rig.text("damaged");
    let mut bytes = std::fs::read(rig.path("image")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let run = rig.fsage(&["image", "restore", &damaged, &rig.text("target")]);
    assert!(run.code == 5 && run.stderr.contains("chunk "), "{run:?}");
    assert!(!rig.path("target").exists(), "a file was made");
    let run = rig.fsage(&["image", "verify", &damaged]);
    assert!(run.code == 5 && run.stderr.contains("chunk "), "{run:?}");
    let run = rig.fsage(&["image", "info", &rig.text("volume")]);
    assert!(run.code == 2 && run.stderr.contains("is not an image"), "{run:?}");
    rig.assert_nothing_left();
}

#[test]
fn a_save_with_its_arguments_swapped_loses_nothing() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "64M", &["mkfs.ext4", "-q"]);
    rig.save("volume", "image");
    rig.save("volume", "image");
    let before = std::fs::read(rig.path("volume")).unwrap();
    let link = rig.text("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let (volume, image) = (rig.text("volume"), rig.text("image"));
    for arguments in
        [[&image, &volume], [&volume, &volume], [&volume, &link], [&volume, &"/dev/null".to_owned()]]
    {
        let run = rig.fsage(&["image", "save", arguments[0], arguments[1], "--all-blocks"]);
        assert!(run.code == 2 && run.stderr.contains("exists and would be lost"), "{run:?}");
        assert!(run.stderr.contains("save VOLUME FILE") && !run.stderr.contains("--erase"), "{run:?}");
    }
    let run = rig.fsage(&["image", "import", "--format", "e2image", &image, &volume]);
    assert!(run.code == 2 && run.stderr.contains("exists and would be lost"), "{run:?}");
    assert!(std::fs::read(rig.path("volume")).unwrap() == before);
    assert!(std::fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
    rig.assert_nothing_left();
}

/// Whether a process, or one of its threads, does something of its own at SIGINT (number 2).
fn hears_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << 1 != 0
}

#[test]
fn a_save_that_is_interrupted_says_so_and_leaves_nothing() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "512M", &["mkfs.ext4", "-q"]);
    let arguments =
        ["image", "save", &rig.text("volume"), &rig.text("image"), "--all-blocks", "--threads", "1"];
    let mut command = rig.command(&arguments);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Until it says that the save begins.
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut stderr = String::new();
    said.read_line(&mut stderr).unwrap();
    assert!(stderr.starts_with("saving "), "{stderr}");
    while !hears_interrupts(child.id()) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Run::of(Command::new("kill").args(["-INT", &child.id().to_string()]));
    said.read_to_string(&mut stderr).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(0) {
        assert!(rig.path("image").exists(), "{stderr}");
    } else {
        assert!(stderr.contains("it was stopped"), "{stderr}");
        assert!(!rig.path("image").exists());
    }
    rig.assert_nothing_left();
}
