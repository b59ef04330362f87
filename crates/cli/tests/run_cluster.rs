//! Guests that share a disk of this host: OCFS2 on two of them, beside a local file system on one.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod guest_rig;
mod lab;
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsage_disk::server::{ServerDirectory, client};
use fsage_model::cluster::{ClusterRecord, FileSet, HostLoad};
use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};
use guest_rig::cache;
use rustix::process::{Pid, Signal, kill_process};
use support::skip;

const STUDY: &str = r#"
name = "shared"
title = "Two hosts"
question = "What do two hosts on the same files cost?"
seed = 7
[target]
kind = "guest"
kernel = "6.1"
[volume]
medium = "ssd"
size = "512MiB"
[file_system]
kind = "ocfs2"
[driver.ocfs2]
mkfs = ["mkfs.ocfs2", "-F", "-x", "-q", "-L", "fsage", "-N", "2", "-b", "4096", "-C", "4096", "--cluster-stack=o2cb", "--cluster-name=fsage", "{device}"]
fsck = ["fsck.ocfs2", "-f", "-n", "{device}"]
mount = ["heartbeat=local", "noatime"]
before_mount = [["ocfs2_hb_ctl", "-S", "-d", "{device}", "ocfs2"]]
cluster = "o2cb"
package = "ocfs2-tools"
[[stage]]
kind = "cluster"
rw = "randwrite"
files = 4
size = "32MiB"
operations = 600
[matrix]
"target.hosts" = [1, 2]
"file_system.kind" = ["ext4", "ocfs2"]
[[exclude]]
"target.hosts" = 2
"file_system.kind" = "ext4"
"#;

/// Guests are counted: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether something came true in time.
fn waited(longest: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + longest;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    condition()
}

/// A study and its store.
struct Rig {
    lab: lab::Lab,
    cache: &'static Path,
}

impl Rig {
    fn new() -> Option<Self> {
        let cache = cache()?;
        for program in ["/usr/sbin/mkfs.ocfs2", "/usr/sbin/ocfs2_hb_ctl", "/usr/bin/fio"] {
            if !Path::new(program).exists() {
                skip(format!("guests on a cluster file system need {program}"));
                return None;
            }
        }
        if Command::new("ip").arg("-V").output().is_err() {
            skip("guests on a cluster file system need `ip`".to_owned());
            return None;
        }
        Some(Self { lab: lab::Lab::new(STUDY), cache })
    }

    /// With two hosts alone, and so one trial.
    fn of_two() -> Option<Self> {
        let study =
            STUDY.split("[matrix]").next()?.replace("kernel = \"6.1\"", "kernel = \"6.1\"\nhosts = 2");
        Some(Self { lab: lab::Lab::new(&study), ..Self::new()? })
    }

    fn command(&self, set: &[&str]) -> Command {
        self.lab.command_in_guests(self.cache, set)
    }

    fn run(&self, set: &[&str]) -> (Option<i32>, String) {
        lab::ended(self.command(set))
    }
}

fn cluster(trial: &TrialRecord) -> &ClusterRecord {
    assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
    let [StageRecord::Cluster(record)] = &*trial.stages else { panic!("one stage") };
    record
}

#[test]
fn two_guests_load_one_volume_at_the_same_time() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(rig) = Rig::new() else { return };
    let (code, stderr) = rig.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = rig.lab.trials();
    assert_eq!(trials.len(), 3);
    for trial in &trials {
        let record = cluster(trial);
        let hosts = usize::try_from(trial.factors["target.hosts"].as_u64().unwrap()).unwrap();
        assert_eq!((record.results.len(), &*trial.check), (2, "clean"));
        assert!(record.clocks_apart_ns < 60_000_000_000, "{}", record.clocks_apart_ns);
        let each = 600 / trial.factors["target.hosts"].as_u64().unwrap();
        for result in &record.results {
            assert_eq!(result.hosts.len(), hosts);
            assert!(result.hosts.iter().all(|host| host.operations == each && host.bytes == each * 4096));
            // Every write reaches the drive, whose clock passes.
            assert!(result.hosts.iter().all(|host| host.device.writes >= each), "{:?}", result.hosts);
            assert!(result.disk.elapsed_ns > 0 && result.disk.medium.starts_with("ssd"));
            let files = if result.set == FileSet::Same { 4 } else { 4 / u32::try_from(hosts).unwrap() };
            assert_eq!(result.point.files, files);
        }
        // What the disk's server did is part of the record, and so are fio's own reports.
        assert!(trial.commands[0].contains("fsage-disk up") && trial.commands[0].contains("--nbd on"));
        let file = &record.results[0].hosts[hosts - 1].file;
        assert!(rig.lab.store().join("trials").join(&trial.id).join(file).metadata().unwrap().len() > 0);
    }
    let together = trials.iter().find(|trial| trial.factors["target.hosts"] == 2).unwrap();
    let packets = |set: FileSet| -> u64 {
        let results = &cluster(together).results;
        let result = results.iter().find(|result| result.set == set).unwrap();
        result.hosts.iter().map(|host| host.sent.packets).sum()
    };
    // The positive control: by default a host that writes to a file has it for itself, so that it goes to and fro, and is read again.
    assert!(packets(FileSet::Same) > 4 * packets(FileSet::Disjoint), "{:?}", cluster(together));
    // Both wait for the same moment, each by its own clock.
    for result in &cluster(together).results {
        let moment = |host: &HostLoad| -> i128 {
            let path = rig.lab.store().join("trials").join(&together.id).join(&host.file);
            let text = std::fs::read_to_string(path).unwrap();
            let (_, rest) = text.split_once("--wait-until ").unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let apart = (moment(&result.hosts[0]) - moment(&result.hosts[1])).unsigned_abs();
        assert!(apart <= u128::from(cluster(together).clocks_apart_ns), "{apart}");
    }
    let ratio = together
        .metrics
        .iter()
        .find(|metric| metric.name == "same_over_disjoint.randwrite-4k-libaio-d1-j1-f2.drive_ns");
    assert!(ratio.unwrap().samples[0] > 1.1, "{ratio:?}");
    let names: Vec<&str> = together.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert!(names.contains(&"same.randwrite-4k-libaio-d1-j1-f4.host2_packets"), "{names:?}");
    rig.lab.nothing_left();
    // Every number is there for other programs.
    let output = rig.lab.fsage(&["export", "--format", "csv", &rig.lab.store().display().to_string()]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("same.randwrite-4k-libaio-d1-j1-f4.drive_ns"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_run_that_is_ended_or_killed_leaves_no_guest_and_no_disk() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(rig) = Rig::of_two() else { return };
    let two = ["stage.cluster.operations=8000"];
    let runtime = runtime_of(&rig);
    let command = || {
        let mut command = rig.command(&two);
        command.env("FSAGE_RUNTIME_DIR", &runtime).stderr(Stdio::null());
        command
    };
    // While the guests boot, and while they are at work.
    for (signal, at_work, code) in
        [(Signal::INT, true, Some(130)), (Signal::KILL, false, None), (Signal::KILL, true, None)]
    {
        let mut child = command().spawn().unwrap();
        let reached = || if at_work { is_measuring(&runtime) } else { machines(&runtime) >= 2 };
        let came = waited(Duration::from_secs(300), || reached() || child.try_wait().unwrap().is_some());
        assert!(came && child.try_wait().unwrap().is_none(), "{signal:?}: it ended, or no guest came so far");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        assert!(waited(Duration::from_secs(60), || machines(&runtime) == 0), "guests outlived {signal:?}");
        let mut clean = Command::new(env!("CARGO_BIN_EXE_fsage"));
        clean
            .arg("clean")
            .arg(rig.lab.store())
            .env("FSAGE_RUNTIME_DIR", &runtime)
            .env("FSAGE_AGENT", support::agent());
        let clean = clean.output().unwrap();
        assert!(clean.status.success(), "{}", String::from_utf8_lossy(&clean.stderr));
        rig.lab.nothing_left();
        let disks = std::fs::read_dir(runtime.join("volumes")).into_iter().flatten().count();
        assert_eq!((disks, processes_with(&runtime.display().to_string())), (0, 0), "{signal:?} left a disk");
        std::fs::remove_dir_all(rig.lab.store().join("trials")).unwrap();
    }
}

#[test]
fn a_guest_that_dies_ends_the_trial_with_its_name() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(rig) = Rig::of_two() else { return };
    let two = ["stage.cluster.operations=8000"];
    let runtime = runtime_of(&rig);
    for at_work in [true, false] {
        let mut command = rig.command(&two);
        let mut child = command.env("FSAGE_RUNTIME_DIR", &runtime).stderr(Stdio::piped()).spawn().unwrap();
        let second = || pids_with(&[&runtime.display().to_string(), "name=fsage-agent"]).first().copied();
        let reached = || second().is_some() && (!at_work || is_measuring(&runtime));
        let came = waited(Duration::from_secs(300), || reached() || child.try_wait().unwrap().is_some());
        assert!(came && child.try_wait().unwrap().is_none(), "it ended, or no guest came so far");
        let begun = Instant::now();
        kill_process(Pid::from_raw(second().unwrap()).unwrap(), Signal::KILL).unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(begun.elapsed() < Duration::from_secs(60), "it took {:?}", begun.elapsed());
        assert!(
            status.code().is_some_and(|code| code != 0) && stderr.contains("guest 2 ended"),
            "{status}: {stderr}"
        );
        rig.lab.nothing_left();
        std::fs::remove_dir_all(rig.lab.store().join("trials")).unwrap();
    }
}

/// Writes after which a point is at work: mkfs and the layout take far fewer, two points of 8,000 operations 16,000.
const AT_WORK: u64 = 4_000;

/// Whether a point of the trial that runs has begun: the drive's server, on this host, counts the writes.
fn is_measuring(runtime: &Path) -> bool {
    let disks = std::fs::read_dir(runtime.join("volumes")).into_iter().flatten().flatten();
    let stats = disks.filter_map(|entry| client::stat(&ServerDirectory::new(&entry.path())).ok());
    stats.into_iter().any(|stat| stat.disk.requests.write.requests >= AT_WORK)
}

/// A folder of leases in which guests are emulated from the start: one that dies is not taken for a fault of KVM.
fn runtime_of(rig: &Rig) -> PathBuf {
    let runtime = rig.lab.scratch.path().join("runtime");
    std::fs::create_dir_all(&runtime).unwrap();
    std::fs::write(runtime.join("no-kvm"), "").unwrap();
    runtime
}

/// Guests that share a disk served below this folder.
fn machines(runtime: &Path) -> usize {
    pids_with(&[&runtime.display().to_string(), "serial=fsage-disk"]).len()
}

fn processes_with(text: &str) -> usize {
    pids_with(&[text]).len()
}

/// Processes whose command lines have all of this.
fn pids_with(texts: &[&str]) -> Vec<i32> {
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        texts.iter().all(|text| line.contains(text))
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has).collect()
}
