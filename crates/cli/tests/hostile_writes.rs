//! What root writes goes where it was named, however another user prepared the place.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod image_rig;
mod served_rig;
mod shared_rig;

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Run, root};
use fsage_lab::lease::Journal;
use fsage_lab::lease::record::Lease;
use fsage_sys::folder::{Folder, Writers};
use fsage_sys::owners::Keeper;
use image_rig::Rig;
use served_rig::Served;
use shared_rig::{SECRET, Shared, USER, mode, plant, trace};

#[test]
fn an_image_is_not_written_through_a_planted_link_and_only_its_owner_reads_it() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    shared.rig.make("volume", "64M", &["mkfs.ext4", "-q"]);
    let volume = shared.rig.text("volume");
    shared.plant("image.partial");
    let run = shared.rig.fsage(&["image", "save", &volume, &shared.text("image")]);
    shared.assert_unharmed("image.partial");
    assert_eq!(run.code, 0, "a planted name must not hinder either: {run:?}");
    assert_eq!(mode(&shared.path("image")), 0o600, "an image holds what only owners may read");
    shared.plant("other");
    let run = shared.rig.fsage(&["image", "save", &volume, &shared.text("other")]);
    shared.assert_unharmed("other");
    assert!(run.code == 2 && run.stderr.contains("not an ordinary file"), "{run:?}");
    let run = shared.rig.fsage(&["image", "restore", &shared.text("image"), &shared.text("restored")]);
    assert_eq!((run.code, mode(&shared.path("restored"))), (0, 0o600), "{run:?}");
    shared.rig.assert_nothing_left();
}

#[test]
fn no_output_goes_through_a_planted_link() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let trace = trace(&shared.rig);
    let (csv, tree) = (shared.rig.text("recorded.csv"), shared.rig.path("tree"));
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "x").unwrap();
    let tree = tree.to_str().unwrap();
    shared.plant("out");
    let out = shared.text("out");
    for arguments in [
        &["trace", "export", "--to", "csv", &trace, "-o", &out][..],
        &["trace", "import", "--from", "csv", &csv, "-o", &out],
        &["profile", tree, "-o", &out],
        &["explain", tree, "-o", &out],
        &["age", tree, "--operations", "5", "--trace", &out],
        &["replay", &trace, tree, "--state", &out],
    ] {
        let run = shared.rig.fsage(arguments);
        shared.assert_unharmed(arguments[0]);
        assert!(run.code != 0 && run.stderr.contains("out"), "{arguments:?}: {run:?}");
        assert!(shared.path("out").symlink_metadata().unwrap().is_symlink(), "{arguments:?}");
    }
    // Nor in place of a device: a file there would be no device for anybody any more.
    let device = shared.path("device");
    shared.rig.run(&["mknod", device.to_str().unwrap(), "c", "1", "3"]);
    let run = shared.rig.fsage(&["profile", tree, "-o", device.to_str().unwrap()]);
    assert!(run.code == 2 && run.stderr.contains("device"), "{run:?}");
    assert!(device.metadata().unwrap().file_type().is_char_device());
    // Nor through a link to a folder on the way.
    let inner = shared.rig.path("inner");
    std::fs::create_dir(&inner).unwrap();
    plant(&inner, &shared.path("way"));
    let run = shared.rig.fsage(&["trace", "export", "--to", "csv", &trace, "-o", &shared.text("way/out")]);
    assert!(run.code == 4 && run.stderr.contains("is a link that user 65534 made"), "{run:?}");
    assert!(!inner.join("out").exists());
    // A link of root's own is a way as any other.
    symlink(&inner, shared.rig.path("own")).unwrap();
    let own = shared.rig.text("own/out");
    assert_eq!(shared.rig.fsage(&["trace", "export", "--to", "csv", &trace, "-o", &own]).code, 0);
    assert!(inner.join("out").is_file());
}

/// Begins a run in a store: writes plan, study and log, then finds no agent.
fn run_without_agent(store: &Path, set: impl FnOnce(&mut Command)) -> Run {
    let mut command = Command::new(FSAGE);
    command.args(["run", "digest", "--quick", "--quiet", "--store"]).arg(store);
    command.env("FSAGE_AGENT", "/bin/false").env_remove("SUDO_UID");
    set(&mut command);
    Run::of(&mut command)
}

/// The folders of the trials in a store.
fn trials(store: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store.join("trials")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_store_is_not_written_through_planted_links() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let store = shared.path("store");
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, PermissionsExt::from_mode(0o1777)).unwrap();
    for name in ["study.toml.partial", "plan.json.partial"] {
        plant(&shared.rig.path("victim"), &store.join(name));
    }
    run_without_agent(&store, |_| {});
    shared.assert_unharmed("plan.json.partial");
    assert!(store.join("plan.json").is_file());
    let trial = trials(&store).pop().expect("a trial was begun");
    std::fs::remove_file(trial.join("log.txt")).unwrap();
    plant(&shared.rig.path("victim"), &trial.join("log.txt"));
    for other in trials(&store).iter().filter(|other| **other != trial) {
        std::fs::remove_dir_all(other).unwrap();
    }
    run_without_agent(&store, |_| {});
    shared.assert_unharmed("log.txt");
    // A folder of the store that is elsewhere.
    let outside = shared.rig.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("trial.json"), SECRET).unwrap();
    std::fs::remove_dir_all(&trial).unwrap();
    plant(&outside, &trial);
    let run = run_without_agent(&store, |_| {});
    assert_eq!(std::fs::read(outside.join("trial.json")).unwrap(), SECRET, "{run:?}");
    assert!(!outside.join("log.txt").exists(), "{run:?}");
    // A folder that volumes are made in.
    plant(&outside, &store.join("volumes"));
    let run = run_without_agent(&store, |_| {});
    assert!(run.code != 0 && run.stderr.contains("it is a link, and a store has none"), "{run:?}");
    std::fs::remove_file(store.join("volumes")).unwrap();
    std::fs::remove_file(store.join("lock")).unwrap();
    plant(&shared.rig.path("victim"), &store.join("lock"));
    let run = run_without_agent(&store, |_| {});
    shared.assert_unharmed("lock");
    assert!(run.code != 0 && run.stderr.contains("lock"), "{run:?}");
}

#[test]
fn root_does_not_write_into_the_store_of_another_user_unless_told() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let store = shared.path("store");
    let own = || {
        std::fs::create_dir(&store).unwrap();
        chown(&store, Some(USER), Some(USER)).unwrap();
    };
    own();
    let run = run_without_agent(&store, |_| {});
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("belongs to user 65534, and root would write there"), "{run:?}");
    assert!(run.stderr.contains("hint:") && run.stderr.contains("--allow-foreign-owner"), "{run:?}");
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
    // A folder of root's below it is no better: the other user can put another in its place.
    let inner = store.join("mine");
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(run_without_agent(&inner, |_| {}).code, 2);
    std::fs::remove_dir(&inner).unwrap();
    for tell in [
        (|command: &mut Command| {
            command.arg("--allow-foreign-owner");
        }) as fn(&mut Command),
        // Below sudo the caller's own folders are as good as root's.
        |command| {
            command.env("SUDO_UID", USER.to_string());
        },
    ] {
        run_without_agent(&store, tell);
        assert!(store.join("plan.json").is_file());
        std::fs::remove_dir_all(&store).unwrap();
        own();
    }
    // Of another than who called sudo.
    let other = |command: &mut Command| {
        command.env("SUDO_UID", "1");
    };
    assert_eq!(run_without_agent(&store, other).code, 2);
}

#[test]
fn root_does_not_write_a_file_where_all_may_replace_it() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let trace = trace(&shared.rig);
    let folder = shared.path("open");
    std::fs::create_dir(&folder).unwrap();
    let out = shared.text("open/out");
    let export = ["trace", "export", "--to", "csv", &trace, "-o", &out];
    for (owner, mode, why) in [
        (USER, 0o755, "belongs to user 65534"),
        (0, 0o777, "may be written to by all users"),
        (0, 0o2775, "may be written to by group 65534"),
    ] {
        chown(&folder, Some(owner), Some(USER)).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
        let run = shared.rig.fsage(&export);
        assert!(run.code == 2 && run.stderr.contains(why), "{run:?}");
        assert!(!Path::new(&out).exists());
    }
    assert_eq!(shared.rig.fsage(&[&export[..], &["--allow-foreign-owner"]].concat()).code, 0);
    assert!(Path::new(&out).is_file());
}

/// The owner that a server names is the server's word, and so is what it shows at the next look.
#[test]
fn root_does_not_write_where_another_users_server_decides_what_is_there() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let trace = trace(&shared.rig);
    let (theirs, own) = (shared.rig.path("theirs"), shared.rig.path("own"));
    let (_theirs, _own) = (Served::new(theirs.clone(), USER), Served::new(own.clone(), 0));
    let found = |path: &Path| Folder::open(path).unwrap().foreign().map(|found| (found.owner, found.open_to));
    for path in [theirs.clone(), theirs.join("mine")] {
        assert_eq!(path.metadata().unwrap().uid(), 0, "the server says that it is root's");
        assert_eq!(found(&path), Some((0, Some(Writers::Keeper(Keeper::Server)))));
    }
    // Of a server that root started.
    assert_eq!(found(&own.join("mine")), None);
    let out = theirs.join("mine/out").to_str().unwrap().to_owned();
    let export = ["trace", "export", "--to", "csv", &trace, "-o", &out];
    let run = shared.rig.fsage(&export);
    assert!(run.code == 2 && run.stderr.contains("whose server decides what is there"), "{run:?}");
    assert!(run.stderr.contains("--allow-foreign-owner"), "{run:?}");
    // The server makes no files: with consent it is asked to.
    let run = shared.rig.fsage(&[&export[..], &["--allow-foreign-owner"]].concat());
    assert!(run.code != 0 && !run.stderr.contains("decides"), "{run:?}");
    // Nor is what is leased written down there.
    let mut clean = shared.rig.command(&["clean"]);
    let run = Run::of(clean.env("FSAGE_RUNTIME_DIR", theirs.join("mine")));
    assert!(run.code != 0 && run.stderr.contains("is on a FUSE or network mount"), "{run:?}");
}

/// The mode shows a list's mask as the bits of the group, which may be root's.
#[test]
fn root_does_not_write_where_an_access_control_list_lets_others() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let trace = trace(&shared.rig);
    let folder = shared.rig.path("listed");
    std::fs::create_dir(&folder).unwrap();
    // Version 2: root's rwx, a user's rwx, the group's r-x, the mask rwx, others' r-x.
    let entries: [(u16, u16, u32); 5] = [(1, 7, !0), (2, 7, USER), (4, 5, !0), (16, 7, !0), (32, 5, !0)];
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(&folder, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!((mode(&folder), folder.metadata().unwrap().gid()), (0o775, 0));
    let out = folder.join("out").to_str().unwrap().to_owned();
    let run = shared.rig.fsage(&["trace", "export", "--to", "csv", &trace, "-o", &out]);
    assert!(run.code == 2 && run.stderr.contains("on its access control list"), "{run:?}");
    assert!(!Path::new(&out).exists());
}

/// Restores the image over a volume that is there; how it ended.
fn restore_over(shared: &Shared, volume: &str, more: &[&str]) -> Run {
    let image = shared.rig.text("image");
    shared.rig.fsage(&[&["image", "restore", &image, volume, "--erase", volume], more].concat())
}

#[test]
fn a_volume_is_not_restored_over_a_link_or_another_users_file() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    for name in ["volume", "precious"] {
        shared.rig.make(name, "64M", &["mkfs.ext4", "-q", "-L", name]);
    }
    shared.rig.save("volume", "image");
    let precious = shared.rig.path("precious");
    let before = std::fs::read(&precious).unwrap();
    plant(&precious, &shared.path("planted"));
    symlink(&precious, shared.path("own")).unwrap();
    for (name, length) in [("theirs", 64 << 20), ("empty", 0)] {
        std::fs::File::create(shared.path(name)).unwrap().set_len(length).unwrap();
        chown(shared.path(name), Some(USER), None).unwrap();
    }
    let theirs = "belongs to user 65534, and root would write there";
    for (name, why, hint) in [
        ("planted", "which is not written to", "name an ordinary file itself"),
        ("own", "which is not written to", "name an ordinary file itself"),
        ("theirs", theirs, "--allow-foreign-owner"),
        ("empty", theirs, "--allow-foreign-owner"),
    ] {
        let run = restore_over(&shared, &shared.text(name), &[]);
        assert!(std::fs::read(&precious).unwrap() == before, "{name}: root's volume was written to: {run:?}");
        assert!(run.code == 2 && run.stderr.contains(why) && run.stderr.contains(hint), "{name}: {run:?}");
    }
    assert_eq!(shared.path("empty").metadata().unwrap().len(), 0, "a refused file was made larger");
    assert!(std::fs::read(shared.path("theirs")).unwrap().iter().all(|byte| *byte == 0));
    // A second name is another's way to the same bytes.
    std::fs::hard_link(&precious, shared.path("second")).unwrap();
    let run = restore_over(&shared, &shared.text("second"), &[]);
    assert!(run.code == 2 && std::fs::read(&precious).unwrap() == before, "{run:?}");
    std::fs::remove_file(shared.path("second")).unwrap();
    let run = restore_over(&shared, &shared.text("theirs"), &["--allow-foreign-owner"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(restore_over(&shared, &shared.rig.text("precious"), &[]).code, 0);
    assert!(std::fs::read(&precious).unwrap() != before, "what is root's own is restored over");
    shared.rig.assert_nothing_left();
}

#[test]
fn a_restore_that_fails_leaves_an_empty_file_empty() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "64M", &["mkfs.ext4", "-q"]);
    rig.save("volume", "image");
    let point = rig.path("point");
    rig.run(&["mount", "-t", "tmpfs", "-o", "size=256k", "none", point.to_str().unwrap()]);
    let volume = point.join("volume");
    std::fs::File::create(&volume).unwrap();
    let volume_text = volume.to_str().unwrap();
    let run = rig.fsage(&["image", "restore", &rig.text("image"), volume_text, "--erase", volume_text]);
    assert!(run.code != 0 && run.stderr.contains("No space left"), "{run:?}");
    assert_eq!(volume.metadata().unwrap().len(), 0, "{run:?}");
}

#[test]
fn what_is_leased_is_not_made_through_a_planted_link_or_in_another_users_folder() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let inner = shared.rig.path("inner");
    std::fs::create_dir(&inner).unwrap();
    plant(&inner, &shared.path("way"));
    std::fs::create_dir(shared.path("theirs")).unwrap();
    chown(shared.path("theirs"), Some(USER), Some(USER)).unwrap();
    let mut journal = Journal::open(&shared.rig.path("run")).unwrap();
    for name in ["way", "theirs"] {
        let made = journal.make(Lease::Directory { path: shared.path(name).join("mounts/point") });
        assert!(made.is_err(), "{name}");
        assert_eq!(shared.path(name).read_dir().unwrap().count(), 0, "{name}: something was made there");
    }
    let own = shared.path("mounts/below/point");
    let ids = journal.make(Lease::Directory { path: own.clone() }).unwrap();
    assert_eq!((mode(&own), mode(own.parent().unwrap())), (0o700, 0o700));
    assert!(ids.is_some_and(|id| journal.release(id).is_ok()));
}
