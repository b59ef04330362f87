//! What goes wrong around the volume, through the `fsage` program: each fault ends with its exit code and a
//! way out, leaves nothing behind, and loses no complete trial.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{Scratch, can_mount};

const STUDY: &str = r#"
name = "faults"
title = "A small run that meets a fault"
question = "Does it end well?"
seed = 3

[volume]
kind = "loop"
size = "SIZE"
direct_io = false

[file_system]
kind = "KIND"

[[stage]]
kind = "age"
threads = 1
stop.operations = OPERATIONS
probe_every = 1000

[stage.workload]
kind = "drift"
slots = SLOTS
file_size = { kind = "uniform", min = "4KiB", max = "256KiB" }
io_size = { kind = "fixed", size = "64KiB" }
choice = { kind = "uniform" }
directories = { count = 10, fan_out = 4, depth = 2 }
fsync_probability = 0.02

[stage.workload.weights]
create = 6
append = 2
random_write = 2
delete = 1

[driver.befs]
mkfs = ["true", "{device}"]
"#;

struct Fault {
    scratch: Scratch,
    study: PathBuf,
    store: PathBuf,
}

impl Fault {
    /// `None` where nothing can be mounted.
    fn new(kind: &str, size: &str, operations: u64, slots: u64) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let scratch = Scratch::new();
        let study = scratch.path().join("faults.toml");
        let text = STUDY.replace("KIND", kind).replace("SIZE", size);
        let text = text.replace("OPERATIONS", &operations.to_string()).replace("SLOTS", &slots.to_string());
        std::fs::write(&study, text).unwrap();
        let store = scratch.path().join("store");
        Some(Self { scratch, study, store })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.scratch.path())
            .env("FSAGE_AGENT", support::agent())
            .env("FSAGE_RUNTIME_DIR", self.scratch.path().join("runtime"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_fsage"));
        command.arg("run").arg(&self.study).arg("--store").arg(&self.store).arg("--allow-commands");
        command
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), Vec::<String>::new());
        assert!(!self.store.join("volumes").exists(), "a volume file is left");
    }

    fn trial(&self) -> serde_json::Value {
        let trials = std::fs::read_dir(self.store.join("trials")).unwrap().flatten();
        let file = trials.map(|entry| entry.path().join("trial.json")).find(|path| path.is_file()).unwrap();
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }
}

/// Everything it said, for messages of assertions.
fn said(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn assert_ends(output: &Output, code: i32, parts: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

#[test]
fn a_missing_mkfs_names_its_package() {
    let Some(fault) = Fault::new("xfs", "320MiB", 100, 10) else { return };
    let Some(mkfs) = fsage_engine::host::tool::look_up("mkfs.xfs") else {
        support::skip("needs mkfs.xfs, to hide it");
        return;
    };
    // In a mount namespace of its own, a file that is no program hides mkfs.xfs.
    let cover = fault.scratch.path().join("cover");
    std::fs::write(&cover, "").unwrap();
    let hidden = mkfs.canonicalize().unwrap();
    let script = r#"mount --bind "$1" "$2" || exit 99; shift 2; exec "$@""#;
    let mut command = fault.command("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&cover).arg(&hidden);
    let run = fault.run();
    command.arg(run.get_program()).args(run.get_args());
    let output = command.output().unwrap();
    assert_ends(&output, 3, &["`mkfs.xfs` is not installed", "apt-get install xfsprogs"]);
    fault.assert_nothing_left();
}

#[test]
fn a_file_system_that_the_kernel_lacks_is_named() {
    let Some(fault) = Fault::new("befs", "64MiB", 100, 10) else { return };
    let output = fault.run().output().unwrap();
    assert_ends(&output, 3, &["the kernel has no file system `befs`", "modprobe befs"]);
    fault.assert_nothing_left();
}

#[test]
fn a_volume_that_fills_up_is_a_result() {
    let Some(fault) = Fault::new("ext4", "32MiB", 3000, 2000) else { return };
    let output = fault.run().output().unwrap();
    assert_ends(&output, 0, &[]);
    let trial = fault.trial();
    assert_eq!(trial["status"], "complete");
    assert_eq!(trial["check"], "clean");
    let text = trial["stages"].to_string();
    assert!(text.contains("ENOSPC"), "nothing ran out of space: {}", text.get(..2000).unwrap_or(&text));
    fault.assert_nothing_left();
}

#[test]
fn a_volume_too_small_for_its_file_system_is_refused_at_once() {
    let Some(fault) = Fault::new("xfs", "64MiB", 100, 10) else { return };
    let output = fault.run().output().unwrap();
    assert_ends(&output, 2, &["300MiB"]);
    assert!(!fault.store.exists());
}

#[test]
fn no_room_for_the_volume_is_said_before_it_is_made() {
    let Some(fault) = Fault::new("ext4", "4TiB", 100, 10) else { return };
    let output = fault.run().output().unwrap();
    assert_ends(&output, 3, &["a volume of 4TiB needs", "volume.directory"]);
    fault.assert_nothing_left();
}

#[test]
fn a_device_unplugged_under_the_load_fails_the_trial_and_no_more() {
    let Some(fault) = Fault::new("ext4", "128MiB", 40_000, 200) else { return };
    let mut child = fault.run().spawn().unwrap();
    let path = wait_for_volume(&fault.store);
    // The load has to be on its way.
    wait_until(|| allocated(&path) > 12 << 20);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        // Again and again: what is written makes it longer.
        file.set_len(0).unwrap();
        assert!(started.elapsed() < Duration::from_secs(60), "took {:?}", started.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(4 | 5)), "{}", said(&output));
    assert_eq!(fault.trial()["status"], "failed");
    fault.assert_nothing_left();
    // Running again tries it again, on another volume.
    let again = fault.run().output().unwrap();
    assert_ends(&again, 0, &[]);
    fault.assert_nothing_left();
}

#[test]
fn a_full_store_fails_cleanly() {
    let Some(mut fault) = Fault::new("ext4", "64MiB", 500, 50) else { return };
    let small = fault.scratch.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // tmpfs: mounted below the scratch folder, which unmounts it when it goes.
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&small).status();
    if !mount.is_ok_and(|status| status.success()) {
        support::skip("cannot mount tmpfs");
        return;
    }
    let volumes = fault.scratch.path().join("volumes");
    std::fs::create_dir(&volumes).unwrap();
    fault.store = small.join("store");
    std::fs::write(small.join("ballast"), vec![1; 216 << 10]).unwrap();
    let directory = format!("volume.directory={}", volumes.display());
    let output = fault.run().args(["--set", &directory]).output().unwrap();
    let text = said(&output);
    assert!(matches!(output.status.code(), Some(1..=4)), "{text}");
    assert!(text.contains("o space left"), "{text}");
    assert_eq!(volume_files(&volumes), Vec::<PathBuf>::new());
    std::fs::remove_file(small.join("ballast")).unwrap();
    Command::new("mount").args(["-o", "remount,size=64m"]).arg(&small).status().unwrap();
    let again = fault.run().args(["--set", &directory]).output().unwrap();
    assert_ends(&again, 0, &[]);
    assert_eq!(fault.trial()["status"], "complete");
}

fn volume_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "volume")).collect()
}

fn wait_for_volume(store: &Path) -> PathBuf {
    let mut found = None;
    wait_until(|| {
        found = volume_files(&store.join("volumes")).pop();
        found.is_some()
    });
    found.unwrap()
}

fn allocated(file: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(0, |metadata| metadata.blocks() * 512)
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}
