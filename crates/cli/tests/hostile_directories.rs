//! What works in a directory as root changes nothing elsewhere, however another user prepared it: ageing,
//! replaying, measuring.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod image_rig;
mod shared_rig;

use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::Command;
use std::time::Duration;

use cli_support::{FSAGE, Run, root};
use fsage_engine::disk::Clock;
use fsage_engine::executor::{Executor, ExecutorOptions, WriteBack};
use fsage_model::load::WriteMode;
use fsage_model::operation::{Action, DirectoryEntry, Operation};
use shared_rig::{Shared, USER, plant, trace};

#[test]
fn a_fifo_in_the_place_of_an_aged_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("t00");
    std::fs::create_dir(&top).unwrap();
    let open = std::fs::File::open(folder.path()).unwrap();
    let (done, doing) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let options = ExecutorOptions {
            write_mode: WriteMode::Buffered,
            in_place: true,
            open_directories: 8,
            write_back: WriteBack::Kernel,
            pause: Duration::ZERO,
            burst: 1,
        };
        let mut executor = Executor::open(open.as_fd(), 0, options, Clock::Host).unwrap();
        let place = DirectoryEntry { directory: 0, name: 1 };
        let action = Action::Create { length: 4096 };
        let made = Operation { action, file: 1, place, size: 0, version: 1 };
        assert_eq!(executor.execute(&made).outcome.errno, 0);
        let file = top.read_dir().unwrap().next().unwrap().unwrap().path();
        std::fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        for action in [
            Action::Append { offset: 0, length: 4096 },
            Action::Overwrite,
            Action::Read { length: 4096 },
            Action::Truncate { new_size: 0 },
            Action::Fsync,
        ] {
            let operation = Operation { action, size: 4096, ..made };
            done.send((action.kind(), executor.execute(&operation).outcome.errno)).unwrap();
        }
    });
    for _ in 0..5 {
        let (kind, errno) = doing.recv_timeout(Duration::from_secs(20)).expect("it waits for the FIFO");
        assert_ne!(errno, 0, "{kind:?}");
    }
}

#[test]
fn root_changes_no_directory_of_another_user_and_none_behind_a_planted_link() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let (trace, inner, theirs) = (trace(&shared.rig), shared.rig.path("inner"), shared.path("theirs"));
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("file"), "x").unwrap();
    plant(&inner, &shared.path("way"));
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("file"), "x").unwrap();
    chown(&theirs, Some(USER), Some(USER)).unwrap();
    let changing = |directory: &str| {
        let words = [
            &["age", directory, "--operations", "5"][..],
            &["replay", &trace, directory, "--state", &shared.rig.text("state")],
            &["measure", "create", directory, "--no-requests", "--set", "files=4"],
            &["measure", "append", directory, "--no-requests", "--yes-change-files"],
            &["measure", "fio", directory, "--no-requests"],
        ];
        words.map(|words| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    };
    let run = |words: &[String], more: &[&str]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        shared.rig.fsage(&[&words[..], more].concat())
    };
    for words in changing(&shared.text("way")) {
        let run = run(&words, &[]);
        assert_eq!(inner.read_dir().unwrap().count(), 1, "{words:?}: {run:?}");
        assert!(run.code != 0 && run.stderr.contains("is a link that user 65534 made"), "{words:?}: {run:?}");
    }
    for words in changing(theirs.to_str().unwrap()) {
        let run = run(&words, &[]);
        assert_eq!(theirs.read_dir().unwrap().count(), 1, "{words:?}: {run:?}");
        let said =
            run.stderr.contains("belongs to user 65534") && run.stderr.contains("--allow-foreign-owner");
        assert!(run.code == 2 && said, "{words:?}: {run:?}");
    }
    // Anyone makes a folder in a sticky one, also under the name of a thread's.
    let sticky = shared.path("sticky");
    std::fs::create_dir(&sticky).unwrap();
    std::fs::set_permissions(&sticky, PermissionsExt::from_mode(0o1777)).unwrap();
    std::fs::create_dir(sticky.join("t00")).unwrap();
    chown(sticky.join("t00"), Some(USER), Some(USER)).unwrap();
    let aged = shared.rig.fsage(&["age", &shared.text("sticky"), "--operations", "5"]);
    assert!(aged.code == 2 && aged.stderr.contains("t00"), "{aged:?}");
    assert_eq!(sticky.join("t00").read_dir().unwrap().count(), 0, "{aged:?}");
    // What only reads may read everywhere, and root does what is asked.
    for directory in [shared.text("way"), shared.text("theirs")] {
        let run = shared.rig.fsage(&["scan", &directory]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    for words in &changing(theirs.to_str().unwrap())[..3] {
        let run = run(words, &["--allow-foreign-owner"]);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
        let _ = std::fs::remove_dir_all(theirs.join("t00"));
    }
    // A link of root's own is a way as any other.
    symlink(&inner, shared.rig.path("own")).unwrap();
    let run = shared.rig.fsage(&["age", &shared.rig.text("own"), "--operations", "5"]);
    assert_eq!(run.code, 0, "{run:?}");
}

/// A fio before which another user puts a folder of his in the place of the one that was made for it.
const SWAPPED_FIO: &str = r#"#!/bin/sh
case "$*" in *--directory=*) ;; *) echo fio-3.33; exit ;; esac
for word; do case "$word" in --directory=*) to="${word#--directory=}" ;; esac; done
mv "$MEASURED/fsage-measure" "$MEASURED/away" && mv "$MEASURED/theirs" "$MEASURED/fsage-measure" || exit 9
echo overwritten > "$to/x.0.0"
ls "$MEASURED/away" > "$MEASURED/../seen"
echo '{"fio version":"fio-3.33","jobs":[{"jobname":"x","error":0,"write":{"total_ios":2,"io_bytes":8192,"bw":8,"runtime":1000,"clat_ns":{"mean":5.0}}}]}'
"#;

#[test]
fn fio_works_in_the_folder_that_was_made_for_it_whatever_has_its_name() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let (measured, tools) = (shared.path("measured"), shared.rig.path("tools"));
    std::fs::create_dir_all(measured.join("theirs")).unwrap();
    plant(&shared.rig.path("victim"), &measured.join("theirs/x.0.0"));
    for path in [&measured, &measured.join("theirs")] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("fio"), SWAPPED_FIO).unwrap();
    std::fs::set_permissions(tools.join("fio"), PermissionsExt::from_mode(0o755)).unwrap();
    let words = ["measure", "fio", measured.to_str().unwrap(), "--no-requests", "--allow-foreign-owner"];
    let mut command = shared.rig.command(&words);
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let run = Run::of(command.env("PATH", path).env("MEASURED", &measured));
    shared.assert_unharmed("fio");
    let seen = std::fs::read_to_string(shared.path("seen"));
    assert_eq!(seen.ok().as_deref(), Some("x.0.0\n"), "{run:?}");
    assert!(measured.join("fsage-measure/x.0.0").is_symlink(), "what is another's is not removed: {run:?}");
    assert_eq!(measured.join("away").read_dir().unwrap().count(), 0, "what was written is removed: {run:?}");
    assert!(run.code != 0 && run.stderr.contains("cannot remove"), "{run:?}");
}

#[test]
fn a_replay_neither_waits_for_nor_believes_a_state_file_of_another_user() {
    if !root() {
        return;
    }
    let shared = Shared::new();
    let (trace, tree) = (trace(&shared.rig), shared.rig.path("tree"));
    std::fs::create_dir(&tree).unwrap();
    let aged = shared.rig.fsage(&["age", tree.to_str().unwrap(), "--operations", "20"]);
    assert_eq!(aged.code, 0, "{aged:?}");
    let files = || std::fs::read_dir(tree.join("t00")).unwrap().count();
    let before = files();
    // Well formed, of a user who wants the load's tree removed.
    std::fs::write(shared.path("state"), format!("{:<4160}", "{\"format\":1}")).unwrap();
    chown(shared.path("state"), Some(USER), Some(USER)).unwrap();
    // Root's own, but anybody may write it.
    std::fs::write(shared.path("open"), format!("{:<4160}", "{\"format\":1}")).unwrap();
    std::fs::set_permissions(shared.path("open"), PermissionsExt::from_mode(0o666)).unwrap();
    shared.rig.run(&["mkfifo", &shared.text("pipe")]);
    shared.plant("link");
    let tree = tree.to_str().unwrap();
    for (name, why) in [
        ("state", "belongs to user 65534"),
        ("open", "another user could have written it"),
        ("pipe", "not written to"),
        ("link", "not written to"),
    ] {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", FSAGE, "replay", &trace, tree, "--resume", "--state"]);
        let run = Run::of(command.arg(shared.path(name)).env_remove("SUDO_UID"));
        assert!(run.code > 0 && run.stderr.contains(why), "{name}: {run:?}");
        assert_eq!(files(), before, "{name}: {run:?}");
    }
    shared.assert_unharmed("link");
    // The default place of the state, in a directory of root's own.
    shared.rig.run(&["mkfifo", &format!("{tree}/.fsage-replay")]);
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", FSAGE, "replay", &trace, tree]).env_remove("SUDO_UID");
    let run = Run::of(&mut command);
    assert!(run.code > 0 && run.stderr.contains("not written to"), "{run:?}");
    assert_eq!(files(), before, "{run:?}");
}
