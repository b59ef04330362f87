//! The server as a process of its own: its life, and that nobody hangs and nothing is left however it ends.

#![expect(clippy::unwrap_used, reason = "tests panic")]

mod export_rig;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[cfg(feature = "ublk")]
use fsage_disk::export::ublk::Device;
use fsage_disk::log::file::Reader;
use fsage_disk::log::stream::{Item, Source as _};
use fsage_disk::request::Operation;
use fsage_disk::server::client::{self, ClientError};
use fsage_disk::server::{ServerDirectory, Settings, is_alive};
use fsage_model::disk::{ProcessRecord, Ready};
use fsage_sys::{loopdev, mount};
use rustix::process::{Pid, Signal, kill_process};

use export_rig::{Chance, Client as _, LoopDevice, skip};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fsage-disk");
const MIB: u64 = 1 << 20;
/// Nothing that must not hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip::skip("mounting needs root");
    }
    root
}

/// A server in a temporary directory, and what stands on its disk. All of it goes when dropped, however the
/// test ended.
struct Disk {
    ready: Ready,
    place: ServerDirectory,
    mounted: Option<PathBuf>,
    // Before the folder, so that it is detached first.
    device: Option<LoopDevice>,
    folder: tempfile::TempDir,
}

impl Disk {
    fn up(size_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::new(folder.path().join("server"), size_bytes, "ram");
        let ready = client::up(Path::new(PROGRAM), &settings).unwrap();
        let place = ServerDirectory::new(&settings.directory);
        Self { ready, place, mounted: None, device: None, folder }
    }

    fn attach(&mut self) -> PathBuf {
        let device = LoopDevice::attach(&self.ready.file);
        let path = device.path.clone();
        self.device = Some(device);
        path
    }

    /// With an ext4 on it.
    fn with_ext4(size_bytes: u64) -> (Self, PathBuf) {
        let mut disk = Self::up(size_bytes);
        let device = disk.attach();
        let options = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        assert!(Command::new("mkfs.ext4").args(options).arg(&device).status().unwrap().success());
        let point = disk.folder.path().join("ext4");
        fs::create_dir(&point).unwrap();
        mount::mount(&device, &point, "ext4", &[]).unwrap();
        disk.mounted = Some(point.clone());
        (disk, point)
    }

    fn kill(&self, signal: Signal) {
        let pid = Pid::from_raw(self.ready.pid.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Whether each of the server's threads is stopped (`proc_pid_stat(5)`: state `T`).
    fn stands_still(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.ready.pid)).unwrap();
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    fn is_alive(&self) -> bool {
        is_alive(&ProcessRecord { pid: self.ready.pid, start_ticks: self.ready.start_ticks })
    }

    fn wait_for_end(&self) {
        within("the server ends", || !self.is_alive());
    }

    fn unmount(&mut self) {
        let point = self.mounted.take().unwrap();
        within("unmounting", || mount::unmount(&point).is_ok());
    }

    /// That nothing of it is left.
    fn assert_gone(&self) {
        let left: Vec<_> = fs::read_dir(self.place.directory()).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.place.is_mounted());
        assert!(!self.is_alive());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(point) = self.mounted.take() {
            let _ = mount::unmount(&point).or_else(|_| mount::unmount_lazily(&point));
        }
        drop(self.device.take());
        let cleaned = client::clean(&self.place);
        if !std::thread::panicking() {
            cleaned.unwrap();
        }
    }
}

fn within(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{what} took more than {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn fsage_disk(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_disk_goes_up_serves_and_goes_down() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let directory = directory.to_str().unwrap();
    let up = fsage_disk(&["up", "--directory", directory, "--size", "67108864", "--medium", "ram"]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let ready: Ready = serde_json::from_slice(&up.stdout).unwrap();
    let place = ServerDirectory::new(Path::new(directory));
    let mut disk = Disk { ready, place, mounted: None, device: None, folder };
    assert_eq!(fs::metadata(&disk.ready.file).unwrap().len(), 64 * MIB);
    let recorded = disk.place.process().unwrap().unwrap();
    assert_eq!((recorded.pid, recorded.start_ticks), (disk.ready.pid, disk.ready.start_ticks));

    let again = fsage_disk(&["up", "--directory", directory, "--size", "67108864", "--medium", "ram"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is up in"), "{}", text(&again.stderr));

    let device = disk.attach();
    let mut data = vec![0; 1 << 20];
    Chance::new(3).fill(&mut data);
    let file = File::options().read(true).write(true).open(&device).unwrap();
    file.write_all_at(&data, 5 * MIB).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let stat = fsage_disk(&["stat", "--directory", directory]);
    let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
    assert_eq!(stat["disk"]["size_bytes"], 64 * MIB);
    assert_eq!(stat["disk"]["requests"]["write"]["bytes"], MIB);
    assert_eq!(stat["process"]["pid"], disk.ready.pid);

    let refused = fsage_disk(&["down", "--directory", directory]);
    assert_eq!(refused.status.code(), Some(1));
    let reported = text(&refused.stderr);
    assert!(reported.contains("in use") && reported.contains("hint: "), "{reported}");
    drop(disk.device.take());
    let down = fsage_disk(&["down", "--directory", directory]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    disk.assert_gone();
    let not_up = fsage_disk(&["stat", "--directory", directory]);
    assert!(text(&not_up.stderr).contains("no disk is up"), "{}", text(&not_up.stderr));
}

#[cfg(not(feature = "ublk"))]
#[test]
fn a_build_without_ublk_says_so() {
    let up =
        fsage_disk(&["up", "--directory", "/d", "--size", "67108864", "--medium", "ram", "--export", "ublk"]);
    assert_eq!(up.status.code(), Some(2));
    assert!(text(&up.stderr).contains("--features ublk"), "{}", text(&up.stderr));
}

#[cfg(feature = "ublk")]
#[test]
fn a_kernel_without_ublk_says_what_to_do() {
    if Device::available() {
        skip::skip("this kernel has ublk");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let words = ["--size", "67108864", "--medium", "hdd-7200", "--export", "ublk"];
    let up = fsage_disk(&[&["up", "--directory", directory.to_str().unwrap()], &words[..]].concat());
    assert_eq!(up.status.code(), Some(1));
    let reported = text(&up.stderr);
    assert!(
        reported.contains("error: ublk: this kernel has no ublk: there is no /dev/ublk-control\n"),
        "{reported}"
    );
    for needed in ["hint: ", "modprobe ublk_drv", "6.0", "CONFIG_BLK_DEV_UBLK", "export fuse"] {
        assert!(reported.contains(needed), "{reported}");
    }
    assert!(up.stdout.is_empty());
    assert!(!directory.exists());
}

#[test]
fn a_disk_is_a_network_block_device_too() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let words = ["--size", "67108864", "--medium", "ram", "--nbd", "on"];
    let up = fsage_disk(&[&["up", "--directory", directory.to_str().unwrap()], &words[..]].concat());
    assert!(up.status.success(), "{}", text(&up.stderr));
    let ready: Ready = serde_json::from_slice(&up.stdout).unwrap();
    let socket = ready.nbd.clone().unwrap();
    let disk = Disk { ready, place: ServerDirectory::new(&directory), mounted: None, device: None, folder };
    assert_eq!(socket, disk.place.nbd());
    let mut client = UnixStream::connect(&socket).unwrap();
    // The empty name, and a write of a block of ones at 8192.
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut request = b"\x25\x60\x95\x13\0\0\0\x01COOKIES!\0\0\0\0\0\0\x20\0\0\0\x10\0".to_vec();
    request.resize(28 + 4096, 1);
    client.write_all(&request).unwrap();
    let mut answers = [0; 28 + 16];
    client.read_exact(&mut answers).unwrap();
    assert_eq!(answers[28..], *b"\x67\x44\x66\x98\0\0\0\0COOKIES!");
    // What one way wrote, the other reads.
    let mut data = [0; 4096];
    File::open(&disk.ready.file).unwrap().read_exact_at(&mut data, 8192).unwrap();
    assert_eq!(data, [1; 4096]);
    let stat = client::stat(&disk.place).unwrap();
    assert_eq!((stat.nbd_clients, stat.disk.requests.write.bytes), (Some(1), 4096));
    match client::down(&disk.place) {
        Err(ClientError::Refused { error, hint }) => {
            assert!(error.contains("in use") && hint.unwrap().contains("NBD"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    drop(client);
    within("the server notices", || client::stat(&disk.place).unwrap().nbd_clients == Some(0));
    client::down(&disk.place).unwrap();
    disk.assert_gone();
}

#[test]
fn a_disk_that_cannot_be_made_is_told_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    for (size, medium, reported) in [
        ("67108864", "cheese", "medium"),
        ("67108864", "{", "medium"),
        ("5000", "ram", "no multiple"),
        ("0", "ram", "cannot make the disk"),
        ("36893488147419103232", "ram", "whole number"),
    ] {
        let up = fsage_disk(&[
            "up",
            "--directory",
            directory.to_str().unwrap(),
            "--size",
            size,
            "--medium",
            medium,
        ]);
        assert!(!up.status.success());
        assert!(text(&up.stderr).contains(reported), "{size} {medium}: {}", text(&up.stderr));
        assert!(!directory.exists(), "{size} {medium}");
    }
}

#[test]
fn questions_that_are_none_are_answered_with_an_error() {
    if !is_root() {
        return;
    }
    let disk = Disk::up(4 * MIB);
    for question in ["", "stat", r#"{"command":"fly"}"#, "\u{0}\u{0}"] {
        let mut stream = UnixStream::connect(&disk.ready.control).unwrap();
        stream.write_all(format!("{question}\n").as_bytes()).unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        assert!(answer.contains("\"error\""), "{question}: {answer}");
    }
    // Nor does one who says nothing and goes away.
    drop(UnixStream::connect(&disk.ready.control).unwrap());
    assert_eq!(client::stat(&disk.place).unwrap().disk.size_bytes, 4 * MIB);
}

/// Asks by the command line.
fn asked(disk: &Disk, question: &str) -> Result<serde_json::Value, String> {
    let output = fsage_disk(&["ask", "--directory", disk.place.directory().to_str().unwrap(), question]);
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    } else {
        Err(text(&output.stderr))
    }
}

#[test]
fn snapshots_give_back_what_they_keep() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(4 * MIB);
    let device = disk.attach();
    let direct = disk.device.as_ref().unwrap();
    direct.write(0, &[1; 4096]);
    let kept = asked(&disk, r#"{"command":"snapshot"}"#).unwrap()["snapshot"].clone();
    direct.write(0, &[2; 4096]);
    asked(&disk, &format!(r#"{{"command":"revert","snapshot":{kept}}}"#)).unwrap();
    let mut data = [0; 4096];
    direct.read(0, &mut data);
    assert_eq!(data, [1; 4096], "{}", device.display());
    asked(&disk, &format!(r#"{{"command":"delete-snapshot","snapshot":{kept}}}"#)).unwrap();
    let gone = asked(&disk, &format!(r#"{{"command":"revert","snapshot":{kept}}}"#)).unwrap_err();
    assert!(gone.contains("error: "), "{gone}");
}

#[test]
fn a_log_is_saved_while_requests_go_on() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(8 * MIB);
    disk.attach();
    let file = disk.folder.path().join("log");
    let save = format!(r#"{{"command":"save-log","file":"{}"}}"#, file.display());
    let refused = asked(&disk, &save).unwrap_err();
    assert!(refused.contains("keeps no log") && !file.exists(), "{refused}");
    asked(&disk, r#"{"command":"start-log"}"#).unwrap();
    let direct = disk.device.as_ref().unwrap();
    let mut data = vec![0; 8192];
    for round in 0..200_u64 {
        Chance::new(round).fill(&mut data);
        direct.write(round * 8192, &data);
    }
    direct.flush();
    asked(&disk, r#"{"command":"mark","name":"half"}"#).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200_u64 {
                direct.write(round * 8192, &[9; 8192]);
            }
        });
        let saved = asked(&disk, &save).unwrap();
        assert_eq!(saved["marks"], 1);
        writer.join().unwrap();
    });
    let mut reader = Reader::new(File::open(&file).unwrap()).unwrap();
    let (mut bytes, mut writes) = (Vec::new(), 0);
    while let Some(item) = reader.next_item(&mut bytes).unwrap() {
        let Item::Entry(entry) = item else { break };
        if entry.request.operation == Operation::Write {
            Chance::new(writes).fill(&mut data);
            assert_eq!(entry.request.offset_bytes, writes * 8192);
            assert!(bytes == data, "write {writes}");
            writes += 1;
        }
    }
    assert_eq!(writes, 200);
    asked(&disk, r#"{"command":"end-log"}"#).unwrap();
    assert!(asked(&disk, r#"{"command":"end-log"}"#).unwrap_err().contains("keeps no log"));
}

#[test]
fn faults_strike_and_are_taken_out_again() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(4 * MIB);
    disk.attach();
    let direct = disk.device.as_ref().unwrap();
    direct.write(0, &[7; 8192]);
    let faults =
        r#"{"command":"set-faults","faults":{"read_error":[{"offset_bytes":4096,"length_bytes":4096}]}}"#;
    asked(&disk, faults).unwrap();
    let file = File::options().read(true).open(&direct.path).unwrap();
    let mut data = [0; 4096];
    assert!(file.read_exact_at(&mut data, 4096).is_err());
    asked(&disk, r#"{"command":"clear-faults"}"#).unwrap();
    file.read_exact_at(&mut data, 4096).unwrap();
    assert_eq!(data, [7; 4096]);
    let wrong = r#"{"command":"set-faults","faults":{"read_error":[{"rate":7.0}]}}"#;
    assert!(asked(&disk, wrong).unwrap_err().contains("hint: "));
}

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
