//! However a server ends, nobody hangs and nothing is left.

#![expect(clippy::unwrap_used, reason = "tests panic")]

mod export_rig;
mod server_rig;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fsage_disk::server::Settings;
use fsage_disk::server::client::{self, ClientError};
use fsage_sys::loopdev;
use rustix::process::Signal;

use export_rig::{Chance, skip};
use server_rig::{Disk, MIB, PROGRAM, is_root, text, within};

#[test]
fn told_to_end_while_in_use_it_ends_and_its_users_get_errors() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(64 * MIB);
    let device = disk.attach();
    disk.kill(Signal::TERM);
    disk.wait_for_end();
    let file = File::open(&device).unwrap();
    assert!(file.read_exact_at(&mut [0; 4096], 0).is_err());
    drop(file);
    drop(disk.device.take());
    assert!(!disk.place.is_mounted());
    client::clean(&disk.place).unwrap();
    disk.assert_gone();
}

#[test]
fn a_server_that_stands_still_can_be_cleaned_up() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(64 * MIB);
    let device = disk.attach();
    disk.kill(Signal::STOP);
    // The signal reaches one thread after the other.
    within("every thread's standing still", || disk.stands_still());
    let mut reader = Command::new("dd")
        .arg(format!("if={}", device.display()))
        .args(["of=/dev/null", "bs=4096", "count=1", "iflag=direct"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(reader.try_wait().unwrap().is_none(), "nobody answered, and yet it ended");
    client::clean(&disk.place).unwrap();
    within("the reader's end", || reader.try_wait().unwrap().is_some_and(|status| !status.success()));
    drop(disk.device.take());
    disk.assert_gone();
}

/// Writes files and flushes them until something fails.
fn load(point: &Path, number: u32) -> Child {
    let script = r#"i=0; while :; do
        dd if=/dev/urandom of="$0/$1.$((i % 30))" bs=64k count=$((1 + i % 40)) conv=fsync 2>/dev/null || exit 1
        i=$((i + 1)); done"#;
    Command::new("sh").arg("-c").arg(script).arg(point).arg(number.to_string()).spawn().unwrap()
}

/// `FSAGE_KILLS` rounds, a few by default.
#[test]
fn a_killed_server_takes_nobody_with_it() {
    if !is_root() {
        return;
    }
    let rounds = std::env::var("FSAGE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut chance = Chance::new(u64::from(std::process::id()));
    for round in 0..rounds {
        let after = Duration::from_millis(chance.below(1500));
        kill_under_load(&format!("round {round}, killed after {after:?}"), after);
    }
}

fn kill_under_load(name: &str, after: Duration) {
    let (mut disk, point) = Disk::with_ext4(256 * MIB);
    let mut loads: Vec<Child> = (0..3).map(|number| load(&point, number)).collect();
    std::thread::sleep(after);
    disk.kill(Signal::KILL);
    disk.wait_for_end();
    // Whatever a load is waiting for must fail. What only writes to the page cache may continue until it
    // flushes.
    for load in &mut loads {
        within(&format!("{name}: the load's end"), || load.try_wait().unwrap().is_some());
    }
    disk.unmount();
    let device = disk.device.take().unwrap();
    let attached = Path::new("/sys/block").join(device.path.file_name().unwrap()).join("loop/backing_file");
    assert!(attached.exists());
    // Nobody can ask for the dead one's file, but it is found by name, and in nobody's way.
    assert_eq!(loopdev::by_backing_file(&disk.place.file()).unwrap(), std::slice::from_ref(&device.path));
    let other = tempfile::NamedTempFile::new().unwrap();
    assert!(loopdev::by_backing_file(other.path()).unwrap().is_empty());
    drop(device);
    within("detaching", || !attached.exists());
    client::clean(&disk.place).unwrap();
    disk.assert_gone();
}

/// A control group with a memory limit, of whatever version there is. Removed when dropped.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    fn new(limit_bytes: u64) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("fsage-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        for (root, file) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
        ] {
            let group = Path::new(root).join(&name);
            if !Path::new(root).join("cgroup.procs").exists() || fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            if fs::write(group.0.join(file), limit_bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        skip::skip("no memory controller that we may use");
        None
    }

    /// Runs a shell command in it.
    fn run(&self, script: &str, arguments: &[&Path]) -> Child {
        let script = format!("echo $$ > {}/cgroup.procs && {script}", self.0.display());
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("sh").args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_load_short_of_memory_does_not_wait_for_itself() {
    if !is_root() {
        return;
    }
    let Some(group) = LimitedGroup::new(48 * MIB) else { return };
    let (mut disk, point) = Disk::with_ext4(512 * MIB);
    // Six times what the group may hold, so that its dirty pages must be written back while it writes.
    let mut load =
        group.run(r#"exec dd if=/dev/urandom of="$1" bs=1M count=288 conv=fsync"#, &[&point.join("file")]);
    within("the load's end", || load.try_wait().unwrap().is_some());
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    disk.unmount();
    drop(disk.device.take());
    client::down(&disk.place).unwrap();
    disk.assert_gone();
}

#[test]
fn a_server_in_a_limited_group_is_refused() {
    if !is_root() {
        return;
    }
    let Some(group) = LimitedGroup::new(256 * MIB) else { return };
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let script = r#"exec "$1" up --directory "$2" --size 67108864 --medium ram"#;
    let mut up = group.run(script, &[Path::new(PROGRAM), &directory]);
    within("the refusal", || up.try_wait().unwrap().is_some());
    let output = up.wait_with_output().unwrap();
    let reported = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{reported}");
    assert!(reported.contains(group.0.to_str().unwrap()) && reported.contains("cgroup.procs"), "{reported}");
    assert!(!directory.exists());
}

#[test]
fn a_second_server_in_a_directory_is_refused_and_a_dead_ones_remains_are_taken_over() {
    if !is_root() {
        return;
    }
    let disk = Disk::up(4 * MIB);
    let settings = Settings::new(disk.place.directory().to_owned(), 8 * MIB, "ram");
    let refused = client::up(Path::new(PROGRAM), &settings).unwrap_err();
    assert!(matches!(refused, ClientError::AlreadyUp { pid, .. } if pid == disk.ready.pid), "{refused:?}");
    disk.kill(Signal::KILL);
    disk.wait_for_end();
    assert!(disk.place.is_mounted());
    let second = client::up(Path::new(PROGRAM), &settings).unwrap();
    assert_eq!(fs::metadata(&second.file).unwrap().len(), 8 * MIB);
    client::down(&disk.place).unwrap();
    disk.assert_gone();
}
