//! What several integration tests need: the agent, volumes that go away by themselves, helper processes.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

#[path = "../../../sys/tests/support/skip.rs"]
mod skip;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use skip::skip;

use fsage_engine::host::{loopback, mount};

/// Builds the agent and the disk server beside it (testing one package does not build the programs of
/// another) and returns the agent's path.
pub fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        if let Some(named) = std::env::var_os("FSAGE_AGENT") {
            return PathBuf::from(named);
        }
        let folder = Path::new(env!("CARGO_BIN_EXE_fsage")).parent().unwrap();
        let path = folder.join("fsage-agent");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "fsage-engine", "-p", "fsage-disk"]);
        cargo.args(["--bin", "fsage-agent", "--bin", "fsage-disk"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        assert!(status.success() && path.is_file(), "{} was not built", path.display());
        path
    })
}

/// A folder whose mounts and loop devices are released when it goes, whatever the test did.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: tempfile::Builder::new().prefix("fsage-test-").tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Mounts and loop devices that lie below the folder: what must not be left behind.
    pub fn left_behind(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in mount::table() {
            if entry.point.starts_with(self.path()) {
                found.push(format!("mount {}", entry.point.display()));
            }
        }
        for (device, file) in loops() {
            if Path::new(&file).starts_with(self.path()) {
                found.push(format!("{device} over {file}"));
            }
        }
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for entry in mount::table().iter().rev().filter(|entry| entry.point.starts_with(self.path())) {
            let _ = mount::unmount(&entry.point);
        }
        for (_, file) in loops() {
            let file = file.trim_end_matches(" (deleted)");
            if Path::new(file).starts_with(self.path()) {
                let _ = loopback::detach(Path::new(file));
            }
        }
    }
}

/// Every attached loop device and its backing file as the kernel names it.
pub fn loops() -> Vec<(String, String)> {
    let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), file.trim().to_owned()))
        })
        .collect()
}

/// Whether tests that mount can run; says why when not.
pub fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("needs root");
    }
    root
}

/// Whether virtual disks can be served here.
pub fn can_serve_disks() -> bool {
    let there = Path::new("/dev/fuse").exists();
    if !there {
        skip("virtual disks need /dev/fuse");
    }
    there
}

/// Runs one test of this binary in a process of its own, so that it can be killed: the test finds
/// `FSAGE_TEST_HELPER` set. Waits until it prints `ready`.
pub fn helper(test: &str, argument: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("FSAGE_TEST_HELPER", argument).env("FSAGE_AGENT", agent()).stdout(Stdio::piped());
    // It must not outlive a test that fails.
    fsage_sys::process::die_with_parent(&mut command);
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            panic!("the helper {test} ended: {:?}", child.wait());
        }
    }
    // Whatever it prints from now on goes nowhere.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    child
}

/// The argument of [`helper`], in the helper.
pub fn helper_argument() -> Option<PathBuf> {
    std::env::var_os("FSAGE_TEST_HELPER").map(PathBuf::from)
}

/// Says that the helper is ready and waits to be killed.
pub fn ready_to_be_killed() -> ! {
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// What settings of the host are while no other fsage holds them: tests of another lane change them too. The first one is the mask
/// of the processors of workqueues, which names every processor then. On a host where it never does, what it is after a while.
pub fn at_rest(read: impl Fn() -> Vec<String>) -> Vec<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let all = |mask: &str| {
        let digits = mask.chars().filter_map(|digit| digit.to_digit(16));
        digits.map(|digit| digit.count_ones()).sum::<u32>() >= u32::try_from(processors).unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = read();
        if all(&now[0]) || Instant::now() >= deadline {
            return now;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// They come back to what they were, when other lanes' tests have ended what they do.
pub fn comes_back(read: impl Fn() -> Vec<String>, before: &[String]) {
    wait_for(&format!("the host's settings to be {before:?}"), || read() == before);
}

/// Below the ports that the kernel itself chooses (`ip_local_port_range`, ip(7): from 32768 on): one of those can
/// become another test's before a server that was given it has begun.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// A port of this host that no server has. It is never the same twice in a process, and hardly ever in two
/// processes.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let ports = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(7919) % ports;
    loop {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        assert!(asked < ports, "no port of {PORTS:?} is free");
        let port = PORTS.start + u16::try_from((first + asked) % ports).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
