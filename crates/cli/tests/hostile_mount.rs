//! What is on a volume may be anybody's: nobody but root may reach it, and nothing on it gives rights or
//! runs.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fsage_engine::host::mount::{MountEntry, table};
use lab::Lab;
use support::{Scratch, agent, can_mount};

const NOBODY: u32 = 65534;

/// The mount below a folder, as soon as there is one that `counts`.
fn mounted_below(folder: &Path, child: &mut Child, counts: impl Fn(&MountEntry) -> bool) -> MountEntry {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = table().into_iter().find(|entry| entry.point.starts_with(folder) && counts(entry));
        if let Some(entry) = found {
            return entry;
        }
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < deadline, "no mount: {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What `nobody` can do with the setuid program at a mount point: nothing. It does not run for root either.
fn assert_nothing_gained(entry: &MountEntry, program: &str) {
    for option in ["nosuid", "nodev", "noexec"] {
        assert!(entry.options.iter().any(|word| word == option), "no {option} in {entry:?}");
    }
    let parent = entry.point.parent().unwrap().metadata().unwrap();
    assert_eq!(parent.mode() & 0o077, 0, "others may enter {:?}", entry.point.parent());
    let path = entry.point.join(program);
    let by_path = Command::new(&path).uid(NOBODY).gid(NOBODY).output();
    assert!(by_path.is_err(), "nobody ran {}: {by_path:?}", path.display());
    let by_root = Command::new(&path).output();
    assert!(by_root.is_err(), "{} ran: {by_root:?}", path.display());
}

/// An ext4 volume with a setuid copy of `id` and some megabytes that do not compress.
fn volume_with_setuid(scratch: &Scratch) -> PathBuf {
    let (volume, point) = (scratch.path().join("volume"), scratch.path().join("point"));
    fs::File::create(&volume).unwrap().set_len(128 << 20).unwrap();
    assert!(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&volume).status().unwrap().success());
    fs::create_dir(&point).unwrap();
    assert!(Command::new("mount").args(["-o", "loop"]).args([&volume, &point]).status().unwrap().success());
    fs::copy("/usr/bin/id", point.join("id")).unwrap();
    fs::set_permissions(point.join("id"), PermissionsExt::from_mode(0o4755)).unwrap();
    fs::set_permissions(&point, PermissionsExt::from_mode(0o755)).unwrap();
    let mut bytes = Vec::new();
    for number in 0..64 << 15_u64 {
        bytes.extend_from_slice(&blake3::hash(&u64::to_le_bytes(number)).as_bytes()[..32]);
    }
    fs::write(point.join("random"), bytes).unwrap();
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    volume
}

#[test]
fn saving_an_image_gives_nobody_what_is_on_the_volume() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    // Anybody may enter the folder that the runtime folder is in, as with /run.
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (volume, run) = (volume_with_setuid(&scratch), scratch.path().join("run"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    command.args(["image", "save", "--level", "19"]).arg(&volume).arg(scratch.path().join("image"));
    command.env("FSAGE_RUNTIME_DIR", &run).env("FSAGE_AGENT", agent());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let entry = mounted_below(&run, &mut child, |_| true);
    assert_nothing_gained(&entry, "id");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
}

const STUDY: &str = include_str!("data/tiny.toml");

#[test]
fn volumes_under_test_are_for_root_alone_and_nothing_on_them_runs() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(STUDY);
    fs::set_permissions(lab.scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let set = ["stage.age.stop={ seconds = 60 }", "matrix.file_system.kind=[\"ext4\"]"];
    let mut child = lab.command(&set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = |entry: &MountEntry| entry.point.join("age/t00").exists();
    let entry = mounted_below(&lab.store(), &mut child, begun);
    fs::copy("/usr/bin/id", entry.point.join("id")).unwrap();
    fs::set_permissions(entry.point.join("id"), PermissionsExt::from_mode(0o4755)).unwrap();
    assert_nothing_gained(&entry, "id");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    lab.nothing_left();
}

#[test]
fn a_study_cannot_ask_for_what_every_mount_is_without() {
    for option in ["suid", "dev", "exec"] {
        let lab = Lab::new(STUDY);
        let set = format!("file_system.options.ext4.mount=[\"noatime\", \"{option}\"]");
        let (code, stderr) = lab.run(&[&set, "matrix.file_system.kind=[\"ext4\"]"]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(&format!("mount option `{option}`")), "{stderr}");
    }
}

/// The kernel would write its log, or what an error makes it do, where nobody allowed it.
#[test]
fn a_study_cannot_lead_a_mount_beyond_its_volume() {
    for (kind, option) in [
        ("xfs", "logdev=/dev/loop0"),
        ("xfs", "rtdev=/dev/loop0"),
        ("ext4", "journal_path=/dev/loop0"),
        ("ext4", "journal_dev=0x700"),
        ("ext4", "errors=panic"),
        ("ext4", "sb=131072"),
        ("btrfs", "device=/dev/loop0"),
        ("btrfs", "fatal_errors=panic"),
        ("btrfs", "not_known_to_anybody"),
    ] {
        let lab = Lab::new(STUDY);
        let set = format!("file_system.options.{kind}.mount=[\"{option}\"]");
        let kinds = format!("matrix.file_system.kind=[\"{kind}\"]");
        let (code, stderr) = lab.run(&[&set, &kinds]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(&format!("mount option `{option}` of {kind}")), "{stderr}");
        assert!(stderr.contains(&format!("{kind} takes ")), "no list of what is taken: {stderr}");
    }
}

/// A superblock can name devices, too: the kernel would open and write them.
#[test]
fn a_volume_whose_superblock_names_other_devices_is_not_mounted() {
    use std::os::unix::fs::FileExt as _;

    if !can_mount() {
        return;
    }
    let ext4 = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum"];
    for (mkfs, offset, bytes, what) in [
        (&ext4[..], 1024 + 0xe4, &[0, 7, 0, 0][..], "an external journal"),
        (&["mkfs.xfs", "-q", "-f"], 48, &[0; 8], "an external log"),
        (&["mkfs.btrfs", "-q", "-f"], 0x1_0088, &[2], "further devices"),
    ] {
        let scratch = Scratch::new();
        let volume = scratch.path().join("volume");
        let file = fs::File::create(&volume).unwrap();
        file.set_len(512 << 20).unwrap();
        assert!(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&volume).status().unwrap().success());
        file.write_all_at(bytes, offset).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.args(["image", "save"]).arg(&volume).arg(scratch.path().join("image"));
        command.env("FSAGE_RUNTIME_DIR", scratch.path().join("run")).env("FSAGE_AGENT", agent());
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(what), "{stderr}");
        assert!(stderr.contains("whole on one device"), "no hint: {stderr}");
        assert_eq!(scratch.left_behind(), [] as [String; 0]);
    }
}

/// The kernel makes one file system of all devices with the same identity, which anybody may read off a disk.
#[test]
fn a_btrfs_volume_does_not_join_the_devices_of_another_file_system() {
    use std::os::unix::fs::FileExt as _;

    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let theirs = ["first", "second"].map(|name| {
        let path = scratch.path().join(name);
        fs::File::create(&path).unwrap().set_len(256 << 20).unwrap();
        path
    });
    // The devices of somebody's file system, unmounted.
    let attach = |file: &PathBuf| {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    };
    let devices = theirs.each_ref().map(attach);
    let mkfs =
        Command::new("mkfs.btrfs").args(["-q", "-f", "-d", "raid1", "-m", "raid1"]).args(&devices).status();
    // One that says that it is a third of them, and the only one.
    let volume = scratch.path().join("volume");
    fs::File::create(&volume).unwrap().set_len(256 << 20).unwrap();
    let alone = Command::new("mkfs.btrfs").args(["-q", "-f"]).arg(&volume).status();
    let mut identity = [0; 16];
    fs::File::open(&theirs[0]).unwrap().read_exact_at(&mut identity, 0x1_0020).unwrap();
    fs::File::options().write(true).open(&volume).unwrap().write_all_at(&identity, 0x1_0020).unwrap();
    let save = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.args(["image", "save"]).arg(&volume).arg(scratch.path().join(name));
        command.env("FSAGE_RUNTIME_DIR", scratch.path().join("run")).env("FSAGE_AGENT", agent());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let beside = save("image");
    let before = theirs.each_ref().map(|path| blake3::hash(&fs::read(path).unwrap()));
    for device in &devices {
        let _ = Command::new("btrfs").args(["device", "scan", "--forget"]).arg(device).output();
        assert!(Command::new("losetup").arg("--detach").arg(device).status().unwrap().success());
    }
    assert!(mkfs.unwrap().success() && alone.unwrap().success());
    let (saved, said) = beside;
    assert!(!saved && said.contains("is another device of the same file system"), "{said}");
    assert!(said.contains("whole on one device"), "no hint: {said}");
    assert_eq!(before, theirs.each_ref().map(|path| blake3::hash(&fs::read(path).unwrap())));
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
}

/// A file system that a command of the study mounts is no exception.
#[test]
fn a_mount_by_a_command_is_restricted_too() {
    if !can_mount() {
        return;
    }
    let driver = r#"
[driver.mine]
mkfs = ["mke2fs", "-q", "-F", "-t", "ext4", "{device}"]
mount_command = ["mount", "-t", "ext4", "-o", "suid,dev,exec,nodiratime", "{device}", "{point}"]
"#;
    let lab = Lab::new(&format!("{STUDY}\n{driver}"));
    let set = ["stage.age.stop={ seconds = 60 }", "matrix.file_system.kind=[\"mine\"]"];
    let mut command = lab.command(&set);
    let mut child =
        command.arg("--allow-commands").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = |entry: &MountEntry| entry.point.join("age/t00").exists();
    let entry = mounted_below(&lab.store(), &mut child, begun);
    for option in ["nosuid", "nodev", "noexec", "nodiratime", "relatime"] {
        assert!(entry.options.iter().any(|word| word == option), "no {option} in {entry:?}");
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    lab.nothing_left();
}

#[test]
fn a_copy_of_a_setuid_file_is_an_ordinary_file() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir_all(from.join("folder")).unwrap();
    fs::create_dir(&to).unwrap();
    for (name, mode) in [("shell", 0o4755), ("group", 0o2755), ("folder", 0o3777)] {
        if name != "folder" {
            fs::copy("/usr/bin/id", from.join(name)).unwrap();
        }
        chown(from.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(from.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let control = fsage_engine::load::Control::new();
    fsage_engine::copy::run(&from, &to, &control, &mut fsage_engine::load::NoSink).unwrap();
    for (name, mode) in [("shell", 0o755), ("group", 0o755), ("folder", 0o777)] {
        let found = to.join(name).metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (0, mode), "{name}");
    }
}

/// A file system of `nobody`'s, mounted in a folder of theirs; unmounted when it goes.
struct Theirs {
    point: PathBuf,
}

impl Theirs {
    fn mounted(scratch: &Scratch) -> Self {
        let (volume, folder) = (volume_with_setuid(scratch), scratch.path().join("theirs"));
        let point = folder.join("mnt");
        fs::create_dir_all(&point).unwrap();
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        let mounted = Command::new("mount").args(["-o", "loop"]).args([&volume, &point]).status();
        assert!(mounted.unwrap().success());
        chown(&point, Some(NOBODY), Some(NOBODY)).unwrap();
        Self { point }
    }

    fn measure(&self, scratch: &Scratch, words: &[&str]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.args(["measure", "grep"]).arg(&self.point).args(["--remount", "--no-requests"]).args(words);
        command.env("FSAGE_RUNTIME_DIR", scratch.path().join("run")).env("FSAGE_AGENT", agent());
        command.output().unwrap()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.point).status();
    }
}

fn is_mounted(point: &Path) -> bool {
    table().iter().any(|entry| entry.point == point)
}

#[test]
fn a_mount_in_another_users_folder_is_not_mounted_again() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let theirs = Theirs::mounted(&scratch);
    let refused = theirs.measure(&scratch, &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("belongs to user 65534") && said.contains("--allow-foreign-owner"), "{said}");
    assert!(is_mounted(&theirs.point), "it was unmounted");
    let allowed = theirs.measure(&scratch, &["--allow-foreign-owner"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", String::from_utf8_lossy(&allowed.stderr));
    assert!(is_mounted(&theirs.point));
}

/// Who owns the folder exchanges the mount point for a link the moment it is unmounted.
#[test]
fn a_mount_point_that_becomes_a_link_meanwhile_is_not_followed() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    if !can_mount() {
        return;
    }
    for _ in 0..3 {
        let scratch = Scratch::new();
        let victim = scratch.path().join("victim");
        fs::create_dir(&victim).unwrap();
        let theirs = Theirs::mounted(&scratch);
        let link = theirs.point.with_file_name("link");
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let (from, to) = (theirs.point.clone(), link.clone());
        let racer = std::thread::spawn(move || {
            while Instant::now() < deadline && is_mounted(&from) {
                if renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE).is_ok() {
                    return true;
                }
            }
            false
        });
        let output = theirs.measure(&scratch, &["--allow-foreign-owner"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!is_mounted(&victim), "mounted where nobody said: {said}");
        // Where the exchange came after the mount point was open, the mount is at what was exchanged.
        let moved = is_mounted(&link);
        if moved {
            assert!(Command::new("umount").arg(&link).status().unwrap().success());
        } else if !is_mounted(&theirs.point) {
            assert_eq!(output.status.code(), Some(4), "{said}");
            assert!(said.contains("cannot be mounted at"), "{said}");
        }
        drop(theirs);
        racer.join().unwrap();
    }
}

/// `xfs_fsr` works in the folder `.fsr` of the volume, whatever that is.
#[test]
fn a_link_on_an_aged_volume_leads_no_remedy_out_of_it() {
    if !can_mount() || fsage_engine::host::tool::look_up("xfs_fsr").is_none() {
        support::skip("needs root and xfs_fsr");
        return;
    }
    let lab = Lab::new(include_str!("data/remedies.toml"));
    let victim = lab.scratch.path().join("victim");
    fs::create_dir_all(victim.join("ag1")).unwrap();
    let set = [
        "volume={ kind = \"loop\", size = \"320MiB\" }",
        "matrix.\"file_system.kind\"=[\"xfs\"]",
        "matrix.\"stage.remedy.method\"=[\"defragment\"]",
        "exclude=[]",
        "stage.age.stop={ seconds = 3 }",
    ];
    let mut child = lab.command(&set).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = |entry: &MountEntry| entry.point.join("age/t00").exists();
    let entry = mounted_below(&lab.store(), &mut child, begun);
    std::os::unix::fs::symlink(&victim, entry.point.join(".fsr")).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("`.fsr` is on the volume, where xfs_fsr would work"), "{said}");
    let left: Vec<_> = fs::read_dir(&victim).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["ag1"]);
    lab.nothing_left();
}

/// Mounts of a test, unmounted in reverse order when it goes.
#[derive(Default)]
struct Mounts(Vec<PathBuf>);

impl Mounts {
    fn mount(&mut self, words: &[&str], what: &Path, point: &Path) {
        fs::create_dir_all(point).unwrap();
        assert!(Command::new("mount").args(words).args([what, point]).status().unwrap().success());
        self.0.push(point.to_owned());
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for point in self.0.iter().rev() {
            let _ = Command::new("umount").arg(point).status();
        }
    }
}

fn measure(scratch: &Scratch, words: &[&str], point: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    command.arg("measure").arg(words[0]).arg(point).args(&words[1..]).arg("--no-requests");
    command.env("FSAGE_RUNTIME_DIR", scratch.path().join("run")).env("FSAGE_AGENT", agent());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What is mounted at a point, as the kernel tells it.
fn mounts_at(point: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let entries = table().into_iter().filter(|entry| entry.point == point);
    entries.map(|entry| (entry.root, entry.options)).collect()
}

/// Mounting again would mount something else: a directory that is bound, a mount that is read-only, one of several.
#[test]
fn what_cannot_be_mounted_again_as_it_is_stays_mounted() {
    if !can_mount() || fsage_engine::host::tool::look_up("mkfs.btrfs").is_none() {
        support::skip("needs root and mkfs.btrfs");
        return;
    }
    let scratch = Scratch::new();
    let mut mounts = Mounts::default();
    let at = |name: &str| scratch.path().join(name);
    fs::File::create(at("btrfs")).unwrap().set_len(256 << 20).unwrap();
    assert!(Command::new("mkfs.btrfs").arg("-q").arg(at("btrfs")).status().unwrap().success());
    mounts.mount(&["-o", "loop"], &at("btrfs"), &at("all"));
    fs::create_dir_all(at("all/public")).unwrap();
    mounts.mount(&["--bind"], &at("all/public"), &at("bound"));
    let volume = volume_with_setuid(&scratch);
    mounts.mount(&["-o", "loop"], &volume, &at("ext4"));
    mounts.mount(&["--bind"], &at("ext4"), &at("read-only"));
    let remounted = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(at("read-only")).status();
    assert!(remounted.unwrap().success());
    mounts.mount(&["--bind"], &at("ext4"), &at("stacked"));
    mounts.mount(&["-t", "tmpfs"], Path::new("none"), &at("stacked"));
    for (name, why) in [
        ("bound", "not a whole file system"),
        ("read-only", "is read-only and its file system is not"),
        ("stacked", "several file systems are mounted there"),
    ] {
        let before = mounts_at(&at(name));
        let (code, said) = measure(&scratch, &["walk", "--remount"], &at(name));
        assert!(code == Some(2) && said.contains(why), "{name}: {code:?} {said}");
        assert_eq!(mounts_at(&at(name)), before, "{name}");
    }
    let (code, said) = measure(&scratch, &["walk", "--remount"], &at("all"));
    assert_eq!(code, Some(0), "{said}");
}

/// On a stick or an image that a user mounts (`nosuid`) the owner of a link is what its author wrote.
#[test]
fn a_link_of_root_on_a_users_medium_leads_root_nowhere() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (stick, victim) = (scratch.path().join("stick"), scratch.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    for name in ["a", "b", "c", "d"] {
        fs::write(victim.join(name), "root's own").unwrap();
    }
    let mut mounts = Mounts::default();
    mounts.mount(&["-o", "loop,nosuid,nodev"], &volume_with_setuid(&scratch), &stick);
    std::os::unix::fs::symlink(&victim, stick.join("photos")).unwrap();
    let (code, said) =
        measure(&scratch, &["delete", "--yes-change-files", "--set", "file_share=1"], &stick.join("photos"));
    assert!(code != Some(0) && said.contains("is not followed"), "{code:?} {said}");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 4);
}
