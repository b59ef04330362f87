//! What another user put into, or beside, the directory of a server must not make root's fsage do anything.

#![expect(clippy::unwrap_used, reason = "tests panic")]

mod export_rig;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use export_rig::skip;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fsage-disk");
/// The user `nobody` of Debian.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip::skip("files of other users need root");
    }
    root
}

fn fsage_disk(command: &str, directory: &Path) -> Output {
    let mut program = Command::new(PROGRAM);
    program.arg(command).arg("--directory").arg(directory).stdin(Stdio::null());
    if command == "up" {
        program.args(["--size", "1048576", "--medium", "ram"]);
    }
    program.output().unwrap()
}

/// A process that sleeps, ended when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    /// What a server would have written down of it.
    fn record(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let ticks = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
        format!("{{\"pid\":{},\"start_ticks\":{ticks}}}", self.0.id())
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_process_that_a_stranger_wrote_down_is_not_killed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut sleeper = Sleeper::new();
    // The whole directory is a stranger's.
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("pid"), sleeper.record()).unwrap();
    chown(theirs.join("pid"), Some(NOBODY), None).unwrap();
    chown(&theirs, Some(NOBODY), None).unwrap();
    let cleaned = fsage_disk("clean", &theirs);
    assert!(!cleaned.status.success() && error(&cleaned).contains("user 65534"), "{}", error(&cleaned));
    assert!(sleeper.is_alive() && theirs.join("pid").exists());
    // Anybody may write to it.
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::write(open.join("pid"), sleeper.record()).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!fsage_disk("clean", &open).status.success());
    assert!(sleeper.is_alive());
}

#[test]
fn a_process_that_is_no_server_of_the_directory_is_not_killed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut sleeper = Sleeper::new();
    let pid = folder.path().join("pid");
    // Ours, but it names something else: a number that was given again, or a mistake.
    fs::write(&pid, sleeper.record()).unwrap();
    assert!(fsage_disk("clean", folder.path()).status.success());
    assert!(sleeper.is_alive() && !pid.exists());
    // Only the file is a stranger's, or may be written by one, or is a link.
    let planted = folder.path().join("planted");
    fs::write(&planted, sleeper.record()).unwrap();
    for plant in [
        |pid: &Path, planted: &Path| {
            fs::copy(planted, pid).unwrap();
            chown(pid, Some(NOBODY), None).unwrap();
        },
        |pid: &Path, planted: &Path| {
            fs::copy(planted, pid).unwrap();
            fs::set_permissions(pid, fs::Permissions::from_mode(0o666)).unwrap();
        },
        |pid: &Path, planted: &Path| symlink(planted, pid).unwrap(),
    ] {
        plant(&pid, &planted);
        assert!(fsage_disk("clean", folder.path()).status.success());
        assert!(sleeper.is_alive() && !pid.exists() && planted.exists());
    }
}

#[test]
fn no_disk_comes_up_where_a_stranger_writes() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(NOBODY), None).unwrap();
    for directory in [theirs.clone(), theirs.join("below")] {
        let up = fsage_disk("up", &directory);
        assert!(!up.status.success() && error(&up).contains("user 65534"), "{}", error(&up));
        assert!(error(&up).contains("--allow-foreign-owner"), "{}", error(&up));
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
fn a_planted_record_of_the_kernels_switch_is_not_followed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (directory, secret) = (folder.path().join("server"), folder.path().join("secret"));
    fs::create_dir(&directory).unwrap();
    fs::write(&secret, "Y").unwrap();
    symlink(&secret, directory.join("enable_uring")).unwrap();
    let cleaned = fsage_disk("clean", &directory);
    assert!(!cleaned.status.success() && error(&cleaned).contains("symbolic link"), "{}", error(&cleaned));
    assert_eq!(fs::read_to_string(&secret).unwrap(), "Y");
}
